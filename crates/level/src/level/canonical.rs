//! The levels: all names, and the rows of those that Anomalist decides from prefix consistency on, weakest
//! first.
//!
//! A level of a known family is added here and nowhere else in this crate: a name, a row at the same
//! position, and, if Elle has none, the name of the anomaly that says that no order satisfies it. The rows
//! of weaker levels, with the words that definitions use, are in `weak.rs`.
//!
//! Implications between canonical levels are those of the product's contract; those to Elle's models are
//! Elle's own.

use super::{Family, Graph, LevelInfo};
use crate::anomaly::AnomalyKind as A;
use crate::names::vocabulary;
use Level as L;

vocabulary! {
    /// An isolation level. Every name has exactly one meaning here, whatever else the literature calls by
    /// it.
    ///
    /// The canonical ones come first, weakest first; then Elle's further models, with the prefix `elle:`
    /// where a canonical level has the same name and another meaning.
    Level {
        ReadUncommitted "read-uncommitted",
        AdyaReadCommitted "adya-read-committed",
        CutIsolation "cut-isolation",
        ReadCommitted "read-committed",
        ReadYourWrites "read-your-writes",
        MonotonicReads "monotonic-reads",
        MonotonicWrites "monotonic-writes",
        WritesFollowReads "writes-follow-reads",
        ReadAtomic "read-atomic",
        Causal "causal",
        Prefix "prefix",
        ParallelSnapshotIsolation "parallel-snapshot-isolation",
        SnapshotIsolation "snapshot-isolation",
        StrongSessionSnapshotIsolation "strong-session-snapshot-isolation",
        StrongSnapshotIsolation "strong-snapshot-isolation",
        RepeatableRead "repeatable-read",
        UpdateSerializable "update-serializable",
        Serializable "serializable",
        StrongSessionSerializable "strong-session-serializable",
        StrictSerializable "strict-serializable",
        ElleReadUncommitted "elle:read-uncommitted",
        MonotonicView "monotonic-view",
        CursorStability "cursor-stability",
        ConsistentView "consistent-view",
        ForwardConsistentView "forward-consistent-view",
        MonotonicSnapshotRead "monotonic-snapshot-read",
        MonotonicAtomicView "monotonic-atomic-view",
        ElleReadAtomic "elle:read-atomic",
        UpdateAtomic "update-atomic",
        ElleCausalCerone "elle:causal-cerone",
        EllePrefix "elle:prefix",
        ElleParallelSnapshotIsolation "elle:parallel-snapshot-isolation",
        StrongSessionReadUncommitted "strong-session-read-uncommitted",
        StrongSessionReadCommitted "strong-session-read-committed",
        StrongReadUncommitted "strong-read-uncommitted",
        StrongReadCommitted "strong-read-committed",
        ElleMonotonicReads "elle:monotonic-reads",
        ElleMonotonicWrites "elle:monotonic-writes",
        ElleReadYourWrites "elle:read-your-writes",
        ElleWritesFollowReads "elle:writes-follow-reads",
        Pram "pram",
        ElleCausal "elle:causal",
        Sequential "sequential",
        Linearizable "linearizable",
        ViewSerializable "view-serializable",
        OneCopySerializable "1sr",
        SessionSerializable "session-serializable",
    }
}

/// The kinds of anomaly that say no more than that no order satisfies a level, of levels for which Elle has
/// none:
/// `anomaly.rs` takes them in.
macro_rules! no_orders {
    ($consume:ident! { $($given:tt)* }) => {
        $consume! { { $($given)* }
            PrefixCycleExists "prefix-cycle-exists" "prefix consistency",
            ParallelSnapshotIsolationCycleExists "parallel-snapshot-isolation-cycle-exists"
                "parallel snapshot isolation",
            Pl3uCycleExists "pl-3u-cycle-exists" "update serializability",
            Pl2PlusCycleExists "pl-2+-cycle-exists" "consistent view",
            CutIsolationCycleExists "cut-isolation-cycle-exists" "cut isolation",
            ReadCommittedCycleExists "read-committed-cycle-exists" "read committed",
            ReadYourWritesCycleExists "read-your-writes-cycle-exists" "read your writes",
            MonotonicReadsCycleExists "monotonic-reads-cycle-exists" "monotonic reads",
            MonotonicWritesCycleExists "monotonic-writes-cycle-exists" "monotonic writes",
            WritesFollowReadsCycleExists "writes-follow-reads-cycle-exists" "writes follow reads",
            ReadAtomicCycleExists "read-atomic-cycle-exists" "read atomic",
            CausalCycleExists "causal-cycle-exists" "causal consistency",
        }
    };
}
pub(crate) use no_orders;

