//! Comments: a read that sees a write sees every write that was done before it began.
//!
//! `write` x puts x, `read` returns all that is there. For each ok read and each write it returned: every
//! write that was ok before that one was invoked must be in the read too. A read that misses one saw an
//! effect without its cause (causal reverse): not strictly serializable, though perhaps serializable.
//! Values may be `[key value]`, as Jepsen writes them when it runs several of these at once; each key is
//! then judged by itself.
//!
//! Jepsen's intention; elle-cli names the model but cannot run it. What was done before a write began only
//! grows with the time of its invocation, so a read is judged by the latest write it returned: O(size of
//! the reads).

use super::set::elements;
use super::{Malformed, ModelResult, Valid, show};
use crate::Why;
use anomalist_history::{Datum, Event, Events, Operation};
use std::collections::{BTreeMap, HashMap, HashSet};

/// One run of the workload.
#[derive(Default)]
struct Run<'e> {
    /// Where each write began.
    began: HashMap<&'e Datum, usize>,
    /// Writes that were ok, by where they ended.
    done: Vec<(usize, &'e Datum)>,
    /// Where each ok read completed, and what it returned.
    reads: Vec<(usize, &'e [Datum])>,
}

pub(super) fn check(events: &Events) -> Result<ModelResult, Malformed> {
    let ops = events.operations();
    let keyed = is_keyed(events, &ops);
    let mut runs: BTreeMap<&Datum, Run<'_>> = BTreeMap::new();
    for op in ops.iter().filter(|op| !op.failed()) {
        match events.f(op) {
            "write" | "insert" | "add" => {
                let event = events.get(op.invocation.unwrap_or(op.shown()));
                let (key, id) = split(event, keyed)?;
                let run = runs.entry(key).or_default();
                run.began.entry(id).and_modify(|b| *b = op.began.min(*b)).or_insert(op.began);
                if let (true, Some(end)) = (op.is_ok(), op.completion) {
                    run.done.push((end, id));
                }
            }
            "read" if op.is_ok() => {
                let event = events.get(op.shown());
                let (key, seen) = match (keyed, event.value.as_pair()) {
                    (true, Some((key, seen))) if seen.as_list().is_some() || seen.is_nil() => {
                        (key, seen.as_list().unwrap_or_default())
                    }
                    (true, _) => return Err(Malformed::new(event, "a key with a list")),
                    (false, _) => (&Datum::Nil, elements(event)?),
                };
                runs.entry(key).or_default().reads.push((op.shown(), seen));
            }
            _ => {}
        }
    }
    let read_count: usize = runs.values().map(|run| run.reads.len()).sum();
    let mut errors = Vec::new();
    for run in runs.values_mut() {
        run.done.sort_unstable();
        for &(position, seen) in &run.reads {
            errors.extend(judge(run, seen).map(|(missing, expected)| (position, missing, expected)));
        }
    }
    errors.sort_by_key(|(position, ..)| *position);
    let shown = errors.iter().map(|(position, missing, expected)| {
        Datum::map([
            ("op", events.datum(*position)),
            ("missing", show::sorted_list(missing.iter().copied())),
            ("expected-count", Datum::count(*expected)),
        ])
    });
    let details = [("read-count", Datum::count(read_count)), ("errors", Datum::List(shown.collect()))];
    let valid = match read_count {
        0 => Valid::Unknown(Why::NoRead),
        _ => errors.is_empty().into(),
    };
    Ok(ModelResult::new(valid, details))
}

/// True if every write is of a key and a value.
fn is_keyed(events: &Events, ops: &[Operation]) -> bool {
    let mut writes = ops.iter().filter(|op| events.f(op) != "read").peekable();
    writes.peek().is_some() && writes.all(|op| events.argument(op).as_pair().is_some())
}

fn split(event: &Event, keyed: bool) -> Result<(&Datum, &Datum), Malformed> {
    match event.value.as_pair() {
        Some(pair) if keyed => Ok(pair),
        None if keyed => Err(Malformed::new(event, "a key with a value")),
        _ => Ok((&Datum::Nil, &event.value)),
    }
}

/// What a read misses of what it should have seen, and how much that was.
fn judge<'e>(run: &Run<'e>, seen: &[Datum]) -> Option<(Vec<&'e Datum>, usize)> {
    let latest = seen.iter().filter_map(|id| run.began.get(id)).max()?;
    let expected = &run.done[..run.done.partition_point(|(end, _)| end < latest)];
    let seen: HashSet<&Datum> = seen.iter().collect();
    let missing: Vec<&Datum> = expected.iter().map(|(_, id)| *id).filter(|id| !seen.contains(id)).collect();
    (!missing.is_empty()).then_some((missing, expected.len()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{expect, judge};
    use super::super::{Model, Valid};

    #[test]
    fn causes_come_with_their_effects() {
        let writes = "0 invoke write 1; 0 ok write 1; 0 invoke write 2; 0 ok write 2; 1 invoke read;";
        expect(Model::Comments, &format!("{writes} 1 ok read [1 2]"), true);
        expect(Model::Comments, &format!("{writes} 1 ok read [1]"), true);
        expect(Model::Comments, &format!("{writes} 1 ok read []"), true);
        let details = expect(Model::Comments, &format!("{writes} 1 ok read [2]"), false);
        let error = &details.get("errors").unwrap().as_list().unwrap()[0];
        assert_eq!(error.get("missing").unwrap().to_string(), "[1]");
        // Concurrent and indeterminate writes need not be seen.
        expect(
            Model::Comments,
            "0 invoke write 1; 1 invoke write 2; 0 ok write 1; 1 ok write 2; 2 ok read [2]",
            true,
        );
        expect(
            Model::Comments,
            "0 invoke write 1; 0 info write 1; 1 invoke write 2; 1 ok write 2; 2 ok read [2]",
            true,
        );
        assert!(matches!(judge(Model::Comments, "0 invoke write 1").valid, Valid::Unknown(_)));
    }

    #[test]
    fn keys_are_judged_apart() {
        let text = "0 invoke write [:a 1]; 0 ok write [:a 1]; 0 invoke write [:b 2]; 0 ok write [:b 2]; ";
        expect(Model::Comments, &format!("{text} 1 ok read [:b [2]]"), true);
        expect(
            Model::Comments,
            &format!("{text} 0 invoke write [:b 3]; 0 ok write [:b 3]; 1 ok read [:b [3]]"),
            false,
        );
    }

    #[test]
    fn the_latest_write_stands_for_all() {
        let mut rng = fastrand::Rng::with_seed(8);
        for _ in 0..3000 {
            let mut text = String::new();
            let (mut open, mut next): ([Option<u32>; 3], u32) = Default::default();
            for _ in 0..rng.usize(2..12) {
                let p = rng.usize(..3);
                match open[p].take() {
                    Some(id) => {
                        text +=
                            &format!("{p} {} write {id}; ", rng.choice(["ok", "ok", "info", "fail"]).unwrap())
                    }
                    None => {
                        text += &format!("{p} invoke write {next}; ");
                        open[p] = Some(next);
                        next += 1;
                    }
                }
            }
            let seen: Vec<u32> = (0..next).filter(|_| rng.u8(..3) > 0).collect();
            let shown: Vec<String> = seen.iter().map(u32::to_string).collect();
            text += &format!("9 ok read [{}]", shown.join(" "));
            // The rule as the header has it: each write seen brings all that were ok before it was invoked.
            let events = super::super::testing::events(&text);
            let ops = events.operations();
            let id = |op: &anomalist_history::Operation| events.argument(op).as_int().map(|i| i as u32);
            let writes = || ops.iter().filter(|op| events.f(op) == "write" && !op.failed());
            let broken = writes().filter(|w| id(w).is_some_and(|i| seen.contains(&i))).any(|w| {
                writes()
                    .any(|c| c.is_ok() && c.shown() < w.began && id(c).is_some_and(|i| !seen.contains(&i)))
            });
            expect(Model::Comments, &text, !broken);
        }
    }
}
