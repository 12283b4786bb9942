//! Writes what sessions pass on: the history, and a log of faults and first errors.

use super::{Control, Output};
use crate::Ended;
use crate::record::{Entry, Finished, Recorder};
use anomalist_format::WriteError;
use anomalist_workload::client::Workload;
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// What is recorded reaches the file within this time.
const FLUSH: Duration = Duration::from_millis(200);
/// How long the writer lets entries gather. Were it to wait for each, every transaction would have to wake
/// it: on a machine whose cores are busy, a tenth of what the transaction itself costs.
const GATHER: Duration = Duration::from_millis(20);

/// Writes entries as they come.
pub(super) fn write(
    workload: Workload,
    output: Output,
    entries: &Receiver<Entry>,
    control: &Control,
) -> Result<(), WriteError> {
    let Output { history, mut log } = output;
    let mut recorder = Recorder::new(workload, history)?;
    let mut seen: Vec<&'static str> = Vec::new();
    let mut flushed = Instant::now();
    let result = loop {
        let entry = match entries.try_recv() {
            Ok(entry) => entry,
            Err(TryRecvError::Empty) => {
                if flushed.elapsed() > FLUSH {
                    if let Err(error) = recorder.flush() {
                        break Err(error);
                    }
                    flushed = Instant::now();
                }
                std::thread::sleep(GATHER);
                continue;
            }
            Err(TryRecvError::Disconnected) => break Ok(()),
        };
        // What cannot be logged is lost; the history is not.
        _ = note(&mut log, &entry, &mut seen);
        if let Err(error) = recorder.push(entry) {
            break Err(error);
        }
    };
    _ = log.flush();
    match result {
        Ok(()) => recorder.finish(),
        Err(error) => {
            control.stop.store(true, Relaxed);
            Err(error)
        }
    }
}

/// Logs faults and the first error of each kind.
fn note(log: &mut dyn Write, entry: &Entry, seen: &mut Vec<&'static str>) -> std::io::Result<()> {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    match entry {
        Entry::Fault { name, detail, began, ended } => {
            let (began, ended) = (seconds(*began), seconds(*ended));
            writeln!(log, "{began:.3}s fault {name} {detail} (over at {ended:.3}s)")
        }
        Entry::Finished(Finished { ended, completed, process, .. }) => match ended {
            Ended::Indeterminate(cause) => writeln!(
                log,
                "{:.3}s process {process}: outcome unknown, {}: {}",
                seconds(*completed),
                cause.kind,
                cause.message
            ),
            Ended::Aborted(cause) if !seen.contains(&cause.kind) => {
                seen.push(cause.kind);
                let at = seconds(*completed);
                writeln!(log, "{at:.3}s first abort by {}: {}", cause.kind, cause.message)
            }
            _ => Ok(()),
        },
        Entry::Began { .. } => Ok(()),
    }
}
