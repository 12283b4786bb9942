//! One key: its versions in order of commit, the reads that should have returned them, and writers that overlap.
//!
//! Events come in order of places. A read at place `p` with bound `b ≤ p + 1` sees the versions so far up to `b`, and those
//! beyond are the ones that committed while its transaction ran: it walks back over them. Reads that see further (their
//! snapshot is a set, or lies after their own commit) wait until all versions are known; see `careful.rs`.
//!
//! Two writers conflict if neither sees the other. For a writer that starts before it commits, those are the versions
//! between its bound and its place, so they are counted without being visited.

use super::Findings;
use super::events::Event;
use super::timeline::Timeline;
use anomalist_history::{History, KeyId, OpKind, TxnId, Value};
use anomalist_timestamp::{Axiom, Class, Mode, Violation, list};

/// Checks keys one after another; keeps its buffers.
pub(crate) struct Checker<'a> {
    pub timeline: &'a Timeline<'a>,
    limit: usize,
    pub versions: Vec<Event>,
    /// For keys with lists, by number of versions: elements so far, and versions so far that are more than appends.
    pub content: Vec<(u32, u32)>,
    /// All elements appended, in order; the initial ones first.
    pub elements: Vec<Value>,
    /// Reads that see more than what committed before them.
    waiting: Vec<Event>,
    /// Some writer on this key may see what commits after it.
    pub looks_ahead: bool,
}

/// How a read compares with what it should have returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    Right,
    /// Right, and several versions share the commit.
    Tied,
    Unjudged,
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
            } else if bound > place + 1 || timeline.sets {
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

    fn txn(&self, event: Event) -> TxnId {
        self.timeline.txn_of[event.place() as usize]
    }

    /// A register read that sees the first `seen` versions.
    #[inline]
    fn register(&self, key: KeyId, read: Event, seen: usize) -> Match {
        let Some(last) = seen.checked_sub(1) else {
            return self.initial(key, read.value);
        };
        if self.timeline.is_tied(self.versions[last].place()) {
            return self.any_of(read, self.tie(last)..seen);
        }
        if self.versions[last].value == read.value { Match::Right } else { Match::Wrong(None) }
    }

    /// A read that sees no version. An empty list is right unless the key began as another one.
    pub fn initial(&self, key: KeyId, value: Value) -> Match {
        let history = self.timeline.history;
        let initial = history.initial().of(key);
        let right = match initial.and_then(|initial| history.list(initial)) {
            Some(list) => {
                history.list(value).map_or(value == Value::NIL && list.is_empty(), |seen| seen == list)
            }
            None => initial == Some(value) || history.list(value).is_some_and(<[Value]>::is_empty),
        };
        if right { Match::Right } else { Match::Wrong(None) }
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

    /// A register read that may return any of these versions.
    pub fn any_of(&self, read: Event, mut candidates: impl ExactSizeIterator<Item = usize>) -> Match {
        let several = candidates.len() > 1;
        match candidates.any(|i| self.versions[i].value == read.value) {
            true if several => Match::Tied,
            true => Match::Right,
            false => Match::Wrong(None),
        }
    }

    fn start_list(&mut self, key: KeyId) {
        self.elements.clear();
        self.elements.extend_from_slice(self.initial_list(key));
        self.content.clear();
        self.content.push((self.elements.len() as u32, 0));
    }

    fn initial_list(&self, key: KeyId) -> &'a [Value] {
        let history = self.timeline.history;
        history.initial().of(key).and_then(|value| history.list(value)).unwrap_or_default()
    }

    fn grow_list(&mut self, key: KeyId, version: Event) {
        let (_, others) = self.content.last().copied().unwrap_or_default();
        let pure = version.is_append();
        if pure {
            let t = self.txn(version);
            self.elements.extend(appended(self.timeline.history, t, key));
        }
        self.content.push((self.elements.len() as u32, others + u32::from(!pure)));
    }

    /// A read of a key with lists that sees the first `seen` versions.
    pub fn list(&self, key: KeyId, read: Event, seen: usize) -> Match {
        if seen == 0 && !read.value.is_list() {
            return self.initial(key, read.value);
        }
        let tie =
            seen.checked_sub(1).map_or(0, |last| match self.timeline.is_tied(self.versions[last].place()) {
                true => self.tie(last),
                false => last,
            });
        let (elements, others) = self.content[seen];
        if others > 0 {
            return self.written_over(read, tie..seen);
        }
        let expected = &self.elements[..elements as usize];
        let any_order = |rest: &[Value]| {
            let all: Vec<usize> = (0..seen).collect();
            all.iter().any(|&i| self.timeline.is_tied(self.versions[i].place()))
                && self.is_any_order(key, rest, &all)
        };
        match self.compare(key, read, expected, any_order) {
            Match::Right if seen - tie > 1 => Match::Tied,
            matched => matched,
        }
    }

    /// A read that sees versions of both kinds. If the last ones are written values it should return one of those; a value
    /// that was appended to is anybody's guess.
    pub fn written_over(&self, read: Event, last: impl ExactSizeIterator<Item = usize> + Clone) -> Match {
        match last.clone().any(|i| self.versions[i].appends()) {
            true => Match::Unjudged,
            false => self.any_of(read, last),
        }
    }

    /// Whether `rest` is the initial list and what these versions appended, those of one commit in any order.
    pub fn is_any_order(&self, key: KeyId, rest: &[Value], versions: &[usize]) -> bool {
        let Some(rest) = rest.strip_prefix(self.initial_list(key)) else { return false };
        let blocks: Vec<(anomalist_history::Timestamp, Vec<Value>)> = versions
            .iter()
            .map(|&i| self.versions[i])
            .map(|v| {
                let block = appended(self.timeline.history, self.txn(v), key).collect();
                (self.timeline.commit(v.place()), block)
            })
            .collect();
        list::is_concatenation(blocks.iter().map(|(commit, block)| (*commit, block.as_slice())), rest)
    }

    /// Compares a read with the list expected; `otherwise` has the last word.
    pub fn compare(
        &self,
        key: KeyId,
        read: Event,
        expected: &[Value],
        otherwise: impl Fn(&[Value]) -> bool,
    ) -> Match {
        let history = self.timeline.history;
        let Some(list) = history.list(read.value) else { return Match::Wrong(None) };
        let own = own_appends(history, self.txn(read), key, read);
        let rest = &list[..list.len() - own.min(list.len())];
        if rest == expected || otherwise(rest) {
            return Match::Right;
        }
        Match::Wrong(Some(if expected.starts_with(rest) {
            Class::Stale
        } else if rest.starts_with(expected) {
            Class::Future
        } else {
            Class::Mixed
        }))
    }

    /// Counts the versions so far that the writer at `place` conflicts with, and lists as many as there is room for.
    fn conflicts(&self, key: KeyId, place: u32, bound: u32, found: &mut Findings) {
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
            if self.timeline.bound[other.place() as usize] <= place {
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
fn appended(history: &History, t: TxnId, key: KeyId) -> impl Iterator<Item = Value> + '_ {
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
