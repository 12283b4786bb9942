//! Witnesses of Adya's anomalies: cycles of dependencies, and what lists show of them.
//!
//! Adya counts more as a read than the weak levels do: a list after own appends is a read of what is before
//! them, and a faulty read still shows what it shows.

use crate::flaw::Flaw;
use crate::witness::{Scene, not_this};
use anomalist_history::{OpId, OpKind, Outcome, Value};
use anomalist_level::{AnomalyKind, Edge, Evidence, Node, Relation, VersionReason};
use rustc_hash::{FxHashMap, FxHashSet};

/// What a cycle of dependencies must look like to be one of Adya's anomalies.
pub(crate) struct DependencyCycle {
    anti: Anti,
    /// At least one `wr` edge, and versions known from lists alone do not make it.
    reads: bool,
    session: bool,
    real_time: bool,
}

/// How many anti-dependencies.
#[derive(PartialEq, Eq)]
enum Anti {
    None,
    One,
    /// One or more, no two of them adjacent.
    Apart,
    /// One or more.
    Some,
}

impl DependencyCycle {
    pub fn of(kind: AnomalyKind) -> Option<DependencyCycle> {
        use AnomalyKind as A;
        let (anti, reads) = match kind {
            A::G0 | A::G0Process | A::G0Realtime => (Anti::None, false),
            A::G1c | A::G1cProcess | A::G1cRealtime => (Anti::None, true),
            A::GSingle
            | A::GSingleItem
            | A::GSingleProcess
            | A::GSingleItemProcess
            | A::GSingleRealtime
            | A::GSingleItemRealtime
            | A::ReadSkew => (Anti::One, true),
            A::GNonadjacent
            | A::GNonadjacentItem
            | A::GNonadjacentProcess
            | A::GNonadjacentItemProcess
            | A::GNonadjacentRealtime
            | A::GNonadjacentItemRealtime
            | A::LongFork => (Anti::Apart, true),
            A::G2
            | A::G2Item
            | A::G2Process
            | A::G2ItemProcess
            | A::G2Realtime
            | A::G2ItemRealtime
            | A::WriteSkew => (Anti::Some, true),
            _ => return None,
        };
        let real_time = kind.name().ends_with("-realtime");
        Some(DependencyCycle {
            anti,
            reads,
            session: real_time || kind.name().ends_with("-process"),
            real_time,
        })
    }
}

