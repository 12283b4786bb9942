//! Counters: additions that cannot be distinguished, and reads of their sum.
//!
//! If only numbers above zero are added, the counter only grows, and values that were read are versions in
//! their order: a transaction stands for whichever addition made each. Who read a smaller value precedes
//! the addition that made the next larger one seen (rw), which precedes any transaction that read that
//! (wr). This is the paper's inference for counters, with the anti-dependency counted as one.
//!
//! Sums say more. With Σ all additions that may have happened, a read of v surely saw an addition of n
//! if v > Σ − n, and surely missed it if v < n. And with real time (`models/counter.rs`): who reads less
//! than all that was surely added before it began missed one of those; who reads more than all that began
//! before it ended saw one that began later. Which one is open, so a transaction stands for it. A value
//! beyond Σ comes from thin air.
//!
//! Where something below zero is added, only the bounds are used. O(n log n), and one edge per certain
//! pair, up to a limit.

use super::recorder::Recorder;
use super::{Datatype, Dependency, LowerError, Lowered};
use crate::models::bounded_reads;
use anomalist_history::{Draft, Events, KeyId, OpKind, Operation};
use anomalist_level::Why;
use std::collections::BTreeMap;

/// Pairs of an addition and a read that surely saw or missed it, at most.
const PAIRS: usize = 2_000_000;

/// A read: its value, its transaction, and where its operation is.
type Read = (i64, Draft, (Draft, usize));

pub(super) fn lower(events: &Events) -> Result<Lowered, LowerError> {
    let bounds = bounded_reads(events)?;
    let ops = events.operations();
    let mut recorder = Recorder::new(events, &ops);
    let possible: Vec<(&Operation, i64)> =
        ops.iter().filter(|op| !op.failed()).filter_map(|op| Some((op, value(events, op)?))).collect();
    let adds = || possible.iter().filter(|(op, _)| events.f(op) != "read").map(|&(_, n)| i128::from(n));
    let sums = Sums {
        least: adds().map(|n| n.min(0)).sum(),
        most: adds().map(|n| n.max(0)).sum(),
        grows: adds().all(|n| n >= 0),
    };
    let counter = recorder.key("counter");
    let zero = recorder.builder.int(0);
    recorder.builder.set_initial(counter, zero);
    let (mut read, mut added): (Vec<Read>, Vec<(i128, Draft)>) = (Vec::new(), Vec::new());
    let mut draft_at: BTreeMap<usize, Draft> = BTreeMap::new();
    for &(op, v) in &possible {
        let shown = recorder.builder.int(v);
        if events.f(op) != "read" {
            let draft = recorder.transaction(op);
            // A key of its own, so that the addition shows in examples.
            let key = recorder.key(&format!("addition {}", op.shown()));
            recorder.op(draft, OpKind::Write, key, shown);
            added.push((i128::from(v), draft));
        } else if op.is_ok() {
            let draft = recorder.transaction(op);
            let key = if sums.grows { counter } else { recorder.key(&format!("counter at {}", op.shown())) };
            if !sums.grows && sums.allow(v) {
                // Values may come back, so they are no versions: the read stands for itself.
                recorder.builder.set_initial(key, shown);
            }
            let at = recorder.op(draft, OpKind::Read, key, shown);
            draft_at.insert(op.shown(), draft);
            read.push((v, draft, at));
        }
    }
    if sums.grows {
        versions(&mut recorder, counter, &read, &sums);
        certain(&mut recorder, &read, added, sums.most);
    }
    for read in bounds.iter().filter(|read| !read.holds() && sums.allow(read.value)) {
        let Some(&draft) = draft_at.get(&read.position) else { continue };
        out_of_bounds(&mut recorder, draft, i128::from(read.value), read.lower, read.upper);
    }
    recorder.finish(Datatype::Counter, Some(Why::CounterReads))
}

/// What all additions that may have happened come to.
struct Sums {
    least: i128,
    most: i128,
    /// Nothing below zero was added.
    grows: bool,
}

impl Sums {
    fn allow(&self, value: i64) -> bool {
        (self.least..=self.most).contains(&i128::from(value))
    }
}

fn value(events: &Events, op: &Operation) -> Option<i64> {
    match events.f(op) {
        "read" => events.result(op).as_int(),
        "add" | "increment" | "inc" => events.argument(op).as_int(),
        _ => None,
    }
}

/// A writer for every value that was read and can be, in order.
fn versions(recorder: &mut Recorder<'_>, counter: KeyId, reads: &[Read], sums: &Sums) {
    let mut readers: BTreeMap<i64, Vec<&Read>> = BTreeMap::new();
    for read in reads.iter().filter(|read| sums.allow(read.0)) {
        readers.entry(read.0).or_default().push(read);
    }
    let mut before: Option<(i64, Draft, &[&Read])> = None;
    // Who read 0 read the initial value, and precedes all writers anyhow.
    for (&v, readers) in readers.iter().filter(|(v, _)| **v != 0) {
        let writer = recorder.stand_in(&format!("the addition that made it {v}"));
        let shown = recorder.builder.int(v);
        recorder.op(writer, OpKind::Write, counter, shown);
        if let Some((smaller, earlier, older)) = before {
            let reason = format!("the counter only grows, and {smaller} is less than {v}");
            recorder.depends(
                earlier,
                writer,
                Dependency::Ww,
                reason.clone(),
                vec![(earlier, 0), (writer, 0)],
            );
            for read in older {
                recorder.depends(read.1, writer, Dependency::Rw, reason.clone(), vec![read.2, (writer, 0)]);
            }
        }
        before = Some((v, writer, readers));
    }
}

/// Additions that a read surely saw or missed, by their size.
fn certain(recorder: &mut Recorder<'_>, reads: &[Read], mut adds: Vec<(i128, Draft)>, most: i128) {
    adds.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = PAIRS;
    for &(v, reader, at) in reads {
        let v = i128::from(v);
        if !(0..=most).contains(&v) {
            continue;
        }
        for &(n, adder) in adds.iter().take_while(|(n, _)| *n > most - v).take(left) {
            left -= 1;
            let reason = format!("without this addition of {n} there could be no more than {}", most - n);
            recorder.depends(adder, reader, Dependency::Wr, reason, vec![(adder, 0), at]);
        }
        for &(n, adder) in adds.iter().take_while(|(n, _)| *n > v).take(left) {
            left -= 1;
            let reason = format!("{v} cannot include this addition of {n}");
            recorder.depends(reader, adder, Dependency::Rw, reason, vec![at, (adder, 0)]);
        }
    }
}

/// A read that missed what was there, or saw what was not, in real time.
fn out_of_bounds(recorder: &mut Recorder<'_>, reader: Draft, value: i128, lower: i128, upper: i128) {
    if value < lower {
        let other = recorder.stand_in(&format!("an addition before {}", reader.0));
        let missed = format!("{value} is less than the {lower} that was surely added before");
        recorder.depends(reader, other, Dependency::Rw, missed, vec![(reader, 0)]);
        let done = "it was done before the read began".to_owned();
        recorder.depends(other, reader, Dependency::Rt, done, Vec::new());
    } else if value > upper {
        let other = recorder.stand_in(&format!("an addition after {}", reader.0));
        let seen = format!("{value} is more than the {upper} that could have been added by then");
        recorder.depends(other, reader, Dependency::Wr, seen, vec![(reader, 0)]);
        let later = "it began after the read had ended".to_owned();
        recorder.depends(reader, other, Dependency::Rt, later, Vec::new());
    }
}
