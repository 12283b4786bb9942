//! The phenomena of Berenson et al., "A Critique of ANSI SQL Isolation Levels" (SIGMOD 1995), as views of
//! our anomalies.
//!
//! The paper defines them by the order of operations in a schedule: P0 to P4 broadly, as what locks
//! prevent, and A5A and A5B strictly, as what clients see. A history records what clients saw, so a
//! phenomenon is reported as the anomalies that show it to a client. P2, a read whose row another
//! transaction writes before the reader ends, is visible only if the row is read again or the cycle closes
//! otherwise.

use crate::anomaly::AnomalyKind;
use AnomalyKind as A;

/// A phenomenon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phenomenon {
    /// `P4`.
    pub code: &'static str,
    /// What the paper calls it.
    pub name: &'static str,
    /// The order of operations.
    pub definition: &'static str,
    /// What shows it to a client, the plainest first.
    pub shown_as: &'static [AnomalyKind],
}

/// All of them, in the order of the paper.
pub const PHENOMENA: [Phenomenon; 8] = [
    Phenomenon {
        code: "P0",
        name: "dirty write",
        definition: "w1[x] … w2[x] … (c1 or a1): a transaction writes what another wrote and has not committed.",
        shown_as: &[A::G0],
    },
    Phenomenon {
        code: "P1",
        name: "dirty read",
        definition: "w1[x] … r2[x] … (c1 or a1): a transaction reads what another wrote and has not committed.",
        shown_as: &[A::G1a, A::G1b, A::G1c],
    },
    Phenomenon {
        code: "P2",
        name: "fuzzy read",
        definition: "r1[x] … w2[x] … (c1 or a1): a transaction writes what another has read and not done with.",
        shown_as: &[A::NonRepeatableRead, A::G2Item],
    },
    Phenomenon {
        code: "P3",
        name: "phantom",
        definition: "r1[P] … w2[y in P] … (c1 or a1): a transaction writes a row that matches what another has read \
                     by predicate and not done with.",
        shown_as: &[A::G2, A::PredicateReadMiss],
    },
    Phenomenon {
        code: "P4",
        name: "lost update",
        definition: "r1[x] … w2[x] … w1[x] … c1: a transaction overwrites what another wrote after it had read.",
        shown_as: &[A::LostUpdate],
    },
    Phenomenon {
        code: "P4C",
        name: "cursor lost update",
        definition: "rc1[x] … w2[x] … w1[x] … c1: the same, read through a cursor.",
        shown_as: &[A::GCursor],
    },
    Phenomenon {
        code: "A5A",
        name: "read skew",
        definition: "r1[x] … w2[x] … w2[y] … c2 … r1[y]: a transaction sees one row before and another after an update \
                     of both.",
        shown_as: &[A::ReadSkew],
    },
    Phenomenon {
        code: "A5B",
        name: "write skew",
        definition: "r1[x] … r2[y] … w1[y] … w2[x] … (c1 and c2): two transactions each write what the other has \
                     read.",
        shown_as: &[A::WriteSkew],
    },
];

impl Phenomenon {
    /// The phenomenon of this code, in any case.
    ///
    /// ```
    /// use anomalist_level::{AnomalyKind, Phenomenon};
    /// assert_eq!(Phenomenon::of("a5b").unwrap().shown_as, [AnomalyKind::WriteSkew]);
    /// ```
    pub fn of(code: &str) -> Option<&'static Phenomenon> {
        PHENOMENA.iter().find(|p| p.code.eq_ignore_ascii_case(code))
    }
}
