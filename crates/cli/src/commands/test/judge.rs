//! The check of a recorded run: what `anomalist check` does with the same file.

use crate::cli::{Global, ReadFlags};
use crate::exit::Failure;
use crate::progress::Progress;
use crate::{bug, interrupt, load};
use anomalist_check::{Budget, Request, datatypes};
use anomalist_driver::client::Summary;
use anomalist_history::{History, Index};
use anomalist_level::{By, Judgement, Level, LevelVerdict, Verdict};
use anomalist_report::{HistoryFacts, Timing};
use anomalist_timestamp::Mode;
use anomalist_verify::Verifier;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long searches for strong levels may take, unless told otherwise.
const SEARCH_LIMIT: Duration = Duration::from_secs(30);
/// How long to look for a smaller proof that no order exists.
const TIGHTENING: Duration = Duration::from_secs(3);

/// A history and what was found out about it.
pub struct Judged {
    pub history: History,
    pub facts: HistoryFacts,
    pub judgement: Judgement,
    pub timing: Timing,
}

/// Reads and judges a history. With `timeout`, nothing takes longer.
pub fn file(
    path: &Path,
    levels: &[Level],
    timeout: Option<Duration>,
    global: &Global,
) -> Result<Judged, Failure> {
    let since = Instant::now();
    let read = ReadFlags { format: None, initial: None, lossy: true };
    let name = path.display().to_string();
    let judgeable = load::judgeable(path, &read, global)?;
    let began = Instant::now();
    let bar = Progress::spinner(global, &format!("checking {name}"));
    let spent = || {
        bar.pulse();
        interrupt::is_requested() || timeout.is_some_and(|limit| began.elapsed() >= limit)
    };
    let searching = OnceLock::new();
    let searched = || {
        let first = searching.get_or_init(Instant::now);
        spent() || timeout.is_none() && first.elapsed() >= SEARCH_LIMIT
    };
    let budget = Budget::new(&spent).with_search(&searched);
    let verify = std::env::var_os("ANOMALIST_VERIFY").is_some_and(|value| !value.is_empty());
    let request = Request { levels: levels.to_vec(), certificates: verify, ..Request::default() };
    let timing = |load: Duration| {
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        Timing { load_ms: millis(load), check_ms: millis(began.elapsed()) }
    };
    match judgeable {
        load::Judgeable::Other(lowered, format) => {
            let judgement = datatypes::check(&lowered, &request, &budget);
            let facts = HistoryFacts {
                kind: lowered.datatype.name(),
                ..HistoryFacts::of(&lowered.history, &name, format.name())
            };
            let timing = timing(began - since);
            Ok(Judged { history: lowered.history, facts, judgement, timing })
        }
        // No workload here records independent systems.
        load::Judgeable::Independent(..) => {
            Err(Failure::input(format_args!("{name}: several systems in one")))
        }
        load::Judgeable::Plain(read) => {
            let load::Read { history, format } = *read;
            let index = Index::build(&history, load::threads(global));
            let load = since.elapsed();
            let mut judgement = anomalist_check::check(&history, &index, &request, &budget);
            let tightening = Instant::now();
            let long = || spent() || tightening.elapsed() >= TIGHTENING;
            anomalist_check::shrink::tighten(&history, &mut judgement, &Budget::new(&long));
            let facts = HistoryFacts::of(&history, &name, format.name());
            if verify && let Err(flaw) = Verifier::new(&history).judgement(&judgement) {
                let what = format!("an answer's proof does not verify: {}", flaw.message(&history));
                return Err(bug::report(&history, &facts, &judgement, &what));
            }
            Ok(Judged { history, facts, judgement, timing: timing(load) })
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
