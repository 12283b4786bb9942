//! One key: its versions in order of commit, the reads that should have returned them, and writers that overlap.
//!
//! Events come in order of places. A read at place `p` with bound `b ≤ p + 1` sees the versions so far up to
//! `b`, and those beyond are the ones that committed while its transaction ran: it walks back over them.
//! Other reads wait until all versions are known: their snapshot is a set, or lies after their own commit,
//! or contains the timestamp at which a later transaction of their session commits, or, under
//! serializability, others commit when they do; see `careful.rs`. Versions with one commit are in any order
//! that keeps sessions.
//!
//! Two writers conflict if neither sees the other. For a writer that starts before it commits, those are the versions
//! between its bound and its place, so they are counted without being visited.

use super::Findings;
use super::careful::Scope;
use super::events::Event;
use super::timeline::Timeline;
use crate::{Axiom, Class, Mode, Violation};
use anomalist_history::{History, KeyId, OpKind, TxnId, Value};

/// Checks keys one after another; keeps its buffers.
pub(crate) struct Checker<'a> {
    pub timeline: &'a Timeline<'a>,
    limit: usize,
    pub versions: Vec<Event>,
    /// For keys with lists, by number of versions.
    pub content: Vec<Content>,
    /// All elements appended, in order; the initial ones first.
    pub elements: Vec<Value>,
    /// Reads that see more than what committed before them.
    waiting: Vec<Event>,
    /// Some writer on this key may see what commits after it.
    pub looks_ahead: bool,
}

/// What the first versions of a key with lists are.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Content {
    /// How many elements they appended, the initial ones included.
    pub elements: u32,
    /// Some are more than appends.
    pub mixed: bool,
    /// Some share their commit.
    pub tied: bool,
}

/// How a read compares with what it should have returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    Right,
    /// Right, and several versions share the commit.
    Tied,
    Unjudged,
    /// Too many orders of equal commits to try.
    GaveUp,
    Wrong(Option<Class>),
}

