//! Levels: the questions one asks about a level. Names are in `canonical.rs`, rows in `weak.rs`,
//! `canonical.rs` and, for Elle's further models, `further.rs`.
//!
//! Implications and prohibitions are closed when the crate is compiled, so every question below is a few bit
//! operations. To add a level of a known family, edit `canonical.rs` alone: its name, its row at the same
//! position, and the name of the anomaly "no order satisfies it".

pub(crate) mod canonical;
mod family;
mod further;
mod weak;

use crate::anomaly::AnomalyKind;
use crate::names::{did_you_mean, nearest, normalise, transitive};
use std::fmt;
use std::str::FromStr;

pub use canonical::Level;
pub use family::{Bound, Family, Graph, Visible};

/// One row of the table: everything Anomalist knows about a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelInfo {
    /// The level.
    pub level: Level,
    /// Its one name.
    pub name: &'static str,
    /// Other spellings that are understood, in lower case.
    pub aliases: &'static [&'static str],
    /// Its row of the ladder, as a title: levels that differ only in what their order must respect share
    /// one, and so do the session guarantees. The column is its [bound](LevelInfo::bound).
    pub rung: &'static str,
    /// The order of transactions in a session binds it.
    pub session_order: bool,
    /// The order of transactions in real time binds it.
    pub real_time: bool,
    /// Known by name only: nothing here defines it, so unless an implication decides it its verdict is
    /// unknown.
    pub name_only: bool,
    /// Elle's canonical name (`PL-2`), where Elle has a model with this meaning.
    pub elle_name: Option<&'static str>,
    /// What it promises.
    pub definition: &'static str,
    /// Where the definition comes from.
    pub source: &'static str,
    /// Where the letter of Plume's paper differs, if it does.
    pub in_plume: Option<&'static str>,
    /// The levels it implies directly; [`Level::implies`] is the closure.
    pub implies: &'static [Level],
    /// The anomalies that it forbids itself, beyond those of the levels it implies; [`Level::forbids`] is
    /// the closure.
    pub forbids: &'static [AnomalyKind],
    /// The kind of order it asks for, which says what engines decide it; none for Elle's further models and
    /// for what is decided as another level.
    pub family: Option<Family>,
    /// The graph of dependencies that decides it where the order of versions is known.
    pub graph: Option<Graph>,
    /// The level that it is on histories without predicates, if that is another.
    pub without_predicates: Option<Level>,
    /// The kind of anomaly that says no more than that no order satisfies it.
    pub no_order: Option<AnomalyKind>,
    /// weakdb's explorer runs programs at it.
    pub explored: bool,
    /// A small history that satisfies it, in the testkit's language: `||` between sessions, `;` between
    /// transactions.
    pub example_accepts: Option<&'static str>,
    /// A small history that violates it.
    pub example_rejects: Option<&'static str>,
}

impl LevelInfo {
    /// An empty row; tables fill in the rest with `..LevelInfo::row(level)`.
    const fn row(level: Level) -> LevelInfo {
        LevelInfo {
            level,
            name: level.name(),
            aliases: &[],
            rung: level.name(),
            session_order: false,
            real_time: false,
            name_only: false,
            elle_name: None,
            definition: "",
            source: "",
            in_plume: None,
            implies: &[],
            forbids: &[],
            family: None,
            graph: None,
            without_predicates: None,
            no_order: None,
            explored: false,
            example_accepts: None,
            example_rejects: None,
        }
    }
}

const COUNT: usize = Level::ALL.len();

/// How many levels Anomalist decides.
const DECIDED: usize = weak::TABLE.len() + canonical::TABLE.len();

const fn row(index: usize) -> &'static LevelInfo {
    let first = weak::TABLE.len();
    if index < first {
        &weak::TABLE[index]
    } else if index < DECIDED {
        &canonical::TABLE[index - first]
    } else {
        &further::TABLE[index - DECIDED]
    }
}

/// For each level the set of levels it implies, itself included.
static IMPLIED: [u128; COUNT] = {
    let (mut rows, mut i) = ([0; COUNT], 0);
    while i < COUNT {
        rows[i] = 1 << i | Level::bits(row(i).implies);
        i += 1;
    }
    transitive(rows)
};

