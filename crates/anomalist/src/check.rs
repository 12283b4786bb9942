//! A question about a history, put together step by step.

use crate::answer::{Answer, Found};
use crate::basis::Basis;
use crate::error::Error;
use crate::history::{History, Recording};
use crate::judging::{self, Limits, Prepared, Question};
use anomalist_check::{Analyser, Inference};
use anomalist_level::{AnomalyKind, By, Definitions, Judgement, Level, LevelVerdict, Sought, Verdict, Why};
use anomalist_report::Timing;
use anomalist_timestamp::Tie;
use std::num::NonZeroUsize;
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

/// A question about a history. [`Check::run`] answers it.
#[must_use = "nothing is decided before run or assert"]
pub struct Check<'h> {
    history: &'h History,
    question: Question,
    analysers: Vec<&'h dyn Analyser>,
    required: Vec<Level>,
    declared: bool,
    timeout: Option<Duration>,
    stop: Option<&'h (dyn Fn() -> bool + Sync)>,
    known: Option<&'h (dyn Fn(Judgement) + Sync)>,
    memory: Option<&'h Memory>,
}

/// Says whether so many bytes more may be allocated; if not, why: [`Why::Memory`].
pub type Memory = dyn Fn(u64) -> Result<(), Why> + Sync;

/// The number of threads a check uses by default: as many as this process has processors. Looked
/// up once, because that takes a dozen system calls.
pub fn cores() -> NonZeroUsize {
    static CORES: LazyLock<NonZeroUsize> =
        LazyLock::new(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN));
    *CORES
}

impl<'h> Check<'h> {
    pub(crate) fn new(history: &'h History) -> Check<'h> {
        Check {
            history,
            question: Question::about(&[], cores()),
            analysers: Vec::new(),
            required: Vec::new(),
            declared: false,
            timeout: None,
            stop: None,
            known: None,
            memory: None,
        }
    }

    /// A level that must hold. Only levels that are required or decided are looked at; without any, all are.
    pub fn require(mut self, level: Level) -> Self {
        self.required.push(level);
        self.decide(level)
    }

    /// A level to decide, which need not hold.
    pub fn decide(mut self, level: Level) -> Self {
        if !self.question.levels.contains(&level) {
            self.question.levels.push(level);
        }
        self
    }

    /// The levels that transactions declare, each its own, must hold too.
    pub fn declared(mut self) -> Self {
        self.declared = true;
        self
    }

    /// Looks for just this anomaly, and others named so.
    pub fn anomaly(mut self, kind: AnomalyKind) -> Self {
        self.question.anomalies.push(kind);
        self
    }

    /// What verdicts rest on.
    pub fn by(mut self, basis: Basis) -> Self {
        self.question.by = Some(basis);
        self
    }

    /// Whether a snapshot contains what committed at its very timestamp.
    pub fn ties(mut self, tie: Tie) -> Self {
        self.question.tie = tie;
        self
    }

    /// What may be assumed about the order of registers' versions. A wrong assumption gives wrong answers.
    pub fn assume(mut self, inference: Inference) -> Self {
        self.question.inference = inference;
        self
    }

    /// Adds dependencies that reads and writes do not show. Verdicts by values use them; a second opinion
    /// and smaller proofs are not looked for then, because they would miss them.
    pub fn with(mut self, analyser: &'h dyn Analyser) -> Self {
        self.analysers.push(analyser);
        self
    }

    /// Whose definitions of the weak levels count.
    pub fn definitions(mut self, definitions: Definitions) -> Self {
        self.question.definitions = definitions;
        self
    }

    /// An example from every component of the dependency graph that has a cycle.
    pub fn every_component(mut self) -> Self {
        self.question.every_component = true;
        self
    }

    /// Keeps the proofs of levels that hold; those of violated ones are always kept.
    pub fn proofs(mut self) -> Self {
        self.question.certificates = true;
        self
    }

    /// Verifies every proof, independently of what found it.
    pub fn verified(mut self) -> Self {
        self.question.verify = true;
        self
    }

    /// Decides everything a second time with other algorithms.
    pub fn cross_checked(mut self) -> Self {
        self.question.cross_check = true;
        self
    }

    /// Threads to use.
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.question.threads = threads;
        self
    }

