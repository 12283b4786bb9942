//! Measuring one question about one file, in a process of its own.
//!
//! The child reads the file, indexes and checks it, again and again, and prints one JSON document. What it
//! times:
//! - *load*: bytes to columns (`anomalist_format::read`); *index*: who read from whom (`Index::build`);
//! - *check*: all of `anomalist_check::check`, and of it, by asking for less in further calls (the checker
//!   itself reads no clock):
//!   - *direct*: anomalies that need no order of transactions (TAP-a to f, and j where a level forbids it),
//!   - *order*: causality, its cycles (TAP-g), and the first guess of a commit order,
//!   - *search*: the rest, that is constraints, repairing the order, and, for what is violated, counting
//!     and explaining.
//!
//! The peak of memory is taken after the first round, when the process has done what `anomalist check`
//! does, once.

use crate::history::HistoryFile;
use crate::machine;
use crate::question::Question;
use anomalist_check::{Budget, Request, check};
use anomalist_cli::cli::Global;
use anomalist_cli::exit::{Exit, Failure};
use anomalist_cli::{interrupt, load, terminal, values};
use anomalist_format::{Format, Input, ReadOptions};
use anomalist_history::{History, Indexed};
use anomalist_level::{AnomalyKind, Judgement, Level, Verdict};
use anomalist_timestamp::offline::{self, ByStamps};
use anomalist_timestamp::{Mode, Rule, Tie};
use clap::Args;
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// After so many rounds a measurement may end early, if it has taken longer than [`PATIENCE`].
const ROUNDS: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(5);

/// What is different in an ablation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// Nothing.
    Plain,
    /// No commit order is guessed: all constraints are collected at once.
    NoGuess,
    /// One thread loads and indexes.
    OneThread,
}

/// Times of all rounds, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
}

impl Spread {
    fn of(mut times: Vec<f64>) -> Spread {
        times.sort_by(f64::total_cmp);
        let Some(&min) = times.first() else { return Spread::default() };
        let middle = times.len() / 2;
        let median =
            if times.len() % 2 == 1 { times[middle] } else { (times[middle - 1] + times[middle]) / 2.0 };
        Spread { median, min }
    }

    fn json(self) -> Value {
        json!({"median": round(self.median), "min": round(self.min)})
    }
}

/// To a nanosecond: digits beyond that are noise that makes output hard to read.
fn round(ms: f64) -> f64 {
    (ms * 1e6).round() / 1e6
}

/// What was measured for one question.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Figures {
    /// How often.
    pub repeats: u64,
    /// Bytes to columns.
    pub load: Spread,
    /// Who read from whom.
    pub index: Spread,
    /// All of the check.
    pub check: Spread,
    /// The part of the check that needs no order.
    pub direct: Spread,
    /// The part of the check that makes the first order.
    pub order: Spread,
    /// The rest of the check.
    pub search: Spread,
    /// Load, index and check.
    pub total: Spread,
    /// The most memory, where the system tells.
    pub peak_mib: Option<f64>,
    /// The most memory until everything was loaded.
    pub load_peak_mib: Option<f64>,
    /// "holds", "violated" or "unknown"; for several levels the strongest that hold.
    pub verdict: String,
    /// Anomalies found, all kinds together.
    pub anomalies: u64,
}

/// The names of the times in JSON.
const TIMES: [&str; 7] =
    ["load_ms", "index_ms", "check_ms", "direct_ms", "order_ms", "search_ms", "total_ms"];

impl Figures {
    /// Nanoseconds of load, index and check per operation.
    pub fn ns_per_op(&self, operations: u64) -> f64 {
        self.total.median * 1e6 / operations.max(1) as f64
    }

    fn times(&self) -> [Spread; 7] {
        [self.load, self.index, self.check, self.direct, self.order, self.search, self.total]
    }

    /// The same with these times, in the order of [`TIMES`].
    fn with_times(self, times: [Spread; 7]) -> Figures {
        let [load, index, check, direct, order, search, total] = times;
        Figures { load, index, check, direct, order, search, total, ..self }
    }

    /// As data.
    pub fn json(&self) -> Value {
        let mut out = json!({
            "repeats": self.repeats,
            "peak_mib": self.peak_mib,
            "load_peak_mib": self.load_peak_mib,
            "verdict": self.verdict,
            "anomalies": self.anomalies,
        });
        for (name, spread) in TIMES.into_iter().zip(self.times()) {
            out[name] = spread.json();
        }
        out
    }

    /// From what a child printed.
    fn from_json(value: &Value) -> Option<Figures> {
        let mut spreads = [Spread::default(); 7];
        for (spread, name) in spreads.iter_mut().zip(TIMES) {
            let part = |which: &str| value[name][which].as_f64();
            *spread = Spread { median: part("median")?, min: part("min")? };
        }
        let figures = Figures {
            repeats: value["repeats"].as_u64()?,
            peak_mib: value["peak_mib"].as_f64(),
            load_peak_mib: value["load_peak_mib"].as_f64(),
            verdict: value["verdict"].as_str()?.to_owned(),
            anomalies: value["anomalies"].as_u64()?,
            ..Figures::default()
        };
        Some(figures.with_times(spreads))
    }
}

