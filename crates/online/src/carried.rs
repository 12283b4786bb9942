//! What was reported after the checkpoint that a checker began with.
//!
//! What arrived since that checkpoint arrives again, perhaps in other batches and at another pace, so what
//! is found again may differ from what was reported: a transaction of unknown outcome that counted then may
//! not count now. Each report is kept until the checker agrees with it. What it does not agree with at the
//! end is corrected, so that violations minus retractions are what this checker found, whatever the earlier
//! one concluded.

use crate::checker::Checker;
use crate::key::{Slot, Verdict};
use crate::live_state::show;
use crate::{Event, Finding, Key128, Reported, Store, StoreError, TxnKey, TxnName};
use anomalist_timestamp::{Axiom, Identity};

/// A violation that was reported, or retracted, since the checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Carried {
    /// It stands by what was reported.
    pub reported: bool,
    /// It stands by what this checker found.
    pub found: bool,
}

impl<S: Store> Checker<S> {
    /// Takes over an event that was reported since the checkpoint.
    pub(crate) fn carry(&mut self, (identity, stands): Reported) {
        let counts = if stands { &mut self.stats.violations } else { &mut self.stats.retracted };
        counts[identity.axiom as usize] += 1;
        // The first event since the checkpoint changed what stood then.
        self.carried.entry(identity).or_insert(Carried { reported: stands, found: !stands }).reported =
            stands;
    }

    /// Notes what this checker found about a violation that was reported since the checkpoint. False if it
    /// was not.
    fn found_again(&mut self, identity: &Identity<TxnKey, Key128>, found: bool) -> bool {
        let Some(carried) = self.carried.get_mut(identity) else { return false };
        carried.found = found;
        if carried.reported == found {
            self.carried.remove(identity);
        }
        true
    }

    /// Reports a violation that no later read or version can overturn, unless that has been done before a
    /// restart.
    pub(crate) fn report(&mut self, finding: Finding, events: &mut Vec<Event>) {
        if self.carried.is_empty() || !self.found_again(&finding.identity, true) {
            self.stats.violations[finding.axiom() as usize] += 1;
            events.push(Event::Violation(finding));
        }
    }

    /// Takes back what was reported, unless that has been done before a restart.
    pub(crate) fn take_back(&mut self, finding: Finding, events: &mut Vec<Event>) {
        if self.carried.is_empty() || !self.found_again(&finding.identity, false) {
            self.retract(finding, events);
        }
    }

    /// What was reported about a read, if that was after the checkpoint that this checker began with. From
    /// here on the read knows, so the next checkpoint has to have its key.
    pub(crate) fn carried_verdict(&mut self, key: u32, slot: Slot, otherwise: Verdict) -> Verdict {
        let identity = self.identity(Axiom::Ext, slot, Some(key), None, None);
        match self.carried_read(identity) {
            None => otherwise,
            Some(verdict) => {
                self.touch(key);
                verdict
            }
        }
    }

    /// The same of a read that is named by its EXT.
    pub(crate) fn carried_read(&mut self, identity: Identity<TxnKey, Key128>) -> Option<Verdict> {
        let mut reported = |axiom| self.carried.remove(&Identity { axiom, ..identity }).map(|c| c.reported);
        match (reported(Axiom::Ext), reported(Axiom::Tie)) {
            (None, None) => None,
            (Some(true), _) => Some(Verdict::Wrong),
            (_, Some(true)) => Some(Verdict::Tied),
            _ => Some(Verdict::Right),
        }
    }

    /// Violations of an axiom that stand by what was reported before a restart and were not found again so
    /// far.
    pub fn unconfirmed(&self, axiom: Axiom) -> u64 {
        let of =
            |(identity, c): &(&Identity<_, _>, &Carried)| identity.axiom == axiom && c.reported && !c.found;
        self.carried.iter().filter(of).count() as u64
    }

    /// The end: corrects what was reported before a restart and is not so by what has arrived again. What
    /// was reported about transactions that did not arrive again stays.
    pub(crate) fn reconcile(&mut self, events: &mut Vec<Event>) -> Result<(), StoreError> {
        let mut all: Vec<_> = std::mem::take(&mut self.carried).into_iter().collect();
        all.sort_unstable();
        for (identity, carried) in all {
            if carried.reported == carried.found {
                continue;
            }
            let mut arrived = true;
            for (session, position) in [Some(identity.txn), identity.other].into_iter().flatten() {
                let session = self.known_session(session)?;
                arrived &= session.is_some_and(|session| self.live.sessions[session].count > position);
            }
            if !arrived {
                continue;
            }
            let finding = self.named(identity);
            match carried.found {
                true => self.report(finding, events),
                false => self.retract(finding, events),
            }
        }
        Ok(())
    }

    /// A violation of which only the identity is known.
    fn named(&self, identity: Identity<TxnKey, Key128>) -> Finding {
        let name = |(session, position): TxnKey| match self.live.sessions.find(session) {
            Some(session) => self.live.name_of(session, position, None),
            None => TxnName { session: show(session, None), position: position + 1, id: None },
        };
        let text = |key| self.keys[*self.index.get(&key)? as usize].text.as_deref();
        Finding {
            identity,
            txn: name(identity.txn),
            key: identity.key.map(|key| show(key, text(key))),
            other: identity.other.map(name),
            read: identity.read,
            seen: None,
            expected: None,
        }
    }
}
