//! IsoRel's names of anomalies, and Adya's phenomena behind them.

use anomalist_level::{AnomalyKind, Level};

/// An anomaly by IsoRel's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Name {
    /// G0
    DirtyWrite,
    /// G1a
    AbortedRead,
    /// G1b
    IntermediateRead,
    /// G1c
    CircularFlow,
    /// `rw` and `wr` through one row.
    NonRepeatableRead,
    /// `rw` and `wr` through different rows.
    ReadSkew,
    /// `rw` and `ww` through one row.
    LostUpdate,
    /// `rw` and `ww` through different rows.
    ReadWriteSkew,
    /// Two `rw` through different rows.
    WriteSkew,
    /// One `rw` through a predicate.
    PredicateReadSkew,
    /// Two `rw`, one of them or both through a predicate.
    PredicateWriteSkew,
    /// Anything else, by the name of the engine.
    Other(AnomalyKind),
}

impl Name {
    /// The name in JSON.
    pub fn kind(self) -> &'static str {
        match self {
            Name::DirtyWrite => "dirty-write",
            Name::AbortedRead => "aborted-read",
            Name::IntermediateRead => "intermediate-read",
            Name::CircularFlow => "circular-information-flow",
            Name::NonRepeatableRead => "non-repeatable-read",
            Name::ReadSkew => "read-skew",
            Name::LostUpdate => "lost-update",
            Name::ReadWriteSkew => "read-write-skew",
            Name::WriteSkew => "write-skew",
            Name::PredicateReadSkew => "predicate-read-skew",
            Name::PredicateWriteSkew => "predicate-write-skew",
            Name::Other(kind) => kind.name(),
        }
    }

    /// Adya's phenomenon.
    pub fn code(self) -> AnomalyKind {
        match self {
            Name::DirtyWrite => AnomalyKind::G0,
            Name::AbortedRead => AnomalyKind::G1a,
            Name::IntermediateRead => AnomalyKind::G1b,
            Name::CircularFlow => AnomalyKind::G1c,
            Name::NonRepeatableRead | Name::ReadSkew | Name::LostUpdate | Name::ReadWriteSkew => {
                AnomalyKind::GSingleItem
            }
            Name::WriteSkew => AnomalyKind::G2Item,
            Name::PredicateReadSkew => AnomalyKind::GSingle,
            Name::PredicateWriteSkew => AnomalyKind::G2,
            Name::Other(kind) => kind,
        }
    }

    /// Whether it is what a test expects: by its name, or by Adya's code, which several have in common.
    pub fn is_called(self, expected: &str) -> bool {
        let same = |kind: AnomalyKind| match self.code() {
            AnomalyKind::GSingleItem => matches!(kind, AnomalyKind::GSingleItem | AnomalyKind::GSingle),
            code => code == kind,
        };
        self.kind().eq_ignore_ascii_case(expected)
            || (!Name::NAMED.iter().any(|n| n.kind().eq_ignore_ascii_case(expected))
                && expected.parse().is_ok_and(same))
    }

    /// Whether an anomaly can be called this.
    pub fn is_known(expected: &str) -> bool {
        Name::NAMED.iter().any(|name| name.is_called(expected)) || expected.parse::<AnomalyKind>().is_ok()
    }

    /// Those with a name of IsoRel's.
    pub const NAMED: [Name; 11] = [
        Name::DirtyWrite,
        Name::AbortedRead,
        Name::IntermediateRead,
        Name::CircularFlow,
        Name::NonRepeatableRead,
        Name::ReadSkew,
        Name::LostUpdate,
        Name::ReadWriteSkew,
        Name::WriteSkew,
        Name::PredicateReadSkew,
        Name::PredicateWriteSkew,
    ];

    /// Whether a level of Adya's forbids it.
    pub fn is_forbidden_by(self, level: Level) -> bool {
        level.forbids(self.code())
    }
}
