//! Writing histories, and refusing to lose anything silently.
//!
//! Formats differ in what they can say. Each declares its [`Capabilities`] once; [`check`] compares a history with them and
//! names what would be lost. A writer refuses then, unless told `lossy`: it leaves out what has no place and gives numbers to
//! names that are not numbers. No format writes that logic itself; those that know only numbers use [`Encoder`].

use crate::{Format, WriteError};
use isolde_history::{AtomKind, History, KeyId, OpKind, Outcome, TxnId, Value, View};
use rustc_hash::FxHashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

/// Where a written history goes.
pub enum Sink {
    /// A file, a pipe, memory.
    Stream(Box<dyn Write + Send>),
    /// A folder, for formats with one file per session. It is created when missing, and must not hold logs already.
    Directory(PathBuf),
}

/// Writes a history piece by piece.
pub trait HistoryWriter {
    /// Writes some more transactions, in the order of their positions. Sessions are known by their labels, so a
    /// session continues from one batch to the next.
    fn append(&mut self, batch: &History) -> Result<(), WriteError>;

    /// Writes what had to wait for the end.
    fn finish(self: Box<Self>) -> Result<(), WriteError>;
}

/// Which names or values a format can write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// Integers from 0 that fit in a signed 64-bit number.
    Natural63,
    /// Integers from 0 that fit in 64 bits.
    Natural64,
    /// Signed 64-bit integers.
    Integer64,
    /// Anything.
    Any,
}

impl Names {
    fn holds(self, number: i128) -> bool {
        match self {
            Names::Natural63 => (0..=i128::from(i64::MAX)).contains(&number),
            Names::Natural64 => (0..=i128::from(u64::MAX)).contains(&number),
            Names::Integer64 => i64::try_from(number).is_ok(),
            Names::Any => true,
        }
    }
}

/// What a format says about the value of a key before any write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitialRule {
    /// Nothing: such a read is thin air.
    Absent,
    /// It is 0.
    Zero,
    /// It is nil.
    Nil,
    /// Reads of it are marked, so whatever the value is, a write of it is something else.
    Marked,
    /// Whatever the file says.
    Any,
}

/// What a format can express.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Aborted transactions, with all their operations.
    pub aborted: bool,
    /// Aborted transactions of exactly one write (implied by `aborted`).
    pub aborted_writes: bool,
    /// Transactions of unknown outcome.
    pub indeterminate: bool,
    /// Transactions without operations.
    pub empty: bool,
    /// Reads and writes of plain values.
    pub registers: bool,
    /// Appends and reads of lists.
    pub lists: bool,
    /// Reads whose result was not recorded.
    pub unknown_reads: bool,
    /// The value nil, other than as the initial value.
    pub nil: bool,
    /// Start and commit timestamps.
    pub stamps: bool,
    /// Real-time intervals.
    pub intervals: bool,
    /// Facts about single transactions.
    pub metadata: bool,
    /// Keys.
    pub keys: Names,
    /// Values.
    pub values: Names,
    /// Initial values.
    pub initial: InitialRule,
}

impl Capabilities {
    /// Committed register transactions over natural numbers, and nothing else: what the oldest formats have.
    pub const PLAIN: Capabilities = Capabilities {
        aborted: false,
        aborted_writes: false,
        indeterminate: false,
        empty: true,
        registers: true,
        lists: false,
        unknown_reads: false,
        nil: false,
        stamps: false,
        intervals: false,
        metadata: false,
        keys: Names::Natural64,
        values: Names::Natural64,
        initial: InitialRule::Zero,
    };

    /// Everything in the model.
    pub const ALL: Capabilities = Capabilities {
        aborted: true,
        aborted_writes: true,
        indeterminate: true,
        empty: true,
        registers: true,
        lists: true,
        unknown_reads: true,
        nil: true,
        stamps: true,
        intervals: true,
        metadata: true,
        keys: Names::Any,
        values: Names::Any,
        initial: InitialRule::Any,
    };

    fn outcome(&self, history: &History, t: TxnId) -> bool {
        match history.outcome(t) {
            Outcome::Committed => true,
            Outcome::Aborted => self.aborted || (self.aborted_writes && is_one_write(history, t)),
            Outcome::Indeterminate => self.indeterminate,
        }
    }

