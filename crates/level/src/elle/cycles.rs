//! How Elle searches for cycles: which edges each type of cycle may and must have, in which order types are
//! tried, and which subgraph each model keeps acyclic.

use crate::anomaly::AnomalyKind;
use crate::level::Level;
use AnomalyKind as A;
use Edge::{Process, Realtime, Rw, Rwp, Wr, Wrp, Ww, Wwp};

/// A relation of Elle's dependency graph; a final `p` means through a predicate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Edge {
    /// Write after write.
    Ww,
    /// Write after write, through a predicate.
    Wwp,
    /// Read of a write.
    Wr,
    /// Read of a write, through a predicate.
    Wrp,
    /// Write after read.
    Rw,
    /// Write after read, through a predicate.
    Rwp,
    /// Order in a process, which is a session.
    Process,
    /// Order in real time.
    Realtime,
}

impl Edge {
    /// Elle's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Ww => "ww",
            Wwp => "wwp",
            Wr => "wr",
            Wrp => "wrp",
            Rw => "rw",
            Rwp => "rwp",
            Process => "process",
            Realtime => "realtime",
        }
    }
}

/// How many anti-dependencies a cycle has, and where.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AntiDependencies {
    /// None.
    None,
    /// Exactly one.
    One,
    /// Two or more, no two of them adjacent, around the end included.
    NonAdjacent,
    /// Two or more, some two of them adjacent.
    Adjacent,
}

/// What makes a cycle one of a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CycleSpec {
    /// The type of a cycle in the data alone; with an edge of a process; with one of real time.
    pub kinds: [AnomalyKind; 3],
    /// The edges it may have besides its anti-dependencies.
    pub edges: &'static [Edge],
    /// What counts as an anti-dependency.
    pub anti_edges: &'static [Edge],
    /// How many of those there are, and where.
    pub anti_dependencies: AntiDependencies,
    /// Edges of which it has at least one; no demand if empty.
    pub required: &'static [Edge],
}

impl CycleSpec {
    /// The type with edges of `order` too: none, [`Edge::Process`] or [`Edge::Realtime`], at least one of
    /// which is then required.
    pub fn kind(&self, order: Option<Edge>) -> AnomalyKind {
        match order {
            Some(Realtime) => self.kinds[2],
            Some(_) => self.kinds[1],
            None => self.kinds[0],
        }
    }
}

const WRITES: &[Edge] = &[Ww, Wwp];
const DEPENDENCIES: &[Edge] = &[Ww, Wwp, Wr, Wrp];
const ITEM: &[Edge] = &[Rw];
const ANY: &[Edge] = &[Rw, Rwp];

/// The eight types of cycle, each in three variants.
pub static CYCLES: &[CycleSpec] = &[
    CycleSpec {
        kinds: [A::G0, A::G0Process, A::G0Realtime],
        edges: WRITES,
        anti_edges: &[],
        anti_dependencies: AntiDependencies::None,
        required: &[],
    },
    CycleSpec {
        kinds: [A::G1c, A::G1cProcess, A::G1cRealtime],
        edges: DEPENDENCIES,
        anti_edges: &[],
        anti_dependencies: AntiDependencies::None,
        required: &[Wr, Wrp],
    },
    CycleSpec {
        kinds: [A::GSingleItem, A::GSingleItemProcess, A::GSingleItemRealtime],
        edges: DEPENDENCIES,
        anti_edges: ITEM,
        anti_dependencies: AntiDependencies::One,
        required: &[],
    },
    CycleSpec {
        kinds: [A::GSingle, A::GSingleProcess, A::GSingleRealtime],
        edges: DEPENDENCIES,
        anti_edges: ANY,
        anti_dependencies: AntiDependencies::One,
        required: &[Rwp],
    },
    CycleSpec {
        kinds: [A::GNonadjacentItem, A::GNonadjacentItemProcess, A::GNonadjacentItemRealtime],
        edges: DEPENDENCIES,
        anti_edges: ITEM,
        anti_dependencies: AntiDependencies::NonAdjacent,
        required: &[],
    },
    CycleSpec {
        kinds: [A::GNonadjacent, A::GNonadjacentProcess, A::GNonadjacentRealtime],
        edges: DEPENDENCIES,
        anti_edges: ANY,
        anti_dependencies: AntiDependencies::NonAdjacent,
        required: &[Rwp],
    },
    CycleSpec {
        kinds: [A::G2Item, A::G2ItemProcess, A::G2ItemRealtime],
        edges: DEPENDENCIES,
        anti_edges: ITEM,
        anti_dependencies: AntiDependencies::Adjacent,
        required: &[],
    },
    CycleSpec {
        kinds: [A::G2, A::G2Process, A::G2Realtime],
        edges: DEPENDENCIES,
        anti_edges: ANY,
        anti_dependencies: AntiDependencies::Adjacent,
        required: &[Rwp],
    },
];

