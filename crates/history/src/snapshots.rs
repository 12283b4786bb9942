//! Snapshots as sets of transaction ids.
//!
//! Some databases take a snapshot at a point of a clock; a timestamp says it all. Others note who was
//! running: PostgreSQL's `pg_current_snapshot()` is `xmin:xmax:xip_list`. There a scalar would be wrong,
//! because transactions become visible in another order than they are written to the log. Such a
//! transaction carries the set, and its writers their ids; its commit timestamp (the log position) still
//! orders versions.
//!
//! Kept only when some transaction has a set or an id: 28 bytes per transaction and 8 per running id.

use crate::builder::Draft;
use crate::ids::TxnId;
use std::fmt;

/// What a transaction saw, as a set of transaction ids.
///
/// ```
/// use anomalist_history::Snapshot;
/// let snapshot = Snapshot { xmin: 737, xmax: 740, running: &[737, 739] };
/// assert!(snapshot.sees(736) && snapshot.sees(738));
/// assert!(!snapshot.sees(737) && !snapshot.sees(740));
/// assert_eq!(snapshot.to_string(), "737:740:737,739");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Snapshot<'a> {
    /// Every id below it had ended, and is seen.
    pub xmin: u64,
    /// No id from it on is seen.
    pub xmax: u64,
    /// The ids in between that were still running, ascending.
    pub running: &'a [u64],
}

impl Snapshot<'_> {
    /// True if the effects of the transaction with this id are in the snapshot, should it have committed.
    #[inline]
    pub fn sees(&self, id: u64) -> bool {
        id < self.xmin || id < self.xmax && self.running.binary_search(&id).is_err()
    }
}

impl fmt::Display for Snapshot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (i, id) in self.running.iter().enumerate() {
            write!(f, "{}{id}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// The text of a set that is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSnapshot;

impl fmt::Display for BadSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a snapshot xmin:xmax:id,id,… with xmin ≤ every id < xmax")
    }
}

impl std::error::Error for BadSnapshot {}

/// A [`Snapshot`] that owns its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSet {
    xmin: u64,
    xmax: u64,
    running: Vec<u64>,
}

impl SnapshotSet {
    /// From its parts; the ids may come in any order.
    pub fn new(xmin: u64, xmax: u64, mut running: Vec<u64>) -> Result<SnapshotSet, BadSnapshot> {
        running.sort_unstable();
        running.dedup();
        let inside =
            running.first().is_none_or(|&id| id >= xmin) && running.last().is_none_or(|&id| id < xmax);
        if xmin <= xmax && inside { Ok(SnapshotSet { xmin, xmax, running }) } else { Err(BadSnapshot) }
    }

    /// Borrows it.
    pub fn view(&self) -> Snapshot<'_> {
        Snapshot { xmin: self.xmin, xmax: self.xmax, running: &self.running }
    }
}

impl std::str::FromStr for SnapshotSet {
    type Err = BadSnapshot;

    fn from_str(text: &str) -> Result<SnapshotSet, BadSnapshot> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| BadSnapshot);
        let mut parts = text.split(':');
        let (Some(xmin), Some(xmax), Some(ids), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(BadSnapshot);
        };
        let running = ids.split(',').filter(|id| !id.is_empty()).map(number).collect::<Result<_, _>>()?;
        SnapshotSet::new(number(xmin)?, number(xmax)?, running)
    }
}

/// The sets and ids of a history, by transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshots {
    /// [`NONE`]: it has no id, because it wrote nothing.
    id: Vec<u64>,
    /// (xmin, xmax); (`NONE`, 0): its snapshot is its start timestamp.
    bounds: Vec<(u64, u64)>,
    start: Vec<u32>,
    running: Vec<u64>,
    /// Some transaction has a set.
    pub sets: bool,
}

const NONE: u64 = u64::MAX;

impl Snapshots {
    pub fn id(&self, t: TxnId) -> Option<u64> {
        self.id.get(t.index()).copied().filter(|&id| id != NONE)
    }

    pub fn get(&self, t: TxnId) -> Option<Snapshot<'_>> {
        let &(xmin, xmax) = self.bounds.get(t.index())?;
        let running = &self.running[self.start[t.index()] as usize..self.start[t.index() + 1] as usize];
        (xmin != NONE).then_some(Snapshot { xmin, xmax, running })
    }

    /// The columns for `n` transactions; nothing if there is nothing to keep.
    pub fn build(drafted: &[Drafted], txn_of: &[u32], n: usize) -> Option<Box<Snapshots>> {
        let mut by_txn: Vec<Option<&Drafted>> = vec![None; n];
        let (mut some, mut sets) = (false, false);
        for entry in drafted {
            if let Some(slot) = by_txn.get_mut(txn_of[entry.draft.0 as usize] as usize) {
                sets |= entry.set.is_some();
                some |= entry.set.is_some() || entry.id.is_some();
                *slot = Some(entry);
            }
        }
        if !some {
            return None;
        }
        let mut columns = Snapshots { start: vec![0], sets, ..Snapshots::default() };
        for entry in by_txn {
            columns.id.push(entry.and_then(|e| e.id).unwrap_or(NONE));
            let set = entry.and_then(|e| e.set.as_ref());
            columns.bounds.push(set.map_or((NONE, 0), |s| (s.xmin, s.xmax)));
            columns.running.extend(set.into_iter().flat_map(|s| &s.running));
            columns.start.push(columns.running.len() as u32);
        }
        Some(Box::new(columns))
    }
}

/// What the builder knows of one transaction's snapshot.
#[derive(Clone)]
pub(crate) struct Drafted {
    pub draft: Draft,
    pub id: Option<u64>,
    pub set: Option<SnapshotSet>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_text_form_is_postgresqls() {
        for text in ["737:740:737,739", "5:5:", "1:9:8"] {
            assert_eq!(text.parse::<SnapshotSet>().unwrap().view().to_string(), text);
        }
        assert_eq!("1:9:5,3".parse::<SnapshotSet>().unwrap().view().to_string(), "1:9:3,5");
        for text in ["", "1:2", "2:1:", "1:9:9", "4:9:3", "1:9:x", "1:2::3"] {
            assert_eq!(text.parse::<SnapshotSet>(), Err(BadSnapshot), "{text}");
        }
    }
}
