//! Where everything goes: boxes in lanes, arrows around boxes, labels beside arrows.
//!
//! A lane per session, left to right; a row per transaction, top to bottom, so that no two boxes share a
//! row. Arrows start and end at the lines of the operations that they are about (`svg/route.rs`); labels
//! stand where they cover nothing (`svg/label.rs`).

use super::arrows::Arrow;
use super::label;
use super::route::{self, Ends};
use crate::layout::width;
use crate::witness_view::WitnessView;
use anomalist_history::{OpId, SessionId, TxnId};
use anomalist_level::Node;

pub(crate) const CHAR: f64 = 7.3;
pub(crate) const LABEL_CHAR: f64 = 6.4;
const BOLD_CHAR: f64 = 7.3;
const LINE: f64 = 18.0;
const HEADER: f64 = 30.0;
const MARGIN: f64 = 16.0;
const ROW_GAP: f64 = 42.0;
const LANE_TITLE: f64 = 32.0;
const INITIAL_HEIGHT: f64 = 28.0;
/// The baseline of the picture's title.
pub(crate) const TITLE: f64 = 28.0;
const TOP: f64 = 48.0;

pub(crate) type Point = (f64, f64);

/// A rectangle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub x: f64,
    pub y: f64,
    pub w: f64,
    pub h: f64,
}

impl Area {
    pub fn overlaps(&self, other: &Area) -> bool {
        self.x < other.x + other.w
            && other.x < self.x + self.w
            && self.y < other.y + other.h
            && other.y < self.y + self.h
    }
}

/// A transaction's box.
pub(crate) struct Card {
    pub txn: TxnId,
    pub lane: usize,
    pub area: Area,
    pub title: String,
    pub subtitle: String,
    /// Its lines; `None` where operations were left out.
    pub ops: Vec<(Option<OpId>, String)>,
}

impl Card {
    fn new(view: &WitnessView<'_>, txn: TxnId, lane: usize) -> Card {
        let (title, subtitle, ops) = (view.name(txn), view.whereabouts(txn), view.shown_lines(txn));
        let head = (width(&title) as f64 + 1.0) * CHAR + (width(&subtitle) as f64) * LABEL_CHAR;
        let body = ops.iter().map(|(_, op)| width(op)).max().unwrap_or(0) as f64 * CHAR;
        let (w, h) = (head.max(body) + 24.0, HEADER + ops.len() as f64 * LINE + 4.0);
        Card { txn, lane, area: Area { x: 0.0, y: 0.0, w, h }, title, subtitle, ops }
    }

    /// The baseline of a line of text.
    pub fn baseline(&self, line: usize) -> f64 {
        self.area.y + HEADER + line as f64 * LINE + 9.0
    }

    /// The middle of an operation's line; without an operation, of the title.
    pub fn middle(&self, op: Option<OpId>) -> f64 {
        let line = op.and_then(|op| self.ops.iter().position(|(shown, _)| *shown == Some(op)));
        line.map_or(self.area.y + 15.0, |line| self.baseline(line) - 4.0)
    }
}

/// The width of an arrow's label.
pub(crate) fn label_width(arrow: &Arrow) -> f64 {
    width(&arrow.label) as f64 * if arrow.main { BOLD_CHAR } else { LABEL_CHAR }
}

/// A session's column.
pub(crate) struct Lane {
    pub area: Area,
    pub title: String,
}

/// An arrow's way, and its label.
pub(crate) struct Way {
    pub points: Vec<Point>,
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

pub(crate) fn place(view: &WitnessView<'_>, arrows: &[Arrow]) -> Picture {
    let has_initial = arrows.iter().any(|a| a.from == Node::Initial || a.to == Node::Initial);
    let mut sessions: Vec<SessionId> = view.txns.iter().map(|&t| view.history.session_of(t)).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let lane = |t: TxnId| sessions.binary_search(&view.history.session_of(t)).unwrap_or(0);
    let mut cards: Vec<Card> = view.txns.iter().map(|&t| Card::new(view, t, lane(t))).collect();
    let first = TOP + LANE_TITLE + if has_initial { INITIAL_HEIGHT + ROW_GAP } else { 0.0 };
    let mut y = first;
    for card in &mut cards {
        card.area.y = y;
        y += card.area.h + ROW_GAP;
    }
    let bottom = y - ROW_GAP + 12.0;

    let ends = Ends::new(&cards, arrows);
    let gutters = route::gutters(&ends, arrows, sessions.len());
    let mut x = MARGIN + gutters[0].width.max(8.0);
    let left = x;
    let mut lanes: Vec<Lane> = Vec::new();
    for lane in 0..sessions.len() {
        let members = || cards.iter().filter(|card| card.lane == lane);
        let session = members().next().map_or(String::new(), |card| view.session(card.txn));
        let title = format!("session {session}");
        let w = members().map(|card| card.area.w).fold(width(&title) as f64 * CHAR + 16.0, f64::max);
        lanes.push(Lane { area: Area { x, y: TOP, w, h: bottom - TOP }, title });
        x += w + gutters[lane + 1].width.max(if lane + 1 < sessions.len() { 40.0 } else { 8.0 });
    }
    for card in &mut cards {
        (card.area.x, card.area.w) = (lanes[card.lane].area.x, lanes[card.lane].area.w);
    }
    let right = lanes.last().map_or(left, |lane| lane.area.x + lane.area.w);
    // Arrows to it may run left of the first lane, so it reaches there.
    let start = MARGIN.min(left) + 8.0;
    let initial =
        has_initial.then_some(Area { x: start, y: TOP + LANE_TITLE, w: right - start, h: INITIAL_HEIGHT });
    let mut picture = Picture { width: x + MARGIN, bottom, initial, lanes, cards, ways: Vec::new() };
    let lines = route::lines(&picture, &ends, &gutters);
    label::labelled(&mut picture, arrows, lines);
    picture
}
