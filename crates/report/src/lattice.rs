//! The levels that are decided, as a picture: an arrow goes from a level to those that it implies.
//!
//! Strongest on top; columns as in the ladder. Of the implications only those are drawn that follow from no
//! others. The row of a level is the length of the longest chain of levels that imply it, so that every
//! arrow points down.

use crate::escape::xml;
use crate::ladder::column_title;
use crate::layout::width;
use anomalist_level::{Bound, Level};
use std::collections::BTreeMap;
use std::fmt::Write;

const CHAR: f64 = 7.2;
const BOX: f64 = 38.0;
const LINE: f64 = 14.0;
const ROW: f64 = 66.0;
const GAP: f64 = 14.0;
const TOP: f64 = 44.0;

/// The implications among the levels that are decided which follow from no others.
fn direct() -> Vec<(Level, Level)> {
    let mut edges = Vec::new();
    for &strong in Level::CANONICAL {
        for &weak in Level::CANONICAL.iter().filter(|&&weak| weak != strong && strong.implies(weak)) {
            let between =
                |&via: &Level| via != strong && via != weak && strong.implies(via) && via.implies(weak);
            if !Level::CANONICAL.iter().any(between) {
                edges.push((strong, weak));
            }
        }
    }
    edges
}

/// The longest chain of implications above each level.
fn depths(edges: &[(Level, Level)]) -> BTreeMap<Level, usize> {
    let mut depths: BTreeMap<Level, usize> = Level::CANONICAL.iter().map(|&l| (l, 0)).collect();
    // As many rounds as there are levels: no chain is longer.
    for _ in Level::CANONICAL {
        for (strong, weak) in edges {
            let least = depths[strong] + 1;
            depths.entry(*weak).and_modify(|depth| *depth = (*depth).max(least));
        }
    }
    depths
}

/// A name in one or two lines, broken at the hyphen nearest to its middle.
fn lines(level: Level) -> Vec<&'static str> {
    let name = level.name();
    let middle = |at: &usize| at.abs_diff(name.len() / 2);
    match name.match_indices('-').map(|(at, _)| at + 1).min_by_key(middle) {
        Some(at) if name.len() > 10 => vec![&name[..at], &name[at..]],
        _ => vec![name],
    }
}

/// The picture. Each level is a group with its name as id, so that a page can act on it.
///
/// ```
/// assert!(anomalist_report::lattice().contains("id=\"snapshot-isolation\""));
/// ```
pub fn lattice() -> String {
    let edges = direct();
    let depths = depths(&edges);
    let bottom = depths.values().copied().max().unwrap_or(0);
    let is_sink = |level: Level| edges.iter().all(|(strong, _)| *strong != level);
    let box_width = |level: Level| {
        let longest = lines(level).into_iter().map(width).max().unwrap_or(0);
        longest as f64 * CHAR + 18.0
    };
    let row = |bound: Bound, depth: usize| -> Vec<Level> {
        let here = |l: &&Level| l.bound() == bound && depths[*l] == depth;
        let mut levels: Vec<Level> = Level::CANONICAL.iter().filter(here).copied().collect();
        levels.sort_by_key(|l| is_sink(*l));
        levels
    };
    let row_width = |levels: &[Level]| {
        levels.iter().map(|&l| box_width(l) + GAP).sum::<f64>() - if levels.is_empty() { 0.0 } else { GAP }
    };
    let mut places: BTreeMap<Level, (f64, f64)> = BTreeMap::new();
    let (mut left, mut columns) = (20.0, Vec::new());
    for bound in Bound::ALL {
        let wide = (0..=bottom).map(|depth| row_width(&row(bound, depth))).fold(0.0, f64::max);
        columns.push((bound, left, wide));
        for depth in 0..=bottom {
            let levels = row(bound, depth);
            // A level that implies nothing stands aside of the arrows to those below it.
            let aside = if levels.iter().all(|l| is_sink(*l)) { 1.0 } else { 0.5 };
            let mut x = left + (wide - row_width(&levels)) * aside;
            for level in levels {
                places.insert(level, (x, TOP + depth as f64 * ROW));
                x += box_width(level) + GAP;
            }
        }
        left += wide + 34.0;
    }
    let (w, h) = (left - 14.0, TOP + bottom as f64 * ROW + BOX + 16.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w:.0} {h:.0}\" width=\"{w:.0}\" height=\"{h:.0}\" \
         role=\"img\" font-family=\"ui-monospace,monospace\" font-size=\"12\">\n\
         <title>Isolation levels: an arrow goes from a level to those that it implies</title>\n{STYLE}\n"
    );
    for (bound, x, wide) in columns {
        let _ = writeln!(
            out,
            "<rect class=\"lane\" x=\"{:.1}\" y=\"8\" width=\"{:.1}\" height=\"{:.1}\" rx=\"8\"/>\
             <text class=\"dim\" x=\"{:.1}\" y=\"28\" text-anchor=\"middle\">{}</text>",
            x - 12.0,
            wide + 24.0,
            h - 16.0,
            x + wide / 2.0,
            column_title(bound)
        );
    }
    for (strong, weak) in &edges {
        let ((x1, y1), (x2, y2)) = (places[strong], places[weak]);
        let (x1, x2) = (x1 + box_width(*strong) / 2.0, x2 + box_width(*weak) / 2.0);
        let (y1, y2) = (y1 + BOX, y2 - 5.0);
        let bend = ((y2 - y1) / 2.0).min(ROW);
        let _ = writeln!(
            out,
            "<path class=\"edge\" d=\"M{x1:.1},{y1:.1} C{x1:.1},{:.1} {x2:.1},{:.1} {x2:.1},{y2:.1}\" \
             marker-end=\"url(#end)\"><title>{strong} implies {weak}</title></path>",
            y1 + bend,
            y2 - bend
        );
    }
    for (level, (x, y)) in &places {
        let name = xml(level.name());
        let _ = writeln!(
            out,
            "<g id=\"{name}\"><rect class=\"box\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BOX}\" rx=\"6\"/>\
             {}</g>",
            box_width(*level),
            text(*level, x + box_width(*level) / 2.0, *y)
        );
    }
    out + "</svg>\n"
}

/// The name in the middle of its box.
fn text(level: Level, x: f64, y: f64) -> String {
    let lines = lines(level);
    let first = y + BOX / 2.0 + 4.0 - (lines.len() - 1) as f64 * LINE / 2.0;
    let line = |(i, text): (usize, &&str)| {
        let y = first + i as f64 * LINE;
        format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>", xml(text))
    };
    lines.iter().enumerate().map(line).collect()
}

const STYLE: &str = "<style>.lane{fill:#8882;stroke:none}.dim{fill:#666}.box{fill:#fff;stroke:#777}text{fill:#222}\
    .edge{fill:none;stroke:#667;stroke-width:1.3}marker path{fill:#667}\
    @media(prefers-color-scheme:dark){.dim{fill:#aaa}.box{fill:#1d1f23;stroke:#888}text{fill:#eee}\
    .edge{stroke:#9ab}marker path{fill:#9ab}}</style>\
    <defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
    orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>";
