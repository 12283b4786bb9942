//! Checks isolation levels after every transaction, at a cost that does not grow.
//!
//! Simulators record one transaction after another and ask after each whether a level is broken. Checking
//! the whole recording each time is quadratic. This engine takes transactions as they end and derives
//! from each what is new (`resolve.rs`): who read from whom, and in which order versions were installed,
//! where the recording shows it. Each level then keeps a graph in topological order (`dependencies.rs`,
//! `weak.rs`); the first edge that closes a cycle breaks the level, for ever, because what follows from a
//! recording also follows from a longer one.
//!
//! * Read committed, read atomic and causal: all recordings.
//! * Serializability and snapshot isolation, each with and without sessions and real time: list-append,
//!   and registers whose writers read before they write (of each key one may write blindly, to create
//!   it).
//!
//! A read whose writer has not arrived is *pending*: transactions end in any order. So a level holds *so
//! far*; that a pending value was never written shows only at the [end](Engine::end). Values must be
//! written once per key. If one is written again, everything is [unknown](Doubt), an earlier violation
//! too: it may have rested on it. (Only an aborted transaction may have written it before, if it was not
//! read in between.)
//!
//! A transaction of unknown outcome counts once a value is read that only it wrote. It follows those before
//! it in its session, and nothing follows it.
//!
//! Cost of a step: its operations, the readers of what it overwrites, and the part of the graph between
//! the ends of edges that descend: transactions that ran at the same time, if the recording holds. Memory
//! is linear; for causal, times the number of sessions.
//!
//! A *gap* stands between what a list's reads show and the appends that they do not (`resolve.rs`). Graphs
//! are kept in topological order by `anomalist_graph::growing`: labels with room between them and a two-way
//! search, so an edge costs the smaller of its two sides. `tests/prefixes.rs` compares with the offline
//! check at every prefix of random histories in random orders of arrival.

mod dependencies;
mod draft;
mod fact;
mod resolve;
mod timeline;
mod unseen;
mod versions;
mod violation;
mod weak;
mod world;

pub use draft::Operation;
pub use violation::{Because, Link, Violation, Why};
pub use world::{Arrival, Unsupported};

use anomalist_history::{Initial, KeyId};
use anomalist_level::{Bound, Family, Level, Visible};
use dependencies::Dependencies;
use fact::Fact;
use weak::{Sight, Weak};
use world::World;

/// What is known about a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing<'a> {
    /// It holds so far. Nothing that arrives later can change that but through these.
    Holds {
        /// Values that were read and whose writers have not arrived.
        pending: usize,
    },
    /// It is violated.
    Violated(&'a Violation),
    /// It is not known.
    Unknown(Doubt),
}

/// Why a level is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Doubt {
    /// The recording has something that is not decided step by step.
    Unsupported(Unsupported),
    /// Two transactions wrote this register without reading it: the order of its versions is open.
    BlindWrites(KeyId),
    /// No read shows the order of the last appends to some lists, and an easy order of them does not do.
    UnseenAppends,
    /// A transaction has no interval.
    NoRealTime,
    /// The level was not asked for, or is not decided step by step.
    NotJudged,
}

/// Judges levels step by step.
#[derive(Debug, Default)]
pub struct Engine {
    world: World,
    judges: Vec<Judge>,
}

#[derive(Debug)]
struct Judge {
    level: Level,
    rules: Rules,
    violation: Option<Violation>,
}

#[derive(Debug)]
enum Rules {
    Dependencies(Box<Dependencies>),
    Weak(Box<Weak>),
}

