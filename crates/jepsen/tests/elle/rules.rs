//! What Elle infers, transcribed rule by rule: quadratic where that is plainer.

use crate::random::{Op, Txn, Val};
use anomalist_history::Outcome;
use anomalist_jepsen::elle::{Datatype, Options};
use anomalist_level::elle::Edge;
use std::collections::{BTreeMap, BTreeSet};

pub struct Inferred {
    pub edges: Vec<(usize, usize, Edge)>,
    pub anomalies: BTreeMap<&'static str, usize>,
}

fn ok(t: &Txn) -> bool {
    t.outcome == Outcome::Committed
}

fn possible(t: &Txn) -> bool {
    t.outcome != Outcome::Aborted
}

fn written(op: &Op) -> Option<i64> {
    match op.val {
        Val::Int(v) if !op.read => Some(v),
        _ => None,
    }
}

fn list(op: &Op) -> Option<&Vec<i64>> {
    match &op.val {
        Val::List(list) => Some(list),
        _ => None,
    }
}

fn each_op(txns: &[Txn]) -> impl Iterator<Item = (usize, &Txn, usize, &Op)> {
    txns.iter().enumerate().flat_map(|(i, t)| t.ops.iter().enumerate().map(move |(j, op)| (i, t, j, op)))
}

fn keys(txns: &[Txn]) -> BTreeSet<i64> {
    each_op(txns).map(|(.., op)| op.key).collect()
}

/// Lists: with invocations no value may be appended twice. Registers: not if it was read, by committed
/// transactions.
pub fn has_duplicates(txns: &[Txn], datatype: Datatype) -> bool {
    if datatype == Datatype::ListAppend {
        let mut seen = BTreeSet::new();
        let all = each_op(txns).filter_map(|(.., op)| written(op).map(|v| (op.key, v)));
        return txns.iter().all(|t| t.span.is_some()) && all.into_iter().any(|write| !seen.insert(write));
    }
    let mut written = BTreeMap::new();
    for t in txns.iter().filter(|t| ok(t)) {
        final_writes(t).into_iter().for_each(|write| *written.entry(write).or_insert(0) += 1);
    }
    let twice = |read: &(i64, Val)| written.get(&(read.0, int(&read.1))).is_some_and(|&n| n > 1);
    txns.iter().filter(|t| ok(t)).flat_map(first_reads).any(|read| twice(&read))
}

fn int(val: &Val) -> i64 {
    if let Val::Int(v) = val { *v } else { -1 }
}

pub fn infer(txns: &[Txn], datatype: Datatype, options: &Options) -> Inferred {
    let mut anomalies = BTreeMap::new();
    let mut note = |kind, n: usize| {
        if n > 0 {
            *anomalies.entry(kind).or_insert(0) += n;
        }
    };
    lost_update(txns, &mut note);
    dirty_reads(txns, &mut note);
    let edges = match datatype {
        Datatype::ListAppend => {
            list_anomalies(txns, &mut note);
            list_edges(txns)
        }
        Datatype::RwRegister => {
            note("internal", txns.iter().filter(|t| ok(t) && contradicts_itself(t)).count());
            register_edges(txns, options, &mut note)
        }
    };
    Inferred { edges: edges.into_iter().filter(|(a, b, _)| a != b).collect(), anomalies }
}

