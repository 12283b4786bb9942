//! Many runs, and the story of the first that fails.
//!
//! A failing run made many choices, most of them harmless. [`explain`] runs it again with the newest value
//! for every read except some of those that were stale, and shrinks that set by delta debugging (Zeller's
//! ddmin) until no single one can be left out. What is left is the reason: a few reads, and the anomaly
//! that the checker finds in a history in which only they are stale. Then it looks for the weakest stronger
//! level at which as many runs pass.

use crate::subject::{Run, Subject};
use anomalist_level::{AnomalyKind, Level};
use anomalist_weakdb::{Choice, Options, Otherwise, ReadName, Replay, TxnName};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// The levels of weakdb, weakest first.
pub const LEVELS: &[Level] = Level::EXPLORED;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Level, options and the seed of the first run; each further run has the next.
    pub options: Options,
    /// How many runs.
    pub runs: u64,
    /// Go on after a failure, to count them.
    pub keep_going: bool,
    /// Explain the first failure.
    pub explain: bool,
    /// How many runs an explanation may take to shrink the set of stale reads.
    pub patience: u64,
}

impl Plan {
    /// 100 runs with these options, up to the first failure, which is explained.
    pub fn new(options: Options) -> Plan {
        Plan { options, runs: 100, keep_going: false, explain: true, patience: 300 }
    }
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which one, from 1.
    pub run: u64,
    /// Its seed.
    pub seed: u64,
    /// What it said.
    pub message: String,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many runs were made.
    pub runs: u64,
    /// Those that failed.
    pub failures: Vec<Failure>,
    /// Why the first one did.
    pub explanation: Option<Explanation>,
    /// After which runs something was shown to clients that no run before had shown.
    pub new_states: Vec<u64>,
    /// The first run that failed, unless it has been explained.
    pub failed: Option<Run>,
}

/// A read that was given an old value.
#[derive(Clone, Debug, PartialEq)]
pub struct StaleRead {
    /// The read, its value and what it could have been.
    pub choice: Choice,
    /// The session's statement before the one it was made for, and the one after.
    pub before: Option<Arc<str>>,
    /// The one after.
    pub after: Option<Arc<str>>,
}

/// Why a run failed.
#[derive(Debug)]
pub struct Explanation {
    /// The stale reads that suffice, in the order in which they happened; empty if it also fails without
    /// any.
    pub stale: Vec<StaleRead>,
    /// How many stale reads the failing run had.
    pub of: usize,
    /// False if the same choices did not make it fail again: then `stale` are those of the run itself.
    pub reproduced: bool,
    /// What the program said with only those.
    pub message: String,
    /// What is wrong with the history of that run, worst first.
    pub anomalies: Vec<AnomalyKind>,
    /// Names of sessions, for [`StaleRead`].
    pub sessions: Vec<Arc<str>>,
    /// The weakest stronger level at which no run failed, and the number of runs.
    pub disappears: Option<(Level, u64)>,
    /// The choices, to be repeated.
    pub replay: Replay,
}

/// Runs the subject many times. `progress` is called for every run, with the number of runs so far and
/// whether this one failed.
pub fn explore<S: Subject>(
    subject: &mut S,
    plan: &Plan,
    mut progress: impl FnMut(u64, bool),
) -> Result<Outcome, S::Error> {
    let mut outcome = Outcome::default();
    let mut states = BTreeSet::new();
    for i in 0..plan.runs {
        let seed = plan.options.seed.wrapping_add(i);
        let run = subject.run(&recording(&plan.options, seed, None))?;
        outcome.runs += 1;
        if states.insert(run.observed()) {
            outcome.new_states.push(i + 1);
        }
        progress(i + 1, run.failure.is_some());
        if let Some(message) = run.failure.clone() {
            outcome.failures.push(Failure { run: i + 1, seed, message });
            outcome.failed.get_or_insert(run);
            if !plan.keep_going {
                break;
            }
        }
    }
    if plan.explain
        && let (Some(run), Some(first)) = (outcome.failed.take(), outcome.failures.first())
    {
        outcome.explanation = Some(explain(subject, plan, first.seed, run)?);
    }
    Ok(outcome)
}

fn recording(options: &Options, seed: u64, replay: Option<Replay>) -> Options {
    Options { seed, replay, record: true, record_choices: true, ..options.clone() }
}

type Choices = Vec<(ReadName, Option<TxnName>)>;

/// Shrinks the stale reads of a failing run to a set of which none can be left out.
pub fn explain<S: Subject>(
    subject: &mut S,
    plan: &Plan,
    seed: u64,
    failed: Run,
) -> Result<Explanation, S::Error> {
    let stale_of = |run: &Run| -> Choices {
        run.choices.iter().filter(|c| c.is_stale()).map(|c| (c.read, c.source)).collect()
    };
    let all = stale_of(&failed);
    let of = all.len();
    let mut budget = plan.patience;
    let mut fails = |choices: &[(ReadName, Option<TxnName>)]| -> Result<Option<Run>, S::Error> {
        budget = budget.saturating_sub(1);
        if budget == 0 {
            return Ok(None);
        }
        let replay = Replay { choices: choices.iter().copied().collect(), otherwise: Otherwise::Newest };
        let run = subject.run(&recording(&plan.options, seed, Some(replay)))?;
        Ok(run.failure.is_some().then_some(run))
    };
    let (kept, run, reproduced) = match fails(&all)? {
        None => (all, failed, false),
        Some(run) => match fails(&[])? {
            Some(run) => (Vec::new(), run, true),
            None => {
                let (kept, run) = shrink(all, run, &mut fails)?;
                (kept, run, true)
            }
        },
    };
    let disappears = weakest(subject, plan)?;
    let named: BTreeMap<ReadName, Option<TxnName>> = kept.iter().copied().collect();
    let stale = run
        .choices
        .iter()
        .filter(|c| c.is_stale() && named.get(&c.read) == Some(&c.source))
        .map(|c| around(&run, c))
        .collect();
    Ok(Explanation {
        stale,
        of,
        reproduced,
        message: run.failure.clone().unwrap_or_default(),
        anomalies: anomalies(&run),
        sessions: run.sessions.clone(),
        disappears,
        replay: Replay { choices: named, otherwise: Otherwise::Newest },
    })
}

