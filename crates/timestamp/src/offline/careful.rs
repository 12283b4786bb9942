//! Views that are no prefix of what committed before: sets of ids, snapshots after the viewer's own commit,
//! snapshots at the very timestamp at which a later transaction of the viewer's session commits (which is
//! not seen), and, under serializability, transactions that commit when others do. A read of the last kind
//! is right if some order of those that keeps sessions explains it: the transactions before it in its
//! session count, those of other sessions may.
//!
//! Here every version of the key is known. A set decides about each version by its id, so the last visible one is looked for
//! from the end. Two bounds keep that short on a real history, where ids and commits grow together: behind a position where
//! all ids are at or above `xmax` nothing is seen, and before one where all are below `xmin` everything is. A key costs as
//! many steps as versions committed while the oldest transaction that its readers saw running ran; where the ids are in
//! disarray, versions × readers.

use super::Findings;
use super::events::Event;
use super::key::{Checker, Match};
use crate::list::{Block, Fit, is_concatenation};
use crate::{Class, Mode};
use anomalist_history::{KeyId, Snapshot, Value};

/// Bounds on the ids of a key's versions.
pub(crate) struct Ids {
    /// The largest id among the first so many versions and one more; a version without id counts as the largest.
    largest: Vec<u64>,
    /// The smallest id from a version on; a version without id counts as the smallest.
    smallest: Vec<u64>,
}

impl Ids {
    fn new(checker: &Checker<'_>) -> Ids {
        let id = |v: &Event| checker.timeline.id(v.place());
        let mut largest = Vec::with_capacity(checker.versions.len());
        let mut top = 0;
        for version in &checker.versions {
            top = top.max(id(version).unwrap_or(u64::MAX));
            largest.push(top);
        }
        let mut smallest = vec![u64::MAX; checker.versions.len()];
        let mut bottom = u64::MAX;
        for (i, version) in checker.versions.iter().enumerate().rev() {
            bottom = bottom.min(id(version).unwrap_or(0));
            smallest[i] = bottom;
        }
        Ids { largest, smallest }
    }

    /// No version from here on is seen.
    fn end(&self, set: Option<Snapshot<'_>>) -> usize {
        set.map_or(self.smallest.len(), |s| self.smallest.partition_point(|&id| id < s.xmax))
    }

    /// Every version before here is seen.
    fn start(&self, set: Option<Snapshot<'_>>) -> usize {
        set.map_or(0, |s| self.largest.partition_point(|&id| id < s.xmin))
    }
}

/// The versions that a read may see: all before `first`, those listed, and as it pleases those that are optional.
#[derive(Default, Debug)]
pub(crate) struct Scope {
    pub first: usize,
    pub listed: Vec<usize>,
    /// Writers of other sessions that commit when the reader does, under serializability.
    pub optional: Vec<usize>,
}

impl Scope {
    fn required(&self) -> impl DoubleEndedIterator<Item = usize> + Clone + '_ {
        (0..self.first).chain(self.listed.iter().copied())
    }

    pub fn all(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.required().chain(self.optional.iter().copied())
    }
}