/// Groups of committed transactions by key and first read, if they write the key afterwards.
fn lost_update(txns: &[Txn], note: &mut impl FnMut(&'static str, usize)) {
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    for t in txns.iter().filter(|t| ok(t)) {
        for key in keys(std::slice::from_ref(t)) {
            let on = |op: &Op| op.key == key;
            let Some(first) = t.ops.iter().position(|op| on(op) && op.read && op.val != Val::Unknown) else {
                continue;
            };
            if t.ops[first..].iter().any(|op| on(op) && !op.read) {
                *groups.entry(format!("{key} {:?}", t.ops[first].val)).or_insert(0) += 1;
            }
        }
    }
    note("lost-update", groups.values().filter(|&&n| n > 1).count());
}

fn dirty_reads(txns: &[Txn], note: &mut impl FnMut(&'static str, usize)) {
    for (reader, t, _, op) in each_op(txns).filter(|(_, t, _, op)| ok(t) && op.read) {
        let _ = t;
        let (all, last) = match &op.val {
            Val::List(list) => (list.clone(), list.last().copied()),
            Val::Int(v) => (vec![*v], Some(*v)),
            _ => continue,
        };
        let wrote = |w: &Op, v: i64| w.key == op.key && written(w) == Some(v);
        for v in all {
            let failed = |t: &Txn| !possible(t) && t.ops.iter().any(|w| wrote(w, v));
            note("G1a", usize::from(txns.iter().any(failed)));
        }
        // Of several writes of a value the last in the file is taken for the intermediate one.
        let writes = each_op(txns).filter(|(_, w, j, o)| {
            last.is_some_and(|v| wrote(o, v))
                && w.ops[j + 1..].iter().any(|later| later.key == op.key && !later.read)
        });
        note("G1b", usize::from(writes.last().is_some_and(|(writer, ..)| writer != reader)));
    }
}

fn list_anomalies(txns: &[Txn], note: &mut impl FnMut(&'static str, usize)) {
    for t in txns.iter().filter(|t| ok(t)) {
        note("internal", usize::from((0..t.ops.len()).any(|i| list_contradicts(t, i))));
        let future = t.ops.iter().enumerate().any(|(j, append)| {
            let mut earlier = t.ops[..j].iter().filter(|r| r.key == append.key).filter_map(list);
            written(append).is_some_and(|v| earlier.any(|list| list.contains(&v)))
        });
        note("future-read", usize::from(future));
    }
    for key in keys(txns) {
        let reads: Vec<&Vec<i64>> = each_op(txns)
            .filter(|(_, t, _, op)| possible(t) && op.key == key)
            .filter_map(|(.., op)| list(op))
            .collect();
        let repeats = |list: &&&Vec<i64>| list.iter().collect::<BTreeSet<_>>().len() < list.len();
        note("duplicate-elements", reads.iter().filter(repeats).count());
        let mut sorted: Vec<&Vec<i64>> = reads.into_iter().filter(|list| !list.is_empty()).collect();
        sorted.sort_by_key(|list| list.len());
        note("incompatible-order", usize::from(sorted.windows(2).any(|w| !w[1].starts_with(w[0]))));
        note("dirty-update", dirty_updates(txns, key));
    }
}

fn list_contradicts(t: &Txn, at: usize) -> bool {
    let (key, Some(shown)) = (t.ops[at].key, list(&t.ops[at])) else { return false };
    let (mut exact, mut known) = (false, Vec::new());
    for op in t.ops[..at].iter().filter(|op| op.key == key) {
        if let Some(list) = list(op) {
            (exact, known) = (true, list.clone());
        }
        known.extend(written(op));
    }
    if exact { *shown != known } else { !shown.ends_with(&known) }
}

/// The first of the longest lists, each element once.
fn longest<'a>(lists: impl Iterator<Item = &'a Vec<i64>>) -> Vec<i64> {
    let mut best: &[i64] = &[];
    for list in lists {
        if list.len() > best.len() {
            best = list;
        }
    }
    let mut order = Vec::new();
    best.iter().for_each(|v| {
        if !order.contains(v) {
            order.push(*v)
        }
    });
    order
}

fn dirty_updates(txns: &[Txn], key: i64) -> usize {
    let of = |wanted: fn(&Txn) -> bool| {
        each_op(txns).filter(move |(_, t, _, op)| wanted(t) && op.key == key).filter_map(|(.., op)| list(op))
    };
    let order = longest(of(possible).chain(of(|t| !possible(t))));
    let (mut count, mut failed) = (0, false);
    for v in order {
        let wrote = |t: &&Txn| t.ops.iter().any(|op| op.key == key && written(op) == Some(v));
        let writer = txns.iter().rev().filter(|t| possible(t)).find(wrote);
        match writer.or(txns.iter().rev().find(wrote)).map(|t| t.outcome) {
            None => break,
            Some(Outcome::Committed) => {
                count += usize::from(failed);
                failed = false;
            }
            Some(Outcome::Aborted) => failed = true,
            Some(Outcome::Indeterminate) => {}
        }
    }
    count
}

fn list_edges(txns: &[Txn]) -> BTreeSet<(usize, usize, Edge)> {
    let mut edges = BTreeSet::new();
    for key in keys(txns) {
        let ops: Vec<(usize, &Op)> = each_op(txns)
            .filter(|(_, t, _, op)| possible(t) && op.key == key)
            .map(|(i, _, _, op)| (i, op))
            .collect();
        let mut order = longest(ops.iter().filter_map(|(_, op)| list(op)));
        let appends: Vec<(usize, i64)> =
            ops.iter().filter_map(|&(i, op)| written(op).map(|v| (i, v))).collect();
        if let ([], [(_, only)]) = (&order[..], &appends[..]) {
            order.push(*only);
        }
        let writer = |v: i64| appends.iter().rev().find(|w| w.1 == v).map(|w| w.0);
        for &(reader, op) in &ops {
            if let Some(w) = list(op).and_then(|list| list.last()).and_then(|&v| writer(v)) {
                edges.insert((w, reader, Edge::Wr));
            }
        }
        for &(t, v) in &appends {
            let previous = match order.iter().position(|&o| o == v) {
                Some(i) => order[..i].last(),
                None => order.last(),
            };
            if let Some(w) = previous.and_then(|&p| writer(p)) {
                edges.insert((w, t, Edge::Ww));
            }
            for &(reader, op) in &ops {
                if list(op).is_some_and(|list| list.last() == previous) {
                    edges.insert((reader, t, Edge::Rw));
                }
            }
        }
    }
    edges
}

fn contradicts_itself(t: &Txn) -> bool {
    t.ops.iter().enumerate().any(|(i, op)| {
        let before = t.ops[..i].iter().rev().find(|b| b.key == op.key && b.val != Val::Unknown);
        op.read && op.val != Val::Unknown && before.is_some_and(|b| b.val != op.val)
    })
}

/// Key and value of each first operation on a key that is a read.
fn first_reads(t: &Txn) -> Vec<(i64, Val)> {
    let first = |i: usize, key| t.ops[..i].iter().all(|op| op.key != key || op.val == Val::Unknown);
    let reads = t.ops.iter().enumerate().filter(|(i, op)| op.read && first(*i, op.key));
    reads.filter(|(_, op)| op.val != Val::Unknown).map(|(_, op)| (op.key, op.val.clone())).collect()
}

/// Key and value of each last write of a key.
fn final_writes(t: &Txn) -> Vec<(i64, i64)> {
    let last = |i: usize, key| t.ops[i + 1..].iter().all(|op| op.key != key || op.read);
    let writes = t.ops.iter().enumerate().filter(|(i, op)| !op.read && last(*i, op.key));
    writes.filter_map(|(_, op)| written(op).map(|v| (op.key, v))).collect()
}

/// A version of a key; nil is -1.
type Version = (i64, i64);

fn register_edges(
    txns: &[Txn],
    options: &Options,
    note: &mut impl FnMut(&'static str, usize),
) -> BTreeSet<(usize, usize, Edge)> {
    let committed = || txns.iter().enumerate().filter(|(_, t)| ok(t));
    let reads = |t: &Txn| first_reads(t).into_iter().map(|(k, v)| (k, int(&v))).collect::<Vec<Version>>();
    let mut edges = BTreeSet::new();
    for (w, writer) in committed() {
        for (r, reader) in committed() {
            if final_writes(writer).iter().any(|version| reads(reader).contains(version)) {
                edges.insert((w, r, Edge::Wr));
            }
        }
    }
    let mut accepted: BTreeSet<(Version, Version)> = BTreeSet::new();
    for source in version_sources(txns, options, &reads) {
        let union: BTreeSet<_> = accepted.union(&source).copied().filter(|(a, b)| a != b).collect();
        let components = cyclic_components(&union);
        note("cyclic-versions", components);
        if components == 0 {
            accepted = union;
        }
    }
    for (earlier, later) in accepted {
        for (w, overwriter) in committed() {
            if !final_writes(overwriter).contains(&later) {
                continue;
            }
            for (i, t) in committed() {
                if final_writes(t).contains(&earlier) {
                    edges.insert((i, w, Edge::Ww));
                }
                if reads(t).contains(&earlier) {
                    edges.insert((i, w, Edge::Rw));
                }
            }
        }
    }
    edges
}

fn version_sources(
    txns: &[Txn],
    options: &Options,
    reads: &impl Fn(&Txn) -> Vec<Version>,
) -> Vec<BTreeSet<(Version, Version)>> {
    let mut initial = BTreeSet::new();
    for t in txns.iter().filter(|t| possible(t)) {
        let seen = if ok(t) { reads(t) } else { Vec::new() };
        let all = seen.into_iter().chain(final_writes(t));
        initial.extend(all.filter(|v| v.1 != -1).map(|version| ((version.0, -1), version)));
    }
    let mut sources = vec![initial];
    if let Some(order) = &options.transaction_order {
        let number = |i: usize| order.get(&(i as i64)).copied().unwrap_or(f64::MIN);
        let mut source = BTreeSet::new();
        for key in keys(txns) {
            let mut writes: Vec<(usize, Version)> = txns
                .iter()
                .enumerate()
                .filter(|(_, t)| possible(t))
                .flat_map(|(i, t)| final_writes(t).into_iter().map(move |v| (i, v)))
                .filter(|(_, v)| v.0 == key)
                .collect();
            writes.sort_by(|a, b| number(a.0).total_cmp(&number(b.0)));
            source.extend(writes.windows(2).map(|w| (w[0].1, w[1].1)));
        }
        sources.push(source);
    }
    if options.wfr_keys {
        let mut source = BTreeSet::new();
        for t in txns.iter().filter(|t| ok(t)) {
            for read in reads(t).into_iter().filter(|v| v.1 != -1) {
                source.extend(final_writes(t).into_iter().filter(|w| w.0 == read.0).map(|w| (read, w)));
            }
        }
        sources.push(source);
    }
    for (wanted, order) in
        [(options.sequential_keys, process(txns)), (options.linearizable_keys, real_time(txns))]
    {
        if wanted {
            sources.push(along(txns, &order, reads));
        }
    }
    sources
}

/// From each transaction along every path to the first that touches the key.
fn along(
    txns: &[Txn],
    order: &[(usize, usize)],
    reads: &impl Fn(&Txn) -> Vec<Version>,
) -> BTreeSet<(Version, Version)> {
    let touch = |i: usize, key: i64| -> Option<(Version, Version)> {
        let t = &txns[i];
        let read = if ok(t) { reads(t).into_iter().find(|v| v.0 == key) } else { None };
        let write = if possible(t) { final_writes(t).into_iter().find(|v| v.0 == key) } else { None };
        let first = read.filter(|v| v.1 != -1).or(write).or(read)?;
        Some((first, write.or(read)?))
    };
    let mut source = BTreeSet::new();
    for key in keys(txns) {
        for a in (0..txns.len()).filter(|&a| ok(&txns[a])) {
            let Some((_, last)) = touch(a, key) else { continue };
            let (mut open, mut seen) = (vec![a], BTreeSet::new());
            while let Some(at) = open.pop() {
                for &(_, next) in order.iter().filter(|e| e.0 == at) {
                    if !seen.insert(next) {
                        continue;
                    }
                    match touch(next, key) {
                        Some((first, _)) => _ = source.insert((last, first)),
                        None => open.push(next),
                    }
                }
            }
        }
    }
    source
}

fn cyclic_components(edges: &BTreeSet<(Version, Version)>) -> usize {
    let nodes: BTreeSet<Version> = edges.iter().flat_map(|&(a, b)| [a, b]).collect();
    let reach = |from: Version| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(edges.iter().filter(|e| e.0 == at && seen.insert(e.1)).map(|e| e.1));
        }
        seen
    };
    let part = |&a: &Version| -> BTreeSet<Version> {
        nodes.iter().copied().filter(|&b| reach(a).contains(&b) && reach(b).contains(&a)).collect()
    };
    let parts: BTreeSet<BTreeSet<Version>> = nodes.iter().map(part).collect();
    parts.iter().filter(|part| part.len() > 1).count()
}

pub fn process(txns: &[Txn]) -> Vec<(usize, usize)> {
    let mut edges = Vec::new();
    for (i, t) in txns.iter().enumerate().filter(|(_, t)| ok(t)) {
        let next = (i + 1..txns.len()).find(|&j| ok(&txns[j]) && txns[j].process == t.process);
        edges.extend(next.map(|j| (i, j)));
    }
    edges
}

/// The frontier, event by event.
pub fn real_time(txns: &[Txn]) -> Vec<(usize, usize)> {
    if txns.iter().any(|t| t.span.is_none()) {
        return Vec::new();
    }
    let mut events: Vec<(u64, usize, bool)> = Vec::new();
    for (i, t) in txns.iter().enumerate() {
        let (start, end) = t.span.unwrap();
        events.push((start, i, true));
        events.push((end, i, false));
    }
    events.sort_unstable();
    let (mut edges, mut frontier): (Vec<(usize, usize)>, BTreeSet<usize>) = (Vec::new(), BTreeSet::new());
    for (_, i, invoked) in events {
        if invoked {
            edges.extend(frontier.iter().map(|&f| (f, i)));
        } else if ok(&txns[i]) {
            frontier.retain(|&f| !edges.contains(&(f, i)));
            frontier.insert(i);
        }
    }
    edges
}
