//! Linearizability of one register: is there an order of the calls, each at a moment between its invocation
//! and its return, in which every read returns the last value written?
//!
//! A compare-and-set register covers a plain one, and a mutex, which is a register that `acquire` moves
//! from free to held and `release` back. Several registers are checked one by one: linearizability is local
//! (Herlihy & Wing 1990, Theorem 1). A call that never returned may have taken effect at any time after its
//! invocation, or not at all; one that failed is not passed in.
//!
//! The search is that of Wing & Gong (1993) with Lowe's improvements ("Testing for linearizability", 2016):
//! calls are linearised just in time, when one returns and must have taken effect, and a configuration (the
//! value, which of the open calls took effect) is never searched twice. What keeps it small beyond that,
//! each argued in `search.rs`: reads are linearised as soon as the value fits; writes that no read returns
//! hide behind others without being ordered; calls that never return are taken only when a call is there to
//! see them; of comparable configurations the better one is enough; and a call whose value no other call
//! can produce, or that comes too late for it, fails at once. The problem is NP-complete (Gibbons & Korach
//! 1997): in the worst case the search is exponential in the number of calls open at a time, and the
//! [`Budget`] ends it.

mod plan;
mod search;

use crate::Why;
use anomalist_check::Budget;
use plan::Plan;
use search::{Found, search};

/// How many calls may be open at once.
const WIDEST: usize = 4096;

/// A value of the register, numbered by the caller.
pub type Value = u32;

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Action {
    /// Returned this value.
    Read(Value),
    /// Put this value.
    Write(Value),
    /// Found the first value and put the second.
    Cas(Value, Value),
}

impl Action {
    /// The value afterwards, if the action is possible at this value.
    pub fn apply(self, value: Value) -> Option<Value> {
        match self {
            Action::Read(v) => (v == value).then_some(v),
            Action::Write(v) => Some(v),
            Action::Cas(from, to) => (from == value).then_some(to),
        }
    }
}

/// A call: what it did, and when. One call comes before another if it ended before the other began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// What it did.
    pub action: Action,
    /// When it was invoked.
    pub began: usize,
    /// When it returned; `None` if it never did, and may or may not have taken effect.
    pub ended: Option<usize>,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Linearity {
    /// Linearizable, with the calls in an order that shows it; calls that never returned are in it if they
    /// are needed.
    Yes(Vec<usize>),
    /// Not linearizable.
    No(Refutation),
    /// Not decided.
    Unknown(Why),
}

/// Why calls are not linearizable: up to the return of `call` they are, with it they are not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refutation {
    /// The call that could not be linearised before it returned.
    pub call: usize,
    /// The call that returned last before it.
    pub previous: Option<usize>,
    /// Ways in which everything that returned earlier can be linearised, a few of them: in each, `call`
    /// fits nowhere.
    pub configurations: Vec<Configuration>,
    /// How many such ways the search met.
    pub count: u64,
}

/// A way to linearise all calls that returned before some moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// The value in the end.
    pub value: Value,
    /// The order.
    pub order: Vec<usize>,
    /// Calls that have begun, have not returned, and did not take effect yet.
    pub pending: Vec<usize>,
}

/// Decides whether calls on one register are linearizable.
///
/// ```
/// use anomalist_jepsen::linear::{Action, Call, Linearity, linearizable};
/// use anomalist_check::Budget;
/// let call = |action, began, ended| Call { action, began, ended: Some(ended) };
/// let write = call(Action::Write(1), 0, 1);
/// let (fresh, stale) = (call(Action::Read(1), 2, 3), call(Action::Read(0), 4, 5));
/// assert_eq!(linearizable(&[write, fresh], 0, &Budget::unlimited()), Linearity::Yes(vec![0, 1]));
/// let answer = linearizable(&[write, fresh, stale], 0, &Budget::unlimited());
/// assert!(matches!(answer, Linearity::No(reason) if reason.call == 2));
/// ```
pub fn linearizable(calls: &[Call], initial: Value, budget: &Budget<'_>) -> Linearity {
    let plan = Plan::new(calls, initial);
    let found = match plan.width() {
        0..=64 => search::<1>(&plan, initial, budget),
        65..=256 => search::<4>(&plan, initial, budget),
        257..=1024 => search::<16>(&plan, initial, budget),
        1025..=WIDEST => search::<64>(&plan, initial, budget),
        width => {
            return Linearity::Unknown(Why::TooConcurrent { calls: width, limit: WIDEST });
        }
    };
    match found {
        Found::Order(order) => Linearity::Yes(order),
        Found::Stuck(refutation) => Linearity::No(refutation),
        Found::OutOfBudget(configurations) => Linearity::Unknown(Why::SearchStopped { configurations }),
        Found::TooMany(configurations) => Linearity::Unknown(Why::SearchTooLarge { configurations }),
    }
}
