//! Isolde's own format: JSON lines that can say everything a history knows. Documented in `docs/format.md`.
//!
//! A header, then one transaction per line:
//!
//! ```text
//! {"isolde":1,"initial":0}
//! {"session":3,"id":17,"ops":[["w","x",1],["r","y",2],["append","l",5],["r","l",[1,5]]],"start":[12,0],"commit":[15,0]}
//! ```
//!
//! Made to be written by hand and by printf: the header may be missing, so may everything but `session` and `ops`. A field
//! that is not known is an error, because a typo in `outcome` must not turn an abort into a commit. Lines stand alone, so
//! files can be cut, joined and parsed in parallel. O(n).

use crate::elle_columns::{Assembler, Columns};
use crate::elle_load::{LineCounter, Source, line_at, on_lines};
use crate::isolde_line::{Content, Line, parse_line};
use crate::json::{Fault, Json};
use crate::{Format, Input, Loaded, ReadError, ReadOptions};
use isolde_history::Value;

/// True if the text looks like this format.
pub(crate) fn sniff(head: &[u8]) -> bool {
    let mut json = Json::new(head);
    let mut first = true;
    if !json.take(b'{') {
        return false;
    }
    while let Ok(Some(name)) = json.key(&mut first) {
        match &*name {
            b"isolde" | b"session" => return true,
            _ if json.skip().is_err() => return *name == *b"ops",
            _ => {}
        }
    }
    false
}

/// Parsed lines of a part of a text.
pub(crate) struct Block {
    pub columns: Columns,
    pub lines: Vec<Line>,
    /// What ended the block before its text did.
    pub fault: Option<Fault>,
}

/// Parses a block of whole lines.
pub(crate) fn parse_block(text: &[u8]) -> Block {
    let (mut columns, mut lines) = (Columns::default(), Vec::new());
    let fault = on_lines(text, |range| {
        lines.extend(parse_line(text, range, &mut columns)?);
        Ok(())
    });
    Block { columns, lines, fault }
}

/// Merges a parsed block, whose text begins on this line of the file.
pub(crate) fn merge_block(
    merger: &mut Merger,
    mut block: Block,
    text: &[u8],
    first_line: u32,
) -> Result<(), Fault> {
    let mut numbers = LineCounter::new(text, first_line);
    for line in block.lines {
        let number = numbers.line(line.at);
        merger.merge(line, &mut block.columns, number)?;
    }
    block.fault.map_or(Ok(()), Err)
}

/// Moves parsed lines into a history.
#[derive(Default)]
pub(crate) struct Merger {
    assembler: Assembler,
    initial: Option<Option<Value>>,
    /// Transactions with timestamps, and with real-time intervals.
    timed: [usize; 2],
}

impl Merger {
    /// The next line of the file, which has this number.
    pub fn merge(&mut self, line: Line, columns: &mut Columns, number: u32) -> Result<(), Fault> {
        let assembler = &mut self.assembler;
        let t = match line.content {
            Content::Transaction(t) => t,
            Content::Header { initial, keys } => {
                let initial = initial.map(|v| v.map(|v| assembler.value(columns, v)));
                if initial.is_some() && self.initial.is_some_and(|before| Some(before) != initial) {
                    return Err(Fault::new(line.at, "a second header with another initial value"));
                }
                self.initial = self.initial.or(initial);
                for i in keys {
                    let (_, key, value) = assembler.operation(columns, columns.mops[i], true);
                    assembler.builder.set_initial(key, value);
                }
                return Ok(());
            }
        };
        let session = assembler.value(columns, t.session);
        let session = assembler.builder.session(session);
        let draft = assembler.builder.transaction(session);
        if let Some(id) = t.id {
            let id = assembler.value(columns, id);
            assembler.builder.set_label(draft, id);
        }
        assembler.builder.set_line(draft, number);
        assembler.builder.set_outcome(draft, t.outcome);
        if let Some(stamps) = t.stamps {
            assembler.builder.set_stamps(draft, stamps);
            self.timed[0] += 1;
        }
        if let Some(interval) = t.interval {
            assembler.builder.set_interval(draft, interval);
            self.timed[1] += 1;
        }
        for (name, value) in &t.meta {
            assembler.builder.set_metadata(draft, name, value);
        }
        assembler.add(draft, columns, t.mops, true);
        Ok(())
    }

    /// The history.
    pub fn finish(mut self, mut source: Source<'_>) -> Result<Loaded, ReadError> {
        let txns = self.assembler.builder.txn_count();
        for (count, what) in self.timed.into_iter().zip(["timestamps", "real-time intervals"]) {
            if (1..txns).contains(&count) {
                source.warn(
                    1,
                    format!("{} of {txns} transactions have no {what}: none are used", txns - count),
                );
            }
        }
        let option = source.initial(&mut self.assembler.builder)?;
        source.finish(self.assembler.finish(option.or(self.initial)))
    }
}

/// Reads a history.
pub(crate) fn read(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let name = input.name().to_owned();
    read_bytes(&name, &input.into_bytes(options)?, options)
}

/// Reads a history from its text.
pub(crate) fn read_bytes(name: &str, text: &[u8], options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let mut source = Source::new(name, text, Format::Isolde, options);
    let (mut merger, mut columns) = (Merger::default(), Columns::default());
    let (mut start, mut number) = (0, 0);
    while start < text.len() {
        let range = line_at(text, start);
        start = range.end + 1;
        number += 1;
        columns.clear();
        let merged = match parse_line(text, range, &mut columns) {
            Ok(Some(line)) => merger.merge(line, &mut columns, number),
            Ok(None) => Ok(()),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = merged {
            source.stop(fault)?;
            break;
        }
        source.progress(start)?;
    }
    merger.finish(source)
}
