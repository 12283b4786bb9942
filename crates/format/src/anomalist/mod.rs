//! Anomalist's own format: JSON lines that can say everything a history knows. Documented in
//! `docs/format.md`.
//!
//! A header, then one transaction per line:
//!
//! ```text
//! {"anomalist":1,"initial":0}
//! {"session":3,"id":17,"ops":[["w","x",1],["r","y",2],["append","l",5]],"start":[12,0],"commit":[15,0]}
//! ```
//!
//! Made to be written by hand and by printf: the header may be missing, so may everything but `session` and
//! `ops`. A field that is not known is an error, because a typo in `outcome` must not turn an abort into a
//! commit. Lines stand alone, so files can be cut, joined and parsed in parallel. O(n).

pub(crate) mod line;
#[cfg(test)]
mod schema;
mod write;

pub(crate) use write::{recorder, writer};

use crate::load::ops::{Assembler, Columns};
use crate::load::records::{Layout, read_records};
use crate::load::{Reading, initial};
use crate::text::fault::Fault;
use crate::text::json::Json;
use crate::{Format, Input, Loaded, ReadError, ReadOptions};
use anomalist_history::{Outcome, Value};
use line::Line;

/// True if the text looks like this format.
pub(crate) fn sniff(head: &[u8]) -> bool {
    let mut json = Json::new(head);
    let mut first = true;
    if !json.take(b'{') {
        return false;
    }
    while let Ok(Some(name)) = json.key(&mut first) {
        match &*name {
            b"anomalist" | b"session" => return true,
            _ if json.skip().is_err() => return *name == *b"ops",
            _ => {}
        }
    }
    false
}

/// Moves parsed lines into a history.
#[derive(Default)]
struct Merger {
    assembler: Assembler,
    initial: Option<Option<Value>>,
    /// Transactions with timestamps (or no need of them), and with real-time intervals.
    timed: [usize; 2],
    /// Some transaction has timestamps.
    stamped: bool,
    /// A header announced an end marker.
    announced: bool,
    /// The number of transactions that the end marker, or several of joined recordings, counts.
    ended: Option<u64>,
}

impl Merger {
    /// The next line of the file, which has this number.
    fn merge(&mut self, line: Line, columns: &mut Columns, number: u32) -> Result<(), Fault> {
        let assembler = &mut self.assembler;
        let t = match line {
            Line::Transaction(t) => t,
            Line::Header { at, initial, keys, clock, ends, end } => {
                if let Some(clock) = clock {
                    assembler.builder.set_clock(clock);
                }
                self.announced |= ends;
                self.ended = end.map_or(self.ended, |n| Some(self.ended.unwrap_or(0) + n));
                let initial = initial.map(|v| v.map(|v| assembler.value(columns, v)));
                if initial.is_some() && self.initial.is_some_and(|before| Some(before) != initial) {
                    return Err(Fault::new(at, "a second header with another initial value"));
                }
                self.initial = self.initial.or(initial);
                for i in keys {
                    let (_, key, value) = assembler.operation(columns, columns.mops[i], true);
                    assembler.builder.set_initial(key, value);
                }
                return Ok(());
            }
        };
        // An aborted transaction has no commit to give a stamp to.
        self.timed[0] += usize::from(t.facts.stamps.is_some() || t.facts.outcome == Outcome::Aborted);
        self.timed[1] += usize::from(t.facts.interval.is_some());
        self.stamped |= t.facts.stamps.is_some();
        let mops = t.mops.clone();
        let draft = t.assemble(assembler, columns, number);
        let first = columns.versions.partition_point(|v| (v.0 as usize) < mops.start);
        for &(mop, number) in &columns.versions[first..] {
            // Numbers of later transactions of the block may follow.
            if mops.contains(&(mop as usize)) {
                assembler.builder.set_version(draft, mop - mops.start as u32, number);
            } else {
                break;
            }
        }
        Ok(())
    }

    /// A recording that announced an end marker and has none was cut off: the process that wrote it was
    /// killed, or still runs.
    fn look_for_the_end(&self, reading: &mut Reading<'_>) -> Result<(), ReadError> {
        let recorded = self.assembler.builder.txn_count() as u64;
        let message = match self.ended {
            _ if !self.announced => return Ok(()),
            Some(n) if n <= recorded => return Ok(()),
            Some(n) => format!("the recording was cut: {recorded} of {n} transactions are left"),
            None => "the recording was cut off: its end marker is missing".to_owned(),
        };
        reading.cut_off(message)
    }

    /// The history.
    fn finish(mut self, mut reading: Reading<'_>) -> Result<Loaded, ReadError> {
        let txns = self.assembler.builder.txn_count();
        if !self.stamped {
            self.timed[0] = 0;
        }
        for (count, what) in self.timed.into_iter().zip(["timestamps", "real-time intervals"]) {
            if (1..txns).contains(&count) {
                let missing = txns - count;
                reading.warn(1, format!("{missing} of {txns} transactions have no {what}: none are used"));
            }
        }
        self.look_for_the_end(&mut reading)?;
        let given = initial::given(reading.options, &mut self.assembler.builder)?;
        reading.finish(self.assembler.finish(given.or(self.initial)))
    }
}

/// Reads a history.
pub(crate) fn read(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let mut reading = Reading::new(&input, Format::Anomalist, options);
    let mut merger = Merger::default();
    merger.assembler.explicit = true;
    read_records(input, &mut reading, Layout::Lines, line::parse, |line, columns, number| {
        merger.merge(line, columns, number)
    })?;
    merger.finish(reading)
}
