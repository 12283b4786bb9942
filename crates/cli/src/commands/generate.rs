//! `anomalist generate`: a history from a simulated database, written batch by batch, or sent as it would
//! arrive.

pub mod arrival;

use crate::cli::Global;
use crate::destination::Destination;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::{interrupt, values};
use anomalist_format::Format;
use anomalist_workload::{Arrival, Delay, Distribution, Generator, Injection, Kind, SimLevel, Spec};
use clap::Args;
use std::path::PathBuf;

/// Flags of `generate`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: anomalist generate --level snapshot-isolation --inject lost-update -o h.txt\n          \
    anomalist generate --shape W3 | anomalist check -\n          \
    anomalist generate --kind timestamped --arrival 'normal(100ms,10ms)' --rate 5000 -o tcp://127.0.0.1:9000"
)]
pub struct Flags {
    /// File or folder to write; - is standard output. Compressed if it ends in .gz or .zst. With timestamps also tcp://HOST:PORT, unix:PATH or http://HOST:PORT of a watch
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Format to write [default: by the extension, else plume for registers (anomalist for those with
    /// outcomes or real time), elle-jsonl for lists, timekiller for timestamps]
    #[arg(long, value_name = "FORMAT", value_parser = values::format())]
    to: Option<Format>,
    /// Leave out what the format cannot express
    #[arg(long)]
    lossy: bool,
    /// Begin with a named workload: W1 to W5c, GeneralRH, GeneralRW, GeneralWH; other flags change it
    #[arg(long, value_name = "NAME")]
    shape: Option<String>,
    /// Level that the simulated database keeps [default: serializable]
    #[arg(long, value_name = "L")]
    level: Option<SimLevel>,
    /// register, list-append, timestamped or timestamped-list [default: register]
    #[arg(long)]
    kind: Option<Kind>,
    /// Number of sessions [default: 25]
    #[arg(long, value_name = "N")]
    sessions: Option<u32>,
    /// Transactions of each session [default: 200]
    #[arg(long, value_name = "N")]
    txns_per_session: Option<u32>,
    /// Operations of each transaction [default: 20]
    #[arg(long, value_name = "N")]
    ops_per_txn: Option<u32>,
    /// Let transactions have between this many and --ops-per-txn operations
    #[arg(long, value_name = "N")]
    min_ops_per_txn: Option<u32>,
    /// Probability that an operation is a read [default: 0.5]
    #[arg(long, value_name = "R")]
    read_ratio: Option<f64>,
    /// Number of keys [default: 10000]
    #[arg(long, value_name = "N")]
    keys: Option<u64>,
    /// How often keys are used: uniform, zipf, hotspot or exponential [default: uniform]
    #[arg(long, value_name = "D")]
    distribution: Option<Distribution>,
    /// Skew of the zipf distribution [default: 0.99]
    #[arg(long, value_name = "T")]
    zipf_theta: Option<f64>,
    /// Retire a key after this many writes or appends
    #[arg(long, value_name = "N")]
    writes_per_key: Option<u32>,
    /// Registers: share of writes that delete their key, so that it has its initial value again [default: 0]
    #[arg(long, value_name = "R")]
    delete_ratio: Option<f64>,
    /// Share of transactions that their client aborts [default: 0]
    #[arg(long, value_name = "R")]
    abort_ratio: Option<f64>,
    /// Share of transactions whose outcome the client never learns [default: 0]
    #[arg(long, value_name = "R")]
    indeterminate_ratio: Option<f64>,
    /// Also record transactions that the database refused, as aborted
    #[arg(long)]
    record_conflicts: bool,
    /// Also record when clients began and ended each transaction
    #[arg(long)]
    real_time: bool,
    /// Timestamps: let each session's clock be wrong by up to this many ticks
    #[arg(long, value_name = "TICKS")]
    clock_skew: Option<u32>,
    /// Timestamps: write one line per transaction, in the order of arrival after this delay:
    /// normal(100ms,10ms) or none
    #[arg(long, value_name = "DELAY")]
    arrival: Option<Delay>,
    /// Timestamps: transactions that commit per second; to an address, sent in real time [default: 25000,
    /// sent as fast as possible]
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Timestamps: transactions that are sent together
    #[arg(long, value_name = "N", default_value_t = 500)]
    batch: usize,
    /// Plant an anomaly at a random place: TAP-k, lost-update, G1c, EXT …; may be repeated
    #[arg(long, value_name = "ANOMALY", value_delimiter = ',')]
    inject: Vec<Injection>,
    /// Same seed, same history
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Generates.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let mut spec = spec(flags)?;
    let format = format(flags, &mut spec)?;
    let streamed = flags.arrival.is_some() || arrival::is_address(&flags.output);
    if streamed && !spec.kind.is_timestamped() {
        return Err(Failure::input("--arrival and addresses are for --kind timestamped or timestamped-list"));
    }
    if flags.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err(Failure::input("--rate has to be greater than 0"));
    }
    let generator = Generator::new(spec).map_err(Failure::input)?;
    let bar = Progress::transactions(global, "generating", generator.total_txns());
    if streamed {
        let delay = flags.arrival.unwrap_or(Delay { mean_ms: 0.0, deviation_ms: 0.0 });
        let model = Arrival {
            mean_ms: delay.mean_ms,
            deviation_ms: delay.deviation_ms,
            rate: flags.rate.unwrap_or(Arrival::default().rate),
            batch: flags.batch,
        };
        let paced = arrival::is_address(&flags.output) && flags.rate.is_some();
        arrival::send(generator, format, model, paced, flags.seed, &flags.output, |sent| bar.at(sent))?;
        return Ok(Exit::Holds);
    }
    let mut destination = Destination::create(&flags.output, format, flags.lossy)?;
    let mut written = 0;
    for batch in generator {
        if interrupt::is_requested() {
            return Err(Failure::Interrupted);
        }
        destination.append(&batch)?;
        written += batch.txn_count() as u64;
        bar.at(written);
    }
    destination.finish()?;
    Ok(Exit::Holds)
}

/// The shape, with what the flags say instead.
fn spec(flags: &Flags) -> Result<Spec, Failure> {
    let base = match &flags.shape {
        None => Spec::default(),
        Some(name) => Spec::shape(name).ok_or_else(|| {
            Failure::input(format_args!(
                "unknown shape {name:?}\n  help: there are {}",
                Spec::SHAPES.join(", ")
            ))
        })?,
    };
    let distribution = match (flags.distribution.unwrap_or(base.distribution), flags.zipf_theta) {
        (Distribution::Zipf { .. }, Some(theta)) => Distribution::Zipf { theta },
        (_, Some(_)) => return Err(Failure::input("--zipf-theta needs --distribution zipf")),
        (other, None) => other,
    };
    Ok(Spec {
        kind: flags.kind.unwrap_or(base.kind),
        level: flags.level.unwrap_or(base.level),
        sessions: flags.sessions.unwrap_or(base.sessions),
        txns_per_session: flags.txns_per_session.unwrap_or(base.txns_per_session),
        ops_per_txn: flags.ops_per_txn.unwrap_or(base.ops_per_txn),
        min_ops_per_txn: flags.min_ops_per_txn.or(base.min_ops_per_txn),
        read_ratio: flags.read_ratio.unwrap_or(base.read_ratio),
        keys: flags.keys.unwrap_or(base.keys),
        distribution,
        writes_per_key: flags.writes_per_key.or(base.writes_per_key),
        delete_ratio: flags.delete_ratio.unwrap_or(base.delete_ratio),
        abort_ratio: flags.abort_ratio.unwrap_or(base.abort_ratio),
        indeterminate_ratio: flags.indeterminate_ratio.unwrap_or(base.indeterminate_ratio),
        record_conflicts: flags.record_conflicts || base.record_conflicts,
        real_time: flags.real_time || base.real_time,
        nil_initial: base.nil_initial,
        clock_skew: flags.clock_skew.unwrap_or(base.clock_skew),
        seed: flags.seed,
        inject: flags.inject.clone(),
    })
}

/// The format to write. A shape's timestamps give way to a format without them; timestamps that were asked
/// for do not.
fn format(flags: &Flags, spec: &mut Spec) -> Result<Format, Failure> {
    let stamped = spec.kind.is_timestamped();
    let by_name =
        if flags.output.as_os_str() == "-" { None } else { values::format_of_name(&flags.output, stamped) };
    let plain = spec.abort_ratio == 0.0
        && spec.indeterminate_ratio == 0.0
        && !spec.record_conflicts
        && !spec.real_time;
    let format = flags.to.or(by_name).unwrap_or(match spec.kind {
        Kind::Register if plain => Format::Plume,
        Kind::ListAppend => Format::ElleJsonl,
        Kind::Timestamped | Kind::TimestampedList if plain => Format::Timekiller,
        _ => Format::Anomalist,
    });
    let keeps_stamps = matches!(format, Format::Timekiller | Format::Anomalist);
    if flags.kind.is_none() && stamped && !keeps_stamps {
        spec.kind = if spec.kind.is_list() { Kind::ListAppend } else { Kind::Register };
    }
    if format == Format::Timekiller && flags.kind.is_none() && !stamped {
        spec.kind = if spec.kind.is_list() { Kind::TimestampedList } else { Kind::Timestamped };
    }
    // What keys hold at first is ours to choose, so it is what the format can say.
    spec.nil_initial =
        matches!(format, Format::ElleEdn | Format::ElleJson | Format::ElleJsonl | Format::Timekiller);
    Ok(format)
}
