//! What a terminal shows while a stream is watched: a view that is drawn again and again and fits the
//! screen, with violations grouped by class and key.
//!
//! Lines that scroll by are for pipes and files. With thousands of violations a person wants to know which
//! keys have how many; the newest of each group stands beside it. Texts that are too long continue on the
//! next line; groups that do not fit are counted. The number of groups is bounded, as everything in `watch`
//! is.

use super::bytes;
use super::engine::Audience;
use super::metrics::Snapshot;
use super::report::Voice;
use crate::cli::Global;
use crate::exit::Failure;
use crate::terminal::{self, wrap};
use anomalist_online::{Event, Finding};
use anomalist_report::{colors, printable, thousands};
use anomalist_timestamp::Axiom;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// More groups than this are one of "other keys" per class.
const GROUPS: usize = 1000;
const OTHERS: &str = "other keys";

/// Violations of one class on one key.
#[derive(Clone, Debug, Default)]
struct Group {
    standing: u64,
    /// The text of the newest.
    newest: String,
}

/// What was reported so far, for people.
#[derive(Default)]
pub struct View {
    groups: BTreeMap<(Axiom, String), Group>,
    retracted: u64,
    /// The newest line that could not be used.
    error: Option<String>,
    /// Lines of the last drawing.
    drawn: usize,
    color: bool,
    rate: f64,
}

/// How people learn how it goes.
pub enum Live {
    /// Not at all.
    Silent,
    /// By a line on standard error, with colours or without, because events go elsewhere.
    Line(bool),
    /// By a view instead of events.
    View(View),
}

impl Live {
    /// What suits the terminal: a view takes standard output and standard error.
    pub fn new(global: &Global, json: bool) -> Live {
        let color = !global.no_color && terminal::has_color();
        let drawn = std::io::stderr().is_terminal() && !global.quiet && !terminal::is_dumb();
        match (drawn, std::io::stdout().is_terminal()) {
            (false, _) => Live::Silent,
            (true, true) if !json => Live::View(View { color, ..View::default() }),
            (true, _) => Live::Line(color),
        }
    }

    /// Draws.
    pub fn show(&mut self, voice: &Voice, now: &Snapshot, rate: f64, took: Duration) {
        let text = match self {
            Live::Silent => return,
            Live::Line(color) => {
                format!("\r\x1b[K{}", status(voice, now, rate, Screen::of_terminal(*color)))
            }
            Live::View(view) => view.redraw(voice, now, rate, took, Screen::of_terminal(view.color)),
        };
        // Without a terminal there is nothing to draw on.
        _ = write!(std::io::stderr(), "{text}");
    }

    /// Removes what was drawn.
    pub fn clear(&mut self) {
        let text = match self {
            Live::Silent => return,
            Live::Line(_) => "\r\x1b[K".to_owned(),
            Live::View(view) => view.clear(),
        };
        _ = write!(std::io::stderr(), "{text}");
    }

    /// What a view has shown, for the end.
    pub fn last(&self, voice: &Voice) -> String {
        match self {
            Live::View(view) => view.groups(voice, Screen::of_terminal(false).width),
            Live::Silent | Live::Line(_) => String::new(),
        }
    }
}

impl Audience for Live {
    fn note(&mut self, event: Option<&Event>, line: &str) -> bool {
        let Live::View(view) = self else { return false };
        match event {
            Some(event @ (Event::Violation(_) | Event::Retracted(_) | Event::Provisional { .. })) => {
                view.note(event)
            }
            Some(Event::Fault { .. }) | None => view.note_error(line),
        }
        true
    }

    fn print(&mut self, text: &str) -> Result<(), Failure> {
        self.clear();
        terminal::print(text)
    }
}

/// The line on standard error; what matters most comes first, and what does not fit is left out.
fn status(voice: &Voice, now: &Snapshot, rate: f64, screen: Screen) -> String {
    let standing = voice.standing(&now.stats);
    let first = format!("{} violations", thousands(standing));
    let facts = [
        first.clone(),
        format!("{} transactions", thousands(now.stats.arrived)),
        format!("{}/s", thousands(rate as u64)),
        format!("{} unsettled", thousands(now.provisional as u64)),
        format!("{} in memory", bytes(now.memory)),
        format!("{} on disk", bytes(now.stats.spilled_bytes as usize)),
        format!("{} errors", thousands(errors(now))),
    ];
    let line = packed(&facts, screen.width.saturating_sub(1)).swap_remove(0);
    let colour = if standing > 0 { colors::BAD } else { colors::GOOD };
    match screen.color {
        true => line.replacen(&first, &format!("\x1b[{colour}m{first}\x1b[0m"), 1),
        false => line,
    }
}

