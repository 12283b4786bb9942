//! Where bytes come from: a file, standard input, memory, or a folder of logs.
//!
//! Compression is recognised by its first bytes, never by the name: a renamed `.gz` works, and so does a
//! pipe. Decoding runs at a third of the scanner's speed; it happens inside the reader that `lines.rs` puts
//! on a thread of its own, so it overlaps with parsing. Progress counts the bytes of the source, compressed
//! as they may be: the caller knows its size.
//!
//! An input may be hostile: an archive that expands without end, a device, a file that changes while it is
//! read. Each is an error that says where, in bounded memory: [`Reader::fill`] counts.

mod streams;

use self::streams::{Changed, Counting, Failing, Unchanged};
use crate::{Diagnostic, Hint, MAX_SIZE, Place, ReadError, ReadOptions};
use std::cmp::Ordering;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How much of an input [`Input::peek`] shows.
const PEEK: usize = 64 << 10;
/// How much [`Input::into_bytes`] reads at most between two reports of progress.
const STEP: usize = 4 << 20;

/// A named source of bytes, decompressed on the way; or a folder.
///
/// ```
/// use anomalist_format::Input;
/// let mut input = Input::from_bytes("h.txt", b"w(1,1,1,1)\n".to_vec());
/// assert_eq!(input.peek()?, b"w(1,1,1,1)\n");
/// # Ok::<(), anomalist_format::ReadError>(())
/// ```
pub struct Input {
    name: String,
    source: Source,
}

enum Source {
    Stream(Stream),
    Folder(PathBuf),
    /// Logs by name, as if they lay in a folder.
    Memory(Vec<(String, Vec<u8>)>),
    /// A log in a folder. Opened when it is read: there may be more of them than a process may have open.
    Log(PathBuf, Arc<AtomicU64>),
}

/// Bytes after decompression.
struct Stream {
    /// What was peeked at and not consumed.
    head: Vec<u8>,
    rest: Box<dyn Read + Send>,
    packed: bool,
    consumed: Arc<AtomicU64>,
}

impl Input {
    /// Opens a file or a folder; `-` is standard input.
    pub fn open(path: &Path) -> Result<Input, ReadError> {
        let name = path.display().to_string();
        let io = |source| ReadError::Io { file: name.clone(), source };
        if path.as_os_str() == "-" {
            return Input::from_reader("standard input", std::io::stdin());
        }
        if std::fs::metadata(path).map_err(io)?.is_dir() {
            return Ok(Input { name, source: Source::Folder(path.to_owned()) });
        }
        let file = File::open(path).map_err(io)?;
        Input::from_reader(&name, Unchanged::watch(file).map_err(io)?)
    }

    /// Opens a log.
    fn opened(self) -> Result<Input, ReadError> {
        let Source::Log(path, consumed) = &self.source else { return Ok(self) };
        let stream = File::open(path).and_then(Unchanged::watch).and_then(|file| Stream::new(file, consumed));
        match stream {
            Ok(stream) => Ok(Input { name: self.name, source: Source::Stream(stream) }),
            Err(source) => Err(ReadError::Io { file: self.name, source }),
        }
    }

