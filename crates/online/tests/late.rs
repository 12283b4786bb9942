//! Conclusions that a later arrival may undo: they are doubted or taken back, never final.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_history::{OpKind, Outcome, Stamps, Timestamp};
use anomalist_online::{
    Batch, Cell, Checker, Event, Head, Key128, MemoryStore, Options, Origin, Reported, Restored,
};
use anomalist_timestamp::{Axiom, Mode, Rule, Tie};

const SERIALIZABLE: Options = Options {
    rule: Rule { mode: Mode::Ser, tie: Tie::Inclusive },
    settle_ms: 0,
    virtual_time: false,
    ties: true,
    gc: anomalist_online::Gc::None,
    provisional: false,
    checkpoints: true,
};
const X: Key128 = Key128::int(1);
const Y: Key128 = Key128::int(2);

/// Session, commit timestamp, outcome, and one operation.
type Row = (i64, i64, Outcome, OpKind, Key128, i64);

fn batch(rows: &[Row]) -> Batch {
    let mut batch = Batch::default();
    for &(session, commit, outcome, kind, key, value) in rows {
        let at = Timestamp { physical: commit, logical: 0 };
        batch.op(kind, key, Cell::One(Key128::int(value)));
        batch.transaction(Head {
            session: Key128::int(session),
            id: None,
            outcome,
            stamps: Stamps { start: at, commit: at },
            number: None,
            set_id: None,
            set: None,
            origin: Origin::default(),
        });
    }
    batch
}

/// If the second transaction counts, it breaks SESSION. The third read what it wrote.
const BREAKS_ITS_SESSION: [Row; 3] = [
    (1, 30, Outcome::Committed, OpKind::Write, Y, 5),
    (1, 20, Outcome::Indeterminate, OpKind::Write, X, 8),
    (2, 40, Outcome::Committed, OpKind::Read, X, 8),
];

fn accept(checker: &mut Checker<MemoryStore>, rows: &[Row], log: &mut Vec<Reported>) {
    let mut events = Vec::new();
    checker.accept(&batch(rows), 1, &mut events).unwrap();
    log.extend(events.iter().filter_map(Event::reported));
}

#[test]
fn any_version_that_the_read_may_see_is_a_doubt() {
    // What a read returns that sees a written value with an append after it is not defined.
    for (kind, value) in [(OpKind::Append, 2), (OpKind::Write, 8)] {
        for outcome in [Outcome::Committed, Outcome::Indeterminate] {
            let (mut checker, mut log) = (Checker::new(SERIALIZABLE, MemoryStore::default()), Vec::new());
            accept(&mut checker, &BREAKS_ITS_SESSION, &mut log);
            assert_eq!(checker.stats().standing(Axiom::Session), 1);
            // What the read does not see, or aborted, changes nothing.
            accept(&mut checker, &[(3, 41, outcome, kind, X, value)], &mut log);
            accept(&mut checker, &[(3, 42, Outcome::Aborted, kind, X, value)], &mut log);
            accept(&mut checker, &[(3, 43, outcome, kind, Y, value)], &mut log);
            assert_eq!(checker.stats().doubts, 0);
            accept(&mut checker, &[(4, 35, outcome, kind, X, value)], &mut log);
            assert_eq!(checker.stats().doubts, 1);
        }
    }
}

#[test]
fn what_a_restart_does_not_conclude_again_is_taken_back() {
    let (mut checker, mut log) = (Checker::new(SERIALIZABLE, MemoryStore::default()), Vec::new());
    checker.checkpoint(b"").unwrap();
    accept(&mut checker, &BREAKS_ITS_SESSION, &mut log);
    let [(violation, true)] = log[..] else { panic!("{log:?}") };
    assert_eq!(violation.axiom, Axiom::Session);
    let store = checker.store().after_crash();
    let Restored::Checker(mut checker, _) = Checker::restore(SERIALIZABLE, store, log.clone()).unwrap()
    else {
        panic!("there is a checkpoint")
    };
    // All at once, and with another writer of the value: either may have committed.
    let other = (3, 35, Outcome::Indeterminate, OpKind::Write, X, 8);
    let [first, second, third] = BREAKS_ITS_SESSION;
    accept(&mut checker, &[first, second, other, third], &mut log);
    assert_eq!((checker.stats().standing(Axiom::Session), checker.unconfirmed(Axiom::Session)), (1, 1));
    let mut events = Vec::new();
    checker.finish(&mut events).unwrap();
    let retracted: Vec<Reported> = events.iter().filter_map(Event::reported).collect();
    assert_eq!(retracted, [(violation, false)]);
    assert_eq!((checker.stats().standing_total(), checker.open()), (0, 1));
}

#[test]
fn what_does_not_arrive_again_stays_reported() {
    let (mut checker, mut log) = (Checker::new(SERIALIZABLE, MemoryStore::default()), Vec::new());
    checker.checkpoint(b"").unwrap();
    accept(&mut checker, &BREAKS_ITS_SESSION, &mut log);
    let store = checker.store().after_crash();
    let Restored::Checker(mut checker, _) = Checker::restore(SERIALIZABLE, store, log).unwrap() else {
        panic!("there is a checkpoint")
    };
    let mut events = Vec::new();
    checker.finish(&mut events).unwrap();
    assert_eq!((events.len(), checker.stats().standing_total()), (0, 1));
}
