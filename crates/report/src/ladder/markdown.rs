//! The ladder as a table of Markdown.

use super::{column_title, ladder, sign};
use crate::Subject;
use crate::escape::markdown as escaped;
use anomalist_level::{Bound, Verdict};
use std::fmt::Write;

/// The table.
pub fn ladder_markdown(subject: &Subject<'_>) -> String {
    let mut out = String::from("| level |");
    for bound in Bound::ALL {
        let _ = write!(out, " {} |", column_title(bound));
    }
    out.push_str("\n|---|---|---|---|\n");
    for rung in ladder(subject).rungs {
        let _ = write!(out, "| {} |", escaped(&rung.name));
        for cell in &rung.cells {
            let text = cell.as_ref().map_or_else(String::new, |cell| {
                let word = match cell.verdict() {
                    Verdict::Holds => "holds",
                    Verdict::Violated => "**violated**",
                    Verdict::Unknown(_) => "unknown",
                };
                let required = if cell.required { ", required" } else { "" };
                format!(" {} {word}{required}", sign(cell.verdict()))
            });
            let _ = write!(out, "{text} |");
        }
        out.push('\n');
    }
    out
}
