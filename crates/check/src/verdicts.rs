//! From findings to a verdict per level.
//!
//! Each engine answers for the levels it decides, in a [`JudgementBuilder`] (`verdicts/builder.rs`), which
//! the lattice completes.

mod builder;

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
use anomalist_level::{Anomaly, AnomalyKind, Definitions, Execution, Judgement, Level, Order, Verdict, Why};

pub(crate) use builder::JudgementBuilder;

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
        builder.found(Anomaly::new(AnomalyKind::ReadAtomicCycleExists, 1, witness));
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
