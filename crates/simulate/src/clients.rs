//! Clients of weakdb's store, and what they record.
//!
//! Clients take turns, statement by statement. A client that is killed leaves its transaction open; another
//! takes its place. A cancelled statement did some of its work and is rolled back to where it began. What
//! clients saw goes to the library's recorder and, through the recorder of `test`, to a file that fails.
//! The judges are the checker and, for small histories, the brute-force oracle.

use crate::file::{self, FaultyFile};
use crate::{Seen, World};
use anomalist::Recorder;
use anomalist_check::{Budget, Request, check};
use anomalist_client::record::{Entry, Finished, Recorder as FileRecorder};
use anomalist_client::{Answer, Cause, Ended, Op};
use anomalist_history::{History, Indexed, Outcome};
use anomalist_level::{Level, Verdict};
use anomalist_testkit::oracle;
use anomalist_weakdb::{Error, Options, Session, Store, Value};
use anomalist_workload::client::Workload;
use fastrand::Rng;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const LEVELS: [Level; 6] = [
    Level::ReadCommitted,
    Level::ReadAtomic,
    Level::Causal,
    Level::Prefix,
    Level::StrongSessionSnapshotIsolation,
    Level::StrongSessionSerializable,
];

/// What a client does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Reads a key, in a transaction that is begun if none is open.
    Read(u64),
    /// Writes a key.
    Write(u64),
    /// Reads and writes a key in one statement, which is cancelled before its end.
    Cancelled(u64),
    /// Commits.
    Commit,
    /// Rolls back.
    Abort,
    /// Commits, and the answer is lost.
    LostAnswer,
    /// Sends COMMIT, which does not arrive.
    LostCommit,
    /// Is killed.
    Killed,
    /// The recorder hands what it has to the file.
    Flush,
}

/// A client, by its number, and what it does.
pub type Step = (usize, Act);

/// A plan.
#[derive(Clone)]
pub struct Clients {
    options: Options,
    steps: Vec<Step>,
    fault: Option<file::Due>,
    short: bool,
}

impl World for Clients {
    type Step = Step;

    fn plan(rng: &mut Rng) -> Clients {
        let level = LEVELS[rng.usize(..LEVELS.len())];
        let stale = [None, Some(0.2), Some(0.9)][rng.usize(..3)];
        let abort = if rng.u8(..4) == 0 { 0.2 } else { 0.0 };
        let options = Options { seed: rng.u64(..), record: true, stale, abort, ..Options::new(level) };
        let (clients, keys, faults) = (rng.usize(2..5), rng.u64(1..4), rng.bool());
        let act = |rng: &mut Rng| match rng.u8(..if faults { 28 } else { 20 }) {
            0..=6 => Act::Read(rng.u64(..keys)),
            7..=13 => Act::Write(rng.u64(..keys)),
            14..=18 => Act::Commit,
            19 => Act::Abort,
            20..=21 => Act::Cancelled(rng.u64(..keys)),
            22 => Act::LostAnswer,
            23 => Act::LostCommit,
            24 => Act::Killed,
            _ => Act::Flush,
        };
        let steps = (0..rng.usize(1..60)).map(|_| (rng.usize(..clients), act(rng))).collect();
        let fault = (rng.u8(..3) > 0).then(|| file::Due::random(rng));
        Clients { options, steps, fault, short: rng.bool() }
    }

    fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn with(&self, steps: Vec<Step>) -> Clients {
        Clients { steps, ..self.clone() }
    }

    fn describe(&self) -> String {
        let Options { level, seed, stale, abort, .. } = &self.options;
        let level = level.name();
        format!("{level}, seed {seed}, stale {stale:?}, abort {abort}; the file: {:?}", self.fault)
    }

    fn run(&self, seen: &mut Seen) -> Result<(), String> {
        let store = Store::new(self.options.clone()).map_err(|error| error.to_string())?;
        let mut run = Run::new(self, store, seen)?;
        for &(client, act) in &self.steps {
            run.step(client, act)?;
        }
        run.end()
    }
}

/// A transaction as its client sees it.
#[derive(Default)]
struct Open {
    began: u64,
    ops: Vec<Op>,
    answers: Vec<Answer>,
}

