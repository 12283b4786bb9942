//! From findings to a verdict per level.
//!
//! Each engine answers for the levels it decides; the lattice does the rest: a level that holds carries
//! every level it implies, a violated level takes down every level that implies it.

use crate::Budget;
use crate::Request;
use crate::adya::{self, Analyser};
use crate::direct;
use crate::mixed;
use crate::sessionless;
use crate::sought;
use crate::strong;
use crate::view::CommittedView;
use crate::weak::plume::PlumeReads;
use crate::weak::{self, Answer, Decides, Guarantee, Questions, Weak};
use anomalist_history::{Outcome, TxnId};
use anomalist_level::{
    Anomaly, AnomalyKind, By, Certificate, Definitions, Execution, Judgement, Level, LevelVerdict, Order,
    Refutation, Sought, Verdict, Why,
};

/// What a reader should know of Plume's definitions.
const BY_PLUME: &str = "cut-isolation, read-committed, read-atomic, causal and TAP-a to TAP-n follow the letter of Plume's paper";

/// Runs the engines, cheapest first, each on what the ones before it left open.
pub(crate) fn judge(
    view: CommittedView<'_>,
    registers: &adya::Registers,
    request: &Request,
    analysers: &[&dyn Analyser],
    budget: &Budget<'_>,
) -> Judgement {
    let asked: &[Level] = if request.levels.is_empty() { Level::CANONICAL } else { &request.levels };
    let mut builder = JudgementBuilder::new(request);
    let plume =
        (request.definitions == Definitions::Plume).then(|| PlumeReads::new(view.history, view.index));
    let further = plume.as_ref().map_or(&[][..], |plume| &plume.intermediate);
    for anomaly in direct::faults(view, further) {
        builder.found(anomaly);
    }
    if request.search_only {
        builder.close();
        strong::judge(view, asked, request, budget, &mut builder);
        return builder.judgement(view, asked, request.certificates);
    }
    // The history as the weak levels see it.
    let weak = CommittedView { reads: plume.as_ref().map_or(view.reads, |plume| &plume.external), ..view };
    let open_repeats = plume.as_ref().is_some_and(|plume| plume.is_open(view.index));
    judge_cut(weak, asked, request, open_repeats, &mut builder);
    // Lists show the order of their versions, so one graph may prove every level at once.
    let needed = sought::needed(request, asked);
    let question = adya::Question { asked: &needed, registers, analysers, every: request.every_component };
    let about_dependencies = !needed.is_empty() && question.is_about(view);
    budget.report(|| builder.refuted(view, asked));
    if about_dependencies && budget.is_spent() {
        builder.interrupt();
    }
    let adya = (about_dependencies && !builder.interrupted).then(|| adya::Engine::new(view, &question));
    let proven = adya.as_ref().is_some_and(|engine| engine.prove(&mut builder));
    if !proven || request.anomalies.is_some() || view.index.ambiguous_reads() > 0 {
        judge_weak(view, weak, asked, request, budget, &mut builder);
        budget.report(|| builder.refuted(view, asked));
        if let Some(engine) = &adya {
            engine.refute(&mut builder, budget);
        }
    }
    if builder.interrupted && !proven && view.history.has_lists() {
        // Cycles that lists show may not have been looked for.
        builder.forget_proofs(&Why::Stopped);
    }
    builder.close();

    let mixed = if let Some(kinds) = &request.anomalies {
        builder.sought = sought::answers(view, registers, (request, kinds), analysers, budget, &builder);
        // Anomalies that were not searched for may break a level: cycles of lists, and kinds that were not
        // asked for.
        let complete = view.index.ambiguous_reads() == 0 && (proven || !view.history.has_lists());
        if request.levels.is_empty() || !complete {
            builder.forget_proofs(&Why::OnlyAsked);
        }
        None
    } else {
        judge_rest(view, asked, request, open_repeats, budget, &mut builder);
        mixed::judge(view, request, &budget.search())
    };
    Judgement { mixed, ..builder.judgement(view, asked, request.certificates) }
}

