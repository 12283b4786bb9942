//! The check of a recorded run: what `isolde check` does with the same file.

use crate::cli::{Global, ReadFlags};
use crate::exit::Failure;
use crate::progress::Progress;
use crate::{bug, interrupt, load};
use isolde_check::{Budget, Request, datatypes};
use isolde_history::{History, Index};
use isolde_level::{Judgement, Level};
use isolde_report::{HistoryFacts, Timing};
use isolde_verify::Verifier;
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
    let verify = std::env::var_os("ISOLDE_VERIFY").is_some_and(|value| !value.is_empty());
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
        load::Judgeable::Plain(read) => {
            let load::Read { history, format } = *read;
            let index = Index::build(&history, load::threads(global));
            let load = since.elapsed();
            let mut judgement = isolde_check::check(&history, &index, &request, &budget);
            let tightening = Instant::now();
            let long = || spent() || tightening.elapsed() >= TIGHTENING;
            isolde_check::shrink::tighten(&history, &mut judgement, &Budget::new(&long));
            let facts = HistoryFacts::of(&history, &name, format.name());
            if verify && let Err(flaw) = Verifier::new(&history).judgement(&judgement) {
                let what = format!("an answer's proof does not verify: {}", flaw.message(&history));
                return Err(bug::report(&history, &facts, &judgement, &what));
            }
            Ok(Judged { history, facts, judgement, timing: timing(load) })
        }
    }
}