/// Flags of the child.
#[derive(Args, Debug)]
pub struct CaseFlags {
    /// The history
    history: PathBuf,
    /// Its format
    #[arg(long, value_parser = values::format())]
    format: Option<Format>,
    /// Levels to decide
    #[arg(long, value_delimiter = ',', required = true)]
    level: Vec<Level>,
    /// How often
    #[arg(long, default_value_t = 1)]
    repeats: u32,
    /// Guess no commit order
    #[arg(long)]
    no_guess: bool,
    /// Print one JSON document (always the case)
    #[arg(long)]
    json: bool,
}

/// The child: measures and prints.
pub fn run_case(flags: &CaseFlags, global: &Global) -> Result<Exit, Failure> {
    let threads = load::threads(global);
    let began = Instant::now();
    let mut times: [Vec<f64>; 7] = Default::default();
    let mut first: Option<(Option<f64>, Judgement)> = None;
    let mut load_peak_mib = None;
    for round in 0..flags.repeats.max(1) {
        if round >= ROUNDS && began.elapsed() > PATIENCE {
            break;
        }
        let since = Instant::now();
        let go_on = |_| !interrupt::is_requested();
        let options =
            ReadOptions { format: flags.format, threads, progress: Some(&go_on), ..ReadOptions::default() };
        let history = anomalist_format::read(Input::open(&flags.history)?, &options)?.history;
        let load = lap(since);
        load_peak_mib = load_peak_mib.or_else(machine::peak_mib);
        if history.stamps().is_some() {
            let (order, checking, judgement) = by_timestamps(&history, &flags.level, threads);
            first.get_or_insert_with(|| (machine::peak_mib(), judgement));
            let parts = [load, 0.0, checking, 0.0, order, (checking - order).max(0.0), load + checking];
            times.iter_mut().zip(parts).for_each(|(all, this)| all.push(this));
            if interrupt::is_requested() {
                return Err(Failure::Interrupted);
            }
            continue;
        }
        let since = Instant::now();
        let indexed = Indexed::new(&history, threads);
        let indexing = lap(since);
        let ask = |levels: &[Level], anomalies: Option<AnomalyKind>| {
            let request = Request {
                levels: levels.to_vec(),
                anomalies: anomalies.map(|kind| vec![kind]),
                no_guess: flags.no_guess,
                ..Request::default()
            };
            let since = Instant::now();
            let judgement = check(&indexed, &request, &Budget::new(&interrupt::is_requested));
            (lap(since), judgement)
        };
        let (checking, judgement) = ask(&flags.level, None);
        first.get_or_insert_with(|| (machine::peak_mib(), judgement));
        // A kind that no order decides costs just the reading of faults; cut isolation adds TAP-j.
        let cut = flags.level.iter().any(|level| level.implies(Level::CutIsolation));
        let (direct, _) =
            if cut { ask(&[Level::CutIsolation], None) } else { ask(&[], Some(AnomalyKind::ThinAirRead)) };
        let (order, _) = ask(&[], Some(AnomalyKind::CyclicCo));
        let search = (checking - direct - order).max(0.0);
        let total = load + indexing + checking;
        for (all, this) in times.iter_mut().zip([load, indexing, checking, direct, order, search, total]) {
            all.push(this);
        }
        if interrupt::is_requested() {
            return Err(Failure::Interrupted);
        }
    }
    let (peak_mib, judgement) = first.ok_or(Failure::Interrupted)?;
    let figures = Figures {
        repeats: times[0].len() as u64,
        peak_mib,
        load_peak_mib,
        verdict: verdict(&judgement),
        anomalies: judgement.anomalies.iter().map(|a| a.count).sum(),
        ..Figures::default()
    };
    terminal::print(&figures.with_times(times.map(Spread::of)).json().to_string())?;
    Ok(Exit::Holds)
}

/// Judges by timestamps: how long the order of commits took, how long everything took, and the answer.
fn by_timestamps(history: &History, levels: &[Level], threads: NonZeroUsize) -> (f64, f64, Judgement) {
    let mode = levels.iter().find_map(|&level| Mode::of(level)).unwrap_or(Mode::Si);
    let since = Instant::now();
    let order = offline::commit_order(history, Rule { mode, tie: Tie::Inclusive });
    let ordering = lap(since);
    drop(order);
    let request = ByStamps { levels: levels.to_vec(), anomalies: None, tie: Tie::Inclusive, threads };
    let since = Instant::now();
    let judged = offline::judge(history, &request, &Budget::new(&interrupt::is_requested));
    (ordering, lap(since), judged.map(|(judgement, _)| judgement).unwrap_or_default())
}

