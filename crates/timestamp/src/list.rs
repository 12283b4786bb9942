//! List keys: what a read must return.
//!
//! The state of a list is the concatenation of what the visible transactions appended, in order of commit.
//! Transactions of equal commits may come in any order that keeps each session's own (AR of Definition 3
//! contains VIS, and VIS the session order). So a group of equal commits must be a shuffle of one sequence
//! of blocks per session.
//!
//! Deciding that is NP-complete in general (blocks that begin alike), and linear where at most one session
//! can go on at any place, as with elements appended once. The search remembers the states that failed (how
//! far each session is) and takes one of several sessions with the same rest. It ends after a fixed number
//! of steps, and then says so.

use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::Hash;

/// What one transaction appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block<'a, S, N, V> {
    /// Its commit.
    pub commit: S,
    /// Its session.
    pub session: N,
    /// The reader sees it. If false, it may or may not: it commits at the reader's own commit, under
    /// serializability.
    pub required: bool,
    /// What it appended, in order.
    pub elements: &'a [V],
}

/// Whether a list is a concatenation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// The search ended before that was decided.
    GaveUp,
}

/// Of transactions that may have appended to a list, those one of which must have: what was seen and is not
/// there otherwise must come from somewhere. `there` is appended in any case, `perhaps` may be. Empty if
/// none of them can make the list right.
///
/// ```
/// use anomalist_timestamp::list::suppliers;
/// let open = [('a', &[5][..]), ('b', &[5, 6]), ('c', &[7])];
/// assert_eq!(suppliers(&[1, 5], [1], [], &open), ['a']);
/// assert_eq!(suppliers(&[1, 5, 6], [1], [], &open), ['b']);
/// assert_eq!(suppliers(&[5, 7], [], [], &open), ['a']);
/// assert!(suppliers(&[5], [1], [], &open).is_empty());
/// ```
pub fn suppliers<T: Copy, V: Copy + Eq + Hash>(
    seen: &[V],
    there: impl IntoIterator<Item = V>,
    perhaps: impl IntoIterator<Item = V>,
    open: &[(T, &[V])],
) -> Vec<T> {
    let mut need: FxHashMap<V, i64> = FxHashMap::default();
    seen.iter().for_each(|&element| *need.entry(element).or_default() += 1);
    there.into_iter().for_each(|element| *need.entry(element).or_default() -= 1);
    if need.values().any(|&n| n < 0) {
        return Vec::new();
    }
    let fits = |block: &[V]| {
        let count = |e: &V| block.iter().filter(|own| *own == e).count() as i64;
        block.iter().all(|e| need.get(e).is_some_and(|&need| count(e) <= need))
    };
    let fitting: Vec<&(T, &[V])> = open.iter().filter(|(_, block)| fits(block)).collect();
    let perhaps: FxHashSet<V> = perhaps.into_iter().collect();
    let mut best = fitting.clone();
    for element in seen.iter().filter(|e| need.get(e).is_some_and(|&n| n > 0) && !perhaps.contains(e)) {
        let with: Vec<_> = fitting.iter().copied().filter(|(_, block)| block.contains(element)).collect();
        if with.len() < best.len() {
            best = with;
        }
    }
    best.into_iter().map(|(t, _)| *t).collect()
}

/// Comparisons of a block with a place in the list, for one read.
const STEPS: usize = 4_000_000;

/// Whether `seen` is the concatenation of `blocks`, up to the order of blocks with equal commits and
/// different sessions, and up to blocks that are not required. Blocks come ascending by commit, those of one
/// session in its order, and those not required have the last commit of all. Of a session's blocks with that
/// commit, the first ones are there.
///
/// ```
/// use anomalist_timestamp::list::{Block, Fit, is_concatenation};
/// let block = |commit, session, elements| Block { commit, session, required: true, elements };
/// let blocks = [block(5, 'a', &[10][..]), block(7, 'b', &[20, 21]), block(7, 'c', &[30])];
/// assert_eq!(is_concatenation(blocks, &[10, 20, 21, 30]), Fit::Yes);
/// assert_eq!(is_concatenation(blocks, &[10, 30, 20, 21]), Fit::Yes);
/// assert_eq!(is_concatenation(blocks, &[20, 21, 10, 30]), Fit::No);
/// assert_eq!(is_concatenation(blocks, &[10, 20, 30, 21]), Fit::No);
/// ```
pub fn is_concatenation<'a, S: Eq, N: Eq + Copy, V: Eq + 'a>(
    blocks: impl IntoIterator<Item = Block<'a, S, N, V>>,
    seen: &[V],
) -> Fit {
    within(blocks, seen, STEPS)
}

