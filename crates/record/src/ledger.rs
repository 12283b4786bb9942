//! What was read and written, as a history.
//!
//! Each row is a register. Its versions are numbered by the commits that the log shows, in their order, and
//! a version's value is its number: nothing of the row's own values is recorded. The order of commits is the
//! order of a row's versions, because a writer waits for the row's previous writer to end.
//!
//! Why a history never has more than what happened ([`Ledger::source`]):
//!
//! - A row that was read shows the number of the transaction that wrote it (`xmin`). If the log has a write
//!   of this row by that transaction, the read is of that version.
//! - If the number is smaller than that of every transaction that was still open when the recording began,
//!   the version was there before: the initial one. No recorded snapshot is older than that moment.
//! - Otherwise nothing is known (a write within a savepoint has a number of its own, a table was rewritten,
//!   the log was not seen): the read is recorded without its value, which says nothing.
//! - A version that the transaction wrote itself is left out, and so are the places of writes among reads:
//!   all reads come first. What one transaction sees of its own writes is not judged.
//! - A row that is inserted is another object than one of the same key that was deleted (Adya 1999, section
//!   4.1): PostgreSQL does not take a deletion and an insertion for a conflict. So each insertion begins
//!   another register (`stock/17#2`), and so does a write after a gap in the log.
//! - A write that was not seen is missing. Then a reader of the version before it precedes the next version
//!   that was seen, which is so in fact too.
//! - A transaction whose number is not known has no writes; the log's writes are then a transaction of
//!   their own. Apart, they are ordered less than together, never more.
//!
//! After a crash of the server, numbers that were never made durable are given out again: so a number is
//! one of an *era* of the server, and a read is of its own era or an earlier one.
//!
//! Cost: O(1) per row that is read or written; memory for the last versions of each row that was written.

use crate::catalogue::{Catalogue, KeyColumn, Table};
use crate::transaction::{End, Own, Read, Transaction};
use crate::writer::{Line, Op, Writer};
use crate::{Options, Summary};
use anomalist_format::WriteError;
use rustc_hash::{FxHashMap, FxHashSet};
use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher13 as SipHasher128};
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// How long a version that was replaced is remembered, in nanoseconds, if no transaction is that old.
const REMEMBERED: u64 = 60_000_000_000;

/// Something that a session or the log says.
pub(crate) enum Event {
    /// A transaction of a session has ended.
    Ended(Box<Transaction>),
    /// A transaction has committed, says the log.
    Logged(Logged),
    /// Everything is in the log that transactions which ended before `time` could have seen. `oldest` is
    /// when the transaction began that was open longest then.
    Passed { time: u64, oldest: u64 },
    /// The log was not seen for a while.
    Gap,
    /// These tables are not what they were.
    Changed(Vec<u32>),
    /// The catalogue was read again.
    Catalogue(Arc<Catalogue>),
    /// Nothing more comes.
    Finish,
}

/// A transaction in the log.
pub(crate) struct Logged {
    pub era: u32,
    pub number: u64,
    /// When it was received.
    pub at: u64,
    pub rows: Vec<LoggedRow>,
}

/// A row that it wrote.
pub(crate) struct LoggedRow {
    pub table: Arc<Table>,
    pub key: Vec<String>,
    pub change: Change,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Inserted,
    Updated,
    Deleted,
}

/// What is known of a row.
#[derive(Default)]
struct Row {
    /// How often it came into being, as far as that was seen.
    life: u32,
    /// The gaps in the log before its last write.
    gaps: u64,
    versions: Vec<Version>,
}

struct Version {
    writer: u64,
    era: u32,
    life: u32,
    order: i64,
    /// When the next version was logged.
    replaced: u64,
}

/// A transaction of the log that no line has yet.
struct Waiting {
    order: i64,
    at: u64,
    /// The table of each row, the row's name, and whether it was deleted.
    rows: Vec<(u32, Arc<str>, bool)>,
}

