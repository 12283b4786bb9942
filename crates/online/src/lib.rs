//! Isolation by timestamps as transactions arrive: in any order, in bounded memory, for as long as the
//! stream goes on.
//!
//! A [`Checker`] takes transactions in [`Batch`]es, each session's in order, sessions against each other in
//! any order, and yields [`Event`]s. It decides what the offline check decides, axiom by axiom
//! (`anomalist-timestamp` has the definitions): whatever the order of arrival, the violations it reports
//! minus those it retracts are the violations of the whole, once everything has settled. Source: AION (Li
//! et al., section III-C); what is different is that state is kept by key, so that the cost of a
//! transaction does not depend on the number of keys.
//!
//! Time is passed in, in milliseconds, and so is the [`Store`] for what does not fit in memory: no I/O, no
//! clock.
//!
//! ```
//! use anomalist_history::{OpKind, Outcome, Stamps, Timestamp};
//! use anomalist_online::{Batch, Cell, Checker, Key128, Event, Head, MemoryStore, Options, Origin};
//! let head = |session, start, commit| Head {
//!     session: Key128::int(session),
//!     id: None,
//!     outcome: Outcome::Committed,
//!     stamps: Stamps {
//!         start: Timestamp { physical: start, logical: 0 },
//!         commit: Timestamp { physical: commit, logical: 0 },
//!     },
//!     number: None,
//!     set_id: None,
//!     set: None,
//!     origin: Origin::default(),
//! };
//! let (x, one) = (Key128::int(7), Cell::One(Key128::int(1)));
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
//! checker.finish(&mut events)?;
//! assert!(events.is_empty() && checker.stats().flip_flops[0] == 1);
//! # Ok::<(), anomalist_online::StoreError>(())
//! ```
//!
//! # PostgreSQL, and feeding a checker from a program
//!
//! A [`Head`] says what its transaction saw: a start timestamp, or a set of ids (`set`), and by which id
//! others' sets name it (`set_id`). PostgreSQL needs sets: transactions become visible in another order
//! than their commits are written to the log. A client that runs transactions on it asks each, under
//! REPEATABLE READ or SERIALIZABLE, first for `pg_current_snapshot()`, last for
//! `pg_current_xact_id_if_assigned()`, and gives it as `commit` its place in the order of commits, which
//! orders the versions of a key: the position of its commit record in the log. Where that is not at hand,
//! any number will do that grows along each key's versions; a transaction that wrote nothing needs none,
//! and takes its start for both. Transactions go in as they end, each session's in order, from any number
//! of threads through one channel; one that broke off at COMMIT goes in as
//! [`Outcome::Indeterminate`](anomalist_history::Outcome).
//!
//! ```
//! use anomalist_history::{OpKind, Outcome, SnapshotSet, Stamps, Timestamp};
//! use anomalist_online::{Batch, Cell, Checker, Key128, Event, Head, MemoryStore, Options, Origin};
//!
//! /// A transaction as PostgreSQL's client knows it at its end.
//! fn ended(session: i64, snapshot: (u64, u64, &[u64]), xid: Option<u64>, position: i64) -> Head {
//!     let at = Timestamp { physical: position, logical: 0 };
//!     let (xmin, xmax, running) = snapshot;
//!     Head {
//!         session: Key128::int(session),
//!         id: None,
//!         outcome: Outcome::Committed,
//!         stamps: Stamps { start: at, commit: at },
//!         number: None,
//!         set_id: xid,
//!         set: SnapshotSet::new(xmin, xmax, running.to_vec()).ok().map(Box::new),
//!         origin: Origin::default(),
//!     }
//! }
//! let (x, y) = (Key128::int(1), Key128::int(2));
//! let value = |v| Cell::One(Key128::int(v));
//! let mut batch = Batch::default();
//! // 738 is in the log before 737, and 737 is visible before 738: no timestamp could say so.
//! batch.op(OpKind::Write, x, value(10));
//! batch.transaction(ended(1, (737, 737, &[]), Some(737), 2));
//! batch.op(OpKind::Write, y, value(20));
//! batch.transaction(ended(2, (737, 738, &[737]), Some(738), 1));
//! batch.op(OpKind::Read, x, value(10));
//! batch.op(OpKind::Read, y, Cell::One(Key128::NIL));
//! batch.transaction(ended(3, (738, 739, &[738]), None, 3));
//! // This one saw both, and read an old version of y all the same.
//! batch.op(OpKind::Read, y, Cell::One(Key128::NIL));
//! batch.transaction(ended(3, (739, 739, &[]), None, 4));
//! let mut checker = Checker::new(Options::default(), MemoryStore::default());
//! let mut events = Vec::new();
//! checker.accept(&batch, 0, &mut events)?;
//! checker.finish(&mut events)?;
//! let [Event::Violation(finding)] = &events[..] else { panic!("{events:?}") };
//! let expected = "EXT: transaction 3:2 (session 3) read 2 = nil, should have read 20 of transaction 2:1";
//! assert_eq!(finding.to_string(), expected);
//! # Ok::<(), anomalist_online::StoreError>(())
//! ```
//!
//! Not done here: that sets contain one another (else no order of commits explains them; the offline check
//! says `unknown` then); a list that was written as one value is not compared with lists read from the key;
//! where reads ask for one of several transactions of unknown outcome they stay open ([`Checker::open`]),
//! while the offline check tries choices; a transaction of unknown outcome that counts does so for good,
//! and [`Stats::doubts`] counts what arrived later and may speak against it.

mod arrive;
mod batch;
mod body;
mod carried;
mod change;
mod checker;
mod checkpoint;
mod codec;
mod datum;
mod doubt;
mod event;
mod filter;
mod ids;
mod indeterminate;
mod key;
mod live_state;
mod ops;
mod options;
mod pending;
mod ring;
mod rules;
mod session_tail;
mod sessions;
mod spill;
mod stats;
mod store;
mod suspects;

pub use batch::{Batch, Cell, Head, Initial, Origin};
pub use change::moment;
pub use checker::Checker;
pub use checkpoint::{Reported, Restored, checkpoint_extra, decode_reported, encode_reported};
pub use datum::{Key128, Shape};
pub use event::{Event, Fault, Finding, Shown, TxnKey, TxnName};
pub use options::{Gc, Options};
pub use stats::{RECTIFIED_MS, Stats};
pub use store::{Location, MemoryStore, Store, StoreError, Visit};
