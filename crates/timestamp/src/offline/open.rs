//! Transactions of unknown outcome: which of them must have committed.
//!
//! A level holds if some choice of which of them committed breaks no axiom (Definition 4 asks for *an*
//! abstract execution of what committed). One more that commits can only add violations, with one exception:
//! a read that is wrong so far may be right because of it. So the least choice is to leave all of them out,
//! and each wrong read then asks for *one of* some transactions ([`asked`]).
//!
//! None: the read is wrong in every choice, which is a violation. One: that transaction committed, or the
//! read is wrong anyway. It counts from now on, and all is looked at again, until nothing changes. (As
//! versions are added, those that a read asks for become fewer, so what was a violation stays one.) Several:
//! a choice. If nothing else is wrong, choices are tried in turn, each as far as it leads, up to a number of
//! operations looked at. One without violations is the proof that the level holds. If every choice breaks
//! something, these reads are violations. Else they are counted as open, and the level is unknown.
//!
//! A round costs as much as a check of the history without such transactions, and, for each wrong read and
//! each candidate, the versions of a key.

use super::careful::Seat;
use super::events::{Event, Part};
use super::key::{Checker, appended};
use super::timeline::Timeline;
use super::{Findings, Run, tidy};
use crate::{Axiom, Footprint, Rule, Violation, asked};
use anomalist_history::{History, KeyId, OpId, TxnId, Value};
use anomalist_level::{Budget, OutOfBudget};
use rustc_hash::{FxHashMap, FxHashSet};

/// Operations looked at while choices are tried.
const SEARCH: usize = 20_000_000;
/// Versions looked at in one round to find out what wrong reads ask for.
const ROUND: usize = 200_000_000;

/// Every violation that there is in each choice, and who counts.
pub(crate) fn resolve(timeline: &mut Timeline<'_>, run: Run<'_>) -> Result<Findings, OutOfBudget> {
    let Reached { mut found, mut open, choice } = propagate(timeline, run)?;
    if open.is_empty() || found.unmatched > 0 || breaks_more_than_sessions(&found) {
        return Ok(found);
    }
    let mut work = SEARCH;
    let before = timeline.counts.clone();
    match search(timeline, run, choice, found.count(Axiom::Session), &mut work)? {
        // Only what was certain before is reported; a TIE that results from a choice is not.
        Search::Found(chosen) => {
            found = Findings { counts: found.counts, listed: found.listed, open: 0, ..chosen };
        }
        Search::None => {
            timeline.counts = before;
            found.counts[Axiom::Ext as usize] += open.len() as u64;
            found.listed.append(&mut open);
            found.listed.sort_by_key(|v| v.key);
            found.open = 0;
        }
        Search::GaveUp => timeline.counts = before,
    }
    Ok(found)
}

/// What one round finds out; see [`doubts`].
#[derive(Clone, Debug, Default)]
pub struct Doubts {
    /// Every violation if just the committed transactions count, but for the doubtful reads.
    pub found: Findings,
    /// Reads that are wrong so far, each with those transactions of unknown outcome one of which must have
    /// committed if it is right.
    pub open: Vec<(Violation, Vec<TxnId>)>,
}

/// One round of the above for a part of a history, in which a transaction that is certain to have committed
/// counts as committed; who has all parts draws the conclusions. At most `limit` of the violations of each
/// axiom are listed, and all doubtful reads. `None` if the history has no timestamps.
pub fn doubts(
    history: &History,
    rule: Rule,
    limit: usize,
    budget: &Budget<'_>,
) -> Result<Option<Doubts>, OutOfBudget> {
    let Some(timeline) = Timeline::new(history, rule) else { return Ok(None) };
    let any_open = timeline.counts.contains(&false);
    let all = if any_open { usize::MAX } else { limit };
    let run = Run { limit: all, threads: 1, ranges: 1 + history.op_count() / super::OPS_PER_RANGE, budget };
    let mut found = run.check(&timeline)?;
    let mut open = Vec::new();
    if any_open && found.count(Axiom::Ext) > 0 {
        open = Asked::new(&timeline, &found).all(&found, run)?;
        leave_out(&mut found, &open);
    }
    tidy(&timeline, &mut found.listed, limit);
    let mut reads: Vec<Violation> = open.iter().map(|(violation, _)| *violation).collect();
    super::explain::classify(&timeline, &mut reads);
    open.iter_mut().zip(reads).for_each(|((violation, _), classified)| *violation = classified);
    Ok(Some(Doubts { found, open }))
}

