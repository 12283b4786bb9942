//! Room for what has arrived and is not in the checker: lines that have not ended, blocks on their way,
//! bodies of requests.
//!
//! Each kind gets a share of the memory that is allowed, for all sources together. A block waits until there
//! is room, because the checker makes some. A line that has not ended may never end: one that finds no room
//! is given up, and what was read of it is reported as malformed.

use super::sources::LONGEST_LINE;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What may be taken.
#[derive(Clone)]
pub struct Rooms {
    /// For the beginnings of lines.
    pub lines: Arc<Room>,
    /// For blocks.
    pub blocks: Arc<Room>,
    /// Bytes of a line, and of a body.
    pub longest: usize,
}

impl Rooms {
    /// Shares of so much memory.
    pub fn of(memory: usize) -> Rooms {
        let share = (memory / 16).max(256 << 10);
        let room = || Arc::new(Room { used: Mutex::default(), freed: Condvar::new(), most: share });
        Rooms { lines: room(), blocks: room(), longest: share.min(LONGEST_LINE) }
    }
}

/// Bytes that may be taken by all together.
pub struct Room {
    used: Mutex<usize>,
    freed: Condvar,
    most: usize,
}

/// Bytes that are taken until this is dropped.
pub struct Held {
    room: Arc<Room>,
    bytes: usize,
}

impl Room {
    fn used(&self) -> MutexGuard<'_, usize> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes nothing yet.
    pub fn nothing(self: &Arc<Room>) -> Held {
        Held { room: self.clone(), bytes: 0 }
    }

    /// Takes so many bytes, as soon as there is room; more than there is at all, when nothing else is taken.
    pub fn wait(self: &Arc<Room>, bytes: usize) -> Held {
        let mut used = self.used();
        while *used > 0 && *used + bytes > self.most {
            used = self.freed.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used += bytes;
        Held { room: self.clone(), bytes }
    }
}

impl Held {
    /// Takes so many bytes in all; false, and nothing changes, if there is no room.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let mut used = self.room.used();
        let others = *used - self.bytes;
        let fits = others + bytes <= self.room.most || bytes <= self.bytes;
        if fits {
            *used = others + bytes;
            self.bytes = bytes;
            self.room.freed.notify_all();
        }
        fits
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.grow(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken() {
        let rooms = Rooms::of(16 << 20);
        let (mut one, mut other) = (rooms.lines.nothing(), rooms.lines.nothing());
        assert!(one.grow(700_000) && !other.grow(700_000) && other.grow(300_000));
        assert!(one.grow(100) && other.grow(700_000) && !one.grow(700_000));
        drop(other);
        assert!(one.grow(1 << 20));
        let block = rooms.blocks.wait(5 << 20);
        let waiting = rooms.blocks.clone();
        let waiter = std::thread::spawn(move || drop(waiting.wait(10)));
        drop(block);
        waiter.join().unwrap();
    }
}
