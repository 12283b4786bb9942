//! Elle's own answer: what Elle 0.2.8 infers from a history, searches for and reports, for the drop-in
//! `anomalist elle`.
//!
//! Verdict, anomaly types and boundary are meant to be Elle's, blind spots included: what Anomalist can say
//! beyond is [`anomalist_check::check`]'s business. Three datatypes, each a set of direct checks and a
//! source of edges:
//! - `append`: lists that grow by appends; the longest read of a key is its version order;
//! - `register`: registers; version orders come from assumptions the user makes (`versions`);
//! - `predicate`: rows read by predicate; versions are in the order of the file.
//!
//! `orders` adds process or real-time order, `cycles` searches each component for Elle's types of cycle in
//! Elle's order with Elle's suppression, and `verdict` computes `valid?`, `not` and `also-not` with the
//! tables of [`anomalist_level::elle`]. The one thing not Elle's is the search itself, which is polynomial
//! (`anomalist_graph::labelled`): nothing depends on the speed of the machine. Deliberate differences:
//! `docs/elle-differences.md`.
//!
//! O(operations + list elements + edges), and the searches. Edges can be quadratic on one key, as in Elle:
//! every transaction that read the last version precedes every writer of an unobserved one. Past three
//! million some are left out, and finding nothing is then unknown.

mod append;
mod cycles;
mod elle_history;
mod orders;
mod predicate;
mod register;
mod steps;
mod updates;
mod verdict;
mod versions;

pub use cycles::Cycle;
pub use elle_history::Graph;
pub(crate) use predicate::{Predicates, closed_predicate};
pub use steps::Step;

use anomalist_check::Budget;
use anomalist_history::{History, KeyId, OpId, TxnId, Value};
use anomalist_level::elle::{self, Edge};
use anomalist_level::{AnomalyKind, Level};
use elle_history::ElleHistory;
use rustc_hash::FxHashMap;
use std::fmt;

/// What the keys of a history hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datatype {
    /// Lists that grow by appends.
    ListAppend,
    /// Registers that are read and written.
    RwRegister,
}

impl Datatype {
    /// Which relation tells an edge that several hold: the first of these.
    fn precedence(self) -> &'static [Edge] {
        match self {
            Datatype::ListAppend => &[Edge::Ww, Edge::Wr, Edge::Rw, Edge::Process, Edge::Realtime],
            Datatype::RwRegister => &[Edge::Wr, Edge::Ww, Edge::Rw, Edge::Process, Edge::Realtime],
        }
    }
}

/// What to assume and what to look for.
#[derive(Clone, Debug)]
pub struct Options {
    /// What keys hold.
    pub datatype: Datatype,
    /// The models that must hold.
    pub models: Vec<Level>,
    /// Anomalies that must not occur, whatever the models say.
    pub anomalies: Vec<AnomalyKind>,
    /// Registers: a transaction that reads a key and writes it overwrites what it read.
    pub wfr_keys: bool,
    /// Registers: each key alone is sequentially consistent.
    pub sequential_keys: bool,
    /// Registers: each key alone is linearizable.
    pub linearizable_keys: bool,
    /// Registers: the order in which transactions wrote, as a number per index of a completion.
    pub transaction_order: Option<FxHashMap<i64, f64>>,
}

impl Options {
    /// Elle's defaults: strict serializability, nothing assumed.
    pub fn new(datatype: Datatype) -> Options {
        Options {
            datatype,
            models: vec![Level::StrictSerializable],
            anomalies: Vec::new(),
            wfr_keys: false,
            sequential_keys: false,
            linearizable_keys: false,
            transaction_order: None,
        }
    }

    /// Every anomaly type that makes the answer false.
    pub fn prohibited(&self) -> Vec<AnomalyKind> {
        let by_models = elle::prohibited(&self.models);
        elle::anomalies()
            .iter()
            .map(|a| a.kind)
            .filter(|kind| by_models.contains(kind) || self.anomalies.iter().any(|&a| kind.implies(a)))
            .collect()
    }
}

/// One occurrence of an anomaly.
#[derive(Clone, Debug, PartialEq)]
pub enum Case {
    /// A read that contradicts what its transaction did or saw before.
    Internal {
        /// The read.
        read: OpId,
        /// What it should have shown: elements of a list, or one value.
        expected: Vec<Value>,
        /// Unknown elements may come before those expected.
        suffix: bool,
    },
    /// A read of an element that its own transaction appended later.
    FutureRead {
        /// The read.
        read: OpId,
        /// The append.
        append: OpId,
    },
    /// A read of what a failed transaction wrote, or of a value that its writer overwrote (G1a, G1b).
    DirtyRead {
        /// The read.
        read: OpId,
        /// The write.
        write: OpId,
    },
    /// A read that shows elements several times.
    Duplicates {
        /// The read.
        read: OpId,
        /// Elements and how often they occur.
        elements: Vec<(Value, usize)>,
    },
    /// Two reads of one key of which neither begins with the other.
    IncompatibleOrder {
        /// The shorter read.
        shorter: OpId,
        /// The longer one.
        longer: OpId,
    },
    /// A committed write on top of a failed one.
    DirtyUpdate {
        /// The key.
        key: KeyId,
        /// The elements from the failed write to the committed one.
        elements: Vec<Value>,
        /// Their writers.
        txns: Vec<TxnId>,
    },
    /// Transactions that read the same version of a key and then wrote it.
    LostUpdate {
        /// The read of the first of them.
        read: OpId,
        /// The transactions.
        txns: Vec<TxnId>,
    },
    /// Versions of a key that precede each other.
    CyclicVersions {
        /// The key.
        key: KeyId,
        /// The versions.
        values: Vec<Value>,
        /// What the order of versions was inferred from, the last of which broke it.
        sources: Vec<&'static str>,
    },
    /// A read by predicate that missed a row which matched in every version.
    PredicateReadMiss {
        /// The reader.
        txn: TxnId,
    },
    /// A cycle of transactions.
    Cycle(Cycle),
    /// A model's graph has a cycle, of whatever type.
    CycleExists {
        /// The model.
        model: Level,
        /// The transactions of a component of that graph.
        txns: Vec<TxnId>,
    },
    /// The search was stopped.
    Timeout {
        /// The type being searched for.
        searching: AnomalyKind,
        /// The size of the component.
        size: usize,
    },
    /// No transaction depends on any other: there was nothing to search.
    EmptyGraph,
}

