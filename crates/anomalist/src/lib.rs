//! Tells whether transactions were really isolated.
//!
//! Record what clients saw, or read a file; then ask. The answer names every level that holds or is
//! violated, with an example of each anomaly, and displays as the command `anomalist check` does.
//!
//! ```
//! use anomalist::{Level, Recorder, check};
//! let recorder = Recorder::new();
//! let (mut alice, mut bob) = (recorder.session("alice"), recorder.session("bob"));
//! alice.begin().write("x", 1).commit();
//! bob.begin().read("x", 1).append("log", "saw 1").commit();
//! alice.begin().read("log", vec!["saw 1"]).commit();
//! let history = recorder.finish()?;
//! check(&history).require(Level::StrictSerializable).assert();
//! # Ok::<(), anomalist::Error>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | record from threads, or with virtual time | [`Recorder`] |
//! | know after each transaction, as simulators do | [`Monitor`] |
//! | read the file of another tool | [`History::read`] |
//! | ask | [`check`], [`Check`] |
//! | look at what was found | [`Answer`], [`Judgement`] |
//! | build histories by hand, read proofs | [`core`] |
//!
//! `check(&history)` decides all levels and requires none. A level that is required and does not hold makes
//! [`Answer::assert`] panic with the explanation, and [`Answer::outcome`] say so. Levels of which the
//! search ran out of time are [`Verdict::Unknown`], never guessed.

mod answer;
mod basis;
mod check;
mod error;
mod history;
mod judging;
mod monitor;
mod recorder;
mod stamped;
mod value;
mod watch;

pub use anomalist_check::Inference;
pub use anomalist_level::{AnomalyKind, By, Definitions, Judgement, Level, Verdict};
pub use anomalist_report::{Outcome, Style};
pub use anomalist_timestamp::Tie;
pub use answer::{Answer, Found};
pub use basis::Basis;
pub use check::Check;
pub use error::Error;
pub use history::{History, ReadOptions, Recording, of_run, open};
pub use monitor::{Breach, Monitor, Precedes, Standing, Status};
pub use recorder::{Recorder, Session, Transaction};
pub use value::Value;

/// The rooms behind the door, for programs that need more than questions and answers.
pub mod core {
    pub use anomalist_check as check;
    pub use anomalist_format as format;
    pub use anomalist_history as history;
    pub use anomalist_incremental as incremental;
    pub use anomalist_level as level;
    pub use anomalist_online as online;
    pub use anomalist_report as report;
    pub use anomalist_timestamp as timestamp;
    pub use anomalist_verify as verify;
}

/// Asks about a history. Nothing is decided before [`Check::run`] or [`Check::assert`].
pub fn check(history: &History) -> Check<'_> {
    Check::new(history)
}