/// Lines and transactions that could not be used.
fn errors(now: &Snapshot) -> u64 {
    let (lines, stats) = (&now.lines, &now.stats);
    lines.malformed + lines.untimed + stats.repeated + stats.session_order + stats.future
}

/// The size of a terminal, and whether it has colours.
#[derive(Clone, Copy)]
struct Screen {
    width: usize,
    height: usize,
    color: bool,
}

impl Screen {
    fn of_terminal(color: bool) -> Screen {
        let size = terminal_size::terminal_size_of(std::io::stderr());
        let (width, height) = size.map_or((80, 24), |(w, h)| (w.0.into(), h.0.into()));
        Screen { width, height, color }
    }
}

impl View {
    /// Takes note of an event.
    fn note(&mut self, event: &Event) {
        match event {
            Event::Violation(finding) => self.count(finding, true),
            Event::Retracted(finding) => {
                self.retracted += 1;
                self.count(finding, false);
            }
            Event::Provisional { .. } | Event::Fault { .. } => {}
        }
    }

    /// Takes note of a line that could not be used, or of a fault of the stream.
    fn note_error(&mut self, line: &str) {
        self.error = Some(printable(line));
    }

    fn count(&mut self, finding: &Finding, stands: bool) {
        let key = finding.key.as_ref().map_or_else(String::new, |key| printable(&key.to_string()));
        let text = finding.to_string();
        // The class has a column of its own.
        let text = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
        self.group(finding.axiom(), key, stands.then_some(text));
    }

    /// One more of a group with its text, or one less.
    fn group(&mut self, axiom: Axiom, key: String, text: Option<&str>) {
        let mut at = (axiom, key);
        if !self.groups.contains_key(&at) && self.groups.len() >= GROUPS {
            at.1 = OTHERS.to_owned();
        }
        let group = self.groups.entry(at).or_default();
        match text {
            Some(text) => {
                group.standing += 1;
                group.newest = printable(text);
            }
            None => group.standing = group.standing.saturating_sub(1),
        }
    }

    /// The text that replaces the last drawing by a new one.
    fn redraw(&mut self, voice: &Voice, now: &Snapshot, rate: f64, took: Duration, screen: Screen) -> String {
        self.rate = if self.rate == 0.0 { rate } else { self.rate * 0.7 + rate * 0.3 };
        let lines = self.frame(voice, now, took, screen);
        let out = self.clear();
        self.drawn = lines.len();
        out + &lines.join("\n") + "\n"
    }

    /// The text that removes the last drawing.
    fn clear(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            drawn => format!("\r\x1b[{drawn}A\x1b[J"),
        }
    }

    /// The groups as they stand at the end, all that fit into a page.
    fn groups(&self, voice: &Voice, width: usize) -> String {
        let screen = Screen { width, height: usize::MAX, color: false };
        let lines = self.table(voice, screen, 20);
        if lines.is_empty() { String::new() } else { lines.join("\n") + "\n\n" }
    }

    fn frame(&self, voice: &Voice, now: &Snapshot, took: Duration, screen: Screen) -> Vec<String> {
        let standing = voice.standing(&now.stats);
        let paint = |code: &str, text: &str| match screen.color {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        };
        let verdict = match standing {
            0 => paint(colors::GOOD, "no violation so far"),
            1 => paint(colors::BAD, "1 VIOLATION"),
            n => paint(colors::BAD, &format!("{} VIOLATIONS", thousands(n))),
        };
        let mut lines = vec![format!("{}: {verdict}", voice.level.name())];
        let facts = [
            format!("{} transactions", thousands(now.stats.arrived)),
            format!("{}/s", thousands(self.rate as u64)),
            format!("{:.0} s", took.as_secs_f64()),
            format!("lag {:.1} s", now.lag_ms as f64 / 1e3),
            format!("{} unsettled", thousands(now.provisional as u64)),
            format!("{} retracted", thousands(self.retracted)),
            format!("{} in memory", bytes(now.memory)),
            format!("{} on disk", bytes(now.stats.spilled_bytes as usize)),
            format!("{} errors", thousands(errors(now))),
        ];
        lines.extend(packed(&facts, screen.width));
        let last: Vec<String> =
            self.error.iter().flat_map(|e| wrapped(e, "", 2, screen.width)).take(3).collect();
        // The cursor stands on the line below.
        let room = screen.height.saturating_sub(lines.len() + last.len() + 2);
        let table = self.table(voice, screen, room);
        if !table.is_empty() {
            lines.push(String::new());
            lines.extend(table);
        }
        lines.extend(last);
        lines
    }

    /// The groups, most violations first, in at most this many lines.
    fn table(&self, voice: &Voice, screen: Screen, room: usize) -> Vec<String> {
        let mut groups: Vec<(&(Axiom, String), &Group)> =
            self.groups.iter().filter(|(_, group)| group.standing > 0).collect();
        groups.sort_by_key(|((axiom, key), group)| {
            (!voice.forbids(*axiom), std::cmp::Reverse(group.standing), *axiom, key.clone())
        });
        if groups.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![format!("{:>9}  {:<10}  {}", "count", "class", "key and newest")];
        for (i, ((axiom, key), group)) in groups.iter().enumerate() {
            let class =
                if voice.forbids(*axiom) { axiom.code().to_owned() } else { format!("({})", axiom.code()) };
            let start = format!("{:>9}  {class:<10}  ", thousands(group.standing));
            let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
            let row = wrapped(&format!("{key}{}", group.newest), &start, start.len(), screen.width);
            let rest = groups.len() - i;
            let needed = row.len() + usize::from(rest > 1);
            if lines.len() + needed > room {
                let left: u64 = groups[i..].iter().map(|(_, group)| group.standing).sum();
                lines.push(format!("{:>9}  in {rest} more groups", thousands(left)));
                break;
            }
            lines.extend(row);
        }
        lines
    }
}

