//! What Plume's letter (Liu et al. 2024) says differently of reads, and its read committed.
//!
//! - *Which reads count.* Plume's `wr` relates any read to the write whose value it returned, reads after an
//!   own write of the key included (Table 1, d, f and j). Its `WR` between transactions is taken to be the
//!   same relation: Definition 2 says "the first read before an own write", but then Theorem 1 would be
//!   false, and the proofs of Theorems 1 and 3 relate all of them. [`PlumeReads`] adds those reads.
//! - *Read committed*, RC-(4): a writer `t2` of `x` is visible to a read of `x` if an earlier read *of
//!   another key* was from it. Per transaction and writer it is enough to know its first read from the
//!   writer, and the first of a key other than that one's ([`FirstReads`]): O(1) per question.
//!
//! The same three ways as for Biswas & Enea's axiom decide it (`simulate.rs`, `backwards.rs`,
//! `required.rs`), each with its own type here, so that the usual definition pays nothing for it.

use super::backwards::{Sight, Waiting, WaitingRead};
use super::required::{ReadsByKey, Required};
use super::simulate::Visibility;
use crate::view::{CommittedView, EpochMap, ExternalReads, Read};
use anomalist_history::{FaultKind, History, Index, KeyId, OpId, Outcome, ReadFault, TxnId, Value};
use rustc_hash::FxHashSet;

/// Reads as Plume counts them.
pub(crate) struct PlumeReads {
    pub external: ExternalReads,
    /// Reads after an own write that return what another transaction wrote and replaced: TAP-d, and TAP-f
    /// too.
    pub intermediate: Vec<ReadFault>,
    /// Reads after an own write of which it is open whom they are from, because values repeat.
    pub open: usize,
    /// Reads after an own write of others' values.
    pub after_own: usize,
}

impl PlumeReads {
    /// Costs O(1) per faulty read beyond what [`ExternalReads`] costs.
    pub fn new(history: &History, index: &Index) -> PlumeReads {
        let ignored = |f: &&ReadFault| {
            f.kind == FaultKind::NotMyOwnWrite && history.list(history.op(f.op).value).is_none()
        };
        let faults: Vec<ReadFault> = index.faults().iter().filter(ignored).copied().collect();
        let external = ExternalReads::new(history, index);
        if faults.is_empty() {
            return PlumeReads { external, intermediate: Vec::new(), open: 0, after_own: 0 };
        }
        let written = Written::of(history, &faults);
        let read = |f: &ReadFault| {
            let op = history.op(f.op);
            let from = match f.other {
                Some(write) => Some(history.txn_of(write)),
                None if written.is_initial(history, op.key, op.value) => None,
                None => return None,
            };
            Some(Read { op: f.op, key: op.key, from })
        };
        let added: Vec<Read> = faults.iter().filter_map(read).collect();
        let replaced = |f: &&ReadFault| f.other.is_some_and(|write| !is_final(history, write));
        let intermediate =
            faults.iter().filter(replaced).map(|f| ReadFault { kind: FaultKind::Intermediate, ..*f });
        PlumeReads {
            intermediate: intermediate.collect(),
            open: faults.len() - added.len(),
            after_own: faults.len(),
            external: external.with(history, &added),
        }
    }
}

impl PlumeReads {
    /// Values repeat, so that it is open from whom a transaction read after its own writes, or before them.
    pub fn is_open(&self, index: &Index) -> bool {
        self.open > 0 || self.after_own > 0 && index.ambiguous_reads() > 0
    }
}

/// Does its transaction write the key no more after this write?
fn is_final(history: &History, write: OpId) -> bool {
    let key = history.op(write).key;
    let range = history.op_range(history.txn_of(write));
    !history.heads()[write.index() + 1..range.end].iter().any(|head| !head.is_read() && head.key() == key)
}

/// What was written, of the values that are initial values as well.
struct Written(FxHashSet<(KeyId, Value)>);

impl Written {
    fn of(history: &History, faults: &[ReadFault]) -> Written {
        let mut written = FxHashSet::default();
        if faults.iter().any(|f| f.other.is_none()) {
            let took_effect = |t: &TxnId| history.outcome(*t) != Outcome::Aborted;
            for (_, op) in history.txns().filter(took_effect).flat_map(|t| history.ops(t)) {
                if op.kind != anomalist_history::OpKind::Read
                    && history.initial().of(op.key) == Some(op.value)
                {
                    written.insert((op.key, op.value));
                }
            }
        }
        Written(written)
    }

    /// The key had the value from the beginning, and no transaction wrote it.
    fn is_initial(&self, history: &History, key: KeyId, value: Value) -> bool {
        history.initial().of(key) == Some(value) && !self.0.contains(&(key, value))
    }
}

const NONE: u32 = u32::MAX;

/// A transaction's reads from one writer: the first, its key, and the first of any other key.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstReads {
    first: u32,
    key: KeyId,
    other: u32,
}

impl Default for FirstReads {
    fn default() -> FirstReads {
        FirstReads { first: NONE, key: KeyId(NONE), other: NONE }
    }
}

