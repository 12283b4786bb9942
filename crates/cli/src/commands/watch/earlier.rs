//! What an earlier process left in the state folder: a checkpoint, the events that it logged since, and what
//! had arrived.
//!
//! Logged events that were not printed are printed now: an event is logged before it is printed, so none is
//! lost, and none of those that are known to be printed is printed again.

use super::engine::{Audience, Setup};
use super::medium::Shared;
use super::state::{Extra, Journaled, State};
use super::store::DiskStore;
use crate::exit::Failure;
use anomalist_online::{Checker, Options, Restored, checkpoint_extra};
use std::collections::HashMap;

/// Where a watch starts from.
pub struct Earlier {
    pub checker: Checker<DiskStore>,
    /// Where it keeps its state, if anywhere.
    pub state: Option<State>,
    pub extra: Extra,
    /// What had arrived since the last checkpoint.
    pub journal: Vec<Journaled>,
    /// Faults that were reported since the last checkpoint, with how often.
    pub heard: HashMap<String, u32>,
}

/// Finds where to start.
pub fn open(setup: &Setup, audience: &mut impl Audience) -> Result<Earlier, Failure> {
    let new = Extra { subject: setup.subject.clone(), seq: 1, faults: 1, ..Extra::default() };
    let mut earlier = match &setup.state {
        Some((medium, segment)) => restore(medium, *segment, setup.options, new, audience)?,
        None => Earlier {
            checker: Checker::new(setup.options, DiskStore::temporary()?),
            state: None,
            extra: new,
            journal: Vec::new(),
            heard: HashMap::new(),
        },
    };
    if earlier.extra.generation == 0 {
        earlier.checker.set_initial(setup.initial);
    }
    Ok(earlier)
}

/// What is in the folder, or `new` if there is no checkpoint.
fn restore(
    medium: &Shared,
    segment: u64,
    options: Options,
    new: Extra,
    audience: &mut impl Audience,
) -> Result<Earlier, Failure> {
    let mut store = State::store(medium, segment)?;
    let other = |what: String| Failure::input(format_args!("{}: the state is {what}", medium.shown()));
    let subject = new.subject.clone();
    let mut extra = match checkpoint_extra(&mut store)? {
        Some(bytes) => Extra::decode(&bytes).ok_or_else(|| other("of another version".to_owned()))?,
        None => new,
    };
    if extra.subject != subject {
        return Err(other(format!("about {}, not {subject}", extra.subject)));
    }
    let (mut state, recovered) = State::open(medium.clone(), extra.generation)?;
    let reported = recovered.events.iter().filter_map(|event| event.reported);
    let checker = match Checker::restore(options, store, reported)? {
        Restored::Checker(checker, _) => *checker,
        Restored::Nothing(store) => Checker::new(options, store),
    };
    let [mut seq, mut faults] = recovered.printed;
    let mut heard: HashMap<String, u32> = HashMap::new();
    for event in recovered.events {
        let (last, next) = match event.reported {
            Some(_) => (&mut seq, &mut extra.seq),
            None => (&mut faults, &mut extra.faults),
        };
        *next = (*next).max(event.seq + 1);
        if event.seq > *last {
            *last = event.seq;
            audience.print(&event.line)?;
            state.printed(seq, faults)?;
        }
        if event.reported.is_none() {
            *heard.entry(event.line).or_default() += 1;
        }
    }
    Ok(Earlier { checker, state: Some(state), extra, journal: recovered.journal, heard })
}
