//! Strong levels, decided from what clients saw alone: serializability, snapshot isolation, prefix
//! consistency, parallel snapshot isolation, update serializability, with and without sessions and real
//! time. Where values repeat, so that what a read returned is a choice, the weak levels too.
//!
//! A level is a question about the order of events (`model.rs`). An order is guessed from what is known
//! about time (`guess.rs`) and simulated (`scan.rs`); what it misses becomes clauses for a solver
//! (`solver.rs`), which finds a better order, until one misses nothing (`certify.rs` makes it a proof) or
//! the solver shows that there is none. NP-complete in general; linear when the guess is right. Histories
//! whose transactions declare levels of their own are decided in the same way (`mixed.rs`).
//!
//! How an order is found:
//!
//! 1. `guess.rs` makes an order from timestamps, completion times or the place in the input; `scan.rs`
//!    simulates it in linear time. Most good histories are proven here.
//! 2. Without hints, on hot keys, or when a search takes long, `saturate.rs` derives what follows from the
//!    known edges, with one clock entry per event and chain (`chains.rs`: sessions, or chains of readers),
//!    and which of several writers of a value a read cannot have seen.
//! 3. The rest goes to the solver (`solver.rs`): clause learning, with `anomalist_graph::ordered` (Pearce &
//!    Kelly) keeping the events in a topological order while edges come and go. Only constraints that some
//!    candidate order missed become clauses. Decisions follow the current order, so they never disturb it.
//! 4. The log of the solver names, for every learnt clause, those it follows from; `refute.rs` makes a
//!    refutation of it that `anomalist-verify` checks in linear time, and `unsat_core.rs` deletes readers
//!    and reads from it as long as the rest still contradicts itself.
//!
//! The solver is written here because a proof needs what no crate logs: for each learnt clause its
//! antecedents, and for each conflict of the order theory its cycle; and because decisions can then follow
//! the current order.
//!
//! Reads whose value several transactions wrote have a variable per candidate (`open.rs`); an indeterminate
//! transaction that only such reads can have seen has one that says whether it took effect.
//! `Index::build_with_possible` resolves for both. Where values repeat the weak levels are a search too, by
//! the same loop: `visible.rs` finds reads that overlook what is visible to them, `updates.rs` does it for
//! PL-3U (of all histories). A list with an element that was appended twice is read element by element
//! (`open_lists.rs`): neighbours in it are neighbours in the order, and an append that is not shown comes
//! later.

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
