//! What follows when a transaction counts: from whom it read, and where its versions stand.
//!
//! Lists: a read shows the order of all appends up to the one it saw. Reads must be beginnings of one
//! another; the longest is the order so far. Appends that it does not show come after it: behind a *gap*,
//! a node that stands for "after the last version shown, and after those who read that one", so that many
//! readers and many unseen appends cost their sum, not their product. Registers: who read a version and
//! wrote the key installed the next version; two such writers lost an update, and a second writer that
//! read nothing leaves the order open. A transaction that read the end of a list and appended to it is
//! likewise next (its *head*), at the levels that forbid lost updates.
//!
//! All of these hold in every execution that explains the recording (Adya 1999, section 3; Alvaro &
//! Kingsbury 2020, sections 4.2 and 5), so the facts only ever grow. Cost: the operations of the step,
//! one fact for each pair of a read version's readers and its overwriter, and, when a read extends a
//! list, the appends it leaves unseen.

use crate::draft::{Draft, Seen};
use crate::fact::{Fact, Node};
use crate::versions::{Kind, VersionId, Writer};
use crate::world::{Read, Txn, Unsupported, World};
use anomalist_history::{FaultKind, KeyId, Value};

impl World {
    /// Takes in a transaction that counts as committed.
    pub(crate) fn count(&mut self, draft: Draft) -> Node {
        let mut writes: Vec<KeyId> = draft.writes.iter().map(|w| w.0).collect();
        writes.sort_unstable();
        writes.dedup();
        let txn = Txn { step: Some(draft.step), session: draft.session, reads: Vec::new(), writes };
        let node = self.node(txn);
        let ends = draft.held.is_none();
        self.facts.push(Fact::Counts { node, interval: draft.interval, ends });
        self.facts.extend(draft.before.map(|from| Fact::Session { from, to: node }));
        for &(kind, key) in &draft.faults {
            self.facts.push(Fact::Fault { node, kind, key });
        }
        let written = self.write(node, &draft);
        for read in draft.reads {
            let key = read.key;
            let version = match read.seen {
                Seen::Value(value) => Some(self.version_read(key, value)),
                Seen::Elements(elements) => self.show(node, key, &elements, &written),
            };
            if let Some(version) = version {
                self.read(node, version, &written);
                self.txns[node as usize].reads.push(Read { key, version, own: read.own });
            }
        }
        self.install(node, &written);
        self.facts.push(Fact::Resolved { node });
        node
    }

    /// Makes a transaction the writer of its versions. The versions, in program order.
    fn write(&mut self, node: Node, draft: &Draft) -> Vec<(KeyId, VersionId)> {
        let mut written: Vec<(KeyId, VersionId)> = Vec::new();
        for &(key, value) in &draft.writes {
            let known = self.by_value.get(&(key, value)).copied();
            let version = known.unwrap_or_else(|| self.create(key, value, Writer::Aborted));
            let found = &self.versions[version as usize];
            let free = match found.writer {
                Writer::Pending => true,
                Writer::Aborted => found.shown_by.is_none(),
                Writer::Held(held) => draft.held == Some(held),
                Writer::Initial | Writer::Node(_) => false,
            };
            if !free {
                self.unsupported.get_or_insert(Unsupported::Repeated(key));
                continue;
            }
            self.pending -= usize::from(found.writer == Writer::Pending);
            self.versions[version as usize].writer = Writer::Node(node);
            let earlier = written.iter().rev().find(|w| w.0 == key).map(|w| w.1);
            if let Some(earlier) = earlier {
                self.versions[earlier as usize].is_final = false;
            }
            self.versions[version as usize].after_own = earlier;
            written.push((key, version));
        }
        for &(key, version) in &written {
            self.connect(node, key, version);
        }
        written
    }

    /// What follows about a version that was known before its writer arrived.
    fn connect(&mut self, node: Node, key: KeyId, version: VersionId) {
        let World { versions, keys, facts, .. } = self;
        let Some(state) = keys.get(&key) else { return };
        let shown = state.kind == Kind::List;
        let new = &versions[version as usize];
        for &reader in &new.readers {
            facts.push(Fact::Read { from: node, to: reader, key });
            if !new.is_final {
                facts.push(Fact::Fault { node: reader, kind: FaultKind::Intermediate, key });
            }
            facts.push(Fact::Resolved { node: reader });
        }
        if let Some(previous) = new.previous.map(|p| &versions[p as usize]) {
            facts.extend(previous.node().map(|from| Fact::Version { from, to: node, key, shown }));
            let readers = previous.readers.iter().filter(|&&r| r != node);
            facts.extend(readers.map(|&from| Fact::Overwritten { from, to: node, key }));
        }
        let next = new.next.and_then(|next| versions[next as usize].node());
        facts.extend(next.map(|to| Fact::Version { from: node, to, key, shown }));
        if shown && state.tail() == version {
            let behind = state.gap.into_iter().chain(state.head);
            facts.extend(behind.map(|to| Fact::Version { from: node, to, key, shown: true }));
        }
        let place = |v: VersionId| versions[v as usize].place;
        if new.place.is_some()
            && new.after_own.is_some_and(|own| place(own).is_none() || place(own) > new.place)
        {
            let node = new.shown_by.unwrap_or(node);
            facts.push(Fact::Fault { node, kind: FaultKind::IncompatibleOrder, key });
        }
    }

