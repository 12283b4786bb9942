//! Proofs of verdicts: what a checker hands over so that another program can check it.
//!
//! **Holds** is shown by an [`Execution`]: an order of commits (or of snapshots and commits) in which the
//! level's definition can be looked up read by read, and a source for each read whose value several
//! transactions wrote. **Violated** is shown by an anomaly with its [`Witness`](crate::Witness), or, where
//! no single cycle is the reason, by a [`Refutation`]: numbered clauses, each true of every execution of
//! the level, the last one empty.
//!
//! # The facts a refutation speaks about
//!
//! Suppose the level held. Then there is an order of *points*: each transaction commits at one moment, and
//! at snapshot levels (prefix, the snapshot isolations) also begins at one. At all other levels a
//! transaction is one point and `Begin` means `Commit`. Literals are [`Literal::Before`], whose negation is
//! the same with the points exchanged, and two that only matter when a value was written by several
//! transactions: which write a read returned, and whether a transaction of unknown outcome took effect.
//!
//! A transaction *certainly counts* if it committed, or its outcome is unknown and a transaction that
//! certainly counts read a value which only it wrote. A clause that mentions any other transaction must
//! contain [`Literal::NotCommitted`] for it, with two exceptions: one that another transaction of the step
//! reads from counts if the reader does, and in a cycle one that did not take effect has its place as well,
//! wherever sessions and real time let it stand, but reads nothing. A read has as possible sources every
//! other transaction, not aborted, that wrote its value, and the initial state if that is the key's initial
//! value. It is *certain* if there is exactly one; a step that uses another read must contain its
//! [`Literal::NotReadsFrom`]. A list is a read of its last element; after own appends, of the last element
//! before those.
//!
//! Where transactions declare levels of their own, everything is asked of each by its own level: whether it
//! begins at a point of its own, what it follows, which reads of it are forbidden, and the axiom about its
//! reads. Snapshot isolation's rule about writes then is one about it and every transaction that writes its
//! keys: a transaction at another level is in the way with its commit alone.
//!
//! # How steps are checked
//!
//! A clause may hold more literals than its reason asks for. *Known* order: `Begin(t) < Commit(t)`; the
//! writer's commit before the reader's begin, for a certain read; for levels with session order the commit
//! of the earlier before the begin of the later; for levels with real time the same if the one committed
//! and completed before the other was invoked (when one of unknown outcome took effect is not known); and
//! every `Before` that is a whole clause of an earlier step. Checking costs time linear in the refutation
//! and the history.

use crate::result::VersionReason;
use anomalist_history::{History, OpId, TxnId};
use std::ops::Not;

/// A moment of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Point {
    /// It takes its snapshot. At levels without snapshots the same as `Commit`.
    Begin(TxnId),
    /// Its writes take effect.
    Commit(TxnId),
}

impl Point {
    fn map(self, txn: &mut dyn FnMut(TxnId) -> TxnId) -> Point {
        match self {
            Point::Begin(t) => Point::Begin(txn(t)),
            Point::Commit(t) => Point::Commit(txn(t)),
        }
    }

    /// Whose moment it is.
    pub fn txn(self) -> TxnId {
        match self {
            Point::Begin(t) | Point::Commit(t) => t,
        }
    }
}

/// The write that a read returned, where several could have been it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Choice {
    /// The read; a list read has a choice for each element that was appended more than once.
    pub read: OpId,
    /// The place of the element in the list; 0 for a register.
    pub element: u32,
    /// The write, of the value read (an append of the element) by another transaction: of several to a
    /// register by the same transaction, its last. `None`: the read returned the initial state.
    pub write: Option<OpId>,
}

impl Choice {
    /// The choice of a write for a read of a register.
    pub fn write(read: OpId, write: OpId) -> Choice {
        Choice { read, element: 0, write: Some(write) }
    }

