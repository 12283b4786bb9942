//! The engine of `watch`, the recorders and weakdb's store under one deterministic simulator.
//!
//! A seed makes a plan: what clients do, in which order, and which faults happen. Running a plan has no
//! clock, no threads and no file of this machine, so a plan always runs alike, and a plan with fewer steps
//! is a plan. The judges are the offline check of timestamps, the checker and the brute-force oracle.
//!
//! - [`stream`]: transactions arrive at a watch in blocks of lines from several sources, late, repeated and
//!   between garbage; its process is killed, its machine loses power, its disk is full or fails, at any
//!   write. At the end it has reported exactly what the offline check finds in the lines that arrived.
//! - [`clients`]: clients of weakdb's store are killed in transactions, statements are cancelled, answers to
//!   COMMIT are lost; what they saw is recorded by the library's recorder and into a file whose disk fails.
//!   The store's history and the recorded ones keep the level of the store, and a file that is not whole
//!   says so.

pub mod clients;
pub mod disk;
pub mod file;
pub mod judge;
pub mod sources;
mod step;
pub mod stream;

use fastrand::Rng;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Something to simulate.
pub trait World {
    /// What happens, step by step.
    type Step: Clone + Debug;
    /// A random plan.
    fn plan(rng: &mut Rng) -> Self;
    /// The steps of the plan.
    fn steps(&self) -> &[Self::Step];
    /// The plan with other steps.
    fn with(&self, steps: Vec<Self::Step>) -> Self;
    /// What else is part of the plan, for people.
    fn describe(&self) -> String;
    /// Runs the plan; what is wrong, if anything.
    fn run(&self, seen: &mut Seen) -> Result<(), String>;
}

/// How often something happened, so that a simulation that never comes near a fault is noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen(pub std::collections::BTreeMap<&'static str, u64>);

impl Seen {
    /// One more.
    pub fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Seen) {
        for (what, times) in &other.0 {
            *self.0.entry(what).or_default() += times;
        }
    }
}

/// Simulates one seed: every world once. What is wrong, with the smallest plan that still shows it.
pub fn simulate(seed: u64, seen: &mut Seen) -> Result<(), String> {
    one::<stream::Stream>("stream", seed, seen)?;
    one::<clients::Clients>("clients", seed, seen)
}

fn one<W: World>(name: &str, seed: u64, seen: &mut Seen) -> Result<(), String> {
    let world = W::plan(&mut Rng::with_seed(seed));
    let Err(first) = guarded(&world, seen) else { return Ok(()) };
    let smallest = shrink(world);
    let message = guarded(&smallest, &mut Seen::default()).err().unwrap_or_else(|| first.clone());
    let steps: String = smallest.steps().iter().map(|step| format!("  {step:?}\n")).collect();
    Err(format!(
        "{name}, seed {seed}: {first}\n\nThe smallest plan that fails: {message}\n{}\n{steps}\nAgain: \
         scripts/simulate --seed {seed}",
        smallest.describe()
    ))
}

/// Runs a plan; a panic is wrong, too.
fn guarded<W: World>(world: &W, seen: &mut Seen) -> Result<(), String> {
    let result = catch_unwind(AssertUnwindSafe(|| world.run(seen)));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}

/// A plan that still fails and from which no run of steps can be taken away: halves first, single steps
/// last.
fn shrink<W: World>(mut world: W) -> W {
    let mut size = world.steps().len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let mut smaller = false;
        while at < world.steps().len() {
            let mut steps = world.steps().to_vec();
            steps.drain(at..(at + size).min(steps.len()));
            let candidate = world.with(steps);
            match guarded(&candidate, &mut Seen::default()) {
                Err(_) => (world, smaller) = (candidate, true),
                Ok(()) => at += size,
            }
        }
        if !smaller {
            size /= 2;
        }
    }
    world
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if 7 comes before 9.
    struct Numbers(Vec<u8>);

    impl World for Numbers {
        type Step = u8;

        fn plan(_: &mut Rng) -> Numbers {
            Numbers((0..100).collect())
        }

        fn steps(&self) -> &[u8] {
            &self.0
        }

        fn with(&self, steps: Vec<u8>) -> Numbers {
            Numbers(steps)
        }

        fn describe(&self) -> String {
            String::new()
        }

        fn run(&self, _: &mut Seen) -> Result<(), String> {
            let at = |n| self.0.iter().position(|&step| step == n);
            match (at(7), at(9)) {
                (Some(seven), Some(nine)) if seven < nine => Err("7 before 9".to_owned()),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn a_failure_is_shrunk() {
        assert_eq!(shrink(Numbers::plan(&mut Rng::new())).0, [7, 9]);
        let message = one::<Numbers>("numbers", 1, &mut Seen::default()).unwrap_err();
        assert!(message.contains("scripts/simulate --seed 1"), "{message}");
    }
}
