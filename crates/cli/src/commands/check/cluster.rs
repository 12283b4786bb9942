//! `check --workers`: all files together are one history, which need not fit into memory.

use super::{Flags, Judged};
use crate::cli::Global;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::{interrupt, load, memory};
use anomalist::{Basis, Found, History};
use anomalist_cluster::{Answer, Error, Hosts, Job, Size};
use anomalist_format::PathName;
use anomalist_level::{By, Judgement, Level, LevelVerdict, Verdict, Why};
use anomalist_report::{HistoryFacts, Timing};
use anomalist_timestamp::Mode;
use clap::Args;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Flags about several workers.
#[derive(Args, Clone, Debug)]
pub struct ClusterFlags {
    /// Check with so many workers, and keep what does not fit into --memory on disk. All files together are
    /// one history. Levels are judged by timestamps alone (docs/cluster.md)
    #[arg(long, value_name = "N", conflicts_with_all = [
        "certificate", "verify", "cross_check", "declared", "every_component", "lossy", "timestamp_order",
        "wfr_keys", "sequential_keys", "linearizable_keys", "transaction_order", "version_numbers",
    ])]
    pub workers: Option<NonZeroUsize>,
    /// With --workers: the folder for what does not fit into memory [default: that of temporary files]
    #[arg(long, value_name = "DIR", requires = "workers")]
    pub scratch: Option<PathBuf>,
    /// With --workers: this is one of several processes, whose addresses are in this file, one host:port
    /// per line. Each is started with the same arguments, but for --process
    #[arg(long, value_name = "FILE", requires_all = ["workers", "process", "token_file"])]
    pub hosts: Option<PathBuf>,
    /// With --hosts: which line of the file is this process, from 0. The first has the answer
    #[arg(long, value_name = "I", requires = "hosts")]
    pub process: Option<usize>,
    /// With --hosts: a file with a secret of at least 16 characters, by which the processes know each other
    #[arg(long, value_name = "FILE", requires = "hosts")]
    pub token_file: Option<PathBuf>,
}

/// What is done so far of a stage, by all workers of this process.
#[derive(Default)]
struct Done {
    reading: AtomicUsize,
    judging: AtomicUsize,
    gathering: AtomicUsize,
}

/// The processes of the run, if there are several.
fn hosts(flags: &ClusterFlags) -> Result<Option<Hosts>, Failure> {
    let ClusterFlags { hosts: Some(file), process: Some(process), token_file: Some(token), .. } = flags
    else {
        return Ok(None);
    };
    let text = load::small_text(file)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let addresses: Vec<String> = lines.map(str::to_owned).collect();
    if *process >= addresses.len() {
        let count = addresses.len();
        return Err(Failure::input(format_args!(
            "{}: it has {count} addresses, so there is no process {process}",
            file.shown()
        )));
    }
    let secret = load::small_text(token)?.trim().as_bytes().to_vec();
    if secret.len() < 16 {
        return Err(Failure::input(format_args!(
            "{}: the secret is too short (16 characters)",
            token.shown()
        )));
    }
    Ok(Some(Hosts { addresses, process: *process, token: secret }))
}

/// Judges the history that all files together are. Of several processes, only the first has an answer.
pub fn judge(
    paths: &[PathBuf],
    workers: NonZeroUsize,
    flags: &Flags,
    global: &Global,
) -> Result<Option<Judged>, Failure> {
    if flags.basis.by.is_some_and(|by| by != Basis::Timestamps) {
        return Err(Failure::input(
            "several workers judge by timestamps alone: leave out --by, or --workers",
        ));
    }
    let (hosts, since) = (hosts(&flags.cluster)?, Instant::now());
    memory::set_limit(flags.read.limits.memory);
    let asked: Vec<Level> =
        if flags.level.is_empty() { Level::CANONICAL.to_vec() } else { flags.level.clone() };
    let job = Arc::new(job(paths, &asked, since, flags, global));
    let scratch = job.scratch.clone();
    let result = match hosts {
        None => anomalist_cluster::run(&job, workers).map(Some),
        Some(hosts) => anomalist_cluster::run_among(&job, workers, &hosts),
    };
    _ = std::fs::remove_dir_all(&scratch);
    let name = match paths {
        [only] => only.shown(),
        [first, others @ ..] => format!("{} and {} more", first.shown(), others.len()),
        [] => String::new(),
    };
    let why = match result {
        Ok(None) => return Ok(None),
        Ok(Some(answer)) => return answered(name, answer, &asked, flags, since).map(Some),
        Err(Error::Stopped) if memory::is_exceeded() => memory::of_reading(),
        Err(Error::Stopped) if interrupt::is_requested() => return Err(Failure::Interrupted),
        Err(Error::Stopped) => Why::Stopped,
        Err(Error::Memory { needed, limit }) => Why::Memory { needed, limit },
        Err(Error::Input(message)) if message.starts_with("error: ") => return Err(Failure::Input(message)),
        Err(error) => return Err(Failure::input(error)),
    };
    unknown(name, &asked, &why, flags, since).map(Some)
}

