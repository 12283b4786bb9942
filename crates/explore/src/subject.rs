//! What is run: anything that uses a store and succeeds or fails.

use crate::turns::{Stop, Turns};
use anomalist_history::{History, TooLarge};
use anomalist_weakdb::{Choice, Options, Store, TxnName, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// One run of a subject.
#[derive(Debug)]
pub struct Run {
    /// Why it failed; `None` if it did not.
    pub failure: Option<String>,
    /// What its reads were given.
    pub choices: Vec<Choice>,
    /// What its sessions did, as they announced it.
    pub statements: Vec<(TxnName, Arc<str>)>,
    /// The names of its sessions.
    pub sessions: Vec<Arc<str>>,
    /// The history, if it could be recorded.
    pub history: Result<History, TooLarge>,
}

impl Run {
    /// A run that used this store and ended so.
    pub fn of(store: &Store, failure: Option<String>) -> Run {
        Run {
            failure,
            choices: store.choices(),
            statements: store.statements(),
            sessions: (0..).map_while(|i| store.session_name(i)).collect(),
            history: store.history(),
        }
    }

    /// Everything that clients were shown: values of reads, by session.
    pub fn observed(&self) -> String {
        let mut reads: Vec<_> = self.choices.iter().map(|c| (c.read, &c.key, &c.value)).collect();
        reads.sort_by_key(|r| r.0);
        format!("{reads:?}")
    }
}

/// Something that can be run again and again on a fresh store with these options.
pub trait Subject {
    /// Why it could not be run at all.
    type Error;

    /// Runs it. The store must be made with these options, as far as the subject has no reason to change
    /// them.
    fn run(&mut self, options: &Options) -> Result<Run, Self::Error>;
}

/// A function of the same process as a [`Subject`]: it is given a store with initial values, and turns for
/// [`concurrently`](crate::concurrently). It fails by an error or by a panic.
pub struct Program<F> {
    initial: Vec<(String, Value)>,
    body: F,
}

impl<F: FnMut(&Arc<Store>, &Turns) -> Result<(), String>> Program<F> {
    /// A program that begins with nothing.
    pub fn new(body: F) -> Program<F> {
        Program { initial: Vec::new(), body }
    }

    /// The same with these initial values.
    pub fn with_initial(mut self, initial: impl IntoIterator<Item = (String, Value)>) -> Program<F> {
        self.initial.extend(initial);
        self
    }
}

impl<F: FnMut(&Arc<Store>, &Turns) -> Result<(), String>> Subject for Program<F> {
    type Error = Stop;

    fn run(&mut self, options: &Options) -> Result<Run, Stop> {
        let initial = self.initial.iter().map(|(k, v)| (k.as_str(), v.clone()));
        let store = Store::with_initial(options.clone(), initial)?;
        let turns = Turns::Shuffled(options.seed);
        let body = &mut self.body;
        let failure = match catch_unwind(AssertUnwindSafe(|| body(&store, &turns))) {
            Ok(result) => result.err(),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Some(text.unwrap_or("it panicked").to_owned())
            }
        };
        Ok(Run::of(&store, failure))
    }
}
