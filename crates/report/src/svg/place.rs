//! Where everything goes: boxes in lanes, arrows around boxes, labels beside each other.
//!
//! A lane per session, left to right; a row per transaction, top to bottom, so that no two boxes share a row. An arrow
//! between lanes turns in the gutter beside its source and then runs along its target's row, which is free: arrows never
//! cross a box. An arrow within a lane goes straight down to the next box, else around on the left.

use super::arrows::Arrow;
use crate::cast::Cast;
use crate::layout::width;
use anomalist_history::{SessionId, TxnId};
use anomalist_level::Node;
use std::collections::BTreeMap;

pub(crate) const CHAR: f64 = 7.3;
pub(crate) const LABEL_CHAR: f64 = 6.4;
pub(crate) const LINE: f64 = 16.0;
pub(crate) const HEADER: f64 = 30.0;
const MARGIN: f64 = 16.0;
const ROW_GAP: f64 = 42.0;
const LANE_TITLE: f64 = 32.0;
const INITIAL_HEIGHT: f64 = 28.0;
/// The baseline of the picture's title.
pub(crate) const TITLE: f64 = 28.0;
const TOP: f64 = 48.0;

/// A rectangle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub x: f64,
    pub y: f64,
    pub w: f64,
    pub h: f64,
}

impl Area {
    fn overlaps(&self, other: &Area) -> bool {
        self.x < other.x + other.w
            && other.x < self.x + self.w
            && self.y < other.y + other.h
            && other.y < self.y + self.h
    }
}

/// A transaction's box.
pub(crate) struct Card {
    pub txn: TxnId,
    pub area: Area,
    pub title: String,
    pub subtitle: String,
    pub ops: Vec<String>,
}

/// A session's column.
pub(crate) struct Lane {
    pub area: Area,
    pub title: String,
}

/// An arrow's way: a path, and where its label is.
pub(crate) struct Way {
    pub path: String,
    pub label: Area,
}

/// The finished layout.
pub(crate) struct Picture {
    pub width: f64,
    /// Bottom of the lanes.
    pub bottom: f64,
    pub initial: Option<Area>,
    pub lanes: Vec<Lane>,
    pub cards: Vec<Card>,
    pub ways: Vec<Way>,
}

/// The side of a box at which an arrow leaves or arrives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Side {
    Left,
    Right,
    Top,
    Bottom,
}

type Point = (f64, f64);
/// An arrow's end at a side: the arrow, whether it leaves, and where its other end is.
type Port = (usize, bool, f64);

pub(crate) fn place(cast: &Cast<'_>, arrows: &[Arrow]) -> Picture {
    let history = cast.history;
    let mut sessions: Vec<SessionId> = cast.txns.iter().map(|&t| history.session_of(t)).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let lane_of: Vec<usize> = cast
        .txns
        .iter()
        .map(|&t| sessions.iter().position(|&s| s == history.session_of(t)).unwrap_or(0))
        .collect();
    let has_initial = arrows.iter().any(|a| a.from == Node::Initial || a.to == Node::Initial);
    let label = arrows.iter().map(|a| width(&a.label)).max().unwrap_or(0) as f64 * LABEL_CHAR;
    let gutter = (label + 56.0).max(90.0);

    let mut cards: Vec<Card> = cast
        .txns
        .iter()
        .map(|&t| {
            let (title, subtitle, ops) = (cast.name(t), cast.whereabouts(t), cast.shown_ops(t));
            let head = (width(&title) as f64 + 1.0) * CHAR + (width(&subtitle) as f64) * LABEL_CHAR;
            let body = ops.iter().map(|op| width(op)).max().unwrap_or(0) as f64 * CHAR;
            let area =
                Area { x: 0.0, y: 0.0, w: head.max(body) + 24.0, h: HEADER + ops.len() as f64 * LINE + 4.0 };
            Card { txn: t, area, title, subtitle, ops }
        })
        .collect();

    let row = |node: Node| match node {
        Node::Initial => None,
        Node::Txn(t) => cast.txns.iter().position(|&other| other == t),
    };
    let sides: Vec<(Side, Side)> =
        arrows.iter().map(|a| choose_sides(row(a.from), row(a.to), &lane_of)).collect();
    let outside = |node: Node, side: Side| side == Side::Left && row(node).is_some_and(|r| lane_of[r] == 0);
    let uses_outside =
        arrows.iter().zip(&sides).any(|(a, &(out, into))| outside(a.from, out) || outside(a.to, into));
    let left = MARGIN + if uses_outside { gutter } else { 8.0 };
    let mut x = left;
    let top = TOP;
    let mut lanes: Vec<Lane> = Vec::new();
    for lane in 0..sessions.len() {
        let members = || (0..cards.len()).filter(|&i| lane_of[i] == lane);
        let title =
            members().next().map_or(String::new(), |i| format!("session {}", cast.session(cards[i].txn)));
        let w = members().map(|i| cards[i].area.w).fold(width(&title) as f64 * CHAR + 16.0, f64::max);
        lanes.push(Lane { area: Area { x, y: top, w, h: 0.0 }, title });
        x += w + gutter;
    }
    let total = x - gutter + MARGIN + 8.0;
    let mut y = top + LANE_TITLE + if has_initial { INITIAL_HEIGHT + ROW_GAP } else { 0.0 };
    for (card, &lane) in cards.iter_mut().zip(&lane_of) {
        let column = lanes[lane].area;
        card.area = Area { x: column.x, y, w: column.w, h: card.area.h };
        y += card.area.h + ROW_GAP;
    }
    let bottom = y - ROW_GAP + 12.0;
    for lane in &mut lanes {
        lane.area.h = bottom - top;
    }
    let initial = has_initial.then_some(Area {
        x: left,
        y: top + LANE_TITLE,
        w: total - left - MARGIN - 8.0,
        h: INITIAL_HEIGHT,
    });
    let mut picture = Picture { width: total, bottom, initial, lanes, cards, ways: Vec::new() };
    route(&mut picture, arrows, &sides, &lane_of, gutter);
    picture
}

