//! Histories as the papers have them: sessions of transactions of operations, outcomes, and optionally
//! times.
//!
//! The model is that of Plume's Definitions 1 and 2 and MonkeyDB's Definitions 3.1 and 3.2, *before* a
//! write-read relation is chosen: which write a read saw is not part of what a client observes. Aborted
//! and indeterminate transactions are kept, because a read may have seen them.

use std::fmt;

/// A value of a register, or an element of a list; `None` is nil (a deleted or absent row).
pub type Atom = Option<i32>;

/// A key: its place in [`History::kinds`].
pub type Key = usize;

/// What a key holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A value that writes replace; [`History::initial`] before the first.
    Register,
    /// A list that appends extend; empty before the first.
    List,
}

/// What a read returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The value of a register.
    Atom(Atom),
    /// The elements of a list.
    List(Vec<Atom>),
}

/// An operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Returned a value.
    Read(Key, Seen),
    /// Replaced the value of a register.
    Write(Key, Atom),
    /// Added an element to the end of a list.
    Append(Key, Atom),
}

impl Op {
    /// The key it touches.
    pub fn key(&self) -> Key {
        match *self {
            Op::Read(key, _) | Op::Write(key, _) | Op::Append(key, _) => key,
        }
    }
}

/// What became of a transaction, as far as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It took effect.
    Committed,
    /// It took no effect.
    Aborted,
    /// It took effect or it did not.
    Indeterminate,
}

/// A transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Txn {
    /// The session that issued it.
    pub session: usize,
    /// Its operations in program order.
    pub ops: Vec<Op>,
    /// What became of it.
    pub outcome: Outcome,
    /// When the client issued it and when the client learnt that it was over, if ever.
    pub interval: (u64, Option<u64>),
    /// Start and commit timestamps.
    pub stamps: (i64, i64),
}

/// What clients observed. Transactions of a session stand in the order in which the session issued them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    /// The transactions: at most [`History::MOST`].
    pub txns: Vec<Txn>,
    /// What each key holds.
    pub kinds: Vec<Kind>,
    /// The value of every register before the first write.
    pub initial: Atom,
    /// The intervals of the transactions count.
    pub has_intervals: bool,
    /// The timestamps of the transactions count.
    pub has_stamps: bool,
}

impl History {
    /// The largest number of transactions: sets of them are bits of a byte.
    pub const MOST: usize = 8;

    /// Number of operations.
    pub fn op_count(&self) -> usize {
        self.txns.iter().map(|t| t.ops.len()).sum()
    }

    /// Whether `a` and `b` are of one session, `a` issued first.
    pub fn issued_before(&self, a: usize, b: usize) -> bool {
        a < b && self.txns[a].session == self.txns[b].session
    }

    /// Whether `a` was over before `b` began.
    pub fn over_before(&self, a: usize, b: usize) -> bool {
        self.has_intervals && self.txns[a].interval.1.is_some_and(|end| end < self.txns[b].interval.0)
    }
}

fn atom(f: &mut fmt::Formatter<'_>, atom: Atom) -> fmt::Result {
    match atom {
        None => f.write_str("nil"),
        Some(value) => write!(f, "{value}"),
    }
}

const NAMES: &[u8] = b"xyzuvw";

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (letter, key) = match self {
            Op::Read(key, _) => ('r', key),
            Op::Write(key, _) => ('w', key),
            Op::Append(key, _) => ('a', key),
        };
        write!(f, "{letter}({},", char::from(NAMES[key % NAMES.len()]))?;
        match self {
            Op::Read(_, Seen::List(list)) => {
                f.write_str("[")?;
                for (i, &element) in list.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { " " })?;
                    atom(f, element)?;
                }
                f.write_str("]")?;
            }
            Op::Read(_, Seen::Atom(value)) | Op::Write(_, value) | Op::Append(_, value) => atom(f, *value)?,
        }
        f.write_str(")")
    }
}

impl fmt::Display for History {
    /// In the mini-language of `crates/testkit`, with `nil`, and `@` before intervals and `#` before
    /// timestamps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("init=")?;
        atom(f, self.initial)?;
        f.write_str(": ")?;
        for (i, txn) in self.txns.iter().enumerate() {
            let again = i > 0 && self.txns[i - 1].session == txn.session;
            f.write_str(match (i, again) {
                (0, _) => "",
                (_, true) => "; ",
                (_, false) => " || ",
            })?;
            for (j, op) in txn.ops.iter().enumerate() {
                write!(f, "{}{op}", if j == 0 { "" } else { " " })?;
            }
            f.write_str(if txn.ops.is_empty() { "nop" } else { "" })?;
            f.write_str(match txn.outcome {
                Outcome::Committed => "",
                Outcome::Aborted => " !abort",
                Outcome::Indeterminate => " !info",
            })?;
            if self.has_intervals {
                match txn.interval {
                    (from, Some(to)) => write!(f, " @{from}-{to}")?,
                    (from, None) => write!(f, " @{from}-")?,
                }
            }
            if self.has_stamps {
                write!(f, " #{}-{}", txn.stamps.0, txn.stamps.1)?;
            }
        }
        Ok(())
    }
}
