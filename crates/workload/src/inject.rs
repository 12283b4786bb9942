//! Anomalies on demand: their names, and how a recipe becomes transactions.
//!
//! A recipe is a handful of transactions on keys of their own, so it neither needs nor disturbs the
//! simulated database: it goes in at a moment when the sessions it takes are idle and all replicas agree.
//! The recipes are data: see `recipes.rs`.

use crate::recipes::{Needs, RECIPES, Recipe, Step, Turn};
use crate::spec::{Spec, SpecError, UnknownName, same_name};
use std::fmt;
use std::str::FromStr;

/// An anomaly to plant. Weaker anomalies that it implies come with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Injection {
    /// One of Plume's patterns, `'a'` to `'n'`.
    Tap(char),
    /// Two transactions update a key, both having read the same version.
    LostUpdate,
    /// Two transactions read two keys, and each writes the one that the other read.
    WriteSkew,
    /// Two readers see two independent writes in opposite orders.
    LongFork,
    /// A transaction reads one key before, another after an update of both (G-single).
    ReadSkew,
    /// The writes of two transactions to two keys are ordered in opposite ways.
    G0,
    /// A read of an aborted write.
    G1a,
    /// A read of a value that its transaction overwrote.
    G1b,
    /// Two transactions read from each other.
    G1c,
    /// A session does not see its own earlier write.
    SessionOrder,
    /// A transaction that, by its timestamps, starts after it commits.
    ClockSkew,
    /// A transaction that, by timestamps, starts before its predecessor in the session commits.
    Session,
    /// A transaction that does not see its own write (the INT axiom; by values, TAP-d).
    Int,
    /// A read that is not of the last version committed before the start timestamp; fine by values.
    Ext,
    /// Two transactions that overlap by timestamps write one key; fine by values.
    NoConflict,
    /// Two reads of a list show its elements in different orders.
    IncompatibleOrder,
    /// A read of a list shows an element twice.
    DuplicateElement,
    /// A committed update on top of an aborted one.
    DirtyUpdate,
}

impl Injection {
    /// Everything that can be planted.
    pub const ALL: [Injection; RECIPES.len()] = {
        let mut all = [Injection::G0; RECIPES.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = RECIPES[i].injection;
            i += 1;
        }
        all
    };

    /// Its name: the literature's code for it where there is one.
    pub fn name(self) -> &'static str {
        self.recipe().map_or("TAP-?", |r| r.names[0])
    }

    pub(crate) fn recipe(self) -> Option<&'static Recipe> {
        RECIPES.iter().find(|r| r.injection == self)
    }

    /// Whether a specification allows it.
    pub(crate) fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        let Some(recipe) = self.recipe() else {
            let letter = if let Injection::Tap(letter) = self { *letter } else { '?' };
            return Err(SpecError::UnknownTap(letter));
        };
        let needed = match recipe.needs {
            Needs::Timestamps if !spec.kind.is_timestamped() => "timestamps",
            Needs::Lists if !spec.kind.is_list() => "lists",
            _ => {
                let needed = recipe.sessions(spec.kind.is_list());
                if spec.sessions < needed {
                    return Err(SpecError::TooFewSessions { injection: *self, needed });
                }
                return Ok(());
            }
        };
        Err(SpecError::WrongKind { injection: *self, needed })
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Injection {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Injection, UnknownName> {
        let recipe = RECIPES.iter().find(|r| r.names.iter().any(|name| same_name(name, s)));
        recipe.map(|r| r.injection).ok_or_else(|| UnknownName {
            what: "anomaly",
            given: s.to_string(),
            known: RECIPES.iter().map(|r| r.names[0]).collect(),
        })
    }
}

impl Recipe {
    pub fn turns(&self, lists: bool) -> &'static [Turn] {
        if lists && !self.lists.is_empty() { self.lists } else { self.turns }
    }

    /// How many sessions it takes.
    pub fn sessions(&self, lists: bool) -> u32 {
        self.turns(lists).iter().map(|t| t.session() + 1).max().unwrap_or(0)
    }

    /// How many clock ticks it takes.
    pub fn ticks(&self, lists: bool) -> u64 {
        let turns = self.turns(lists);
        (0..turns.len()).flat_map(|i| <[u64; 2]>::from(stamps(turns, i))).max().unwrap_or(0)
    }
}

/// Start and commit of a turn, in ticks after the moment of injection. Turns without say happen one after
/// another.
pub(crate) fn stamps(turns: &[Turn], i: usize) -> (u64, u64) {
    match turns[i] {
        Turn::At(_, start, commit, _) => (start, commit),
        _ => (2 * i as u64 + 1, 2 * i as u64 + 2),
    }
}

/// The list that a read of the register value `value` stands for: all elements up to it, in the order of
/// the script. An aborted append is only there if it is the one that was read.
pub(crate) fn list_up_to(turns: &[Turn], key: usize, value: u8) -> Vec<u8> {
    if value == 0 {
        return Vec::new();
    }
    let mut list = Vec::new();
    for turn in turns {
        for step in turn.steps() {
            if let Step::W(k, v) = *step
                && k == key
                && (v == value || !turn.aborted())
            {
                list.push(v);
                if v == value {
                    return list;
                }
            }
        }
    }
    vec![value]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_however_they_are_spelled() {
        for injection in Injection::ALL {
            for name in injection.recipe().unwrap().names {
                assert_eq!(name.parse(), Ok(injection), "{name}");
            }
            assert_eq!(injection.to_string().to_lowercase().parse(), Ok(injection));
        }
        assert_eq!("FracturedReadCO".parse(), Ok(Injection::Tap('k')));
        assert_eq!("tap-k".parse(), Ok(Injection::Tap('k')));
        let error = "tap-z".parse::<Injection>().unwrap_err().to_string();
        assert!(error.starts_with("unknown anomaly \"tap-z\"; there are TAP-a, TAP-b"), "{error}");
    }

    #[test]
    fn names_are_unambiguous() {
        let names: Vec<&str> = RECIPES.iter().flat_map(|r| r.names).copied().collect();
        for (i, a) in names.iter().enumerate() {
            assert!(names[..i].iter().all(|b| !same_name(a, b)), "{a}");
        }
    }

    #[test]
    fn list_reads_follow_the_script() {
        let turns = Injection::Tap('h').recipe().unwrap().turns(true);
        assert_eq!(list_up_to(turns, 0, 2), [1, 2]);
        assert_eq!(list_up_to(turns, 0, 1), [1]);
        assert_eq!(list_up_to(turns, 0, 0), []);
        assert_eq!(list_up_to(turns, 0, 9), [9]);
    }
}