/// Takes doubtful reads out of what was found.
fn leave_out(found: &mut Findings, open: &[(Violation, Vec<TxnId>)]) {
    let reads: FxHashSet<(TxnId, Option<KeyId>)> = open.iter().map(|(v, _)| (v.txn, v.key)).collect();
    found.listed.retain(|v| v.axiom != Axiom::Ext || !reads.contains(&(v.txn, v.key)));
    found.counts[Axiom::Ext as usize] -= open.len() as u64;
    found.open = open.len() as u64;
}

fn breaks_more_than_sessions(found: &Findings) -> bool {
    Axiom::ALL.iter().any(|&axiom| !matches!(axiom, Axiom::Tie | Axiom::Session) && found.count(axiom) > 0)
}

/// Where certain consequences end.
struct Reached {
    /// Without the reads that are open.
    found: Findings,
    /// Those reads.
    open: Vec<Violation>,
    /// One of these must have committed, if there is a choice.
    choice: Vec<TxnId>,
}

/// Counts the transactions that must have committed.
fn propagate(timeline: &mut Timeline<'_>, run: Run<'_>) -> Result<Reached, OutOfBudget> {
    loop {
        let mut found = Run { limit: usize::MAX, ..run }.check(timeline)?;
        let asked = Asked::new(timeline, &found).all(&found, run)?;
        let forced: Vec<TxnId> = asked
            .iter()
            .filter(|(_, one_of)| one_of.len() == 1)
            .flat_map(|(_, one_of)| one_of.clone())
            .collect();
        if forced.is_empty() {
            let choice = asked.iter().map(|(_, one_of)| one_of).min_by_key(|one_of| one_of.len());
            let choice = choice.cloned().unwrap_or_default();
            leave_out(&mut found, &asked);
            let open: Vec<Violation> = asked.into_iter().map(|(violation, _)| violation).collect();
            return Ok(Reached { found, open, choice });
        }
        for t in forced {
            if let Some(place) = timeline.place(t) {
                timeline.counts[place as usize] = true;
            }
        }
    }
}

/// What became of a search.
enum Search {
    /// A choice that breaks nothing more.
    Found(Findings),
    /// Every choice breaks something.
    None,
    /// Neither.
    GaveUp,
}

/// Looks for a choice, one of which is of these, without violations but so many of SESSION.
fn search(
    timeline: &mut Timeline<'_>,
    run: Run<'_>,
    choice: Vec<TxnId>,
    sessions: u64,
    work: &mut usize,
) -> Result<Search, OutOfBudget> {
    let mut all_break = true;
    for t in choice {
        let Some(place) = timeline.place(t) else { continue };
        let cost = timeline.history.op_count() + timeline.txn_of.len();
        if *work < cost {
            return Ok(Search::GaveUp);
        }
        *work -= cost;
        let before = timeline.counts.clone();
        timeline.counts[place as usize] = true;
        let Reached { found, open, choice } = propagate(timeline, run)?;
        if !breaks_more_than_sessions(&found) {
            let undecided = found.unmatched + found.unjudged > 0 || found.count(Axiom::Session) > sessions;
            if open.is_empty() && !undecided {
                return Ok(Search::Found(found));
            }
            match search(timeline, run, choice, sessions, work)? {
                Search::Found(found) => return Ok(Search::Found(found)),
                Search::None if !open.is_empty() => {}
                _ => all_break = false,
            }
        }
        timeline.counts = before;
    }
    Ok(if all_break { Search::None } else { Search::GaveUp })
}

