//! The vocabulary: every isolation level and every anomaly once, and the shape of an answer.
//!
//! A level or an anomaly exists in exactly one place, a row of a table here; help texts, documentation,
//! JSON and the picture of the lattice are made from these rows. Names come from several schools (Adya,
//! Biswas & Enea, Elle, Plume, Chronos) that use one word for different things, so here each name has one
//! meaning. This crate decides nothing: checkers do, and answer with a [`Judgement`].
//!
//! ```
//! use anomalist_level::{AnomalyKind, Level};
//! let level: Level = "SI".parse()?;
//! assert_eq!(level.name(), "snapshot-isolation");
//! assert!(Level::Serializable.implies(level) && !level.implies(Level::Causal));
//! assert!(level.forbids(AnomalyKind::LostUpdate) && !level.forbids(AnomalyKind::G2Item));
//!
//! let fractured: AnomalyKind = "TAP-k".parse()?;
//! assert_eq!((fractured.name(), fractured.rules_out()), ("fractured-read-co", vec![Level::ReadAtomic]));
//!
//! let typo = "serialisable".parse::<Level>().unwrap_err();
//! assert_eq!(typo.suggestions.first(), Some(&"serializable"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod anomaly;
mod berenson;
mod budget;
mod definitions;
pub mod elle;
mod level;
mod names;
mod pattern;
mod proof;
mod result;
mod why;

pub use anomaly::{AnomalyInfo, AnomalyKind, UnknownAnomaly};
pub use berenson::{PHENOMENA, Phenomenon};
pub use budget::{Budget, OutOfBudget};
pub use definitions::Definitions;
pub use level::{Bound, Family, Graph, Level, LevelInfo, UnknownLevel, Visible};
pub use proof::{Certificate, Choice, Execution, Literal, Order, Point, Reason, Refutation, Step};
pub use result::{
    Anomaly, By, Edge, Evidence, Judgement, LevelVerdict, Mixed, Node, Relation, Sought, Verdict,
    VersionReason, Witness,
};
pub use why::{Progress, Why};
