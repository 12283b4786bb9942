//! A folder in memory that tears writes, fails, and forgets what was not forced to disk.
//!
//! Every change counts as an operation; faults are due at operations, counted from when they are set. A
//! killed process leaves the files as the system has them, the operation in progress done in part. A
//! machine that loses power leaves of each file what was last forced to disk and, of every change since,
//! all, a part or nothing, each by itself; of new, renamed and removed names those up to a random one.

use anomalist_cli::commands::watch::medium::{How, Medium, Opened};
use fastrand::Rng;
use redb::{Builder, Database, DatabaseError, StorageBackend};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a process ends, or what its system refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process is killed in the middle of an operation.
    Kill,
    /// The machine loses power in the middle of an operation.
    Power,
    /// The operation is done in part: the disk is full.
    Full,
    /// The operation is done in part: an error of the device.
    Device,
}

/// A fault at an operation, which is counted from now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// Which fault.
    pub fault: Fault,
    /// After so many further operations.
    pub after: u32,
    /// Decides how much is done.
    pub seed: u64,
}

enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    /// As last forced to disk.
    durable: Vec<u8>,
    /// Since then.
    changes: Vec<Change>,
}

fn apply(bytes: &mut Vec<u8>, change: &Change, part: usize) {
    match change {
        Change::Write(offset, written) => {
            let written = &written[..part.min(written.len())];
            let end = *offset as usize + written.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*offset as usize..end].copy_from_slice(written);
        }
        Change::Length(length) => bytes.resize(*length as usize, 0),
    }
}

type Names = BTreeMap<String, usize>;

#[derive(Default)]
struct State {
    files: Vec<File>,
    names: Names,
    /// As last forced to disk, and after each change since.
    durable: Names,
    since: Vec<Names>,
    due: Option<Due>,
    /// Processes so far; only the last one can do anything.
    process: u32,
    /// How the process ended.
    ended: Option<Fault>,
    /// A fault happened that the process may survive.
    failed: bool,
}

/// The folder.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the next fault.
    pub fn set(&self, due: Due) {
        self.state().due = Some(due);
    }

    /// How the process ended, if it did.
    pub fn ended(&self) -> Option<Fault> {
        self.state().ended
    }

    /// Whether the system refused something since this was last asked.
    pub fn has_failed(&self) -> bool {
        std::mem::take(&mut self.state().failed)
    }

    /// Ends the process that runs now.
    pub fn end(&self, fault: Fault) {
        self.state().ended.get_or_insert(fault);
    }

    /// What the next process finds.
    pub fn restart(&self, seed: u64) -> Process {
        let state = &mut *self.state();
        if state.ended.take() == Some(Fault::Power) {
            lose(state, &mut Rng::with_seed(seed));
        }
        state.process += 1;
        state.failed = false;
        Process { disk: self.clone(), number: state.process }
    }
}

fn lose(state: &mut State, rng: &mut Rng) {
    let kept = rng.usize(..=state.since.len());
    if kept > 0 {
        state.durable = state.since.swap_remove(kept - 1);
    }
    state.since.clear();
    state.names = state.durable.clone();
    for file in &mut state.files {
        let File { bytes, durable, changes } = file;
        for change in changes.drain(..) {
            let part = match &change {
                Change::Write(_, written) => rng.usize(..=written.len()),
                Change::Length(_) => 0,
            };
            match rng.u8(..3) {
                0 => apply(durable, &change, usize::MAX),
                1 if !matches!(change, Change::Length(_)) => apply(durable, &change, part),
                _ => {}
            }
        }
        bytes.clone_from(durable);
    }
}

/// The folder as one process sees it.
#[derive(Clone)]
pub struct Process {
    disk: Disk,
    number: u32,
}

/// What becomes of an operation: all of it, or so much of it and an error.
enum Fate {
    Done,
    Part(f64, io::Error),
}