    fn version_read(&mut self, key: KeyId, value: Value) -> VersionId {
        let known = self.by_value.get(&(key, value)).copied();
        known.unwrap_or_else(|| self.create(key, value, Writer::Pending))
    }

    /// Notes what a list shows of others' appends; the version that was read.
    fn show(
        &mut self,
        node: Node,
        key: KeyId,
        elements: &[Value],
        written: &[(KeyId, VersionId)],
    ) -> Option<VersionId> {
        let state = self.keys.get(&key)?;
        let (initial, known) = (state.initial, state.elements.len());
        let common = known.min(elements.len());
        if state.elements[..common] != elements[..common] {
            self.facts.push(Fact::Fault { node, kind: FaultKind::IncompatibleOrder, key });
            return None;
        }
        for &element in &elements[common..] {
            if let Err(kind) = self.place(node, key, element) {
                self.facts.push(Fact::Fault { node, kind, key });
                return None;
            }
        }
        if elements.len() > known {
            self.reopen(key);
        }
        let place = |v: VersionId| self.versions[v as usize].place;
        if written.iter().any(|w| w.0 == key && place(w.1).is_some_and(|p| p < elements.len())) {
            self.facts.push(Fact::Fault { node, kind: FaultKind::Future, key });
            return None;
        }
        let last = elements.len().checked_sub(1);
        last.map_or(Some(initial), |last| self.keys.get(&key)?.order.get(last).copied())
    }

    /// Puts an element behind all that lists show.
    fn place(&mut self, node: Node, key: KeyId, element: Value) -> Result<(), FaultKind> {
        let version = self.version_read(key, element);
        let Some(state) = self.keys.get_mut(&key) else { return Ok(()) };
        if self.versions[version as usize].place.is_some() {
            return Err(FaultKind::DuplicateElement);
        }
        let tail = state.tail();
        let new = &mut self.versions[version as usize];
        new.place = Some(state.order.len());
        new.previous = Some(tail);
        new.shown_by.get_or_insert(node);
        let (writer, own) = (new.writer, new.after_own);
        state.order.push(version);
        state.elements.push(element);
        self.versions[tail as usize].next = Some(version);
        match writer {
            Writer::Aborted => return Err(FaultKind::Aborted),
            Writer::Held(held) => self.observed.push(held),
            Writer::Node(to) => {
                let previous = &self.versions[tail as usize];
                let from = previous.node().filter(|&from| from != to);
                self.facts.extend(from.map(|from| Fact::Version { from, to, key, shown: true }));
                let readers = previous.readers.iter().filter(|&&r| r != to);
                self.facts.extend(readers.map(|&from| Fact::Overwritten { from, to, key }));
                if own.is_some_and(|own| self.versions[own as usize].place.is_none()) {
                    return Err(FaultKind::IncompatibleOrder);
                }
            }
            Writer::Pending | Writer::Initial => {}
        }
        Ok(())
    }

    /// The end of a list has moved: what is still unseen is behind a new gap.
    fn reopen(&mut self, key: KeyId) {
        let Some(state) = self.keys.get_mut(&key) else { return };
        (state.gap, state.head) = (None, None);
        state.unplaced.retain(|&v| self.versions[v as usize].place.is_none());
        let mut unseen: Vec<Node> =
            state.unplaced.iter().filter_map(|&v| self.versions[v as usize].node()).collect();
        unseen.dedup();
        for &node in &unseen {
            self.put_behind_gap(key, node);
        }
        self.facts.push(Fact::Unseen { key, node: None });
    }

    fn put_behind_gap(&mut self, key: KeyId, node: Node) {
        let Some(state) = self.keys.get(&key) else { return };
        let gap = match state.gap {
            Some(gap) => gap,
            None => self.open_gap(key),
        };
        self.facts.push(Fact::Version { from: gap, to: node, key, shown: true });
        self.facts.push(Fact::Overwritten { from: gap, to: node, key });
    }

    fn open_gap(&mut self, key: KeyId) -> Node {
        let gap = self.node(Txn { step: None, session: None, reads: Vec::new(), writes: Vec::new() });
        self.facts.push(Fact::Gap { node: gap });
        let Some(state) = self.keys.get_mut(&key) else { return gap };
        state.gap = Some(gap);
        let tail = &self.versions[state.tail() as usize];
        self.facts.extend(tail.node().map(|from| Fact::Version { from, to: gap, key, shown: true }));
        let readers = tail.readers.iter().filter(|&&r| state.head != Some(r));
        self.facts.extend(readers.map(|&from| Fact::Overwritten { from, to: gap, key }));
        self.facts.extend(state.head.map(|from| Fact::Version { from, to: gap, key, shown: false }));
        gap
    }

