//! Who read from whom: every read resolved to the transaction it read from, and the writers of every key.
//!
//! Built once after loading; four more bytes per operation and four per writer. Three steps:
//! 1. *by value* (`by_value.rs`) or, where values repeat, *by key* (`resolve.rs`, `lists.rs`): pair each
//!    read with the write of the same key and value;
//! 2. *indeterminate transactions*: one counts as committed iff a committed one read something only it
//!    wrote. That is a least fixpoint; leaving the others out is always at least as permissive, so no
//!    violation is invented;
//! 3. *by transaction* (`reads.rs`): own writes, reads that no execution explains ([`ReadFault`]), external
//!    reads.

use crate::ids::{KeyId, OpId, TxnId};
use crate::lists::{self, VersionOrder};
use crate::model::History;
use crate::operation::{OpKind, Outcome};
use crate::value::Value;
use crate::{by_value, reads, resolve};
use rustc_hash::FxHashMap;
use std::num::NonZeroUsize;

/// Where a read got its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Not a read, a read without a recorded result, or a read by a transaction that does not count as
    /// committed.
    NotJudged,
    /// The latest earlier write of the same transaction.
    Own,
    /// The initial state.
    Initial,
    /// Another committed transaction.
    From(TxnId),
    /// No write explains it: see [`Index::faults`].
    Fault,
    /// Several committed (or possibly committed) transactions wrote this value, or one did and the key had
    /// it from the beginning: each of them, and the initial state, may be the source.
    Ambiguous,
}

/// [`Source`] in four bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedSource(pub u32);

impl PackedSource {
    pub const INITIAL: PackedSource = PackedSource(u32::MAX);
    pub const OWN: PackedSource = PackedSource(u32::MAX - 1);
    pub const FAULT: PackedSource = PackedSource(u32::MAX - 2);
    pub const AMBIGUOUS: PackedSource = PackedSource(u32::MAX - 3);
    pub const NOT_JUDGED: PackedSource = PackedSource(u32::MAX - 4);
    /// No transaction wrote the value; what that means is found out next.
    pub const NOT_FOUND: PackedSource = PackedSource(u32::MAX - 5);
    pub const FIRST_SPECIAL: u32 = u32::MAX - 15;

    #[inline]
    pub fn view(self) -> Source {
        match self {
            PackedSource(t) if t < Self::FIRST_SPECIAL => Source::From(TxnId(t)),
            Self::INITIAL => Source::Initial,
            Self::OWN => Source::Own,
            Self::FAULT => Source::Fault,
            Self::AMBIGUOUS => Source::Ambiguous,
            _ => Source::NotJudged,
        }
    }
}

/// A read that its own transaction, or the fate of its writer, makes impossible at read committed and above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadFault {
    /// The read.
    pub op: OpId,
    /// What is wrong with it.
    pub kind: FaultKind,
    /// The write it took its value from, if there is one; for two contradicting reads, the other read.
    pub other: Option<OpId>,
}

/// What is wrong with a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// No transaction wrote the value (an element of the list), and it is not the initial one.
    ThinAir,
    /// Only an aborted transaction wrote it.
    Aborted,
    /// The same transaction wrote it, later.
    Future,
    /// The transaction wrote the key before, but reads another transaction's value.
    NotMyOwnWrite,
    /// The transaction reads its own write, but not its latest.
    NotMyLastWrite,
    /// Another transaction wrote it and overwrote it before committing. (Still a read *from* that
    /// transaction.)
    Intermediate,
    /// The list read shows an element more often than it can have been appended.
    DuplicateElement,
    /// Two reads of one key show its elements in different orders.
    IncompatibleOrder,
}

/// Who read from whom. Built by [`Indexed::new`](crate::Indexed::new).
#[derive(Debug)]
pub struct Index {
    sources: Vec<u32>,
    faults: Vec<ReadFault>,
    committed: Vec<bool>,
    writer_start: Vec<u32>,
    writers: Vec<TxnId>,
    version_orders: Vec<VersionOrder>,
    ambiguous: usize,
    repeats_elements: bool,
}

const OPS_PER_THREAD: usize = 120_000;

impl Index {
    /// Resolves every read. Linear in the size of the history; same result for any number of threads.
    pub(crate) fn build(history: &History, threads: NonZeroUsize) -> Index {
        Index::with(history, threads, Observed::Certainly)
    }

    /// As [`Indexed::new`](crate::Indexed::new), but a transaction of unknown outcome counts as committed
    /// if its writes *may* have been read. The two differ only where reads are ambiguous. Which of these
    /// transactions took effect is then for the checker to find out.
    pub fn build_with_possible(history: &History, threads: NonZeroUsize) -> Index {
        Index::with(history, threads, Observed::Possibly)
    }