/// Looks for reads that a transaction repeats with another result, if cut isolation or that anomaly is asked
/// about. With `open_repeats`, whether Plume's definition is met depends on choices.
fn judge_cut(
    weak: CommittedView<'_>,
    asked: &[Level],
    request: &Request,
    open_repeats: bool,
    builder: &mut JudgementBuilder<'_>,
) {
    let needed = (request.anomalies.is_none() || !request.levels.is_empty())
        && asked.iter().any(|l| l.implies(Level::CutIsolation));
    let wanted = request.anomalies.is_some() && builder.wants(AnomalyKind::NonRepeatableRead);
    if !needed && !wanted {
        return;
    }
    match direct::non_repeatable_reads(weak) {
        Some(anomaly) => builder.found(anomaly),
        None if open_repeats => builder.decide(Level::CutIsolation, Verdict::Unknown(Why::PlumeRepeats)),
        None => builder.prove(Level::CutIsolation, Execution { order: Order::Any, choices: Vec::new() }),
    }
}

/// Searches for orders that prove or refute what is still open.
fn judge_rest(
    view: CommittedView<'_>,
    asked: &[Level],
    request: &Request,
    open_repeats: bool,
    budget: &Budget<'_>,
    builder: &mut JudgementBuilder<'_>,
) {
    if view.index.ambiguous_reads() > 0 {
        builder.forget_proofs(&Why::AmbiguousReads { reads: view.index.ambiguous_reads() });
    }
    budget.report(|| builder.known(view, asked));
    let searched: Vec<Level> =
        asked.iter().copied().filter(|&l| l != Level::CutIsolation || !open_repeats).collect();
    strong::judge(view, &searched, request, budget, builder);
    sessionless::judge(view, asked, budget, builder);
}

/// Asks the weak engine; `weak` is the history as its levels see it, `view` as the session guarantees do.
fn judge_weak(
    view: CommittedView<'_>,
    weak: CommittedView<'_>,
    asked: &[Level],
    request: &Request,
    budget: &Budget<'_>,
    builder: &mut JudgementBuilder<'_>,
) {
    let mut questions = questions(asked, request.anomalies.as_deref());
    questions.no_guess = request.no_guess;
    questions.definitions = request.definitions;
    let findings = match request.definitions {
        Definitions::Anomalist => weak::decide(view, questions, budget),
        Definitions::Plume => weak::decide_apart(view, weak, questions, budget),
    };
    let Ok(findings) = findings else {
        builder.interrupted = true;
        return;
    };
    for anomaly in findings.anomalies {
        builder.found(anomaly);
    }
    if let Some(witness) = findings.read_atomic
        && !builder.explains(Level::ReadAtomic)
        && let Some(refutation) = weak::refuted::refutation(&witness)
    {
        builder.found(Anomaly { kind: AnomalyKind::ReadAtomicCycleExists, count: 1, witness });
        builder.refute(Level::ReadAtomic, refutation);
    }
    let (mut axioms, mut guarantees) = (findings.levels, findings.guarantees);
    for (level, decides) in weak::levels() {
        let answer = match decides {
            Decides::Axiom(weak) => axioms[weak as usize].take(),
            Decides::Guarantee(guarantee) => guarantees[guarantee as usize].take(),
        };
        match answer {
            Some(Answer::Holds(order)) => builder.prove(level, Execution::commits(order)),
            // Where values repeat, what has no witness is left to the search, which has a proof.
            Some(Answer::Violated) if view.index.ambiguous_reads() > 0 => {}
            Some(Answer::Violated) => builder.decide(level, Verdict::Violated),
            None => {}
        }
    }
}

