//! Connections that keep the server waiting: for a head, for the rest of a body, for a next request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

/// All connections.
#[derive(Default)]
pub(crate) struct Waiting {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next: u64,
    open: BTreeMap<u64, (Arc<Waits>, Option<AbortHandle>)>,
}

/// One of them.
pub(crate) struct Waits {
    pub(crate) number: u64,
    all: Arc<Waiting>,
    /// Since when the server waits for it; none: a request is being answered.
    since: Mutex<Option<Instant>>,
}

impl Waits {
    /// Whether the server waits for it from now on.
    pub(crate) fn set(&self, waits: bool) {
        *self.since() = waits.then(Instant::now);
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a connection off the list when it ends.
pub(crate) struct Left(pub(crate) Arc<Waits>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.all.lock().open.remove(&self.0.number);
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more connection.
    pub(crate) fn add(self: &Arc<Self>) -> Arc<Waits> {
        let mut inner = self.lock();
        inner.next += 1;
        let since = Mutex::new(Some(Instant::now()));
        let waits = Arc::new(Waits { number: inner.next, all: self.clone(), since });
        inner.open.insert(waits.number, (waits.clone(), None));
        waits
    }

    /// Says which task serves it.
    pub(crate) fn note(&self, number: u64, task: AbortHandle) {
        if let Some((_, noted)) = self.lock().open.get_mut(&number) {
            *noted = Some(task);
        }
    }

    /// Ends the connection that the server has waited for longest, if it has for so long; false if there is
    /// none.
    pub(crate) fn end_longest(&self, grace: Duration) -> bool {
        let inner = self.lock();
        let since = |waits: &Waits| *waits.since();
        let longest = inner.open.values().filter_map(|(waits, task)| Some((since(waits)?, task.as_ref()?)));
        match longest.min_by_key(|(since, _)| *since).filter(|(since, _)| since.elapsed() >= grace) {
            Some((_, task)) => {
                task.abort();
                true
            }
            None => false,
        }
    }
}
