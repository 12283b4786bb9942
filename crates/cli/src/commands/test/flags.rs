//! The flags of `test`.

use crate::commands::database;
use crate::documents::Documents;
use crate::exit::Failure;
use crate::values;
use anomalist_client::Limit;
use anomalist_databases::broken::Bug;
use anomalist_databases::engine::{Access, Encoding, ListEncoding};
use anomalist_format::Format;
use anomalist_lab::server::Engine;
use anomalist_level::Level;
use anomalist_workload::Distribution;
use anomalist_workload::client::{ClientSpec, Workload};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Transactions of a run, unless set otherwise.
const TRANSACTIONS: u64 = 5_000;

/// Flags of `test`.
#[derive(Args, Debug)]
#[command(after_help = "Examples: anomalist test\n          \
    anomalist test postgres://localhost/test --isolation 'repeatable read' --level snapshot-isolation\n          \
    anomalist test --throwaway mariadb --matrix\n          \
    anomalist test --throwaway postgres --fault kill,cut --duration 30s\n          \
    anomalist test 'exec:python3 client.py' --level serializable\n\n\
    The tables anomalist_rows and anomalist_sets are dropped and created again in the database.\n\n\
    Exit status: 0 the run worked and every --level holds, 1 one is violated\n\
    (without --level: what the vendor documents for the isolation level), 2 one is undecided, 3 bad usage or no database, 4 internal error (please report it).")]
pub struct Flags {
    /// postgres://…, mysql://… (MySQL, MariaDB, TiDB), sqlite:FILE, simulated:LEVEL, weakdb:LEVEL or exec:CMD [default: $DATABASE_URL, else SQLite and a simulated store]
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Start a private server from the programs on this machine, and remove it afterwards: postgres,
    /// mariadb or galera
    #[arg(long, value_name = "DB", conflicts_with = "url", value_parser = database::throwaway)]
    pub throwaway: Option<Engine>,
    /// Isolation level, by the database's own name [default: its strongest]
    #[arg(long, value_name = "NAME", conflicts_with = "matrix")]
    pub isolation: Option<String>,
    /// Test every isolation level of the database, and print which levels each one satisfies
    #[arg(long)]
    pub matrix: bool,
    /// Levels that must hold, by name or alias; they decide the exit status [default: decide all, require
    /// none]
    #[arg(long, value_name = "L", value_delimiter = ',')]
    pub level: Vec<Level>,
    /// Do not require what the vendor of the database documents (without --level, breaking it is exit
    /// status 1)
    #[arg(long)]
    pub no_claim: bool,
    /// What transactions do: register, list-append, set, counter, bank, long-fork, predicate, smallbank,
    /// tpcc, voter, twitter, rubis, courseware, or GeneralRH, GeneralRW, GeneralWH [default: list-append]
    #[arg(long, value_name = "W", value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Number of sessions, each a connection and a thread
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub sessions: u32,
    /// Transactions of a run, whatever their outcome [default: 5000]
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    pub txns: Option<u64>,
    /// Run for this time instead, such as 30s or 2m
    #[arg(long, value_name = "D", value_parser = some_time)]
    pub duration: Option<Duration>,
    /// Disturb the database: delay, throttle, terminate, lose-commits, cut, half-close, partition; of a
    /// throw-away server also pause, restart, kill; all: everything that is possible
    #[arg(long, value_name = "F", value_delimiter = ',')]
    pub fault: Vec<String>,
    /// Also check snapshot isolation by the server's own snapshots and order of commits, while it runs:
    /// PostgreSQL at REPEATABLE READ and SERIALIZABLE, MariaDB at REPEATABLE READ
    #[arg(long)]
    pub online: bool,
    /// About one fault in this time
    #[arg(long, value_name = "D", default_value = "1s", value_parser = values::duration)]
    pub fault_every: Duration,
    /// Give the database a known bug, to see it caught: dirty-read, lost-update, non-atomic-commit,
    /// stale-failover; or the client: lost-commit-is-abort
    #[arg(long, value_name = "BUG")]
    pub bug: Option<Bug>,
    /// Number of keys in use at a time: rows, lists, accounts, groups [default: the workload's]
    #[arg(long, value_name = "N")]
    pub keys: Option<u64>,
    /// Most operations of a transaction [default: the workload's]
    #[arg(long, value_name = "N")]
    pub ops_per_txn: Option<u32>,
    /// Fewest operations of a transaction [default: the workload's]
    #[arg(long, value_name = "N")]
    pub min_ops_per_txn: Option<u32>,
    /// Probability that an operation is a read [default: the workload's]
    #[arg(long, value_name = "R")]
    pub read_ratio: Option<f64>,
    /// How often keys are used: uniform, zipf, hotspot or exponential [default: the workload's]
    #[arg(long, value_name = "D")]
    pub distribution: Option<Distribution>,
    /// Writes after which a fresh key takes the place of an old one [default: the workload's]
    #[arg(long, value_name = "N")]
    pub writes_per_key: Option<u32>,
    /// How lists are kept: as text, native (array or JSON), or read-write (read, then written back)
    #[arg(long, value_name = "E", default_value = "text")]
    pub lists: ListEncoding,
    /// How rows are found: by primary key, by a column with an index, or by one without (scan)
    #[arg(long, value_name = "A", default_value = "primary")]
    pub access: Access,
    /// Same seed, same transactions; their timing is the database's
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Folder for runs
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,
    /// Also write the history in this format, such as elle-edn
    #[arg(long, value_name = "FORMAT", value_parser = values::format())]
    pub to: Option<Format>,
    /// Time limit of each check, such as 30s or 2m [default: none for levels decided in polynomial time,
    /// else 30s]
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    pub timeout: Option<Duration>,
    /// Print one JSON document and nothing else
    #[arg(long)]
    pub json: bool,
    /// Write the table of levels and runs, and nothing else, as Markdown
    #[arg(long, value_name = "FILE")]
    pub table: Option<PathBuf>,
    /// Write a page with all runs; each run's folder has one of its own
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Reports for other programs.
    #[command(flatten)]
    pub documents: Documents,
}

