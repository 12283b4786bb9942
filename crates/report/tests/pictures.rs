//! The geometry of pictures, measured in the SVG: arrows start and end at the operations that they name,
//! run through no box and over no other arrow; labels overlap neither boxes nor each other.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{History, Indexed};
use anomalist_level::AnomalyKind;
use anomalist_testkit::mini;
use anomalist_testkit::random::{self, Shape};
use anomalist_workload::{Injection, Spec, generate};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    x: f64,
    y: f64,
    w: f64,
    h: f64,
}

impl Area {
    fn overlaps(&self, o: &Area) -> bool {
        self.x < o.x + o.w && o.x < self.x + self.w && self.y < o.y + o.h && o.y < self.y + self.h
    }

    fn shrunk(&self) -> Area {
        Area { x: self.x + 1.0, y: self.y + 1.0, w: self.w - 2.0, h: self.h - 2.0 }
    }

    /// The area of a straight line.
    fn line(a: (f64, f64), b: (f64, f64)) -> Area {
        Area { x: a.0.min(b.0), y: a.1.min(b.1), w: (a.0 - b.0).abs() + 0.01, h: (a.1 - b.1).abs() + 0.01 }
    }
}

/// A box: its name, and the middle of each line in it.
struct Card {
    area: Area,
    name: String,
    lines: Vec<(String, f64)>,
}

struct Arrow {
    title: String,
    points: Vec<(f64, f64)>,
}

struct Picture {
    size: Area,
    cards: Vec<Card>,
    arrows: Vec<Arrow>,
    labels: Vec<(String, Area)>,
}

fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let start = format!(" {name}=\"");
    let at = tag.find(&start).unwrap_or_else(|| panic!("no {name} in {tag}")) + start.len();
    &tag[at..at + tag[at..].find('"').unwrap()]
}

fn number(tag: &str, name: &str) -> f64 {
    attribute(tag, name).parse().unwrap()
}

fn area(tag: &str) -> Area {
    let [x, y, w, h] = ["x", "y", "width", "height"].map(|name| number(tag, name));
    Area { x, y, w, h }
}

fn plain(text: &str) -> String {
    text.replace("&gt;", ">").replace("&lt;", "<").replace("&apos;", "'").replace("&quot;", "\"")
}

/// Corners and ends of a path of straight parts with rounded corners.
fn points(path: &str) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    for pair in path.split([' ', 'M', 'L', 'Q']).filter(|p| !p.is_empty()) {
        let (x, y) = pair.split_once(',').unwrap();
        points.push((x.parse().unwrap(), y.parse().unwrap()));
    }
    points
}

fn parse(svg: &str) -> Picture {
    let size = attribute(svg, "viewBox").split(' ').map(|n| n.parse().unwrap()).collect::<Vec<f64>>();
    let mut picture = Picture {
        size: Area { x: size[0], y: size[1], w: size[2], h: size[3] },
        cards: Vec::new(),
        arrows: Vec::new(),
        labels: Vec::new(),
    };
    let tags: Vec<&str> = svg.split('<').collect();
    for (i, tag) in tags.iter().enumerate() {
        let text = || plain(tag.split_once('>').unwrap().1.trim_end());
        if tag.starts_with("rect class=\"box\"") {
            picture.cards.push(Card { area: area(tag), name: String::new(), lines: Vec::new() });
        } else if tag.starts_with("text") && text() == "initial state" {
            picture.cards.last_mut().unwrap().name = "the initial state".to_owned();
        } else if tag.starts_with("text class=\"m\"") {
            let card = picture.cards.last_mut().unwrap();
            if card.name.is_empty() {
                card.name = text();
            } else {
                card.lines.push((text(), number(tag, "y") - 4.0));
            }
        } else if tag.starts_with("path class=\"arrow\"") {
            let title = plain(tags[i + 1].strip_prefix("title>").unwrap());
            picture.arrows.push(Arrow { title, points: points(attribute(tag, "d")) });
        } else if tag.starts_with("text class=\"label\"") {
            let w = text().chars().count() as f64 * if tag.contains("bold") { 7.3 } else { 6.4 };
            let (x, y) = (number(tag, "x") - w / 2.0, number(tag, "y") - 10.0);
            picture.labels.push((text(), Area { x, y, w, h: 13.0 }));
        }
    }
    picture
}

/// An arrow's end is at the line of its operation, else somewhere at the edge of its box.
fn arrives(picture: &Picture, end: &str, (x, y): (f64, f64), context: &str) {
    let named = |card: &&Card| end == card.name || end.starts_with(&format!("{} ", card.name));
    let card = picture.cards.iter().find(named).unwrap_or_else(|| panic!("no box for {end}: {context}"));
    let a = card.area;
    let beside = [a.x, a.x + a.w].iter().any(|edge| (edge - x).abs() < 0.6) && y >= a.y && y <= a.y + a.h;
    let above = [a.y, a.y + a.h].iter().any(|edge| (edge - y).abs() < 0.6);
    let op = end[card.name.len()..].trim();
    if op.is_empty() {
        let reached = beside || above && (x >= a.x && x <= a.x + a.w || card.name == "the initial state");
        assert!(reached, "{end} is not reached at {x}, {y}: {context}");
        return;
    }
    let at_line = card.lines.iter().any(|(text, middle)| text == op && (middle - y).abs() <= 8.0);
    assert!(beside && at_line, "{end} is not at {x}, {y}: {context}");
}

