//! Transactions of unknown outcome in the middle of a session.
//!
//! A session's transactions follow one another because its client waits for each. The client did not learn
//! when one of unknown outcome took effect, if ever: perhaps long after the session's next ones, so nothing
//! follows it (Elle's rule for `info`). It was issued after those before it, though, and follows them. So
//! session order is a chain with single transactions branching off. Ids are session-major, so that the
//! order of a chain is the order of ids; hence such a transaction is given a session of its own, of the
//! same name, which remembers what it branches off, unless it is the last of its session. Verdicts by
//! timestamps, which tell when it took effect, go by the client that issued it
//! ([`History::issuer`](crate::History::issuer)).

use super::{Builder, Draft};
use crate::ids::SessionId;
use crate::operation::Outcome;
use crate::value::Value;
use rustc_hash::FxHashMap;

impl Builder {
    /// A session that may have the name of another, and may branch off a transaction of another.
    pub fn another_session(&mut self, label: Value, from: Option<Draft>) -> SessionId {
        self.sessions.names.push(label);
        self.shared_names = true;
        let session = SessionId(self.sessions.names.len() as u32 - 1);
        self.branches.extend(from.map(|from| (session, from)));
        session
    }

    /// Gives sessions of their own to transactions of unknown outcome that others of their session follow.
    pub(super) fn separate_indeterminate(&mut self) {
        let is_open = |outcome: &Option<Outcome>| *outcome == Some(Outcome::Indeterminate);
        if !self.outcome.iter().any(is_open) {
            return;
        }
        let order = self.in_session_order();
        let kept = || order.iter().copied().filter(|&d| self.outcome[d].is_some());
        let mut last = vec![usize::MAX; self.sessions.names.len()];
        for d in kept() {
            last[self.session[d] as usize] = d;
        }
        let mut previous: Vec<Option<Draft>> = vec![None; last.len()];
        let mut separate = Vec::new();
        for d in kept() {
            let session = self.session[d] as usize;
            if is_open(&self.outcome[d]) && last[session] != d {
                separate.push((d, previous[session]));
            } else {
                previous[session] = Some(Draft(d as u32));
            }
        }
        for (d, from) in separate {
            let label = self.sessions.names[self.session[d] as usize];
            self.session[d] = self.another_session(label, from).0;
        }
    }

    /// By draft, its rank among all transactions of sessions of its name, if sessions share names; else
    /// empty.
    pub(super) fn ranks(&self) -> Vec<u32> {
        if !self.shared_names {
            return Vec::new();
        }
        let mut count: FxHashMap<Value, u32> = FxHashMap::default();
        let kept = self.session.iter().zip(&self.outcome);
        kept.map(|(&session, outcome)| {
            let rank = count.entry(self.sessions.names[session as usize]).or_default();
            *rank += u32::from(outcome.is_some());
            *rank
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TxnId;
    use crate::model::History;

    fn sessions(history: &History) -> Vec<Vec<String>> {
        history.sessions().map(|s| history.session_txns(s).map(|t| history.txn_name(t)).collect()).collect()
    }

    #[test]
    fn nothing_follows_a_transaction_of_unknown_outcome() {
        let mut b = Builder::new();
        let label = b.int(7);
        let session = b.session(label);
        let drafts = [(); 5].map(|()| b.transaction(session));
        for d in [drafts[1], drafts[4]] {
            b.set_outcome(d, Outcome::Indeterminate);
        }
        let h = b.finish().unwrap();
        assert_eq!(sessions(&h), [vec!["7:1", "7:3", "7:4", "7:5"], vec!["7:2"]]);
        let (first, third, second) = (TxnId(0), TxnId(1), TxnId(4));
        assert!(h.session_before(first, second) && h.session_before(first, third));
        assert!(!h.session_before(second, third) && !h.session_before(third, second));
        assert_eq!(h.before_in_session(second).collect::<Vec<_>>(), [first]);
        assert!(h.sessions().all(|s| h.session_label(s) == label));
        struct Most;
        impl crate::Filter for Most {
            fn txn(&self, t: crate::TxnId) -> bool {
                t.0 != 2
            }
            fn op(&self, _: crate::OpId) -> bool {
                true
            }
            fn element(&self, _: crate::KeyId, _: Value) -> bool {
                true
            }
        }
        // A part does not put it back.
        let (part, _) = h.filtered(&Most).unwrap();
        assert_eq!(sessions(&part), [vec!["7:1", "7:3", "7:4"], vec!["7:2"]]);
        assert!(part.session_before(TxnId(0), TxnId(3)) && !part.session_before(TxnId(3), TxnId(1)));
    }
}
