//! Counts the instances of TAP-h to TAP-n exactly, without enumerating them (`docs/spec/algorithms.md` 2.6).
//!
//! One instance is a pair (external read of `x` from `t1` by `t3`; `t2` that also writes `x` and is visible
//! to it), filed under the first kind that fits. Let `G_L` be causality with the constraints of level `L`.
//! The constraint `t2 → t1` lies in `G_L`, so the pair is a contradiction iff `t1` reaches `t2`: by
//! causality itself (the CO kinds h, k, m), or at least inside one strongly connected component of `G_L`
//! (the CM kinds i, l, n). A component meets a session in a contiguous range of ids, and "caused by `t1`"
//! holds for a suffix of a session, so the writers of `x` in a session split by binary search: O(log n) per
//! read and session.
//!
//! By Plume's letter (Table 1) the kinds h, i, k and l need another key that `t3` reads from `t2`, so that
//! what the session alone makes visible is filed under m and n, and so is what `t3` reads of `x` itself
//! from both; and the initial transaction is one of the others, as `t1`, as `t2` and on cycles
//! (`initial.rs`).

use super::Weak;
use super::clocks::AllClocks;
use super::initial::InitialCycles;
use super::simulate::{by_session, leading};
use crate::view::{CommittedView, EpochMap, Read, Writer};
use anomalist_graph::Components;
use anomalist_history::{SessionId, TxnId};
use anomalist_level::{AnomalyKind, Definitions};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The kinds counted here, in the order in which an instance is filed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Tap {
    H,
    I,
    K,
    L,
    M,
    N,
}

impl Tap {
    pub const ALL: [Tap; 6] = [Tap::H, Tap::I, Tap::K, Tap::L, Tap::M, Tap::N];

    pub fn kind(self) -> AnomalyKind {
        match self {
            Tap::H => AnomalyKind::NonMonoReadCo,
            Tap::I => AnomalyKind::NonMonoReadCm,
            Tap::K => AnomalyKind::FracturedReadCo,
            Tap::L => AnomalyKind::FracturedReadCm,
            Tap::M => AnomalyKind::CoConflictCm,
            Tap::N => AnomalyKind::ConflictCm,
        }
    }

    /// The weakest level whose graph decides it.
    pub fn level(self) -> Weak {
        match self {
            Tap::H | Tap::I => Weak::ReadCommitted,
            Tap::K | Tap::L => Weak::ReadAtomic,
            Tap::M | Tap::N => Weak::Causal,
        }
    }
}

/// One instance, kept as a candidate for the witness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instance {
    pub t1: Writer,
    /// `None`: the initial transaction, which only Plume's letter has here.
    pub t2: Writer,
    pub t3: TxnId,
    pub read: Read,
}

/// What makes a poor example: a constraint that causality makes anyway (the contradiction lies elsewhere on
/// the cycle), then the number of operations to look at.
type Weight = (bool, usize);

/// Counts, and a few of the smallest instances of each kind.
#[derive(Default, Debug)]
pub(crate) struct TapCounts {
    pub count: [u64; 6],
    pub smallest: [Vec<(Weight, Instance)>; 6],
    /// The readers of the instances, ascending.
    pub readers: [Vec<TxnId>; 6],
}

/// Instances kept per kind: the witness is the one with the shortest path among them.
const KEPT: usize = 8;
/// Instances looked at per group of equals.
const SAMPLED: usize = 2;

/// The components of `G_L`, and where their cycles meet each session.
pub(crate) struct LevelGraph {
    pub components: Components,
    /// Per component with a cycle: its range of ids in each session it meets, by session.
    ranges: FxHashMap<u32, Vec<(SessionId, Range<u32>)>>,
    /// The cycles through the initial transaction, if they count; they are one component.
    pub initial: InitialCycles,
}

