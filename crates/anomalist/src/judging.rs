//! From a history to its judgement: the one way, for every command and for programs.
//!
//! No flags, no files, no printing. A [`Question`] says what to find out and on what footing; [`Prepared`]
//! resolves reads where values are asked about; [`Prepared::judge`] decides, looks for smaller refutations,
//! and doubts the answer where that is wanted. Limits are polled.

use crate::basis::{self, Basis, Split};
use crate::error::Error;
use crate::history::Recording;
use anomalist_check::{Analyser, Budget, Inference, Request};
use anomalist_history::{History, Indexed};
use anomalist_jepsen::datatypes::{self, Lowered};
use anomalist_level::{
    AnomalyKind, Bound, By, Certificate, Definitions, Judgement, Level, Sought, Verdict, Why,
};
use anomalist_timestamp::offline::Findings;
use anomalist_timestamp::{Mode, Tie};
use anomalist_verify::Verifier;
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long searches for the order behind strong levels may take, all together, unless a time limit is
/// given.
const SEARCH_LIMIT: Duration = Duration::from_secs(30);
/// How long to look for a smaller proof that no order exists.
const TIGHTENING: Duration = Duration::from_secs(3);

/// What to find out.
#[derive(Clone, Debug)]
pub struct Question {
    /// The levels; none: all.
    pub levels: Vec<Level>,
    /// Look for just these anomalies; none: all.
    pub anomalies: Vec<AnomalyKind>,
    /// What verdicts rest on, if not on what the history has.
    pub by: Option<Basis>,
    /// What equal timestamps mean.
    pub tie: Tie,
    /// What may be assumed about registers.
    pub inference: Inference,
    /// Whose definitions of the weak levels count.
    pub definitions: Definitions,
    /// Keep the proofs of levels that hold.
    pub certificates: bool,
    /// An example of every component.
    pub every_component: bool,
    /// Verify every proof at once.
    pub verify: bool,
    /// Decide everything a second time.
    pub cross_check: bool,
    /// Threads to use.
    pub threads: NonZeroUsize,
}

impl Question {
    /// About these levels (none: all), with no further wishes.
    pub fn about(levels: &[Level], threads: NonZeroUsize) -> Question {
        Question {
            levels: levels.to_vec(),
            anomalies: Vec::new(),
            by: None,
            tie: Tie::Inclusive,
            inference: Inference::default(),
            definitions: Definitions::default(),
            certificates: false,
            every_component: false,
            verify: false,
            cross_check: false,
            threads,
        }
    }

    fn anomalies(&self) -> Option<Vec<AnomalyKind>> {
        (!self.anomalies.is_empty()).then(|| self.anomalies.clone())
    }

    fn request(&self, levels: Vec<Level>) -> Request {
        Request {
            levels,
            anomalies: self.anomalies(),
            certificates: self.certificates || self.verify,
            inference: self.inference.clone(),
            definitions: self.definitions,
            every_component: self.every_component,
            ..Request::default()
        }
    }
}

/// A history of at most so many operations may be checked for something beside the question. Its size
/// decides, not the clock: the same history gets the same notes on every machine. On histories of lists a
/// second check took 9 to 18 % of the command at 10,000 operations, and 1 to 2 % at this size (medians).
const SMALL: usize = 1_000;
/// A search beside the question ends after this time. Only repeated values need one.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long it may take.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// True when the work is to end. Polled often.
    pub spent: &'a (dyn Fn() -> bool + Sync),
    /// There is a time limit, so that searches need none of their own.
    pub timed: bool,
    /// Learns what is known, now and then.
    pub known: &'a (dyn Fn(Judgement) + Sync),
    /// Asked before tables of so many bytes are allocated.
    pub memory: &'a (dyn Fn(u64) -> bool + Sync),
}

/// A history's judgement.
#[derive(Debug)]
pub struct Judged {
    /// What was found out.
    pub judgement: Judgement,
    /// What contradicts the timestamps, listed.
    pub violations: Vec<(Mode, Findings)>,
    /// How long it took to doubt it.
    pub doubted: Duration,
}

/// A history whose reads are resolved as far as the question needs it.
pub struct Prepared<'a> {
    history: &'a History,
    question: Question,
    split: Split,
    indexed: Option<Indexed<'a>>,
    analysers: &'a [&'a dyn Analyser],
}

