//! The check of a recorded run: what `anomalist check` does with the same file.

use crate::cli::{Global, Limits, ReadFlags};
use crate::exit::Failure;
use crate::progress::Progress;
use crate::{bug, interrupt, load};
use anomalist::{Found, History};
use anomalist_client::Summary;
use anomalist_format::PathName;
use anomalist_level::{By, Judgement, Level, LevelVerdict, Verdict};
use anomalist_timestamp::Mode;
use std::path::Path;
use std::time::Duration;

/// A history and what was found out about it.
pub struct Judged {
    pub history: History,
    pub found: Found,
}

/// Reads and judges a recording that has come to its end. With `timeout`, nothing takes longer.
pub fn file(
    path: &Path,
    levels: &[Level],
    timeout: Option<Duration>,
    global: &Global,
) -> Result<Judged, Failure> {
    recording(path, levels, timeout, false, global)
}

/// Reads and judges a recording that is still written: what is missing from it is not held against it.
pub fn unfinished(path: &Path, timeout: Duration, global: &Global) -> Result<Judged, Failure> {
    recording(path, &[], Some(timeout), true, global)
}

fn recording(
    path: &Path,
    levels: &[Level],
    timeout: Option<Duration>,
    lossy: bool,
    global: &Global,
) -> Result<Judged, Failure> {
    let read = ReadFlags { format: None, initial: None, lossy, limits: Limits::default() };
    let mut histories = load::histories(path, &read, global, &|| false)?;
    // No workload here records independent systems.
    let (Some(history), true) = (histories.pop(), histories.is_empty()) else {
        return Err(Failure::input(format_args!("{}: several systems in one", path.shown())));
    };
    let bar = Progress::spinner(global, &format!("checking {}", path.shown()));
    let stop = || {
        bar.pulse();
        interrupt::is_requested()
    };
    let mut check = anomalist::check(&history).threads(load::threads(global)).stop_when(&stop);
    check = levels.iter().fold(check, |check, &level| check.decide(level));
    if load::verifies_always() {
        check = check.verified();
    }
    if let Some(limit) = timeout {
        check = check.timeout(limit);
    }
    let found = check.run().map_err(|error| bug::report(&history, error))?.into_found();
    Ok(Judged { history, found })
}

/// Adds what the online check found: the levels that it is about are violated by timestamps, whatever they
/// are by values.
pub fn add_timestamps(judgement: &mut Judgement, summary: &Summary) {
    if summary.online.as_ref().is_none_or(|online| online.violations.is_empty()) {
        return;
    }
    let about = |l: &LevelVerdict| Mode::of(l.level) == Some(Mode::Si);
    let levels = std::mem::take(&mut judgement.levels).into_iter().flat_map(|l| {
        let violated = about(&l).then(|| LevelVerdict {
            by: By::Timestamps,
            verdict: Verdict::Violated,
            anomalies: Vec::new(),
            level: l.level,
        });
        std::iter::once(l).chain(violated)
    });
    judgement.levels = levels.collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_client::OnlineSummary;

    #[test]
    fn a_violation_by_timestamps_counts() {
        let level =
            |level| LevelVerdict { level, by: By::Values, verdict: Verdict::Holds, anomalies: Vec::new() };
        let levels = vec![level(Level::Causal), level(Level::SnapshotIsolation)];
        let mut judgement = Judgement { levels, ..Judgement::default() };
        let online = |violations: &[(&'static str, u64)]| Summary {
            online: Some(OnlineSummary {
                violations: violations.iter().copied().collect(),
                ..OnlineSummary::default()
            }),
            ..Summary::default()
        };
        add_timestamps(&mut judgement, &online(&[]));
        assert_eq!(judgement.verdict(Level::SnapshotIsolation), Some(&Verdict::Holds));
        add_timestamps(&mut judgement, &online(&[("EXT", 2)]));
        assert_eq!(judgement.verdict(Level::SnapshotIsolation), Some(&Verdict::Violated));
        assert_eq!(judgement.verdict(Level::Causal), Some(&Verdict::Holds));
    }
}
