//! Between any two formats a history either survives or is refused with what would be lost.
//!
//! Two histories are equal here if they have the same sessions (whatever these are called and in whichever
//! order they come), and in each the same transactions in the same order: outcome, operations, timestamps,
//! metadata. A read of the initial value is that, whatever the value is. Real time is the order of what
//! ended before what began, not the clock.
#![allow(clippy::unwrap_used)]

mod common;

use anomalist_format::{Format, WriteError};
use anomalist_history::{
    AtomKind, Builder, Draft, History, Interval, OpKind, Outcome, Stamps, Timestamp, Value,
};
use common::through;
use std::collections::BTreeSet;

/// A history that is easy to write down: sessions are numbers, keys and values what they look like.
struct Sketch(Builder);

impl Sketch {
    fn new(initial: Option<&str>) -> Sketch {
        let mut sketch = Sketch(Builder::new());
        let initial = initial.map(|text| sketch.value(text));
        sketch.0.set_initial_default(initial);
        sketch
    }

    fn value(&mut self, text: &str) -> Value {
        if let Ok(i) = text.parse() {
            self.0.int(i)
        } else if let Some(keyword) = text.strip_prefix(':') {
            self.0.atom(AtomKind::Keyword, keyword)
        } else if let Some(list) = text.strip_prefix("list:") {
            let elements: Vec<Value> = list.split_terminator(',').map(|e| self.value(e)).collect();
            self.0.list(&elements)
        } else {
            match text {
                "nil" => Value::NIL,
                "?" => Value::UNKNOWN,
                _ if text.starts_with(['[', '{']) => self.0.atom(AtomKind::Compound, text),
                "true" | "a/b" | "1.5" | "18446744073709551615" => self.0.atom(AtomKind::Token, text),
                _ => self.0.atom(AtomKind::Text, text),
            }
        }
    }

    /// `r x 1; w y 2; a l 3`
    fn txn(&mut self, session: i64, ops: &str) -> Draft {
        let session = self.0.int(session);
        let session = self.0.session(session);
        let draft = self.0.transaction(session);
        for op in ops.split_terminator("; ") {
            let [kind, key, value] = op.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
            let kind = match kind {
                "r" => OpKind::Read,
                "w" => OpKind::Write,
                _ => OpKind::Append,
            };
            let (key, value) = (self.value(key), self.value(value));
            let key = self.0.key(key);
            self.0.op(draft, kind, key, value);
        }
        draft
    }

    fn outcome(&mut self, session: i64, ops: &str, outcome: Outcome) -> Draft {
        let draft = self.txn(session, ops);
        self.0.set_outcome(draft, outcome);
        draft
    }

    fn stamped(&mut self, session: i64, ops: &str, start: i64, commit: i64) {
        let draft = self.txn(session, ops);
        let at = |physical| Timestamp { physical, logical: 1 };
        self.0.set_stamps(draft, Stamps { start: at(start), commit: at(commit) });
    }

    fn timed(&mut self, session: i64, ops: &str, outcome: Outcome, invoked: u64, completed: Option<u64>) {
        let draft = self.outcome(session, ops, outcome);
        self.0.set_interval(draft, Interval { invoked, completed });
    }

    fn done(self) -> History {
        self.0.finish().unwrap()
    }
}

fn sketch(initial: Option<&str>, fill: impl FnOnce(&mut Sketch)) -> History {
    let mut sketch = Sketch::new(initial);
    fill(&mut sketch);
    sketch.done()
}

fn histories() -> Vec<(&'static str, History)> {
    [of_values(), of_outcomes(), of_times()].into_iter().flatten().collect()
}

