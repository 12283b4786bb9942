//! Prefix, snapshot isolation and serializability, in their session variants, with the order of commits as
//! the commit order.
//!
//! A transaction reads from a snapshot, a prefix of that order that contains its session's past. Which
//! prefix is left open: an interval of positions still agrees with what it has read. A version is the
//! snapshot's from its own position up to that of the next version, so a read of it narrows the interval,
//! and the allowed versions are those whose range meets the interval: one slice of the key's versions,
//! found by two binary searches.
//!
//! Snapshot isolation refuses a commit if no position of the interval has the newest versions of all keys
//! written; reads steer clear of that for keys already written. Serializability refuses a writer whose
//! interval does not reach the present; a transaction that has not promised to be read-only is therefore
//! given the newest version of its interval.
//!
//! What this covers: a history within the level has a commit order that proves it. Run its transactions one
//! after another in that order, and every read's source is in the slice, and no commit is refused; so over
//! all schedules everything the level allows is produced, and nothing else. Under one schedule, it is
//! everything that agrees with that order of commits.

use super::base::{Base, KeyId, Seq};
use super::error::Conflict;
use super::isolation::Isolation;
use super::search::partition_late;
use rustc_hash::{FxHashMap, FxHashSet};

/// Which of the three.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strength {
    Prefix,
    Snapshot,
    Serial,
}

/// One of the three levels at work.
pub(crate) struct Snapshots {
    strength: Strength,
    views: Vec<View>,
    /// Sessions with an open transaction that has read something.
    reading: Vec<usize>,
}

/// A session's.
#[derive(Default)]
struct View {
    /// The snapshot of the session's next transaction is at least this.
    floor: u32,
    read_only: bool,
    low: u32,
    high: Option<u32>,
    reads: FxHashMap<KeyId, Seq>,
    writes: FxHashSet<KeyId>,
}

impl View {
    fn meets(&self, low: u32, high: Option<u32>) -> bool {
        self.high.is_none_or(|h| low <= h) && high.is_none_or(|h| self.low <= h)
    }

    /// The position from which on the snapshot has the newest versions of all keys written.
    fn needs(&self, base: &Base) -> u32 {
        self.writes.iter().map(|&k| base.versions(k).last().0).max().unwrap_or(0)
    }
}

impl Snapshots {
    pub fn new(strength: Strength) -> Snapshots {
        Snapshots { strength, views: Vec::new(), reading: Vec::new() }
    }

    fn close(&mut self, session: usize) {
        self.reading.retain(|&s| s != session);
        let view = &mut self.views[session];
        view.reads.clear();
        view.writes.clear();
    }
}

impl Isolation for Snapshots {
    fn open_session(&mut self) {
        self.views.push(View::default());
    }

    fn close_session(&mut self, session: usize) {
        self.views[session] = View::default();
    }

    fn begin(&mut self, session: usize, read_only: bool) {
        let view = &mut self.views[session];
        (view.low, view.high, view.read_only) = (view.floor, None, read_only);
    }

    fn spans<'a>(&'a self, base: &'a Base, session: usize, key: KeyId) -> Vec<&'a [Seq]> {
        let (view, writers) = (&self.views[session], &base.versions(key).writers);
        // The last version at or before `low`, and the last at or before `high`.
        let first = partition_late(writers, |w| w.0 <= view.low).saturating_sub(1);
        let end = view.high.map_or(writers.len(), |h| partition_late(writers, |w| w.0 <= h));
        let mut span = &writers[first..end];
        match self.strength {
            Strength::Serial if !view.read_only => span = &span[span.len() - 1..],
            Strength::Snapshot => {
                let needs = view.needs(base);
                // Of a version, the next one's position is where its range ends.
                let skip = writers[first + 1..].partition_point(|next| next.0 <= needs);
                if skip < span.len() && view.high.is_none_or(|h| needs <= h) {
                    span = &span[skip..];
                }
            }
            _ => {}
        }
        vec![span]
    }

    fn spans_are_sessions(&self) -> bool {
        false
    }

    fn allows(&self, _: &Base, _: usize, _: KeyId, _: Seq) -> bool {
        true
    }

    fn before(&self, a: Seq, b: Seq) -> bool {
        a < b
    }

    fn observe(&mut self, base: &Base, session: usize, key: KeyId, source: Seq) {
        let writers = &base.versions(key).writers;
        let next = writers.get(partition_late(writers, |&w| w <= source)).map(|w| w.0 - 1);
        let view = &mut self.views[session];
        debug_assert!(view.meets(source.0, next), "the source is in the slice");
        view.low = view.low.max(source.0);
        view.high = view.high.into_iter().chain(next).min();
        if view.reads.is_empty() {
            self.reading.push(session);
        }
        view.reads.insert(key, source);
    }

    fn write(&mut self, session: usize, key: KeyId, writes: bool) {
        let view = &mut self.views[session];
        if writes {
            view.writes.insert(key);
        } else {
            view.writes.remove(&key);
        }
    }

    fn may_commit(&self, base: &Base, session: usize) -> Result<(), Conflict> {
        let view = &self.views[session];
        match (self.strength, view.high) {
            (Strength::Snapshot, Some(high)) => {
                let late = view.writes.iter().filter(|&&k| base.versions(k).last().0 > high).min();
                late.map_or(Ok(()), |&k| Err(Conflict::Write(base.name(k).clone())))
            }
            (Strength::Serial, Some(_)) if !view.writes.is_empty() => Err(Conflict::Read),
            _ => Ok(()),
        }
    }

    fn commit(&mut self, base: &Base, session: usize, seq: Option<Seq>) {
        let view = &mut self.views[session];
        match seq {
            None => view.floor = view.low,
            Some(seq) => {
                view.floor = seq.0;
                // A transaction that has read a version that is no longer the newest has a snapshot from
                // before this commit.
                for &other in self.reading.iter().filter(|&&s| s != session) {
                    let view = &mut self.views[other];
                    if base.keys(seq).any(|k| view.reads.contains_key(&k)) {
                        view.high = Some(view.high.map_or(seq.0 - 1, |h| h.min(seq.0 - 1)));
                    }
                }
            }
        }
        self.close(session);
    }

    fn abort(&mut self, _: &Base, session: usize) {
        self.close(session);
    }
}
