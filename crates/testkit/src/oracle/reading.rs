//! Who read from whom, straight from the operations: every way to explain the reads of a history.
//!
//! Rules (`docs/spec/what-counts.md` 3). A read after an own write must return the latest own write.
//! Otherwise its source is another transaction that wrote the value and did not abort, or the initial
//! state if that has the value; failing that its own later write, an aborted transaction, thin air: in
//! this order. Several possible sources are several explanations. A list shows an append at most once. An
//! indeterminate transaction exists iff an existing one reads something from it (least fixpoint).

use anomalist_history::{History, OpId, OpKind, Outcome, Value};

/// A read that no committed state explains; the discriminants are TAP-a to TAP-e.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    ThinAir = 0,
    Aborted = 1,
    Future = 2,
    NotMyOwnWrite = 3,
    NotMyLastWrite = 4,
    /// A list that shows an element more often than it was appended: not one of the 14 TAPs.
    DuplicateElement,
}

/// In place of a write that a read may have seen: the initial state.
const INITIAL: usize = usize::MAX;

/// TAP-f in [`Reading::read_taps`].
const INTERMEDIATE: usize = 5;

/// What to do with a read that several transactions may explain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ambiguous {
    /// One reading for each choice.
    Enumerate,
    /// Leave it out: it reads from no transaction.
    Skip,
}

/// An external read: of `key` by `reader`, from another transaction or (`None`) the initial state.
pub(super) struct External {
    pub op: usize,
    pub reader: usize,
    pub key: usize,
    pub from: Option<usize>,
}

/// The appends, oldest first, that a list read shows before the reader's own.
pub(super) struct Body {
    pub reader: usize,
    pub key: usize,
    pub appends: Vec<usize>,
}

/// One explanation of all reads. Transactions and operations are numbered as in the history.
pub(super) struct Reading {
    /// Transactions that exist: committed, or indeterminate and read from.
    pub committed: u32,
    /// In the order of operations, so program order inside each reader.
    pub external: Vec<External>,
    /// TAP-a to TAP-f.
    pub read_taps: [u64; 6],
    pub duplicate_elements: u64,
    /// Who has a faulty read, and (unless an element occurs twice) which TAP it is, from 0.
    pub faulty: Vec<(usize, Option<usize>)>,
    /// Some list that was read is faulty.
    pub faulty_list: bool,
    pub bodies: Vec<Body>,
}

/// One operation, with its transaction.
pub(super) struct Flat {
    pub txn: usize,
    pub kind: OpKind,
    pub key: usize,
    pub value: Value,
}

enum Judgement {
    /// Reads its own latest write.
    Internal,
    Initial,
    /// Reads from the writer of its last observation.
    Foreign,
    Fault(Fault),
}

struct JudgedRead {
    op: usize,
    judgement: Judgement,
    /// Per value seen (one; for lists one per element that is not the reader's own): the writes that may
    /// have made it.
    observed: Vec<Vec<usize>>,
}

/// The raw operations of a history and what each read may have seen.
pub(super) struct Facts<'a> {
    history: &'a History,
    pub ops: Vec<Flat>,
    reads: Vec<JudgedRead>,
}

impl<'a> Facts<'a> {
    pub fn new(history: &'a History) -> Facts<'a> {
        assert!(history.txn_count() <= 32, "the oracle is for tiny histories");
        let mut ops = Vec::with_capacity(history.op_count());
        for t in history.txns() {
            for (_, op) in history.ops(t) {
                ops.push(Flat { txn: t.index(), kind: op.kind, key: op.key.index(), value: op.value });
            }
        }
        let mut facts = Facts { history, ops, reads: Vec::new() };
        let lists: Vec<bool> = (0..history.key_count()).map(|k| facts.is_list_key(k)).collect();
        let judge = |op: usize| match lists[facts.ops[op].key] {
            true => facts.judge_list(op),
            false => facts.judge_register(op),
        };
        facts.reads = (0..facts.ops.len())
            .filter(|&op| facts.ops[op].kind == OpKind::Read && facts.ops[op].value != Value::UNKNOWN)
            .filter(|&op| !facts.aborted(facts.ops[op].txn))
            .map(judge)
            .collect();
        facts
    }

    pub fn is_list_key(&self, key: usize) -> bool {
        let mut on_key = self.ops.iter().filter(|op| op.key == key);
        let is_list = on_key.any(|op| op.kind == OpKind::Append || op.value.is_list());
        let written = self.ops.iter().any(|op| op.key == key && op.kind == OpKind::Write);
        assert!(!(is_list && written), "a key is a list or a register, not both");
        is_list
    }

    fn aborted(&self, txn: usize) -> bool {
        self.history.outcome(anomalist_history::TxnId(txn as u32)) == Outcome::Aborted
    }

    /// All writes (appends) of `value` to `key`.
    fn writes_of(&self, key: usize, value: Value) -> impl Iterator<Item = usize> + '_ {
        (0..self.ops.len()).filter(move |&w| {
            let op = &self.ops[w];
            op.kind != OpKind::Read && op.key == key && op.value == value
        })
    }