impl<'a> Prepared<'a> {
    /// Gets ready. Fails if the history has not what the question asks about.
    pub fn new(
        history: &'a History,
        question: Question,
        analysers: &'a [&'a dyn Analyser],
    ) -> Result<Prepared<'a>, Error> {
        let split = Split::new(history, &question)?;
        let indexed = split.values.is_some().then(|| Indexed::new(history, question.threads));
        Ok(Prepared { history, question, split, indexed, analysers })
    }

    /// Decides.
    pub fn judge(&self, limits: Limits<'_>) -> Result<Judged, Error> {
        let Prepared { history, question, split, indexed, analysers } = self;
        with_budget(limits, |budget| {
            let mut doubted = Duration::ZERO;
            let by_values = match (indexed, split.values.clone()) {
                (Some(indexed), Some(levels)) => {
                    let request = question.request(levels);
                    let judgement = by_values(indexed, &request, analysers, limits, budget);
                    let since = Instant::now();
                    let certain = analysers.is_empty();
                    doubt(indexed, question, &request, certain, &judgement, &budget.aside())
                        .map_err(|what| Error::Internal { judgement: Box::new(judgement.clone()), what })?;
                    doubted = since.elapsed();
                    Some(judgement)
                }
                _ => None,
            };
            let exclusive = split.is_exclusive();
            let certificates = question.certificates || question.verify;
            let (mut judgement, violations) =
                split.judge(history, by_values, question.anomalies(), certificates, question.threads, budget);
            seek_in_stamps(&mut judgement, &question.anomalies);
            let since = Instant::now();
            if let Err(what) = doubt_stamps(history, question, &judgement, exclusive, &budget.aside()) {
                return Err(Error::Internal { judgement: Box::new(judgement), what });
            }
            Ok(Judged { judgement, violations, doubted: doubted + since.elapsed() })
        })
    }
}

impl Prepared<'_> {
    /// A note for required levels that hold only as long as sessions may be reordered: many mean the level
    /// with sessions when they say "snapshot isolation" or "serializable". What did not come up on the way
    /// to the answer (lists and timestamps) is checked only in small histories.
    pub fn only_in_sessions(
        self,
        required: &[Level],
        judgement: &Judgement,
        limits: Limits<'_>,
    ) -> Option<String> {
        let of = |level: &Level| {
            let family = level.info().family.filter(|_| level.bound() == Bound::Data)?;
            let session = Level::of(family, Bound::Session)?;
            let open =
                judgement.verdict(*level) == Some(&Verdict::Holds) && judgement.verdict(session).is_none();
            open.then_some((*level, session))
        };
        let pairs: Vec<(Level, Level)> = required.iter().filter_map(of).collect();
        let known = |session| judgement.beyond.iter().find(|(l, _)| *l == session).map(|(_, v)| v.clone());
        let open: Vec<Level> = pairs.iter().map(|(_, s)| *s).filter(|s| known(*s).is_none()).collect();
        let found =
            if open.is_empty() || !self.question.anomalies.is_empty() || self.history.op_count() > SMALL {
                Judgement::default()
            } else {
                let since = Instant::now();
                let spent = || (limits.spent)() || since.elapsed() >= PATIENCE;
                self.verdicts_on(open, Limits { spent: &spent, timed: true, known: &|_| {}, ..limits })?
            };
        let is_broken =
            |session| known(session).or_else(|| found.verdict(session).cloned()) == Some(Verdict::Violated);
        let notes: Vec<String> = pairs
            .iter()
            .filter(|(_, session)| is_broken(*session))
            .map(|(level, session)| format!("{level} holds, but not in sessions: {session} is violated"))
            .collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// The verdicts on other levels, without proofs.
    fn verdicts_on(mut self, levels: Vec<Level>, limits: Limits<'_>) -> Option<Judgement> {
        let plain = Question::about(&[], self.question.threads);
        self.question = Question {
            levels,
            certificates: plain.certificates,
            every_component: plain.every_component,
            verify: plain.verify,
            cross_check: plain.cross_check,
            ..self.question
        };
        self.split = Split::new(self.history, &self.question).ok()?;
        self.judge(limits).ok().map(|judged| judged.judgement)
    }
}