impl Checker<'_> {
    /// Judges the reads that waited, and with sets all conflicts.
    pub fn careful(&self, key: KeyId, reads: &[Event], lists: bool, found: &mut Findings) {
        let ids = self.ids();
        for &read in reads {
            let scope = self.scope(read.place(), &ids);
            let matched = self.weigh(key, read, lists, &scope);
            self.note(key, read, matched, scope.required().next_back(), found);
        }
        if self.timeline.sets && self.timeline.rule.mode == Mode::Si {
            self.careful_conflicts(key, &ids, found);
        }
    }

    pub fn ids(&self) -> Ids {
        match self.timeline.sets {
            true => Ids::new(self),
            false => Ids { largest: Vec::new(), smallest: Vec::new() },
        }
    }

    /// The versions that a place may see.
    pub fn scope(&self, viewer: u32, ids: &Ids) -> Scope {
        match self.timeline.rule.mode {
            Mode::Ser => self.serial_scope(viewer),
            Mode::Si => {
                let (first, listed) = self.visible(viewer, ids);
                Scope { first, listed, optional: Vec::new() }
            }
        }
    }

    /// What committed before, what committed in the same moment before it in its session, and perhaps what others
    /// committed in that moment.
    fn serial_scope(&self, viewer: u32) -> Scope {
        let timeline = self.timeline;
        let commit = timeline.commit(viewer);
        let first = self.versions.partition_point(|v| timeline.commit(v.place()) < commit);
        let end = self.versions.partition_point(|v| timeline.commit(v.place()) <= commit);
        let (mut own, mut optional): (Vec<usize>, Vec<usize>) = (first..end)
            .partition(|&i| timeline.session(self.versions[i].place()) == timeline.session(viewer));
        let txn = |i: &usize| timeline.history.issue(self.txn(self.versions[*i]));
        let own_txn = timeline.txn_of[viewer as usize];
        own.retain(|i| txn(i).1 < timeline.history.issue_rank(own_txn));
        own.sort_unstable_by_key(txn);
        optional.sort_unstable_by_key(txn);
        Scope { first, listed: own, optional }
    }

    /// The versions that a place sees: all before the first number, and those listed.
    fn visible(&self, viewer: u32, ids: &Ids) -> (usize, Vec<usize>) {
        let timeline = self.timeline;
        let (start, end) = match timeline.set(viewer) {
            set @ Some(_) => (ids.start(set), ids.end(set)),
            None => {
                let bound = timeline.bound[viewer as usize];
                let end = self.versions.partition_point(|v| v.place() < bound);
                let certain = match timeline.is_later_tied(viewer) {
                    false => self.versions.partition_point(|v| v.place() < viewer),
                    true => self.before_start(viewer),
                };
                (end.min(certain), end)
            }
        };
        let start = start.min(end);
        // The viewer itself may be among the first ones of a set that counts its own id as ended.
        let own = self.versions[..start].binary_search_by_key(&viewer, |v| v.place());
        let start = own.unwrap_or(start);
        let sees = |i: &usize| timeline.sees(viewer, self.versions[*i].place());
        (start, (start..end).filter(sees).collect())
    }

    /// The versions that commit before a place starts.
    pub fn before_start(&self, viewer: u32) -> usize {
        let start = self.timeline.start(viewer);
        self.versions.partition_point(|v| self.timeline.commit(v.place()) < start)
    }

    /// Compares a read with what it may see.
    pub fn weigh(&self, key: KeyId, read: Event, lists: bool, scope: &Scope) -> Match {
        let commit = |i: usize| self.timeline.commit(self.versions[i].place());
        let last = scope.required().next_back();
        let group = |last: usize| scope.required().rev().take_while(|&i| commit(i) == commit(last)).collect();
        let mut candidates = last.map_or_else(Vec::new, |last| self.last_ones(group(last)));
        if lists && scope.all().all(|i| self.versions[i].is_append()) {
            let several = candidates.len().max(1) + scope.optional.len() > 1;
            return match self.weigh_list(key, read, scope) {
                Match::Right if several => Match::Tied,
                matched => matched,
            };
        }
        candidates.extend(&scope.optional);
        let before = last.is_none().then(|| self.is_initial(key, read.value, self.foreign(key, read)));
        match lists {
            true => self.written_over(read, candidates, before),
            false if candidates.is_empty() => self.initial(key, read.value),
            false => self.any_of(read, candidates, before),
        }
    }

    /// A read that sees nothing but appends.
    fn weigh_list(&self, key: KeyId, read: Event, scope: &Scope) -> Match {
        let required: Vec<usize> = scope.required().collect();
        let Some(seen) = self.foreign(key, read) else {
            return if required.is_empty() { self.initial(key, read.value) } else { Match::Wrong(None) };
        };
        let mut all: Vec<(usize, bool)> = required.iter().map(|&i| (i, true)).collect();
        all.extend(scope.optional.iter().map(|&i| (i, false)));
        all.sort_by_key(|&(i, _)| {
            let issue = self.timeline.history.issue(self.txn(self.versions[i]));
            (self.timeline.commit(self.versions[i].place()), issue)
        });
        let block = |&(i, required): &(usize, bool)| {
            let place = self.versions[i].place();
            let (commit, session) = (self.timeline.commit(place), self.timeline.session(place));
            Block { commit, session, required, elements: self.block(i) }
        };
        let fit = seen
            .strip_prefix(self.initial_list(key))
            .map_or(Fit::No, |rest| is_concatenation(all.iter().map(block), rest));
        match fit {
            Fit::Yes => Match::Right,
            Fit::GaveUp => Match::GaveUp,
            Fit::No => {
                let initial = self.initial_list(key).iter();
                let elements = required.iter().flat_map(|&i| self.block(i));
                let expected: Vec<Value> = initial.chain(elements).copied().collect();
                // The order of a tie is not the one expected.
                Match::Wrong(Some(self.compare(key, read, &expected).unwrap_or(Class::Mixed)))
            }
        }
    }

    /// What a version appended.
    pub fn block(&self, i: usize) -> &[Value] {
        &self.elements[self.content[i].elements as usize..self.content[i + 1].elements as usize]
    }

    /// Pairs of versions of which neither writer sees the other.
    fn careful_conflicts(&self, key: KeyId, ids: &Ids, found: &mut Findings) {
        let timeline = self.timeline;
        for (j, version) in self.versions.iter().enumerate() {
            let place = version.place();
            let from = match timeline.set(place) {
                set @ Some(_) => ids.start(set),
                None if timeline.is_later_tied(place) => self.before_start(place),
                None => self.versions.partition_point(|v| v.place() < timeline.bound[place as usize]),
            };
            for &other in &self.versions[from.min(j)..j] {
                if !timeline.sees(place, other.place()) && !timeline.sees(other.place(), place) {
                    self.conflict(key, place, other, found);
                }
            }
        }
    }
}
