//! `anomalist watch`: isolation by timestamps, while transactions arrive.
//!
//! ```text
//! sources (a thread each) ──blocks──► parser ──batches──► checker, on the calling thread ──► events
//! ```
//! Channels are bounded, so a source waits when the checker is behind. The checker is `anomalist-online`'s;
//! here are its clock, its store, what comes in and what goes out.

mod earlier;
pub mod engine;
mod frames;
mod growing;
mod http;
pub mod ingest;
mod live;
pub mod medium;
mod metrics;
mod options;
mod report;
mod room;
mod run;
mod servers;
mod sources;
mod state;
pub mod store;

pub use report::Voice;
pub use run::run;
pub use sources::{Known, NAMED};

use crate::values;
use anomalist_level::Level;
use anomalist_timestamp::Tie;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Flags of `watch`.
#[derive(Args, Debug)]
#[command(after_help = "Examples: anomalist watch history.jsonl --level si\n          \
    tail -f log.jsonl | anomalist watch - --json\n          \
    anomalist watch --listen 9000 --metrics 9001 --state /var/lib/anomalist --memory 700MB\n\n\
    Exit status: 0 no violation stands at the end, 1 one does,\n\
    2 unknown: no transaction could be used, or the file was rotated away,\n\
    3 bad usage.")]
pub struct Flags {
    /// A file, or - for standard input [default: -, unless --listen or --http is given]
    #[arg(value_name = "SOURCE")]
    source: Option<PathBuf>,
    /// Continue when the file ends, and wait for it to grow
    #[arg(long)]
    follow: bool,
    /// Accept lines from clients that connect to HOST:PORT, a PORT of this machine alone, or unix:PATH; may
    /// be repeated
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Accept batches of lines by HTTP POST
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Level to check: snapshot isolation or serializability, with or without session order
    #[arg(long, value_name = "L", default_value = "strong-session-snapshot-isolation")]
    level: Level,
    /// How long after its arrival a transaction's verdict may change before it is reported
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = values::duration)]
    settle: Duration,
    /// What equal timestamps mean: a snapshot contains what committed at its very timestamp (inclusive) or
    /// not (exclusive)
    #[arg(long, value_name = "RULE", default_value = "inclusive")]
    tie: Tie,
    /// Memory for the checker's state, such as 700MB; what does not fit goes to disk [default: 1GB]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    memory: Option<usize>,
    /// When old state leaves memory: memory (at the limit), threshold:N (with more than N transactions),
    /// none
    #[arg(long, value_name = "POLICY", default_value = "memory")]
    gc: String,
    /// Folder for a state that survives the process; a restart goes on where the last run ended
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// How often the state is made durable as a whole
    #[arg(long, value_name = "DUR", default_value = "10s", value_parser = values::duration, requires = "state")]
    checkpoint: Duration,
    /// Serve metrics for Prometheus at http://ADDR/metrics
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
    /// Name that HTTP requests may have as Host or Origin, beside this machine's own [may be repeated]
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Also report verdicts that change before they settle
    #[arg(long)]
    provisional: bool,
    /// Value of a key before any write: a number, a string in quotes, nil or none [default: nil, or the
    /// stream's header]
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    initial: Option<String>,
    /// End when no client is connected and nothing has arrived for this long
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    exit_when_idle: Option<Duration>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// A size as people write it.
pub fn bytes(n: usize) -> String {
    let (mut n, mut unit) = (n as f64, "B");
    for larger in ["kB", "MB", "GB", "TB"] {
        if n < 1000.0 {
            break;
        }
        (n, unit) = (n / 1000.0, larger);
    }
    if unit == "B" { format!("{n} {unit}") } else { format!("{n:.1} {unit}") }
}
