//! The ladder for terminals and pipes.
//!
//! Words say the verdicts; colours repeat them, and signs too where the terminal has them, so that nothing
//! is lost without either.

use super::{Cell, column_title, ladder, sign};
use crate::Subject;
use crate::layout::{Style, Tone, padded, width, wrap};
use crate::unknown::sentence;
use anomalist_level::{Bound, Verdict};
use std::fmt::Write;

/// The table, then the reasons for what is unknown, numbered. None where it does not fit.
pub fn ladder_text(subject: &Subject<'_>, style: &Style) -> Option<String> {
    let ladder = ladder(subject);
    let mut reasons: Vec<String> = Vec::new();
    let mut rows: Vec<(String, [Option<Word>; 3])> = Vec::new();
    for rung in &ladder.rungs {
        let cells = rung.cells.each_ref().map(|cell| {
            let cell = cell.as_ref()?;
            Some(spoken(cell, style, &mut reasons))
        });
        rows.push((rung.name.clone(), cells));
    }
    let first = rows.iter().map(|(name, _)| width(name)).max()?;
    // Signs and wide gaps are left out before the table is.
    let layouts = [(style.signs, 3), (style.signs, 2), (false, 3), (false, 2)];
    let (signs, gap, widths) = layouts.into_iter().find_map(|(signs, gap)| {
        let widths = Bound::ALL.map(column_title).map(width);
        let mut widths: Vec<usize> = widths.to_vec();
        for (at, w) in widths.iter_mut().enumerate() {
            let widest = rows.iter().filter_map(|(_, cells)| cells[at].as_ref());
            let widest = widest.map(|word| width(&word.shown(signs)));
            *w = widest.max().unwrap_or(0).max(*w);
        }
        let all = 2 + first + widths.iter().map(|w| w + gap).sum::<usize>();
        (all <= style.columns()).then_some((signs, gap, widths))
    })?;
    let mut out = format!("  {}", " ".repeat(first));
    for (bound, w) in Bound::ALL.into_iter().zip(&widths) {
        let _ = write!(out, "{}{}", " ".repeat(gap), padded(column_title(bound), *w));
    }
    let mut out = out.trim_end().to_owned() + "\n";
    for (name, cells) in rows {
        let mut line = format!("  {}", padded(&name, first));
        // Spaces at the end of a line are not written, colours or not.
        let mut space = 0;
        for (cell, w) in cells.iter().zip(&widths) {
            space += gap;
            let Some(word) = cell else {
                space += w;
                continue;
            };
            let text = word.shown(signs);
            line.push_str(&" ".repeat(space));
            line.push_str(&style.paint(word.tone, &text));
            space = w - width(&text);
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let notes = reasons.iter().enumerate().map(|(i, reason)| (format!("  [{}] ", i + 1), reason.clone()));
    let star = ladder.rungs.iter().flat_map(|r| r.cells.iter().flatten()).any(|cell| cell.required);
    let star = star.then(|| ("  *   ".to_owned(), "required".to_owned()));
    for (i, (start, note)) in star.into_iter().chain(notes).enumerate() {
        if i == 0 {
            out.push('\n');
        }
        out.push_str(&wrap(&start, 6, style.columns(), &note));
    }
    Some(out)
}

/// A verdict in a cell.
struct Word {
    tone: Tone,
    sign: &'static str,
    text: String,
}

impl Word {
    fn shown(&self, signs: bool) -> String {
        if signs { format!("{} {}", self.sign, self.text) } else { self.text.clone() }
    }
}

fn spoken(cell: &Cell<'_>, style: &Style, reasons: &mut Vec<String>) -> Word {
    let star = if cell.required { "*" } else { "" };
    let (tone, text) = match cell.verdict() {
        Verdict::Holds => (Tone::Good, format!("holds{star}")),
        Verdict::Violated => (Tone::Bad, format!("VIOLATED{star}")),
        Verdict::Unknown(why) => {
            let reason = sentence(why, style.hints);
            let at = reasons.iter().position(|r| *r == reason).unwrap_or_else(|| {
                reasons.push(reason);
                reasons.len() - 1
            });
            (Tone::Open, format!("unknown{star} [{}]", at + 1))
        }
    };
    Word { tone, sign: sign(cell.verdict()), text }
}
