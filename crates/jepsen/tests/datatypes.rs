//! Sets, counters and banks as transactions: small recordings by hand, and random ones against all serial
//! orders.
//!
//! `ANOMALIST_ORACLE_CASES` sets the number of recordings, `ANOMALIST_SEED` the seed; a failure prints the
//! recording.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request};
use anomalist_history::{Datum, Event, EventKind, Events, Operation, Process};
use anomalist_jepsen::datatypes::{self, Datatype};
use anomalist_level::{Judgement, Level, Verdict};
use anomalist_testkit::number;

fn event(process: i64, kind: EventKind, f: &str, value: Datum) -> Event {
    let process = Process::Client(process);
    Event { kind, process, f: f.into(), value, index: None, time: None, line: 1 }
}

/// A recording such as `0 invoke add 1; 0 ok add 1; 1 invoke read; 1 ok read [1 2]`.
fn events(text: &str) -> Events {
    let int = |word: &str| Datum::Int(word.parse().unwrap());
    let value = |word: &str| match word {
        "" => Datum::Nil,
        list if list.starts_with('[') => {
            Datum::List(list.trim_matches(['[', ']']).split_whitespace().map(int).collect())
        }
        word => int(word),
    };
    let lines = text.split(';').map(str::trim).filter(|line| !line.is_empty());
    let parsed = lines.map(|line| {
        let parts: Vec<&str> = line.splitn(4, ' ').collect();
        let kind = EventKind::from_name(parts[1].as_bytes()).unwrap();
        event(parts[0].parse().unwrap(), kind, parts[2], value(parts.get(3).copied().unwrap_or("")))
    });
    Events::new(parsed.collect())
}

fn judge(datatype: Datatype, events: &Events) -> Judgement {
    let lowered = datatypes::lower(datatype, events).unwrap();
    datatypes::check(&lowered, &Request::default(), &Budget::unlimited())
}

fn shown(events: &Events) -> String {
    let line = |(i, e): (usize, &Event)| format!("{}\n", e.datum(i));
    events.iter().enumerate().map(line).collect()
}

fn verdict(judgement: &Judgement, level: Level) -> &'static str {
    judgement.verdict(level).unwrap().name()
}

fn codes(judgement: &Judgement) -> Vec<&'static str> {
    judgement.anomalies.iter().map(|a| a.kind.code()).collect()
}

#[test]
fn what_a_recording_is_shows_in_its_names() {
    let is = |text: &str| datatypes::recognise(&events(text));
    assert_eq!(is("0 ok add 1; 0 ok read [1]"), Some(Datatype::Set));
    assert_eq!(is("0 ok add 1; 0 ok read 1"), Some(Datatype::Counter));
    assert_eq!(is("0 ok transfer 1; 0 ok read [5 5]"), Some(Datatype::Bank));
    assert_eq!(is("0 ok write 1; 0 ok read 1"), Some(Datatype::Register));
    assert!(datatypes::is_foreign(&events("0 ok add 1")));
    assert!(datatypes::is_foreign(&events("0 ok write 1")));
    let mop = |name: &str| Datum::List(vec![Datum::keyword(name), Datum::Int(1), Datum::Int(2)]);
    let txn = |mops: Vec<Datum>| Events::new(vec![event(0, EventKind::Ok, "txn", Datum::List(mops))]);
    assert_eq!(datatypes::recognise(&txn(vec![mop("r"), mop("rp")])), Some(Datatype::Predicates));
    assert_eq!(datatypes::recognise(&txn(vec![mop("r"), mop("add")])), Some(Datatype::Set));
    assert_eq!(datatypes::recognise(&txn(vec![mop("r"), mop("append")])), None);
    assert_eq!(datatypes::recognise(&txn(vec![mop("r"), mop("w")])), None);
}

#[test]
fn sets() {
    let adds = "0 invoke add 1; 0 ok add 1; 1 invoke add 2; 1 ok add 2; ";
    let set = |text: &str| judge(Datatype::Set, &events(&format!("{adds}{text}")));
    let fine = set("2 invoke read; 2 ok read [1 2]");
    assert_eq!(verdict(&fine, Level::StrictSerializable), "holds");
    // Who saw the second and not the first has them in the other order: serializable, not in real time.
    let stale = set("2 invoke read; 2 ok read [2]");
    assert_eq!(verdict(&stale, Level::Serializable), "holds");
    assert_eq!(verdict(&stale, Level::StrictSerializable), "violated");
    let fork = set("2 invoke read; 2 ok read [2]; 3 invoke read; 3 ok read [1]");
    assert_eq!(verdict(&fork, Level::SnapshotIsolation), "violated");
    assert_eq!(verdict(&fork, Level::Causal), "holds");
    assert!(codes(&fork).contains(&"G-nonadjacent-item"), "{:?}", codes(&fork));
    let garbage = set("2 invoke read; 2 ok read [1 2 7]");
    assert_eq!(verdict(&garbage, Level::ReadCommitted), "violated");
    let aborted = judge(Datatype::Set, &events("0 invoke add 1; 0 fail add 1; 1 invoke read; 1 ok read [1]"));
    assert_eq!(verdict(&aborted, Level::AdyaReadCommitted), "violated");
}

