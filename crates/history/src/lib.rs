//! What clients observed: sessions, transactions, operations and their outcomes, in compact columns.
//!
//! Everything else in Anomalist reads a [`History`]; `anomalist-format` makes them from files through a
//! [`Builder`]. An [`Index`] then says who read from whom. This crate does no I/O and knows no isolation
//! level.
//!
//! Memory per operation: 4 bytes of kind and key, 8 of value, 4 of source, and 4 per key a transaction
//! writes; 16 to 20 in all for registers, plus about 20 per transaction. Fifty million operations fit in 1
//! GiB.
//!
//! Transaction ids are *session-major*: a session owns a contiguous, ascending range. So "earlier in the
//! session" is an integer comparison, and lists of writers per key come out grouped by session. Integers of
//! up to 62 bits are values in place; everything else is interned (`value.rs`). Lists share their
//! beginnings, so a key that was read a thousand times keeps one list, and whether a read begins another is
//! a comparison of lengths. Where no value is written twice, a value names its write, and one table by
//! value resolves all reads (`by_value.rs`). Otherwise operations are bucketed by key; inside a bucket a
//! small table stays in cache (`resolve.rs`).
//!
//! ```
//! use anomalist_history::{Builder, Indexed, OpKind};
//! let mut b = Builder::new();
//! let (x, v) = (b.int(1), b.int(10));
//! let (key, session) = (b.key(x), b.session(x));
//! let t = b.transaction(session);
//! b.op(t, OpKind::Write, key, v);
//! b.op(t, OpKind::Read, key, v);
//! let history = b.finish()?;
//! let indexed = Indexed::new(&history, 2.try_into().unwrap());
//! assert!(indexed.index().faults().is_empty());
//! # Ok::<(), anomalist_history::TooLarge>(())
//! ```

mod builder;
mod by_value;
mod datum;
mod events;
mod filter;
mod ids;
mod index;
mod indexed;
mod inert;
mod labels;
mod lists;
mod model;
mod operation;
mod reads;
mod resolve;
mod sink;
mod snapshots;
mod value;

pub use builder::{Builder, Draft, TooLarge};
pub use datum::Datum;
pub use events::{Event, EventKind, Events, Operation, Process};
pub use filter::{Filter, IdMap};
pub use ids::{KeyId, OpId, SessionId, TxnId};
pub use index::{FaultKind, Index, ReadFault, Source};
pub use indexed::Indexed;
pub use inert::{inert, inert_lines, is_active, push_escape};
pub use lists::VersionOrder;
pub use model::{History, Show};
pub use operation::{
    Clock, Initial, Interval, Metadata, Op, OpHead, OpKind, Outage, Outcome, Stamps, Timestamp,
};
pub use sink::{Facts, TransactionSink, Untimed};
pub use snapshots::{BadSnapshot, Snapshot, SnapshotSet};
pub use value::{AtomId, AtomKind, Atoms, ListId, Lists, Value, View};
