//! Where a history goes: standard output, a file that appears only when it is complete, or a folder
//! likewise.
//!
//! A history is written to a temporary name beside its own and renamed at the end, so no reader ever finds
//! half a file under the name they asked for. Names ending in `.gz` or `.zst` are compressed.

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
    /// The temporary name, as long as it exists.
    temporary: Option<PathBuf>,
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
            let temporary = beside(&destination.path);
            begun().push(temporary.clone());
            let file = File::create(&temporary).map_err(io)?;
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
        let temporary = beside(path);
        begun().push(temporary.clone());
        let writer = anomalist_format::writer(format, Sink::Directory(temporary.clone()), lossy)
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
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path).map_err(io)?;
            begun().retain(|other| other != temporary);
            self.temporary = None;
        }
        Ok(())
    }

    fn reported(&self, result: Result<(), WriteError>) -> Result<(), Failure> {
        result.map_err(|error| Failure::write(&self.path, error))
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        // The writer first: it may hold files open.
        self.writer = None;
        if let Some(temporary) = self.temporary.take() {
            begun().retain(|other| *other != temporary);
            // Whatever made us give up has been reported already.
            _ = if temporary.is_dir() { fs::remove_dir_all(temporary) } else { fs::remove_file(temporary) };
        }
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
    let temporary = beside(path);
    fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, path)).map_err(|error| {
        _ = fs::remove_file(&temporary);
        io(error)
    })
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

/// A name beside `path` that is not in use.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or("anomalist".as_ref()));
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
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