    fn written_again_later(&self, write: usize) -> bool {
        let w = &self.ops[write];
        self.ops[write + 1..].iter().any(|op| op.txn == w.txn && op.kind != OpKind::Read && op.key == w.key)
    }

    /// The reader's own writes of the key before the read, oldest first.
    fn own_earlier(&self, read: usize) -> Vec<usize> {
        let r = &self.ops[read];
        (0..read)
            .filter(|&w| {
                let op = &self.ops[w];
                op.txn == r.txn && op.kind != OpKind::Read && op.key == r.key
            })
            .collect()
    }

    fn judge_register(&self, read: usize) -> JudgedRead {
        let Flat { txn, key, value, .. } = self.ops[read];
        let own = self.own_earlier(read);
        if own.last().is_some_and(|&w| self.ops[w].value == value) {
            return JudgedRead { op: read, judgement: Judgement::Internal, observed: Vec::new() };
        }
        // Of a transaction that wrote the value twice, the later write: if that one is final, nothing
        // intermediate was seen.
        let mut foreign: Vec<usize> = Vec::new();
        for w in
            self.writes_of(key, value).filter(|&w| self.ops[w].txn != txn && !self.aborted(self.ops[w].txn))
        {
            foreign.retain(|&f| self.ops[f].txn != self.ops[w].txn);
            foreign.push(w);
        }
        let mine = |w: &usize| self.ops[*w].txn == txn;
        let initial = self.history.initial().of(anomalist_history::KeyId(key as u32)) == Some(value);
        let judgement = if !foreign.is_empty() {
            if own.is_empty() { Judgement::Foreign } else { Judgement::Fault(Fault::NotMyOwnWrite) }
        } else if initial {
            if own.is_empty() { Judgement::Initial } else { Judgement::Fault(Fault::NotMyOwnWrite) }
        } else if own.iter().any(|&w| self.ops[w].value == value) {
            Judgement::Fault(Fault::NotMyLastWrite)
        } else if self.writes_of(key, value).any(|w| mine(&w)) {
            Judgement::Fault(Fault::Future)
        } else if self.writes_of(key, value).next().is_some() {
            Judgement::Fault(Fault::Aborted)
        } else {
            Judgement::Fault(Fault::ThinAir)
        };
        if initial && !foreign.is_empty() {
            foreign.push(INITIAL);
        }
        let observed = if foreign.is_empty() { Vec::new() } else { vec![foreign] };
        JudgedRead { op: read, judgement, observed }
    }