    /// Bytes already in memory, compressed or not.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Input {
        let consumed = Arc::new(AtomicU64::new(0));
        let stream = Stream::new(Cursor::new(bytes), &consumed).unwrap_or_else(|error| Stream {
            head: Vec::new(),
            rest: Box::new(Failing(Some(error))),
            packed: true,
            consumed,
        });
        Input { name: name.to_owned(), source: Source::Stream(stream) }
    }

    /// Logs already in memory, each with the name of its file: a history that is a folder.
    pub fn from_logs(name: &str, logs: Vec<(String, Vec<u8>)>) -> Input {
        Input { name: name.to_owned(), source: Source::Memory(logs) }
    }

    pub(crate) fn from_reader(name: &str, reader: impl Read + Send + 'static) -> Result<Input, ReadError> {
        let stream = Stream::new(reader, &Arc::new(AtomicU64::new(0)))
            .map_err(|source| ReadError::Io { file: name.to_owned(), source })?;
        Ok(Input { name: name.to_owned(), source: Source::Stream(stream) })
    }

    /// The source as the user named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True for a folder, which has files and no bytes of its own.
    pub fn is_folder(&self) -> bool {
        matches!(self.source, Source::Folder(_) | Source::Memory(_))
    }

    /// True for a compressed file, which may hold a thousand times its size.
    pub fn is_compressed(&self) -> bool {
        matches!(&self.source, Source::Stream(stream) if stream.packed)
    }

    /// The first 64 KiB after decompression, or less if there is not more; they are not consumed.
    pub fn peek(&mut self) -> Result<&[u8], ReadError> {
        if matches!(self.source, Source::Log(..)) {
            let closed = std::mem::replace(self, Input::from_bytes("", Vec::new()));
            *self = closed.opened()?;
        }
        let Input { name, source } = self;
        match source {
            Source::Folder(_) | Source::Memory(_) | Source::Log(..) => Err(is_a_folder(name)),
            Source::Stream(stream) => {
                let mut length = stream.head.len();
                stream.head.resize(length.max(PEEK), 0);
                while length < stream.head.len() {
                    match stream.rest.read(&mut stream.head[length..]) {
                        Ok(0) => break,
                        Ok(n) => length += n,
                        Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                        // A damaged archive may still have a good beginning; a reader that goes on learns
                        // of the damage.
                        Err(e) if stream.packed && length > 0 => {
                            stream.rest = Box::new(Failing(Some(e)));
                            break;
                        }
                        Err(e) => return Err(failure(name, stream.packed, e)),
                    }
                }
                stream.head.truncate(length);
                Ok(&stream.head)
            }
        }
    }

    /// Everything, after decompression; and the damage, if that was not everything.
    pub(crate) fn into_bytes(
        self,
        options: &ReadOptions<'_>,
    ) -> Result<(Vec<u8>, Option<ReadError>), ReadError> {
        let mut reader = self.into_reader(options)?;
        let (mut bytes, mut damage) = (Vec::new(), None);
        let mut length = 0;
        loop {
            bytes.resize(length + length.clamp(PEEK, STEP), 0);
            match reader.fill(&mut bytes[length..]) {
                Ok(0) => break,
                Ok(n) => length += n,
                Err(error @ ReadError::Malformed(_)) => {
                    damage = Some(error);
                    break;
                }
                Err(e) => return Err(e),
            }
            report(options, reader.consumed())?;
        }
        bytes.truncate(length);
        Ok((bytes, damage))
    }

    /// Skips so many bytes of what [`Input::peek`] shows.
    pub(crate) fn skip(&mut self, bytes: usize) {
        if let Source::Stream(stream) = &mut self.source {
            stream.head.drain(..bytes.min(stream.head.len()));
        }
    }

    /// The bytes, one after another.
    pub(crate) fn into_reader(self, options: &ReadOptions<'_>) -> Result<Reader, ReadError> {
        let Input { name, source } = self.opened()?;
        match source {
            Source::Folder(_) | Source::Memory(_) | Source::Log(..) => Err(is_a_folder(&name)),
            Source::Stream(stream) => {
                Ok(Reader { name, stream, head_read: 0, produced: 0, max_size: options.max_size })
            }
        }
    }

    /// The logs of a history that has one file per session, `T2` before `T10`; a single file stands for
    /// itself.
    pub(crate) fn into_logs(self) -> Result<Vec<Input>, ReadError> {
        if self.is_folder() { self.logs() } else { Ok(vec![self]) }
    }

    /// The logs in a folder.
    pub(crate) fn logs(&self) -> Result<Vec<Input>, ReadError> {
        let folder = match &self.source {
            Source::Folder(folder) => folder,
            Source::Memory(logs) => {
                let mut logs: Vec<_> = logs.iter().collect();
                logs.sort_by(|a, b| natural(&a.0, &b.0));
                return Ok(logs
                    .into_iter()
                    .map(|(log, bytes)| Input::from_bytes(log, bytes.clone()))
                    .collect());
            }
            _ => return Ok(Vec::new()),
        };
        let io = |source| ReadError::Io { file: self.name.clone(), source };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(io)? {
            let path = entry.map_err(io)?.path();
            if is_log(&path) && path.is_file() {
                paths.push(path);
            }
        }
        paths.sort_by(|a, b| natural(&a.to_string_lossy(), &b.to_string_lossy()));
        if paths.is_empty() {
            return Err(ReadError::Malformed(vec![
                Diagnostic::error(&self.name, Place::File, "the folder has no file named *.log")
                    .help("a folder is a history in Cobra's or Viper's format: one log per session"),
            ]));
        }
        // One count for all, so that progress is that of the folder.
        let consumed = Arc::new(AtomicU64::new(0));
        let log = |path: PathBuf| Input {
            name: path.display().to_string(),
            source: Source::Log(path, consumed.clone()),
        };
        Ok(paths.into_iter().map(log).collect())
    }
}

