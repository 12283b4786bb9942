//! Whether a list is what transactions appended, in some order that keeps commits and sessions.
//!
//! By sets of states: a state is what is left of each session's blocks, and equal rests are the same. All
//! states after one more block are worked out from those before it. Exact, and given up where there are too
//! many.

use anomalist_history::Value;
use std::collections::BTreeSet;

/// States of one list that are looked at.
const STATES: usize = 50_000;

/// The blocks of one session with one commit, of which the first so many must be there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Chain<'a> {
    pub required: usize,
    pub blocks: Vec<&'a [Value]>,
}

/// What is left of a session: how many blocks are required, and the blocks.
type Rest<'a> = (usize, &'a [&'a [Value]]);

/// Whether a list is the chains of one group after the other, each group shuffled; `None` if that is too
/// much work.
pub(super) fn is_shuffle(groups: &[Vec<Chain<'_>>], list: &[Value]) -> Option<bool> {
    let mut states = STATES;
    // The places in the list where the next group may begin.
    let mut offsets = BTreeSet::from([0]);
    for group in groups {
        let mut ends = BTreeSet::new();
        for &offset in &offsets {
            let segment = list.get(offset..)?;
            ends.extend(after(group, segment, &mut states)?.into_iter().map(|end| offset + end));
        }
        offsets = ends;
    }
    Some(offsets.contains(&list.len()))
}

/// How much of a list a group may take.
fn after(group: &[Chain<'_>], list: &[Value], states: &mut usize) -> Option<BTreeSet<usize>> {
    let start: Vec<Rest<'_>> = group.iter().map(|chain| (chain.required, &chain.blocks[..])).collect();
    let mut reached: BTreeSet<(usize, Vec<Rest<'_>>)> = BTreeSet::from([(0, start)]);
    let mut ends = BTreeSet::new();
    while !reached.is_empty() {
        let mut further = BTreeSet::new();
        for (offset, rests) in &reached {
            *states = states.checked_sub(1)?;
            if rests.iter().all(|(required, _)| *required == 0) {
                ends.insert(*offset);
            }
            for (i, (required, blocks)) in rests.iter().enumerate() {
                let Some((block, blocks)) = blocks.split_first() else { continue };
                if rests[..i].contains(&rests[i]) || !list[*offset..].starts_with(block) {
                    continue;
                }
                let mut next = rests.clone();
                next[i] = (required.saturating_sub(1), blocks);
                next.sort_unstable();
                further.insert((offset + block.len(), next));
            }
        }
        reached = further;
    }
    Some(ends)
}
