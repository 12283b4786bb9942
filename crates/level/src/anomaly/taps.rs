//! The fourteen transactional anomalous patterns of Plume, TAP-a to TAP-n, and the four broken session
//! guarantees.
//!
//! From h on a pattern is a triangle: `t3` reads `x` from `t1` although another writer `t2` of `x` was
//! visible to it, and `t2` is known to come after `t1`, by causality (the `-co` half) or by what other
//! reads force on the commit order (the `-cm` half). An instance is filed under the first pattern that
//! fits, so h to n never count the same read and `t2` twice.

use super::{AnomalyInfo, AnomalyKind};
use AnomalyKind as A;

const PLUME: &str = "Plume (Liu et al. 2024), Table 1";
const TERRY: &str = "Terry et al. 1994, for transactions; Biswas & Enea 2019, axioms";
const AFTER_OWN: &str =
    "reads after an own write of the key count too, if they return another transaction's value";
const OTHER_KEY: &str = "what was read from t2 must be another key than the one read from t1";
const TWO_KEYS: &str = "another key must be read from t2; if t2 is only earlier in the session, the pair counts under TAP-m or TAP-n";
const BOTH: &str = "another key must be read from t2, and the initial transaction counts like any other";
const REST: &str =
    "also what TAP-k leaves out: t2 earlier in the session, or the key itself read from t1 and t2";
const LAST: &str = "also what TAP-l leaves out (t2 earlier in the session, the key itself read from t1 and t2), and the \
                    initial transaction counts like any other";
const PER_READ: &str = "one read";
const PER_PAIR: &str = "one read and one transaction t2 that it should have taken into account";

