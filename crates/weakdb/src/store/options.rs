//! The options with which a store is made.

use super::choice::{Chooser, Replay};
use anomalist_level::Level;
use std::time::Duration;

/// How transactions of different sessions share the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Schedule {
    /// They may overlap as the client makes them; nothing is locked between statements.
    #[default]
    Interleaved,
    /// One after another, as in the paper: `begin` waits until no other transaction is open.
    Serial,
}

/// What one key stands for where tables are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Granularity {
    /// A column of a row.
    #[default]
    Cell,
    /// A whole row.
    Row,
}

/// To what reads are reduced, for the queries of a test's assertions, which are to show what the
/// application did and not to be stale themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Latest {
    /// To nothing: all that the level allows.
    #[default]
    Off,
    /// The newest allowed write of each session, without those known to be overwritten by another of them.
    On,
    /// The newest allowed write of each session, and the initial value if it is allowed: the MonkeyDB
    /// paper's rule. A session that has not heard of the others keeps its old write in this set, and a row
    /// that another session inserted may be missing.
    PerSession,
}

impl From<bool> for Latest {
    fn from(on: bool) -> Latest {
        if on { Latest::On } else { Latest::Off }
    }
}

/// The options with which a store is made. The fields that matter most: `level` and `seed`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The isolation level to show: read committed, read atomic, causal, prefix, snapshot isolation or
    /// serializable (the last two in their session variants, which is what those names mean here).
    pub level: Level,
    /// Decides every choice. A choice depends on the seed and on which read of which transaction of which
    /// session it is, not on how threads happened to run.
    pub seed: u64,
    /// How transactions overlap.
    pub schedule: Schedule,
    /// `Some(p)`: with probability `p` an older value than the newest allowed one, if there is one. `None`:
    /// every allowed value with the same probability.
    pub stale: Option<f64>,
    /// The probability with which a commit fails for no other reason than to test retry loops.
    pub abort: f64,
    /// What sessions begin with ([`Session::set_latest`](super::Session::set_latest)).
    pub latest: Latest,
    /// A random time to wait before each transaction, from the first to the second.
    pub delay: Option<(Duration, Duration)>,
    /// The order of commits is the commit order at every level, as it always is from prefix consistency up.
    /// Then the version that committed last is the newest for everybody, which a real database that keeps
    /// the newest version in its tables needs. What the weak levels allow only by another order is left
    /// out.
    pub ordered: bool,
    /// What a key stands for in tables.
    pub granularity: Granularity,
    /// Keep the history, for [`Store::history`](super::Store::history).
    pub record: bool,
    /// Keep the choices, for [`Store::choices`](super::Store::choices).
    pub record_choices: bool,
    /// With `record_choices`: keep also what else could have been chosen.
    pub record_alternatives: bool,
    /// Choices to repeat.
    pub replay: Option<Replay>,
    /// Who chooses instead of chance and [`Options::replay`].
    pub chooser: Option<Chooser>,
    /// With [`Schedule::Serial`], how long `begin` waits.
    pub patience: Duration,
    /// How long a client without a connection of its own (HTTP) may leave a transaction open before it is
    /// rolled back: nothing else shows that the client has vanished.
    pub idle: Duration,
}

impl Options {
    /// The defaults, at this level.
    pub fn new(level: Level) -> Options {
        Options {
            level,
            seed: 0,
            schedule: Schedule::default(),
            stale: None,
            abort: 0.0,
            latest: Latest::Off,
            delay: None,
            ordered: false,
            granularity: Granularity::default(),
            record: false,
            record_choices: false,
            record_alternatives: false,
            replay: None,
            chooser: None,
            patience: Duration::from_secs(10),
            idle: Duration::from_secs(60),
        }
    }
}
