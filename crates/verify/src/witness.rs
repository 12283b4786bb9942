//! Does a witness show its anomaly?
//!
//! A faulty read is judged again by itself. Everything else is a cycle: each edge is proven by the
//! operations it names, each ends where the next begins, and the kinds of edges are those that make this
//! anomaly. A witness may show a worse anomaly than it says (a cycle without session order is a cycle with
//! it); what it says is then still true.

use crate::Terms;
use crate::definition::Kind;
use crate::dependencies::DependencyCycle;
use crate::flaw::{Flaw, FlawKind};
use crate::reading::{External, Fault, Reading, Source};
use anomalist_history::{OpId, OpKind, TxnId};
use anomalist_level::{Anomaly, AnomalyKind, Definitions, Edge, Evidence, Node, Relation, VersionReason};

/// Checks an anomaly against the reading without choices.
pub(crate) fn check(reading: &Reading<'_>, anomaly: &Anomaly, terms: Terms) -> Result<(), Flaw> {
    let plume = terms.definitions == Definitions::Plume && AnomalyKind::TAPS.contains(&anomaly.kind);
    let (dependencies, trusting) = (!is_pattern(anomaly.kind), terms.trusting);
    let scene = Scene { reading, anomaly, dependencies, plume, trusting };
    scene.bounds()?;
    scene.cast()?;
    use AnomalyKind as A;
    match anomaly.kind {
        A::ThinAirRead => scene.fault(Fault::ThinAir),
        A::AbortedRead => scene.fault(Fault::Aborted),
        A::FutureRead => scene.fault(Fault::Future),
        A::NotMyOwnWrite => scene.fault(Fault::NotMyOwnWrite),
        A::NotMyLastWrite => scene.fault(Fault::NotMyLastWrite),
        A::DuplicateElements => scene.fault(Fault::DuplicateElement),
        A::IntermediateRead => scene.intermediate(),
        A::IncompatibleOrder => scene.incompatible(),
        A::NonRepeatableRead => scene.non_repeatable(),
        A::G1a => scene.fault(Fault::Aborted).or_else(|_| scene.fault(Fault::ThinAir)),
        A::G1b => scene.intermediate(),
        A::CyclicCo => scene.cycle(&[Relation::SessionOrder, Relation::WriteRead], None),
        A::NonMonoReadCo => scene.triangle(Kind::ReadCommitted, true),
        A::NonMonoReadCm => scene.triangle(Kind::ReadCommitted, false),
        A::FracturedReadCo => scene.triangle(Kind::ReadAtomic, true),
        A::FracturedReadCm => scene.triangle(Kind::ReadAtomic, false),
        A::CoConflictCm => scene.triangle(Kind::Causal, true),
        A::ConflictCm => scene.triangle(Kind::Causal, false),
        A::ReadAtomicCycleExists => scene.triangle(Kind::ReadAtomic, false),
        A::NotReadYourWrites => scene.triangle(Kind::ReadYourWrites, false),
        A::NonMonotonicReads => scene.triangle(Kind::MonotonicReads, false),
        A::NonMonotonicWrites => scene.triangle(Kind::MonotonicWrites, false),
        A::WritesDontFollowReads => scene.triangle(Kind::WritesFollowReads, false),
        A::LostUpdate => scene.lost_update(),
        A::Internal => scene.internal(),
        A::DirtyUpdate => scene.dirty_update(),
        A::GUpdate => scene.update_cycle(),
        A::GMonotonic => scene.unfolded_cycle(true),
        A::GMsr => scene.unfolded_cycle(false),
        A::GCursor => scene.cursor_cycle(),
        A::PrefixCycle => scene.prefix_cycle(),
        A::CyclicVersions => scene.cycle(&[Relation::VersionOrder], None),
        kind => match DependencyCycle::of(kind) {
            Some(shape) => scene.dependencies(shape),
            None => Err(Flaw::new(FlawKind::WrongKind)),
        },
    }
}

/// Whether an anomaly is about reads as the weak levels see them: external ones, and sound.
fn is_pattern(kind: AnomalyKind) -> bool {
    use AnomalyKind as A;
    let guarantees =
        [A::NotReadYourWrites, A::NonMonotonicReads, A::NonMonotonicWrites, A::WritesDontFollowReads];
    AnomalyKind::TAPS.contains(&kind) || guarantees.contains(&kind) || kind == A::ReadAtomicCycleExists
}