    fn with(history: &History, threads: NonZeroUsize, observed: Observed) -> Index {
        // Starting a thread, and memory shared by threads, cost as much as indexing tens of thousands of
        // operations.
        let threads = threads.get().min(1 + history.op_count() / OPS_PER_THREAD);
        let mut resolved =
            by_value::resolve(history, threads).unwrap_or_else(|| resolve::by_key(history, threads));
        let mut committed: Vec<bool> =
            history.txns().map(|t| history.outcome(t) == Outcome::Committed).collect();
        if history.txns().any(|t| history.outcome(t) == Outcome::Indeterminate) {
            commit_observed(history, &resolved, &mut committed, observed);
            resolved.writers.retain_committed(&committed);
        }
        let (mut faults, ambiguous) = reads::classify(history, &mut resolved, &committed, threads);
        let version_orders = lists::version_orders(history, &resolved, &committed, &mut faults);
        faults.sort_by_key(|f| (f.op, f.kind));
        Index {
            sources: resolved.source,
            faults,
            committed,
            writer_start: resolved.writers.start,
            writers: resolved.writers.txns,
            version_orders,
            ambiguous,
            repeats_elements: resolved.appends.any_repeated(),
        }
    }

    /// Where a read got its value.
    #[inline]
    pub fn source(&self, read: OpId) -> Source {
        PackedSource(self.sources[read.index()]).view()
    }

    /// Reads that no execution explains, by operation.
    pub fn faults(&self) -> &[ReadFault] {
        &self.faults
    }

    /// True if the transaction committed, or is indeterminate and a transaction saw its effects.
    #[inline]
    pub fn is_committed(&self, t: TxnId) -> bool {
        self.committed[t.index()]
    }

    /// The committed transactions that write a key, ascending: by session, then in session order.
    #[inline]
    pub fn writers(&self, key: KeyId) -> &[TxnId] {
        &self.writers[self.writer_start[key.index()] as usize..self.writer_start[key.index() + 1] as usize]
    }

    /// True if the committed transaction `t` writes `key`.
    #[inline]
    pub fn writes(&self, t: TxnId, key: KeyId) -> bool {
        self.writers(key).binary_search(&t).is_ok()
    }

    /// For every list key that was read: the order of appends that its longest read shows, and those of
    /// reads that contradict it.
    pub fn version_orders(&self) -> &[VersionOrder] {
        &self.version_orders
    }

    /// Whether some element was appended to a list more than once, by transactions that did not abort.
    pub fn repeats_elements(&self) -> bool {
        self.repeats_elements
    }

    /// Number of reads with several possible sources (transactions that wrote the value, the initial
    /// state), and of lists that show an element which was appended more than once.
    pub fn ambiguous_reads(&self) -> usize {
        self.ambiguous
    }
}

/// What it takes for a transaction of unknown outcome to count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Observed {
    Certainly,
    Possibly,
}

/// Marks indeterminate transactions as committed when a committed one read what only they wrote (or, if
/// that is asked, what they and others wrote). A read that returns the reader's own latest write shows
/// nothing about others.
fn commit_observed(
    history: &History,
    resolved: &resolve::Resolved,
    committed: &mut [bool],
    observed: Observed,
) {
    let possible = match observed {
        Observed::Certainly => FxHashMap::default(),
        Observed::Possibly => indeterminate_writes(history),
    };
    let mut own: FxHashMap<KeyId, Value> = FxHashMap::default();
    let mut work: Vec<TxnId> = history.txns().filter(|t| committed[t.index()]).collect();
    while let Some(t) = work.pop() {
        own.clear();
        for (op, o) in history.ops(t) {
            if o.kind != OpKind::Read {
                own.insert(o.key, o.value);
                continue;
            }
            if own.get(&o.key) == Some(&o.value) {
                continue;
            }
            let mut note = |writer: TxnId| {
                if history.outcome(writer) == Outcome::Indeterminate && !committed[writer.index()] {
                    committed[writer.index()] = true;
                    work.push(writer);
                }
            };
            resolved.for_each_writer(history, op, &mut note);
            if possible.is_empty() {
                continue;
            }
            let elements = history.list(o.value);
            let values = elements.unwrap_or(std::slice::from_ref(&o.value));
            values.iter().filter_map(|&v| possible.get(&(o.key, v))).flatten().for_each(|&w| note(w));
        }
    }
}

/// Who, of unknown outcome, wrote each value.
fn indeterminate_writes(history: &History) -> FxHashMap<(KeyId, Value), Vec<TxnId>> {
    let mut writes: FxHashMap<(KeyId, Value), Vec<TxnId>> = FxHashMap::default();
    for t in history.txns().filter(|&t| history.outcome(t) == Outcome::Indeterminate) {
        for (_, o) in history.ops(t).filter(|(_, o)| o.kind != OpKind::Read) {
            writes.entry((o.key, o.value)).or_default().push(t);
        }
    }
    writes
}
