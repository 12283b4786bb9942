//! The ladder as a table of HTML, whose headings say what they head.

use super::{Cell, column_title, ladder, sign};
use crate::escape::xml;
use crate::layout::thousands;
use crate::{Subject, reason, titled};
use anomalist_level::{Bound, Verdict};
use std::fmt::Write;

/// A `<table class="ladder">` without style: cells have the class `holds`, `violated`, `unknown` or `none`,
/// required ones `required` too; `data-levels` and `data-by` say what the cell is about.
pub fn ladder_html(subject: &Subject<'_>) -> String {
    let mut out = String::from("<table class=\"ladder\">\n<thead><tr><th scope=\"col\">level</th>");
    for bound in Bound::ALL {
        let _ = write!(out, "<th scope=\"col\">{}</th>", column_title(bound));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for rung in ladder(subject).rungs {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", xml(&rung.name));
        for entry in &rung.cells {
            out.push_str(&entry.as_ref().map_or("<td class=\"none\"></td>".to_owned(), cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
    out
}

fn cell(cell: &Cell<'_>) -> String {
    let verdict = cell.verdict();
    let levels: Vec<&str> = cell.levels.iter().map(|l| l.level.name()).collect();
    let because = match verdict {
        Verdict::Unknown(why) => reason(why),
        Verdict::Holds | Verdict::Violated => {
            let named: Vec<String> = cell
                .anomalies
                .iter()
                .map(|(kind, n)| format!("{} ×{}", titled(*kind), thousands(*n)))
                .collect();
            named.join(", ")
        }
    };
    let title = if because.is_empty() { String::new() } else { format!(" title=\"{}\"", xml(&because)) };
    let (class, required) = if cell.required { (" required", ", required") } else { ("", "") };
    format!(
        "<td class=\"{word}{class}\" data-levels=\"{}\" data-by=\"{}\"{title}>\
         <span aria-hidden=\"true\">{}</span> {word}{required}</td>",
        xml(&levels.join(" ")),
        cell.by().name(),
        sign(verdict),
        word = verdict.name(),
    )
}
