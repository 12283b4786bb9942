//! Whether a conclusion about an unknown outcome is certain.
//!
//! That a transaction of unknown outcome counts is concluded from one read, which is wrong without it, and
//! it is not taken back. Only a version that the read may see, of the key that was read, can explain the
//! read otherwise. If a writer of such a version arrives later, whatever it wrote, the conclusion may be
//! wrong. This is counted as a doubt, and with a doubt no violation is certain.
//!
//! Without one they all are. Assume that some choice of outcomes breaks no axiom, and consider the first
//! transaction that counted here and not in that choice. All that counted before it is part of the choice,
//! so the read that asked for it is right in the choice, by a version of another transaction that had not
//! arrived: else this one would have been asked for as well. Its arrival is a doubt. So without a doubt all
//! that counts here is part of every choice that breaks no axiom, and more transactions only add violations
//! (`anomalist-timestamp`, `offline/open.rs`).
//!
//! Costs one entry per key with such a read, and one look per write that arrives.

use crate::codec::{In, Out};
use crate::{Head, Key128, StoreError};
use anomalist_history::Timestamp;
use anomalist_timestamp::{Mode, Rule};
use rustc_hash::FxHashMap;

/// What reads of one key from which something was concluded may see.
#[derive(Clone, Copy, Debug)]
struct Reason {
    /// By timestamps: what commits up to this moment.
    at: Timestamp,
    /// By sets: ids below this one.
    xmax: u64,
}

/// The reads from which something was concluded, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reasons(FxHashMap<Key128, Reason>);

impl Reasons {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Something was concluded from a read of this key.
    pub fn add(&mut self, key: Key128, at: Timestamp, xmax: u64) {
        let reason = self.0.entry(key).or_insert(Reason { at, xmax });
        *reason = Reason { at: reason.at.max(at), xmax: reason.xmax.max(xmax) };
    }

    /// Whether one of the reads of this key may see the version of a transaction.
    pub fn may_see(&self, rule: Rule, key: Key128, writer: &Head) -> bool {
        let commit = writer.stamps.commit;
        self.0.get(&key).is_some_and(|reason| match rule.mode {
            Mode::Ser => commit <= reason.at,
            Mode::Si => rule.contains(reason.at, commit) || writer.set_id.is_some_and(|id| id < reason.xmax),
        })
    }
}

impl Out {
    pub fn reasons(&mut self, reasons: &Reasons) {
        let mut all: Vec<_> = reasons.0.iter().collect();
        all.sort_by_key(|(key, _)| **key);
        self.usize(all.len());
        for (key, reason) in all {
            self.datum(*key);
            self.stamp(reason.at);
            self.u64(reason.xmax);
        }
    }
}

impl In<'_> {
    pub fn reasons(&mut self) -> Result<Reasons, StoreError> {
        let reason = |from: &mut In<'_>| Ok((from.datum()?, Reason { at: from.stamp()?, xmax: from.u64()? }));
        Ok(Reasons(self.many(reason)?.into_iter().collect()))
    }
}
