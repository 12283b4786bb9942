//! What a transaction does to others and what it wants from others: its final writes and its external
//! reads.
//!
//! MonkeyDB, Definition 3.1 and the paragraph after it: a read that follows an own write of the same key
//! returns the last such write, "implicit in the definition of every isolation level"; the other reads
//! are external, and only the last write of a key is visible to others. For lists: the elements appended
//! so far by the transaction itself are the end of what it reads, and what is before them is an external
//! read. Costs one pass.

use crate::model::{Atom, History, Key, Kind, Op, Outcome, Seen};

/// A set of transactions, one bit each.
pub type Set = u8;

/// What a transaction leaves behind in a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The register has this value.
    Value(Atom),
    /// The list has these elements more.
    Elements(Vec<Atom>),
}

/// A read of something that other transactions did, or the initial state.
#[derive(Clone, Debug)]
pub struct External {
    /// The key.
    pub key: Key,
    /// What was there, own appends taken off.
    pub seen: Seen,
    /// The transaction had appended to the list before.
    pub after_own: bool,
}

/// A transaction, taken apart.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Every read that follows an own write returned it.
    pub internal: bool,
    /// Its external reads in program order.
    pub reads: Vec<External>,
    /// By key, what it leaves behind.
    pub effect: Vec<Option<Effect>>,
    /// By key, the values of registers it wrote and replaced itself.
    pub replaced: Vec<(Key, Atom)>,
}

impl Facts {
    /// Whether it writes a key.
    pub fn writes(&self, key: Key) -> bool {
        self.effect[key].is_some()
    }

    /// Whether it writes any key.
    pub fn updates(&self) -> bool {
        self.effect.iter().any(Option::is_some)
    }

    fn of(ops: &[Op], keys: usize) -> Facts {
        let mut facts = Facts { internal: true, effect: vec![None; keys], ..Facts::default() };
        for op in ops {
            match op {
                Op::Write(key, value) => {
                    if let Some(Effect::Value(before)) = facts.effect[*key].replace(Effect::Value(*value)) {
                        facts.replaced.push((*key, before));
                    }
                }
                Op::Append(key, element) => match &mut facts.effect[*key] {
                    Some(Effect::Elements(own)) => own.push(*element),
                    effect => *effect = Some(Effect::Elements(vec![*element])),
                },
                Op::Read(key, seen) => facts.read(*key, seen),
            }
        }
        facts
    }

    fn read(&mut self, key: Key, seen: &Seen) {
        let external = match (seen, &self.effect[key]) {
            (_, None) => Some((seen.clone(), false)),
            (Seen::Atom(value), Some(Effect::Value(own))) => {
                self.internal &= value == own;
                None
            }
            (Seen::List(list), Some(Effect::Elements(own))) => {
                self.internal &= list.ends_with(own);
                list.strip_suffix(own.as_slice()).map(|base| (Seen::List(base.to_vec()), true))
            }
            _ => {
                self.internal = false;
                None
            }
        };
        if let Some((seen, after_own)) = external {
            self.reads.push(External { key, seen, after_own });
        }
    }
}

/// A history, taken apart.
#[derive(Clone, Debug)]
pub struct Parts<'h> {
    /// The history.
    pub history: &'h History,
    /// By transaction.
    pub facts: Vec<Facts>,
    /// Transactions that took effect.
    pub committed: Set,
    /// Transactions that took effect or did not.
    pub open: Set,
}

impl<'h> Parts<'h> {
    /// Takes a history apart.
    pub fn of(history: &'h History) -> Parts<'h> {
        assert!(history.txns.len() <= History::MOST, "sets of transactions are bits of a byte");
        let facts: Vec<Facts> = history.txns.iter().map(|t| Facts::of(&t.ops, history.kinds.len())).collect();
        let with = |outcome: Outcome| set(history, |t| history.txns[t].outcome == outcome);
        let (committed, open) = (with(Outcome::Committed), with(Outcome::Indeterminate));
        // What does not return its own writes satisfies no definition: if it is indeterminate, it did not
        // commit.
        let broken = set(history, |t| !facts[t].internal);
        Parts { history, facts, committed, open: open & !broken }
    }

    /// Every committed transaction returned its own writes.
    pub fn internal(&self) -> bool {
        members(self.committed).all(|t| self.facts[t].internal)
    }

    /// What a key holds before the first write.
    pub fn initial(&self, key: Key) -> Seen {
        match self.history.kinds[key] {
            Kind::Register => Seen::Atom(self.history.initial),
            Kind::List => Seen::List(Vec::new()),
        }
    }

    /// What all keys hold before the first write.
    pub fn initial_state(&self) -> Vec<Seen> {
        (0..self.history.kinds.len()).map(|key| self.initial(key)).collect()
    }

    /// The state after a transaction on top of a state.
    pub fn after(&self, state: &[Seen], t: usize) -> Vec<Seen> {
        let apply = |(seen, effect): (&Seen, &Option<Effect>)| match (seen, effect) {
            (_, Some(Effect::Value(value))) => Seen::Atom(*value),
            (Seen::List(list), Some(Effect::Elements(more))) => Seen::List([list.as_slice(), more].concat()),
            _ => seen.clone(),
        };
        state.iter().zip(&self.facts[t].effect).map(apply).collect()
    }

    /// Whether all external reads of a transaction are what a state holds.
    pub fn reads_from_state(&self, state: &[Seen], t: usize) -> bool {
        self.facts[t].reads.iter().all(|read| state[read.key] == read.seen)
    }
}

/// The transactions for which something is true.
pub fn set(history: &History, is: impl Fn(usize) -> bool) -> Set {
    (0..history.txns.len()).filter(|&t| is(t)).fold(0, |set, t| set | 1 << t)
}

/// The members of a set, ascending.
pub fn members(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let t = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(t)
    })
}
