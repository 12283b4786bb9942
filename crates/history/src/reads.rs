//! Judges reads transaction by transaction: own writes first, then the fate of the writer (Plume's TAP-a to
//! TAP-f).
//!
//! A read after an own write of the key must return the latest such write. Any other read is external: it
//! must return the final write of a committed transaction, or the initial value. A list is external also
//! after own appends: below those, which must be its tail, it shows what others had appended.

use crate::by_value::Table;
use crate::ids::{KeyId, OpId, TxnId};
use crate::index::{FaultKind, PackedSource, ReadFault};
use crate::lists::Appends;
use crate::model::History;
use crate::operation::{Op, OpHead, OpKind};
use crate::resolve::{Resolved, Seen, in_parallel};
use crate::value::{Value, begins_with};
use rustc_hash::FxHashMap;
use std::hint::select_unpredictable as select;
use std::ops::Range;

/// Replaces, in `resolved.source`, what each read saw by the transaction it is an external read from, or a
/// special source. Returns the faulty reads and the number of ambiguous ones.
pub(crate) fn classify(
    history: &History,
    resolved: &mut Resolved,
    committed: &[bool],
    threads: usize,
) -> (Vec<ReadFault>, usize) {
    let mut source = match &resolved.table {
        Some(_) => vec![PackedSource::NOT_JUDGED.0; history.op_count()],
        None => std::mem::take(&mut resolved.source),
    };
    let shared = Shared {
        history,
        table: resolved.table.as_ref(),
        appends: &resolved.appends,
        committed,
        all_committed: committed.iter().all(|&committed| committed),
    };
    let parts =
        in_parallel(&history.op_start, threads, &mut source, |txns, mine| shared.classify(txns, mine));
    resolved.source = source;
    let mut faults = Vec::new();
    let mut ambiguous = 0;
    for (part, count) in parts {
        faults.extend(part);
        ambiguous += count;
    }
    (faults, ambiguous)
}

struct Shared<'a> {
    history: &'a History,
    table: Option<&'a Table>,
    appends: &'a Appends,
    committed: &'a [bool],
    /// Every transaction is.
    all_committed: bool,
}

/// Which keys a transaction has written, at a glance: a table small enough to stay in the cache, in which
/// two keys may share a place.
pub(crate) struct MaybeWritten(Vec<u32>);

impl MaybeWritten {
    const PLACES: usize = 1 << 12;

    pub fn new() -> MaybeWritten {
        MaybeWritten(vec![0; Self::PLACES])
    }

    /// Notes an operation of `t`; true if `t` may have written its key before.
    #[inline]
    pub fn follow(&mut self, t: TxnId, head: OpHead) -> bool {
        let place = &mut self.0[head.key().index() % Self::PLACES];
        let is_own = *place == t.0 + 1;
        *place = select(head.is_read(), *place, t.0 + 1);
        is_own
    }
}

/// Per key, one more than the transaction that wrote it last, and the write.
struct OwnWrites(Vec<(u32, u32)>);

impl OwnWrites {
    /// True if `t` writes the key anywhere.
    #[inline]
    fn is_noted(&self, t: TxnId, key: KeyId) -> bool {
        self.0[key.index()].0 == t.0 + 1
    }

    /// The write of the key that was noted last, if it comes before an operation of `t`.
    fn last_before(&self, t: TxnId, key: KeyId, op: u32) -> Option<OpId> {
        let (_, write) = self.0[key.index()];
        (self.is_noted(t, key) && write < op).then_some(OpId(write))
    }

    #[inline]
    fn note(&mut self, t: TxnId, key: KeyId, write: u32) {
        self.0[key.index()] = (t.0 + 1, write);
    }
}

/// The reads and the writes of a transaction, picked out without a branch: which is which no processor
/// foresees.
#[derive(Default)]
struct Picked {
    reads: Vec<u32>,
    writes: Vec<u32>,
}

impl Picked {
    fn pick(&mut self, history: &History, t: TxnId) -> (&[u32], &[u32]) {
        let range = history.op_range(t);
        if self.reads.len() <= range.len() {
            self.reads.resize(range.len() + 1, 0);
            self.writes.resize(range.len() + 1, 0);
        }
        let (mut reads, mut writes) = (0, 0);
        for i in range {
            let is_read = history.heads()[i].is_read();
            self.reads[reads] = i as u32;
            self.writes[writes] = i as u32;
            reads += usize::from(is_read);
            writes += usize::from(!is_read);
        }
        (&self.reads[..reads], &self.writes[..writes])
    }
}

