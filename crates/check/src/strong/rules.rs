//! What levels ask, in the words of the search: which events a transaction has, what it must follow, how
//! its reads are looked at.
//!
//! Where transactions declare levels of their own, each follows the rules of its own level in one order of
//! all.

use anomalist_history::{FaultKind, TxnId};
use anomalist_level::{self as level, AnomalyKind, Definitions, Level, Point};

/// What kind of constraints a level makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    /// One event per transaction; each read sees the latest write before it.
    Serial,
    /// Two events; each read sees the latest commit before the begin.
    Prefix,
    /// As `Prefix`, and two writers of a key do not overlap.
    Snapshot,
    /// One event per transaction, standing for `so ∪ wr ∪ ww`; no read misses a write that these put
    /// between.
    Parallel,
    /// One event; transactions that write are serial, and dependencies among them never lead from what
    /// replaced a read of another transaction to something that it read (PL-3U).
    Updates,
    /// One event; whatever is visible to a read, in this sense, precedes what it returned.
    Visible(Visible),
    /// One event; reads follow what they returned (PL-2).
    Flow,
    /// One event; lists show an order (PL-1).
    Writes,
    /// No order at all: a transaction repeats its reads.
    Cut,
    /// Two events; every transaction has a family of its own. Those that need one event use that of the
    /// commit.
    Mixed,
}

/// What a weak level takes into account when a transaction reads (`docs/spec/levels.md` 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Visible {
    ReadCommitted,
    /// As Plume's RC-(4) has it: only by reads of other keys.
    ReadCommittedByOtherKeys,
    ReadAtomic,
    Causal,
    ReadYourWrites,
    MonotonicReads,
    MonotonicWrites,
    WritesFollowReads,
}

impl From<level::Visible> for Visible {
    fn from(visible: level::Visible) -> Visible {
        match visible {
            level::Visible::Causal => Visible::Causal,
            level::Visible::ReadAtomic => Visible::ReadAtomic,
            level::Visible::ReadCommitted => Visible::ReadCommitted,
            level::Visible::ReadYourWrites => Visible::ReadYourWrites,
            level::Visible::MonotonicReads => Visible::MonotonicReads,
            level::Visible::MonotonicWrites => Visible::MonotonicWrites,
            level::Visible::WritesFollowReads => Visible::WritesFollowReads,
        }
    }
}

/// A level's definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules<'a> {
    pub level: Level,
    pub family: Family,
    pub sessions: bool,
    pub real_time: bool,
    /// The kind of anomaly that says no more than that no order satisfies the level.
    pub no_order: AnomalyKind,
    /// The rules of each transaction, if they have their own.
    declared: Option<&'a [Rules<'static>]>,
}

impl<'a> Rules<'a> {
    /// Every transaction under its own rules.
    pub fn mixed(declared: &'a [Rules<'static>]) -> Rules<'a> {
        Rules {
            level: Level::ReadUncommitted,
            family: Family::Mixed,
            sessions: false,
            real_time: declared.iter().any(|own| own.real_time),
            no_order: AnomalyKind::Pl1CycleExists,
            declared: Some(declared),
        }
    }

    /// The same about a part of the history that has these transactions; `declared` is where their rules
    /// are kept.
    pub fn of_part(self, txns: &[TxnId], declared: &'a mut Vec<Rules<'static>>) -> Rules<'a> {
        match self.declared {
            None => self,
            Some(all) => {
                *declared = txns.iter().map(|t| all[t.index()]).collect();
                Rules { declared: Some(declared), ..self }
            }
        }
    }

    /// The rules that a transaction follows.
    #[inline]
    pub fn own(self, t: TxnId) -> Rules<'a> {
        match self.declared {
            None => self,
            Some(declared) => declared[t.index()],
        }
    }

    /// The rules of a level; `None` for levels that this engine does not decide.
    pub fn of(level: Level) -> Option<Rules<'static>> {
        let info = level.info();
        let family = match info.family? {
            level::Family::Serial => Family::Serial,
            level::Family::Snapshot => Family::Snapshot,
            level::Family::Prefix => Family::Prefix,
            level::Family::Parallel => Family::Parallel,
            level::Family::Updates => Family::Updates,
            level::Family::Visible(visible) => Family::Visible(visible.into()),
            level::Family::Flow => Family::Flow,
            level::Family::Writes => Family::Writes,
            level::Family::Cut => Family::Cut,
        };
        let (sessions, real_time) = (info.session_order, info.real_time);
        Some(Rules { level, family, sessions, real_time, no_order: info.no_order?, declared: None })
    }

    /// The rules of a level by these definitions.
    pub fn by(level: Level, definitions: Definitions) -> Option<Rules<'static>> {
        let rules = Rules::of(level)?;
        let by_plume = definitions == Definitions::Plume;
        Some(match rules.family {
            Family::Visible(Visible::ReadCommitted) if by_plume => {
                Rules { family: Family::Visible(Visible::ReadCommittedByOtherKeys), ..rules }
            }
            _ => rules,
        })
    }

    /// Whether transactions may declare the level beside others. Levels that see versions have no order of
    /// commits to share.
    pub fn can_be_mixed(self) -> bool {
        !matches!(self.family, Family::Parallel | Family::Updates | Family::Mixed)
    }

    /// Two events per transaction.
    #[inline]
    pub fn is_split(self) -> bool {
        matches!(self.family, Family::Snapshot | Family::Prefix | Family::Mixed)
    }

    /// Readers come after what they read, and read only what is final.
    pub fn follows_reads(self) -> bool {
        !matches!(self.family, Family::Writes | Family::Cut)
    }

    /// Whether a transaction with such a read breaks the level, whatever the order.
    pub fn forbids(self, fault: FaultKind) -> bool {
        use FaultKind::{NotMyLastWrite, NotMyOwnWrite};
        match self.family {
            Family::Writes | Family::Cut => false,
            // PL-2 does not ask that a transaction reads its own writes.
            Family::Flow => !matches!(fault, NotMyOwnWrite | NotMyLastWrite),
            _ => true,
        }
    }

    /// Whether such a read still has to agree with the order, though the level forgives it: in PL-2 what it
    /// shows instead of an own write is a dependency, in PL-1 and PL-2 a list shows an order of versions.
    /// The search does not look at that.
    pub fn still_concerns(self, fault: FaultKind, of_list: bool) -> bool {
        match self.family {
            Family::Flow => !self.forbids(fault),
            Family::Writes => of_list,
            _ => false,
        }
    }

    /// All reads return the latest write before them.
    pub fn reads_latest(self) -> bool {
        matches!(self.family, Family::Serial | Family::Prefix | Family::Snapshot)
    }

    #[inline]
    pub fn begin(self, t: TxnId) -> u32 {
        if self.own(t).is_split() { 2 * t.0 } else { self.commit(t) }
    }

    /// From here to its commit no other transaction may write its keys.
    #[inline]
    pub fn guarded(self, t: TxnId) -> u32 {
        if self.own(t).family == Family::Snapshot { self.begin(t) } else { self.commit(t) }
    }

    #[inline]
    pub fn commit(self, t: TxnId) -> u32 {
        if self.is_split() { 2 * t.0 + 1 } else { t.0 }
    }

    /// Whose event a node is.
    #[inline]
    pub fn txn(self, node: u32) -> TxnId {
        TxnId(if self.is_split() { node / 2 } else { node })
    }

    pub fn point(self, node: u32) -> Point {
        if self.is_split() && node.is_multiple_of(2) {
            Point::Begin(self.txn(node))
        } else {
            Point::Commit(self.txn(node))
        }
    }
}
