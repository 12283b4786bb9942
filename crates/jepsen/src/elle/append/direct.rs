//! Anomalies of lists that are no cycles.

use super::super::elle_history::ElleHistory;
use super::super::updates::lost_update;
use super::super::{Case, Findings};
use super::{Key, Lists, longest};
use anomalist_history::{KeyId, OpId, OpKind, Outcome, TxnId, Value};
use anomalist_level::AnomalyKind as A;
use rustc_hash::{FxHashMap, FxHashSet};

/// Finds them all. Returns why Elle would have stopped with an error, if it would.
pub(super) fn check(lists: &Lists<'_, '_>, findings: &mut Findings) -> Option<String> {
    within_transactions(lists, findings);
    let mut objection = None;
    for (i, key) in lists.keys.iter().enumerate() {
        let id = KeyId(i as u32);
        dirty_reads(lists, id, key, findings);
        duplicates(key, findings);
        incompatible_order(key, findings);
        let garbage = dirty_update(lists, id, key, findings);
        objection = objection.or(garbage);
    }
    lost_update(lists.numbered, |read| lists.numbered.list(read), findings);
    objection
}

/// What a transaction must see of a key: a list, or unknown elements and then these.
#[derive(Default)]
struct Expected<'a> {
    seen: Option<&'a [Value]>,
    appended: Vec<Value>,
}

impl Expected<'_> {
    fn allows(&self, list: &[Value]) -> bool {
        match self.seen {
            Some(seen) => {
                list.len() == seen.len() + self.appended.len()
                    && list.starts_with(seen)
                    && list.ends_with(&self.appended)
            }
            None => list.ends_with(&self.appended),
        }
    }
}

/// `internal` and `future-read`: a transaction against itself, the first of each.
fn within_transactions(lists: &Lists<'_, '_>, findings: &mut Findings) {
    let numbered = lists.numbered;
    let mut expected: FxHashMap<KeyId, Expected<'_>> = FxHashMap::default();
    for node in numbered.nodes().filter(|&node| numbered.is_ok(node)) {
        if numbered.history.op_range(numbered.txn(node)).len() < 2 {
            continue;
        }
        expected.clear();
        let (mut internal, mut appends_after_read) = (None, false);
        for (op, o) in numbered.ops(node) {
            if o.kind == OpKind::Append {
                let state = expected.entry(o.key).or_default();
                state.appended.push(o.value);
                appends_after_read |= state.seen.is_some();
                continue;
            }
            let Some(list) = numbered.list(&o) else { continue };
            let state = expected.entry(o.key).or_default();
            if internal.is_none() && !state.allows(list) {
                let seen = state.seen.unwrap_or_default();
                let shown = seen.iter().chain(&state.appended).copied().collect();
                internal = Some(Case::Internal { read: op, expected: shown, suffix: state.seen.is_none() });
            }
            *state = Expected { seen: Some(list), appended: Vec::new() };
        }
        findings.extend(internal.map(|case| (A::Internal, case)));
        let future = if appends_after_read { future_read(numbered, node) } else { None };
        findings.extend(future.map(|case| (A::ElleFutureRead, case)));
    }
}

/// The first read of an element that the transaction itself appends later.
fn future_read(numbered: &ElleHistory<'_>, node: u32) -> Option<Case> {
    let appends = numbered.ops(node).filter(|(_, o)| o.kind == OpKind::Append);
    // Of an element appended twice, the last time.
    let own: FxHashMap<(KeyId, Value), OpId> = appends.map(|(op, o)| ((o.key, o.value), op)).collect();
    numbered.ops(node).find_map(|(read, o)| {
        let elements = numbered.list(&o)?.iter();
        let mut later = elements.filter_map(|&element| own.get(&(o.key, element)));
        later.find(|&&append| append > read).map(|&append| Case::FutureRead { read, append })
    })
}

