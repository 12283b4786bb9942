//! Why a model or a search gives no answer: data, and the one place that has the sentences.
//!
//! A sentence starts in lower case and ends without a full stop. It is the value of `:error` in an answer
//! with Jepsen's keys.

use crate::datatypes::Oversized;
use anomalist_history::Datum;
use std::fmt;

/// Why nothing can be said: what was missing, or which limit was reached.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Why {
    /// An interrupt or the time limit ended the search for a linearization.
    SearchStopped {
        /// How many configurations were looked at.
        configurations: u64,
    },
    /// The search for a linearization filled the memory allowed.
    SearchTooLarge {
        /// How many configurations were looked at.
        configurations: u64,
    },
    /// Too many calls are concurrent.
    TooConcurrent {
        /// How many.
        calls: usize,
        /// How many the search takes.
        limit: usize,
    },
    /// long-fork: an interrupt or the time limit came before all groups of keys were looked at.
    GroupsLeft,
    /// Completions without a process belong to invocations that are not known.
    Unpaired,
    /// cas-register: there is no operation.
    NoRegister,
    /// mutex: there is no operation.
    NoMutex,
    /// No read was successful.
    NoRead,
    /// set: there is no successful read.
    SetNotRead,
    /// set-full: no element is known to be stable.
    NothingStable,
    /// long-fork: a key has several writes.
    RewrittenKey {
        /// Which.
        key: Datum,
    },
    /// long-fork: a read is not of as many keys as a group has.
    GroupSize {
        /// How many keys the read has.
        read: usize,
        /// How many a group has.
        group: usize,
    },
    /// long-fork: reads of a key that is written once differ.
    SeveralValues {
        /// Which.
        key: Datum,
        /// Two values that were read.
        values: [Datum; 2],
    },
    /// closed-predicate: a key got one value twice, so its versions cannot be distinguished.
    RepeatedVersion {
        /// Which.
        key: Datum,
        /// The value.
        value: Datum,
    },
    /// closed-predicate: only the order in the file says in which order the versions of a key were written.
    OrderInFile {
        /// Which.
        key: Datum,
    },
    /// closed-predicate: there is no dependency.
    NoDependency,
    /// closed-predicate: the history is too large.
    TooLarge(Oversized),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Why::SearchStopped { configurations } => {
                return write!(
                    f,
                    "stopped, by an interrupt or the time limit, after {configurations} configurations"
                );
            }
            Why::SearchTooLarge { configurations } => {
                return write!(
                    f,
                    "gave up after {configurations} configurations, which fill the memory allowed"
                );
            }
            Why::TooConcurrent { calls, limit } => {
                return write!(
                    f,
                    "{calls} calls are open at once, or never returned and may be needed; {limit} are the limit"
                );
            }
            Why::GroupsLeft => "stopped, by an interrupt or the time limit, before all groups were looked at",
            Why::Unpaired => "operations without a process cannot be paired, so their order is not known",
            Why::NoRegister => "no operation of a register",
            Why::NoMutex => "no operation of a mutex",
            Why::NoRead => "no read was ok",
            Why::SetNotRead => "the set was never read",
            Why::NothingStable => "no element was read to stay",
            Why::RewrittenKey { key } => return write!(f, "key {key} is written more than once"),
            Why::GroupSize { read, group } => {
                return write!(f, "a read has {read} keys where the size of groups is {group}");
            }
            Why::SeveralValues { key, values: [one, other] } => {
                return write!(f, "key {key} is read as {one} and as {other}, but written once");
            }
            Why::RepeatedVersion { key, value } => {
                return write!(
                    f,
                    "{key} was set to {value} twice: the versions of that key cannot be distinguished"
                );
            }
            Why::OrderInFile { key } => {
                return write!(
                    f,
                    "{key} was mutated more than once, and what Elle finds rests on the order in the file"
                );
            }
            Why::NoDependency => "no transaction depends on any other",
            Why::TooLarge(oversized) => return oversized.fmt(f),
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reason_holds_is_in_its_sentence() {
        let (key, one, two) = (Datum::keyword("x"), Datum::Int(1), Datum::Int(2));
        let said = |why: Why| why.to_string();
        assert_eq!(
            said(Why::TooConcurrent { calls: 5000, limit: 4096 }),
            "5000 calls are open at once, or never returned and may be needed; 4096 are the limit"
        );
        assert_eq!(
            said(Why::SeveralValues { key: key.clone(), values: [one.clone(), two] }),
            "key :x is read as 1 and as 2, but written once"
        );
        assert_eq!(
            said(Why::RepeatedVersion { key: key.clone(), value: one }),
            ":x was set to 1 twice: the versions of that key cannot be distinguished"
        );
        assert_eq!(said(Why::RewrittenKey { key }), "key :x is written more than once");
        assert_eq!(
            said(Why::GroupSize { read: 1, group: 2 }),
            "a read has 1 keys where the size of groups is 2"
        );
        let oversized = Oversized::Set { operations: 9, limit: 4 };
        assert!(said(Why::TooLarge(oversized)).starts_with("9 operations to look at"));
    }
}
