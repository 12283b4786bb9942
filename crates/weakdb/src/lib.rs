//! A mock database that shows an application every behaviour its isolation level allows.
//!
//! A real database at a weak level shows its weaknesses rarely; this one shows them as often as not. Point
//! a test at it, and what breaks in production once a year breaks in the first dozen runs, by a seed that
//! repeats it. [`store`] is the library: transactions over keys and values. It shares no code with
//! `anomalist-check`: both implement the definitions of `anomalist-level`, and each can convict the other.
//!
//! ```
//! use anomalist_level::Level;
//! use anomalist_weakdb::{Options, Store};
//! // A lost update: two clients add one to the same counter, and both read 0.
//! let lost = (0..20).any(|seed| {
//!     let store = Store::new(Options { seed, ..Options::new(Level::Causal) }).unwrap();
//!     for name in ["a", "b"] {
//!         let mut session = store.session(name);
//!         let add = session.transaction(|t| {
//!             let n = t.read("counter")?.and_then(|v| v.as_int()).unwrap_or(0);
//!             t.write("counter", n + 1)
//!         });
//!         add.unwrap();
//!     }
//!     store.snapshot()[0].1 == 1.into()
//! });
//! assert!(lost);
//! ```

pub mod store;

pub use store::{
    Choice, Chooser, Conflict, Error, Granularity, Latest, Mark, Options, Otherwise, Pick, ReadName, Replay,
    Schedule, Session, Store, TxnName, Value,
};
