//! What was written is read back: the same sessions, transactions, operations, outcomes and initial values.
#![allow(clippy::unwrap_used)]

mod common;

use anomalist_format::{Format, WriteError};
use anomalist_history::{AtomKind, Builder, History, Interval, OpKind, Outcome, Stamps, Timestamp, Value};
use common::{Allowed, FORMATS, Random, model, random_history, through};

fn allowed(format: Format) -> Allowed {
    Allowed {
        aborted: matches!(format, Format::Dbcop | Format::Cobra),
        empty: matches!(format, Format::Dbcop | Format::Cobra | Format::Viper),
        negative: matches!(format, Format::Cobra | Format::Viper),
        initial: match format {
            Format::Awdit => None,
            Format::Plume | Format::Dbcop => Value::int(0),
            _ => Some(Value::NIL),
        },
    }
}

#[test]
fn random_histories_survive() {
    for format in FORMATS {
        for seed in 0..300 {
            let history = random_history(&mut Random::new(seed), &allowed(format));
            let loaded = through(format, &[&history], false).unwrap();
            assert_eq!(model(&loaded.history), model(&history), "{} seed {seed}", format.name());
            assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        }
    }
}

#[test]
fn plume_keeps_the_order_and_names_of_transactions() {
    for seed in 0..100 {
        let history = random_history(&mut Random::new(seed), &allowed(Format::Plume));
        let once = through(Format::Plume, &[&history], false).unwrap().history;
        let twice = through(Format::Plume, &[&once], false).unwrap().history;
        let names = |h: &History| {
            let mut txns: Vec<_> =
                h.txns().map(|t| (h.position(t), h.session_of(t), h.txn_name(t))).collect();
            txns.sort();
            txns
        };
        assert_eq!(names(&once), names(&twice));
        let order = |h: &History| {
            let mut txns: Vec<_> = h.txns().map(|t| (h.position(t), h.session_of(t))).collect();
            txns.sort();
            txns
        };
        assert_eq!(order(&history), order(&once));
    }
}

#[test]
fn sessions_continue_from_batch_to_batch() {
    let batch = |sessions: &[i64], value: i64| {
        let mut b = Builder::new();
        let initial = b.int(0);
        b.set_initial_default(Some(initial));
        for &s in sessions {
            let label = b.int(s);
            let session = b.session(label);
            let draft = b.transaction(session);
            let (key, value) = (b.int(s), b.int(value));
            let key = b.key(key);
            b.op(draft, OpKind::Write, key, value);
        }
        b.finish().unwrap()
    };
    let (first, second) = (batch(&[3, 5, 3], 1), batch(&[5, 9, 3], 2));
    for format in FORMATS {
        let h = through(format, &[&first, &second], true).unwrap().history;
        let shown: Vec<Vec<String>> = h
            .sessions()
            .map(|s| {
                h.session_txns(s)
                    .flat_map(|t| {
                        h.ops(t)
                            .map(|(_, op)| format!("{}={}", h.show_key(op.key), h.show(op.value)))
                            .collect::<Vec<_>>()
                    })
                    .collect()
            })
            .collect();
        assert_eq!(shown, [vec!["3=1", "3=1", "3=2"], vec!["5=1", "5=2"], vec!["9=2"]], "{}", format.name());
    }
}

