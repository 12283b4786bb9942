//! Isolation levels by the names databases give them: what Adya's definition of the name forbids, and what the vendor says.
//!
//! The two differ. The paper judges by Adya's definition (PL-1, PL-2, PL-2.99, PL-3 for the four names of the standard);
//! vendors document weaker promises, and are free to. Both are shown, and only the first is a verdict.

use crate::judge::Name;
use isolde_level::Level;

/// What is promised at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Adya's level of that name.
    pub adya: Level,
    /// What the vendor's documentation says, in short.
    pub documented: &'static str,
    /// The anomalies that the documentation lets happen.
    pub allows: &'static [Name],
}

use Name::{
    AbortedRead, CircularFlow, IntermediateRead, LostUpdate, NonRepeatableRead, PredicateReadSkew,
    PredicateWriteSkew, ReadSkew, ReadWriteSkew, WriteSkew,
};

const COMMITTED: &[Name] = &[
    NonRepeatableRead,
    ReadSkew,
    LostUpdate,
    ReadWriteSkew,
    WriteSkew,
    PredicateReadSkew,
    PredicateWriteSkew,
];
const SNAPSHOT: &[Name] = &[WriteSkew, PredicateWriteSkew];
const UNCOMMITTED: &[Name] = &[
    AbortedRead,
    IntermediateRead,
    CircularFlow,
    NonRepeatableRead,
    ReadSkew,
    LostUpdate,
    ReadWriteSkew,
    WriteSkew,
    PredicateReadSkew,
    PredicateWriteSkew,
];

/// The promise of a product at one of its levels; without documentation, Adya's alone.
pub fn promise(product: &str, isolation: &str) -> Promise {
    let (product, isolation) = (product.to_ascii_lowercase(), isolation.to_ascii_uppercase());
    let adya = match isolation.as_str() {
        "READ UNCOMMITTED" => Level::ReadUncommitted,
        "READ COMMITTED" => Level::AdyaReadCommitted,
        name if name.starts_with("REPEATABLE READ") => Level::RepeatableRead,
        "SNAPSHOT" => Level::SnapshotIsolation,
        _ => Level::Serializable,
    };
    let mysql = ["mysql", "mariadb", "tidb"].iter().any(|p| product.contains(p));
    let (documented, allows): (&'static str, &'static [Name]) = match (mysql, isolation.as_str()) {
        (_, "READ UNCOMMITTED") if mysql => ("reads may see uncommitted rows; writes lock", UNCOMMITTED),
        (_, "READ UNCOMMITTED" | "READ COMMITTED") => {
            ("each statement sees what was committed before it", COMMITTED)
        }
        (true, "REPEATABLE READ") => (
            "plain reads see one snapshot, writes and locking reads the newest rows",
            &[LostUpdate, ReadWriteSkew, WriteSkew, PredicateReadSkew, PredicateWriteSkew],
        ),
        (true, name) if name.starts_with("REPEATABLE READ") => {
            ("snapshot isolation: a write that the snapshot does not see is an error", SNAPSHOT)
        }
        (false, "REPEATABLE READ" | "SNAPSHOT") => {
            ("snapshot isolation: serialization anomalies are possible", SNAPSHOT)
        }
        _ => ("serializable", &[]),
    };
    Promise { adya, documented, allows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_adya_has_them_and_vendors_promise_less() {
        assert_eq!(promise("PostgreSQL", "repeatable read").adya, Level::RepeatableRead);
        assert_eq!(promise("PostgreSQL", "REPEATABLE READ").allows, SNAPSHOT);
        assert!(promise("MariaDB", "REPEATABLE READ").allows.contains(&LostUpdate));
        let on = promise("MariaDB", "REPEATABLE READ with innodb_snapshot_isolation");
        assert_eq!((on.adya, on.allows), (Level::RepeatableRead, SNAPSHOT));
        assert_eq!(promise("SQLite", "DEFERRED").adya, Level::Serializable);
        assert!(promise("MariaDB", "SERIALIZABLE").allows.is_empty());
    }
}