#[test]
fn counters() {
    let counter = |text: &str| judge(Datatype::Counter, &events(text));
    let adds = "0 invoke add 1; 0 ok add 1; 1 invoke add 1; 1 ok add 1; ";
    let fine = counter(&format!("{adds} 2 invoke read; 2 ok read 2"));
    assert_eq!(verdict(&fine, Level::StrictSerializable), "unknown");
    // One of the two is missing, whichever.
    let missed = counter(&format!("{adds} 2 invoke read; 2 ok read 1"));
    assert_eq!(verdict(&missed, Level::StrictSerializable), "violated");
    assert_eq!(verdict(&missed, Level::Serializable), "unknown");
    assert!(codes(&missed).contains(&"G-single-item-realtime"), "{:?}", codes(&missed));
    // A session that sees the counter shrink.
    let shrinks =
        counter("0 invoke add 1; 1 invoke add 1; 2 invoke read; 2 ok read 2; 2 invoke read; 2 ok read 1");
    assert_eq!(verdict(&shrinks, Level::StrongSessionSerializable), "violated");
    assert_eq!(verdict(&shrinks, Level::Serializable), "unknown");
    let garbage = counter(&format!("{adds} 2 invoke read; 2 ok read 9"));
    assert_eq!(verdict(&garbage, Level::Serializable), "violated");
    // Going down is fine where something is subtracted.
    let down = counter(
        "0 invoke add 5; 0 ok add 5; 2 invoke read; 2 ok read 5; 0 invoke add -5; 0 ok add -5; 2 invoke read; 2 ok read 0",
    );
    assert_eq!(verdict(&down, Level::StrictSerializable), "unknown");
}