pub(crate) static TABLE: &[LevelInfo] = &[
    LevelInfo {
        aliases: &["pc", "prefix-consistency"],
        rung: "prefix",
        session_order: true,
        definition: "Every transaction reads a snapshot that holds a prefix of one commit order, its \
                     session's past included; two transactions with the same snapshot may write the same \
                     key. As dependencies: ((so ∪ wr) ; rw?) ∪ ww is acyclic.",
        source: "Biswas & Enea 2019; Cerone, Bernardi & Gotsman 2015",
        implies: &[L::Causal],
        forbids: &[A::G1Process, A::LongFork, A::PrefixCycle, A::PrefixCycleExists],
        family: Some(Family::Prefix),
        graph: Some(Graph::Prefix),
        no_order: Some(A::PrefixCycleExists),
        explored: true,
        example_accepts: Some("r(x,0) w(x,1) || r(x,0) w(x,2)"),
        example_rejects: Some("w(x,1) || w(y,1) || r(x,1) r(y,0) || r(x,0) r(y,1)"),
        ..LevelInfo::row(L::Prefix)
    },
    LevelInfo {
        aliases: &["psi"],
        rung: "parallel SI",
        session_order: true,
        definition: "Causal, and of two transactions that write the same key one sees the other; snapshots \
                     of different sites may order unrelated commits differently. As dependencies: (so ∪ wr \
                     ∪ ww)+ ; rw? is irreflexive.",
        source: "Sovran et al. 2011; Cerone, Bernardi & Gotsman 2015",
        implies: &[L::Causal],
        forbids: &[A::G1Process, A::GSingleProcess, A::LostUpdate, A::ParallelSnapshotIsolationCycleExists],
        family: Some(Family::Parallel),
        graph: Some(Graph::Follows),
        no_order: Some(A::ParallelSnapshotIsolationCycleExists),
        example_accepts: Some("w(x,1) || w(y,1) || r(x,1) r(y,0) || r(x,0) r(y,1)"),
        example_rejects: Some("r(x,0) w(x,1) || r(x,0) w(x,2)"),
        ..LevelInfo::row(L::ParallelSnapshotIsolation)
    },
    LevelInfo {
        aliases: &["si", "pl-si", "gsi", "generalized-snapshot-isolation"],
        rung: "snapshot isolation",
        elle_name: Some("PL-SI"),
        definition: "Every transaction reads a snapshot of some moment, possibly an old one, and of two \
                     concurrent transactions only one may write a key. Sessions do not matter. As \
                     dependencies: every cycle has two adjacent rw edges.",
        source: "Adya 1999, PL-SI; Elle",
        implies: &[
            L::CutIsolation,
            L::ForwardConsistentView,
            L::MonotonicSnapshotRead,
            L::MonotonicAtomicView,
            L::ElleParallelSnapshotIsolation,
            L::EllePrefix,
        ],
        forbids: &[
            A::Internal,
            A::G1,
            A::GSi,
            A::GNonadjacent,
            A::PlSiCycleExists,
            A::IntStamp,
            A::ExtStamp,
            A::NoConflictStamp,
            A::TimestampOrder,
        ],
        family: Some(Family::Snapshot),
        graph: Some(Graph::Snapshot),
        no_order: Some(A::PlSiCycleExists),
        explored: true,
        example_accepts: Some("r(x,0) w(y,1) || r(y,0) w(x,1)"),
        example_rejects: Some("r(x,0) w(x,1) || r(x,0) w(x,2)"),
        ..LevelInfo::row(L::SnapshotIsolation)
    },
    LevelInfo {
        aliases: &["session-si", "strong-session-si"],
        rung: "snapshot isolation",
        session_order: true,
        elle_name: Some("strong-session-snapshot-isolation"),
        definition: "Snapshot isolation whose snapshots contain everything the session committed before. \
                     Many papers and databases mean this when they say snapshot isolation.",
        source: "Daudjee & Salem 2006; SI of Cerone et al., PolySI and Chronos",
        implies: &[
            L::Prefix,
            L::ParallelSnapshotIsolation,
            L::SnapshotIsolation,
            L::StrongSessionReadCommitted,
        ],
        forbids: &[
            A::Internal,
            A::G1Process,
            A::GNonadjacentProcess,
            A::StrongSessionSnapshotIsolationCycleExists,
            A::SessionStamp,
            A::IntStamp,
            A::ExtStamp,
            A::NoConflictStamp,
            A::TimestampOrder,
        ],
        family: Some(Family::Snapshot),
        graph: Some(Graph::Snapshot),
        no_order: Some(A::StrongSessionSnapshotIsolationCycleExists),
        example_accepts: Some("r(x,0) w(y,1) || r(y,0) w(x,1)"),
        example_rejects: Some("w(x,1); r(x,0)"),
        ..LevelInfo::row(L::StrongSessionSnapshotIsolation)
    },
    LevelInfo {
        aliases: &["strong-si"],
        rung: "snapshot isolation",
        session_order: true,
        real_time: true,
        elle_name: Some("strong-snapshot-isolation"),
        definition: "Snapshot isolation whose snapshots contain everything that had committed, anywhere, \
                     when the transaction began.",
        source: "Daudjee & Salem 2006; Elle",
        implies: &[L::StrongReadCommitted, L::StrongSessionSnapshotIsolation],
        forbids: &[
            A::Internal,
            A::G1Realtime,
            A::GNonadjacentRealtime,
            A::StrongSnapshotIsolationCycleExists,
        ],
        family: Some(Family::Snapshot),
        graph: Some(Graph::Snapshot),
        no_order: Some(A::StrongSnapshotIsolationCycleExists),
        example_rejects: Some("w(x,1); r(x,0)"),
        ..LevelInfo::row(L::StrongSnapshotIsolation)
    },
    LevelInfo {
        aliases: &["rr", "pl-2.99"],
        rung: "repeatable read",
        elle_name: Some("PL-2.99"),
        definition: "Serializable as far as single keys are concerned; only what a predicate or a range \
                     selects may change under a transaction. Without predicates it is serializable. \
                     Sessions do not matter.",
        source: "Adya 1999, PL-2.99",
        implies: &[L::CutIsolation, L::CursorStability, L::MonotonicAtomicView],
        forbids: &[A::G1, A::G2Item, A::Pl299CycleExists, A::LostUpdate, A::Internal],
        graph: Some(Graph::Items),
        without_predicates: Some(L::Serializable),
        example_accepts: Some("w(x,1); r(x,0)"),
        example_rejects: Some("r(x,0) w(y,1) || r(y,0) w(x,1)"),
        ..LevelInfo::row(L::RepeatableRead)
    },
    LevelInfo {
        aliases: &["pl-3u"],
        rung: "update serializable",
        elle_name: Some("PL-3U"),
        definition: "The transactions that write are serializable, and stay so when any one read-only \
                     transaction joins them; two read-only transactions may disagree about the order. \
                     Sessions do not matter.",
        source: "Adya 1999, PL-3U; Garcia-Molina & Wiederhold 1982",
        implies: &[L::ForwardConsistentView],
        forbids: &[A::G1, A::GUpdate, A::Internal, A::Pl3uCycleExists],
        family: Some(Family::Updates),
        graph: Some(Graph::Follows),
        no_order: Some(A::Pl3uCycleExists),
        example_accepts: Some("w(x,1) || w(y,1) || r(x,1) r(y,0) || r(x,0) r(y,1)"),
        example_rejects: Some("r(x,0) w(y,1) || r(y,0) w(x,1)"),
        ..LevelInfo::row(L::UpdateSerializable)
    },
    LevelInfo {
        aliases: &["ser", "pl-3", "conflict-serializable"],
        rung: "serializable",
        elle_name: Some("PL-3"),
        definition: "All committed transactions could have run one after another, in some order, with the \
                     same results. The order may contradict sessions and clocks.",
        source: "Adya 1999, PL-3; Papadimitriou 1979",
        implies: &[L::RepeatableRead, L::UpdateSerializable, L::SnapshotIsolation, L::ViewSerializable],
        forbids: &[
            A::G1,
            A::G2,
            A::PredicateReadMiss,
            A::Pl3CycleExists,
            A::Internal,
            A::IntStamp,
            A::ExtCommit,
        ],
        family: Some(Family::Serial),
        graph: Some(Graph::Serial),
        // Found without predicates, so that it refutes repeatable read as well.
        no_order: Some(A::Pl299CycleExists),
        explored: true,
        example_accepts: Some("w(x,1); r(x,0)"),
        example_rejects: Some("r(x,0) w(y,1) || r(y,0) w(x,1)"),
        ..LevelInfo::row(L::Serializable)
    },
    LevelInfo {
        aliases: &["session-ser", "strong-session-ser"],
        rung: "serializable",
        session_order: true,
        elle_name: Some("strong-session-serializable"),
        definition: "Serializable in an order that keeps every session's transactions in sequence.",
        source: "Daudjee & Salem 2004; SER of Biswas & Enea and of Cobra",
        implies: &[L::Serializable, L::StrongSessionSnapshotIsolation],
        forbids: &[
            A::G1Process,
            A::G2Process,
            A::StrongSessionSerializableCycleExists,
            A::SessionCommit,
            A::IntStamp,
            A::ExtCommit,
        ],
        family: Some(Family::Serial),
        graph: Some(Graph::Serial),
        no_order: Some(A::StrongSessionSerializableCycleExists),
        example_accepts: Some("w(x,1); r(x,1) w(x,2)"),
        example_rejects: Some("w(y,1); r(x,0) || r(y,0) w(x,1)"),
        ..LevelInfo::row(L::StrongSessionSerializable)
    },
    LevelInfo {
        aliases: &["strong-serializable", "strict-ser", "pl-ss", "sser"],
        rung: "serializable",
        session_order: true,
        real_time: true,
        elle_name: Some("PL-SS"),
        definition: "Serializable in an order in which a transaction that ended before another began comes \
                     first.",
        source: "Papadimitriou 1979; Herlihy & Wing 1990; Elle",
        implies: &[
            L::Serializable,
            L::SnapshotIsolation,
            L::Linearizable,
            L::SessionSerializable,
            L::StrongSessionSerializable,
            L::StrongSnapshotIsolation,
        ],
        forbids: &[A::G1, A::G1cRealtime, A::G2Realtime, A::PlSsCycleExists],
        family: Some(Family::Serial),
        graph: Some(Graph::Serial),
        no_order: Some(A::PlSsCycleExists),
        example_rejects: Some("w(x,1); r(x,0)"),
        ..LevelInfo::row(L::StrictSerializable)
    },
];
