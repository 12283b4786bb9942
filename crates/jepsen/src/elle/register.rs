//! Registers: each value is written once per key and the first is nil. Who reads what tells who wrote it;
//! which version came before which does not follow, and is inferred from what the user vouches for
//! (`versions`).
//!
//! Only committed writers count, and only versions that *directly* precede each other make edges: Elle's
//! inference.

use super::elle_history::{ElleHistory, Graph};
use super::steps::{Evidence, External, external};
use super::updates::lost_update;
use super::versions;
use super::{Case, Findings, Inference, Options, Unfit};
use anomalist_history::{KeyId, Op, OpId, OpKind, Value};
use anomalist_level::AnomalyKind as A;
use anomalist_level::elle::Edge;
use rustc_hash::FxHashMap;

/// The versions of all keys, numbered, with the committed transactions that wrote and read them.
#[derive(Default)]
pub(super) struct Register {
    id: FxHashMap<(KeyId, Value), u32>,
    /// Key and value of each version.
    pub versions: Vec<(KeyId, Value)>,
    /// Committed writers, each with its write.
    pub writers: Vec<Vec<(u32, OpId)>>,
    /// Committed readers.
    pub readers: Vec<Vec<u32>>,
}

impl Register {
    pub fn id(&mut self, key: KeyId, value: Value) -> u32 {
        *self.id.entry((key, value)).or_insert_with(|| {
            self.versions.push((key, value));
            self.writers.push(Vec::new());
            self.readers.push(Vec::new());
            self.versions.len() as u32 - 1
        })
    }
}

/// Elle's analysis of a register history.
pub(super) fn infer(numbered: &ElleHistory<'_>, options: &Options) -> Result<Inference, Unfit> {
    let mut findings = Findings::new();
    internal(numbered, &mut findings);
    dirty_reads(numbered, &mut findings);
    let seen = |o: &Op| (o.value != Value::UNKNOWN).then(|| numbered.register(o.key, o.value));
    lost_update(numbered, seen, &mut findings);
    let mut register = collect(numbered);
    let mut graph = Graph::new(numbered);
    for (writers, readers) in register.writers.iter().zip(&register.readers) {
        if let ([first, second, ..], true) = (&writers[..], !readers.is_empty()) {
            return Err(Unfit::Duplicate { first: first.1, second: second.1 });
        }
        for &(writer, _) in writers {
            readers.iter().for_each(|&reader| graph.add(writer, reader, Edge::Wr));
        }
    }
    let precedes = versions::infer(numbered, options, &mut register, &mut findings);
    for &(earlier, later) in &precedes {
        for &(overwriter, _) in &register.writers[later as usize] {
            let written = &register.writers[earlier as usize];
            written.iter().for_each(|&(writer, _)| graph.add(writer, overwriter, Edge::Ww));
            graph.add_all(&register.readers[earlier as usize], overwriter, Edge::Rw);
        }
    }
    let version = |id: u32| register.versions[id as usize];
    let mut versions: Vec<(KeyId, Value, Value)> =
        precedes.iter().map(|&(a, b)| (version(a).0, version(a).1, version(b).1)).collect();
    versions.sort_unstable();
    let objection = graph.objection();
    Ok(Inference { graph, findings, objection, evidence: Evidence::Registers { versions } })
}

fn collect(numbered: &ElleHistory<'_>) -> Register {
    let mut register = Register::default();
    for node in numbered.nodes().filter(|&node| numbered.is_ok(node)) {
        for External { key, read, write } in external(numbered, node) {
            if let Some((value, _)) = read {
                let id = register.id(key, value);
                register.readers[id as usize].push(node);
            }
            if let Some((value, op)) = write {
                let id = register.id(key, value);
                register.writers[id as usize].push((node, op));
            }
        }
    }
    register
}

/// `internal`: a read that differs from what its transaction last read or wrote; the first of each
/// transaction.
fn internal(numbered: &ElleHistory<'_>, findings: &mut Findings) {
    let mut state: FxHashMap<KeyId, Value> = FxHashMap::default();
    for node in numbered.nodes().filter(|&node| numbered.is_ok(node)) {
        state.clear();
        for (op, o) in numbered.ops(node).filter(|(_, o)| o.value != Value::UNKNOWN) {
            let value = numbered.register(o.key, o.value);
            let before = state.insert(o.key, value);
            if let (OpKind::Read, Some(expected)) = (o.kind, before.filter(|&before| before != value)) {
                let case = Case::Internal { read: op, expected: vec![expected], suffix: false };
                findings.push((A::Internal, case));
                break;
            }
        }
    }
}

/// `G1a` and `G1b`: committed reads of what failed transactions wrote, and of what their writer overwrote
/// itself.
fn dirty_reads(numbered: &ElleHistory<'_>, findings: &mut Findings) {
    let mut failed: FxHashMap<(KeyId, Value), OpId> = FxHashMap::default();
    let mut intermediate: FxHashMap<(KeyId, Value), OpId> = FxHashMap::default();
    let mut last: FxHashMap<KeyId, (Value, OpId)> = FxHashMap::default();
    for node in numbered.nodes() {
        last.clear();
        for (op, o) in numbered.ops(node).filter(|(_, o)| o.kind != OpKind::Read) {
            let value = numbered.register(o.key, o.value);
            if !numbered.is_possible(node) {
                failed.insert((o.key, value), op);
            }
            if let Some((value, op)) = last.insert(o.key, (value, op)) {
                intermediate.insert((o.key, value), op);
            }
        }
    }
    if failed.is_empty() && intermediate.is_empty() {
        return;
    }
    for node in numbered.nodes().filter(|&node| numbered.is_ok(node)) {
        for (read, o) in numbered.ops(node).filter(|(_, o)| o.kind == OpKind::Read) {
            let seen = (o.key, numbered.register(o.key, o.value));
            if let Some(&write) = failed.get(&seen) {
                findings.push((A::G1a, Case::DirtyRead { read, write }));
            }
            if let Some(&write) = intermediate.get(&seen).filter(|&&write| numbered.node_of(write) != node) {
                findings.push((A::G1b, Case::DirtyRead { read, write }));
            }
        }
    }
}