/// For each level the set of anomalies it forbids.
static FORBIDDEN: [u128; COUNT] = {
    let (mut rows, mut level) = ([0; COUNT], 0);
    while level < COUNT {
        let (mut direct, mut weaker) = (0, 0);
        while weaker < COUNT {
            if IMPLIED[level] >> weaker & 1 == 1 {
                direct |= AnomalyKind::bits(row(weaker).forbids);
            }
            weaker += 1;
        }
        // Levels by timestamps do not inherit: serializable places a transaction at its commit and so never
        // sees NOCONFLICT, although snapshot isolation, which it implies by values, forbids it.
        let stamps = AnomalyKind::STAMPS & AnomalyKind::bits(row(level).forbids);
        rows[level] = AnomalyKind::all_implying(direct & !AnomalyKind::STAMPS) | stamps;
        level += 1;
    }
    rows
};

/// How many levels weakdb's explorer runs programs at.
const EXPLORED: usize = {
    let (mut count, mut i) = (0, 0);
    while i < COUNT {
        count += row(i).explored as usize;
        i += 1;
    }
    count
};

impl Level {
    /// The levels at which weakdb's explorer runs programs, weakest first.
    pub const EXPLORED: &'static [Level] = &{
        let (mut levels, mut count, mut i) = ([Level::ALL[0]; EXPLORED], 0, 0);
        while i < COUNT {
            if row(i).explored {
                levels[count] = Level::ALL[i];
                count += 1;
            }
            i += 1;
        }
        levels
    };

    /// The levels that Anomalist decides, weakest first.
    pub const CANONICAL: &'static [Level] = Level::ALL.split_at(DECIDED).0;

    /// Its row of the table.
    pub fn info(self) -> &'static LevelInfo {
        row(self.index())
    }

    /// Whether every history that satisfies `self` satisfies `other`. Reflexive and transitive.
    ///
    /// This is about levels decided by values. By timestamps a level is a statement about stamps as well,
    /// and none follows from another.
    pub fn implies(self, other: Level) -> bool {
        IMPLIED[self.index()] & other.bit() != 0
    }

    /// Every level it implies, itself included, in the order of the table.
    pub fn implied(self) -> impl Iterator<Item = Level> {
        Level::ALL.iter().copied().filter(move |&other| self.implies(other))
    }

    /// Whether a history with this anomaly cannot satisfy the level: it, or a level it implies, forbids the
    /// anomaly or one that the anomaly implies. The codes of the timestamp check (EXT, NOCONFLICT …) are
    /// not inherited.
    pub fn forbids(self, kind: AnomalyKind) -> bool {
        FORBIDDEN[self.index()] & kind.bit() != 0
    }

    /// Whether it is one of [`Level::CANONICAL`].
    pub fn is_canonical(self) -> bool {
        self.index() < Level::CANONICAL.len()
    }

    /// The weakest of `levels`: those that imply no other of them. Keeps the order, drops repetitions.
    pub fn weakest(levels: &[Level]) -> Vec<Level> {
        extremes(levels, |level, other| level.implies(other))
    }

    /// The strongest of `levels`: those that no other of them implies. Keeps the order, drops repetitions.
    pub fn strongest(levels: &[Level]) -> Vec<Level> {
        extremes(levels, |level, other| other.implies(level))
    }
}

/// The elements that no other element of `levels` beats.
pub(crate) fn extremes(levels: &[Level], beaten: impl Fn(Level, Level) -> bool) -> Vec<Level> {
    let mut kept = Vec::new();
    for &level in levels {
        if !kept.contains(&level) && !levels.iter().any(|&other| other != level && beaten(level, other)) {
            kept.push(level);
        }
    }
    kept
}

/// No level has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLevel {
    /// What was given.
    pub input: String,
    /// Names it may have meant, nearest first; at most three.
    pub suggestions: Vec<&'static str>,
}

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown level `{}`{}", self.input, did_you_mean(&self.suggestions))
    }
}

impl std::error::Error for UnknownLevel {}

impl FromStr for Level {
    type Err = UnknownLevel;

    /// By name or alias; case does not matter, and `_` or a space may stand for the hyphen.
    fn from_str(typed: &str) -> Result<Level, UnknownLevel> {
        let wanted = normalise(typed);
        let known =
            |level: &&Level| level.name() == wanted || level.info().aliases.contains(&wanted.as_str());
        if let Some(&level) = Level::ALL.iter().find(known) {
            return Ok(level);
        }
        let spellings = Level::ALL.iter().flat_map(|level| {
            std::iter::once(level.name())
                .chain(level.info().aliases.iter().copied())
                .map(|spelling| (spelling, level.name()))
        });
        Err(UnknownLevel { input: typed.to_owned(), suggestions: nearest(typed, spellings) })
    }
}
