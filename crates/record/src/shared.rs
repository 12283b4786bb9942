//! What sessions, the reader of the log and the writer share.

use crate::catalogue::Catalogue;
use crate::ledger::Event;
use crate::plan::Reason;
use crate::shape::Shapes;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

/// No transaction is open.
const IDLE: u64 = u64::MAX;

/// What was seen and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Statements whose reads were seen.
    pub seen: u64,
    /// Statements whose reads were not seen, by reason.
    pub unseen: BTreeMap<Reason, u64>,
}

/// When the open transaction of a session began.
pub(crate) struct Opened(AtomicU64);

impl Opened {
    /// A request is sent. If no transaction is open, one may begin with it.
    pub fn begin(&self, now: u64) {
        if self.0.load(Ordering::SeqCst) == IDLE {
            self.0.store(now, Ordering::SeqCst);
        }
    }

    /// None is open any more, and what there was to say about the last one was said.
    pub fn end(&self) {
        self.0.store(IDLE, Ordering::SeqCst);
    }
}

pub(crate) struct Shared {
    began: Instant,
    catalogue: RwLock<Arc<Catalogue>>,
    pub shapes: Shapes,
    /// The life of the server: another after each restart.
    pub era: AtomicU32,
    /// Definitions have changed, and the catalogue was not read since.
    stale: AtomicBool,
    open: Mutex<BTreeMap<u64, Arc<Opened>>>,
    next: AtomicU64,
    counts: Mutex<Counts>,
    sender: Mutex<Sender<Event>>,
    /// The recording is to end.
    pub stopping: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No invariant spans two critical sections.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new(catalogue: Catalogue, sender: Sender<Event>) -> Shared {
        Shared {
            began: Instant::now(),
            catalogue: RwLock::new(Arc::new(catalogue)),
            shapes: Shapes::default(),
            era: AtomicU32::new(1),
            stale: AtomicBool::new(false),
            open: Mutex::default(),
            next: AtomicU64::new(1),
            counts: Mutex::default(),
            sender: Mutex::new(sender),
            stopping: AtomicBool::new(false),
        }
    }

    /// Nanoseconds since the recording began.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(IDLE - 1)
    }

    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a new catalogue, and returns the one before.
    pub fn replace(&self, catalogue: Catalogue) -> Arc<Catalogue> {
        let mut current = self.catalogue.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, Arc::new(catalogue));
        self.shapes.forget();
        before
    }

    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::SeqCst)
    }

    pub fn outdate(&self) {
        self.stale.store(true, Ordering::SeqCst);
    }

    /// Whether definitions have changed since this was asked last.
    pub fn take_stale(&self) -> bool {
        self.stale.swap(false, Ordering::SeqCst)
    }

    /// A new session: its number, and where it says when a transaction is open.
    pub fn session(&self) -> (u64, Arc<Opened>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let opened = Arc::new(Opened(AtomicU64::new(IDLE)));
        lock(&self.open).insert(number, opened.clone());
        (number, opened)
    }

    pub fn leave(&self, session: u64) {
        lock(&self.open).remove(&session);
    }

    /// When the transaction began that is open longest; now, if none is open.
    pub fn oldest(&self) -> u64 {
        let now = self.now();
        let open = lock(&self.open);
        open.values().map(|o| o.0.load(Ordering::SeqCst)).min().unwrap_or(now).min(now)
    }

    pub fn sender(&self) -> Sender<Event> {
        lock(&self.sender).clone()
    }

    pub fn count(&self, unseen: Option<Reason>) {
        let mut counts = lock(&self.counts);
        match unseen {
            Some(reason) => *counts.unseen.entry(reason).or_default() += 1,
            None => counts.seen += 1,
        }
    }

    pub fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }
}
