//! What every fuzz target does with its bytes: they end as a history or a diagnostic, never in a panic; a history can be
//! indexed, and survives Anomalist's own format.

pub mod weak;

use anomalist_format::{Format, Input, Loaded, ReadError, ReadOptions, Sink, WriteError};
use anomalist_history::{History, Indexed};
use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

/// A stream whose bytes can be had back.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    /// What was written so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A history as a file of this format.
pub fn write(format: Format, history: &History, lossy: bool) -> Result<Vec<u8>, WriteError> {
    let memory = Memory::default();
    let mut writer = anomalist_format::writer(format, Sink::Stream(Box::new(memory.clone())), lossy)?;
    writer.append(history)?;
    writer.finish()?;
    Ok(memory.bytes())
}

fn load(format: Option<Format>, bytes: &[u8], lossy: bool) -> Result<Loaded, ReadError> {
    load_on(1, format, bytes, lossy)
}

fn load_on(threads: usize, format: Option<Format>, bytes: &[u8], lossy: bool) -> Result<Loaded, ReadError> {
    let threads = NonZeroUsize::new(threads).expect("there is a thread");
    let input = match format {
        Some(format) if format.is_folder() => {
            Input::from_logs("folder", vec![("T1.log".to_owned(), bytes.to_vec())])
        }
        _ => Input::from_bytes("file", bytes.to_vec()),
    };
    anomalist_format::read(input, &ReadOptions { format, lossy, threads, ..ReadOptions::default() })
}

/// Reads bytes in every way; whatever comes of it must hold together.
pub fn read(format: Option<Format>, bytes: &[u8]) {
    let strict = load(format, bytes, false);
    match (&strict, load(format, bytes, true)) {
        (Ok(loaded), Ok(lossy)) => assert_eq!(loaded.history.op_count(), lossy.history.op_count()),
        (Ok(_), Err(error)) => panic!("lossy reads less: {error}"),
        (Err(ReadError::Malformed(found)), lossy) => {
            assert!(!found.is_empty());
            found.iter().for_each(|d| assert!(!d.to_string().is_empty()));
            if let Ok(lossy) = lossy {
                assert!(!lossy.warnings.is_empty(), "something is missing, and nobody says so");
                check(&lossy);
            }
        }
        (Err(error), _) => panic!("{error}"),
    }
    if let Ok(loaded) = &strict {
        check(loaded);
    }
    // Threads are slow to start: one input in eight.
    if bytes.len() % 8 == 0 {
        let said = |result: &Result<Loaded, ReadError>| match result {
            Ok(loaded) => Ok(sizes(&loaded.history)),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(said(&load_on(3, format, bytes, false)), said(&strict), "it depends on the threads");
    }
}

fn check(loaded: &Loaded) {
    let history = &loaded.history;
    assert!(history.txn_count() > 0);
    loaded.warnings.iter().for_each(|d| assert!(!d.to_string().is_empty()));
    Indexed::new(history, NonZeroUsize::MIN);
    let written = write(Format::Anomalist, history, false).expect("Anomalist's format loses nothing");
    let again = load(Some(Format::Anomalist), &written, false)
        .unwrap_or_else(|e| panic!("{e}\n{}", String::from_utf8_lossy(&written)))
        .history;
    assert_eq!(sizes(&again), sizes(history), "{}", String::from_utf8_lossy(&written));
    // What the format itself can write of what it read, it reads again.
    if !loaded.format.is_folder()
        && let Ok(written) = write(loaded.format, history, false)
    {
        let again = load(Some(loaded.format), &written, false)
            .unwrap_or_else(|e| panic!("{e}\n{}", String::from_utf8_lossy(&written)))
            .history;
        assert_eq!(sizes(&again), sizes(history), "{}", String::from_utf8_lossy(&written));
    }
}

fn sizes(history: &History) -> [usize; 3] {
    [history.session_count(), history.txn_count(), history.op_count()]
}
