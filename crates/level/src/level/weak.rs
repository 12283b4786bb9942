//! The levels that Anomalist decides below prefix consistency, weakest first.
//!
//! Words used throughout: `so` is session order, `wr` goes from a write to who read it, `hb` is the
//! transitive closure of both; `ww` orders the writers of a key, `rw` goes from a reader to the writer that
//! replaced what it read. *The axiom* of a weak level (Biswas & Enea 2019): there is a commit order that
//! contains `hb` in which, whenever a transaction reads `x` from `t1` and another writer `t2` of `x` is
//! visible to that read, `t2` comes before `t1`. Levels differ in what they call visible.

use super::{Family, Graph, Level as L, LevelInfo, Visible};
use crate::anomaly::AnomalyKind as A;

/// Reads that every axiom about reads forbids, whatever the order.
macro_rules! sound_reads {
    ($($more:ident),*) => {
        &[
            A::ThinAirRead,
            A::AbortedRead,
            A::FutureRead,
            A::NotMyOwnWrite,
            A::NotMyLastWrite,
            A::IntermediateRead,
            A::CyclicCo,
            A::G1cProcess,
            A::IncompatibleOrder,
            A::DuplicateElements,
            $(A::$more),*
        ]
    };
}

pub(crate) static TABLE: &[LevelInfo] = &[
    LevelInfo {
        aliases: &["pl-1", "ru"],
        rung: "read uncommitted",
        definition: "Writes do not interleave: no cycle of transactions each of which overwrote what the \
                     one before it wrote.",
        source: "Adya 1999, PL-1",
        forbids: &[A::G0, A::Pl1CycleExists],
        family: Some(Family::Writes),
        graph: Some(Graph::Writes),
        no_order: Some(A::Pl1CycleExists),
        example_accepts: Some("w(x,1) !abort || r(x,1)"),
        example_rejects: Some("a(x,1) a(y,1) || a(x,2) a(y,2) || r(x,[1 2]) r(y,[2 1])"),
        ..LevelInfo::row(L::ReadUncommitted)
    },
    LevelInfo {
        aliases: &["pl-2", "adya-rc", "elle:read-committed"],
        rung: "read committed",
        elle_name: Some("PL-2"),
        definition: "Transactions read only final values of committed transactions, and information does \
                     not flow in circles. Unlike read-committed, a transaction may see the newer of two \
                     commits first and the older one later.",
        source: "Adya 1999, PL-2",
        implies: &[L::ElleReadUncommitted],
        forbids: &[A::G1, A::Pl2CycleExists],
        family: Some(Family::Flow),
        graph: Some(Graph::Flow),
        no_order: Some(A::Pl2CycleExists),
        example_accepts: Some("w(x,1) w(y,1) || r(y,1) r(x,0)"),
        example_rejects: Some("w(x,1) w(x,2) || r(x,1)"),
        ..LevelInfo::row(L::AdyaReadCommitted)
    },
    LevelInfo {
        aliases: &["ci", "item-cut-isolation"],
        rung: "cut isolation",
        definition: "A transaction that reads a key more than once, without writing it, gets the same \
                     answer each time. Promises nothing about who wrote that answer.",
        source: "Bailis et al. 2013; Plume, Theorem 2",
        in_plume: Some("reads after an own write of the key count too, if they return others' values"),
        forbids: &[A::NonRepeatableRead, A::CutIsolationCycleExists],
        family: Some(Family::Cut),
        no_order: Some(A::CutIsolationCycleExists),
        example_accepts: Some("w(x,1) w(y,1) || r(x,0) r(y,1)"),
        example_rejects: Some("w(x,1) || w(x,2) || r(x,1) r(x,2)"),
        ..LevelInfo::row(L::CutIsolation)
    },
    LevelInfo {
        aliases: &["rc"],
        rung: "read committed",
        session_order: true,
        definition: "Transactions read only final values of committed transactions, their own writes \
                     first, and never step back: after reading anything from a transaction, they do not \
                     read what it had already replaced. In the axiom, visible means read from earlier in \
                     the same transaction.",
        source: "Biswas & Enea 2019; Plume, Theorem 3",
        in_plume: Some(
            "only what was read of another key makes a transaction visible (RC-(4), y ≠ x): reading one key \
             from two transactions, the newer first, does not break it",
        ),
        implies: &[L::AdyaReadCommitted],
        forbids: sound_reads!(NonMonoReadCo, NonMonoReadCm, ReadCommittedCycleExists),
        family: Some(Family::Visible(Visible::ReadCommitted)),
        graph: Some(Graph::Follows),
        no_order: Some(A::ReadCommittedCycleExists),
        explored: true,
        example_accepts: Some("w(x,1) || r(x,0) r(x,1)"),
        example_rejects: Some("w(x,1); w(x,2) w(y,1) || r(y,1) r(x,1)"),
        ..LevelInfo::row(L::ReadCommitted)
    },
    LevelInfo {
        aliases: &["ryw"],
        rung: "session guarantees",
        session_order: true,
        definition: "A session's reads take account of what the session itself wrote before. In the axiom, \
                     visible means earlier in the reader's session (so).",
        source: "Terry et al. 1994, for transactions",
        forbids: sound_reads!(NotReadYourWrites, ReadYourWritesCycleExists),
        family: Some(Family::Visible(Visible::ReadYourWrites)),
        no_order: Some(A::ReadYourWritesCycleExists),
        example_accepts: Some("w(x,1) || r(x,1); r(x,0)"),
        example_rejects: Some("w(x,1); r(x,0)"),
        ..LevelInfo::row(L::ReadYourWrites)
    },
    LevelInfo {
        aliases: &["mr"],
        rung: "session guarantees",
        session_order: true,
        definition: "What a session has once seen it does not unsee. In the axiom, visible means read by \
                     an earlier transaction of the reader's session (wr, then so).",
        source: "Terry et al. 1994, for transactions",
        forbids: sound_reads!(NonMonotonicReads, MonotonicReadsCycleExists),
        family: Some(Family::Visible(Visible::MonotonicReads)),
        no_order: Some(A::MonotonicReadsCycleExists),
        example_accepts: Some("w(x,1); r(x,0)"),
        example_rejects: Some("w(x,1) || r(x,1); r(x,0)"),
        ..LevelInfo::row(L::MonotonicReads)
    },
    LevelInfo {
        aliases: &["mw"],
        rung: "session guarantees",
        session_order: true,
        definition: "Everybody sees the writes of a session in the order in which the session made them. \
                     In the axiom, visible means earlier in the session of a transaction the reader read \
                     from (so, then wr).",
        source: "Terry et al. 1994, for transactions",
        forbids: sound_reads!(NonMonotonicWrites, MonotonicWritesCycleExists),
        family: Some(Family::Visible(Visible::MonotonicWrites)),
        no_order: Some(A::MonotonicWritesCycleExists),
        example_accepts: Some("w(x,1); r(x,0)"),
        example_rejects: Some("w(x,1); w(y,1) || r(y,1) r(x,0)"),
        ..LevelInfo::row(L::MonotonicWrites)
    },
    LevelInfo {
        aliases: &["wfr"],
        rung: "session guarantees",
        session_order: true,
        definition: "A write is seen only together with what its session had read before making it. In the \
                     axiom, visible means read earlier in the session of a transaction the reader read \
                     from (wr, so, then wr).",
        source: "Terry et al. 1994, for transactions",
        forbids: sound_reads!(WritesDontFollowReads, WritesFollowReadsCycleExists),
        family: Some(Family::Visible(Visible::WritesFollowReads)),
        no_order: Some(A::WritesFollowReadsCycleExists),
        example_accepts: Some("w(x,1); w(y,1) || r(y,1) r(x,0)"),
        example_rejects: Some("w(x,1) || r(x,1); w(y,1) || r(y,1) r(x,0)"),
        ..LevelInfo::row(L::WritesFollowReads)
    },
    LevelInfo {
        aliases: &["ra", "atomic-visibility"],
        rung: "read atomic",
        session_order: true,
        definition: "A transaction sees all of another's writes or none of them, in whatever order it \
                     reads, and repeats its reads. In the axiom, visible means earlier in the reader's \
                     session, or read from at any point.",
        source: "Biswas & Enea 2019; Plume, Theorem 4",
        in_plume: Some(
            "the same axiom (Definition 5), but its patterns TAP-k and TAP-l need two keys, so Theorem 4 misses \
             histories of one key",
        ),
        implies: &[L::ReadCommitted, L::CutIsolation, L::ReadYourWrites],
        forbids: &[
            A::NonRepeatableRead,
            A::FracturedReadCo,
            A::FracturedReadCm,
            A::Internal,
            A::ReadAtomicCycleExists,
        ],
        family: Some(Family::Visible(Visible::ReadAtomic)),
        graph: Some(Graph::Follows),
        no_order: Some(A::ReadAtomicCycleExists),
        explored: true,
        example_accepts: Some("w(x,1) || r(x,1); r(x,0)"),
        example_rejects: Some("w(x,1) w(y,1) || r(x,0) r(y,1)"),
        ..LevelInfo::row(L::ReadAtomic)
    },
    LevelInfo {
        aliases: &["tcc", "cc", "causal-cerone", "transactional-causal-consistency"],
        rung: "causal",
        session_order: true,
        definition: "A transaction that sees an effect sees its causes, and all agree on one winner among concurrent \
                     writes. In the axiom, visible means connected to the reader by any chain of session \
                     order and reads (hb).",
        source: "Biswas & Enea 2019; Plume, Theorem 5",
        implies: &[L::ReadAtomic, L::MonotonicReads, L::MonotonicWrites, L::WritesFollowReads],
        forbids: &[A::CoConflictCm, A::ConflictCm, A::CausalCycleExists],
        family: Some(Family::Visible(Visible::Causal)),
        graph: Some(Graph::Follows),
        no_order: Some(A::CausalCycleExists),
        explored: true,
        example_accepts: Some("r(x,0) w(x,1) || r(x,0) w(x,2)"),
        example_rejects: Some("w(x,1) || r(x,1); r(x,0)"),
        ..LevelInfo::row(L::Causal)
    },
];
