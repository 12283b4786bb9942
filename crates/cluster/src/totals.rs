//! What is counted while the input is read, and what a part must know of the whole.

use crate::error::Error;
use anomalist_format::shard::Whole;
use anomalist_format::{Diagnostic, Format, Place};
use anomalist_history::Outcome;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// What a worker counted; the sum is the whole's.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub transactions: u64,
    pub aborted: u64,
    pub indeterminate: u64,
    pub operations: u64,
    /// Transactions with timestamps.
    pub stamped: u64,
    /// Transactions that did not abort and have no timestamps; those with a commit and no start; those
    /// without a number in their session.
    pub unstamped: u64,
    pub without_start: u64,
    pub unnumbered: u64,
    /// Some snapshot is a set.
    pub sets: bool,
    /// Some key is a list; some key is a register.
    pub shows: [bool; 2],
    /// Lines that say what keys hold at first, by number.
    pub headers: Vec<(u64, String)>,
    /// A header announced an end marker.
    pub announced: bool,
    /// The transactions that end markers count.
    pub ended: Option<u64>,
    /// Pieces of the input, and how many lines each has.
    pub lines: Vec<(usize, u64)>,
    /// Sessions, by the bytes that stand for their names, and the number of their first transaction.
    pub sessions: FxHashMap<Vec<u8>, u64>,
}

/// What is sent of [`Totals`]: JSON has no maps by bytes.
#[derive(Serialize, Deserialize)]
pub(crate) struct Counted {
    totals: Totals,
    sessions: Vec<(Vec<u8>, u64)>,
}

impl Totals {
    pub fn count(&mut self, seq: u64, transaction: &anomalist_format::shard::Transaction<'_>) {
        let outcome = transaction.outcome();
        let aborted = outcome == Outcome::Aborted;
        self.transactions += 1;
        self.aborted += u64::from(aborted);
        self.indeterminate += u64::from(outcome == Outcome::Indeterminate);
        self.operations += transaction.len() as u64;
        self.stamped += u64::from(transaction.stamps().is_some());
        self.unstamped += u64::from(!aborted && transaction.stamps().is_none());
        let starts = transaction.stamps().is_none_or(|stamps| stamps.has_start());
        self.without_start += u64::from(!aborted && !starts);
        self.unnumbered += u64::from(!aborted && !transaction.has_number());
        self.sets |= transaction.sees_a_set();
        let shows = transaction.shows();
        self.shows = [self.shows[0] | shows[0], self.shows[1] | shows[1]];
        let mut name = Vec::new();
        transaction.put_session(&mut name);
        self.sessions.entry(name).or_insert(seq);
    }

    pub fn to_send(&self) -> Counted {
        let sessions = self.sessions.iter().map(|(name, first)| (name.clone(), *first)).collect();
        Counted { totals: Totals { sessions: FxHashMap::default(), ..self.clone() }, sessions }
    }

    pub fn add(&mut self, counted: Counted) {
        let Counted { totals, sessions } = counted;
        self.transactions += totals.transactions;
        self.aborted += totals.aborted;
        self.indeterminate += totals.indeterminate;
        self.operations += totals.operations;
        self.stamped += totals.stamped;
        self.unstamped += totals.unstamped;
        self.without_start += totals.without_start;
        self.unnumbered += totals.unnumbered;
        self.sets |= totals.sets;
        self.shows = [self.shows[0] | totals.shows[0], self.shows[1] | totals.shows[1]];
        self.headers.extend(totals.headers);
        self.headers.sort();
        self.announced |= totals.announced;
        self.ended = match (self.ended, totals.ended) {
            (None, other) | (other, None) => other,
            (Some(a), Some(b)) => Some(a + b),
        };
        self.lines.extend(totals.lines);
        self.lines.sort_unstable();
        for (name, first) in sessions {
            let known = self.sessions.entry(name).or_insert(first);
            *known = first.min(*known);
        }
    }

    /// Fails if the whole is not what a reader of the file would take.
    pub fn check(&self, name: &str) -> Result<(), Error> {
        let refused =
            |message: String| Err(Error::Input(Diagnostic::error(name, Place::File, message).to_string()));
        if self.announced {
            match self.ended {
                None => return refused("the recording was cut off: its end marker is missing".to_owned()),
                Some(n) if n > self.transactions => {
                    let left = self.transactions;
                    return refused(format!("the recording was cut: {left} of {n} transactions are left"));
                }
                Some(_) => {}
            }
        }
        match self.transactions {
            0 => refused("no transaction in this file".to_owned()),
            _ => Ok(()),
        }
    }

    /// What parts must know.
    pub fn whole(&self, format: Format, name: &str, initial: Option<String>) -> Whole {
        Whole {
            format,
            name: name.to_owned(),
            shows: self.shows,
            numbered: self.unnumbered == 0,
            headers: self.headers.iter().map(|(seq, line)| (*seq, line.clone().into_bytes())).collect(),
            initial,
            sessions: self.sessions.clone(),
        }
    }

    /// The line of the input, from 1, of a transaction; 0 where the input is several files.
    pub fn line(&self, place: (usize, u64), files: usize) -> u32 {
        if files > 1 {
            return 0;
        }
        let before = self.lines.iter().take_while(|(piece, _)| *piece < place.0);
        let before: u64 = before.map(|(_, lines)| lines).sum();
        u32::try_from(before + place.1 + 1).unwrap_or(u32::MAX)
    }
}