/// Judges sets, counters, banks and predicates. Reasons that are no reads and writes cannot be verified
/// again.
pub fn lowered(
    lowered: &Lowered,
    question: &Question,
    analysers: &[&dyn Analyser],
    limits: Limits<'_>,
) -> Judgement {
    let request =
        Request { certificates: question.certificates, ..question.request(question.levels.clone()) };
    with_budget(limits, |budget| datatypes::check_with(lowered, &request, analysers, budget))
}

/// What a recording that was cut off does not say.
pub fn admit_any_loss(judgement: &mut Judgement, recording: &Recording) {
    match recording {
        Recording::Plain { unexplained, .. } => admit_loss(judgement, *unexplained),
        Recording::Other { cut_off: true, .. } => admit_unknown_loss(judgement),
        Recording::Other { .. } => {}
    }
}

/// `reads` were ignored because their writer is
/// missing: what holds without them may not hold with them. A violation among the others is one whatever is
/// missing.
fn admit_loss(judgement: &mut Judgement, reads: usize) {
    if reads > 0 {
        let why = Why::MissingWriters { reads };
        let verdicts = judgement.levels.iter_mut().map(|l| &mut l.verdict);
        for verdict in verdicts.chain(judgement.mixed.iter_mut().map(|mixed| &mut mixed.verdict)) {
            if *verdict == Verdict::Holds {
                *verdict = Verdict::Unknown(why.clone());
            }
        }
        for (_, sought) in judgement.sought.iter_mut().filter(|(_, sought)| *sought == Sought::Absent) {
            *sought = Sought::Unknown(why.clone());
        }
        judgement.certificates.retain(|(_, proof)| matches!(proof, Certificate::Violated(_)));
    }
}

/// The same for operations that are no reads and writes, of which nothing can be said then.
fn admit_unknown_loss(judgement: &mut Judgement) {
    judgement.anomalies.clear();
    judgement.further.clear();
    judgement.certificates.clear();
    for l in &mut judgement.levels {
        l.verdict = Verdict::Unknown(Why::MissingOperations);
        l.anomalies.clear();
    }
    for (_, sought) in &mut judgement.sought {
        *sought = Sought::Unknown(Why::MissingOperations);
    }
}

/// What was left open because memory ran out.
pub fn admit_memory(judgement: &mut Judgement, why: &Why) {
    let stopped = |open: &Why| matches!(open, Why::Stopped | Why::Search(_));
    let verdicts = judgement.levels.iter_mut().map(|l| &mut l.verdict);
    for verdict in verdicts.chain(judgement.mixed.iter_mut().map(|mixed| &mut mixed.verdict)) {
        if matches!(verdict, Verdict::Unknown(open) if stopped(open)) {
            *verdict = Verdict::Unknown(why.clone());
        }
    }
    for (_, sought) in &mut judgement.sought {
        if matches!(sought, Sought::Unknown(open) if stopped(open)) {
            *sought = Sought::Unknown(why.clone());
        }
    }
}

/// Bytes that resolving the reads of a history takes: the index, and the tables that every engine has.
pub fn preparation(history: &History) -> u64 {
    40 * history.op_count() as u64 + 40 * history.txn_count() as u64 + 16 * history.key_count() as u64
}

/// Searches that can take exponential time share a limit, counted from the first of them.
fn with_budget<T>(limits: Limits<'_>, work: impl FnOnce(&Budget<'_>) -> T) -> T {
    let searching = OnceLock::new();
    let searched = || {
        let began = searching.get_or_init(Instant::now);
        (limits.spent)() || !limits.timed && began.elapsed() >= SEARCH_LIMIT
    };
    let budget = Budget::new(limits.spent).with_search(&searched).with_known(limits.known);
    work(&budget.with_memory(limits.memory))
}

fn by_values(
    indexed: &Indexed<'_>,
    request: &Request,
    analysers: &[&dyn Analyser],
    limits: Limits<'_>,
    budget: &Budget<'_>,
) -> Judgement {
    let mut judgement = anomalist_check::check_with(indexed, request, analysers, budget);
    (limits.known)(Judgement { certificates: Vec::new(), ..judgement.clone() });
    let since = Instant::now();
    let long = || (limits.spent)() || since.elapsed() >= TIGHTENING;
    // A part of the history has not the dependencies that analysers add to the whole.
    if analysers.is_empty() && !long() {
        anomalist_check::shrink::tighten(
            indexed.history(),
            &mut judgement,
            &Budget::new(&long).with_memory(limits.memory),
        );
    }
    judgement
}

