//! Whose level is what: one for all, or each transaction its own.

use crate::definition::{Kind, definition, kind};
use anomalist_history::{History, TxnId};
use anomalist_level::Level;

/// The level of every transaction.
#[derive(Clone, Copy)]
pub(crate) enum Levels<'a> {
    /// The same for all.
    One(Level),
    /// By transaction.
    Declared(&'a [Level]),
}

impl Levels<'_> {
    pub fn of(self, t: TxnId) -> Level {
        match self {
            Levels::One(level) => level,
            Levels::Declared(levels) => levels[t.index()],
        }
    }

    pub fn is_mixed(self) -> bool {
        matches!(self, Levels::Declared(_))
    }

    /// Whether real time matters to any level.
    pub fn real_time(self) -> bool {
        match self {
            Levels::One(level) => keeps_real_time(level),
            Levels::Declared(levels) => levels.iter().any(|&level| keeps_real_time(level)),
        }
    }

    /// Whether there is no order at all: each transaction is judged by itself.
    pub fn have_no_order(self) -> bool {
        match self {
            Levels::One(level) => kind(level) == Some(Kind::Cut),
            Levels::Declared(_) => false,
        }
    }
}

/// Whether real time matters to a level.
pub(crate) fn keeps_real_time(level: Level) -> bool {
    definition(level).is_some_and(|definition| definition.real_time)
}

/// Whether the order of sessions matters to a level.
pub(crate) fn keeps_sessions(level: Level) -> bool {
    definition(level).is_some_and(|definition| definition.sessions)
}

/// The levels that transactions declare in their metadata; any transaction that declares nothing promises
/// nothing. `None`: no transaction does, or one declares what is no level.
pub(crate) fn declared(history: &History) -> Option<Vec<Level>> {
    let mut levels = vec![Level::ReadUncommitted; history.txn_count()];
    let mut any = false;
    for (t, facts) in history.metadata() {
        if let Some(name) = facts.get("level") {
            levels[t.index()] = name.parse().ok()?;
            any = true;
        }
    }
    any.then_some(levels)
}
