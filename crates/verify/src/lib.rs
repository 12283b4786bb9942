//! The independent re-check of verdicts.
//!
//! A checker hands over a proof with each answer; this crate looks whether it proves what it says, from the
//! raw operations. It shares no code with `anomalist-check`, nor `anomalist_history`'s index: it resolves
//! reads itself (`reading.rs`), replays executions (`execution.rs`, `visible.rs`, `mixed.rs`), follows
//! refutations step by step (`refutation.rs`) and looks up what witnesses claim (`witness.rs`). The only
//! thing trusted beside this crate is the vocabulary: which levels imply which, and which anomalies they
//! forbid.
//!
//! Everything is linear in the history and the proof, except: causal, the session guarantees and parallel
//! snapshot isolation, times sessions; read committed and read atomic, up to m^{3/2} when large writers
//! meet large readers; PL-3U, where each read-only transaction searches the part of the graph between what
//! it read and what replaced it.
//!
//! ```
//! use anomalist_level::{Certificate, Execution, Level};
//! use anomalist_testkit::mini::history;
//! use anomalist_verify::{FlawKind, Verifier};
//!
//! let skew = history("r(x,0) w(y,1) || r(y,0) w(x,1)");
//! let order = Certificate::Holds(Execution::commits(skew.txns().collect()));
//! let verifier = Verifier::new(&skew);
//! assert_eq!(verifier.certificate(Level::Causal, &order), Ok(()));
//! let flaw = verifier.certificate(Level::Serializable, &order).unwrap_err();
//! assert_eq!(flaw.kind, FlawKind::StaleRead);
//! ```

mod definition;
mod dependencies;
mod execution;
mod facts;
mod flaw;
mod levels;
mod mixed;
mod naive;
mod reading;
mod refutation;
mod stamps;
mod updates;
mod visible;
mod witness;

pub use flaw::{Flaw, FlawKind};

use anomalist_history::History;
use anomalist_level::{
    Anomaly, By, Certificate, Definitions, Judgement, Level, LevelVerdict, Mixed, Verdict,
};
use definition::Kind;
use facts::Facts;
use levels::Levels;
use reading::Reading;

/// On what terms proofs are looked at.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms {
    /// What the caller assumed about the database is taken as given.
    pub trusting: bool,
    /// Whose definitions of the weak levels count.
    pub definitions: Definitions,
}

/// Checks proofs about one history.
pub struct Verifier<'a> {
    facts: Facts<'a>,
    terms: Terms,
}

impl<'a> Verifier<'a> {
    /// Looks at the operations.
    pub fn new(history: &'a History) -> Verifier<'a> {
        Verifier { facts: Facts::new(history), terms: Terms::default() }
    }

    /// Whether to take as given what the caller assumed about the database (that keys are linearizable, in
    /// which order transactions committed …): no history shows it, so by default it proves nothing.
    pub fn trusting(self, trusting: bool) -> Verifier<'a> {
        Verifier { terms: Terms { trusting, ..self.terms }, ..self }
    }