impl FirstReads {
    /// With one more read; they may come in any order.
    fn with(self, op: OpId, key: KeyId) -> FirstReads {
        if key == self.key {
            FirstReads { first: self.first.min(op.0), ..self }
        } else if op.0 < self.first {
            // What was first is now the first of another key.
            FirstReads { first: op.0, key, other: self.first }
        } else {
            FirstReads { other: self.other.min(op.0), ..self }
        }
    }

    /// Did a read of another key come before this one?
    fn precede(self, op: OpId, key: KeyId) -> bool {
        let first = if key == self.key { self.other } else { self.first };
        first < op.0
    }
}

/// The reads of a transaction, by writer.
struct ByWriter(EpochMap<FirstReads>);

impl ByWriter {
    fn note(&mut self, writer: TxnId, op: OpId, key: KeyId) {
        let known = self.0.get(writer.index()).unwrap_or_default();
        self.0.set(writer.index(), known.with(op, key));
    }

    fn precede(&self, writer: TxnId, op: OpId, key: KeyId) -> bool {
        self.0.get(writer.index()).is_some_and(|reads| reads.precede(op, key))
    }
}

/// What the transaction read another key from, before this read.
pub(super) struct SeenByOtherKeys<'a> {
    view: CommittedView<'a>,
    reads: ByWriter,
    current: TxnId,
}

impl<'a> SeenByOtherKeys<'a> {
    pub fn new(view: CommittedView<'a>) -> Self {
        let reads = ByWriter(EpochMap::new(view.txn_count()));
        SeenByOtherKeys { view, reads, current: TxnId(0) }
    }
}

impl Visibility for SeenByOtherKeys<'_> {
    fn enter(&mut self, t: TxnId) {
        self.current = t;
        self.reads.0.next_round();
        for read in self.view.reads(t) {
            if let Some(w) = read.from {
                self.reads.note(w, read.op, read.key);
            }
        }
    }

    fn sees(&self, other: TxnId, read: OpId) -> bool {
        self.reads.precede(other, read, self.view.history.heads()[read.index()].key())
    }

    fn latest_writers(&self, read: Read, f: &mut dyn FnMut(TxnId)) {
        let seen = self.view.reads(self.current).filter(|r| r.op < read.op && r.key != read.key);
        seen.filter_map(|r| r.from).filter(|&w| self.view.index.writes(w, read.key)).for_each(f);
    }

    fn leave(&mut self, _: TxnId) {}
}

/// The same from the end: a transaction is seen by the reads of its keys that follow a read of another key
/// from it.
pub(super) struct OtherKeys<'a> {
    view: CommittedView<'a>,
    /// Whose readers `reads` knows.
    known: Option<TxnId>,
    /// By reader, what it read from that one.
    reads: ByWriter,
}

impl<'a> OtherKeys<'a> {
    pub fn new(view: CommittedView<'a>) -> Self {
        OtherKeys { view, known: None, reads: ByWriter(EpochMap::new(view.txn_count())) }
    }
}

impl Sight for OtherKeys<'_> {
    fn enter(&mut self, _: TxnId, _: &Waiting) {}

    fn is_seen(&mut self, t: TxnId, by: &WaitingRead, waiting: &Waiting) -> bool {
        let key = |op: OpId| self.view.history.heads()[op.index()].key();
        if self.known != Some(t) {
            self.known = Some(t);
            self.reads.0.next_round();
            for read in waiting.from(t) {
                self.reads.note(read.reader, read.op, key(read.op));
            }
        }
        self.reads.precede(by.reader, by.op, key(by.op))
    }
}

/// All constraints of RC-(4) at once: every transaction read from, against the other keys read later.
pub(super) fn read_committed(view: &CommittedView<'_>) -> Required {
    let mut required = Required::default();
    let mut by_key = ReadsByKey::new(view.history.key_count());
    let mut by_writer = ByWriter(EpochMap::new(view.txn_count()));
    let mut writers: Vec<TxnId> = Vec::new();
    for t in view.committed() {
        by_key.clear();
        by_writer.0.next_round();
        writers.clear();
        for read in view.reads(t) {
            by_key.push(read);
            if let Some(w) = read.from {
                if by_writer.0.get(w.index()).is_none() {
                    writers.push(w);
                }
                by_writer.note(w, read.op, read.key);
            }
        }
        for &t2 in &writers {
            by_key.of_keys_written_by(view, t2, |r| {
                if r.from != Some(t2) && by_writer.precede(t2, r.op, r.key) {
                    required.constrain(t2, r.from, r.op);
                }
            });
        }
    }
    required
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_reads_know_every_question_in_any_order() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..2000 {
            let mut reads: Vec<(u32, u32)> = (0..rng.u32(1..6)).map(|op| (op * 2, rng.u32(..3))).collect();
            rng.shuffle(&mut reads);
            let known = reads
                .iter()
                .fold(FirstReads::default(), |known, &(op, key)| known.with(OpId(op), KeyId(key)));
            for (op, key) in (0..12).flat_map(|op| (0..3).map(move |key| (op, key))) {
                let expected = reads.iter().any(|&(r, k)| r < op && k != key);
                assert_eq!(known.precede(OpId(op), KeyId(key)), expected, "{reads:?}, {op} of {key}");
            }
        }
    }
}
