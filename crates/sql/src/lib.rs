//! Isolation of relational databases, through SQL (IsoRel: Yang et al., ISSTA 2025; and beyond).
//!
//! Two auxiliary columns make every row an append-only list: `wList` of row `rowId` is the list of the
//! statements that wrote it. A query that returns a row *reads that list*, an `UPDATE` *appends to it*, an
//! `INSERT` creates it, a `DELETE` is its last element. So an instrumented run *is* a list-append history
//! over rows, and the engine that judges such histories (`anomalist-check`) infers the dependencies, with
//! its proofs. This crate generates, instruments, runs and translates; it has no checker of its own.
//!
//! 1. `generate` makes schemas and transactions from a seed; `instrument` rewrites trees so that reads
//!    return, and writes extend, the lists. Whatever makes a row of the result stand for several
//!    (`DISTINCT`, groups, set operations) becomes a group that also aggregates the lists, so results stay
//!    the same; `crates/sql/tests/agnostic.rs` compares results, waiting and errors with and without, on
//!    real servers.
//! 2. `run.rs` drives sessions, `session.rs` records what each statement
//!    returned, savepoints and failures included.
//! 3. `judge` asks the engine for the verdict and names pairs of transactions by their
//!    dependencies, which `crates/check/src/adya/listing.rs` lists one by one. `predicate`
//!    adds what follows from rows that a statement did not return: the server under test decides its
//!    condition on all recorded versions. They are edges of an `Analyser`;
//!    `crates/sql/tests/predicate.rs` is the oracle. `cause.rs` explains why the database allowed it.
//! 4. `reproduce.rs` cuts an instance out of a run, `replay` forces its
//!    interleaving (the server is asked who waits; `script_plan.rs` knows where transactions begin
//!    and end, and their levels), `shrink.rs` makes it smaller as long as the anomaly comes
//!    back, `template.rs` puts it into the SQL of another database.
//!    `scenarios.rs` is Hermitage's list.

pub mod campaign;
mod cascade;
pub mod cause;
pub mod flavour;
pub mod generate;
pub mod instrument;
pub mod judge;
pub mod lease;
pub mod mapping;
pub mod namespace;
pub mod overlap;
mod plain;
pub mod predicate;
pub mod record;
pub mod replay;
pub mod reproduce;
pub mod run;
pub mod scenarios;
pub mod schema;
pub mod script;
mod script_plan;
mod session;
pub mod shrink;
pub mod template;
pub mod vendor;

pub use flavour::Flavour;