impl LevelGraph {
    pub fn new(view: &CommittedView<'_>, components: Components, initial: InitialCycles) -> LevelGraph {
        let components = match initial.constraints.is_empty() {
            true => components,
            false => components.with_cycle_through(&initial.members),
        };
        let mut ranges: FxHashMap<u32, Vec<(SessionId, Range<u32>)>> = FxHashMap::default();
        // Ids ascend session by session, so each list comes out sorted.
        for t in view.committed().filter(|t| components.is_cyclic(t.0)) {
            let session = view.history.session_of(t);
            let met = ranges.entry(components.of(t.0)).or_default();
            match met.last_mut() {
                Some((last, range)) if *last == session => range.end = t.0 + 1,
                _ => met.push((session, t.0..t.0 + 1)),
            }
        }
        LevelGraph { components, ranges, initial }
    }

    fn shares_cycle(&self, t1: Writer, t2: Writer) -> bool {
        match (t1, t2) {
            (Some(t1), Some(t2)) => self.components.share_cycle(t1.0, t2.0),
            (Some(t1), None) => self.initial.contain(t1),
            (None, _) => false,
        }
    }

    /// Where the cycle of `t1` meets the sessions, if there is a graph and a cycle.
    fn cycle_in(graph: Option<&LevelGraph>, t1: Writer) -> Cycle<'_> {
        let ranges = graph.zip(t1).and_then(|(g, t1)| g.ranges.get(&g.components.of(t1.0)));
        Cycle(ranges.map_or(&[], Vec::as_slice))
    }

    /// The transactions of a session on a cycle with `t1`.
    pub fn range(&self, t1: Writer, session: SessionId) -> Range<u32> {
        Self::cycle_in(Some(self), t1).range(session)
    }
}

/// A component's ranges of ids, by session.
#[derive(Clone, Copy)]
struct Cycle<'a>(&'a [(SessionId, Range<u32>)]);

impl Cycle<'_> {
    fn range(self, session: SessionId) -> Range<u32> {
        match self.0.binary_search_by_key(&session, |(s, _)| *s) {
            Ok(at) => self.0[at].1.clone(),
            Err(_) => 0..0,
        }
    }
}

/// What to count with.
pub(crate) struct Classifier<'a> {
    pub view: CommittedView<'a>,
    pub definitions: Definitions,
    pub clocks: &'a AllClocks<'a>,
    pub read_committed: Option<&'a LevelGraph>,
    pub read_atomic: Option<&'a LevelGraph>,
    pub causal: Option<&'a LevelGraph>,
}

