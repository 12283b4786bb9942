//! Anomalies: the enum, the questions one asks about an anomaly, and its rows, one file per family.
//!
//! "`a` implies `b`" means: a level that forbids `b` thereby forbids `a`, because `a` is `b` or something
//! worse. For Elle's anomalies these are Elle's implications; Plume's patterns are tied to Adya's phenomena
//! where they are instances of them.

mod adya;
mod data;
mod named;
mod ordered;
mod stamps;
mod taps;

use crate::level::Level;
use crate::level::canonical::no_orders;
use crate::names::{did_you_mean, nearest, normalise, transitive, vocabulary};
use std::fmt;
use std::str::FromStr;

/// The vocabulary with the kinds that levels add.
macro_rules! kinds {
    (
        { $(#[$meta:meta])* $name:ident { $($before:tt)* } { $($after:tt)* } }
        $($kind:ident $text:literal $level:literal,)*
    ) => {
        vocabulary! { $(#[$meta])* $name { $($before)* $($kind $text,)* $($after)* } }
    };
}

no_orders! { kinds! {
    /// A kind of anomaly. The name is Anomalist's, in lower case; [`code`](AnomalyKind::code) is what the
    /// field calls it.
    AnomalyKind {
        ThinAirRead "thin-air-read",
        AbortedRead "aborted-read",
        FutureRead "future-read",
        NotMyOwnWrite "not-my-own-write",
        NotMyLastWrite "not-my-last-write",
        IntermediateRead "intermediate-read",
        CyclicCo "cyclic-co",
        NonMonoReadCo "non-mono-read-co",
        NonMonoReadCm "non-mono-read-cm",
        NonRepeatableRead "non-repeatable-read",
        FracturedReadCo "fractured-read-co",
        FracturedReadCm "fractured-read-cm",
        CoConflictCm "co-conflict-cm",
        ConflictCm "conflict-cm",
        NotReadYourWrites "not-read-your-writes",
        NonMonotonicReads "non-monotonic-reads",
        NonMonotonicWrites "non-monotonic-writes",
        WritesDontFollowReads "writes-dont-follow-reads",
        G0 "g0",
        G1a "g1a",
        G1b "g1b",
        G1c "g1c",
        G1 "g1",
        GSingleItem "g-single-item",
        GSingle "g-single",
        GNonadjacentItem "g-nonadjacent-item",
        GNonadjacent "g-nonadjacent",
        G2Item "g2-item",
        G2 "g2",
        G0Process "g0-process",
        G1cProcess "g1c-process",
        G1Process "g1-process",
        GSingleItemProcess "g-single-item-process",
        GSingleProcess "g-single-process",
        GNonadjacentItemProcess "g-nonadjacent-item-process",
        GNonadjacentProcess "g-nonadjacent-process",
        G2ItemProcess "g2-item-process",
        G2Process "g2-process",
        G0Realtime "g0-realtime",
        G1cRealtime "g1c-realtime",
        G1Realtime "g1-realtime",
        GSingleItemRealtime "g-single-item-realtime",
        GSingleRealtime "g-single-realtime",
        GNonadjacentItemRealtime "g-nonadjacent-item-realtime",
        GNonadjacentRealtime "g-nonadjacent-realtime",
        G2ItemRealtime "g2-item-realtime",
        G2Realtime "g2-realtime",
        Internal "internal",
        ElleFutureRead "elle-future-read",
        DirtyUpdate "dirty-update",
        DuplicateElements "duplicate-elements",
        IncompatibleOrder "incompatible-order",
        LostUpdate "lost-update",
        CyclicVersions "cyclic-versions",
        PredicateReadMiss "predicate-read-miss",
        WriteSkew "write-skew",
        ReadSkew "read-skew",
        LongFork "long-fork",
        PrefixCycle "prefix-cycle",
        GMonotonic "g-monotonic",
        GCursor "g-cursor",
        GMsr "g-msr",
        GSi "g-si",
        GSib "g-sib",
        GUpdate "g-update",
        Gsi "gsi",
        Gsia "gsia",
        Gsib "gsib",
        Pl1CycleExists "pl-1-cycle-exists",
        Pl2CycleExists "pl-2-cycle-exists",
        Pl299CycleExists "pl-2.99-cycle-exists",
        PlSiCycleExists "pl-si-cycle-exists",
        Pl3CycleExists "pl-3-cycle-exists",
        StrongSessionPl1CycleExists "strong-session-pl-1-cycle-exists",
        StrongSessionPl2CycleExists "strong-session-pl-2-cycle-exists",
        StrongSessionSnapshotIsolationCycleExists "strong-session-snapshot-isolation-cycle-exists",
        StrongSessionSerializableCycleExists "strong-session-serializable-cycle-exists",
        StrongPl1CycleExists "strong-pl-1-cycle-exists",
        StrongPl2CycleExists "strong-pl-2-cycle-exists",
        StrongSnapshotIsolationCycleExists "strong-snapshot-isolation-cycle-exists",
        PlSsCycleExists "pl-ss-cycle-exists",
    } {
        EmptyTransactionGraph "empty-transaction-graph",
        CycleSearchTimeout "cycle-search-timeout",
        SessionStamp "session-stamp",
        IntStamp "int-stamp",
        ExtStamp "ext-stamp",
        NoConflictStamp "no-conflict-stamp",
        TieStamp "tie-stamp",
        TimestampOrder "timestamp-order",
        SessionCommit "session-commit",
        ExtCommit "ext-commit",
    }
} }

/// One row of the table: everything Anomalist knows about a kind of anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnomalyInfo {
    /// The kind.
    pub kind: AnomalyKind,
    /// Its one name, in lower case.
    pub name: &'static str,
    /// What the field calls it: `TAP-k`, `G1c`, `EXT`.
    pub code: &'static str,
    /// Other spellings that are understood, in lower case.
    pub aliases: &'static [&'static str],
    /// The everyday name ("write skew"), or nothing.
    pub everyday: &'static str,
    /// What happened.
    pub definition: &'static str,
    /// What counts as one instance.
    pub instance: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Where the letter of Plume's paper differs, if it does.
    pub in_plume: Option<&'static str>,
    /// The anomalies it implies directly; [`AnomalyKind::implies`] is the closure.
    pub implies: &'static [AnomalyKind],
    /// For Elle's anomalies: the weakest models that Elle says it rules out.
    pub elle_rules_out: &'static [Level],
    /// A small history that has it, in the testkit's language: `||` between sessions, `;` between
    /// transactions.
    pub example: Option<&'static str>,
}

impl AnomalyInfo {
    /// An empty row; tables fill in the rest with `..AnomalyInfo::row(kind)`.
    const fn row(kind: AnomalyKind) -> AnomalyInfo {
        AnomalyInfo {
            kind,
            name: kind.name(),
            code: kind.name(),
            aliases: &[],
            everyday: "",
            definition: "",
            instance: "",
            source: "",
            in_plume: None,
            implies: &[],
            elle_rules_out: &[],
            example: None,
        }
    }
}

const COUNT: usize = AnomalyKind::ALL.len();

/// The tables, in the order of the enum.
const TABLES: [&[AnomalyInfo]; 8] = [
    &taps::TABLE,
    &adya::TABLE,
    &ordered::TABLE,
    &data::TABLE,
    &named::TABLE,
    named::NO_ORDERS,
    &named::LIMITS,
    &stamps::TABLE,
];

const fn row(mut index: usize) -> &'static AnomalyInfo {
    let mut table = 0;
    while index >= TABLES[table].len() {
        index -= TABLES[table].len();
        table += 1;
    }
    &TABLES[table][index]
}

/// For each anomaly the set of anomalies it implies, itself included.
static IMPLIED: [u128; COUNT] = {
    let (mut rows, mut i) = ([0; COUNT], 0);
    while i < COUNT {
        rows[i] = 1 << i | AnomalyKind::bits(row(i).implies);
        i += 1;
    }
    transitive(rows)
};

impl AnomalyKind {
    /// The codes of the timestamp check.
    pub(crate) const STAMPS: u128 = AnomalyKind::bits(&[
        AnomalyKind::SessionStamp,
        AnomalyKind::IntStamp,
        AnomalyKind::ExtStamp,
        AnomalyKind::NoConflictStamp,
        AnomalyKind::TieStamp,
        AnomalyKind::TimestampOrder,
        AnomalyKind::SessionCommit,
        AnomalyKind::ExtCommit,
    ]);

    /// The fourteen patterns of Plume, TAP-a to TAP-n.
    pub const TAPS: &'static [AnomalyKind] = AnomalyKind::ALL.split_at(14).0;

    /// The set of anomalies that imply one of `set`.
    pub(crate) const fn all_implying(set: u128) -> u128 {
        let (mut bits, mut i) = (0, 0);
        while i < COUNT {
            if IMPLIED[i] & set != 0 {
                bits |= 1 << i;
            }
            i += 1;
        }
        bits
    }

    /// Its row of the table.
    pub fn info(self) -> &'static AnomalyInfo {
        row(self.index())
    }

    /// What the field calls it: `TAP-k`, `G1c`, `EXT`.
    pub fn code(self) -> &'static str {
        self.info().code
    }

    /// Whether every level that forbids `other` forbids `self` too, because `self` is `other` or worse.
    /// Reflexive and transitive.
    pub fn implies(self, other: AnomalyKind) -> bool {
        IMPLIED[self.index()] & other.bit() != 0
    }

    /// The weakest canonical levels that it rules out, in the order of the table. Empty for a mere warning
    /// or limit.
    pub fn rules_out(self) -> Vec<Level> {
        let broken: Vec<Level> =
            Level::CANONICAL.iter().copied().filter(|level| level.forbids(self)).collect();
        Level::weakest(&broken)
    }

    /// Whether it is about timestamps: SESSION, INT, EXT, NOCONFLICT, TIE, TIMESTAMP.
    pub fn is_stamp(self) -> bool {
        AnomalyKind::STAMPS & self.bit() != 0
    }

    /// Whether it says no more than that no order satisfies a level. Its witness names the transactions and
    /// operations that matter; the proof is a [`Refutation`](crate::Refutation).
    pub fn is_no_order(self) -> bool {
        self.name().ends_with("-cycle-exists")
    }

    /// The code with the everyday name, as messages show it: "G2-item (write skew)".
    pub fn title(self) -> String {
        match self.info() {
            info if info.everyday.is_empty() => info.code.to_owned(),
            info => format!("{} ({})", info.code, info.everyday),
        }
    }
}

