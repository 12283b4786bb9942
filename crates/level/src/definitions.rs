//! Whose definitions of the weak levels count, where the literature has several.

use crate::anomaly::AnomalyKind;
use crate::level::Level;
use std::fmt;

/// A reading of read committed, read atomic, causal, cut isolation and the patterns TAP-a to TAP-n. All
/// other levels and anomalies have one definition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Definitions {
    /// The axioms of Biswas & Enea 2019, and the patterns completed so that they characterise them: what
    /// the tables of this crate say.
    #[default]
    Anomalist,
    /// Definitions 3 to 6 and Table 1 of Plume (Liu et al. 2024), to the letter.
    Plume,
}

impl Definitions {
    /// All of them, the default first.
    pub const ALL: [Definitions; 2] = [Definitions::Anomalist, Definitions::Plume];
    /// The levels that they define differently, or whose patterns differ.
    pub const LEVELS: [Level; 4] =
        [Level::CutIsolation, Level::ReadCommitted, Level::ReadAtomic, Level::Causal];

    /// The name, as on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Definitions::Anomalist => "anomalist",
            Definitions::Plume => "plume",
        }
    }

    /// The definitions of this name.
    pub fn of(name: &str) -> Option<Definitions> {
        Definitions::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Whether an instance of one anomaly is one of another. Plume's fractured reads need two keys, so that
    /// a session which overlooks its own write is none.
    pub fn implies(self, found: AnomalyKind, kind: AnomalyKind) -> bool {
        use AnomalyKind as A;
        let fractured = matches!(kind, A::FracturedReadCo | A::FracturedReadCm);
        let other = self == Definitions::Plume && found == A::NotReadYourWrites && fractured;
        !other && found.implies(kind)
    }
}

impl fmt::Display for Definitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for definitions in Definitions::ALL {
            assert_eq!(Definitions::of(definitions.name()), Some(definitions));
        }
        assert_eq!(Definitions::of("elle"), None);
        assert_eq!(Definitions::default(), Definitions::Anomalist);
    }

    #[test]
    fn a_write_overlooked_by_its_session_is_no_fractured_read_of_plume() {
        let (own, l) = (AnomalyKind::NotReadYourWrites, AnomalyKind::FracturedReadCm);
        assert!(Definitions::Anomalist.implies(own, l));
        assert!(!Definitions::Plume.implies(own, l));
        assert!(Definitions::Plume.implies(own, AnomalyKind::ConflictCm));
    }
}
