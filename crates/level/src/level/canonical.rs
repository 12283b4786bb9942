//! The twenty levels that Anomalist decides, weakest first.
//!
//! Words used throughout: `so` is session order, `wr` goes from a write to who read it, `hb` is the transitive
//! closure of both; `ww` orders the writers of a key, `rw` goes from a reader to the writer that replaced what it
//! read. *The axiom* of a weak level (Biswas & Enea 2019): there is a commit order that contains `hb` in which,
//! whenever a transaction reads `x` from `t1` and another writer `t2` of `x` is visible to that read, `t2` comes
//! before `t1`. Levels differ in what they call visible.
//!
//! Implications between canonical levels are those of the product's contract; those to Elle's models are Elle's own.

use super::{Level, LevelInfo};
use crate::anomaly::AnomalyKind as A;
use Level as L;

pub(crate) static TABLE: [LevelInfo; 20] = [
    LevelInfo {
        aliases: &["pl-1", "ru"],
        definition: "Writes do not interleave: no cycle of transactions each of which overwrote what the \
                     one before it wrote.",
        source: "Adya 1999, PL-1",
        forbids: &[A::G0, A::Pl1CycleExists],
        example_accepts: Some("w(x,1) !abort || r(x,1)"),
        example_rejects: Some("a(x,1) a(y,1) || a(x,2) a(y,2) || r(x,[1 2]) r(y,[2 1])"),
        ..LevelInfo::row(L::ReadUncommitted)
    },
    LevelInfo {
        aliases: &["pl-2", "adya-rc", "elle:read-committed"],
        elle_name: Some("PL-2"),
        definition: "Transactions read only final values of committed transactions, and information does \
                     not flow in circles. Unlike read-committed, a transaction may see the newer of two \
                     commits first and the older one later.",
        source: "Adya 1999, PL-2",
        implies: &[L::ElleReadUncommitted],
        forbids: &[A::G1, A::Pl2CycleExists],
        example_accepts: Some("w(x,1) w(y,1) || r(y,1) r(x,0)"),
        example_rejects: Some("w(x,1) w(x,2) || r(x,1)"),
        ..LevelInfo::row(L::AdyaReadCommitted)
    },
    LevelInfo {
        aliases: &["ci", "item-cut-isolation"],
        definition: "A transaction that reads a key more than once, without writing it, gets the same \
                     answer each time. Promises nothing about who wrote that answer.",
        source: "Bailis et al. 2013; Plume, Theorem 2",
        in_plume: Some("reads after an own write of the key count too, if they return others' values"),
        forbids: &[A::NonRepeatableRead, A::CutIsolationCycleExists],
        example_accepts: Some("w(x,1) w(y,1) || r(x,0) r(y,1)"),
        example_rejects: Some("w(x,1) || w(x,2) || r(x,1) r(x,2)"),
        ..LevelInfo::row(L::CutIsolation)
    },
    LevelInfo {
        aliases: &["rc"],
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
        forbids: &[
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
            A::NonMonoReadCo,
            A::NonMonoReadCm,
            A::ReadCommittedCycleExists,
        ],
        example_accepts: Some("w(x,1) || r(x,0) r(x,1)"),
        example_rejects: Some("w(x,1); w(x,2) w(y,1) || r(y,1) r(x,1)"),
        ..LevelInfo::row(L::ReadCommitted)
    },
    LevelInfo {
        aliases: &["ryw"],
        session_order: true,
        definition: "A session's reads take account of what the session itself wrote before. In the axiom, \
                     visible means earlier in the reader's session (so).",
        source: "Terry et al. 1994, for transactions",
        forbids: &[
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
            A::NotReadYourWrites,
            A::ReadYourWritesCycleExists,
        ],
        example_accepts: Some("w(x,1) || r(x,1); r(x,0)"),
        example_rejects: Some("w(x,1); r(x,0)"),
        ..LevelInfo::row(L::ReadYourWrites)
    },
    LevelInfo {
        aliases: &["mr"],
        session_order: true,
        definition: "What a session has once seen it does not unsee. In the axiom, visible means read by \
                     an earlier transaction of the reader's session (wr, then so).",
        source: "Terry et al. 1994, for transactions",
        forbids: &[
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
            A::NonMonotonicReads,
            A::MonotonicReadsCycleExists,
        ],
        example_accepts: Some("w(x,1); r(x,0)"),
        example_rejects: Some("w(x,1) || r(x,1); r(x,0)"),
        ..LevelInfo::row(L::MonotonicReads)
    },
    LevelInfo {
        aliases: &["mw"],
        session_order: true,
        definition: "Everybody sees the writes of a session in the order in which the session made them. \
                     In the axiom, visible means earlier in the session of a transaction the reader read \
                     from (so, then wr).",
        source: "Terry et al. 1994, for transactions",
        forbids: &[
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
            A::NonMonotonicWrites,
            A::MonotonicWritesCycleExists,
        ],
        example_accepts: Some("w(x,1); r(x,0)"),
        example_rejects: Some("w(x,1); w(y,1) || r(y,1) r(x,0)"),
        ..LevelInfo::row(L::MonotonicWrites)
    },
    LevelInfo {
        aliases: &["wfr"],
        session_order: true,
        definition: "A write is seen only together with what its session had read before making it. In the \
                     axiom, visible means read earlier in the session of a transaction the reader read \
                     from (wr, so, then wr).",
        source: "Terry et al. 1994, for transactions",
        forbids: &[
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
            A::WritesDontFollowReads,
            A::WritesFollowReadsCycleExists,
        ],
        example_accepts: Some("w(x,1); w(y,1) || r(y,1) r(x,0)"),
        example_rejects: Some("w(x,1) || r(x,1); w(y,1) || r(y,1) r(x,0)"),
        ..LevelInfo::row(L::WritesFollowReads)
    },
    LevelInfo {
        aliases: &["ra", "atomic-visibility"],
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
        example_accepts: Some("w(x,1) || r(x,1); r(x,0)"),
        example_rejects: Some("w(x,1) w(y,1) || r(x,0) r(y,1)"),
        ..LevelInfo::row(L::ReadAtomic)
    },
    LevelInfo {
        aliases: &["tcc", "cc", "causal-cerone", "transactional-causal-consistency"],
        session_order: true,
        definition: "Whoever sees an effect sees its causes, and all agree on one winner among concurrent \
                     writes. In the axiom, visible means connected to the reader by any chain of session \
                     order and reads (hb).",
        source: "Biswas & Enea 2019; Plume, Theorem 5",
        implies: &[L::ReadAtomic, L::MonotonicReads, L::MonotonicWrites, L::WritesFollowReads],
        forbids: &[A::CoConflictCm, A::ConflictCm, A::CausalCycleExists],
        example_accepts: Some("r(x,0) w(x,1) || r(x,0) w(x,2)"),
        example_rejects: Some("w(x,1) || r(x,1); r(x,0)"),
        ..LevelInfo::row(L::Causal)
    },
    LevelInfo {
        aliases: &["pc", "prefix-consistency"],
        session_order: true,
        definition: "Every transaction reads a snapshot that holds a prefix of one commit order, its \
                     session's past included; two transactions with the same snapshot may write the same \
                     key. As dependencies: ((so ∪ wr) ; rw?) ∪ ww is acyclic.",
        source: "Biswas & Enea 2019; Cerone, Bernardi & Gotsman 2015",
        implies: &[L::Causal],
        forbids: &[A::G1Process, A::LongFork, A::PrefixCycle, A::PrefixCycleExists],
        example_accepts: Some("r(x,0) w(x,1) || r(x,0) w(x,2)"),
        example_rejects: Some("w(x,1) || w(y,1) || r(x,1) r(y,0) || r(x,0) r(y,1)"),
        ..LevelInfo::row(L::Prefix)
    },
    LevelInfo {
        aliases: &["psi"],
        session_order: true,
        definition: "Causal, and of two transactions that write the same key one sees the other; snapshots \
                     of different sites may order unrelated commits differently. As dependencies: (so ∪ wr \
                     ∪ ww)+ ; rw? is irreflexive.",
        source: "Sovran et al. 2011; Cerone, Bernardi & Gotsman 2015",
        implies: &[L::Causal],
        forbids: &[A::G1Process, A::GSingleProcess, A::LostUpdate, A::ParallelSnapshotIsolationCycleExists],
        example_accepts: Some("w(x,1) || w(y,1) || r(x,1) r(y,0) || r(x,0) r(y,1)"),
        example_rejects: Some("r(x,0) w(x,1) || r(x,0) w(x,2)"),
        ..LevelInfo::row(L::ParallelSnapshotIsolation)
    },
    LevelInfo {
        aliases: &["si", "pl-si", "gsi", "generalized-snapshot-isolation"],
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
        example_accepts: Some("r(x,0) w(y,1) || r(y,0) w(x,1)"),
        example_rejects: Some("r(x,0) w(x,1) || r(x,0) w(x,2)"),
        ..LevelInfo::row(L::SnapshotIsolation)
    },
    LevelInfo {
        aliases: &["session-si", "strong-session-si"],
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
        example_accepts: Some("r(x,0) w(y,1) || r(y,0) w(x,1)"),
        example_rejects: Some("w(x,1); r(x,0)"),
        ..LevelInfo::row(L::StrongSessionSnapshotIsolation)
    },
    LevelInfo {
        aliases: &["strong-si"],
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
        example_rejects: Some("w(x,1); r(x,0)"),
        ..LevelInfo::row(L::StrongSnapshotIsolation)
    },
    LevelInfo {
        aliases: &["rr", "pl-2.99"],
        elle_name: Some("PL-2.99"),
        definition: "Serializable as far as single keys are concerned; only what a predicate or a range \
                     selects may change under a transaction. Without predicates it is serializable. \
                     Sessions do not matter.",
        source: "Adya 1999, PL-2.99",
        implies: &[L::CutIsolation, L::CursorStability, L::MonotonicAtomicView],
        forbids: &[A::G1, A::G2Item, A::Pl299CycleExists, A::LostUpdate, A::Internal],
        example_accepts: Some("w(x,1); r(x,0)"),
        example_rejects: Some("r(x,0) w(y,1) || r(y,0) w(x,1)"),
        ..LevelInfo::row(L::RepeatableRead)
    },
    LevelInfo {
        aliases: &["pl-3u"],
        elle_name: Some("PL-3U"),
        definition: "The transactions that write are serializable, and stay so when any one read-only \
                     transaction joins them; two read-only transactions may disagree about the order. \
                     Sessions do not matter.",
        source: "Adya 1999, PL-3U; Garcia-Molina & Wiederhold 1982",
        implies: &[L::ForwardConsistentView],
        forbids: &[A::G1, A::GUpdate, A::Internal, A::Pl3uCycleExists],
        example_accepts: Some("w(x,1) || w(y,1) || r(x,1) r(y,0) || r(x,0) r(y,1)"),
        example_rejects: Some("r(x,0) w(y,1) || r(y,0) w(x,1)"),
        ..LevelInfo::row(L::UpdateSerializable)
    },
    LevelInfo {
        aliases: &["ser", "pl-3", "conflict-serializable"],
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
        example_accepts: Some("w(x,1); r(x,0)"),
        example_rejects: Some("r(x,0) w(y,1) || r(y,0) w(x,1)"),
        ..LevelInfo::row(L::Serializable)
    },
    LevelInfo {
        aliases: &["session-ser", "strong-session-ser"],
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
        example_accepts: Some("w(x,1); r(x,1) w(x,2)"),
        example_rejects: Some("w(y,1); r(x,0) || r(y,0) w(x,1)"),
        ..LevelInfo::row(L::StrongSessionSerializable)
    },
    LevelInfo {
        aliases: &["strong-serializable", "strict-ser", "pl-ss", "sser"],
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
        example_rejects: Some("w(x,1); r(x,0)"),
        ..LevelInfo::row(L::StrictSerializable)
    },
];
