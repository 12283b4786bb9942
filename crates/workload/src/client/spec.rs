//! Workloads by name, with their parameters and defaults.

use super::application::{self, Application};
use super::{Key, Op, Planner};
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
    /// Single writes of keys in small groups, and reads of groups: two readers may disagree about who was
    /// first.
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

/// What the transactions of a workload do.
#[derive(Clone, Copy)]
pub(super) enum Plan {
    /// Operations of a datatype (`plan.rs`).
    Datatype(fn(&mut Planner, &mut Vec<Op>)),
    /// Reads and writes of an application's rows (`application.rs`).
    Application(Application),
}

/// All that is known about a workload: a new one is a variant, a row, and the plan of its transactions.
struct Row {
    workload: Workload,
    name: &'static str,
    aliases: &'static [&'static str],
    recording: Recording,
    plan: Plan,
    /// Parameters under which weak isolation shows within a few thousand transactions.
    usual: fn(ClientSpec) -> ClientSpec,
}

impl Row {
    const fn new(
        workload: Workload,
        name: &'static str,
        recording: Recording,
        plan: fn(&mut Planner, &mut Vec<Op>),
    ) -> Row {
        Row { workload, name, aliases: &[], recording, plan: Plan::Datatype(plan), usual: |spec| spec }
    }

    const fn application(workload: Workload, name: &'static str, plan: Application) -> Row {
        let usual = |spec| ClientSpec { keys: 20, ..spec };
        let plan = Plan::Application(plan);
        Row { workload, name, aliases: &[], recording: Recording::Registers, plan, usual }
    }
}

/// In the order of the variants.
const ROWS: &[Row] = &[
    Row {
        aliases: &["rw-register", "rw"],
        usual: |spec| ClientSpec { writes_per_key: Some(256), ..spec },
        ..Row::new(Workload::Register, "register", Recording::Registers, Planner::registers)
    },
    Row {
        aliases: &["append", "list"],
        usual: |spec| ClientSpec { writes_per_key: Some(32), ..spec },
        ..Row::new(Workload::ListAppend, "list-append", Recording::Lists, Planner::lists)
    },
    Row {
        usual: |spec| ClientSpec { writes_per_key: Some(32), ..spec },
        ..Row::new(Workload::Set, "set", Recording::Events, Planner::sets)
    },
    Row {
        usual: |spec| ClientSpec { keys: 1, ..spec },
        ..Row::new(Workload::Counter, "counter", Recording::Events, Planner::counter)
    },
    Row {
        usual: |spec| ClientSpec { keys: 8, distribution: Distribution::Uniform, ..spec },
        ..Row::new(Workload::Bank, "bank", Recording::Events, Planner::bank)
    },
    Row {
        usual: |spec| ClientSpec { keys: 4, ops_per_txn: 3, distribution: Distribution::Uniform, ..spec },
        ..Row::new(Workload::LongFork, "long-fork", Recording::Registers, Planner::long_fork)
    },
    Row {
        usual: |spec| ClientSpec { keys: 8, distribution: Distribution::Uniform, ..spec },
        ..Row::new(Workload::Predicate, "predicate", Recording::Events, Planner::predicate)
    },
    Row::application(Workload::SmallBank, "smallbank", application::smallbank),
    Row { aliases: &["tpc-c"], ..Row::application(Workload::TpcC, "tpcc", application::tpcc) },
    Row::application(Workload::Voter, "voter", application::voter),
    Row::application(Workload::Twitter, "twitter", application::twitter),
    Row::application(Workload::Rubis, "rubis", application::rubis),
    Row::application(Workload::Courseware, "courseware", application::courseware),
];

impl Workload {
    /// All workloads.
    pub const ALL: [Workload; ROWS.len()] = {
        let mut all = [Workload::Register; ROWS.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = ROWS[at].workload;
            at += 1;
        }
        all
    };

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What a key is called in the history: a number, but for applications a column and a row.
    pub fn key_name(self, key: Key) -> Option<String> {
        matches!(self.plan(), Plan::Application(_)).then(|| application::name(key))
    }

    /// How its history is written down.
    pub fn recording(self) -> Recording {
        self.row().recording
    }

    pub(super) fn plan(self) -> Plan {
        self.row().plan
    }
}

impl FromStr for Workload {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Workload, UnknownName> {
        let named = |row: &&Row| same_name(s, row.name) || row.aliases.iter().any(|a| same_name(s, a));
        ROWS.iter().find(named).map(|row| row.workload).ok_or_else(|| UnknownName {
            what: "workload",
            given: s.to_string(),
            known: ROWS.iter().map(|row| row.name).collect(),
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
        (workload.row().usual)(spec)
    }

    /// The names that [`ClientSpec::preset`] knows.
    pub const PRESETS: [&'static str; 3] = ["GeneralRH", "GeneralRW", "GeneralWH"];

    /// Plume's general benchmarks: 20 reads and writes per transaction over 10,000 registers, 95, 50 or 30
    /// % of them reads.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_variants() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.workload as usize, at, "{}", row.name);
        }
    }
}
