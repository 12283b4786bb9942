//! Keeps commits and reads apart.
//!
//! A read is right if the tables show exactly what the store knows to be committed: the view takes every row
//! that is not chosen otherwise from the table. So a read shares the gate from its choice until the server
//! has taken its snapshot, and a commit closes it until both the server and the store have committed.
//!
//! A read may wait for a lock that only the end of another transaction gives back (ALTER TABLE, TRUNCATE).
//! A commit therefore waits for reads only for a short time ([`PATIENCE`]); nothing else waits while it
//! holds the gate, so there is no deadlock.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a commit waits for reads.
const PATIENCE: Duration = Duration::from_millis(300);

#[derive(Default)]
struct State {
    sharing: usize,
    closed: bool,
}

/// The gate.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn when_open(&self) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_while(self.lock(), |state| state.closed);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// A read begins.
    pub fn share(&self) {
        self.when_open().sharing += 1;
    }

    /// A read has its snapshot.
    pub fn unshare(&self) {
        let mut state = self.lock();
        state.sharing = state.sharing.saturating_sub(1);
        self.changed.notify_all();
    }

    /// A commit begins.
    pub fn close(&self) {
        let mut state = self.when_open();
        state.closed = true;
        let _ = self.changed.wait_timeout_while(state, PATIENCE, |state| state.sharing > 0);
    }

    /// A commit is over.
    pub fn open(&self) {
        self.lock().closed = false;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;

    #[test]
    fn commits_exclude_reads_and_each_other_but_do_not_wait_for_ever() {
        let gate = Gate::default();
        gate.close();
        thread::scope(|scope| {
            let read = scope.spawn(|| {
                gate.share();
                Instant::now()
            });
            thread::sleep(Duration::from_millis(30));
            let opened = Instant::now();
            gate.open();
            assert!(read.join().unwrap() >= opened);
        });
        // The read above still shares the gate.
        let before = Instant::now();
        gate.close();
        assert!(before.elapsed() >= PATIENCE);
        gate.open();
        gate.unshare();
        let before = Instant::now();
        gate.close();
        assert!(before.elapsed() < PATIENCE);
    }
}
