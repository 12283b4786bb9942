//! Small applications with an assertion that holds when transactions run one after another and breaks under
//! weak isolation.
//!
//! After the micro-benchmarks of the MonkeyDB paper (Biswas et al. 2021, section 7): stack, courseware,
//! shopping cart and Twitter, written anew from their description. A run is three clients with three
//! operations each. [`App::harness`] draws other programs from the same operations, for measuring how many
//! states are seen.

pub mod cart;
pub mod courseware;
pub mod measure;
pub mod stack;
pub mod twitter;

use anomalist_explore::{Stop, Turns};
use anomalist_weakdb::{Error, Session, Store, Value};
use std::sync::Arc;

/// What a run showed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Assertions that failed, by their number in [`App::assertions`].
    pub broken: Vec<usize>,
    /// Everything that clients were shown.
    pub observed: String,
}

/// What an operation of a program is: its kind and an argument. Applications give both a meaning.
pub type Operation = (u8, u8);

/// Clients of operations.
pub type Harness = Vec<Vec<Operation>>;

/// An application.
pub trait App: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What must hold, and the paper's average number of runs until it fails under causal consistency (its
    /// Table 1).
    fn assertions(&self) -> &'static [(&'static str, f64)];

    /// The program whose assertion is asked for: three clients, three operations each.
    fn program(&self, assertion: usize, random: &mut fastrand::Rng) -> Harness;

    /// The number of kinds of operations, and of arguments, that random programs are drawn from.
    fn operations(&self) -> (u8, u8);

    /// What is there before anything happens, with so many clients.
    fn initial(&self, clients: usize) -> Vec<(&'static str, Value)>;

    /// Runs a program on a store with the [`initial`](App::initial) values.
    fn run(&self, store: &Arc<Store>, turns: &Turns, harness: &Harness) -> Result<Outcome, Stop>;

    /// A random program.
    fn harness(&self, clients: usize, operations: usize, random: &mut fastrand::Rng) -> Harness {
        let (kinds, arguments) = self.operations();
        (0..clients)
            .map(|_| (0..operations).map(|_| (random.u8(..kinds), random.u8(..arguments))).collect())
            .collect()
    }
}

/// All of them, in the order of the paper's table.
pub fn all() -> [&'static dyn App; 4] {
    [&stack::Stack, &courseware::Courseware, &cart::Cart, &twitter::Twitter]
}

/// A set of texts, kept as a list.
fn read_set(t: &mut Session, key: &str) -> Result<Vec<Value>, Error> {
    Ok(t.read(key)?.and_then(|v| v.as_list().map(<[Value]>::to_vec)).unwrap_or_default())
}
