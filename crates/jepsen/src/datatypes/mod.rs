//! Sets, counters, banks, registers and predicates as transactions: what they show of who came before whom,
//! for the Adya engine.
//!
//! [`lower`] turns a recording of such operations into a [`History`] of reads and writes, as far as that
//! can express it, and adds dependencies with their reasons where it cannot. All engines then apply, and
//! their examples and explanations. One file per datatype, which states what each read proves.
//!
//! - A *set* is a register per element, absent at first and written once: nothing is lost, and proofs
//!   stand. So they do for a *register*.
//! - A *counter*, a *bank* and *predicates* show less than the whole state. Every dependency that is added
//!   holds in every interpretation of the recording; that none contradicts another proves nothing, so
//!   levels that "hold" become unknown. Of predicates some are proven nevertheless, by an order in which
//!   every read returns what it returned (`replay.rs`).
//!
//! Where it is certain only that some transaction did a thing (some addition was missed, half of some
//! transfer was seen), a transaction of its own stands for whichever it was. Long-fork workloads are
//! transactions already.

mod bank;
mod counter;
mod independent;
mod predicate_edges;
mod predicates;
mod recorder;
mod register;
mod replay;
mod set;

pub use crate::models::Malformed;
pub use independent::independent;
pub(crate) use predicates::{Predicate, rows_of};
pub(crate) use recorder::Recorder;

use anomalist_check::{Analyser, Budget, ExtraEdge, Request};
use anomalist_history::{
    Datum, Event, EventKind, Events, History, Index, Indexed, OpId, Process, TooLarge, TxnId,
};
use anomalist_level::{Anomaly, Judgement, Level, Relation, Verdict, Why};
use std::fmt;
use std::iter;
use std::num::NonZeroUsize;

/// A kind of recording that is more than reads, writes and appends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datatype {
    /// `add` an element, `read` all.
    Set,
    /// `add` a number, `read` the sum.
    Counter,
    /// `transfer` between accounts, `read` all balances.
    Bank,
    /// Rows that are inserted, written and deleted, and read by key and by predicate.
    Predicates,
    /// `read`, `write` and `cas` of one register.
    Register,
}

impl Datatype {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Datatype::Set => "set",
            Datatype::Counter => "counter",
            Datatype::Bank => "bank",
            Datatype::Predicates => "predicates",
            Datatype::Register => "register",
        }
    }
}

/// In which sense one transaction comes before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum Dependency {
    /// Both wrote an object, in this order.
    Ww,
    /// The second read what the first wrote.
    Wr,
    /// The second replaced what the first read.
    Rw,
    /// The first changed what matches the second's predicate, which saw that.
    Wrp,
    /// The second changed what matches the first's predicate, which did not see that.
    Rwp,
    /// The first ended before the second began.
    Rt,
}

/// A dependency with its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reasoned {
    /// The transaction that comes first.
    pub from: TxnId,
    /// The transaction that comes later.
    pub to: TxnId,
    /// In which sense.
    pub kind: Dependency,
    /// Why, as a sentence without a full stop.
    pub reason: Box<str>,
    /// The operations it rests on.
    pub operations: Vec<OpId>,
}

/// A recording as transactions.
#[derive(Debug)]
pub struct Lowered {
    /// What it was.
    pub datatype: Datatype,
    /// The transactions.
    pub history: History,
    /// Dependencies that their reads and writes do not show.
    pub dependencies: Vec<Reasoned>,
    /// What is wrong without any cycle.
    pub anomalies: Vec<Anomaly>,
    /// Why a level that holds for the transactions may not hold for the recording; none if it does.
    pub doubt: Option<Why>,
    /// How many transactions stand for ones that could not be identified.
    pub stand_ins: usize,
    /// Of predicates: what is needed to look whether an order explains all reads.
    pub(crate) recording: Option<predicates::Recording>,
}

/// What there is too much of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Oversized {
    /// The history.
    History(TooLarge),
    /// A set: one operation per read and element.
    Set {
        /// How many operations.
        operations: usize,
        /// How many are looked at.
        limit: usize,
    },
}

