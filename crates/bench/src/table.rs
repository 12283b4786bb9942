//! Figures as a table.

use crate::cases::{Case, Size};
use crate::history::Facts;
use crate::peers::Beside;
use crate::{Answer, BESIDE, Row};
use anomalist_report::thousands;
use serde_json::Value;
use std::fmt::Write;

/// Which side the text of a column is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Left.
    Left,
    /// Right.
    Right,
}

/// A table whose columns are as wide as they need to be.
pub struct Table {
    columns: Vec<(&'static str, Side)>,
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: Vec<(&'static str, Side)>) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// Columns in which every row is empty are left out.
    pub fn text(&self) -> String {
        let used = |i: usize| self.rows.iter().any(|row| !row[i].is_empty());
        let shown: Vec<usize> = (0..self.columns.len()).filter(|&i| used(i)).collect();
        let width = |i: usize| {
            let cells = self.rows.iter().map(|row| row[i].chars().count());
            cells.chain([self.columns[i].0.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = shown.iter().map(|&i| width(i)).collect();
        let head: Vec<String> = self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut out = String::new();
        for row in [&head].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (&i, &width) in shown.iter().zip(&widths) {
                _ = match self.columns[i].1 {
                    Side::Left => write!(line, "{:<width$}  ", row[i]),
                    Side::Right => write!(line, "{:>width$}  ", row[i]),
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// All figures. `phases`: also the parts of checking.
pub fn text(rows: &[Row], machine: &Value, phases: bool) -> String {
    use Side::{Left, Right};
    let mut table = Table::new(vec![
        ("case", Left),
        ("question", Left),
        ("operations", Right),
        ("load ms", Right),
        ("index ms", Right),
        ("check ms", Right),
        ("direct", Right),
        ("order", Right),
        ("search", Right),
        ("total ms", Right),
        ("min ms", Right),
        ("ns/op", Right),
        ("peak MiB", Right),
        ("verdict", Left),
        ("start to end ms", Right),
        ("beside it", Left),
        ("no guess", Right),
        ("1 thread", Right),
    ]);
    for row in rows {
        for answer in &row.answers {
            table.rows.push(cells(row, answer, phases));
        }
    }
    let mut out = format!("{}\n\n", machine_line(machine));
    out.push_str(&table.text());
    out.push_str(
        "\nTimes are medians, \"min ms\" the best total; load, index and check make up the total.\n",
    );
    if phases {
        out.push_str("direct, order and search are parts of check: see docs/benchmarks.md.\n");
    }
    if rows.iter().any(|row| BESIDE.contains(&row.case.group)) {
        out.push_str(
            "Beside it: other checkers in turn with Anomalist, each a process from start to end, best times; \
             the ratio is theirs to ours (docs/benchmarks.md says how to have them found).\n",
        );
    }
    if rows.iter().any(|row| row.answers.iter().any(|a| a.no_guess.is_some())) {
        out.push_str(
            "no guess: check without the guessed order, 1 thread: total with one; ratios to plain.\n",
        );
    }
    out
}

fn cells(row: &Row, answer: &Answer, phases: bool) -> Vec<String> {
    let Facts { operations, .. } = row.facts;
    let begin = vec![row.case.id(), answer.question.name().to_owned(), thousands(operations)];
    let figures = match &answer.outcome {
        Ok(figures) => figures,
        Err(why) => {
            let mut cells = begin;
            cells.resize(18, String::new());
            cells[13].clone_from(why);
            return cells;
        }
    };
    let phase = |ms: f64| if phases { millis(ms) } else { String::new() };
    let mut cells = begin;
    cells.extend([
        millis(figures.load.median),
        millis(figures.index.median),
        millis(figures.check.median),
        phase(figures.direct.median),
        phase(figures.order.median),
        phase(figures.search.median),
        millis(figures.total.median),
        millis(figures.total.min),
        format!("{:.0}", figures.ns_per_op(operations)),
        figures.peak_mib.map_or(String::new(), |mib| format!("{mib:.0}")),
        figures.verdict.clone(),
        answer.wall.as_ref().map_or(String::new(), |(ms, _)| millis(*ms)),
        beside(answer),
        answer.no_guess_ratio().map_or(String::new(), times),
        answer.one_thread_ratio().map_or(String::new(), times),
    ]);
    cells
}

/// What other tools took, and how many times ours that is.
fn beside(answer: &Answer) -> String {
    let Some((ours_ms, peers)) = &answer.wall else { return String::new() };
    let one = |peer: &Beside| match (&peer.took, peer.ratio(*ours_ms)) {
        (Ok(ms), Some(ratio)) => format!("{} {} ms ({})", peer.name, millis(*ms), times(ratio)),
        (Err(why), _) => format!("{}: {why}", peer.name),
        (Ok(_), None) => String::new(),
    };
    peers.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn machine_line(machine: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(cpu) = machine["cpu"].as_str() {
        parts.push(cpu.to_owned());
    }
    if let Some(cores) = machine["cores"].as_u64() {
        parts.push(format!("{cores} cores"));
    }
    if let Some(mib) = machine["memory_mib"].as_u64() {
        parts.push(format!("{:.0} GiB", mib as f64 / 1024.0));
    }
    if let Some(system) = machine["system"].as_str() {
        parts.push(system.to_owned());
    }
    if let Some(load) = machine["load_before"].as_f64() {
        parts.push(format!("load {load} before the first case"));
    }
    parts.join(", ")
}

/// The cases, for `--list`.
pub fn list(cases: &[Case]) -> String {
    let mut table = Table::new(vec![("case", Side::Left), ("when", Side::Left), ("what", Side::Left)]);
    for case in cases {
        let when = match case.size {
            Size::Quick => "always",
            Size::Usual => "if named",
            Size::Huge => "--full",
        };
        let sorted = if case.by_session { ", file sorted by session" } else { "" };
        table.rows.push(vec![case.id(), when.to_owned(), format!("{}{sorted}", case.about)]);
    }
    table.text()
}

/// Milliseconds, with as many digits as say something.
pub fn millis(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 1_000.0 => format!("{ms:.1}"),
        _ => format!("{ms:.0}"),
    }
}

/// A ratio.
pub fn times(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}×") } else { format!("{ratio:.0}×") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_needed_and_empty_ones_vanish() {
        let mut table = Table::new(vec![("case", Side::Left), ("none", Side::Left), ("ms", Side::Right)]);
        table.rows.push(vec!["a".into(), String::new(), "10.5".into()]);
        table.rows.push(vec!["longer".into(), String::new(), "7×".into()]);
        assert_eq!(table.text(), "case      ms\na       10.5\nlonger    7×\n");
    }

    #[test]
    fn numbers_have_as_many_digits_as_say_something() {
        assert_eq!([1.234, 12.34, 1_234.5].map(millis), ["1.23", "12.3", "1234"]);
        assert_eq!([1.0, 12.4].map(times), ["1.00×", "12×"]);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_described_by_nothing() {
        assert_eq!(machine_line(&serde_json::json!({"cpu": null, "cores": 2})), "2 cores");
    }
}
