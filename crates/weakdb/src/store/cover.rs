//! Ranges that open transactions have scanned.
//!
//! A scan sees also what is not there. Where a transaction covers a prefix, a key of that name that becomes
//! known later held nothing when it looked, and counts as read then, with its initial value. No transaction
//! can have committed a write of a key that is new, so this is always allowed. For transactions that have
//! ended it makes no difference: they come before the transaction that writes the key first.

use super::base::{KeyId, Seq};
use super::record::Logged;
use super::{Error, Inner, Session};

/// What one open transaction covers.
pub(crate) struct Cover {
    session: usize,
    prefixes: Vec<Box<str>>,
    /// Keys of these that were new after the scan.
    absent: Vec<KeyId>,
}

impl Inner {
    /// The key of this name. If it is new, the transactions that cover it have seen that it held nothing.
    pub(crate) fn key(&mut self, name: &str) -> KeyId {
        let known = self.base.len();
        let key = self.base.key(name);
        if key.0 as usize == known {
            for cover in &mut self.covers {
                if cover.prefixes.iter().any(|p| name.starts_with(&**p)) {
                    self.isolation.observe(&self.base, cover.session, key, Seq::INITIAL);
                    cover.absent.push(key);
                }
            }
        }
        key
    }

    /// Ends what the session covers. The reads that it made without saying so belong at the beginning of
    /// its transaction: they were of the initial value, whatever else it had read.
    pub(crate) fn uncover(&mut self, session: usize) -> impl Iterator<Item = Logged> + use<> {
        let at = self.covers.iter().position(|c| c.session == session);
        let absent = at.map(|at| self.covers.swap_remove(at).absent).unwrap_or_default();
        absent.into_iter().map(|key| Logged::Read(key, Seq::INITIAL))
    }
}

impl Session {
    /// Says that the open transaction has looked at all keys whose names begin so, also at those that do
    /// not exist. Call it before the existing ones are read.
    pub fn cover(&mut self, prefix: &str) -> Result<(), Error> {
        if !self.in_transaction() {
            return Err(Error::NoTransaction);
        }
        let (store, session) = (self.store().clone(), self.number() as usize);
        let mut inner = store.lock();
        let at = inner.covers.iter().position(|c| c.session == session).unwrap_or_else(|| {
            inner.covers.push(Cover { session, prefixes: Vec::new(), absent: Vec::new() });
            inner.covers.len() - 1
        });
        let prefixes = &mut inner.covers[at].prefixes;
        if !prefixes.iter().any(|p| prefix.starts_with(&**p)) {
            prefixes.push(prefix.into());
        }
        Ok(())
    }
}
