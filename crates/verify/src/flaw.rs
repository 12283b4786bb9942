//! Why a proof is refused.

use anomalist_history::{History, OpId, OpKind, TxnId};
use anomalist_level::Level;
use std::fmt;

/// What is wrong with a proof, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flaw {
    /// What is wrong.
    pub kind: FlawKind,
    /// The transactions concerned.
    pub txns: Vec<TxnId>,
    /// The operations concerned.
    pub ops: Vec<OpId>,
    /// The step of a refutation, from 0.
    pub step: Option<usize>,
}

impl Flaw {
    pub(crate) fn new(kind: FlawKind) -> Flaw {
        Flaw { kind, txns: Vec::new(), ops: Vec::new(), step: None }
    }

    pub(crate) fn txns(mut self, txns: impl IntoIterator<Item = TxnId>) -> Flaw {
        self.txns.extend(txns);
        self
    }

    pub(crate) fn ops(mut self, ops: impl IntoIterator<Item = OpId>) -> Flaw {
        self.ops.extend(ops);
        self
    }

    pub(crate) fn at(mut self, step: usize) -> Flaw {
        self.step = Some(step);
        self
    }

    /// The flaw in words, with the names of the history.
    pub fn message(&self, history: &History) -> String {
        let mut text = String::new();
        if let Some(step) = self.step {
            text = format!("step {step}: ");
        }
        text += &self.kind.to_string();
        let mut about: Vec<String> = self.txns.iter().map(|&t| history.txn_name(t)).collect();
        about.extend(self.ops.iter().map(|&op| {
            let o = history.op(op);
            let verb = if o.kind == OpKind::Read { "read" } else { "wrote" };
            let name = history.txn_name(history.txn_of(op));
            format!("{name} {verb} {} = {}", history.show_key(o.key), history.show(o.value))
        }));
        if !about.is_empty() {
            text += &format!(" ({})", about.join("; "));
        }
        text
    }
}

/// What is wrong with a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FlawKind {
    /// It names a transaction that the history does not have.
    NoSuchTransaction,
    /// It names an operation that the history does not have.
    NoSuchOperation,
    /// A read could not have returned the write chosen for it.
    ImpossibleChoice,
    /// A read has two sources.
    ChosenTwice,
    /// A read whose value several transactions wrote has no source.
    OpenSource,
    /// This level needs another kind of proof.
    WrongKind,
    /// A level that no proof can show, because it has no definition here.
    NoDefinition(Level),
    /// The order names a transaction twice, or one that does not count.
    Twice,
    /// The order leaves out a transaction that counts.
    Missing,
    /// A transaction commits before it begins.
    CommitBeforeBegin,
    /// A read that the level forbids whatever the order.
    FaultyRead,
    /// A read from a write that its transaction replaced.
    IntermediateRead,
    /// The order contradicts session order.
    SessionOrder,
    /// The order contradicts real time, or the history does not say when transactions ran.
    RealTime,
    /// A transaction reads from one that comes later.
    ReadsLater,
    /// A list is not what the order of commits makes of its key.
    ListOrder,
    /// A read does not return the last version before it.
    StaleRead,
    /// A read overlooks a later version that it had to see.
    Overlooked,
    /// Two concurrent transactions write the same key.
    WriteConflict,
    /// A transaction reads a key from two transactions.
    NonRepeatable,
    /// The witness does not show what this kind of anomaly is.
    NotThisAnomaly,
    /// Verifying the witness would take too much work; it is not verified.
    NotVerified,
    /// The edges do not form a cycle.
    NoCycle,
    /// An edge whose evidence does not show it.
    UnprovenEdge,
    /// The witness names transactions or operations that its edges do not.
    WrongCast,
    /// A step that its reason does not give.
    UnprovenStep,
    /// A step that refers to a later one.
    ForwardReference,
    /// The steps end before the contradiction.
    NoContradiction,
    /// A verdict without a proof.
    Unproven(Level),
    /// The level does not forbid the anomaly.
    NotForbidden(Level),
    /// No transaction declares a level, or one declares something else.
    NothingDeclared,
    /// A verdict on the declared levels without a proof.
    UnprovenMixture,
}

impl fmt::Display for FlawKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            FlawKind::NoSuchTransaction => "the history has no such transaction",
            FlawKind::NotVerified => "not verified: too many orders or outcomes are possible to try them all",
            FlawKind::NoSuchOperation => "the history has no such operation",
            FlawKind::ImpossibleChoice => "the read cannot have returned the write chosen for it",
            FlawKind::ChosenTwice => "the read has two sources",
            FlawKind::OpenSource => {
                "several transactions wrote what was read, and nothing says which was seen"
            }
            FlawKind::WrongKind => "the level needs another kind of proof",
            FlawKind::NoDefinition(level) => return write!(f, "nothing here defines {level}"),
            FlawKind::Twice => "the order names a transaction twice, or one that did not take effect",
            FlawKind::Missing => "the order leaves out a transaction that took effect",
            FlawKind::CommitBeforeBegin => "a transaction commits before it begins",
            FlawKind::FaultyRead => "the level forbids this read, whatever the order",
            FlawKind::IntermediateRead => "the read returned what its writer went on to replace",
            FlawKind::SessionOrder => "the order contradicts session order",
            FlawKind::RealTime => "the order contradicts real time, or the history does not tell it",
            FlawKind::ReadsLater => "a transaction reads from one that comes later",
            FlawKind::ListOrder => "the list is not what the order of commits makes it",
            FlawKind::StaleRead => "the read does not return the last version before it",
            FlawKind::Overlooked => "the read overlooks a later version that it had to see",
            FlawKind::WriteConflict => "two concurrent transactions write the same key",
            FlawKind::NonRepeatable => "a transaction reads one key from two transactions",
            FlawKind::NotThisAnomaly => "the witness does not show this anomaly",
            FlawKind::NoCycle => "the edges do not form a cycle",
            FlawKind::UnprovenEdge => "the evidence does not show the edge",
            FlawKind::WrongCast => "the witness names others than its edges do",
            FlawKind::UnprovenStep => "the reason does not give the clause",
            FlawKind::ForwardReference => "the step refers to a later one",
            FlawKind::NoContradiction => "the steps do not end in a contradiction",
            FlawKind::NothingDeclared => {
                "no transaction declares a level of its own, or one declares no level"
            }
            FlawKind::UnprovenMixture => "nothing proves the verdict on the levels that transactions declare",
            FlawKind::Unproven(level) => return write!(f, "nothing proves the verdict on {level}"),
            FlawKind::NotForbidden(level) => return write!(f, "{level} does not forbid this anomaly"),
        };
        f.write_str(text)
    }
}
