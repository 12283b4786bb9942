//! What to generate: the parameters, their defaults, and what is wrong with them.

use crate::inject::Injection;
use std::fmt;
use std::str::FromStr;

/// What the operations are, and whether transactions carry timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Kind {
    /// Reads and writes; a key holds 0 before its first write, or nil: see [`Spec::nil_initial`].
    Register,
    /// Appends and reads of whole lists; a key holds `[]` before its first append.
    ListAppend,
    /// Registers, with start and commit timestamps.
    Timestamped,
    /// Lists, with start and commit timestamps.
    TimestampedList,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Register, Kind::ListAppend, Kind::Timestamped, Kind::TimestampedList];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Register => "register",
            Kind::ListAppend => "list-append",
            Kind::Timestamped => "timestamped",
            Kind::TimestampedList => "timestamped-list",
        }
    }

    /// True if keys hold lists.
    pub fn is_list(self) -> bool {
        matches!(self, Kind::ListAppend | Kind::TimestampedList)
    }

    /// True if transactions carry timestamps.
    pub fn is_timestamped(self) -> bool {
        matches!(self, Kind::Timestamped | Kind::TimestampedList)
    }
}

/// The isolation level of the simulated database. Each keeps its level and commonly breaks the next
/// stronger one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SimLevel {
    /// Strict serializability: optimistic, validated at commit.
    Serializable,
    /// Snapshots as of the start, first committer wins.
    SnapshotIsolation,
    /// Replicas with causal delivery and convergence, a snapshot per transaction.
    Causal,
    /// Atomic visibility without causality.
    ReadAtomic,
    /// Every statement sees the state committed by then.
    ReadCommitted,
    /// Writes are visible before they commit, but never overwritten by others before.
    ReadUncommitted,
}

impl SimLevel {
    /// All levels, strongest first.
    pub const ALL: [SimLevel; 6] = [
        SimLevel::Serializable,
        SimLevel::SnapshotIsolation,
        SimLevel::Causal,
        SimLevel::ReadAtomic,
        SimLevel::ReadCommitted,
        SimLevel::ReadUncommitted,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SimLevel::Serializable => "serializable",
            SimLevel::SnapshotIsolation => "snapshot-isolation",
            SimLevel::Causal => "causal",
            SimLevel::ReadAtomic => "read-atomic",
            SimLevel::ReadCommitted => "read-committed",
            SimLevel::ReadUncommitted => "read-uncommitted",
        }
    }
}

/// How often each key is used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Distribution {
    /// All keys alike.
    Uniform,
    /// Zipf's law: key `k` with probability proportional to `(k+1)^-theta`.
    Zipf {
        /// Skew; 0.99 by default.
        theta: f64,
    },
    /// 80 % of the operations touch 20 % of the keys.
    Hotspot,
    /// Falling exponentially: 95 % of the operations touch the first 6/7 of the keys, as in YCSB.
    Exponential,
}

impl Distribution {
    /// All distributions, with their defaults.
    pub const ALL: [Distribution; 4] = [
        Distribution::Uniform,
        Distribution::Zipf { theta: 0.99 },
        Distribution::Hotspot,
        Distribution::Exponential,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipf { .. } => "zipf",
            Distribution::Hotspot => "hotspot",
            Distribution::Exponential => "exponential",
        }
    }
}

/// A name that stands for nothing here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownName {
    /// What was asked for, for instance "distribution".
    pub what: &'static str,
    /// The name given.
    pub given: String,
    /// The names there are.
    pub known: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} {:?}; there are {}", self.what, self.given, self.known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// Names are compared without case, hyphens and the like: `FracturedReadCO` is `fractured-read-co`.
