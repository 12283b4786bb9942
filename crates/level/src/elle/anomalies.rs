//! Elle's sixty-two anomaly types.

use crate::anomaly::AnomalyKind;
use crate::level::Level;
use crate::names::normalise;
use AnomalyKind as A;

/// A checker of Elle's that reports anomalies in transactions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Checker {
    /// Lists that grow by appends.
    ListAppend,
    /// Registers that are read and written.
    RwRegister,
    /// Registers read by predicate.
    ClosedPredicate,
}

impl Checker {
    /// Elle's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Checker::ListAppend => "list-append",
            Checker::RwRegister => "rw-register",
            Checker::ClosedPredicate => "closed-predicate",
        }
    }
}

/// An anomaly type of Elle's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// The kind; Elle's name for it is the kind's code.
    pub kind: AnomalyKind,
    /// The checkers that report it; none for a name that only serves implications.
    pub emitted_by: &'static [Checker],
    /// The longest way down to it in Elle's order of severity; none for the two that mean "unknown".
    pub depth: Option<u8>,
}

impl Anomaly {
    /// Elle's name.
    pub fn name(&self) -> &'static str {
        self.kind.code()
    }

    /// The anomalies it implies directly.
    pub fn implies(&self) -> impl Iterator<Item = AnomalyKind> {
        self.kind.info().implies.iter().copied().filter(|&kind| TABLE.iter().any(|a| a.kind == kind))
    }

    /// The weakest models it rules out.
    pub fn rules_out(&self) -> &'static [Level] {
        self.kind.info().elle_rules_out
    }

    /// Whether it makes a verdict unknown instead of false.
    pub fn means_unknown(&self) -> bool {
        matches!(self.kind, A::EmptyTransactionGraph | A::CycleSearchTimeout)
    }
}

/// All anomaly types, those that imply most first, as Elle's own table lists them.
pub fn anomalies() -> &'static [Anomaly] {
    &TABLE
}

/// The anomaly with this name of Elle's; case does not matter.
pub fn anomaly(name: &str) -> Option<&'static Anomaly> {
    let wanted = normalise(name);
    TABLE.iter().find(|a| a.name().eq_ignore_ascii_case(&wanted))
}

const NO_CHECKER: &[Checker] = &[];
const LIST: &[Checker] = &[Checker::ListAppend];
const REGISTER: &[Checker] = &[Checker::RwRegister];
const PREDICATE: &[Checker] = &[Checker::ClosedPredicate];
const ITEM: &[Checker] = &[Checker::ListAppend, Checker::RwRegister];
const ALL: &[Checker] = &[Checker::ListAppend, Checker::RwRegister, Checker::ClosedPredicate];

const fn row(kind: AnomalyKind, emitted_by: &'static [Checker], depth: Option<u8>) -> Anomaly {
    Anomaly { kind, emitted_by, depth }
}

static TABLE: [Anomaly; 62] = [
    row(A::GMsr, NO_CHECKER, Some(0)),
    row(A::GSi, NO_CHECKER, Some(0)),
    row(A::GSib, NO_CHECKER, Some(0)),
    row(A::GCursor, NO_CHECKER, Some(0)),
    row(A::GMonotonic, NO_CHECKER, Some(0)),
    row(A::GSingleItem, ALL, Some(0)),
    row(A::GUpdate, NO_CHECKER, Some(0)),
    row(A::G0, ALL, Some(0)),
    row(A::G1b, ITEM, Some(0)),
    row(A::Gsia, NO_CHECKER, Some(0)),
    row(A::Pl1CycleExists, ALL, Some(0)),
    row(A::Pl2CycleExists, ALL, Some(0)),
    row(A::Pl299CycleExists, ALL, Some(0)),
    row(A::Pl3CycleExists, ALL, Some(0)),
    row(A::PlSiCycleExists, ALL, Some(0)),
    row(A::PlSsCycleExists, ALL, Some(0)),
    row(A::CyclicVersions, REGISTER, Some(0)),
    row(A::DirtyUpdate, LIST, Some(0)),
    row(A::DuplicateElements, LIST, Some(0)),
    row(A::ElleFutureRead, LIST, Some(0)),
    row(A::IncompatibleOrder, LIST, Some(0)),
    row(A::Internal, ITEM, Some(0)),
    row(A::LostUpdate, ITEM, Some(0)),
    row(A::PredicateReadMiss, PREDICATE, Some(0)),
    row(A::StrongPl1CycleExists, ALL, Some(0)),
    row(A::StrongPl2CycleExists, ALL, Some(0)),
    row(A::StrongSessionPl1CycleExists, ALL, Some(0)),
    row(A::StrongSessionPl2CycleExists, ALL, Some(0)),
    row(A::StrongSessionSerializableCycleExists, ALL, Some(0)),
    row(A::StrongSessionSnapshotIsolationCycleExists, ALL, Some(0)),
    row(A::StrongSnapshotIsolationCycleExists, ALL, Some(0)),
    row(A::GNonadjacentItem, ALL, Some(1)),
    row(A::GSingleItemProcess, ALL, Some(1)),
    row(A::G1a, ITEM, Some(1)),
    row(A::G1c, ALL, Some(1)),
    row(A::WriteSkew, NO_CHECKER, Some(1)),
    row(A::GNonadjacentItemProcess, ALL, Some(2)),
    row(A::GSingle, PREDICATE, Some(2)),
    row(A::GSingleItemRealtime, ALL, Some(2)),
    row(A::G1, NO_CHECKER, Some(2)),
    row(A::G2Item, ALL, Some(2)),
    row(A::GNonadjacent, PREDICATE, Some(3)),
    row(A::GNonadjacentItemRealtime, ALL, Some(3)),
    row(A::Gsib, NO_CHECKER, Some(3)),
    row(A::G2, PREDICATE, Some(4)),
    row(A::Gsi, NO_CHECKER, Some(4)),
    row(A::G0Process, ALL, Some(5)),
    row(A::G1cProcess, ALL, Some(6)),
    row(A::GSingleProcess, PREDICATE, Some(7)),
    row(A::G1Process, NO_CHECKER, Some(7)),
    row(A::G2ItemProcess, ALL, Some(7)),
    row(A::GNonadjacentProcess, PREDICATE, Some(8)),
    row(A::G2Process, PREDICATE, Some(9)),
    row(A::G0Realtime, ALL, Some(10)),
    row(A::G1cRealtime, ALL, Some(11)),
    row(A::GSingleRealtime, PREDICATE, Some(12)),
    row(A::G1Realtime, NO_CHECKER, Some(12)),
    row(A::G2ItemRealtime, ALL, Some(12)),
    row(A::GNonadjacentRealtime, PREDICATE, Some(13)),
    row(A::G2Realtime, PREDICATE, Some(14)),
    row(A::EmptyTransactionGraph, ALL, None),
    row(A::CycleSearchTimeout, ALL, None),
];
