//! Histories as numbers, for the formats that have nothing else; and folders of logs.

use crate::write::{Capabilities, InitialRule, Names, Sink, admit, in_position_order, integer};
use crate::{Format, WriteError};
use anomalist_history::{AtomKind, History, OpKind, Outcome, TxnId, Value, View};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

/// One operation for a format that knows numbers only.
pub(crate) struct NumberOp {
    /// True for a write, false for a read.
    pub write: bool,
    /// The key.
    pub key: i128,
    /// The value; `None`: the initial value ([`Encoder::ops`]), or nil ([`Encoder::exact_ops`]).
    pub value: Option<i128>,
}

/// A value outside of its history, so that batches with tables of their own can be compared.
#[derive(PartialEq, Eq, Hash)]
enum Name {
    Int(i64),
    Atom(AtomKind, String),
    /// Nil and what else has one form only.
    Other(Value),
}

fn name(batch: &History, value: Value) -> Name {
    match value.view() {
        View::Int(i) => Name::Int(i),
        View::Atom(id) => {
            let (kind, text) = batch.atom(id);
            Name::Atom(kind, text.to_owned())
        }
        _ => Name::Other(value),
    }
}

/// Histories as numbers: checks, picks and numbers what a format with integer names can hold.
pub(crate) struct Encoder {
    format: Format,
    capabilities: Capabilities,
    lossy: bool,
    /// Numbers given to what is not a number, or to a number that was given to something else.
    given: FxHashMap<Name, i128>,
    next: i128,
    /// Numbers from `GIVEN` on that stand for themselves.
    own: FxHashSet<i128>,
}

/// Given numbers start here, where inputs rarely have numbers of their own.
const GIVEN: i128 = 1 << 52;

impl Encoder {
    pub fn new(format: Format, capabilities: Capabilities, lossy: bool) -> Encoder {
        Encoder {
            format,
            capabilities,
            lossy,
            given: FxHashMap::default(),
            next: GIVEN,
            own: FxHashSet::default(),
        }
    }

    /// The transactions of a batch that can be written, in order of position; an error if that is not all
    /// and not `lossy`.
    pub fn transactions(&self, batch: &History) -> Result<Vec<TxnId>, WriteError> {
        admit(batch, self.format, &self.capabilities, self.lossy)?;
        let c = &self.capabilities;
        let mut order = in_position_order(batch);
        order.retain(|&t| {
            // Aborted writes without their transaction still say that they must not be read.
            (c.outcome(batch, t) || (batch.outcome(t) == Outcome::Aborted && c.aborted_writes))
                && (c.empty || !batch.op_range(t).is_empty())
        });
        Ok(order)
    }

    /// The operations of a transaction that can be written.
    pub fn ops<'a>(&'a mut self, batch: &'a History, t: TxnId) -> impl Iterator<Item = NumberOp> + 'a {
        batch.ops(t).filter_map(move |(_, op)| {
            let dropped = op.kind == OpKind::Append || op.value.is_list() || op.value == Value::UNKNOWN;
            if dropped {
                return None;
            }
            let ours = batch.initial().of(op.key);
            let zero_is_initial = self.capabilities.initial == InitialRule::Zero;
            let write = op.kind == OpKind::Write;
            let value = if ours == Some(op.value) && (zero_is_initial || !write) {
                None
            } else {
                // Where 0 is the initial value, a 0 that is not needs another number.
                let taken = zero_is_initial && ours.is_some() && Value::int(0) == Some(op.value);
                Some(self.number(batch, op.value, self.capabilities.values, taken))
            };
            let key = self.number(batch, batch.key_label(op.key), self.capabilities.keys, false);
            Some(NumberOp { write, key, value })
        })
    }

    /// The operations as they are, for a format that writes initial values out; a value of `None` is nil.
    pub fn exact_ops<'a>(&'a mut self, batch: &'a History, t: TxnId) -> impl Iterator<Item = NumberOp> + 'a {
        batch.ops(t).filter_map(move |(_, op)| {
            let dropped = op.kind == OpKind::Append || op.value.is_list() || op.value == Value::UNKNOWN;
            if dropped {
                return None;
            }
            let key = self.number(batch, batch.key_label(op.key), self.capabilities.keys, false);
            Some(NumberOp { write: op.kind == OpKind::Write, key, value: self.exact(batch, op.value) })
        })
    }

