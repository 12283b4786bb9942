//! Cut isolation (Plume, Definition 3, after Bailis et al. 2013).

use crate::Answer;
use crate::adya::{laid_out, version_of};
use crate::facts::{External, Parts, Set, members, set};
use crate::model::{Atom, Key, Op, Outcome, Seen};
use crate::order::{FREE, complete, next};

/// Cut isolation: if a transaction reads a key from other transactions more than once, it reads the same
/// value each time, unless one transaction wrote all of them (Plume, Definition 3 and the note after it).
///
/// The definition is about a relation between reads and writes, of committed transactions or the initial
/// one. Where a read has no such write, or does not return an own write, or a list was read before and
/// after an own append (Plume has only registers), it says nothing: not defined. Reads that follow own
/// writes are own (`docs/spec/what-counts.md` 3).
pub fn cut_isolation(parts: &Parts<'_>) -> Answer {
    let reads = |t: usize| &parts.facts[t].reads;
    let unclear = |t: usize| {
        let changed = |r: &External| reads(t).iter().any(|e| e.key == r.key && e.seen != r.seen);
        reads(t).iter().any(|r| r.after_own && changed(r))
    };
    if !parts.internal() || members(parts.committed | parts.open).any(unclear) {
        return Answer::Undefined;
    }
    let outcomes = (0..=parts.open).filter(|kept| kept & !parts.open == 0).map(|kept| kept | parts.committed);
    let answers = outcomes.map(|there| {
        let keys = 0..parts.history.kinds.len();
        keys.map(|key| cut_of_key(parts, there, key)).fold(Answer::Holds, |worst, answer| {
            match (worst, answer) {
                (Answer::Undefined, _) | (_, Answer::Undefined) => Answer::Undefined,
                (Answer::Violated, _) | (_, Answer::Violated) => Answer::Violated,
                _ => Answer::Holds,
            }
        })
    });
    // An indeterminate transaction that did not return its own writes may have committed as well: of that
    // the definition says nothing.
    let broken =
        |t: usize| parts.history.txns[t].outcome == Outcome::Indeterminate && parts.open & (1 << t) == 0;
    let worst = if set(parts.history, broken) == 0 { Answer::Violated } else { Answer::Undefined };
    // It is violated only if every choice of outcomes violates it.
    answers.fold(worst, |best, answer| match (best, answer) {
        (Answer::Holds, _) | (_, Answer::Holds) => Answer::Holds,
        (Answer::Undefined, _) | (_, Answer::Undefined) => Answer::Undefined,
        _ => Answer::Violated,
    })
}

fn cut_of_key(parts: &Parts<'_>, there: Set, key: Key) -> Answer {
    let mut fixed = parts.clone();
    (fixed.committed, fixed.open) = (there & writers(parts, key), 0);
    let of_key = |t: usize| parts.facts[t].reads.iter().filter(move |r| r.key == key);
    let mut readers = members(there).filter(|&t| of_key(t).next().is_some());
    let is_list = matches!(parts.initial(key), Seen::List(_));
    if is_list {
        let mut best = Answer::Undefined;
        orders(&fixed, 0, &mut Vec::new(), &mut |order| {
            if let Some(same) = cut_of_list(parts, there, key, &laid_out(parts, order, key)) {
                best = if same || best == Answer::Holds { Answer::Holds } else { Answer::Violated };
            }
        });
        return best;
    }
    let wrote = |s: usize, value: Atom| {
        let ops = &parts.history.txns[s].ops;
        ops.iter().any(|op| matches!(op, Op::Write(k, v) if *k == key && *v == value))
    };
    let value = |r: &External| if let Seen::Atom(value) = r.seen { value } else { None };
    let sourced = |t: usize, r: &External| {
        value(r) == parts.history.initial || members(there & !(1 << t)).any(|s| wrote(s, value(r)))
    };
    if members(there).any(|t| of_key(t).any(|r| !sourced(t, r))) {
        return Answer::Undefined;
    }
    Answer::from(readers.all(|t| {
        let same = of_key(t).all(|a| of_key(t).all(|b| a.seen == b.seen));
        same || members(there & !(1 << t)).any(|s| of_key(t).all(|r| wrote(s, value(r))))
    }))
}

/// Whether each transaction read versions of one writer; `None` if something read is no version.
fn cut_of_list(parts: &Parts<'_>, there: Set, key: Key, laid_out: &[(Atom, usize)]) -> Option<bool> {
    let mut same = true;
    for t in members(there) {
        let of_key = parts.facts[t].reads.iter().filter(|r| r.key == key);
        let versions: Option<Vec<_>> = of_key
            .map(|r| match &r.seen {
                Seen::List(list) => version_of(laid_out, t, list),
                Seen::Atom(_) => None,
            })
            .collect();
        same &= versions?.windows(2).all(|pair| pair[0] == pair[1]);
    }
    Some(same)
}

fn orders(parts: &Parts<'_>, placed: Set, order: &mut Vec<usize>, visit: &mut dyn FnMut(&[usize])) {
    if complete(parts, placed) {
        visit(order);
    }
    for t in next(parts, &FREE, placed) {
        order.push(t);
        orders(parts, placed | 1 << t, order, visit);
        order.pop();
    }
}

fn writers(parts: &Parts<'_>, key: Key) -> Set {
    let wrote = |t: usize| parts.facts[t].writes(key) && parts.history.txns[t].outcome != Outcome::Aborted;
    set(parts.history, wrote)
}
