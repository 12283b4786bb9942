//! Which version of a register directly precedes which, from what the user vouches for.
//!
//! Sources are tried in Elle's order. One that makes any key's versions precede each other is reported as
//! `cyclic-versions` and dropped for all keys.

use super::elle_history::ElleHistory;
use super::orders;
use super::register::Register;
use super::steps::{External, external};
use super::{Case, Findings, Options};
use anomalist_graph::{Csr, components};
use anomalist_history::{KeyId, Value, View};
use anomalist_level::AnomalyKind as A;
use rustc_hash::FxHashMap;

type Pairs = Vec<(u32, u32)>;

/// Pairs of versions, the first of which directly precedes the second; ascending, none twice.
pub(super) fn infer(
    numbered: &ElleHistory<'_>,
    options: &Options,
    register: &mut Register,
    findings: &mut Findings,
) -> Pairs {
    let mut sources: Vec<(&'static str, Pairs)> = vec![("initial-state", initial_state(numbered, register))];
    if let Some(order) = &options.transaction_order {
        sources.push(("transaction-order", transaction_order(numbered, order, register)));
    }
    if options.wfr_keys {
        sources.push(("wfr-keys", writes_follow_reads(numbered, register)));
    }
    if options.sequential_keys || options.linearizable_keys {
        let touches = Touches::new(numbered, register);
        if options.sequential_keys {
            sources.push(("sequential-keys", touches.by_process(numbered)));
        }
        if options.linearizable_keys {
            sources.push(("linearizable-keys", touches.in_real_time(numbered)));
        }
    }
    let mut accepted: Pairs = Vec::new();
    let mut names = Vec::new();
    for (name, mut pairs) in sources {
        pairs.extend(&accepted);
        pairs.retain(|(a, b)| a != b);
        pairs.sort_unstable();
        pairs.dedup();
        let cycles = cycles(register.versions.len(), &pairs);
        if cycles.is_empty() {
            names.push(name);
            accepted = pairs;
            continue;
        }
        for cycle in cycles {
            let key = register.versions[cycle[0] as usize].0;
            let values = cycle.iter().map(|&v| register.versions[v as usize].1).collect();
            let sources = names.iter().copied().chain([name]).collect();
            findings.push((A::CyclicVersions, Case::CyclicVersions { key, values, sources }));
        }
    }
    accepted
}

/// The versions of each component of at least two.
fn cycles(versions: usize, pairs: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let parts = components(&Csr::from_edges(versions, || pairs.iter().copied()));
    let mut members: Vec<Vec<u32>> = Vec::new();
    let mut place: FxHashMap<u32, usize> = FxHashMap::default();
    for version in (0..versions as u32).filter(|&v| parts.size(parts.of(v)) > 1) {
        let i = *place.entry(parts.of(version)).or_insert_with(|| {
            members.push(Vec::new());
            members.len() - 1
        });
        members[i].push(version);
    }
    members
}

/// Nil precedes everything that was written or read.
fn initial_state(numbered: &ElleHistory<'_>, register: &mut Register) -> Pairs {
    let mut pairs = Vec::new();
    for node in numbered.nodes().filter(|&node| numbered.is_possible(node)) {
        for External { key, read, write } in external(numbered, node) {
            let seen = read.filter(|_| numbered.is_ok(node)).into_iter().chain(write);
            for (value, _) in seen.filter(|&(value, _)| value != Value::NIL) {
                pairs.push((register.id(key, Value::NIL), register.id(key, value)));
            }
        }
    }
    pairs
}

/// Each key's writes in the given order of transactions; those without a number come first.
fn transaction_order(
    numbered: &ElleHistory<'_>,
    order: &FxHashMap<i64, f64>,
    register: &mut Register,
) -> Pairs {
    let mut writes: Vec<(KeyId, f64, u32, Value)> = Vec::new();
    for node in numbered.nodes().filter(|&node| numbered.is_possible(node)) {
        let index = match numbered.history.txn_label(numbered.txn(node)).map(Value::view) {
            Some(View::Int(index)) => index,
            _ => i64::from(node),
        };
        let number = order.get(&index).copied().unwrap_or(f64::NEG_INFINITY);
        for External { key, write, .. } in external(numbered, node) {
            writes.extend(write.map(|(value, _)| (key, number, node, value)));
        }
    }
    writes.sort_by(|a, b| (a.0, a.1, a.2).partial_cmp(&(b.0, b.1, b.2)).unwrap_or(std::cmp::Ordering::Equal));
    let consecutive = writes.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    consecutive.map(|pair| (register.id(pair[0].0, pair[0].3), register.id(pair[1].0, pair[1].3))).collect()
}

/// What a committed transaction reads precedes what it writes to the same key.
fn writes_follow_reads(numbered: &ElleHistory<'_>, register: &mut Register) -> Pairs {
    let mut pairs = Vec::new();
    for node in numbered.nodes().filter(|&node| numbered.is_ok(node)) {
        for External { key, read, write } in external(numbered, node) {
            if let (Some((read, _)), Some((written, _))) = (read.filter(|r| r.0 != Value::NIL), write) {
                pairs.push((register.id(key, read), register.id(key, written)));
            }
        }
    }
    pairs
}

/// A key that a transaction touches: the version it finds and the one it leaves.
#[derive(Clone, Copy)]
struct Touch {
    key: KeyId,
    first: u32,
    last: u32,
}

/// The keys that each transaction touches, ascending. An indeterminate one touches what it writes, a failed
/// one nothing.
struct Touches {
    start: Vec<u32>,
    touch: Vec<Touch>,
}

impl Touches {
    fn new(numbered: &ElleHistory<'_>, register: &mut Register) -> Touches {
        let mut touches = Touches { start: vec![0], touch: Vec::new() };
        for node in numbered.nodes() {
            let shown = if numbered.is_possible(node) { external(numbered, node) } else { Vec::new() };
            for External { key, read, write } in shown {
                let (read, write) = (read.filter(|_| numbered.is_ok(node)).map(|r| r.0), write.map(|w| w.0));
                // Elle takes a read of nil for no read at all if a write follows.
                let first = read.filter(|&v| v != Value::NIL).or(write).or(read);
                if let (Some(first), Some(last)) = (first, write.or(read)) {
                    let (first, last) = (register.id(key, first), register.id(key, last));
                    touches.touch.push(Touch { key, first, last });
                }
            }
            touches.start.push(touches.touch.len() as u32);
        }
        touches
    }

    fn of(&self, node: u32) -> &[Touch] {
        &self.touch[self.start[node as usize] as usize..self.start[node as usize + 1] as usize]
    }

    fn on(&self, node: u32, key: KeyId) -> Option<Touch> {
        let all = self.of(node);
        all.binary_search_by_key(&key, |touch| touch.key).ok().map(|i| all[i])
    }

    /// From each transaction to the next of its process that touches the key.
    fn by_process(&self, numbered: &ElleHistory<'_>) -> Pairs {
        let mut pairs = Vec::new();
        let mut last: FxHashMap<KeyId, u32> = FxHashMap::default();
        for session in numbered.history.sessions() {
            last.clear();
            for node in numbered.history.session_txns(session).map(|t| numbered.node(t)) {
                if numbered.is_ok(node) {
                    for touch in self.of(node) {
                        pairs.extend(last.insert(touch.key, touch.last).map(|before| (before, touch.first)));
                    }
                }
            }
        }
        pairs
    }

    /// From each transaction along every path of real-time order to the first that touches the key.
    ///
    /// Paths around a touching transaction are followed too, as in Elle, so pairs need not be neighbours
    /// and there can be many; beyond a number of steps only neighbours are taken.
    fn in_real_time(&self, numbered: &ElleHistory<'_>) -> Pairs {
        const STEPS: usize = 20_000_000;
        let order = orders::real_time(numbered);
        let after = Csr::from_edges(numbered.len(), || order.iter().copied());
        let mut seen = vec![0u32; numbered.len()];
        let (mut round, mut steps) = (0, 0);
        let (mut pairs, mut stack) = (Vec::new(), Vec::new());
        for node in numbered.nodes().filter(|&node| numbered.is_ok(node)) {
            for from in self.of(node) {
                round += 1;
                stack.extend(after.successors(node));
                while let Some(next) = stack.pop() {
                    if std::mem::replace(&mut seen[next as usize], round) == round {
                        continue;
                    }
                    steps += 1;
                    match self.on(next, from.key) {
                        Some(to) => pairs.push((from.last, to.first)),
                        None => stack.extend(after.successors(next)),
                    }
                }
                if steps > STEPS {
                    return self.neighbours_in_real_time(numbered);
                }
            }
        }
        pairs
    }

    /// The same among neighbours only: real-time order of the transactions that touch a key.
    fn neighbours_in_real_time(&self, numbered: &ElleHistory<'_>) -> Pairs {
        let mut by_key: Vec<(KeyId, u32)> = Vec::with_capacity(self.touch.len());
        for node in numbered.nodes() {
            by_key.extend(self.of(node).iter().map(|touch| (touch.key, node)));
        }
        by_key.sort_unstable();
        let mut pairs = Vec::new();
        for group in by_key.chunk_by(|a, b| a.0 == b.0) {
            for (a, b) in orders::real_time_among(numbered, group.iter().map(|&(_, node)| node)) {
                if let (Some(a), Some(b)) = (self.on(a, group[0].0), self.on(b, group[0].0)) {
                    pairs.push((a.last, b.first));
                }
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use anomalist_history::{Builder, Interval, OpKind};

    #[test]
    fn neighbours_are_among_all_pairs() {
        let mut rng = fastrand::Rng::with_seed(9);
        let (mut fewer, mut any) = (0, 0);
        for _ in 0..500 {
            let mut b = Builder::new();
            for i in 0..10u64 {
                let process = b.int(i as i64);
                let session = b.session(process);
                let t = b.transaction(session);
                let invoked = rng.u64(0..20);
                b.set_interval(t, Interval { invoked, completed: Some(invoked + rng.u64(1..8)) });
                let label = b.int(rng.i64(0..3));
                let (key, value) = (b.key(label), b.int(i as i64));
                b.op(t, OpKind::Write, key, value);
            }
            let history = b.finish().unwrap();
            let numbered = ElleHistory::new(&history);
            let touches = Touches::new(&numbered, &mut Register::default());
            let (all, near) = (touches.in_real_time(&numbered), touches.neighbours_in_real_time(&numbered));
            assert!(near.iter().all(|pair| all.contains(pair)), "{near:?} {all:?}");
            fewer += usize::from(near.len() < all.len());
            any += usize::from(!near.is_empty());
        }
        assert!(fewer > 0 && any > 400);
    }
}
