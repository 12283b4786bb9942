//! Unix.

use super::Stream;
use rustix::process::{Pid, Resource, Signal, getppid, getrlimit, kill_process};
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

/// Reads once from an offset; the cursor stays.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// Writes everything at an offset; the cursor stays.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Forces to disk which files a folder has.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Two files are the same if their identities are.
pub fn identity(metadata: &Metadata) -> io::Result<(u64, u64)> {
    Ok((metadata.dev(), metadata.ino()))
}

/// Connects to a socket in the file system.
pub fn connect(path: &Path) -> io::Result<Box<dyn Write>> {
    Ok(Box::new(UnixStream::connect(path)?))
}

/// Listens on a socket in the file system: one item for each connection.
pub fn listen(path: &Path) -> io::Result<impl Iterator<Item = Stream> + Send + use<>> {
    // A socket that a killed process left behind has no listener.
    if UnixStream::connect(path).is_err()
        && std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
    {
        _ = std::fs::remove_file(path);
    }
    let listener = UnixListener::bind(path)?;
    let accepted = std::iter::repeat_with(move || listener.accept());
    Ok(accepted.flatten().map(|(stream, _)| {
        let writer = stream.try_clone().map(|writer| Box::new(writer) as Box<dyn Write + Send>);
        Stream { reader: Box::new(stream), writer }
    }))
}

/// The name of the account that this process runs under.
pub fn account() -> Option<String> {
    let number = rustix::process::geteuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    named.or_else(|| std::env::var("USER").ok().filter(|user| !user.is_empty()))
}

/// What `ulimit -v` says; `None` if it limits nothing.
pub fn address_space() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// Starts a process in a group of its own, which the signals of the terminal do not reach.
pub fn start_apart(command: &mut Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}

/// The process that started this one, or that took its place.
pub fn parent() -> Option<u32> {
    getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
}

/// Asks a process that was started for its end, as Ctrl-C does.
pub fn interrupt(child: &Child) {
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // It may have ended.
        let _ = kill_process(pid, Signal::INT);
    }
}

/// Whether a process was ended by its own runtime, as it is when memory is refused.
pub fn is_abort(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::ABORT.as_raw())
}
