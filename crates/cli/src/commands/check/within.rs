//! Reading and judging one history within its time.
//!
//! The work is done on a thread of its own, which polls the time limit and Ctrl-C and ends by itself, with
//! what is known. Some of its steps take longer than a second between two polls when a history is large.
//! Then the answer is what it last said to be known, and the thread is left behind: it ends at its next
//! poll, or with the process.

use super::{Flags, Judged};
use crate::cli::Global;
use crate::exit::Failure;
use crate::judging::{self, Limits, Prepared};
use crate::progress::Progress;
use crate::{basis, bug, interrupt, load};
use anomalist_check::lint;
use anomalist_history::{Builder, History};
use anomalist_level::{By, Judgement, Level, LevelVerdict, Sought, Verdict};
use anomalist_report::{HistoryFacts, Timing};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the thread may take to notice that its time is over.
const GRACE: Duration = Duration::from_millis(600);
/// How often it is looked whether the time is over.
const TICK: Duration = Duration::from_millis(20);
/// As much as the main thread has.
const STACK: usize = 8 << 20;

/// What the thread has said so far.
#[derive(Default)]
struct Known {
    /// Reads that were ignored.
    unexplained: usize,
    history: Option<Arc<History>>,
    facts: Option<HistoryFacts>,
    judgement: Option<Judgement>,
    load: Duration,
}

struct Work {
    path: PathBuf,
    flags: Flags,
    global: Global,
    since: Instant,
    known: Mutex<Known>,
}

/// Reads and judges what a file holds: one history, or one per key of independent systems.
pub fn judge(path: &Path, flags: &Flags, global: &Global) -> Result<Vec<Judged>, Failure> {
    let work = Arc::new(Work {
        path: path.to_owned(),
        flags: flags.clone(),
        global: global.clone(),
        since: Instant::now(),
        known: Mutex::default(),
    });
    let (sender, answers) = channel();
    let worker = Arc::clone(&work);
    let thread = thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || _ = sender.send(worker.judge()))
        .map_err(|error| Failure::input(format_args!("no thread: {error}")))?;
    let mut over: Option<Instant> = None;
    loop {
        match answers.recv_timeout(TICK) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) if work.is_over() => {
                if over.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                    return work.so_far().map(|judged| vec![judged]);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return Err(Failure::Interrupted),
            },
        }
    }
}

impl Work {
    fn is_over(&self) -> bool {
        interrupt::is_requested() || self.is_late()
    }

    fn is_late(&self) -> bool {
        self.flags.timeout.is_some_and(|limit| self.since.elapsed() >= limit)
    }

