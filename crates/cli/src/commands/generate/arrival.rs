//! A history as a checker that watches would get it: line by line, in order of arrival, to a socket or a
//! file.
//!
//! Transactions are delayed as `anomalist_workload::Arrivals` says. With a rate, lines are sent in real
//! time, a batch at a time; without one, as fast as they are taken.

use crate::destination::Temporary;
use crate::exit::Failure;
use crate::{interrupt, system};
use anomalist_format::{Format, Sink};
use anomalist_history::{History, TxnId};
use anomalist_workload::{Arrival, Arrivals, Generator};
use std::io::{self, BufWriter, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whether an output is an address rather than a path.
pub fn is_address(output: &Path) -> bool {
    let text = output.to_string_lossy();
    ["tcp://", "http://", "unix:"].iter().any(|scheme| text.starts_with(scheme))
}

/// Where lines go.
enum Target {
    Stream(Box<dyn Write>),
    /// Host and port, path; a POST per batch.
    Http(String, String),
}

fn connect(output: &Path) -> Result<Target, Failure> {
    let io = |error| Failure::io(output, error);
    let text = output.to_string_lossy();
    if let Some(address) = text.strip_prefix("tcp://") {
        let stream = TcpStream::connect(address.trim_end_matches('/')).map_err(io)?;
        return Ok(Target::Stream(Box::new(BufWriter::new(stream))));
    }
    if let Some(path) = text.strip_prefix("unix:") {
        let stream = system::connect(Path::new(path.trim_start_matches("//"))).map_err(io)?;
        return Ok(Target::Stream(Box::new(BufWriter::new(stream))));
    }
    if let Some(rest) = text.strip_prefix("http://") {
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        return Ok(Target::Http(host.to_owned(), format!("/{path}")));
    }
    if text == "-" {
        return Ok(Target::Stream(Box::new(BufWriter::new(io::stdout()))));
    }
    Ok(Target::Stream(Box::new(BufWriter::new(std::fs::File::create(output).map_err(io)?))))
}

/// Where lines go, and what gets its name in the end: a file that is not sent in real time appears when it
/// is complete.
fn target(output: &Path, paced: bool) -> Result<(Target, Option<Temporary>), Failure> {
    let fresh = std::fs::metadata(output).map_or(true, |found| found.is_file());
    if paced || is_address(output) || output.as_os_str() == "-" || !fresh {
        return Ok((connect(output)?, None));
    }
    let (temporary, file) = Temporary::file(output).map_err(|error| Failure::io(output, error))?;
    Ok((Target::Stream(Box::new(BufWriter::new(file))), Some(temporary)))
}

/// Sends what a generator makes.
pub fn send(
    generator: Generator,
    format: Format,
    model: Arrival,
    paced: bool,
    seed: u64,
    output: &Path,
    mut progress: impl FnMut(u64),
) -> Result<(), Failure> {
    let (target, temporary) = target(output, paced)?;
    let mut sender = Sender {
        target,
        output,
        batch: Vec::new(),
        lines: 0,
        size: model.batch.max(1),
        begun: paced.then(Instant::now),
        sent: 0,
    };
    let mut arrivals = Arrivals::new(model, seed);
    for (i, batch) in generator.enumerate() {
        let (header, lines) = lines(&batch, format, output)?;
        if let Some(header) = header.filter(|_| i == 0) {
            sender.batch.extend_from_slice(&header);
        }
        for (session, line) in lines {
            arrivals.commit(session, line);
            while let Some((at, line)) = arrivals.next_before_the_next_batch() {
                sender.push(at, &line)?;
            }
        }
        progress(sender.sent);
        if interrupt::is_requested() {
            return Err(Failure::Interrupted);
        }
    }
    for (at, line) in arrivals.rest() {
        sender.push(at, &line)?;
    }
    sender.flush()?;
    progress(sender.sent);
    match temporary {
        Some(temporary) => temporary.name(output).map_err(|error| Failure::io(output, error)),
        None => Ok(()),
    }
}

struct Sender<'a> {
    target: Target,
    output: &'a Path,
    batch: Vec<u8>,
    lines: usize,
    size: usize,
    /// When sending in real time: since when.
    begun: Option<Instant>,
    sent: u64,
}

impl Sender<'_> {
    /// A line arrives, at so many microseconds.
    fn push(&mut self, at: u64, line: &[u8]) -> Result<(), Failure> {
        if let Some(begun) = self.begun {
            let due = begun + Duration::from_micros(at);
            if let Some(wait) = due.checked_duration_since(Instant::now()) {
                self.flush()?;
                std::thread::sleep(wait);
            }
        }
        self.batch.extend_from_slice(line);
        self.batch.push(b'\n');
        self.lines += 1;
        self.sent += 1;
        if self.lines >= self.size { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.lines = 0;
        let done = match &mut self.target {
            Target::Stream(stream) => stream.write_all(&batch).and_then(|()| stream.flush()),
            Target::Http(host, path) => post(host, path, &batch),
        };
        done.map_err(|error| Failure::io(self.output, error))
    }
}

fn post(host: &str, path: &str, body: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect(host)?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-ndjson\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.starts_with("HTTP/1.1 200") {
        true => Ok(()),
        false => {
            Err(io::Error::other(format!("the server said {}", answer.lines().next().unwrap_or("nothing"))))
        }
    }
}

/// A header, if the format has one, and lines with the sessions they are of.
type Lines = (Option<Vec<u8>>, Vec<(usize, Vec<u8>)>);

/// One line per transaction, in order of commit.
pub fn lines(batch: &History, format: Format, output: &Path) -> Result<Lines, Failure> {
    let buffer = Buffer::default();
    let sink = Sink::Stream(Box::new(buffer.clone()));
    let failed = |error| Failure::write(output, error);
    let mut writer = anomalist_format::writer(format, sink, false).map_err(failed)?;
    writer.append(batch).and_then(|()| writer.finish()).map_err(failed)?;
    let text = std::mem::take(&mut *buffer.0.lock().unwrap_or_else(PoisonError::into_inner));
    let mut txns: Vec<TxnId> = batch.txns().collect();
    txns.sort_by_key(|&t| batch.position(t));
    let (mut header, mut lines) = (None, Vec::with_capacity(txns.len()));
    let mut txns = txns.into_iter();
    for line in text.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b",").unwrap_or(line);
        if line.starts_with(b"{\"anomalist\"") {
            header = Some([line, b"\n"].concat());
        } else if line.starts_with(b"{") {
            let Some(t) = txns.next() else { break };
            // Sessions are named by their numbers, which are the same in every batch; a batch's own are not.
            let session = batch.show(batch.session_label(batch.session_of(t))).raw().to_string();
            lines.push((session.parse().unwrap_or(batch.session_of(t).index()), line.to_vec()));
        }
    }
    Ok((header, lines))
}

/// Bytes that a writer owns and that can be had back.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
