//! The lines of an input, or of a piece of a file, without holding more than a block.

use crate::load::lines::{Block, Blocks, line_end};
use crate::{Input, ReadError, ReadOptions};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

/// Blocks of whole lines.
pub struct LineBlocks {
    blocks: Blocks,
    block: Block<()>,
}

impl LineBlocks {
    /// All lines of a file, which may be compressed.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn whole(path: &Path, options: &ReadOptions<'_>) -> Result<LineBlocks, ReadError> {
        LineBlocks::of(Input::open(path)?, options)
    }

    /// The lines of a file that begin in a range of its bytes. Ranges that cover a file give each line once.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn piece(path: &Path, range: Range<u64>, options: &ReadOptions<'_>) -> Result<LineBlocks, ReadError> {
        let name = path.display().to_string();
        let piece = File::open(path).and_then(|file| Piece::new(file, range));
        let piece = piece.map_err(|source| ReadError::Io { file: name.clone(), source })?;
        LineBlocks::of(Input::from_reader(&name, piece)?, options)
    }

    fn of(input: Input, options: &ReadOptions<'_>) -> Result<LineBlocks, ReadError> {
        Ok(LineBlocks { blocks: Blocks::new(input.into_reader(options)?, line_end), block: Block::default() })
    }

    /// The next block, which ends with a line; `None` at the end.
    ///
    /// # Errors
    /// If reading fails, or a line is too long.
    pub fn next_block(&mut self) -> Result<Option<&[u8]>, ReadError> {
        match self.blocks.next(std::mem::take(&mut self.block))? {
            Some(block) => {
                self.block = block;
                Ok(Some(self.block.text()))
            }
            None => Ok(None),
        }
    }
}

/// The lines of a file that begin in a range.
struct Piece {
    file: File,
    at: u64,
    end: u64,
    /// What was read while looking for the beginning.
    ahead: Vec<u8>,
    done: bool,
}

impl Piece {
    fn new(mut file: File, range: Range<u64>) -> std::io::Result<Piece> {
        let Range { start, end } = range;
        let mut piece =
            Piece { file: file.try_clone()?, at: start, end, ahead: Vec::new(), done: start >= end };
        if start > 0 && !piece.done {
            // A line begins here if the byte before is the end of one.
            file.seek(SeekFrom::Start(start - 1))?;
            piece.at = start - 1;
            let mut buffer = vec![0; 1 << 14];
            loop {
                let n = file.read(&mut buffer)?;
                if n == 0 {
                    piece.done = true;
                    break;
                }
                if let Some(i) = memchr::memchr(b'\n', &buffer[..n]) {
                    piece.at += i as u64 + 1;
                    piece.ahead = buffer[i + 1..n].to_vec();
                    piece.done = piece.at >= end;
                    break;
                }
                piece.at += n as u64;
            }
        }
        Ok(piece)
    }
}

impl Read for Piece {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.done || buffer.is_empty() {
            return Ok(0);
        }
        let mut n = if self.ahead.is_empty() {
            self.file.read(buffer)?
        } else {
            let n = self.ahead.len().min(buffer.len());
            buffer[..n].copy_from_slice(&self.ahead[..n]);
            self.ahead.drain(..n);
            n
        };
        if n == 0 {
            self.done = true;
            return if self.at >= self.end {
                Ok(0)
            } else {
                Err(std::io::Error::other("the file is shorter than it was"))
            };
        }
        // The last line is the one that holds the byte before the end.
        let last = (self.end - 1).saturating_sub(self.at) as usize;
        if last < n
            && let Some(i) = memchr::memchr(b'\n', &buffer[last..n])
        {
            n = last + i + 1;
            self.done = true;
        }
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pieces_give_each_line_once() {
        let mut rng = fastrand::Rng::with_seed(4);
        let path = std::env::temp_dir().join(format!("anomalist-pieces-{}", std::process::id()));
        for round in 0..200 {
            let mut text = Vec::new();
            for i in 0..rng.usize(0..30) {
                text.extend_from_slice(
                    "x".repeat(rng.usize(0..if round % 9 == 0 { 40_000 } else { 9 })).as_bytes(),
                );
                text.extend_from_slice(format!("{i}\n").as_bytes());
            }
            if rng.bool() {
                text.extend_from_slice(b"no end");
            }
            std::fs::write(&path, &text).unwrap();
            let size = text.len() as u64;
            let step = rng.u64(1..size.max(2) + 5);
            let (mut all, mut at) = (Vec::new(), 0);
            while at < size {
                let range = at..(at + step).min(size);
                let mut blocks = LineBlocks::piece(&path, range, &ReadOptions::default()).unwrap();
                while let Some(block) = blocks.next_block().unwrap() {
                    all.extend_from_slice(block);
                }
                at += step;
            }
            assert_eq!(all, text);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