impl<'a> Shared<'a> {
    fn classify(&self, txns: Range<usize>, source: &mut [u32]) -> (Vec<ReadFault>, usize) {
        let mut slow = Slow {
            shared: self,
            own: OwnWrites(Vec::new()),
            picked: Picked::default(),
            by_key: Vec::new(),
            sound: SoundLists::default(),
            faults: Vec::new(),
            ambiguous: 0,
        };
        let mut written = MaybeWritten::new();
        let base = self.history.op_start[txns.start];
        let mut one = |t: TxnId| {
            let range = self.history.op_range(t);
            let mine = &mut source[range.start - base as usize..range.end - base as usize];
            if let Some(table) = self.table {
                table.sources(self.history, range, mine);
            }
            if !self.is_plain(t, mine, &mut written) {
                slow.classify(t, mine);
            }
        };
        match self.table {
            Some(table) => table.order.iter().filter(|t| txns.contains(&t.index())).for_each(|&t| one(t)),
            None => txns.map(|t| TxnId(t as u32)).for_each(one),
        }
        (slow.faults, slow.ambiguous)
    }

    /// True if every read of `t` is of a key that `t` has not written before, and shows the final write of
    /// another committed transaction or the initial state: then its sources are right as they are. Nearly
    /// every transaction of a register history is so, and this loop decides it without a branch. False is
    /// no verdict.
    #[inline]
    fn is_plain(&self, t: TxnId, source: &[u32], written: &mut MaybeWritten) -> bool {
        if self.history.has_lists() || !self.committed[t.index()] {
            return false;
        }
        let heads = &self.history.heads()[self.history.op_range(t)];
        let mut plain = true;
        for (&head, &source) in heads.iter().zip(source) {
            let is_other = source < Seen::NOT_FINAL && source != t.0;
            let is_other = is_other && (self.all_committed || self.committed[source as usize]);
            let is_initial = source == PackedSource::INITIAL.0;
            plain &= is_other | is_initial | (source == PackedSource::NOT_JUDGED.0);
            plain &= !(written.follow(t, head) & head.is_read());
        }
        plain
    }
}

/// Judges the reads of transactions one by one, with everything that can be wrong with them.
struct Slow<'s, 'a> {
    shared: &'s Shared<'a>,
    own: OwnWrites,
    picked: Picked,
    /// The writes of the transaction by key, for lists.
    by_key: Vec<(KeyId, u32)>,
    sound: SoundLists<'a>,
    faults: Vec<ReadFault>,
    ambiguous: usize,
}

impl Slow<'_, '_> {
    /// Judges a transaction, of whose operations `source` is the part.
    fn classify(&mut self, t: TxnId, source: &mut [u32]) {
        let history = self.shared.history;
        let base = history.op_start[t.index()];
        let key = |i: u32| history.heads()[i as usize].key();
        let (reads, writes) = self.picked.pick(history, t);
        if !self.shared.committed[t.index()] {
            for &i in reads {
                source[(i - base) as usize] = PackedSource::NOT_JUDGED.0;
            }
            return;
        }
        self.own.0.resize(history.key_count(), (0, 0));
        // Going backwards leaves the first write of each key.
        for &i in writes.iter().rev() {
            self.own.note(t, key(i), i);
        }
        if history.has_lists() {
            self.by_key.clear();
            self.by_key.extend(writes.iter().map(|&i| (key(i), i)));
            self.by_key.sort_unstable();
        }
        let reads_own = reads.iter().fold(false, |any, &i| any | self.own.is_noted(t, key(i)));
        let mut writes = writes.iter().copied().peekable();
        for &i in reads {
            let (read, slot) = (OpId(i), &mut source[(i - base) as usize]);
            let mut last = None;
            if reads_own {
                while let Some(write) = writes.next_if(|&write| write < i) {
                    self.own.note(t, key(write), write);
                }
                last = self.own.last_before(t, key(i), i);
            }
            if *slot == PackedSource::NOT_JUDGED.0 {
                continue;
            }
            match self.shared.judge(t, read, last, *slot, &self.by_key, &mut self.sound) {
                Judged::Source(s) => *slot = s.0,
                Judged::Fault(kind, other) => {
                    *slot = PackedSource::FAULT.0;
                    self.faults.push(ReadFault { op: read, kind, other });
                }
                Judged::Intermediate(from, write) => {
                    *slot = from.0;
                    self.faults.push(ReadFault { op: read, kind: FaultKind::Intermediate, other: write });
                }
            }
            self.ambiguous += usize::from(*slot == PackedSource::AMBIGUOUS.0);
        }
    }
}

