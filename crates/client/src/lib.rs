//! Clients that run a workload against a database and record what they saw.
//!
//! A [`Session`] performs one transaction of micro-operations at a time and says how it ended; an
//! [`Engine`] opens sessions. That is all a database has to be. [`ExecEngine`] is one for a program in any
//! language, [`SimulatedEngine`] and [`WeakEngine`] are databases in this process, and the crate
//! `anomalist-databases` has one for databases that speak SQL; an engine in your own process is an `impl`
//! away. [`run`] starts any number of sessions on an engine and writes their history.
//!
//! ```
//! use anomalist_client::{Answer, Ended, Engine, EngineError, Op, Session};
//! use anomalist_client::{Control, Limit, Output, Plan, run};
//! use anomalist_workload::client::{ClientSpec, Workload};
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//!
//! /// One map behind one lock: as serializable as it gets.
//! #[derive(Default)]
//! struct Locked(Arc<Mutex<BTreeMap<u64, Vec<i64>>>>);
//!
//! impl Engine for Locked {
//!     fn describe(&self) -> String {
//!         "a map behind a lock".into()
//!     }
//!
//!     fn open(&self, _session: u32) -> Result<Box<dyn Session>, EngineError> {
//!         Ok(Box::new(Locked(Arc::clone(&self.0))))
//!     }
//! }
//!
//! impl Session for Locked {
//!     fn transact(&mut self, ops: &[Op], answers: &mut Vec<Answer>) -> Ended {
//!         let mut lists = self.0.lock().unwrap();
//!         for op in ops {
//!             answers.push(match *op {
//!                 Op::ReadList(key) => Answer::List(lists.get(&key).cloned().unwrap_or_default()),
//!                 Op::Append(key, value) => {
//!                     lists.entry(key).or_default().push(value);
//!                     Answer::Done
//!                 }
//!                 _ => return Ended::unsupported(*op),
//!             });
//!         }
//!         Ended::Committed
//!     }
//! }
//!
//! let plan = Plan {
//!     engine: &Locked::default(),
//!     spec: &ClientSpec::of(Workload::ListAppend),
//!     sessions: 4,
//!     limit: Limit::Transactions(1_000),
//!     faults: None,
//!     online: None,
//! };
//! // To a file, usually: `anomalist check` reads what is written here.
//! let output = Output { history: Box::new(std::io::sink()), log: Box::new(std::io::sink()) };
//! let summary = run(plan, &Control::default(), output)?;
//! assert_eq!(summary.committed, 1_000);
//! # Ok::<(), anomalist_client::RunError>(())
//! ```

mod cells;
pub mod collect;
mod exec;
mod online;
pub mod record;
pub mod remains;
mod run;
mod simulated;
mod weak;

pub use anomalist_workload::client::{Answer, Key, Op};
pub use exec::ExecEngine;
pub use online::{Online, OnlineSummary};
pub use run::{Control, FaultEvent, FaultSource, Limit, Output, Plan, RunError, Summary, Tally, run};
pub use simulated::SimulatedEngine;
pub use weak::WeakEngine;

use collect::Stamp;
use std::fmt;

/// Performs transactions, one after the other.
pub trait Session: Send {
    /// Performs the operations as one transaction, and appends an answer for each that was performed.
    ///
    /// How it ended must be the truth: [`Ended::Aborted`] only if it is certain that it had no effect and
    /// never will.
    fn transact(&mut self, ops: &[Op], answers: &mut Vec<Answer>) -> Ended;

    /// What the server says about the last transaction: what it saw, and its number. None if the server was
    /// not asked.
    fn stamp(&mut self) -> Option<Stamp> {
        None
    }

    /// Whether it can go on. If not, another session is opened in its place.
    fn is_usable(&self) -> bool {
        true
    }
}

/// A database, as far as clients are concerned.
pub trait Engine: Sync {
    /// What it is, for people: product, version, isolation. No secrets.
    fn describe(&self) -> String;

    /// Makes what the workload needs, such as tables. Called once, before any session is opened.
    fn prepare(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Opens the session with this number.
    fn open(&self, session: u32) -> Result<Box<dyn Session>, EngineError>;
}

/// How a transaction ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The database said that it is committed.
    Committed,
    /// It certainly had no effect and never will.
    Aborted(Cause),
    /// It may have been committed or not, or may yet be.
    Indeterminate(Cause),
}

/// Why a transaction did not commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// In a word: `conflict`, `deadlock`, `timeout`, …
    pub kind: &'static str,
    /// What the database said.
    pub message: String,
}

impl Ended {
    /// Aborted for this reason.
    pub fn aborted(kind: &'static str, message: impl fmt::Display) -> Ended {
        Ended::Aborted(Cause { kind, message: message.to_string() })
    }

    /// Of unknown outcome, for this reason.
    pub fn indeterminate(kind: &'static str, message: impl fmt::Display) -> Ended {
        Ended::Indeterminate(Cause { kind, message: message.to_string() })
    }

    /// Aborted, because the engine has no such operation.
    pub fn unsupported(op: Op) -> Ended {
        Ended::aborted("unsupported", format_args!("this engine cannot do {op:?}"))
    }
}

/// Why an engine cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    /// What the matter is. No secrets.
    pub message: String,
    /// Whether it may be over soon: the server is down, or busy.
    pub passing: bool,
}

impl EngineError {
    /// Something that will not be over by itself.
    pub fn new(message: impl fmt::Display) -> EngineError {
        EngineError { message: message.to_string(), passing: false }
    }
}