/// A text in lines of at most `width`, the others after `indent` spaces. A word that is too long for a line
/// is broken.
fn wrapped(text: &str, first: &str, indent: usize, width: usize) -> Vec<String> {
    let room = width.saturating_sub(indent).max(8);
    let mut words = String::new();
    for word in text.split(' ') {
        let letters: Vec<char> = word.chars().collect();
        for part in letters.chunks(room) {
            words.extend(part);
            words.push(' ');
        }
    }
    wrap(&words, first, &" ".repeat(indent), width.max(indent + 8)).lines().map(str::to_owned).collect()
}

/// Facts in lines, two spaces apart, none of them broken.
fn packed(facts: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for fact in facts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + fact.chars().count() <= width => {
                line.push_str("  ");
                line.push_str(fact);
            }
            _ => lines.push(fact.clone()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_level::Level;
    use anomalist_timestamp::Mode;

    fn voice() -> Voice {
        let level = Level::StrongSessionSnapshotIsolation;
        Voice { json: false, level, mode: Mode::of(level).expect("a level by timestamps") }
    }

    fn view(groups: usize) -> View {
        let mut view = View::default();
        for i in 0..groups {
            let key = if i == 3 { "k".repeat(150) } else { format!("key{i}") };
            for _ in 0..=i % 7 {
                let text = format!(
                    "transaction {i} (session 1) read {key} = 1, should have read 2 of transaction 7"
                );
                view.group(Axiom::Ext, key.clone(), Some(&text));
            }
        }
        view
    }

    #[test]
    fn a_frame_fits_its_screen_and_counts_everything() {
        for (width, height) in [(80, 24), (60, 24), (60, 15), (200, 50)] {
            for groups in [0, 1, 2, 5, 40, 3000] {
                let mut view = view(groups);
                view.note_error(
                    "error: stream.jsonl:17:3: expected an object, found \u{1b}[2J and more words than fit",
                );
                let screen = Screen { width, height, color: false };
                let lines = view.frame(&voice(), &Snapshot::default(), Duration::from_secs(9), screen);
                assert!(lines.len() < height, "{width}x{height}, {groups} groups: {} lines", lines.len());
                for line in &lines {
                    assert!(line.chars().count() <= width && !line.contains('\u{1b}'), "{width}: {line}");
                }
                let shown = |line: &String| line.get(..9)?.trim().replace(',', "").parse::<u64>().ok();
                let counted: u64 = lines.iter().filter_map(shown).sum();
                assert_eq!(counted, (0..groups as u64).map(|i| 1 + i % 7).sum::<u64>(), "{lines:#?}");
            }
        }
        assert!(view(3000).groups.len() <= GROUPS + Axiom::ALL.len());
    }

    #[test]
    fn a_violation_that_is_retracted_leaves() {
        let mut view = view(1);
        view.group(Axiom::Ext, "key0".to_owned(), None);
        assert!(view.table(&voice(), Screen { width: 80, height: 24, color: false }, 20).is_empty());
    }

    #[test]
    fn a_drawing_replaces_the_one_before() {
        let (mut view, screen) = (view(2), Screen { width: 80, height: 24, color: false });
        let first = view.redraw(&voice(), &Snapshot::default(), 1.0, Duration::ZERO, screen);
        let lines = first.lines().count();
        let second = view.redraw(&voice(), &Snapshot::default(), 1.0, Duration::ZERO, screen);
        assert_eq!(second, format!("\r\x1b[{lines}A\x1b[J{first}"));
    }
}
