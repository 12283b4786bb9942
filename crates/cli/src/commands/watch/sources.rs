//! Where transactions come from: a file, standard input, a file that grows, sockets. One thread each;
//! blocks of whole lines go to the parser through a bounded channel, so a source waits when the checker is
//! behind.

use super::growing::{Growing, Patient};
use super::ingest::{Block, Taken};
use super::room::Rooms;
use crate::exit::Failure;
use crate::system;
use anomalist_format::PathName;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Bytes of a block.
const BLOCK: usize = 128 << 10;
/// Bytes that a source may hold without asking; there may be many that send little.
const SMALL: usize = 8 << 10;
/// Bytes of a line that was given up which are handed over.
const SHOWN: usize = 4096;
/// Connections with lines at one time.
const CONNECTIONS: usize = 1024;
/// A line longer than this is not one.
pub const LONGEST_LINE: usize = 64 << 20;

/// Names of sources that are kept: every connection has one.
const NAMES: usize = 10_000;

/// Names of sources, by number.
#[derive(Default)]
struct Names {
    /// How many came before those that are kept.
    forgotten: u32,
    kept: VecDeque<Arc<str>>,
}

/// What is known about sources.
#[derive(Default)]
pub struct Known {
    names: Mutex<Names>,
    /// Connections that are open.
    pub open: Arc<AtomicUsize>,
    /// Why a source could not be read to its end, if one could not.
    pub lost: Mutex<Option<String>>,
    /// How many lines of each source that has given itself a name have been taken in.
    pub lines: Mutex<BTreeMap<String, u64>>,
}

impl Known {
    /// A number for a source; the same for the same name.
    pub fn register(&self, name: &str) -> (u32, Arc<str>) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        // Few come again, and those that do are near the end.
        if let Some(known) = names.kept.iter().rposition(|known| **known == *name) {
            return (names.forgotten + known as u32, names.kept[known].clone());
        }
        let name: Arc<str> = name.into();
        names.kept.push_back(name.clone());
        if names.kept.len() > NAMES {
            names.kept.pop_front();
            names.forgotten += 1;
        }
        (names.forgotten + names.kept.len() as u32 - 1, name)
    }

    /// The name of a source.
    pub fn name(&self, source: u32) -> String {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = source.checked_sub(names.forgotten).and_then(|place| names.kept.get(place as usize));
        kept.map_or_else(|| "?".to_owned(), ToString::to_string)
    }

    /// Notes that a source could not be read to its end. The first reason stays.
    pub fn lose(&self, reason: String) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    /// Lines taken in of a source with a name.
    fn lines_of(&self, name: &str) -> u64 {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied().unwrap_or(0)
    }
}

/// What sources share. The loop ends when all of these are gone.
#[derive(Clone)]
pub struct Hub {
    blocks: SyncSender<Block>,
    /// Room for what has arrived.
    pub rooms: Rooms,
    /// What is known about sources.
    pub known: Arc<Known>,
}

impl Hub {
    pub fn new(blocks: SyncSender<Block>, rooms: Rooms) -> Hub {
        Hub { blocks, rooms, known: Arc::default() }
    }

    /// Hands over a block, as soon as there is room; false if the receiver is gone.
    pub fn send(&self, block: Block) -> bool {
        let held = Some(self.rooms.blocks.wait(block.bytes.len()));
        self.blocks.send(Block { held, ..block }).is_ok()
    }
}

/// Where a source goes on after a restart.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// Bytes taken in.
    pub offset: u64,
    /// The first of them, to tell whether this is the same stream.
    pub beginning: Vec<u8>,
}

/// Sources that have given themselves a name are known by this and it.
pub const NAMED: &str = "source ";

/// How many bytes tell whether a stream is the same.
pub const BEGINNING: usize = 1024;

