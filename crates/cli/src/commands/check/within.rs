//! Reading and judging one history within its time.
//!
//! The work is done on a thread of its own, which polls the time limit and Ctrl-C and ends by itself, with
//! what is known. Some of its steps take longer than a second between two polls when a history is large.
//! Then the answer is what it last said to be known, and the thread is left behind: it ends at its next
//! poll, or with the process. A small file is read and judged on the calling thread: there every step ends
//! within milliseconds, and a thread, with the memory that the allocator sets aside for it, would cost more
//! than the whole answer.

use super::{Flags, Judged};
use crate::cli::Global;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::{basis, bug, interrupt, load, memory};
use anomalist::History;
use anomalist_format::Input;
use anomalist_history::Builder;
use anomalist_level::{Judgement, Verdict, Why};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the thread may take to notice that its time is over.
const GRACE: Duration = Duration::from_millis(400);
/// How often it is looked whether the time or the memory is over.
const TICK: Duration = Duration::from_millis(5);
/// Files up to this size need no thread of their own, unless they are compressed: a few hundred thousand
/// operations at most.
const SMALL: u64 = 2 << 20;
/// As much as the main thread has.
const STACK: usize = 8 << 20;

/// What the thread has said so far.
#[derive(Default)]
struct Known {
    history: Option<Arc<History>>,
    judgement: Option<Judgement>,
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
    if is_small(path) {
        return work.judge();
    }
    let (sender, answers) = channel();
    let worker = Arc::clone(&work);
    let started = thread::Builder::new().stack_size(STACK).spawn(move || _ = sender.send(worker.judge()));
    // Where the system refuses a thread, this one works.
    let Ok(thread) = started else { return work.judge() };
    let mut over: Option<Instant> = None;
    loop {
        match answers.recv_timeout(TICK) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) if work.is_over() => {
                if over.get_or_insert_with(Instant::now).elapsed() >= GRACE || memory::is_pressing() {
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

/// Whether this is a small file. What is no regular file may keep its reader waiting.
fn is_small(path: &Path) -> bool {
    let is_short = path.metadata().is_ok_and(|file| file.is_file() && file.len() <= SMALL);
    is_short && Input::open(path).is_ok_and(|input| !input.is_compressed())
}

impl Work {
    fn is_over(&self) -> bool {
        interrupt::is_requested() || self.is_late() || memory::is_exceeded()
    }

    fn is_late(&self) -> bool {
        self.flags.timeout.is_some_and(|limit| self.since.elapsed() >= limit)
    }

    fn known(&self, note: impl FnOnce(&mut Known)) {
        note(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn judge(&self) -> Result<Vec<Judged>, Failure> {
        let late = || self.is_late();
        let histories = match load::histories(&self.path, &self.flags.read, &self.global, &late) {
            Err(Failure::Memory(_, why)) => return self.without(&why).map(|judged| vec![judged]),
            Err(Failure::Interrupted) if !interrupt::is_requested() => {
                return self.so_far().map(|judged| vec![judged]);
            }
            result => result?,
        };
        histories.into_iter().map(|history| self.one(history)).collect()
    }

    fn one(&self, history: History) -> Result<Judged, Failure> {
        let history = Arc::new(self.flags.inference.timed(history)?);
        self.known(|known| {
            known.history = Some(Arc::clone(&history));
            known.judgement = None;
        });
        let name = self
            .path
            .file_name()
            .map_or_else(|| self.path.display().to_string(), |n| n.display().to_string());
        let bar = Progress::spinner(&self.global, &format!("checking {name}"));
        let stop = || {
            bar.pulse();
            interrupt::is_requested()
        };
        let tell = |judgement: Judgement| {
            let all = judgement.levels.len();
            let decided =
                judgement.levels.iter().filter(|l| !matches!(l.verdict, Verdict::Unknown(_))).count();
            bar.phase(&format!("checking {name}: {decided} of {all} levels decided"));
            self.known(|known| known.judgement = Some(judgement));
        };
        let mut check = self.flags.question(&history, &self.global)?.stop_when(&stop).on_progress(&tell);
        check = check.memory(&memory::ask);
        if let Some(limit) = self.flags.timeout {
            check = check.timeout(limit.saturating_sub(self.since.elapsed()));
        }
        let found = check.run().map_err(|error| bug::report(&history, error))?.into_found();
        if let Some(file) = &self.flags.basis.violations {
            basis::write_violations(file, history.transactions(), &found.violations)?;
        }
        Ok(Judged { history, found })
    }

    /// What is known without the thread.
    fn so_far(&self) -> Result<Judged, Failure> {
        let why = memory::ask(0).err().map(|_| memory::of_reading());
        let is_read = self.known.lock().unwrap_or_else(PoisonError::into_inner).history.is_some();
        if interrupt::is_requested() && !is_read {
            return Err(Failure::Interrupted);
        }
        self.without(&why.unwrap_or(if is_read { Why::Stopped } else { Why::NotRead }))
    }

    /// What is known, and a reason for the rest.
    fn without(&self, why: &Why) -> Result<Judged, Failure> {
        let known = std::mem::take(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner));
        let history = match known.history {
            Some(history) => history,
            None => {
                let empty = Builder::new().finish().map_err(Failure::input)?;
                Arc::new(History::from(empty).named(&self.path.display().to_string(), "not read to its end"))
            }
        };
        let mut found = self.flags.question(&history, &self.global)?.unfinished(known.judgement, why);
        found.stopped = interrupt::is_requested() || matches!(why, Why::Memory { .. });
        found.timing.check_ms = self.since.elapsed().as_secs_f64() * 1e3 - found.timing.load_ms;
        Ok(Judged { found, history })
    }
}
