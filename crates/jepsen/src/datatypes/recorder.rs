//! Builds the history of a lowered recording, and keeps dependencies until transactions have their numbers.

use super::{Datatype, Dependency, LowerError, Lowered, Reasoned};
use anomalist_history::{
    AtomKind, Builder, Clock, Datum, Draft, EventKind, Events, Interval, KeyId, OpId, OpKind, Operation,
    Outcome, Process, TxnId, Value,
};
use anomalist_level::{Anomaly, AnomalyKind, Why, Witness};

/// An operation of a transaction, by its number in it.
pub(super) type At = (Draft, usize);

struct Pending {
    from: Draft,
    to: Draft,
    kind: Dependency,
    reason: String,
    operations: Vec<At>,
}

pub(crate) struct Recorder<'e> {
    pub builder: Builder,
    events: &'e Events,
    /// Every operation has its invocation, so positions are real time.
    timed: bool,
    /// Operations per transaction.
    counts: Vec<usize>,
    pending: Vec<Pending>,
    flaws: Vec<(AnomalyKind, Draft, Vec<At>)>,
    stand_ins: usize,
}

impl<'e> Recorder<'e> {
    pub fn new(events: &'e Events, ops: &[Operation]) -> Recorder<'e> {
        let timed = ops.iter().all(|op| op.invocation.is_some());
        let builder = Builder::new();
        Recorder {
            builder,
            events,
            timed,
            counts: Vec::new(),
            pending: Vec::new(),
            flaws: Vec::new(),
            stand_ins: 0,
        }
    }

    /// The transaction of an operation.
    pub fn transaction(&mut self, op: &Operation) -> Draft {
        let shown = op.shown();
        let event = self.events.get(shown);
        let session = match event.process {
            Process::Client(p) => self.builder.int(p),
            _ => self.builder.atom(AtomKind::Token, &format!("?{shown}")),
        };
        let session = self.builder.session(session);
        let draft = self.begin(session);
        let label = self.builder.int(event.index.unwrap_or(shown as i64));
        self.builder.set_label(draft, label);
        self.builder.set_line(draft, event.line);
        self.builder.set_outcome(
            draft,
            match op.outcome {
                EventKind::Ok => Outcome::Committed,
                EventKind::Fail => Outcome::Aborted,
                EventKind::Info | EventKind::Invoke => Outcome::Indeterminate,
            },
        );
        if self.timed {
            self.builder.set_clock(Clock::Events);
            let completed = op.ended().map(|end| end as u64);
            self.builder.set_interval(draft, Interval { invoked: op.began as u64, completed });
        }
        draft
    }

    /// A transaction that stands for one that is in the recording, but it is not known which.
    pub fn stand_in(&mut self, name: &str) -> Draft {
        let label = self.builder.atom(AtomKind::Token, name);
        let session = self.builder.atom(AtomKind::Token, &format!("~{}", self.stand_ins + 1));
        let session = self.builder.session(session);
        let draft = self.begin(session);
        self.stand_ins += 1;
        self.builder.set_label(draft, label);
        if self.timed {
            self.builder.set_interval(draft, Interval { invoked: 0, completed: None });
        }
        draft
    }

    fn begin(&mut self, session: anomalist_history::SessionId) -> Draft {
        self.counts.push(0);
        self.builder.transaction(session)
    }

    /// Adds an operation; gives its place.
    pub fn op(&mut self, draft: Draft, kind: OpKind, key: KeyId, value: Value) -> At {
        self.builder.op(draft, kind, key, value);
        let count = &mut self.counts[draft.0 as usize];
        *count += 1;
        (draft, *count - 1)
    }

    /// A key by a text that names it.
    pub fn key(&mut self, name: &str) -> KeyId {
        let label = self.builder.atom(AtomKind::Token, name);
        self.builder.key(label)
    }

    /// A value by its text.
    pub fn token(&mut self, text: &str) -> Value {
        self.builder.atom(AtomKind::Token, text)
    }

    /// A value of the recording.
    pub fn value(&mut self, datum: &Datum) -> Value {
        match datum {
            Datum::Nil => Value::NIL,
            Datum::Int(i) => self.builder.int(*i),
            Datum::Text(text) => self.builder.atom(AtomKind::Text, text),
            Datum::Keyword(name) => self.builder.atom(AtomKind::Keyword, name),
            Datum::Bool(_) | Datum::Number(_) => self.builder.atom(AtomKind::Token, &datum.to_string()),
            Datum::List(_) | Datum::Map(_) => self.builder.atom(AtomKind::Compound, &datum.to_string()),
        }
    }

    /// Notes a dependency.
    pub fn depends(&mut self, from: Draft, to: Draft, kind: Dependency, reason: String, operations: Vec<At>) {
        if from != to {
            self.pending.push(Pending { from, to, kind, reason, operations });
        }
    }

    /// Notes an anomaly of one transaction.
    pub fn flaw(&mut self, kind: AnomalyKind, draft: Draft, operations: Vec<At>) {
        self.flaws.push((kind, draft, operations));
    }

    /// The history with its dependencies.
    pub fn finish(self, datatype: Datatype, doubt: Option<Why>) -> Result<Lowered, LowerError> {
        let history = self.builder.finish()?;
        // Nothing was discarded, so ranks in the input are drafts.
        let mut txns = vec![TxnId(0); history.txn_count()];
        for t in history.txns() {
            txns[history.position(t) as usize] = t;
        }
        let txn = |draft: Draft| txns[draft.0 as usize];
        let op = |&(draft, i): &At| OpId((history.op_range(txn(draft)).start + i) as u32);
        let dependencies = self
            .pending
            .into_iter()
            .map(|p| Reasoned {
                from: txn(p.from),
                to: txn(p.to),
                kind: p.kind,
                reason: p.reason.into(),
                operations: p.operations.iter().map(op).collect(),
            })
            .collect();
        let mut anomalies: Vec<Anomaly> = Vec::new();
        for (kind, draft, operations) in &self.flaws {
            match anomalies.iter_mut().find(|a| a.kind == *kind) {
                Some(known) => {
                    known.count += 1;
                    known.places.push(txn(*draft));
                }
                None => {
                    let operations = operations.iter().map(op).collect();
                    let witness =
                        Witness { transactions: vec![txn(*draft)], operations, ..Witness::default() };
                    anomalies.push(Anomaly::new(*kind, 1, witness).seen_in(vec![txn(*draft)]));
                }
            }
        }
        for anomaly in &mut anomalies {
            anomaly.places.sort_unstable();
            anomaly.places.dedup();
        }
        let stand_ins = self.stand_ins;
        Ok(Lowered { datatype, history, dependencies, anomalies, doubt, stand_ins, recording: None })
    }
}
