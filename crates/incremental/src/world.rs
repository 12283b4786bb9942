//! Everything that has arrived: transactions that count, those that may yet, and the versions of keys.
//!
//! A step gives facts (`fact.rs`) in terms of transactions; `resolve.rs` derives them. Values tell who
//! read from whom, so a value that is written twice ends this: what was concluded from it may be wrong,
//! and the engine answers no more.

use crate::draft::{Draft, Operation};
use crate::fact::{Fact, Node};
use crate::versions::{Key, Kind, Version, VersionId, Writer};
use anomalist_history::{FaultKind, Initial, Interval, KeyId, OpKind, Outcome, SessionId, Value};
use rustc_hash::FxHashMap;

/// What a recording has that this engine does not decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unsupported {
    /// A value was written to this key twice, or is its initial one: who was read is open.
    Repeated(KeyId),
    /// The key is a list and a register, or its values are lists.
    Mixed(KeyId),
    /// The initial values were set after transactions had arrived.
    LateInitial,
}

/// A transaction that ended.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its session.
    pub session: SessionId,
    /// What became of it.
    pub outcome: Outcome,
    /// When it ran.
    pub interval: Option<Interval>,
    /// Its operations, in program order.
    pub ops: &'a [Operation<'a>],
}

/// An external read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub key: KeyId,
    pub version: VersionId,
    /// The last transaction before it in its session that wrote the key.
    pub own: Option<Node>,
}

/// A transaction that counts; a gap has no step.
#[derive(Debug)]
pub(crate) struct Txn {
    pub step: Option<u32>,
    /// Its session, if others follow it there.
    pub session: Option<u32>,
    pub reads: Vec<Read>,
    /// The keys that it writes, sorted.
    pub writes: Vec<KeyId>,
}

#[derive(Default, Debug)]
pub(crate) struct World {
    pub(crate) txns: Vec<Txn>,
    pub(crate) versions: Vec<Version>,
    pub(crate) keys: FxHashMap<KeyId, Key>,
    pub(crate) by_value: FxHashMap<(KeyId, Value), VersionId>,
    /// Versions that were read and whose writers have not arrived.
    pub(crate) pending: usize,
    pub(crate) unsupported: Option<Unsupported>,
    /// A transaction has no interval.
    pub(crate) untimed: bool,
    pub(crate) facts: Vec<Fact>,
    /// Held transactions that something was read of.
    pub(crate) observed: Vec<u32>,
    held: Vec<Option<Draft>>,
    last: FxHashMap<SessionId, Node>,
    wrote: FxHashMap<(SessionId, KeyId), Node>,
    initial: Initial,
    steps: u32,
}

impl World {
    /// Sets the value of keys before they are written.
    pub fn set_initial(&mut self, initial: Initial) {
        if self.steps > 0 {
            self.unsupported.get_or_insert(Unsupported::LateInitial);
        }
        self.initial = initial;
    }

    /// Number of transactions that have arrived.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Takes in a transaction that ended.
    pub fn accept(&mut self, arrival: &Arrival<'_>) {
        let Arrival { session, outcome, interval, ops } = *arrival;
        let step = self.steps;
        self.steps += 1;
        self.untimed |= interval.is_none();
        ops.iter().for_each(|op| self.look_at(op));
        if self.unsupported.is_some() {
            return;
        }
        if outcome == Outcome::Aborted {
            return self.abort(ops);
        }
        let own = |key: KeyId| self.wrote.get(&(session, key)).copied();
        let mut draft = Draft::new(step, ops, own);
        draft.before = self.last.get(&session).copied();
        draft.interval = interval;
        if outcome == Outcome::Indeterminate {
            self.hold(draft);
        } else {
            draft.session = Some(session.0);
            let node = self.count(draft);
            self.last.insert(session, node);
            for i in 0..self.txns[node as usize].writes.len() {
                self.wrote.insert((session, self.txns[node as usize].writes[i]), node);
            }
        }
        while let Some(held) = self.observed.pop() {
            if let Some(draft) = self.held[held as usize].take() {
                self.count(draft);
            }
        }
    }

