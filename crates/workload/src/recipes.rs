//! The anomalies as tiny scripts, after Plume's Figure 3, Adya and Chronos.
//!
//! `Ok(0, &[W(X, 1), R(Y, 2)])` is a transaction of the script's session 0 that writes 1 to `x` and reads 2
//! from `y`. Keys are fresh; values stand for unique ones, 0 for the initial value. Turns are in commit
//! order, one after another in time; `At` sets start and commit timestamps instead. For lists a write is an
//! append, and a read of `v` is the list up to `v`, unless a script of its own (with `L`) says otherwise.
//!
//! To add an anomaly: one variant in `inject.rs`, one row here.

use crate::inject::Injection;

/// One operation of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Key, value read.
    R(usize, u8),
    /// Key, value written or appended.
    W(usize, u8),
    /// Key, list read.
    L(usize, &'static [u8]),
}

/// One transaction of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    /// Session, operations; commits.
    Ok(u32, &'static [Step]),
    /// Session, operations; aborts.
    Fail(u32, &'static [Step]),
    /// Session, start, commit, operations; commits.
    At(u32, u64, u64, &'static [Step]),
}

impl Turn {
    pub fn session(&self) -> u32 {
        let (Turn::Ok(session, _) | Turn::Fail(session, _) | Turn::At(session, ..)) = self;
        *session
    }

    pub fn steps(&self) -> &'static [Step] {
        let (Turn::Ok(_, steps) | Turn::Fail(_, steps) | Turn::At(_, _, _, steps)) = self;
        steps
    }

    pub fn aborted(&self) -> bool {
        matches!(self, Turn::Fail(..))
    }
}

/// What a history must have for an anomaly to be possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    Nothing,
    Timestamps,
    Lists,
}

pub(crate) struct Recipe {
    pub injection: Injection,
    /// The name first, then what else it is called.
    pub names: &'static [&'static str],
    pub needs: Needs,
    pub turns: &'static [Turn],
    /// Another script for lists; empty if the first serves.
    pub lists: &'static [Turn],
}

/// The keys of a script.
pub(crate) const X: usize = 0;
const Y: usize = 1;
const Z: usize = 2;
/// How many keys scripts have.
pub(crate) const KEYS: usize = 3;
/// Values of scripts are below this.
pub(crate) const VALUES: usize = 10;

use Injection::*;
use Needs::{Lists, Nothing, Timestamps};
use Step::{L, R, W};
use Turn::{At, Fail, Ok};

const fn row(
    injection: Injection,
    names: &'static [&'static str],
    needs: Needs,
    turns: &'static [Turn],
) -> Recipe {
    Recipe { injection, names, needs, turns, lists: &[] }
}

const ABORTED_READ: &[Turn] = &[Fail(0, &[W(X, 1)]), Ok(1, &[R(X, 1)])];
const INTERMEDIATE_READ: &[Turn] = &[Ok(0, &[W(X, 1), W(X, 2)]), Ok(1, &[R(X, 1)])];
const MUTUAL_READS: &[Turn] = &[Ok(0, &[R(Y, 1), W(X, 1)]), Ok(1, &[R(X, 1), W(Y, 1)])];
const OTHERS_READ: &[Turn] = &[Ok(0, &[W(X, 1)]), Ok(1, &[W(X, 2), R(X, 1)])];
const TWO_WRITERS: [Turn; 2] = [Ok(0, &[W(X, 1), W(Y, 1)]), Ok(1, &[W(X, 2), W(Z, 2)])];

