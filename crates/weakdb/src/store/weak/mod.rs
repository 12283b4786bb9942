//! Read committed, read atomic and causal consistency: sets of allowed sources, kept while the history
//! grows.
//!
//! All three have one shape (Biswas & Enea 2019): if `t3` reads `x` from `t1`, every other writer of `x`
//! that is *visible* to the read comes before `t1` in the commit order, which extends session order and
//! reads-from. They differ in what is visible to a read of `t3`: whom it read from earlier; whom it reads
//! from at all, and its session's past; everything that happens before it. A history is within the level if
//! these demands and the two orders are acyclic ([`graph`]).
//!
//! A read of `x` from a candidate `c` adds, for an open transaction that no other transaction depends on
//! yet:
//! - demands `v → c` for each visible writer `v ≠ c` of `x`. The last one of each session stands for the
//!   earlier ones. A candidate that comes before some `v` is refused; along a session these are the first
//!   ones, so what is left is one slice per session;
//! - where reading makes more visible (`c` itself; for causal all that happens before it): demands `v → s`
//!   for each newly visible writer `v` of a key that was read from `s ≠ v` before.
//!
//! The candidate is allowed iff all its demands together close no cycle. For causal the second kind has a
//! bound per session, kept with the open transaction: the first writer of something it has read that comes
//! after what it has read ([`View::ceiling`]). Candidates from the first one on that has it in its past are
//! refused, so the slice is cut at its end, too. Inside the slice only demands that close a cycle together
//! can refuse; they are tried on the candidate that was picked.
//!
//! Cost of a read, with `k` sessions that wrote the key: O(k² log n) and the demands of the picked
//! candidate, whatever the number of candidates. For read atomic the slices are not cut at the end, and
//! where nearly all candidates fail their demands, all are tried.
//!
//! An open transaction's demands count for everybody at once. If it aborts they are taken back.

mod clock;
mod graph;

use super::base::{Base, KeyId, Seq};
use super::error::Conflict;
use super::isolation::Isolation;
use super::search::partition_late;
use clock::Clock;
use graph::Graph;
use rustc_hash::FxHashMap;

/// What is visible to a read, besides what its transaction read from before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Visibility {
    /// Nothing (read committed).
    Read,
    /// Whom it reads from later, and the session's past (read atomic).
    ReadAndSession,
    /// Everything that happens before it (causal).
    Causal,
}

/// Writers of one key in one session (one lane of the graph), ascending, and side by side their positions
/// in it.
struct Written {
    lane: usize,
    by: Vec<Seq>,
    positions: Vec<u32>,
}

impl Written {
    /// How many of them are at or before the position.
    fn until(&self, position: u32) -> usize {
        partition_late(&self.positions, |&p| p <= position)
    }

    fn last_until(&self, position: u32) -> Option<Seq> {
        self.until(position).checked_sub(1).map(|i| self.by[i])
    }
}

/// One of the three levels at work.
pub(crate) struct Weak {
    visibility: Visibility,
    /// The commit order is the order of commits: a demand against it is a cycle.
    ordered: bool,
    graph: Graph,
    /// By key.
    written: Vec<Vec<Written>>,
    views: Vec<View>,
    /// Sessions with an open transaction: there may have been many others.
    open: Vec<usize>,
}

/// A session's.
#[derive(Default)]
struct View {
    /// Its lane in the graph, once it has written.
    lane: Option<usize>,
    /// What happened before the session's next transaction, and whom that depends on directly.
    floor: Frontier,
    now: Frontier,
    /// External reads of the open transaction: for read committed the latest source, for the others the
    /// only one.
    reads: FxHashMap<KeyId, Seq>,
    /// Whom the open transaction has read from.
    sources: Vec<Seq>,
    /// Demands of the open transaction, to be taken back if it aborts.
    demands: Vec<(Seq, Seq)>,
    /// Causal: by lane, the first position that must not become visible to the open transaction.
    ceiling: FxHashMap<usize, u32>,
}

#[derive(Clone, Default)]
struct Frontier {
    /// Causal: by session, how many of its writers happened before.
    past: Clock,
    /// Since the session's last writer: of each session, the last transaction that this session has read
    /// from.
    direct: Vec<Seq>,
}

