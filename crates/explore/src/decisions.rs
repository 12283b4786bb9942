//! A run as a sequence of decisions, and all runs by trying every decision.
//!
//! A run asks for decisions: whose turn it is, which value a read returns. A script answers the first ones,
//! and the first possibility is taken from there on; the next script changes the last decision that has
//! another possibility. That is a depth-first search in which each run starts from the beginning.
//!
//! Between transactions, what is left to happen depends only on the history so far. A run that comes upon a
//! history that an earlier one has passed is given up, so every history is reached once, whatever the
//! number of orders that lead to it.

use rustc_hash::FxHashSet;

/// The decisions of one run, and what earlier runs have passed.
#[derive(Debug, Default)]
pub struct Decisions {
    script: Vec<usize>,
    /// What was decided, of how many possibilities.
    made: Vec<(usize, usize)>,
    passed: FxHashSet<String>,
    abandoned: bool,
}

impl Decisions {
    /// Decides between this many possibilities.
    pub fn decide(&mut self, of: usize) -> usize {
        let at = self.made.len();
        let pick = self.script.get(at).copied().unwrap_or(0).min(of.saturating_sub(1));
        self.made.push((pick, of));
        pick
    }

    /// Decides who goes next; `None` if everything from here on has been tried.
    pub(crate) fn at_boundary(&mut self, of: usize, state: impl FnOnce() -> String) -> Option<usize> {
        if self.made.len() >= self.script.len() && !self.passed.insert(state()) {
            self.abandoned = true;
            return None;
        }
        Some(self.decide(of))
    }

    /// True if this run has been given up.
    pub fn was_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Gets ready for the next run; false if all have been made.
    pub fn advance(&mut self) -> bool {
        self.abandoned = false;
        while let Some((pick, of)) = self.made.pop() {
            if pick + 1 < of {
                self.script = self.made.iter().map(|d| d.0).collect();
                self.script.push(pick + 1);
                self.made.clear();
                return true;
            }
        }
        false
    }
}
