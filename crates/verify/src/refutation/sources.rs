//! What reads show by themselves: whose write they may have returned, in which order a list puts appends, and which reads
//! cannot be.

use super::{Clause, Family, Proof, unproven};
use crate::flaw::Flaw;
use crate::levels::Levels;
use crate::reading::{Fault, Source};
use anomalist_history::{OpId, OpKind, TxnId, Value};
use anomalist_level::{Choice, Level, Literal, Point};

impl Proof<'_> {
    /// A read that can have no source.
    pub(super) fn impossible(&self, clause: &Clause, read: OpId) -> Result<(), Flaw> {
        self.read(read)?;
        let t = self.facts.owner(read);
        self.guarded(clause, t)?;
        let own =
            matches!(self.possible.source(read), Source::Fault(Fault::NotMyOwnWrite | Fault::NotMyLastWrite));
        // PL-2 does not ask that a transaction reads its own writes.
        let allowed = own && self.family(t) == Family::Flow;
        let faulty = matches!(self.possible.source(read), Source::Fault(_));
        if faulty && self.judges_reads(t) && !allowed { Ok(()) } else { Err(unproven().ops([read])) }
    }

    /// What a list shows of others' appends.
    fn body(&self, read: OpId) -> Option<&[Value]> {
        match self.possible.source(read) {
            Source::From(_) | Source::Initial | Source::Open => {}
            _ => return None,
        }
        let elements = self.facts.history.list(self.facts.history.op(read).value)?;
        Some(&elements[..elements.len().saturating_sub(self.own_appends(read))])
    }

    /// Is the write the only one that a read, or an element of a list, may be?
    pub(super) fn only_candidate(&self, choice: Choice) -> bool {
        let write = self.facts.history.op(choice.write);
        let candidates = self.facts.candidates(self.facts.owner(choice.read), write.key, write.value);
        candidates.only() == Some(choice.write)
    }

    /// The list shows this append, or the clause allows for its showing another.
    fn shows(&self, clause: &Clause, read: OpId, write: OpId) -> Result<(), Flaw> {
        let choice = Choice { read, write };
        if self.only_candidate(choice) { Ok(()) } else { clause.has(Literal::NotReadsFrom(choice)) }
    }

    fn appends(&self, t: TxnId, like: OpId) -> impl Iterator<Item = OpId> {
        let history = self.facts.history;
        let key = history.op(like).key;
        history.ops(t).filter(move |(_, o)| o.kind == OpKind::Append && o.key == key).map(|(op, _)| op)
    }

    pub(super) fn version(&self, clause: &Clause, read: OpId, first: OpId, second: OpId) -> Result<(), Flaw> {
        self.read(read)?;
        self.write(first)?;
        self.write(second)?;
        let history = self.facts.history;
        let flaw = || unproven().ops([read, first, second]);
        let (a, b, reader) = (self.facts.owner(first), self.facts.owner(second), self.facts.owner(read));
        let body = self.body(read).ok_or_else(flaw)?;
        let appended = [first, second]
            .iter()
            .all(|&op| history.op(op).kind == OpKind::Append && history.op(op).key == history.op(read).key);
        if !appended || matches!(self.levels, Levels::One(Level::CutIsolation)) {
            return Err(flaw());
        }
        self.guarded(clause, reader)?;
        let at = |op: OpId| {
            let owner = self.facts.owner(op);
            body.iter().position(|&value| value == history.op(op).value).filter(|_| owner != reader)
        };
        let before = Literal::Before(Point::Commit(a), Point::Commit(b));
        match (at(first), at(second)) {
            (_, Some(0)) if a == b && first < second => self.shows(clause, read, second),
            (Some(i), Some(j)) if i + 1 == j => {
                self.shows(clause, read, first)?;
                self.shows(clause, read, second)?;
                let next = self.appends(a, first).find(|&op| op > first);
                let impossible = match a == b {
                    true => next != Some(second),
                    false => next.is_some() || self.appends(b, second).next() != Some(second),
                };
                if impossible {
                    Ok(())
                } else if a == b {
                    Err(flaw())
                } else {
                    clause.has(before)
                }
            }
            (Some(i), Some(j)) if i < j && a != b => {
                self.shows(clause, read, first)?;
                self.shows(clause, read, second)?;
                clause.has(before)
            }
            (Some(i), elsewhere) if i + 1 == body.len() && a != b => {
                self.shows(clause, read, first)?;
                self.guarded(clause, b)?;
                if elsewhere.is_some() {
                    if self.only_candidate(Choice { read, write: second }) {
                        return Err(flaw());
                    }
                    clause.has(Literal::ReadsFrom(Choice { read, write: second }))?;
                }
                clause.has(before)
            }
            _ => Err(flaw()),
        }
    }

    /// The writes that the clause says a read is not from, or the one that it is from for sure; `None`: the initial value.
    fn supposed(&self, clause: &Clause, read: OpId) -> Vec<Option<TxnId>> {
        let reader = self.facts.owner(read);
        let certain = self.certain_reads(reader).into_iter().filter(|(op, _)| *op == read).map(|(_, w)| w);
        let chosen = clause.literals.iter().filter_map(|literal| match literal {
            Literal::NotReadsFrom(c) if c.read == read && self.is_version(*c) => {
                Some(Some(self.facts.owner(c.write)))
            }
            _ => None,
        });
        certain.chain(chosen).collect()
    }

    pub(super) fn repeated(&self, clause: &Clause, first: OpId, second: OpId) -> Result<(), Flaw> {
        self.read(first)?;
        self.read(second)?;
        let history = self.facts.history;
        let flaw = || unproven().ops([first, second]);
        let t = self.facts.owner(first);
        if t != self.facts.owner(second) || history.op(first).key != history.op(second).key {
            return Err(flaw());
        }
        if first == second {
            let mut returned: Vec<(Value, OpId)> = Vec::new();
            for literal in &clause.literals {
                if let Literal::NotReadsFrom(c) = literal
                    && c.read == first
                {
                    returned.push((history.op(c.write).value, c.write));
                }
            }
            returned.sort_unstable();
            let two = returned.windows(2).any(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1);
            return if two { Ok(()) } else { Err(flaw()) };
        }
        self.guarded(clause, t)?;
        let differ = match self.levels.of(t) {
            Level::CutIsolation => {
                let (a, b) = (self.supposed(clause, first), self.supposed(clause, second));
                a.iter().any(|w| b.iter().any(|v| v != w))
            }
            Level::ReadAtomic | Level::Causal => {
                self.body(first).zip(self.body(second)).is_some_and(|(a, b)| a != b)
            }
            _ => false,
        };
        if differ { Ok(()) } else { Err(flaw()) }
    }

    pub(super) fn sources(&self, clause: &Clause, read: OpId, element: u32) -> Result<(), Flaw> {
        self.read(read)?;
        let history = self.facts.history;
        let op = history.op(read);
        let reader = self.facts.owner(read);
        self.guarded(clause, reader)?;
        let flaw = || unproven().ops([read]);
        let value = match history.list(op.value) {
            None if element == 0 => op.value,
            None => return Err(flaw()),
            Some(elements) => {
                let others = elements.len().saturating_sub(self.own_appends(read));
                *elements[..others].get(element as usize).ok_or_else(flaw)?
            }
        };
        let open = self.possible.source(read) == Source::Open;
        let candidates = self.facts.candidates(reader, op.key, value);
        if !open || candidates.len() == 0 {
            return Err(flaw());
        }
        candidates.iter().try_for_each(|write| clause.has(Literal::ReadsFrom(Choice { read, write })))
    }

    pub(super) fn intermediate(&self, clause: &Clause, choice: Choice) -> Result<(), Flaw> {
        self.returned(clause, choice)?;
        let judged = self.judges_reads(self.facts.owner(choice.read));
        if judged && self.is_version(choice) && !self.facts.is_final(choice.write) {
            Ok(())
        } else {
            Err(unproven().ops([choice.read, choice.write]))
        }
    }
}
