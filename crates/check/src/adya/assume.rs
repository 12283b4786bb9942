//! What the caller assumes about the versions of keys, and the facts that follow.
//!
//! A fact says that one version of a key comes before another, and why. Each assumption is a rule about
//! single keys:
//! - *writes follow reads*: who reads a key and then writes it writes a later version;
//! - *sequential keys*: along a session, operation by operation, versions of a key never go back;
//! - *linearizable keys*: that, and also from a transaction that ended to one that began after it;
//! - *a given order, commit timestamps, version numbers*: versions are in the order of these numbers.
//!
//! The version of a list is its last element: an append makes one, a read shows one. What lists show of
//! their order by themselves joins the facts about a key, so that an assumption which contradicts it is
//! found. Orders by number are of registers only: lists have theirs.
//!
//! Between versions that two sessions touch, only neighbours become facts; the rest is their transitive
//! closure. O(operations), with linearizable keys times their concurrency.

use crate::view::CommittedView;
use crate::view::{EpochMap, Read};
use anomalist_history::{History, KeyId, OpId, OpKind, Outcome, Source, TxnId};
use anomalist_level::VersionReason;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What may be assumed about the versions of keys. By default nothing, and only the initial state's place
/// is known, and what lists show.
///
/// A wrong assumption gives wrong answers, or shows itself as `cyclic-versions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inference {
    /// A transaction that reads a key and then writes it writes a later version.
    pub writes_follow_reads: bool,
    /// Each key by itself is sequentially consistent: no session goes back to an older version.
    pub sequential_keys: bool,
    /// Each key by itself is linearizable: no transaction returns to an older version than was seen or
    /// written before.
    pub linearizable_keys: bool,
    /// Versions are in the order of commit timestamps.
    pub commit_stamps: bool,
    /// Versions are in the order of the numbers that the database gave them (`History::version`).
    pub version_numbers: bool,
    /// Versions are in the order of these numbers, where both transactions have one.
    pub transaction_order: BTreeMap<TxnId, i64>,
}

impl Inference {
    /// What answers rest on, as a sentence; none if nothing is assumed.
    pub fn describe(&self) -> Option<String> {
        let all = [
            (
                self.writes_follow_reads,
                "a transaction that reads a key and then writes it writes a later version",
            ),
            (self.sequential_keys, "each key by itself is sequentially consistent"),
            (self.linearizable_keys, "each key by itself is linearizable"),
            (self.commit_stamps, "keys were written in the order of commit timestamps"),
            (self.version_numbers, "keys were written in the order of their version numbers"),
            (
                !self.transaction_order.is_empty(),
                "keys were written in the order of transactions that was given",
            ),
        ];
        let made: Vec<&str> = all.iter().filter(|(made, _)| *made).map(|(_, what)| *what).collect();
        (!made.is_empty()).then(|| format!("Assumed: {}.", made.join("; ")))
    }
}

/// The writer of a version; none for the initial one.
pub(crate) type Version = Option<TxnId>;

/// One version of a register comes before another. The later one may turn out to be the initial one: a
/// contradiction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Fact {
    pub key: KeyId,
    pub from: Version,
    pub to: Version,
    pub reason: VersionReason,
}

/// Everything that follows from the assumptions, sorted, one reason for each pair.
pub(super) fn facts(view: CommittedView<'_>, assumed: &Inference) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    // What is linearizable is sequential, and along a session a read comes before the write that follows it.
    if assumed.sequential_keys || assumed.linearizable_keys {
        sequential(view, &mut facts);
    } else if assumed.writes_follow_reads {
        writes_follow_reads(view, &mut facts);
    }
    if assumed.linearizable_keys {
        linearizable(view, &mut facts);
    }
    numbered(view, assumed, &mut facts);
    shown(view, &mut facts);
    facts.retain(|f| f.from != f.to);
    facts.sort_unstable();
    facts.dedup_by_key(|f| (f.key, f.from, f.to));
    facts
}

/// What lists show of the order of their versions, for the keys that other facts are about.
fn shown(view: CommittedView<'_>, facts: &mut Vec<Fact>) {
    let mut keys: Vec<KeyId> = facts.iter().map(|f| f.key).collect();
    keys.sort_unstable();
    for order in view.index.version_orders().iter().filter(|o| keys.binary_search(&o.key).is_ok()) {
        let txn = |op: OpId| view.history.txn_of(op);
        let reason = VersionReason::Shown { read: order.read };
        facts.extend(order.appends.windows(2).map(|pair| Fact {
            key: order.key,
            from: Some(txn(pair[0])),
            to: Some(txn(pair[1])),
            reason,
        }));
    }
}