/// Reads a file, or standard input, to its end.
pub fn read_all(
    path: &Path,
    follow: bool,
    hub: &Hub,
    (source, name): (u32, Arc<str>),
    resume: Resume,
) -> Result<(), Failure> {
    let io = |error| Failure::io(path, error);
    let hub = hub.clone();
    let standard = path.as_os_str() == "-";
    let mut reader: Box<dyn Read + Send> = if standard {
        match follow {
            true => Box::new(Patient(io::stdin())),
            false => Box::new(io::stdin()),
        }
    } else {
        let mut file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.is_dir() {
            return Err(Failure::input(format_args!("{}: is a folder", path.shown())));
        }
        if resume.offset > 0 {
            let mut beginning = vec![0; resume.beginning.len()];
            let same = file.read_exact(&mut beginning).is_ok() && beginning == resume.beginning;
            let length = file.metadata().map_err(io)?.len();
            if !same || length < resume.offset {
                return Err(Failure::input(format_args!(
                    "{}: is not the file that the state is about (its beginning has changed, or it is shorter)",
                    path.shown()
                )));
            }
            file.seek(SeekFrom::Start(resume.offset)).map_err(io)?;
        }
        match follow {
            true => Box::new(Growing::new(file, path, resume.offset).map_err(io)?),
            false => Box::new(file),
        }
    };
    thread::spawn(move || {
        let mut first = Vec::new();
        if standard && resume.offset > 0 {
            // The same stream again is skipped as far as it is known; another one is taken as it goes on.
            let wanted = resume.beginning.len() as u64;
            _ = (&mut reader).take(wanted).read_to_end(&mut first);
            if first == resume.beginning {
                _ = io::copy(&mut (&mut reader).take(resume.offset - wanted), &mut io::sink());
                first.clear();
            }
        }
        let pumped = pump(reader, first, BLOCK, &hub.rooms, |bytes, last| {
            hub.send(Block {
                source,
                name: name.clone(),
                bytes,
                last,
                reply: None,
                replayed: false,
                held: None,
            })
        });
        if let Err(error) = pumped {
            hub.known.lose(format!("{name}: {error}"));
        }
    });
    Ok(())
}

/// Reads to the end, and hands over whole lines. `more` is false when the reading is to stop.
fn pump(
    mut reader: impl Read,
    first: Vec<u8>,
    largest: usize,
    rooms: &Rooms,
    mut more: impl FnMut(Vec<u8>, bool) -> bool,
) -> io::Result<()> {
    let mut buffer = first;
    let mut held = rooms.lines.nothing();
    // Bytes that were looked through for the end of a line, and how many to ask for.
    let (mut searched, mut step) = (0, SMALL);
    // The rest of a line that was given up.
    let mut skipping = false;
    loop {
        if skipping {
            let end = memchr::memchr(b'\n', &buffer);
            buffer.drain(..end.map_or(buffer.len(), |end| end + 1));
            (skipping, searched) = (end.is_none(), 0);
        }
        if let Some(end) = memchr::memrchr(b'\n', &buffer[searched..]).map(|end| searched + end + 1) {
            let rest = buffer.split_off(end);
            if !more(std::mem::replace(&mut buffer, rest), false) {
                return Ok(());
            }
        }
        let fits = buffer.len() <= rooms.longest && held.grow(buffer.len().saturating_sub(SMALL));
        if !fits {
            // Its beginning is malformed, and says where it was.
            buffer.truncate(SHOWN);
            buffer.push(b'\n');
            held.grow(0);
            skipping = true;
            if !more(std::mem::take(&mut buffer), false) {
                return Ok(());
            }
        }
        searched = buffer.len();
        buffer.resize(searched + step, 0);
        let read = reader.read(&mut buffer[searched..]);
        let length = read.as_ref().map_or(0, |n| *n);
        buffer.truncate(searched + length);
        step = if length * 2 >= step { largest } else { SMALL };
        match read {
            Ok(0) => {
                more(buffer, true);
                return Ok(());
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                more(buffer, true);
                return Err(error);
            }
        }
    }
}

/// `9000` and `:9000` are ports of this machine alone.
pub fn address(text: &str) -> Result<Vec<SocketAddr>, Failure> {
    let port = text.strip_prefix(':').unwrap_or(text);
    let text = if port.parse::<u16>().is_ok() { format!("127.0.0.1:{port}") } else { text.to_owned() };
    match text.to_socket_addrs() {
        Ok(found) => Ok(found.collect()),
        Err(error) => {
            Err(Failure::input(format_args!("{text}: {error} (an address is HOST:PORT, PORT or unix:PATH)")))
        }
    }
}