fn route(picture: &mut Picture, arrows: &[Arrow], sides: &[(Side, Side)], lane_of: &[usize], gutter: f64) {
    let row = |node: Node| match node {
        Node::Initial => None,
        Node::Txn(t) => picture.cards.iter().position(|c| c.txn == t),
    };
    // Evenly spaced ports per side, in the order of the other ends.
    let mut users: BTreeMap<(Option<usize>, Side), Vec<Port>> = BTreeMap::new();
    for (i, (arrow, &(out, into))) in arrows.iter().zip(sides).enumerate() {
        let rank = |node: Node, side: Side| match (row(node), side) {
            (None, _) => -1.0,
            // At the top or bottom the other end's lane decides.
            (Some(r), Side::Top | Side::Bottom) => lane_of[r] as f64,
            (Some(r), _) => r as f64,
        };
        users.entry((row(arrow.from), out)).or_default().push((i, true, rank(arrow.to, out)));
        users.entry((row(arrow.to), into)).or_default().push((i, false, rank(arrow.from, into)));
    }
    let mut starts: Vec<Point> = vec![(0.0, 0.0); arrows.len()];
    let mut ends = starts.clone();
    for ((at, side), mut list) in users {
        // The initial state's ports are above whatever they lead to; set below.
        let Some(r) = at else { continue };
        let area = picture.cards[r].area;
        list.sort_by(|a, b| a.2.total_cmp(&b.2).then(a.0.cmp(&b.0)));
        for (k, &(i, outgoing, _)) in list.iter().enumerate() {
            let part = (k + 1) as f64 / (list.len() + 1) as f64;
            let point = match side {
                Side::Left => (area.x, area.y + area.h * part),
                Side::Right => (area.x + area.w, area.y + area.h * part),
                Side::Top => (area.x + area.w * part, area.y),
                Side::Bottom => (area.x + area.w * part, area.y + area.h),
            };
            if outgoing { starts[i] = point } else { ends[i] = point }
        }
    }
    let mut taken: Vec<Area> = picture.cards.iter().map(|c| c.area).chain(picture.initial).collect();
    let (mut loops, mut climbs) = (0, 0);
    for (i, arrow) in arrows.iter().enumerate() {
        let (mut start, mut end) = (starts[i], ends[i]);
        let foot = picture.initial.map_or(0.0, |a| a.y + a.h);
        let (from, to) = (row(arrow.from), row(arrow.to));
        let points = match (from, to) {
            (None, _) | (_, None) => {
                let inner = if from.is_none() { end } else { start };
                let side = if from.is_none() { sides[i].1 } else { sides[i].0 };
                let mut line = if side == Side::Top {
                    vec![inner, (inner.0, foot)]
                } else {
                    climbs += 1;
                    let x = inner.0 - 14.0 - 14.0 * f64::from(climbs);
                    let mut curve = bezier(inner, (x, inner.1), (x, inner.1), (x, inner.1 - 24.0));
                    curve.push((x, foot));
                    curve
                };
                if from.is_none() {
                    line.reverse();
                }
                line
            }
            (Some(a), Some(b)) if lane_of[a] == lane_of[b] => {
                if sides[i].0 == Side::Bottom {
                    // Straight down: both ends at the same place, whatever else leaves the two boxes.
                    let x = (start.0 + end.0) / 2.0;
                    (start.0, end.0) = (x, x);
                    vec![start, end]
                } else {
                    loops += 1;
                    let out = start.0 - (gutter * 0.62 - 10.0 * f64::from(loops % 4));
                    bezier(start, (out, start.1), (out, end.1), end)
                }
            }
            _ => {
                let direction = (end.0 - start.0).signum();
                let turn = start.0 + direction * gutter.min((end.0 - start.0).abs());
                let middle = (start.0 + turn) / 2.0;
                let mut curve = bezier(start, (middle, start.1), (middle, end.1), (turn, end.1));
                curve.push(end);
                curve
            }
        };
        let label = free_spot(&points, width(&arrow.label) as f64 * LABEL_CHAR + 6.0, &taken);
        taken.push(label);
        picture.ways.push(Way { path: svg_path(&points), label });
    }
}

