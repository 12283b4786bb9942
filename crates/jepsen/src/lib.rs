//! Answers in the terms of Elle and of Jepsen's checkers, and histories of other datatypes than registers
//! and lists.
//!
//! - [`elle`]: what Elle 0.2.8 infers and reports, for the drop-in `anomalist elle`.
//! - [`models`]: Jepsen's workloads (bank, counter, set, long fork …), each with a rule of its own.
//! - [`datatypes`]: the same operations as transactions, judged by [`anomalist_check`].
//! - [`linear`]: linearizability of one register.
//!
//! Each module states its definition, its source and its cost. No I/O, no clock, no printing.
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