fn measure(svg: &str, context: &str) -> usize {
    let picture = parse(svg);
    let context = &format!("{context}\n{svg}");
    for arrow in &picture.arrows {
        let (label, ends) = arrow.title.split_once(": ").unwrap();
        let (from, to) = ends.split_once(" → ").unwrap();
        arrives(&picture, from, arrow.points[0], context);
        arrives(&picture, to, *arrow.points.last().unwrap(), context);
        if let Some((_, version)) = label.split_once(' ').filter(|_| !label.contains('…')) {
            let (key, value) = version.split_once(['=', '+']).unwrap();
            let named = [from, to].iter().any(|end| end.contains(&format!("({key},{value})")));
            assert!(named, "{label} is not about {from} or {to}: {context}");
        }
        for (part, card) in arrow.points.windows(2).flat_map(|p| picture.cards.iter().map(move |c| (p, c))) {
            let through = Area::line(part[0], part[1]).overlaps(&card.area.shrunk());
            assert!(!through, "{} runs through {}: {context}", arrow.title, card.name);
        }
    }
    let overlap = |a: &Arrow, b: &Arrow| {
        a.points.windows(2).any(|p| {
            b.points.windows(2).any(|q| {
                let (p, q) = (Area::line(p[0], p[1]), Area::line(q[0], q[1]));
                let upright = p.w < 1.0 && q.w < 1.0 && p.h.min(q.h) > 4.0;
                let level = p.h < 1.0 && q.h < 1.0 && p.w.min(q.w) > 4.0;
                (upright || level) && p.overlaps(&q)
            })
        })
    };
    for (i, a) in picture.arrows.iter().enumerate() {
        for b in &picture.arrows[..i] {
            assert!(!overlap(a, b), "{} lies on {}: {context}", a.title, b.title);
        }
    }
    assert_eq!(picture.labels.len(), picture.arrows.len(), "{context}");
    for (i, (text, label)) in picture.labels.iter().enumerate() {
        for (other, area) in &picture.labels[..i] {
            assert!(!area.overlaps(label), "label {text} overlaps label {other}: {context}");
        }
        for card in &picture.cards {
            assert!(!card.area.overlaps(label), "label {text} overlaps box {}: {context}", card.name);
        }
        let (a, s) = (label, picture.size);
        let inside = a.x >= 0.0 && a.y >= 0.0 && a.x + a.w <= s.w && a.y + a.h <= s.h;
        assert!(inside, "label {text} is outside: {context}");
    }
    picture.arrows.len()
}

/// Measures the pictures of all anomalies of a history; the number of their arrows.
fn measure_all(history: &History, context: &str) -> usize {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    let judgement = check(&indexed, &Request::default(), &Budget::unlimited());
    let picture = |kind: AnomalyKind| format!("{kind} of {context}");
    let pictures = judgement.anomalies.iter().map(|a| (a, anomalist_report::svg(history, a)));
    pictures.map(|(a, svg)| measure(&svg, &picture(a.kind))).sum()
}

#[test]
fn every_injected_tap() {
    for tap in 'a'..='n' {
        for seed in 0..8 {
            let inject = vec![Injection::Tap(tap)];
            let spec = Spec { sessions: 8, txns_per_session: 5, inject, seed, ..Spec::default() };
            let arrows = measure_all(&generate(&spec).unwrap(), &format!("TAP-{tap}, seed {seed}"));
            // TAP-a, c, d and e are about one transaction.
            assert!(arrows > 0 || "acde".contains(tap), "TAP-{tap}");
        }
    }
}

#[test]
fn the_example_of_every_anomaly() {
    let mut arrows = 0;
    for kind in AnomalyKind::ALL {
        if let Some(example) = kind.info().example.filter(|_| !kind.is_stamp()) {
            arrows += measure_all(&mini::history(example), kind.name());
        }
    }
    assert!(arrows > 60, "{arrows}");
}

#[test]
fn random_histories() {
    let shape = Shape { txns: 6..=14, sessions: 1..=6, keys: 1..=4, ..Shape::default() };
    let shapes = [shape.clone(), Shape { timed: 1.0, ..shape.clone() }, Shape { lists: 1.0, ..shape }];
    let mut arrows = 0;
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let history = random::tiny(&mut rng, &shapes[seed as usize % 3]);
        arrows += measure_all(&history, &format!("seed {seed}"));
    }
    assert!(arrows > 2_000, "{arrows}");
}