impl Rules {
    fn of(level: Level) -> Option<Rules> {
        let graph = |snapshot, bound| Rules::Dependencies(Box::new(Dependencies::new(snapshot, bound)));
        let weak = |sight| Rules::Weak(Box::new(Weak::new(sight)));
        let bound = level.bound();
        match level.info().family? {
            Family::Serial => Some(graph(false, bound)),
            Family::Snapshot => Some(graph(true, bound)),
            Family::Visible(_) if bound == Bound::RealTime => None,
            Family::Visible(Visible::ReadCommitted) => Some(weak(Sight::ReadCommitted)),
            Family::Visible(Visible::ReadAtomic) => Some(weak(Sight::ReadAtomic)),
            Family::Visible(Visible::Causal) => Some(weak(Sight::Causal)),
            Family::Visible(
                Visible::ReadYourWrites
                | Visible::MonotonicReads
                | Visible::MonotonicWrites
                | Visible::WritesFollowReads,
            )
            | Family::Prefix
            | Family::Parallel
            | Family::Updates
            | Family::Flow
            | Family::Writes
            | Family::Cut => None,
        }
    }

    fn apply(&mut self, facts: &[Fact], world: &World) -> Result<(), Why> {
        for &fact in facts {
            if let Fact::Fault { node, kind, key } = fact {
                let reader = world.txns[node as usize].step.unwrap_or_default();
                return Err(Why::Read { reader, kind, key });
            }
            match self {
                Rules::Dependencies(graph) => graph.apply(fact, world)?,
                Rules::Weak(weak) => weak.apply(fact, world)?,
            }
        }
        match self {
            Rules::Dependencies(graph) => {
                graph.settle(world);
                Ok(())
            }
            Rules::Weak(weak) => weak.settle(world),
        }
    }

    fn doubt(&self, world: &World) -> Option<Doubt> {
        let Rules::Dependencies(graph) = self else { return None };
        match graph.open {
            Some(key) => Some(Doubt::BlindWrites(key)),
            None if graph.is_untimed(world) => Some(Doubt::NoRealTime),
            None if !graph.unseen.is_ordered() => Some(Doubt::UnseenAppends),
            None => None,
        }
    }
}

impl Engine {
    /// Judges these levels, as far as they are decided step by step.
    pub fn new(levels: &[Level]) -> Engine {
        let mut engine = Engine::default();
        for &level in levels {
            let rules = Rules::of(level);
            engine.judges.extend(rules.map(|rules| Judge { level, rules, violation: None }));
        }
        engine
    }

    /// True if a level is decided step by step.
    pub fn decides(level: Level) -> bool {
        Rules::of(level).is_some()
    }

    /// Sets the values of keys before they are written; before the first transaction.
    pub fn set_initial(&mut self, initial: Initial) {
        self.world.set_initial(initial);
    }

    /// Takes in a transaction that ended. Those of a session come in their order.
    pub fn accept(&mut self, arrival: &Arrival<'_>) {
        if self.world.unsupported.is_none() {
            self.world.accept(arrival);
            self.judge();
        }
    }

    /// Nothing more will arrive: values that are pending were never written.
    pub fn end(&mut self) {
        self.world.end();
        self.judge();
    }

    fn judge(&mut self) {
        let facts = std::mem::take(&mut self.world.facts);
        let step = self.world.steps().saturating_sub(1);
        for judge in self.judges.iter_mut().filter(|judge| judge.violation.is_none()) {
            if let Err(why) = judge.rules.apply(&facts, &self.world) {
                judge.violation = Some(Violation { step, why });
            }
        }
    }

    /// What is known about a level.
    pub fn standing(&self, level: Level) -> Standing<'_> {
        let Some(judge) = self.judges.iter().find(|judge| judge.level == level) else {
            return Standing::Unknown(Doubt::NotJudged);
        };
        if let Some(reason) = self.world.unsupported {
            return Standing::Unknown(Doubt::Unsupported(reason));
        }
        if let Some(violation) = &judge.violation {
            return Standing::Violated(violation);
        }
        match judge.rules.doubt(&self.world) {
            Some(doubt) => Standing::Unknown(doubt),
            None => Standing::Holds { pending: self.world.pending },
        }
    }
}
