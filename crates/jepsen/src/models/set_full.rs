//! Set, by all of its reads: when did each element become visible, and did it stay?
//!
//! An element is *known* once its `add` was ok or a read that saw it was, whichever came first. A read
//! *misses* it if the read is ok, ended after the `add` began, and does not have it. Reads are ordered by
//! their invocations. An element is
//! - *lost* if the last read that misses it began after the element was known, and no later read saw it;
//! - *stable* if some read saw it and none that began later misses it;
//! - *never read* otherwise;
//! - *stale*, if it is stable and a read that began after it was known misses it.
//!
//! Also `duplicated` (twice in one read) and `unexpected` (read, but no client tried to add it). Invalid if
//! anything is lost, duplicated or unexpected, or, with the option `linearizable`, stale; unknown if
//! nothing is stable.
//!
//! Jepsen's rule, with three differences: it looks for duplicates too, but compares the wrong way round and
//! never finds one; it does not look for unexpected elements; and its stale elements are those missing for
//! a millisecond or more, while order here is that of the file. Latencies are in milliseconds, from the
//! times in the file.
//!
//! O(size of the reads + elements × open reads): reads that miss an element are found from the last one
//! backwards, so each step either pays for an element of a read or is the answer.

use super::set::elements;
use super::{Malformed, ModelResult, Options, Valid, show};
use crate::Why;
use anomalist_history::{Datum, Events, Operation};
use std::collections::{BTreeMap, HashMap};

/// What is known of an element.
#[derive(Default)]
struct Element {
    /// Where its first `add` began.
    began: usize,
    /// Where it became known.
    known: Option<usize>,
    /// The reads that saw it, by their order of invocation, ascending.
    seen_by: Vec<usize>,
    /// The reads open when its `add` began.
    open: Vec<usize>,
}

/// A read with its place; `ended` is also where its completion stands.
struct Read {
    began: usize,
    ended: usize,
}

pub(super) enum Fate {
    Stable,
    Lost,
    NeverRead,
}

/// What became of an element: its fate, and the last reads that saw it and missed it.
struct Outcome {
    fate: Fate,
    stale: bool,
    known: Option<usize>,
    last_seen: Option<usize>,
    last_missed: Option<usize>,
}

pub(super) fn check(events: &Events, options: &Options) -> Result<ModelResult, Malformed> {
    let ops = events.operations();
    let mut reads: Vec<Read> = ops
        .iter()
        .filter(|op| op.is_ok() && events.f(op) == "read")
        .map(|op| Read { began: op.began, ended: op.shown() })
        .collect();
    reads.sort_by_key(|read| (read.began, read.ended));
    let mut tracked = added(events, &ops, &reads);
    let (mut duplicated, mut unexpected): (BTreeMap<&Datum, i64>, BTreeMap<&Datum, ()>) = Default::default();
    for (i, read) in reads.iter().enumerate() {
        let mut counts: HashMap<&Datum, i64> = HashMap::new();
        for element in elements(events.get(read.ended))? {
            *counts.entry(element).or_default() += 1;
        }
        for (element, count) in counts {
            if count > 1 {
                let most = duplicated.entry(element).or_default();
                *most = count.max(*most);
            }
            match tracked.get_mut(element) {
                Some(e) => {
                    e.seen_by.push(i);
                    e.known = Some(e.known.map_or(read.ended, |k| k.min(read.ended)));
                }
                None => drop(unexpected.insert(element, ())),
            }
        }
    }
    let outcomes: BTreeMap<&Datum, Outcome> =
        tracked.iter().map(|(&element, e)| (element, outcome(e, &reads))).collect();
    Ok(result(events, options, &outcomes, &duplicated, unexpected.into_keys().collect()))
}

