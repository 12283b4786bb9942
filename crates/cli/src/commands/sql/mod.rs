//! `anomalist sql`: drive a relational database with instrumented SQL, and judge what it did.

mod drive;
mod instrument;
mod page;
mod picture;
mod replay;
mod scenarios;
mod show;
mod subject;
mod templates;

use crate::cli::Global;
use crate::commands::database;
use crate::exit::{Exit, Failure};
use crate::values;
use anomalist_lab::server::Engine;
use anomalist_level::Level;
use anomalist_sql::generate::Mix;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Flags of `sql`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples: anomalist sql\n          \
    anomalist sql --throwaway mariadb --isolation 'repeatable read' --duration 2m\n          \
    anomalist sql postgres://localhost/test --isolation all --level read-committed\n          \
    anomalist sql scenarios --throwaway postgres\n          \
    anomalist sql instrument --dialect mysql 'DELETE FROM t WHERE c2 > 1'\n\n\
    Tables are made in a schema or database of the run's own, anomalist_sql_…, which is removed afterwards.\n\n\
    Exit status: 0 the run worked and every --level holds, 1 one is violated\n\
    (without --level: the database did what its vendor rules out),\n\
    2 one is undecided, most statements failed, or nothing could be seen at any isolation level,\n\
    3 bad usage or no database, 4 internal error (please report it).")]
pub struct Flags {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    drive: DriveFlags,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Print statements as they are sent to the database, with the columns that record which rows they read
    /// and write
    Instrument(InstrumentFlags),
    /// Run a script of interleaved sessions and say what it shows
    Replay(ReplayFlags),
    /// Run Hermitage's anomalies at every isolation level and print the table
    Scenarios(ScenarioFlags),
}

/// Which database.
#[derive(Args, Debug)]
pub struct Where {
    /// postgres://…, mysql://… (MySQL, MariaDB, TiDB) or sqlite:FILE [default: $DATABASE_URL, else SQLite in this process]
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Start a private server from the programs on this machine, and remove it afterwards: postgres,
    /// mariadb or galera
    #[arg(long, value_name = "DB", conflicts_with = "url", value_parser = database::throwaway)]
    throwaway: Option<Engine>,
    /// SQL dialect, if not that of the product that the server reports: postgres, mariadb, mysql, sqlite,
    /// cockroachdb, yugabytedb, tidb
    #[arg(long, value_name = "D")]
    dialect: Option<anomalist_sql::Flavour>,
    /// Isolation level, by the database's own name; all: every one it has, in turn
    #[arg(long, value_name = "NAME", default_value = "all")]
    isolation: String,
}

/// Flags of a run.
#[derive(Args, Debug)]
pub struct DriveFlags {
    #[command(flatten)]
    place: Where,
    /// Levels that must hold, by name or alias; they decide the exit status [default: require none]
    #[arg(long, value_name = "L", value_delimiter = ',')]
    level: Vec<Level>,
    /// Do not require what the vendor of the database documents (without --level, an anomaly that the
    /// documentation rules out is exit status 1)
    #[arg(long)]
    no_claim: bool,
    /// Concurrent sessions [default: 2 to 5, by turns]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    sessions: Option<u16>,
    /// How long to run at each isolation level, such as 30s or 5m
    #[arg(long, value_name = "D", default_value = "30s", value_parser = some_time)]
    duration: Duration,
    /// Transactions after which a fresh schema is made
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    round: u64,
    /// Transactions of a session after which it reads every table
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..))]
    read_all: u64,
    /// Same seed, same statements; their timing is the database's
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Most tables of a schema
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    tables: u16,
    /// Most columns of a table
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    columns: u16,
    /// Most rows of a table at the start
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rows: u16,
    /// Most statements of a transaction
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    statements: u16,
    /// Different values in columns
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    values: i64,
    /// Percentage of transactions that are rolled back
    #[arg(long, value_name = "P", default_value_t = 8, value_parser = clap::value_parser!(u8).range(0..=100))]
    rollback: u8,
    /// Percentage of transactions that are one statement without BEGIN
    #[arg(long, value_name = "P", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=100))]
    autocommit: u8,
    /// Percentage of transactions that roll back to a savepoint
    #[arg(long, value_name = "P", default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=100))]
    savepoints: u8,
    /// Shares of the kinds of statements, such as select=50,update=50,delete=0; those not named keep their
    /// default
    #[arg(long, value_name = "KIND=N,…", default_value = "")]
    mix: Mix,
    /// Do not shrink what was found
    #[arg(long)]
    no_shrink: bool,
    /// Folder for the scripts of what was found
    #[arg(long, value_name = "DIR")]
    scripts: Option<PathBuf>,
    /// Folder in which the run is kept: result, report and scripts
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Write a report with scripts and graphs
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

/// A duration in which something can happen.
fn some_time(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        Duration::ZERO => Err("the duration must be greater than 0".to_owned()),
        some => Ok(some),
    }
}

/// Flags of `sql instrument`.
#[derive(Args, Debug)]
#[command(after_help = "Example: anomalist sql instrument --dialect postgres 'UPDATE t SET c1 = 1'")]
pub struct InstrumentFlags {
    /// SQL statements; without any, a script is read from standard input
    #[arg(value_name = "SQL")]
    statements: Vec<String>,
    /// SQL dialect: postgres, mariadb, mysql, sqlite, cockroachdb, yugabytedb or tidb
    #[arg(long, value_name = "D")]
    dialect: anomalist_sql::Flavour,
    /// Also return every column of the rows
    #[arg(long)]
    whole_rows: bool,
}

/// Flags of `sql replay`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: anomalist sql replay found/repeatable-read-write-skew-0.sql --throwaway postgres --runs 10\n          \
    anomalist sql replay found --throwaway mariadb\n\n\
    Exit status: 0 the script ran and showed what it expects, 2 it did not show it, 3 bad usage or no database."
)]
pub struct ReplayFlags {
    /// A script, as `anomalist sql --scripts` writes them: a statement per line, with `-- T1` for its
    /// session; or a folder of them, to try on this database what was found on another
    #[arg(value_name = "SCRIPT")]
    script: PathBuf,
    #[command(flatten)]
    place: Where,
    /// How often to run it
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: u32,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

/// Flags of `sql scenarios`.
#[derive(Args, Debug)]
pub struct ScenarioFlags {
    #[command(flatten)]
    place: Where,
    /// Run only these, such as G1a or P4
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Folder for the scripts, which `anomalist sql replay` runs at any level of any database
    #[arg(long, value_name = "DIR")]
    scripts: Option<PathBuf>,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    match &flags.command {
        None => drive::run(&flags.drive, global),
        Some(Command::Instrument(flags)) => instrument::run(flags),
        Some(Command::Replay(flags)) => replay::run(flags, global),
        Some(Command::Scenarios(flags)) => scenarios::run(flags, global),
    }
}