    /// The initial values of the keys of a batch, by number; a value of `None` is nil.
    pub fn initial_values<'a>(
        &'a mut self,
        batch: &'a History,
    ) -> impl Iterator<Item = (i128, Option<i128>)> + 'a {
        batch.keys().filter_map(move |k| {
            let value = batch.initial().of(k).filter(|v| !v.is_list() && *v != Value::UNKNOWN)?;
            let key = self.number(batch, batch.key_label(k), self.capabilities.keys, false);
            Some((key, self.exact(batch, value)))
        })
    }

    /// The keys of a batch, by number.
    pub fn keys<'a>(&'a mut self, batch: &'a History) -> impl Iterator<Item = i128> + 'a {
        batch.keys().map(move |k| self.number(batch, batch.key_label(k), self.capabilities.keys, false))
    }

    fn exact(&mut self, batch: &History, value: Value) -> Option<i128> {
        (value != Value::NIL).then(|| self.number(batch, value, self.capabilities.values, false))
    }

    fn number(&mut self, batch: &History, value: Value, names: Names, taken: bool) -> i128 {
        match integer(batch, value) {
            Some(number) if !taken && names.holds(number) && number < GIVEN => number,
            Some(number) if !taken && names.holds(number) && self.is_own(number) => number,
            _ => self.given_number(name(batch, value)),
        }
    }

    /// True unless the number was given to something else: two values must not become one.
    fn is_own(&mut self, number: i128) -> bool {
        let free = number >= self.next;
        if free {
            self.own.insert(number);
        }
        free || self.own.contains(&number)
    }

    fn given_number(&mut self, name: Name) -> i128 {
        if let Some(&number) = self.given.get(&name) {
            return number;
        }
        while self.own.contains(&self.next) {
            self.next += 1;
        }
        let number = self.next;
        self.next += 1;
        self.given.insert(name, number);
        number
    }
}

/// The number of each session, in order of appearance, whatever it is called.
#[derive(Default)]
pub(crate) struct SessionNumbers(FxHashMap<Name, usize>);

impl SessionNumbers {
    /// The number of a transaction's session.
    pub fn of(&mut self, batch: &History, t: TxnId) -> usize {
        let next = self.0.len();
        let label = batch.session_label(batch.session_of(t));
        *self.0.entry(name(batch, label)).or_insert(next)
    }
}

/// A folder with one log per session; buffers so that files are opened rarely.
pub(crate) struct Logs {
    folder: PathBuf,
    pending: Vec<(String, Vec<u8>)>,
}

/// How much a log gathers before it is written out.
const LOG_BUFFER: usize = 1 << 20;

impl Logs {
    pub fn create(format: Format, sink: Sink) -> Result<Logs, WriteError> {
        let Sink::Directory(folder) = sink else {
            return Err(WriteError::Sink { format, wanted: "a folder" });
        };
        std::fs::create_dir_all(&folder)?;
        for entry in std::fs::read_dir(&folder)? {
            if entry?.path().extension().is_some_and(|extension| extension == "log") {
                let message = format!("{}: the folder has logs already", folder.display());
                return Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, message).into());
            }
        }
        Ok(Logs { folder, pending: Vec::new() })
    }

    /// The bytes that wait for the `n`th log, to be added to; logs are created in order.
    pub fn log(&mut self, n: usize, name: impl Fn(usize) -> String) -> &mut Vec<u8> {
        while self.pending.len() <= n {
            self.pending.push((name(self.pending.len()), Vec::new()));
        }
        &mut self.pending[n].1
    }

    /// Number of logs so far.
    pub fn count(&self) -> usize {
        self.pending.len()
    }

    /// Writes out logs that have gathered enough, or all.
    pub fn flush(&mut self, all: bool) -> Result<(), WriteError> {
        for (name, bytes) in &mut self.pending {
            if bytes.len() >= LOG_BUFFER || (all && !bytes.is_empty()) {
                let mut file: File =
                    OpenOptions::new().create(true).append(true).open(self.folder.join(name))?;
                file.write_all(bytes)?;
                bytes.clear();
            }
        }
        Ok(())
    }
}

/// Appends a number in decimal. The formatting machinery of the standard library is several times slower,
/// and a generated history has tens of millions of numbers.
pub(crate) fn push_number(text: &mut Vec<u8>, number: i128) {
    let Ok(mut rest) = u64::try_from(number) else {
        text.extend(number.to_string().bytes());
        return;
    };
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_usual() {
        for number in
            [0, 9, 10, 12_345, -3, i128::from(u64::MAX), i128::from(u64::MAX) + 1, i128::from(i64::MIN)]
        {
            let mut text = b"x".to_vec();
            push_number(&mut text, number);
            assert_eq!(text, format!("x{number}").into_bytes());
        }
    }
}