    /// A transaction reads a version that is not its own.
    fn read(&mut self, node: Node, id: VersionId, written: &[(KeyId, VersionId)]) {
        let version = &mut self.versions[id as usize];
        let key = version.key;
        version.shown_by.get_or_insert(node);
        if version.readers.last() != Some(&node) {
            version.readers.push(node);
        }
        match version.writer {
            Writer::Node(from) if from == node => {
                self.facts.push(Fact::Fault { node, kind: FaultKind::Future, key });
            }
            Writer::Node(from) => {
                self.facts.push(Fact::Read { from, to: node, key });
                if !version.is_final {
                    self.facts.push(Fact::Fault { node, kind: FaultKind::Intermediate, key });
                }
            }
            Writer::Held(held) => self.observed.push(held),
            Writer::Aborted => self.facts.push(Fact::Fault { node, kind: FaultKind::Aborted, key }),
            Writer::Pending | Writer::Initial => {}
        }
        let next = self.versions[id as usize].next.and_then(|next| self.versions[next as usize].node());
        let next = next.filter(|&to| to != node);
        self.facts.extend(next.map(|to| Fact::Overwritten { from: node, to, key }));
        let appends = written.iter().any(|w| w.0 == key);
        let Some(state) = self.keys.get(&key).filter(|s| s.kind == Kind::List && s.tail() == id) else {
            return;
        };
        let behind = state.head.or(state.gap).filter(|_| !appends);
        self.facts.extend(behind.map(|to| Fact::Overwritten { from: node, to, key }));
    }

    /// Says where the versions of a transaction stand, once its reads are known.
    fn install(&mut self, node: Node, written: &[(KeyId, VersionId)]) {
        for &(key, version) in written {
            let Some(state) = self.keys.get(&key) else { continue };
            let new = &self.versions[version as usize];
            match state.kind {
                Kind::Register if new.is_final => self.follow(node, key, version),
                Kind::List if new.place.is_none() => self.append(node, key, version),
                _ => {}
            }
        }
    }

    /// A register's version follows the one that its writer read.
    fn follow(&mut self, node: Node, key: KeyId, version: VersionId) {
        let Some(initial) = self.keys.get(&key).map(|state| state.initial) else { return };
        let read = self.txns[node as usize].reads.iter().rev().find(|r| r.key == key).map(|r| r.version);
        let is_blind = read.is_none();
        let base = read.unwrap_or(initial);
        self.versions[version as usize].is_blind = is_blind;
        if let Some(other) = self.versions[base as usize].next {
            let other = &self.versions[other as usize];
            self.facts.push(match other.node() {
                Some(first) if !is_blind && !other.is_blind => Fact::LostUpdate { nodes: [first, node], key },
                _ => Fact::Open { key },
            });
            return;
        }
        self.versions[base as usize].next = Some(version);
        self.versions[version as usize].previous = Some(base);
        let base = &self.versions[base as usize];
        let from = base.node().filter(|&from| from != node);
        self.facts.extend(from.map(|from| Fact::Version { from, to: node, key, shown: false }));
        let readers = base.readers.iter().filter(|&&r| r != node);
        self.facts.extend(readers.map(|&from| Fact::Overwritten { from, to: node, key }));
    }

    /// An append that no read shows.
    fn append(&mut self, node: Node, key: KeyId, version: VersionId) {
        let Some(state) = self.keys.get_mut(&key) else { return };
        let again = state.unplaced.last().is_some_and(|&v| self.versions[v as usize].node() == Some(node));
        state.unplaced.push(version);
        if again {
            return;
        }
        let tail = state.tail();
        let read_tail = self.txns[node as usize].reads.iter().any(|r| r.version == tail);
        self.facts.push(Fact::Unseen { key, node: Some(node) });
        if !read_tail {
            return self.put_behind_gap(key, node);
        }
        let (head, gap) = (state.head, state.gap);
        state.head = head.or(Some(node));
        let last = &self.versions[tail as usize];
        self.facts.extend(last.node().map(|from| Fact::Version { from, to: node, key, shown: true }));
        match head {
            Some(head) => self.facts.push(Fact::LostUpdate { nodes: [head, node], key }),
            None => {
                let readers = last.readers.iter().filter(|&&r| r != node);
                self.facts.extend(readers.map(|&from| Fact::Overwritten { from, to: node, key }));
                self.facts.extend(gap.map(|to| Fact::Version { from: node, to, key, shown: false }));
            }
        }
    }
}
