//! A witness in sentences: which transaction must come before which, because of which read or write, until
//! they contradict each other.
//!
//! Every edge of a cycle becomes a step. An edge that a level's axiom forces takes two: why the reader sees
//! the overlooked writer, and what follows from its not having been read. Anomalies that are no cycle are
//! reported in `direct.rs`.

use crate::direct;
use crate::refuted;
use crate::versions;
use crate::witness_view::WitnessView;
use anomalist_history::{Clock, History, OpId, OpKind};
use anomalist_level::{Anomaly, Edge, Evidence, Node, Relation};

/// With more steps than this, neighbouring steps of session order and reads are reported as one.
const MANY_STEPS: usize = 8;

/// Explains an anomaly: who is who, then numbered sentences.
///
/// ```
/// use anomalist_history::{Builder, Indexed, OpKind};
/// # let mut b = Builder::new();
/// # let (x, v, s) = (b.int(5), b.int(7), b.int(1));
/// # let (key, session) = (b.key(x), b.session(s));
/// # let t = b.transaction(session);
/// # b.op(t, OpKind::Read, key, v);
/// # let history = b.finish()?;
/// // One transaction, which reads 7 from key 5; no transaction writes anything.
/// let indexed = Indexed::new(&history, 1.try_into()?);
/// # use anomalist_check::{Budget, Request, check};
/// let judgement = check(&indexed, &Request::default(), &Budget::unlimited());
/// assert_eq!(
///     anomalist_report::explain(&history, &judgement.anomalies[0]),
///     "Let T1 = 1:1.\n1. T1 read 5 = 7, but no transaction wrote 7 to 5."
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn explain(history: &History, anomaly: &Anomaly) -> String {
    let view = WitnessView::new(history, anomaly);
    let mut lines = Vec::new();
    if view.renamed && !view.txns.is_empty() {
        let who: Vec<String> = view
            .txns
            .iter()
            .map(|&t| {
                let (name, rest) = (history.txn_name(t), view.particulars(t).join(", "));
                let rest = if rest.is_empty() { rest } else { format!(" ({rest})") };
                format!("{} = {name}{rest}", view.name(t))
            })
            .collect();
        lines.push(format!("Let {}.", shortened(&who).join(", ")));
    }
    if let Some(proof) = refuted::steps(&view) {
        lines.extend(proof.into_iter().map(|line| format!("{}{}", "  ".repeat(line.depth), line.text)));
        return lines.join("\n");
    }
    lines.extend(steps(&view).iter().enumerate().map(|(i, step)| format!("{}. {step}", i + 1)));
    lines.join("\n")
}

/// A sentence of the explanation.
pub(crate) struct Sentence {
    pub text: String,
    /// How deep it stands among the choices of a refutation.
    pub depth: usize,
    /// The operations that it speaks of, as far as that is known.
    pub ops: Vec<OpId>,
    /// The edges of the witness that it reports.
    pub edges: Vec<usize>,
    /// It reports what stands behind the edge, not the edge.
    pub behind: bool,
}

impl Sentence {
    fn alone(text: String) -> Sentence {
        Sentence { text, depth: 0, ops: Vec::new(), edges: Vec::new(), behind: false }
    }
}

/// The whole explanation, a refutation too.
pub(crate) fn sentences(view: &WitnessView<'_>) -> Vec<Sentence> {
    match refuted::steps(view) {
        Some(proof) => proof
            .into_iter()
            .map(|line| Sentence { depth: line.depth, ..Sentence::alone(line.text) })
            .collect(),
        None => step_sentences(view),
    }
}

/// The steps of the explanation, unnumbered.
pub(crate) fn steps(view: &WitnessView<'_>) -> Vec<String> {
    step_sentences(view).into_iter().map(|sentence| sentence.text).collect()
}

/// The steps of the explanation.
pub(crate) fn step_sentences(view: &WitnessView<'_>) -> Vec<Sentence> {
    let edges = &view.anomaly.witness.edges;
    let texts = match direct::steps(view) {
        Some(steps) => steps,
        None if is_cycle(edges) => return cycle(view, edges),
        None => direct::plain(view),
    };
    let ops = if texts.len() == 1 { view.ops_in_order() } else { Vec::new() };
    texts.into_iter().map(|text| Sentence { ops: ops.clone(), ..Sentence::alone(text) }).collect()
}

