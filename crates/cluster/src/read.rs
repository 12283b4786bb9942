//! The first stage: lines to records, and these to the workers that own their parts.

use crate::error::Error;
use crate::input::{Files, Piece, seq};
use crate::spill::Spill;
use crate::stage::{self, Outbox, Parcel};
use crate::totals::Totals;
use crate::work::{Parts, Site};
use anomalist_format::shard::{Block, Item, LineBlocks, Splitter, Transaction};
use anomalist_format::{Diagnostic, Format, Place, StreamFault};
use timely::worker::Worker;

/// Bytes of records that one worker collects for all parts together.
const COLLECTED: usize = 16 << 20;
/// Bytes that make a good block, whatever the number of parts.
const BLOCK: usize = 128 << 10;

/// Reads the pieces of this worker, and keeps the records of its parts.
pub(crate) fn read(
    worker: &mut Worker,
    site: &Site<'_>,
    files: &Files,
    format: Format,
    spill: &mut Spill,
) -> Result<(Totals, u64), Error> {
    let (index, workers) = (worker.index(), worker.peers());
    let parts = site.parts;
    let splitter = Splitter::new(format).ok_or_else(|| {
        Error::Unsupported(format!("the format {} is not read by several workers yet", format.name()))
    })?;
    let mine: Vec<usize> =
        (0..files.pieces.len()).filter(|&piece| Files::reader(piece, workers) == index).collect();
    let mut reader = Reader {
        splitter,
        parts,
        blocks: (0..parts.all()).map(|_| Block::default()).collect(),
        enough: (COLLECTED / parts.all()).clamp(1 << 10, BLOCK),
        totals: Totals::default(),
        grouped: Vec::new(),
        workers,
    };
    let mut pieces = mine.iter();
    let mut open: Option<Open<'_>> = None;
    let exchanged = stage::run(
        worker,
        |out| {
            site.poll()?;
            if open.is_none() {
                let Some(&number) = pieces.next() else { return Ok(false) };
                let piece = &files.pieces[number];
                open = Some(Open { number, piece, lines: files.open(piece)?, line: 0 });
            }
            if let Some(opened) = &mut open
                && !reader.block(opened, files, out)?
            {
                files.check(opened.piece)?;
                reader.totals.lines.push((opened.number, opened.line));
                reader.flush(out, 0);
                open = None;
                site.tell("reading", 1, mine.len());
            }
            Ok(true)
        },
        |Parcel { label, bytes, .. }| spill.append(parts.local(label as usize, workers), &bytes),
    )?;
    Ok((reader.totals, exchanged))
}

/// A piece that is being read.
struct Open<'a> {
    number: usize,
    piece: &'a Piece,
    lines: LineBlocks,
    line: u64,
}

struct Reader {
    splitter: Splitter,
    parts: Parts,
    /// By part.
    blocks: Vec<Block>,
    /// How many bytes of a block are worth sending.
    enough: usize,
    totals: Totals,
    /// Operations of a transaction by part.
    grouped: Vec<(u32, u32)>,
    workers: usize,
}

impl Reader {
    /// Reads the next block of lines; false at the end of the piece.
    fn block(&mut self, open: &mut Open<'_>, files: &Files, out: &mut Outbox) -> Result<bool, Error> {
        let Open { number, piece, lines, line: next } = open;
        let Some(mut rest) = lines.next_block()? else { return Ok(false) };
        if *next == 0 && piece.range.as_ref().is_none_or(|range| range.start == 0) {
            rest = rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest);
        }
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |i| i + 1);
            let (line, others) = rest.split_at(end);
            rest = others;
            let seq = seq(*number, *next);
            *next += 1;
            match self.splitter.read(line) {
                Ok(Item::Blank) => {}
                Ok(Item::Header { ends, end, initial }) => {
                    self.totals.announced |= ends;
                    self.totals.ended =
                        end.map_or(self.totals.ended, |n| Some(self.totals.ended.unwrap_or(0) + n));
                    if initial {
                        self.totals.headers.push((seq, String::from_utf8_lossy(line).into_owned()));
                    }
                }
                Ok(Item::Transaction(transaction)) => {
                    self.totals.count(seq, &transaction);
                    deal(&mut self.blocks, &mut self.grouped, self.parts, seq, &transaction);
                }
                Err(fault) => return Err(malformed(&fault, line, (piece, *next), files)?),
            }
        }
        self.flush(out, self.enough);
        Ok(true)
    }

    /// Sends the blocks that have so many bytes.
    fn flush(&mut self, out: &mut Outbox, enough: usize) {
        for (label, block) in self.blocks.iter_mut().enumerate() {
            if !block.is_empty() && block.len() >= enough {
                out.put(label % self.workers, label as u32, block.take());
            }
        }
    }
}

/// Writes the records of a transaction: one for each part that has a key of it, one for its session.
fn deal(
    blocks: &mut [Block],
    grouped: &mut Vec<(u32, u32)>,
    parts: Parts,
    seq: u64,
    transaction: &Transaction<'_>,
) {
    grouped.clear();
    for op in 0..transaction.len() {
        grouped.push((parts.of_key(transaction.key_hash(op)) as u32, op as u32));
    }
    grouped.sort_unstable();
    for group in grouped.chunk_by(|a, b| a.0 == b.0) {
        blocks[group[0].0 as usize].push(seq, transaction, false, group.iter().map(|(_, op)| *op as usize));
    }
    let session = parts.of_session(transaction.session_hash());
    blocks[session].push(seq, transaction, true, std::iter::empty());
}

/// The error that a line, counted from 1 in its piece, is malformed.
fn malformed(
    fault: &StreamFault,
    line: &[u8],
    (piece, number): (&Piece, u64),
    files: &Files,
) -> Result<Error, Error> {
    let place = Place::Line {
        line: u32::try_from(before(piece, files)? + number).unwrap_or(u32::MAX),
        column: u32::try_from(fault.at + 1).unwrap_or(u32::MAX),
    };
    let name = files.path(piece).display().to_string();
    let mut found = Diagnostic::error(name, place, fault.message.clone()).snippet(line.trim_ascii_end());
    found.help = fault.help.map(str::to_owned);
    Ok(Error::Input(found.to_string()))
}

/// How many lines of the file come before a piece. Only errors ask.
fn before(piece: &Piece, files: &Files) -> Result<u64, Error> {
    let Some(range) = piece.range.as_ref().filter(|range| range.start > 0) else { return Ok(0) };
    let whole = Piece { range: Some(0..range.start), ..piece.clone() };
    let (mut lines, mut count) = (files.open(&whole)?, 0);
    while let Some(text) = lines.next_block()? {
        count += memchr::memchr_iter(b'\n', text).count() as u64;
    }
    Ok(count)
}