impl Scene<'_> {
    /// Two lists of one key in one transaction that differ before its own appends.
    pub fn internal(&self) -> Result<(), Flaw> {
        let history = self.reading.facts.history;
        let reads: Vec<OpId> = self.reads().filter(|&op| self.reading.counts(self.owner(op))).collect();
        let differ = |a: OpId, b: OpId| {
            self.owner(a) == self.owner(b)
                && history.op(a).key == history.op(b).key
                && matches!((self.list(a), self.list(b)), (Some(left), Some(right)) if left != right)
        };
        let found = reads.iter().any(|&a| reads.iter().any(|&b| differ(a, b)));
        if found { Ok(()) } else { Err(not_this().ops(self.reads())) }
    }

    /// A list in which an aborted append comes before a committed one.
    pub fn dirty_update(&self) -> Result<(), Flaw> {
        let history = self.reading.facts.history;
        let dirty = |edge: &Edge| {
            let Evidence::Version { first, second, read } = edge.evidence else { return false };
            let Some(elements) = history.list(history.op(read).value) else { return false };
            let place = |op: OpId| elements.iter().position(|&e| e == history.op(op).value);
            let append = |op: OpId| {
                history.op(op).kind == OpKind::Append && history.op(op).key == history.op(read).key
            };
            append(first)
                && append(second)
                && history.outcome(self.owner(first)) == Outcome::Aborted
                && self.reading.facts.is_aborted_only(history.op(first))
                && self.reading.counts(self.owner(second))
                && self.reading.counts(self.owner(read))
                && matches!((place(first), place(second)), (Some(a), Some(b)) if a < b)
        };
        let edges = &self.anomaly.witness.edges;
        if !edges.is_empty() && edges.iter().all(dirty) { Ok(()) } else { Err(not_this()) }
    }

    /// A cycle of dependencies with at most one transaction that only reads.
    pub fn update_cycle(&self) -> Result<(), Flaw> {
        use Relation::{AntiDependency, VersionOrder, WriteRead};
        self.cycle(&[VersionOrder, WriteRead, AntiDependency], None)?;
        let reads_only = |node: Node| match node {
            Node::Txn(t) => self.reading.facts.written(t).next().is_none(),
            Node::Initial => false,
        };
        let readers = self.anomaly.witness.edges.iter().filter(|e| reads_only(e.from)).count();
        if readers <= 1 { Ok(()) } else { Err(not_this()) }
    }

    /// A cycle in which every anti-dependency comes right after a read or session order.
    pub fn prefix_cycle(&self) -> Result<(), Flaw> {
        use Relation::{AntiDependency, SessionOrder, VersionOrder, WriteRead};
        self.cycle(&[VersionOrder, WriteRead, AntiDependency, SessionOrder], None)?;
        let edges = &self.anomaly.witness.edges;
        let fits = edges.iter().zip(edges.iter().cycle().skip(1)).all(|(before, edge)| {
            edge.relation != AntiDependency || matches!(before.relation, WriteRead | SessionOrder)
        });
        if fits { Ok(()) } else { Err(not_this()) }
    }

    /// A cycle in which every anti-dependency leaves from a read that comes no earlier than where the cycle
    /// entered its transaction; `one`: it has a single one.
    pub fn unfolded_cycle(&self, one: bool) -> Result<(), Flaw> {
        use Relation::{AntiDependency, VersionOrder, WriteRead};
        self.cycle(&[VersionOrder, WriteRead, AntiDependency], None)?;
        let history = self.reading.facts.history;
        let edges = &self.anomaly.witness.edges;
        // A version is installed by the last write of its transaction.
        let installed = |write: OpId| {
            let same = |o: &anomalist_history::Op| o.kind != OpKind::Read && o.key == history.op(write).key;
            history.ops(self.owner(write)).filter(|(_, o)| same(o)).map(|(op, _)| op).next_back()
        };
        let enters = |edge: &Edge| match edge.evidence {
            Evidence::Read { read, .. } => Some(read),
            Evidence::Version { second, .. } | Evidence::Ordered { second, .. } => installed(second),
            _ => None,
        };
        let fits = edges.iter().zip(edges.iter().cycle().skip(1)).all(|(before, edge)| match edge.evidence {
            Evidence::Overwritten { read, .. } => enters(before).is_some_and(|entry| entry <= read),
            _ => true,
        });
        let anti = edges.iter().filter(|e| e.relation == AntiDependency).count();
        if fits && (anti == 1 || anti > 1 && !one) { Ok(()) } else { Err(not_this()) }
    }

    /// One anti-dependency, then versions, all of one key.
    pub fn cursor_cycle(&self) -> Result<(), Flaw> {
        use Relation::{AntiDependency, VersionOrder};
        self.cycle(&[VersionOrder, AntiDependency], None)?;
        let edges = &self.anomaly.witness.edges;
        let key = |op: OpId| self.reading.facts.history.op(op).key;
        let mut keys: Vec<_> = edges.iter().flat_map(|e| e.evidence.operations()).map(key).collect();
        keys.dedup();
        let anti = edges.iter().filter(|e| e.relation == AntiDependency).count();
        if keys.len() == 1 && anti == 1 && edges.len() > 1 { Ok(()) } else { Err(not_this()) }
    }

    pub fn dependencies(&self, shape: DependencyCycle) -> Result<(), Flaw> {
        use Relation::{AntiDependency, RealTime, SessionOrder, VersionOrder, WriteRead};
        let mut relations = vec![VersionOrder];
        if shape.reads {
            relations.push(WriteRead);
        }
        if shape.anti != Anti::None {
            relations.push(AntiDependency);
        }
        if shape.session {
            relations.push(SessionOrder);
        }
        if shape.real_time {
            relations.push(RealTime);
        }
        self.cycle(&relations, None)?;
        let edges = &self.anomaly.witness.edges;
        if !shape.reads && edges.iter().any(|e| !self.shown_by_list(e)) {
            return Err(not_this());
        }
        let anti = |e: &Edge| e.relation == AntiDependency;
        let count = edges.iter().filter(|e| anti(e)).count();
        let adjacent = edges.iter().zip(edges.iter().cycle().skip(1)).any(|(a, b)| anti(a) && anti(b));
        let fits = match shape.anti {
            Anti::None => true,
            Anti::One => count == 1,
            Anti::Apart => count >= 1 && (!adjacent || edges.len() == 1),
            Anti::Some => count >= 1,
        };
        // Session order and real time alone are no dependency.
        let depends = edges.iter().any(|e| !matches!(e.relation, SessionOrder | RealTime));
        if fits && depends { Ok(()) } else { Err(not_this()) }
    }

    /// Orders of registers are known only to transactions that do not read in circles; lists show theirs to
    /// any transaction.
    fn shown_by_list(&self, edge: &Edge) -> bool {
        match edge.evidence {
            Evidence::Version { read, .. }
            | Evidence::Ordered {
                reason: VersionReason::Shown { read } | VersionReason::Missing { read: Some(read) },
                ..
            } => self.list(read).is_some(),
            Evidence::Ordered { .. } => self.trusting,
            _ => true,
        }
    }

    /// What a list read shows of appends that count, before the reader's own, each where it is first. None
    /// if an element may be from several transactions, or the read is of a register. If patterns are looked
    /// for, sound reads only.
    pub fn list(&self, read: OpId) -> Option<Vec<OpId>> {
        if !self.dependencies && self.anomaly.kind != AnomalyKind::IncompatibleOrder {
            return self.reading.shown(read).map(<[OpId]>::to_vec);
        }
        let history = self.reading.facts.history;
        let (reader, key) = (self.owner(read), history.op(read).key);
        let elements = history.list(history.op(read).value)?;
        let is_append = |o: &anomalist_history::Op| o.kind == OpKind::Append && o.key == key;
        let own = history.ops(reader).take_while(|(op, _)| *op < read).filter(|(_, o)| is_append(o));
        let own: Vec<Value> = own.map(|(_, o)| o.value).collect();
        let foreign = elements.strip_suffix(own.as_slice()).unwrap_or(elements);
        let wanted: FxHashSet<Value> = foreign.iter().copied().collect();
        let mut appended: FxHashMap<Value, OpId> = FxHashMap::default();
        let mut open: FxHashSet<Value> = FxHashSet::default();
        for t in history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted) {
            for (op, o) in history.ops(t).filter(|(_, o)| is_append(o) && wanted.contains(&o.value)) {
                if !self.reading.counts(t) {
                    open.insert(o.value);
                } else if appended.insert(o.value, op).is_some() {
                    return None;
                }
            }
        }
        // An indeterminate transaction may have appended it as well.
        if open.iter().any(|e| appended.contains_key(e)) {
            return None;
        }
        let mut shown: Vec<OpId> = Vec::new();
        for append in foreign.iter().filter_map(|e| appended.remove(e)) {
            shown.push(append);
        }
        Some(shown)
    }
}
