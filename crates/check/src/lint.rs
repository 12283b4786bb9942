//! Lint for histories: recording mistakes, and what a history could not have shown.
//!
//! A passing verdict says little if the run had no contention, and a failing one says little if the
//! recorder was wrong. The rules are folklore of the field (Jepsen's `fail` and `info`, unique values, one
//! clock); `recording.rs` looks for mistakes, `coverage.rs` for anomalies that had no chance to appear.
//! Each rule is one linear pass; none decides a level.
//!
//! ```
//! use anomalist_check::lint::{Severity, lint};
//! use anomalist_history::{Builder, Indexed, OpKind};
//! let mut b = Builder::new();
//! let one = b.int(1);
//! let (key, session) = (b.key(one), b.session(one));
//! let t = b.transaction(session);
//! b.op(t, OpKind::Write, key, one);
//! let history = b.finish()?;
//! let findings = lint(&Indexed::new(&history, 1.try_into()?));
//! assert!(findings.iter().any(|f| f.code == "single-session" && f.severity == Severity::Note));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod coverage;
mod recording;

use anomalist_history::{History, Indexed, TxnId};

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Probably a mistake of the recorder: verdicts may be about it instead of the database.
    Warning,
    /// Something this history could not have shown, however bad the database.
    Note,
}

impl Severity {
    /// The word for it: `warning`, `note`.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// Something worth knowing about a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Its name, for scripts.
    pub code: &'static str,
    /// How many times; 0 where something is missing altogether.
    pub count: u64,
    /// What was found, in a sentence.
    pub message: String,
    /// The first transaction concerned.
    pub example: Option<TxnId>,
    /// What to do about it.
    pub advice: &'static str,
}

/// All findings, warnings first.
pub fn lint(indexed: &Indexed<'_>) -> Vec<Finding> {
    let (history, index) = (indexed.history(), indexed.index());
    let mut findings = Vec::new();
    recording::look(history, index, &mut findings);
    coverage::look(history, index, &mut findings);
    findings.sort_by_key(|f| f.severity);
    findings
}

/// Why whatever holds of a history holds without having been put to the test, if no write was ever read: a
/// note to stand beside the verdict.
pub fn vacuity(history: &History) -> Option<&'static str> {
    coverage::vacuity(history)
}

/// Counts instances of one finding and keeps the first.
#[derive(Default)]
struct Tally {
    count: u64,
    first: Option<(TxnId, String)>,
}

impl Tally {
    /// One more; `what` describes the instance and is only asked for the first.
    fn add(&mut self, t: TxnId, what: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(|| (t, what()));
    }

    /// The finding, if there was an instance. `message` is given the number.
    fn report(
        self,
        history: &History,
        code: &'static str,
        advice: &'static str,
        message: impl FnOnce(u64) -> String,
        findings: &mut Vec<Finding>,
    ) {
        let Some((t, what)) = self.first else { return };
        let line = history.line(t).map_or(String::new(), |line| format!(" (line {line})"));
        let first = if self.count == 1 { "" } else { "first " };
        let message =
            format!("{}: {first}{what} in transaction {}{line}", message(self.count), history.txn_name(t));
        findings.push(Finding {
            severity: Severity::Warning,
            code,
            count: self.count,
            message,
            example: Some(t),
            advice,
        });
    }
}

/// `1 read`, `2 reads`.
fn number(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_testkit::mini::history;

    fn codes(text: &str) -> Vec<&'static str> {
        let history = history(text);
        let indexed = Indexed::new(&history, 1.try_into().unwrap());
        lint(&indexed).into_iter().map(|f| f.code).collect()
    }

    #[track_caller]
    fn finds(text: &str, code: &str) {
        assert!(codes(text).contains(&code), "{text}: {:?}", codes(text));
    }

    #[test]
    fn a_good_recording_has_no_findings_but_real_time() {
        let text = "r(x,0) w(x,1) w(y,1); r(x,1) r(y,2) w(z,1) || r(y,1) w(y,2) w(x,2) || w(x,9) !abort";
        assert_eq!(codes(text), ["no-real-time"]);
    }

    #[test]
    fn each_recording_mistake_is_found() {
        finds("w(x,1) || w(x,1)", "duplicate-writes");
        finds("w(x,1) !abort || r(x,1)", "aborted-write-observed");
        finds("r(x,7)", "thin-air-read");
        finds("r(x,?)", "read-without-result");
        finds("w(x,1) !info || w(x,2) !info", "many-indeterminate");
        finds("nop || w(x,1)", "empty-transaction");
        finds("w(x,1) !info; r(x,0) || r(x,1)", "session-goes-on");
        finds("w(x,1); r(x,0)", "initial-read-after-own-write");
        finds("w(x,0)", "write-of-initial-value");
    }

    #[test]
    fn each_gap_in_coverage_is_found() {
        for code in ["single-session", "one-operation-transactions", "no-read-modify-write"] {
            finds("w(x,1); r(x,1)", code);
        }
        finds("w(x,1)", "no-reads");
        finds("r(x,0)", "no-writes");
        finds("w(x,1) || w(y,1)", "no-write-contention");
        finds("w(x,1) || r(y,0)", "no-reads-across-sessions");
        finds("w(x,1) r(x,1) || w(x,2)", "no-multi-key-reads");
        finds("w(x,1) || w(x,2)", "no-multi-key-writes");
        finds("w(x,1) || w(x,2)", "no-failures-recorded");
        finds("w(x,1) || w(x,2)", "values-never-read");
    }

    #[test]
    fn a_finding_names_its_first_example() {
        let history = history("t1: w(x,1) || t2: w(x,1) || t3: w(x,1)");
        let indexed = Indexed::new(&history, 1.try_into().unwrap());
        let finding = &lint(&indexed)[0];
        assert_eq!(
            finding.message,
            "1 value was written to its key more than once: x = 1, 3 times, in transaction t1"
        );
        assert_eq!(finding.example, Some(TxnId(0)));
    }
}
