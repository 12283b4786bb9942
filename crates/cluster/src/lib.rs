//! Histories larger than memory, checked by several workers: threads of a process, processes, machines.
//!
//! Workers run on timely dataflow, which carries batches of bytes between them and says when all have
//! arrived. A check is a sequence of stages (`stage.rs`):
//! 1. Each worker reads pieces of the input (`input.rs`), and sends every operation to the worker that owns
//!    its key, with what the axioms need to know of its transaction. Another record goes to the owner of
//!    the session (`read.rs`). Owners keep records in a file for each part, not in memory (`spill.rs`).
//! 2. Each worker judges its parts one after the other, as histories of their own (`judge.rs`).
//! 3. The transactions of what was found come together on the first worker, which explains it
//!    (`gather.rs`).
//!
//! That is right because each axiom speaks of one key or of one session, and a part has all that the axiom
//! asks about: all operations on its keys, or all transactions of its sessions, in the order of the input.
//! The axioms themselves are those of `anomalist-timestamp`; this crate has none.
//!
//! Memory: one part per worker at a time, the names of all sessions, and some megabytes of batches. Disk:
//! 10 to 20 bytes per operation. Each operation is read, sent and judged once, so time is linear.
//!
//! Timestamps of snapshot isolation and serializability are judged, not yet verdicts by values.

mod error;
mod gather;
mod handshake;
mod input;
mod judge;
mod net;
mod read;
mod spill;
mod stage;
mod totals;
mod work;

pub use error::Error;
pub use net::Hosts;

use anomalist_format::Format;
use anomalist_history::History;
use anomalist_level::{AnomalyKind, Judgement, Level};
use anomalist_timestamp::offline::Findings;
use anomalist_timestamp::{Mode, Tie};
use std::any::Any;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use timely::CommunicationConfig;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};

/// What to check, and with what means. The same in every process, but for memory and the folder.
pub struct Job {
    /// The files; together they are one history.
    pub files: Vec<PathBuf>,
    /// Their format; `None`: what their content shows.
    pub format: Option<Format>,
    /// What keys hold before any write, as text; `None`: what the format says.
    pub initial: Option<String>,
    /// The levels to decide.
    pub levels: Vec<Level>,
    /// Look for just these anomalies.
    pub anomalies: Option<Vec<AnomalyKind>>,
    /// What equal timestamps mean.
    pub tie: Tie,
    /// Bytes of memory that this process may use.
    pub memory: u64,
    /// A folder for what does not fit into memory. Folders of workers are made in it, and removed.
    pub scratch: PathBuf,
    /// Bytes of a piece of the input; 0: what is usual.
    pub piece: u64,
    /// How many parts by key there are; `None`: as many as the memory asks for.
    pub parts: Option<NonZeroUsize>,
    /// Says whether the work is to end. Called often.
    pub stop: Box<dyn Fn() -> bool + Send + Sync>,
    /// Learns how far the work is.
    pub tell: Box<dyn Fn(Progress) + Send + Sync>,
}

/// A worker has done some more of a stage.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The stage: `reading`, `judging`, `gathering`.
    pub stage: &'static str,
    /// The worker, from 0.
    pub worker: usize,
    /// How many pieces or parts it has done just now.
    pub done: usize,
    /// How many it has to do in all.
    pub of: usize,
}

/// How large the whole history is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of transactions, whatever their outcome.
    pub transactions: u64,
    /// Those that aborted.
    pub aborted: u64,
    /// Those of unknown outcome.
    pub indeterminate: u64,
    /// Number of operations.
    pub operations: u64,
    /// Number of keys.
    pub keys: u64,
}

/// What was found out.
#[derive(Debug)]
pub struct Answer {
    /// The transactions that the listed violations are about, with all their operations.
    pub history: History,
    /// Verdicts and anomalies; ids are those of `history`.
    pub judgement: Judgement,
    /// What contradicts the timestamps, listed; ids are those of `history`.
    pub violations: Vec<(Mode, Findings)>,
    /// The size of the whole.
    pub size: Size,
    /// The format of the input.
    pub format: Format,
    /// Bytes of records that went from one worker to another.
    pub exchanged: u64,
}

impl Job {
    /// The modes that the levels are judged in.
    fn modes(&self) -> Vec<Mode> {
        let asked = |mode: &Mode| self.levels.iter().any(|&level| Mode::of(level) == Some(*mode));
        [Mode::Si, Mode::Ser].into_iter().filter(asked).collect()
    }
}

/// Checks with so many workers in this process.
///
/// # Errors
/// If there is no answer; see [`Error`].
pub fn run(job: &Arc<Job>, workers: NonZeroUsize) -> Result<Answer, Error> {
    let config = match workers.get() {
        1 => CommunicationConfig::Thread,
        workers => CommunicationConfig::Process(workers),
    };
    let (builders, others) = config.try_build().map_err(Error::Lost)?;
    let answer = execute(job, workers, builders, others)?;
    answer.ok_or_else(|| Error::Lost("the first worker has no answer".to_owned()))
}

/// Checks as one of several processes, with so many workers in this one (as many as in each other). The
/// first process has the answer.
///
/// If another process is lost, threads that wait for it are left behind: this process should end then.
///
/// # Errors
/// If there is no answer, or another process is lost; see [`Error`].
pub fn run_among(job: &Arc<Job>, workers: NonZeroUsize, hosts: &Hosts) -> Result<Option<Answer>, Error> {
    let (losses, lost) = net::Losses::new();
    let net::Connections { links, pulses } = net::connect(hosts, &losses)?;
    let (sender, done) = std::sync::mpsc::channel();
    let (job, process) = (Arc::clone(job), hosts.process);
    let _threads = std::thread::spawn(move || {
        let hooks = timely::communication::Hooks::default();
        let here = ProcessBuilder::new_typed_vector(workers.get(), hooks.refill.clone(), hooks.spill.clone());
        let built = initialize_networking_from_sockets(here, links, process, workers.get(), hooks);
        let result = built.map_err(|error| Error::Lost(error.to_string())).and_then(|(builders, guard)| {
            let builders = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
            execute(&job, workers, builders, Box::new(guard))
        });
        let _ = sender.send(result);
    });
    loop {
        if let Ok(result) = done.try_recv() {
            pulses.end();
            return result;
        }
        if let Ok(error) = lost.recv_timeout(std::time::Duration::from_millis(20)) {
            return Err(error);
        }
    }
}

fn execute(
    job: &Arc<Job>,
    workers: NonZeroUsize,
    builders: Vec<AllocatorBuilder>,
    others: Box<dyn Any + Send>,
) -> Result<Option<Answer>, Error> {
    let (job, here) = (Arc::clone(job), workers.get());
    let config = timely::WorkerConfig::default();
    let guards =
        timely::execute::execute_from(builders, others, config, move |worker| work::work(worker, &job, here));
    let mut answer = None;
    for result in guards.map_err(Error::Lost)?.join() {
        answer = result.map_err(|panic| Error::Lost(format!("a worker failed: {panic}")))??.or(answer);
    }
    Ok(answer)
}