/// The answer for anomalies of timestamps that were asked for: what was found, and what cannot be there
/// because its levels are decided.
fn seek_in_stamps(judgement: &mut Judgement, asked: &[AnomalyKind]) {
    for &kind in asked.iter().filter(|kind| kind.is_stamp()) {
        let mut levels = judgement.levels.iter().filter(|l| l.by == By::Timestamps).peekable();
        let answer = if judgement.anomalies.iter().any(|a| a.kind.implies(kind)) {
            Sought::Found
        } else if levels.peek().is_none() {
            Sought::Unknown(Why::NoTimestamps)
        } else {
            let open = levels.find_map(|l| match &l.verdict {
                Verdict::Unknown(why) if *why != Why::OnlyAsked => Some(why.clone()),
                _ => None,
            });
            open.map_or(Sought::Absent, Sought::Unknown)
        };
        judgement.sought.push((kind, answer));
    }
}

/// Looks for a mistake in a judgement by values, and says what it is.
fn doubt(
    indexed: &Indexed<'_>,
    question: &Question,
    request: &Request,
    certain: bool,
    judgement: &Judgement,
    budget: &Budget<'_>,
) -> Result<(), String> {
    if budget.is_spent() {
        return Ok(());
    }
    let history = indexed.history();
    // What the user assumes about the database, and what analysers add, is in no history. What only some
    // anomalies were looked for in is not decided, and needs no proof.
    let assumes = !certain || request.inference != Inference::default();
    if question.verify
        && let Err(flaw) = Verifier::new(history).trusting(assumes).judgement(judgement)
    {
        return Err(format!("an answer's proof does not verify: {}", flaw.message(history)));
    }
    if question.cross_check && certain {
        second_opinion(indexed, request, judgement, budget)?;
    }
    Ok(())
}

/// The same by timestamps.
fn doubt_stamps(
    history: &History,
    question: &Question,
    judgement: &Judgement,
    exclusive: bool,
    budget: &Budget<'_>,
) -> Result<(), String> {
    if question.verify && judgement.levels.iter().any(|l| l.by == By::Timestamps) {
        basis::verify(history, judgement, exclusive)
            .map_err(|flaw| format!("an answer's proof does not verify: {}", flaw.message(history)))?;
    }
    if question.cross_check {
        let found = anomalist_check::cross_check_stamps(history, judgement, budget);
        if !found.is_empty() {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            return Err(found.join("; "));
        }
    }
    Ok(())
}

/// Asks other algorithms; where the history is tiny, also one that tries everything.
fn second_opinion(
    indexed: &Indexed<'_>,
    request: &Request,
    judgement: &Judgement,
    budget: &Budget<'_>,
) -> Result<(), String> {
    let found = anomalist_check::cross_check(indexed, request, judgement, budget);
    if !found.is_empty() {
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        return Err(found.join("; "));
    }
    let verifier = Verifier::new(indexed.history()).by(request.definitions);
    let assumes = request.inference != Inference::default();
    for answer in judgement.levels.iter().filter(|l| l.by == By::Values && request.anomalies.is_none()) {
        let tried = verifier.try_everything(answer.level);
        let disagree = match answer.verdict {
            Verdict::Holds => tried == Some(false),
            // What is assumed rules orders out.
            Verdict::Violated => tried == Some(true) && !assumes,
            Verdict::Unknown(_) => false,
        };
        if disagree {
            return Err(format!("{} is not {}: every order was tried", answer.level, answer.verdict.name()));
        }
    }
    let declared = judgement.mixed.as_ref().map(|mixed| (&mixed.verdict, verifier.try_everything_declared()));
    if let Some((verdict @ Verdict::Holds, Some(false)) | (verdict @ Verdict::Violated, Some(true))) =
        declared
    {
        return Err(format!("the mix of declared levels is not {}: every order was tried", verdict.name()));
    }
    Ok(())
}
