//! The input: files, cut into pieces that workers read in parallel.
//!
//! A file is cut into ranges of bytes; a line belongs to the range in which it begins. A compressed file is
//! one piece. A transaction's number says its piece and its line there, so numbers are in the order of the
//! input without any agreement between workers.

use crate::error::Error;
use anomalist_format::shard::LineBlocks;
use anomalist_format::{Input, ReadOptions};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Bytes of a piece: enough that the records of one destination make a good block.
const PIECE: u64 = 16 << 20;
/// What a compressed file may hold, per byte, at a guess: histories compress about tenfold.
const EXPANDS: u64 = 12;

/// A piece of the input.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub file: usize,
    /// `None`: the whole file, which is compressed.
    pub range: Option<Range<u64>>,
}

/// What a file is known by: if it changes, so does this.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Stamp {
    size: u64,
    /// A number made of the first and the last bytes.
    ends: u64,
}

/// The files, and how they are cut.
pub(crate) struct Files {
    paths: Vec<PathBuf>,
    pub pieces: Vec<Piece>,
    pub stamps: Vec<Stamp>,
    /// When each was last written to, as far as this machine knows.
    modified: Vec<Option<u128>>,
    /// Bytes of text, as far as can be guessed.
    pub text: u64,
}

/// The bits of a transaction's number that say its line in its piece.
const LINE_BITS: u32 = 40;

impl Files {
    /// `piece`: bytes of a piece; 0: what is usual.
    pub fn new(paths: &[PathBuf], piece: u64) -> Result<Files, Error> {
        let piece = if piece == 0 { PIECE } else { piece };
        let mut files = Files {
            paths: paths.to_vec(),
            pieces: Vec::new(),
            stamps: Vec::new(),
            modified: Vec::new(),
            text: 0,
        };
        for (file, path) in paths.iter().enumerate() {
            if path.as_os_str() == "-" {
                let message = "standard input cannot be read by several workers: give a file";
                return Err(Error::Unsupported(message.to_owned()));
            }
            let is_packed = Input::open(path)?.is_compressed();
            let stamp = stamp(path)?;
            files.modified.push(modified(path)?);
            let size = stamp.size;
            files.stamps.push(stamp);
            if is_packed {
                files.pieces.push(Piece { file, range: None });
                files.text += size * EXPANDS;
                continue;
            }
            files.text += size;
            for start in (0..size).step_by(piece as usize) {
                files.pieces.push(Piece { file, range: Some(start..(start + piece).min(size)) });
            }
        }
        if files.pieces.len() as u64 >= 1 << (64 - LINE_BITS - 1) {
            return Err(Error::Unsupported("the input has too many pieces".to_owned()));
        }
        Ok(files)
    }

    pub fn path(&self, piece: &Piece) -> &Path {
        &self.paths[piece.file]
    }

    /// The lines of a piece.
    pub fn open(&self, piece: &Piece) -> Result<LineBlocks, Error> {
        let (path, options) = (self.path(piece), ReadOptions::default());
        Ok(match &piece.range {
            None => LineBlocks::whole(path, &options)?,
            Some(range) => LineBlocks::piece(path, range.clone(), &options)?,
        })
    }

    /// Fails if a file is no longer what it was.
    pub fn check(&self, piece: &Piece) -> Result<(), Error> {
        let path = self.path(piece);
        match stamp(path)? == self.stamps[piece.file] && modified(path)? == self.modified[piece.file] {
            true => Ok(()),
            false => Err(Error::Input(format!("{}: the file changed while it was read", path.display()))),
        }
    }

    /// Who reads a piece.
    pub fn reader(piece: usize, workers: usize) -> usize {
        piece % workers
    }
}

/// The number of the transaction on a line of a piece.
pub(crate) fn seq(piece: usize, line: u64) -> u64 {
    (piece as u64) << LINE_BITS | line
}

/// The piece and the line in it, from 0, of a number.
pub(crate) fn place(seq: u64) -> (usize, u64) {
    ((seq >> LINE_BITS) as usize, seq & ((1 << LINE_BITS) - 1))
}

fn stamp(path: &Path) -> Result<Stamp, Error> {
    use std::io::{Read, Seek, SeekFrom};
    const END: u64 = 1 << 12;
    let read = || -> std::io::Result<Stamp> {
        let mut file = std::fs::File::open(path)?;
        let size = file.metadata()?.len();
        let mut ends = Vec::new();
        (&mut file).take(END).read_to_end(&mut ends)?;
        file.seek(SeekFrom::Start(size.saturating_sub(END)))?;
        file.take(END).read_to_end(&mut ends)?;
        let mut hasher = rustc_hash::FxHasher::default();
        std::hash::Hasher::write(&mut hasher, &ends);
        Ok(Stamp { size, ends: std::hash::Hasher::finish(&hasher) })
    };
    read().map_err(|error| Error::Input(format!("{}: {error}", path.display())))
}

fn modified(path: &Path) -> Result<Option<u128>, Error> {
    let metadata = std::fs::metadata(path);
    let metadata = metadata.map_err(|error| Error::Input(format!("{}: {error}", path.display())))?;
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(since.map(|since| since.as_nanos()))
}
