//! Text in lines or other whole pieces, parsed by several threads and merged in order.
//!
//! ```text
//!             ┌─► worker 0: reads a block of whole pieces, parses it ─┐
//! used blocks │                                                       ├─► merge, in input order
//!             └─► worker 1: the same ─────────────────────────────────┘
//! ```
//! The calling thread merges. Workers read in turn, under a lock, and announce their block before they
//! release it: the announcements are the order of the input. The one that reads also decompresses. There
//! are two blocks per worker, whatever the size of the input: memory that is used for the first time costs
//! as much as parsing into it.
//! The first blocks are parsed by the calling thread: starting workers and waking each other costs more
//! than they save on an input of a few megabytes.

use crate::input::{Input, Reader, report};
use crate::text::fault::{Fault, newlines};
use crate::{Diagnostic, Place, ReadError, ReadOptions};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

/// Small enough for a core's own cache, so that a worker finds in cache what the reader has just copied.
/// Tiny where a fuzzer, which knows short inputs only, is to find what goes wrong between two blocks.
const BLOCK: usize = if cfg!(fuzzing) { 64 } else { 128 << 10 };
/// Blocks per worker that exist at a time.
const BLOCKS_PER_THREAD: usize = 2;
/// Blocks that are parsed before workers are called.
const BLOCKS_ALONE: usize = if cfg!(fuzzing) { 2 } else { 20 };
/// The longest line, or other piece that is parsed as a whole.
const LONGEST: usize = 256 << 20;
/// The first block: most inputs are small.
const FIRST_BLOCK: usize = if cfg!(fuzzing) { 32 } else { 64 << 10 };

/// Where a block stands in the input.
pub(crate) struct BlockInfo<'a> {
    /// Number of its first line, from 1.
    pub first_line: u32,
    /// Bytes of that line before the block.
    pub before: usize,
    /// The block.
    pub text: &'a [u8],
    /// The input as the user named it.
    pub name: &'a str,
}

impl BlockInfo<'_> {
    /// The error that something is wrong in this block.
    pub fn malformed(&self, fault: &Fault) -> ReadError {
        ReadError::Malformed(vec![self.diagnose(fault)])
    }

    /// What is wrong in this block.
    pub fn diagnose(&self, fault: &Fault) -> Diagnostic {
        let mut diagnostic = fault.diagnose(self.name, self.text, self.first_line);
        if let Place::Line { line, column } = &mut diagnostic.place
            && *line == self.first_line
            && self.before > 0
        {
            // The line began in another block, so it cannot be shown.
            *column = u32::try_from(self.before).unwrap_or(u32::MAX).saturating_add(*column);
            diagnostic.snippet = None;
        }
        diagnostic
    }
}

/// Where a text can be cut: the end of the last whole piece in it.
pub(crate) type Cut = fn(&[u8]) -> Option<usize>;

/// Cuts after whole lines.
pub(crate) fn line_end(text: &[u8]) -> Option<usize> {
    memchr::memrchr(b'\n', text).map(|i| i + 1)
}

