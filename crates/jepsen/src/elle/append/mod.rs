//! Lists that grow by appends: a read shows all appends before it, so the longest read of a key is its
//! version order.
//!
//! Every append that no read shows is taken to come after all those that the longest read shows, unordered
//! among themselves. Elements that only shorter, contradicting reads show count as unobserved, and the
//! chain is not bridged over elements of failed transactions: that is Elle's inference, not the best one.

mod direct;

use super::elle_history::{ElleHistory, Graph};
use super::steps::{Evidence, Versions};
use super::{Findings, Inference, Unfit};
use anomalist_history::{KeyId, OpId, OpKind, Value};
use anomalist_level::elle::Edge;
use rustc_hash::FxHashMap;

/// The reads and appends of one key, in the order of the input.
#[derive(Default)]
struct Key<'a> {
    /// Reads by transactions that may have committed.
    reads: Vec<(OpId, &'a [Value])>,
    /// Reads by transactions that failed.
    failed_reads: Vec<(OpId, &'a [Value])>,
    /// Appends by transactions that may have committed.
    appends: Vec<OpId>,
    failed_appends: Vec<OpId>,
}

/// Everything by key, and who appended what.
struct Lists<'g, 'a> {
    numbered: &'g ElleHistory<'a>,
    keys: Vec<Key<'a>>,
    /// Appends of transactions that may have committed, by key and element; of several the last.
    writer: FxHashMap<(KeyId, Value), OpId>,
    failed_writer: FxHashMap<(KeyId, Value), OpId>,
    /// Appends after which the same transaction appended to the key again, whatever became of it.
    intermediate: FxHashMap<(KeyId, Value), OpId>,
    versions: Versions,
}

/// Elle's analysis of a list-append history.
pub(super) fn infer(numbered: &ElleHistory<'_>) -> Result<Inference, Unfit> {
    let lists = collect(numbered)?;
    let mut findings = Findings::new();
    let objection = direct::check(&lists, &mut findings);
    let graph = edges(&lists);
    let objection = objection.or(graph.objection());
    let evidence = Evidence::Lists { writer: lists.writer, versions: lists.versions };
    Ok(Inference { graph, findings, objection, evidence })
}

fn collect<'g, 'a>(numbered: &'g ElleHistory<'a>) -> Result<Lists<'g, 'a>, Unfit> {
    let mut lists = Lists {
        numbered,
        keys: (0..numbered.history.key_count()).map(|_| Key::default()).collect(),
        writer: FxHashMap::default(),
        failed_writer: FxHashMap::default(),
        intermediate: FxHashMap::default(),
        versions: Versions::default(),
    };
    // Without invocations Elle does not see that a value was asked for twice.
    let has_invocations = numbered.history.intervals().is_some();
    let mut final_append: FxHashMap<KeyId, OpId> = FxHashMap::default();
    for node in numbered.nodes() {
        let possible = numbered.is_possible(node);
        final_append.clear();
        for (op, o) in numbered.ops(node) {
            let key = &mut lists.keys[o.key.index()];
            match o.kind {
                OpKind::Write => {
                    return Err(Unfit::UnexpectedOperation { op, expected: "reads and appends only" });
                }
                OpKind::Append => {
                    let slot = (o.key, o.value);
                    let earlier = if possible {
                        key.appends.push(op);
                        lists.writer.insert(slot, op)
                    } else {
                        key.failed_appends.push(op);
                        lists.failed_writer.insert(slot, op)
                    };
                    let other = if possible { &lists.failed_writer } else { &lists.writer };
                    if let (true, Some(first)) = (has_invocations, earlier.or(other.get(&slot).copied())) {
                        return Err(Unfit::Duplicate { first, second: op });
                    }
                    if let Some(before) = final_append.insert(o.key, op) {
                        lists.intermediate.insert((o.key, numbered.history.op(before).value), before);
                    }
                }
                OpKind::Read if o.value == Value::UNKNOWN => {}
                OpKind::Read => {
                    let Some(list) = numbered.list(&o) else {
                        return Err(Unfit::UnexpectedOperation { op, expected: "reads of lists only" });
                    };
                    if possible { &mut key.reads } else { &mut key.failed_reads }.push((op, list));
                }
            }
        }
    }
    for (i, key) in lists.keys.iter().enumerate() {
        let id = KeyId(i as u32);
        match longest(&key.reads) {
            Some((read, list)) => lists.versions.show(id, list, Some(read)),
            None => {
                if let [only] = key.appends[..] {
                    lists.versions.show(id, &[numbered.history.op(only).value], None);
                }
            }
        }
    }
    Ok(lists)
}

/// The first of the longest reads, if it shows anything.
fn longest<'a>(reads: &[(OpId, &'a [Value])]) -> Option<(OpId, &'a [Value])> {
    let mut best: Option<(OpId, &[Value])> = None;
    for &(op, list) in reads {
        if list.len() > best.map_or(0, |(_, list)| list.len()) {
            best = Some((op, list));
        }
    }
    best
}

fn edges(lists: &Lists<'_, '_>) -> Graph {
    let numbered = lists.numbered;
    let mut graph = Graph::new(numbered);
    // Who read up to which element of the key at hand; nothing at all is `None`.
    let mut readers: FxHashMap<Option<Value>, Vec<u32>> = FxHashMap::default();
    for (i, key) in lists.keys.iter().enumerate() {
        let id = KeyId(i as u32);
        readers.clear();
        for &(op, list) in &key.reads {
            let reader = numbered.node_of(op);
            readers.entry(list.last().copied()).or_default().push(reader);
            if let Some(write) = list.last().and_then(|&last| lists.writer.get(&(id, last))) {
                graph.add(numbered.node_of(*write), reader, Edge::Wr);
            }
        }
        for nodes in readers.values_mut() {
            nodes.dedup();
        }
        for &append in &key.appends {
            let writer = numbered.node_of(append);
            let previous = lists.versions.before(id, numbered.history.op(append).value);
            if let Some(write) = previous.and_then(|v| lists.writer.get(&(id, v))) {
                graph.add(numbered.node_of(*write), writer, Edge::Ww);
            }
            graph.add_all(readers.get(&previous).map_or(&[], Vec::as_slice), writer, Edge::Rw);
        }
    }
    graph
}