    /// The choice of the initial state for a read of a register.
    pub fn initial(read: OpId) -> Choice {
        Choice { read, element: 0, write: None }
    }

    /// The choice of an append for an element of a list.
    pub fn append(read: OpId, element: u32, append: OpId) -> Choice {
        Choice { read, element, write: Some(append) }
    }

    fn map(self, op: &mut dyn FnMut(OpId) -> OpId) -> Choice {
        Choice { read: op(self.read), write: self.write.map(&mut *op), ..self }
    }
}

/// In what order things happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// No order: cut isolation is about the sources of reads alone.
    Any,
    /// The commits of all transactions that count. At snapshot levels every transaction also takes its
    /// snapshot there.
    Commits(Vec<TxnId>),
    /// The begins and commits of all transactions that count.
    Events(Vec<Point>),
}

/// One way to explain what clients saw: the proof that a level holds.
///
/// Versions of a key follow the order of commits. Transactions of unknown outcome count if a transaction
/// that counts reads from them under `choices`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Execution {
    /// The order.
    pub order: Order,
    /// A source for every read, of a transaction that counts, that has several possible ones; sorted.
    pub choices: Vec<Choice>,
}

impl Execution {
    /// An order of commits; no read has a choice.
    pub fn commits(order: Vec<TxnId>) -> Execution {
        Execution { order: Order::Commits(order), choices: Vec::new() }
    }

    /// An order of begins and commits; no read has a choice.
    pub fn events(order: Vec<Point>) -> Execution {
        Execution { order: Order::Events(order), choices: Vec::new() }
    }
}

/// Something that may be true of an execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Literal {
    /// The first comes before the second. Its negation exchanges them.
    Before(Point, Point),
    /// The read returned this write.
    ReadsFrom(Choice),
    /// The read did not return this write.
    NotReadsFrom(Choice),
    /// This transaction, whose outcome is not known, took effect.
    Committed(TxnId),
    /// It did not.
    NotCommitted(TxnId),
}

impl Literal {
    /// The choice that the literal says a read did not make.
    pub fn denies(&self, read: OpId) -> Option<Choice> {
        match self {
            Literal::NotReadsFrom(choice) if choice.read == read => Some(*choice),
            _ => None,
        }
    }
}

impl Not for Literal {
    type Output = Literal;

    fn not(self) -> Literal {
        match self {
            Literal::Before(a, b) => Literal::Before(b, a),
            Literal::ReadsFrom(c) => Literal::NotReadsFrom(c),
            Literal::NotReadsFrom(c) => Literal::ReadsFrom(c),
            Literal::Committed(t) => Literal::NotCommitted(t),
            Literal::NotCommitted(t) => Literal::Committed(t),
        }
    }
}