/// Where a version that was read comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Own,
    Initial,
    /// A version in a life of the row.
    Version(u32, i64),
    Unknown,
}

pub(crate) struct Ledger {
    options: Options,
    secret: [RandomState; 2],
    catalogue: Arc<Catalogue>,
    /// Tables that are not looked at any more.
    given_up: FxHashSet<u32>,
    /// Every transaction with a smaller number had ended when the recording began.
    boundary: u64,
    /// The largest number seen, to complete those of rows.
    recent: u64,
    order: i64,
    oldest: u64,
    rows: FxHashMap<Arc<str>, Row>,
    waiting: FxHashMap<(u32, u64), Waiting>,
    /// Numbers of transactions that are in `ended`.
    claimed: FxHashSet<(u32, u64)>,
    ended: VecDeque<Box<Transaction>>,
    writer: Writer,
    pub summary: Summary,
}

/// The full number nearest to a recent one that ends in these 32 bits.
pub(crate) fn completed(recent: u64, bits: u32) -> u64 {
    const EPOCH: u64 = 1 << 32;
    let same = recent - recent % EPOCH + u64::from(bits);
    let candidates = [same.checked_sub(EPOCH), Some(same), same.checked_add(EPOCH)];
    candidates.into_iter().flatten().min_by_key(|id| id.abs_diff(recent)).unwrap_or(same)
}

/// The columns of a key as one text: different keys have different texts.
fn joined(columns: &[KeyColumn], values: &[String]) -> String {
    let mut text = String::new();
    for (column, value) in columns.iter().zip(values) {
        if !text.is_empty() {
            text.push(',');
        }
        let value = match value.as_str() {
            "true" if column.boolean => "t",
            "false" if column.boolean => "f",
            value if column.padded => value.trim_end_matches(' '),
            value => value,
        };
        for c in value.chars() {
            if matches!(c, ',' | '\\' | '#') {
                text.push('\\');
            }
            text.push(c);
        }
        if value.is_empty() {
            text.push_str("\\0");
        }
    }
    text
}

/// The register of a row in one of its lives.
fn lived(name: &Arc<str>, life: u32) -> Arc<str> {
    if life == 0 { name.clone() } else { format!("{name}#{life}").into() }
}

impl Ledger {
    pub fn new(options: Options, catalogue: Arc<Catalogue>, boundary: u64, writer: Writer) -> Ledger {
        Ledger {
            options,
            secret: [RandomState::new(), RandomState::new()],
            catalogue,
            given_up: FxHashSet::default(),
            boundary,
            recent: boundary,
            order: 0,
            oldest: 0,
            rows: FxHashMap::default(),
            waiting: FxHashMap::default(),
            claimed: FxHashSet::default(),
            ended: VecDeque::new(),
            writer,
            summary: Summary::default(),
        }
    }