impl<'a> Shared<'a> {
    fn judge(
        &self,
        t: TxnId,
        read: OpId,
        own: Option<OpId>,
        source: u32,
        writes: &[(KeyId, u32)],
        sound: &mut SoundLists<'a>,
    ) -> Judged {
        let value = self.history.values()[read.index()];
        if self.history.list(value).is_some() {
            if let Some(judged) = self.judge_elements(t, read, own, writes, sound) {
                return judged;
            }
        } else if let Some(own) = own
            && self.history.values()[own.index()] == value
        {
            return Judged::Source(PackedSource::OWN);
        }
        match PackedSource(source) {
            PackedSource::FAULT => return Judged::Fault(FaultKind::ThinAir, None),
            PackedSource::INITIAL if own.is_some() => return Judged::Fault(FaultKind::NotMyOwnWrite, None),
            special @ (PackedSource::INITIAL | PackedSource::AMBIGUOUS) => {
                // With an own write before it, an ambiguous read of a foreign value is wrong regardless of
                // which transaction wrote it.
                return match own {
                    Some(_) => Judged::Fault(FaultKind::NotMyOwnWrite, None),
                    None => Judged::Source(special),
                };
            }
            _ => {}
        }
        let Some(seen) = Seen::unpack(source) else { return Judged::Source(PackedSource::NOT_JUDGED) };
        let writer = seen.txn();
        let committed = self.committed[writer.index()];
        if writer != t && committed && own.is_none() && seen.is_final() {
            return Judged::Source(PackedSource(writer.0));
        }
        let write = self.write_seen(writer, read);
        let kind = if writer == t {
            if write.is_some_and(|w| w > read) { FaultKind::Future } else { FaultKind::NotMyLastWrite }
        } else if !committed {
            FaultKind::Aborted
        } else if own.is_some() {
            FaultKind::NotMyOwnWrite
        } else {
            return Judged::Intermediate(writer, write);
        };
        Judged::Fault(kind, write)
    }

    /// The write behind a faulty read. If a transaction wrote the value several times, the latest that
    /// explains it: before the read if it is the reader's own.
    fn write_seen(&self, writer: TxnId, read: OpId) -> Option<OpId> {
        let Op { key, value, .. } = self.history.op(read);
        let value = self.history.list(value).map_or(Some(value), |elements| elements.last().copied())?;
        let mut writes = self
            .history
            .ops(writer)
            .filter(|(_, o)| o.kind != OpKind::Read && o.key == key && o.value == value);
        let first = writes.next()?.0;
        Some(
            writes
                .map(|(op, _)| op)
                .take_while(|&op| op < read || writer != self.history.txn_of(read))
                .last()
                .unwrap_or(first),
        )
    }

    /// A list read shows more than its last element: each element must have been appended by a transaction
    /// whose appends may be seen, as often as it is shown, and the reader's own earlier appends must be its
    /// tail. `None`: nothing special.
    fn judge_elements(
        &self,
        t: TxnId,
        read: OpId,
        own: Option<OpId>,
        writes: &[(KeyId, u32)],
        sound: &mut SoundLists<'a>,
    ) -> Option<Judged> {
        let key = self.history.heads()[read.index()].key();
        let writes = of_key(writes, key);
        let elements = self.history.list(self.history.values()[read.index()])?;
        let appends = self.appends;
        // What of the list is known to be sound, and what has to be looked at.
        let longest = sound.get(&key).copied().unwrap_or_default();
        let known = match begins_with(longest, elements) {
            true => elements.len(),
            false if begins_with(elements, longest) => longest.len(),
            false => 0,
        };
        if let Some(fault) = self.fault_of_elements(t, read, writes, elements, known) {
            return Some(fault);
        }
        let repeated = elements[known..].iter().any(|&e| self.appends.is_repeated(key, e));
        if elements.len() > longest.len() && !repeated {
            sound.insert(key, elements);
        }
        let open = Judged::Source(PackedSource::AMBIGUOUS);
        if own.is_none() {
            return repeated.then_some(open);
        }
        let earlier = writes.iter().take_while(|w| w.1 < read.0);
        let mine: Vec<Value> = earlier.map(|w| self.history.values()[w.1 as usize]).collect();
        if let Some(others) = elements.strip_suffix(mine.as_slice()) {
            let repeated = repeated && others.iter().any(|&e| self.appends.is_repeated(key, e));
            return Some(if repeated { open } else { self.judge_others(key, others) });
        }
        // With an element in it that was appended twice, whose appends a list shows is open.
        let last = elements.last().filter(|_| !repeated).and_then(|&e| appends.of(key, e)).map(|a| a.op);
        let older = elements.last().is_some_and(|e| mine.contains(e)) && elements.last() != mine.last();
        Some(match older {
            true => Judged::Fault(FaultKind::NotMyLastWrite, last),
            false => Judged::Fault(FaultKind::NotMyOwnWrite, last),
        })
    }

    /// The source of a list read without the reader's own appends.
    fn judge_others(&self, key: KeyId, others: &[Value]) -> Judged {
        let Some(&last) = others.last() else { return Judged::Source(PackedSource::INITIAL) };
        let Some(append) = self.appends.of(key, last) else {
            return Judged::Fault(FaultKind::ThinAir, None);
        };
        match append.replaced {
            true => Judged::Intermediate(append.txn, Some(append.op)),
            false => Judged::Source(PackedSource(append.txn.0)),
        }
    }