impl From<TooLarge> for Oversized {
    fn from(large: TooLarge) -> Oversized {
        Oversized::History(large)
    }
}

impl fmt::Display for Oversized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Oversized::History(large) => large.fmt(f),
            Oversized::Set { operations, limit } => write!(
                f,
                "{operations} operations to look at, one per read and element; {limit} are the limit (Jepsen's \
                 set-full model judges larger sets)"
            ),
        }
    }
}

/// Why a recording cannot be judged as transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LowerError {
    /// An operation is not one of the datatype's.
    Malformed(Malformed),
    /// There would be too many operations.
    TooLarge(Oversized),
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LowerError::Malformed(malformed) => malformed.fmt(f),
            LowerError::TooLarge(oversized) => oversized.fmt(f),
        }
    }
}

impl std::error::Error for LowerError {}

impl From<Malformed> for LowerError {
    fn from(malformed: Malformed) -> LowerError {
        LowerError::Malformed(malformed)
    }
}

impl From<TooLarge> for LowerError {
    fn from(large: TooLarge) -> LowerError {
        LowerError::TooLarge(large.into())
    }
}

/// What a recording, or its beginning, is; none if it is transactions of reads, writes and appends, or
/// unknown.
pub fn recognise(events: &Events) -> Option<Datatype> {
    let clients = || events.iter().filter(|e| e.process != Process::Other);
    if let Some(found) = clients().find_map(by_micro_ops) {
        return found;
    }
    let calls = |f: &str| clients().any(|e| &*e.f == f);
    let reads = |shape: fn(&Datum) -> bool| {
        clients().any(|e| e.kind == EventKind::Ok && &*e.f == "read" && shape(&e.value))
    };
    if calls("transfer") && reads(|v| v.as_map().is_some() || v.as_list().is_some()) {
        Some(Datatype::Bank)
    } else if calls("add") && reads(|v| v.as_list().is_some()) {
        Some(Datatype::Set)
    } else if calls("add") && reads(|v| v.as_int().is_some()) {
        Some(Datatype::Counter)
    } else if (calls("write") || calls("cas"))
        && clients().all(|e| matches!(&*e.f, "read" | "write" | "cas"))
        && !reads(|v| v.as_list().is_some())
    {
        Some(Datatype::Register)
    } else {
        None
    }
}

/// What the names of micro-operations say; none if there are none.
fn by_micro_ops(event: &Event) -> Option<Option<Datatype>> {
    if &*event.f == "init" && event.value.as_map().is_some() {
        return Some(Some(Datatype::Predicates));
    }
    let names = event.value.as_list()?.iter().filter_map(|mop| mop.as_list()?.first()?.as_name());
    for name in names {
        match name {
            "init" | "insert" | "delete" | "rp" => return Some(Some(Datatype::Predicates)),
            "add" => return Some(Some(Datatype::Set)),
            "append" => return Some(None),
            // Both plain transactions and the others read and write.
            _ => {}
        }
    }
    None
}

/// True if the beginning of a recording shows that it is none of transactions, though perhaps not yet what
/// it is.
pub fn is_foreign(beginning: &Events) -> bool {
    let foreign = |e: &Event| {
        e.process != Process::Other && matches!(&*e.f, "add" | "transfer" | "init" | "cas" | "write" | "read")
    };
    recognise(beginning).is_some()
        || (beginning.iter().any(foreign) && !beginning.iter().any(|e| &*e.f == "txn"))
}

/// Turns a recording into transactions. O(size of the recording), but for sets: every read is about every
/// element.
pub fn lower(datatype: Datatype, events: &Events) -> Result<Lowered, LowerError> {
    match datatype {
        Datatype::Set => set::lower(events),
        Datatype::Counter => counter::lower(events),
        Datatype::Bank => bank::lower(events),
        Datatype::Predicates => predicates::lower(events),
        Datatype::Register => register::lower(events),
    }
}