fn answered(
    name: String,
    answer: Answer,
    asked: &[Level],
    flags: &Flags,
    since: Instant,
) -> Result<Judged, Failure> {
    let Answer { history, mut judgement, violations, size, format, .. } = answer;
    let open = asked.iter().filter(|level| Mode::of(**level).is_none());
    judgement.levels.extend(open.map(|&level| not_decided(level, By::Values, Why::NotByWorkers)));
    judgement.levels.sort_by_key(|l| (l.level, l.by));
    if let Some(file) = &flags.basis.violations {
        crate::basis::write_violations(file, &history, &violations)?;
    }
    let facts = facts(name, format.name(), size);
    let found = Found::new(judgement, violations, timing(since), flags.level.clone());
    Ok(Judged { history: Arc::new(History::excerpt(history, facts)), found })
}

fn job(paths: &[PathBuf], asked: &[Level], since: Instant, flags: &Flags, global: &Global) -> Job {
    let folder = flags.cluster.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let bar = Progress::spinner(global, "reading");
    let done = Done::default();
    let timeout = flags.timeout;
    let late = move || timeout.is_some_and(|limit| since.elapsed() >= limit);
    Job {
        files: paths.to_vec(),
        format: flags.read.format,
        initial: flags
            .read
            .initial
            .as_deref()
            .map(|text| if text == "nil" { "null" } else { text }.to_owned()),
        levels: asked.to_vec(),
        anomalies: (!flags.anomalies.is_empty()).then(|| flags.anomalies.clone()),
        tie: flags.basis.tie,
        memory: memory::allowed(),
        scratch: folder.join(format!("anomalist-workers-{}", std::process::id())),
        piece: 0,
        parts: None,
        stop: Box::new(move || interrupt::is_requested() || late() || memory::is_exceeded()),
        tell: Box::new(move |progress| {
            let count = match progress.stage {
                "reading" => &done.reading,
                "judging" => &done.judging,
                _ => &done.gathering,
            };
            let so_far = count.fetch_add(progress.done, Relaxed) + progress.done;
            bar.pulse();
            bar.phase(&format!("{}: {so_far} pieces", progress.stage));
        }),
    }
}

fn timing(since: Instant) -> Timing {
    Timing { load_ms: 0.0, check_ms: since.elapsed().as_secs_f64() * 1e3 }
}

fn facts(path: String, format: &str, size: Size) -> HistoryFacts {
    HistoryFacts {
        path,
        format: format.to_owned(),
        kind: "timestamped",
        sessions: size.sessions,
        transactions: size.transactions,
        aborted: size.aborted,
        indeterminate: size.indeterminate,
        operations: size.operations,
        keys: size.keys,
        vacuous: None,
    }
}

fn not_decided(level: Level, by: By, why: Why) -> LevelVerdict {
    LevelVerdict { level, by, verdict: Verdict::Unknown(why), anomalies: Vec::new() }
}

/// No level is decided.
fn unknown(
    name: String,
    asked: &[Level],
    why: &Why,
    flags: &Flags,
    since: Instant,
) -> Result<Judged, Failure> {
    let empty = anomalist_history::Builder::new().finish().map_err(Failure::input)?;
    let size = Size { sessions: 0, transactions: 0, aborted: 0, indeterminate: 0, operations: 0, keys: 0 };
    let format = flags.read.format.map_or("not read", anomalist_format::Format::name);
    let levels = asked.iter().map(|&level| not_decided(level, By::Timestamps, why.clone())).collect();
    let judgement = Judgement { levels, ..Judgement::default() };
    let found = Found::new(judgement, Vec::new(), timing(since), flags.level.clone());
    Ok(Judged { history: Arc::new(History::excerpt(empty, facts(name, format, size))), found })
}