fn within<'a, S: Eq, N: Eq + Copy, V: Eq + 'a>(
    blocks: impl IntoIterator<Item = Block<'a, S, N, V>>,
    mut seen: &[V],
    mut steps: usize,
) -> Fit {
    let mut blocks = blocks.into_iter().peekable();
    let mut gave_up = false;
    while let Some(first) = blocks.next() {
        let commit = first.commit;
        let mut group = Group { chains: Vec::new(), optional: 0 };
        group.add(first.session, first.required, first.elements);
        while let Some(block) = blocks.next_if(|next| next.commit == commit) {
            group.add(block.session, block.required, block.elements);
        }
        let part = match group.optional {
            0 => {
                let Some((part, rest)) = seen.split_at_checked(group.length()) else { return Fit::No };
                seen = rest;
                part
            }
            _ => std::mem::take(&mut seen),
        };
        match group.is_shuffle(part, &mut steps) {
            Fit::No => return Fit::No,
            fit => gave_up |= fit == Fit::GaveUp,
        }
    }
    match seen.is_empty() {
        false => Fit::No,
        true if gave_up => Fit::GaveUp,
        true => Fit::Yes,
    }
}

/// The blocks of one session.
struct Chain<'a, N, V> {
    session: N,
    blocks: Vec<&'a [V]>,
    /// So many of them are required.
    required: usize,
}

/// The blocks of one commit.
struct Group<'a, N, V> {
    chains: Vec<Chain<'a, N, V>>,
    optional: usize,
}

impl<'a, N: Eq, V: Eq> Group<'a, N, V> {
    fn add(&mut self, session: N, required: bool, elements: &'a [V]) {
        self.optional += usize::from(!required);
        let at = self.chains.iter().position(|chain| chain.session == session).unwrap_or(self.chains.len());
        if at == self.chains.len() {
            self.chains.push(Chain { session, blocks: Vec::new(), required: 0 });
        }
        self.chains[at].blocks.push(elements);
        self.chains[at].required += usize::from(required);
    }

    fn length(&self) -> usize {
        self.chains.iter().flat_map(|chain| &chain.blocks).map(|block| block.len()).sum()
    }

    /// Whether `part` is a shuffle of the chains, each up to some block from the last required one on. Depth
    /// first.
    fn is_shuffle(&self, part: &[V], steps: &mut usize) -> Fit {
        if let [Chain { blocks, .. }] = &self.chains[..]
            && let [block] = blocks[..]
            && self.optional == 0
        {
            return if block == part { Fit::Yes } else { Fit::No };
        }
        // How far each session is; the sessions taken; states that lead nowhere.
        let mut taken: Vec<u32> = vec![0; self.chains.len()];
        let mut path: Vec<usize> = Vec::new();
        let mut failed: FxHashSet<Box<[u32]>> = FxHashSet::default();
        let (mut offset, mut from) = (0, 0);
        loop {
            if offset == part.len() && self.is_complete(&taken) {
                return Fit::Yes;
            }
            let mut next = None;
            for i in from..self.chains.len() {
                if *steps == 0 {
                    return Fit::GaveUp;
                }
                *steps -= 1;
                if self.fits(&taken, i, &part[offset..]) && !self.was_tried(&taken, i) {
                    taken[i] += 1;
                    let fails = !failed.is_empty() && failed.contains(&taken[..]);
                    taken[i] -= 1;
                    if !fails {
                        next = Some(i);
                        break;
                    }
                }
            }
            if let Some(i) = next {
                offset += self.chains[i].blocks[taken[i] as usize].len();
                taken[i] += 1;
                path.push(i);
                from = 0;
                continue;
            }
            *steps = steps.saturating_sub(taken.len());
            failed.insert(taken.as_slice().into());
            let Some(last) = path.pop() else { return Fit::No };
            taken[last] -= 1;
            offset -= self.chains[last].blocks[taken[last] as usize].len();
            from = last + 1;
        }
    }

    fn is_complete(&self, taken: &[u32]) -> bool {
        self.chains.iter().zip(taken).all(|(chain, &taken)| chain.required <= taken as usize)
    }

    /// Whether a chain can go on with the beginning of a list.
    fn fits(&self, taken: &[u32], i: usize, rest: &[V]) -> bool {
        self.chains[i].blocks.get(taken[i] as usize).is_some_and(|block| rest.starts_with(block))
    }

