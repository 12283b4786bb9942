//! Progress on long work: on standard error, on a terminal only, and not before the work has taken a while.

use crate::cli::Global;
use crate::supervised;
use anomalist_report::thousands;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde_json::json;
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often a supervisor hears of it, in milliseconds.
const REPORT: u64 = 200;
/// How often a spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// Columns for the text beside a bar, and beside a spinner, on a terminal of 60.
const BESIDE_BAR: usize = 24;
const BESIDE_SPINNER: usize = 44;

/// A bar that appears when the work turns out to be long.
pub struct Progress {
    bar: ProgressBar,
    since: Instant,
    wanted: bool,
    /// A supervisor wants to hear of it.
    reported: bool,
    shown: AtomicBool,
    /// When the supervisor hears of it next, in milliseconds.
    report: AtomicU64,
}

impl Progress {
    /// Counts bytes of an input, or shows that something goes on where their number is unknown.
    pub fn bytes(global: &Global, what: &str, total: Option<u64>) -> Progress {
        let template = match total {
            Some(_) => "{msg} {wide_bar} {percent}% {decimal_bytes_per_sec} {eta} left",
            None => "{msg} {spinner} {decimal_bytes} {decimal_bytes_per_sec} {elapsed}",
        };
        Progress::new(global, what, total, template)
    }

    /// Counts transactions.
    pub fn transactions(global: &Global, what: &str, total: u64) -> Progress {
        Progress::new(global, what, Some(total), "{msg} {wide_bar} {human_pos} {rate} {eta} left")
    }

    /// Shows that something goes on, as long as [`Progress::pulse`] is called now and then.
    pub fn spinner(global: &Global, what: &str) -> Progress {
        Progress::new(global, what, None, "{msg} {spinner} {elapsed}")
    }

    fn new(global: &Global, what: &str, total: Option<u64>, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        // A template that does not parse would be a bug that only costs the looks.
        if let Ok(style) = ProgressStyle::with_template(template) {
            // Whole transactions: the library's own rate has four digits after the point.
            bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
                _ = write!(out, "{}/s", thousands(state.per_sec() as u64));
            }));
        }
        bar.set_message(shortened(what, if total.is_some() { BESIDE_BAR } else { BESIDE_SPINNER }));
        let wanted = !global.quiet && std::io::stderr().is_terminal();
        let reported = !global.quiet && supervised::is_on();
        Progress {
            bar,
            since: Instant::now(),
            wanted,
            reported,
            shown: AtomicBool::new(false),
            report: AtomicU64::new(0),
        }
    }

    /// So much is done.
    pub fn at(&self, position: u64) {
        self.report(Some(position));
        if self.is_shown() {
            self.bar.set_position(position);
        }
    }

    /// What is being done.
    pub fn phase(&self, what: &str) {
        self.bar.set_message(shortened(what, BESIDE_SPINNER));
    }

    /// The work goes on.
    pub fn pulse(&self) {
        self.report(None);
        if !self.shown.load(Relaxed) && self.is_shown() {
            self.bar.enable_steady_tick(TICK);
        }
    }

    /// Lets a supervisor know, now and then.
    fn report(&self, position: Option<u64>) {
        let now = self.since.elapsed().as_millis() as u64;
        if self.reported && now >= self.report.load(Relaxed) {
            self.report.store(now + REPORT, Relaxed);
            supervised::report(
                json!({"what": self.bar.message(), "done": position, "of": self.bar.length()}),
            );
        }
    }

    /// True once the work has taken long enough; shows the bar then.
    fn is_shown(&self) -> bool {
        if !self.wanted {
            return false;
        }
        if !self.shown.load(Relaxed) {
            if self.since.elapsed() < PATIENCE {
                return false;
            }
            self.shown.store(true, Relaxed);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        true
    }
}

/// The verb and the end of a text that is too long.
fn shortened(what: &str, longest: usize) -> String {
    let long = what.chars().count().saturating_sub(longest);
    let (verb, rest) = what.split_once(' ').unwrap_or(("", what));
    match long {
        0 => what.to_owned(),
        long => format!("{verb} …{}", rest.chars().skip(long + 1).collect::<String>()),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn the_end_of_a_long_name_is_kept() {
        assert_eq!(shortened("reading a.txt", 24), "reading a.txt");
        let short = shortened("reading /a/long/folder/history.jsonl", 24);
        assert_eq!(short, "reading …r/history.jsonl");
        assert_eq!(short.chars().count(), 24);
    }
}