    /// Nothing more will arrive: what is pending was never written.
    pub fn end(&mut self) {
        let pending = self.versions.iter().filter(|v| v.writer == Writer::Pending);
        let read = pending.filter_map(|v| Some((v.shown_by?, v.key)));
        let faults = read.map(|(node, key)| Fact::Fault { node, kind: FaultKind::ThinAir, key });
        self.facts.extend(faults.collect::<Vec<_>>());
    }

    /// Makes sure that a key is known and of one kind.
    fn look_at(&mut self, op: &Operation<'_>) {
        let kind = match (op.kind, op.elements) {
            (OpKind::Append, _) | (OpKind::Read, Some(_)) => Kind::List,
            _ => Kind::Register,
        };
        let initial = self.initial.of(op.key);
        let odd = op.kind != OpKind::Read && op.value.is_list() || initial.is_some_and(Value::is_list);
        let unknown = op.kind == OpKind::Read && op.value == Value::UNKNOWN;
        if unknown && !odd {
            return;
        }
        let (versions, by_value) = (&mut self.versions, &mut self.by_value);
        let key = self.keys.entry(op.key).or_insert_with(|| {
            let id = versions.len() as VersionId;
            versions.push(Version::new(op.key, Writer::Initial));
            if let Some(value) = initial.filter(|_| kind == Kind::Register) {
                by_value.insert((op.key, value), id);
            }
            Key {
                kind,
                initial: id,
                order: Vec::new(),
                elements: Vec::new(),
                unplaced: Vec::new(),
                gap: None,
                head: None,
            }
        });
        if odd || key.kind != kind {
            self.unsupported.get_or_insert(Unsupported::Mixed(op.key));
        }
    }

    /// A transaction that took no effect: what was read of it is a fault.
    fn abort(&mut self, ops: &[Operation<'_>]) {
        for op in ops.iter().filter(|op| op.kind != OpKind::Read) {
            let Some(&version) = self.by_value.get(&(op.key, op.value)) else {
                self.create(op.key, op.value, Writer::Aborted);
                continue;
            };
            let version = &mut self.versions[version as usize];
            if version.writer == Writer::Pending {
                version.writer = Writer::Aborted;
                self.pending -= 1;
                let fault = |node| Fact::Fault { node, kind: FaultKind::Aborted, key: op.key };
                self.facts.extend(version.shown_by.map(fault));
            }
        }
    }

    /// A transaction of unknown outcome counts once something is read that only it wrote.
    fn hold(&mut self, mut draft: Draft) {
        let held = self.held.len() as u32;
        draft.held = Some(held);
        for &(key, value) in &draft.writes {
            match self.by_value.get(&(key, value)).copied() {
                None => {
                    self.create(key, value, Writer::Held(held));
                }
                Some(version) => match self.versions[version as usize].writer {
                    Writer::Pending => self.observed.push(held),
                    Writer::Aborted if self.versions[version as usize].shown_by.is_none() => {
                        self.versions[version as usize].writer = Writer::Held(held);
                    }
                    _ => {
                        self.unsupported.get_or_insert(Unsupported::Repeated(key));
                    }
                },
            }
        }
        self.held.push(Some(draft));
    }

    pub(crate) fn create(&mut self, key: KeyId, value: Value, writer: Writer) -> VersionId {
        let id = self.versions.len() as VersionId;
        self.versions.push(Version::new(key, writer));
        self.by_value.insert((key, value), id);
        self.pending += usize::from(writer == Writer::Pending);
        id
    }

    pub(crate) fn node(&mut self, txn: Txn) -> Node {
        self.txns.push(txn);
        self.txns.len() as Node - 1
    }

    /// Who a read is from: a transaction, the initial state (`None`), or not known yet.
    pub fn source(&self, read: &Read) -> Option<Option<Node>> {
        match self.versions[read.version as usize].writer {
            Writer::Node(node) => Some(Some(node)),
            Writer::Initial => Some(None),
            _ => None,
        }
    }
}