/// No anomaly has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAnomaly {
    /// What was given.
    pub input: String,
    /// Names it may have meant, nearest first; at most three.
    pub suggestions: Vec<&'static str>,
}

impl fmt::Display for UnknownAnomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown anomaly `{}`{}", self.input, did_you_mean(&self.suggestions))
    }
}

impl std::error::Error for UnknownAnomaly {}

impl FromStr for AnomalyKind {
    type Err = UnknownAnomaly;

    /// By name, then alias, then code; case does not matter, and `_` or a space may stand for the hyphen.
    ///
    /// Names win over codes: `future-read` is TAP-c here. Elle's reading of it is
    /// [`elle::anomaly`](crate::elle::anomaly)'s.
    fn from_str(typed: &str) -> Result<AnomalyKind, UnknownAnomaly> {
        let wanted = normalise(typed);
        let find = |matches: &dyn Fn(&AnomalyInfo) -> bool| {
            AnomalyKind::ALL.iter().copied().find(|kind| matches(kind.info()))
        };
        find(&|info| info.name == wanted || info.aliases.contains(&wanted.as_str()))
            .or_else(|| find(&|info| info.code.eq_ignore_ascii_case(&wanted)))
            .ok_or_else(|| {
                let spellings = AnomalyKind::ALL.iter().flat_map(|kind| {
                    let info = kind.info();
                    [info.name, info.code]
                        .into_iter()
                        .chain(info.aliases.iter().copied())
                        .map(|spelling| (spelling, info.name))
                });
                UnknownAnomaly { input: typed.to_owned(), suggestions: nearest(typed, spellings) }
            })
    }
}
