//! Anomalies seen in the data without a search for cycles, and three cycles that have names of their own.

use super::adya::PER_COMPONENT;
use super::{AnomalyInfo, AnomalyKind};
use crate::level::Level as L;
use AnomalyKind as A;

const ELLE: &str = "Elle (Kingsbury & Alvaro 2020)";

pub(crate) static TABLE: [AnomalyInfo; 12] = [
    AnomalyInfo {
        everyday: "internal inconsistency",
        definition: "A read contradicts what its own transaction had already read from or written to the \
                     key.",
        instance: "one transaction, at its first contradiction",
        source: "Cerone, Bernardi & Gotsman 2015, axiom Int; Elle",
        elle_rules_out: &[L::ElleReadAtomic],
        example: Some("r(x,[]) a(x,1) r(x,[])"),
        ..AnomalyInfo::row(A::Internal)
    },
    AnomalyInfo {
        // TAP-c has the name; this is Elle's word for the same thing in lists.
        code: "future-read",
        everyday: "read from the future",
        definition: "A list read contains an element that the same transaction appends only later.",
        instance: "one transaction, at its first such read",
        source: ELLE,
        implies: &[A::G1c],
        elle_rules_out: &[L::AdyaReadCommitted],
        example: Some("r(x,[1]) a(x,1)"),
        ..AnomalyInfo::row(A::ElleFutureRead)
    },
    AnomalyInfo {
        everyday: "dirty update",
        definition: "A committed transaction built on an aborted one: in the order of a list's elements an \
                     aborted append comes before a committed one.",
        instance: "one aborted append and the next committed one after it",
        source: ELLE,
        implies: &[A::G1a],
        elle_rules_out: &[L::AdyaReadCommitted],
        example: Some("a(x,1) !abort || a(x,2) || r(x,[1 2])"),
        ..AnomalyInfo::row(A::DirtyUpdate)
    },
    AnomalyInfo {
        everyday: "duplicated write",
        definition: "One read of a list contains the same element more than once.",
        instance: "one read",
        source: ELLE,
        elle_rules_out: &[L::ElleReadUncommitted],
        example: Some("a(x,1) || r(x,[1 1])"),
        ..AnomalyInfo::row(A::DuplicateElements)
    },
    AnomalyInfo {
        everyday: "split brain",
        definition: "Two reads of a list are not prefixes of one another, so no single order of appends \
                     explains both.",
        instance: "one key",
        source: ELLE,
        implies: &[A::G1a],
        elle_rules_out: &[L::AdyaReadCommitted],
        example: Some("a(x,1) || a(x,2) || r(x,[1 2]) || r(x,[2 1])"),
        ..AnomalyInfo::row(A::IncompatibleOrder)
    },
    AnomalyInfo {
        everyday: "lost update",
        definition: "Two or more committed transactions read the same version of a key and then wrote the \
                     key: all but one of them overwrote what they had not seen.",
        instance: "one key and the version that the transactions read",
        source: "Berenson et al. 1995, P4; Elle",
        implies: &[A::WriteSkew, A::G2Item],
        elle_rules_out: &[L::CursorStability, L::UpdateAtomic],
        example: Some("r(x,0) w(x,1) || r(x,0) w(x,2)"),
        ..AnomalyInfo::row(A::LostUpdate)
    },
    AnomalyInfo {
        everyday: "contradictory versions",
        definition: "What is known about the order of a register's values contradicts itself.",
        instance: "one key",
        source: ELLE,
        elle_rules_out: &[L::ElleReadUncommitted],
        ..AnomalyInfo::row(A::CyclicVersions)
    },
    AnomalyInfo {
        everyday: "missing row",
        definition: "A read by predicate left out a key of which every known version matches the \
                     predicate.",
        instance: "one read and one key",
        source: ELLE,
        elle_rules_out: &[L::Serializable],
        ..AnomalyInfo::row(A::PredicateReadMiss)
    },
    AnomalyInfo {
        everyday: "write skew",
        definition: "Two transactions each missed what the other wrote, under different keys: a cycle of two rw edges. \
                     Counted with G2-item; the example there is one if there is any.",
        instance: PER_COMPONENT,
        source: "Berenson et al. 1995, A5B; Elle",
        implies: &[A::G2],
        elle_rules_out: &[L::Serializable],
        example: Some("r(x,0) w(y,1) || r(y,0) w(x,1)"),
        ..AnomalyInfo::row(A::WriteSkew)
    },
    AnomalyInfo {
        everyday: "read skew",
        definition: "A transaction read one key from another transaction and a second key in a version \
                     that the other had already replaced: a cycle of a wr and an rw edge. Counted with G-single-item.",
        instance: PER_COMPONENT,
        source: "Berenson et al. 1995, A5A",
        implies: &[A::GSingleItem, A::FracturedReadCm],
        example: Some("w(x,1) w(y,1) || r(x,0) r(y,1)"),
        ..AnomalyInfo::row(A::ReadSkew)
    },
    AnomalyInfo {
        everyday: "long fork",
        definition: "Two readers each saw one of two independent writes and missed the other: they \
                     disagree on which was first. Counted with G-nonadjacent-item.",
        instance: PER_COMPONENT,
        source: "Sovran et al. 2011; Cerone, Bernardi & Gotsman 2015",
        implies: &[A::GNonadjacentItem],
        example: Some("w(x,1) || w(y,1) || r(x,1) r(y,0) || r(x,0) r(y,1)"),
        ..AnomalyInfo::row(A::LongFork)
    },
    AnomalyInfo {
        everyday: "no common order of commits",
        definition: "A cycle in which every rw edge comes right after a wr edge or session order: transactions \
                     saw some commits and missed others that any common order of commits puts before them.",
        instance: PER_COMPONENT,
        source: "Cerone, Bernardi & Gotsman 2015; Cerone & Gotsman 2018, prefix consistency",
        example: Some("a(x,1); r(y,[]) || a(y,1); r(x,[])"),
        ..AnomalyInfo::row(A::PrefixCycle)
    },
];
