//! What reads by predicate say about rows they did not return (Adya 1999, 4.2.3).
//!
//! In Adya's model a read by predicate selects one version of every row, and depends on the transactions
//! that changed what matches: `wrp` from a transaction whose version, at or before the one selected,
//! matches where the one before it did not, or the other way round; `rwp` to a transaction with such a
//! version after it. A row that was not returned was selected in a version that does not match: unborn,
//! deleted, or another value. Let C be those that may have been it.
//!
//! - C is empty: the read missed a row that was there in every version (`predicate-read-miss`).
//! - C is one version, of a writer W: since the initial version matches (else it would be in C), W changed
//!   what matches, and W → reader by `wrp`.
//! - A version x that matches and comes after all of C: some version after the one selected, at or before
//!   x, changed what matches. So reader → that one by `rwp`, and on to x's writer by `ww`: noted as `rwp`
//!   to x's writer, which claims no more.
//!
//! Rows that were returned are reads of items, with their own `wr` and `rw`.
//!
//! What is known of the order of versions: the initial one is first; a transaction that read a version of a
//! row and then wrote the row wrote a later one (else it is G1c, which refutes whatever these edges could);
//! and a list comes after its prefixes. Nothing else is: not the order in the file. `wwp` does not occur,
//! as no operation writes by predicate. O(reads × rows × versions of a row).

use super::Dependency;
use super::predicates::{Mop, Predicate, Rows, Txn, Version};
use super::recorder::Recorder;
use anomalist_history::Datum;
use anomalist_level::AnomalyKind;
use std::collections::{BTreeMap, BTreeSet};

/// Versions of a row whose order is looked into.
const VERSIONS: usize = 512;

/// What is known of the order of a row's versions, by their place in [`Rows`].
struct Order {
    /// Pairs that are known directly, other than from the initial version.
    direct: Vec<(usize, usize)>,
    /// `after[a]`: all that come after `a`.
    after: Vec<BTreeSet<usize>>,
}

impl Order {
    fn before(&self, a: usize, b: usize) -> bool {
        (a == 0 && b != 0) || self.after.get(a).is_some_and(|after| after.contains(&b))
    }
}

pub(super) fn add(recorder: &mut Recorder<'_>, txns: &[Txn], rows: &Rows) {
    let read = versions_read(txns, rows);
    for (key, versions) in rows {
        let order = order(key, versions, &read);
        item_edges(recorder, txns, key, versions, &order, &read);
        for reader in txns.iter().filter(|t| t.ok) {
            for (i, mop) in reader.mops.iter().enumerate() {
                if let Mop::Rows(predicate, found) = mop
                    && !found.contains_key(key)
                {
                    left_out(recorder, txns, (reader, i), predicate, (key, versions), &order);
                }
            }
        }
    }
}

/// A row that a read by predicate did not return.
fn left_out(
    recorder: &mut Recorder<'_>,
    txns: &[Txn],
    (reader, mop): (&Txn, usize),
    predicate: &Predicate,
    (key, versions): (&Datum, &[Version]),
    order: &Order,
) {
    if let Some(own) = reader.own_before(key, mop) {
        if predicate.matches(own) {
            recorder.flaw(AnomalyKind::PredicateReadMiss, reader.draft, Vec::new());
        }
        return;
    }
    let is_own = |v: &Version| v.writer.is_some_and(|w| std::ptr::eq(&txns[w], reader));
    let candidates: Vec<usize> = (0..versions.len())
        .filter(|&v| !is_own(&versions[v]) && !predicate.matches(versions[v].value.as_ref()))
        .collect();
    let name = |v: &Version| match (&v.value, v.writer) {
        (Some(value), _) => value.to_string(),
        (None, None) => "not there yet".to_owned(),
        (None, Some(_)) => "deleted".to_owned(),
    };
    if candidates.is_empty() {
        let written =
            versions.iter().filter(|v| !is_own(v)).find_map(|v| v.writer.map(|w| (txns[w].draft, v.op)));
        let reason = format!("its read where {predicate} left out {key}, which matches in every version");
        recorder.missed(reader.draft, written, reason);
        return;
    }
    // What the reader itself wrote later may stand before the version selected, and not match either.
    let own_misses = versions.iter().any(|v| is_own(v) && !predicate.matches(v.value.as_ref()));
    if let [only] = candidates[..]
        && let Some(writer) = versions[only].writer
        && !own_misses
    {
        let reason = format!(
            "its read where {predicate} left out {key}, which it can only have seen as {}",
            name(&versions[only])
        );
        let writer = txns[writer].draft;
        recorder.depends(writer, reader.draft, Dependency::Wrp, reason, vec![(writer, versions[only].op)]);
    }
    for (v, version) in versions.iter().enumerate() {
        let Some(writer) = version.writer else { continue };
        if !predicate.matches(version.value.as_ref()) || !candidates.iter().all(|&c| order.before(c, v)) {
            continue;
        }
        let writer = txns[writer].draft;
        let reason =
            format!("its read where {predicate} left out {key}, which came to match with {}", name(version));
        recorder.depends(reader.draft, writer, Dependency::Rwp, reason, vec![(writer, version.op)]);
    }
}

