//! Long fork: each key is written once, by a transaction of its own, and reads look at whole groups of keys.
//!
//! Two reads of one group are a fork if one sees a write that the other does not, and the other way round:
//! then neither order of the two writes explains both, which snapshot isolation forbids and parallel
//! snapshot isolation allows.
//!
//! Writes are operations of one `[:w k v]`, reads of `[:r k v]` only. Invalid if there is a fork. Unknown
//! if a key is written twice or read with two values, or if a read does not have as many keys as
//! `group_size` says (when given; without it, reads of the same keys form a group). Reads that see nothing
//! (`early`) or everything (`late`) are counted: if all are, the run was not a test. Jepsen's rule and
//! keys; `fork-count` counts pairs of reads, of which `forks` shows one per pair of states.
//!
//! A group has no fork iff its reads, sorted by how many writes they see, are a chain of subsets: O(size of
//! the reads), where there is none.

use super::{Malformed, ModelResult, Options, Valid};
use crate::Why;
use anomalist_check::Budget;
use anomalist_history::{Datum, Events, Operation};
use std::collections::BTreeMap;

/// How many forks are shown.
const SHOWN: usize = 64;

/// One micro-operation: is it a write, its key, its value.
type Mop<'e> = (bool, &'e Datum, &'e Datum);

/// A read: key and value, sorted by key.
type State<'e> = Vec<(&'e Datum, &'e Datum)>;

/// Distinct states of a group, each with the reads that saw it.
type Group<'e> = BTreeMap<Vec<bool>, Vec<usize>>;

pub(super) fn check(
    events: &Events,
    options: &Options,
    budget: &Budget<'_>,
) -> Result<ModelResult, Malformed> {
    let mut reads: Vec<(usize, State<'_>)> = Vec::new();
    let mut written: BTreeMap<&Datum, usize> = BTreeMap::new();
    for op in events.operations().iter().filter(|op| !op.failed()) {
        let mops = mops(events, op)?;
        for (_, key, _) in mops.iter().filter(|mop| mop.0) {
            *written.entry(key).or_default() += 1;
        }
        if op.is_ok() && !mops.is_empty() && mops.iter().all(|mop| !mop.0) {
            let mut state: State<'_> = mops.into_iter().map(|(_, key, value)| (key, value)).collect();
            state.sort_unstable();
            reads.push((op.shown(), state));
        }
    }
    reads.sort_by_key(|read| read.0);
    let early = reads.iter().filter(|(_, state)| state.iter().all(|(_, v)| v.is_nil())).count();
    let late = reads.iter().filter(|(_, state)| state.iter().all(|(_, v)| !v.is_nil())).count();
    let counts = vec![
        ("reads-count", Datum::count(reads.len())),
        ("early-read-count", Datum::count(early)),
        ("late-read-count", Datum::count(late)),
    ];
    if let Some(reason) = illegal(&reads, &written, options) {
        return Ok(ModelResult::new(Valid::Unknown(reason), counts));
    }
    let mut groups: BTreeMap<Vec<&Datum>, Group<'_>> = BTreeMap::new();
    for (position, state) in &reads {
        let keys = state.iter().map(|(key, _)| *key).collect();
        let seen = state.iter().map(|(_, value)| !value.is_nil()).collect();
        groups.entry(keys).or_default().entry(seen).or_default().push(*position);
    }
    let (mut forks, mut count) = (Vec::new(), 0u64);
    for group in groups.values() {
        if budget.is_spent() {
            let valid = if forks.is_empty() { Valid::Unknown(Why::GroupsLeft) } else { Valid::False };
            return Ok(answer(events, valid, counts, &forks, count));
        }
        find_forks(group, &mut forks, &mut count);
    }
    Ok(answer(events, forks.is_empty().into(), counts, &forks, count))
}

fn answer(
    events: &Events,
    valid: Valid,
    mut details: Vec<(&'static str, Datum)>,
    forks: &[(usize, usize)],
    count: u64,
) -> ModelResult {
    if !forks.is_empty() {
        let pair = |&(a, b): &(usize, usize)| Datum::List(vec![events.datum(a), events.datum(b)]);
        details.push(("forks", Datum::List(forks.iter().map(pair).collect())));
        details.push((
            "anomalist",
            Datum::map([("fork-count", Datum::Int(i64::try_from(count).unwrap_or(i64::MAX)))]),
        ));
    }
    ModelResult::new(valid, details)
}

/// The micro-operations of a transaction.
fn mops<'e>(events: &'e Events, op: &Operation) -> Result<Vec<Mop<'e>>, Malformed> {
    let event = events.get(op.shown());
    let malformed = || Malformed::new(event, "micro-operations such as [[:w 3 1]] or [[:r 3 nil] [:r 4 1]]");
    let mops = event.value.as_list().ok_or_else(malformed)?;
    let mop = |mop: &'e Datum| match mop.as_list() {
        Some([f, key, value]) => match f.as_name() {
            Some("w" | "write") => Ok((true, key, value)),
            Some("r" | "read") => Ok((false, key, value)),
            _ => Err(malformed()),
        },
        _ => Err(malformed()),
    };
    mops.iter().map(mop).collect()
}