impl Classifier<'_> {
    pub fn count(&self) -> TapCounts {
        let mut counts = TapCounts::default();
        let mut first_read = EpochMap::<u32>::new(self.view.txn_count());
        let mut sources: Vec<TxnId> = Vec::new();
        for t3 in self.view.committed() {
            let mut looked = false;
            for read in self.view.reads(t3).filter(|r| self.is_suspect(r.from)) {
                if !std::mem::replace(&mut looked, true) {
                    first_read.next_round();
                    sources.clear();
                    for r in self.view.reads(t3) {
                        if let Some(w) = r.from
                            && first_read.get(w.index()).is_none()
                        {
                            first_read.set(w.index(), r.op.0);
                            sources.push(w);
                        }
                    }
                    sources.sort_unstable();
                }
                self.count_read(t3, read, &sources, &first_read, &mut counts);
            }
        }
        counts
    }

    /// Only reads of the initial state, or from a transaction on a cycle of the largest graph, can have an
    /// instance.
    fn is_suspect(&self, from: Writer) -> bool {
        let largest = self.causal.or(self.read_atomic).or(self.read_committed);
        from.is_none_or(|t1| largest.is_some_and(|g| g.components.is_cyclic(t1.0)))
    }

    fn causes(&self, t1: Writer, t2: Writer) -> bool {
        let Some(t2) = t2 else { return false };
        t1.is_none_or(|t1| self.clocks.has_seen(t2, t1))
    }

    /// What else `t3` reads from `t2`, seen from a read of `x`.
    fn known_by(&self, t3: TxnId, read: Read, t2: Writer, first_read: &EpochMap<u32>) -> Known {
        match (self.definitions, t2) {
            (Definitions::Anomalist, Some(t2)) => {
                match first_read.get(t2.index()).is_some_and(|first| first < read.op.0) {
                    true => Known::Earlier,
                    false => Known::Anywhere,
                }
            }
            _ => {
                let mut others = self.view.reads(t3).filter(|r| r.from == t2 && r.key != read.key);
                match others.next() {
                    Some(first) if first.op < read.op => Known::Earlier,
                    Some(_) => Known::Anywhere,
                    None => Known::Otherwise,
                }
            }
        }
    }

    fn count_read(
        &self,
        t3: TxnId,
        read: Read,
        sources: &[TxnId],
        first_read: &EpochMap<u32>,
        counts: &mut TapCounts,
    ) {
        let t1 = read.from;
        let index = self.view.index;
        let plume = self.definitions == Definitions::Plume;
        let instance = |t2| Instance { t1, t2, t3, read };
        let overwriting: Vec<TxnId> =
            sources.iter().copied().filter(|&t2| index.writes(t2, read.key)).collect();
        for &t2 in overwriting.iter().filter(|&&t2| Some(t2) != t1) {
            let t2 = Some(t2);
            let known = self.known_by(t3, read, t2, first_read);
            let Some(tap) = self.file(t1, t2, known) else { continue };
            // Reading the key itself from both is a non-repeatable read (TAP-j); beyond read committed it
            // is only that, unless the letter counts.
            let repeated = || self.view.reads(t3).any(|r| r.key == read.key && r.from == t2);
            if plume || tap.level() == Weak::ReadCommitted || !repeated() {
                counts.add(self, tap, 1, [instance(t2)]);
            }
        }
        if plume && let Some(tap) = self.file(t1, None, self.known_by(t3, read, None, first_read)) {
            counts.add(self, tap, 1, [instance(None)]);
        }
        if self.read_atomic.is_none() && self.causal.is_none() {
            return;
        }
        let mut excluded = overwriting;
        excluded.extend(t1);
        excluded.push(t3);
        excluded.sort_unstable();
        excluded.dedup();
        let groups = Groups {
            t1,
            excluded,
            instance: &instance,
            read_atomic: LevelGraph::cycle_in(self.read_atomic, t1),
            causal: LevelGraph::cycle_in(self.causal, t1),
        };
        by_session(&self.view, read.key, |session, group| {
            let seen = leading(group, self.clocks.unseen(t3, session));
            // By the letter, earlier transactions of the session are seen as all that happened before.
            let before = match plume {
                true => 0,
                false => leading(group, self.view.history.part_before(session, t3).end),
            };
            self.count_group(&group[..before], Shape::Session, session, &groups, counts);
            self.count_group(&group[before..seen.max(before)], Shape::Causal, session, &groups, counts);
        });
    }

    /// Where the pair of a read and a transaction that `t3` reads from (or the initial one) belongs.
    fn file(&self, t1: Writer, t2: Writer, known: Known) -> Option<Tap> {
        let on_cycle = |graph: Option<&LevelGraph>| graph.is_some_and(|g| g.shares_cycle(t1, t2));
        if self.causes(t1, t2) {
            return match known {
                Known::Earlier => Some(Tap::H),
                Known::Anywhere => (self.read_atomic.is_some() || self.causal.is_some()).then_some(Tap::K),
                Known::Otherwise => self.causal.is_some().then_some(Tap::M),
            };
        }
        if known == Known::Earlier && on_cycle(self.read_committed) {
            Some(Tap::I)
        } else if known != Known::Otherwise && on_cycle(self.read_atomic) {
            Some(Tap::L)
        } else if on_cycle(self.causal) {
            Some(Tap::N)
        } else {
            None
        }
    }

    /// Counts the pairs with the writers of one session, none of which `t3` reads from.
    fn count_group(
        &self,
        group: &[TxnId],
        shape: Shape,
        session: SessionId,
        groups: &Groups<'_>,
        counts: &mut TapCounts,
    ) {
        let t1 = groups.t1;
        if group.is_empty() || shape == Shape::Causal && self.causal.is_none() {
            return;
        }
        let caused = t1.map_or(0, |t1| leading(group, self.clocks.first_to_see(t1, session)));
        let first = leading(&groups.excluded, group[0].0);
        let excluded = &groups.excluded[first..];
        let excluded = &excluded[..leading(excluded, group[group.len() - 1].0 + 1)];
        let mut file = |tap: Tap, range: Range<usize>| {
            let members = &group[range];
            let left_out = excluded.iter().filter(|t| members.binary_search(t).is_ok()).count();
            let count = (members.len() - left_out) as u64;
            if count > 0 {
                let examples = members.iter().filter(|t| excluded.binary_search(t).is_err());
                counts.add(self, tap, count, examples.take(SAMPLED).map(|&t2| (groups.instance)(Some(t2))));
            }
        };
        let (co, cm) = match shape {
            Shape::Session => (Tap::K, Tap::L),
            Shape::Causal => (Tap::M, Tap::N),
        };
        file(co, caused..group.len());
        let within = |cycle: Cycle<'_>| {
            let ids = cycle.range(session);
            let low = leading(group, ids.start).min(caused);
            low..leading(group, ids.end).clamp(low, caused)
        };
        let in_causal = within(groups.causal);
        match shape {
            Shape::Causal => file(cm, in_causal),
            Shape::Session => {
                let in_atomic = within(groups.read_atomic);
                file(cm, in_atomic.clone());
                if in_atomic.is_empty() {
                    file(Tap::N, in_causal);
                } else {
                    file(Tap::N, in_causal.start.min(in_atomic.start)..in_atomic.start);
                    file(Tap::N, in_atomic.end..in_causal.end.max(in_atomic.end));
                }
            }
        }
    }
}

