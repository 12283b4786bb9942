//! Workloads by name, with their parameters and defaults.

use super::{Key, application};
use crate::spec::{Distribution, Spec, SpecError, UnknownName, same_name};
use std::str::FromStr;

/// What transactions do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Workload {
    /// Reads and writes of registers.
    Register,
    /// Appends to lists and reads of whole lists: what shows the most (Kingsbury & Alvaro 2020).
    ListAppend,
    /// Additions to sets and reads of whole sets.
    Set,
    /// Additions to one counter, and reads of it.
    Counter,
    /// Transfers between accounts, and reads of all balances.
    Bank,
    /// Single writes of keys in small groups, and reads of groups: two readers may disagree about who was first.
    LongFork,
    /// Rows inserted, changed, deleted, and read by what they hold.
    Predicate,
    /// SmallBank: checking and savings accounts (Alomari et al. 2008).
    SmallBank,
    /// TPC-C's five transactions, as reads and writes of its rows.
    TpcC,
    /// Voter: one short transaction that everybody runs.
    Voter,
    /// Twitter: tweets, followers and timelines.
    Twitter,
    /// RUBiS: an auction site.
    Rubis,
    /// Courseware: students, courses and enrolments.
    Courseware,
}

/// How a workload's history is written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recording {
    /// As transactions of reads and writes of registers.
    Registers,
    /// As transactions of appends and reads of lists.
    Lists,
    /// As operations of another datatype.
    Events,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Workload; 13] = [
        Workload::Register,
        Workload::ListAppend,
        Workload::Set,
        Workload::Counter,
        Workload::Bank,
        Workload::LongFork,
        Workload::Predicate,
        Workload::SmallBank,
        Workload::TpcC,
        Workload::Voter,
        Workload::Twitter,
        Workload::Rubis,
        Workload::Courseware,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Register => "register",
            Workload::ListAppend => "list-append",
            Workload::Set => "set",
            Workload::Counter => "counter",
            Workload::Bank => "bank",
            Workload::LongFork => "long-fork",
            Workload::Predicate => "predicate",
            Workload::SmallBank => "smallbank",
            Workload::TpcC => "tpcc",
            Workload::Voter => "voter",
            Workload::Twitter => "twitter",
            Workload::Rubis => "rubis",
            Workload::Courseware => "courseware",
        }
    }

    /// What a key is called in the history: a number, but for applications a column and a row.
    pub fn key_name(self, key: Key) -> Option<String> {
        let application = matches!(
            self,
            Workload::SmallBank
                | Workload::TpcC
                | Workload::Voter
                | Workload::Twitter
                | Workload::Rubis
                | Workload::Courseware
        );
        application.then(|| application::name(key))
    }

    /// How its history is written down.
    pub fn recording(self) -> Recording {
        match self {
            Workload::ListAppend => Recording::Lists,
            Workload::Set | Workload::Counter | Workload::Bank | Workload::Predicate => Recording::Events,
            _ => Recording::Registers,
        }
    }
}

impl FromStr for Workload {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Workload, UnknownName> {
        let alias = |w: Workload| match w {
            Workload::ListAppend => &["append", "list"][..],
            Workload::Register => &["rw-register", "rw"],
            Workload::TpcC => &["tpc-c"],
            _ => &[],
        };
        let named = |w: &Workload| same_name(s, w.name()) || alias(*w).iter().any(|a| same_name(s, a));
        Workload::ALL.into_iter().find(named).ok_or_else(|| UnknownName {
            what: "workload",
            given: s.to_string(),
            known: Workload::ALL.into_iter().map(Workload::name).collect(),
        })
    }
}

/// What the sessions do together.
#[derive(Clone, PartialEq, Debug)]
pub struct ClientSpec {
    /// What transactions do.
    pub workload: Workload,
    /// Number of keys in use at a time: registers, lists, sets, accounts, groups or rows.
    pub keys: u64,
    /// Fewest operations of a transaction.
    pub min_ops_per_txn: u32,
    /// Most operations of a transaction.
    pub ops_per_txn: u32,
    /// The probability that an operation is a read (counter, bank, long-fork: that a transaction is).
    pub read_ratio: f64,
    /// How often each key is used.
    pub distribution: Distribution,
    /// After so many writes a key retires, and a fresh one takes its place; none: never.
    pub writes_per_key: Option<u32>,
    /// Same seed, same plans.
    pub seed: u64,
}

impl ClientSpec {
    /// Money of each account when a bank opens.
    pub const BALANCE: i64 = 100;

    /// A workload with parameters under which weak isolation shows within a few thousand transactions.
    pub fn of(workload: Workload) -> ClientSpec {
        let spec = ClientSpec {
            workload,
            keys: 10,
            min_ops_per_txn: 1,
            ops_per_txn: 4,
            read_ratio: 0.5,
            distribution: Distribution::Exponential,
            writes_per_key: None,
            seed: 0,
        };
        match workload {
            Workload::ListAppend | Workload::Set => ClientSpec { writes_per_key: Some(32), ..spec },
            Workload::Register => ClientSpec { writes_per_key: Some(256), ..spec },
            Workload::Bank => ClientSpec { keys: 8, distribution: Distribution::Uniform, ..spec },
            Workload::LongFork => {
                ClientSpec { keys: 4, ops_per_txn: 3, distribution: Distribution::Uniform, ..spec }
            }
            Workload::Predicate => ClientSpec { keys: 8, distribution: Distribution::Uniform, ..spec },
            Workload::Counter => ClientSpec { keys: 1, ..spec },
            _ => ClientSpec { keys: 20, ..spec },
        }
    }

    /// The names that [`ClientSpec::preset`] knows.
    pub const PRESETS: [&'static str; 3] = ["GeneralRH", "GeneralRW", "GeneralWH"];

    /// Plume's general benchmarks: 20 reads and writes per transaction over 10,000 registers, 95, 50 or 30 % of them reads.
    pub fn preset(name: &str) -> Option<ClientSpec> {
        let known = Self::PRESETS.iter().find(|known| same_name(name, known))?;
        let shape = Spec::shape(known)?;
        Some(ClientSpec {
            keys: shape.keys,
            min_ops_per_txn: shape.ops_per_txn,
            ops_per_txn: shape.ops_per_txn,
            read_ratio: shape.read_ratio,
            distribution: shape.distribution,
            writes_per_key: None,
            ..ClientSpec::of(Workload::Register)
        })
    }

    /// The same parameters, as the generator of simulated histories has them.
    pub(super) fn shared(&self) -> Result<Spec, SpecError> {
        let spec = Spec {
            keys: self.keys,
            min_ops_per_txn: Some(self.min_ops_per_txn),
            ops_per_txn: self.ops_per_txn,
            read_ratio: self.read_ratio,
            distribution: self.distribution,
            writes_per_key: self.writes_per_key,
            seed: self.seed,
            ..Spec::default()
        };
        spec.check()?;
        let least = match self.workload {
            Workload::Bank => 2.0,
            _ => 1.0,
        };
        if (self.keys as f64) < least {
            let largest = Spec::KEYS_LIMIT as f64;
            return Err(SpecError::OutOfRange {
                what: "number of keys",
                given: self.keys as f64,
                least,
                largest,
            });
        }
        Ok(spec)
    }
}