impl Process {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        if state.process != self.number || state.ended.is_some() {
            return Err(io::Error::other("the process has ended"));
        }
        Ok(state)
    }

    /// Prints lines; those that were printed before the process ended.
    pub fn print<'a>(&self, text: &'a str) -> (&'a str, io::Result<()>) {
        let fate = match self.state() {
            Ok(mut state) => fate(&mut state),
            Err(error) => return ("", Err(error)),
        };
        match fate {
            Fate::Done => (text, Ok(())),
            Fate::Part(share, error) => {
                let printed = &text.as_bytes()[..(text.len() as f64 * share) as usize];
                let whole = printed.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
                (&text[..whole], Err(error))
            }
        }
    }

    fn name(&self, act: impl FnOnce(&mut Names)) -> io::Result<()> {
        let mut state = self.state()?;
        // A name changes or does not.
        if let Fate::Part(share, error) = fate(&mut state)
            && (share < 0.5 || state.ended.is_none())
        {
            return Err(error);
        }
        act(&mut state.names);
        let names = state.names.clone();
        state.since.push(names);
        if state.ended.is_some() { Err(io::Error::other("the process has ended")) } else { Ok(()) }
    }

    fn find(&self, name: &str) -> io::Result<Option<usize>> {
        Ok(self.state()?.names.get(name).copied())
    }

    fn entry(&self, name: &str, how: How) -> io::Result<Entry> {
        let found = self.find(name)?;
        let number = match (found, how) {
            (Some(number), How::Found | How::Any) => number,
            (Some(number), How::Empty) => {
                Entry { process: self.clone(), number }.change(Change::Length(0))?;
                number
            }
            (None, How::Found) => return Err(io::ErrorKind::NotFound.into()),
            (None, How::Any | How::Empty) => {
                let number = {
                    let files = &mut self.state()?.files;
                    files.push(File::default());
                    files.len() - 1
                };
                self.name(|names| _ = names.insert(name.to_owned(), number))?;
                number
            }
        };
        Ok(Entry { process: self.clone(), number })
    }
}

fn fate(state: &mut State) -> Fate {
    match &mut state.due {
        Some(due) if due.after > 0 => due.after -= 1,
        Some(due) => {
            let (fault, share) = (due.fault, Rng::with_seed(due.seed).f64());
            state.due = None;
            let error = match fault {
                Fault::Kill | Fault::Power => {
                    state.ended = Some(fault);
                    io::Error::other("the process has ended")
                }
                Fault::Full => io::ErrorKind::StorageFull.into(),
                Fault::Device => io::Error::from_raw_os_error(5),
            };
            state.failed = true;
            return Fate::Part(share, error);
        }
        None => {}
    }
    Fate::Done
}

impl Medium for Process {
    fn open(&self, name: &str, how: How) -> io::Result<Box<dyn Opened>> {
        Ok(Box::new(self.entry(name, how)?))
    }

    fn database(&self, builder: &Builder, name: &str) -> Result<Database, DatabaseError> {
        builder.create_with_backend(self.entry(name, How::Any)?)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state()?.names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let number = self.find(from)?.ok_or(io::ErrorKind::NotFound)?;
        self.name(|names| {
            names.remove(from);
            names.insert(to.to_owned(), number);
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.find(name)?.ok_or(io::ErrorKind::NotFound)?;
        self.name(|names| _ = names.remove(name))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state()?;
        if let Fate::Part(_, error) = fate(&mut state) {
            return Err(error);
        }
        state.durable = state.names.clone();
        state.since.clear();
        Ok(())
    }

    fn shown(&self) -> String {
        "state".to_owned()
    }
}

/// A file as one process sees it.
struct Entry {
    process: Process,
    number: usize,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "file {}", self.number)
    }
}

impl Entry {
    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.process.state()?;
        let (done, result) = match (fate(&mut state), &change) {
            (Fate::Done, _) => (Some(usize::MAX), Ok(())),
            (Fate::Part(share, error), Change::Write(_, bytes)) => {
                (Some((bytes.len() as f64 * share) as usize), Err(error))
            }
            (Fate::Part(share, error), Change::Length(_)) => ((share < 0.5).then_some(0), Err(error)),
        };
        let file = &mut state.files[self.number];
        if let Some(done) = done {
            apply(&mut file.bytes, &change, done);
            let change = match change {
                Change::Write(at, mut bytes) => {
                    bytes.truncate(done);
                    Change::Write(at, bytes)
                }
                length @ Change::Length(_) => length,
            };
            file.changes.push(change);
        }
        result
    }

    fn force(&self) -> io::Result<()> {
        let mut state = self.process.state()?;
        if let Fate::Part(_, error) = fate(&mut state) {
            return Err(error);
        }
        let File { durable, changes, .. } = &mut state.files[self.number];
        changes.drain(..).for_each(|change| apply(durable, &change, usize::MAX));
        Ok(())
    }

    fn get(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.process.state()?;
        let bytes = &state.files[self.number].bytes;
        let found = bytes.get(offset as usize..offset as usize + buffer.len());
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.process.state()?.files[self.number].bytes.len() as u64)
    }
}

impl Opened for Entry {
    fn length(&self) -> io::Result<u64> {
        self.size()
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.get(buffer, offset)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(Change::Write(offset, bytes.to_vec()))
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.change(Change::Length(length))
    }

    fn sync(&self) -> io::Result<()> {
        self.force()
    }
}

impl StorageBackend for Entry {
    fn len(&self) -> io::Result<u64> {
        self.size()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.get(out, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.change(Change::Length(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.force()
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(Change::Write(offset, bytes.to_vec()))
    }
}