pub(crate) struct Scene<'a> {
    pub reading: &'a Reading<'a>,
    pub anomaly: &'a Anomaly,
    /// Reads count as Adya counts them: a list after own appends is a read of what is before them, and a
    /// faulty read still shows what it shows.
    pub dependencies: bool,
    /// Reads count as Plume counts them: one that ignores an own write is one of what it returned.
    pub plume: bool,
    /// What the caller assumed about the database is taken as given.
    pub trusting: bool,
}

pub(crate) fn not_this() -> Flaw {
    Flaw::new(FlawKind::NotThisAnomaly)
}

fn unproven(edge: &Edge) -> Flaw {
    let txns = [edge.from, edge.to].into_iter().filter_map(|node| match node {
        Node::Txn(t) => Some(t),
        Node::Initial => None,
    });
    Flaw::new(FlawKind::UnprovenEdge).txns(txns)
}

/// Every edge, and those behind forced ones.
fn all_edges(edges: &[Edge]) -> Vec<&Edge> {
    let mut all: Vec<&Edge> = edges.iter().collect();
    let mut next = 0;
    while let Some(&edge) = all.get(next) {
        if let Evidence::Forced { path, .. } = &edge.evidence {
            all.extend(path);
        }
        next += 1;
    }
    all
}

impl Scene<'_> {
    pub fn owner(&self, op: OpId) -> TxnId {
        self.reading.facts.owner(op)
    }

    /// Everything named exists.
    fn bounds(&self) -> Result<(), Flaw> {
        let history = self.reading.facts.history;
        let witness = &self.anomaly.witness;
        let edges = all_edges(&witness.edges);
        let ends = edges.iter().flat_map(|e| [e.from, e.to]).filter_map(|node| match node {
            Node::Txn(t) => Some(t),
            Node::Initial => None,
        });
        if ends.chain(witness.transactions.iter().copied()).any(|t| t.index() >= history.txn_count()) {
            return Err(Flaw::new(FlawKind::NoSuchTransaction));
        }
        let ops = edges.iter().flat_map(|e| e.evidence.operations());
        if ops.chain(witness.operations.iter().copied()).any(|op| op.index() >= history.op_count()) {
            return Err(Flaw::new(FlawKind::NoSuchOperation));
        }
        Ok(())
    }

    /// The witness lists the transactions and operations of its edges, and of its operations, and no others.
    fn cast(&self) -> Result<(), Flaw> {
        let witness = &self.anomaly.witness;
        let mut ops: Vec<OpId> = Vec::new();
        let mut txns: Vec<TxnId> = Vec::new();
        for edge in all_edges(&witness.edges) {
            ops.extend(edge.evidence.operations());
            for node in [edge.from, edge.to] {
                if let Node::Txn(t) = node {
                    txns.push(t);
                }
            }
        }
        if ops.iter().any(|op| !witness.operations.contains(op)) {
            return Err(Flaw::new(FlawKind::WrongCast));
        }
        txns.extend(witness.operations.iter().map(|&op| self.owner(op)));
        txns.sort_unstable();
        txns.dedup();
        let mut listed = witness.transactions.clone();
        listed.sort_unstable();
        listed.dedup();
        if txns == listed { Ok(()) } else { Err(Flaw::new(FlawKind::WrongCast).txns(listed)) }
    }

    pub fn reads(&self) -> impl Iterator<Item = OpId> + '_ {
        let history = self.reading.facts.history;
        self.anomaly.witness.operations.iter().copied().filter(|&op| history.op(op).kind == OpKind::Read)
    }

    /// Edges beside a faulty read say whose value it returned.
    fn sightings(&self) -> Result<(), Flaw> {
        let history = self.reading.facts.history;
        for edge in &self.anomaly.witness.edges {
            let Evidence::Read { write: Some(write), read } = edge.evidence else {
                return Err(unproven(edge));
            };
            let (w, r) = (history.op(write), history.op(read));
            let seen = match history.list(r.value) {
                Some(elements) => elements.contains(&w.value),
                None => r.value == w.value,
            };
            let fits = w.kind != OpKind::Read
                && r.kind == OpKind::Read
                && w.key == r.key
                && seen
                && edge.relation == Relation::WriteRead
                && edge.from == Node::Txn(self.owner(write))
                && edge.to == Node::Txn(self.owner(read));
            if !fits {
                return Err(unproven(edge));
            }
        }
        Ok(())
    }

    fn fault(&self, fault: Fault) -> Result<(), Flaw> {
        self.sightings()?;
        let found = self.reads().any(|op| self.reading.source(op) == Source::Fault(fault));
        if found { Ok(()) } else { Err(not_this().ops(self.reads())) }
    }

    fn intermediate(&self) -> Result<(), Flaw> {
        self.sightings()?;
        // A read that ignores an own write may return another's intermediate value all the same.
        let named = |op: OpId| {
            self.anomaly.witness.edges.iter().any(|e| match e.evidence {
                Evidence::Read { write: Some(write), read } if read == op => {
                    !self.reading.facts.is_final(write) && self.is_from(read, Some(write), e.from)
                }
                _ => false,
            })
        };
        let replaced = |op: OpId| match self.reading.source(op) {
            Source::From(write) => !self.reading.facts.is_final(write),
            Source::Fault(Fault::NotMyOwnWrite) => (self.dependencies || self.plume) && named(op),
            _ => false,
        };
        if self.reads().any(replaced) { Ok(()) } else { Err(not_this().ops(self.reads())) }
    }

    /// Two lists of one key of which neither begins with the other, or one that skips or reorders a
    /// writer's appends.
    fn incompatible(&self) -> Result<(), Flaw> {
        let history = self.reading.facts.history;
        let lists: Vec<(OpId, Vec<OpId>)> =
            self.reads().filter_map(|op| Some((op, self.list(op)?))).collect();
        let contradict = |(a, left): &(OpId, Vec<OpId>), (b, right): &(OpId, Vec<OpId>)| {
            history.op(*a).key == history.op(*b).key && !left.starts_with(right) && !right.starts_with(left)
        };
        let skips = |(_, shown): &(OpId, Vec<OpId>)| {
            shown.iter().enumerate().any(|(at, &append)| {
                let key = history.op(append).key;
                let mut earlier = history.ops(self.owner(append)).take_while(|(op, _)| *op < append);
                earlier.any(|(op, o)| o.kind == OpKind::Append && o.key == key && !shown[..at].contains(&op))
            })
        };
        let found = lists.iter().any(|a| lists.iter().any(|b| contradict(a, b))) || lists.iter().any(skips);
        if found && self.anomaly.witness.edges.is_empty() {
            Ok(())
        } else {
            Err(not_this().ops(self.reads()))
        }
    }

    fn external(&self, op: OpId) -> Option<External> {
        let key = self.reading.facts.history.op(op).key;
        match self.reading.source(op) {
            Source::Initial => Some(External { op, key, from: None }),
            Source::From(write) => Some(External { op, key, from: Some(write) }),
            _ if self.plume => self.reading.after_own(op).map(|from| External { op, key, from }),
            _ => None,
        }
    }

    fn non_repeatable(&self) -> Result<(), Flaw> {
        for edge in &self.anomaly.witness.edges {
            self.edge(edge, None)?;
        }
        let reads: Vec<External> = self.reads().filter_map(|op| self.external(op)).collect();
        let differ = |a: &External, b: &External| {
            self.owner(a.op) == self.owner(b.op)
                && a.key == b.key
                && self.reading.writer(*a) != self.reading.writer(*b)
        };
        let found = reads.iter().any(|a| reads.iter().any(|b| differ(a, b)));
        if found { Ok(()) } else { Err(not_this().ops(self.reads())) }
    }

    /// Two transactions that read one version of a key and both write the key.
    fn lost_update(&self) -> Result<(), Flaw> {
        for edge in &self.anomaly.witness.edges {
            self.edge(edge, None)?;
        }
        let reads: Vec<OpId> = self.reads().collect();
        let key = |op: OpId| self.reading.facts.history.op(op).key;
        let writes = |t: TxnId, key| self.reading.facts.written(t).any(|(k, _)| k == key);
        let same_version = |a: OpId, b: OpId| match (self.list(a), self.list(b)) {
            (Some(left), Some(right)) => left == right,
            (None, None) => match (self.external(a), self.external(b)) {
                (Some(a), Some(b)) => self.reading.writer(a) == self.reading.writer(b),
                _ => false,
            },
            _ => false,
        };
        let lost = |a: OpId, b: OpId| {
            let (t, u) = (self.owner(a), self.owner(b));
            let both = t != u && self.reading.counts(t) && self.reading.counts(u);
            both && key(a) == key(b) && same_version(a, b) && writes(t, key(a)) && writes(u, key(a))
        };
        let found = reads.iter().any(|&a| reads.iter().any(|&b| lost(a, b)));
        if found { Ok(()) } else { Err(not_this().ops(self.reads())) }
    }

    /// A closed chain of proven edges of these kinds.
    pub fn cycle(&self, relations: &[Relation], level: Option<Kind>) -> Result<(), Flaw> {
        let edges = &self.anomaly.witness.edges;
        for (edge, next) in edges.iter().zip(edges.iter().cycle().skip(1)) {
            if !relations.contains(&edge.relation) {
                return Err(unproven(edge));
            }
            self.edge(edge, level)?;
            if edge.to != next.from {
                return Err(Flaw::new(FlawKind::NoCycle));
            }
        }
        if edges.is_empty() { Err(Flaw::new(FlawKind::NoCycle)) } else { Ok(()) }
    }

    /// A constraint of the level that contradicts causality (`co`), or causality with other constraints and
    /// the order of lists.
    fn triangle(&self, level: Kind, co: bool) -> Result<(), Flaw> {
        use Relation::{Required, SessionOrder, VersionOrder, WriteRead};
        self.cycle(&[SessionOrder, WriteRead, Required, VersionOrder], Some(level))?;
        let is_constraint = |e: &&Edge| e.relation == Required;
        let edges = &self.anomaly.witness.edges;
        let (constraints, others) =
            (edges.iter().filter(is_constraint).count(), edges.iter().any(|e| e.relation == VersionOrder));
        let fits = constraints > 0 && !(co && (constraints > 1 || others));
        if fits { Ok(()) } else { Err(not_this()) }
    }

    /// Does the evidence show the edge? `level` says what makes a writer visible where a constraint needs
    /// it.
    fn edge(&self, edge: &Edge, level: Option<Kind>) -> Result<(), Flaw> {
        let counts = |node: Node| match node {
            Node::Txn(t) => self.reading.counts(t),
            Node::Initial => true,
        };
        let shown = counts(edge.from) && counts(edge.to) && self.shows(edge, level);
        if shown { Ok(()) } else { Err(unproven(edge)) }
    }

    fn shows(&self, edge: &Edge, level: Option<Kind>) -> bool {
        let history = self.reading.facts.history;
        match (&edge.evidence, edge.relation) {
            (Evidence::Session, Relation::SessionOrder) => match (edge.from, edge.to) {
                (Node::Initial, Node::Txn(_)) => true,
                (Node::Txn(a), Node::Txn(b)) => history.session_before(a, b),
                _ => false,
            },
            (Evidence::RealTime, Relation::RealTime) => match (edge.from, edge.to) {
                (Node::Txn(a), Node::Txn(b)) => self.reading.facts.ended_before(a, b),
                _ => false,
            },
            (&Evidence::Read { write, read }, Relation::WriteRead) => {
                self.is_from(read, write, edge.from) && edge.to == Node::Txn(self.owner(read))
            }
            (&Evidence::Version { first, second, read }, Relation::VersionOrder) => {
                self.version(first, second, read)
                    && edge.from != edge.to
                    && edge.from == Node::Txn(self.owner(first))
                    && edge.to == Node::Txn(self.owner(second))
            }
            (&Evidence::Overwritten { read, seen, write, reason }, Relation::AntiDependency) => {
                let source = seen.map_or(Node::Initial, |w| Node::Txn(self.owner(w)));
                let after = match seen {
                    None => self.writes_key_of(write, read),
                    Some(first) => self.later(first, write, reason),
                };
                self.is_from(read, seen, source)
                    && after
                    && edge.from != edge.to
                    && edge.from == Node::Txn(self.owner(read))
                    && edge.to == Node::Txn(self.owner(write))
            }
            (&Evidence::Ordered { first, second, reason }, Relation::VersionOrder) => {
                self.later(first, second, reason)
                    && edge.from == Node::Txn(self.owner(first))
                    && edge.to == Node::Txn(self.owner(second))
            }
            // What the caller assumed, or an analyser vouches for, is not in the history.
            (Evidence::Overwritten { .. } | Evidence::Session, Relation::VersionOrder) => {
                self.trusting && self.anomaly.kind == AnomalyKind::CyclicVersions
            }
            (Evidence::Given { .. }, _) => self.trusting,
            (Evidence::Forced { read, overwritten, visible_write, path }, Relation::Required) => {
                let from = self.owner(*visible_write);
                self.is_from(*read, *overwritten, edge.to)
                    && edge.from == Node::Txn(from)
                    && edge.from != edge.to
                    && from != self.owner(*read)
                    && self.writes_key_of(*visible_write, *read)
                    && level.is_some_and(|level| self.is_visible(level, from, *read, path))
            }
            _ => false,
        }
    }

    /// Is the read an external one of this write (none: the initial state), and the write `node`'s?
    fn is_from(&self, read: OpId, write: Option<OpId>, node: Node) -> bool {
        if self.dependencies {
            let of = |w: OpId| Node::Txn(self.owner(w));
            if let Some(shown) = self.list(read) {
                return shown.last().copied() == write && node == write.map_or(Node::Initial, of);
            }
            let history = self.reading.facts.history;
            if let (Source::Fault(Fault::NotMyOwnWrite), Some(w)) = (self.reading.source(read), write) {
                let value = history.op(w).value == history.op(read).value;
                return value && self.writes_key_of(w, read) && node == of(w);
            }
        }
        let Some(external) = self.external(read) else { return false };
        external.from == write && node == write.map_or(Node::Initial, |w| Node::Txn(self.owner(w)))
    }

    /// Is `second` a later version than `first`, for this reason? What the caller assumed about the
    /// database cannot be looked up in the history: it proves nothing, unless it is to be taken as given,
    /// for writes of one key.
    fn later(&self, first: OpId, second: OpId, reason: VersionReason) -> bool {
        match reason {
            VersionReason::Shown { read }
            | VersionReason::Missing { read: Some(read) }
            | VersionReason::ReadThenWritten { read } => self.version(first, second, read),
            VersionReason::Initial | VersionReason::Missing { read: None } => false,
            VersionReason::Session { .. }
            | VersionReason::RealTime { .. }
            | VersionReason::Given
            | VersionReason::Stamps
            | VersionReason::Numbered => {
                self.trusting && self.writes_key_of(first, second) && self.writes_key_of(second, first)
            }
        }
    }

    fn writes_key_of(&self, write: OpId, read: OpId) -> bool {
        let history = self.reading.facts.history;
        let (w, r) = (history.op(write), history.op(read));
        w.kind != OpKind::Read && w.key == r.key && self.reading.counts(self.owner(write))
    }

    /// Does the read show that `first` comes before `second` in the version order of their key?
    fn version(&self, first: OpId, second: OpId, read: OpId) -> bool {
        let history = self.reading.facts.history;
        if !self.writes_key_of(second, read) {
            return false;
        }
        match self.list(read) {
            Some(shown) => match shown.iter().position(|&a| a == first) {
                Some(at) if at + 1 < shown.len() => shown[at + 1] == second,
                Some(_) => history.op(second).kind == OpKind::Append && !shown.contains(&second),
                None => false,
            },
            // A register: the writer of the second read the first.
            None => {
                self.owner(read) == self.owner(second)
                    && self.is_from(read, Some(first), Node::Txn(self.owner(first)))
            }
        }
    }

    /// Does the path make `from` visible to the read, as the level sees it?
    fn is_visible(&self, kind: Kind, from: TxnId, read: OpId, path: &[Edge]) -> bool {
        let reader = self.owner(read);
        let mut at = Node::Txn(from);
        for edge in path {
            let plain = matches!(edge.relation, Relation::SessionOrder | Relation::WriteRead);
            if !plain || edge.from != at || self.edge(edge, None).is_err() {
                return false;
            }
            at = edge.to;
        }
        if at != Node::Txn(reader) || path.is_empty() {
            return false;
        }
        let shape: Vec<Relation> = path.iter().map(|e| e.relation).collect();
        use Relation::{SessionOrder as So, WriteRead as Wr};
        match kind {
            Kind::ReadCommitted => {
                let key = |op: OpId| self.reading.facts.history.op(op).key;
                let counts = |r: OpId| r < read && (!self.plume || key(r) != key(read));
                let before = |e: &Edge| matches!(e.evidence, Evidence::Read { read: r, .. } if counts(r));
                shape == [Wr] && path.iter().all(before)
            }
            Kind::ReadAtomic => shape == [Wr] || shape == [So],
            Kind::Causal => true,
            Kind::ReadYourWrites => shape == [So],
            Kind::MonotonicReads => shape == [Wr, So],
            Kind::MonotonicWrites => shape == [So, Wr],
            Kind::WritesFollowReads => shape == [Wr, So, Wr],
            Kind::Serial
            | Kind::Prefix
            | Kind::Snapshot
            | Kind::Parallel
            | Kind::View
            | Kind::Updates
            | Kind::Flow
            | Kind::Writes
            | Kind::Cut => false,
        }
    }
}