impl Stream {
    fn new(mut reader: impl Read + Send + 'static, consumed: &Arc<AtomicU64>) -> std::io::Result<Stream> {
        let mut magic = Vec::new();
        (&mut reader).take(4).read_to_end(&mut magic)?;
        let packed = magic.starts_with(&[0x1f, 0x8b]) || magic == [0x28, 0xb5, 0x2f, 0xfd];
        let source = Counting { inner: Cursor::new(magic.clone()).chain(reader), count: consumed.clone() };
        let rest: Box<dyn Read + Send> = match magic.first() {
            // Not `GzDecoder`, which stops at the first member of a concatenation.
            Some(0x1f) if packed => Box::new(flate2::read::MultiGzDecoder::new(source)),
            _ if packed => Box::new(zstd::stream::read::Decoder::new(source)?),
            _ => Box::new(source),
        };
        Ok(Stream { head: Vec::new(), rest, packed, consumed: consumed.clone() })
    }
}

/// The bytes of an [`Input`], one after another.
pub(crate) struct Reader {
    name: String,
    stream: Stream,
    head_read: usize,
    produced: u64,
    max_size: Option<u64>,
}

/// What an honest archive does not exceed: bytes after decompression per byte before it. Histories compress
/// ten- to fiftyfold.
const MAX_RATIO: u64 = 500;
/// Below this size the ratio does no harm.
const RATIO_COUNTS_FROM: u64 = 256 << 20;

impl Reader {
    /// Fills as much of the buffer as the input can; 0 is the end.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let filled = self.fill_any(buffer)?;
        self.produced += filled as u64;
        let limit = self.max_size.unwrap_or(MAX_SIZE);
        if self.produced > limit {
            let message = format!("the input has more than {limit} bytes");
            let found = Diagnostic::error(&self.name, Place::Byte(limit), message).hint(Hint::Size);
            return Err(ReadError::Malformed(vec![found]));
        }
        let packed = self.stream.packed && self.max_size.is_none() && self.produced > RATIO_COUNTS_FROM;
        if packed && self.produced / MAX_RATIO > self.consumed() {
            let message = format!(
                "{} compressed bytes expand to more than {}, as no recorded history does",
                self.consumed(),
                self.produced
            );
            let found = Diagnostic::error(&self.name, Place::Byte(self.consumed()), message);
            return Err(ReadError::Malformed(vec![found.hint(Hint::Size)]));
        }
        Ok(filled)
    }

    fn fill_any(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let mut head = &self.stream.head[self.head_read..];
        let mut filled = head.read(buffer).unwrap_or(0);
        self.head_read += filled;
        while filled < buffer.len() {
            match self.stream.rest.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) if filled > 0 => {
                    self.stream.rest = Box::new(Failing(Some(e)));
                    break;
                }
                Err(e) => return Err(failure(&self.name, self.stream.packed, e)),
            }
        }
        Ok(filled)
    }

    /// The input as the user named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes after decompression so far.
    pub fn produced(&self) -> u64 {
        self.produced
    }

    /// Bytes of the source consumed so far.
    pub fn consumed(&self) -> u64 {
        self.stream.consumed.load(Relaxed)
    }
}

/// Tells the caller how far reading is, and stops if it says so.
pub(crate) fn report(options: &ReadOptions<'_>, consumed: u64) -> Result<(), ReadError> {
    match options.progress {
        Some(progress) if !progress(consumed) => Err(ReadError::Cancelled),
        _ => Ok(()),
    }
}

fn failure(name: &str, packed: bool, source: std::io::Error) -> ReadError {
    if let Some(changed) = source.get_ref().and_then(|inner| inner.downcast_ref::<Changed>()) {
        let found = Diagnostic::error(name, Place::Byte(changed.at), changed.to_string());
        ReadError::Malformed(vec![found.hint(Hint::Lossy)])
    } else if packed {
        let message = format!("the compressed data is damaged or cut off: {source}");
        ReadError::Malformed(vec![Diagnostic::error(name, Place::File, message)])
    } else {
        ReadError::Io { file: name.to_owned(), source }
    }
}

fn is_a_folder(name: &str) -> ReadError {
    ReadError::Malformed(vec![
        Diagnostic::error(name, Place::File, "this is a folder")
            .help("only Cobra's and Viper's histories are folders; name a file"),
    ])
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

/// Compares names so that runs of digits count as numbers.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut rest_a, mut rest_b) = (a.as_bytes(), b.as_bytes());
    loop {
        let (run_a, run_b) = (digits(rest_a), digits(rest_b));
        if !run_a.is_empty() && !run_b.is_empty() {
            let by_number = run_a.len().cmp(&run_b.len()).then(run_a.cmp(run_b));
            if by_number != Ordering::Equal {
                return by_number;
            }
            (rest_a, rest_b) = (&rest_a[run_a.len()..], &rest_b[run_b.len()..]);
            continue;
        }
        match (rest_a.split_first(), rest_b.split_first()) {
            (Some((x, after_a)), Some((y, after_b))) if x == y => (rest_a, rest_b) = (after_a, after_b),
            (x, y) => return x.cmp(&y).then(a.cmp(b)),
        }
    }
}

