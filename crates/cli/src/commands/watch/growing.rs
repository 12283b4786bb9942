//! Files that grow while they are read, as `--follow` takes them.
//!
//! The end of such a file is not the end: the reader waits there for more. Log rotation does end it. A file
//! that was renamed and made anew is noticed by the identity of what has the name now, one that was copied
//! and truncated by its length, or, if it has grown past the place of the reader by then, by its first
//! bytes. Lines may have been lost either way, so that is an error, and never the middle of another file.

use super::sources::BEGINNING;
use crate::{interrupt, system};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How often a file that does not grow is looked at.
const POLL: Duration = Duration::from_millis(20);

/// A file that grows.
pub struct Growing {
    file: File,
    path: PathBuf,
    /// Bytes before the place of the reader.
    offset: u64,
    /// The first of them.
    beginning: Vec<u8>,
}

impl Growing {
    /// `file` is open at `offset`, and has the name `path`.
    pub fn new(file: File, path: &Path, offset: u64) -> io::Result<Growing> {
        // Where files have no identity, rotation would go unnoticed.
        system::identity(&file.metadata()?)?;
        let mut growing = Growing { file, path: path.to_owned(), offset, beginning: Vec::new() };
        growing.beginning = growing.first_bytes(offset)?;
        Ok(growing)
    }

    /// The first bytes, at most so many.
    fn first_bytes(&self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; BEGINNING.min(usize::try_from(most).unwrap_or(BEGINNING))];
        let mut read = 0;
        while read < bytes.len() {
            match system::read_at(&self.file, &mut bytes[read..], read as u64)? {
                0 => break,
                n => read += n,
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Fails if what was read so far is no longer in the file. Pipes and devices have no length.
    fn is_intact(&self) -> io::Result<()> {
        let metadata = self.file.metadata()?;
        if !metadata.is_file() {
            return Ok(());
        }
        if metadata.len() < self.offset || self.first_bytes(self.offset)? != self.beginning {
            return Err(rotated("the file was truncated while it was followed"));
        }
        Ok(())
    }

    /// Fails if another file has the name now. If there is none, the writer may still have this one open.
    fn is_named(&self) -> io::Result<()> {
        let ours = system::identity(&self.file.metadata()?)?;
        match fs::metadata(&self.path) {
            Ok(metadata) if system::identity(&metadata)? != ours => {
                Err(rotated("another file has taken the place of the one that was followed"))
            }
            _ => Ok(()),
        }
    }
}

fn rotated(what: &str) -> io::Error {
    io::Error::other(format!("{what} (log rotation?); lines may have been lost"))
}

impl Read for Growing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Looked at before the last read: what was written before the file lost its name is read.
        let mut waited = false;
        loop {
            let named = self.is_named();
            let read = self.file.read(buffer)?;
            if waited || read == 0 {
                self.is_intact()?;
            }
            if read > 0 {
                let missing = BEGINNING.saturating_sub(self.beginning.len()).min(read);
                self.beginning.extend_from_slice(&buffer[..missing]);
                self.offset += read as u64;
                return Ok(read);
            }
            named?;
            if interrupt::is_requested() {
                return Ok(0);
            }
            waited = true;
            thread::sleep(POLL);
        }
    }
}

/// Standard input that is followed: it has no name and cannot be rotated away.
pub struct Patient<R>(pub R);

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer)? {
                0 if !interrupt::is_requested() => thread::sleep(POLL),
                read => return Ok(read),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("anomalist-growing-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder.join("log")
    }

    #[test]
    fn a_file_that_was_truncated_and_has_grown_again_is_noticed() {
        let path = file("truncated");
        fs::write(&path, "first\n").unwrap();
        let mut growing = Growing::new(File::open(&path).unwrap(), &path, 0).unwrap();
        let mut buffer = [0; 64];
        assert_eq!(growing.read(&mut buffer).unwrap(), 6);
        let mut again = File::create(&path).unwrap();
        again.write_all(b"other lines\n").unwrap();
        growing.is_intact().unwrap_err();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_was_written_before_a_file_lost_its_name_is_read() {
        let path = file("renamed");
        fs::write(&path, "first\n").unwrap();
        let mut growing = Growing::new(File::open(&path).unwrap(), &path, 0).unwrap();
        fs::rename(&path, path.with_extension("1")).unwrap();
        fs::write(&path, "").unwrap();
        let mut buffer = [0; 64];
        assert_eq!(growing.read(&mut buffer).unwrap(), 6);
        growing.read(&mut buffer).unwrap_err();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
