//! Where a history goes: standard output, a file that appears only when it is complete, or a folder
//! likewise.
//!
//! A history is written to a temporary name beside its own and renamed at the end, so no reader ever finds
//! half a file under the name they asked for. Names ending in `.gz` or `.zst` are compressed.
//!
//! What is temporary is locked as long as its process lives. So the next process that writes to the same
//! name knows what a killed one left, and removes it.

use crate::exit::Failure;
use crate::values::{Compression, compression};
use anomalist_format::{Format, HistoryWriter, PathName, Sink, WriteError};
use anomalist_history::History;
use anomalist_report::Subject;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const BUFFER: usize = 1 << 18;
const ZSTD_LEVEL: i32 = 3;

/// Temporary names in use, for the handler that ends this process while a history is written.
static BEGUN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn begun() -> MutexGuard<'static, Vec<PathBuf>> {
    BEGUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what was begun and is not complete.
pub fn remove_begun() {
    for path in begun().drain(..) {
        _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
}

/// Writes one history.
pub struct Destination {
    path: PathBuf,
    writer: Option<Box<dyn HistoryWriter>>,
    stream: Option<Shared>,
    /// What is not complete, as long as it exists.
    temporary: Option<Temporary>,
}

impl Destination {
    /// Gets ready to write to `path`; `-` is standard output.
    pub fn create(path: &Path, format: Format, lossy: bool) -> Result<Destination, Failure> {
        if format.is_folder() {
            return Destination::folder(path, format, lossy);
        }
        let mut destination =
            Destination { path: path.to_owned(), writer: None, stream: None, temporary: None };
        let io = |error| Failure::io(path, error);
        let target: Box<dyn Write + Send> = if path.as_os_str() == "-" {
            Box::new(io::stdout())
        } else if fs::metadata(path).is_ok_and(|m| !m.is_file()) {
            if path.is_dir() {
                let message = format!("{}: is a folder, and {} is one file", path.shown(), format.name());
                return Err(Failure::input(message));
            }
            // A device or a named pipe: there is nothing to rename.
            Box::new(File::create(path).map_err(io)?)
        } else {
            // Through a symbolic link, so that the link stays one.
            destination.path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            let (temporary, file) = Temporary::file(&destination.path).map_err(io)?;
            destination.temporary = Some(temporary);
            Box::new(file)
        };
        let stream = Shared::new(target, compression(path).0).map_err(io)?;
        let sink = Sink::Stream(Box::new(BufWriter::with_capacity(BUFFER, stream.clone())));
        destination.stream = Some(stream);
        destination.writer =
            Some(anomalist_format::writer(format, sink, lossy).map_err(|e| Failure::write(path, e))?);
        Ok(destination)
    }

    fn folder(path: &Path, format: Format, lossy: bool) -> Result<Destination, Failure> {
        if path.as_os_str() == "-" {
            let message = format!("a history in the format {} is a folder: give its name", format.name());
            return Err(Failure::input(message));
        }
        let taken = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if taken {
            let message = format!("{}: exists and is not an empty folder", path.shown());
            return Err(Failure::input(message));
        }
        let temporary = Temporary::folder(path).map_err(|error| Failure::io(path, error))?;
        let writer = anomalist_format::writer(format, Sink::Directory(temporary.path.clone()), lossy)
            .map_err(|e| Failure::write(path, e));
        let mut destination =
            Destination { path: path.to_owned(), writer: None, stream: None, temporary: Some(temporary) };
        destination.writer = Some(writer?);
        Ok(destination)
    }

    /// Writes some more transactions.
    pub fn append(&mut self, batch: &History) -> Result<(), Failure> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let result = writer.append(batch);
        self.reported(result)
    }

    /// Completes the history and gives it its name.
    pub fn finish(mut self) -> Result<(), Failure> {
        if let Some(writer) = self.writer.take() {
            let result = writer.finish();
            self.reported(result)?;
        }
        let io = |error| Failure::io(&self.path, error);
        if let Some(stream) = &self.stream {
            stream.finish().map_err(io)?;
        }
        match self.temporary.take() {
            Some(temporary) => temporary.name(&self.path).map_err(io),
            None => Ok(()),
        }
    }

    fn reported(&self, result: Result<(), WriteError>) -> Result<(), Failure> {
        result.map_err(|error| Failure::write(&self.path, error))
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        // The writer first: it may hold files open. What is temporary removes itself.
        self.writer = None;
    }
}

