//! The dependency graph of an anomaly as a picture: its transactions on a circle, an arrow per dependency.

use anomalist_report::escape::xml as escape;
use anomalist_sql::campaign::Class;
use std::fmt::Write as _;

const RADIUS: f64 = 26.0;

/// An arrow from one node to another, with its label; session order is drawn dashed.
pub struct Arrow {
    pub from: usize,
    pub to: usize,
    pub label: String,
    pub dashed: bool,
}

/// The picture of a class: all dependencies of its cycle, and the order of its sessions. Nothing if there
/// is no dependency.
pub fn of(class: &Class) -> String {
    let place = |t: usize| class.found.transactions.iter().position(|p| *p == t);
    let mut arrows: Vec<Arrow> = Vec::new();
    for link in &class.found.links {
        if let (Some(from), Some(to)) = (place(link.from), place(link.to)) {
            let label = format!("{}({})", link.relation.name(), short(&link.row));
            arrows.push(Arrow { from, to, label, dashed: false });
        }
    }
    if arrows.is_empty() {
        return String::new();
    }
    let drawn: Vec<usize> = arrows.iter().flat_map(|a| [a.from, a.to]).collect();
    let at = |i: usize| (class.transactions[i].session, class.transactions[i].id);
    for from in (0..class.transactions.len()).filter(|i| drawn.contains(i)) {
        let later = |to: &usize| drawn.contains(to) && at(*to).0 == at(from).0 && at(*to).1 > at(from).1;
        let next = (0..class.transactions.len()).filter(later).min_by_key(|to| at(*to).1);
        arrows.extend(next.map(|to| Arrow { from, to, label: "so".to_owned(), dashed: true }));
    }
    // Only those of the cycle, in its order: a witness may have others, who saw the order of versions.
    let mut part: Vec<usize> = Vec::new();
    for end in drawn {
        if !part.contains(&end) {
            part.push(end);
        }
    }
    let placed = |i: usize| part.iter().position(|p| *p == i).unwrap_or(0);
    for arrow in &mut arrows {
        (arrow.from, arrow.to) = (placed(arrow.from), placed(arrow.to));
    }
    let names: Vec<String> = part.iter().map(|&i| format!("T{}", class.transactions[i].id)).collect();
    svg(&names, &arrows)
}

/// A row's name as far as people tell rows apart by it. Rows that `INSERT … SELECT` copied are named by a
/// UUID, whose first group differs within a run; the page's text has the whole.
fn short(row: &str) -> String {
    row.split_once('-').map_or_else(|| row.to_owned(), |(first, _)| format!("{first}…"))
}

/// Nodes and arrows as SVG. The arrow head is the page's marker `head`.
pub fn svg(names: &[String], arrows: &[Arrow]) -> String {
    let count = names.len().max(1) as f64;
    let around = if names.len() < 3 { 170.0 } else { 70.0 + 34.0 * count };
    let (width, height) = (2.0 * around + 300.0, if names.len() < 3 { 220.0 } else { 2.0 * around + 160.0 });
    let centre = (width / 2.0, height / 2.0);
    let at = |i: usize| {
        // Two stand beside each other; more begin at the top.
        let start = if names.len() < 3 { std::f64::consts::PI } else { -std::f64::consts::FRAC_PI_2 };
        let angle = start + 2.0 * std::f64::consts::PI * i as f64 / count;
        (centre.0 + around * angle.cos(), centre.1 + around * angle.sin())
    };
    let label: Vec<String> =
        arrows.iter().map(|a| format!("{} {} {}", names[a.from], a.label, names[a.to])).collect();
    let mut out = format!(
        "<svg width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
         aria-label=\"dependency graph: {}\">",
        escape(&label.join(", "))
    );
    // Over the arrows, so that they can be read.
    let mut labels = String::new();
    for (number, arrow) in arrows.iter().enumerate() {
        let parallel = arrows[..number].iter().filter(|a| (a.from, a.to) == (arrow.from, arrow.to)).count();
        let (a, b) = (at(arrow.from), at(arrow.to));
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = dx.hypot(dy).max(1.0);
        // Bent to the left of its direction, so that there and back do not meet.
        let bend = 40.0 + 44.0 * parallel as f64;
        let aside = (dy / length * bend, -dx / length * bend);
        let control = ((a.0 + b.0) / 2.0 + aside.0, (a.1 + b.1) / 2.0 + aside.1);
        let edge = |from: (f64, f64), towards: (f64, f64), gap: f64| {
            let (x, y) = (towards.0 - from.0, towards.1 - from.1);
            let l = x.hypot(y).max(1.0);
            (from.0 + x / l * (RADIUS + gap), from.1 + y / l * (RADIUS + gap))
        };
        let (start, end) = (edge(a, control, 0.0), edge(b, control, 3.0));
        let dashes = if arrow.dashed { " stroke-dasharray=\"4 4\"" } else { "" };
        _ = write!(
            out,
            "<path d=\"M{:.1},{:.1}Q{:.1},{:.1} {:.1},{:.1}\" fill=\"none\" stroke=\"currentColor\"{dashes} \
             marker-end=\"url(#head)\"/>",
            start.0, start.1, control.0, control.1, end.0, end.1
        );
        // The labels of parallel arrows stand on either side of the middle.
        let along = match parallel {
            0 => 0.5,
            n if n % 2 == 1 => 0.66,
            _ => 0.34,
        };
        let on_curve = |a: f64, control: f64, b: f64| {
            (1.0 - along) * (1.0 - along) * a + 2.0 * along * (1.0 - along) * control + along * along * b
        };
        let middle = (on_curve(a.0, control.0, b.0), on_curve(a.1, control.1, b.1));
        let lift = (aside.0 / bend * 14.0, aside.1 / bend * 14.0);
        _ = write!(
            labels,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" class=\"label\">{}</text>",
            middle.0 + lift.0,
            middle.1 + lift.1 + 5.0,
            escape(&arrow.label)
        );
    }
    for (i, name) in names.iter().enumerate() {
        let (x, y) = at(i);
        _ = write!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\" class=\"node\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y + 5.0,
            escape(name)
        );
    }
    out + &labels + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_of_any_length_are_drawn() {
        for count in 2..9 {
            let names: Vec<String> = (1..=count).map(|i| format!("T{i}")).collect();
            let arrows: Vec<Arrow> = (0..count)
                .map(|i| Arrow { from: i, to: (i + 1) % count, label: format!("rw(r<{i})"), dashed: i == 0 })
                .collect();
            let drawn = svg(&names, &arrows);
            assert_eq!(drawn.matches("<circle").count(), count);
            assert_eq!(drawn.matches("marker-end").count(), count);
            assert!(
                drawn.contains(&format!(">rw(r&lt;{})<", count - 1)) && !drawn.contains("NaN"),
                "{drawn}"
            );
        }
    }
}
