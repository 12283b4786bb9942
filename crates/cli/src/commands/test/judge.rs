//! The check of a recorded run: what `anomalist check` does with the same file.

use crate::cli::{Global, ReadFlags};
use crate::exit::Failure;
use crate::judging::{self, Limits, Prepared, Question};
use crate::progress::Progress;
use crate::{bug, interrupt, load};
use anomalist_check::lint;
use anomalist_driver::client::Summary;
use anomalist_history::History;
use anomalist_level::{By, Judgement, Level, LevelVerdict, Verdict};
use anomalist_report::{HistoryFacts, Timing};
use anomalist_timestamp::Mode;
use std::path::Path;
use std::time::{Duration, Instant};

/// A history and what was found out about it.
pub struct Judged {
    pub history: History,
    pub facts: HistoryFacts,
    pub judgement: Judgement,
    pub timing: Timing,
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
    let since = Instant::now();
    let read = ReadFlags { format: None, initial: None, lossy };
    let name = path.display().to_string();
    let judgeable = load::judgeable(path, &read, global, &|| false)?;
    let began = Instant::now();
    let bar = Progress::spinner(global, &format!("checking {name}"));
    let spent = || {
        bar.pulse();
        interrupt::is_requested() || timeout.is_some_and(|limit| began.elapsed() >= limit)
    };
    let limits = Limits { spent: &spent, timed: timeout.is_some(), known: &|_| {} };
    let question = Question::about(levels, load::threads(global));
    let timing = |load: Duration| {
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        Timing { load_ms: millis(load), check_ms: millis(since.elapsed() - load) }
    };
    match judgeable {
        load::Judgeable::Other(other) => {
            let load::Other { lowered, format, cut_off } = *other;
            let mut judgement = judging::lowered(&lowered, &question, limits);
            if cut_off {
                judging::admit_unknown_loss(&mut judgement);
            }
            let facts =
                HistoryFacts::of(&lowered.history, &name, format.name()).of_datatype(lowered.datatype.name());
            Ok(Judged { history: lowered.history, facts, judgement, timing: timing(began - since) })
        }
        // No workload here records independent systems.
        load::Judgeable::Independent(..) => {
            Err(Failure::input(format_args!("{name}: several systems in one")))
        }
        load::Judgeable::Plain(read) => {
            let load::Read { history, format, .. } = *read;
            let facts =
                HistoryFacts::of(&history, &name, format.name()).with_vacuity(lint::vacuity(&history));
            let prepared = Prepared::new(&history, question).map_err(Failure::input)?;
            let load = since.elapsed();
            let answer = prepared.judge(limits);
            let answer =
                answer.map_err(|wrong| bug::report(&history, &facts, &wrong.judgement, &wrong.what))?;
            Ok(Judged { history, facts, judgement: answer.judgement, timing: timing(load) })
        }
    }
}

/// Adds what the online check found: the levels that it is about are violated by timestamps, whatever they are by values.
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
    use anomalist_driver::client::OnlineSummary;

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
