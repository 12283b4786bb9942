//! A witness as a Graphviz graph: a cluster per session, a node per transaction, an edge per dependency.

use crate::escape::dot as quoted;
use crate::svg::arrows::{Arrow, arrows, color};
use crate::witness_view::WitnessView;
use anomalist_history::{History, SessionId};
use anomalist_level::{Anomaly, Node};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The witness of an anomaly in the DOT language.
pub fn dot(history: &History, anomaly: &Anomaly) -> String {
    let view = WitnessView::new(history, anomaly);
    let arrows = arrows(&view);
    let mut out = String::from("digraph witness {\n");
    let _ = writeln!(out, "  label={};", quoted(&anomaly.kind.title()));
    out.push_str("  labelloc=t;\n  fontname=\"sans-serif\";\n  node [shape=box, style=rounded, fontname=\"monospace\"];\n");
    out.push_str("  edge [fontname=\"sans-serif\", fontsize=11];\n");
    let mut sessions: BTreeMap<SessionId, Vec<usize>> = BTreeMap::new();
    for (i, &t) in view.txns.iter().enumerate() {
        sessions.entry(history.session_of(t)).or_default().push(i);
    }
    if arrows.iter().any(|a| a.from == Node::Initial || a.to == Node::Initial) {
        out.push_str("  initial [label=\"initial state\"];\n");
    }
    for (session, members) in &sessions {
        let name = view.session(view.txns[members[0]]);
        let _ = writeln!(out, "  subgraph cluster_{} {{", session.0);
        let _ = writeln!(out, "    label={};", quoted(&format!("session {name}")));
        out.push_str("    color=gray;\n");
        for &i in members {
            let t = view.txns[i];
            let mut lines = vec![view.name(t), view.whereabouts(t)];
            lines.extend(view.shown_ops(t));
            lines.retain(|line| !line.is_empty());
            let _ = writeln!(out, "    t{i} [label={}];", quoted(&lines.join("\n")));
        }
        out.push_str("  }\n");
    }
    let id = |node: Node| match node {
        Node::Initial => "initial".to_owned(),
        Node::Txn(t) => format!("t{}", view.txns.iter().position(|&other| other == t).unwrap_or(0)),
    };
    for Arrow { from, to, relation, label, main, .. } in &arrows {
        let look = if *main { "penwidth=2" } else { "style=dashed" };
        let color = color(*relation);
        let label = quoted(label);
        let _ = writeln!(
            out,
            "  {} -> {} [label={label}, color=\"{color}\", fontcolor=\"{color}\", {look}];",
            id(*from),
            id(*to)
        );
    }
    out.push_str("}\n");
    out
}
