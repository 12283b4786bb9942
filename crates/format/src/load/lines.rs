//! Text in lines or other whole pieces, parsed by several threads and merged in order.
//!
//! ```text
//! reader thread ──blocks of whole pieces─► worker 0 ──┐
//!      ▲                                   worker 1 ──┼──► merge, on the calling thread, in input order
//!      └────────────── used buffers ──────────────────┘
//! ```
//! Blocks go to workers in turn and are collected in the same turn, so the order needs no bookkeeping. There are a few blocks
//! per worker, whatever the size of the input: memory that is used for the first time costs as much as parsing into it.
//! The reader also decompresses. An input of one block needs no thread.

use crate::input::{Input, Reader, report};
use crate::text::fault::{Fault, newlines};
use crate::{Diagnostic, Place, ReadError, ReadOptions};
use std::sync::mpsc::{channel, sync_channel};

/// Small enough for a core's own cache, so that a worker finds in cache what the reader has just copied.
/// Tiny where a fuzzer, which knows short inputs only, is to find what goes wrong between two blocks.
const BLOCK: usize = if cfg!(fuzzing) { 64 } else { 128 << 10 };
/// Blocks that exist at a time: one is parsed, one waits for it, one is read or merged.
const BLOCKS_PER_THREAD: usize = 3;
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

/// Parses blocks of whole pieces with `parse`, on as many threads as the options say, and hands the results to `merge` in input order.
///
/// `parse` cannot fail: what it found wrong is part of its result, as an offset in its block, because only `merge` knows line
/// numbers. Results are used again for later blocks, as they are large columns, which would otherwise be mapped and unmapped
/// all the time: `parse` must clear what it finds in them. The first error of `merge` ends the reading.
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
    let mut blocks = Blocks {
        reader: input.into_reader()?,
        cut,
        rest: Vec::new(),
        size: FIRST_BLOCK,
        at_end: false,
        pending: None,
    };
    let Some(mut block) = blocks.next(Block::default())? else { return Ok(()) };
    let threads = options.threads.get();
    if threads == 1 || blocks.at_end {
        loop {
            parse(&mut block);
            merge_one(&mut block)?;
            match blocks.next(block)? {
                Some(next) => block = next,
                None => return Ok(()),
            }
        }
    }
    let parse = &parse;
    std::thread::scope(|scope| {
        let (to_workers, from_workers): (Vec<_>, Vec<_>) = (0..threads)
            .map(|_| {
                let (to_worker, work) = sync_channel::<Result<Block<T>, ReadError>>(1);
                let (result, from_worker) = sync_channel(1);
                scope.spawn(move || {
                    for mut block in work {
                        if let Ok(block) = &mut block {
                            parse(block);
                        }
                        if result.send(block).is_err() {
                            break;
                        }
                    }
                });
                (to_worker, from_worker)
            })
            .unzip();
        let (recycle, used) = channel::<Block<T>>();
        scope.spawn(move || {
            let mut next = Some(Ok(block));
            let mut fresh = (1..BLOCKS_PER_THREAD * threads).map(|_| Block::default());
            for worker in to_workers.iter().cycle() {
                let Some(block) = next else { break };
                // A closed channel means that the merge has failed: nobody wants more.
                if worker.send(block).is_err() {
                    break;
                }
                let again = used.try_recv().ok().or_else(|| fresh.next());
                let Some(block) = again.or_else(|| used.recv().ok()) else { break };
                next = blocks.next(block).transpose();
            }
        });
        // `from_workers` closes when this returns, early or not, and then the threads above stop.
        for worker in from_workers.iter().cycle() {
            let Ok(done) = worker.recv() else { break };
            let mut block = done?;
            merge_one(&mut block)?;
            // The reader may be gone already.
            let _ = recycle.send(block);
        }
        Ok(())
    })
}

/// Some whole pieces, and what was made of them. It travels in a circle, so that its memory is used again.
#[derive(Default)]
struct Block<T> {
    bytes: Vec<u8>,
    length: usize,
    consumed: u64,
    lines: u32,
    parsed: T,
}

/// Cuts an input into blocks of whole pieces.
struct Blocks {
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

impl Blocks {
    /// The next block, in the memory of a used one. Its bytes keep their length, which saves clearing them.
    fn next<T>(&mut self, mut block: Block<T>) -> Result<Option<Block<T>>, ReadError> {
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
