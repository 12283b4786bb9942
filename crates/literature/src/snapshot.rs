//! Snapshots: every transaction reads from one, and concurrent transactions do not write the same key.

use crate::facts::{Effect, Parts, Set, members};
use crate::model::{History, Seen};
use crate::order::{Before, FREE, complete, next};

fn conflict(parts: &Parts<'_>, a: usize, b: usize) -> bool {
    (0..parts.history.kinds.len()).any(|key| parts.facts[a].writes(key) && parts.facts[b].writes(key))
}

/// Snapshot isolation without sessions (Crooks et al. 2017, commit test of Adya's or generalised SI; the
/// text was not at hand, restated from memory). An execution is a sequence of states, each made from
/// the one before by one transaction. A transaction may commit if there is a state, at or before the one
/// it commits on, that is *complete* (it has all values that the transaction read) and without *conflict*
/// (no transaction between that state and the commit writes a key that this one writes).
pub fn crooks(parts: &Parts<'_>) -> bool {
    parts.internal() && commit(parts, 0, &mut Vec::new(), &mut vec![parts.initial_state()])
}

fn commit(parts: &Parts<'_>, placed: Set, order: &mut Vec<usize>, states: &mut Vec<Vec<Seen>>) -> bool {
    if complete(parts, placed) {
        return true;
    }
    for t in next(parts, &FREE, placed) {
        let complete = |s: &usize| parts.reads_from_state(&states[*s], t);
        let no_conflict = |s: &usize| order[*s..].iter().all(|&between| !conflict(parts, between, t));
        if !(0..states.len()).any(|s| complete(&s) && no_conflict(&s)) {
            continue;
        }
        states.push(parts.after(&states[order.len()], t));
        order.push(t);
        if commit(parts, placed | 1 << t, order, states) {
            return true;
        }
        order.pop();
        states.pop();
    }
    false
}

/// An abstract execution being built (Chronos/AION, Definition 3, after Cerone, Bernardi & Gotsman 2015):
/// arbitration is the order of `arbitration`, visibility the sets of `sees`.
struct Abstract<'p> {
    parts: &'p Parts<'p>,
    session: &'p Before,
    /// PREFIX is demanded, not only that visibility be transitive.
    prefix: bool,
    arbitration: Vec<usize>,
    placed: Set,
    sees: [Set; History::MOST],
}

/// Strong session snapshot isolation (Chronos/AION, Definition 4): there is an abstract execution with
/// SESSION (so ⊆ VIS), INT, EXT (an external read returns what the last transaction in AR, among those
/// visible that write the key, wrote), PREFIX (AR ; VIS ⊆ VIS) and NOCONFLICT (of two writers of a key
/// one is visible to the other). Strong snapshot isolation is the same with what was over before the
/// transaction began in place of the session (Daudjee & Salem 2006; Elle, section 5: real-time
/// dependencies).
pub fn cerone(parts: &Parts<'_>, session: &Before) -> bool {
    exists(parts, session, true)
}

/// Parallel snapshot isolation (Cerone, Bernardi & Gotsman 2015, Figure 1, whose text was not at hand): as
/// above with TRANSVIS (VIS is transitive) in place of PREFIX.
pub fn parallel(parts: &Parts<'_>, session: &Before) -> bool {
    exists(parts, session, false)
}

fn exists(parts: &Parts<'_>, session: &Before, prefix: bool) -> bool {
    let sees = [0; History::MOST];
    let mut execution = Abstract { parts, session, prefix, arbitration: Vec::new(), placed: 0, sees };
    parts.internal() && execution.arbitrate()
}

impl Abstract<'_> {
    fn arbitrate(&mut self) -> bool {
        if complete(self.parts, self.placed) {
            return true;
        }
        let parts = self.parts;
        for t in next(parts, self.session, self.placed) {
            for seen in self.visibilities(t) {
                if !self.ext(t, seen) {
                    continue;
                }
                self.sees[t] = seen;
                self.arbitration.push(t);
                self.placed |= 1 << t;
                if self.arbitrate() {
                    return true;
                }
                self.placed &= !(1 << t);
                self.arbitration.pop();
            }
        }
        false
    }

    /// What `t` may see, if it is next: SESSION, NOCONFLICT, and PREFIX or TRANSVIS.
    fn visibilities(&self, t: usize) -> Vec<Set> {
        let conflicting = members(self.placed).filter(|&p| conflict(self.parts, p, t));
        let must = conflicting.fold(self.session[t] & self.placed, |set, p| set | 1 << p);
        let fits = |&seen: &Set| {
            seen & !self.placed == 0
                && must & !seen == 0
                && if self.prefix { self.is_prefix(seen) } else { self.is_closed(seen) }
        };
        (0..=self.placed).filter(fits).collect()
    }

    fn is_prefix(&self, seen: Set) -> bool {
        let count = seen.count_ones() as usize;
        self.arbitration[..count].iter().all(|&t| seen >> t & 1 == 1)
    }

    fn is_closed(&self, seen: Set) -> bool {
        members(seen).all(|t| self.sees[t] & !seen == 0)
    }

    /// EXT for all external reads of `t`. A list holds what the visible transactions append, in
    /// arbitration order.
    fn ext(&self, t: usize, seen: Set) -> bool {
        let visible = || self.arbitration.iter().filter(move |&&p| seen >> p & 1 == 1);
        self.parts.facts[t].reads.iter().all(|read| {
            let effects = visible().filter_map(|&p| self.parts.facts[p].effect[read.key].as_ref());
            let value = effects.fold(self.parts.initial(read.key), |value, effect| match (value, effect) {
                (_, Effect::Value(new)) => Seen::Atom(*new),
                (Seen::List(list), Effect::Elements(more)) => Seen::List([list.as_slice(), more].concat()),
                (value, _) => value,
            });
            value == read.seen
        })
    }
}
