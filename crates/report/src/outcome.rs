//! Whether what was asked for is so: what exit statuses, CI outputs and assertions rest on.

use crate::Subject;
use anomalist_level::{Sought, Verdict};

/// Whether what was asked for is so.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// Every required level holds, or none was required.
    Holds,
    /// A required level is neither proven nor refuted, or the work was ended early.
    Unknown,
    /// A required level is violated.
    Violated,
}

impl Outcome {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::Unknown => "unknown",
            Outcome::Violated => "violated",
        }
    }

    /// The exit status of a command that ends so.
    pub const fn exit_status(self) -> u8 {
        match self {
            Outcome::Holds => 0,
            Outcome::Violated => 1,
            Outcome::Unknown => 2,
        }
    }
}

impl Subject<'_> {
    /// A violated level decides, then an undecided one. If no level is required, but anomalies are asked
    /// for: one that was found decides, then one of which nothing is known.
    pub fn outcome(&self) -> Outcome {
        let judgement = self.judgement;
        let of = |verdict: &Verdict| match verdict {
            Verdict::Holds => Outcome::Holds,
            Verdict::Violated => Outcome::Violated,
            Verdict::Unknown(_) => Outcome::Unknown,
        };
        let required = judgement.levels.iter().filter(|l| self.required.contains(&l.level));
        let levels = required.map(|l| of(&l.verdict));
        let mixed = judgement.mixed.as_ref().map_or(Outcome::Unknown, |mixed| of(&mixed.verdict));
        let sought = judgement.sought.iter().filter(|_| self.required.is_empty());
        let sought = sought.map(|(_, sought)| match sought {
            Sought::Absent => Outcome::Holds,
            Sought::Found => Outcome::Violated,
            Sought::Unknown { .. } => Outcome::Unknown,
        });
        let stopped = if self.stopped && self.is_open() { Outcome::Unknown } else { Outcome::Holds };
        let all = levels.chain(self.declared.then_some(mixed)).chain(sought);
        all.fold(stopped, Outcome::max)
    }

    fn is_open(&self) -> bool {
        self.judgement.levels.iter().any(|l| matches!(l.verdict, Verdict::Unknown(_)))
    }
}
