//! What the engines have found, and the answer that it makes.
//!
//! The lattice does the rest: a level that holds carries every level it implies, a violated level takes down
//! every level that implies it.

use crate::Request;
use crate::view::CommittedView;
use anomalist_history::{Outcome, TxnId};
use anomalist_level::{
    Anomaly, AnomalyKind, By, Certificate, Definitions, Execution, Judgement, Level, LevelVerdict,
    Refutation, Sought, Verdict, Why,
};

/// What a reader should know of Plume's definitions.
const BY_PLUME: &str = "cut-isolation, read-committed, read-atomic, causal and TAP-a to TAP-n follow the letter of Plume's paper";

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
    pub(super) sought: Vec<(AnomalyKind, Sought)>,
    verdicts: Vec<(Level, Verdict)>,
    proofs: Vec<(Level, Certificate)>,
    /// Proofs are wanted.
    certificates: bool,
    /// Why levels are not decided.
    reasons: Vec<(Level, Why)>,
    notes: Vec<String>,
    /// Levels that were decided on the way to others: whether an order satisfies them.
    beside: Vec<(Level, bool)>,
    /// The budget ran out before an engine was done.
    pub(crate) interrupted: bool,
}

impl<'a> JudgementBuilder<'a> {
    /// Nothing is found yet.
    pub(super) fn new(request: &'a Request) -> JudgementBuilder<'a> {
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
            beside: Vec::new(),
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
            Some(known) => {
                known.count += anomaly.count;
                known.places.extend(anomaly.places);
                known.places.sort_unstable();
                known.places.dedup();
            }
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

    /// Notes whether an order satisfies a level that another level was decided by. There is no proof, so it
    /// decides nothing else.
    pub fn beside(&mut self, level: Level, ordered: bool) {
        self.beside.push((level, ordered));
    }

    /// What is known of levels that were not asked for.
    fn beyond(&self, asked: &[Level]) -> Vec<(Level, Verdict)> {
        let settled = self.verdicts.iter().filter(|(level, _)| self.is_settled(*level)).cloned();
        let beside = self.beside.iter().map(|&(level, ordered)| {
            let holds = ordered && !self.is_broken(level);
            (level, if holds { Verdict::Holds } else { Verdict::Violated })
        });
        settled.chain(beside).filter(|(level, _)| !asked.contains(level)).collect()
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
            beside: Vec::new(),
            interrupted: true,
        };
        copy.judgement(view, asked, false)
    }

    /// The same as long as what holds may yet turn out not to: violations alone.
    pub(super) fn refuted(&self, view: CommittedView<'_>, asked: &[Level]) -> Judgement {
        let mut judgement = self.known(view, asked);
        for l in judgement.levels.iter_mut().filter(|l| l.verdict == Verdict::Holds) {
            l.verdict = Verdict::Unknown(Why::Stopped);
        }
        judgement
    }

    /// Takes back what was proven: something has not been looked for.
    pub(super) fn forget_proofs(&mut self, why: &Why) {
        self.proofs.retain(|(_, proof)| matches!(proof, Certificate::Violated(_)));
        for (_, verdict) in &mut self.verdicts {
            if *verdict == Verdict::Holds {
                *verdict = Verdict::Unknown(why.clone());
            }
        }
    }

    /// The answer.
    pub(super) fn judgement(
        mut self,
        view: CommittedView<'_>,
        asked: &[Level],
        certificates: bool,
    ) -> Judgement {
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
        let beyond = self.beyond(asked);
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
            beyond,
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