/// Why a clause is true of every execution of the level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// An order has no cycle. The points, the last followed by the first again: each link is known, or the
    /// clause has its reverse. A link by a read that is not certain is allowed if the clause has its
    /// `NotReadsFrom`.
    Cycle(Vec<Point>),
    /// `read`, of transaction `r`, returned `write`, of transaction `w` (none: the initial state); `other`,
    /// of another transaction `o`, writes the key too.
    ///
    /// * Serializable levels: the clause has `o < w` and `r < o`; snapshot levels: `Commit(o) < Commit(w)`
    ///   and `Begin(r) < Commit(o)`. Nothing precedes the initial state, so without `w` only the second.
    ///   `path` is empty.
    /// * Other levels ask `o < w` only if `o` is visible to `r`: by a path from `o` through `path` to `r`
    ///   whose links are of the kinds that the level sees. The clause has `o < w` (without `w`: nothing),
    ///   and parallel snapshot isolation, which sees version order as well, lets a link be two writers of
    ///   one key if the clause has its reverse.
    /// * PL-3U: by a path that ends with one that `r` reads from. All on it write; a link may also be two
    ///   writers of one key, or lead from a transaction to one that replaced what it read: if it read `w'`,
    ///   the clause has the other before `w'`. If `r` writes, the clause may have `r < o` instead, as at
    ///   serializable levels.
    Axiom {
        /// The read.
        read: OpId,
        /// What it returned.
        write: Option<OpId>,
        /// A write of the same key by a third transaction.
        other: OpId,
        /// The transactions between that one and the reader.
        path: Vec<TxnId>,
    },
    /// Snapshot isolations: of two transactions that write a key, one sees the other. The clause has
    /// `Commit(a) < Begin(b)` and `Commit(b) < Begin(a)`.
    Conflict {
        /// A write.
        first: OpId,
        /// A write of the same key by another transaction.
        second: OpId,
    },
    /// A list shows all appends to its key up to its last element, by commit and then by program order.
    ///
    /// * It shows `first` somewhere before `second`: the clause has `Commit(first) < Commit(second)`.
    ///   Nothing, if it shows them side by side and that cannot be: `second` does not follow `first` in
    ///   their transaction, or of two transactions the one appended more after `first`, or the other more
    ///   before `second`.
    /// * It shows `first` last and `second`, by another transaction, not at all: the clause has
    ///   `Commit(first) < Commit(second)`, and `ReadsFrom` of `second` if that may be one of the elements.
    /// * It begins with `second`, though the same transaction appended `first` before: the clause needs
    ///   nothing.
    ///
    /// What of this is not certain the clause has as `NotReadsFrom`.
    Version {
        /// The list read.
        read: OpId,
        /// An append.
        first: OpId,
        /// Another append to the same key.
        second: OpId,
    },
    /// Two reads of one key by one transaction, which repeats its reads. Cut isolation: they returned two
    /// transactions' writes (or one the initial state); those that are not certain the clause has as
    /// `NotReadsFrom`. Or the first returned a transaction's write (`NotReadsFrom` unless that is certain)
    /// and so did the second: the clause has `ReadsFrom` for each of that transaction's writes that the
    /// second may have returned. Read atomic and causal: two lists that differ in what they show of others'
    /// appends. All levels: the two are the same read, which returned one write only per element, and an
    /// append is one element only; the clause has `NotReadsFrom` of two different choices that agree in the
    /// element or in the append.
    Repeated {
        /// The one.
        first: OpId,
        /// The other.
        second: OpId,
    },
    /// The caller says that `first` made an earlier version of its key than `second`: the clause has
    /// `Commit(first) < Commit(second)`. No history shows it.
    Assumed {
        /// A write.
        first: OpId,
        /// A write of the same key by another transaction.
        second: OpId,
        /// Which assumption it follows from.
        reason: VersionReason,
    },
    /// A read returned something: the clause has `ReadsFrom` for every write that could be it, and for the
    /// initial state if that could. For a list read, the writes of this element of the list.
    Source {
        /// The read.
        read: OpId,
        /// The place of the element in the list; 0 for a register.
        element: u32,
    },
    /// What is read took effect: the clause has `NotReadsFrom` of the choice, which is a write, and
    /// `Committed` of the writer.
    Observed(Choice),
    /// The choice's writer wrote the key again: at every level that refutations are about, no other
    /// transaction reads what is not final. The clause has its `NotReadsFrom`.
    Intermediate(Choice),
    /// The read can have no source (TAP-a to TAP-e, or a list that shows an element too often), so its
    /// transaction did not take effect: the clause has `NotCommitted` of it, which is empty if it certainly
    /// counts.
    Impossible {
        /// The read.
        read: OpId,
    },
    /// Earlier steps imply it. Suppose all literals of the clause false; going through these steps in this
    /// order, each has exactly one literal that is not yet false, which is thereby true, and the last has
    /// none (reverse unit propagation, hints as in LRAT).
    Implied(Vec<u32>),
}

/// A clause: at least one of the literals is true.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The literals, in any order.
    pub clause: Vec<Literal>,
    /// Why.
    pub reason: Reason,
}

