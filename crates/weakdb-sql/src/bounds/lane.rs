//! Long statements wait for short ones.
//!
//! A statement that has run for [`LONG`] goes on in slices. One long statement runs at a time; and if other
//! statements began during its slice, a pause of [`SHARE`] slices follows. So any number of long statements
//! together take a small share of one processor from the others, and a long statement that is alone runs on
//! at full speed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Statements that have run for so long are long.
const LONG: Duration = Duration::from_millis(100);
/// How long one of them runs on before it makes way.
const SLICE: Duration = Duration::from_millis(2);
/// How many slices the short statements get after it.
const SHARE: u32 = 24;
/// A statement that has the place and has not asked for so long does something that it cannot interrupt.
const STALE: Duration = Duration::from_millis(50);
/// How long to wait before a statement that waits looks whether it is to end.
const NAP: Duration = Duration::from_millis(20);

/// A statement that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    number: u64,
    began: Instant,
}

/// The place in which one long statement runs.
#[derive(Default)]
pub(crate) struct Lane {
    place: Mutex<Place>,
    free: Condvar,
    /// Statements that have begun.
    begun: AtomicU64,
}

#[derive(Default)]
struct Place {
    /// The statement that has the place, and since when.
    taken: Option<(Turn, Instant)>,
    /// Statements that had begun when it got the place.
    seen: u64,
    /// No long statement runs before.
    closed: Option<Instant>,
}

impl Lane {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A statement begins.
    pub(crate) fn begin(&self, began: Instant) -> Turn {
        Turn { number: self.begun.fetch_add(1, Ordering::Relaxed), began }
    }

    /// It has ended.
    pub(crate) fn end(&self, turn: Turn) {
        if turn.began.elapsed() >= LONG {
            let mut place = self.place();
            if place.taken.is_some_and(|(of, _)| of == turn) {
                place.taken = None;
                self.free.notify_one();
            }
        }
    }

    /// A statement goes on. A long one waits until it has the place; true if it is to end.
    pub(crate) fn pass(&self, turn: Turn, is_over: impl Fn() -> bool) -> bool {
        let now = Instant::now();
        if now.duration_since(turn.began) < LONG {
            return false;
        }
        let mut place = self.place();
        if let Some((_, since)) = place.taken.filter(|(of, _)| *of == turn) {
            if now.duration_since(since) < SLICE {
                return false;
            }
            let others = self.begun.load(Ordering::Relaxed) != place.seen;
            place.closed = others.then(|| now + SLICE * SHARE);
            place.taken = None;
            self.free.notify_one();
        }
        loop {
            let now = Instant::now();
            let closed = place.closed.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
            let free = place.taken.is_none_or(|(_, since)| now.duration_since(since) >= STALE);
            if closed.is_zero() && free {
                place.taken = Some((turn, now));
                place.seen = self.begun.load(Ordering::Relaxed);
                return false;
            }
            let nap = if closed.is_zero() { NAP } else { closed.min(NAP) };
            place = self.free.wait_timeout(place, nap).unwrap_or_else(PoisonError::into_inner).0;
            drop(place);
            if is_over() {
                return true;
            }
            place = self.place();
        }
    }
}
