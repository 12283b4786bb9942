//! Isolation by timestamps as transactions arrive: in any order, in bounded memory, for as long as the stream goes on.
//!
//! A [`Checker`] takes transactions in [`Batch`]es, each session's in order, sessions against each other in any order, and
//! yields [`Event`]s. It decides what the offline check decides, axiom by axiom (`isolde-timestamp` has the definitions):
//! whatever the order of arrival, the violations it reports minus those it retracts are the violations of the whole, once
//! everything has settled. Source: AION (Li et al., section III-C); what is different is that state is kept by key, so that the
//! cost of a transaction does not depend on the number of keys.
//!
//! Time is passed in, in milliseconds, and so is the [`Store`] for what does not fit in memory: no I/O, no clock.
//!
//! ```
//! use isolde_history::{OpKind, Outcome, Stamps, Timestamp};
//! use isolde_online::{Batch, Cell, Checker, Datum, Event, Head, MemoryStore, Options, Origin};
//! let head = |session, start, commit| Head {
//!     session: Datum::int(session),
//!     id: None,
//!     outcome: Outcome::Committed,
//!     stamps: Stamps {
//!         start: Timestamp { physical: start, logical: 0 },
//!         commit: Timestamp { physical: commit, logical: 0 },
//!     },
//!     set_id: None,
//!     set: None,
//!     origin: Origin::default(),
//! };
//! let (x, one) = (Datum::int(7), Cell::One(Datum::int(1)));
//! let mut checker = Checker::new(Options::default(), MemoryStore::default());
//! let mut events = Vec::new();
//! // The reader arrives first, but the writer within the settling time.
//! let mut batch = Batch::default();
//! batch.op(OpKind::Read, x, one);
//! batch.transaction(head(1, 30, 30));
//! checker.accept(&batch, 0, &mut events)?;
//! assert_eq!(checker.unsettled(), 1);
//! batch.clear();
//! batch.op(OpKind::Write, x, one);
//! batch.transaction(head(2, 10, 20));
//! checker.accept(&batch, 40, &mut events)?;
//! checker.finish(&mut events);
//! assert!(events.is_empty() && checker.stats().flip_flops[0] == 1);
//! # Ok::<(), isolde_online::StoreError>(())
//! ```
//!
//! Not done here: indeterminate transactions are not judged (the offline check counts those that somebody read from); a
//! list that was written as one value is not compared with lists read from the key.

mod arrive;
mod batch;
mod change;
mod checker;
mod checkpoint;
mod codec;
mod datum;
mod event;
mod ids;
mod key;
mod options;
mod pending;
mod ring;
mod spill;
mod stats;
mod store;
mod suspects;
mod world;

pub use batch::{Batch, Cell, Head, Initial, Origin};
pub use checker::Checker;
pub use checkpoint::{Restored, Told, checkpoint_extra, decode_told, encode_told};
pub use datum::{Datum, Shape};
pub use event::{Event, Fault, Finding, TxnKey, TxnName};
pub use options::{Gc, Options};
pub use stats::{RECTIFIED_MS, Stats};
pub use store::{Location, MemoryStore, Store, StoreError, Visit};
