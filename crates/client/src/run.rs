//! Lets sessions loose on an engine, and records.
//!
//! A session is a thread (`run/session.rs`): it asks the planner for a transaction, has it performed, and
//! hands what it saw to the thread that writes the history (`run/writing.rs`). Between asking and answering
//! nothing else happens on it, so the driver costs a lock and a channel per transaction. Times are monotonic
//! and taken before the first statement and after the last answer, so that "ended before the other began" is
//! true whenever the history says so.

mod faults;
mod session;
mod writing;

use crate::online::{Online, OnlineSummary, follow};
use crate::record::Recorder;
use crate::{Cause, Ended, Engine, EngineError, Op};
use anomalist_format::WriteError;
use anomalist_workload::SpecError;
use anomalist_workload::client::{ClientSpec, Planner};
use faults::disturb;
use session::{Client, FIRST_PATIENCE, PATIENCE};
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use writing::write;

pub use faults::{FaultEvent, FaultSource};

/// When a run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// After so many transactions, whatever their outcome.
    Transactions(u64),
    /// After this time.
    Time(Duration),
}

/// What to run.
pub struct Plan<'a> {
    /// The database.
    pub engine: &'a dyn Engine,
    /// What sessions do.
    pub spec: &'a ClientSpec,
    /// How many there are.
    pub sessions: u32,
    /// For how long.
    pub limit: Limit,
    /// Who disturbs them.
    pub faults: Option<Box<dyn FaultSource + 'a>>,
    /// Checks by timestamps meanwhile, if the engine asks its server for them.
    pub online: Option<Online>,
}

/// Where a run is written.
pub struct Output {
    /// The history.
    pub history: Box<dyn Write + Send>,
    /// A line for everything worth knowing: faults, the first error of each kind.
    pub log: Box<dyn Write + Send>,
}

/// Counts, while a run goes on.
#[derive(Default, Debug)]
pub struct Tally {
    /// Transactions that committed.
    pub committed: AtomicU64,
    /// Those that aborted.
    pub aborted: AtomicU64,
    /// Those of unknown outcome.
    pub indeterminate: AtomicU64,
    /// Faults injected.
    pub faults: AtomicU64,
    /// Violations that the online check has found.
    pub violations: AtomicU64,
}

impl Tally {
    /// Transactions finished, whatever their outcome.
    pub fn finished(&self) -> u64 {
        self.committed.load(Relaxed) + self.aborted.load(Relaxed) + self.indeterminate.load(Relaxed)
    }
}

/// What others can see of a run, and how they stop it.
#[derive(Default, Debug)]
pub struct Control {
    /// Set it to end the run early; what was recorded stays.
    pub stop: AtomicBool,
    /// Counts so far.
    pub tally: Tally,
}

/// What a run was.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// Transactions that committed.
    pub committed: u64,
    /// Those that aborted.
    pub aborted: u64,
    /// Those of unknown outcome.
    pub indeterminate: u64,
    /// Faults injected.
    pub faults: u64,
    /// How long sessions ran.
    pub elapsed: Duration,
    /// Why transactions did not commit: kind, number and the first message.
    pub causes: BTreeMap<&'static str, (u64, String)>,
    /// What the online check found, if there was one.
    pub online: Option<OnlineSummary>,
    /// Why the run was given up before its end. What was recorded until then counts.
    pub lost: Option<EngineError>,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The workload's parameters make no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The database cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The history cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The engine panicked. What was recorded until then is whole: a transaction that was in flight is of
    /// unknown outcome.
    #[error("the engine panicked: {0}")]
    Panicked(String),
    /// No transaction ever committed.
    #[error("no transaction committed; the first failure: {0}")]
    NothingCommitted(String),
}

/// What sessions share.
struct Shared<'a> {
    engine: &'a dyn Engine,
    sessions: u32,
    planner: Mutex<Planner>,
    control: &'a Control,
    since: Instant,
    deadline: Option<Instant>,
    tickets: AtomicI64,
    /// Transactions finished.
    number: AtomicU64,
    beginnings: bool,
    first_patience: Duration,
    ready: Barrier,
    /// Why the run has to be given up.
    failure: Mutex<Option<EngineError>>,
    /// What the engine said when it panicked.
    panic: Mutex<Option<String>>,
    causes: Mutex<BTreeMap<&'static str, (u64, String)>>,
}

