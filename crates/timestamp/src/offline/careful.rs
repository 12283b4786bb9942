//! Views that are no prefix of what committed before: sets of ids, snapshots after the viewer's own commit,
//! snapshots at the very timestamp at which a later transaction of the viewer's session commits (which is
//! not seen), and, under serializability, transactions that commit when others do. A read of the last kind
//! is right if some order of those that keeps sessions explains it: the transactions before it in its
//! session count, those of other sessions may.
//!
//! Here every version of the key is known. A set decides about each version by its id, so the last visible
//! one is looked for from the end. Two bounds keep that short on a real history, where ids and commits grow
//! together: behind a position where all ids are at or above `xmax` nothing is seen, and before one where
//! all are below `xmin` everything is. A key costs as many steps as versions committed while the oldest
//! transaction that its readers saw running ran; where the ids are in disarray, versions × readers.

use super::Findings;
use super::events::Event;
use super::key::Checker;
use super::timeline::At;
use crate::external::{self, Content, Match, Read, Version};
use crate::{Mode, Sight, Stamped};
use anomalist_history::{KeyId, SessionId, Snapshot, Timestamp, Value};

/// Bounds on the ids of a key's versions.
pub(crate) struct Ids {
    /// The largest id among the first so many versions and one more; a version without id counts as the
    /// largest.
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

/// The versions that a read may see: all before `first`, those listed, and as it pleases those that are
/// optional.
#[derive(Default, Debug)]
pub(crate) struct Scope {
    pub first: usize,
    pub listed: Vec<usize>,
    /// Writers of other sessions that commit when the reader does, under serializability.
    pub optional: Vec<usize>,
}

impl Scope {
    pub fn required(&self) -> impl DoubleEndedIterator<Item = usize> + Clone + '_ {
        (0..self.first).chain(self.listed.iter().copied())
    }
}

/// A version as the rules see it.
#[derive(Clone, Copy)]
pub(crate) struct Seat<'c, 'a> {
    pub at: At<'a>,
    pub event: Event,
    /// What it appended.
    pub elements: &'c [Value],
}

impl Stamped for Seat<'_, '_> {
    type Session = SessionId;

    fn start(&self) -> Timestamp {
        self.at.start()
    }

    fn commit(&self) -> Timestamp {
        self.at.commit()
    }

    fn session(&self) -> SessionId {
        self.at.session()
    }

    fn position(&self) -> u32 {
        self.at.position()
    }

    fn set(&self) -> Option<Snapshot<'_>> {
        self.at.set()
    }

    fn id(&self) -> Option<u64> {
        self.at.id()
    }
}

impl Version for Seat<'_, '_> {
    type Value = Value;

    fn content(&self) -> Content<'_, Value> {
        match (self.event.appends(), self.event.is_append()) {
            (false, _) => Content::Written(self.event.value),
            (true, true) => Content::Appended(self.elements),
            (true, false) => Content::Undefined,
        }
    }
}

impl<'a> Checker<'a> {
    /// Judges the reads that waited, and with sets all conflicts.
    pub fn careful(&self, key: KeyId, reads: &[Event], found: &mut Findings) {
        let ids = self.ids();
        for &read in reads {
            let scope = self.scope(read.place(), &ids);
            self.note(key, read, self.judge(key, read, &scope), &scope, found);
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
        let (first, end) = self.span(viewer, ids);
        let mut scope = Scope { first, ..Scope::default() };
        for i in first..end {
            match self.timeline.sight(viewer, self.versions[i].place()) {
                Sight::Seen => scope.listed.push(i),
                Sight::Perhaps => scope.optional.push(i),
                Sight::Unseen => {}
            }
        }
        if self.timeline.rule.mode == Mode::Ser {
            // They commit at one moment: their session orders them.
            scope.listed.sort_unstable_by_key(|&i| self.seat(i).position());
        }
        scope
    }

    /// A place sees every version before the first number, and none from the second on.
    fn span(&self, viewer: u32, ids: &Ids) -> (usize, usize) {
        let timeline = self.timeline;
        if timeline.rule.mode == Mode::Ser {
            let commit = timeline.commit(viewer);
            let first = self.versions.partition_point(|v| timeline.commit(v.place()) < commit);
            let end = self.versions.partition_point(|v| timeline.commit(v.place()) <= commit);
            return (first, end);
        }
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
        (own.unwrap_or(start), end)
    }

    /// The versions that commit before a place starts.
    pub fn before_start(&self, viewer: u32) -> usize {
        let start = self.timeline.start(viewer);
        self.versions.partition_point(|v| self.timeline.commit(v.place()) < start)
    }

    /// A version as the rules see it.
    pub fn seat(&self, i: usize) -> Seat<'_, 'a> {
        let event = self.versions[i];
        let elements = if event.is_append() { self.block(i) } else { &[] };
        Seat { at: self.timeline.at(event.place()), event, elements }
    }

    /// A read as the rules see it.
    pub fn read(&self, key: KeyId, read: Event) -> Read<'a, Value, impl Fn(Value) -> bool + use<>> {
        let shows = move |value: Value| value == read.value;
        Read { seen: self.seen(key, read), initial: self.initial(key), shows }
    }

    /// What a read may see, as the rules see it.
    pub fn seen_by<'c>(
        &'c self,
        scope: &'c Scope,
    ) -> external::Scope<impl Iterator<Item = Seat<'c, 'a>>, Seat<'c, 'a>> {
        external::Scope {
            required: scope.required().rev().map(|i| self.seat(i)),
            optional: scope.optional.iter().map(|&i| self.seat(i)).collect(),
            cut: false,
            mixed: self.content.get(scope.first).is_some_and(|content| content.mixed),
        }
    }

    /// Compares a read with what it may see.
    pub fn judge(&self, key: KeyId, read: Event, scope: &Scope) -> Match {
        let judged = external::judge(&self.read(key, read), self.seen_by(scope));
        judged.map_or(Match::Unjudged, |(matched, _)| matched)
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
                if timeline.conflict(place, other.place()) {
                    self.conflict(key, place, other, found);
                }
            }
        }
    }
}
