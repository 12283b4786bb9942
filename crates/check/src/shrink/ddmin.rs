//! Delta debugging: the fewest of `n` units that still show something, by taking away halves, quarters, …
//! single ones.

use crate::OutOfBudget;

/// How a minimisation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Taking away any one unit more loses it.
    Minimal,
    /// The budget ended.
    Stopped,
}

/// `shows` is given which units are kept; all of them show it. It is called last with a set that shows it
/// only if nothing smaller was found after that: the caller keeps the latest one that did.
pub(crate) fn minimise(n: usize, mut shows: impl FnMut(&[bool]) -> Result<bool, OutOfBudget>) -> Outcome {
    let mut kept = vec![true; n];
    let mut left: Vec<usize> = (0..n).collect();
    let mut pieces = 2;
    while !left.is_empty() {
        let size = left.len().div_ceil(pieces);
        let mut at = 0;
        let mut removed = false;
        while at < left.len() {
            let piece = at..(at + size).min(left.len());
            for &unit in &left[piece.clone()] {
                kept[unit] = false;
            }
            match shows(&kept) {
                Err(OutOfBudget) => return Outcome::Stopped,
                Ok(true) => {
                    left.drain(piece);
                    removed = true;
                }
                Ok(false) => {
                    for &unit in &left[piece.clone()] {
                        kept[unit] = true;
                    }
                    at = piece.end;
                }
            }
        }
        if size == 1 {
            if !removed {
                return Outcome::Minimal;
            }
        } else {
            // What one piece alone could not lose, smaller pieces may.
            pieces = (pieces * 2).min(left.len().max(1));
        }
    }
    Outcome::Minimal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_few_that_matter() {
        for (n, needed) in
            [(1, vec![0]), (10, vec![3, 7]), (1000, vec![0, 500, 999]), (64, vec![]), (7, (0..7).collect())]
        {
            let mut best = vec![true; n];
            let mut probes = 0;
            let outcome = minimise(n, |kept| {
                probes += 1;
                let shows = needed.iter().all(|&i: &usize| kept[i]);
                if shows {
                    best = kept.to_vec();
                }
                Ok(shows)
            });
            assert_eq!(outcome, Outcome::Minimal);
            let left: Vec<usize> = (0..n).filter(|&i| best[i]).collect();
            assert_eq!(left, needed);
            assert!(probes <= 3 * n + 40, "{probes} probes for {n}");
        }
    }

    #[test]
    fn stops_when_the_budget_ends() {
        let mut probes = 0;
        let outcome = minimise(100, |_| {
            probes += 1;
            if probes > 5 { Err(OutOfBudget) } else { Ok(false) }
        });
        assert_eq!((outcome, probes), (Outcome::Stopped, 6));
    }
}