/// What keys and values can be.
fn of_values() -> Vec<(&'static str, History)> {
    vec![
        (
            "integers, no initial value",
            sketch(None, |s| {
                s.txn(3, "w 1 10; w 2 11");
                s.txn(5, "r 1 10; w 1 12");
                s.txn(3, "r 1 12; r 2 11");
            }),
        ),
        (
            "integers, initially 0",
            sketch(Some("0"), |s| {
                s.txn(0, "r 1 0; w 1 1");
                s.txn(1, "r 1 1; r 2 0");
            }),
        ),
        (
            "integers, initially nil",
            sketch(Some("nil"), |s| {
                s.txn(0, "r 1 nil; w 1 1; w 7 0");
                s.txn(1, "r 1 1; r 2 nil");
            }),
        ),
        (
            "large and negative numbers",
            sketch(None, |s| {
                s.txn(0, "w 9223372036854775807 9223372036854775807");
                s.txn(1, "r 9223372036854775807 9223372036854775807; w 2 -4");
            }),
        ),
        (
            "64 bits unsigned",
            sketch(None, |s| {
                s.txn(0, "w 1 18446744073709551615");
            }),
        ),
        (
            "nil, keywords, texts",
            sketch(Some("nil"), |s| {
                s.txn(0, "w :k red; w x nil; w y true; w z 1.5");
                s.txn(0, "r :k red; r x nil; w x a/b; w y :b");
            }),
        ),
        (
            "texts",
            sketch(Some("nil"), |s| {
                s.txn(0, "w x red; w y \"q\\\n");
                s.txn(1, "r x red; w x 7");
            }),
        ),
        (
            "composite values",
            sketch(Some("nil"), |s| {
                s.txn(0, "w x [1 2]; w y {\"a\" [1 nil]}");
                s.txn(1, "r x [1 2]; r y {\"a\" [1 nil]}; w z []");
                s.txn(1, "r z []");
            }),
        ),
        (
            "lists",
            sketch(None, |s| {
                s.txn(0, "r 1 list:; a 1 5; a 2 6");
                s.txn(1, "r 1 list:5; a 1 7");
                s.txn(0, "r 1 list:5,7; r 3 list:");
            }),
        ),
        (
            "lists and registers",
            sketch(Some("nil"), |s| {
                s.txn(0, "r l list:; a l 5; r x nil; w x 1");
                s.txn(1, "r l list:5; r x 1");
            }),
        ),
    ]
}

/// What can become of transactions and reads.
fn of_outcomes() -> Vec<(&'static str, History)> {
    use Outcome::{Aborted, Indeterminate};
    vec![
        (
            "aborted writes",
            sketch(Some("0"), |s| {
                s.txn(0, "w 1 1");
                s.outcome(1, "w 1 2", Aborted);
                s.txn(1, "r 1 1");
            }),
        ),
        (
            "aborted",
            sketch(Some("nil"), |s| {
                s.txn(0, "w 1 1");
                s.outcome(0, "w 1 2; r 2 9", Aborted);
                s.txn(0, "w 2 9");
            }),
        ),
        (
            "indeterminate",
            sketch(Some("nil"), |s| {
                s.txn(0, "w 1 1");
                s.outcome(0, "w 1 2; r 1 ?", Indeterminate);
                s.txn(0, "r 1 2");
            }),
        ),
        (
            "reads without a result",
            sketch(Some("nil"), |s| {
                s.txn(0, "w 1 1; r 2 ?");
            }),
        ),
        (
            "nil read before an abort",
            sketch(Some("nil"), |s| {
                s.txn(0, "w 1 1");
                s.outcome(0, "r 2 nil; w 2 1", Aborted);
            }),
        ),
    ]
}

/// Timestamps, intervals and what else is noted about transactions.
fn of_times() -> Vec<(&'static str, History)> {
    use Outcome::{Aborted, Committed, Indeterminate};
    vec![
        (
            "timestamps",
            sketch(Some("nil"), |s| {
                s.stamped(0, "w 1 1; r 2 nil", 10, 12);
                s.stamped(1, "r 1 1", 13, 13);
                s.stamped(0, "r 1 1; w 2 5", 14, 20);
            }),
        ),
        (
            "timestamps, lists",
            sketch(None, |s| {
                s.stamped(0, "a 1 1; r 2 list:", 10, 12);
                s.stamped(1, "r 1 list:1", -13, -13);
            }),
        ),
        (
            "intervals",
            sketch(Some("nil"), |s| {
                s.timed(0, "w 1 1", Committed, 10, Some(20));
                s.timed(1, "r 1 1", Committed, 15, Some(30));
                s.timed(0, "w 1 2", Indeterminate, 25, None);
                s.timed(2, "w 1 3", Aborted, 31, Some(40));
                s.timed(1, "r 1 2", Committed, 41, Some(50));
            }),
        ),
        (
            "an indeterminate transaction known to be over",
            sketch(Some("nil"), |s| {
                s.timed(0, "w 1 1", Indeterminate, 10, Some(20));
                s.timed(1, "r 1 1", Committed, 30, Some(40));
            }),
        ),
        (
            "metadata",
            sketch(Some("nil"), |s| {
                let draft = s.txn(0, "w 1 1");
                s.0.set_metadata(draft, "level", "serializable");
            }),
        ),
        (
            "initial values of single keys",
            sketch(Some("0"), |s| {
                let (key, value) = (s.value("2"), s.value("100"));
                let key = s.0.key(key);
                s.0.set_initial(key, value);
                s.txn(0, "r 1 0; r 2 100; w 2 5");
                s.txn(1, "r 2 5; w 1 7");
            }),
        ),
        (
            "empty transactions",
            sketch(None, |s| {
                s.txn(0, "");
                s.txn(0, "w 1 1");
                s.txn(1, "");
            }),
        ),
        (
            "a first transaction of zeros",
            sketch(None, |s| {
                s.txn(0, "w 1 0; w 2 0");
                s.txn(1, "r 1 0");
            }),
        ),
    ]
}

