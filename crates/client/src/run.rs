//! Lets sessions loose on an engine, and records.
//!
//! A session is a thread: it asks the planner for a transaction, has it performed, and hands what it saw to
//! the thread that writes the history. Between asking and answering nothing else happens on it, so the
//! driver costs a lock and a channel per transaction. Times are monotonic and taken before the first
//! statement and after the last answer, so that "ended before the other began" is true whenever the history
//! says so.
//!
//! A transaction that aborted is tried again, as a new one with new values, a few times; after some aborts
//! in a row the session waits a little. A session whose transaction has an unknown outcome goes on under a
//! new process number, on a new connection: the old process may yet take effect.

use crate::online::{Online, OnlineSummary, follow};
use crate::record::{Entry, Finished, Recorder};
use crate::{Answer, Cause, Ended, Engine, EngineError, Op, Session};
use anomalist_format::WriteError;
use anomalist_workload::SpecError;
use anomalist_workload::client::{ClientSpec, Planner, Workload};
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a transaction is tried again before another takes its place.
const RETRIES: u32 = 3;
/// How long a session waits before it tries to connect again.
const RECONNECT: Duration = Duration::from_millis(50);
/// How long the database may be unreachable before the run is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for the first connection of a session, if no faults disturb the database: it has just been
/// there, but may not want so many.
const FIRST_PATIENCE: Duration = Duration::from_secs(1);
/// The longest that a session waits after an abort, and after how many in a row it does. Those who wake
/// each other's conflicts again and again never commit; before that, conflicts are what we are here for.
const LONGEST_WAIT: Duration = Duration::from_millis(128);
const STREAK: u32 = 4;
/// What is recorded reaches the file within this time.
const FLUSH: Duration = Duration::from_millis(200);
/// How long the writer lets entries gather. Were it to wait for each, every transaction would have to wake
/// it: on a machine whose cores are busy, a tenth of what the transaction itself costs.
const GATHER: Duration = Duration::from_millis(20);

/// When a run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// After so many transactions, whatever their outcome.
    Transactions(u64),
    /// After this time.
    Time(Duration),
}

/// A fault, as its source tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultEvent {
    /// Which, by its name on the command line.
    pub name: String,
    /// To what, or how long.
    pub detail: String,
}

/// Something that disturbs the database while it works.
pub trait FaultSource: Send {
    /// How long to wait before the next fault.
    fn pause(&mut self) -> Duration;

    /// Injects one fault and, if it is one that lasts, ends it: earlier if `over` is set. Returns when it
    /// is over; nothing, if it had no effect.
    fn inject(&mut self, over: &AtomicBool) -> Result<Option<FaultEvent>, EngineError>;

