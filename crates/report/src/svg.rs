//! A witness as a picture, drawn here: sessions are lanes, transactions boxes with the operations that
//! matter, and dependencies arrows coloured by relation, the contradiction thick. No Graphviz.
//! `svg/place.rs` has the geometry.
//!
//! Light or dark follows the reader's setting; the bytes are the same for the same witness.

pub(crate) mod arrows;
mod label;
mod place;
mod route;

use crate::escape::xml;
use crate::witness_view::WitnessView;
use anomalist_history::{History, OpId};
use anomalist_level::{Anomaly, Relation};
use arrows::{Arrow, arrows, color, meaning};
use place::{CHAR, LABEL_CHAR, Picture, TITLE, place};
use std::collections::BTreeSet;
use std::fmt::Write;

const STYLE: &str = "\
.anomalist{font-family:ui-sans-serif,system-ui,'DejaVu Sans',sans-serif;font-size:12px}\
.anomalist .m{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}\
.anomalist .bg{fill:#ffffff}.anomalist .lane{fill:#f3f4f6}.anomalist .box{fill:#ffffff;stroke:#8b949e}\
.anomalist text{fill:#1f2328}.anomalist .dim{fill:#656d76;font-size:11px}\
@media (prefers-color-scheme:dark){.anomalist .bg{fill:#0d1117}.anomalist .lane{fill:#161b22}\
.anomalist .box{fill:#0d1117;stroke:#8b949e}.anomalist text{fill:#e6edf3}.anomalist .dim{fill:#8b949e}}";

const RELATIONS: [Relation; 7] = [
    Relation::SessionOrder,
    Relation::WriteRead,
    Relation::Required,
    Relation::VersionOrder,
    Relation::AntiDependency,
    Relation::PredicateAntiDependency,
    Relation::RealTime,
];

/// The witness of an anomaly as an SVG document.
pub fn svg(history: &History, anomaly: &Anomaly) -> String {
    let view = WitnessView::new(history, anomaly);
    let arrows = arrows(&view);
    let picture = place(&view, &arrows);
    let used: BTreeSet<Relation> = arrows.iter().map(|a| a.relation).collect();
    let title = format!("{}: {}", anomaly.kind, anomaly.kind.title());
    let legend =
        legend(&used, arrows.iter().any(|a| !a.main), picture.width.max(360.0), picture.bottom + 28.0);
    let (w, h) = (picture.width.max(360.0).max(title.chars().count() as f64 * 8.5 + 32.0), legend.1 + 14.0);

    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"anomalist\" viewBox=\"0 0 {w:.0} {h:.0}\" width=\"{w:.0}\" \
         height=\"{h:.0}\" role=\"img\">"
    );
    let _ = writeln!(out, "<title>{}</title>", xml(&title));
    let _ = writeln!(out, "<style>{STYLE}</style>");
    out.push_str("<defs>\n");
    for relation in &used {
        let _ = writeln!(
            out,
            "<marker id=\"anomalist-{0}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"9\" markerHeight=\"9\" \
             markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\"><path d=\"M0,0 L10,5 L0,10 z\" \
             fill=\"{1}\"/></marker>",
            relation.name(),
            color(*relation)
        );
    }
    out.push_str("</defs>\n");
    let _ = writeln!(out, "<rect class=\"bg\" width=\"{w:.0}\" height=\"{h:.0}\" rx=\"8\"/>");
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"{TITLE}\" font-weight=\"bold\" style=\"font-size:14px\">{}</text>",
        xml(&title)
    );
    boxes(&picture, &mut out);
    for (arrow, way) in arrows.iter().zip(&picture.ways) {
        let thick =
            if arrow.main { "stroke-width=\"2.6\"" } else { "stroke-width=\"1.2\" stroke-dasharray=\"5 3\"" };
        let _ = writeln!(
            out,
            "<path class=\"arrow\" d=\"{}\" fill=\"none\" stroke=\"{}\" {thick} \
             marker-end=\"url(#anomalist-{})\"><title>{}</title></path>",
            route::path(&way.points),
            color(arrow.relation),
            arrow.relation.name(),
            xml(&spoken(&view, arrow))
        );
    }
    // Labels last: no arrow runs over one.
    for (arrow, way) in arrows.iter().zip(&picture.ways) {
        let area = way.label;
        let weight = if arrow.main { " font-weight=\"bold\"" } else { "" };
        let _ = writeln!(
            out,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\"{weight} \
             style=\"font-size:11px;fill:{}\">{}</text>",
            area.x + area.w / 2.0,
            area.y + 11.0,
            color(arrow.relation),
            xml(&arrow.label)
        );
    }
    out.push_str(&legend.0);
    out.push_str("</svg>\n");
    out
}