/// Whether a history is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validity {
    /// Nothing prohibited was found.
    Valid,
    /// Something prohibited was.
    Invalid,
    /// Nothing was, but then little could be seen.
    Unknown,
}

/// Elle's answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The verdict.
    pub validity: Validity,
    /// What is reported, by name: the types asked about that were found.
    pub reported: Vec<(AnomalyKind, Vec<Case>)>,
    /// The weakest models ruled out.
    pub not: Vec<&'static elle::Model>,
    /// All others ruled out.
    pub also_not: Vec<&'static elle::Model>,
    /// Why finding nothing means nothing: what Elle itself would have stopped at with an error, or too much
    /// to keep.
    pub objection: Option<String>,
}

/// Elle's check cannot be applied to this history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// An operation that the datatype does not have.
    UnexpectedOperation {
        /// It.
        op: OpId,
        /// What the datatype has.
        expected: &'static str,
    },
    /// Two transactions (or one, twice) wrote the same value to the same key, and values must be unique.
    Duplicate {
        /// The first write.
        first: OpId,
        /// The second.
        second: OpId,
    },
}

impl Unfit {
    /// The message, with names from the history.
    pub fn describe(&self, history: &History) -> String {
        let place = |op: OpId| {
            let t = history.txn_of(op);
            match history.line(t) {
                Some(line) => format!("transaction {}, line {line}", history.txn_name(t)),
                None => format!("transaction {}", history.txn_name(t)),
            }
        };
        let about = |op: OpId| (history.show_key(history.op(op).key), history.show(history.op(op).value));
        match *self {
            Unfit::UnexpectedOperation { op, expected } => {
                let (key, value) = about(op);
                format!("expected {expected}, found one on key {key} with value {value} ({})", place(op))
            }
            Unfit::Duplicate { first, second } => {
                let (key, value) = about(first);
                format!(
                    "the value {value} of key {key} was written twice ({}; {}): values must be unique",
                    place(first),
                    place(second)
                )
            }
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::UnexpectedOperation { .. } => "an operation that the datatype does not have",
            Unfit::Duplicate { .. } => "a value was written twice",
        })
    }
}

impl std::error::Error for Unfit {}

/// What was found, whether asked for or not.
pub(crate) type Findings = Vec<(AnomalyKind, Case)>;

/// What one datatype makes of a history.
pub struct Inference {
    /// The edges between transactions that the data show.
    pub graph: Graph,
    /// Anomalies that are no cycles.
    pub findings: Vec<(AnomalyKind, Case)>,
    /// Why finding nothing means nothing.
    pub objection: Option<String>,
    evidence: steps::Evidence,
}

/// Elle's analysis of the data: dependencies, and anomalies that are no cycles.
pub fn infer(history: &History, options: &Options) -> Result<Inference, Unfit> {
    let numbered = ElleHistory::new(history);
    match options.datatype {
        Datatype::ListAppend => append::infer(&numbered),
        Datatype::RwRegister => register::infer(&numbered, options),
    }
}

/// Elle's answer about a history.
///
/// ```
/// use anomalist_check::Budget;
/// use anomalist_history::{Builder, OpKind};
/// use anomalist_jepsen::elle;
/// // Two transactions each read nothing of the key that the other appends to: write skew.
/// let mut b = Builder::new();
/// let (x, y, one) = (b.int(1), b.int(2), b.int(1));
/// let (kx, ky, nothing) = (b.key(x), b.key(y), b.list(&[]));
/// for (process, read, append) in [(one, kx, ky), (y, ky, kx)] {
///     let session = b.session(process);
///     let t = b.transaction(session);
///     b.op(t, OpKind::Read, read, nothing);
///     b.op(t, OpKind::Append, append, one);
/// }
/// let history = b.finish()?;
/// let options = elle::Options::new(elle::Datatype::ListAppend);
/// let answer = elle::check(&history, &options, &Budget::unlimited())?;
/// assert_eq!(answer.validity, elle::Validity::Invalid);
/// assert_eq!(answer.reported[0].0.code(), "G2-item");
/// assert_eq!(answer.not[0].printed, "repeatable-read");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check(history: &History, options: &Options, budget: &Budget<'_>) -> Result<Answer, Unfit> {
    let mut inference = infer(history, options)?;
    let numbered = ElleHistory::new(history);
    let prohibited = options.prohibited();
    if let Some(order) = orders::wanted(&prohibited) {
        orders::add(&numbered, order, &mut inference.graph);
    }
    let mut findings = std::mem::take(&mut inference.findings);
    let edges = std::mem::take(&mut inference.graph.edges);
    let precedence = options.datatype.precedence();
    cycles::search(&numbered, edges, &inference, precedence, budget, &mut findings);
    Ok(verdict::answer(findings, &prohibited, inference.objection))
}
