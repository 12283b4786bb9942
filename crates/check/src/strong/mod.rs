//! Strong levels, decided from what clients saw alone: serializability, snapshot isolation, prefix
//! consistency, parallel snapshot isolation, update serializability, with and without sessions and real
//! time. Where values repeat, so that what a read returned is a choice, the weak levels too.
//!
//! A level is a question about the order of events (`model.rs`). An order is guessed from what is known
//! about time (`guess.rs`) and simulated (`scan.rs`); what it misses becomes clauses for a solver
//! (`solver.rs`), which finds a better order, until one misses nothing (`certify.rs` makes it a proof) or
//! the solver shows that there is none. NP-complete in general; linear when the guess is right. Histories
//! whose transactions declare levels of their own are decided in the same way (`mixed.rs`).

mod causes;
mod certify;
mod chains;
mod derive;
mod explain;
mod facts;
mod guess;
mod judge;
mod log;
mod mixed;
mod model;
mod open;
mod open_lists;
mod refute;
mod rules;
mod saturate;
mod scan;
mod search;
mod solver;
mod unsat_core;
mod updates;
mod visible;
mod vsids;

pub(crate) use judge::{judge, parallel_without_sessions};
pub(crate) use mixed::{Answer as MixedAnswer, decide as decide_mixed};