fn is_cycle(edges: &[Edge]) -> bool {
    let joined = edges.windows(2).all(|pair| pair[0].to == pair[1].from);
    matches!((edges.first(), edges.last()), (Some(first), Some(last)) if joined && last.to == first.from)
}

fn cycle(view: &WitnessView<'_>, edges: &[Edge]) -> Vec<Sentence> {
    let mut steps: Vec<(Sentence, bool)> = Vec::new();
    for (i, edge) in edges.iter().enumerate() {
        let sentence = |text: String| Sentence { edges: vec![i], ..Sentence::alone(text) };
        if let Evidence::Forced { read, visible_write, path, .. } = &edge.evidence {
            let (reader, writer) = (view.history.txn_of(*read), view.history.txn_of(*visible_write));
            let mut why = shortened(&path.iter().map(|e| fact(view, e)).collect::<Vec<_>>()).join("; ");
            if !why.is_empty() {
                why.push_str(&format!(", so {} must see {}.", view.name(reader), view.name(writer)));
                let ops = path.iter().flat_map(|e| e.evidence.operations()).collect();
                steps.push((Sentence { behind: true, ops, ..sentence(why) }, false));
            }
        }
        let mergeable = matches!(edge.relation, Relation::SessionOrder | Relation::WriteRead);
        let ops = edge.evidence.operations();
        steps.push((Sentence { ops, ..sentence(format!("{}.", step(view, edge))) }, mergeable));
    }
    let mut reported: Vec<Sentence> = if steps.len() > MANY_STEPS {
        steps.chunk_by(|a, b| a.1 && b.1).map(as_one).collect()
    } else {
        steps.into_iter().map(|(sentence, _)| sentence).collect()
    };
    if let Some(Sentence { text: last, .. }) = reported.last_mut() {
        let nodes: Vec<String> =
            edges.iter().map(|e| e.from).chain([edges[0].from]).map(|n| short(view, n)).collect();
        if edges.len() == 1 {
            last.push_str(&format!(" {} would have to come before itself.", nodes[0]));
        } else {
            last.push_str(&format!(" So {}: a contradiction.", shortened(&nodes).join(" < ")));
        }
        if edges.len() > 1 {
            *last = format!("But {}", lower_the(last));
        }
    }
    reported
}

/// A run of steps as one.
fn as_one(run: &[(Sentence, bool)]) -> Sentence {
    let texts: Vec<String> = run.iter().map(|(sentence, _)| sentence.text.clone()).collect();
    let edges = run.iter().flat_map(|(sentence, _)| sentence.edges.iter().copied()).collect();
    let ops = run.iter().flat_map(|(sentence, _)| sentence.ops.iter().copied()).collect();
    Sentence { edges, ops, ..Sentence::alone(shortened(&texts).join(" ")) }
}

/// A long list without its middle; the edges themselves are all in the JSON.
fn shortened(items: &[String]) -> Vec<String> {
    const MANY: usize = 16;
    if items.len() <= MANY {
        return items.to_vec();
    }
    let (first, last) = (&items[..MANY / 2], &items[items.len() - MANY / 2..]);
    first.iter().cloned().chain(["…".to_owned()]).chain(last.iter().cloned()).collect()
}

fn short(view: &WitnessView<'_>, node: Node) -> String {
    match node {
        Node::Initial => "initial state".to_owned(),
        Node::Txn(t) => view.name(t),
    }
}

fn lower_the(text: &str) -> String {
    match text.strip_prefix("The ") {
        Some(rest) => format!("the {rest}"),
        None => text.to_owned(),
    }
}

