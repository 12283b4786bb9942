//! Who read from whom, from the raw operations.
//!
//! A read after an own write of the key must return the latest own write. Any other read comes from another
//! transaction that wrote the value and did not abort, or from the initial state if the key had the value
//! from the beginning; failing that it shows its own later write, an aborted one's, or thin air, in this
//! order. Where there are several possible sources, a [`Choice`] says which one it is, or the source stays
//! open. A transaction of unknown outcome counts iff one that counts reads from it (least fixpoint). A list
//! shows all appends to its key up to its last element, each once; the reader's own earlier appends are its
//! tail. A faulty read still shows something ([`Reading::remains`]), to which the levels that forgive the
//! fault are held.
//!
//! Linear in the history (a list counts as long as it is), apart from sorting.

use crate::facts::Facts;
use crate::flaw::{Flaw, FlawKind};
use anomalist_history::{KeyId, OpId, OpKind, Outcome, TxnId, Value};
use anomalist_level::Choice;
use rustc_hash::{FxHashMap, FxHashSet};

/// What is wrong with a read, whatever the order of commits. Of several things wrong with a list the least
/// counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    ThinAir,
    Aborted,
    Future,
    NotMyOwnWrite,
    NotMyLastWrite,
    DuplicateElement,
}

/// Where a read got its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Not a read, a read without a result, or one whose transaction does not count.
    NotJudged,
    /// The latest own write.
    Own,
    Initial,
    /// This write of another transaction; for a list, of its last element.
    From(OpId),
    /// Several transactions may be the source, and nothing chooses.
    Open,
    Fault(Fault),
}

/// An external read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct External {
    pub op: OpId,
    pub key: KeyId,
    /// `None`: the initial state.
    pub from: Option<OpId>,
}

/// Which reads show that the transaction they read from took effect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// All.
    Any,
    /// Those of lists.
    Lists,
}

/// One explanation of all reads.
pub(crate) struct Reading<'a> {
    pub facts: &'a Facts<'a>,
    /// The transactions that count.
    counts: Vec<bool>,
    sources: Vec<Source>,
    /// For list reads without fault: the appends shown before the reader's own, oldest first.
    shown: FxHashMap<OpId, Vec<OpId>>,
    /// For faulty reads: see [`Reading::remains`].
    remains: FxHashMap<OpId, Option<Vec<OpId>>>,
}

