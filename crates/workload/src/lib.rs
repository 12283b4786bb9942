//! Histories from simulated databases: seeded, of a chosen isolation level, with anomalies on demand.
//!
//! A [`Spec`] says what to generate. Its sessions run interleaved, operation by operation, against a small
//! simulated database that keeps the level and, given contention, breaks stronger ones. [`Injection`]s
//! plant one instance of an anomaly each, on keys of their own. [`Generator`] yields the history in
//! batches, so that one much larger than memory can be written to a file; [`generate`] returns it whole.
//! Same specification, same history. No I/O, no clock.
//!
//! ```
//! use anomalist_workload::{Generator, Injection, SimLevel, Spec, generate};
//! let spec = Spec {
//!     level: SimLevel::SnapshotIsolation,
//!     inject: vec!["lost-update".parse()?, Injection::Tap('k')],
//!     seed: 42,
//!     ..Spec::default()
//! };
//! let mut transactions = 0;
//! for batch in Generator::new(spec.clone())? {
//!     transactions += batch.txn_count();
//! }
//! assert_eq!(transactions, generate(&spec)?.txn_count());
//! assert_eq!(transactions, 25 * 200 + 4 + 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`client`] plans what sessions do against a real database, and [`Simulated`] is a simulated one to run
//! them against.
//!
//! To add a level: one engine (see `engine.rs`), one variant of [`SimLevel`]. To add an anomaly: one row in
//! `recipes.rs`.

mod arrival;
pub mod client;
mod engine;
mod inject;
mod keys;
mod locking;
mod multiversion;
mod recipes;
mod record;
mod replicas;
mod run;
mod sample;
mod shapes;
mod simulated;
mod spec;
mod store;

pub use arrival::{Arrival, Arrivals, Delay, NotADelay};
pub use inject::Injection;
pub use simulated::{Refused, Simulated};
pub use spec::{Distribution, Kind, SimLevel, Spec, SpecError, UnknownName};

use anomalist_history::History;
use run::Run;

/// A history in batches of up to about 2,000 transactions, in commit order.
///
/// A batch is a [`History`] of its own. Sessions, transactions and keys keep their names from batch to
/// batch, and a session without transactions in a batch is missing from it. A read may return what an
/// earlier batch wrote. Memory: the keys, the open transactions and one batch.
pub struct Generator {
    run: Run,
}

impl Generator {
    /// Checks the specification and gets ready.
    pub fn new(spec: Spec) -> Result<Generator, SpecError> {
        Ok(Generator { run: Run::new(&spec)? })
    }

    /// Number of transactions in all batches together, whatever their outcome, injected ones included (and,
    /// with [`Spec::record_conflicts`], refused ones not included: their number is not known yet).
    pub fn total_txns(&self) -> u64 {
        self.run.total_txns()
    }
}

impl Iterator for Generator {
    type Item = History;

    fn next(&mut self) -> Option<History> {
        let batch = self.run.fill(false);
        if batch.txn_count() == 0 {
            return None;
        }
        // A batch is far below the limits of a history: see the sizes in `run.rs`.
        batch.finish().ok()
    }
}

/// The whole history.
pub fn generate(spec: &Spec) -> Result<History, SpecError> {
    Run::new(spec)?.fill(true).finish().map_err(SpecError::TooLarge)
}
