//! What does not fit into memory: one file per part, in a folder that goes away with the worker.

use crate::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Bytes that are kept back until they are worth a write, per worker.
const HELD: usize = 32 << 20;

/// The files of a worker's parts.
pub(crate) struct Spill {
    folder: PathBuf,
    parts: Vec<Part>,
    held: usize,
}

#[derive(Default)]
struct Part {
    pending: Vec<u8>,
    written: u64,
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::Scratch(format!("{what} {}: {error}", path.display()))
}

impl Spill {
    /// In a folder of this name, which must not exist: files of another run would be appended to.
    pub fn new(folder: PathBuf, parts: usize) -> Result<Spill, Error> {
        let above = folder.parent().map_or(Ok(()), std::fs::create_dir_all);
        let made = above.and_then(|()| std::fs::create_dir(&folder));
        made.map_err(|error| failed("cannot make", &folder, &error))?;
        Ok(Spill { folder, parts: (0..parts).map(|_| Part::default()).collect(), held: 0 })
    }

    fn path(&self, part: usize) -> PathBuf {
        self.folder.join(format!("part-{part}"))
    }

    /// Appends a block to a part.
    pub fn append(&mut self, part: usize, block: &[u8]) -> Result<(), Error> {
        let pending = &mut self.parts[part].pending;
        pending.extend_from_slice(&(block.len() as u32).to_le_bytes());
        pending.extend_from_slice(block);
        self.held += block.len() + 4;
        if self.held >= HELD {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what was kept back, the largest pieces first, until little is left.
    fn flush(&mut self) -> Result<(), Error> {
        let least = self.held / self.parts.len().max(1) / 2;
        for part in 0..self.parts.len() {
            if self.parts[part].pending.len() > least {
                self.write(part)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, part: usize) -> Result<(), Error> {
        let path = self.path(part);
        let pending = std::mem::take(&mut self.parts[part].pending);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(&pending))
            .map_err(|error| failed("cannot write", &path, &error))?;
        self.held -= pending.len();
        self.parts[part].written += pending.len() as u64;
        Ok(())
    }

    /// Bytes of a part.
    pub fn size(&self, part: usize) -> u64 {
        self.parts[part].written + self.parts[part].pending.len() as u64
    }

    /// A part. Only the memory of one part is needed at a time.
    pub fn read(&self, part: usize) -> Result<Blocks, Error> {
        let Part { pending, written } = &self.parts[part];
        let mut bytes = Vec::with_capacity(*written as usize + pending.len());
        if *written > 0 {
            let path = self.path(part);
            let read = File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes));
            read.map_err(|error| failed("cannot read", &path, &error))?;
            if bytes.len() as u64 != *written {
                return Err(Error::Scratch(format!("{} has changed", path.display())));
            }
        }
        bytes.extend_from_slice(pending);
        Ok(Blocks { bytes })
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The blocks of a part.
pub(crate) struct Blocks {
    bytes: Vec<u8>,
}

impl Blocks {
    /// In the order in which they were appended; each is whole, because `append` wrote it.
    pub fn all(&self) -> Vec<&[u8]> {
        let (mut rest, mut all) = (&self.bytes[..], Vec::new());
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = (u32::from_le_bytes(*length) as usize).min(after.len());
            let (block, others) = after.split_at(length);
            all.push(block);
            rest = others;
        }
        all
    }
}