    /// A list shows all appends up to the last element. Own earlier appends must be its tail; the rest is
    /// others' work, and read from them: an append says nothing about what was there, unlike a write.
    fn judge_list(&self, read: usize) -> JudgedRead {
        let Flat { txn, key, value, .. } = self.ops[read];
        let fault = |f| JudgedRead { op: read, judgement: Judgement::Fault(f), observed: Vec::new() };
        let Some(elements) = self.history.list(value) else { return fault(Fault::ThinAir) };
        let own = self.own_earlier(read);
        let own_values: Vec<Value> = own.iter().map(|&w| self.ops[w].value).collect();
        let own_is_tail = elements.ends_with(&own_values);
        let body = &elements[..elements.len() - if own_is_tail { own.len() } else { 0 }];

        let mut observed = Vec::new();
        let mut worst: Option<Fault> = None;
        for &element in body {
            let foreign: Vec<usize> = self
                .writes_of(key, element)
                .filter(|&w| self.ops[w].txn != txn && !self.aborted(self.ops[w].txn))
                .collect();
            if !foreign.is_empty() {
                observed.push(foreign);
            } else if !own_values.contains(&element) {
                let found = if self.writes_of(key, element).any(|w| self.ops[w].txn == txn) {
                    Fault::Future
                } else if self.writes_of(key, element).next().is_some() {
                    Fault::Aborted
                } else {
                    Fault::ThinAir
                };
                worst = Some(worst.map_or(found, |w| if (found as u8) < w as u8 { found } else { w }));
            }
        }
        let appended = |e: Value| {
            let visible = |&w: &usize| match self.ops[w].txn == txn {
                true => w < read,
                false => !self.aborted(self.ops[w].txn),
            };
            self.writes_of(key, e).filter(visible).count()
        };
        let shown = |e: Value| elements.iter().filter(|&&other| other == e).count();
        let twice = elements.iter().any(|&e| shown(e) > 1 && shown(e) > appended(e));
        let judgement = if let Some(fault) = worst {
            Judgement::Fault(fault)
        } else if twice {
            Judgement::Fault(Fault::DuplicateElement)
        } else if !own_is_tail {
            let last_is_own = elements.last().is_some_and(|e| own_values.contains(e));
            let last_is_latest = elements.last() == own_values.last();
            match last_is_own && !last_is_latest {
                true => Judgement::Fault(Fault::NotMyLastWrite),
                false => Judgement::Fault(Fault::NotMyOwnWrite),
            }
        } else if body.is_empty() {
            Judgement::Initial
        } else {
            Judgement::Foreign
        };
        JudgedRead { op: read, judgement, observed }
    }

    /// At most so many explanations of the reads.
    pub fn explanations(&self) -> u64 {
        let sound = self.reads.iter().filter(|read| !matches!(read.judgement, Judgement::Fault(_)));
        let candidates = sound.flat_map(|read| &read.observed).map(|all| all.len() as u64);
        candidates.fold(1, u64::saturating_mul)
    }

    /// Every explanation of the reads.
    pub fn readings(&self, ambiguous: Ambiguous) -> Vec<Reading> {
        let mut found = Vec::new();
        self.explore(ambiguous, &mut Vec::new(), &mut found);
        found
    }

    /// `choices`: for (read, observation), the write it saw.
    fn explore(
        &self,
        ambiguous: Ambiguous,
        choices: &mut Vec<((usize, usize), usize)>,
        found: &mut Vec<Reading>,
    ) {
        let mut committed = 0u32;
        for t in self.history.txns().filter(|&t| self.history.outcome(t) == Outcome::Committed) {
            committed |= 1 << t.0;
        }
        // Least fixpoint: any transaction that an existing transaction reads from exists.
        let mut open = None;
        loop {
            let before = committed;
            for read in self.existing(committed) {
                for (i, candidates) in read.observed.iter().enumerate() {
                    match chosen(choices, read.op, i, candidates) {
                        Some(INITIAL) => {}
                        Some(write) => committed |= 1 << self.ops[write].txn,
                        // The read stays faulty regardless of which transaction wrote what it saw: nothing
                        // to choose.
                        None if matches!(read.judgement, Judgement::Fault(_)) => {}
                        None => open = open.or(Some((read.op, i, candidates))),
                    }
                }
            }
            if committed == before {
                break;
            }
        }
        match open {
            Some((op, i, candidates)) if ambiguous == Ambiguous::Enumerate => {
                let used = |write: usize| choices.iter().any(|c| c.0.0 == op && c.1 == write);
                for &write in &candidates.iter().copied().filter(|&write| !used(write)).collect::<Vec<_>>() {
                    choices.push(((op, i), write));
                    self.explore(ambiguous, choices, found);
                    choices.pop();
                }
            }
            _ => found.push(self.reading(committed, choices)),
        }
    }

    fn existing(&self, committed: u32) -> impl Iterator<Item = &JudgedRead> {
        self.reads.iter().filter(move |read| committed >> self.ops[read.op].txn & 1 == 1)
    }

