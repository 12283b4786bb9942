//! What one sees while a run goes on: transactions per second, aborts, faults, anomalies so far.
//!
//! Anomalies are counted by checking what has been written of the history, now and then: for at most a
//! second, and with five times as long a pause, so that the check does not compete with the database. On a
//! terminal only; what does not fit is left out, the least important first. Drawing, and listening to
//! Ctrl-C, does not wait for a check.

use super::flags::Flags;
use super::folder::RunFolder;
use super::judge;
use crate::cli::Global;
use crate::{interrupt, supervised};
use anomalist_client::{Control, Limit, Tally};
use anomalist_level::{AnomalyKind, Level};
use anomalist_report::thousands;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How often the line changes.
const TICK: Duration = Duration::from_millis(200);
/// How long a check on the way may take.
const GLANCE: Duration = Duration::from_secs(1);

pub struct Live {
    bar: Option<ProgressBar>,
    head: String,
    history: PathBuf,
    limit: Limit,
    global: Global,
    over: AtomicBool,
}

impl Live {
    pub fn new(global: &Global, head: &str, folder: &RunFolder, flags: &Flags) -> Live {
        let wanted = !global.quiet && std::io::stderr().is_terminal();
        let bar = wanted.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            // A template that does not parse would be a bug that only costs the looks.
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Live {
            bar,
            head: head.to_owned(),
            history: folder.history(),
            limit: flags.limit(),
            global: Global { quiet: true, ..global.clone() },
            over: AtomicBool::new(false),
        }
    }

    /// Draws until the run is over, and stops it when the user wants that.
    pub fn watch(&self, control: &Control) {
        let since = Instant::now();
        let (mut before, mut rate, mut looked) = (0, 0.0, since);
        let mut kinds: Option<Vec<AnomalyKind>> = None;
        let mut glance: Option<(Instant, Receiver<Vec<AnomalyKind>>)> = None;
        let mut next_glance = Duration::from_secs(2);
        while !self.over.load(Relaxed) {
            std::thread::park_timeout(TICK);
            if interrupt::is_requested() {
                control.stop.store(true, Relaxed);
            }
            if self.bar.is_none() && !supervised::is_on() {
                continue;
            }
            let tally = &control.tally;
            let finished = tally.finished();
            let fresh = (finished - before) as f64 / looked.elapsed().as_secs_f64().max(1e-3);
            rate = if before == 0 { fresh } else { rate * 0.8 + fresh * 0.2 };
            (before, looked) = (finished, Instant::now());
            let elapsed = since.elapsed();
            match &glance {
                Some((begun, found)) => {
                    if let Ok(found) = found.try_recv() {
                        kinds = Some(found);
                        next_glance = elapsed + begun.elapsed() * 5 + GLANCE;
                        glance = None;
                    }
                }
                None if elapsed >= next_glance && finished > 0 => {
                    glance = Some((Instant::now(), self.glance()));
                }
                None => {}
            }
            self.report(control, rate, elapsed, kinds.as_deref());
            let Some(bar) = &self.bar else { continue };
            let anomalies = kinds.as_deref().map_or_else(String::new, reported);
            bar.set_message(self.line(tally, &anomalies, rate, elapsed, columns()));
            bar.tick();
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The line of this moment.
    fn line(&self, tally: &Tally, anomalies: &str, rate: f64, elapsed: Duration, columns: usize) -> String {
        let counted = |count: u64, what: &str| {
            if count > 0 { format!("{} {what}", thousands(count)) } else { String::new() }
        };
        let finished = tally.finished();
        let (done, left) = match self.limit {
            Limit::Transactions(n) => {
                let left = n.saturating_sub(finished) as f64 / rate.max(1e-3);
                (format!("{}/{}", thousands(finished), thousands(n)), left)
            }
            Limit::Time(time) => {
                (format!("{} transactions", thousands(finished)), time.saturating_sub(elapsed).as_secs_f64())
            }
        };
        let left = if left < 36_000.0 { format!("{left:.0} s left") } else { String::new() };
        // The most important first; the head is left out before what it heads.
        let parts = [
            anomalies.to_owned(),
            counted(tally.violations.load(Relaxed), "violations by timestamps"),
            format!("{}/s", thousands(rate as u64)),
            left,
            done,
            counted(tally.faults.load(Relaxed), "faults"),
            format!("{} aborted", thousands(tally.aborted.load(Relaxed))),
            counted(tally.indeterminate.load(Relaxed), "unknown"),
        ];
        fitted(&self.head, &parts, columns)
    }

    /// Looks at what has been written so far, on a thread of its own.
    fn glance(&self) -> Receiver<Vec<AnomalyKind>> {
        let (sender, found) = channel();
        let (history, global) = (self.history.clone(), self.global.clone());
        std::thread::spawn(move || {
            // An incomplete last line or an empty file is nothing to report: the real check comes at the
            // end.
            let judged = judge::unfinished(&history, GLANCE, &global);
            // A transaction is written when it has ended, so some that others have read from are not there
            // yet: a value that no transaction wrote says nothing.
            let kinds = |judged: judge::Judged| {
                let all = judged.found.judgement.anomalies.iter().map(|a| a.kind);
                all.filter(|&kind| kind != AnomalyKind::ThinAirRead).collect()
            };
            _ = sender.send(judged.map_or_else(|_| Vec::new(), kinds));
        });
        found
    }

    /// The same for a supervisor.
    fn report(&self, control: &Control, rate: f64, elapsed: Duration, kinds: Option<&[AnomalyKind]>) {
        if !supervised::is_on() {
            return;
        }
        let tally = &control.tally;
        let (of, of_ms) = match self.limit {
            Limit::Transactions(n) => (Some(n), None),
            Limit::Time(time) => (None, Some(time.as_millis() as u64)),
        };
        let codes = kinds.map(|kinds| kinds.iter().map(|kind| kind.code()).collect::<Vec<_>>());
        supervised::report(json!({
            "what": self.head, "done": tally.finished(), "of": of, "of_ms": of_ms, "rate": rate,
            "elapsed_ms": elapsed.as_millis() as u64, "aborted": tally.aborted.load(Relaxed),
            "unknown": tally.indeterminate.load(Relaxed), "faults": tally.faults.load(Relaxed),
            "violations": tally.violations.load(Relaxed), "anomalies": codes,
        }));
    }

    /// The run is over.
    pub fn end(&self) {
        self.over.store(true, Relaxed);
    }
}

/// Kinds of anomaly in what has been written so far: how many, and the worst, which most levels forbid.
fn reported(kinds: &[AnomalyKind]) -> String {
    let forbidding = |kind: &AnomalyKind| Level::ALL.iter().filter(|level| level.forbids(*kind)).count();
    match (kinds.len(), kinds.iter().max_by_key(|kind| forbidding(kind))) {
        (1, Some(only)) => format!("{} so far", only.code()),
        (n, Some(worst)) => format!("{n} kinds (worst {})", worst.code()),
        (_, None) => "no anomaly so far".to_owned(),
    }
}

fn columns() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| width.0.into())
}