    /// Whether a chain before this one has the same rest, so that it makes no difference which of them goes
    /// on.
    fn was_tried(&self, taken: &[u32], i: usize) -> bool {
        let rest = |i: usize| {
            let (chain, taken) = (&self.chains[i], taken[i] as usize);
            (&chain.blocks[taken..], chain.required.saturating_sub(taken))
        };
        // Only where the first block is the same is there more to compare.
        let first = |i: usize| self.chains[i].blocks.get(taken[i] as usize);
        (0..i).any(|j| first(j) == first(i) && rest(j) == rest(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks with one commit, of a session each.
    fn tied<'a>(blocks: &'a [&'a [u32]]) -> impl Iterator<Item = Block<'a, u32, usize, u32>> {
        let block =
            |(session, elements): (usize, &&'a [u32])| Block { commit: 0, session, required: true, elements };
        blocks.iter().enumerate().map(block)
    }

    #[test]
    fn blocks_with_equal_beginnings_are_tried_in_every_order() {
        let blocks: [&[u32]; 3] = [&[1], &[1, 2], &[1, 2, 1]];
        let fits = |seen: &[u32]| is_concatenation(tied(&blocks), seen) == Fit::Yes;
        assert!(fits(&[1, 2, 1, 1, 1, 2]) && fits(&[1, 1, 2, 1, 1, 2]));
        assert!(!fits(&[2, 1, 1, 1, 1, 2]) && !fits(&[1, 2, 1, 1, 1]));
    }

    #[test]
    fn many_equal_commits_stay_cheap() {
        let elements: Vec<u32> = (0..200).collect();
        let blocks: Vec<&[u32]> = elements.chunks(1).collect();
        let reversed: Vec<u32> = elements.iter().rev().copied().collect();
        assert_eq!(is_concatenation(tied(&blocks), &reversed), Fit::Yes);
        assert_eq!(is_concatenation(tied(&blocks), &reversed[1..]), Fit::No);
        assert_eq!(is_concatenation(tied(&[]), &[]), Fit::Yes);
        assert_eq!(is_concatenation(tied(&[]), &[1]), Fit::No);
    }

    #[test]
    fn more_than_sixteen_equal_commits_are_decided() {
        // The first block that fits is the wrong one.
        for others in [14, 15, 16, 40] {
            let rest: Vec<u32> = (100..100 + others).collect();
            let mut blocks: Vec<&[u32]> = vec![&[1], &[1, 2]];
            blocks.extend(rest.chunks(1));
            let seen = [&[1, 2, 1], &rest[..]].concat();
            assert_eq!(is_concatenation(tied(&blocks), &seen), Fit::Yes, "{others}");
            let seen = [&[2, 1, 1], &rest[..]].concat();
            assert_eq!(is_concatenation(tied(&blocks), &seen), Fit::No, "{others}");
        }
    }

    #[test]
    fn equal_blocks_are_one_choice() {
        let blocks: Vec<&[u32]> =
            (0..40).map(|i| if i % 2 == 0 { &[1, 1][..] } else { &[1, 1, 1] }).collect();
        assert_eq!(is_concatenation(tied(&blocks), &[1; 100]), Fit::Yes);
        let mut seen = [1; 100];
        seen[99] = 2;
        assert_eq!(is_concatenation(tied(&blocks), &seen), Fit::No);
    }

    #[test]
    fn a_search_without_end_is_given_up() {
        let elements: Vec<Vec<u32>> = (1..30).map(|n| vec![1; n]).collect();
        let blocks: Vec<&[u32]> = elements.iter().map(Vec::as_slice).collect();
        let length = blocks.iter().map(|block| block.len()).sum();
        let mut seen = vec![1; length];
        seen[length - 1] = 2;
        assert_eq!(within(tied(&blocks), &seen, 10_000), Fit::GaveUp);
        seen[length - 1] = 1;
        assert_eq!(within(tied(&blocks), &seen, 10_000), Fit::Yes);
    }

    #[test]
    fn blocks_of_one_session_keep_their_order() {
        let block = |session, required, elements| Block { commit: 7, session, required, elements };
        let blocks = [block('a', true, &[1][..]), block('b', true, &[5]), block('a', true, &[2])];
        let fits = |seen: &[u32]| is_concatenation(blocks, seen) == Fit::Yes;
        assert!(fits(&[1, 2, 5]) && fits(&[1, 5, 2]) && fits(&[5, 1, 2]) && !fits(&[2, 1, 5]));
        // What commits with the reader may be there, from the first of its session on.
        let blocks = [block('a', false, &[1][..]), block('b', true, &[5]), block('a', false, &[2])];
        let fits = |seen: &[u32]| is_concatenation(blocks, seen) == Fit::Yes;
        assert!(fits(&[5]) && fits(&[1, 5]) && fits(&[5, 1]) && fits(&[1, 5, 2]));
        assert!(!fits(&[]) && !fits(&[1]) && !fits(&[5, 2]) && !fits(&[2, 5, 1]));
    }
}