/// A client, and its session of the library's recorder.
struct Client {
    process: u64,
    session: Session,
    recorded: anomalist::Session,
    open: Option<Open>,
}

struct Run<'a> {
    plan: &'a Clients,
    seen: &'a mut Seen,
    store: Arc<Store>,
    recorder: Recorder,
    clock: Arc<AtomicU64>,
    clients: Vec<Option<Client>>,
    processes: u64,
    written: i64,
    file: FaultyFile,
    /// Until the file has failed.
    to_file: Option<FileRecorder>,
    ended: u64,
}

fn key_name(key: u64) -> String {
    format!("k{key}")
}

impl<'a> Run<'a> {
    fn new(plan: &'a Clients, store: Arc<Store>, seen: &'a mut Seen) -> Result<Run<'a>, String> {
        let clock = Arc::new(AtomicU64::new(1));
        let now = clock.clone();
        let file = FaultyFile::new(plan.fault, plan.short);
        let to_file = FileRecorder::new(Workload::Register, Box::new(file.clone()));
        Ok(Run {
            plan,
            seen,
            store,
            recorder: Recorder::with_clock(move || now.load(Relaxed)),
            clock,
            clients: Vec::new(),
            processes: 0,
            written: 0,
            to_file: Some(to_file.map_err(|error| error.to_string())?),
            file,
            ended: 0,
        })
    }

    /// The client with this number; a killed one has a successor.
    fn client(&mut self, number: usize) -> Client {
        if self.clients.len() <= number {
            self.clients.resize_with(number + 1, || None);
        }
        self.clients[number].take().unwrap_or_else(|| {
            self.processes += 1;
            let process = self.processes;
            let session = self.store.session(&process.to_string());
            Client { process, session, recorded: self.recorder.session(process as i64), open: None }
        })
    }

    fn step(&mut self, number: usize, act: Act) -> Result<(), String> {
        let now = self.clock.fetch_add(1, Relaxed) + 1;
        let mut client = self.client(number);
        let wrong = |error: Error| format!("{act:?}: {error}");
        match act {
            Act::Flush => self.record(FileRecorder::flush),
            Act::Read(key) => {
                let value = client.begun(now).map_err(wrong)?.read(&key_name(key)).map_err(wrong)?;
                client.note(Op::Read(key), Answer::Value(value.as_ref().and_then(Value::as_int)));
            }
            Act::Write(key) => {
                self.written += 1;
                let session = client.begun(now).map_err(wrong)?;
                session.write(&key_name(key), self.written).map_err(wrong)?;
                client.note(Op::Write(key, self.written), Answer::Done);
            }
            Act::Cancelled(key) => {
                self.written += 1;
                self.seen.note("cancelled statements");
                let (session, written) = (client.begun(now).map_err(wrong)?, self.written);
                let mut cancelled = || -> Result<(), Error> {
                    let mark = session.mark()?;
                    session.read(&key_name(key))?;
                    session.write(&key_name(key), written)?;
                    session.read(&key_name(key))?;
                    session.rollback_to(mark)
                };
                cancelled().map_err(wrong)?;
            }
            Act::Commit | Act::Abort | Act::LostAnswer | Act::LostCommit if client.open.is_none() => {}
            Act::Commit | Act::LostAnswer => {
                let ended = match (client.session.commit(), act) {
                    (_, Act::LostAnswer) => unknown(),
                    (Ok(()), _) => Ended::Committed,
                    (Err(Error::Serialization(conflict)), _) => aborted(conflict.to_string()),
                    (Err(error), _) => return Err(wrong(error)),
                };
                self.over(&mut client, ended, now);
            }
            Act::Abort | Act::LostCommit => {
                client.session.rollback().map_err(wrong)?;
                let ended = if act == Act::Abort { aborted("asked for".to_owned()) } else { unknown() };
                self.over(&mut client, ended, now);
            }
            Act::Killed => {
                self.seen.note("killed clients");
                if client.open.is_some() {
                    self.over(&mut client, unknown(), now);
                }
                // Its session ends with the transaction that is open in it.
                return Ok(());
            }
        }
        self.clients[number] = Some(client);
        Ok(())
    }

    /// A transaction is over: both recorders hear of it.
    fn over(&mut self, client: &mut Client, ended: Ended, now: u64) {
        let Some(Open { began, ops, answers }) = client.open.take() else { return };
        self.ended += 1;
        self.clock.store(began, Relaxed);
        let mut transaction = client.recorded.begin();
        for (op, answer) in ops.iter().zip(&answers) {
            transaction = match (*op, answer) {
                (Op::Read(key), Answer::Value(Some(value))) => transaction.read(key as i64, *value),
                (Op::Read(key), _) => transaction.read(key as i64, anomalist::Value::Null),
                (Op::Write(key, value), _) => transaction.write(key as i64, value),
                _ => transaction,
            };
        }
        self.clock.store(now, Relaxed);
        match ended {
            Ended::Committed => transaction.commit(),
            Ended::Aborted(_) => transaction.abort(),
            // As a client does whose thread ends.
            Ended::Indeterminate(_) => drop(transaction),
        }
        let (process, number) = (client.process, self.ended);
        let finished =
            Finished { process, ops, answers, ended, invoked: began, completed: now, number, stamp: None };
        self.record(|recorder| recorder.push(Entry::Finished(finished)));
    }

    fn record(&mut self, act: impl FnOnce(&mut FileRecorder) -> Result<(), anomalist_format::WriteError>) {
        if let Some(recorder) = &mut self.to_file
            && act(recorder).is_err()
        {
            self.seen.note("files that failed");
            self.to_file = None;
        }
    }

    fn end(mut self) -> Result<(), String> {
        let clients: Vec<Client> = self.clients.drain(..).flatten().collect();
        let now = self.clock.load(Relaxed) + 1;
        for mut client in clients {
            self.over(&mut client, unknown(), now);
        }
        let level = self.plan.options.level;
        let history = self.store.history().map_err(|error| error.to_string())?;
        keeps("the history of the store", &history, level, true)?;
        let recorded = self.recorder.finish().map_err(|error| error.to_string())?;
        keeps("the recorded history", recorded.transactions(), level, false)?;
        if recorded.transactions().txn_count() as u64 != self.ended {
            return Err("the recorder lost transactions".to_owned());
        }
        let whole = match self.to_file.take() {
            Some(recorder) => recorder.finish().is_ok(),
            None => false,
        };
        self.seen.note(if whole { "files that are whole" } else { "files that are not whole" });
        file::judge(&self.file.bytes(), whole, self.ended as usize, |name, history| {
            keeps(name, history, level, false)
        })
    }
}

