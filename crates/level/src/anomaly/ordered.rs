//! Adya's cycles that close only with the help of an order that is not in the data: a session's
//! (`-process`, Elle's word) or real time's (`-realtime`).

use super::adya::{PER_ANTI, PER_COMPONENT};
use super::{AnomalyInfo, AnomalyKind};
use crate::level::Level as L;
use AnomalyKind as A;

const SINGLE: &[AnomalyKind] =
    &[A::GSingleItemProcess, A::GSingleProcess, A::GSingleItemRealtime, A::GSingleRealtime];

macro_rules! cycle {
    ($kind:ident $code:literal $order:literal $everyday:literal $base:literal => [$($implied:ident)*], [$($level:ident)*], $example:expr) => {
        AnomalyInfo {
            code: $code,
            everyday: $everyday,
            definition: concat!("A cycle as in ", $base, ", closed by at least one edge of ", $order, "."),
            instance: if AnomalyKind::bits(SINGLE) & A::$kind.bit() == 0 { PER_COMPONENT } else { PER_ANTI },
            source: "Elle (Kingsbury & Alvaro 2020)",
            implies: &[$(A::$implied),*],
            elle_rules_out: &[$(L::$level),*],
            example: $example,
            ..AnomalyInfo::row(A::$kind)
        }
    };
}

const fn umbrella(kind: AnomalyKind, code: &'static str, definition: &'static str) -> AnomalyInfo {
    AnomalyInfo { code, definition, source: "Elle (Kingsbury & Alvaro 2020)", ..AnomalyInfo::row(kind) }
}

pub(crate) static TABLE: [AnomalyInfo; 18] = [
    cycle!(G0Process "G0-process" "session order" "dirty write across a session" "G0"
        => [G1cProcess G0Realtime], [StrongSessionReadUncommitted], Some("a(x,2); a(x,1) || r(x,[1 2])")),
    cycle!(G1cProcess "G1c-process" "session order" "read of the session's own future" "G1c"
        => [G1cRealtime G1Process], [StrongSessionReadCommitted], Some("r(x,[1]); a(x,1)")),
    AnomalyInfo {
        implies: &[A::G1Realtime],
        elle_rules_out: &[L::StrongSessionSnapshotIsolation],
        ..umbrella(A::G1Process, "G1-process", "Any of G1 and G1c-process. Never reported itself.")
    },
    cycle!(GSingleItemProcess "G-single-item-process" "session order" "stale read in a session" "G-single-item"
        => [GSingleProcess GSingleItemRealtime GNonadjacentItemProcess], [StrongSessionSnapshotIsolation], Some("a(x,1); r(x,[])")),
    cycle!(GSingleProcess "G-single-process" "session order" "stale read in a session" "G-single"
        => [GNonadjacentProcess GSingleRealtime], [StrongSessionSnapshotIsolation], Some("a(x,1); r(x,[])")),
    cycle!(GNonadjacentItemProcess "G-nonadjacent-item-process" "session order" "long fork across sessions" "G-nonadjacent-item"
        => [GNonadjacentProcess G2ItemProcess GNonadjacentItemRealtime], [StrongSessionSnapshotIsolation],
        Some("a(x,1); r(y,[]) || a(y,1); r(x,[])")),
    cycle!(GNonadjacentProcess "G-nonadjacent-process" "session order" "long fork across sessions" "G-nonadjacent"
        => [G2Process GNonadjacentRealtime], [StrongSessionSnapshotIsolation], Some("a(x,1); r(y,[]) || a(y,1); r(x,[])")),
    cycle!(G2ItemProcess "G2-item-process" "session order" "write skew across a session" "G2-item"
        => [G2Process G2ItemRealtime], [StrongSessionSerializable], Some("a(y,1); r(x,[]) || r(y,[]) a(x,1)")),
    cycle!(G2Process "G2-process" "session order" "phantom across a session" "G2"
        => [G2Realtime], [StrongSessionSerializable], None),
    cycle!(G0Realtime "G0-realtime" "real time" "dirty write against the clock" "G0"
        => [G1cRealtime], [StrongReadUncommitted], None),
    cycle!(G1cRealtime "G1c-realtime" "real time" "read of the future" "G1c"
        => [G1Realtime], [StrongReadCommitted], None),
    AnomalyInfo {
        elle_rules_out: &[L::StrongSnapshotIsolation],
        ..umbrella(
            A::G1Realtime,
            "G1-realtime",
            "Any of G1, G1c-process and G1c-realtime. Never reported itself.",
        )
    },
    cycle!(GSingleItemRealtime "G-single-item-realtime" "real time" "stale read" "G-single-item"
        => [GSingleRealtime GNonadjacentItemRealtime], [StrongSnapshotIsolation], None),
    cycle!(GSingleRealtime "G-single-realtime" "real time" "stale read" "G-single"
        => [GNonadjacentRealtime], [StrongSnapshotIsolation], None),
    cycle!(GNonadjacentItemRealtime "G-nonadjacent-item-realtime" "real time" "long fork against the clock" "G-nonadjacent-item"
        => [G2ItemRealtime GNonadjacentRealtime], [StrongSnapshotIsolation], None),
    cycle!(GNonadjacentRealtime "G-nonadjacent-realtime" "real time" "long fork against the clock" "G-nonadjacent"
        => [G2Realtime], [StrongSnapshotIsolation], None),
    cycle!(G2ItemRealtime "G2-item-realtime" "real time" "write skew against the clock" "G2-item"
        => [G2Realtime], [StrictSerializable], None),
    cycle!(G2Realtime "G2-realtime" "real time" "phantom against the clock" "G2"
        => [], [StrictSerializable], None),
];