fn digits(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn compression_is_told_by_content() {
        let text = b"w(1,1,1,1)\n".repeat(20_000);
        let mut two_members = gzip(&text[..1000]);
        two_members.extend(gzip(&text[1000..]));
        for packed in [text.clone(), two_members, zstd::encode_all(text.as_slice(), 1).unwrap()] {
            let mut input = Input::from_bytes("x", packed);
            assert_eq!(input.peek().unwrap(), &text[..PEEK]);
            assert_eq!(input.into_bytes(&ReadOptions::default()).unwrap().0, text);
        }
    }

    /// Blanks, which archives reduce a thousandfold and more.
    #[test]
    fn an_archive_that_expands_without_end_is_refused() {
        let mut packed = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        for _ in 0..300 {
            packed.write_all(&[b' '; 1 << 20]).unwrap();
        }
        let packed = packed.finish().unwrap();
        let read = |max_size| {
            let options = ReadOptions { max_size, ..ReadOptions::default() };
            let mut reader = Input::from_bytes("x.zst", packed.clone()).into_reader(&options).unwrap();
            let mut buffer = vec![0; 1 << 20];
            loop {
                match reader.fill(&mut buffer) {
                    Ok(0) => return None,
                    Ok(_) => {}
                    Err(error) => return Some(error.to_string()),
                }
            }
        };
        assert!(read(None).unwrap().contains("expand to more than"));
        assert_eq!(read(Some(400 << 20)), None);
        let small = read(Some(1000)).unwrap();
        assert!(small.contains("byte 1000: the input has more than 1000 bytes"), "{small}");
    }

    #[test]
    fn a_cut_archive_yields_its_beginning_and_the_damage() {
        let text: Vec<u8> =
            (0..200_000u32).flat_map(|i| (i.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
        for mut packed in [gzip(&text), zstd::encode_all(text.as_slice(), 1).unwrap()] {
            packed.truncate(packed.len() / 2);
            let (kept, damage) =
                Input::from_bytes("x.gz", packed).into_bytes(&ReadOptions::default()).unwrap();
            let error = damage.unwrap().to_string();
            assert!(error.starts_with("error: x.gz: the compressed data is damaged or cut off"), "{error}");
            assert!(!kept.is_empty() && text.starts_with(&kept));
        }
    }

    #[test]
    fn damage_is_told_even_if_lossy() {
        let text =
            (0..20_000u32).map(|i| format!("w {i} {}\n", i.wrapping_mul(2_654_435_761))).collect::<String>();
        let mut packed = gzip(text.as_bytes());
        packed.truncate(packed.len() / 2);
        for format in [crate::Format::Awdit, crate::Format::Plume] {
            let packed = if format == crate::Format::Plume {
                let mut packed = gzip(&b"w(1,1,1,1)\n".repeat(100_000));
                packed.truncate(packed.len() - 4);
                packed
            } else {
                packed.clone()
            };
            let options = ReadOptions { format: Some(format), lossy: true, ..ReadOptions::default() };
            let loaded = crate::read(Input::from_bytes("x", packed), &options).unwrap();
            assert!(loaded.warnings[0].message.starts_with("the compressed data is damaged"), "{format:?}");
        }
    }

    #[test]
    fn logs_in_memory_are_a_folder() {
        let line = |value: u32| format!("{{\"value\": [[\"w\", 1, {value}, true]]}}\n").into_bytes();
        let logs = vec![("J10.log".to_owned(), line(2)), ("J2.log".to_owned(), line(1))];
        let loaded = crate::read(Input::from_logs("f", logs), &ReadOptions::default()).unwrap();
        let h = &loaded.history;
        assert_eq!(loaded.format, crate::Format::Viper);
        assert_eq!(h.values().iter().map(|v| h.show(*v).to_string()).collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn progress_counts_source_bytes_and_can_cancel() {
        let stop = |consumed: u64| consumed < 4 << 20;
        let options = ReadOptions { progress: Some(&stop), ..ReadOptions::default() };
        let result = Input::from_bytes("x", vec![b'x'; 8 << 20]).into_bytes(&options);
        assert!(matches!(result, Err(ReadError::Cancelled)));
    }

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names = ["T10.log", "T2.log", "T1.log", "init.log", "T2b.log"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["T1.log", "T2.log", "T2b.log", "T10.log", "init.log"]);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Input::open(Path::new("/does/not/exist")).err().unwrap();
        assert!(error.to_string().starts_with("/does/not/exist: "), "{error}");
    }
}
