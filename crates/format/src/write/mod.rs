//! Writing histories, and refusing to lose anything silently.
//!
//! Formats differ in what they can say. Each declares its [`Capabilities`] once; [`check`] compares a
//! history with them and names what would be lost. A writer refuses then, unless `lossy` is set: it leaves
//! out what has no place and gives numbers to names that are not numbers. The value of keys that no
//! transaction wrote is each format's own, so a read of it is written as the format has it. What sessions
//! and transactions are called is no part of that: formats number them as they must, and only which
//! transactions are in one session, and in which order, is content. No format writes that logic itself;
//! those that know only numbers use `numbers.rs`.

mod losses;
pub(crate) mod numbers;
pub(crate) mod sessions;

use crate::{Format, WriteError};
use anomalist_history::{AtomKind, History, Op, OpKind, Outcome, TxnId, Value, View};
use std::io::Write;
use std::path::PathBuf;

pub use losses::check;

/// Where a written history goes.
pub enum Sink {
    /// A file, a pipe, memory.
    Stream(Box<dyn Write + Send>),
    /// A folder, for formats with one file per session. It is created when missing, and must not hold logs
    /// already.
    Directory(PathBuf),
}

/// Writes a history piece by piece.
pub trait HistoryWriter {
    /// Writes some more transactions, in the order of their positions. Sessions are known by their labels,
    /// so a session continues from one batch to the next.
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
    /// What JSON has: numbers, strings, true, false, and arrays and objects of these.
    Json,
    /// What EDN has: also keywords and symbols.
    Edn,
    /// Anything.
    Any,
}

/// Which reads a format can leave without a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnknownReads {
    /// None.
    Never,
    /// All without a value in transactions that did not commit; then none of these can have read nil.
    Uncommitted,
    /// Any.
    Any,
}

impl Names {
    pub(crate) fn holds(self, number: i128) -> bool {
        match self {
            Names::Natural63 => (0..=i128::from(i64::MAX)).contains(&number),
            Names::Natural64 => (0..=i128::from(u64::MAX)).contains(&number),
            Names::Integer64 => i64::try_from(number).is_ok(),
            Names::Json | Names::Edn | Names::Any => true,
        }
    }
}

/// Which real-time intervals a format has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intervals {
    /// None.
    Never,
    /// All, but of a transaction of unknown outcome only the beginning.
    Decided,
    /// Any.
    Any,
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
    pub unknown_reads: UnknownReads,
    /// The value nil, other than as the initial value.
    pub nil: bool,
    /// Start and commit timestamps.
    pub stamps: bool,
    /// Nothing without them.
    pub needs_stamps: bool,
    /// Snapshots that are sets of ids.
    pub snapshots: bool,
    /// Real-time intervals.
    pub intervals: Intervals,
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
        unknown_reads: UnknownReads::Never,
        nil: false,
        stamps: false,
        needs_stamps: false,
        snapshots: false,
        intervals: Intervals::Never,
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
        unknown_reads: UnknownReads::Any,
        nil: true,
        stamps: true,
        needs_stamps: false,
        snapshots: true,
        intervals: Intervals::Any,
        metadata: true,
        keys: Names::Any,
        values: Names::Any,
        initial: InitialRule::Any,
    };

    pub(crate) fn outcome(&self, history: &History, t: TxnId) -> bool {
        match history.outcome(t) {
            Outcome::Committed => true,
            Outcome::Aborted => self.aborted || (self.aborted_writes && is_one_write(history, t)),
            Outcome::Indeterminate => self.indeterminate,
        }
    }

    /// True if an operation would mean something else in the format. A read of the initial value is that,
    /// whatever the value is, and is written as one of the format's; unless a write of the same value
    /// (`rewritten`) could be meant.
    fn moves_initial(&self, history: &History, op: Op, rewritten: bool) -> bool {
        let ours = history.initial().of(op.key);
        let is_ours = ours == Some(op.value);
        let read = op.kind == OpKind::Read;
        let theirs = match self.initial {
            InitialRule::Any => return false,
            InitialRule::Marked => return op.kind == OpKind::Write && is_ours,
            InitialRule::Absent => return read && is_ours,
            InitialRule::Zero => Value::int(0),
            InitialRule::Nil => Some(Value::NIL),
        };
        // Where 0 is the initial value, ours would have to be written as 0 too, and another 0 as another
        // number.
        let renamed = ours.is_some() && self.initial == InitialRule::Zero;
        let matters = read || renamed;
        ours != theirs && matters && (theirs == Some(op.value) || is_ours && rewritten)
    }

    fn unknown_read(&self, committed: bool) -> bool {
        match self.unknown_reads {
            UnknownReads::Never => false,
            UnknownReads::Uncommitted => !committed,
            UnknownReads::Any => true,
        }
    }

    /// True if a read of the initial value is written as the format's own, whatever the value is.
    fn has_initial(&self) -> bool {
        matches!(self.initial, InitialRule::Marked | InitialRule::Nil | InitialRule::Zero)
    }
}

fn is_one_write(history: &History, t: TxnId) -> bool {
    let range = history.op_range(t);
    range.len() == 1 && history.heads()[range.start].kind() == OpKind::Write
}

/// Refuses a batch that the format cannot express, unless losing the rest is allowed.
pub(crate) fn admit(
    history: &History,
    format: Format,
    capabilities: &Capabilities,
    lossy: bool,
) -> Result<(), WriteError> {
    let unwritable = capabilities.needs_stamps && history.stamps().is_none() && history.txn_count() > 0;
    let lost = if lossy && !unwritable { Vec::new() } else { check(history, format, capabilities) };
    if lost.is_empty() { Ok(()) } else { Err(WriteError::Loss { format, lost }) }
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

/// What to write for an operation's value where nil is the initial value of every key: a read of the
/// initial value stays one, whatever that value is.
pub(crate) fn with_nil_initial(history: &History, op: Op) -> Value {
    let initial =
        op.kind == OpKind::Read && history.initial().of(op.key) == Some(op.value) && !op.value.is_list();
    if initial { Value::NIL } else { op.value }
}

/// The stream of a sink, for formats that are one file.
pub(crate) fn stream(format: Format, sink: Sink) -> Result<Box<dyn Write + Send>, WriteError> {
    match sink {
        Sink::Stream(stream) => Ok(stream),
        Sink::Directory(_) => Err(WriteError::Sink { format, wanted: "a file" }),
    }
}

/// A writer for a format. It refuses what the format cannot express, unless `lossy`: then it leaves that
/// out.
///
/// ```
/// use anomalist_format::{Format, Input, ReadOptions, Sink};
/// let input = Input::from_bytes("h.txt", b"w 1 1\n=====\nr 1 1\n".to_vec());
/// let history = anomalist_format::read(input, &ReadOptions::default())?.history;
/// let mut writer = anomalist_format::writer(Format::Plume, Sink::Stream(Box::new(std::io::sink())), false)?;
/// writer.append(&history)?;
/// writer.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn writer(format: Format, sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    crate::detect::writer(format, sink, lossy)
}

/// Opens a writer for a recording in Anomalist's own format, as it grows: the header announces an end
/// marker, which `finish` writes. A reader refuses a recording without its end.
pub fn recorder(sink: Sink) -> Result<Box<dyn HistoryWriter>, WriteError> {
    crate::anomalist::recorder(sink)
}