    /// By whose definitions single proofs are checked. A judgement says itself whose it follows.
    pub fn by(self, definitions: Definitions) -> Verifier<'a> {
        Verifier { terms: Terms { definitions, ..self.terms }, ..self }
    }

    /// Does the certificate prove what it says about the level?
    pub fn certificate(&self, level: Level, certificate: &Certificate) -> Result<(), Flaw> {
        self.proof(level, certificate, self.terms)
    }

    fn proof(&self, level: Level, certificate: &Certificate, terms: Terms) -> Result<(), Flaw> {
        match certificate {
            Certificate::Holds(execution) => {
                let reading = Reading::new(&self.facts, &execution.choices)?;
                execution::check(&reading, level, &execution.order, terms.definitions)
            }
            Certificate::Violated(refutation) => {
                let certain = self.certain(level)?;
                refutation::check(&self.facts, &certain, Levels::One(level), refutation, terms)
            }
        }
    }

    /// What is known without choices.
    fn certain(&self, level: Level) -> Result<Reading<'_>, Flaw> {
        match definition::kind(level) {
            Some(Kind::Writes) => Reading::uncommitted(&self.facts, &[]),
            _ => Reading::new(&self.facts, &[]),
        }
    }

    /// Does the certificate prove what it says about the levels that transactions declare?
    pub fn mixed(&self, certificate: &Certificate) -> Result<(), Flaw> {
        let Some(levels) = levels::declared(self.facts.history) else {
            return Err(Flaw::new(FlawKind::NothingDeclared));
        };
        match certificate {
            Certificate::Holds(execution) => {
                let reading = Reading::new(&self.facts, &execution.choices)?;
                mixed::check(&reading, &levels, &execution.order)
            }
            Certificate::Violated(refutation) => {
                let certain = Reading::new(&self.facts, &[])?;
                let levels = Levels::Declared(&levels);
                // The papers do not define what a mix is.
                let terms = Terms { definitions: Definitions::Anomalist, ..self.terms };
                refutation::check(&self.facts, &certain, levels, refutation, terms)
            }
        }
    }

    /// Decides a level by trying every execution: `None` if the history is too large for that (six
    /// transactions, four where snapshots matter). For comparing other answers with.
    pub fn try_everything(&self, level: Level) -> Option<bool> {
        naive::decide(&self.facts, level, self.terms.definitions)
    }

    /// Decides the levels that transactions declare by trying every execution of up to four; `None` if
    /// there are more, or none declares a level.
    pub fn try_everything_declared(&self) -> Option<bool> {
        naive::decide_mixed(&self.facts, &levels::declared(self.facts.history)?)
    }

    /// Does the history have this anomaly, as its witness shows? (The count is not looked at.)
    pub fn anomaly(&self, anomaly: &Anomaly) -> Result<(), Flaw> {
        witness::check(&Reading::new(&self.facts, &[])?, anomaly, self.terms)
    }

    /// Does the history have this anomaly of timestamps, as its witness shows? (The count is not looked at.)
    pub fn stamps_anomaly(&self, anomaly: &Anomaly, exclusive: bool) -> Result<(), Flaw> {
        let stamped = stamps::Stamped::new(self.facts.history, exclusive);
        stamped.map_or_else(|| Err(Flaw::new(FlawKind::NotThisAnomaly)), |stamped| stamped.check(anomaly))
    }

    /// Does every violation by timestamps stand, as its witness shows, and is each verdict by timestamps
    /// made of those?
    ///
    /// `exclusive`: a snapshot does not contain what committed at its very timestamp. That a level holds by
    /// timestamps is shown, where values are unique and commits distinct, by a certificate like any other.
    pub fn stamps(&self, judgement: &Judgement, exclusive: bool) -> Result<(), Flaw> {
        let Some(stamped) = stamps::Stamped::new(self.facts.history, exclusive) else { return Ok(()) };
        for anomaly in judgement.anomalies.iter().filter(|a| a.kind.is_stamp()) {
            stamped.check(anomaly)?;
        }
        for answer in judgement.levels.iter().filter(|l| l.by == By::Timestamps) {
            let known = |kind| judgement.anomalies.iter().any(|a| a.kind == kind);
            let shown = answer.anomalies.iter().all(|&kind| known(kind) && answer.level.forbids(kind));
            if !shown || (answer.verdict == Verdict::Violated) == answer.anomalies.is_empty() {
                return Err(Flaw::new(FlawKind::Unproven(answer.level)));
            }
        }
        Ok(())
    }

    /// Does every verdict by values have its proof, and does every proof prove what it says, by the
    /// definitions that the judgement follows?
    ///
    /// A level holds if a certificate shows it of the level or of one that implies it. A level is violated
    /// if a witness shows an anomaly that it forbids, or a refutation refutes a level that it implies.
    pub fn judgement(&self, judgement: &Judgement) -> Result<(), Flaw> {
        let certain = Reading::new(&self.facts, &[])?;
        let terms = Terms { definitions: judgement.definitions, ..self.terms };
        let all = judgement.anomalies.iter().chain(&judgement.further);
        // That no order exists is shown by a refutation; a cycle beside it must be one all the same.
        let shown = |a: &&Anomaly| !a.kind.is_no_order() || !a.witness.edges.is_empty();
        for anomaly in all.filter(|a| !a.kind.is_stamp()).filter(shown) {
            witness::check(&certain, anomaly, terms)?;
        }
        for (level, certificate) in &judgement.certificates {
            self.proof(*level, certificate, terms)?;
        }
        if let Some(mixed) = &judgement.mixed {
            self.judgement_of_mixed(mixed)?;
        }
        let by_values = || judgement.levels.iter().filter(|l| l.by == By::Values);
        for answer in by_values().filter(|l| definition::kind(l.level) == Some(Kind::Writes)) {
            let certain = self.certain(answer.level)?;
            let of = |kind| judgement.anomalies.iter().find(|a| a.kind == kind && !kind.is_no_order());
            let mut blamed = answer.anomalies.iter().filter_map(|&kind| of(kind));
            blamed.try_for_each(|anomaly| witness::check(&certain, anomaly, terms))?;
        }
        by_values().try_for_each(|l| proven(judgement, l))
    }

    fn judgement_of_mixed(&self, mixed: &Mixed) -> Result<(), Flaw> {
        match (&mixed.verdict, &mixed.proof) {
            (Verdict::Unknown(_), _) => Ok(()),
            (Verdict::Holds, Some(proof @ Certificate::Holds(_)))
            | (Verdict::Violated, Some(proof @ Certificate::Violated(_))) => self.mixed(proof),
            _ => Err(Flaw::new(FlawKind::UnprovenMixture)),
        }
    }
}

/// Does a refutation of `by` refute `level`? Histories have no predicates, and without them repeatable read
/// is serializability.
fn refutes(by: Level, level: Level) -> bool {
    level.implies(by) || level == Level::RepeatableRead && by == Level::Serializable
}

/// Is there a proof for the verdict?
fn proven(judgement: &Judgement, answer: &LevelVerdict) -> Result<(), Flaw> {
    let level = answer.level;
    let proofs = || judgement.certificates.iter();
    let proven = match answer.verdict {
        Verdict::Unknown(_) => true,
        // Elle's further models have no definition here.
        Verdict::Holds if !level.is_canonical() => true,
        Verdict::Holds => {
            proofs().any(|(by, proof)| matches!(proof, Certificate::Holds(_)) && by.implies(level))
        }
        Verdict::Violated => {
            for &kind in &answer.anomalies {
                let known = judgement.anomalies.iter().any(|a| a.kind == kind);
                if !known || !level.forbids(kind) {
                    return Err(Flaw::new(FlawKind::NotForbidden(level)));
                }
            }
            // That no order exists is shown by a refutation alone.
            answer.anomalies.iter().any(|&kind| !kind.is_no_order())
                || proofs()
                    .any(|(by, proof)| matches!(proof, Certificate::Violated(_)) && refutes(*by, level))
        }
    };
    if proven { Ok(()) } else { Err(Flaw::new(FlawKind::Unproven(level))) }
}