/// As many parts as fit, and the head if it fits with all of them.
fn fitted(head: &str, parts: &[String], columns: usize) -> String {
    let width = |text: &str| text.chars().count();
    let mut line = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let gap = if line.is_empty() { "" } else { ", " };
        if width(&line) + gap.len() + width(part) < columns {
            line.push_str(gap);
            line.push_str(part);
        }
    }
    let with_head = format!("{head}: {line}");
    if width(&with_head) < columns { with_head } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_anomaly_is_named() {
        assert_eq!(reported(&[]), "no anomaly so far");
        assert_eq!(reported(&[AnomalyKind::G2Item]), "G2-item so far");
        let several = [AnomalyKind::G2Item, AnomalyKind::G1c, AnomalyKind::GSingleItem];
        assert_eq!(reported(&several), "3 kinds (worst G1c)");
    }

    #[test]
    fn parts_are_whole_or_left_out() {
        let head = "REPEATABLE READ with innodb_snapshot_isolation";
        let kinds = [AnomalyKind::GNonadjacentItemRealtime, AnomalyKind::G2ItemRealtime];
        let parts = [
            reported(&kinds),
            String::new(),
            "123,456/s".to_owned(),
            "17 s left".to_owned(),
            "12,345,678/100,000,000".to_owned(),
            "1,234,567 aborted".to_owned(),
            "7 unknown".to_owned(),
        ];
        for columns in 20..200 {
            let line = fitted(head, &parts, columns);
            assert!(line.chars().count() < columns, "{columns}: {line}");
            let shown = line.strip_prefix(head).map_or(line.as_str(), |rest| &rest[2..]);
            assert!(
                shown.is_empty() || shown.split(", ").all(|part| parts.iter().any(|p| p == part)),
                "{line}"
            );
        }
        assert!(
            fitted(head, &parts, 80).ends_with("123,456/s, 17 s left, 7 unknown"),
            "{}",
            fitted(head, &parts, 80)
        );
        assert_eq!(
            fitted("SQLite", &["1/s".to_owned(), "0 aborted".to_owned()], 80),
            "SQLite: 1/s, 0 aborted"
        );
    }
}
