//! Answers in the terms of Elle and of Jepsen's checkers, and histories of other datatypes than registers
//! and lists.
//!
//! - [`elle`]: what Elle 0.2.8 infers and reports, for the drop-in `anomalist elle`.
//! - [`models`]: Jepsen's workloads (bank, counter, set, long fork …), each with a rule of its own.
//! - [`datatypes`]: the same operations as transactions, judged by [`anomalist_check`].
//! - [`linear`]: linearizability of one register.
//!
//! An answer that is unknown carries a [`Why`].
//!
//! Each module states its definition, its source and its cost. No I/O, no clock, no printing.
//!
//! - `models` judges recordings by the rules of Jepsen's own checkers, one file per model with the
//!   rule in its header. What a file claims in O(n) is compared with a direct transcription of its rule on
//!   random recordings.
//! - `linear` decides linearizability of registers and locks: Wing & Gong's search with Lowe's
//!   memory, just in time. Reads are taken at once, writes that no read returns hide behind others without
//!   being ordered, and calls that never returned wait until a read needs them
//!   (`linear/search.rs` argues why). The order found is the proof.
//! - `datatypes` turns sets, counters, banks, registers and reads by predicate into transactions, with
//!   dependencies and their reasons where reads and writes cannot express them, for the engines of
//!   `anomalist-check`; `anomalist check` recognises such files by the names of their operations, and takes
//!   the keys of `jepsen.independent` apart. A set and a register lose nothing and levels are proven for
//!   them; reads by predicate are proven by an order in which all of them return what they returned
//!   (`datatypes/replay.rs`); for the others levels are only refuted. Reads by predicate follow Adya: `rwp`
//!   is a label of its own in the graph, and the oracle tries every order of versions and every version
//!   that a read may have selected.
//!
//! ```
//! use anomalist_check::Budget;
//! use anomalist_jepsen::linear::{Action, Call, Linearity, linearizable};
//!
//! // A write of 1 has returned before a read of 0 is invoked.
//! let write = Call { action: Action::Write(1), began: 0, ended: Some(1) };
//! let read = Call { action: Action::Read(0), began: 2, ended: Some(3) };
//! let answer = linearizable(&[write, read], 0, &Budget::unlimited());
//! assert!(matches!(answer, Linearity::No(_)));
//! ```

pub mod datatypes;
pub mod elle;
pub mod linear;
pub mod models;
mod why;

pub use why::Why;
