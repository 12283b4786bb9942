//! What broke a level.

use anomalist_graph::Cycle;
use anomalist_history::{FaultKind, KeyId};

/// What broke a level, and when. Transactions are numbered from 0 as they arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The transaction whose arrival showed it.
    pub step: u32,
    /// What it is.
    pub why: Why,
}

/// Why no execution explains what was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Why {
    /// A read that no execution explains.
    Read {
        /// The reader.
        reader: u32,
        /// What is wrong with the read.
        kind: FaultKind,
        /// The key.
        key: KeyId,
    },
    /// Each of these transactions must come before the next, and the last before the first.
    Cycle(Vec<Link>),
    /// A transaction read the initial state although it could see a later version.
    Overlooked {
        /// The reader.
        reader: u32,
        /// Who wrote the version.
        writer: u32,
        /// The key.
        key: KeyId,
    },
    /// Two transactions read one version and both overwrote it.
    LostUpdate {
        /// The two.
        writers: [u32; 2],
        /// The key.
        key: KeyId,
    },
}

/// One transaction must come before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The earlier.
    pub from: u32,
    /// The later.
    pub to: u32,
    /// Why.
    pub because: Because,
}

/// Why one transaction must come before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Because {
    /// It comes earlier in their session.
    Session,
    /// It ended before the other began.
    RealTime,
    /// The other read its version of this key.
    Read(KeyId),
    /// Its version of this key is older.
    Version(KeyId),
    /// It read a version of this key that the other's replaced.
    Overwritten(KeyId),
    /// A transaction read the other's version of this key although it could see this one's.
    Overlooked(KeyId),
}

/// What an edge of a graph stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Label {
    /// A transaction begins before it commits.
    Inside,
    /// It follows from the recording.
    Known(Because),
    /// Of two appends to this list that no read shows, the one was chosen to be earlier.
    Chosen(KeyId),
}

/// A cycle of a graph in terms of transactions; nodes that stand for none are skipped.
pub(crate) fn links(cycle: &Cycle<Label>, step_of: impl Fn(u32) -> Option<u32>) -> Vec<Link> {
    let start = cycle.iter().position(|&(node, _)| step_of(node).is_some()).unwrap_or(0);
    let turned: Vec<(u32, Label)> = cycle[start..].iter().chain(&cycle[..start]).copied().collect();
    let Some(first) = turned.first().and_then(|&(node, _)| step_of(node)) else { return Vec::new() };
    let mut found = Vec::new();
    let (mut from, mut because) = (first, None);
    for (i, &(_, label)) in turned.iter().enumerate() {
        if let Label::Known(reason) = label {
            because = because.or(Some(reason));
        }
        let to = turned.get(i + 1).map_or(Some(first), |&(node, _)| step_of(node));
        if let (Some(to), Some(reason)) = (to, because)
            && to != from
        {
            found.push(Link { from, to, because: reason });
            (from, because) = (to, None);
        }
    }
    found
}
