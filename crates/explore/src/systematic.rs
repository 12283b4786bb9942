//! Every run of a small program, instead of some.

use crate::decisions::Decisions;
use crate::turns::Turns;
use anomalist_weakdb::{Chooser, Error, Options, Store, Value};
use std::sync::{Arc, Mutex, PoisonError};

/// What [`systematic`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Runs that came to their end, each with another history.
    pub histories: u64,
    /// Runs that were given up because an earlier one had passed the same history.
    pub given_up: u64,
    /// True if nothing is left to try.
    pub complete: bool,
}

/// Runs a program with every order of its transactions and every allowed value for every read, each history
/// once.
///
/// The program is given a store with these initial values and the turns for
/// [`concurrently`](crate::concurrently). It must be deterministic but for those. Ends early after `limit`
/// runs, or when `each` returns false for a finished run.
///
/// ```
/// use anomalist_explore::{Body, concurrently, systematic};
/// use anomalist_level::Level;
/// use anomalist_weakdb::Options;
/// // Two clients add one to a counter. Under causal consistency one may miss the other.
/// let mut states = std::collections::BTreeSet::new();
/// let tried = systematic(&Options::new(Level::Causal), &[], 1000, |store, turns| {
///     let add = || -> Body<'_, i64> {
///         Box::new(|c| c.transaction(|t| {
///             let n = t.read("n")?.and_then(|v| v.as_int()).unwrap_or(0) + 1;
///             t.write("n", n).map(|()| n)
///         }))
///     };
///     if let Ok(seen) = concurrently(store, turns, vec![add(), add()]) {
///         states.insert(seen);
///     }
///     true
/// })?;
/// assert!(tried.complete);
/// assert_eq!(states, [vec![1, 1], vec![1, 2], vec![2, 1]].into());
/// # Ok::<(), anomalist_weakdb::Error>(())
/// ```
pub fn systematic(
    options: &Options,
    initial: &[(&str, Value)],
    limit: u64,
    mut program: impl FnMut(&Arc<Store>, &Turns) -> bool,
) -> Result<Tried, Error> {
    let decisions = Arc::new(Mutex::new(Decisions::default()));
    let lock = |d: &Mutex<Decisions>, f: &mut dyn FnMut(&mut Decisions) -> usize| {
        f(&mut d.lock().unwrap_or_else(PoisonError::into_inner))
    };
    let mut tried = Tried { histories: 0, given_up: 0, complete: false };
    loop {
        let chooser = {
            let decisions = decisions.clone();
            Chooser(Arc::new(move |_, all| lock(&decisions, &mut |d| d.decide(all.len()))))
        };
        let options = Options { record: true, chooser: Some(chooser), ..options.clone() };
        let store = Store::with_initial(options, initial.iter().cloned())?;
        let go_on = program(&store, &Turns::Decided(decisions.clone()));
        let mut decisions = decisions.lock().unwrap_or_else(PoisonError::into_inner);
        if decisions.was_abandoned() {
            tried.given_up += 1;
        } else {
            tried.histories += 1;
        }
        if !decisions.advance() {
            tried.complete = true;
            return Ok(tried);
        }
        if !go_on || tried.histories + tried.given_up >= limit {
            return Ok(tried);
        }
    }
}