/// A step of a cycle: a fact, and what it says about the order.
fn step(view: &WitnessView<'_>, edge: &Edge) -> String {
    let (from, to) = (view.node(edge.from), view.node(edge.to));
    match &edge.evidence {
        Evidence::Forced { read, overwritten, visible_write, .. } => format!(
            "{from} {}, yet {}: {from} must {} before {to}",
            did(view, *visible_write),
            saw(view, *read, *overwritten),
            if edge.to == Node::Initial { "come" } else { "commit" }
        ),
        Evidence::Session | Evidence::RealTime => fact(view, edge),
        _ => format!("{}: {from} comes before {to}", fact(view, edge)),
    }
}

/// What was observed.
pub(crate) fn fact(view: &WitnessView<'_>, edge: &Edge) -> String {
    let (from, to) = (view.node(edge.from), view.node(edge.to));
    match &edge.evidence {
        Evidence::Session => match (edge.from, edge.to) {
            (Node::Txn(t), Node::Txn(_)) => {
                format!("{from} comes before {to} in session {}", view.session(t))
            }
            _ => format!("The initial state comes before {to}, as before every transaction"),
        },
        Evidence::RealTime => {
            let span = |node: Node| match node {
                Node::Txn(t) => view.history.intervals().map(|i| i[t.index()]),
                Node::Initial => None,
            };
            match (span(edge.from).and_then(|i| i.completed), span(edge.to)) {
                (Some(end), Some(next)) => {
                    let at = |moment: u64| moment_text(view.history.clock(), moment);
                    format!("{from} had ended (at {}) when {to} began (at {})", at(end), at(next.invoked))
                }
                _ => format!("{from} had ended when {to} began"),
            }
        }
        Evidence::Read { write, read } => saw(view, *read, *write),
        Evidence::Forced { read, overwritten, visible_write, .. } => {
            format!("{from} {}, and {}", did(view, *visible_write), saw(view, *read, *overwritten))
        }
        Evidence::Version { first, second, read } => versions::shown(view, *first, *second, *read),
        Evidence::Overwritten { read, seen, write, reason } => {
            versions::overwritten(view, (*read, *seen), *write, *reason)
        }
        Evidence::Ordered { first, second, reason } => versions::ordered(view, *first, *second, *reason),
        Evidence::Given { reason, .. } => format!("{from} and {to}: {reason}"),
    }
}

/// `T3 read x = 1, which T1 wrote`.
pub(crate) fn saw(view: &WitnessView<'_>, read: OpId, write: Option<OpId>) -> String {
    let reader = view.name(view.history.txn_of(read));
    format!("{reader} read {} = {}{}", view.key_of(read), view.value(read), whose(view, read, write))
}

/// `, which T1 wrote`.
pub(crate) fn whose(view: &WitnessView<'_>, read: OpId, write: Option<OpId>) -> String {
    let Some(write) = write else { return ", the initial value".to_owned() };
    let (reader, writer) = (view.history.txn_of(read), view.history.txn_of(write));
    let writer = if reader == writer { "it".to_owned() } else { view.name(writer) };
    let itself = if writer == "it" { " itself" } else { "" };
    match view.history.op(write).kind {
        OpKind::Append => format!(", to which {writer}{itself} appended {}", view.value(write)),
        _ => format!(", which {writer} wrote{itself}{}", view.mention(write)),
    }
}

/// `wrote x = 1`, `appended 1 to x`, `read x = 1`.
pub(crate) fn did(view: &WitnessView<'_>, op: OpId) -> String {
    let (key, value) = (view.key_of(op), view.value(op));
    match view.history.op(op).kind {
        OpKind::Write => format!("wrote {key} = {value}"),
        OpKind::Append => format!("appended {value} to {key}"),
        OpKind::Read => format!("read {key} = {value}"),
    }
}

/// A moment of the clients' clock, in a unit for people where it is known what the clock counts.
fn moment_text(clock: Option<Clock>, moment: u64) -> String {
    match clock {
        Some(Clock::Nanoseconds) => format!("{}.{:06} ms", moment / 1_000_000, moment % 1_000_000),
        Some(Clock::Microseconds) => format!("{}.{:03} ms", moment / 1_000, moment % 1_000),
        Some(Clock::Milliseconds) => format!("{moment} ms"),
        Some(Clock::Seconds) => format!("{moment} s"),
        Some(Clock::Events) => format!("event {moment}"),
        None => moment.to_string(),
    }
}