    fn known(&self, note: impl FnOnce(&mut Known)) {
        note(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn judge(&self) -> Result<Vec<Judged>, Failure> {
        let late = || self.is_late();
        let judgeable = match load::judgeable(&self.path, &self.flags.read, &self.global, &late) {
            Err(Failure::Interrupted) if !interrupt::is_requested() => {
                return self.so_far().map(|judged| vec![judged]);
            }
            result => result?,
        };
        let path = self.path.display().to_string();
        let bar = Progress::spinner(&self.global, &format!("checking {path}"));
        let spent = || {
            bar.pulse();
            self.is_over()
        };
        let tell = |judgement: Judgement| self.known(|known| known.judgement = Some(judgement));
        let limits = Limits { spent: &spent, timed: self.flags.timeout.is_some(), known: &tell };
        Ok(match judgeable {
            load::Judgeable::Plain(read) => vec![self.plain(*read, &path, limits)?],
            load::Judgeable::Other(other) => vec![self.other(*other, &path, limits)?],
            load::Judgeable::Independent(keys) => {
                let mut judged = Vec::with_capacity(keys.len());
                for (key, other) in keys {
                    judged.push(self.other(other, &format!("{path} key {key}"), limits)?);
                }
                judged
            }
        })
    }

    /// Judges sets, counters, banks and predicates.
    fn other(&self, other: load::Other, path: &str, limits: Limits<'_>) -> Result<Judged, Failure> {
        let load::Other { lowered, format, cut_off } = other;
        let load = self.since.elapsed();
        let question = self.flags.question(&lowered.history, &self.global)?;
        let mut judgement = judging::lowered(&lowered, &question, limits);
        if cut_off {
            judging::admit_unknown_loss(&mut judgement);
        }
        let facts =
            HistoryFacts::of(&lowered.history, path, format.name()).of_datatype(lowered.datatype.name());
        Ok(self.judged(Arc::new(lowered.history), facts, judgement, load, Duration::ZERO))
    }

    fn plain(&self, read: load::Read, path: &str, limits: Limits<'_>) -> Result<Judged, Failure> {
        let load::Read { history, format, unexplained } = read;
        let history = Arc::new(self.flags.inference.timed(history)?);
        let facts = HistoryFacts::of(&history, path, format.name()).with_vacuity(lint::vacuity(&history));
        self.known(|known| {
            known.history = Some(Arc::clone(&history));
            known.unexplained = unexplained;
            known.facts = Some(facts.clone());
            known.load = self.since.elapsed();
        });
        let question = self.flags.question(&history, &self.global)?;
        let prepared = Prepared::new(&history, question)
            .map_err(|error| Failure::input(format_args!("{path}: {error}")))?;
        let load = self.since.elapsed();
        let answer = prepared
            .judge(limits)
            .map_err(|wrong| bug::report(&history, &facts, &wrong.judgement, &wrong.what))?;
        let mut judgement = answer.judgement;
        judging::admit_loss(&mut judgement, unexplained);
        if let Some(file) = &self.flags.basis.violations {
            basis::write_violations(file, &history, &answer.violations)?;
        }
        Ok(self.judged(Arc::clone(&history), facts, judgement, load, answer.doubted))
    }

    fn judged(
        &self,
        history: Arc<History>,
        facts: HistoryFacts,
        judgement: Judgement,
        load: Duration,
        doubted: Duration,
    ) -> Judged {
        let judgement = Judgement { definitions: self.flags.definitions, ..judgement };
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        let check = self.since.elapsed().saturating_sub(load).saturating_sub(doubted);
        let timing = Timing { load_ms: millis(load), check_ms: millis(check) };
        let open = judgement.levels.iter().any(|l| matches!(l.verdict, Verdict::Unknown { .. }));
        let stopped = open && interrupt::is_requested();
        Judged { history: Some(history), facts, judgement, timing, stopped }
    }

    /// What is known without the thread.
    fn so_far(&self) -> Result<Judged, Failure> {
        let known = std::mem::take(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner));
        if interrupt::is_requested() && known.history.is_none() {
            return Err(Failure::Interrupted);
        }
        let path = self.path.display().to_string();
        // Findings are about transactions of the history.
        let judgement = known.judgement.filter(|_| known.history.is_some());
        let history = match known.history {
            Some(history) => history,
            None => Arc::new(Builder::new().finish().map_err(Failure::input)?),
        };
        let facts = known.facts.unwrap_or_else(|| HistoryFacts::of(&history, &path, "not read to its end"));
        let reason = match known.load {
            Duration::ZERO => "stopped, by an interrupt or the time limit, before the history was read",
            _ => "stopped, by an interrupt or the time limit, before this was decided",
        };
        let mut judgement = judgement.unwrap_or_else(|| self.unknown(reason));
        judging::admit_loss(&mut judgement, known.unexplained);
        for &kind in &self.flags.anomalies {
            if judgement.sought.iter().all(|(sought, _)| *sought != kind) {
                let found = judgement.anomalies.iter().any(|a| a.kind.implies(kind));
                let open = Sought::Unknown { reason: reason.to_owned() };
                judgement.sought.push((kind, if found { Sought::Found } else { open }));
            }
        }
        Ok(self.judged(history, facts, judgement, known.load, Duration::ZERO))
    }

    /// Nothing is known of any level.
    fn unknown(&self, reason: &str) -> Judgement {
        let asked = if self.flags.level.is_empty() { Level::CANONICAL } else { &self.flags.level };
        let open = |&level: &Level| LevelVerdict {
            level,
            by: By::Values,
            verdict: Verdict::Unknown { reason: reason.to_owned() },
            anomalies: Vec::new(),
        };
        Judgement { levels: asked.iter().map(open).collect(), ..Judgement::default() }
    }
}
