//! Text in lines, parsed by several threads and merged in order.
//!
//! ```text
//! reader thread ──blocks of whole lines──► worker 0 ──┐
//!      ▲                                   worker 1 ──┼──► merge, on the calling thread, in input order
//!      └────────────── used buffers ──────────────────┘
//! ```
//! Blocks go to workers in turn and are collected in the same turn, so the order needs no bookkeeping. Every channel is
//! bounded: at most a few blocks per worker exist at a time, whatever the size of the input. The reader also
//! decompresses. An input of one block needs no thread.

use crate::input::{Input, Reader, report};
use crate::{Diagnostic, Place, ReadError, ReadOptions};
use std::sync::mpsc::{channel, sync_channel};

/// Small enough for a core's own cache, so that a worker finds in cache what the reader has just copied.
const BLOCK: usize = 1 << 20;
/// The first block: most inputs are small.
const FIRST_BLOCK: usize = 64 << 10;

/// Where a block of whole lines stands in the input.
pub(crate) struct BlockInfo<'a> {
    /// Number of its first line, from 1.
    pub first_line: u32,
    /// The block.
    pub text: &'a [u8],
    /// The input as the user named it.
    pub name: &'a str,
}

impl BlockInfo<'_> {
    /// An error at an offset in this block, with the line in question.
    pub fn error(&self, offset: usize, message: impl Into<String>) -> Diagnostic {
        let (place, line) = locate(self.text, self.first_line, offset);
        Diagnostic::error(self.name, place, message).snippet(line)
    }
}

/// Line and column of an offset, and the line without its end.
pub(crate) fn locate(text: &[u8], first_line: u32, offset: usize) -> (Place, &[u8]) {
    let offset = offset.min(text.len());
    let start = memchr::memrchr(b'\n', &text[..offset]).map_or(0, |i| i + 1);
    let end = memchr::memchr(b'\n', &text[offset..]).map_or(text.len(), |i| offset + i);
    let line = first_line.saturating_add(count_lines(&text[..start]));
    let column = u32::try_from(offset - start + 1).unwrap_or(u32::MAX);
    let shown = text[start..end].strip_suffix(b"\r").unwrap_or(&text[start..end]);
    (Place::Line { line, column }, shown)
}

fn count_lines(text: &[u8]) -> u32 {
    u32::try_from(memchr::memchr_iter(b'\n', text).count()).unwrap_or(u32::MAX)
}

/// Parses whole-line blocks with `parse`, on as many threads as the options say, and hands the results to `merge` in input order.
///
/// `parse` cannot fail: what it found wrong is part of its result, as an offset in its block, because only `merge` knows line
/// numbers. Every block ends in a newline, except perhaps the last. The first error of `merge` ends the reading.
pub(crate) fn parallel_lines<T: Send>(
    input: Input,
    options: &ReadOptions<'_>,
    parse: impl Fn(&[u8]) -> T + Sync,
    mut merge: impl FnMut(BlockInfo<'_>, T) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    parallel_lines_reusing(
        input,
        options,
        |text, slot| *slot = Some(parse(text)),
        |info, slot: &mut Option<T>| slot.take().map_or(Ok(()), |parsed| merge(info, parsed)),
    )
}

/// As [`parallel_lines`], but results are used again for later blocks: `parse` must clear what it finds in them. Worth it
/// where results are large columns, which would otherwise be mapped and unmapped all the time.
pub(crate) fn parallel_lines_reusing<T: Default + Send>(
    input: Input,
    options: &ReadOptions<'_>,
    parse: impl Fn(&[u8], &mut T) + Sync,
    mut merge: impl FnMut(BlockInfo<'_>, &mut T) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let name = input.name().to_owned();
    let mut next_line = 1u32;
    let mut merge_one = |block: &mut Block<T>| {
        let text = &block.bytes[..block.length];
        merge(BlockInfo { first_line: next_line, text, name: &name }, &mut block.parsed)?;
        next_line = next_line.saturating_add(block.lines);
        report(options, block.consumed)
    };
    let parse = |block: &mut Block<T>| {
        let text = &block.bytes[..block.length];
        block.lines = count_lines(text);
        parse(text, &mut block.parsed);
    };
    let mut blocks = Blocks {
        reader: input.into_reader()?,
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
            for worker in to_workers.iter().cycle() {
                let Some(block) = next else { break };
                // A closed channel means that the merge has failed: nobody wants more.
                if worker.send(block).is_err() {
                    break;
                }
                next = blocks.next(used.try_recv().unwrap_or_default()).transpose();
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

/// Some whole lines, and what was made of them. It travels in a circle, so that its memory is used again.
#[derive(Default)]
struct Block<T> {
    bytes: Vec<u8>,
    length: usize,
    consumed: u64,
    lines: u32,
    parsed: T,
}

/// Cuts an input into blocks of whole lines.
struct Blocks {
    reader: Reader,
    /// The beginning of the next block: what followed the last newline.
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
        bytes.resize(bytes.len().max(self.size).max(length + self.size / 2), 0);
        self.size = BLOCK;
        bytes[..length].copy_from_slice(&self.rest);
        self.rest.clear();
        loop {
            match self.reader.fill(&mut bytes[length..]) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(n) => {
                    length += n;
                    if length < bytes.len() {
                        // The end, or an error that the next call tells.
                        continue;
                    }
                    if let Some(newline) = memchr::memrchr(b'\n', bytes) {
                        length = newline + 1;
                        self.rest.extend_from_slice(&bytes[length..]);
                        break;
                    }
                    bytes.resize(length * 2, 0);
                }
                Err(error) => {
                    // A line that was cut by damage is not worth a diagnostic of its own.
                    length = memchr::memrchr(b'\n', &bytes[..length]).map_or(0, |i| i + 1);
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
        parallel_lines(
            Input::from_bytes("x", text.to_vec()),
            &options(threads),
            |block| block.to_vec(),
            |info, block| {
                assert_eq!(info.text, block);
                firsts.push(info.first_line);
                all.extend(block);
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
            let result = parallel_lines(
                Input::from_bytes("x", b"line\n".repeat(2_000_000)),
                &options(threads),
                |block| block.len(),
                |info, _| match info.first_line {
                    1 => Ok(()),
                    _ => Err(ReadError::Malformed(vec![info.error(7, "no")])),
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
        let result = parallel_lines(
            Input::from_bytes("x", packed),
            &options(2),
            |block| block.last() == Some(&b'\n'),
            |info, whole| {
                assert!(whole);
                seen += info.text.len();
                Ok(())
            },
        );
        assert!(matches!(result, Err(ReadError::Malformed(_))));
        assert!(seen > 100_000);
    }
}
