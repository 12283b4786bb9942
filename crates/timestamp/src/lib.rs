//! Isolation by timestamps: the axioms, and the check of a whole history (Chronos). The online check (AION,
//! `anomalist-online`) is on top of it.
//!
//! A database that says when each transaction took its snapshot and when it committed gives its execution:
//! the order of transactions (arbitration, Definition 5 of the paper) and who sees whom (visibility,
//! Definition 6). What is left to check are axioms of a single transaction (INT, start ≤ commit), a single
//! session (SESSION) and a single key (EXT, NOCONFLICT). That is why both checks can work key by key.
//!
//! Every axiom is decided in one place, by functions over small views of transactions ([`Stamped`]) and
//! versions ([`external::Version`]). The two checks differ in how they find what an axiom is about:
//! * [`Rule`]: mode (snapshot isolation or serializability) and ties; [`Place`]: the total order of
//!   transactions;
//! * [`Rule::sight`]: visibility, and with it TIMESTAMP ([`Rule::starts_late`]) and NOCONFLICT
//!   ([`Rule::conflict`]); [`unfollowed`] and [`breaks_numbers`]: SESSION;
//! * [`Footprint`]: one pass over a transaction's operations, giving its INT violations, external reads and
//!   effects;
//! * [`external::judge`]: EXT and TIE; [`list`]: what a list key must look like;
//! * [`asked`]: which transactions of unknown outcome count;
//! * [`Violation`] and its [`Identity`], by which two sets of violations are compared;
//! * [`offline`]: the check of a whole history.
//!
//! Source: Li et al., *Online Timestamp-based Transactional Isolation Checking of Database Systems*,
//! sections II and III.
//!
//! # What is judged
//! Only committed transactions count, and indeterminate ones without which a read of a counted transaction
//! is wrong and which alone can make it right. Everything below is about those.
//!
//! | axiom | snapshot isolation | serializability |
//! |---|---|---|
//! | TIMESTAMP | start ≤ commit (not asked where the snapshot is a set) | – |
//! | SESSION | start ≥ commit of the transaction before it in the session | commit ≥ that commit |
//! | INT | a read returns what the transaction itself last read or wrote | the same |
//! | EXT | the first read of a key returns the last visible version | the last version before it |
//! | NOCONFLICT | of two writers of a key, one sees the other | – |
//!
//! SESSION: a snapshot that is a set must see the last writer before it in the session. Numbers in sessions
//! have no gaps, in both modes. EXT where several versions have one commit timestamp: under snapshot
//! isolation the read may return any of them that no later one of its session follows, and that is a TIE;
//! under serializability, the last one for some order of equal commits that keeps sessions.
//!
//! Under snapshot isolation a transaction sees what commits by its start timestamp, except a later
//! transaction of its own session that commits at that very timestamp: start and commit are then in the
//! order of the session, or visibility would not be a strict partial order that contains it (Definition 3).
//! EXT and NOCONFLICT use the same visibility.
//!
//! A read whose result is unknown is as if it were not there. A read that sees no version should return the
//! initial value; the empty list will do too, unless that is another list. A list read after own appends
//! (and no own read) is two reads: its tail must be the own appends (INT), the rest is external (EXT). A
//! read that sees both written values and appends to the key is judged only if the last version (every one
//! with the largest commit) is a written value: what appending to a value gives is the database's business.
//!
//! ```
//! use anomalist_timestamp::{Mode, Rule, Tie};
//! let rule = Rule { mode: Mode::Si, tie: Tie::Inclusive };
//! assert!(rule.contains(20, 20));
//! assert!(!Rule { tie: Tie::Exclusive, ..rule }.contains(20, 20));
//! ```

pub mod external;
mod footprint;
pub mod list;
pub mod offline;
mod outcome;
mod rule;
mod session;
mod violation;
mod visible;

pub use external::Nil;
pub use footprint::{Access, Effect, External, Footprint, Internal, Operations, Written};
pub use outcome::asked;
pub use rule::{Mode, Place, Rule, Tie, UnknownTie};
pub use session::{breaks_numbers, unfollowed};
pub use violation::{Axiom, Class, Identity, Violation};
pub use visible::{Sight, Stamped, is_later_tie};