/// Writes a whole file that appears only when it is complete.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let io = |error| Failure::io(path, error);
    if path.as_os_str() == "-" {
        return io::stdout().lock().write_all(content).map_err(io);
    }
    if fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return fs::write(path, content).map_err(io);
    }
    let (temporary, mut file) = Temporary::file(path).map_err(io)?;
    file.write_all(content).and_then(|()| temporary.name(path)).map_err(io)
}

/// Appends a summary of the run for GitHub's page about it, if it runs there. Other steps of the job write
/// to the same file.
pub fn write_step_summary(subjects: &[Subject<'_>]) -> Result<(), Failure> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let path = PathBuf::from(path);
    let file = fs::OpenOptions::new().append(true).create(true).open(&path);
    let text = anomalist_report::step_summary(subjects);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| Failure::io(&path, error))
}

/// Fails if these files cannot be written because there is no such folder: better before the work than
/// after it.
pub fn can_be_written<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Failure> {
    for path in paths {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(Err(error)) = folder.map(fs::metadata) {
            return Err(Failure::io(path, error));
        }
    }
    Ok(())
}

/// A file or folder beside its final place. It is removed when this is dropped before it has its name.
pub struct Temporary {
    path: PathBuf,
    /// Locked. The lock ends with the process, however that ends.
    lock: Option<File>,
}

impl Temporary {
    /// An empty file for what will be `path`.
    pub fn file(path: &Path) -> io::Result<(Temporary, File)> {
        sweep(path);
        let mut temporary = Temporary::note(path);
        loop {
            let file = File::create(&temporary.path)?;
            temporary.lock = locked(&file);
            // Between these two calls another process may have taken it for that of a killed one.
            if fs::metadata(&temporary.path).is_ok() {
                return Ok((temporary, file));
            }
        }
    }

    /// An empty folder for what will be `path`.
    fn folder(path: &Path) -> io::Result<Temporary> {
        sweep(path);
        let mut temporary = Temporary::note(path);
        fs::create_dir(&temporary.path)?;
        // Not every system opens folders.
        temporary.lock = File::open(&temporary.path).ok().and_then(|folder| locked(&folder));
        Ok(temporary)
    }

    fn note(path: &Path) -> Temporary {
        let mut name = beginning(path);
        name.push(format!("{}{TEMPORARY}", std::process::id()));
        let path = path.with_file_name(name);
        begun().push(path.clone());
        Temporary { path, lock: None }
    }

    /// Gives it its name.
    pub fn name(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        begun().retain(|other| *other != self.path);
        // It has its name, or what made us give up has been reported already.
        _ = fs::remove_file(&self.path).or_else(|_| fs::remove_dir_all(&self.path));
    }
}

/// The same file once more, locked. Where nothing can be locked, what a killed process leaves stays.
fn locked(file: &File) -> Option<File> {
    let again = file.try_clone().ok()?;
    again.try_lock().ok().map(|()| again)
}

const TEMPORARY: &str = ".tmp";

/// What the temporary names of `path` begin with.
fn beginning(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or("anomalist".as_ref()));
    name.push(".");
    name
}

/// Removes what killed processes began to write to `path`.
fn sweep(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beginning = beginning(path);
    sweep_folder(folder, beginning.as_encoded_bytes());
}

