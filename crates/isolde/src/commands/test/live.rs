//! What one sees while a run goes on: transactions per second, aborts, faults, anomalies so far.
//!
//! Anomalies are counted by checking what has been written of the history, now and then: for at most a second, and with five
//! times as long a pause, so that the check does not compete with the database. On a terminal only; they come first, because a narrow
//! one cuts the end off.

use super::flags::Flags;
use super::folder::RunFolder;
use super::judge;
use crate::cli::Global;
use crate::interrupt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use isolde_driver::client::{Control, Limit};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
        let (mut before, mut rate) = (0, 0.0);
        let mut anomalies = String::new();
        let mut next_glance = Duration::from_secs(2);
        while !self.over.load(Relaxed) {
            std::thread::park_timeout(TICK);
            if interrupt::is_requested() {
                control.stop.store(true, Relaxed);
            }
            let Some(bar) = &self.bar else { continue };
            let tally = &control.tally;
            let finished = tally.finished();
            let fresh = (finished - before) as f64 / TICK.as_secs_f64();
            rate = if before == 0 { fresh } else { rate * 0.8 + fresh * 0.2 };
            before = finished;
            let elapsed = since.elapsed();
            if elapsed >= next_glance && finished > 0 {
                let glance = Instant::now();
                anomalies = self.glance();
                next_glance = since.elapsed() + glance.elapsed() * 5 + GLANCE;
            }
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
            let (aborted, unknown) = (tally.aborted.load(Relaxed), tally.indeterminate.load(Relaxed));
            let faults = match tally.faults.load(Relaxed) {
                0 => String::new(),
                n => format!(", {n} faults"),
            };
            let online = match tally.violations.load(Relaxed) {
                0 => String::new(),
                n => format!(", {n} violations by timestamps"),
            };
            bar.set_message(format!(
                "{}: {anomalies}{left}, {rate:.0}/s, {aborted} aborted, {unknown} unknown{faults}{online}",
                self.head
            ));
            bar.tick();
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn glance(&self) -> String {
        // An incomplete last line or an empty file is nothing to report: the real check comes at the end.
        let Ok(judged) = judge::file(&self.history, &[], Some(GLANCE), &self.global) else {
            return String::new();
        };
        let found: Vec<&str> = judged.judgement.anomalies.iter().map(|a| a.kind.code()).collect();
        if found.is_empty() {
            "no anomaly so far; ".to_owned()
        } else {
            format!("{} so far; ", found.join(" "))
        }
    }

    /// The run is over.
    pub fn end(&self) {
        self.over.store(true, Relaxed);
    }
}
