//! Disagreements that are known and wait for their repair. Each entry is a hole in the comparison: this
//! table should be empty.

use crate::judges::Complaint;
use anomalist_level::By;
use anomalist_literature::History;
use std::sync::OnceLock;

type Applies = fn(&History, &Complaint) -> bool;

/// Name, and to which disagreements it applies.
pub const KNOWN: &[(&str, Applies)] =
    &[("T: timestamps, snapshots, equal timestamps in one session", tied_session)];

/// The known reason of a disagreement.
pub fn reason(history: &History, complaint: &Complaint) -> Option<&'static str> {
    let open = |name: &str| unlisted().iter().any(|prefix| name.starts_with(prefix));
    let applies = |(name, applies): &&(&str, Applies)| !open(name) && applies(history, complaint);
    KNOWN.iter().find(applies).map(|(name, _)| *name)
}

/// `ANOMALIST_LITERATURE_UNLISTED=T` leaves entries out.
fn unlisted() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    let names = || std::env::var("ANOMALIST_LITERATURE_UNLISTED").unwrap_or_default();
    NAMES.get_or_init(|| names().split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect())
}

fn tied_session(history: &History, c: &Complaint) -> bool {
    let stamps = |t: usize| history.txns[t].stamps;
    let tied = |a: usize, b: usize| {
        history.issued_before(a, b) && (stamps(a).1 == stamps(b).1 || stamps(b).1 == stamps(a).0)
    };
    let count = history.txns.len();
    c.by == By::Timestamps && (0..count).any(|b| (0..b).any(|a| tied(a, b)))
}
