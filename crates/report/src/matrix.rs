//! Levels against runs: a row per level, a column per run. What a database keeps, and what it doesn't, at a
//! glance.

use crate::escape::markdown;
use crate::ladder::sign;
use crate::layout::{Style, Tone, padded, thousands, width};
use crate::titled;
use anomalist_level::{Judgement, Level, Verdict};
use std::fmt::Write;

/// A run and what was found out about its history.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// Its heading: a database, an isolation level.
    pub head: &'a str,
    /// The verdicts.
    pub judgement: &'a Judgement,
}

/// The levels that any column has a verdict for, weakest first.
fn levels(columns: &[Column<'_>]) -> Vec<Level> {
    let asked = |level: &Level| columns.iter().any(|c| c.judgement.verdict(*level).is_some());
    Level::ALL.iter().copied().filter(asked).collect()
}

/// A heading in lines of at most `columns`, unless a part of a word is longer. Long words break after `_`
/// and `-`.
fn lines(head: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in head.split(' ').filter(|w| !w.is_empty()) {
        let mut space = " ";
        let parts: Vec<&str> =
            if width(word) > columns { word.split_inclusive(['_', '-']).collect() } else { vec![word] };
        for part in parts {
            match lines.last_mut() {
                Some(line) if line.is_empty() => line.push_str(part),
                Some(line) if width(line) + width(space) + width(part) <= columns => {
                    line.push_str(space);
                    line.push_str(part);
                }
                _ => lines.push(part.to_owned()),
            }
            space = "";
        }
    }
    lines
}

/// The table for people, then the anomalies of each column.
pub fn matrix_text(columns: &[Column<'_>], style: &Style) -> String {
    let rows = levels(columns);
    let first = rows.iter().map(|l| width(l.name())).max().unwrap_or(0);
    let head_lines = |limit: usize| -> (Vec<Vec<String>>, Vec<usize>) {
        let heads: Vec<Vec<String>> = columns.iter().map(|c| lines(c.head, limit)).collect();
        let widest = |head: &Vec<String>| head.iter().map(|line| width(line)).max().unwrap_or(0);
        let word = "VIOLATED".len() + if style.signs { 2 } else { 0 };
        let widths = heads.iter().map(|head| widest(head).max(word)).collect();
        (heads, widths)
    };
    // Words break only where the table would be too wide otherwise.
    let fits = |widths: &[usize]| 2 + first + widths.iter().map(|w| 3 + w).sum::<usize>() <= style.columns();
    let wide = [30, 20].map(head_lines).into_iter().find(|(_, widths)| fits(widths));
    let (heads, widths) = wide.unwrap_or_else(|| head_lines(12));
    let height = heads.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = String::new();
    for line in 0..height {
        let mut text = format!("  {}", " ".repeat(first));
        for (head, w) in heads.iter().zip(&widths) {
            // Headings stand on the table.
            let at = (line + head.len()).checked_sub(height);
            text.push_str("   ");
            text.push_str(&padded(at.map_or("", |at| &head[at]), *w));
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
    for level in rows {
        let mut text = format!("  {}", padded(level.name(), first));
        for (i, (column, w)) in columns.iter().zip(&widths).enumerate() {
            let (word, tone) = match column.judgement.verdict(level) {
                Some(Verdict::Holds) => ("holds", Tone::Good),
                Some(Verdict::Violated) => ("VIOLATED", Tone::Bad),
                Some(Verdict::Unknown(_)) => ("unknown", Tone::Open),
                None => ("", Tone::Open),
            };
            let sign = column.judgement.verdict(level).filter(|_| style.signs).map_or("", sign);
            let word = format!("{sign} {word}").trim().to_owned();
            let gap = if i + 1 == columns.len() { 0 } else { w - width(&word) };
            text.push_str("   ");
            text.push_str(&style.paint(tone, &word));
            text.push_str(&" ".repeat(gap));
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
    out.push('\n');
    for column in columns {
        let found = anomalies(column.judgement);
        let found = if found.is_empty() { "no anomaly".to_owned() } else { found };
        let start = format!("{}: ", column.head);
        out.push_str(&crate::layout::wrap(&start, 2, style.columns(), &found));
    }
    out
}

/// The same as Markdown.
pub fn matrix_markdown(columns: &[Column<'_>]) -> String {
    let mut out = String::from("| level |");
    for column in columns {
        let _ = write!(out, " {} |", markdown(column.head));
    }
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(columns.len()));
    out.push('\n');
    for level in levels(columns) {
        let _ = write!(out, "| {level} |");
        for column in columns {
            let word = match column.judgement.verdict(level) {
                Some(Verdict::Holds) => "holds",
                Some(Verdict::Violated) => "**violated**",
                Some(Verdict::Unknown(_)) => "unknown",
                None => "",
            };
            let sign = column.judgement.verdict(level).map_or("", sign);
            let _ = write!(out, " {} |", format!("{sign} {word}").trim());
        }
        out.push('\n');
    }
    out.push_str("| *anomalies* |");
    for column in columns {
        let kinds: Vec<String> = column.judgement.anomalies.iter().map(|a| titled(a.kind)).collect();
        let _ = write!(out, " {} |", if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") });
    }
    out.push('\n');
    out
}

fn anomalies(judgement: &Judgement) -> String {
    let named = |a: &anomalist_level::Anomaly| match a.count {
        1 => titled(a.kind),
        n => format!("{} ×{}", titled(a.kind), thousands(n)),
    };
    judgement.anomalies.iter().map(named).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_level::{By, LevelVerdict};

    fn judgement(verdicts: &[(Level, Verdict)]) -> Judgement {
        let levels = verdicts
            .iter()
            .map(|(level, verdict)| LevelVerdict {
                level: *level,
                by: By::Values,
                verdict: verdict.clone(),
                anomalies: Vec::new(),
            })
            .collect();
        Judgement { levels, ..Judgement::default() }
    }

    #[test]
    fn headings_break_where_they_must() {
        assert_eq!(
            lines("REPEATABLE READ with innodb_snapshot_isolation", 12),
            ["REPEATABLE", "READ with", "innodb_", "snapshot_", "isolation"]
        );
        assert_eq!(lines("SQLite DEFERRED", 12), ["SQLite", "DEFERRED"]);
    }

    #[test]
    fn columns_line_up() {
        let open = Verdict::Unknown(anomalist_level::Why::Stopped);
        let a = judgement(&[(Level::Causal, Verdict::Holds), (Level::Serializable, Verdict::Violated)]);
        let b = judgement(&[(Level::Causal, Verdict::Violated), (Level::Serializable, open)]);
        let columns = [
            Column { head: "READ COMMITTED", judgement: &a },
            Column { head: "SERIALIZABLE", judgement: &b },
        ];
        assert_eq!(
            matrix_text(&columns, &Style::default()),
            "                 READ COMMITTED   SERIALIZABLE
  causal         holds            VIOLATED
  serializable   VIOLATED         unknown

READ COMMITTED: no anomaly
SERIALIZABLE: no anomaly
"
        );
        let narrow = matrix_text(&columns, &Style { width: 44, ..Style::default() });
        assert!(
            narrow.starts_with("                 READ\n                 COMMITTED   SERIALIZABLE\n"),
            "{narrow}"
        );
        assert_eq!(
            matrix_markdown(&columns),
            "| level | READ COMMITTED | SERIALIZABLE |
|---|---|---|
| causal | ✓ holds | ✗ **violated** |
| serializable | ✗ **violated** | ? unknown |
| *anomalies* | none | none |
"
        );
    }
}
