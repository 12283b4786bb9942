//! Which transactions of unknown outcome count.
//!
//! A level holds if some choice of which of them committed breaks no axiom. One more that commits can only
//! add violations, with one exception: a read that is wrong so far may be right because of it. So each wrong
//! read asks for *one of* some transactions:
//! * of a register, those whose version would be the last one that it sees, with the value that it returned;
//! * of a list, those that appended an element that is missing otherwise, and nothing that was not read.
//!
//! If it asks for none, it is a violation. If it asks for one, that transaction committed, or the read is
//! wrong anyway, so it counts.

use crate::external::{Content, Cut, Match, Read, Scope, Seen, Version, initial_list, judge};
use crate::list::suppliers;
use crate::{Rule, Sight, Stamped};
use std::hash::Hash;

/// Of transactions of unknown outcome, each with its version of the key, those one of which must have
/// committed if a read that is wrong so far is right. `scope` gives what else the reader sees.
pub fn asked<T, R, F, I>(
    rule: Rule,
    reader: &impl Stamped<Session = R::Session>,
    read: &Read<'_, R::Value, F>,
    open: &[(T, R)],
    scope: impl Fn() -> Scope<I, R>,
) -> Result<Vec<T>, Cut>
where
    T: Copy,
    R: Version,
    R::Value: Hash,
    F: Fn(R::Value) -> bool,
    I: Iterator<Item = R>,
{
    let sights = open.iter().map(|&(t, version)| (t, version, rule.sight(reader, &version)));
    let open: Vec<(T, R, Sight)> = sights.filter(|(.., sight)| *sight != Sight::Unseen).collect();
    if !open.is_empty() && open.iter().all(|(_, version, _)| appended(version).is_some()) {
        let Scope { required, optional, cut, .. } = scope();
        if cut {
            return Err(Cut);
        }
        let required: Vec<R> = required.collect();
        if required.iter().chain(&optional).all(|version| appended(version).is_some()) {
            let Seen::List(seen) = read.seen else { return Ok(Vec::new()) };
            let elements = |version: &R| appended(version).unwrap_or_default().to_vec();
            let initial = initial_list(read.initial).iter().copied();
            let there = initial.chain(required.iter().flat_map(elements));
            let blocks = open.iter().filter_map(|(t, version, _)| Some((*t, appended(version)?)));
            let blocks: Vec<(T, &[R::Value])> = blocks.collect();
            return Ok(suppliers(seen, there, optional.iter().flat_map(elements), &blocks));
        }
    }
    let mut asked = Vec::new();
    for (t, version, sight) in open {
        // What appending to a value gives is not defined, so it may be what was read.
        let written = matches!(version.content(), Content::Written(_));
        if !written || judge(read, with(scope(), version, sight))?.0 != Match::Wrong {
            asked.push(t);
        }
    }
    Ok(asked)
}

/// What a reader sees if one more transaction counts.
fn with<R: Version>(
    scope: Scope<impl Iterator<Item = R>, R>,
    version: R,
    sight: Sight,
) -> Scope<impl Iterator<Item = R>, R> {
    let Scope { required, mut optional, cut, mixed } = scope;
    let mut required = required.peekable();
    let mut more = (sight == Sight::Seen).then_some(version);
    if sight == Sight::Perhaps {
        optional.push(version);
    }
    // The last commit first.
    let required = std::iter::from_fn(move || match (&more, required.peek()) {
        (Some(one), Some(next)) if one.commit() < next.commit() => required.next(),
        (Some(_), _) => more.take(),
        (None, _) => required.next(),
    });
    Scope { required, optional, cut, mixed }
}

fn appended<R: Version>(version: &R) -> Option<&[R::Value]> {
    match version.content() {
        Content::Appended(elements) => Some(elements),
        Content::Written(_) | Content::Undefined => None,
    }
}