pub(crate) static TABLE: [AnomalyInfo; 18] = [
    AnomalyInfo {
        code: "TAP-a",
        aliases: &["garbage-read"],
        everyday: "garbage read",
        definition: "A read returned a value that no transaction wrote.",
        instance: PER_READ,
        source: PLUME,
        // Adya's G1a is a read of what no committed transaction wrote; here there is not even an aborted
        // one.
        implies: &[A::G1a],
        example: Some("r(x,1)"),
        ..AnomalyInfo::row(A::ThinAirRead)
    },
    AnomalyInfo {
        code: "TAP-b",
        everyday: "dirty read",
        definition: "A read returned a value whose only writer aborted.",
        instance: PER_READ,
        source: PLUME,
        implies: &[A::G1a],
        example: Some("w(x,1) !abort || r(x,1)"),
        ..AnomalyInfo::row(A::AbortedRead)
    },
    AnomalyInfo {
        code: "TAP-c",
        everyday: "read from the future",
        definition: "A read returned what its own transaction writes only later.",
        instance: PER_READ,
        source: PLUME,
        implies: &[A::ElleFutureRead],
        example: Some("r(x,1) w(x,1)"),
        ..AnomalyInfo::row(A::FutureRead)
    },
    AnomalyInfo {
        code: "TAP-d",
        everyday: "own write ignored",
        definition: "A transaction wrote a key and then read another transaction's value of it.",
        instance: PER_READ,
        source: PLUME,
        implies: &[A::Internal],
        example: Some("w(x,1) r(x,2) || w(x,2)"),
        ..AnomalyInfo::row(A::NotMyOwnWrite)
    },
    AnomalyInfo {
        code: "TAP-e",
        everyday: "own write undone",
        definition: "A transaction wrote a key more than once and then read one of its own older values.",
        instance: PER_READ,
        source: PLUME,
        implies: &[A::Internal],
        example: Some("w(x,1) w(x,2) r(x,1)"),
        ..AnomalyInfo::row(A::NotMyLastWrite)
    },
    AnomalyInfo {
        code: "TAP-f",
        everyday: "intermediate read",
        definition: "A read returned a value that its writer, another transaction, went on to replace \
                     itself.",
        instance: PER_READ,
        source: PLUME,
        in_plume: Some(AFTER_OWN),
        implies: &[A::G1b],
        example: Some("w(x,1) w(x,2) || r(x,1)"),
        ..AnomalyInfo::row(A::IntermediateRead)
    },
    AnomalyInfo {
        code: "TAP-g",
        everyday: "causality cycle",
        definition: "Session order and reads together form a cycle: a transaction depends on its own \
                     outcome.",
        instance: "one strongly connected component of session order and write-read order",
        source: PLUME,
        implies: &[A::G1cProcess],
        example: Some("r(x,1) w(y,1) || r(y,1) w(x,1)"),
        ..AnomalyInfo::row(A::CyclicCo)
    },
    AnomalyInfo {
        code: "TAP-h",
        everyday: "non-monotonic read",
        definition: "Having read something from t2, a transaction then read a key from t1, although t2 \
                     writes that key too and causally follows t1: it stepped back.",
        instance: PER_PAIR,
        source: PLUME,
        in_plume: Some(OTHER_KEY),
        implies: &[A::NonMonoReadCm, A::FracturedReadCo],
        example: Some("w(x,1); w(x,2) w(y,1) || r(y,1) r(x,1)"),
        ..AnomalyInfo::row(A::NonMonoReadCo)
    },
    AnomalyInfo {
        code: "TAP-i",
        everyday: "non-monotonic read",
        definition: "As TAP-h, but that t2 follows t1 is forced by other reads under read-committed's \
                     axiom, not by causality.",
        instance: PER_PAIR,
        source: PLUME,
        in_plume: Some(BOTH),
        implies: &[A::FracturedReadCm],
        example: Some("w(x,1) w(z,1) || w(x,2) w(y,1) || r(y,1) r(x,1) || r(z,1) r(x,2)"),
        ..AnomalyInfo::row(A::NonMonoReadCm)
    },
    AnomalyInfo {
        code: "TAP-j",
        aliases: &["fuzzy-read"],
        everyday: "non-repeatable read",
        definition: "A transaction read a key that it had not written from two different transactions.",
        instance: "one read whose writer is not the one of the transaction's first outside read of that \
                   key",
        source: PLUME,
        in_plume: Some(AFTER_OWN),
        implies: &[A::Internal],
        example: Some("w(x,1) || w(x,2) || r(x,1) r(x,2)"),
        ..AnomalyInfo::row(A::NonRepeatableRead)
    },
    AnomalyInfo {
        code: "TAP-k",
        everyday: "fractured read",
        definition: "A transaction saw t2, by reading from it or by following it in the session, and yet \
                     read a key from t1, although t2 writes that key too and causally follows t1: it saw \
                     half of t2.",
        instance: PER_PAIR,
        source: PLUME,
        in_plume: Some(TWO_KEYS),
        implies: &[A::FracturedReadCm, A::CoConflictCm],
        example: Some("w(x,1); w(x,2) w(y,1) || r(x,1) r(y,1)"),
        ..AnomalyInfo::row(A::FracturedReadCo)
    },
    AnomalyInfo {
        code: "TAP-l",
        everyday: "fractured read",
        definition: "As TAP-k, but that t2 follows t1 is forced by other reads under read-atomic's axiom, \
                     not by causality.",
        instance: PER_PAIR,
        source: PLUME,
        in_plume: Some(BOTH),
        implies: &[A::ConflictCm],
        example: Some("w(x,1) w(z,1) || w(x,2) w(y,1) || r(x,1) r(y,1) || r(x,2) r(z,1)"),
        ..AnomalyInfo::row(A::FracturedReadCm)
    },
    AnomalyInfo {
        code: "TAP-m",
        everyday: "causality violation",
        definition: "A transaction read a key from t1 although t2, which writes it too, causally lies \
                     between t1 and the reader.",
        instance: PER_PAIR,
        source: PLUME,
        in_plume: Some(REST),
        implies: &[A::ConflictCm],
        example: Some("w(x,1); w(x,2) w(y,1) || r(y,1); r(x,1)"),
        ..AnomalyInfo::row(A::CoConflictCm)
    },
    AnomalyInfo {
        code: "TAP-n",
        everyday: "divergence",
        definition: "As TAP-m, but that t2 follows t1 is forced by other reads under causal's axiom: \
                     readers do not agree on one order of concurrent writes.",
        instance: PER_PAIR,
        source: PLUME,
        in_plume: Some(LAST),
        example: Some("w(x,1) || w(x,2) || r(x,1); r(x,2) || r(x,2); r(x,1)"),
        ..AnomalyInfo::row(A::ConflictCm)
    },
    AnomalyInfo {
        code: "RYW",
        everyday: "own session's write lost",
        definition: "A read took no account of an earlier transaction of its own session that wrote the \
                     key.",
        instance: PER_PAIR,
        source: TERRY,
        implies: &[A::FracturedReadCm],
        example: Some("w(x,1); r(x,0)"),
        ..AnomalyInfo::row(A::NotReadYourWrites)
    },
    AnomalyInfo {
        code: "MR",
        everyday: "session went back in time",
        definition: "A session had read from a transaction that writes the key, and later read an older \
                     value of it.",
        instance: PER_PAIR,
        source: TERRY,
        implies: &[A::ConflictCm],
        example: Some("w(x,1) || r(x,1); r(x,0)"),
        ..AnomalyInfo::row(A::NonMonotonicReads)
    },
    AnomalyInfo {
        code: "MW",
        everyday: "writes of a session seen out of order",
        definition: "A reader saw a later write of a session but not its earlier write of the key.",
        instance: PER_PAIR,
        source: TERRY,
        implies: &[A::ConflictCm],
        example: Some("w(x,1); w(y,1) || r(y,1) r(x,0)"),
        ..AnomalyInfo::row(A::NonMonotonicWrites)
    },
    AnomalyInfo {
        code: "WFR",
        everyday: "answer seen before its question",
        definition: "A reader saw a write but not the value of the key that the writing session had read \
                     before.",
        instance: PER_PAIR,
        source: TERRY,
        implies: &[A::ConflictCm],
        example: Some("w(x,1) || r(x,1); w(y,1) || r(y,1) r(x,0)"),
        ..AnomalyInfo::row(A::WritesDontFollowReads)
    },
];