    /// Puts everything right at the end.
    fn heal(&mut self) {}
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
pub fn run(plan: Plan<'_>, control: &Control, output: Output) -> Result<Summary, RunError> {
    let Plan { engine, spec, sessions, limit, faults, online } = plan;
    let sessions = sessions.max(1);
    let planner = Planner::new(spec)?;
    engine.prepare()?;
    let since = Instant::now();
    let shared = Shared {
        engine,
        sessions,
        planner: Mutex::new(planner),
        control,
        since,
        deadline: if let Limit::Time(time) = limit { since.checked_add(time) } else { None },
        tickets: AtomicI64::new(match limit {
            Limit::Transactions(n) => i64::try_from(n).unwrap_or(i64::MAX),
            Limit::Time(_) => i64::MAX,
        }),
        number: AtomicU64::new(0),
        beginnings: Recorder::wants_beginnings(spec.workload),
        first_patience: if faults.is_some() { PATIENCE } else { FIRST_PATIENCE },
        ready: Barrier::new(sessions as usize),
        failure: Mutex::new(None),
        panic: Mutex::new(None),
        causes: Mutex::new(BTreeMap::new()),
    };
    let over = AtomicBool::new(false);
    let mut elapsed = Duration::ZERO;
    let (sender, entries) = mpsc::channel();
    let (to_online, of_online) = mpsc::channel();
    let to_online = online.is_some().then_some(to_online);
    let (written, followed) = std::thread::scope(|scope| {
        let follower = online.map(|online| {
            let violations = &control.tally.violations;
            scope.spawn(move || follow(&of_online, online, spec.workload, violations))
        });
        let writer = scope.spawn(move || write(spec.workload, output, &entries, control));
        let threads: Vec<_> = (0..sessions)
            .map(|number| {
                let (shared, sender, online) = (&shared, sender.clone(), to_online.clone());
                scope.spawn(move || Client { shared, number, sender, online }.work())
            })
            .collect();
        let disturber = faults.map(|faults| {
            let (shared, sender, over) = (&shared, sender.clone(), &over);
            scope.spawn(move || disturb(faults, shared, &sender, over))
        });
        for thread in threads {
            // A panic of a session is a bug, and must not pass for the end of the run.
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        over.store(true, Relaxed);
        elapsed = since.elapsed();
        if let Some(disturber) = disturber {
            _ = disturber.join();
        }
        drop((sender, to_online));
        let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let followed = follower.map(|f| f.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        (written, followed)
    });
    written?;
    let online = followed.transpose()?;
    if let Some(message) = shared.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(RunError::Panicked(message));
    }
    let causes = shared.causes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let count = |n: &AtomicU64| n.load(Relaxed);
    let tally = &control.tally;
    let lost = match shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
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

impl Shared<'_> {
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

/// One session.
struct Client<'a> {
    shared: &'a Shared<'a>,
    number: u32,
    sender: Sender<Entry>,
    online: Option<Sender<Finished>>,
}

impl Client<'_> {
    fn work(&self) {
        let shared = self.shared;
        let mut session = self.connect(shared.first_patience);
        // All begin together, or the first would run alone.
        shared.ready.wait();
        let mut process = u64::from(self.number);
        let (mut ops, mut tries): (Vec<Op>, u32) = (Vec::new(), 0);
        let mut aborts_in_a_row: u32 = 0;
        while !shared.is_over() && shared.tickets.fetch_sub(1, Relaxed) > 0 {
            if session.as_ref().is_none_or(|s| !s.is_usable()) {
                // The old connection first: it may hold locks.
                let old = session.take();
                shared.guarded(|| drop(old));
                session = self.connect(PATIENCE);
            }
            let Some(open) = &mut session else { return };
            shared.plan(&mut ops, tries > 0);
            let mut answers: Vec<Answer> = Vec::with_capacity(ops.len());
            let invoked = shared.now();
            if shared.beginnings {
                self.tell(Entry::Began { process, ops: ops.clone(), at: invoked });
            }
            let ended = shared.guarded(|| open.transact(&ops, &mut answers));
            let panicked = ended.is_none();
            let ended = ended.unwrap_or_else(|| Ended::indeterminate("panic", "the engine panicked"));
            let completed = shared.now();
            shared.count(&ended);
            tries = if matches!(ended, Ended::Aborted(_)) && tries < RETRIES { tries + 1 } else { 0 };
            aborts_in_a_row = if matches!(ended, Ended::Aborted(_)) { aborts_in_a_row + 1 } else { 0 };
            let unknown = matches!(ended, Ended::Indeterminate(_));
            let stamp = if panicked { None } else { shared.guarded(|| open.stamp()).flatten() };
            let number = shared.number.fetch_add(1, Relaxed);
            let ops = ops.clone();
            let finished = Finished { process, ops, answers, ended, invoked, completed, number, stamp };
            if let Some(online) = &self.online {
                _ = online.send(finished.clone());
            }
            self.tell(Entry::Finished(finished));
            if unknown {
                process += u64::from(shared.sessions);
                let old = session.take();
                shared.guarded(|| drop(old));
            }
            if let Some(more) = aborts_in_a_row.checked_sub(STREAK) {
                let longest = Duration::from_millis(1 << more.min(16)).min(LONGEST_WAIT);
                std::thread::sleep(longest.mul_f64(fastrand::f64()));
            }
        }
    }

    fn tell(&self, entry: Entry) {
        // The writer listens until the last session is gone.
        _ = self.sender.send(entry);
    }

    /// A session, or none if the run is over.
    fn connect(&self, patience: Duration) -> Option<Box<dyn Session>> {
        let since = Instant::now();
        loop {
            let opened = self.shared.guarded(|| self.shared.engine.open(self.number))?;
            match opened {
                Ok(session) => return Some(session),
                Err(_) if self.shared.is_over() => return None,
                Err(error) if !error.passing || since.elapsed() > patience => {
                    let (number, of) = (self.number + 1, self.shared.sessions);
                    let message = format!("session {number} of {of}: {}", error.message);
                    self.shared.give_up(if error.passing { EngineError { message, ..error } } else { error });
                    return None;
                }
                Err(_) => std::thread::sleep(RECONNECT),
            }
        }
    }
}

/// Injects faults until the sessions are done.
fn disturb(
    mut faults: Box<dyn FaultSource + '_>,
    shared: &Shared<'_>,
    sender: &Sender<Entry>,
    over: &AtomicBool,
) {
    const STEP: Duration = Duration::from_millis(20);
    'faults: loop {
        let until = Instant::now() + faults.pause();
        while Instant::now() < until {
            if over.load(Relaxed) || shared.is_over() {
                break 'faults;
            }
            std::thread::sleep(STEP);
        }
        let began = shared.now();
        match faults.inject(over) {
            Ok(None) => {}
            Ok(Some(FaultEvent { name, detail })) => {
                shared.control.tally.faults.fetch_add(1, Relaxed);
                _ = sender.send(Entry::Fault { name, detail, began, ended: shared.now() });
            }
            Err(error) => {
                shared.give_up(error);
                break;
            }
        }
    }
    faults.heal();
}

