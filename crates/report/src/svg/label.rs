//! Where labels go: beside their own arrow, over no box and no other label, and over another arrow only if
//! there is no other place.

use super::arrows::Arrow;
use super::place::{Area, Picture, Point, Way, label_width};

const HEIGHT: f64 = 15.0;
/// Between a label and its arrow.
const GAP: f64 = 3.0;
/// Between two places that are tried.
const STEP: f64 = 6.0;

/// Completes a picture with its arrows and their labels.
pub(crate) fn labelled(picture: &mut Picture, arrows: &[Arrow], lines: Vec<Vec<Point>>) {
    let mut taken: Vec<Area> = picture.cards.iter().map(|card| card.area).chain(picture.initial).collect();
    taken.extend(picture.lanes.iter().map(|lane| Area { h: 28.0, ..lane.area }));
    let mut labels = Vec::new();
    for (i, arrow) in arrows.iter().enumerate() {
        let w = label_width(arrow) + 4.0;
        let inside = |a: &Area| a.x >= 4.0 && a.x + a.w <= picture.width - 4.0 && a.y + a.h <= picture.bottom;
        let free = |a: &Area| inside(a) && !taken.iter().any(|t| t.overlaps(a));
        let cost = |a: &Area| lines.iter().filter(|line| crosses(line, a)).count();
        let places = places(&lines[i], w);
        // The first of the best; places come best first.
        let best = places.iter().filter(|a| free(a)).min_by_key(|a| cost(a)).copied();
        let label = best.unwrap_or_else(|| below(places.first().copied(), w, &taken));
        picture.bottom = picture.bottom.max(label.y + label.h);
        taken.push(label);
        labels.push(label);
    }
    let ways = lines.into_iter().zip(labels).map(|(points, label)| Way { points, label });
    picture.ways = ways.collect();
}

/// Places beside the parts of a line: the longest upright part first, and on each part from its middle
/// outwards.
fn places(line: &[Point], w: f64) -> Vec<Area> {
    let mut parts: Vec<(Point, Point)> = line.windows(2).map(|p| (p[0], p[1])).collect();
    let length = |(a, b): &(Point, Point)| (a.0 - b.0).abs() + (a.1 - b.1).abs();
    let upright = |(a, b): &(Point, Point)| (a.0 - b.0).abs() < 0.5;
    parts.sort_by(|a, b| upright(b).cmp(&upright(a)).then(length(b).total_cmp(&length(a))));
    let mut places = Vec::new();
    for part in parts {
        let ((ax, ay), (bx, by)) = part;
        let (x, y) = ((ax + bx) / 2.0, (ay + by) / 2.0);
        for k in 0..=(length(&part) / 2.0 / STEP) as u32 {
            for along in [f64::from(k) * STEP, -f64::from(k) * STEP] {
                let at = |x: f64, y: f64| Area { x, y, w, h: HEIGHT };
                if upright(&part) {
                    let y = y + along - HEIGHT / 2.0;
                    places.extend([at(x + GAP, y), at(x - GAP - w, y)]);
                } else {
                    let x = x + along - w / 2.0;
                    places.extend([at(x, y - GAP - HEIGHT), at(x, y + GAP)]);
                }
            }
        }
    }
    places
}

/// The first free place below one that is taken.
fn below(wanted: Option<Area>, w: f64, taken: &[Area]) -> Area {
    let mut area = wanted.unwrap_or(Area { x: 4.0, y: 0.0, w, h: HEIGHT });
    while let Some(other) = taken.iter().find(|t| t.overlaps(&area)) {
        area.y = other.y + other.h + 1.0;
    }
    area
}

/// Whether a line of upright and level parts runs through an area.
fn crosses(line: &[Point], area: &Area) -> bool {
    line.windows(2).any(|p| {
        let (x, y) = (p[0].0.min(p[1].0), p[0].1.min(p[1].1));
        let part = Area { x, y, w: (p[0].0 - p[1].0).abs() + 0.1, h: (p[0].1 - p[1].1).abs() + 0.1 };
        part.overlaps(area)
    })
}
