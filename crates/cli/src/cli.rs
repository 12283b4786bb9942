//! The command line: every command and what they share.

#[cfg(feature = "postgres")]
use crate::commands::record;
use crate::commands::test;
use crate::commands::{
    check, convert, elle, explain, generate, levels, lint, report, shell, shrink, sql, stats, ui, verify,
    watch,
};
#[cfg(feature = "weakdb")]
use crate::commands::{explore, weakdb};
use crate::values;
use anomalist_format::Format;
use clap::{Args, Parser, Subcommand};
use std::num::NonZeroUsize;

/// Checks whether databases really isolate transactions: decides isolation levels, explains violations
#[derive(Parser, Debug)]
#[command(name = "anomalist", version, max_term_width = 80, arg_required_else_help = true)]
#[command(
    after_help = "Exit status: 0 holds, 1 violated, 2 undecided, 3 bad usage or input, 4 internal error (please report it).\n\n\
    Example: anomalist generate --inject TAP-k | anomalist check - --level read-atomic"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Flags of all commands.
    #[command(flatten)]
    pub global: Global,
}

/// A command.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Decide isolation levels for recorded histories
    Check(check::Flags),
    /// Re-check a certificate independently of what wrote it
    Verify(verify::Flags),
    /// Find the smallest part of a history that still violates a level
    Shrink(shrink::Flags),
    /// Sessions, transactions, operations, keys, value reuse, contention
    Stats(stats::Flags),
    /// Write a history in another format
    Convert(convert::Flags),
    /// Make a history with a simulated database of a chosen level
    Generate(generate::Flags),
    /// The isolation levels, weakest first, and the anomalies
    Levels(levels::Flags),
    /// Explain a level or an anomaly
    Explain(explain::Flags),
    /// Check as elle-cli does: its flags, its output, Elle's own answer
    Elle(elle::Flags),
    /// Make a page to explore from a kept result and its history
    Report(report::Flags),
    /// Find recording mistakes, and anomalies that a history could not have revealed
    Lint(lint::Flags),
    /// Drive a database from concurrent sessions, record, check
    Test(Box<test::Flags>),
    /// Test a relational database with random, instrumented SQL
    Sql(Box<sql::Flags>),
    /// Check a stream of timestamped transactions while it arrives
    Watch(watch::Flags),
    /// Record what an application does to its PostgreSQL, as a history
    #[cfg(feature = "postgres")]
    Record(record::Flags),
    /// Serve a web application on this machine: runs, verdicts, tests to watch, the lattice of levels
    Ui(ui::Flags),
    /// Run a test command against the mock weak database many times, explain failures
    #[cfg(feature = "weakdb")]
    Explore(explore::Flags),
    /// Serve a mock database that shows every behaviour its level allows (PostgreSQL, MySQL, HTTP)
    #[cfg(feature = "weakdb")]
    Weakdb(weakdb::Flags),
    /// Print completions for a shell
    Completions(shell::CompletionFlags),
    /// Print the manual page
    Man(shell::ManFlags),
}

/// Flags of all commands.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Common options")]
pub struct Global {
    /// Print no progress and no warnings
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print without colours (as NO_COLOR does)
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Print more: examples of every anomaly, timings
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Threads to use [default: as many as there are cores]
    #[arg(long, value_name = "N", global = true)]
    pub threads: Option<NonZeroUsize>,
}

/// How to read histories.
#[derive(Args, Clone, Debug)]
pub struct ReadFlags {
    /// Format of the history [default: detect]
    #[arg(long, value_name = "F", value_parser = values::format())]
    pub format: Option<Format>,
    /// Value of a key before any write: a number, a string in quotes, nil or none [default: the format's]
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    pub initial: Option<String>,
    /// Use the part before a truncated or malformed end
    #[arg(long)]
    pub lossy: bool,
    /// What reading may take.
    #[command(flatten)]
    pub limits: Limits,
}

/// What reading a history may take.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Memory to use, such as 700MB or 4GiB; what needs more is unknown [default: 80 % of what the machine,
    /// the cgroup or ulimit -v allows]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub memory: Option<usize>,
    /// Largest input, after decompression, such as 700MB or 4GiB [default: 1 TB]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub max_size: Option<usize>,
}
