//! The verdicts as a ladder: a row per family of levels, weakest first, and a column for what the order of
//! transactions must respect: nothing (*plain*), sessions, or real time.
//!
//! A list of levels puts `parallel-snapshot-isolation: violated` above `snapshot-isolation: holds`, which
//! reads like a contradiction; the two stand in different columns here. Row and column of a level come from
//! its row of the table in `anomalist-level` (`rung` and `bound`), so that no level can be forgotten.
//!
//! Text, HTML and Markdown show the same [`Ladder`]; other pages may draw it themselves.

mod html;
mod markdown;
mod sentence;
mod text;

pub use html::ladder_html;
pub use markdown::ladder_markdown;
pub(crate) use sentence::names;
pub use sentence::summary_sentence;
pub use text::ladder_text;

use crate::Subject;
use anomalist_level::{AnomalyKind, Bound, By, Level, LevelVerdict, Verdict};

/// The titles of the columns: what an order must respect besides reads and writes.
///
/// ```
/// assert_eq!(anomalist_report::column_title(anomalist_level::Bound::Data), "plain");
/// ```
pub const fn column_title(bound: Bound) -> &'static str {
    match bound {
        Bound::Data => "plain",
        Bound::Session => "in sessions",
        Bound::RealTime => "in real time",
    }
}

/// The verdicts on a history, by family and bound.
#[derive(Clone, Debug)]
pub struct Ladder<'a> {
    /// The rows, weakest first.
    pub rungs: Vec<Rung<'a>>,
}

/// A row: a family of levels.
#[derive(Clone, Debug)]
pub struct Rung<'a> {
    /// Its title, with what the verdicts rest on where that is not clear: `by timestamps` if others rest on
    /// values, `by values` if the family is judged by both.
    pub name: String,
    /// A cell for each of [`Bound::ALL`]; none where the family has no such level, or where none was judged.
    pub cells: [Option<Cell<'a>>; 3],
}

/// The verdict on the levels of a family that respect the same: one level, or several with one verdict.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// The levels with their verdict, which is the same for all. Never empty.
    pub levels: Vec<&'a LevelVerdict>,
    /// The levels must hold.
    pub required: bool,
    /// What violates them, and how often each was found.
    pub anomalies: Vec<(AnomalyKind, u64)>,
}

impl<'a> Cell<'a> {
    fn new(subject: &Subject<'a>, levels: Vec<&'a LevelVerdict>) -> Cell<'a> {
        let mut anomalies: Vec<(AnomalyKind, u64)> = Vec::new();
        for &kind in levels.iter().flat_map(|l| &l.anomalies) {
            if anomalies.iter().all(|(known, _)| *known != kind) {
                let found = subject.judgement.anomalies.iter().find(|a| a.kind == kind);
                anomalies.push((kind, found.map_or(0, |a| a.count)));
            }
        }
        let required = levels.iter().any(|l| subject.required.contains(&l.level));
        Cell { levels, required, anomalies }
    }

    /// The verdict.
    pub fn verdict(&self) -> &'a Verdict {
        &self.levels[0].verdict
    }

    /// What the verdict rests on.
    pub fn by(&self) -> By {
        self.levels[0].by
    }
}

/// A verdict as a sign that needs no colour.
///
/// ```
/// assert_eq!(anomalist_report::sign(&anomalist_level::Verdict::Holds), "✓");
/// ```
pub const fn sign(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "✓",
        Verdict::Violated => "✗",
        Verdict::Unknown(_) => "?",
    }
}

/// The verdicts of a subject, by family and bound. Every verdict is in exactly one cell.
pub fn ladder<'a>(subject: &Subject<'a>) -> Ladder<'a> {
    let judged = &subject.judgement.levels;
    let both = judged.iter().any(|l| l.by != judged[0].by);
    let mut rungs = Vec::new();
    for name in titles() {
        for by in [By::Values, By::Timestamps] {
            let family: Vec<&LevelVerdict> = judged.iter().filter(|l| l.level.info().rung == name).collect();
            let twice = family.iter().any(|l| l.by != by);
            let row: Vec<&LevelVerdict> = family.into_iter().filter(|l| l.by == by).collect();
            // Values are what a verdict rests on unless a row says otherwise.
            let title = |name: &str| match twice || both && by == By::Timestamps {
                true => format!("{name} by {}", by.name()),
                false => name.to_owned(),
            };
            rungs.extend(rows(subject, &row, name, &title));
        }
    }
    Ladder { rungs }
}

/// The titles of rows, in the order of the table.
fn titles() -> Vec<&'static str> {
    let mut titles: Vec<&'static str> = Vec::new();
    for level in Level::ALL {
        if !titles.contains(&level.info().rung) {
            titles.push(level.info().rung);
        }
    }
    titles
}

/// The row of a family; and, where levels that share a cell have different verdicts, a row for each of them.
fn rows<'a>(
    subject: &Subject<'a>,
    judged: &[&'a LevelVerdict],
    name: &str,
    title: &dyn Fn(&str) -> String,
) -> Vec<Rung<'a>> {
    let mut cells = [None, None, None];
    let mut apart = Vec::new();
    for (at, bound) in Bound::ALL.into_iter().enumerate() {
        let here: Vec<&LevelVerdict> = judged.iter().copied().filter(|l| l.level.bound() == bound).collect();
        let required = |l: &LevelVerdict| subject.required.contains(&l.level);
        let alike = |l: &&LevelVerdict| l.verdict == here[0].verdict && required(l) == required(here[0]);
        if here.iter().all(alike) {
            cells[at] = (!here.is_empty()).then(|| Cell::new(subject, here));
        } else {
            apart.extend(here.into_iter().map(|l| (at, l)));
        }
    }
    let mut rungs = Vec::new();
    if cells.iter().any(Option::is_some) {
        rungs.push(Rung { name: title(name), cells });
    }
    for (at, verdict) in apart {
        let mut cells = [None, None, None];
        cells[at] = Some(Cell::new(subject, vec![verdict]));
        rungs.push(Rung { name: title(verdict.level.name()), cells });
    }
    rungs
}
