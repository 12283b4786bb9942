//! What verdicts rest on: values, the timestamps that the database gave its transactions, or both.
//!
//! Timestamps decide four levels: snapshot isolation and serializability, each with and without session
//! order. Other levels are judged by values.

use crate::error::Error;
use crate::judging::Question;
use anomalist_history::History;
use anomalist_level::Budget;
use anomalist_level::{AnomalyKind, By, Judgement, Level, Verdict};
use anomalist_timestamp::offline::{self, ByStamps, Findings};
use anomalist_timestamp::{Mode, Tie};
use anomalist_verify::{Flaw, Verifier};
use std::num::NonZeroUsize;

/// What verdicts rest on. By default: timestamps for the levels that they decide, where the history has
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Basis {
    /// What was read and written.
    Values,
    /// The database's timestamps as well.
    Timestamps,
    /// Each by itself, and where they differ.
    Both,
}

/// Which levels are judged by what.
pub struct Split {
    /// By values; none, if nothing is. An empty list: all.
    pub values: Option<Vec<Level>>,
    stamps: Vec<Level>,
    tie: Tie,
    both: bool,
}

impl Split {
    /// Divides the levels asked for (none: all). Assumptions from commit timestamps are about values.
    /// Anomalies that timestamps do not speak of are looked for by values.
    pub fn new(history: &History, question: &Question) -> Result<Split, Error> {
        let Question { levels, anomalies, by, tie, inference, .. } = question;
        let stamped = history.stamps().is_some();
        let usual = if stamped && !inference.commit_stamps { Basis::Timestamps } else { Basis::Values };
        let basis = by.unwrap_or(usual);
        if basis != Basis::Values && !stamped {
            return Err(Error::NoTimestamps);
        }
        let asked = if levels.is_empty() { Level::CANONICAL } else { levels };
        let (stamps, others): (Vec<Level>, Vec<Level>) =
            asked.iter().partition(|&&level| Mode::of(level).is_some());
        let by_values = anomalies.iter().any(|kind| !kind.is_stamp());
        let others = if levels.is_empty() && !by_values { Vec::new() } else { others };
        let (values, stamps) = match basis {
            Basis::Values => (Some(levels.clone()), Vec::new()),
            Basis::Both => (Some(levels.clone()), stamps),
            Basis::Timestamps => ((!others.is_empty()).then_some(others), stamps),
        };
        Ok(Split { values, stamps, tie: *tie, both: basis == Basis::Both })
    }

    /// A snapshot does not contain what committed at its very timestamp.
    pub fn is_exclusive(&self) -> bool {
        self.tie == Tie::Exclusive
    }

    /// Judges by timestamps what is to be judged by them, and adds that to the judgement by values.
    pub fn judge(
        &self,
        history: &History,
        by_values: Option<Judgement>,
        anomalies: Option<Vec<AnomalyKind>>,
        certificates: bool,
        threads: NonZeroUsize,
        budget: &Budget<'_>,
    ) -> (Judgement, Vec<(Mode, Findings)>) {
        let mut judgement = by_values.unwrap_or_default();
        if self.stamps.is_empty() {
            return (judgement, Vec::new());
        }
        let request = ByStamps { levels: self.stamps.clone(), anomalies, tie: self.tie, threads };
        let Some((by_stamps, found)) = offline::judge(history, &request, budget) else {
            return (judgement, Vec::new());
        };
        for l in by_stamps.levels.iter().filter(|l| certificates && l.verdict == Verdict::Holds) {
            let proof = offline::certificate(history, l.level, self.tie);
            judgement.certificates.extend(proof.map(|proof| (l.level, proof)));
        }
        if self.both {
            judgement.notes.extend(differences(&judgement, &by_stamps));
        }
        judgement.levels.extend(by_stamps.levels);
        judgement.levels.sort_by_key(|l| (l.level, l.by));
        judgement.anomalies.extend(by_stamps.anomalies);
        judgement.anomalies.sort_by_key(|a| a.kind);
        judgement.notes.extend(by_stamps.notes);
        (judgement, found)
    }
}

/// Looks whether verdicts by timestamps are proven.
pub fn verify(history: &History, judgement: &Judgement, exclusive: bool) -> Result<(), Flaw> {
    let verifier = Verifier::new(history);
    verifier.stamps(judgement, exclusive)?;
    let holds = judgement.levels.iter().filter(|l| l.by == By::Timestamps && l.verdict == Verdict::Holds);
    holds.into_iter().try_for_each(|l| {
        // The last of a level is the one by timestamps.
        let proof = judgement.certificates.iter().rev().find(|(level, _)| *level == l.level);
        proof.map_or(Ok(()), |(level, proof)| verifier.certificate(*level, proof))
    })
}

/// Where values and timestamps disagree.
fn differences(by_values: &Judgement, by_stamps: &Judgement) -> Vec<String> {
    let mut notes = Vec::new();
    let named = |l: Level, verdict: &Verdict| format!("{l} {}", verdict.name());
    let differing = |values: &Verdict, stamps: &Verdict| -> Vec<Level> {
        let differs =
            |l: &Level| by_values.verdict(*l) == Some(values) && by_stamps.verdict(*l) == Some(stamps);
        by_stamps.levels.iter().map(|l| l.level).filter(differs).collect()
    };
    let list = |levels: &[Level]| levels.iter().map(|l| l.name()).collect::<Vec<_>>().join(", ");
    let only_values = differing(&Verdict::Holds, &Verdict::Violated);
    if !only_values.is_empty() {
        notes.push(format!(
            "{}: some order of the transactions explains every value read, but it is not the order of their \
             timestamps. Holds by values, violated by timestamps.",
            list(&only_values)
        ));
    }
    let only_stamps = differing(&Verdict::Violated, &Verdict::Holds);
    if !only_stamps.is_empty() {
        notes.push(format!(
            "{}: violated by values, although it holds by timestamps: equal timestamps were given the benefit of the doubt \
             in different ways.",
            list(&only_stamps)
        ));
    }
    for l in &by_stamps.levels {
        if let (Some(Verdict::Unknown(_)), Verdict::Holds) = (by_values.verdict(l.level), &l.verdict) {
            notes.push(format!(
                "{} by timestamps: by values that was not decided.",
                named(l.level, &l.verdict)
            ));
        }
    }
    notes
}