/// Parses blocks of whole pieces with `parse`, on as many threads as the options say, and hands the results
/// to `merge` in input order.
///
/// `parse` cannot fail: what it found wrong is part of its result, as an offset in its block, because only
/// `merge` knows line numbers. Results are used again for later blocks, as they are large columns, which
/// would otherwise be mapped and unmapped all the time: `parse` must clear what it finds in them. The first
/// error of `merge` ends the reading.
pub(crate) fn parallel_blocks<T: Default + Send>(
    input: Input,
    options: &ReadOptions<'_>,
    cut: Cut,
    parse: impl Fn(&[u8], &mut T) + Sync,
    mut merge: impl FnMut(BlockInfo<'_>, &mut T) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let name = input.name().to_owned();
    let (mut next_line, mut before) = (1u32, 0);
    let mut merge_one = |block: &mut Block<T>| {
        let text = &block.bytes[..block.length];
        merge(BlockInfo { first_line: next_line, before, text, name: &name }, &mut block.parsed)?;
        before = memchr::memrchr(b'\n', text).map_or(before + text.len(), |i| text.len() - i - 1);
        next_line = next_line.saturating_add(block.lines);
        report(options, block.consumed)
    };
    let parse = |block: &mut Block<T>| {
        let text = &block.bytes[..block.length];
        block.lines = newlines(text);
        parse(text, &mut block.parsed);
    };
    let mut blocks = Blocks::new(input.into_reader(options)?, cut);
    let threads = options.threads.get();
    let alone = if threads == 1 { usize::MAX } else { BLOCKS_ALONE };
    let mut block = Block::default();
    for _ in 0..alone {
        match blocks.next(block)? {
            Some(next) => block = next,
            None => return Ok(()),
        }
        parse(&mut block);
        merge_one(&mut block)?;
    }
    let (recycle, used) = channel();
    let feed = Mutex::new(Feed { blocks, used, fresh: BLOCKS_PER_THREAD * threads });
    std::thread::scope(|scope| {
        let (turns, announced) = channel();
        let start = |_: &usize| {
            let (feed, turns, parse) = (&feed, turns.clone(), &parse);
            Builder::new().spawn_scoped(scope, move || work(feed, &turns, parse)).is_ok()
        };
        let workers = (0..threads).filter(start).count();
        drop(turns);
        if workers == 0 {
            // The system refuses threads.
            let mut block = Block::default();
            while let Some(next) = feed.lock().unwrap_or_else(PoisonError::into_inner).blocks.next(block)? {
                block = next;
                parse(&mut block);
                merge_one(&mut block)?;
            }
            return Ok(());
        }
        // `announced` and `recycle` close when this returns, early or not, and then the workers stop.
        let recycle = recycle;
        for turn in announced {
            let Ok(done) = turn.recv() else { break };
            let mut block = done?;
            merge_one(&mut block)?;
            // The workers may be gone already.
            let _ = recycle.send(block);
        }
        Ok(())
    })
}

/// Where the block of a worker will arrive.
type Turn<T> = Receiver<Result<Block<T>, ReadError>>;

/// Where workers get blocks from, one at a time.
struct Feed<T> {
    blocks: Blocks,
    used: Receiver<Block<T>>,
    /// Blocks that may still be made.
    fresh: usize,
}

impl<T: Default> Feed<T> {
    /// The next block, or what went wrong with it; `None` at the end, or when no more are wanted.
    fn next(&mut self) -> Option<Result<Block<T>, ReadError>> {
        let block = match self.used.try_recv() {
            Ok(block) => block,
            Err(_) if self.fresh > 0 => {
                self.fresh -= 1;
                Block::default()
            }
            Err(_) => self.used.recv().ok()?,
        };
        self.blocks.next(block).transpose()
    }
}

/// Reads and parses blocks until there are no more, or no more are wanted.
fn work<T: Default>(feed: &Mutex<Feed<T>>, turns: &Sender<Turn<T>>, parse: &impl Fn(&mut Block<T>)) {
    loop {
        let (result, turn) = sync_channel(1);
        let Ok(mut feed) = feed.lock() else { return };
        let Some(mut block) = feed.next() else { return };
        if turns.send(turn).is_err() {
            return;
        }
        drop(feed);
        if let Ok(block) = &mut block {
            parse(block);
        }
        let _ = result.send(block);
    }
}

/// Some whole pieces, and what was made of them. It travels in a circle, so that its memory is used again.
#[derive(Default)]
pub(crate) struct Block<T> {
    bytes: Vec<u8>,
    length: usize,
    consumed: u64,
    lines: u32,
    parsed: T,
}

/// Cuts an input into blocks of whole pieces.
pub(crate) struct Blocks {
    reader: Reader,
    cut: Cut,
    /// The beginning of the next block: what followed the last whole piece.
    rest: Vec<u8>,
    /// Of the next block.
    size: usize,
    at_end: bool,
    /// An error to report after the lines before it.
    pending: Option<ReadError>,
}

impl<T> Block<T> {
    /// The pieces.
    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Blocks {
    pub fn new(reader: Reader, cut: Cut) -> Blocks {
        Blocks { reader, cut, rest: Vec::new(), size: FIRST_BLOCK, at_end: false, pending: None }
    }

    fn too_long(&self, length: usize) -> ReadError {
        let place = Place::Byte(self.reader.produced() - length as u64);
        let message = format!("a line of more than {LONGEST} bytes begins here");
        ReadError::Malformed(vec![Diagnostic::error(self.reader.name(), place, message)])
    }

    /// The next block, in the memory of a used one. Its bytes keep their length, which saves clearing them.
    pub fn next<T>(&mut self, mut block: Block<T>) -> Result<Option<Block<T>>, ReadError> {
        if let Some(error) = self.pending.take() {
            self.at_end = true;
            return Err(error);
        }
        if self.at_end {
            return Ok(None);
        }
        let bytes = &mut block.bytes;
        let mut length = self.rest.len();
        // Not as much as a used block may hold: where blocks end must depend on nothing but the input.
        let mut wanted = self.size.max(length + self.size / 2);
        self.size = BLOCK;
        bytes.resize(bytes.len().max(wanted), 0);
        bytes[..length].copy_from_slice(&self.rest);
        self.rest.clear();
        loop {
            match self.reader.fill(&mut bytes[length..wanted]) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(n) => {
                    length += n;
                    if length < wanted {
                        // The end, or an error that the next call tells.
                        continue;
                    }
                    if let Some(end) = (self.cut)(&bytes[..length]) {
                        self.rest.extend_from_slice(&bytes[end..length]);
                        length = end;
                        break;
                    }
                    if length >= LONGEST {
                        return Err(self.too_long(length));
                    }
                    wanted *= 2;
                    bytes.resize(bytes.len().max(wanted), 0);
                }
                Err(error) => {
                    // A line that was cut by damage is not worth a diagnostic of its own.
                    length = (self.cut)(&bytes[..length]).unwrap_or(0);
                    self.pending = Some(error);
                    break;
                }
            }
        }
        if length == 0 {
            self.at_end = true;
            return self.pending.take().map_or(Ok(None), Err);
        }
        (block.length, block.consumed) = (length, self.reader.consumed());
        Ok(Some(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    fn options(threads: usize) -> ReadOptions<'static> {
        ReadOptions { threads: NonZeroUsize::new(threads).unwrap(), ..ReadOptions::default() }
    }

    fn collect(text: &[u8], threads: usize) -> (Vec<u8>, Vec<u32>) {
        let (mut all, mut firsts) = (Vec::new(), Vec::new());
        parallel_blocks(
            Input::from_bytes("x", text.to_vec()),
            &options(threads),
            line_end,
            |text, block: &mut Vec<u8>| *block = text.to_vec(),
            |info, block| {
                assert_eq!(info.text, block);
                firsts.push(info.first_line);
                all.append(block);
                Ok(())
            },
        )
        .unwrap();
        (all, firsts)
    }

    #[test]
    fn blocks_arrive_whole_and_in_order() {
        let mut text = Vec::new();
        for i in 0..700_000u32 {
            text.extend(format!("{i}\n").bytes());
        }
        text.extend(vec![b'x'; 3 << 20]);
        text.extend(b"\nlast line without an end");
        let (alone, lines) = collect(&text, 1);
        assert_eq!(alone, text);
        assert!(lines.len() > 3 && lines.windows(2).all(|w| w[0] < w[1]));
        for threads in [2, 3, 8] {
            assert_eq!(collect(&text, threads), (alone.clone(), lines.clone()));
        }
        assert_eq!(collect(b"", 4), (vec![], vec![]));
    }

    #[test]
    fn an_error_in_the_merge_stops_every_thread() {
        for threads in [1, 3] {
            let result = parallel_blocks(
                Input::from_bytes("x", b"line\n".repeat(2_000_000)),
                &options(threads),
                line_end,
                |_, ()| {},
                |info, ()| match info.first_line {
                    1 => Ok(()),
                    _ => Err(info.malformed(&Fault::new(7, "no"))),
                },
            );
            let Err(ReadError::Malformed(found)) = result else { panic!("{result:?}") };
            assert_eq!(found[0].snippet.as_deref(), Some("line"));
            assert!(matches!(found[0].place, Place::Line { line: 2.., column: 3 }), "{found:?}");
        }
    }

    #[test]
    fn lines_before_damage_are_delivered_before_the_error() {
        let text =
            (0..400_000u32).map(|i| format!("{}\n", i.wrapping_mul(2_654_435_761))).collect::<String>();
        let mut packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
        packed.truncate(packed.len() / 2);
        let mut seen = 0;
        let result = parallel_blocks(
            Input::from_bytes("x", packed),
            &options(2),
            line_end,
            |block, whole| *whole = block.last() == Some(&b'\n'),
            |info, whole| {
                assert!(*whole);
                seen += info.text.len();
                Ok(())
            },
        );
        assert!(matches!(result, Err(ReadError::Malformed(_))));
        assert!(seen > 100_000);
    }
}