/// Runs a workload to its end.
pub fn run(mut plan: Plan<'_>, control: &Control, output: Output) -> Result<Summary, RunError> {
    let (faults, online, workload) = (plan.faults.take(), plan.online.take(), plan.spec.workload);
    let planner = Planner::new(plan.spec)?;
    plan.engine.prepare()?;
    let shared = Shared::new(&plan, planner, control, faults.is_some());
    let over = AtomicBool::new(false);
    let mut elapsed = Duration::ZERO;
    let (sender, entries) = mpsc::channel();
    let (to_online, of_online) = mpsc::channel();
    let to_online = online.is_some().then_some(to_online);
    let (written, followed) = std::thread::scope(|scope| {
        let follower = online.map(|online| {
            let violations = &control.tally.violations;
            scope.spawn(move || follow(&of_online, online, workload, violations))
        });
        let writer = scope.spawn(move || write(workload, output, &entries, control));
        let threads: Vec<_> = (0..shared.sessions)
            .map(|number| {
                let (shared, sender, online) = (&shared, sender.clone(), to_online.clone());
                scope.spawn(move || Client { shared, number, sender, online }.work())
            })
            .collect();
        let disturber = faults.map(|faults| {
            let (shared, sender, over) = (&shared, sender.clone(), &over);
            scope.spawn(move || disturb(faults, shared, &sender, over))
        });
        threads.into_iter().for_each(joined);
        over.store(true, Relaxed);
        elapsed = shared.since.elapsed();
        if let Some(disturber) = disturber {
            _ = disturber.join();
        }
        drop((sender, to_online));
        (joined(writer), follower.map(joined))
    });
    written?;
    shared.summary(elapsed, followed.transpose()?)
}

/// What a thread returned. A panic of a thread is a bug, and must not pass for the end of the run.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl<'a> Shared<'a> {
    fn new(plan: &Plan<'a>, planner: Planner, control: &'a Control, disturbed: bool) -> Shared<'a> {
        let since = Instant::now();
        let sessions = plan.sessions.max(1);
        let (deadline, tickets) = match plan.limit {
            Limit::Transactions(n) => (None, i64::try_from(n).unwrap_or(i64::MAX)),
            Limit::Time(time) => (since.checked_add(time), i64::MAX),
        };
        Shared {
            engine: plan.engine,
            sessions,
            planner: Mutex::new(planner),
            control,
            since,
            deadline,
            tickets: AtomicI64::new(tickets),
            number: AtomicU64::new(0),
            beginnings: Recorder::wants_beginnings(plan.spec.workload),
            first_patience: if disturbed { PATIENCE } else { FIRST_PATIENCE },
            ready: Barrier::new(sessions as usize),
            failure: Mutex::new(None),
            panic: Mutex::new(None),
            causes: Mutex::new(BTreeMap::new()),
        }
    }

    /// What the run was, once all threads are gone.
    fn summary(self, elapsed: Duration, online: Option<OnlineSummary>) -> Result<Summary, RunError> {
        if let Some(message) = self.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(RunError::Panicked(message));
        }
        let causes = self.causes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let count = |n: &AtomicU64| n.load(Relaxed);
        let tally = &self.control.tally;
        let lost = match self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(failure) if count(&tally.committed) == 0 => return Err(failure.into()),
            other => other,
        };
        if count(&tally.committed) == 0
            && let Some((_, message)) = causes.values().next()
        {
            return Err(RunError::NothingCommitted(message.clone()));
        }
        Ok(Summary {
            committed: count(&tally.committed),
            aborted: count(&tally.aborted),
            indeterminate: count(&tally.indeterminate),
            faults: count(&tally.faults),
            elapsed,
            causes,
            online,
            lost,
        })
    }

    /// Nanoseconds since the run began.
    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_over(&self) -> bool {
        self.control.stop.load(Relaxed) || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn plan(&self, ops: &mut Vec<Op>, again: bool) {
        let mut planner = self.planner.lock().unwrap_or_else(PoisonError::into_inner);
        if again { planner.again(ops) } else { planner.next(ops) }
    }

    fn give_up(&self, error: EngineError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.control.stop.store(true, Relaxed);
    }

    /// Calls the engine. If it panics, the run ends, because a thread that waits for the session would wait
    /// for ever; `None` then.
    fn guarded<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        let panic = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(answer) => return Some(answer),
            Err(panic) => panic,
        };
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let message = text.unwrap_or_else(|| "without a message".to_owned());
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
        self.control.stop.store(true, Relaxed);
        None
    }

    fn count(&self, ended: &Ended) {
        let tally = &self.control.tally;
        let (count, cause) = match ended {
            Ended::Committed => (&tally.committed, None),
            Ended::Aborted(cause) => (&tally.aborted, Some(cause)),
            Ended::Indeterminate(cause) => (&tally.indeterminate, Some(cause)),
        };
        count.fetch_add(1, Relaxed);
        if let Some(Cause { kind, message }) = cause {
            let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
            causes.entry(kind).or_insert_with(|| (0, message.clone())).0 += 1;
        }
    }
}

#[cfg(test)]
mod tests;
