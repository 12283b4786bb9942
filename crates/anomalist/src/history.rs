//! A history and where it is from.
//!
//! Most files hold transactions of reads, writes and appends. Jepsen's other recordings (sets, counters,
//! banks, registers, predicates) are made into transactions when they are read, with what those do not
//! show kept beside them; every question can be asked of both.

use crate::error::Error;
use anomalist_check::lint;
use anomalist_format::{Diagnostic, Input};
use anomalist_history::{Events, History as Transactions};
use anomalist_jepsen::datatypes::{self, Lowered};
use anomalist_report::HistoryFacts;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use anomalist_format::ReadOptions;

/// What clients saw: transactions, and where they are from.
#[derive(Debug)]
pub struct History {
    recording: Recording,
    facts: HistoryFacts,
    /// What it took to read it.
    pub(crate) reading: Duration,
    /// Oddities that did not prevent reading.
    warnings: Vec<Diagnostic>,
}

/// What was recorded.
#[derive(Debug)]
#[non_exhaustive]
pub enum Recording {
    /// Transactions of reads, writes and appends.
    Plain {
        /// The transactions.
        history: Box<Transactions>,
        /// Reads that are ignored because the recording was cut off and their writer is missing from it.
        unexplained: usize,
    },
    /// Operations of another datatype, as transactions.
    Other {
        /// The transactions, and what they do not show.
        lowered: Box<Lowered>,
        /// The recording was cut off: operations that were in flight are missing.
        cut_off: bool,
    },
}

impl From<Transactions> for History {
    fn from(history: Transactions) -> History {
        History::plain(history, "recorded", "memory", 0)
    }
}

impl History {
    /// Reads a file of any format, compressed or not, or the folder of a run.
    pub fn read(path: impl AsRef<Path>) -> Result<History, Error> {
        let path = path.as_ref();
        let mut all = History::read_all(path, &ReadOptions::default())?;
        match (all.pop(), all.len()) {
            (Some(one), 0) => Ok(one),
            (_, others) => Err(Error::Several { file: path.display().to_string(), count: others + 1 }),
        }
    }

    /// Reads what a file holds: one history, or one per key of `jepsen.independent`.
    pub fn read_all(path: &Path, options: &ReadOptions<'_>) -> Result<Vec<History>, Error> {
        enum Found {
            Plain(Box<anomalist_format::Loaded>),
            Other(anomalist_format::LoadedEvents),
        }
        let since = Instant::now();
        let name = path.display().to_string();
        let mut input = open(path)?;
        let beginning = anomalist_format::peek_events(&mut input, options);
        let found = if beginning.is_some_and(|events| datatypes::is_foreign(&events)) {
            Found::Other(anomalist_format::read_events(input, options)?)
        } else {
            Found::Plain(Box::new(anomalist_format::read(input, options)?))
        };
        let mut all = match found {
            Found::Plain(loaded) => {
                let anomalist_format::Loaded { history, format, warnings, unexplained } = *loaded;
                let plain = History::plain(history, &name, format.name(), unexplained);
                vec![History { warnings, ..plain }]
            }
            Found::Other(loaded) => others(loaded, &name)?,
        };
        all.iter_mut().for_each(|history| history.reading = since.elapsed());
        Ok(all)
    }

    fn plain(history: Transactions, name: &str, format: &str, unexplained: usize) -> History {
        let facts = HistoryFacts::of(&history, name, format).with_vacuity(lint::vacuity(&history));
        let recording = Recording::Plain { history: Box::new(history), unexplained };
        History { recording, facts, reading: Duration::ZERO, warnings: Vec::new() }
    }

    /// Some transactions of a history that is too large to be held, and what the whole consists of.
    pub fn excerpt(history: Transactions, facts: HistoryFacts) -> History {
        let recording = Recording::Plain { history: Box::new(history), unexplained: 0 };
        History { recording, facts, reading: Duration::ZERO, warnings: Vec::new() }
    }

    /// The same under another name and format, which explanations begin with.
    pub fn named(mut self, name: &str, format: &str) -> History {
        name.clone_into(&mut self.facts.path);
        format.clone_into(&mut self.facts.format);
        self
    }

    /// The same with the database's clock for real time. Nothing changes without timestamps.
    pub fn timed_by_stamps(self) -> History {
        let recording = match self.recording {
            Recording::Plain { history, unexplained } => {
                Recording::Plain { history: Box::new(history.timed_by_stamps()), unexplained }
            }
            other => other,
        };
        History { recording, ..self }
    }

    /// Its name, format and size alone.
    pub fn without_transactions(&self) -> Result<History, Error> {
        let history = Box::new(anomalist_history::Builder::new().finish()?);
        let empty = Recording::Plain { history, unexplained: 0 };
        let facts = self.facts.clone();
        Ok(History { recording: empty, facts, reading: self.reading, warnings: Vec::new() })
    }

    /// The transactions.
    pub fn transactions(&self) -> &Transactions {
        match &self.recording {
            Recording::Plain { history, .. } => history,
            Recording::Other { lowered, .. } => &lowered.history,
        }
    }

    /// What was recorded.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Its name, format and size.
    pub fn facts(&self) -> &HistoryFacts {
        &self.facts
    }

    /// Oddities that did not prevent reading.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }
}

/// Operations of another datatype as transactions, system by system.
fn others(loaded: anomalist_format::LoadedEvents, name: &str) -> Result<Vec<History>, Error> {
    let anomalist_format::LoadedEvents { events, format, warnings, cut_off } = loaded;
    let one = |events: &Events, name: String| {
        let Some(datatype) = datatypes::recognise(events) else {
            return Err(Error::Unrecognised(name));
        };
        let lowered = datatypes::lower(datatype, events)
            .map_err(|source| Error::Datatype { file: name.clone(), source })?;
        let facts =
            HistoryFacts::of(&lowered.history, &name, format.name()).of_datatype(lowered.datatype.name());
        let recording = Recording::Other { lowered: Box::new(lowered), cut_off };
        Ok(History { recording, facts, reading: Duration::ZERO, warnings: Vec::new() })
    };
    let mut all = match datatypes::independent(&events) {
        Some(keys) => {
            let each = keys.iter().map(|(key, events)| one(events, format!("{name} key {key}")));
            each.collect::<Result<Vec<History>, Error>>()?
        }
        None => vec![one(&events, name.to_owned())?],
    };
    if let Some(first) = all.first_mut() {
        first.warnings = warnings;
    }
    Ok(all)
}

/// What the folder of a run keeps its history in: that of `anomalist test`, or Jepsen's.
const HISTORIES: [&str; 4] = ["history.jsonl", "history.elle.jsonl", "history.edn", "history.json"];

/// The history of a run's folder, such as `runs/latest`; any other path as it is.
pub fn of_run(path: &Path) -> PathBuf {
    let kept = HISTORIES.iter().map(|name| path.join(name)).find(|kept| kept.is_file());
    kept.unwrap_or_else(|| path.to_owned())
}

/// Opens a file, or the history of a run's folder.
pub fn open(path: &Path) -> Result<Input, Error> {
    let path = &of_run(path);
    let binary = path.is_dir() && path.join("test.jepsen").is_file();
    if binary || path.extension().is_some_and(|extension| extension == "jepsen") {
        return Err(Error::Binary(path.display().to_string()));
    }
    Ok(Input::open(path)?)
}