impl Weak {
    pub fn new(visibility: Visibility, ordered: bool) -> Weak {
        let (written, views, open) = (Vec::new(), Vec::new(), Vec::new());
        Weak { visibility, ordered, graph: Graph::new(), written, views, open }
    }

    fn written(&self, key: KeyId) -> &[Written] {
        self.written.get(key.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The last of each session's visible writers of the key, as far as they are not the initial one.
    fn visible(&self, base: &Base, view: &View, key: KeyId) -> Vec<Seq> {
        let mut visible = Vec::new();
        if self.visibility == Visibility::Causal {
            for w in self.written(key) {
                visible.extend(w.last_until(view.now.past.get(w.lane)));
            }
            return visible;
        }
        if self.visibility == Visibility::ReadAndSession
            && let Some(lane) = view.lane
        {
            let own = self.written(key).iter().find(|w| w.lane == lane);
            visible.extend(own.and_then(|w| w.by.last()));
        }
        for &s in &view.sources {
            if s != Seq::INITIAL && base.wrote(s, key) && !visible.contains(&s) {
                visible.push(s);
            }
        }
        visible
    }

    /// The demands that a read from a writer not yet visible puts on earlier reads.
    fn demands_on_earlier(&self, base: &Base, view: &View, source: Seq) -> Vec<(Seq, Seq)> {
        let mut demands = Vec::new();
        match self.visibility {
            Visibility::Read => {}
            Visibility::ReadAndSession => {
                for key in base.keys(source) {
                    if let Some(&s) = view.reads.get(&key).filter(|&&s| s != source) {
                        demands.push((source, s));
                    }
                }
            }
            Visibility::Causal => self.newly_visible(base, view, source, &mut demands),
        }
        demands
    }

    fn newly_visible(&self, base: &Base, view: &View, source: Seq, demands: &mut Vec<(Seq, Seq)>) {
        let past = self.graph.past(source);
        let mut demand = |v: Seq, s: Seq| {
            if v != s && !self.graph.before(v, s) {
                demands.push((v, s));
            }
        };
        let own = (self.graph.lane(source), self.graph.position(source));
        for (lane, until) in past.iter().filter(|entry| entry.0 != own.0).chain([own]) {
            let from = view.now.past.get(lane);
            if until <= from {
                continue;
            }
            if ((until - from) as usize) < view.reads.len() {
                for position in from + 1..=until {
                    let v = self.graph.at(lane, position);
                    for key in base.keys(v) {
                        if let Some(&s) = view.reads.get(&key) {
                            demand(v, s);
                        }
                    }
                }
            } else {
                for (&key, &s) in &view.reads {
                    let w = self.written(key).iter().find(|w| w.lane == lane);
                    let last = w.and_then(|w| w.last_until(until));
                    if let Some(v) = last.filter(|&v| self.graph.position(v) > from) {
                        demand(v, s);
                    }
                }
            }
        }
    }

    /// True if reading from a visible writer again, or from the initial one, makes nothing visible.
    fn sees(&self, view: &View, source: Seq) -> bool {
        source == Seq::INITIAL
            || match self.visibility {
                Visibility::Read => true,
                Visibility::ReadAndSession => {
                    view.lane == Some(self.graph.lane(source)) || view.sources.contains(&source)
                }
                Visibility::Causal => {
                    self.graph.position(source) <= view.now.past.get(self.graph.lane(source))
                }
            }
    }

    /// True if some position at or above the ceiling is in the writer's past, or is the writer itself.
    fn above_ceiling(&self, view: &View, source: Seq) -> bool {
        if view.ceiling.is_empty() {
            return false;
        }
        let own = (self.graph.lane(source), self.graph.position(source));
        let seen = self.graph.past(source).iter().chain([own]);
        seen.into_iter().any(|(lane, seen)| view.ceiling.get(&lane).is_some_and(|&ceiling| seen >= ceiling))
    }

    /// Lowers the ceilings of open transactions after these writers have come after others than before.
    fn lower_ceilings(&mut self, base: &Base, changed: &[Seq]) {
        if self.visibility != Visibility::Causal {
            return;
        }
        let graph = &self.graph;
        for &open in &self.open {
            let view = &mut self.views[open];
            for &w in changed {
                let late = base.keys(w).any(|k| view.reads.get(&k).is_some_and(|&s| graph.before(s, w)));
                if late {
                    lower(&mut view.ceiling, graph.lane(w), graph.position(w));
                }
            }
        }
    }

    /// The ceiling that one read gives: in each session the first writer of the key that comes after the
    /// source.
    fn lower_ceiling(&mut self, session: usize, key: KeyId, source: Seq) {
        let (graph, written) = (&self.graph, &self.written);
        let ceiling = &mut self.views[session].ceiling;
        for w in written.get(key.0 as usize).into_iter().flatten() {
            let first = partition_late(&w.by, |&v| !graph.before(source, v));
            if let Some(&v) = w.by.get(first) {
                lower(ceiling, w.lane, graph.position(v));
            }
        }
    }

    fn demand(&mut self, base: &Base, session: usize, demands: Vec<(Seq, Seq)>) {
        let mut changed = Vec::new();
        for (a, b) in demands {
            if self.graph.demand(a, b, &mut changed) {
                self.views[session].demands.push((a, b));
            }
        }
        self.lower_ceilings(base, &changed);
    }

    fn close(&mut self, session: usize) {
        self.open.retain(|&open| open != session);
        let view = &mut self.views[session];
        view.reads.clear();
        view.sources.clear();
        view.demands.clear();
        view.ceiling.clear();
    }
}

fn lower(ceiling: &mut FxHashMap<usize, u32>, lane: usize, position: u32) {
    let lowest = ceiling.entry(lane).or_insert(position);
    *lowest = (*lowest).min(position);
}

const INITIAL: &[Seq] = &[Seq::INITIAL];

impl Isolation for Weak {
    fn open_session(&mut self) {
        self.views.push(View::default());
    }

    fn close_session(&mut self, session: usize) {
        let view = std::mem::take(&mut self.views[session]);
        // Read atomic knows a session's past by its lane, which therefore stays its own.
        if self.visibility == Visibility::Causal
            && let Some(lane) = view.lane
        {
            self.graph.free_lane(lane);
        }
    }

    fn begin(&mut self, session: usize, _: bool) {
        self.open.push(session);
        let view = &mut self.views[session];
        view.now = view.floor.clone();
    }

    fn spans<'a>(&'a self, base: &'a Base, session: usize, key: KeyId) -> Vec<&'a [Seq]> {
        let view = &self.views[session];
        if self.visibility != Visibility::Read
            && let Some(source) = view.reads.get(&key)
        {
            // Any other source would have to come before and after this one.
            return vec![std::slice::from_ref(source)];
        }
        let visible = self.visible(base, view, key);
        let mut spans = Vec::new();
        if visible.is_empty() {
            spans.push(INITIAL);
        }
        let overwritten = self.graph.preceding_any(&visible);
        for w in self.written(key) {
            // Where nothing is overwritten there is nothing to search for, however long the slice is.
            let from = match overwritten.get(w.lane) {
                0 => 0,
                position => w.until(position),
            };
            let mut span = &w.by[from..];
            if self.visibility == Visibility::Causal {
                let seen = w.until(view.now.past.get(w.lane)).max(from) - from;
                let end = span[seen..].partition_point(|&s| !self.above_ceiling(view, s));
                span = &span[..seen + end];
            }
            if !span.is_empty() {
                spans.push(span);
            }
        }
        spans
    }

    fn spans_are_sessions(&self) -> bool {
        true
    }

    fn allows(&self, base: &Base, session: usize, key: KeyId, source: Seq) -> bool {
        let view = &self.views[session];
        // What is visible and newest of the key passes both tests, so something always does.
        if self.ordered && self.visible(base, view, key).iter().any(|&v| v > source) {
            return false;
        }
        if self.sees(view, source) {
            // Only demands on the source itself; the slice has no candidate that comes before a visible
            // writer.
            return true;
        }
        let mut demands = self.demands_on_earlier(base, view, source);
        if demands.is_empty() || (self.ordered && demands.iter().all(|(a, b)| a < b)) {
            return true;
        }
        if self.ordered {
            return false;
        }
        demands
            .extend(self.visible(base, view, key).into_iter().filter(|&v| v != source).map(|v| (v, source)));
        self.graph.stays_acyclic(&demands)
    }

    fn before(&self, a: Seq, b: Seq) -> bool {
        self.graph.before(a, b)
    }

    fn observe(&mut self, base: &Base, session: usize, key: KeyId, source: Seq) {
        let again = self.visibility != Visibility::Read && self.views[session].reads.contains_key(&key);
        if again {
            return;
        }
        let view = &self.views[session];
        let mut demands: Vec<(Seq, Seq)> =
            self.visible(base, view, key).into_iter().filter(|&v| v != source).map(|v| (v, source)).collect();
        if !self.sees(view, source) {
            demands.extend(self.demands_on_earlier(base, view, source));
        }
        let view = &mut self.views[session];
        view.reads.insert(key, source);
        if source != Seq::INITIAL {
            if !view.sources.contains(&source) {
                view.sources.push(source);
            }
            if self.visibility == Visibility::Causal {
                self.graph.see(&mut view.now.past, source);
            }
        }
        self.demand(base, session, demands);
        if self.visibility == Visibility::Causal {
            self.lower_ceiling(session, key, source);
        }
    }

    fn write(&mut self, _: usize, _: KeyId, _: bool) {}

    fn may_commit(&self, _: &Base, _: usize) -> Result<(), Conflict> {
        Ok(())
    }

    fn commit(&mut self, base: &Base, session: usize, seq: Option<Seq>) {
        let view = &mut self.views[session];
        view.floor = std::mem::take(&mut view.now);
        for &source in &view.sources {
            self.graph.depend(&mut view.floor.direct, source);
        }
        if let Some(seq) = seq {
            let lane = *view.lane.get_or_insert_with(|| self.graph.open_lane(&view.floor.past));
            let direct = std::mem::take(&mut view.floor.direct);
            self.graph.commit(seq, lane, &view.floor.past, &direct);
            if self.visibility == Visibility::Causal {
                self.graph.see(&mut view.floor.past, seq);
            }
            for key in base.keys(seq) {
                let at = key.0 as usize;
                if self.written.len() <= at {
                    self.written.resize_with(at + 1, Vec::new);
                }
                let position = self.graph.position(seq);
                let known = self.written[at].iter_mut().find(|w| position > 1 && w.lane == lane);
                match known {
                    Some(w) => {
                        w.by.push(seq);
                        w.positions.push(position);
                    }
                    None => {
                        self.written[at].push(Written { lane, by: vec![seq], positions: vec![position] });
                    }
                }
            }
        }
        self.close(session);
        if let Some(seq) = seq {
            self.lower_ceilings(base, &[seq]);
        }
    }

    fn abort(&mut self, _: &Base, session: usize) {
        let demands = std::mem::take(&mut self.views[session].demands);
        self.close(session);
        if demands.is_empty() {
            return;
        }
        self.graph.withdraw(&demands);
        if self.visibility != Visibility::Causal {
            return;
        }
        for other in self.open.clone() {
            self.views[other].ceiling.clear();
            let reads: Vec<(KeyId, Seq)> = self.views[other].reads.iter().map(|(&k, &s)| (k, s)).collect();
            for (key, source) in reads {
                self.lower_ceiling(other, key, source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::TxnName;
    use super::*;

    /// A thousand sessions with one transaction each, which may read the key and writes it. How many lanes
    /// there are, and how many of them the last writer knows of.
    fn lanes(reading: bool) -> (usize, usize) {
        let (mut base, mut weak) = (Base::new(), Weak::new(Visibility::Causal, false));
        let key = base.key("x");
        for session in 0..1000 {
            weak.open_session();
            weak.begin(session, false);
            if reading {
                let last = base.versions(key).last();
                weak.observe(&base, session, key, last);
            }
            let name = TxnName { session: session as u32, transaction: 0 };
            let seq = base.commit(name, vec![(key, None)]);
            weak.commit(&base, session, Some(seq));
            weak.close_session(session);
        }
        let last = base.versions(key).last();
        (weak.written(key).len(), weak.graph.past(last).iter().count())
    }

    #[test]
    fn sessions_that_are_over_cost_little() {
        assert_eq!(lanes(true), (1, 1));
        assert_eq!(lanes(false), (1000, 0));
    }
}