/// What an arrow says, for those who point at it: `wr x=1: T1 w(x,1) → T2 r(x,1)`.
fn spoken(view: &WitnessView<'_>, arrow: &Arrow) -> String {
    let end = |node, op: Option<OpId>| match op {
        Some(op) => format!("{} {}", view.node(node), view.op(op)),
        None => view.node(node),
    };
    let ends = (end(arrow.from, arrow.from_op), end(arrow.to, arrow.to_op));
    format!("{}: {} → {}", arrow.label, ends.0, ends.1)
}

fn boxes(picture: &Picture, out: &mut String) {
    for lane in &picture.lanes {
        let a = lane.area;
        let _ = writeln!(
            out,
            "<rect class=\"lane\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"8\"/>\
             <text class=\"dim\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            a.x - 8.0,
            a.y,
            a.w + 16.0,
            a.h,
            a.x + a.w / 2.0,
            a.y + 20.0,
            xml(&lane.title)
        );
    }
    if let Some(a) = picture.initial {
        let _ = writeln!(
            out,
            "<rect class=\"box\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"6\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">initial state</text>",
            a.x - 8.0,
            a.y,
            a.w + 16.0,
            a.h,
            a.x + a.w / 2.0,
            a.y + 18.0
        );
    }
    for card in &picture.cards {
        let a = card.area;
        let _ = write!(
            out,
            "<rect class=\"box\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"6\"/>\
             <text class=\"m\" x=\"{:.1}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
            a.x,
            a.y,
            a.w,
            a.h,
            a.x + 10.0,
            a.y + 19.0,
            xml(&card.title)
        );
        let after = a.x + 10.0 + (card.title.chars().count() as f64 + 1.0) * CHAR;
        let _ = writeln!(
            out,
            "<text class=\"dim\" x=\"{after:.1}\" y=\"{:.1}\">{}</text>",
            a.y + 19.0,
            xml(&card.subtitle)
        );
        for (i, (_, op)) in card.ops.iter().enumerate() {
            let y = card.baseline(i);
            let _ =
                writeln!(out, "<text class=\"m\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>", a.x + 10.0, xml(op));
        }
    }
}

/// The legend, wrapped to the picture's width, and where it ends.
fn legend(used: &BTreeSet<Relation>, behind: bool, width: f64, top: f64) -> (String, f64) {
    let mut out = String::new();
    let (mut x, mut y) = (16.0, top);
    for relation in RELATIONS.into_iter().filter(|r| used.contains(r)) {
        let text = format!("{} {}", relation.name(), meaning(relation));
        let w = 34.0 + text.chars().count() as f64 * LABEL_CHAR + 18.0;
        if x > 16.0 && x + w > width {
            (x, y) = (16.0, y + 18.0);
        }
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1},{0:.1} L{1:.1},{0:.1}\" stroke=\"{2}\" stroke-width=\"2.6\"/>\
             <text class=\"dim\" x=\"{3:.1}\" y=\"{y:.1}\">{4}</text>",
            y - 4.0,
            x + 24.0,
            color(relation),
            x + 30.0,
            xml(&text)
        );
        x += w;
    }
    if behind {
        y += 18.0;
        let _ = writeln!(
            out,
            "<text class=\"dim\" x=\"16.0\" y=\"{y:.1}\">thick: the contradiction; dashed: the reads behind it</text>"
        );
    }
    (out, y)
}