/// What wrong reads ask for.
struct Asked<'a> {
    timeline: &'a Timeline<'a>,
    /// Of keys with wrong reads: versions that count, and those of transactions of unknown outcome, by
    /// place.
    versions: FxHashMap<KeyId, (Vec<Event>, Vec<Event>)>,
}

impl<'a> Asked<'a> {
    fn new(timeline: &'a Timeline<'a>, found: &Findings) -> Asked<'a> {
        let history = timeline.history;
        let wrong = found.listed.iter().filter(|v| v.axiom == Axiom::Ext);
        let keys: FxHashSet<KeyId> = wrong.filter_map(|v| v.key).collect();
        let mut versions: FxHashMap<KeyId, (Vec<Event>, Vec<Event>)> = FxHashMap::default();
        let (mut ops, mut footprint): (Vec<u32>, Footprint<KeyId>) = Default::default();
        let open = |counts: &bool| !counts;
        let any_open = timeline.counts.iter().any(open);
        for (place, &t) in timeline.txn_of.iter().enumerate().filter(|_| any_open && !keys.is_empty()) {
            ops.clear();
            let wanted = |&i: &u32| keys.contains(&history.heads()[i as usize].key());
            ops.extend(history.op_range(t).map(|i| i as u32).filter(wanted));
            footprint.pass(&Part { history, ops: &ops });
            for written in &footprint.writes {
                let (counted, open) = versions.entry(written.key).or_default();
                let list = if timeline.counts[place] { counted } else { open };
                list.push(Event::version(history, place as u32, &ops, written));
            }
        }
        Asked { timeline, versions }
    }

    /// The wrong reads that ask for one of some transactions.
    fn all(&self, found: &Findings, run: Run<'_>) -> Result<Vec<(Violation, Vec<TxnId>)>, OutOfBudget> {
        let mut checker = Checker::new(self.timeline, 0);
        let mut asked = Vec::new();
        let mut work = ROUND;
        for violation in found.listed.iter().filter(|v| v.axiom == Axiom::Ext) {
            let (Some(key), Some(read)) = (violation.key, violation.read) else { continue };
            let Some((counted, open)) = self.versions.get(&key).filter(|(_, open)| !open.is_empty()) else {
                continue;
            };
            if run.budget.is_spent() {
                return Err(OutOfBudget);
            }
            let cost = (counted.len() + open.len()) * (1 + open.len());
            let one_of = match work.checked_sub(cost) {
                None => open.iter().map(|e| checker.txn(*e)).collect(),
                Some(rest) => {
                    work = rest;
                    Question { key, counted, open, checker: &mut checker }.ask(violation.txn, read)
                }
            };
            if !one_of.is_empty() {
                asked.push((*violation, one_of));
            }
        }
        Ok(asked)
    }
}

/// What may explain reads of one key.
struct Question<'a, 'b> {
    key: KeyId,
    counted: &'a [Event],
    open: &'a [Event],
    checker: &'a mut Checker<'b>,
}

impl Question<'_, '_> {
    /// The transactions one of which must have committed if this read is right.
    fn ask(self, t: TxnId, read: u32) -> Vec<TxnId> {
        let Question { key, counted, open, checker } = self;
        let timeline = checker.timeline;
        let history = timeline.history;
        let Some(place) = timeline.place(t) else { return Vec::new() };
        let op = OpId(history.op_range(t).start as u32 + read);
        let read = Event::read(place, op, history.values()[op.index()]);
        checker.load(key, counted);
        let appended = |e: &Event| appended(history, checker.txn(*e), key).collect();
        let elements: Vec<Vec<Value>> = open.iter().map(appended).collect();
        let seat = |(event, elements): (&Event, _)| {
            (checker.txn(*event), Seat { at: timeline.at(event.place()), event: *event, elements })
        };
        let open: Vec<(TxnId, Seat<'_, '_>)> =
            open.iter().zip(elements.iter().map(Vec::as_slice)).map(seat).collect();
        let scope = checker.scope(place, &checker.ids());
        let seen_by = || checker.seen_by(&scope);
        let asked = asked(timeline.rule, &timeline.at(place), &checker.read(key, read), &open, seen_by);
        asked.unwrap_or_default()
    }
}
