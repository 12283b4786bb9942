//! From findings to a verdict per level.
//!
//! Each engine answers for the levels it decides; the lattice does the rest: a level that holds carries every level it
//! implies, a violated level takes down every level that implies it.

use crate::Request;
use crate::budget::Budget;
use crate::direct;
use crate::weak::{self, Answer, Guarantee, Problem, Questions, Weak};
use isolde_history::TxnId;
use isolde_level::{Anomaly, AnomalyKind, By, Certificate, Judgement, Level, LevelVerdict, Verdict};

const WEAK: [Level; 3] = [Level::ReadCommitted, Level::ReadAtomic, Level::Causal];
const GUARANTEES: [Level; 4] =
    [Level::ReadYourWrites, Level::MonotonicReads, Level::MonotonicWrites, Level::WritesFollowReads];

pub(crate) fn judge(problem: Problem<'_>, request: &Request, budget: &Budget<'_>) -> Judgement {
    let asked: &[Level] = if request.levels.is_empty() { Level::CANONICAL } else { &request.levels };
    let wanted = |kind: AnomalyKind| request.anomalies.as_ref().is_none_or(|kinds| kinds.contains(&kind));
    let mut questions = questions(asked, request.anomalies.as_deref());
    questions.no_guess = request.no_guess;

    let mut board = Board::default();
    let mut anomalies: Vec<Anomaly> =
        direct::faults(problem).into_iter().filter(|a| wanted(a.kind)).collect();
    let needs_cut = asked.iter().any(|l| l.implies(Level::CutIsolation));
    if wanted(AnomalyKind::NonRepeatableRead) && (needs_cut || request.anomalies.is_some()) {
        match direct::non_repeatable_reads(problem) {
            Some(found) => anomalies.push(found),
            None => board.set(Level::CutIsolation, Verdict::Holds),
        }
    }
    let mut orders: Vec<(Level, Vec<TxnId>)> = Vec::new();
    match weak::decide(problem, questions, budget) {
        Ok(findings) => {
            anomalies.extend(findings.anomalies.into_iter().filter(|a| wanted(a.kind)));
            let answers = WEAK.into_iter().zip(findings.levels);
            for (level, answer) in answers.chain(GUARANTEES.into_iter().zip(findings.guarantees)) {
                match answer {
                    Some(Answer::Holds(order)) if !refutes(&anomalies, level) => {
                        board.set(level, Verdict::Holds);
                        orders.push((level, order));
                    }
                    Some(_) => board.set(level, Verdict::Violated),
                    None => {}
                }
            }
        }
        Err(_) => board.interrupted = true,
    }
    for &level in Level::ALL {
        if refutes(&anomalies, level) {
            board.set(level, Verdict::Violated);
        }
    }
    board.close();
    if request.anomalies.is_some() {
        board.forget_proofs("only the anomalies asked for were looked for");
        orders.clear();
    } else if problem.index.ambiguous_reads() > 0 {
        board.forget_proofs(&format!(
            "{} reads return a value that several transactions wrote, so their source is open",
            problem.index.ambiguous_reads()
        ));
        orders.clear();
    }

    anomalies.sort_by_key(|a| a.kind);
    let levels = asked.iter().map(|&level| board.verdict(problem, level, &anomalies)).collect();
    let certificates = orders
        .into_iter()
        .filter(|(level, _)| request.certificates && asked.contains(level))
        .map(|(level, order)| (level, Certificate::CommitOrder(order)))
        .collect();
    Judgement { levels, anomalies, certificates, notes: Vec::new() }
}

/// Which questions of the weak engine the request needs answered.
fn questions(asked: &[Level], anomalies: Option<&[AnomalyKind]>) -> Questions {
    let mut q = Questions::default();
    match anomalies {
        Some(kinds) => {
            for &kind in kinds {
                match kind {
                    AnomalyKind::CyclicCo => q.cycles = true,
                    AnomalyKind::NonMonoReadCo | AnomalyKind::NonMonoReadCm => q.ask(Weak::ReadCommitted),
                    AnomalyKind::FracturedReadCo | AnomalyKind::FracturedReadCm => q.ask(Weak::ReadAtomic),
                    AnomalyKind::CoConflictCm | AnomalyKind::ConflictCm => q.ask(Weak::Causal),
                    _ => {}
                }
                for (i, guarantee) in Guarantee::ALL.into_iter().enumerate() {
                    q.guarantees[i] |= guarantee.violation() == kind;
                }
            }
        }
        None => {
            // A weaker level that everything asked for implies settles nothing by itself; one that is implied by an
            // asked level can refute it.
            for (i, level) in WEAK.into_iter().enumerate() {
                q.levels[i] = asked.iter().any(|a| a.implies(level));
            }
            for (i, level) in GUARANTEES.into_iter().enumerate() {
                q.guarantees[i] = asked.contains(&level);
            }
        }
    }
    q
}

/// True if one of these anomalies is forbidden by the level.
fn refutes(anomalies: &[Anomaly], level: Level) -> bool {
    anomalies.iter().any(|a| level.forbids(a.kind))
}

/// The verdicts so far.
#[derive(Default)]
struct Board {
    verdicts: Vec<(Level, Verdict)>,
    interrupted: bool,
}

impl Board {
    fn get(&self, level: Level) -> Option<&Verdict> {
        self.verdicts.iter().find(|(l, _)| *l == level).map(|(_, v)| v)
    }

    /// A violation outweighs a proof that looked at less.
    fn set(&mut self, level: Level, verdict: Verdict) {
        match self.verdicts.iter_mut().find(|(l, _)| *l == level) {
            Some((_, old)) if *old != Verdict::Violated => *old = verdict,
            Some(_) => {}
            None => self.verdicts.push((level, verdict)),
        }
    }

    /// Carries verdicts through the lattice.
    fn close(&mut self) {
        for (known, verdict) in self.verdicts.clone() {
            for &level in Level::ALL {
                let carried = match verdict {
                    Verdict::Holds => known.implies(level) && self.get(level).is_none(),
                    Verdict::Violated => level.implies(known),
                    Verdict::Unknown { .. } => false,
                };
                if carried {
                    self.set(level, verdict.clone());
                }
            }
        }
    }

    fn forget_proofs(&mut self, reason: &str) {
        for (_, verdict) in &mut self.verdicts {
            if *verdict == Verdict::Holds {
                *verdict = Verdict::Unknown { reason: reason.to_owned() };
            }
        }
    }

    fn verdict(&self, problem: Problem<'_>, level: Level, anomalies: &[Anomaly]) -> LevelVerdict {
        let verdict = self
            .get(level)
            .cloned()
            .unwrap_or_else(|| Verdict::Unknown { reason: unknown_reason(problem, level, self.interrupted) });
        let responsible = match verdict {
            Verdict::Violated => anomalies.iter().map(|a| a.kind).filter(|&k| level.forbids(k)).collect(),
            _ => Vec::new(),
        };
        LevelVerdict { level, by: By::Values, verdict, anomalies: responsible }
    }
}

fn unknown_reason(problem: Problem<'_>, level: Level, interrupted: bool) -> String {
    let info = level.info();
    if info.name_only {
        "name only: the model has no definition that a history could be held against".to_owned()
    } else if interrupted {
        "stopped, by an interrupt or the time limit, before this was decided".to_owned()
    } else if info.real_time && problem.history.intervals().is_none() {
        "the history has no real-time information".to_owned()
    } else {
        "no violation of a weaker level; this version does not decide the level itself".to_owned()
    }
}