#[test]
fn banks() {
    let torn = judge(
        Datatype::Bank,
        &events("0 ok read [10 10]; 1 ok transfer 1; 0 ok read [9 10]; 0 ok read [9 11]"),
    );
    assert_eq!(verdict(&torn, Level::SnapshotIsolation), "violated");
    assert_eq!(verdict(&torn, Level::RepeatableRead), "violated");
    // A lost update would explain it too, and these allow that.
    assert_eq!(verdict(&torn, Level::ReadAtomic), "unknown");
    assert_eq!(verdict(&torn, Level::MonotonicReads), "unknown");
    assert_eq!(verdict(&torn, Level::Prefix), "unknown");
    assert_eq!(codes(&torn), ["G-single-item"]);
    let fine = judge(Datatype::Bank, &events("0 ok read [10 10]; 1 ok transfer 1; 0 ok read [9 11]"));
    assert_eq!(verdict(&fine, Level::Serializable), "unknown");
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Bound {
    None,
    Session,
    RealTime,
}

/// What an operation adds to what was added before, if anything; none if it is impossible there.
type Step<'a> = dyn Fn(&Operation, &[i64]) -> Option<Option<i64>> + 'a;

/// True if some serial order explains every read: all ok operations, some of those without an answer.
fn serial(events: &Events, bound: Bound, explains: &dyn Fn(&Datum, &[i64]) -> bool) -> bool {
    let ops: Vec<Operation> = events.operations().into_iter().filter(|op| !op.failed()).collect();
    let process = |op: &Operation| events.get(op.shown()).process;
    let before = |a: &Operation, b: &Operation| match bound {
        Bound::None => false,
        Bound::Session => a.is_ok() && process(a) == process(b) && a.began < b.began,
        Bound::RealTime => a.ended().is_some_and(|end| end < b.began),
    };
    fn extend(
        ops: &[Operation],
        taken: &mut Vec<usize>,
        added: &mut Vec<i64>,
        before: &dyn Fn(&Operation, &Operation) -> bool,
        step: &Step<'_>,
    ) -> bool {
        if (0..ops.len()).all(|i| taken.contains(&i) || !ops[i].is_ok()) {
            return true;
        }
        for next in (0..ops.len()).filter(|i| !taken.contains(i)).collect::<Vec<_>>() {
            // A transaction that was left out and must come before has lost its turn.
            let late =
                (0..ops.len()).any(|i| ops[i].is_ok() && !taken.contains(&i) && before(&ops[i], &ops[next]));
            let Some(effect) = step(&ops[next], added) else { continue };
            if late {
                continue;
            }
            taken.push(next);
            added.extend(effect);
            if extend(ops, taken, added, before, step) {
                return true;
            }
            taken.pop();
            if effect.is_some() {
                added.pop();
            }
        }
        false
    }
    let step = |op: &Operation, added: &[i64]| match events.f(op) {
        "add" => Some(events.argument(op).as_int()),
        _ if !op.is_ok() => None,
        _ => explains(events.result(op), added).then_some(None),
    };
    extend(&ops, &mut Vec::new(), &mut Vec::new(), &before, &step)
}

/// Operations of a few processes on a real set or counter, which some reads see in an older or newer state.
fn random(rng: &mut fastrand::Rng, set: bool) -> Events {
    let (mut list, mut open): (Vec<Event>, Vec<Option<Option<i64>>>) = (Vec::new(), vec![None; 3]);
    let mut states: Vec<Vec<i64>> = vec![Vec::new()];
    let (mut next, odd) = (0, rng.u8(..100));
    // Jepsen gives a client a new number when an operation of the old one may still be under way.
    let mut retired = [0; 3];
    while list.len() < 12 {
        let slot = rng.usize(..3);
        let p = slot as i64 + 3 * retired[slot];
        match open[slot].take() {
            Some(Some(n)) => {
                let kind =
                    *rng.choice(&[EventKind::Ok, EventKind::Ok, EventKind::Info, EventKind::Fail]).unwrap();
                if kind == EventKind::Ok || (kind == EventKind::Info && rng.bool()) {
                    let mut state = states.last().unwrap().clone();
                    state.push(n);
                    states.push(state);
                }
                retired[slot] += i64::from(kind == EventKind::Info);
                list.push(event(p, kind, "add", Datum::Int(n)));
            }
            Some(None) => {
                let mut state = states.last().unwrap().clone();
                if rng.u8(..100) < odd {
                    state = rng.choice(&states).unwrap().clone();
                }
                if rng.u8(..100) < odd / 2 && !state.is_empty() {
                    state.remove(rng.usize(..state.len()));
                }
                let value = match set {
                    true => Datum::List(state.iter().map(|&e| Datum::Int(e)).collect()),
                    false => Datum::Int(state.iter().sum()),
                };
                list.push(event(p, EventKind::Ok, "read", value));
            }
            None => {
                next += 1;
                let n = if set { next } else { rng.i64(1..4) };
                let add = rng.u8(..5) < 2;
                open[slot] = Some(add.then_some(n));
                let (f, value) = if add { ("add", Datum::Int(n)) } else { ("read", Datum::Nil) };
                list.push(event(p, EventKind::Invoke, f, value));
            }
        }
    }
    Events::new(list)
}

const LEVELS: [(Level, Bound); 3] = [
    (Level::Serializable, Bound::None),
    (Level::StrongSessionSerializable, Bound::Session),
    (Level::StrictSerializable, Bound::RealTime),
];

#[test]
fn sets_equal_all_serial_orders() {
    let (cases, seed) = (number("ANOMALIST_ORACLE_CASES", 5_000), number("ANOMALIST_SEED", 1));
    let mut rng = fastrand::Rng::with_seed(seed);
    let same = |read: &Datum, added: &[i64]| {
        let read = read.as_list().unwrap();
        read.len() == added.len() && read.iter().all(|e| added.contains(&e.as_int().unwrap()))
    };
    let mut answers = [0u64; 2];
    for case in 0..cases {
        let events = random(&mut rng, true);
        let judgement = judge(Datatype::Set, &events);
        for (level, bound) in LEVELS {
            // Real time contains the order of each session.
            let expected = serial(&events, bound, &same);
            let said = verdict(&judgement, level);
            let right = if expected { "holds" } else { "violated" };
            assert_eq!(said, right, "seed {seed}, case {case}, {level}: {}", shown(&events));
            answers[usize::from(expected)] += 1;
        }
    }
    assert!(answers.iter().all(|&n| n > cases / 4), "the recordings are all alike: {answers:?}");
}

#[test]
fn what_counters_violate_no_serial_order_explains() {
    let (cases, seed) = (number("ANOMALIST_ORACLE_CASES", 5_000), number("ANOMALIST_SEED", 1));
    let mut rng = fastrand::Rng::with_seed(seed);
    let same = |read: &Datum, added: &[i64]| read.as_int() == Some(added.iter().sum());
    let (mut wrong, mut found) = (0u64, 0u64);
    for case in 0..cases {
        let events = random(&mut rng, false);
        let judgement = judge(Datatype::Counter, &events);
        for (level, bound) in LEVELS {
            let expected = serial(&events, bound, &same);
            wrong += u64::from(!expected);
            match judgement.verdict(level).unwrap() {
                Verdict::Violated => {
                    assert!(
                        !expected,
                        "seed {seed}, case {case}, {level}: {}\n{:#?}",
                        shown(&events),
                        judgement.anomalies
                    );
                    found += 1;
                }
                Verdict::Holds => panic!("{level} is proven: {}", shown(&events)),
                Verdict::Unknown(_) => {}
            }
        }
    }
    assert!(found * 10 > wrong * 6, "{found} of {wrong} violations found");
}
