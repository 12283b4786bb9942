//! Records what an unmodified application does to a PostgreSQL, as a history that can be judged.
//!
//! A proxy stands between the application and its server. It passes everything, and adds two things that
//! the application does not see: a column with the versions of the rows to simple SELECTs (`plan.rs`), and,
//! with each COMMIT, a question for the transaction's number and level (`session.rs`). What was written, and
//! in which order transactions committed, the server's log says (logical decoding, `log.rs`). Both together
//! are a history of registers, one for each row (`ledger.rs`, with the argument why it never says more than
//! what happened).
//!
//! Nothing is written to the database. On the server there is a temporary replication slot as long as the
//! recording runs; the server removes it, whatever becomes of us.
//!
//! What is not seen: what aggregates, cursors and views read ([`Reason`] has all), rows that are not there
//! (phantoms), rows of tables without a primary key, versions written within savepoints. What is not seen
//! is never evidence: a level that holds, holds of what was seen.

mod catalogue;
mod decode;
mod error;
mod ledger;
mod log;
mod plan;
mod session;
mod shape;
mod shared;
mod transaction;
mod writer;

pub use error::Error;
pub use plan::Reason;
pub use shared::Counts;

use anomalist_databases::{Family, Target};
use anomalist_proxy::{Limits, Observer, PassThrough, Proxy, Service};
use ledger::{Event, Ledger};
use log::Log;
use session::Session;
use shared::Shared;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use writer::Writer;

/// What is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of the rows one in so many, always the same ones.
    pub sample: u32,
    /// Keys of rows are hashed, with a secret that is not kept.
    pub private: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { sample: 1, private: false }
    }
}

/// What became of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Transactions that came through the proxy.
    pub transactions: u64,
    /// Those that committed.
    pub committed: u64,
    /// Those that were rolled back.
    pub aborted: u64,
    /// Those whose outcome is not known.
    pub unknown: u64,
    /// Transactions that are only in the log: of other clients, or of unknown number.
    pub others: u64,
    /// Rows read in a version that a recorded transaction wrote.
    pub versions: u64,
    /// Rows read in the version that they had when the recording began.
    pub initial: u64,
    /// Rows read in a version of unknown origin: written within a savepoint, or while the log was not seen.
    pub unresolved: u64,
    /// How often the log was lost: the server restarted, or the connection broke.
    pub gaps: u64,
    /// Tables that got another name or key while they were recorded.
    pub tables_given_up: u64,
    /// Transactions that did not run at the level that was asked for: that level, the one in force.
    pub other_level: BTreeMap<(&'static str, &'static str), u64>,
    /// Statements.
    pub statements: Counts,
}

/// A recording that runs.
pub struct Recording {
    proxy: Option<Proxy>,
    shared: Arc<Shared>,
    slot: String,
    reading: JoinHandle<()>,
    writing: JoinHandle<Result<Summary, Error>>,
}

/// Records the sessions of one database; others pass.
struct Sessions {
    shared: Arc<Shared>,
    database: String,
}

impl Service for Sessions {
    fn session(&self, options: &BTreeMap<String, String>) -> Box<dyn Observer> {
        let database = options.get("database").or_else(|| options.get("user"));
        let replicates =
            options.get("replication").is_some_and(|r| !matches!(r.as_str(), "false" | "off" | "0"));
        match database == Some(&self.database) && !replicates {
            true => Box::new(Session::new(self.shared.clone())),
            false => Box::new(PassThrough),
        }
    }
}

fn parts(target: &Target) -> Result<(String, String), Error> {
    let unfit = || Error::Target(target.to_string());
    let (host, port) = target.address().filter(|_| target.family() == Family::Postgres).ok_or_else(unfit)?;
    let database = target.database().or(target.user()).ok_or_else(unfit)?;
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Ok((format!("{host}:{port}"), database.to_owned()))
}

/// Takes events until the last one.
fn write(mut ledger: Ledger, events: &Receiver<Event>) -> Result<Summary, Error> {
    while let Ok(event) = events.recv() {
        if !ledger.take(event)? {
            break;
        }
    }
    Ok(ledger.finish()?)
}

impl Recording {
    /// Starts to record: clients that connect to the listener reach the server of the target, whose user
    /// must be a superuser or have REPLICATION. Transactions that are open on the server are waited for.
    ///
    /// # Errors
    /// As [`Error`] lists.
    pub fn start(
        target: &Target,
        listener: TcpListener,
        out: Box<dyn Write + Send>,
        options: Options,
    ) -> Result<Recording, Error> {
        let (upstream, database) = parts(target)?;
        let (log, catalogue) = Log::start(target)?;
        let (sender, events) = channel();
        let shared = Arc::new(Shared::new(catalogue, sender.clone()));
        let (catalogue, boundary, slot) = (shared.catalogue(), log.boundary, log.slot.clone());
        let writing = thread::Builder::new().name("record".into()).spawn(move || {
            let writer = Writer::new(out)?;
            write(Ledger::new(options, catalogue, boundary, writer), &events)
        })?;
        let reader = shared.clone();
        let reading = thread::Builder::new().name("log".into()).spawn(move || log.run(&reader, &sender))?;
        let sessions = Sessions { shared: shared.clone(), database };
        let proxy = Proxy::start(listener, &upstream, Box::new(sessions), Limits::default())?;
        Ok(Recording { proxy: Some(proxy), shared, slot, reading, writing })
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.proxy.as_ref().map(Proxy::address)
    }

    /// The name of the replication slot on the server.
    #[must_use]
    pub fn slot(&self) -> &str {
        &self.slot
    }

    /// Whether it has ended by itself: the history could not be written.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.writing.is_finished()
    }

    /// Closes all connections, waits for the last transactions in the log, and ends the history.
    ///
    /// # Errors
    /// If the history could not be written.
    pub fn stop(mut self) -> Result<Summary, Error> {
        drop(self.proxy.take());
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.reading.join().map_err(|_| Error::Thread)?;
        let mut summary = self.writing.join().map_err(|_| Error::Thread)??;
        summary.statements = self.shared.counts();
        Ok(summary)
    }
}
