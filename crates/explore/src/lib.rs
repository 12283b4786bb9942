//! Runs a program against weakdb many times, and explains its failures.
//!
//! [`explore`] runs a [`Subject`] with seed after seed. When one fails, it is run again with ever fewer
//! stale reads, until only those are left that make it fail; they are named with the anomaly that they form
//! and the weakest level at which the failure is gone. [`enumerate`] and [`systematic`] try everything
//! instead of sampling. [`concurrently`] runs clients of one process in a repeatable order. Applications
//! that are known to break under weak isolation are in `crates/bench/src/apps` and
//! `crates/bench/src/suites`.
//!
//! ```
//! use anomalist_explore::{Body, Plan, Program, concurrently, explore};
//! use anomalist_level::Level;
//! use anomalist_weakdb::Options;
//! // Two people take one unit each from a stock of one.
//! let shop = Program::new(|store, turns| {
//!     let buy = || -> Body<'_, bool> {
//!         Box::new(|client| client.transaction(|t| {
//!             let stock = t.read("stock")?.and_then(|v| v.as_int()).unwrap_or(0);
//!             if stock > 0 {
//!                 t.write("stock", stock - 1)?;
//!             }
//!             Ok(stock > 0)
//!         }))
//!     };
//!     let sold = concurrently(store, turns, vec![buy(), buy()]).map_err(|e| e.to_string())?;
//!     if sold == [true, true] { Err("sold twice".into()) } else { Ok(()) }
//! });
//! let mut shop = shop.with_initial([("stock".to_string(), 1.into())]);
//! let outcome = explore(&mut shop, &Plan::new(Options::new(Level::Causal)), |_, _| {})?;
//! let why = outcome.explanation.expect("it fails within a few runs");
//! assert_eq!((why.stale.len(), &*why.stale[0].choice.key), (1, "stock"));
//! assert_eq!(why.disappears.map(|d| d.0), Some(Level::SnapshotIsolation));
//! # Ok::<(), anomalist_explore::Stop>(())
//! ```

mod campaign;
mod decisions;
mod subject;
mod systematic;
mod turns;

pub use campaign::{Explanation, Failure, LEVELS, Outcome, Plan, StaleRead, enumerate, explain, explore};
pub use decisions::Decisions;
pub use subject::{Program, Run, Subject};
pub use systematic::{Tried, systematic};
pub use turns::{Body, Client, Stop, Turns, concurrently};
