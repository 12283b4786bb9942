//! The answer: verdicts, anomalies, proofs, as text and as JSON.

use crate::history::History;
use anomalist_level::{Anomaly, Judgement, Level, Verdict};
use anomalist_report::{Outcome, Style, Subject, Timing};
use anomalist_timestamp::Mode;
use anomalist_timestamp::offline::Findings;
use serde_core::{Serialize, Serializer};
use std::fmt;

/// What was found out about a history.
///
/// It displays as `anomalist check` prints it, and serialises as its JSON.
#[derive(Debug)]
pub struct Answer<'h> {
    pub(crate) history: &'h History,
    pub(crate) found: Found,
}

/// An answer without the history that it is about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Found {
    /// Verdicts, anomalies, proofs.
    pub judgement: Judgement,
    /// What contradicts the timestamps, listed.
    pub violations: Vec<(Mode, Findings)>,
    /// How long it took.
    pub timing: Timing,
    /// The levels that must hold.
    pub required: Vec<Level>,
    /// What transactions declare must hold too.
    pub declared: bool,
    /// The caller ended it before everything was decided.
    pub stopped: bool,
}

impl Found {
    /// What was found out elsewhere about the levels that must hold, and others.
    pub fn new(
        judgement: Judgement,
        violations: Vec<(Mode, Findings)>,
        timing: Timing,
        required: Vec<Level>,
    ) -> Found {
        Found { judgement, violations, timing, required, declared: false, stopped: false }
    }

    /// With its history, for reports.
    pub fn subject<'a>(&'a self, history: &'a History) -> Subject<'a> {
        Subject {
            history: history.transactions(),
            facts: history.facts(),
            judgement: &self.judgement,
            timing: Some(self.timing),
            required: &self.required,
            declared: self.declared,
            stopped: self.stopped,
        }
    }
}

impl<'h> Answer<'h> {
    /// Whether every required level holds. If no level was required, but anomalies were asked for: whether
    /// there are none.
    pub fn outcome(&self) -> Outcome {
        self.subject().outcome()
    }

    /// The verdict on a level, if it was asked about.
    pub fn verdict(&self, level: Level) -> Option<&Verdict> {
        self.found.judgement.verdict(level)
    }

    /// The anomalies found, an example of each.
    pub fn anomalies(&self) -> &[Anomaly] {
        &self.found.judgement.anomalies
    }

    /// Everything that was found out.
    pub fn judgement(&self) -> &Judgement {
        &self.found.judgement
    }

    /// With its history, for the reports of [`core::report`](crate::core::report).
    pub fn subject(&self) -> Subject<'_> {
        self.found.subject(self.history)
    }

    /// The same without the history.
    pub fn into_found(self) -> Found {
        self.found
    }

    /// As JSON, as `anomalist check --json` prints it.
    pub fn to_json(&self) -> String {
        anomalist_report::json_text(&[self.subject()])
    }

    /// Panics with the explanation unless what was required holds.
    ///
    /// # Panics
    ///
    /// If a required level is violated or unknown.
    #[track_caller]
    pub fn assert(&self) {
        assert!(self.outcome() == Outcome::Holds, "{self}");
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&anomalist_report::text(&self.subject(), &Style::default()))
    }
}

impl Serialize for Answer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        anomalist_report::document(&self.subject()).serialize(serializer)
    }
}
