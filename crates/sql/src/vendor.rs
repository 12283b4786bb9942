//! Isolation levels by the names databases give them: what Adya's definition of the name forbids, and what
//! the vendor says.
//!
//! The two differ. The paper judges by Adya's definition (PL-1, PL-2, PL-2.99, PL-3 for the four names of
//! the standard); vendors document weaker promises, and are free to. Both are shown, and only the first is
//! a verdict.

use crate::judge::Name;
use anomalist_level::Level;

/// What is promised at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Adya's level of that name.
    pub adya: Level,
    /// What the vendor's documentation says.
    pub documented: Documented,
}

/// What vendors document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Documented {
    /// Reads may see anything; writes lock.
    Uncommitted,
    /// Each statement has a snapshot of its own.
    Committed,
    /// Plain reads have one snapshot, everything else works on what is there now (MySQL, TiDB).
    SnapshotReads,
    /// Snapshot isolation.
    Snapshot,
    /// Nothing goes wrong.
    Serializable,
}

impl Documented {
    /// The documentation in short.
    pub fn text(self) -> &'static str {
        match self {
            Documented::Uncommitted => "reads may see uncommitted rows; writes lock",
            Documented::Committed => "each statement sees what was committed before it",
            Documented::SnapshotReads => {
                "plain reads see one snapshot, writes and locking reads the newest rows"
            }
            Documented::Snapshot => "snapshot isolation: serialization anomalies are possible",
            Documented::Serializable => "serializable",
        }
    }

    /// Whether the documentation rules an anomaly out.
    pub fn forbids(self, name: Name) -> bool {
        match self {
            Documented::Uncommitted => name.is_forbidden_by(Level::ReadUncommitted),
            Documented::Committed => name.is_forbidden_by(Level::AdyaReadCommitted),
            Documented::SnapshotReads => {
                matches!(name, Name::NonRepeatableRead | Name::ReadSkew)
                    || Documented::Committed.forbids(name)
            }
            Documented::Snapshot => name.is_forbidden_by(Level::SnapshotIsolation),
            Documented::Serializable => true,
        }
    }
}

/// The promise of a product at one of its levels; without documentation, Adya's alone.
pub fn promise(product: &str, isolation: &str) -> Promise {
    let (product, isolation) = (product.to_ascii_lowercase(), isolation.to_ascii_uppercase());
    let mysql = ["mysql", "mariadb", "tidb"].iter().any(|p| product.contains(p));
    let (adya, documented) = match isolation.as_str() {
        "READ UNCOMMITTED" if mysql => (Level::ReadUncommitted, Documented::Uncommitted),
        "READ UNCOMMITTED" => (Level::ReadUncommitted, Documented::Committed),
        "READ COMMITTED" => (Level::AdyaReadCommitted, Documented::Committed),
        "REPEATABLE READ" if mysql => (Level::RepeatableRead, Documented::SnapshotReads),
        // PostgreSQL, and MariaDB with innodb_snapshot_isolation.
        name if name.starts_with("REPEATABLE READ") => (Level::RepeatableRead, Documented::Snapshot),
        "SNAPSHOT" => (Level::SnapshotIsolation, Documented::Snapshot),
        _ => (Level::Serializable, Documented::Serializable),
    };
    Promise { adya, documented }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_level::AnomalyKind;

    #[test]
    fn names_are_judged_as_adya_has_them_and_vendors_promise_less() {
        let of = |product, isolation| {
            let promise = promise(product, isolation);
            (promise.adya, promise.documented)
        };
        assert_eq!(of("PostgreSQL", "repeatable read"), (Level::RepeatableRead, Documented::Snapshot));
        assert_eq!(of("MariaDB", "REPEATABLE READ"), (Level::RepeatableRead, Documented::SnapshotReads));
        let on = of("MariaDB", "REPEATABLE READ with innodb_snapshot_isolation");
        assert_eq!(on, (Level::RepeatableRead, Documented::Snapshot));
        assert_eq!(of("SQLite", "DEFERRED"), (Level::Serializable, Documented::Serializable));
        assert_eq!(of("PostgreSQL", "READ UNCOMMITTED").1, Documented::Committed);
    }

    #[test]
    fn what_documentation_rules_out() {
        let allowed = |documented: Documented| {
            let all = [
                Name::DirtyWrite,
                Name::AbortedRead,
                Name::CircularFlow,
                Name::NonRepeatableRead,
                Name::ReadSkew,
                Name::LostUpdate,
                Name::ReadWriteSkew,
                Name::PredicateReadSkew,
                Name::Other(AnomalyKind::GNonadjacent),
                Name::WriteSkew,
                Name::PredicateWriteSkew,
            ];
            all.into_iter().filter(|n| !documented.forbids(*n)).map(Name::kind).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(allowed(Documented::Serializable), "");
        assert_eq!(allowed(Documented::Snapshot), "write-skew predicate-write-skew");
        assert_eq!(
            allowed(Documented::SnapshotReads),
            "lost-update read-write-skew predicate-read-skew g-nonadjacent write-skew predicate-write-skew"
        );
        assert!(allowed(Documented::Committed).starts_with("non-repeatable-read read-skew lost-update"));
        assert!(allowed(Documented::Uncommitted).starts_with("aborted-read circular-information-flow"));
    }
}
