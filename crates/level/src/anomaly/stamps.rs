//! What the timestamp check finds: the database's own start and commit stamps contradict the level it
//! claims.
//!
//! These are about stamps *and* values. A history may break them and still be explained by values alone, in
//! another order.

use super::{AnomalyInfo, AnomalyKind as A};

const CHRONOS: &str = "Chronos and AION, Definitions 4 to 6";

pub(crate) static TABLE: [AnomalyInfo; 8] = [
    AnomalyInfo {
        code: "SESSION",
        everyday: "session order broken",
        definition: "A transaction's snapshot does not contain the transaction before it in its session: it \
                     starts before that one's commit.",
        instance: "one transaction",
        source: CHRONOS,
        ..AnomalyInfo::row(A::SessionStamp)
    },
    AnomalyInfo {
        code: "INT",
        everyday: "internal inconsistency",
        definition: "A read contradicts what its own transaction had already read from or written to the \
                     key.",
        instance: "one read",
        source: CHRONOS,
        ..AnomalyInfo::row(A::IntStamp)
    },
    AnomalyInfo {
        code: "EXT",
        everyday: "wrong version read",
        definition: "A transaction's first read of a key did not return the last value committed before \
                     its snapshot.",
        instance: "one transaction and one key",
        source: CHRONOS,
        ..AnomalyInfo::row(A::ExtStamp)
    },
    AnomalyInfo {
        code: "NOCONFLICT",
        everyday: "concurrent update",
        definition: "Two transactions wrote the same key and, by their stamps, neither saw the other.",
        instance: "one key and one pair of transactions",
        source: CHRONOS,
        ..AnomalyInfo::row(A::NoConflictStamp)
    },
    AnomalyInfo {
        code: "TIE",
        everyday: "ambiguous stamps",
        definition: "Several visible writers of a key share the largest commit stamp; any of their values \
                     was accepted. A warning: it rules nothing out.",
        instance: "one transaction and one key",
        source: CHRONOS,
        ..AnomalyInfo::row(A::TieStamp)
    },
    AnomalyInfo {
        code: "TIMESTAMP",
        everyday: "commit before start",
        definition: "A transaction's start stamp is greater than its commit stamp.",
        instance: "one transaction",
        source: CHRONOS,
        ..AnomalyInfo::row(A::TimestampOrder)
    },
    AnomalyInfo {
        code: "SESSION",
        everyday: "session order broken",
        definition: "A transaction commits before an earlier transaction of its session.",
        instance: "one transaction",
        source: CHRONOS,
        ..AnomalyInfo::row(A::SessionCommit)
    },
    AnomalyInfo {
        code: "EXT",
        everyday: "wrong version read",
        definition: "A transaction's first read of a key did not return the last value committed before \
                     its own commit.",
        instance: "one transaction and one key",
        source: CHRONOS,
        ..AnomalyInfo::row(A::ExtCommit)
    },
];
