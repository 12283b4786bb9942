//! Why something is not known, in sentences: the only place that has them.
//!
//! A sentence starts in lower case, ends without a full stop, and names no command-line flag; a program that
//! has flags passes their names as [`Hints`].

use anomalist_level::{Progress, Why};

/// What the program that prints can do besides, in its own words; a library says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// How to see an example of every anomaly: "-v".
    pub examples: Option<&'static str>,
    /// How to state in which order versions were written: "--transaction-order".
    pub versions: Option<&'static str>,
    /// How to allow more memory: "--memory".
    pub memory: Option<&'static str>,
}

/// The sentence for a reason.
///
/// ```
/// use anomalist_level::Why;
/// assert_eq!(anomalist_report::reason(&Why::NoRealTime), "the history has no real-time information");
/// ```
pub fn reason(why: &Why) -> String {
    sentence(why, Hints::default())
}

/// The sentence for a reason, with what the program can do about it.
pub(crate) fn sentence(why: &Why, hints: Hints) -> String {
    let text = match why {
        Why::Stopped => "stopped, by an interrupt or the time limit, before this was decided",
        Why::NotRead => "stopped, by an interrupt or the time limit, before the history was read",
        Why::Search(progress) => return searched(progress),
        Why::Memory { needed, limit } => return beyond(*needed, *limit, hints),
        Why::OnlyAsked => "only the anomalies asked for were looked for",
        Why::NameOnly => "name only: the model has no definition that a history could be held against",
        Why::NoRealTime => "the history has no real-time information",
        Why::NotDecided => "no violation of a weaker level; this version does not decide the level itself",
        Why::AmbiguousReads { reads } => {
            return format!(
                "{reads} reads return a value that several transactions wrote, so their source is open"
            );
        }
        Why::PlumeRepeats => {
            "a transaction read others' values after its own write, and values repeat: Plume's definitions are \
             about values that are written once"
        }
        Why::DirtyRead => {
            "a transaction of unknown outcome counts as committed because a register's value that it wrote was \
             read, which this level allows of aborted ones"
        }
        Why::ForgivenRead => {
            "a read that nothing explains, which the level forgives, may still show an order of its own"
        }
        Why::UnexplainedRead => {
            "a transaction of unknown outcome has a read that nothing explains, and may have been read from"
        }
        Why::RepeatedElements => {
            "lists show elements that were appended more than once, and the appends chosen for them are no \
             versions of their keys"
        }
        Why::OpenDependency => {
            "a read that nothing explains returned what several transactions wrote, and depends on one of them"
        }
        Why::FaultyLists => "reads of some lists are faulty, so the order of their versions is not known",
        Why::RegisterOrder => {
            let assumption = hints.versions.unwrap_or("an assumption about it");
            return format!(
                "no violation was found, but the order in which some keys were written is not known: reads of a \
                 register do not show it (lists would, and {assumption} may)"
            );
        }
        Why::AppendOrder => {
            "no violation was found, but no read shows in which order the last appends to some keys took effect (a \
             final read of every key would show it)"
        }
        Why::PairsLeftOut => {
            "too many pairs of a reader and an append that it did not see; some were left out"
        }
        Why::NoVersionOrder => {
            "no violation was found, but nor was an order of versions that shows that there is none"
        }
        Why::TooManyTransactions { limit } => {
            return format!("more than {limit} transactions would have to be put in order");
        }
        Why::CannotMix { transaction, level } => {
            return format!("{transaction} declares {level:?}, which cannot be mixed with other levels");
        }
        Why::NoRule => "one of the levels cannot be mixed with others",
        Why::DeclaredRealTime => {
            "levels with real time are declared, and the history has no real-time information"
        }
        Why::DeclaredUnknownOutcome => {
            "reads return a value that several transactions wrote, one of them of unknown outcome, and levels \
             with real time are declared"
        }
        Why::NoLevelForbids => "none was found; no level forbids it, so none proves that there is none",
        Why::CyclesLeft => "none was found, but not every cycle was looked at",
        other => {
            return recorded(other)
                .or_else(|| stamped(other))
                .or_else(|| campaign(other))
                .unwrap_or_else(|| spelled(other));
        }
    };
    text.to_owned()
}

/// More memory than the limit allows.
fn beyond(needed: u64, limit: u64, hints: Hints) -> String {
    let how = hints.memory.map_or_else(String::new, |flag| format!(" ({flag} allows more)"));
    format!("it takes at least {} of memory, and {} are allowed{how}", bytes(needed), bytes(limit))
}

/// A number of bytes in the unit that fits.
///
/// ```
/// use anomalist_report::bytes;
/// assert_eq!([bytes(900), bytes(64_000_000), bytes(1_500_000_000)], ["900 bytes", "64 MB", "1.5 GB"]);
/// ```
pub fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..1_000_000 => format!("{} kB", count / 1000),
        1_000_000..1_000_000_000 => format!("{} MB", count / 1_000_000),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// How far a search came.
