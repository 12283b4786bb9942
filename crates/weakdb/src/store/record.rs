//! The history a store has produced, for `anomalist check`.
//!
//! Clients write equal values, but the store knows who read from whom; so every write is recorded with a
//! number of its own, and a read with the number of the write it returned. Initial values are 0.

use super::base::{Base, KeyId, Seq};
use super::choice::TxnName;
use anomalist_history::{Builder, History, OpKind, Outcome, TooLarge};
use anomalist_level::Level;
use rustc_hash::FxHashMap;
use std::fmt::Write;
use std::sync::Arc;

/// An operation as it is kept until the transaction ends, and then in the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Logged {
    /// Of a value that another transaction wrote.
    Read(KeyId, Seq),
    /// Of the transaction's own value.
    ReadOwn(KeyId),
    Write(KeyId),
}

/// A transaction that ended.
pub(crate) struct Ended {
    pub name: TxnName,
    pub ops: Vec<Logged>,
    pub outcome: Outcome,
    /// Its place, if it wrote and committed.
    pub seq: Option<Seq>,
}

/// Transactions in the order in which they ended.
#[derive(Default)]
pub(crate) struct Record {
    pub ended: Vec<Ended>,
}

impl Record {
    pub fn history(&self, base: &Base, sessions: &[Arc<str>], level: Level) -> Result<History, TooLarge> {
        let mut b = Builder::new();
        let zero = b.int(0);
        b.set_initial_default(Some(zero));
        // The last write of each key by each writer, by its number.
        let mut last: FxHashMap<(Seq, KeyId), i64> = FxHashMap::default();
        let mut number = 0;
        for txn in &self.ended {
            for op in &txn.ops {
                if let Logged::Write(key) = *op {
                    number += 1;
                    if let Some(seq) = txn.seq {
                        last.insert((seq, key), number);
                    }
                }
            }
        }
        let mut number = 0;
        for txn in &self.ended {
            let name = &sessions[txn.name.session as usize];
            let label = b.atom(anomalist_history::AtomKind::Text, name);
            let session = b.session(label);
            let draft = b.transaction(session);
            b.set_outcome(draft, txn.outcome);
            b.set_metadata(draft, "level", level.name());
            let mut own: FxHashMap<KeyId, i64> = FxHashMap::default();
            for op in &txn.ops {
                let (kind, key, value) = match *op {
                    Logged::Write(key) => {
                        number += 1;
                        own.insert(key, number);
                        (OpKind::Write, key, number)
                    }
                    Logged::ReadOwn(key) => (OpKind::Read, key, own.get(&key).copied().unwrap_or(0)),
                    Logged::Read(key, source) => {
                        (OpKind::Read, key, last.get(&(source, key)).copied().unwrap_or(0))
                    }
                };
                let label = b.atom(anomalist_history::AtomKind::Text, base.name(key));
                let (key, value) = (b.key(label), b.int(value));
                b.op(draft, kind, key, value);
            }
        }
        b.finish()
    }

    /// See [`Store::fingerprint`](super::Store::fingerprint).
    pub fn fingerprint(&self, base: &Base, order: Order) -> String {
        let mut ended: Vec<&Ended> = self.ended.iter().collect();
        ended.sort_by_key(|e| e.name);
        let mut text = String::new();
        let name = |seq: Seq| base.writer(seq);
        for txn in ended {
            // Writing to a text does not fail.
            let _ = write!(text, "{}{:?}", txn.name, txn.outcome);
            for op in &txn.ops {
                let _ = match *op {
                    Logged::Read(key, source) => match name(source) {
                        None => write!(text, " r{}", base.name(key)),
                        Some(writer) => write!(text, " r{}<{writer}", base.name(key)),
                    },
                    Logged::ReadOwn(key) => write!(text, " o{}", base.name(key)),
                    Logged::Write(key) => write!(text, " w{}", base.name(key)),
                };
            }
            text.push(';');
        }
        match order {
            Order::None => {}
            Order::Last => {
                for (key, last) in base.last_writers() {
                    let _ = name(last).map(|writer| write!(text, " {key}<{writer}"));
                }
            }
            Order::All => {
                for writer in base.writers() {
                    let _ = write!(text, " {writer}");
                }
            }
        }
        text
    }
}

/// How much of the order of commits can matter to what comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    None,
    /// Who wrote each key last.
    Last,
    All,
}