    /// How long it may take; what is not decided by then is unknown. Without a limit, searches that may take
    /// exponential time share half a minute.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Ends when the function says so: it is polled often.
    pub fn stop_when(mut self, stop: &'h (dyn Fn() -> bool + Sync)) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Passes on what is known, now and then.
    pub fn on_progress(mut self, known: &'h (dyn Fn(Judgement) + Sync)) -> Self {
        self.known = Some(known);
        self
    }

    /// A limit on memory: the function is asked before tables are allocated, and with 0, often, whether the
    /// limit is exceeded already. What would need more is unknown.
    pub fn memory(mut self, memory: &'h Memory) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Decides.
    pub fn run(self) -> Result<Answer<'h>, Error> {
        let history = self.history;
        if let Recording::Plain { history: transactions, .. } = history.recording()
            && let Some(Err(why)) = self.memory.map(|ask| ask(judging::preparation(transactions)))
        {
            return Ok(Answer { history, found: self.unfinished(None, &why) });
        }
        let Check { question, analysers, required, declared, timeout, stop, known, memory, .. } = self;
        let refused: OnceLock<Why> = OnceLock::new();
        let allows = |bytes| match memory.map_or(Ok(()), |ask| ask(bytes)) {
            Ok(()) => true,
            Err(why) => {
                refused.get_or_init(|| why);
                false
            }
        };
        let began = Instant::now();
        let late = || timeout.is_some_and(|limit| began.elapsed() >= limit);
        let spent = || stop.is_some_and(|stop| stop()) || late() || !allows(0);
        let known = known.unwrap_or(&|_| {});
        let limits = Limits { spent: &spent, timed: timeout.is_some(), known, memory: &allows };
        let definitions = question.definitions;
        let (mut preparing, mut again) = (Duration::ZERO, None);
        let judged = match history.recording() {
            Recording::Plain { history, .. } => {
                let prepared = Prepared::new(history, question, &analysers)?;
                preparing = began.elapsed();
                let judged = prepared.judge(limits)?;
                again = Some(prepared);
                judged
            }
            Recording::Other { lowered, .. } => {
                let judgement = judging::lowered(lowered, &question, &analysers, limits);
                judging::Judged { judgement, violations: Vec::new(), doubted: Duration::ZERO }
            }
        };
        let mut judgement = Judgement { definitions, ..judged.judgement };
        judging::admit_any_loss(&mut judgement, history.recording());
        if let Some(why) = refused.get() {
            judging::admit_memory(&mut judgement, why);
        }
        let checking = began.elapsed().saturating_sub(preparing + judged.doubted);
        let in_sessions = again.and_then(|it| it.only_in_sessions(&required, &judgement, limits));
        judgement.notes.extend(in_sessions);
        let timing = Timing { load_ms: millis(history.reading + preparing), check_ms: millis(checking) };
        let found = Found {
            judgement,
            violations: judged.violations,
            timing,
            required,
            declared,
            stopped: stop.is_some_and(|stop| stop()) || refused.get().is_some(),
        };
        Ok(Answer { history, found })
    }

    /// The answer of a check that was stopped: what was [known](Check::on_progress) by then, and a reason
    /// for the rest.
    pub fn unfinished(self, known: Option<Judgement>, why: &Why) -> Found {
        let mut judgement = known.unwrap_or_else(|| {
            let asked = &self.question.levels;
            let asked = if asked.is_empty() { Level::CANONICAL } else { asked };
            let open = |&level: &Level| LevelVerdict {
                level,
                by: By::Values,
                verdict: Verdict::Unknown(why.clone()),
                anomalies: Vec::new(),
            };
            Judgement { levels: asked.iter().map(open).collect(), ..Judgement::default() }
        });
        judgement.definitions = self.question.definitions;
        judging::admit_any_loss(&mut judgement, self.history.recording());
        for &kind in &self.question.anomalies {
            if judgement.sought.iter().all(|(sought, _)| *sought != kind) {
                let found = judgement.anomalies.iter().any(|a| a.kind.implies(kind));
                let open = Sought::Unknown(why.clone());
                judgement.sought.push((kind, if found { Sought::Found } else { open }));
            }
        }
        Found {
            judgement,
            violations: Vec::new(),
            timing: Timing { load_ms: millis(self.history.reading), check_ms: 0.0 },
            required: self.required,
            declared: self.declared,
            stopped: true,
        }
    }

    /// Decides, and panics with the explanation unless every required level holds.
    ///
    /// # Panics
    ///
    /// If a required level is violated or unknown, or if there is no answer.
    #[track_caller]
    pub fn assert(self) {
        match self.run() {
            Ok(answer) => answer.assert(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