    /// True if a read of this value would mean something else in the format.
    fn moves_initial(&self, history: &History, kind: OpKind, key: KeyId, value: Value) -> bool {
        let ours = history.initial().of(key);
        let theirs = match self.initial {
            InitialRule::Any => return false,
            InitialRule::Marked => return kind == OpKind::Write && ours == Some(value),
            InitialRule::Absent => None,
            InitialRule::Zero => Value::int(0),
            InitialRule::Nil => Some(Value::NIL),
        };
        kind == OpKind::Read && ours != theirs && (ours == Some(value) || theirs == Some(value))
    }

    fn nil_is_initial(&self, history: &History, key: KeyId) -> bool {
        matches!(self.initial, InitialRule::Marked | InitialRule::Nil)
            && history.initial().of(key) == Some(Value::NIL)
    }
}

fn is_one_write(history: &History, t: TxnId) -> bool {
    let range = history.op_range(t);
    range.len() == 1 && history.heads()[range.start].kind() == OpKind::Write
}

/// What the format would lose of this history, for instance "3 aborted transactions"; empty: nothing.
pub fn check(history: &History, _format: Format, capabilities: &Capabilities) -> Vec<String> {
    let c = capabilities;
    let (mut aborted, mut indeterminate, mut empty) = (0, 0, 0);
    for t in history.txns() {
        match history.outcome(t) {
            _ if c.outcome(history, t) => {}
            Outcome::Aborted => aborted += 1,
            _ => indeterminate += 1,
        }
        empty += usize::from(!c.empty && history.op_range(t).is_empty());
    }
    let (mut lists, mut registers, mut unknown, mut nil, mut values, mut initial) = (0, 0, 0, 0, 0, 0);
    for (head, &value) in history.heads().iter().zip(history.values()) {
        let (kind, key) = (head.kind(), head.key());
        if value == Value::UNKNOWN {
            unknown += usize::from(!c.unknown_reads);
        } else if kind == OpKind::Append || value.is_list() {
            lists += usize::from(!c.lists);
        } else if !c.registers {
            registers += 1;
        } else if c.moves_initial(history, kind, key, value) {
            initial += 1;
        } else if value == Value::NIL {
            let expressible = c.nil || kind == OpKind::Read && c.nil_is_initial(history, key);
            nil += usize::from(!expressible);
        } else if !in_place(value, c.values) && !fits(history, value, c.values) {
            values += 1;
        }
    }
    let keys = history.keys().filter(|&k| !fits(history, history.key_label(k), c.keys)).count();
    let txns = history.txn_count();
    let stamps = if c.stamps || history.stamps().is_none() { 0 } else { txns };
    let intervals = if c.intervals || history.intervals().is_none() { 0 } else { txns };
    let metadata = if c.metadata { 0 } else { history.metadata().len() };
    let numbers = |names: Names| match names {
        Names::Natural63 | Names::Natural64 => "that is no natural number",
        _ => "that is no 64-bit number",
    };
    let mut lost = Vec::new();
    let mut note = |count: usize, one: &str, many: &str, which: &str| {
        if count > 0 {
            let which =
                if count == 1 { which.to_owned() } else { which.replace("that is no", "that are no") };
            let space = if which.is_empty() { "" } else { " " };
            lost.push(format!("{count} {}{space}{which}", if count == 1 { one } else { many }));
        }
    };
    note(aborted, "aborted transaction", "aborted transactions", "");
    note(indeterminate, "transaction", "transactions", "of unknown outcome");
    note(empty, "empty transaction", "empty transactions", "");
    note(lists, "list operation", "list operations", "");
    note(registers, "register operation", "register operations", "");
    note(unknown, "read", "reads", "without a result");
    note(nil, "nil value", "nil values", "");
    note(keys, "key", "keys", numbers(c.keys));
    note(values, "value", "values", numbers(c.values));
    note(initial, "operation", "operations", "on a different initial value");
    note(stamps, "pair", "pairs", "of timestamps");
    note(intervals, "real-time interval", "real-time intervals", "");
    note(metadata, "transaction", "transactions", "with metadata");
    lost
}

#[inline]
fn in_place(value: Value, names: Names) -> bool {
    matches!(value.view(), View::Int(i) if i >= 0 || names == Names::Integer64)
}

