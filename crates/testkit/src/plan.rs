//! A history while a generator still changes it.

use anomalist_history::{AtomKind, Builder, History, Interval, OpKind, Outcome, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Write(i64),
    Append(i64),
    Read(i64),
    ReadList(Vec<i64>),
    ReadUnknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub key: usize,
    pub act: Act,
}

impl Step {
    /// What a write or append leaves behind.
    pub fn written(&self) -> Option<i64> {
        match self.act {
            Act::Write(v) | Act::Append(v) => Some(v),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Txn {
    pub steps: Vec<Step>,
    pub outcome: Outcome,
}

impl Txn {
    /// What it wrote to `key` before its step `end`, in order.
    pub fn written_before(&self, key: usize, end: usize) -> Vec<i64> {
        self.steps[..end].iter().filter(|s| s.key == key).filter_map(Step::written).collect()
    }

    /// All it wrote to `key`, in order.
    pub fn written(&self, key: usize) -> Vec<i64> {
        self.written_before(key, self.steps.len())
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub sessions: Vec<Vec<Txn>>,
    /// When each transaction ran, session by session; nothing if it was not measured.
    pub intervals: Vec<Vec<Interval>>,
}

impl Plan {
    /// All transactions, session by session.
    pub fn txns(&self) -> impl Iterator<Item = &Txn> {
        self.sessions.iter().flatten()
    }

    pub fn steps_mut(&mut self) -> impl Iterator<Item = &mut Step> {
        self.sessions.iter_mut().flatten().flat_map(|t| &mut t.steps)
    }

    pub fn build(&self) -> History {
        let mut b = Builder::new();
        let zero = b.int(0);
        b.set_initial_default(Some(zero));
        for (number, session) in self.sessions.iter().enumerate() {
            let label = b.int(number as i64 + 1);
            let session_id = b.session(label);
            for (i, txn) in session.iter().enumerate() {
                let draft = b.transaction(session_id);
                if let Some(&interval) = self.intervals.get(number).and_then(|times| times.get(i)) {
                    b.set_interval(draft, interval);
                }
                b.set_outcome(draft, txn.outcome);
                for step in &txn.steps {
                    let label = match ["x", "y", "z"].get(step.key) {
                        Some(name) => b.atom(AtomKind::Text, name),
                        None => b.int(step.key as i64),
                    };
                    let key = b.key(label);
                    let (kind, value) = match &step.act {
                        Act::Write(v) => (OpKind::Write, b.int(*v)),
                        Act::Append(v) => (OpKind::Append, b.int(*v)),
                        Act::Read(v) => (OpKind::Read, b.int(*v)),
                        Act::ReadUnknown => (OpKind::Read, Value::UNKNOWN),
                        Act::ReadList(elements) => {
                            let elements: Vec<Value> = elements.iter().map(|&e| b.int(e)).collect();
                            (OpKind::Read, b.list(&elements))
                        }
                    };
                    b.op(draft, kind, key, value);
                }
            }
        }
        b.finish().unwrap_or_else(|e| panic!("a generated history is small: {e}"))
    }
}
