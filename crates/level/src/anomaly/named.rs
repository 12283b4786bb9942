//! Names in Elle's lattice that no search for a concrete anomaly ever reports: Adya's phenomena that Elle
//! only knows by name, the cycles known to exist but not classified, and the two reasons for not knowing.

use super::{AnomalyInfo, AnomalyKind};
use crate::level::Level as L;
use crate::level::canonical::no_orders;
use AnomalyKind as A;

const fn never(
    kind: AnomalyKind,
    code: &'static str,
    definition: &'static str,
    elle_rules_out: &'static [L],
) -> AnomalyInfo {
    AnomalyInfo {
        code,
        definition,
        source: "Adya 1999; by name only in Elle",
        elle_rules_out,
        ..AnomalyInfo::row(kind)
    }
}

macro_rules! cycle_exists {
    ($kind:ident $model:literal $level:ident) => {
        AnomalyInfo {
            code: concat!($model, "-cycle-exists"),
            everyday: "unclassified cycle",
            definition: concat!(
                "The dependencies that ",
                $model,
                " keeps free of cycles have one, though none was classified."
            ),
            instance: "one history",
            source: "Elle (Kingsbury & Alvaro 2020)",
            elle_rules_out: &[L::$level],
            ..AnomalyInfo::row(A::$kind)
        }
    };
}

/// No order satisfies a level, whatever each read returned of several writes of its value.
macro_rules! table {
    ({} $($kind:ident $text:literal $level:literal,)*) => {
        pub(crate) static NO_ORDERS: &[AnomalyInfo] = &[$(
            AnomalyInfo {
                everyday: concat!("no order satisfies ", $level),
                definition: concat!(
                    "Whatever the order of commits and of each key's versions, and whatever write each read returned of \
                     those with its value, some read contradicts ",
                    $level,
                    ", though no single pattern says why."
                ),
                instance: "one history",
                source: "Biswas & Enea 2019; Cerone & Gotsman 2018",
                ..AnomalyInfo::row(A::$kind)
            },
        )*];
    };
}
no_orders! { table! {} }

const fn unknown(kind: AnomalyKind, definition: &'static str, instance: &'static str) -> AnomalyInfo {
    AnomalyInfo { definition, instance, source: "Elle (Kingsbury & Alvaro 2020)", ..AnomalyInfo::row(kind) }
}

pub(crate) static TABLE: [AnomalyInfo; 22] = [
    AnomalyInfo {
        everyday: "non-monotonic view",
        instance: "an rw edge that dependencies close",
        example: Some("a(x,1) a(y,1) || r(y,[1]) r(x,[])"),
        ..never(
            A::GMonotonic,
            "G-monotonic",
            "A read missed a write on which an operation before it in the same transaction already depended: a \
             cycle with one rw edge that returns to the reader at the read or before it.",
            &[L::MonotonicView],
        )
    },
    AnomalyInfo {
        everyday: "missed update",
        instance: "a transaction and a key",
        example: Some("r(x,[]) a(x,2) || a(x,1) || r(x,[1 2])"),
        ..never(
            A::GCursor,
            "G-cursor",
            "A transaction read a version of a key and wrote the key after another transaction had: a cycle of one rw \
             edge and ww edges, all about one key.",
            &[L::CursorStability],
        )
    },
    AnomalyInfo {
        everyday: "snapshots going back",
        instance: "a component of the graph of operations and commits",
        example: Some("a(x,1) || a(y,1) || r(x,[1]) r(y,[]) || r(y,[1]) r(x,[])"),
        ..never(
            A::GMsr,
            "G-MSR",
            "The snapshots that single operations read from cannot be put in one order with the commits, later \
             operations of a transaction after earlier ones: a cycle in which every rw edge follows a dependency \
             of the same transaction's read or of an operation before it.",
            &[L::MonotonicSnapshotRead],
        )
    },
    never(
        A::GSi,
        "G-SI",
        "Interference or missed effects under snapshot isolation.",
        &[L::SnapshotIsolation],
    ),
    never(
        A::GSib,
        "G-SIb",
        "A cycle with one rw edge once the order of starts is taken into account.",
        &[L::ForwardConsistentView],
    ),
    AnomalyInfo {
        everyday: "updates without an order",
        ..never(
            A::GUpdate,
            "G-update",
            "A cycle of the updating transactions and one reader.",
            &[L::UpdateSerializable],
        )
    },
    never(A::Gsi, "GSI", "Any of GSIa and GSIb, in a spelling that no model of Elle's proscribes.", &[]),
    AnomalyInfo {
        implies: &[A::Gsi],
        ..never(
            A::Gsia,
            "GSIa",
            "Interference: a dependency on a transaction that had not ended before this one began.",
            &[],
        )
    },
    AnomalyInfo {
        implies: &[A::Gsi],
        ..never(A::Gsib, "GSIb", "Missed effects: a cycle with one rw edge and the order of starts.", &[])
    },
    cycle_exists!(Pl1CycleExists "PL-1" ElleReadUncommitted),
    cycle_exists!(Pl2CycleExists "PL-2" AdyaReadCommitted),
    cycle_exists!(Pl299CycleExists "PL-2.99" RepeatableRead),
    cycle_exists!(PlSiCycleExists "PL-SI" SnapshotIsolation),
    cycle_exists!(Pl3CycleExists "PL-3" Serializable),
    cycle_exists!(StrongSessionPl1CycleExists "strong-session-PL-1" StrongSessionReadUncommitted),
    cycle_exists!(StrongSessionPl2CycleExists "strong-session-PL-2" StrongSessionReadCommitted),
    cycle_exists!(StrongSessionSnapshotIsolationCycleExists "strong-session-snapshot-isolation" StrongSessionSnapshotIsolation),
    cycle_exists!(StrongSessionSerializableCycleExists "strong-session-serializable" StrongSessionSerializable),
    cycle_exists!(StrongPl1CycleExists "strong-PL-1" StrongReadUncommitted),
    cycle_exists!(StrongPl2CycleExists "strong-PL-2" StrongReadCommitted),
    cycle_exists!(StrongSnapshotIsolationCycleExists "strong-snapshot-isolation" StrongSnapshotIsolation),
    cycle_exists!(PlSsCycleExists "PL-SS" StrictSerializable),
];

/// Reasons for not knowing, in Elle's words.
pub(crate) static LIMITS: [AnomalyInfo; 2] = [
    unknown(
        A::EmptyTransactionGraph,
        "No dependency between transactions could be inferred, so nothing could be ruled out.",
        "one history",
    ),
    unknown(
        A::CycleSearchTimeout,
        "The search for cycles in a component ran out of time; there may be more than was reported.",
        "one strongly connected component",
    ),
];