impl<'a> Reading<'a> {
    /// Judges all reads; `choices` must be possible, and one per value read.
    pub fn new(facts: &'a Facts<'a>, choices: &[Choice]) -> Result<Reading<'a>, Flaw> {
        let choices = Choices::new(facts, choices)?;
        Ok(Reading::starting_from(facts, &choices, Proof::Any, |outcome| outcome == Outcome::Committed))
    }

    /// The same for PL-1, which allows reads of what was aborted: that a register's value was read does not
    /// show that its writer took effect. (A list is a version only if all that it shows did.)
    pub fn uncommitted(facts: &'a Facts<'a>, choices: &[Choice]) -> Result<Reading<'a>, Flaw> {
        let choices = Choices::new(facts, choices)?;
        Ok(Reading::starting_from(facts, &choices, Proof::Lists, |outcome| outcome == Outcome::Committed))
    }

    /// Judges the reads of all transactions that may count, without any choice.
    pub fn of_all_possible(facts: &'a Facts<'a>) -> Reading<'a> {
        Reading::starting_from(facts, &Choices::default(), Proof::Any, |outcome| outcome != Outcome::Aborted)
    }

    fn starting_from(
        facts: &'a Facts<'a>,
        choices: &Choices,
        proof: Proof,
        counts: fn(Outcome) -> bool,
    ) -> Reading<'a> {
        let history = facts.history;
        let counts = history.txns().map(|t| counts(history.outcome(t))).collect();
        let sources = vec![Source::NotJudged; history.op_count()];
        let (shown, remains) = (FxHashMap::default(), FxHashMap::default());
        let mut reading = Reading { facts, counts, sources, shown, remains };
        let mut work: Vec<TxnId> = history.txns().filter(|&t| reading.counts(t)).collect();
        while let Some(t) = work.pop() {
            for writer in reading.judge(t, choices, proof) {
                if !std::mem::replace(&mut reading.counts[writer.index()], true) {
                    work.push(writer);
                }
            }
        }
        reading
    }

    /// True if the transaction took effect.
    pub fn counts(&self, t: TxnId) -> bool {
        self.counts[t.index()]
    }

    /// The transactions that count.
    pub fn txns(&self) -> impl Iterator<Item = TxnId> + '_ {
        self.facts.history.txns().filter(|&t| self.counts(t))
    }

    pub fn source(&self, op: OpId) -> Source {
        self.sources[op.index()]
    }

    /// The external reads of a transaction, in program order. A list after own appends is a read of what it
    /// shows below those.
    pub fn external(&self, t: TxnId) -> impl DoubleEndedIterator<Item = External> + '_ {
        self.facts.history.op_range(t).filter_map(move |i| {
            let op = OpId(i as u32);
            let from = match self.sources[i] {
                Source::Initial => None,
                Source::From(write) => Some(write),
                _ => return None,
            };
            Some(External { op, key: self.facts.history.heads()[i].key(), from })
        })
    }

    /// For a list read without fault: the appends that it shows before the reader's own, oldest first.
    pub fn shown(&self, read: OpId) -> Option<&[OpId]> {
        self.shown.get(&read).map(Vec::as_slice)
    }

    /// Every list read without fault, and what it shows.
    pub fn lists(&self) -> impl Iterator<Item = (OpId, &[OpId])> + '_ {
        let reads = (0..self.sources.len() as u32).map(OpId);
        reads.filter_map(|read| Some((read, self.shown(read)?)))
    }

    /// What a faulty read shows of writes that count, oldest first: of a list all elements below the
    /// reader's own at its end, each where it is first, without those that no transaction wrote. `None`:
    /// that is open.
    pub fn remains(&self, read: OpId) -> Option<&[OpId]> {
        self.remains.get(&read).map_or(Some(&[]), |remains| remains.as_deref())
    }

    /// For a read of a register that ignores an own write: the write that it returned, if only one can be
    /// it (`None` inside: the initial state).
    pub fn after_own(&self, read: OpId) -> Option<Option<OpId>> {
        let op = self.facts.history.op(read);
        let ignores = self.source(read) == Source::Fault(Fault::NotMyOwnWrite);
        let only = || self.facts.candidates(self.facts.owner(read), op.key, op.value).only();
        if ignores && !self.facts.is_list_key(op.key) { only() } else { None }
    }

    /// The transaction that an external read is from.
    pub fn writer(&self, read: External) -> Option<TxnId> {
        read.from.map(|write| self.facts.owner(write))
    }

    /// Judges the reads of a transaction that counts. Returns whom it shows to have taken effect.
    fn judge(&mut self, t: TxnId, choices: &Choices, proof: Proof) -> Vec<TxnId> {
        let history = self.facts.history;
        let mut observed = Vec::new();
        let mut own: FxHashMap<KeyId, Vec<Value>> = FxHashMap::default();
        for (read, op) in history.ops(t) {
            if op.kind != OpKind::Read {
                own.entry(op.key).or_default().push(op.value);
                continue;
            }
            if op.value == Value::UNKNOWN {
                continue;
            }
            let mine = own.get(&op.key).map_or(&[][..], Vec::as_slice);
            let is_list = self.facts.is_list_key(op.key);
            let mut seen = |write: OpId| {
                if is_list || proof == Proof::Any {
                    observed.push(self.facts.owner(write));
                }
            };
            self.sources[read.index()] = if is_list {
                match self.judge_list(t, read, mine, choices, &mut seen) {
                    Ok((source, shown)) => {
                        self.shown.insert(read, shown);
                        source
                    }
                    Err(source) => {
                        if matches!(source, Source::Fault(_)) {
                            let remains = self.remains_of_list(t, read, mine, choices);
                            self.remains.insert(read, remains);
                        }
                        source
                    }
                }
            } else {
                let source = self.judge_register(t, read, mine, choices, &mut seen);
                if source == Source::Fault(Fault::NotMyOwnWrite) {
                    let candidates = self.facts.candidates(t, op.key, op.value);
                    let chosen = candidates.only().or_else(|| choices.of(read, 0));
                    let remains = if candidates.len() == 0 { Some(None) } else { chosen };
                    self.remains.insert(read, remains.map(|write| write.into_iter().collect()));
                }
                source
            };
        }
        observed
    }

    fn judge_register(
        &self,
        t: TxnId,
        read: OpId,
        mine: &[Value],
        choices: &Choices,
        seen: &mut dyn FnMut(OpId),
    ) -> Source {
        let facts = self.facts;
        let op = facts.history.op(read);
        if mine.last() == Some(&op.value) {
            return Source::Own;
        }
        let candidates = facts.candidates(t, op.key, op.value);
        let chosen = candidates.only().or_else(|| choices.of(read, 0));
        chosen.flatten().into_iter().for_each(seen);
        let foreign = |source| if mine.is_empty() { source } else { Source::Fault(Fault::NotMyOwnWrite) };
        if candidates.len() > 0 {
            foreign(match chosen {
                None => Source::Open,
                Some(None) => Source::Initial,
                Some(Some(write)) => Source::From(write),
            })
        } else if mine.contains(&op.value) {
            Source::Fault(Fault::NotMyLastWrite)
        } else if facts.wrote_itself(t, op.key, op.value) {
            Source::Fault(Fault::Future)
        } else if facts.is_written(op.key, op.value) {
            Source::Fault(Fault::Aborted)
        } else {
            Source::Fault(Fault::ThinAir)
        }
    }

    fn remains_of_list(&self, t: TxnId, read: OpId, mine: &[Value], choices: &Choices) -> Option<Vec<OpId>> {
        let facts = self.facts;
        let op = facts.history.op(read);
        let elements = facts.history.list(op.value).unwrap_or_default();
        let foreign = elements.strip_suffix(mine).unwrap_or(elements);
        let mut distinct = FxHashSet::default();
        let mut remains = Vec::new();
        for (at, &element) in (0..).zip(foreign).filter(|(_, e)| distinct.insert(**e)) {
            let (own, others) = (facts.own_writes(t, op.key, element), facts.candidates(t, op.key, element));
            match (own, others.len()) {
                ([], 0) => {}
                (&[append], 0) => remains.push(append),
                ([], _) => remains.push(others.only().or_else(|| choices.of(read, at))??),
                _ => return None,
            }
        }
        Some(remains)
    }

    /// `Ok`: the source, and the appends shown before the reader's own. `Err`: a fault, or an open source.
    fn judge_list(
        &self,
        t: TxnId,
        read: OpId,
        mine: &[Value],
        choices: &Choices,
        seen: &mut dyn FnMut(OpId),
    ) -> Result<(Source, Vec<OpId>), Source> {
        let facts = self.facts;
        let op = facts.history.op(read);
        let Some(elements) = facts.history.list(op.value) else { return Err(Source::Fault(Fault::ThinAir)) };
        let tail = if elements.ends_with(mine) { mine.len() } else { 0 };
        let mut shown = Vec::with_capacity(elements.len() - tail);
        let mut worst: Option<Fault> = None;
        let mut open = false;
        for (at, &element) in (0..).zip(&elements[..elements.len() - tail]) {
            let candidates = facts.candidates(t, op.key, element);
            if candidates.len() > 0 {
                match candidates.only().or_else(|| choices.of(read, at)).flatten() {
                    Some(append) => {
                        seen(append);
                        shown.push(append);
                    }
                    None => open = true,
                }
            } else if !mine.contains(&element) {
                let fault = if facts.wrote_itself(t, op.key, element) {
                    Fault::Future
                } else if facts.is_written(op.key, element) {
                    Fault::Aborted
                } else {
                    Fault::ThinAir
                };
                worst = Some(worst.map_or(fault, |w| w.min(fault)));
            }
        }
        if let Some(fault) = worst {
            return Err(Source::Fault(fault));
        }
        let mut count: FxHashMap<Value, usize> = FxHashMap::default();
        elements.iter().for_each(|&e| *count.entry(e).or_default() += 1);
        let appended =
            |e: Value| facts.candidates(t, op.key, e).len() + mine.iter().filter(|&&own| own == e).count();
        if count.into_iter().any(|(e, shown)| shown > 1 && shown > appended(e)) {
            return Err(Source::Fault(Fault::DuplicateElement));
        }
        if tail < mine.len() {
            let own_but_older =
                elements.last().is_some_and(|e| mine.contains(e)) && elements.last() != mine.last();
            let fault = if own_but_older { Fault::NotMyLastWrite } else { Fault::NotMyOwnWrite };
            return Err(Source::Fault(fault));
        }
        if open {
            return Err(Source::Open);
        }
        let source = match shown.last() {
            None => Source::Initial,
            Some(&last) => Source::From(last),
        };
        Ok((source, shown))
    }
}