/// The version of a key that an operation of a committed transaction read or wrote. Reads after an own
/// write and of what no transaction installed show none.
fn version(view: CommittedView<'_>, txn: TxnId, op: OpId) -> Option<Version> {
    let o = view.history.op(op);
    match (o.kind, view.index.source(op)) {
        (OpKind::Write | OpKind::Append, _) => Some(Some(txn)),
        // A list after own appends has the source of what was there before them.
        (OpKind::Read, _) if appended_before(view, txn, op) => None,
        (OpKind::Read, Source::From(writer)) => {
            let read = Read { op, key: o.key, from: Some(writer) };
            view.is_installed(read).then_some(Some(writer))
        }
        (OpKind::Read, Source::Initial) => Some(None),
        _ => None,
    }
}

fn appended_before(view: CommittedView<'_>, txn: TxnId, op: OpId) -> bool {
    let history = view.history;
    history.list(history.op(op).value).is_some()
        && history
            .ops(txn)
            .take_while(|(other, _)| *other < op)
            .any(|(_, o)| o.kind == OpKind::Append && o.key == history.op(op).key)
}

/// The operations of a committed transaction that show versions.
fn touched(view: CommittedView<'_>, t: TxnId) -> impl Iterator<Item = (OpId, KeyId, Version)> {
    view.history.op_range(t).filter_map(move |i| {
        let op = OpId(i as u32);
        Some((op, view.history.heads()[i].key(), version(view, t, op)?))
    })
}

fn writes_follow_reads(view: CommittedView<'_>, facts: &mut Vec<Fact>) {
    let mut reads: Vec<(KeyId, Version, OpId)> = Vec::new();
    for t in view.committed() {
        reads.clear();
        for (op, key, version) in touched(view, t) {
            if version != Some(t) {
                reads.push((key, version, op));
                continue;
            }
            let before = reads.iter().filter(|r| r.0 == key);
            facts.extend(before.map(|&(_, from, read)| {
                let reason = VersionReason::ReadThenWritten { read };
                Fact { key, from, to: Some(t), reason }
            }));
            reads.retain(|r| r.0 != key);
        }
    }
}

/// The version of a key that was touched last, and where.
type Touched = (Version, OpId, TxnId);

fn sequential(view: CommittedView<'_>, facts: &mut Vec<Fact>) {
    let mut last: EpochMap<Option<Touched>> = EpochMap::new(view.history.key_count());
    let mut step =
        |t: TxnId, last: &mut EpochMap<Option<Touched>>, before: &mut Vec<(KeyId, Option<Touched>)>| {
            for (op, key, version) in touched(view, t) {
                let known = last.get(key.index()).flatten();
                if let Some((from, before, by)) = known {
                    let reason = match by == t && version == Some(t) {
                        true => VersionReason::ReadThenWritten { read: before },
                        false => VersionReason::Session { before, after: op },
                    };
                    facts.push(Fact { key, from, to: version, reason });
                }
                before.push((key, known));
                last.set(key.index(), Some((version, op, t)));
            }
        };
    let mut before = Vec::new();
    for session in view.history.sessions() {
        last.next_round();
        let committed = |t: &TxnId| view.index.is_committed(*t) && view.trunk(*t).is_none();
        for t in view.history.session_txns(session).filter(committed) {
            step(t, &mut last, &mut before);
            for branch in view.branches(t) {
                before.clear();
                step(branch, &mut last, &mut before);
                // Nothing follows it.
                before.drain(..).rev().for_each(|(key, known)| last.set(key.index(), known));
            }
            before.clear();
        }
    }
}

/// The first and last version of a key that a transaction touched.
#[derive(Clone, Copy)]
struct Touch {
    txn: TxnId,
    key: KeyId,
    first: (Version, OpId),
    last: (Version, OpId),
}