    fn reading(&self, committed: u32, choices: &[((usize, usize), usize)]) -> Reading {
        let mut reading = Reading {
            committed,
            external: Vec::new(),
            read_taps: [0; 6],
            duplicate_elements: 0,
            faulty: Vec::new(),
            faulty_list: false,
            bodies: Vec::new(),
        };
        for read in self.existing(committed) {
            let Flat { txn, key, value, .. } = self.ops[read.op];
            let seen: Option<Vec<usize>> =
                (0..read.observed.len()).map(|i| chosen(choices, read.op, i, &read.observed[i])).collect();
            match read.judgement {
                Judgement::Fault(Fault::DuplicateElement) => {
                    reading.duplicate_elements += 1;
                    reading.faulty.push((txn, None));
                }
                Judgement::Fault(fault) => {
                    reading.read_taps[fault as usize] += 1;
                    reading.faulty.push((txn, Some(fault as usize)));
                    reading.faulty_list |= value.is_list();
                }
                Judgement::Initial => {
                    reading.external.push(External { op: read.op, reader: txn, key, from: None });
                }
                Judgement::Internal => {}
                Judgement::Foreign => {
                    let Some(seen) = seen else { continue };
                    if seen.last() == Some(&INITIAL) {
                        reading.external.push(External { op: read.op, reader: txn, key, from: None });
                    } else if let Some(&write) = seen.last() {
                        if self.written_again_later(write) {
                            reading.read_taps[INTERMEDIATE] += 1;
                            reading.faulty.push((txn, Some(INTERMEDIATE)));
                        }
                        let from = Some(self.ops[write].txn);
                        reading.external.push(External { op: read.op, reader: txn, key, from });
                    }
                    if value.is_list() {
                        reading.bodies.push(Body { reader: txn, key, appends: seen });
                    }
                }
            }
        }
        reading
    }

    /// Where an element that was shown was appended more than once: whether the lists of the key are
    /// versions of it in some order of its writers. All begin the longest, whose appends are complete
    /// transactions' but for the last.
    pub fn lists_are_versions(&self, reading: &Reading) -> bool {
        let own = |txn: usize, key: usize| -> Vec<usize> {
            let of_key = |w: &usize| self.ops[*w].txn == txn && self.ops[*w].key == key;
            (0..self.ops.len()).filter(|w| self.ops[*w].kind == OpKind::Append && of_key(w)).collect()
        };
        let several = |body: &&Body| {
            let live = |w: &usize| self.ops[*w].txn != body.reader && !self.aborted(self.ops[*w].txn);
            let times = |w: usize| self.writes_of(body.key, self.ops[w].value).filter(live).count();
            body.appends.iter().any(|&w| times(w) > 1)
        };
        reading.bodies.iter().filter(several).all(|chosen| {
            let lists = || reading.bodies.iter().filter(|body| body.key == chosen.key);
            let Some(longest) = lists().map(|body| &body.appends).max_by_key(|appends| appends.len()) else {
                return true;
            };
            let (mut rest, mut met) = (&longest[..], Vec::new());
            while let Some(&first) = rest.first() {
                let txn = self.ops[first].txn;
                let all = own(txn, chosen.key);
                if met.contains(&txn) || !(rest.starts_with(&all) || all.starts_with(rest)) {
                    return false;
                }
                met.push(txn);
                rest = &rest[all.len().min(rest.len())..];
            }
            lists().all(|body| longest.starts_with(&body.appends))
        })
    }

    /// True if a transaction writes (appends to) a key.
    pub fn writes(&self, txn: usize, key: usize) -> bool {
        let ops = self.history.op_range(anomalist_history::TxnId(txn as u32));
        ops.clone().any(|i| self.history.op(OpId(i as u32)).kind != OpKind::Read && self.ops[i].key == key)
    }

    /// True if `a` had ended, as its client knows, when `b` began. `None`: not measured.
    pub fn ended_before(&self, a: usize, b: usize) -> Option<bool> {
        let intervals = self.history.intervals()?;
        // An indeterminate transaction may take effect at any later time, whatever answer its client got
        // and when.
        let over = self.history.outcome(anomalist_history::TxnId(a as u32)) == Outcome::Committed;
        Some(over && intervals[a].completed.is_some_and(|end| end < intervals[b].invoked))
    }

    /// True if `a` comes before `b` in one session.
    pub fn same_session_before(&self, a: usize, b: usize) -> bool {
        let txn = |t: usize| anomalist_history::TxnId(t as u32);
        self.history.session_before(txn(a), txn(b))
    }

    pub fn txn_count(&self) -> usize {
        self.history.txn_count()
    }
}

/// The write behind an observation: the only candidate, or the chosen one.
fn chosen(
    choices: &[((usize, usize), usize)],
    op: usize,
    observation: usize,
    candidates: &[usize],
) -> Option<usize> {
    match candidates {
        [only] => Some(*only),
        _ => choices.iter().find(|c| c.0 == (op, observation)).map(|c| c.1),
    }
}
