//! Runs a program against weakdb many times, and explains its failures.
//!
//! A failure is replayed with ever fewer stale reads until only those are left that make it fail ([`explore`]); they are
//! named with the anomaly that they form, and the weakest level at which the failure is gone. [`systematic`] tries everything instead of sampling. [`concurrently`] runs clients
//! of a program in the same process in a repeatable order. [`apps`] are small applications known to
//! break under weak isolation.

pub mod apps;
mod decisions;
mod measure;
mod systematic;
mod turns;

pub use decisions::Decisions;
pub use measure::{Broken, Coverage, break_assertion, coverage};
pub use systematic::{Tried, systematic};
pub use turns::{Body, Client, Stop, Turns, concurrently};
