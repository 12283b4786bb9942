//! Readers that count, that fail once, and that notice when their file changes.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// Counts what passes through it.
pub struct Counting<R> {
    pub inner: R,
    pub count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.count.fetch_add(n as u64, Relaxed);
        Ok(n)
    }
}

/// A file that must stay as it was when it was opened.
pub struct Unchanged {
    file: File,
    size: u64,
    modified: Option<SystemTime>,
    read: u64,
}

impl Unchanged {
    /// Reads a file and watches it. Pipes and devices have no size to compare with.
    pub fn watch(file: File) -> std::io::Result<Box<dyn Read + Send>> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Box::new(file));
        }
        let (size, modified) = (metadata.len(), metadata.modified().ok());
        Ok(Box::new(Unchanged { file, size, modified, read: 0 }))
    }
}

impl Read for Unchanged {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.file.read(buffer)?;
        self.read += n as u64;
        // Files of /proc and the like say that they are empty.
        if n == 0 && !buffer.is_empty() && self.size > 0 {
            let now = self.file.metadata()?;
            if now.len() != self.size || now.modified().ok() != self.modified || self.read != self.size {
                return Err(std::io::Error::other(Changed { at: self.read }));
            }
        }
        Ok(n)
    }
}

/// A file was written to, or cut, while it was read.
#[derive(Debug, thiserror::Error)]
#[error("the file changed while it was read")]
pub struct Changed {
    pub at: u64,
}

/// A reader that fails once.
pub struct Failing(pub Option<std::io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
