//! Stamps from the future.
//!
//! What a timestamp means is the database's business, so "the future" can only mean far beyond what the
//! others say. A transaction that commits a thousand times further ahead than the last ones lie apart is a
//! suspect; when transactions like the ones before arrive again, it is reported. If none do, time has moved
//! on.

use crate::{Origin, TxnName};

/// Commits looked at.
const WINDOW: usize = 64;
/// How many spans of the window ahead is far.
const FAR: i64 = 1000;
/// So many suspects in a row are the present.
const MANY: usize = 16;

/// Commits of late, and suspects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspects {
    window: Vec<i64>,
    next: usize,
    /// The greatest commit that was none.
    greatest: i64,
    suspects: Vec<(TxnName, Origin, i64)>,
}

impl Suspects {
    /// Looks at the next commit; returns who turned out to be ahead of time.
    pub fn next(
        &mut self,
        commit: i64,
        origin: Origin,
        name: impl FnOnce() -> TxnName,
    ) -> Vec<(TxnName, Origin)> {
        if self.window.len() < WINDOW {
            self.greatest = if self.window.is_empty() { commit } else { self.greatest.max(commit) };
            self.window.push(commit);
            return Vec::new();
        }
        if commit > self.greatest {
            let (low, high) =
                self.window.iter().fold((i64::MAX, i64::MIN), |(l, h), &c| (l.min(c), h.max(c)));
            let span = high.saturating_sub(low).max(1);
            if commit > high.saturating_add(span.saturating_mul(FAR)) {
                self.suspects.push((name(), origin, commit));
                if self.suspects.len() >= MANY {
                    self.window = self.suspects.drain(..).map(|s| s.2).collect();
                    self.next = 0;
                    self.greatest = commit;
                }
                return Vec::new();
            }
            self.greatest = commit;
        }
        self.window[self.next] = commit;
        self.next = (self.next + 1) % WINDOW;
        self.suspects.drain(..).map(|(name, origin, _)| (name, origin)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(commits: impl IntoIterator<Item = i64>) -> Vec<u64> {
        let mut suspects = Suspects::default();
        let mut found = Vec::new();
        for (line, commit) in (1..).zip(commits) {
            let name = || TxnName { session: crate::Shown::Nil, position: 0, id: None };
            found.extend(
                suspects.next(commit, Origin { source: 0, line }, name).into_iter().map(|s| s.1.line),
            );
        }
        found
    }

    #[test]
    fn a_lone_leap_is_reported_and_a_jump_of_time_is_not() {
        let leap = (0..100).chain([1 << 50, 1 << 51]).chain(100..200);
        assert_eq!(reported(leap), [101, 102]);
        assert_eq!(reported((0..100).chain((1 << 50)..(1 << 50) + 100)), []);
        assert_eq!(reported((0..1000).map(|i| i * 1_000_000 % 77_777)), []);
    }
}