impl Dependency {
    fn relation(self) -> Relation {
        match self {
            Dependency::Ww => Relation::VersionOrder,
            Dependency::Wr | Dependency::Wrp => Relation::WriteRead,
            Dependency::Rw => Relation::AntiDependency,
            Dependency::Rwp => Relation::PredicateAntiDependency,
            Dependency::Rt => Relation::RealTime,
        }
    }
}

impl Analyser for Lowered {
    fn edges(&self, _: &History, _: &Index, add: &mut dyn FnMut(ExtraEdge)) {
        for d in &self.dependencies {
            add(ExtraEdge {
                from: d.from,
                to: d.to,
                relation: d.kind.relation(),
                reason: d.reason.clone(),
                operations: d.operations.clone(),
            });
        }
    }

    fn anomalies(&self) -> Vec<Anomaly> {
        self.anomalies.clone()
    }
}

/// Decides the levels for a recording.
///
/// ```
/// use anomalist_check::{Budget, Request};
/// use anomalist_history::{Datum, Event, EventKind, Events, Process};
/// use anomalist_jepsen::datatypes;
/// use anomalist_level::{Level, Verdict};
/// let event = |process, kind, f: &str, value| Event {
///     kind, f: f.into(), value, process: Process::Client(process), index: None, time: None, line: 1,
/// };
/// let set = |elements: &[i64]| Datum::List(elements.iter().map(|&e| Datum::Int(e)).collect());
/// // Two elements are added; one reader sees the one of them, another the other.
/// let events = Events::new(vec![
///     event(0, EventKind::Ok, "add", Datum::Int(1)),
///     event(1, EventKind::Ok, "add", Datum::Int(2)),
///     event(2, EventKind::Ok, "read", set(&[1])),
///     event(3, EventKind::Ok, "read", set(&[2])),
/// ]);
/// let datatype = datatypes::recognise(&events).unwrap();
/// let lowered = datatypes::lower(datatype, &events)?;
/// let judgement = datatypes::check(&lowered, &Request::default(), &Budget::unlimited());
/// assert_eq!(judgement.verdict(Level::SnapshotIsolation), Some(&Verdict::Violated));
/// assert_eq!(judgement.verdict(Level::Causal), Some(&Verdict::Holds));
/// # Ok::<(), datatypes::LowerError>(())
/// ```
pub fn check(lowered: &Lowered, request: &Request, budget: &Budget<'_>) -> Judgement {
    check_with(lowered, request, &[], budget)
}

/// [`check`] with dependencies that are not in the recording: see [`Analyser`].
pub fn check_with(
    lowered: &Lowered,
    request: &Request,
    analysers: &[&dyn Analyser],
    budget: &Budget<'_>,
) -> Judgement {
    let analysers: Vec<&dyn Analyser> = iter::once(lowered as _).chain(analysers.iter().copied()).collect();
    let indexed = Indexed::new(&lowered.history, NonZeroUsize::MIN);
    let with_orders = Request { certificates: true, ..request.clone() };
    let request = if lowered.recording.is_some() { &with_orders } else { request };
    let mut judgement = anomalist_check::check_with(&indexed, request, &analysers, budget);
    if let Some(doubt) = &lowered.doubt {
        let proven = replay::proven(lowered, &judgement, budget);
        judgement.certificates.clear();
        let holds = |level: Level| proven.iter().any(|stronger| stronger.implies(level));
        for level in judgement.levels.iter_mut().filter(|l| l.verdict == Verdict::Holds && !holds(l.level)) {
            level.verdict = Verdict::Unknown(doubt.clone());
        }
    }
    if lowered.stand_ins > 0 {
        let (n, name) = (lowered.stand_ins, lowered.datatype.name());
        judgement.notes.push(match n {
            1 => {
                format!("One transaction stands for an operation on the {name} that could not be identified.")
            }
            _ => format!("{n} transactions stand for operations on the {name} that could not be identified."),
        });
    }
    judgement
}
