//! Elle's further models, with Elle's meanings, Elle's implications and Elle's proscribed anomalies.
//!
//! Elle can tell most of them from read committed only through a few anomalies (`internal`, `lost-update`
//! …), so their definitions here say what Elle looks for, not what the name promises elsewhere. The last
//! eleven have no proscribed anomaly at all: they are names, and are decided only when something that
//! implies them holds.

use super::{Graph, Level, LevelInfo};
use crate::anomaly::AnomalyKind as A;
use Level as L;

const ELLE: &str = "Elle, consistency models";

const fn name_only(level: Level, elle_name: &'static str, implies: &'static [Level]) -> LevelInfo {
    LevelInfo {
        elle_name: Some(elle_name),
        name_only: true,
        definition: "A name in Elle's lattice without anything that Elle could look for; unknown unless a \
                     stronger level holds.",
        source: ELLE,
        implies,
        ..LevelInfo::row(level)
    }
}

pub(crate) static TABLE: &[LevelInfo] = &[
    LevelInfo {
        elle_name: Some("PL-1"),
        definition: "Read uncommitted as Elle checks it: besides interleaved writes, no element twice in a \
                     list and no cycle in the inferred versions of a key.",
        source: ELLE,
        implies: &[L::ReadUncommitted],
        forbids: &[A::G0, A::DuplicateElements, A::CyclicVersions, A::Pl1CycleExists],
        graph: Some(Graph::Writes),
        ..LevelInfo::row(L::ElleReadUncommitted)
    },
    LevelInfo {
        aliases: &["pl-2l"],
        elle_name: Some("PL-2L"),
        definition: "Once a transaction has seen another's effects it goes on seeing them, read by read.",
        source: "Adya 1999, PL-2L",
        implies: &[L::AdyaReadCommitted],
        forbids: &[A::G1, A::GMonotonic],
        ..LevelInfo::row(L::MonotonicView)
    },
    LevelInfo {
        aliases: &["pl-cs"],
        elle_name: Some("PL-CS"),
        definition: "A value read through a cursor and then written has not changed in between: no update \
                     is lost.",
        source: "Adya 1999, PL-CS",
        implies: &[L::AdyaReadCommitted],
        forbids: &[A::G1, A::GCursor, A::LostUpdate],
        ..LevelInfo::row(L::CursorStability)
    },
    LevelInfo {
        aliases: &["pl-2+"],
        elle_name: Some("PL-2+"),
        definition: "What a transaction reads is consistent: no cycle with exactly one anti-dependency.",
        source: "Adya 1999, PL-2+",
        implies: &[L::MonotonicView, L::CursorStability],
        forbids: &[A::G1, A::GSingle, A::Pl2PlusCycleExists],
        graph: Some(Graph::Follows),
        no_order: Some(A::Pl2PlusCycleExists),
        ..LevelInfo::row(L::ConsistentView)
    },
    LevelInfo {
        aliases: &["pl-fcv"],
        elle_name: Some("PL-FCV"),
        definition: "Consistent view of a state that may contain more than had committed at the \
                     transaction's start. Of a history that does not say when transactions started, this is \
                     consistent view.",
        source: "Adya 1999, PL-FCV",
        implies: &[L::ConsistentView],
        forbids: &[A::G1, A::GSib],
        graph: Some(Graph::Follows),
        ..LevelInfo::row(L::ForwardConsistentView)
    },
    LevelInfo {
        aliases: &["pl-msr"],
        elle_name: Some("PL-MSR"),
        definition: "Every single operation reads a snapshot, and later operations read no older ones. Of a \
                     history that does not say when operations began: for some order of beginnings.",
        source: "Adya 1999, PL-MSR",
        implies: &[L::AdyaReadCommitted],
        forbids: &[A::G1, A::GMsr],
        ..LevelInfo::row(L::MonotonicSnapshotRead)
    },
    LevelInfo {
        aliases: &["mav"],
        elle_name: Some("monotonic-atomic-view"),
        definition: "Having read one of a transaction's writes, a reader sees all of them from then on. \
                     Elle looks for nothing beyond PL-2, and neither does this name; read-committed is the level \
                     that checks it.",
        source: "Bailis et al. 2013; Elle",
        implies: &[L::AdyaReadCommitted],
        graph: Some(Graph::Flow),
        ..LevelInfo::row(L::MonotonicAtomicView)
    },
    LevelInfo {
        elle_name: Some("read-atomic"),
        definition: "Read atomic as Elle checks it: PL-2 and no contradiction inside a transaction.",
        source: ELLE,
        implies: &[L::MonotonicAtomicView],
        forbids: &[A::Internal, A::G1a, A::ElleFutureRead],
        graph: Some(Graph::Flow),
        ..LevelInfo::row(L::ElleReadAtomic)
    },
    LevelInfo {
        elle_name: Some("update-atomic"),
        definition: "Elle's read atomic without lost updates.",
        source: "Cerone, Bernardi & Gotsman 2015; Elle",
        implies: &[L::ElleReadAtomic],
        forbids: &[A::LostUpdate],
        graph: Some(Graph::Flow),
        ..LevelInfo::row(L::UpdateAtomic)
    },
    LevelInfo {
        elle_name: Some("causal-cerone"),
        definition: "Causal consistency as Elle checks it: nothing beyond Elle's read atomic.",
        source: ELLE,
        implies: &[L::ElleReadAtomic],
        forbids: &[A::Internal, A::G1a],
        graph: Some(Graph::Flow),
        ..LevelInfo::row(L::ElleCausalCerone)
    },
    LevelInfo {
        elle_name: Some("prefix"),
        definition: "Prefix consistency as Elle checks it: nothing beyond Elle's read atomic.",
        source: ELLE,
        implies: &[L::ElleCausalCerone],
        forbids: &[A::Internal, A::G1a],
        graph: Some(Graph::Flow),
        ..LevelInfo::row(L::EllePrefix)
    },
    LevelInfo {
        elle_name: Some("parallel-snapshot-isolation"),
        definition: "Parallel snapshot isolation as Elle checks it: Elle's read atomic without lost \
                     updates.",
        source: ELLE,
        implies: &[L::ElleCausalCerone, L::UpdateAtomic],
        forbids: &[A::Internal, A::G1a],
        graph: Some(Graph::Flow),
        ..LevelInfo::row(L::ElleParallelSnapshotIsolation)
    },
    LevelInfo {
        aliases: &["strong-session-pl-1"],
        rung: "read uncommitted",
        session_order: true,
        elle_name: Some("strong-session-PL-1"),
        definition: "Writes do not interleave, and keep session order.",
        source: ELLE,
        implies: &[L::ElleReadUncommitted],
        forbids: &[A::StrongSessionPl1CycleExists, A::G0Process],
        graph: Some(Graph::Writes),
        ..LevelInfo::row(L::StrongSessionReadUncommitted)
    },
    LevelInfo {
        aliases: &["strong-session-pl-2"],
        rung: "read committed",
        session_order: true,
        elle_name: Some("strong-session-PL-2"),
        definition: "PL-2, and information does not flow in circles through session order either.",
        source: ELLE,
        implies: &[L::AdyaReadCommitted, L::StrongSessionReadUncommitted],
        forbids: &[A::StrongSessionPl2CycleExists, A::G1cProcess],
        graph: Some(Graph::Flow),
        ..LevelInfo::row(L::StrongSessionReadCommitted)
    },
    LevelInfo {
        aliases: &["strong-pl-1"],
        rung: "read uncommitted",
        session_order: true,
        real_time: true,
        elle_name: Some("strong-PL-1"),
        definition: "Writes do not interleave, and keep the order of real time.",
        source: ELLE,
        implies: &[L::StrongSessionReadUncommitted],
        forbids: &[A::StrongPl1CycleExists, A::G0Realtime],
        graph: Some(Graph::Writes),
        ..LevelInfo::row(L::StrongReadUncommitted)
    },
    LevelInfo {
        aliases: &["strong-pl-2"],
        rung: "read committed",
        session_order: true,
        real_time: true,
        elle_name: Some("strong-PL-2"),
        definition: "PL-2, and information does not flow back in time.",
        source: ELLE,
        implies: &[L::StrongReadUncommitted, L::StrongSessionReadCommitted],
        forbids: &[A::StrongPl2CycleExists, A::G1cRealtime],
        graph: Some(Graph::Flow),
        ..LevelInfo::row(L::StrongReadCommitted)
    },
    name_only(L::ElleMonotonicReads, "monotonic-reads", &[]),
    name_only(L::ElleMonotonicWrites, "monotonic-writes", &[]),
    name_only(L::ElleReadYourWrites, "read-your-writes", &[]),
    name_only(L::ElleWritesFollowReads, "writes-follow-reads", &[]),
    name_only(L::Pram, "PRAM", &[L::ElleMonotonicReads, L::ElleMonotonicWrites, L::ElleReadYourWrites]),
    name_only(L::ElleCausal, "causal", &[L::Pram, L::ElleWritesFollowReads]),
    name_only(L::Sequential, "sequential", &[L::ElleCausal]),
    name_only(L::Linearizable, "linearizable", &[L::Sequential]),
    name_only(L::ViewSerializable, "view-serializable", &[]),
    name_only(L::OneCopySerializable, "1SR", &[]),
    name_only(L::SessionSerializable, "session-serializable", &[L::OneCopySerializable]),
];