fn linearizable(view: CommittedView<'_>, facts: &mut Vec<Fact>) {
    let history: &History = view.history;
    let Some(intervals) = history.intervals() else { return };
    let mut touches: Vec<Touch> = Vec::new();
    let mut place: EpochMap<u32> = EpochMap::new(history.key_count());
    for txn in view.committed() {
        place.next_round();
        for (op, key, version) in touched(view, txn) {
            match place.get(key.index()) {
                Some(i) => touches[i as usize].last = (version, op),
                None => {
                    place.set(key.index(), touches.len() as u32);
                    touches.push(Touch { txn, key, first: (version, op), last: (version, op) });
                }
            }
        }
    }
    let began = |t: &Touch| intervals[t.txn.index()].invoked;
    let ended = |t: &Touch| match history.outcome(t.txn) {
        Outcome::Committed => intervals[t.txn.index()].completed,
        _ => None,
    };
    touches.sort_by_key(|t| (t.key, began(t), t.txn));
    for begun in touches.chunk_by(|a, b| a.key == b.key) {
        let mut done: Vec<(u64, &Touch)> = begun.iter().filter_map(|t| Some((ended(t)?, t))).collect();
        done.sort_by_key(|(end, t)| (*end, t.txn));
        let (mut frontier, mut next): (Vec<(u64, &Touch)>, usize) = (Vec::new(), 0);
        for touch in begun {
            while let Some(&(end, earlier)) = done.get(next)
                && end < began(touch)
            {
                frontier.retain(|&(other_end, _)| other_end >= began(earlier));
                frontier.push((end, earlier));
                next += 1;
            }
            facts.extend(frontier.iter().map(|&(_, earlier)| Fact {
                key: touch.key,
                from: earlier.last.0,
                to: touch.first.0,
                reason: VersionReason::RealTime { before: earlier.last.1, after: touch.first.1 },
            }));
        }
    }
}

/// Orders that are given as numbers: of transactions, of commits, or of versions themselves.
fn numbered(view: CommittedView<'_>, assumed: &Inference, facts: &mut Vec<Fact>) {
    let history = view.history;
    let given = &assumed.transaction_order;
    let stamps = history.stamps().filter(|_| assumed.commit_stamps);
    if !given.is_empty() || stamps.is_some() {
        for key in history.keys() {
            let writers = || view.index.writers(key).iter().filter(|&&t| wrote(view, t, key));
            let by_number = writers().filter_map(|&t| Some((*given.get(&t)?, Some(t)))).collect();
            chain(key, by_number, VersionReason::Given, facts);
            if let Some(stamps) = stamps {
                let by_commit = writers().map(|&t| (stamps[t.index()].commit, Some(t))).collect();
                chain(key, by_commit, VersionReason::Stamps, facts);
            }
        }
    }
    if assumed.version_numbers && history.has_versions() {
        for (key, versions) in numbers(view) {
            chain(key, versions, VersionReason::Numbered, facts);
        }
    }
}

/// True if the transaction replaced a register, rather than appended to a list.
fn wrote(view: CommittedView<'_>, t: TxnId, key: KeyId) -> bool {
    view.history.ops(t).any(|(_, o)| o.key == key && o.kind == OpKind::Write)
}

/// The numbers that the database gave the versions of each key, as writers or readers received them. A
/// version that was shown under several numbers has none.
fn numbers(view: CommittedView<'_>) -> Vec<(KeyId, Vec<(i64, Version)>)> {
    let mut shown: FxHashMap<(KeyId, Version), Option<i64>> = FxHashMap::default();
    for t in view.committed() {
        // Of several writes of a transaction only the last makes a version.
        let last = |op: OpId, key: KeyId| view.write_of(t, key) == Some(op);
        for (op, key, version) in touched(view, t) {
            let Some(number) = view.history.version(op) else { continue };
            let o = view.history.op(op);
            if o.kind == OpKind::Append || view.history.list(o.value).is_some() {
                continue;
            }
            if version == Some(t) && !last(op, key) {
                continue;
            }
            let known = shown.entry((key, version)).or_insert(Some(number));
            if *known != Some(number) {
                *known = None;
            }
        }
    }
    let mut all: Vec<(KeyId, i64, Version)> =
        shown.into_iter().filter_map(|((key, version), number)| Some((key, number?, version))).collect();
    all.sort_unstable();
    let keys = all.chunk_by(|a, b| a.0 == b.0);
    keys.map(|of| (of[0].0, of.iter().map(|&(_, number, version)| (number, version)).collect())).collect()
}

/// Pairs between equal numbers and the next larger ones that are written out.
const TIES: usize = 4096;

/// Facts between each number's versions and the next number's.
fn chain<N: Ord + Copy>(
    key: KeyId,
    mut numbered: Vec<(N, Version)>,
    reason: VersionReason,
    facts: &mut Vec<Fact>,
) {
    numbered.sort_unstable();
    let groups: Vec<&[(N, Version)]> = numbered.chunk_by(|a, b| a.0 == b.0).collect();
    for pair in groups.windows(2) {
        let pairs = pair[0].iter().flat_map(|&(_, from)| pair[1].iter().map(move |&(_, to)| (from, to)));
        facts.extend(pairs.take(TIES).map(|(from, to)| Fact { key, from, to, reason }));
    }
}
