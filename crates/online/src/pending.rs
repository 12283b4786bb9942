//! Verdicts that have not been reported: which, and when they will be.
//!
//! A read whose verdict differs from what was reported waits here until its deadline. Most that wait are
//! reads that arrived before the write they saw, and leave before.

use crate::Finding;
use crate::key::Verdict;
use anomalist_history::Timestamp;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

/// A read: the rank of arrival of its transaction, and its key's number.
pub(crate) type ReadId = (u64, u32);

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// In milliseconds.
    pub deadline: u64,
    /// Where the read is among those of its key.
    pub at: Timestamp,
    /// The read sees a set.
    pub by_set: bool,
    /// The read has left memory: what there is to say about it.
    pub spilled: Option<Box<SpilledRead>>,
}

/// What to report about a read that is in the store.
#[derive(Clone, Debug)]
pub(crate) struct SpilledRead {
    pub verdict: Verdict,
    pub reported: Verdict,
    /// As an EXT; the axiom is put in when it is reported.
    pub finding: Finding,
}

/// All that waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    waiting: FxHashMap<ReadId, Waiting>,
    /// By deadline. Whatever arrives in one millisecond waits together, so that there are few of them;
    /// those that no longer wait, or not until then, are passed over.
    queue: BTreeMap<u64, Vec<ReadId>>,
    queued: usize,
    /// Those whose deadline is next or has come, the first one last.
    next: Vec<ReadId>,
    next_deadline: u64,
}

impl Pending {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn arm(&mut self, read: ReadId, waiting: Waiting) {
        self.queue.entry(waiting.deadline).or_default().push(read);
        self.queued += 1;
        self.waiting.insert(read, waiting);
    }

    pub fn disarm(&mut self, read: ReadId) {
        self.waiting.remove(&read);
        // Deadlines of what left long ago must not pile up where time stands still.
        if self.queued > 4 * self.waiting.len() + 4096 {
            let waiting = &self.waiting;
            self.queue.retain(|deadline, reads| {
                reads.retain(|read| waiting.get(read).is_some_and(|w| w.deadline == *deadline));
                !reads.is_empty()
            });
            self.queued = self.queue.values().map(Vec::len).sum();
        }
    }

    pub fn get_mut(&mut self, read: ReadId) -> Option<&mut Waiting> {
        self.waiting.get_mut(&read)
    }

    /// The next read whose deadline has come: by deadline, then in the order of their ids.
    pub fn due(&mut self, now: u64) -> Option<(ReadId, Waiting)> {
        loop {
            let Some(read) = self.next.pop() else {
                let first = self.queue.first_entry().filter(|first| *first.key() <= now)?;
                (self.next_deadline, self.next) = first.remove_entry();
                self.queued -= self.next.len();
                self.next.sort_unstable_by(|a, b| b.cmp(a));
                continue;
            };
            if let Entry::Occupied(waiting) = self.waiting.entry(read)
                && waiting.get().deadline == self.next_deadline
            {
                return Some((read, waiting.remove()));
            }
        }
    }

    /// All that waits, in the order of their ids.
    pub fn sorted(&self) -> Vec<(&ReadId, &Waiting)> {
        let mut all: Vec<_> = self.waiting.iter().collect();
        all.sort_by_key(|(read, _)| **read);
        all
    }
}
