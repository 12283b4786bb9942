//! Elle's own lattice, for the drop-in: the same levels and anomalies, seen with Elle's names and Elle's
//! meanings only.
//!
//! Nothing is written twice: a model's implications and proscribed anomalies are its level's, without what
//! Anomalist adds. Beside them stand the facts that only Elle has: printed names, which checker emits what,
//! and how cycles are searched for (`cycles.rs`). Facts: Elle 0.2.8-SNAPSHOT, ccdee6f.
//!
//! ```
//! use anomalist_level::{AnomalyKind, elle};
//! let boundary = elle::boundary(&[AnomalyKind::LostUpdate]);
//! let names: Vec<_> = boundary.not.iter().map(|m| m.printed).collect();
//! assert_eq!(names, ["cursor-stability", "update-atomic"]);
//! ```

mod anomalies;
mod cycles;
mod models;

pub use anomalies::{Anomaly, Checker, anomalies, anomaly};
pub use cycles::{
    AntiDependencies, CYCLE_EXISTS, CYCLES, CycleExists, CycleSpec, Edge, SEARCH_ORDER, SEVERITY,
};
pub use models::{Model, model, models};

use crate::anomaly::AnomalyKind;
use crate::level::{Level, extremes};

/// Every model implied by one of `models`, themselves included, in Elle's alphabetical order.
pub fn all_implied(given: &[Level]) -> Vec<Level> {
    models()
        .iter()
        .map(|m| m.level)
        .filter(|&weaker| given.iter().any(|&l| elle_implies(l, weaker)))
        .collect()
}

/// Every model that implies one of `models`, themselves included, in Elle's alphabetical order.
pub fn all_implying(given: &[Level]) -> Vec<Level> {
    models()
        .iter()
        .map(|m| m.level)
        .filter(|&stronger| given.iter().any(|&l| elle_implies(stronger, l)))
        .collect()
}

/// Between Elle's models Anomalist's implications are Elle's: no way leads from one to another through a
/// level Elle does not know that Elle does not have itself. The facts test compares the closures.
fn elle_implies(stronger: Level, weaker: Level) -> bool {
    stronger.implies(weaker)
}

/// The anomalies that a history may not have if `models` are to hold: those proscribed by them and by what
/// they imply, and all that imply those.
pub fn prohibited(given: &[Level]) -> Vec<AnomalyKind> {
    let direct: Vec<AnomalyKind> = models()
        .iter()
        .filter(|m| all_implied(given).contains(&m.level))
        .flat_map(Model::proscribes)
        .collect();
    anomalies().iter().map(|a| a.kind).filter(|kind| direct.iter().any(|&d| kind.implies(d))).collect()
}

/// The models that no history with these anomalies satisfies.
pub fn impossible(found: &[AnomalyKind]) -> Vec<Level> {
    let broken: Vec<Level> = models()
        .iter()
        .filter(|m| m.proscribes().any(|p| found.iter().any(|f| f.implies(p))))
        .map(|m| m.level)
        .collect();
    all_implying(&broken)
}

/// What anomalies rule out: the weakest impossible models, and the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// The weakest models ruled out: they imply no other that is.
    pub not: Vec<&'static Model>,
    /// All other models ruled out.
    pub also_not: Vec<&'static Model>,
}

/// Which models these anomalies rule out. Names Elle does not know rule nothing out here.
pub fn boundary(found: &[AnomalyKind]) -> Boundary {
    let found: Vec<AnomalyKind> =
        found.iter().copied().filter(|&kind| anomalies().iter().any(|a| a.kind == kind)).collect();
    let impossible = impossible(&found);
    let weakest = extremes(&impossible, elle_implies);
    let (not, also_not) =
        models().iter().filter(|m| impossible.contains(&m.level)).partition(|m| weakest.contains(&m.level));
    Boundary { not, also_not }
}
