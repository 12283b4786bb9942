//! Faults: what disturbs the database while sessions work.

use super::Shared;
use crate::EngineError;
use crate::record::Entry;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// A fault, as its source tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultEvent {
    /// Which, by its name on the command line.
    pub name: String,
    /// To what, or how long.
    pub detail: String,
}

/// Something that disturbs the database while it works.
pub trait FaultSource: Send {
    /// How long to wait before the next fault.
    fn pause(&mut self) -> Duration;

    /// Injects one fault and, if it is one that lasts, ends it: earlier if `over` is set. Returns when it
    /// is over; nothing, if it had no effect.
    fn inject(&mut self, over: &AtomicBool) -> Result<Option<FaultEvent>, EngineError>;

    /// Puts everything right at the end.
    fn heal(&mut self) {}
}

/// Injects faults until the sessions are done.
pub(super) fn disturb(
    mut faults: Box<dyn FaultSource + '_>,
    shared: &Shared<'_>,
    sender: &Sender<Entry>,
    over: &AtomicBool,
) {
    const STEP: Duration = Duration::from_millis(20);
    'faults: loop {
        let until = Instant::now() + faults.pause();
        while Instant::now() < until {
            if over.load(Relaxed) || shared.is_over() {
                break 'faults;
            }
            std::thread::sleep(STEP);
        }
        let began = shared.now();
        match faults.inject(over) {
            Ok(None) => {}
            Ok(Some(FaultEvent { name, detail })) => {
                shared.control.tally.faults.fetch_add(1, Relaxed);
                _ = sender.send(Entry::Fault { name, detail, began, ended: shared.now() });
            }
            Err(error) => {
                shared.give_up(error);
                break;
            }
        }
    }
    faults.heal();
}