impl<'a> Checker<'a> {
    pub fn new(timeline: &'a Timeline<'a>, limit: usize) -> Checker<'a> {
        Checker {
            timeline,
            limit,
            versions: Vec::new(),
            content: Vec::new(),
            elements: Vec::new(),
            waiting: Vec::new(),
            looks_ahead: false,
        }
    }

    /// EXT, TIE and NOCONFLICT on one key.
    pub fn check(&mut self, key: KeyId, events: &[Event], found: &mut Findings) {
        let timeline = self.timeline;
        let history = timeline.history;
        self.versions.clear();
        self.waiting.clear();
        self.looks_ahead = false;
        let lists = history.has_lists()
            && events.iter().any(|e| if e.is_version() { e.appends() } else { e.value.is_list() });
        if lists {
            self.start_list(key);
        }
        let si = timeline.rule.mode == Mode::Si;
        let waits = |place: u32, bound: u32| {
            let tied = if si { timeline.is_later_tied(place) } else { timeline.is_tied(place) };
            bound > place + 1 || timeline.sets || tied
        };
        for &event in events {
            let place = event.place();
            let bound = timeline.bound[place as usize];
            if event.is_version() {
                if si && !timeline.sets {
                    self.conflicts(key, place, bound, found);
                }
                self.looks_ahead |= bound > place + 1;
                self.versions.push(event);
                if lists {
                    self.grow_list(key, event);
                }
            } else if waits(place, bound) {
                self.waiting.push(event);
            } else {
                let mut seen = self.versions.len();
                while seen > 0 && self.versions[seen - 1].place() >= bound {
                    seen -= 1;
                }
                let matched = match lists {
                    false => self.register(key, event, seen),
                    true => self.list(key, event, seen),
                };
                self.note(key, event, matched, seen.checked_sub(1), found);
            }
        }
        if !self.waiting.is_empty() || timeline.sets {
            let waiting = std::mem::take(&mut self.waiting);
            self.careful(key, &waiting, lists, found);
            self.waiting = waiting;
        }
    }

    /// Takes these versions of a key for all there are. Whether it is a key with lists.
    pub fn load(&mut self, key: KeyId, versions: &[Event]) -> bool {
        self.versions.clear();
        self.versions.extend_from_slice(versions);
        if self.timeline.history.has_lists() {
            self.start_list(key);
            versions.iter().for_each(|&version| self.grow_list(key, version));
        }
        versions.iter().any(|version| version.appends())
    }

    /// Writes down what a read turned out to be. `expected` is the version it should have returned.
    #[inline]
    pub fn note(
        &self,
        key: KeyId,
        read: Event,
        matched: Match,
        expected: Option<usize>,
        found: &mut Findings,
    ) {
        let (axiom, class) = match matched {
            Match::Right => return,
            Match::Unjudged => {
                found.unjudged += 1;
                return;
            }
            Match::GaveUp => {
                found.unmatched += 1;
                return;
            }
            Match::Tied => (Axiom::Tie, None),
            Match::Wrong(class) => (Axiom::Ext, class),
        };
        let t = self.txn(read);
        let violation = Violation {
            key: Some(key),
            other: expected.map(|i| self.txn(self.versions[i])),
            read: Some(read.op().0 - self.timeline.history.op_range(t).start as u32),
            class,
            ..Violation::of(axiom, t)
        };
        found.add(violation, self.limit);
    }

    pub fn txn(&self, event: Event) -> TxnId {
        self.timeline.txn_of[event.place() as usize]
    }

    /// A register read that sees the first `seen` versions.
    #[inline]
    fn register(&self, key: KeyId, read: Event, seen: usize) -> Match {
        let Some(last) = seen.checked_sub(1) else {
            return self.initial(key, read.value);
        };
        if self.timeline.is_tied(self.versions[last].place()) {
            return self.any_of(read, self.last_ones((self.tie(last)..seen).collect()), None);
        }
        if self.versions[last].value == read.value { Match::Right } else { Match::Wrong(None) }
    }

    /// A read that sees no version. An empty list is right unless the key began as another one.
    pub fn initial(&self, key: KeyId, value: Value) -> Match {
        let seen = self.timeline.history.list(value);
        if self.is_initial(key, value, seen) { Match::Right } else { Match::Wrong(None) }
    }

    /// Whether a value, or this list, is what a key held at first.
    pub fn is_initial(&self, key: KeyId, value: Value, seen: Option<&[Value]>) -> bool {
        let history = self.timeline.history;
        let initial = history.initial().of(key);
        match initial.and_then(|initial| history.list(initial)) {
            Some(list) => seen.map_or(value == Value::NIL && list.is_empty(), |seen| seen == list),
            None => initial == Some(value) || seen.is_some_and(<[Value]>::is_empty),
        }
    }

    /// The first version with the commit of version `last`.
    fn tie(&self, last: usize) -> usize {
        let commit = |i: usize| self.timeline.commit(self.versions[i].place());
        let mut first = last;
        while first > 0 && commit(first - 1) == commit(last) {
            first -= 1;
        }
        first
    }

    /// Of versions with one commit, those that may be the last: of each session the last.
    pub fn last_ones(&self, mut versions: Vec<usize>) -> Vec<usize> {
        let session = |i: usize| self.timeline.session(self.versions[i].place());
        let history = self.timeline.history;
        versions.sort_unstable_by_key(|&i| history.issue(self.txn(self.versions[i])));
        versions.chunk_by(|&a, &b| session(a) == session(b)).filter_map(|own| own.last().copied()).collect()
    }

    /// A read that may return any of these versions, or what was there before them, if that is asked: is it that?
    pub fn any_of(&self, read: Event, candidates: Vec<usize>, before: Option<bool>) -> Match {
        let several = candidates.len() + usize::from(before.is_some()) > 1;
        match before == Some(true) || candidates.iter().any(|&i| self.versions[i].value == read.value) {
            true if several => Match::Tied,
            true => Match::Right,
            false => Match::Wrong(None),
        }
    }

    pub fn start_list(&mut self, key: KeyId) {
        self.elements.clear();
        self.elements.extend_from_slice(self.initial_list(key));
        self.content.clear();
        self.content.push(Content { elements: self.elements.len() as u32, mixed: false, tied: false });
    }

    pub fn initial_list(&self, key: KeyId) -> &'a [Value] {
        let history = self.timeline.history;
        history.initial().of(key).and_then(|value| history.list(value)).unwrap_or_default()
    }

    pub fn grow_list(&mut self, key: KeyId, version: Event) {
        let before = self.content.last().copied().unwrap_or_default();
        let pure = version.is_append();
        if pure {
            let t = self.txn(version);
            self.elements.extend(appended(self.timeline.history, t, key));
        }
        self.content.push(Content {
            elements: self.elements.len() as u32,
            mixed: before.mixed || !pure,
            tied: before.tied || self.timeline.is_tied(version.place()),
        });
    }

    /// A read of a key with lists that sees the first `seen` versions.
    fn list(&self, key: KeyId, read: Event, seen: usize) -> Match {
        if seen == 0 && !read.value.is_list() {
            return self.initial(key, read.value);
        }
        let content = self.content[seen];
        if content.tied && !self.is_plainly(key, read, seen) {
            return self.weigh(key, read, true, &Scope { first: seen, ..Scope::default() });
        }
        if content.mixed {
            return self.written_over(read, vec![seen - 1], None);
        }
        let expected = &self.elements[..content.elements as usize];
        match self.compare(key, read, expected) {
            None => Match::Right,
            Some(class) => Match::Wrong(Some(class)),
        }
    }

    /// Whether a read returned what these versions appended one after the other, and the last of them commits alone.
    fn is_plainly(&self, key: KeyId, read: Event, seen: usize) -> bool {
        let (content, last) = (self.content[seen], seen - 1);
        self.timeline.ties_keep_sessions
            && !content.mixed
            && !self.timeline.is_tied(self.versions[last].place())
            && self.compare(key, read, &self.elements[..content.elements as usize]).is_none()
    }

    /// A read that sees versions of both kinds. If the last ones are written values it should return one of those; a value
    /// that was appended to is anybody's guess.
    pub fn written_over(&self, read: Event, last: Vec<usize>, before: Option<bool>) -> Match {
        match last.iter().any(|&i| self.versions[i].appends()) {
            true => Match::Unjudged,
            false => self.any_of(read, last, before),
        }
    }

    /// What others wrote of a list that was read.
    pub fn foreign(&self, key: KeyId, read: Event) -> Option<&'a [Value]> {
        let history = self.timeline.history;
        let list = history.list(read.value)?;
        let own = own_appends(history, self.txn(read), key, read);
        Some(&list[..list.len() - own.min(list.len())])
    }

    /// How a read differs from the list expected, if it does.
    pub fn compare(&self, key: KeyId, read: Event, expected: &[Value]) -> Option<Class> {
        let Some(rest) = self.foreign(key, read) else { return Some(Class::Mixed) };
        if rest == expected {
            None
        } else if expected.starts_with(rest) {
            Some(Class::Stale)
        } else if rest.starts_with(expected) {
            Some(Class::Future)
        } else {
            Some(Class::Mixed)
        }
    }

    /// Counts the versions so far that the writer at `place` conflicts with, and lists as many as there is room for.
    fn conflicts(&self, key: KeyId, place: u32, bound: u32, found: &mut Findings) {
        if self.timeline.is_later_tied(place) {
            self.later_conflicts(key, place, found);
        }
        match self.versions.last() {
            Some(last) if last.place() >= bound => {}
            _ => return,
        }
        let mut from = self.versions.len() - 1;
        let mut steps = 0;
        while from > 0 && self.versions[from - 1].place() >= bound {
            from -= 1;
            steps += 1;
            if steps == 64 {
                from = self.versions.partition_point(|v| v.place() < bound);
                break;
            }
        }
        let unseen = &self.versions[from..];
        let room = self.limit.saturating_sub(found.count(Axiom::NoConflict) as usize);
        if !self.looks_ahead && unseen.len() > room {
            for &other in &unseen[..room] {
                self.conflict(key, place, other, found);
            }
            found.counts[Axiom::NoConflict as usize] += (unseen.len() - room) as u64;
            return;
        }
        for &other in unseen {
            // Does the earlier one, against all order, see this one?
            if !self.timeline.sees(other.place(), place) {
                self.conflict(key, place, other, found);
            }
        }
    }

    /// The same for versions below the bound that the writer does not see, since its session issued them
    /// later.
    fn later_conflicts(&self, key: KeyId, place: u32, found: &mut Findings) {
        let (timeline, start) = (self.timeline, self.timeline.start(place));
        let from = self.versions[self.before_start(place)..].iter();
        for &other in from.take_while(|v| timeline.commit(v.place()) == start) {
            if timeline.is_later_tie(place, other.place()) && !timeline.sees(other.place(), place) {
                self.conflict(key, place, other, found);
            }
        }
    }

    pub fn conflict(&self, key: KeyId, place: u32, other: Event, found: &mut Findings) {
        let t = self.timeline.txn_of[place as usize];
        let other = Some(self.txn(other));
        let violation = Violation { key: Some(key), other, ..Violation::of(Axiom::NoConflict, t) };
        found.add(violation, self.limit);
    }
}

/// What a transaction appends to a key, in program order.
pub(crate) fn appended(history: &History, t: TxnId, key: KeyId) -> impl Iterator<Item = Value> + '_ {
    let appends =
        move |i: &usize| history.heads()[*i].kind() == OpKind::Append && history.heads()[*i].key() == key;
    history.op_range(t).filter(appends).map(|i| history.values()[i])
}

/// How many elements at the end of an external read are the reader's own.
fn own_appends(history: &History, t: TxnId, key: KeyId, read: Event) -> usize {
    history
        .op_range(t)
        .take_while(|&i| i < read.op().index())
        .filter(|&i| history.heads()[i].kind() == OpKind::Append && history.heads()[i].key() == key)
        .count()
}
