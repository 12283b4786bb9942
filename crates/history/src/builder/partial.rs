//! What a part of an input shows.
//!
//! A read of a value that no transaction wrote is an anomaly, if all writes are known. Where the input was
//! cut off they are not: most formats have one session after another, so the writer may be in what is
//! missing. Without such reads the rest is part of a history, and what holds of the whole holds of it:
//! orders of commits can be restricted.

use super::Builder;
use crate::ids::KeyId;
use crate::operation::Initial;
use crate::value::Value;
use rustc_hash::FxHashSet;

impl Builder {
    /// The values of keys before they are written.
    pub fn initial(&self) -> &Initial {
        &self.initial
    }

    /// Forgets what reads returned that show a value of which no write, and no initial value, is known.
    /// Returns how many.
    pub fn forget_unexplained(&mut self) -> usize {
        let mut written: FxHashSet<(KeyId, Value)> = FxHashSet::default();
        let kept = self.kept_operations();
        for &i in kept.iter().filter(|&&i| !self.heads[i].is_read()) {
            written.insert((self.heads[i].key(), self.values[i]));
        }
        let mut forgotten = 0;
        for i in kept.into_iter().filter(|&i| self.heads[i].is_read()) {
            let (key, value) = (self.heads[i].key(), self.values[i]);
            let explained = match self.elements(value) {
                Some(elements) => elements.iter().all(|&e| written.contains(&(key, e))),
                None => {
                    value == Value::UNKNOWN
                        || self.initial.of(key) == Some(value)
                        || written.contains(&(key, value))
                }
            };
            if !explained {
                self.values[i] = Value::UNKNOWN;
                forgotten += 1;
            }
        }
        forgotten
    }

    /// The operations of transactions that were not discarded, as places in the columns.
    fn kept_operations(&self) -> Vec<usize> {
        let ends = self.segments.iter().skip(1).map(|s| s.1 as usize).chain([self.heads.len()]);
        let kept =
            self.segments.iter().zip(ends).filter(|((draft, _), _)| self.outcome[draft.0 as usize].is_some());
        kept.flat_map(|(&(_, start), end)| start as usize..end).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::OpKind;

    #[test]
    fn only_what_nothing_explains_is_forgotten() {
        let mut b = Builder::new();
        let [zero, one, two, three] = [0, 1, 2, 3].map(|i| b.int(i));
        b.set_initial_default(Some(zero));
        let (x, l, session) = (b.key(one), b.key(two), b.session(zero));
        let (known, unknown) = (b.list(&[one]), b.list(&[one, two]));
        let t = b.transaction(session);
        b.op(t, OpKind::Write, x, one);
        b.op(t, OpKind::Append, l, one);
        for (key, value) in [(x, zero), (x, one), (x, three), (l, known), (l, unknown)] {
            b.op(t, OpKind::Read, key, value);
        }
        let torn = b.transaction(session);
        b.op(torn, OpKind::Write, x, three);
        b.discard(torn);
        assert_eq!(b.forget_unexplained(), 2);
        let h = b.finish().unwrap();
        let lost: Vec<bool> = h.values().iter().map(|v| *v == Value::UNKNOWN).collect();
        assert_eq!(lost, [false, false, false, false, true, false, true]);
    }
}