/// The order in which Elle tries types of cycles in a component.
pub const SEARCH_ORDER: &[AnomalyKind] = &[
    A::GSingleItem,
    A::G0,
    A::GNonadjacentItem,
    A::GSingleItemProcess,
    A::G1c,
    A::GNonadjacentItemProcess,
    A::GSingle,
    A::GSingleItemRealtime,
    A::G2Item,
    A::GNonadjacent,
    A::GNonadjacentItemRealtime,
    A::G2,
    A::G0Process,
    A::G1cProcess,
    A::GSingleProcess,
    A::G2ItemProcess,
    A::GNonadjacentProcess,
    A::G2Process,
    A::G0Realtime,
    A::G1cRealtime,
    A::GSingleRealtime,
    A::G2ItemRealtime,
    A::GNonadjacentRealtime,
    A::G2Realtime,
];

/// What Elle calls worse than what, beyond implication: `(worse, what it is worse than)`. The search order
/// comes from it.
pub const SEVERITY: &[(AnomalyKind, &[AnomalyKind])] = &[
    (A::G0, &[A::G1c]),
    (A::G0Process, &[A::G1cProcess]),
    (A::G0Realtime, &[A::G1cRealtime]),
    (A::G1c, &[A::GSingle, A::G2Item]),
    (A::G1cProcess, &[A::GSingleProcess, A::G2ItemProcess]),
    (A::G1cRealtime, &[A::GSingleRealtime, A::G2ItemRealtime]),
    (A::G2, &[A::G0Process]),
    (A::G2Process, &[A::G0Realtime]),
];

/// The subgraph that a model keeps acyclic, and the anomaly reported if it is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CycleExists {
    /// The model.
    pub model: Level,
    /// What is reported.
    pub anomaly: AnomalyKind,
    /// The edges of the subgraph.
    pub edges: &'static [Edge],
    /// If not empty: also every pair that one of `edges`, then one of these, connects.
    pub then: &'static [Edge],
}

macro_rules! acyclic {
    ($model:ident $anomaly:ident [$($edge:ident)*] [$($then:ident)*]) => {
        CycleExists { model: Level::$model, anomaly: A::$anomaly, edges: &[$($edge),*], then: &[$($then),*] }
    };
}

/// The thirteen such models, in the order in which Elle tries them.
pub static CYCLE_EXISTS: &[CycleExists] = &[
    acyclic!(ElleReadUncommitted Pl1CycleExists [Ww Wwp] []),
    acyclic!(AdyaReadCommitted Pl2CycleExists [Ww Wwp Wr Wrp] []),
    acyclic!(SnapshotIsolation PlSiCycleExists [Ww Wwp Wr Wrp] [Rw Rwp]),
    acyclic!(RepeatableRead Pl299CycleExists [Ww Wwp Wr Wrp Rw] []),
    acyclic!(Serializable Pl3CycleExists [Ww Wwp Wr Wrp Rw Rwp] []),
    acyclic!(StrongSessionReadUncommitted StrongSessionPl1CycleExists [Ww Wwp Process] []),
    acyclic!(StrongSessionReadCommitted StrongSessionPl2CycleExists [Ww Wwp Wr Wrp Process] []),
    acyclic!(StrongSessionSnapshotIsolation StrongSessionSnapshotIsolationCycleExists [Ww Wwp Wr Wrp Process] [Rw Rwp]),
    acyclic!(StrongSessionSerializable StrongSessionSerializableCycleExists [Ww Wwp Wr Wrp Rw Rwp Process] []),
    acyclic!(StrongReadUncommitted StrongPl1CycleExists [Ww Wwp Realtime] []),
    acyclic!(StrongReadCommitted StrongPl2CycleExists [Ww Wwp Wr Wrp Realtime] []),
    acyclic!(StrongSnapshotIsolation StrongSnapshotIsolationCycleExists [Ww Wwp Wr Wrp Realtime] [Rw Rwp]),
    acyclic!(StrictSerializable PlSsCycleExists [Ww Wwp Wr Wrp Rw Rwp Realtime] []),
];
