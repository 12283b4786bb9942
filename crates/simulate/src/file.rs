//! A file that a recording goes to, and that fails.

use anomalist_format::{Input, ReadOptions};
use anomalist_history::History;
use fastrand::Rng;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// What happens at a write.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Part of it is written, then the disk is full.
    Full,
    /// Part of it is written, then the device fails.
    Device,
    /// Part of it is written, and the process is killed.
    Kill,
}

/// A fault, the writes before it, and the share of the write that is done.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    fault: Fault,
    after: u32,
    share: f64,
}

impl Due {
    /// Any fault.
    pub fn random(rng: &mut Rng) -> Due {
        let fault = [Fault::Full, Fault::Device, Fault::Kill][rng.usize(..3)];
        let share = [0.0, rng.f64(), 1.0][rng.usize(..3)];
        Due { fault, after: rng.u32(..6), share }
    }
}

struct State {
    bytes: Vec<u8>,
    due: Option<Due>,
    /// Writes are short, and now and then interrupted.
    short: bool,
    killed: bool,
    turn: u32,
}

/// The file. Clones are the same file.
#[derive(Clone)]
pub struct FaultyFile(Arc<Mutex<State>>);

impl FaultyFile {
    /// An empty one.
    pub fn new(due: Option<Due>, short: bool) -> FaultyFile {
        FaultyFile(Arc::new(Mutex::new(State { bytes: Vec::new(), due, short, killed: false, turn: 0 })))
    }

    /// What is in it.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes.clone()
    }
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let state = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.killed {
            return Err(io::Error::other("the process has ended"));
        }
        state.turn += 1;
        match &mut state.due {
            Some(Due { after, .. }) if *after > 0 => *after -= 1,
            Some(Due { fault, share, .. }) => {
                let done = (bytes.len() as f64 * *share) as usize;
                state.bytes.extend_from_slice(&bytes[..done]);
                let error = match fault {
                    Fault::Full => io::ErrorKind::StorageFull.into(),
                    Fault::Device => io::Error::from_raw_os_error(5),
                    Fault::Kill => {
                        state.killed = true;
                        io::Error::other("the process has ended")
                    }
                };
                state.due = None;
                return Err(error);
            }
            None => {}
        }
        if state.short && state.turn.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let done = if state.short { bytes.len().div_ceil(2) } else { bytes.len() };
        state.bytes.extend_from_slice(&bytes[..done]);
        Ok(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let killed = self.0.lock().unwrap_or_else(PoisonError::into_inner).killed;
        if killed { Err(io::Error::other("the process has ended")) } else { Ok(()) }
    }
}

/// Judges what is in a file: a recording that was finished is read with all its transactions, another one is
/// refused unless all of it is there, and what can be read of it shows no violation.
pub fn judge(
    bytes: &[u8],
    whole: bool,
    transactions: usize,
    keeps: impl Fn(&str, &History) -> Result<(), String>,
) -> Result<(), String> {
    let read = |lossy| {
        let input = Input::from_bytes("history.jsonl", bytes.to_vec());
        anomalist_format::read(input, &ReadOptions { lossy, ..ReadOptions::default() })
    };
    match read(false) {
        Ok(loaded) if loaded.history.txn_count() == transactions => keeps("the file", &loaded.history)?,
        Ok(loaded) => {
            let count = loaded.history.txn_count();
            return Err(format!("the file is read with {count} of {transactions} transactions"));
        }
        Err(error) if whole && transactions > 0 => {
            return Err(format!("the recording was finished and cannot be read: {error}"));
        }
        Err(_) => {}
    }
    match read(true) {
        Ok(loaded) => keeps("the beginning of the file", &loaded.history),
        Err(_) => Ok(()),
    }
}