    /// The reader's own append after the read, if the list already shows it.
    fn later_append_shown(&self, read: OpId, writes: &[(KeyId, u32)], elements: &[Value]) -> Option<OpId> {
        let op = |&(_, write): &(KeyId, u32)| (OpId(write), self.history.op(OpId(write)));
        let (before, after) = writes.split_at(writes.partition_point(|w| w.1 < read.0));
        let later = after.iter().map(op).filter(|(_, o)| o.kind == OpKind::Append);
        let mut shown = later.filter(|(_, o)| elements.contains(&o.value));
        // Neither another's append of the element nor an earlier one of its own may be what is shown.
        let first = |later: &Op| {
            !self.appends.is_repeated(later.key, later.value)
                && !before.iter().map(op).any(|(_, o)| o == *later)
        };
        shown.find(|(_, o)| first(o)).map(|(op, _)| op)
    }

    /// Looks up every element beyond the first `known`. Of several things wrong with a list the worst is
    /// reported, whatever its place.
    fn fault_of_elements(
        &self,
        t: TxnId,
        read: OpId,
        writes: &[(KeyId, u32)],
        elements: &[Value],
        known: usize,
    ) -> Option<Judged> {
        let key = self.history.heads()[read.index()].key();
        let mut worst: Option<(FaultKind, Option<OpId>)> = None;
        for &e in &elements[known..] {
            let Some(fault) = self.fault_of_element(t, read, key, e) else { continue };
            if worst.is_none_or(|(kind, _)| fault.0 < kind) {
                worst = Some(fault);
            }
        }
        if let Some((kind, other)) = worst {
            return Some(Judged::Fault(kind, other));
        }
        if let Some(later) = self.later_append_shown(read, writes, &elements[..known]) {
            return Some(Judged::Fault(FaultKind::Future, Some(later)));
        }
        let duplicate = has_duplicate(elements, known) && self.shows_too_often(read, elements);
        duplicate.then_some(Judged::Fault(FaultKind::DuplicateElement, None))
    }

    /// True if the list shows some element more often than it can have been appended: by other transactions
    /// that did not abort, and by the reader before the read.
    fn shows_too_often(&self, read: OpId, elements: &[Value]) -> bool {
        let (t, key) = (self.history.txn_of(read), self.history.heads()[read.index()].key());
        let mut shown: FxHashMap<Value, usize> = FxHashMap::default();
        elements.iter().for_each(|&e| *shown.entry(e).or_default() += 1);
        let visible = |a: &&OpId| self.history.txn_of(**a) != t || **a < read;
        let appended = |e: Value| self.appends.all_of(key, e).iter().filter(visible).count().max(1);
        shown.into_iter().any(|(e, count)| count > 1 && count > appended(e))
    }

    /// What is wrong with an element, regardless of other appends of it.
    fn fault_of_element(
        &self,
        t: TxnId,
        read: OpId,
        key: KeyId,
        element: Value,
    ) -> Option<(FaultKind, Option<OpId>)> {
        let Some(append) = self.appends.of(key, element) else { return Some((FaultKind::ThinAir, None)) };
        let all = self.appends.all_of(key, element);
        if all.iter().any(|&a| self.history.txn_of(a) != t || a < read) {
            // Of several appends of the element another may be the one that is shown.
            return None;
        }
        if append.txn == t {
            return (append.op > read).then_some((FaultKind::Future, Some(append.op)));
        }
        (!self.committed[append.txn.index()]).then_some((FaultKind::Aborted, Some(append.op)))
    }
}

/// A transaction's writes of a key, of all in order of keys: looking through all its operations at every
/// read would be quadratic.
fn of_key(writes: &[(KeyId, u32)], key: KeyId) -> &[(KeyId, u32)] {
    let start = writes.partition_point(|w| w.0 < key);
    let length = writes[start..].partition_point(|w| w.0 == key);
    &writes[start..start + length]
}

/// Per key, the longest list seen whose elements committed transactions appended, one each, none twice.
/// Nearly every read is a prefix of it, and comparing is much cheaper than looking each element up.
type SoundLists<'a> = FxHashMap<KeyId, &'a [Value]>;

enum Judged {
    Source(PackedSource),
    Fault(FaultKind, Option<OpId>),
    Intermediate(TxnId, Option<OpId>),
}

/// Does an element beyond the first `known`, which are distinct, occur before?
fn has_duplicate(elements: &[Value], known: usize) -> bool {
    if elements.len() - known <= 16 {
        return (known..elements.len()).any(|i| elements[..i].contains(&elements[i]));
    }
    let mut seen = rustc_hash::FxHashSet::default();
    !elements.iter().all(|e| seen.insert(*e))
}
