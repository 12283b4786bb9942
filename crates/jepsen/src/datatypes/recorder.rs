//! Builds the history of a lowered recording, and keeps dependencies until transactions have their numbers.

use super::{Datatype, Dependency, LowerError, Lowered, Reasoned};
use anomalist_history::{
    AtomKind, Builder, Clock, Datum, Draft, Event, EventKind, Events, Interval, KeyId, OpId, OpKind,
    Operation, Outage, Outcome, Process, TxnId, Value,
};
use anomalist_level::{Anomaly, AnomalyKind, Edge, Evidence, Node, Relation, Why, Witness};

/// An operation of a transaction, by its number in it.
pub(super) type At = (Draft, usize);

struct Pending {
    from: Draft,
    to: Draft,
    kind: Dependency,
    reason: String,
    operations: Vec<At>,
}

/// An anomaly of one transaction.
struct Flaw {
    kind: AnomalyKind,
    draft: Draft,
    operations: Vec<At>,
    /// What should have been seen: who wrote it (none: it was there at first), and why, as a sentence
    /// without a full stop.
    missed: Option<(Option<At>, String)>,
}

pub(crate) struct Recorder<'e> {
    pub builder: Builder,
    events: &'e Events,
    /// Every operation has its invocation, so positions are real time.
    timed: bool,
    /// Operations per transaction.
    counts: Vec<usize>,
    pending: Vec<Pending>,
    flaws: Vec<Flaw>,
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
        self.flaws.push(Flaw { kind, draft, operations, missed: None });
    }

    /// Notes that a read by predicate left out a row that was there in every version.
    pub fn missed(&mut self, reader: Draft, write: Option<At>, reason: String) {
        let missed = Some((write, reason));
        let operations = write.into_iter().collect();
        self.flaws.push(Flaw { kind: AnomalyKind::PredicateReadMiss, draft: reader, operations, missed });
    }

    /// The history with its dependencies.
    pub fn finish(mut self, datatype: Datatype, doubt: Option<Why>) -> Result<Lowered, LowerError> {
        if self.timed {
            outages(self.events).into_iter().for_each(|outage| self.builder.add_outage(outage));
        }
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
        for flaw in &self.flaws {
            let reader = txn(flaw.draft);
            match anomalies.iter_mut().find(|a| a.kind == flaw.kind) {
                Some(known) => {
                    known.count += 1;
                    known.places.push(reader);
                }
                None => {
                    let operations: Vec<OpId> = flaw.operations.iter().map(op).collect();
                    let mut witness =
                        Witness { transactions: vec![reader], operations, ..Witness::default() };
                    if let Some((write, reason)) = &flaw.missed {
                        let writer = write.map(|(draft, _)| txn(draft));
                        witness.transactions.extend(writer);
                        witness.edges.push(Edge {
                            from: writer.map_or(Node::Initial, Node::Txn),
                            to: Node::Txn(reader),
                            relation: Relation::WriteRead,
                            evidence: Evidence::Given {
                                reason: reason.clone().into(),
                                operations: witness.operations.clone(),
                            },
                        });
                    }
                    anomalies.push(Anomaly::new(flaw.kind, 1, witness).seen_in(vec![reader]));
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

/// The faults of a recording: two operations in a row of the nemesis with one name, the first when it began.
/// Times say where among the operations of clients a fault was, because it may be written when it is over.
fn outages(events: &Events) -> Vec<Outage> {
    let of_clients = |(place, event): (usize, &Event)| match event.process {
        Process::Client(_) => Some((event.time?, place as u64)),
        _ => None,
    };
    let times: Vec<(i64, u64)> = events.iter().enumerate().filter_map(of_clients).collect();
    let moment = |(place, event): (usize, &Event)| {
        let among = event.time.map(|time| times.partition_point(|(at, _)| *at < time));
        among.and_then(|i| times.get(i)).map_or(place as u64, |(_, place)| *place)
    };
    let mut found = Vec::new();
    let mut open: Option<(usize, &Event)> = None;
    for (place, event) in events.iter().enumerate().filter(|(_, event)| event.process == Process::Other) {
        match open.take() {
            Some(began) if began.1.f == event.f => {
                let detail = match event.value.as_name() {
                    Some(name) => name.to_owned(),
                    None if event.value == Datum::Nil => String::new(),
                    None => event.value.to_string(),
                };
                let (from, to) = (moment(began), moment((place, event)));
                let interval = Interval { invoked: from, completed: Some(to.max(from)) };
                found.push(Outage { name: event.f.clone(), detail: detail.into(), interval });
            }
            _ => open = Some((place, event)),
        }
    }
    found
}
