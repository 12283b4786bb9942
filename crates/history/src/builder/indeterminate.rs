//! Transactions of unknown outcome in the middle of a session.
//!
//! A session's transactions follow one another because its client waits for each. It did not learn when one of unknown outcome
//! took effect, if ever: perhaps long after the session's next ones, so nothing follows it (Elle's rule for `info`). Ids are
//! session-major, so that the order of a session is the order of ids. Hence such a transaction is given a session of its own, of the
//! same name, unless it is the last of its session; the others keep their order. That gives up its coming after those before
//! it as well, which can hide a violation, never invent one. Where the database says by timestamps when it took effect,
//! it stays.

use super::Builder;
use crate::ids::SessionId;
use crate::model::Outcome;
use crate::value::Value;
use rustc_hash::FxHashMap;

impl Builder {
    /// A session that may have the name of another.
    pub(crate) fn another_session(&mut self, label: Value) -> SessionId {
        self.sessions.names.push(label);
        self.shared_names = true;
        SessionId(self.sessions.names.len() as u32 - 1)
    }

    /// Gives sessions of their own to transactions of unknown outcome that others of their session follow.
    pub(super) fn separate_indeterminate(&mut self) {
        let is_open = |outcome: &Option<Outcome>| *outcome == Some(Outcome::Indeterminate);
        if !self.stamps.is_empty() || !self.outcome.iter().any(is_open) {
            return;
        }
        let mut last = vec![usize::MAX; self.sessions.names.len()];
        for d in (0..self.session.len()).filter(|&d| self.outcome[d].is_some()) {
            last[self.session[d] as usize] = d;
        }
        for d in 0..self.session.len() {
            let session = self.session[d] as usize;
            if is_open(&self.outcome[d]) && last[session] != d {
                self.session[d] = self.another_session(self.sessions.names[session]).0;
            }
        }
    }

    /// By draft, the how manieth of all sessions of its name a transaction is, if sessions share names; else empty.
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
        assert!(h.sessions().all(|s| h.session_label(s) == label));
        struct Most;
        impl crate::Kept for Most {
            fn txn(&self, t: crate::TxnId) -> bool {
                t.0 == 0 || t.0 == 4
            }
            fn op(&self, _: crate::OpId) -> bool {
                true
            }
            fn element(&self, _: crate::KeyId, _: Value) -> bool {
                true
            }
        }
        // A part does not put it back.
        let (part, _) = h.part(&Most).unwrap();
        assert_eq!(sessions(&part), [vec!["7:1"], vec!["7:2"]]);
    }
}