/// Why the history is not one of this workload.
fn illegal(
    reads: &[(usize, State<'_>)],
    written: &BTreeMap<&Datum, usize>,
    options: &Options,
) -> Option<Why> {
    if let Some((key, _)) = written.iter().find(|(_, count)| **count > 1) {
        return Some(Why::RewrittenKey { key: (*key).clone() });
    }
    let size = options.group_size.filter(|size| *size > 0);
    let mut values: BTreeMap<&Datum, &Datum> = BTreeMap::new();
    for (_, state) in reads {
        if let Some(group) = size.filter(|&size| size != state.len()) {
            return Some(Why::GroupSize { read: state.len(), group });
        }
        for &(key, value) in state.iter().filter(|(_, value)| !value.is_nil()) {
            let known = values.entry(key).or_insert(value);
            if *known != value {
                let values = [(*known).clone(), value.clone()];
                return Some(Why::SeveralValues { key: key.clone(), values });
            }
        }
    }
    None
}

fn find_forks(group: &Group<'_>, forks: &mut Vec<(usize, usize)>, count: &mut u64) {
    let below = |a: &[bool], b: &[bool]| a.iter().zip(b).all(|(a, b)| !a || *b);
    let mut states: Vec<(&Vec<bool>, &Vec<usize>)> = group.iter().collect();
    states.sort_by_key(|(state, reads)| (state.iter().filter(|seen| **seen).count(), reads[0]));
    if states.is_sorted_by(|a, b| below(a.0, b.0)) {
        return;
    }
    for (i, (a, first)) in states.iter().enumerate() {
        for (b, second) in &states[i + 1..] {
            if !below(a, b) && !below(b, a) {
                *count += first.len() as u64 * second.len() as u64;
                if forks.len() < SHOWN {
                    forks.push((first[0].min(second[0]), first[0].max(second[0])));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{expect, judge, judge_with};
    use super::super::{Model, Options, Valid};
    use anomalist_history::Datum;

    const WRITES: &str = "0 invoke write [[:w 1 1]]; 0 ok write [[:w 1 1]]; 1 invoke write [[:w 2 1]]; 1 ok write [[:w 2 1]]; ";

    #[test]
    fn reads_must_be_a_chain() {
        let chain = format!(
            "{WRITES} 2 ok read [[:r 1 nil] [:r 2 nil]]; 2 ok read [[:r 2 nil] [:r 1 1]]; 2 ok read [[:r 1 1] [:r 2 1]]"
        );
        let details = expect(Model::LongFork, &chain, true);
        let get = |key| details.get(key).unwrap().as_int().unwrap();
        assert_eq!([get("reads-count"), get("early-read-count"), get("late-read-count")], [3, 1, 1]);
        let fork = format!("{WRITES} 2 ok read [[:r 1 nil] [:r 2 1]]; 3 ok read [[:r 1 1] [:r 2 nil]]");
        let details = expect(Model::LongFork, &fork, false);
        assert_eq!(details.get("forks").unwrap().as_list().unwrap().len(), 1);
        assert_eq!(details.get("anomalist").unwrap().get("fork-count"), Some(&Datum::Int(1)));
        // Of different groups.
        let apart = format!("{WRITES} 2 ok read [[:r 1 nil] [:r 2 1]]; 3 ok read [[:r 1 1] [:r 3 nil]]");
        expect(Model::LongFork, &apart, true);
    }

    #[test]
    fn other_histories_say_nothing() {
        let unknown = |text: &str| matches!(judge(Model::LongFork, text).valid, Valid::Unknown(_));
        assert!(unknown("0 invoke write [[:w 1 1]]; 1 invoke write [[:w 1 2]]"));
        assert!(unknown("0 ok read [[:r 1 1]]; 0 ok read [[:r 1 2]]"));
        let sized = Options { group_size: Some(2), ..Options::default() };
        let result = judge_with(Model::LongFork, "0 ok read [[:r 1 1]]", &sized);
        assert_eq!(result.valid, Valid::Unknown(crate::Why::GroupSize { read: 1, group: 2 }));
    }

    #[test]
    fn a_chain_of_subsets_is_no_fork_and_nothing_else_is() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            let reads: Vec<Vec<bool>> =
                (0..rng.usize(1..5)).map(|_| (0..3).map(|_| rng.bool()).collect()).collect();
            let text: Vec<String> = reads
                .iter()
                .map(|read| {
                    let mops = read
                        .iter()
                        .enumerate()
                        .map(|(k, seen)| format!("[:r {k} {}]", if *seen { "1" } else { "nil" }));
                    format!("0 ok read [{}]", mops.collect::<Vec<_>>().join(" "))
                })
                .collect();
            let ahead = |a: &[bool], b: &[bool]| a.iter().zip(b).any(|(a, b)| *a && !*b);
            let forks = (0..reads.len())
                .flat_map(|i| (0..i).map(move |j| (i, j)))
                .filter(|&(i, j)| ahead(&reads[i], &reads[j]) && ahead(&reads[j], &reads[i]))
                .count();
            let details = expect(Model::LongFork, &text.join("; "), forks == 0);
            let counted =
                details.get("anomalist").map_or(0, |i| i.get("fork-count").unwrap().as_int().unwrap());
            assert_eq!(counted, forks as i64, "{text:?}");
        }
    }
}
