//! The ways of arrows.
//!
//! An arrow leaves its box at the side, at the line of the operation that it is about, turns in the gutter
//! beside the box, in a track of its own, and runs along its target's row to the line of the other
//! operation. Rows are free but for their own box, so arrows never cross one. What is about no operations
//! goes straight down to the next box of the lane. Arrows down a lane are on its right and arrows up on its
//! left, so two that are opposite are never one above the other.

use super::arrows::Arrow;
use super::place::{Card, Picture, Point, label_width};
use anomalist_level::Node;
use std::collections::BTreeMap;

/// Between two tracks.
const TRACK: f64 = 14.0;
/// Between two arrows at one operation.
const STEP: f64 = 7.0;

/// The side of a box at which an arrow leaves or arrives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Side {
    Left,
    Right,
    Top,
    Bottom,
}

/// An end of an arrow: a box (none: the initial state), a side of it, and the height.
#[derive(Clone, Copy, Debug)]
struct End {
    card: Option<usize>,
    side: Side,
    y: f64,
}

/// Both ends of every arrow, and the gutter in which it turns: gutter `n` is on the left of lane `n`.
pub(crate) struct Ends {
    all: Vec<(End, End, Option<usize>)>,
    /// Of arrows that go straight down: their place beside the others between the two boxes, from 0 to 1.
    part: Vec<f64>,
}

/// The space on the left of a lane: its width, and the track of each arrow that turns in it, from the left.
#[derive(Default)]
pub(crate) struct Gutter {
    pub width: f64,
    tracks: usize,
    track_of: BTreeMap<usize, usize>,
}

impl Ends {
    pub fn new(cards: &[Card], arrows: &[Arrow]) -> Ends {
        let card = |node: Node| match node {
            Node::Initial => None,
            Node::Txn(t) => cards.iter().position(|c| c.txn == t),
        };
        let mut all: Vec<(End, End, Option<usize>)> = Vec::new();
        for arrow in arrows {
            let (from, to) = (card(arrow.from), card(arrow.to));
            let named = arrow.from_op.is_some() || arrow.to_op.is_some();
            let (out, into, gutter) = sides(cards, from, to, named);
            let end = |card: Option<usize>, side, op| End {
                card,
                side,
                y: card.map_or(0.0, |c| cards[c].middle(op)),
            };
            all.push((end(from, out, arrow.from_op), end(to, into, arrow.to_op), gutter));
        }
        let part = spread(&mut all);
        Ends { all, part }
    }
}

/// Where an arrow leaves and arrives, and its gutter.
fn sides(cards: &[Card], from: Option<usize>, to: Option<usize>, named: bool) -> (Side, Side, Option<usize>) {
    let (Some(a), Some(b)) = (from, to) else {
        let lane = from.or(to).map_or(0, |card| cards[card].lane);
        return (Side::Left, Side::Left, Some(lane));
    };
    let (x, y) = (cards[a].lane, cards[b].lane);
    match x.cmp(&y) {
        std::cmp::Ordering::Less => (Side::Right, Side::Left, Some(x + 1)),
        std::cmp::Ordering::Greater => (Side::Left, Side::Right, Some(x)),
        std::cmp::Ordering::Equal if a > b => (Side::Left, Side::Left, Some(x)),
        std::cmp::Ordering::Equal => {
            let next = !cards[a + 1..b].iter().any(|card| card.lane == x);
            if next && !named {
                (Side::Bottom, Side::Top, None)
            } else {
                (Side::Right, Side::Right, Some(x + 1))
            }
        }
    }
}

/// A box, a side of it, and the height in tenths.
type Place = (usize, Side, i64);
/// An end there: the height of the other end, the arrow, and whether it leaves.
type Port = (f64, usize, bool);

/// Moves ends that would meet at one place apart, in the order of their other ends. Returns the parts of
/// those that go straight down.
fn spread(all: &mut [(End, End, Option<usize>)]) -> Vec<f64> {
    let mut meeting: BTreeMap<Place, Vec<Port>> = BTreeMap::new();
    for (i, (from, to, _)) in all.iter().enumerate() {
        for (end, other, leaves) in [(from, to, true), (to, from, false)] {
            if let Some(card) = end.card {
                let at = (card, end.side, (end.y * 10.0) as i64);
                meeting.entry(at).or_default().push((other.y, i, leaves));
            }
        }
    }
    let mut part = vec![0.5; all.len()];
    for ((_, side, _), mut users) in meeting {
        users.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let n = users.len();
        let step = STEP.min(15.0 / n as f64);
        for (k, (_, i, leaves)) in users.into_iter().enumerate() {
            if matches!(side, Side::Top | Side::Bottom) {
                part[i] = (k + 1) as f64 / (n + 1) as f64;
            }
            let end = if leaves { &mut all[i].0 } else { &mut all[i].1 };
            end.y += step * (k as f64 - (n - 1) as f64 / 2.0);
        }
    }
    part
}