fn searched(progress: &Progress) -> String {
    let Progress { known, rounds, constraints, conflicts, missed } = progress;
    let how_far = match (rounds, known) {
        (0, 0) => "before an order was tried".to_owned(),
        (0, known) => {
            format!("while working out what follows from what is known: {known} dependencies so far")
        }
        (rounds, _) => format!(
            "after {rounds} orders tried, {constraints} constraints and {conflicts} conflicts; the last order missed \
             {missed} constraints"
        ),
    };
    format!("stopped, by an interrupt or the time limit, {how_far}")
}

/// Reasons that lie in the recording: what is missing from it, or what its datatype does not show.
fn recorded(why: &Why) -> Option<String> {
    Some(match why {
        Why::MissingWriters { reads } => {
            format!(
                "the recording was cut off, and {reads} reads returned values whose writer is missing from it"
            )
        }
        Why::MissingOperations => {
            "the recording was cut off, and operations that were in flight are missing from it".to_owned()
        }
        Why::CounterReads => {
            "no violation was found, but a counter's reads do not show which additions they include".to_owned()
        }
        Why::BankReads => {
            "no violation was found, but a bank's reads show totals, not which transfers they include".to_owned()
        }
        Why::PredicateReads => {
            "no violation was found, but the versions that reads by predicate saw, and their order, are not all \
             known".to_owned()
        }
        _ => return None,
    })
}

/// Reasons of the judge of timestamps.
fn stamped(why: &Why) -> Option<String> {
    Some(match why {
        Why::NoStart { transactions } => format!(
            "{transactions} transactions have a commit timestamp and no start timestamp: what they saw is not known"
        ),
        Why::AppendedValue { reads } => format!(
            "{reads} reads are of a written value that was appended to; what they should return is not defined"
        ),
        Why::AppendsAtOnce { reads } => format!(
            "{reads} reads are of a list to which very many transactions appended at one and the same commit; not \
             all of their orders could be tried"
        ),
        Why::OutcomeChoice { reads } => format!(
            "{reads} reads are right only if a transaction of unknown outcome committed, and whether some choice \
             of which breaks nothing else was not found out"
        ),
        Why::ForkedSnapshots => {
            "some snapshots do not contain one another, so they are not snapshots of one order of commits"
                .to_owned()
        }
        Why::NotByWorkers => "several workers decide levels by timestamps alone".to_owned(),
        Why::NoTimestamps => "nothing was judged by timestamps".to_owned(),
        _ => return None,
    })
}

/// Reasons of a campaign against a database.
fn campaign(why: &Why) -> Option<String> {
    let first = |error: &Option<String>| {
        error.as_ref().map_or_else(String::new, |error| format!("; first error: {error}"))
    };
    Some(match why {
        Why::NoRound { error } => format!("no round was run: {error}"),
        Why::StatementsFailed { failed, statements, first: error } => {
            let share = 100 * failed / statements.max(&1);
            format!("{failed} of {statements} statements failed ({share} %){}", first(error))
        }
        Why::NothingCommitted { first: error } => format!("no transaction was committed{}", first(error)),
        Why::NothingConcurrent => {
            "no two committed transactions, one of them a writer, were open at once; what \
                                   the level rules out could not happen"
                .to_owned()
        }
        _ => return None,
    })
}

/// For a reason that has no sentence yet; a test says that there is none such.
fn spelled(why: &Why) -> String {
    why.code().replace('-', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Why` may grow without breaking programs that match on it, so the compiler does not ask for an arm
    /// here.
    #[test]
    fn every_reason_has_its_sentence() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../level/src/why.rs");
        let table = std::fs::read_to_string(path).unwrap();
        let names = table.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(" \""));
        let names: Vec<&str> =
            names.map(|(name, _)| name).filter(|name| name.starts_with(char::is_uppercase)).collect();
        assert_eq!(names.len(), Why::CODES.len(), "{names:?}");
        for name in names {
            assert!(include_str!("unknown.rs").contains(&format!("Why::{name}")), "{name} has no sentence");
        }
    }

    #[test]
    fn codes_are_distinct_and_documented() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md")).unwrap();
        for code in Why::CODES {
            assert!(page.contains(&format!("`{code}`")), "{code} is missing from docs/json.md");
        }
        let mut codes = Why::CODES.to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Why::CODES.len());
    }

    #[test]
    fn flags_are_named_by_programs_that_have_them() {
        assert!(!reason(&Why::RegisterOrder).contains("--"));
        let hints = Hints { versions: Some("--wfr-keys"), ..Hints::default() };
        assert!(sentence(&Why::RegisterOrder, hints).contains("and --wfr-keys may"));
    }
}
