//! Judges a recording while it is made: for simulators that check after every step.
//!
//! The engine is [`core::incremental`](crate::core::incremental): for the levels and recordings that it
//! decides, a step costs what its transaction costs, however many came before. Other levels, and
//! recordings that it does not decide (values that are written twice, registers that are written without
//! being read), are checked as a whole now and then: whenever the recording has doubled, within a
//! [budget](Monitor::budget). In between they are unknown, and the status says when they were last looked
//! at.
//!
//! Verdicts are by values, unless timestamps are to judge ([`Monitor::by_timestamps`]): then snapshot
//! isolation and serializability are decided step by step whatever is recorded.

use crate::error::Error;
use crate::history::History;
use crate::recorder::{Recorder, Session};
use crate::value::Value;
use crate::watch::Watch;
use crate::{Basis, check};
use anomalist_history::Timestamp;
use anomalist_level::Level;
use anomalist_timestamp::Tie;
use std::fmt;
use std::time::Duration;

/// Records transactions and judges each as it ends.
///
/// ```
/// use anomalist::{Level, Monitor, Standing};
/// let monitor = Monitor::new().require(Level::Serializable);
/// monitor.recorder().initial(0);
/// let (mut alice, mut bob) = (monitor.session("alice"), monitor.session("bob"));
/// alice.begin().read("x", 0).read("y", 0).write("x", 1).commit();
/// assert_eq!(monitor.status().of(Level::Serializable), Some(&Standing::Holds { pending: 0 }));
/// bob.begin().read("x", 0).read("y", 0).write("y", 1).commit();
/// let status = monitor.status();
/// let breach = status.violation().unwrap();
/// assert_eq!((breach.transaction.as_str(), breach.cycle.len()), ("bob:1", 2));
/// ```
#[derive(Clone)]
pub struct Monitor {
    recorder: Recorder,
}

impl Default for Monitor {
    fn default() -> Monitor {
        Monitor::new()
    }
}

impl From<Recorder> for Monitor {
    /// What was recorded before is checked only as a whole, so start with a new recorder.
    fn from(recorder: Recorder) -> Monitor {
        let state = &mut *recorder.state();
        state.watch = Some(Box::new(Watch::new(state.builder.txn_count())));
        state.pass_on_initial();
        Monitor { recorder: recorder.clone() }
    }
}

impl Monitor {
    /// Starts a recording.
    pub fn new() -> Monitor {
        Monitor::from(Recorder::new())
    }

