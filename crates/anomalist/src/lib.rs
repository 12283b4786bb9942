//! Checks whether a database really isolates transactions.
//!
//! Record what clients saw, or read a history file, and check it. The answer has a verdict per isolation
//! level and an example of each anomaly, and displays as the command `anomalist check` prints it.
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
//! | check after each transaction, as simulators do | [`Monitor`] |
//! | read the file of another tool | [`History::read`] |
//! | check a history | [`check`], [`Check`] |
//! | examine the result | [`Answer`], [`Judgement`] |
//! | build histories by hand, read proofs | [`core`] |
//!
//! `check(&history)` decides all levels and requires none. A level that is required and does not hold makes
//! [`Answer::assert`] panic with the explanation, and [`Answer::outcome`] return it. If the search for a
//! level runs out of time, the verdict is [`Verdict::Unknown`]; nothing is guessed.
//!
//! The guide is `docs/library.md`; the folder `examples` has complete programs.

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

pub use anomalist_check::{Analyser, ExtraEdge, Inference};
pub use anomalist_level::{AnomalyKind, By, Definitions, Judgement, Level, Verdict, Why};
pub use anomalist_report::{Outcome, Style};
pub use anomalist_timestamp::Tie;
pub use answer::{Answer, Found};
pub use basis::Basis;
pub use check::{Check, Memory, cores};
pub use error::Error;
pub use history::{History, ReadOptions, Recording, of_run, open};
pub use monitor::{Breach, Monitor, Precedes, Standing, Status};
pub use recorder::{Recorder, Session, Transaction};
pub use value::Value;

/// The crates behind this library, for programs that need more. Their interfaces may change in any 0.x
/// release.
pub mod core {
    pub use anomalist_check as check;
    pub use anomalist_format as format;
    pub use anomalist_history as history;
    pub use anomalist_incremental as incremental;
    pub use anomalist_jepsen as jepsen;
    pub use anomalist_level as level;
    pub use anomalist_online as online;
    pub use anomalist_report as report;
    pub use anomalist_timestamp as timestamp;
    pub use anomalist_verify as verify;
}

/// Starts a check of a history. Nothing is decided before [`Check::run`] or [`Check::assert`].
pub fn check(history: &History) -> Check<'_> {
    Check::new(history)
}