fn some_time(text: &str) -> Result<Duration, String> {
    let time = values::duration(text)?;
    if time.is_zero() { Err("a run takes some time".to_owned()) } else { Ok(time) }
}

impl Flags {
    /// The workloads, with their parameters.
    pub fn spec(&self) -> Result<Vec<ClientSpec>, Failure> {
        if self.workload.is_empty() {
            // Weakdb keeps no lists.
            let weak = self.url.as_ref().is_some_and(|url| url.starts_with("weakdb:"));
            let usual = if weak { Workload::Register } else { Workload::ListAppend };
            return Ok(vec![self.adjusted(ClientSpec::of(usual))]);
        }
        let named = |name: &String| match ClientSpec::preset(name) {
            Some(spec) => Ok(spec),
            None => name.parse().map(ClientSpec::of).map_err(Failure::input),
        };
        self.workload.iter().map(|name| named(name).map(|spec| self.adjusted(spec))).collect()
    }

    fn adjusted(&self, spec: ClientSpec) -> ClientSpec {
        let most = self.ops_per_txn.unwrap_or(spec.ops_per_txn);
        ClientSpec {
            keys: self.keys.unwrap_or(spec.keys),
            ops_per_txn: most,
            min_ops_per_txn: self.min_ops_per_txn.unwrap_or(spec.min_ops_per_txn.min(most)),
            read_ratio: self.read_ratio.unwrap_or(spec.read_ratio),
            distribution: self.distribution.unwrap_or(spec.distribution),
            writes_per_key: self.writes_per_key.or(spec.writes_per_key),
            seed: self.seed,
            ..spec
        }
    }

    /// How many transactions a run has, if it is not limited by time.
    pub fn txns(&self) -> u64 {
        self.txns.unwrap_or(TRANSACTIONS)
    }

    /// When a run is over.
    pub fn limit(&self) -> Limit {
        match self.duration {
            Some(time) => Limit::Time(time),
            None => Limit::Transactions(self.txns()),
        }
    }

    /// How the workload is laid out in tables.
    pub fn encoding(&self) -> Encoding {
        Encoding { list: self.lists, access: self.access }
    }
}