/// What two equal histories have in common.
#[derive(PartialEq, Debug)]
struct Model {
    sessions: Vec<Vec<String>>,
    /// Which transactions ended before which began; `None` without real time.
    order: Option<BTreeSet<(String, String)>>,
}

fn model(h: &History) -> Model {
    let text = |t| {
        let mut text = format!("{:?}", h.outcome(t));
        for (_, op) in h.ops(t) {
            let initial = op.kind == OpKind::Read && h.initial().of(op.key) == Some(op.value);
            // A text is not the keyword or token that looks like it.
            let show = |v: Value| match v.view() {
                anomalist_history::View::Atom(id) => format!("{:?}", h.atom(id)),
                _ => h.show(v).to_string(),
            };
            let value = if initial { "initially".to_owned() } else { show(op.value) };
            text += &format!(" {:?} {}={value}", op.kind, show(h.key_label(op.key)));
        }
        if let Some(stamps) = h.stamps() {
            text += &format!(" {:?}", stamps[t.index()]);
        }
        text + &format!(" {:?}", h.metadata().get(&t).cloned().unwrap_or_default())
    };
    let mut sessions: Vec<Vec<String>> =
        h.sessions().map(|s| h.session_txns(s).map(text).collect()).collect();
    sessions.sort();
    let order = h.intervals().map(|intervals| {
        let ended = h.txns().filter_map(|t| Some((t, intervals[t.index()].completed?)));
        let before = |end: u64| h.txns().filter(move |t| end < intervals[t.index()].invoked);
        ended.flat_map(|(t, end)| before(end).map(move |u| (text(t), text(u)))).collect()
    });
    Model { sessions, order }
}

#[test]
fn every_pair_of_formats() {
    let (mut table, mut conversions, mut refusals) = (String::new(), 0, 0);
    for (name, history) in histories() {
        table += &format!("{name}\n");
        for &first in Format::ALL {
            let loaded = match through(first, &[&history], false) {
                Ok(loaded) => loaded.history,
                Err(WriteError::Loss { lost, .. }) => {
                    assert!(!lost.is_empty());
                    table += &format!("  {:<10} cannot express {}\n", first.name(), lost.join(", "));
                    continue;
                }
                Err(other) => panic!("{name} to {}: {other}", first.name()),
            };
            table += &format!("  {:<10} ok\n", first.name());
            assert_eq!(model(&loaded), model(&history), "{name} to {}", first.name());
            for &second in Format::ALL {
                match through(second, &[&loaded], false) {
                    Ok(again) => {
                        let what = format!("{name} from {} to {}", first.name(), second.name());
                        assert_eq!(model(&again.history), model(&history), "{what}");
                        conversions += 1;
                    }
                    Err(WriteError::Loss { lost, .. }) => {
                        assert!(!lost.is_empty());
                        refusals += 1;
                    }
                    Err(other) => panic!("{name}: {other}"),
                }
            }
        }
    }
    assert!(conversions > 300 && refusals > 300, "{conversions} conversions, {refusals} refusals");
    insta::assert_snapshot!(table);
}

/// Even where renaming is allowed, two values do not become one.
#[test]
fn given_numbers_are_nobody_elses() {
    let first_given = (1i64 << 52).to_string();
    for values in [["0", first_given.as_str()], [first_given.as_str(), "0"]] {
        let history = sketch(Some("nil"), |s| {
            for value in values {
                s.txn(0, &format!("w 1 {value}"));
            }
        });
        let Err(WriteError::Loss { .. }) = through(Format::Plume, &[&history], false) else {
            panic!("0 is the initial value there");
        };
        let written = through(Format::Plume, &[&history], true).unwrap().history;
        let distinct: BTreeSet<Value> = written.values().iter().copied().collect();
        assert_eq!(distinct.len(), 2, "{values:?}");
    }
}