/// Removes what killed processes began to write in a folder, to names that begin so.
pub fn sweep_folder(folder: &Path, beginning: &[u8]) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.as_encoded_bytes().strip_prefix(beginning);
        let rest = rest.and_then(|rest| rest.strip_suffix(TEMPORARY.as_bytes()));
        let number = rest.and_then(|rest| rest.rsplit(|&byte| byte == b'.').next());
        let whole = beginning.len() <= 1 || number == rest;
        if !whole || !number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
        {
            continue;
        }
        let path = entry.path();
        let plain = entry.file_type().is_ok_and(|kind| kind.is_file() || kind.is_dir());
        if plain && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            // What cannot be removed stays.
            _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
    }
}

/// A compressing stream that its writer owns and that can still be finished, with its errors, afterwards.
#[derive(Clone)]
struct Shared(Arc<Mutex<State>>);

struct State {
    packed: Option<Packed>,
    /// The first error, in case the writer did not check.
    error: Option<io::Error>,
}

enum Packed {
    Plain(Box<dyn Write + Send>),
    Gzip(flate2::write::GzEncoder<Box<dyn Write + Send>>),
    Zstd(zstd::Encoder<'static, Box<dyn Write + Send>>),
}

impl Shared {
    fn new(target: Box<dyn Write + Send>, compression: Compression) -> io::Result<Shared> {
        let packed = match compression {
            Compression::None => Packed::Plain(target),
            Compression::Gzip => Packed::Gzip(flate2::write::GzEncoder::new(target, Default::default())),
            Compression::Zstd => Packed::Zstd(zstd::Encoder::new(target, ZSTD_LEVEL)?),
        };
        Ok(Shared(Arc::new(Mutex::new(State { packed: Some(packed), error: None }))))
    }

    fn with<T: Default>(&self, action: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match &mut state.packed {
            Some(Packed::Plain(w)) => action(w),
            Some(Packed::Gzip(w)) => action(w),
            Some(Packed::Zstd(w)) => action(w),
            None => Ok(T::default()),
        };
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
        {
            state.error.get_or_insert_with(|| error.kind().into());
        }
        result
    }

    fn finish(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        match state.packed.take() {
            Some(Packed::Plain(mut w)) => w.flush(),
            Some(Packed::Gzip(w)) => w.finish().and_then(|mut w| w.flush()),
            Some(Packed::Zstd(w)) => w.finish().and_then(|mut w| w.flush()),
            None => Ok(()),
        }
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|w| w.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(|w| w.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_client::remains::Folder;

    #[test]
    fn a_folder_is_swept_as_a_whole() {
        let folder = Folder::temporary("swept").unwrap();
        for name in [".report.txt.4000001.tmp", ".r.4000001.tmp", ".x.tmp", "report.4000001.tmp"] {
            fs::write(folder.path().join(name), "half").unwrap();
        }
        sweep_folder(folder.path(), b".");
        let mut left: Vec<OsString> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".owner", ".x.tmp", "report.4000001.tmp"]);
    }

    #[test]
    fn what_a_killed_process_began_is_removed_and_nothing_else() {
        let folder = Folder::temporary("destination").unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in [".h.txt.4000001.tmp", ".h.txt.x.tmp", ".other.txt.4000001.tmp", ".h.txt..tmp"] {
            fs::write(path(name), "half").unwrap();
        }
        fs::create_dir(path(".h.txt.4000002.tmp")).unwrap();
        fs::write(path(".h.txt.4000002.tmp/part"), "half").unwrap();
        let (living, _file) = Temporary::file(&path("h.txt")).unwrap();
        write_file(&path("h.txt.more"), b"whole").unwrap();
        sweep(&path("h.txt"));
        assert!(living.path.exists(), "another process still writes");
        drop(living);
        write_file(&path("h.txt"), b"whole").unwrap();
        assert_eq!(fs::read(path("h.txt")).unwrap(), b"whole");
        let mut left: Vec<OsString> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            [".h.txt..tmp", ".h.txt.x.tmp", ".other.txt.4000001.tmp", ".owner", "h.txt", "h.txt.more"]
        );
    }
}
