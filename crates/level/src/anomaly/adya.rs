//! Adya's phenomena, as Elle names them.
//!
//! A cycle is filed by its anti-dependencies (`rw`): none, one, several of which no two are adjacent,
//! several of which two are; and whether one of them is about a predicate. Elle's plain `G-single`,
//! `G-nonadjacent` and `G2` are the predicate halves and imply what the `-item` halves imply; as a
//! statement about levels they stand for both.

use super::{AnomalyInfo, AnomalyKind};
use crate::level::Level as L;
use AnomalyKind as A;

const ADYA: &str = "Adya 1999; Elle (Kingsbury & Alvaro 2020)";
pub(super) const PER_COMPONENT: &str = "one strongly connected component that contains such a cycle";
pub(super) const PER_ANTI: &str = "one rw edge that a path of other edges closes to a cycle";

pub(crate) static TABLE: [AnomalyInfo; 11] = [
    AnomalyInfo {
        code: "G0",
        aliases: &["dirty-write"],
        everyday: "dirty write",
        definition: "A cycle of ww edges alone: each transaction overwrote the next.",
        instance: PER_COMPONENT,
        source: ADYA,
        implies: &[A::G1c, A::G0Process],
        elle_rules_out: &[L::ElleReadUncommitted],
        example: Some("a(x,1) a(y,1) || a(x,2) a(y,2) || r(x,[1 2]) r(y,[2 1])"),
        ..AnomalyInfo::row(A::G0)
    },
    AnomalyInfo {
        code: "G1a",
        aliases: &["dirty-read"],
        everyday: "aborted read",
        definition: "A committed transaction read something that an aborted one wrote.",
        instance: "one read and one aborted value in it",
        source: ADYA,
        implies: &[A::G1],
        elle_rules_out: &[L::AdyaReadCommitted],
        example: Some("a(x,1) !abort || r(x,[1])"),
        ..AnomalyInfo::row(A::G1a)
    },
    AnomalyInfo {
        code: "G1b",
        everyday: "intermediate read",
        definition: "A committed transaction read, as the newest version of a key, what its writer went on \
                     to replace.",
        instance: "one read",
        source: ADYA,
        implies: &[A::G1],
        elle_rules_out: &[L::AdyaReadCommitted],
        example: Some("a(x,1) a(x,2) || r(x,[1])"),
        ..AnomalyInfo::row(A::G1b)
    },
    AnomalyInfo {
        code: "G1c",
        everyday: "circular information flow",
        definition: "A cycle of ww and wr edges with at least one wr: transactions saw each other's \
                     effects.",
        instance: PER_COMPONENT,
        source: ADYA,
        implies: &[A::G1, A::G1cProcess],
        elle_rules_out: &[L::AdyaReadCommitted],
        example: Some("a(x,1) r(y,[1]) || a(y,1) r(x,[1])"),
        ..AnomalyInfo::row(A::G1c)
    },
    AnomalyInfo {
        code: "G1",
        definition: "Any of G1a, G1b and G1c. Never reported itself.",
        source: ADYA,
        implies: &[A::G1Process],
        elle_rules_out: &[L::AdyaReadCommitted],
        ..AnomalyInfo::row(A::G1)
    },
    AnomalyInfo {
        code: "G-single-item",
        everyday: "read skew",
        definition: "A cycle with exactly one rw edge, about a single key: a transaction saw some effects \
                     of another and missed others.",
        instance: PER_ANTI,
        source: ADYA,
        implies: &[A::GSingle, A::GSingleItemProcess, A::GNonadjacentItem],
        elle_rules_out: &[L::ConsistentView, L::RepeatableRead],
        example: Some("a(x,1) a(y,1) || r(x,[]) r(y,[1])"),
        ..AnomalyInfo::row(A::GSingleItem)
    },
    AnomalyInfo {
        code: "G-single",
        everyday: "read skew",
        definition: "A cycle with exactly one rw edge. Elle files here only those whose rw edge is about a \
                     predicate.",
        instance: PER_ANTI,
        source: ADYA,
        implies: &[A::GNonadjacent, A::Gsib, A::GSingleProcess],
        elle_rules_out: &[L::ConsistentView],
        example: Some("a(x,1) a(y,1) || r(x,[]) r(y,[1])"),
        ..AnomalyInfo::row(A::GSingle)
    },
    AnomalyInfo {
        code: "G-nonadjacent-item",
        everyday: "long fork",
        definition: "A cycle with two or more rw edges about single keys, no two of them adjacent: readers \
                     disagree on the order of commits.",
        instance: PER_COMPONENT,
        source: "Elle (Kingsbury & Alvaro 2020); Cerone & Gotsman 2018",
        implies: &[A::GNonadjacent, A::G2Item, A::GNonadjacentItemProcess],
        elle_rules_out: &[L::RepeatableRead, L::SnapshotIsolation],
        example: Some("a(x,1) || a(y,1) || r(x,[1]) r(y,[]) || r(x,[]) r(y,[1])"),
        ..AnomalyInfo::row(A::GNonadjacentItem)
    },
    AnomalyInfo {
        code: "G-nonadjacent",
        everyday: "long fork",
        definition: "A cycle with two or more rw edges, no two of them adjacent. Elle files here only \
                     those with an rw edge about a predicate.",
        instance: PER_COMPONENT,
        source: "Elle (Kingsbury & Alvaro 2020); Cerone & Gotsman 2018",
        implies: &[A::G2, A::GNonadjacentProcess],
        elle_rules_out: &[L::SnapshotIsolation],
        example: Some("a(x,1) || a(y,1) || r(x,[1]) r(y,[]) || r(x,[]) r(y,[1])"),
        ..AnomalyInfo::row(A::GNonadjacent)
    },
    AnomalyInfo {
        code: "G2-item",
        everyday: "write skew",
        definition: "A cycle with two adjacent rw edges, all about single keys: each of two transactions \
                     missed a write of the next.",
        instance: PER_COMPONENT,
        source: ADYA,
        implies: &[A::G2, A::G2ItemProcess],
        elle_rules_out: &[L::RepeatableRead],
        example: Some("r(x,[]) a(y,1) || r(y,[]) a(x,1)"),
        ..AnomalyInfo::row(A::G2Item)
    },
    AnomalyInfo {
        code: "G2",
        aliases: &["phantom"],
        everyday: "phantom",
        definition: "A cycle with two adjacent rw edges, one of the rw edges about a predicate: a \
                     transaction missed a row that its condition should have found.",
        instance: PER_COMPONENT,
        source: ADYA,
        implies: &[A::G2Process],
        elle_rules_out: &[L::Serializable],
        ..AnomalyInfo::row(A::G2)
    },
];
