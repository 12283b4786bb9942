//! Isolation of relational databases, through SQL (IsoRel: Yang et al., ISSTA 2025; and beyond).
//!
//! Two auxiliary columns make every row an append-only list: `wList` of row `rowId` is the list of the
//! statements that wrote it. A query that returns a row *reads that list*, an `UPDATE` *appends to it*, an
//! `INSERT` creates it, a `DELETE` is its last element. So an instrumented run *is* a list-append history
//! over rows, and the engine that judges such histories (`anomalist-check`) infers the dependencies, with
//! its proofs. This crate generates, instruments, runs and translates; it has no checker of its own.

pub mod campaign;
pub mod cause;
pub mod evaluate;
pub mod flavour;
pub mod generate;
pub mod instrument;
pub mod judge;
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