/// A history with one of everything that some format cannot say.
fn everything() -> History {
    let mut b = Builder::new();
    b.set_initial_default(Some(Value::NIL));
    let name = b.atom(AtomKind::Text, "alice");
    let session = b.session(name);
    let (x, one) = (b.key(name), b.int(1));
    let minus = b.int(-7);
    let list = b.list(&[one]);
    let text = b.atom(AtomKind::Keyword, "red");
    let lists = b.int(8);
    let lists = b.key(lists);
    for n in 0..5 {
        let draft = b.transaction(session);
        match n {
            0 => b.op(draft, OpKind::Write, x, one),
            1 => {
                b.op(draft, OpKind::Write, x, minus);
                b.op(draft, OpKind::Write, x, text);
                b.set_outcome(draft, Outcome::Aborted);
            }
            2 => {
                b.op(draft, OpKind::Read, x, Value::UNKNOWN);
                b.set_outcome(draft, Outcome::Indeterminate);
            }
            3 => {
                b.op(draft, OpKind::Append, lists, one);
                b.op(draft, OpKind::Read, lists, list);
                b.op(draft, OpKind::Read, x, Value::NIL);
                b.op(draft, OpKind::Write, x, Value::NIL);
            }
            _ => b.set_metadata(draft, "level", "serializable"),
        }
        let stamp = Timestamp { physical: n, logical: 0 };
        b.set_stamps(draft, Stamps { start: stamp, commit: stamp });
        b.set_interval(draft, Interval { invoked: n as u64, completed: None });
    }
    b.finish().unwrap()
}

#[test]
fn what_would_be_lost_is_named() {
    let refusal = |format| match through(format, &[&everything()], false) {
        Err(error @ WriteError::Loss { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refusal(Format::Plume),
        "plume cannot express 1 aborted transaction, 1 transaction of unknown outcome, 1 empty transaction, \
         2 list operations, 1 read without a result, 1 key that is not a natural number, \
         2 values that are not natural numbers, 2 operations on a different initial value, 5 pairs of timestamps, \
         5 real-time intervals, 1 transaction with metadata"
    );
    assert_eq!(
        refusal(Format::Cobra),
        "cobra cannot express 1 transaction of unknown outcome, 2 list operations, 1 read without a result, \
         1 key that is not a 64-bit number, 1 value that is not a 64-bit number, 1 operation on a different initial value, \
         5 pairs of timestamps, 5 real-time intervals, 1 transaction with metadata"
    );
    for format in FORMATS {
        refusal(format);
    }
}

#[test]
fn lossy_writes_what_it_can() {
    for format in FORMATS {
        let loaded = through(format, &[&everything()], true).unwrap();
        assert!(loaded.history.txn_count() > 0 && loaded.history.stamps().is_none());
    }
    let h = through(Format::Plume, &[&everything()], true).unwrap().history;
    // alice got a number, the aborted writes are transactions of their own, nil is 0.
    assert_eq!(h.keys().map(|k| h.show_key(k).to_string()).collect::<Vec<_>>(), ["4503599627370496"]);
    let aborted = h.txns().filter(|&t| h.outcome(t) == Outcome::Aborted).count();
    assert_eq!((h.txn_count(), aborted), (4, 2));
}

#[test]
fn zero_is_not_nil() {
    // Initially nil, and a transaction wrote 0, which Plume would take for the initial value.
    let mut b = Builder::new();
    b.set_initial_default(Some(Value::NIL));
    let (one, zero) = (b.int(1), b.int(0));
    let (session, key) = (b.session(one), b.key(one));
    let writer = b.transaction(session);
    b.op(writer, OpKind::Write, key, zero);
    let reader = b.transaction(session);
    b.op(reader, OpKind::Read, key, zero);
    b.op(reader, OpKind::Read, key, Value::NIL);
    let history = b.finish().unwrap();
    assert!(through(Format::Plume, &[&history], false).is_err());
    let h = through(Format::Plume, &[&history], true).unwrap().history;
    let values: Vec<String> = h.values().iter().map(|&v| h.show(v).to_string()).collect();
    assert_eq!(values, ["4503599627370496", "4503599627370496", "0"]);
}

#[test]
fn a_first_transaction_of_zeros_would_vanish() {
    let awdit = common::good(Format::Awdit, b"w 1 0\n=\nw 1 5\n-\nr 1 5\n").history;
    for format in [Format::Plume, Format::Dbcop] {
        let error = through(format, &[&awdit], false).unwrap_err().to_string();
        let expected = "cannot express 1 transaction that would be read as the initial state";
        assert_eq!(error, format!("{} {expected}", format.name()));
    }
    assert!(through(Format::Cobra, &[&awdit], false).is_ok());
}