/// `G1a`, one per read and element of a failed transaction, and `G1b`.
fn dirty_reads(lists: &Lists<'_, '_>, id: KeyId, key: &Key<'_>, findings: &mut Findings) {
    let numbered = lists.numbered;
    for &(read, list) in key.reads.iter().filter(|&&(read, _)| numbered.is_ok(numbered.node_of(read))) {
        if !key.failed_appends.is_empty() {
            for element in list {
                if let Some(&write) = lists.failed_writer.get(&(id, *element)) {
                    findings.push((A::G1a, Case::DirtyRead { read, write }));
                }
            }
        }
        let last = list.last().and_then(|&last| lists.intermediate.get(&(id, last)));
        if let Some(&write) = last.filter(|&&write| numbered.node_of(write) != numbered.node_of(read)) {
            findings.push((A::G1b, Case::DirtyRead { read, write }));
        }
    }
}

/// `duplicate-elements`. What begins a list without duplicates has none.
fn duplicates(key: &Key<'_>, findings: &mut Findings) {
    let Some((_, whole)) = longest(&key.reads) else { return };
    let clean = repeated(whole).is_empty();
    for &(read, list) in &key.reads {
        if clean && whole.starts_with(list) {
            continue;
        }
        let elements = repeated(list);
        if !elements.is_empty() {
            findings.push((A::DuplicateElements, Case::Duplicates { read, elements }));
        }
    }
}

/// The elements that occur more than once, by first occurrence.
fn repeated(list: &[Value]) -> Vec<(Value, usize)> {
    let mut count: FxHashMap<Value, usize> = FxHashMap::default();
    list.iter().for_each(|&v| *count.entry(v).or_default() += 1);
    if count.len() == list.len() {
        return Vec::new();
    }
    list.iter().filter_map(|&v| count.remove(&v).filter(|&n| n > 1).map(|n| (v, n))).collect()
}

/// `incompatible-order`: the first neighbours by length of which the shorter does not begin the longer.
fn incompatible_order(key: &Key<'_>, findings: &mut Findings) {
    let mut reads: Vec<(OpId, &[Value])> =
        key.reads.iter().copied().filter(|(_, list)| !list.is_empty()).collect();
    reads.sort_by_key(|(_, list)| list.len());
    if let Some(pair) = reads.windows(2).find(|pair| !pair[1].1.starts_with(pair[0].1)) {
        let case = Case::IncompatibleOrder { shorter: pair[0].0, longer: pair[1].0 };
        findings.push((A::IncompatibleOrder, case));
    }
}

/// `dirty-update`: along the longest read of all, failed transactions' reads included, a committed element
/// on top of a failed one. An element no transaction appended makes Elle stop.
fn dirty_update(lists: &Lists<'_, '_>, id: KeyId, key: &Key<'_>, findings: &mut Findings) -> Option<String> {
    let numbered = lists.numbered;
    let shown = [longest(&key.reads), longest(&key.failed_reads)];
    let (read, list) =
        shown.into_iter().flatten().reduce(|a, b| if b.1.len() > a.1.len() { b } else { a })?;
    let (mut span, mut failed): (Vec<(Value, TxnId)>, bool) = (Vec::new(), false);
    let mut seen = FxHashSet::default();
    for &element in list {
        if !key.failed_appends.is_empty() && !seen.insert(element) {
            continue;
        }
        let writer = lists.writer.get(&(id, element)).or_else(|| lists.failed_writer.get(&(id, element)));
        let Some(&write) = writer else {
            let (key, element) = (numbered.history.show_key(id), numbered.history.show(element));
            let reader = numbered.history.txn_name(numbered.history.txn_of(read));
            return Some(format!(
                "transaction {reader} read {element} from key {key}, and no transaction appended it: Elle stops here"
            ));
        };
        let t = numbered.txn(numbered.node_of(write));
        match numbered.history.outcome(t) {
            Outcome::Committed if failed => {
                span.push((element, t));
                let elements = span.iter().map(|&(v, _)| v).collect();
                let txns = span.iter().map(|&(_, t)| t).collect();
                findings.push((A::DirtyUpdate, Case::DirtyUpdate { key: id, elements, txns }));
                (span, failed) = (Vec::new(), false);
            }
            Outcome::Aborted if !failed => (span, failed) = (vec![(element, t)], true),
            _ if failed => span.push((element, t)),
            _ => {}
        }
    }
    None
}