/// Zeller and Hildebrandt's ddmin: parts, then complements of parts, ever finer.
fn shrink<E>(
    mut kept: Choices,
    mut run: Run,
    fails: &mut impl FnMut(&[(ReadName, Option<TxnName>)]) -> Result<Option<Run>, E>,
) -> Result<(Choices, Run), E> {
    let mut parts = 2;
    while kept.len() > 1 {
        let size = kept.len().div_ceil(parts);
        let mut smaller = None;
        for start in (0..kept.len()).step_by(size) {
            let end = (start + size).min(kept.len());
            let part = kept[start..end].to_vec();
            let rest = [&kept[..start], &kept[end..]].concat();
            let tries = if parts == 2 { vec![(part, 2)] } else { vec![(part, 2), (rest, parts - 1)] };
            for (choices, next) in tries {
                if smaller.is_none()
                    && choices.len() < kept.len()
                    && let Some(failed) = fails(&choices)?
                {
                    smaller = Some((choices, failed, next));
                }
            }
            if smaller.is_some() {
                break;
            }
        }
        match smaller {
            Some((choices, failed, next)) => (kept, run, parts) = (choices, failed, next.max(2)),
            None if parts >= kept.len() => break,
            None => parts = (2 * parts).min(kept.len()),
        }
    }
    Ok((kept, run))
}

/// A read with its session's statements around it.
fn around(run: &Run, choice: &Choice) -> StaleRead {
    let session = choice.read.by.session;
    let own: Vec<&(TxnName, Arc<str>)> = run.statements.iter().filter(|s| s.0.session == session).collect();
    let at = own.iter().rposition(|s| s.0 == choice.read.by && Some(&s.1) == choice.statement.as_ref());
    let text = |i: Option<usize>| i.and_then(|i| own.get(i)).map(|s| s.1.clone());
    StaleRead {
        choice: choice.clone(),
        before: text(at.and_then(|at| at.checked_sub(1))),
        after: text(at.map(|at| at + 1)),
    }
}

/// What the checker says about the history: kinds that rule serializability out, without those that a worse
/// one implies.
fn anomalies(run: &Run) -> Vec<AnomalyKind> {
    let Ok(history) = &run.history else { return Vec::new() };
    let history = anomalist::History::from(history.clone());
    // Histories of a minimised failure are small; the searches of strong levels get a bounded number of
    // steps.
    let steps = std::sync::atomic::AtomicU64::new(0);
    let spent = || steps.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 200_000;
    let levels = LEVELS.iter().copied().chain([Level::StrongSessionSerializable]);
    let question = anomalist::check(&history).threads(NonZeroUsize::MIN).stop_when(&spent);
    let question = levels.fold(question, |question, level| question.decide(level));
    let Ok(answer) = question.run() else { return Vec::new() };
    let judgement = answer.judgement();
    let mut kinds: Vec<AnomalyKind> = judgement.anomalies.iter().map(|a| a.kind).collect();
    let all = kinds.clone();
    kinds.retain(|k| !all.iter().any(|other| other != k && other.implies(*k)));
    kinds
}

/// The weakest stronger level at which no run fails.
fn weakest<S: Subject>(subject: &mut S, plan: &Plan) -> Result<Option<(Level, u64)>, S::Error> {
    let at = LEVELS.iter().position(|l| *l == plan.options.level);
    for &level in LEVELS.iter().skip(at.map_or(0, |at| at + 1)) {
        let mut failed = false;
        for i in 0..plan.runs {
            let options = Options { level, ..plan.options.clone() };
            let run = subject.run(&recording(&options, plan.options.seed.wrapping_add(i), None))?;
            failed = run.failure.is_some();
            if failed {
                break;
            }
        }
        if !failed {
            return Ok(Some((level, plan.runs)));
        }
    }
    Ok(None)
}

/// Runs a subject with every value for every read, instead of some: each distinct set of choices once, in
/// as far as the subject runs its sessions in the same order each time. Ends after `limit` runs; true if
/// nothing is left.
pub fn enumerate<S: Subject>(
    subject: &mut S,
    options: &Options,
    limit: u64,
    mut each: impl FnMut(Run),
) -> Result<bool, S::Error> {
    let mut script: Choices = Vec::new();
    for _ in 0..limit {
        let replay = Replay { choices: script.iter().copied().collect(), otherwise: Otherwise::Oldest };
        let options = Options { record_alternatives: true, ..recording(options, options.seed, Some(replay)) };
        let run = subject.run(&options)?;
        let mut made: Vec<Choice> = run.choices.clone();
        each(run);
        // The last choice that has another alternative; those before it stay.
        let next = loop {
            let Some(last) = made.pop() else { return Ok(true) };
            let at = last.alternatives.iter().position(|a| *a == last.source);
            if let Some(next) = at.and_then(|at| last.alternatives.get(at + 1)) {
                break (last.read, *next);
            }
        };
        script = made.iter().map(|c| (c.read, c.source)).collect();
        script.push(next);
    }
    Ok(false)
}