fn choose_sides(from: Option<usize>, to: Option<usize>, lane_of: &[usize]) -> (Side, Side) {
    let first_of_lane = |r: usize| !lane_of[..r].contains(&lane_of[r]);
    match (from, to) {
        (None, None) => (Side::Bottom, Side::Bottom),
        (None, Some(r)) => (Side::Bottom, if first_of_lane(r) { Side::Top } else { Side::Left }),
        (Some(r), None) => (if first_of_lane(r) { Side::Top } else { Side::Left }, Side::Bottom),
        (Some(a), Some(b)) if lane_of[a] == lane_of[b] => {
            let next = a < b && !lane_of[a + 1..b].contains(&lane_of[a]);
            if next { (Side::Bottom, Side::Top) } else { (Side::Left, Side::Left) }
        }
        (Some(a), Some(b)) if lane_of[a] < lane_of[b] => (Side::Right, Side::Left),
        _ => (Side::Left, Side::Right),
    }
}

fn bezier(a: Point, b: Point, c: Point, d: Point) -> Vec<Point> {
    const STEPS: u32 = 20;
    (0..=STEPS)
        .map(|i| {
            let t = f64::from(i) / f64::from(STEPS);
            let u = 1.0 - t;
            let mix = |p: f64, q: f64, r: f64, s: f64| {
                u * u * u * p + 3.0 * u * u * t * q + 3.0 * u * t * t * r + t * t * t * s
            };
            (mix(a.0, b.0, c.0, d.0), mix(a.1, b.1, c.1, d.1))
        })
        .collect()
}

/// The place along a way, nearest its middle, where a label covers nothing.
fn free_spot(points: &[Point], w: f64, taken: &[Area]) -> Area {
    let at = |t: f64| {
        let lengths: Vec<f64> = points.windows(2).map(|p| (p[1].0 - p[0].0).hypot(p[1].1 - p[0].1)).collect();
        let mut left = t * lengths.iter().sum::<f64>();
        let mut spot = points[points.len() - 1];
        for (pair, length) in points.windows(2).zip(lengths) {
            if left <= length && length > 0.0 {
                let part = left / length;
                spot =
                    (pair[0].0 + (pair[1].0 - pair[0].0) * part, pair[0].1 + (pair[1].1 - pair[0].1) * part);
                break;
            }
            left -= length;
        }
        Area { x: spot.0 - w / 2.0, y: spot.1 - 8.0, w, h: 16.0 }
    };
    [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82]
        .into_iter()
        .map(at)
        .find(|area| !taken.iter().any(|t| t.overlaps(area)))
        .unwrap_or_else(|| at(0.5))
}

fn svg_path(points: &[Point]) -> String {
    let mut out = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        out.push_str(&format!("{}{x:.1},{y:.1}", if i == 0 { "M" } else { " L" }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::arrows::arrows;
    use crate::tests::fixture::example;
    use anomalist_level::AnomalyKind;

    #[test]
    fn labels_cover_neither_boxes_nor_each_other() {
        for &kind in &AnomalyKind::ALL[..18] {
            let c = example(kind);
            let cast = Cast::new(&c.history, c.anomaly(kind));
            let picture = place(&cast, &arrows(&cast));
            let boxes: Vec<Area> = picture.cards.iter().map(|c| c.area).chain(picture.initial).collect();
            let labels: Vec<Area> = picture.ways.iter().map(|w| w.label).collect();
            for (i, label) in labels.iter().enumerate() {
                let others = boxes.iter().chain(&labels[..i]);
                assert!(!others.into_iter().any(|o| o.overlaps(label)), "{kind}: label {i}");
                assert!(label.x > 0.0 && label.x + label.w < picture.width, "{kind}: label {i}");
            }
        }
    }
}