fn fits(history: &History, value: Value, names: Names) -> bool {
    names == Names::Any || integer(history, value).is_some_and(|n| names.holds(n))
}

/// The number a value stands for, stored in place or, when too large for that, as a token.
pub(crate) fn integer(history: &History, value: Value) -> Option<i128> {
    match value.view() {
        View::Int(i) => Some(i128::from(i)),
        View::Atom(id) => match history.atom(id) {
            (AtomKind::Token, text) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The transactions of a batch in the order of the input they came from.
pub(crate) fn in_position_order(history: &History) -> Vec<TxnId> {
    let mut order: Vec<TxnId> = history.txns().collect();
    order.sort_unstable_by_key(|&t| history.position(t));
    order
}

/// One operation for a format that knows numbers only.
pub(crate) struct NumberOp {
    /// True for a write, false for a read.
    pub write: bool,
    /// The key.
    pub key: i128,
    /// The value; `None`: the initial value ([`Encoder::ops`]), or nil ([`Encoder::exact_ops`]).
    pub value: Option<i128>,
}

/// Histories as numbers: checks, picks and numbers what a format with integer names can hold.
pub(crate) struct Encoder {
    format: Format,
    capabilities: Capabilities,
    lossy: bool,
    /// Numbers given to what is not a number.
    given: FxHashMap<String, i128>,
}

/// Given numbers start here, where inputs rarely have numbers of their own.
const GIVEN: i128 = 1 << 52;

impl Encoder {
    pub fn new(format: Format, capabilities: Capabilities, lossy: bool) -> Encoder {
        Encoder { format, capabilities, lossy, given: FxHashMap::default() }
    }

    /// The transactions of a batch that can be written, in order of position; an error if that is not all and not `lossy`.
    pub fn transactions(&self, batch: &History) -> Result<Vec<TxnId>, WriteError> {
        let lost = if self.lossy { Vec::new() } else { check(batch, self.format, &self.capabilities) };
        if !lost.is_empty() {
            return Err(WriteError::Loss { format: self.format, lost });
        }
        let c = &self.capabilities;
        let mut order = in_position_order(batch);
        order.retain(|&t| {
            // Aborted writes without their transaction still say that nobody may read them.
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

    fn exact(&mut self, batch: &History, value: Value) -> Option<i128> {
        (value != Value::NIL).then(|| self.number(batch, value, self.capabilities.values, false))
    }

    fn number(&mut self, batch: &History, value: Value, names: Names, taken: bool) -> i128 {
        match integer(batch, value) {
            Some(number) if !taken && names.holds(number) => number,
            _ => {
                let next = GIVEN + self.given.len() as i128;
                *self.given.entry(batch.show(value).to_string()).or_insert(next)
            }
        }
    }
}

/// The number of each session, in order of appearance, whatever it is called.
#[derive(Default)]
pub(crate) struct SessionNumbers(FxHashMap<String, usize>);

impl SessionNumbers {
    /// The number of a transaction's session.
    pub fn of(&mut self, batch: &History, t: TxnId) -> usize {
        let next = self.0.len();
        let label = batch.session_label(batch.session_of(t));
        *self.0.entry(batch.show(label).to_string()).or_insert(next)
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

/// The stream of a sink, for formats that are one file.
pub(crate) fn stream(format: Format, sink: Sink) -> Result<Box<dyn Write + Send>, WriteError> {
    match sink {
        Sink::Stream(stream) => Ok(stream),
        Sink::Directory(_) => Err(WriteError::Sink { format, wanted: "a file" }),
    }
}

/// A writer for a format. It refuses what the format cannot express, unless `lossy`: then it leaves that out.
///
/// ```
/// use isolde_format::{Format, Input, ReadOptions, Sink};
/// let input = Input::from_bytes("h.txt", b"w 1 1\n=====\nr 1 1\n".to_vec());
/// let history = isolde_format::read(input, &ReadOptions::default())?.history;
/// let mut writer = isolde_format::writer(Format::Plume, Sink::Stream(Box::new(std::io::sink())), false)?;
/// writer.append(&history)?;
/// writer.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn writer(format: Format, sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    crate::detect::writer(format, sink, lossy)
}
