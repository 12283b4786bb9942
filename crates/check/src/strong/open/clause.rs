//! Constraints as clauses: what an order misses, said in literals, given what reads returned and which
//! transactions took effect.
//!
//! A clause holds in every execution that the level allows: it names the order that the constraint asks for,
//! and besides each way out of it: a transaction of unknown outcome did not take effect, or an open read
//! returned something else. Linear in the constraint.

use super::{Sources, candidates, source};
use crate::strong::facts::{From, Origin};
use crate::strong::model::Model;
use crate::strong::open_lists::{Element, OpenList};
use crate::strong::scan::{Constraint, Decided, Link};
use crate::strong::search::Decisions;
use crate::strong::solver::{Lit, Solver, Var};
use anomalist_history::{OpId, TxnId};

/// "This transaction did not take effect", where that is possible.
pub(super) fn unless_absent(model: &Model<'_>, solver: &mut Solver, t: TxnId) -> Option<Lit> {
    (!model.facts.certain[t.index()]).then(|| !solver.literal(Var::Exists(t)))
}

/// "The read returned something else", where that is possible.
fn unless_elsewhere(decided: Asking<'_>, solver: &mut Solver, read: u32, from: Option<TxnId>) -> Option<Lit> {
    let Asking { model, sources } = decided;
    let From::Open(open) = model.facts.reads[read as usize].from else { return None };
    // Of several appends by one transaction the chosen one.
    let chosen = (Decisions { model, solver, sources }).source(open).filter(|c| c.txn() == from);
    let origin = chosen.or_else(|| candidates(model, open).find(|c| c.txn() == from))?;
    Some(!solver.literal(source(model, open, origin)))
}

/// What a clause is made from, besides the solver.
#[derive(Clone, Copy)]
struct Asking<'a> {
    model: &'a Model<'a>,
    sources: &'a Sources,
}

/// True if a constraint rests on no open read.
pub(crate) fn is_certain(model: &Model<'_>, constraint: &Constraint) -> bool {
    let certain = |read: u32| !matches!(model.facts.reads[read as usize].from, From::Open(_));
    match constraint {
        Constraint::Axiom { read, .. } => certain(*read),
        Constraint::Path { read, links, .. } => {
            certain(*read)
                && links.iter().all(|link| match link {
                    Link::Read(read) | Link::Replaced(read) => certain(*read),
                    Link::Session | Link::Version => true,
                })
        }
        Constraint::Conflict { .. } => true,
        Constraint::Unseen { .. } | Constraint::Source { .. } => false,
    }
}

/// The clause that a constraint is. (Of what an open read returned: none, see
/// [`ask`](super::ask).)
pub(crate) fn clause(
    model: &Model<'_>,
    solver: &mut Solver,
    sources: &Sources,
    constraint: &Constraint,
) -> Vec<Lit> {
    let rules = model.rules;
    let asking = Asking { model, sources };
    let mut clause: Vec<Lit> = Vec::new();
    match constraint {
        &Constraint::Axiom { read, from, other } => {
            let reader = model.facts.reads[read as usize].reader;
            clause.extend(unless_absent(model, solver, reader));
            clause.extend(unless_absent(model, solver, other));
            clause.push(solver.before(rules.begin(reader), rules.commit(other)));
            clause.extend(from.map(|w| solver.before(rules.commit(other), rules.commit(w))));
            clause.extend(unless_elsewhere(asking, solver, read, from));
        }
        &Constraint::Conflict { first, second, .. } => {
            clause.extend(unless_absent(model, solver, first));
            clause.extend(unless_absent(model, solver, second));
            clause.push(solver.before(rules.commit(first), rules.guarded(second)));
            clause.push(solver.before(rules.commit(second), rules.guarded(first)));
        }
        Constraint::Path { read, from, path, links } => {
            let Some(&other) = path.first() else { return clause };
            clause.extend(from.map(|w| solver.before(rules.commit(other), rules.commit(w))));
            clause.extend(unless_elsewhere(asking, solver, *read, *from));
            for &t in path {
                clause.extend(unless_absent(model, solver, t));
            }
            for (pair, &link) in path.windows(2).zip(links) {
                clause.extend(broken(asking, solver, (pair[0], pair[1]), link));
            }
        }
        &Constraint::Unseen { list, first, second } => {
            clause.extend(unseen(model, solver, &model.facts.open_lists[list as usize], (first, second)));
        }
        Constraint::Source { .. } => {}
    }
    clause
}

/// A list shows the one append last and the other not at all: the other comes later.
fn unseen(
    model: &Model<'_>,
    solver: &mut Solver,
    list: &OpenList,
    (first, second): (OpId, OpId),
) -> Vec<Lit> {
    let rules = model.rules;
    let (t, u) = (model.facts.history.txn_of(first), model.facts.history.txn_of(second));
    let mut clause = Vec::new();
    clause.extend(unless_absent(model, solver, list.reader));
    clause.extend(unless_absent(model, solver, u));
    clause.push(solver.before(rules.commit(t), rules.commit(u)));
    if let Some(&Element::Open(open)) = list.elements.last() {
        clause.push(!solver.literal(source(model, open, Origin::Write(t, first))));
    }
    for &element in &list.elements {
        if let Element::Open(open) = element
            && model.facts.candidates(open).any(|c| c == Origin::Write(u, second))
        {
            clause.push(solver.literal(source(model, open, Origin::Write(u, second))));
        }
    }
    clause
}

/// What breaks a link, if anything does: the reverse of a version order, or another source.
fn broken(asking: Asking<'_>, solver: &mut Solver, (a, b): (TxnId, TxnId), link: Link) -> Vec<Lit> {
    let Asking { model, sources } = asking;
    let rules = model.rules;
    match link {
        Link::Session => Vec::new(),
        Link::Read(read) => unless_elsewhere(asking, solver, read, Some(a)).into_iter().collect(),
        Link::Version => vec![solver.before(rules.commit(b), rules.commit(a))],
        Link::Replaced(read) => {
            let from = match model.facts.reads[read as usize].from {
                From::Initial => None,
                From::Txn(w) => Some(w),
                From::Open(open) => match (Decisions { model, solver, sources }).source(open) {
                    Some(origin) => origin.txn(),
                    None => return Vec::new(),
                },
            };
            let before = from.map(|w| solver.before(rules.commit(b), rules.commit(w)));
            before.into_iter().chain(unless_elsewhere(asking, solver, read, from)).collect()
        }
    }
}