/// Which questions of the weak engine the request needs answered.
fn questions(asked: &[Level], anomalies: Option<&[AnomalyKind]>) -> Questions {
    let mut q = Questions::default();
    match anomalies {
        Some(kinds) => {
            for &kind in kinds {
                q.cycles |= kind == AnomalyKind::CyclicCo;
                Weak::ALL
                    .into_iter()
                    .filter(|weak| weak.patterns().contains(&kind))
                    .for_each(|weak| q.ask(weak));
                for (i, guarantee) in Guarantee::ALL.into_iter().enumerate() {
                    q.guarantees[i] |= guarantee.violation() == kind;
                }
            }
        }
        None => {
            // A weaker level that everything asked for implies settles nothing by itself; one that is
            // implied by an asked level can refute it.
            for (level, decides) in weak::levels() {
                match decides {
                    Decides::Axiom(weak) => q.levels[weak as usize] = asked.iter().any(|a| a.implies(level)),
                    Decides::Guarantee(given) => q.guarantees[given as usize] = asked.contains(&level),
                }
            }
        }
    }
    q
}

/// What the engines have found so far.
pub(crate) struct JudgementBuilder<'a> {
    /// The kinds of anomaly asked for; `None`: all.
    wanted: Option<&'a [AnomalyKind]>,
    /// Whose definitions count.
    definitions: Definitions,
    anomalies: Vec<Anomaly>,
    /// Every kind met, asked for or not: a proof has to know.
    met: Vec<AnomalyKind>,
    further: Vec<Anomaly>,
    sought: Vec<(AnomalyKind, Sought)>,
    verdicts: Vec<(Level, Verdict)>,
    proofs: Vec<(Level, Certificate)>,
    /// Proofs are wanted.
    certificates: bool,
    /// Why levels are not decided.
    reasons: Vec<(Level, Why)>,
    notes: Vec<String>,
    /// The budget ran out before an engine was done.
    pub(crate) interrupted: bool,
}

