//! What the caller assumes about the versions of keys: flags, and the file of a transaction order.

use crate::exit::Failure;
use crate::load;
use anomalist_check::Inference;
use anomalist_format::PathName;
use anomalist_history::{History, TxnId};
use clap::Args;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Assumptions about the order in which keys were written. A wrong one gives wrong answers, or shows as
/// cyclic-versions.
#[derive(Args, Clone, Debug, Default)]
pub struct InferenceFlags {
    /// Assume: a transaction that reads a key and then writes it writes a later version
    #[arg(long)]
    wfr_keys: bool,
    /// Assume: each key by itself is sequentially consistent
    #[arg(long)]
    sequential_keys: bool,
    /// Assume: each key by itself is linearizable
    #[arg(long)]
    linearizable_keys: bool,
    /// Assume that registers were written in the order of this file: a transaction's name per line, then if
    /// you like its number
    #[arg(long, value_name = "FILE")]
    transaction_order: Option<PathBuf>,
    /// Assume that registers were written in the order of the version numbers that the database gave
    /// (format anomalist)
    #[arg(long)]
    version_numbers: bool,
    /// Judge by values with the database's timestamps for order: registers were written in the order of
    /// commits, and a transaction that committed before another started precedes it (instead of real time)
    #[arg(long)]
    timestamp_order: bool,
}

impl InferenceFlags {
    /// The history with the database's clock for real time, if that is wanted.
    pub fn timed(&self, history: anomalist::History) -> Result<anomalist::History, Failure> {
        match self.timestamp_order {
            true if history.transactions().stamps().is_none() => {
                Err(Failure::input("the history has no timestamps; leave out --timestamp-order"))
            }
            true => Ok(history.timed_by_stamps()),
            false => Ok(history),
        }
    }

    /// The assumptions about a history.
    pub fn of(&self, history: &History) -> Result<Inference, Failure> {
        let transaction_order = match &self.transaction_order {
            Some(file) => read_order(file, history)?,
            None => BTreeMap::new(),
        };
        Ok(Inference {
            writes_follow_reads: self.wfr_keys,
            sequential_keys: self.sequential_keys,
            linearizable_keys: self.linearizable_keys,
            commit_stamps: self.timestamp_order,
            version_numbers: self.numbered(history)?,
            transaction_order,
        })
    }
}

impl InferenceFlags {
    fn numbered(&self, history: &History) -> Result<bool, Failure> {
        if self.version_numbers && !history.has_versions() {
            return Err(Failure::input("the history has no version numbers; leave out --version-numbers"));
        }
        Ok(self.version_numbers)
    }
}

fn read_order(file: &Path, history: &History) -> Result<BTreeMap<TxnId, i64>, Failure> {
    let problem = |line: usize, what: String| Failure::input(format!("{}:{line}: {what}", file.shown()));
    let text = load::small_text(file)?;
    let names: HashMap<String, TxnId> = history.txns().map(|t| (history.raw_name(t), t)).collect();
    let mut order = BTreeMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        let mut words = text.split_whitespace();
        let Some(name) = words.next() else { continue };
        let txn =
            *names.get(name).ok_or_else(|| problem(line, format!("no transaction is called {name}")))?;
        let number = match words.next() {
            Some(word) => {
                word.parse().map_err(|_| problem(line, format!("expected a number, found {word}")))?
            }
            None => line as i64,
        };
        if order.insert(txn, number).is_some() {
            return Err(problem(line, format!("{name} is here twice")));
        }
    }
    Ok(order)
}
