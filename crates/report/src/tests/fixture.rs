//! Small histories in one line: `||` between sessions, `;` between transactions, `!abort` at the end of
//! one; `r(x,1)`, `w(x,1)`, `a(x,1)`, `r(x,[1 2])`. Keys and sessions are named, 0 is the initial value.

use crate::{HistoryFacts, Subject, Timing};
use anomalist_check::{Budget, Request, check};
use anomalist_history::{AtomKind, Builder, History, Indexed, Interval, OpKind, Outcome, Value};
use anomalist_level::{Anomaly, AnomalyKind, Judgement, Level};

/// A checked history.
pub struct Checked {
    pub history: History,
    pub facts: HistoryFacts,
    pub judgement: Judgement,
    pub required: Vec<Level>,
}

impl Checked {
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            history: &self.history,
            facts: &self.facts,
            judgement: &self.judgement,
            timing: Some(Timing { load_ms: 12.1, check_ms: 3.4 }),
            required: &self.required,
            declared: false,
            stopped: false,
        }
    }

    pub fn requiring(mut self, levels: &[Level]) -> Checked {
        self.required = levels.to_vec();
        self
    }

    pub fn anomaly(&self, kind: AnomalyKind) -> &Anomaly {
        self.judgement.anomalies.iter().find(|a| a.kind == kind).unwrap_or_else(|| panic!("no {kind}"))
    }
}

pub fn checked(text: &str) -> Checked {
    judged(history(text))
}

pub fn judged(history: History) -> Checked {
    let indexed = Indexed::new(&history, 1.try_into().unwrap());
    let judgement = check(&indexed, &Request::default(), &Budget::unlimited());
    let facts = HistoryFacts::of(&history, "h.txt", "plume");
    Checked { history, facts, judgement, required: Vec::new() }
}

/// The table's own example of an anomaly, checked.
pub fn example(kind: AnomalyKind) -> Checked {
    checked(kind.info().example.unwrap())
}

pub fn history(text: &str) -> History {
    build(text, false)
}

/// The same with real time: transactions of different sessions overlap as far as the order of sessions lets
/// them.
pub fn timed_history(text: &str) -> History {
    build(text, true)
}

fn build(text: &str, timed: bool) -> History {
    const WHOLE: u64 = 1_000_000;
    let mut b = Builder::new();
    let zero = b.int(0);
    b.set_initial_default(Some(zero));
    let mut line = 0;
    for (s, session) in text.split("||").enumerate() {
        let label = b.int(s as i64 + 1);
        let session_id = b.session(label);
        let part = WHOLE / session.split(';').count() as u64;
        for (at, txn) in (0..).zip(session.split(';')) {
            let t = b.transaction(session_id);
            if timed {
                b.set_interval(t, Interval { invoked: at * part, completed: Some((at + 1) * part) });
            }
            // As in Plume's text: a line per operation.
            b.set_line(t, line + 1);
            line += txn.matches('(').count().max(1) as u32;
            let (ops, aborts) = match txn.trim().strip_suffix("!abort") {
                Some(ops) => (ops, true),
                None => (txn, false),
            };
            if aborts {
                b.set_outcome(t, Outcome::Aborted);
            }
            for op in ops.split(')').map(str::trim).filter(|op| !op.is_empty()) {
                let (kind, rest) = op.split_once('(').unwrap();
                let (key, v) = rest.split_once(',').unwrap();
                let kind = match kind {
                    "r" => OpKind::Read,
                    "w" => OpKind::Write,
                    _ => OpKind::Append,
                };
                let key = b.atom(AtomKind::Token, key);
                let key = b.key(key);
                let v = value(&mut b, v);
                b.op(t, kind, key, v);
            }
        }
    }
    b.finish().unwrap()
}

fn value(b: &mut Builder, text: &str) -> Value {
    match text.strip_prefix('[') {
        Some(list) => {
            let elements: Vec<Value> =
                list.trim_end_matches(']').split_whitespace().map(|e| value(b, e)).collect();
            b.list(&elements)
        }
        None => match text.parse() {
            Ok(int) => b.int(int),
            Err(_) => b.atom(AtomKind::Text, text),
        },
    }
}