pub(crate) fn same_name(a: &str, b: &str) -> bool {
    let letters = |s: &str| -> Vec<u8> {
        s.bytes().filter(u8::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    letters(a) == letters(b)
}

macro_rules! by_name {
    ($type:ident, $what:literal, $($alias:literal => $value:expr),* $(,)?) => {
        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(s: &str) -> Result<$type, UnknownName> {
                $(if same_name(s, $alias) { return Ok($value); })*
                $type::ALL.into_iter().find(|v| same_name(s, v.name())).ok_or_else(|| UnknownName {
                    what: $what,
                    given: s.to_string(),
                    known: $type::ALL.into_iter().map($type::name).collect(),
                })
            }
        }
    };
}

by_name!(Kind, "kind", "list" => Kind::ListAppend, "rw-register" => Kind::Register);
by_name!(Distribution, "distribution", "zipfian" => Distribution::Zipf { theta: 0.99 });
by_name!(SimLevel, "level to simulate",
    "ser" => SimLevel::Serializable, "strict-serializable" => SimLevel::Serializable,
    "strong-session-serializable" => SimLevel::Serializable,
    "si" => SimLevel::SnapshotIsolation, "strong-session-snapshot-isolation" => SimLevel::SnapshotIsolation,
    "strong-snapshot-isolation" => SimLevel::SnapshotIsolation,
    "cc" => SimLevel::Causal, "tcc" => SimLevel::Causal, "ra" => SimLevel::ReadAtomic,
    "rc" => SimLevel::ReadCommitted, "ru" => SimLevel::ReadUncommitted);

/// What to generate. The default is Plume's: 25 sessions × 200 transactions × 20 operations, half of them
/// reads, on 10,000 keys used alike.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// What the operations are.
    pub kind: Kind,
    /// The level of the simulated database.
    pub level: SimLevel,
    /// Number of sessions. They run concurrently, one transaction each at a time.
    pub sessions: u32,
    /// Transactions of each session, whatever their outcome; injected ones come on top.
    pub txns_per_session: u32,
    /// Operations of each transaction.
    pub ops_per_txn: u32,
    /// If set, a transaction has between this many and `ops_per_txn` operations.
    pub min_ops_per_txn: Option<u32>,
    /// The probability that an operation is a read.
    pub read_ratio: f64,
    /// Number of keys (at any one time).
    pub keys: u64,
    /// How often each key is used.
    pub distribution: Distribution,
    /// If set, a key retires after this many writes or appends and a new one takes its place.
    pub writes_per_key: Option<u32>,
    /// Registers: the share of writes that delete their key, that is, write its initial value again.
    pub delete_ratio: f64,
    /// The share of transactions that their client aborts; their writes never count.
    pub abort_ratio: f64,
    /// The share of transactions whose client never learns the outcome; half of them take effect (all of
    /// them at read uncommitted, where others may have seen them).
    pub indeterminate_ratio: f64,
    /// Also record transactions that the database refused because of a conflict, as aborted. They come on
    /// top of `txns_per_session`: each is followed by a retry of the same operations with new values.
    pub record_conflicts: bool,
    /// Also record when clients began and ended each transaction.
    pub real_time: bool,
    /// Registers: keys hold nil, not 0, before their first write. Formats differ in what they can say.
    pub nil_initial: bool,
    /// Timestamped kinds: each session's clock is wrong by up to this many ticks, either way.
    pub clock_skew: u32,
    /// Same seed (and other parameters), same history.
    pub seed: u64,
    /// Anomalies to plant, one instance each, at random places.
    pub inject: Vec<Injection>,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            kind: Kind::Register,
            level: SimLevel::Serializable,
            sessions: 25,
            txns_per_session: 200,
            ops_per_txn: 20,
            min_ops_per_txn: None,
            read_ratio: 0.5,
            keys: 10_000,
            distribution: Distribution::Uniform,
            writes_per_key: None,
            delete_ratio: 0.0,
            abort_ratio: 0.0,
            indeterminate_ratio: 0.0,
            record_conflicts: false,
            real_time: false,
            nil_initial: false,
            clock_skew: 0,
            seed: 0,
            inject: Vec::new(),
        }
    }
}

/// Why a [`Spec`] cannot be generated.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SpecError {
    /// A number is outside its range.
    OutOfRange {
        /// The parameter.
        what: &'static str,
        /// Its value.
        given: f64,
        /// The least value allowed.
        least: f64,
        /// The largest value allowed.
        largest: f64,
    },
    /// Aborted and indeterminate transactions together are more than all.
    OutcomesExceedOne {
        /// The sum of both ratios.
        sum: f64,
    },
    /// The anomaly takes more sessions than there are.
    TooFewSessions {
        /// The anomaly.
        injection: Injection,
        /// How many sessions it takes.
        needed: u32,
    },
    /// The anomaly does not exist in histories of this kind.
    WrongKind {
        /// The anomaly.
        injection: Injection,
        /// What the history would have to have.
        needed: &'static str,
    },
    /// No such TAP: there are a to n.
    UnknownTap(char),
    /// [`generate`](crate::generate) holds the whole history in memory, and it has too much of something.
    TooLarge(anomalist_history::TooLarge),
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::OutOfRange { what, given, least, largest } => {
                write!(f, "{what} is {given}, but has to be between {least} and {largest}")
            }
            SpecError::OutcomesExceedOne { sum } => {
                write!(f, "abort ratio and indeterminate ratio together are {sum}, more than 1")
            }
            SpecError::TooFewSessions { injection, needed } => {
                write!(f, "{injection} takes at least {needed} sessions")
            }
            SpecError::WrongKind { injection, needed } => {
                write!(f, "{injection} takes a history with {needed}")
            }
            SpecError::UnknownTap(letter) => write!(f, "there is no TAP-{letter}: they are TAP-a to TAP-n"),
            SpecError::TooLarge(too_large) => too_large.fmt(f),
        }
    }
}

impl std::error::Error for SpecError {}

impl Spec {
    /// Largest number of operations in one transaction.
    pub const OPS_LIMIT: u32 = 100_000;
    /// Largest number of keys at any one time.
    pub const KEYS_LIMIT: u64 = 1 << 28;

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let range = |what, given: f64, least: f64, largest: f64| {
            let ok = (least..=largest).contains(&given);
            if ok { Ok(()) } else { Err(SpecError::OutOfRange { what, given, least, largest }) }
        };
        let any = f64::from(u32::MAX);
        range("number of sessions", self.sessions.into(), 1.0, f64::from(1 << 20))?;
        range("number of operations per transaction", self.ops_per_txn.into(), 1.0, Self::OPS_LIMIT.into())?;
        if let Some(min) = self.min_ops_per_txn {
            range("least number of operations per transaction", min.into(), 1.0, self.ops_per_txn.into())?;
        }
        range("number of keys", self.keys as f64, 1.0, Self::KEYS_LIMIT as f64)?;
        range("number of writes per key", self.writes_per_key.unwrap_or(1).into(), 1.0, any)?;
        range("read ratio", self.read_ratio, 0.0, 1.0)?;
        range("delete ratio", self.delete_ratio, 0.0, if self.kind.is_list() { 0.0 } else { 1.0 })?;
        range("abort ratio", self.abort_ratio, 0.0, 1.0)?;
        range("indeterminate ratio", self.indeterminate_ratio, 0.0, 1.0)?;
        let sum = self.abort_ratio + self.indeterminate_ratio;
        if sum > 1.0 {
            return Err(SpecError::OutcomesExceedOne { sum });
        }
        if let Distribution::Zipf { theta } = self.distribution {
            range("theta of the zipf distribution", theta, 0.01, 10.0)?;
        }
        self.inject.iter().try_for_each(|injection| injection.check(self))
    }
}