impl<'a> JudgementBuilder<'a> {
    fn new(request: &'a Request) -> JudgementBuilder<'a> {
        let mut notes: Vec<String> = request.inference.describe().into_iter().collect();
        if request.definitions == Definitions::Plume {
            notes.push(BY_PLUME.to_owned());
        }
        JudgementBuilder {
            wanted: request.anomalies.as_deref(),
            definitions: request.definitions,
            anomalies: Vec::new(),
            met: Vec::new(),
            further: Vec::new(),
            sought: Vec::new(),
            verdicts: Vec::new(),
            proofs: Vec::new(),
            certificates: request.certificates,
            reasons: Vec::new(),
            notes,
            interrupted: false,
        }
    }

    /// True if instances of this kind are to be reported.
    pub fn wants(&self, kind: AnomalyKind) -> bool {
        let is = |k: &AnomalyKind| *k == kind || k.counted_as() == Some(kind);
        self.wanted.is_none_or(|kinds| kinds.iter().any(is))
    }

    /// Notes an anomaly, unless it was not asked for: it violates every level that forbids it. More of a
    /// known kind adds to its count.
    pub fn found(&mut self, anomaly: Anomaly) {
        self.met.push(anomaly.kind);
        if !self.wants(anomaly.kind) {
            return;
        }
        match self.anomalies.iter_mut().find(|a| a.kind == anomaly.kind) {
            Some(known) => known.count += anomaly.count,
            None => self.anomalies.push(anomaly),
        }
    }

    /// Notes another example of an anomaly that is counted already.
    pub fn example(&mut self, anomaly: Anomaly) {
        self.further.push(anomaly);
    }

    /// The verdict on a level so far.
    pub fn get(&self, level: Level) -> Option<&Verdict> {
        self.verdicts.iter().find(|(l, _)| *l == level).map(|(_, v)| v)
    }

    /// True if a level holds or is violated.
    pub fn is_settled(&self, level: Level) -> bool {
        matches!(self.get(level), Some(Verdict::Holds | Verdict::Violated))
    }

    /// Notes a verdict. A violation outweighs a proof that looked at less.
    pub fn decide(&mut self, level: Level, verdict: Verdict) {
        match self.verdicts.iter_mut().find(|(l, _)| *l == level) {
            Some((_, old)) if *old != Verdict::Violated => *old = verdict,
            Some(_) => {}
            None => self.verdicts.push((level, verdict)),
        }
    }

    /// Notes a proof of the order axioms of a level; the level holds if no anomaly that it forbids was
    /// found.
    pub fn prove(&mut self, level: Level, proof: Execution) {
        if self.is_broken(level) {
            self.decide(level, Verdict::Violated);
        } else {
            self.decide(level, Verdict::Holds);
            self.proofs.push((level, Certificate::Holds(proof)));
        }
    }

    /// Notes that no execution satisfies a level.
    pub fn refute(&mut self, level: Level, proof: Refutation) {
        self.decide(level, Verdict::Violated);
        self.proofs.push((level, Certificate::Violated(proof)));
    }

    /// Notes that a level's order axioms are met, without an order to show for it.
    pub fn hold(&mut self, level: Level) {
        self.decide(level, if self.is_broken(level) { Verdict::Violated } else { Verdict::Holds });
    }

    /// True if a level is known to hold, directly or through a stronger one.
    pub fn holds(&self, level: Level) -> bool {
        let holding = self.verdicts.iter().filter(|(_, v)| *v == Verdict::Holds);
        holding.into_iter().any(|(l, _)| l.implies(level)) && !self.is_broken(level)
    }

    /// True if an anomaly was met that the level forbids, whether it was asked for or not.
    fn is_broken(&self, level: Level) -> bool {
        self.met.iter().any(|&kind| level.forbids(kind))
    }

    /// True if an anomaly found is of this kind, or of one that implies it, or shows its pattern.
    pub fn shows(&self, view: CommittedView<'_>, kind: AnomalyKind) -> bool {
        let is =
            |a: &Anomaly| self.definitions.implies(a.kind, kind) || a.pattern(view.history) == Some(kind);
        self.anomalies.iter().any(is)
    }

    /// True if an anomaly found so far shows that the level is violated.
    pub fn explains(&self, level: Level) -> bool {
        self.anomalies.iter().any(|a| level.forbids(a.kind))
    }

    /// True if the proof of a level is wanted, and can be checked: Elle's further models have no definition
    /// of their own.
    pub fn certifies(&self, level: Level) -> bool {
        self.certificates && level.is_canonical()
    }

    /// Notes why a level is not decided; an engine that decides it after all outweighs this.
    pub fn unknown(&mut self, level: Level, why: Why) {
        self.reasons.push((level, why));
    }

    /// Notes what a reader should know besides.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Notes that the budget ran out.
    pub fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// Carries anomalies and verdicts through the lattice.
    pub fn close(&mut self) {
        for &level in Level::ALL {
            if self.anomalies.iter().any(|a| level.forbids(a.kind)) {
                self.decide(level, Verdict::Violated);
            }
        }
        for (known, verdict) in self.verdicts.clone() {
            for &level in Level::ALL {
                let carried = match verdict {
                    Verdict::Holds => known.implies(level) && !self.is_settled(level),
                    Verdict::Violated => level.implies(known),
                    Verdict::Unknown(_) => false,
                };
                if carried {
                    self.decide(level, verdict.clone());
                }
            }
        }
    }

    /// What is known if the work ends here.
    pub fn known(&self, view: CommittedView<'_>, asked: &[Level]) -> Judgement {
        let copy = JudgementBuilder {
            wanted: self.wanted,
            definitions: self.definitions,
            anomalies: self.anomalies.clone(),
            met: self.met.clone(),
            further: Vec::new(),
            sought: Vec::new(),
            verdicts: self.verdicts.clone(),
            proofs: Vec::new(),
            certificates: false,
            reasons: Vec::new(),
            notes: self.notes.clone(),
            interrupted: true,
        };
        copy.judgement(view, asked, false)
    }

    /// The same as long as what holds may yet turn out not to: violations alone.
    fn refuted(&self, view: CommittedView<'_>, asked: &[Level]) -> Judgement {
        let mut judgement = self.known(view, asked);
        for l in judgement.levels.iter_mut().filter(|l| l.verdict == Verdict::Holds) {
            l.verdict = Verdict::Unknown(Why::Stopped);
        }
        judgement
    }

    fn forget_proofs(&mut self, why: &Why) {
        self.proofs.retain(|(_, proof)| matches!(proof, Certificate::Violated(_)));
        for (_, verdict) in &mut self.verdicts {
            if *verdict == Verdict::Holds {
                *verdict = Verdict::Unknown(why.clone());
            }
        }
    }

    fn judgement(mut self, view: CommittedView<'_>, asked: &[Level], certificates: bool) -> Judgement {
        if let Some(wanted) = self.wanted {
            // A pattern was looked for among the cycles of its kind.
            let named = |a: &Anomaly| a.pattern(view.history).is_some_and(|p| wanted.contains(&p));
            self.anomalies.retain(|a| wanted.contains(&a.kind) || named(a));
            self.further.retain(|a| wanted.contains(&a.kind) || named(a));
        }
        self.anomalies.sort_by_key(|a| a.kind);
        if self.interrupted {
            self.notes.push(
                "stopped, by an interrupt or the time limit: there may be more anomalies, of these and of other kinds".to_owned(),
            );
        } else if let Some(wanted) = self.wanted {
            let absent: Vec<&str> =
                wanted.iter().filter(|k| !k.is_stamp() && !self.shows(view, **k)).map(|k| k.code()).collect();
            if !absent.is_empty() {
                self.notes.push(format!("not found: {}", absent.join(", ")));
            }
        }
        let levels = asked.iter().map(|&level| self.verdict(view, level)).collect();
        // Of what was asked, or settling it by the lattice. Refutations are small, and always of interest.
        let settles = |(by, proof): &(Level, Certificate)| match proof {
            Certificate::Holds(_) => certificates && asked.iter().any(|level| by.implies(*level)),
            Certificate::Violated(_) => asked.iter().any(|level| level.implies(*by)),
        };
        let certificates = self.proofs.into_iter().filter(settles).collect();
        Judgement {
            levels,
            anomalies: self.anomalies,
            further: self.further,
            certificates,
            mixed: None,
            sought: self.sought,
            definitions: self.definitions,
            notes: self.notes,
        }
    }

    fn verdict(&self, view: CommittedView<'_>, level: Level) -> LevelVerdict {
        let verdict = self.get(level).cloned().unwrap_or_else(|| Verdict::Unknown(self.why(view, level)));
        let verdict = match verdict {
            Verdict::Violated if self.rests_on_dirty_reads(view, level) => Verdict::Unknown(Why::DirtyRead),
            other => other,
        };
        let responsible: Vec<AnomalyKind> = match verdict {
            Verdict::Violated => {
                self.anomalies.iter().map(|a| a.kind).filter(|&k| level.forbids(k)).collect()
            }
            _ => Vec::new(),
        };
        // What was not asked for was not looked at closely enough to be shown.
        if self.wanted.is_some() && verdict == Verdict::Violated && responsible.is_empty() {
            return LevelVerdict {
                level,
                by: By::Values,
                verdict: Verdict::Unknown(Why::OnlyAsked),
                anomalies: responsible,
            };
        }
        LevelVerdict { level, by: By::Values, verdict, anomalies: responsible }
    }

    /// Whether PL-1, or a form of it, is violated only if a transaction of unknown outcome took effect that
    /// perhaps did not.
    fn rests_on_dirty_reads(&self, view: CommittedView<'_>, level: Level) -> bool {
        if level.forbids(AnomalyKind::AbortedRead) || !level.forbids(AnomalyKind::G0) || !view.may_be_dirty()
        {
            return false;
        }
        let open = |t: &TxnId| view.history.outcome(*t) == Outcome::Indeterminate;
        let certain = |a: &Anomaly| !a.witness.transactions.iter().any(open);
        !self.anomalies.iter().any(|a| level.forbids(a.kind) && certain(a))
    }

    fn why(&self, view: CommittedView<'_>, level: Level) -> Why {
        let info = level.info();
        if info.name_only {
            return Why::NameOnly;
        }
        if self.wanted.is_some() && !self.interrupted {
            return Why::OnlyAsked;
        }
        if self.interrupted {
            return Why::Stopped;
        }
        if info.real_time && view.history.intervals().is_none() {
            return Why::NoRealTime;
        }
        match self.reasons.iter().find(|(l, _)| *l == level) {
            Some((_, why)) => why.clone(),
            None => Why::NotDecided,
        }
    }
}
