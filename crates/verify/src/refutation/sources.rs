//! What reads show by themselves: whose write they may have returned, in which order a list puts appends,
//! and which reads cannot be.

use super::{Clause, Family, Proof, unproven};
use crate::definition::{Kind, kind};
use crate::flaw::Flaw;
use crate::reading::{Fault, Source};
use anomalist_history::{OpId, OpKind, TxnId, Value};
use anomalist_level::{Choice, Literal, Point};

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

    /// Is this the only source that a read, or an element of a list, may have?
    pub(super) fn only_candidate(&self, choice: Choice) -> bool {
        let read = self.facts.history.op(choice.read);
        let value = match self.facts.history.list(read.value) {
            Some(elements) => elements.get(choice.element as usize).copied(),
            None => Some(read.value),
        };
        let reader = self.facts.owner(choice.read);
        let only = |value| self.facts.candidates(reader, read.key, value).only() == Some(choice.write);
        value.is_some_and(only)
    }

    /// Where in a list an append of another transaction may be.
    fn possible_places(&self, body: &[Value], read: OpId, append: OpId) -> Vec<Choice> {
        let value = self.facts.history.op(append).value;
        let owner = self.facts.owner(append);
        let places = (0..).zip(body).filter(|(_, e)| **e == value && owner != self.facts.owner(read));
        places.map(|(element, _)| Choice::append(read, element, append)).collect()
    }

    /// The places at which a list shows an append for sure, or the clause allows for its showing another.
    fn places(&self, clause: &Clause, body: &[Value], read: OpId, append: OpId) -> Vec<usize> {
        let choices = self.possible_places(body, read, append).into_iter();
        let shown =
            |c: &Choice| self.only_candidate(*c) || clause.literals.contains(&Literal::NotReadsFrom(*c));
        choices.filter(shown).map(|c| c.element as usize).collect()
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
        if !appended {
            return Err(flaw());
        }
        self.guarded(clause, reader)?;
        let (firsts, seconds) =
            (self.places(clause, body, read, first), self.places(clause, body, read, second));
        let before = Literal::Before(Point::Commit(a), Point::Commit(b));
        if a == b && first < second && seconds.contains(&0) {
            return Ok(());
        }
        let side_by_side = firsts.iter().any(|i| seconds.contains(&(i + 1)));
        let next = self.appends(a, first).find(|&op| op > first);
        let impossible = match a == b {
            true => next != Some(second),
            false => next.is_some() || self.appends(b, second).next() != Some(second),
        };
        if side_by_side && impossible {
            return Ok(());
        }
        // Cut isolation asks for no order.
        if a == b || self.levels.have_no_order() {
            return Err(flaw());
        }
        if firsts.iter().any(|i| seconds.iter().any(|j| i < j)) {
            return clause.has(before);
        }
        // The first is shown last, and the second nowhere.
        if body.len().checked_sub(1).is_none_or(|last| !firsts.contains(&last)) {
            return Err(flaw());
        }
        self.guarded(clause, b)?;
        for choice in self.possible_places(body, read, second) {
            if self.only_candidate(choice) {
                return Err(flaw());
            }
            clause.has(Literal::ReadsFrom(choice))?;
        }
        clause.has(before)
    }

    /// The element that says whose version a read returned: of a list the last that another transaction
    /// appended.
    fn deciding(&self, read: OpId) -> Option<(u32, Value)> {
        let value = self.facts.history.op(read).value;
        match self.facts.history.list(value) {
            None => Some((0, value)),
            Some(_) => {
                let body = self.body(read)?;
                body.last().map(|&last| (body.len() as u32 - 1, last))
            }
        }
    }

    /// The writes that the clause says a read is not from, or the one that it is from for sure; `None`: the
    /// initial value.
    fn supposed(&self, clause: &Clause, read: OpId) -> Vec<Option<TxnId>> {
        let reader = self.facts.owner(read);
        let certain = self.certain_reads(reader).into_iter().filter(|(op, _)| *op == read).map(|(_, w)| w);
        let deciding = self.deciding(read).map(|(element, _)| element);
        let chosen = clause.literals.iter().filter_map(|literal| match literal {
            Literal::NotReadsFrom(c)
                if c.read == read && Some(c.element) == deciding && self.is_version(*c) =>
            {
                Some(c.write.map(|write| self.facts.owner(write)))
            }
            _ => None,
        });
        certain.chain(chosen).collect()
    }

    /// Whether the clause has every choice that makes an open read return a version of this transaction
    /// (`None`: the initial value).
    fn has_all_of(&self, clause: &Clause, read: OpId, writer: Option<TxnId>) -> bool {
        let Some((element, value)) =
            self.deciding(read).filter(|_| self.possible.source(read) == Source::Open)
        else {
            return false;
        };
        let candidates =
            self.facts.candidates(self.facts.owner(read), self.facts.history.op(read).key, value);
        let by_writer = |write: &Option<OpId>| write.map(|write| self.facts.owner(write)) == writer;
        let has = |write| clause.has(Literal::ReadsFrom(Choice { read, element, write })).is_ok();
        candidates.len() > 0 && candidates.iter().filter(by_writer).all(has)
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
            let chosen: Vec<Choice> = clause.literals.iter().filter_map(|l| l.denies(first)).collect();
            // One element is two appends, or one append is two elements.
            let clash = |a: &Choice, b: &Choice| (a.element == b.element) != (a.write == b.write);
            let two = chosen.iter().any(|a| chosen.iter().any(|b| clash(a, b)));
            return if two { Ok(()) } else { Err(flaw()) };
        }
        self.guarded(clause, t)?;
        let differ = match kind(self.levels.of(t)) {
            Some(Kind::Cut) => {
                let (a, b) = (self.supposed(clause, first), self.supposed(clause, second));
                a.iter().any(|w| b.iter().any(|v| v != w) || self.has_all_of(clause, second, *w))
            }
            Some(Kind::ReadAtomic | Kind::Causal) => {
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
        candidates
            .iter()
            .try_for_each(|write| clause.has(Literal::ReadsFrom(Choice { read, element, write })))
    }

    pub(super) fn intermediate(&self, clause: &Clause, choice: Choice) -> Result<(), Flaw> {
        self.returned(clause, choice)?;
        let judged = self.judges_reads(self.facts.owner(choice.read));
        let replaced = choice.write.is_some_and(|write| !self.facts.is_final(write));
        if judged && self.is_version(choice) && replaced {
            Ok(())
        } else {
            Err(unproven().ops([choice.read]))
        }
    }
}