/// The choices of a certificate, by read and element; `None`: the initial state.
#[derive(Default)]
struct Choices(FxHashMap<(OpId, u32), Option<OpId>>);

impl Choices {
    fn new(facts: &Facts<'_>, choices: &[Choice]) -> Result<Choices, Flaw> {
        let mut by_read = FxHashMap::default();
        let mut chosen = FxHashSet::default();
        for &choice in choices {
            check_choice(facts, choice)?;
            let again = by_read.insert((choice.read, choice.element), choice.write).is_some();
            // An append is one element of a list only.
            if again || choice.write.is_some_and(|write| !chosen.insert((choice.read, write))) {
                return Err(Flaw::new(FlawKind::ChosenTwice).ops([choice.read]));
            }
        }
        Ok(Choices(by_read))
    }

    fn of(&self, read: OpId, element: u32) -> Option<Option<OpId>> {
        if self.0.is_empty() { None } else { self.0.get(&(read, element)).copied() }
    }
}

/// Could the read have returned the write?
pub(crate) fn check_choice(facts: &Facts<'_>, choice: Choice) -> Result<(), Flaw> {
    let history = facts.history;
    let known = |op: OpId| op.index() < history.op_count();
    if !known(choice.read) || !choice.write.is_none_or(known) {
        return Err(Flaw::new(FlawKind::NoSuchOperation));
    }
    let read = history.op(choice.read);
    let shown = match history.list(read.value) {
        Some(elements) => elements.get(choice.element as usize).copied(),
        None => Some(read.value).filter(|_| choice.element == 0),
    };
    let reader = facts.owner(choice.read);
    let explains = |value| facts.candidates(reader, read.key, value).iter().any(|w| w == choice.write);
    if read.kind == OpKind::Read && shown.is_some_and(explains) {
        return Ok(());
    }
    Err(Flaw::new(FlawKind::ImpossibleChoice).ops([choice.read].into_iter().chain(choice.write)))
}
