//! List keys: what a read must return.
//!
//! The state of a list is the concatenation of what the visible transactions appended, in order of commit. Where several
//! commits are equal, any order of those transactions will do, as any of the values will for a register.

/// Whether `seen` is the concatenation of `blocks` (a transaction's appends each, with its commit), up to the order of blocks
/// with equal commits. Blocks come ascending by commit.
///
/// Linear, unless blocks of equal commits begin with equal elements: then exponential in their number, up to 16; beyond that
/// the first block that fits is taken.
///
/// ```
/// use anomalist_timestamp::list::is_concatenation;
/// let blocks: [(u32, &[u32]); 3] = [(1, &[10]), (2, &[20, 21]), (2, &[30])];
/// assert!(is_concatenation(blocks, &[10, 20, 21, 30]) && is_concatenation(blocks, &[10, 30, 20, 21]));
/// assert!(!is_concatenation(blocks, &[20, 21, 10, 30]) && !is_concatenation(blocks, &[10, 20, 30, 21]));
/// ```
pub fn is_concatenation<'a, S: Ord, V: Eq + 'a>(
    blocks: impl IntoIterator<Item = (S, &'a [V])>,
    mut seen: &[V],
) -> bool {
    let mut blocks = blocks.into_iter().peekable();
    let mut group: Vec<&[V]> = Vec::new();
    while let Some((commit, block)) = blocks.next() {
        group.clear();
        group.push(block);
        while let Some((_, block)) = blocks.next_if(|next| next.0 == commit) {
            group.push(block);
        }
        let length = group.iter().map(|block| block.len()).sum();
        let Some((part, rest)) = seen.split_at_checked(length) else { return false };
        if !is_permutation(&group, part) {
            return false;
        }
        seen = rest;
    }
    seen.is_empty()
}

/// Largest group of equal commits whose orders are all tried.
const EXHAUSTIVE: usize = 16;

/// Whether `part` is some order of the blocks, one after another.
fn is_permutation<V: Eq>(blocks: &[&[V]], part: &[V]) -> bool {
    if let [block] = blocks {
        return *block == part;
    }
    // Depth first over sets of blocks used; a set always covers the same length.
    let width = blocks.len();
    let mut used = vec![false; width];
    let mut path: Vec<usize> = Vec::new();
    let mut failed = rustc_hash::FxHashSet::default();
    let (mut offset, mut from) = (0, 0);
    loop {
        if path.len() == width {
            return true;
        }
        let fits = |i: &usize| !used[*i] && part[offset..].starts_with(blocks[*i]);
        match (from..width).find(fits) {
            Some(i) if width > EXHAUSTIVE || !failed.contains(&with(&used, i)) => {
                used[i] = true;
                offset += blocks[i].len();
                path.push(i);
                from = 0;
            }
            Some(i) => from = i + 1,
            None => {
                if width > EXHAUSTIVE {
                    return false;
                }
                failed.insert(mask(&used));
                let Some(last) = path.pop() else { return false };
                used[last] = false;
                offset -= blocks[last].len();
                from = last + 1;
            }
        }
    }
}

fn mask(used: &[bool]) -> u32 {
    used.iter().enumerate().fold(0, |mask, (i, &u)| mask | u32::from(u) << i.min(31))
}

fn with(used: &[bool], i: usize) -> u32 {
    mask(used) | 1 << i.min(31)
}

/// Length and hash of a list, extended element by element: the version of a list key for a checker that cannot keep the
/// list itself. Equal lists have equal fingerprints; the converse must be verified where it matters.
///
/// ```
/// use anomalist_timestamp::list::Fingerprint;
/// let one = Fingerprint::default().then(7);
/// assert_eq!(one.then(8), [7, 8].into_iter().fold(Fingerprint::default(), Fingerprint::then));
/// assert_ne!(one.then(8), Fingerprint::default().then(8).then(7));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Fingerprint {
    /// Number of elements.
    pub length: u32,
    /// Hash of the elements in order.
    pub hash: u64,
}

impl Fingerprint {
    /// The list with one more element, given by its bits.
    #[must_use]
    #[inline]
    pub fn then(self, element: u64) -> Fingerprint {
        // Each element is mixed by itself first, so that swapping neighbours does not cancel out.
        let mut x = element.wrapping_add(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let hash = (self.hash.rotate_left(23) ^ x).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Fingerprint { length: self.length + 1, hash }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_with_equal_beginnings_are_tried_in_every_order() {
        let blocks: [(u32, &[u32]); 3] = [(1, &[1]), (1, &[1, 2]), (1, &[1, 2, 1])];
        assert!(is_concatenation(blocks, &[1, 2, 1, 1, 1, 2]));
        assert!(is_concatenation(blocks, &[1, 1, 2, 1, 1, 2]));
        assert!(!is_concatenation(blocks, &[2, 1, 1, 1, 1, 2]));
        assert!(!is_concatenation(blocks, &[1, 2, 1, 1, 1]));
    }

    #[test]
    fn many_equal_commits_stay_cheap() {
        let elements: Vec<u32> = (0..200).collect();
        let blocks = || elements.chunks(1).map(|block| (0, block));
        let reversed: Vec<u32> = elements.iter().rev().copied().collect();
        assert!(is_concatenation(blocks(), &reversed));
        assert!(!is_concatenation(blocks(), &reversed[1..]));
        assert!(is_concatenation::<u32, u32>([], &[]) && !is_concatenation::<u32, u32>([], &[1]));
    }
}