impl Client {
    /// Its session, in a transaction.
    fn begun(&mut self, now: u64) -> Result<&mut Session, Error> {
        if self.open.is_none() {
            self.session.begin()?;
            self.open = Some(Open { began: now, ..Open::default() });
        }
        Ok(&mut self.session)
    }

    fn note(&mut self, op: Op, answer: Answer) {
        if let Some(open) = &mut self.open {
            open.ops.push(op);
            open.answers.push(answer);
        }
    }
}

fn unknown() -> Ended {
    Ended::Indeterminate(Cause { kind: "lost", message: "the client does not know".to_owned() })
}

fn aborted(message: String) -> Ended {
    Ended::Aborted(Cause { kind: "conflict", message })
}

/// Fails if a history does not keep a level. The history of the store says how each transaction ended, so of
/// it the level must be proven.
fn keeps(name: &str, history: &History, level: Level, known: bool) -> Result<(), String> {
    if history.txn_count() == 0 {
        return Ok(());
    }
    let indexed = Indexed::new(history, NonZeroUsize::MIN);
    let request = Request { levels: vec![level], ..Request::default() };
    let judgement = check(&indexed, &request, &Budget::unlimited());
    match judgement.verdict(level) {
        Some(Verdict::Holds) => {}
        Some(Verdict::Unknown(_)) if !known => {}
        other => return Err(format!("{name} does not keep {}: {other:?}", level.name())),
    }
    let committed = history.txns().filter(|&t| history.outcome(t) == Outcome::Committed).count();
    if known && committed <= 6 && oracle::decide(history, level) != Some(true) {
        return Err(format!("{name} does not keep {} by the oracle", level.name()));
    }
    Ok(())
}
