//! Systems that are not Unix.

use super::Stream;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

fn unsupported(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{what} needs a Unix system"))
}

/// Does something at an offset, and moves the cursor back. Only for files that one thread uses.
fn at<T>(mut file: &File, offset: u64, act: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    let cursor = file.stream_position()?;
    file.seek(SeekFrom::Start(offset))?;
    let done = act(file);
    file.seek(SeekFrom::Start(cursor))?;
    done
}

/// Reads once from an offset; the cursor stays.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    at(file, offset, |mut file| file.read(buffer))
}

/// Writes everything at an offset; the cursor stays.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    at(file, offset, |mut file| file.write_all(bytes))
}

/// Does nothing: the standard library opens no folders here.
pub fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Fails: the standard library does not say which file it is.
pub fn identity(_metadata: &Metadata) -> io::Result<(u64, u64)> {
    Err(unsupported("following a file"))
}

/// Fails.
pub fn connect(_path: &Path) -> io::Result<Box<dyn Write>> {
    Err(unsupported("unix:PATH"))
}

/// Fails.
pub fn listen(_path: &Path) -> io::Result<std::iter::Empty<Stream>> {
    Err(unsupported("unix:PATH"))
}

/// The name of the account that this process runs under.
pub fn account() -> Option<String> {
    std::env::var("USERNAME").ok().filter(|user| !user.is_empty())
}

/// No limit.
pub fn address_space() -> Option<u64> {
    None
}

/// Fails.
pub fn start_apart(_command: &mut Command) -> io::Result<Child> {
    Err(unsupported("a group of processes"))
}

/// No process was started.
pub fn parent() -> Option<u32> {
    None
}

/// No process was started.
pub fn interrupt(_child: &Child) {}

/// There are no signals.
pub fn is_abort(_status: ExitStatus) -> bool {
    false
}