    /// Takes an event; false after the last one.
    pub fn take(&mut self, event: Event) -> Result<bool, WriteError> {
        match event {
            Event::Ended(transaction) => {
                if let Own::Number(number) = transaction.own {
                    self.recent = self.recent.max(number);
                    self.claimed.insert((transaction.era, number));
                }
                self.ended.push_back(transaction);
            }
            Event::Logged(logged) => self.logged(logged),
            Event::Passed { time, oldest } => {
                self.settle(time)?;
                self.oldest = oldest;
                self.others(oldest)?;
                self.writer.flush()?;
            }
            Event::Gap => self.summary.gaps += 1,
            Event::Changed(tables) => self.given_up.extend(tables),
            Event::Catalogue(catalogue) => self.catalogue = catalogue,
            Event::Finish => {
                self.settle(u64::MAX)?;
                self.others(u64::MAX)?;
                self.writer.flush()?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the end of the recording. After a gap in the log there is none, so that the recording is read
    /// as one that was cut off: a server that was killed gives transactions the numbers of lost ones again,
    /// so a version that was read may be of either.
    pub fn finish(self) -> Result<Summary, WriteError> {
        let mut summary = self.summary;
        summary.tables_given_up = self.given_up.len() as u64;
        if summary.gaps == 0 {
            self.writer.finish()?
        } else {
            self.writer.cut_off()?
        }
        Ok(summary)
    }

    /// The name of a row, if it is one of the sample.
    fn name(&self, table: &Table, key: &[String]) -> Option<Arc<str>> {
        let key = joined(&table.key, key);
        let place = match table.schema.as_str() {
            "public" => table.name.clone(),
            schema => format!("{schema}.{}", table.name),
        };
        if self.options.sample > 1 {
            let mut hasher = SipHasher13::new();
            (&place, &key).hash(&mut hasher);
            if !hasher.finish().is_multiple_of(u64::from(self.options.sample)) {
                return None;
            }
        }
        if !self.options.private {
            return Some(format!("{place}/{key}").into());
        }
        let [first, second] = &self.secret;
        let mut hasher = SipHasher128::new_with_keys(first.hash_one(0), second.hash_one(0));
        (&place, &key).hash(&mut hasher);
        let hash = hasher.finish128().as_u128();
        Some(format!("{place}/{hash:032x}").into())
    }

    fn logged(&mut self, logged: Logged) {
        self.recent = self.recent.max(logged.number);
        // It was complete before the recording began: what it wrote is the initial version.
        if logged.number < self.boundary {
            return;
        }
        self.order += 1;
        let order = self.order;
        let oldest = self.oldest.min(logged.at.saturating_sub(REMEMBERED));
        let mut rows: Vec<(u32, Arc<str>, bool)> = Vec::with_capacity(logged.rows.len());
        for change in &logged.rows {
            let Some(name) = self.name(&change.table, &change.key) else { continue };
            let is_new = !self.rows.contains_key(&name);
            let row = self.rows.entry(name.clone()).or_default();
            let after_gap = std::mem::replace(&mut row.gaps, self.summary.gaps) != self.summary.gaps;
            if after_gap || change.change == Change::Inserted && !is_new {
                row.life += 1;
            }
            // Of several versions that a transaction makes the last one counts.
            row.versions.retain(|version| version.replaced >= oldest && version.order != order);
            if let Some(last) = row.versions.last_mut() {
                last.replaced = last.replaced.min(logged.at);
            }
            row.versions.push(Version {
                writer: logged.number,
                era: logged.era,
                life: row.life,
                order,
                replaced: u64::MAX,
            });
            rows.push((change.table.number, lived(&name, row.life), change.change == Change::Deleted));
        }
        // The order of rows does not count.
        rows.reverse();
        rows.sort_by(|a, b| a.1.cmp(&b.1));
        rows.dedup_by(|later, first| later.1 == first.1);
        self.waiting.insert((logged.era, logged.number), Waiting { order, at: logged.at, rows });
    }

    /// Writes the transactions that ended before this moment.
    fn settle(&mut self, time: u64) -> Result<(), WriteError> {
        while self.ended.front().is_some_and(|t| t.completed <= time) {
            if let Some(transaction) = self.ended.pop_front() {
                self.write(*transaction)?;
            }
        }
        Ok(())
    }

    /// Writes the transactions of the log that no session has run: those that were logged before the
    /// oldest open transaction began.
    fn others(&mut self, oldest: u64) -> Result<(), WriteError> {
        let is_other =
            |(id, waiting): &(&(u32, u64), &Waiting)| waiting.at < oldest && !self.claimed.contains(*id);
        let mut found: Vec<(i64, (u32, u64))> =
            self.waiting.iter().filter(is_other).map(|(id, waiting)| (waiting.order, *id)).collect();
        found.sort_unstable();
        for (_, id) in found {
            let Some(waiting) = self.waiting.remove(&id) else { continue };
            let ops = self.writes(&waiting);
            if ops.is_empty() {
                continue;
            }
            self.summary.others += 1;
            self.writer.push(&Line { number: Some(id.1), ops, ..Line::default() })?;
        }
        Ok(())
    }

    fn writes(&self, waiting: &Waiting) -> Vec<Op> {
        let seen = waiting.rows.iter().filter(|(table, ..)| !self.given_up.contains(table));
        seen.map(|(_, name, deleted)| match deleted {
            true => Op::Delete(name.clone(), waiting.order),
            false => Op::Write(name.clone(), waiting.order),
        })
        .collect()
    }

    fn write(&mut self, transaction: Transaction) -> Result<(), WriteError> {
        let summary = &mut self.summary;
        summary.transactions += 1;
        let mut line = Line::of(&transaction);
        if let (Some(asked), Some(isolation)) = (transaction.asked, transaction.isolation)
            && asked != isolation
        {
            *summary.other_level.entry((asked.name(), isolation.name())).or_default() += 1;
        }
        let id = match transaction.own {
            Own::Number(number) => Some((transaction.era, number)),
            Own::Unasked | Own::None => None,
        };
        let logged = id.and_then(|id| {
            self.claimed.remove(&id);
            self.waiting.remove(&id)
        });
        // What the log has was committed, whatever the client learnt.
        if logged.is_some() {
            line.end = End::Committed;
        }
        match line.end {
            End::Committed => self.summary.committed += 1,
            End::Aborted => self.summary.aborted += 1,
            End::Unknown => self.summary.unknown += 1,
        }
        if line.end != End::Aborted {
            let mut known: FxHashSet<(Arc<str>, Source)> = FxHashSet::default();
            for read in &transaction.reads {
                self.read(&transaction, read, &mut known, &mut line.ops);
            }
        }
        line.ops.extend(logged.iter().flat_map(|waiting| self.writes(waiting)));
        self.writer.push(&line)
    }

    fn read(
        &mut self,
        transaction: &Transaction,
        read: &Read,
        known: &mut FxHashSet<(Arc<str>, Source)>,
        ops: &mut Vec<Op>,
    ) {
        let table = self.catalogue.table(read.table).filter(|table| {
            // A child of the table that was named may have another key.
            !self.given_up.contains(&read.table) && table.key == read.known_as.key
        });
        let Some(table) = table else {
            self.summary.unresolved += 1;
            return;
        };
        let Some(name) = self.name(table, &read.key) else { return };
        let source = self.source(transaction, read, &name);
        let name = match source {
            Source::Version(life, _) => lived(&name, life),
            _ => name,
        };
        match source {
            Source::Own => return,
            Source::Initial => self.summary.initial += 1,
            Source::Version(..) => self.summary.versions += 1,
            Source::Unknown => self.summary.unresolved += 1,
        }
        if known.insert((name.clone(), source)) {
            ops.push(match source {
                Source::Version(_, order) => Op::Read(name, Some(order)),
                Source::Initial => Op::Read(name, None),
                Source::Unknown | Source::Own => Op::ReadUnknown(name),
            });
        }
    }

    fn source(&self, transaction: &Transaction, read: &Read, name: &str) -> Source {
        match transaction.own {
            Own::Number(number) if number as u32 == read.writer => return Source::Own,
            Own::Unasked if read.after_write => return Source::Unknown,
            _ => {}
        }
        let versions = self.rows.get(name).map(|row| row.versions.as_slice()).unwrap_or_default();
        let is_read = |v: &&Version| v.writer as u32 == read.writer && v.era <= transaction.era;
        if let Some(version) = versions.iter().rev().find(is_read) {
            return Source::Version(version.life, version.order);
        }
        // Numbers below 3 are those of versions that are older than any transaction.
        match read.writer < 3 || completed(self.recent, read.writer) < self.boundary {
            true => Source::Initial,
            false => Source::Unknown,
        }
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