    /// The same with virtual time: see [`Recorder::with_clock`].
    pub fn with_clock(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Monitor {
        Monitor::from(Recorder::with_clock(clock))
    }

    /// A level to judge. Before the first transaction; one that is added later is checked only as a whole.
    pub fn require(self, level: Level) -> Self {
        self.watch(|watch| watch.require(level));
        self
    }

    /// Judges snapshot-isolation, serializable and their strong-session variants by the
    /// [timestamps](crate::Transaction::timestamps) of the transactions: virtual time of a simulator, or
    /// what a database says. Before the first transaction. Other levels are judged by values.
    ///
    /// A read that no version explains so far is provisional, since its writer may not have ended: the level
    /// holds with reads [pending](Standing::Holds), and [`Monitor::provisional`] names them.
    /// [`Monitor::no_earlier_than`] makes them final, and so does [`Monitor::end`].
    ///
    /// ```
    /// use anomalist::{Level, Monitor, Standing, Tie};
    /// let level = Level::SnapshotIsolation;
    /// let monitor = Monitor::new().by_timestamps(Tie::Inclusive).require(level);
    /// let (mut alice, mut bob) = (monitor.session("alice"), monitor.session("bob"));
    /// bob.begin().read("x", 1).timestamps(30, 30).commit();
    /// assert_eq!(monitor.status().of(level), Some(&Standing::Holds { pending: 1 }));
    /// alice.begin().write("x", 1).timestamps(10, 20).commit();
    /// assert_eq!(monitor.status().of(level), Some(&Standing::Holds { pending: 0 }));
    /// bob.begin().read("x", 2).timestamps(40, 40).commit();
    /// monitor.no_earlier_than(50);
    /// let breach = monitor.status().violation().unwrap().clone();
    /// let expected = "bob:2 read x = 2, and the last version that it sees is 1 of alice:1 (EXT)";
    /// assert_eq!(breach.reason, expected);
    /// ```
    pub fn by_timestamps(self, tie: Tie) -> Self {
        self.watch(|watch| watch.by_timestamps(tie));
        self
    }

    /// Virtual time has passed this timestamp: no transaction that ends from now on has a smaller commit
    /// timestamp, not even one of unknown outcome. Reads of earlier snapshots are final from now on.
    pub fn no_earlier_than(&self, timestamp: i64) {
        let state = &mut *self.recorder.state();
        if let Some(watch) = &mut state.watch {
            watch.advance(&state.builder, Timestamp { physical: timestamp, logical: 0 });
        }
    }

    /// By timestamps: the reads that no version explains so far, each at the levels that it will break if
    /// none does. Takes the whole recording, for names.
    pub fn provisional(&self) -> Vec<(Level, Breach)> {
        let state = &*self.recorder.state();
        state.watch.as_ref().map_or_else(Vec::new, |watch| watch.provisional(&state.builder))
    }

    /// How long a check of the whole recording may take, for levels that are not decided step by step.
    /// Without a choice one second; zero: never.
    pub fn budget(self, limit: Duration) -> Self {
        self.watch(|watch| watch.limit = limit);
        self
    }

    /// What it records with, for initial values.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The session of this name: see [`Recorder::session`].
    pub fn session(&self, name: impl Into<Value>) -> Session {
        self.recorder.session(name)
    }

    /// What is known after the transactions that have ended.
    pub fn status(&self) -> Status {
        let state = &*self.recorder.state();
        state.watch.as_ref().map_or_else(Status::default, |watch| watch.status())
    }

    /// Nothing more will be recorded: values that were read and never written break every level, and what is
    /// not known is checked as a whole.
    pub fn end(&self) -> Status {
        let state = &mut *self.recorder.state();
        if let Some(watch) = &mut state.watch {
            watch.end(&state.builder);
        }
        state.watch.as_ref().map_or_else(Status::default, |watch| watch.status())
    }

    /// What was recorded so far, to [check](crate::check()) as a whole.
    pub fn history(&self) -> Result<History, Error> {
        let builder = self.recorder.state().builder.clone();
        Ok(History::from(builder.finish()?))
    }

    /// Checks the recording as a whole and explains, as `anomalist check` does. A read whose writer has
    /// not ended is an anomaly there.
    pub fn explain(&self) -> Result<String, Error> {
        let history = self.history()?;
        let question = self.status().levels.iter().fold(check(&history), |q, (level, _)| q.require(*level));
        let tie = self.recorder.state().watch.as_ref().and_then(|watch| watch.tie());
        let question = match tie.filter(|_| history.transactions().stamps().is_some()) {
            Some(tie) => question.by(Basis::Timestamps).ties(tie),
            None => question.by(Basis::Values),
        };
        Ok(question.run()?.to_string())
    }

    /// Panics with the explanation if a level is violated.
    ///
    /// # Panics
    ///
    /// If a required level is violated.
    #[track_caller]
    pub fn assert(&self) {
        let status = self.status();
        if status.violation().is_some() {
            let explained = self.explain().unwrap_or_else(|error| error.to_string());
            panic!("{status}\n{explained}");
        }
    }

    fn watch(&self, change: impl FnOnce(&mut Watch)) {
        if let Some(watch) = &mut self.recorder.state().watch {
            change(watch);
        }
    }
}

/// What is known after a step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// How many transactions have ended.
    pub steps: usize,
    /// The levels, as they were required.
    pub levels: Vec<(Level, Standing)>,
}

/// What is known about a level.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Standing {
    /// It holds so far.
    Holds {
        /// Values that were read and whose writers have not ended; if they never do, the level is violated.
        /// By timestamps also reads that are right only if a transaction of unknown outcome committed.
        pending: usize,
    },
    /// It is violated.
    Violated(Breach),
    /// It is not known.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// What broke a level.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Breach {
    /// How many transactions had ended.
    pub steps: usize,
    /// The last of them.
    pub transaction: String,
    /// What is wrong, in a sentence.
    pub reason: String,
    /// If it is a cycle: who must come before whom.
    pub cycle: Vec<Precedes>,
}

/// One transaction must come before another.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Precedes {
    /// The earlier.
    pub first: String,
    /// The later.
    pub then: String,
    /// Why.
    pub because: String,
}

impl Status {
    /// What is known about a level, if it was required.
    pub fn of(&self, level: Level) -> Option<&Standing> {
        self.levels.iter().find(|(l, _)| *l == level).map(|(_, standing)| standing)
    }

    /// What broke a level, the first that was required.
    pub fn violation(&self) -> Option<&Breach> {
        self.levels.iter().find_map(|(_, standing)| match standing {
            Standing::Violated(breach) => Some(breach),
            _ => None,
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "after {} transactions", self.steps)?;
        for (level, standing) in &self.levels {
            match standing {
                Standing::Holds { pending: 0 } => writeln!(f, "{level}: holds so far")?,
                Standing::Holds { pending } => {
                    writeln!(f, "{level}: holds so far; the writers of {pending} values have not ended")?;
                }
                Standing::Violated(breach) => writeln!(f, "{level}: violated; {breach}")?,
                Standing::Unknown { reason } => writeln!(f, "{level}: unknown; {reason}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (found when {} ended, number {})", self.reason, self.transaction, self.steps)?;
        for Precedes { first, then, because } in &self.cycle {
            write!(f, "\n  {first} is before {then}: {because}")?;
        }
        Ok(())
    }
}
