//! What one sees while a run goes on: transactions per second, aborts, faults, anomalies so far.
//!
//! Anomalies are counted by checking what has been written of the history, now and then: for at most a
//! second, and with five times as long a pause, so that the check does not compete with the database. On a
//! terminal only; they come first, because a narrow one cuts the end off. Drawing, and listening to Ctrl-C,
//! does not wait for a check.

use super::flags::Flags;
use super::folder::RunFolder;
use super::judge;
use crate::cli::Global;
use crate::{interrupt, supervised};
use anomalist_client::{Control, Limit};
use anomalist_level::{AnomalyKind, Level};
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
            let left = match self.limit {
                Limit::Transactions(n) => format!("{finished}/{n} transactions"),
                Limit::Time(time) => {
                    format!(
                        "{finished} transactions, {:.0}/{:.0} s",
                        elapsed.as_secs_f64(),
                        time.as_secs_f64()
                    )
                }
            };
            let faults = match tally.faults.load(Relaxed) {
                0 => String::new(),
                n => format!(", {n} faults"),
            };
            let online = match tally.violations.load(Relaxed) {
                0 => String::new(),
                n => format!("{n} violations by timestamps; "),
            };
            let (aborted, unknown) = (tally.aborted.load(Relaxed), tally.indeterminate.load(Relaxed));
            let anomalies = kinds.as_deref().map_or_else(String::new, reported);
            let needed = format!("{anomalies}{online}{rate:.0}/s, {aborted} aborted{faults}");
            bar.set_message(fitted(&self.head, &needed, &format!("{unknown} unknown, {left}"), columns()));
            bar.tick();
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
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
        (1, Some(only)) => format!("{} so far; ", only.code()),
        (n, Some(worst)) => format!("{n} kinds, worst {}; ", worst.code()),
        (_, None) => "no anomaly so far; ".to_owned(),
    }
}

fn columns() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| width.0.into())
}

/// The line for a terminal that cuts the end off: the head is left out if what is needed would not fit
/// behind it.
fn fitted(head: &str, needed: &str, more: &str, columns: usize) -> String {
    match head.chars().count() + 2 + needed.chars().count() <= columns {
        true => format!("{head}: {needed}, {more}"),
        false => format!("{needed}, {more}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_anomaly_is_named() {
        assert_eq!(reported(&[]), "no anomaly so far; ");
        assert_eq!(reported(&[AnomalyKind::G2Item]), "G2-item so far; ");
        let several = [AnomalyKind::G2Item, AnomalyKind::G1c, AnomalyKind::GSingleItem];
        assert_eq!(reported(&several), "3 kinds, worst G1c; ");
    }

    #[test]
    fn what_is_needed_fits_in_80_columns() {
        let head = "REPEATABLE READ with innodb_snapshot_isolation";
        let kinds = [AnomalyKind::GNonadjacentItemRealtime, AnomalyKind::G2ItemRealtime];
        let needed = format!("{}123456/s, 123456 aborted, 123 faults", reported(&kinds));
        assert!(
            fitted(head, &needed, "7 unknown", 80).chars().take(80).collect::<String>().contains(&needed)
        );
        assert_eq!(fitted("SQLite", "1/s", "0 unknown", 80), "SQLite: 1/s, 0 unknown");
    }
}