/// One word for one level; for several, which of them are the strongest that hold.
fn verdict(judgement: &Judgement) -> String {
    let word = |verdict: &Verdict| match verdict {
        Verdict::Holds => "holds",
        Verdict::Violated => "violated",
        Verdict::Unknown(_) => "unknown",
    };
    match judgement.levels.as_slice() {
        [one] => word(&one.verdict).to_owned(),
        several if several.iter().all(|l| l.verdict == Verdict::Holds) => "holds".to_owned(),
        _ => {
            let strongest: Vec<&str> = judgement.strongest().iter().map(|level| level.info().name).collect();
            if strongest.is_empty() { "violated".to_owned() } else { strongest.join(", ") }
        }
    }
}

fn lap(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Starts children.
pub struct Runner {
    /// As many threads as the user said.
    pub threads: Option<NonZeroUsize>,
    /// When to give up on a child.
    pub timeout: Duration,
}

impl Runner {
    /// Figures of one question; the inner error says why there are none.
    pub fn case(
        &self,
        file: &HistoryFile,
        question: Question,
        repeats: u32,
        variant: Variant,
    ) -> Result<Result<Figures, String>, Failure> {
        let mut command = self.child("case", file, variant)?;
        command.args(["--json", "--level", &question.level_names(), "--repeats", &repeats.to_string()]);
        if variant == Variant::NoGuess {
            command.arg("--no-guess");
        }
        let child = command.stdout(Stdio::piped()).spawn().map_err(Failure::input)?;
        let output = match self.wait(child)? {
            Ok(output) => output,
            Err(why) => return Ok(Err(why)),
        };
        let figures = serde_json::from_slice(&output).ok().and_then(|value| Figures::from_json(&value));
        Ok(figures.ok_or_else(|| "no figures".to_owned()))
    }

    /// The time that one `anomalist check` takes from its start to its end.
    pub fn once(&self, file: &HistoryFile, question: Question) -> Result<Option<f64>, Failure> {
        let mut command = self.child("check", file, Variant::Plain)?;
        command.args(["--quiet", "--level", &question.level_names()]).stdout(Stdio::null());
        let since = Instant::now();
        let mut child = command.spawn().map_err(Failure::input)?;
        // Without the pauses of `wait`: they are longer than what is measured here, and the runs are short.
        let ended = child.wait().map_err(Failure::input)?;
        let took = lap(since);
        if interrupt::is_requested() {
            return Err(Failure::Interrupted);
        }
        Ok(ended.code().is_some_and(|code| code < Exit::BadInput as i32).then_some(took))
    }

    /// The time that another program takes from its start to its end, or why there is none. It looks every
    /// fifth of a millisecond whether the program has ended.
    pub fn timed(&self, mut command: Command) -> Result<Result<f64, String>, Failure> {
        let since = Instant::now();
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Err(format!("does not start: {error}"))),
        };
        loop {
            let ended = child.try_wait().map_err(Failure::input)?;
            let took = lap(since);
            if let Some(status) = ended {
                // 1: it found a violation.
                let is_answer = matches!(status.code(), Some(0 | 1));
                return Ok(if is_answer { Ok(took) } else { Err(format!("failed: {status}")) });
            }
            let late = since.elapsed() > self.timeout;
            if late || interrupt::is_requested() {
                _ = child.kill();
                _ = child.wait();
                if late {
                    return Ok(Err(format!("stopped after {} s", self.timeout.as_secs())));
                }
                return Err(Failure::Interrupted);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn child(&self, subcommand: &str, file: &HistoryFile, variant: Variant) -> Result<Command, Failure> {
        let mut command = Command::new(std::env::current_exe().map_err(Failure::input)?);
        command.arg(subcommand).arg(&file.path).args(["--format", file.facts.format.name()]);
        let threads = if variant == Variant::OneThread { Some(NonZeroUsize::MIN) } else { self.threads };
        if let Some(threads) = threads {
            command.args(["--threads", &threads.to_string()]);
        }
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Waits for a child that prints little, and ends it when it takes too long or the user has had enough.
    fn wait(&self, mut child: Child) -> Result<Result<Vec<u8>, String>, Failure> {
        let began = Instant::now();
        loop {
            if child.try_wait().map_err(Failure::input)?.is_some() {
                break;
            }
            let late = began.elapsed() > self.timeout;
            if late || interrupt::is_requested() {
                _ = child.kill();
                _ = child.wait();
                if late {
                    return Ok(Err(format!("stopped after {} s", self.timeout.as_secs())));
                }
                return Err(Failure::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = child.wait_with_output().map_err(Failure::input)?;
        if interrupt::is_requested() {
            return Err(Failure::Interrupted);
        }
        Ok(if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(format!("failed: {}", output.status))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0 });
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, min: 1.0 });
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }

    #[test]
    fn figures_survive_the_way_from_child_to_parent() {
        let figures = Figures {
            repeats: 3,
            load: Spread { median: 2.25, min: 1.5 },
            total: Spread { median: 4.0, min: 3.0 },
            peak_mib: Some(12.5),
            verdict: "holds".to_owned(),
            anomalies: 7,
            ..Figures::default()
        };
        assert_eq!(Figures::from_json(&figures.json()), Some(figures));
    }
}