/// The proof that no execution satisfies a level. The last clause is empty; steps refer to earlier ones by
/// position.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Refutation {
    /// The steps, from 0.
    pub steps: Vec<Step>,
}

impl Refutation {
    /// The transactions and operations that it names, ascending.
    pub fn names(&self, history: &History) -> (Vec<TxnId>, Vec<OpId>) {
        let (mut txns, mut ops) = (Vec::new(), Vec::new());
        let txn = |t| {
            txns.push(t);
            t
        };
        let op = |op| {
            ops.push(op);
            op
        };
        self.map(txn, op);
        txns.extend(ops.iter().map(|&op| history.txn_of(op)));
        txns.sort_unstable();
        txns.dedup();
        ops.sort_unstable();
        ops.dedup();
        (txns, ops)
    }

    /// The same about a history in which transactions and operations have other numbers.
    pub fn map(&self, mut txn: impl FnMut(TxnId) -> TxnId, mut op: impl FnMut(OpId) -> OpId) -> Refutation {
        Refutation { steps: self.steps.iter().map(|step| step.map(&mut txn, &mut op)).collect() }
    }
}

impl Step {
    fn map(&self, txn: &mut dyn FnMut(TxnId) -> TxnId, op: &mut dyn FnMut(OpId) -> OpId) -> Step {
        let mut clause = Vec::with_capacity(self.clause.len());
        for literal in &self.clause {
            clause.push(match *literal {
                Literal::Before(a, b) => Literal::Before(a.map(txn), b.map(txn)),
                Literal::ReadsFrom(c) => Literal::ReadsFrom(c.map(op)),
                Literal::NotReadsFrom(c) => Literal::NotReadsFrom(c.map(op)),
                Literal::Committed(t) => Literal::Committed(txn(t)),
                Literal::NotCommitted(t) => Literal::NotCommitted(txn(t)),
            });
        }
        let reason = match self.reason {
            Reason::Cycle(ref points) => Reason::Cycle(points.iter().map(|p| p.map(txn)).collect()),
            Reason::Axiom { read, write, other, ref path } => Reason::Axiom {
                read: op(read),
                write: write.map(&mut *op),
                other: op(other),
                path: path.iter().map(|&t| txn(t)).collect(),
            },
            Reason::Conflict { first, second } => Reason::Conflict { first: op(first), second: op(second) },
            Reason::Version { read, first, second } => {
                Reason::Version { read: op(read), first: op(first), second: op(second) }
            }
            Reason::Repeated { first, second } => Reason::Repeated { first: op(first), second: op(second) },
            Reason::Assumed { first, second, reason } => {
                Reason::Assumed { first: op(first), second: op(second), reason }
            }
            Reason::Source { read, element } => Reason::Source { read: op(read), element },
            Reason::Observed(choice) => Reason::Observed(choice.map(op)),
            Reason::Intermediate(choice) => Reason::Intermediate(choice.map(op)),
            Reason::Impossible { read } => Reason::Impossible { read: op(read) },
            Reason::Implied(ref hints) => Reason::Implied(hints.clone()),
        };
        Step { clause, reason }
    }
}

/// The proof of a verdict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Certificate {
    /// The level holds: this execution satisfies it.
    Holds(Execution),
    /// The level is violated, although no anomaly with a witness of its own may show it.
    Violated(Refutation),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negation_is_its_own_inverse() {
        let (a, b) = (Point::Begin(TxnId(1)), Point::Commit(TxnId(2)));
        let choice = Choice::write(OpId(3), OpId(4));
        for literal in [Literal::Before(a, b), Literal::ReadsFrom(choice), Literal::Committed(TxnId(1))] {
            assert_ne!(!literal, literal);
            assert_eq!(!!literal, literal);
        }
        assert_eq!(!Literal::Before(a, b), Literal::Before(b, a));
    }
}
