//! Draws the example histories of the tables, which are in the testkit's language: `||` between sessions,
//! `;` between transactions, `!abort` after one that aborted.

use crate::layout::{padded, width};

/// An example as columns of sessions, or session by session where columns would not fit.
pub(crate) fn draw(example: &str, indent: usize, columns: usize) -> String {
    let mut number = 0;
    let sessions: Vec<Vec<String>> = example
        .split("||")
        .map(|session| {
            session
                .split(';')
                .map(|txn| {
                    number += 1;
                    format!("T{number}  {}", txn.trim().replace("!abort", "aborts"))
                })
                .collect()
        })
        .collect();
    let widths: Vec<usize> = sessions
        .iter()
        .enumerate()
        .map(|(i, txns)| txns.iter().map(|t| width(t)).chain([width(&heading(i))]).max().unwrap_or(0))
        .collect();
    let gap = 3;
    let pad = " ".repeat(indent);
    if indent + widths.iter().sum::<usize>() + gap * (widths.len() - 1) > columns {
        let mut out = String::new();
        for (i, txns) in sessions.iter().enumerate() {
            out.push_str(&format!("{pad}{}\n", heading(i)));
            for txn in txns {
                out.push_str(&format!("{pad}  {txn}\n"));
            }
        }
        return out;
    }
    let rows = sessions.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: Option<usize>, i: usize| match row {
        None => heading(i),
        Some(row) => sessions[i].get(row).cloned().unwrap_or_default(),
    };
    let line = |text: &dyn Fn(usize) -> String| {
        let cells: Vec<String> = (0..sessions.len()).map(|i| padded(&text(i), widths[i])).collect();
        format!("{pad}{}", cells.join("   ")).trim_end().to_owned() + "\n"
    };
    let mut out = line(&|i| cell(None, i));
    out.push_str(&line(&|i| "─".repeat(widths[i])));
    for row in 0..rows {
        out.push_str(&line(&|i| cell(Some(row), i)));
    }
    out
}

fn heading(session: usize) -> String {
    format!("session {}", session + 1)
}

#[cfg(test)]
mod tests {
    use super::draw;

    #[test]
    fn sessions_are_columns() {
        insta::assert_snapshot!(draw("w(x,1); w(x,2) w(y,1) || r(y,1) r(x,1)", 2, 80), @r"
    session 1           session 2
    ─────────────────   ─────────────────
    T1  w(x,1)          T3  r(y,1) r(x,1)
    T2  w(x,2) w(y,1)
    ");
    }

    #[test]
    fn wide_examples_are_stacked() {
        insta::assert_snapshot!(draw("a(x,1) !abort || r(x,[1])", 2, 20), @r"
    session 1
      T1  a(x,1) aborts
    session 2
      T2  r(x,[1])
    ");
    }
}