/// The elements that a client tried to add.
fn added<'e>(events: &'e Events, ops: &[Operation], reads: &[Read]) -> HashMap<&'e Datum, Element> {
    let mut tracked: HashMap<&Datum, Element> = HashMap::new();
    let (mut next, mut open): (usize, Vec<usize>) = (0, Vec::new());
    for op in ops.iter().filter(|op| events.f(op) == "add") {
        while reads.get(next).is_some_and(|read| read.began < op.began) {
            open.push(next);
            next += 1;
        }
        open.retain(|&r| reads[r].ended > op.began);
        let known = op.completion.filter(|_| op.is_ok());
        let element = tracked.entry(events.argument(op)).or_insert_with(|| Element {
            began: op.began,
            open: open.clone(),
            ..Element::default()
        });
        element.known = match (element.known, known) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    tracked
}

fn outcome(e: &Element, reads: &[Read]) -> Outcome {
    let last_seen = e.seen_by.last().map(|&i| reads[i].began);
    let last_missed = last_missed(e, reads);
    let stable = last_seen.is_some() && last_missed < last_seen;
    let missed_since_known = last_missed.is_some_and(|missed| e.known.is_some_and(|known| known < missed));
    let lost = missed_since_known && last_seen < last_missed;
    let fate = match (stable, lost) {
        (true, _) => Fate::Stable,
        (_, true) => Fate::Lost,
        _ => Fate::NeverRead,
    };
    Outcome { stale: stable && missed_since_known, fate, known: e.known, last_seen, last_missed }
}

/// Where the last read that misses an element began.
fn last_missed(e: &Element, reads: &[Read]) -> Option<usize> {
    let mut seen = e.seen_by.iter().rev().peekable();
    // Among those that began after the `add` did, which all ended after it too…
    let after = reads.partition_point(|read| read.began < e.began);
    for i in (after..reads.len()).rev() {
        if seen.next_if_eq(&&i).is_none() {
            return Some(reads[i].began);
        }
    }
    // …and then among those that were open.
    let missed = e.open.iter().rev().find(|i| e.seen_by.binary_search(i).is_err());
    missed.map(|&i| reads[i].began)
}

fn result(
    events: &Events,
    options: &Options,
    outcomes: &BTreeMap<&Datum, Outcome>,
    duplicated: &BTreeMap<&Datum, i64>,
    unexpected: Vec<&Datum>,
) -> ModelResult {
    /// How many of the elements that were missing longest are shown.
    const WORST: usize = 8;
    let pick = |wanted: fn(&Outcome) -> bool| -> Vec<&Datum> {
        outcomes.iter().filter(|(_, o)| wanted(o)).map(|(&e, _)| e).collect()
    };
    let stable = pick(|o| matches!(o.fate, Fate::Stable));
    let lost = pick(|o| matches!(o.fate, Fate::Lost));
    let never = pick(|o| matches!(o.fate, Fate::NeverRead));
    let stale = pick(|o| o.stale);
    let time = |position: usize| events.get(position).time;
    // From when it was known to when it stayed visible (or invisible): just after the last read to the
    // contrary.
    let latency = |o: &Outcome| -> Option<i64> {
        let known = time(o.known?)?;
        let until = match o.fate {
            Fate::Stable => o.last_missed,
            Fate::Lost => o.last_seen,
            Fate::NeverRead => return None,
        };
        let since = until.map_or(Some(0), time)?;
        Some((since - known).max(0) / 1_000_000)
    };
    let latencies = |wanted: fn(&Outcome) -> bool| -> Vec<i64> {
        let mut all: Vec<i64> = outcomes.values().filter(|o| wanted(o)).filter_map(latency).collect();
        all.sort_unstable();
        all
    };
    let mut worst: Vec<(&Datum, &Outcome)> =
        outcomes.iter().filter(|(_, o)| o.stale).map(|(&e, o)| (e, o)).collect();
    worst.sort_by_key(|(_, o)| std::cmp::Reverse((latency(o), o.last_missed)));
    let worst = worst.iter().take(WORST).map(|(element, o)| {
        let show = |position: Option<usize>| position.map_or(Datum::Nil, |p| events.datum(p));
        Datum::map([
            ("element", (*element).clone()),
            ("outcome", Datum::keyword("stable")),
            ("stable-latency", latency(o).map_or(Datum::Nil, Datum::Int)),
            ("known", show(o.known)),
            ("last-absent", show(o.last_missed)),
        ])
    });
    let bad = !lost.is_empty() || !duplicated.is_empty() || !unexpected.is_empty();
    let valid = if bad || (options.linearizable && !stale.is_empty()) {
        Valid::False
    } else if stable.is_empty() {
        Valid::Unknown(Why::NothingStable)
    } else {
        Valid::True
    };
    let mut details = vec![
        ("attempt-count", Datum::count(outcomes.len())),
        ("stable-count", Datum::count(stable.len())),
        ("lost-count", Datum::count(lost.len())),
        ("lost", show::sorted_list(lost)),
        ("never-read-count", Datum::count(never.len())),
        ("never-read", show::sorted_list(never)),
        ("stale-count", Datum::count(stale.len())),
        ("stale", show::sorted_list(stale)),
        ("worst-stale", Datum::List(worst.collect())),
        ("duplicated-count", Datum::count(duplicated.len())),
        ("duplicated", Datum::Map(duplicated.iter().map(|(&e, &n)| (e.clone(), Datum::Int(n))).collect())),
        ("unexpected-count", Datum::count(unexpected.len())),
        ("unexpected", show::sorted_list(unexpected)),
    ];
    details.extend(distribution("stable-latencies", &latencies(|o| matches!(o.fate, Fate::Stable))));
    details.extend(distribution("lost-latencies", &latencies(|o| matches!(o.fate, Fate::Lost))));
    ModelResult::new(valid, details)
}