/// How `t3` knows a transaction, seen from one of its reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It read from it before (by Plume's letter: another key).
    Earlier,
    /// It read from it before or after.
    Anywhere,
    /// It did not; but it follows it.
    Otherwise,
}

/// What the groups of one read have in common.
struct Groups<'a> {
    t1: Writer,
    /// `t1`, `t3` and what `t3` reads from, which are filed one by one; sorted.
    excluded: Vec<TxnId>,
    instance: &'a dyn Fn(Writer) -> Instance,
    /// The cycle of `t1` in the graphs of read atomic and causal.
    read_atomic: Cycle<'a>,
    causal: Cycle<'a>,
}

/// Why `t2` is visible to `t3` when `t3` does not read from it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Earlier in the same session.
    Session,
    /// Causally before.
    Causal,
}

impl TapCounts {
    fn add(
        &mut self,
        classifier: &Classifier<'_>,
        tap: Tap,
        count: u64,
        examples: impl IntoIterator<Item = Instance>,
    ) {
        self.count[tap as usize] += count;
        let history = classifier.view.history;
        let size = |t: TxnId| history.op_range(t).len();
        let kept = &mut self.smallest[tap as usize];
        let readers = &mut self.readers[tap as usize];
        for e in examples {
            if readers.last() != Some(&e.t3) {
                readers.push(e.t3);
            }
            let implied = e.t1.is_some_and(|t1| e.t2.is_none_or(|t2| classifier.clocks.has_seen(t1, t2)));
            let weight = (implied, e.t2.map_or(0, size) + size(e.t3) + e.t1.map_or(0, size));
            if kept.len() == KEPT && kept.last().is_some_and(|&(worst, _)| worst <= weight) {
                continue;
            }
            let at = kept.partition_point(|&(w, _)| w <= weight);
            kept.insert(at, (weight, e));
            kept.truncate(KEPT);
        }
    }
}