/// All recipes.
pub(crate) const RECIPES: [Recipe; 31] = [
    row(Tap('a'), &["TAP-a", "thin-air-read"], Nothing, &[Ok(0, &[R(X, 9)])]),
    row(Tap('b'), &["TAP-b", "aborted-read"], Nothing, ABORTED_READ),
    row(Tap('c'), &["TAP-c", "future-read"], Nothing, &[Ok(0, &[R(X, 1), W(X, 1)])]),
    row(Tap('d'), &["TAP-d", "not-my-own-write"], Nothing, OTHERS_READ),
    row(Tap('e'), &["TAP-e", "not-my-last-write"], Nothing, &[Ok(0, &[W(X, 1), W(X, 2), R(X, 1)])]),
    row(Tap('f'), &["TAP-f", "intermediate-read"], Nothing, INTERMEDIATE_READ),
    row(Tap('g'), &["TAP-g", "cyclic-co"], Nothing, MUTUAL_READS),
    // x 1 is older than x 2 (same session); the reader has seen the transaction of x 2 by reading its y.
    row(
        Tap('h'),
        &["TAP-h", "non-mono-read-co"],
        Nothing,
        &[Ok(0, &[W(X, 1)]), Ok(0, &[W(X, 2), W(Y, 1)]), Ok(1, &[R(Y, 1), R(X, 1)])],
    ),
    // One reader puts x 1 before x 2, the other x 2 before x 1.
    row(
        Tap('i'),
        &["TAP-i", "non-mono-read-cm"],
        Nothing,
        &[TWO_WRITERS[0], TWO_WRITERS[1], Ok(2, &[R(Y, 1), R(X, 2)]), Ok(3, &[R(Z, 2), R(X, 1)])],
    ),
    row(
        Tap('j'),
        &["TAP-j", "non-repeatable-read"],
        Nothing,
        &[Ok(0, &[W(X, 1)]), Ok(1, &[W(X, 2)]), Ok(2, &[R(X, 1), R(X, 2)])],
    ),
    // As h and i, but the stale read comes first: fine at read committed.
    row(
        Tap('k'),
        &["TAP-k", "fractured-read-co", "fractured-read"],
        Nothing,
        &[Ok(0, &[W(X, 1)]), Ok(0, &[W(X, 2), W(Y, 1)]), Ok(1, &[R(X, 1), R(Y, 1)])],
    ),
    row(
        Tap('l'),
        &["TAP-l", "fractured-read-cm"],
        Nothing,
        &[TWO_WRITERS[0], TWO_WRITERS[1], Ok(2, &[R(X, 2), R(Y, 1)]), Ok(3, &[R(X, 1), R(Z, 2)])],
    ),
    // As k and l, but the newer x is known only through a third transaction: fine at read atomic.
    row(
        Tap('m'),
        &["TAP-m", "co-conflict-cm", "causality-violation"],
        Nothing,
        &[Ok(0, &[W(X, 1)]), Ok(0, &[W(X, 2)]), Ok(0, &[W(Y, 1)]), Ok(1, &[R(Y, 1), R(X, 1)])],
    ),
    row(
        Tap('n'),
        &["TAP-n", "conflict-cm"],
        Nothing,
        &[
            Ok(0, &[W(X, 1)]),
            Ok(0, &[W(Y, 1)]),
            Ok(1, &[W(X, 2)]),
            Ok(1, &[W(Z, 1)]),
            Ok(2, &[R(Y, 1), R(X, 2)]),
            Ok(3, &[R(Z, 1), R(X, 1)]),
        ],
    ),
    row(
        LostUpdate,
        &["lost-update", "P4"],
        Nothing,
        &[
            At(0, 1, 2, &[W(X, 1)]),
            At(1, 3, 5, &[R(X, 1), W(X, 2)]),
            At(2, 4, 6, &[R(X, 1), W(X, 3)]),
            At(0, 7, 8, &[R(X, 3)]),
        ],
    ),
    row(
        WriteSkew,
        &["write-skew", "G2-item", "G2", "A5B"],
        Nothing,
        &[
            At(0, 1, 2, &[W(X, 1), W(Y, 1)]),
            At(1, 3, 5, &[R(X, 1), R(Y, 1), W(X, 2)]),
            At(2, 4, 6, &[R(X, 1), R(Y, 1), W(Y, 2)]),
            At(0, 7, 8, &[R(X, 2), R(Y, 2)]),
        ],
    ),
    row(
        LongFork,
        &["long-fork", "G-nonadjacent"],
        Nothing,
        &[
            At(0, 1, 2, &[W(X, 1)]),
            At(1, 3, 6, &[W(Y, 1)]),
            At(2, 4, 5, &[R(X, 1), R(Y, 0)]),
            At(3, 7, 8, &[R(X, 0), R(Y, 1)]),
        ],
    ),
    row(
        ReadSkew,
        &["read-skew", "G-single", "A5A"],
        Nothing,
        &[
            Ok(0, &[W(X, 1), W(Y, 1)]),
            Ok(1, &[R(X, 1), R(Y, 1), W(X, 2), W(Y, 2)]),
            Ok(2, &[R(X, 1), R(Y, 2)]),
        ],
    ),
    // Registers show it to those who trust a session's reads to be in version order.
    Recipe {
        lists: &[
            At(0, 1, 3, &[W(X, 1), W(Y, 1)]),
            At(1, 2, 4, &[W(X, 2), W(Y, 2)]),
            At(2, 5, 6, &[L(X, &[1, 2]), L(Y, &[2, 1])]),
        ],
        ..row(
            G0,
            &["G0", "dirty-write", "P0"],
            Nothing,
            &[
                At(0, 1, 3, &[W(X, 1), W(Y, 1)]),
                At(1, 2, 4, &[W(X, 2), W(Y, 2)]),
                At(2, 5, 6, &[R(X, 1), R(Y, 2)]),
                At(2, 7, 8, &[R(X, 2), R(Y, 1)]),
            ],
        )
    },
    row(G1a, &["G1a", "dirty-read"], Nothing, ABORTED_READ),
    row(G1b, &["G1b"], Nothing, INTERMEDIATE_READ),
    row(G1c, &["G1c", "circular-information-flow"], Nothing, MUTUAL_READS),
    row(
        SessionOrder,
        &["session-order", "stale-own-write"],
        Nothing,
        &[Ok(0, &[W(X, 1)]), Ok(0, &[W(X, 2)]), Ok(0, &[R(X, 1)])],
    ),
    row(ClockSkew, &["clock-skew", "TIMESTAMP"], Timestamps, &[At(0, 2, 1, &[W(X, 1)])]),
    row(
        Session,
        &["SESSION", "session-timestamps"],
        Timestamps,
        &[At(0, 1, 3, &[W(X, 1)]), At(0, 2, 4, &[W(Y, 1)])],
    ),
    row(Int, &["INT", "internal"], Nothing, OTHERS_READ),
    row(Ext, &["EXT", "external"], Timestamps, &[Ok(0, &[W(X, 1)]), Ok(1, &[W(X, 2)]), Ok(2, &[R(X, 1)])]),
    row(
        NoConflict,
        &["NOCONFLICT", "conflict"],
        Timestamps,
        &[At(0, 1, 3, &[W(X, 1)]), At(1, 2, 4, &[W(X, 2)])],
    ),
    row(
        IncompatibleOrder,
        &["incompatible-order"],
        Lists,
        &[Ok(0, &[W(X, 1)]), Ok(1, &[W(X, 2)]), Ok(2, &[L(X, &[1, 2])]), Ok(3, &[L(X, &[2, 1])])],
    ),
    row(
        DuplicateElement,
        &["duplicate-elements", "duplicate-element"],
        Lists,
        &[Ok(0, &[W(X, 1)]), Ok(1, &[L(X, &[1, 1])])],
    ),
    Recipe {
        lists: &[Fail(0, &[W(X, 1)]), Ok(1, &[W(X, 2)]), Ok(2, &[L(X, &[1, 2])])],
        ..row(
            DirtyUpdate,
            &["dirty-update"],
            Nothing,
            &[Fail(0, &[W(X, 1)]), Ok(1, &[R(X, 1), W(X, 2)]), Ok(2, &[R(X, 2)])],
        )
    },
];
