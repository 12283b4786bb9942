//! Disagreements that are known and wait for their repair. Each entry is a hole in the comparison: this
//! table should be empty.

use crate::judges::{Complaint, Said};
use anomalist_level::Level;
use anomalist_literature::model::Outcome;
use anomalist_literature::{Answer, History, Sessions, answer};
use std::sync::OnceLock;

type Applies = fn(&History, &Complaint) -> bool;

/// Name, and to which disagreements it applies.
pub const KNOWN: &[(&str, Applies)] = &[
    ("D: an indeterminate transaction that others follow is not after those before it", detached),
    ("P1: PL-1, an indeterminate transaction whose register value was read counts as committed", observed),
];

/// The known reason of a disagreement.
pub fn reason(history: &History, complaint: &Complaint) -> Option<&'static str> {
    let open = |name: &str| unlisted().iter().any(|prefix| name.starts_with(prefix));
    let applies = |(name, applies): &&(&str, Applies)| !open(name) && applies(history, complaint);
    KNOWN.iter().find(applies).map(|(name, _)| *name)
}

/// `ANOMALIST_LITERATURE_UNLISTED=D,P1` leaves entries out.
fn unlisted() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    let names = || std::env::var("ANOMALIST_LITERATURE_UNLISTED").unwrap_or_default();
    NAMES.get_or_init(|| names().split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect())
}

fn detached(history: &History, c: &Complaint) -> bool {
    let lenient = matches!(c.said, Said::Holds | Said::Accepts) && c.expected == Answer::Violated;
    lenient && answer(history, c.level, c.by, Sessions::Detached) == Answer::Holds
}

fn observed(history: &History, c: &Complaint) -> bool {
    let open = history.txns.iter().any(|t| t.outcome == Outcome::Indeterminate);
    c.level == Level::ReadUncommitted && matches!(c.said, Said::Violated | Said::Accepts) && open
}
