//! One key: its versions in order of commit, the reads that should have returned them, and writers that
//! overlap.
//!
//! Events come in order of places. A read at place `p` with bound `b ≤ p + 1` sees the versions so far up to
//! `b`, and those beyond are the ones that committed while its transaction ran: it walks back over them.
//! Other reads wait until all versions are known: their snapshot is a set, or lies after their own commit,
//! or contains the timestamp at which a later transaction of their session commits, or, under
//! serializability, others commit when they do; see `careful.rs`. Versions with one commit are in any order
//! that keeps sessions.
//!
//! Two writers conflict if neither sees the other. For a writer that starts before it commits, those are the
//! versions between its bound and its place, so they are counted without being visited.

use super::Findings;
use super::careful::Scope;
use super::events::Event;
use super::timeline::Timeline;
use crate::external::{Match, Seen, initial_list, is_initial};
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
        self.content.clear();
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
                if matched != Match::Right {
                    self.note(key, event, matched, &Scope { first: seen, ..Scope::default() }, found);
                }
            }
        }
        if !self.waiting.is_empty() || timeline.sets {
            let waiting = std::mem::take(&mut self.waiting);
            self.careful(key, &waiting, found);
            self.waiting = waiting;
        }
    }

    /// Takes these versions of a key for all there are.
    pub fn load(&mut self, key: KeyId, versions: &[Event]) {
        self.versions.clear();
        self.versions.extend_from_slice(versions);
        self.content.clear();
        if self.timeline.history.has_lists() {
            self.start_list(key);
            versions.iter().for_each(|&version| self.grow_list(key, version));
        }
    }

    /// Writes down what a read with this scope turned out to be.
    pub fn note(&self, key: KeyId, read: Event, matched: Match, scope: &Scope, found: &mut Findings) {
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
            Match::Wrong => (Axiom::Ext, self.class(key, read, scope)),
        };
        let expected = scope.required().next_back();
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
        match seen.checked_sub(1).map(|last| self.versions[last]) {
            None => Match::of(is_initial(self.initial(key), Seen::One(read.value))),
            Some(last) if !self.timeline.is_tied(last.place()) => Match::of(last.value == read.value),
            Some(_) => self.judge(key, read, &Scope { first: seen, ..Scope::default() }),
        }
    }

    /// What a key held at first.
    pub fn initial(&self, key: KeyId) -> Option<Seen<'a, Value>> {
        let history = self.timeline.history;
        history.initial().of(key).map(|value| history.list(value).map_or(Seen::One(value), Seen::List))
    }

    pub fn start_list(&mut self, key: KeyId) {
        self.elements.clear();
        self.elements.extend_from_slice(initial_list(self.initial(key)));
        self.content.clear();
        self.content.push(Content { elements: self.elements.len() as u32, mixed: false, tied: false });
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

    /// A read of a key with lists that sees the first `seen` versions. Where no two of them commit together,
    /// there is one order to compare with.
    fn list(&self, key: KeyId, read: Event, seen: usize) -> Match {
        let content = self.content[seen];
        if let Seen::List(rest) = self.seen(key, read)
            && !content.mixed
        {
            let equal = rest == &self.elements[..content.elements as usize];
            let last_is_tied = || self.timeline.is_tied(self.versions[seen - 1].place());
            if !content.tied || equal && self.timeline.ties_keep_sessions && !last_is_tied() {
                return Match::of(equal);
            }
        }
        self.judge(key, read, &Scope { first: seen, ..Scope::default() })
    }

    /// What a read returned of others' work.
    pub fn seen(&self, key: KeyId, read: Event) -> Seen<'a, Value> {
        let history = self.timeline.history;
        history.list(read.value).map_or(Seen::One(read.value), |list| {
            let own = own_appends(history, self.txn(read), key, read);
            Seen::List(&list[..list.len() - own.min(list.len())])
        })
    }

    /// How a wrong list differs from what it should have been, if all that it sees or may see was appended.
    fn class(&self, key: KeyId, read: Event, scope: &Scope) -> Option<Class> {
        let Seen::List(rest) = self.seen(key, read) else { return None };
        let content = self.content.get(scope.first).filter(|content| !content.mixed)?;
        let mut others = scope.listed.iter().chain(&scope.optional);
        if !others.all(|&i| self.versions[i].is_append()) {
            return None;
        }
        let mut expected = self.elements[..content.elements as usize].to_vec();
        scope.listed.iter().for_each(|&i| expected.extend_from_slice(self.block(i)));
        Some(match () {
            () if rest.len() < expected.len() && expected.starts_with(rest) => Class::Stale,
            () if rest.len() > expected.len() && rest.starts_with(&expected) => Class::Future,
            // Also where the order of a tie is not the one expected.
            () => Class::Mixed,
        })
    }

    /// Counts the versions so far that the writer at `place` conflicts with, and lists as many as there is
    /// room for.
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
            // The earlier one may, against all order, see this one.
            if self.timeline.conflict(place, other.place()) {
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
            if timeline.is_later_tie(place, other.place()) && timeline.conflict(place, other.place()) {
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
