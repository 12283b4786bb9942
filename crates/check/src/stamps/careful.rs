//! Views that are no prefix of what committed before: sets of ids, and snapshots after the viewer's own commit.
//!
//! Here every version of the key is known. A set decides about each version by its id, so the last visible one is looked for
//! from the end. Two bounds keep that short on a real history, where ids and commits grow together: behind a position where
//! all ids are at or above `xmax` nothing is seen, and before one where all are below `xmin` everything is. A key costs as
//! many steps as versions committed while the oldest transaction that its readers saw running ran; where the ids are in
//! disarray, versions × readers.

use super::Findings;
use super::events::Event;
use super::key::{Checker, Match};
use anomalist_history::{KeyId, Snapshot, Value};
use anomalist_timestamp::Mode;

/// Bounds on the ids of a key's versions.
struct Ids {
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

impl Checker<'_> {
    /// Judges the reads that waited, and with sets all conflicts.
    pub fn careful(&self, key: KeyId, reads: &[Event], lists: bool, found: &mut Findings) {
        let ids = if self.timeline.sets {
            Ids::new(self)
        } else {
            Ids { largest: Vec::new(), smallest: Vec::new() }
        };
        for &read in reads {
            let (first, visible) = self.visible(read.place(), &ids);
            // Versions before `first` are all visible; those listed after it too, in order.
            let last = visible.last().copied().or(first.checked_sub(1));
            let matched = if lists {
                self.careful_list(key, read, first, &visible)
            } else {
                self.careful_register(key, read, last, first, &visible)
            };
            self.note(key, read, matched, last, found);
        }
        if self.timeline.sets && self.timeline.rule.mode == Mode::Si {
            self.careful_conflicts(key, &ids, found);
        }
    }

    /// The versions that a place sees: all before the first number, and those listed.
    fn visible(&self, viewer: u32, ids: &Ids) -> (usize, Vec<usize>) {
        let timeline = self.timeline;
        let (start, end) = match timeline.set(viewer) {
            set @ Some(_) => (ids.start(set), ids.end(set)),
            None => {
                let bound = timeline.bound[viewer as usize];
                let end = self.versions.partition_point(|v| v.place() < bound);
                let own = self.versions.partition_point(|v| v.place() < viewer);
                (end.min(own), end)
            }
        };
        let start = start.min(end);
        // The viewer itself may be among the first ones of a set that counts its own id as ended.
        let own = self.versions[..start].binary_search_by_key(&viewer, |v| v.place());
        let start = own.unwrap_or(start);
        let sees = |i: &usize| timeline.sees(viewer, self.versions[*i].place());
        (start, (start..end).filter(sees).collect())
    }

    fn careful_register(
        &self,
        key: KeyId,
        read: Event,
        last: Option<usize>,
        first: usize,
        visible: &[usize],
    ) -> Match {
        let Some(last) = last else {
            return self.initial(key, read.value);
        };
        let commit = |i: usize| self.timeline.commit(self.versions[i].place());
        let all = visible.iter().rev().copied().chain((0..first).rev());
        let tied: Vec<usize> = all.take_while(|&i| commit(i) == commit(last)).collect();
        self.any_of(read, tied.into_iter())
    }

    fn careful_list(&self, key: KeyId, read: Event, first: usize, visible: &[usize]) -> Match {
        if visible.iter().enumerate().all(|(n, &i)| i == first + n) {
            return self.list(key, read, first + visible.len());
        }
        let all: Vec<usize> = (0..first).chain(visible.iter().copied()).collect();
        let commit = |i: usize| self.timeline.commit(self.versions[i].place());
        let last = all[all.len() - 1];
        let tied = all.iter().rev().take_while(|&&i| commit(i) == commit(last)).count();
        if !all.iter().all(|&i| self.versions[i].is_append()) {
            return self.written_over(read, all[all.len() - tied..].iter().copied());
        }
        let elements = || {
            all.iter()
                .flat_map(|&i| &self.elements[self.content[i].0 as usize..self.content[i + 1].0 as usize])
        };
        let initial = &self.elements[..self.content[0].0 as usize];
        let expected: Vec<Value> = initial.iter().chain(elements()).copied().collect();
        match self.compare(key, read, &expected, |rest| self.is_any_order(key, rest, &all)) {
            Match::Right if tied > 1 => Match::Tied,
            matched => matched,
        }
    }

    /// Pairs of versions of which neither writer sees the other.
    fn careful_conflicts(&self, key: KeyId, ids: &Ids, found: &mut Findings) {
        let timeline = self.timeline;
        for (j, version) in self.versions.iter().enumerate() {
            let place = version.place();
            let from = match timeline.set(place) {
                set @ Some(_) => ids.start(set),
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
