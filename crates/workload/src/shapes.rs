//! Named workloads: those other tools were measured on (`docs/benchmarks.md`), and Plume's general
//! benchmarks.

use crate::spec::{Distribution, Kind, SimLevel, Spec};

const ZIPF: Distribution = Distribution::Zipf { theta: 0.99 };

impl Spec {
    /// The names that [`Spec::shape`] knows.
    pub const SHAPES: [&'static str; 10] =
        ["W1", "W2", "W3", "W4", "W5a", "W5b", "W5c", "GeneralRH", "GeneralRW", "GeneralWH"];

    /// A named workload; upper and lower case are the same. W1 to W5c are the shapes of the performance
    /// tables, the others the general benchmarks of Plume (16,000 transactions of 20 operations:
    /// read-heavy, even, write-heavy).
    ///
    /// ```
    /// use anomalist_workload::Spec;
    /// let w3 = Spec::shape("W3").unwrap();
    /// assert_eq!((w3.sessions, w3.txns_per_session, w3.ops_per_txn), (50, 20_000, 20));
    /// ```
    pub fn shape(name: &str) -> Option<Spec> {
        let sized = |sessions, txns_per_session, ops_per_txn, keys| Spec {
            level: SimLevel::SnapshotIsolation,
            sessions,
            txns_per_session,
            ops_per_txn,
            keys,
            ..Spec::default()
        };
        let shape = Self::SHAPES.iter().find(|s| s.eq_ignore_ascii_case(name))?;
        Some(match *shape {
            "W1" => sized(25, 200, 20, 10_000),
            "W2" => Spec { kind: Kind::Timestamped, distribution: ZIPF, ..sized(50, 2_000, 15, 1_000) },
            "W3" => Spec { kind: Kind::Timestamped, ..sized(50, 20_000, 20, 100_000) },
            "W4" => Spec {
                kind: Kind::ListAppend,
                level: SimLevel::Serializable,
                min_ops_per_txn: Some(1),
                writes_per_key: Some(100),
                ..sized(20, 5_000, 7, 100)
            },
            "W5a" => Spec { level: SimLevel::Serializable, ..sized(25, 80, 8, 1_000) },
            "W5b" => Spec { level: SimLevel::Serializable, ..sized(25, 400, 8, 10_000) },
            "W5c" => Spec { level: SimLevel::Serializable, distribution: ZIPF, ..sized(25, 400, 8, 1_000) },
            "GeneralRH" => Spec { read_ratio: 0.95, ..sized(25, 640, 20, 10_000) },
            "GeneralWH" => Spec { read_ratio: 0.3, ..sized(25, 640, 20, 10_000) },
            _ => sized(25, 640, 20, 10_000),
        })
    }
}
