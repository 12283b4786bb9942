//! What an earlier process left in the state folder: a checkpoint, the events that it logged since, and what
//! had arrived.
//!
//! Logged events that were not printed are printed now: an event is logged before it is printed, so none is
//! lost, and none of those that are known to be printed is printed again.

use super::Flags;
use super::options::initial;
use super::state::{Extra, Journaled, State};
use super::store::DiskStore;
use crate::exit::Failure;
use crate::terminal;
use anomalist_online::{Checker, Options, Restored, checkpoint_extra};
use std::collections::HashMap;
use std::path::Path;

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
    /// There is no checkpoint yet.
    pub fresh: bool,
}

/// Finds where to start.
pub fn open(flags: &Flags, options: Options) -> Result<Earlier, Failure> {
    let subject = format!("{} {:?} {:?}", flags.level.name(), flags.tie, flags.initial);
    let new = Extra { subject, seq: 1, faults: 1, ..Extra::default() };
    let mut earlier = match &flags.state {
        Some(folder) => restore(folder, options, new)?,
        None => Earlier {
            checker: Checker::new(options, DiskStore::temporary()?),
            state: None,
            extra: new,
            journal: Vec::new(),
            heard: HashMap::new(),
            fresh: true,
        },
    };
    if earlier.fresh {
        earlier.checker.set_initial(initial(flags.initial.as_deref())?);
    }
    Ok(earlier)
}

/// What is in the folder, or `new` if there is no checkpoint.
fn restore(folder: &Path, options: Options, new: Extra) -> Result<Earlier, Failure> {
    let mut store = State::store(folder)?;
    let other = |what: String| Failure::input(format_args!("{}: the state is {what}", folder.display()));
    let subject = new.subject.clone();
    let (mut extra, fresh) = match checkpoint_extra(&mut store)? {
        Some(bytes) => (Extra::decode(&bytes).ok_or_else(|| other("of another version".to_owned()))?, false),
        None => (new, true),
    };
    if extra.subject != subject {
        return Err(other(format!("about {}, not {subject}", extra.subject)));
    }
    let (state, recovered) = State::open(folder, extra.generation)?;
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
            terminal::print(&event.line)?;
            state.printed(seq, faults)?;
        }
        if event.reported.is_none() {
            *heard.entry(event.line).or_default() += 1;
        }
    }
    Ok(Earlier { checker, state: Some(state), extra, journal: recovered.journal, heard, fresh })
}