/// Quantiles of sorted numbers, as Jepsen gives them.
fn distribution(name: &'static str, sorted: &[i64]) -> Option<(&'static str, Datum)> {
    let last = sorted.len().checked_sub(1)?;
    let at = |point: &str, share: f64| {
        let i = ((sorted.len() as f64 * share) as usize).min(last);
        (Datum::Number(point.into()), Datum::Int(sorted[i]))
    };
    let points = [("0", 0.0), ("0.5", 0.5), ("0.95", 0.95), ("0.99", 0.99), ("1", 1.0)];
    Some((name, Datum::Map(points.map(|(point, share)| at(point, share)).to_vec())))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events, expect, judge, judge_with};
    use super::super::{Model, Options, Valid};
    use anomalist_history::{Datum, Events};
    use std::collections::BTreeMap;

    #[test]
    fn elements_are_stable_lost_stale_or_never_read() {
        let add = "0 invoke add 1; 0 ok add 1; ";
        expect(Model::SetFull, &format!("{add} 1 invoke read; 1 ok read [1]"), true);
        let lost = expect(Model::SetFull, &format!("{add} 1 invoke read; 1 ok read []"), false);
        assert_eq!(lost.get("lost").unwrap().to_string(), "[1]");
        let gone = format!("{add} 1 invoke read; 1 ok read [1]; 1 invoke read; 1 ok read []");
        expect(Model::SetFull, &gone, false);
        // Missing once, then back: stale, wrong only where linearizable is asked for.
        let stale = format!("{add} 1 invoke read; 1 ok read []; 1 invoke read; 1 ok read [1]");
        assert_eq!(expect(Model::SetFull, &stale, true).get("stale-count"), Some(&Datum::Int(1)));
        let strict = Options { linearizable: true, ..Options::default() };
        assert_eq!(judge_with(Model::SetFull, &stale, &strict).valid, Valid::False);
        // An add that was not acknowledged and that no read shows.
        let result = judge(Model::SetFull, "0 invoke add 1; 0 info add 1; 1 invoke read; 1 ok read []");
        assert!(matches!(result.valid, Valid::Unknown(_)));
        assert_eq!(result.details.get("never-read-count"), Some(&Datum::Int(1)));
    }

    #[test]
    fn duplicates_and_garbage() {
        let add = "0 invoke add 1; 0 ok add 1; 1 invoke read; ";
        assert_eq!(
            expect(Model::SetFull, &format!("{add} 1 ok read [1 1]"), false)
                .get("duplicated")
                .unwrap()
                .to_string(),
            "{1 2}"
        );
        assert_eq!(
            expect(Model::SetFull, &format!("{add} 1 ok read [1 7]"), false)
                .get("unexpected")
                .unwrap()
                .to_string(),
            "[7]"
        );
    }

    #[test]
    fn latencies_come_from_the_times() {
        let mut list: Vec<_> =
            events("0 invoke add 1; 0 ok add 1; 1 invoke read; 1 ok read []; 1 invoke read; 1 ok read [1]")
                .iter()
                .cloned()
                .collect();
        for (i, event) in list.iter_mut().enumerate() {
            event.time = Some(i as i64 * 5_000_000);
        }
        let result = super::check(&Events::new(list), &Options::default()).unwrap();
        let latencies = result.details.get("stable-latencies").unwrap();
        assert_eq!(latencies.to_string(), "{0 5, 0.5 5, 0.95 5, 0.99 5, 1 5}");
        assert_eq!(result.details.get("worst-stale").unwrap().as_list().unwrap().len(), 1);
    }

    /// The fates, straight from the header.
    fn definition(events: &Events) -> BTreeMap<Datum, &'static str> {
        let ops = events.operations();
        let reads: Vec<_> = ops.iter().filter(|o| o.is_ok() && events.f(o) == "read").collect();
        let adds: Vec<_> = ops.iter().filter(|o| events.f(o) == "add").collect();
        let mut fates = BTreeMap::new();
        for add in &adds {
            let element = events.argument(add);
            let same = || adds.iter().filter(|a| events.argument(a) == element);
            let sees = |position: usize| events.get(position).value.as_list().unwrap().contains(element);
            let known = same()
                .filter(|a| a.is_ok())
                .map(|a| a.shown())
                .chain(reads.iter().map(|r| r.shown()).filter(|&p| sees(p)))
                .min();
            let began = same().map(|a| a.began).min().unwrap();
            let misses = reads.iter().filter(|r| r.shown() > began && !sees(r.shown()));
            let last_missed = misses.map(|r| r.began).max();
            let last_seen = reads.iter().filter(|r| sees(r.shown())).map(|r| r.began).max();
            let stable = last_seen.is_some_and(|seen| last_missed.is_none_or(|missed| missed < seen));
            let since = known.zip(last_missed).is_some_and(|(known, missed)| known < missed);
            let lost = since && last_seen.is_none_or(|seen| seen < last_missed.unwrap());
            let fate = match (stable, lost, since) {
                (true, _, true) => "stale",
                (true, _, _) => "stable",
                (_, true, _) => "lost",
                _ => "never-read",
            };
            fates.insert(element.clone(), fate);
        }
        fates
    }

    #[test]
    fn intervals_equal_the_definition() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..4000 {
            let mut text = String::new();
            let mut open: [Option<String>; 4] = Default::default();
            for _ in 0..rng.usize(4..20) {
                let p = rng.usize(..4);
                match open[p].take() {
                    Some(op) if op.starts_with("add") => {
                        let kind = rng.choice(["ok", "ok", "info"]).unwrap();
                        text += &format!("{p} {kind} {op}; ");
                    }
                    Some(_) => {
                        let seen: Vec<String> =
                            (0..4).filter(|_| rng.u8(..3) > 0).map(|i| i.to_string()).collect();
                        text += &format!("{p} ok read [{}]; ", seen.join(" "));
                    }
                    None => {
                        let op = if rng.bool() { format!("add {}", rng.u8(..4)) } else { "read nil".into() };
                        text += &format!("{p} invoke {op}; ");
                        open[p] = Some(op);
                    }
                }
            }
            let events = events(&text);
            let details = super::check(&events, &Options::default()).unwrap().details;
            let of = |name: &str| details.get(name).unwrap().as_list().unwrap().to_vec();
            let expected = definition(&events);
            let fated = |fate: &str| -> Vec<Datum> {
                expected.iter().filter(|(_, f)| **f == fate).map(|(e, _)| e.clone()).collect()
            };
            assert_eq!(of("lost"), fated("lost"), "{text}");
            assert_eq!(of("stale"), fated("stale"), "{text}");
            assert_eq!(of("never-read"), fated("never-read"), "{text}");
        }
    }
}