/// Binds a TCP port.
pub fn bind(text: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(&address(text)?[..]).map_err(|error| Failure::input(format_args!("{text}: {error}")))
}

/// A Unix socket that disappears with the process's end.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// Takes in lines from every client that connects. Returns the address, and what to keep until the end.
pub fn listen(text: &str, hub: &Hub) -> Result<(String, Option<SocketFile>), Failure> {
    let hub = hub.clone();
    if let Some(path) = text.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        let streams = system::listen(&path).map_err(|error| Failure::io(&path, error))?;
        let name = format!("unix {}", path.shown());
        thread::spawn(move || {
            for (n, stream) in (1..).zip(streams) {
                serve(&hub, format!("{name} #{n}"), stream.reader, stream.writer);
            }
        });
        return Ok((text.to_owned(), Some(SocketFile(path))));
    }
    let listener = bind(text)?;
    let local = listener.local_addr().map_or_else(|_| text.to_owned(), |a| a.to_string());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let peer = stream.peer_addr().map_or_else(|_| "?".to_owned(), |a| a.to_string());
            let writer = stream.try_clone();
            serve(&hub, format!("tcp {peer}"), stream, writer);
        }
    });
    Ok((local, None))
}

/// Takes in one connection, on a thread of its own.
///
/// A client that wants to know what has been taken in begins with `{"source": "NAME"}`. It gets
/// `{"next": N}`, the number of lines known from a source of that name (itself before a restart, for
/// instance), sends from there, and gets `{"ack": N}` as lines are taken in.
fn serve<R, W>(hub: &Hub, name: String, mut reader: R, writer: io::Result<W>)
where
    R: Read + Send + 'static,
    W: Write + Send + 'static,
{
    let hub = hub.clone();
    if hub.known.open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS {
        hub.known.open.fetch_sub(1, Ordering::SeqCst);
        if let Ok(mut writer) = writer {
            // A client that does not take the answer notices the end of the connection.
            _ = writeln!(writer, "{{\"error\":\"there are {CONNECTIONS} connections already\"}}");
        }
        return;
    }
    thread::spawn(move || {
        let mut first = Vec::new();
        let mut name = name;
        let mut acks = None;
        if let Some(asked) = hello(&mut reader, &mut first)
            && let Ok(mut writer) = writer
        {
            let known = hub.known.lines_of(&asked);
            name = format!("{NAMED}{asked}");
            if writeln!(writer, "{{\"next\":{known}}}").is_ok() {
                acks = Some(acknowledge(writer));
            }
        }
        let (source, name) = hub.known.register(&name);
        _ = pump(reader, first, 2 * SMALL, &hub.rooms, |bytes, last| {
            hub.send(Block {
                source,
                name: name.clone(),
                bytes,
                last,
                reply: acks.clone(),
                replayed: false,
                held: None,
            })
        });
        hub.known.open.fetch_sub(1, Ordering::SeqCst);
    });
}

/// The name in a first line that says `{"source": …}`. Whatever else was read is left in `read`.
fn hello(reader: &mut impl Read, read: &mut Vec<u8>) -> Option<String> {
    const START: &[u8] = b"{\"source\"";
    const LONGEST: usize = 4096;
    let mut buffer = [0; 512];
    loop {
        let common = read.len().min(START.len());
        if read[..common] != START[..common] || read.len() > LONGEST {
            return None;
        }
        if let Some(end) = memchr::memchr(b'\n', read) {
            let rest = read.split_off(end + 1);
            let line = std::mem::replace(read, rest);
            let value: serde_json::Value = serde_json::from_slice(&line).ok()?;
            return value.get("source")?.as_str().map(str::to_owned);
        }
        match reader.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(n) => read.extend_from_slice(&buffer[..n]),
        }
    }
}

/// Tells a client what was taken in.
fn acknowledge(mut writer: impl Write + Send + 'static) -> Sender<Taken> {
    let (sender, taken) = channel::<Taken>();
    thread::spawn(move || {
        for taken in taken {
            if writeln!(writer, "{{\"ack\":{}}}", taken.lines).is_err() {
                break;
            }
        }
    });
    sender
}