/// Who read which version, as items: per key and version, the readers; own writes are left out.
type Readers<'t> = BTreeMap<(&'t Datum, usize), Vec<usize>>;

fn versions_read<'t>(txns: &'t [Txn], rows: &Rows) -> Readers<'t> {
    let mut readers: Readers<'t> = BTreeMap::new();
    for (i, txn) in txns.iter().enumerate().filter(|(_, t)| t.ok) {
        for (mop, m) in txn.mops.iter().enumerate() {
            let items: Vec<(&Datum, Option<&Datum>)> = match m {
                Mop::Read(key, value) => vec![(key, value.as_ref())],
                Mop::Rows(_, found) => found.iter().map(|(key, value)| (key, Some(value))).collect(),
                Mop::Write(..) => Vec::new(),
            };
            for (key, value) in items {
                let Some(versions) = rows.get(key) else { continue };
                if txn.own_before(key, mop).is_some() {
                    continue;
                }
                let mut same = (0..versions.len()).filter(|&v| versions[v].value.as_ref() == value);
                if let (Some(version), None) = (same.next(), same.next())
                    && versions[version].writer != Some(i)
                {
                    readers.entry((key, version)).or_default().push(i);
                }
            }
        }
    }
    readers
}

fn order(key: &Datum, versions: &[Version], read: &Readers<'_>) -> Order {
    let mut direct: Vec<(usize, usize)> = Vec::new();
    if versions.len() <= VERSIONS {
        for (v, version) in versions.iter().enumerate() {
            let Some(writer) = version.writer else { continue };
            let follows = |a: &usize| read.get(&(key, *a)).is_some_and(|r| r.contains(&writer));
            // Reading after one's own write is not counted above, so this read came first.
            direct.extend((1..versions.len()).filter(|a| *a != v && follows(a)).map(|a| (a, v)));
        }
        direct.extend(prefixes(versions));
    }
    let reached = |start: usize| {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![start]);
        while let Some(at) = todo.pop() {
            for &(_, next) in direct.iter().filter(|(from, _)| *from == at) {
                if reached.insert(next) {
                    todo.push(next);
                }
            }
        }
        reached
    };
    let after: Vec<BTreeSet<usize>> = (0..versions.len()).map(reached).collect();
    let contradicts = after.iter().enumerate().any(|(v, after)| after.contains(&v));
    if contradicts { Order { direct: Vec::new(), after: Vec::new() } } else { Order { direct, after } }
}

/// Pairs of lists of which the first is the longest prefix of the second; none if the row was ever anything
/// but a list.
fn prefixes(versions: &[Version]) -> Vec<(usize, usize)> {
    if versions.iter().filter_map(|v| v.value.as_ref()).any(|value| value.as_list().is_none()) {
        return Vec::new();
    }
    let lists: Vec<(usize, &[Datum])> = versions
        .iter()
        .enumerate()
        .skip(1)
        .filter_map(|(v, version)| Some((v, version.value.as_ref()?.as_list()?)))
        .collect();
    let mut found = Vec::new();
    for &(b, longer) in &lists {
        let before =
            |(_, shorter): &&(usize, &[Datum])| shorter.len() < longer.len() && longer.starts_with(shorter);
        if let Some(&(a, _)) = lists.iter().filter(before).max_by_key(|(_, shorter)| shorter.len()) {
            found.push((a, b));
        }
    }
    found
}

/// Dependencies on items that the order of versions adds.
fn item_edges(
    recorder: &mut Recorder<'_>,
    txns: &[Txn],
    key: &Datum,
    versions: &[Version],
    order: &Order,
    read: &Readers<'_>,
) {
    for &(a, b) in &order.direct {
        let (Some(first), Some(second)) = (versions[a].writer, versions[b].writer) else { continue };
        let (first, second) = (txns[first].draft, txns[second].draft);
        let reason = format!("the first wrote {key} before the second did");
        let places = vec![(first, versions[a].op), (second, versions[b].op)];
        recorder.depends(first, second, Dependency::Ww, reason, places);
        for &reader in read.get(&(key, a)).into_iter().flatten() {
            let reader = txns[reader].draft;
            let reason = format!("the first read {key} before the second wrote it");
            recorder.depends(reader, second, Dependency::Rw, reason, vec![(second, versions[b].op)]);
        }
    }
}