/// Writes entries as they come.
fn write(
    workload: Workload,
    output: Output,
    entries: &Receiver<Entry>,
    control: &Control,
) -> Result<(), WriteError> {
    let Output { history, mut log } = output;
    let mut recorder = Recorder::new(workload, history)?;
    let mut seen: Vec<&'static str> = Vec::new();
    let mut flushed = Instant::now();
    let result = loop {
        let entry = match entries.try_recv() {
            Ok(entry) => entry,
            Err(TryRecvError::Empty) => {
                if flushed.elapsed() > FLUSH {
                    if let Err(error) = recorder.flush() {
                        break Err(error);
                    }
                    flushed = Instant::now();
                }
                std::thread::sleep(GATHER);
                continue;
            }
            Err(TryRecvError::Disconnected) => break Ok(()),
        };
        // What cannot be logged is lost; the history is not.
        _ = note(&mut log, &entry, &mut seen);
        if let Err(error) = recorder.push(entry) {
            break Err(error);
        }
    };
    _ = log.flush();
    match result {
        Ok(()) => recorder.finish(),
        Err(error) => {
            control.stop.store(true, Relaxed);
            Err(error)
        }
    }
}

/// Logs faults and the first error of each kind.
fn note(log: &mut dyn Write, entry: &Entry, seen: &mut Vec<&'static str>) -> std::io::Result<()> {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    match entry {
        Entry::Fault { name, detail, began, ended } => {
            let (began, ended) = (seconds(*began), seconds(*ended));
            writeln!(log, "{began:.3}s fault {name} {detail} (over at {ended:.3}s)")
        }
        Entry::Finished(Finished { ended, completed, process, .. }) => match ended {
            Ended::Indeterminate(cause) => writeln!(
                log,
                "{:.3}s process {process}: outcome unknown, {}: {}",
                seconds(*completed),
                cause.kind,
                cause.message
            ),
            Ended::Aborted(cause) if !seen.contains(&cause.kind) => {
                seen.push(cause.kind);
                let at = seconds(*completed);
                writeln!(log, "{at:.3}s first abort by {}: {}", cause.kind, cause.message)
            }
            _ => Ok(()),
        },
        Entry::Began { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests;