/// The gutters, from the left of the first lane to the right of the last.
pub(crate) fn gutters(ends: &Ends, arrows: &[Arrow], lanes: usize) -> Vec<Gutter> {
    let mut gutters: Vec<Gutter> = (0..=lanes).map(|_| Gutter::default()).collect();
    for (n, gutter) in gutters.iter_mut().enumerate() {
        let mut users: Vec<usize> = (0..arrows.len()).filter(|&i| ends.all[i].2 == Some(n)).collect();
        // Nested, so that neighbours do not cross: of those that fall to the right the lowest first, of
        // others the highest.
        let key = |i: usize| {
            let (from, to, _) = &ends.all[i];
            let (left, right) = if from.side == Side::Right { (from.y, to.y) } else { (to.y, from.y) };
            if left < right { -left } else { left }
        };
        users.sort_by(|&a, &b| key(a).total_cmp(&key(b)).then(a.cmp(&b)));
        let mut tracks: Vec<Vec<(f64, f64)>> = Vec::new();
        for i in users {
            let (from, to, _) = &ends.all[i];
            let (low, high) = (from.y.min(to.y) - TRACK, from.y.max(to.y) + TRACK);
            let free = tracks.iter().position(|track| track.iter().all(|&(a, b)| high < a || b < low));
            let at = free.unwrap_or_else(|| {
                tracks.push(Vec::new());
                tracks.len() - 1
            });
            tracks[at].push((low, high));
            gutter.track_of.insert(i, at);
        }
        let label = gutter.track_of.keys().map(|&i| label_width(&arrows[i])).fold(0.0, f64::max);
        gutter.tracks = tracks.len();
        if gutter.tracks > 0 {
            gutter.width = 44.0 + (tracks.len() - 1) as f64 * TRACK + label;
        }
    }
    gutters
}

/// The lines of all arrows.
pub(crate) fn lines(picture: &Picture, ends: &Ends, gutters: &[Gutter]) -> Vec<Vec<Point>> {
    let foot = picture.initial.map_or(0.0, |area| area.y + area.h);
    let side = |end: &End| {
        let area = picture.cards[end.card.unwrap_or(0)].area;
        if end.side == Side::Left { area.x } else { area.x + area.w }
    };
    let track = |n: usize, arrow: usize| {
        let gutter = &gutters[n];
        let right = match picture.lanes.get(n) {
            Some(lane) => lane.area.x,
            None => picture.lanes.last().map_or(0.0, |l| l.area.x + l.area.w) + gutter.width,
        };
        let inset = (gutter.width - (gutter.tracks.max(1) - 1) as f64 * TRACK) / 2.0;
        right - gutter.width + inset + gutter.track_of.get(&arrow).copied().unwrap_or(0) as f64 * TRACK
    };
    let line = |(i, (from, to, gutter)): (usize, &(End, End, Option<usize>))| {
        let Some(gutter) = *gutter else {
            let (a, b) = (from.card.unwrap_or(0), to.card.unwrap_or(0));
            let (upper, lower) = (picture.cards[a].area, picture.cards[b].area);
            let x = upper.x + upper.w * ends.part[i];
            return vec![(x, upper.y + upper.h), (x, lower.y)];
        };
        let x = track(gutter, i);
        match (from.card, to.card) {
            (None, _) => vec![(x, foot), (x, to.y), (side(to), to.y)],
            (_, None) => vec![(side(from), from.y), (x, from.y), (x, foot)],
            _ => vec![(side(from), from.y), (x, from.y), (x, to.y), (side(to), to.y)],
        }
    };
    ends.all.iter().enumerate().map(line).collect()
}

/// A line as an SVG path, its corners rounded.
pub(crate) fn path(points: &[Point]) -> String {
    const ROUND: f64 = 8.0;
    let mut out = String::new();
    for (i, &(x, y)) in points.iter().enumerate() {
        let (Some(&before), Some(&after)) = (i.checked_sub(1).and_then(|i| points.get(i)), points.get(i + 1))
        else {
            out.push_str(&format!("{}{x:.1},{y:.1}", if i == 0 { "M" } else { " L" }));
            continue;
        };
        let toward = |(px, py): Point| {
            let length = (px - x).hypot(py - y);
            let part = if length > 0.0 { ROUND.min(length / 2.0) / length } else { 0.0 };
            (x + (px - x) * part, y + (py - y) * part)
        };
        let (a, b) = (toward(before), toward(after));
        out.push_str(&format!(" L{:.1},{:.1} Q{x:.1},{y:.1} {:.1},{:.1}", a.0, a.1, b.0, b.1));
    }
    out
}
