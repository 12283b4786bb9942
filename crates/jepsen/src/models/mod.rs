//! Jepsen's other workloads: histories that are not transactions of reads and writes, each with a rule of
//! its own.
//!
//! One file per model; its header states the rule. They read [`Events`], use nothing but what clients saw,
//! and answer in the keys of Jepsen's own checkers, so that existing tools find what they look for. Where a
//! rule here is stricter or more lenient than Jepsen's, the header says so.
//!
//! | model | operations | rule in short |
//! |---|---|---|
//! | bank | `read` → {account balance}, `transfer` | every read has the same total |
//! | counter | `add` n, `read` → n | every read is between what was surely and what was possibly added |
//! | set | `add` x, `read` → [x …] | the last read has all acknowledged elements, and only tried ones |
//! | set-full | the same | no element is missing for good, or comes and goes |
//! | long-fork | `[[:w k v]]`, `[[:r k v] …]` | no two reads see two writes in opposite orders |
//! | comments | `write` x, `read` → [x …] | who sees a write sees all that were done before it began |
//! | sequential | `read` → [k [v₁ … vₙ]] | no later key of a chain without the earlier ones |
//! | closed-predicate | `[:insert k v]`, `[:rp p {k v}]` … | no anomaly of Adya's, predicates included |
//! | cas-register, mutex | `read`, `write`, `cas`; `acquire`, `release` | linearizable |

mod bank;
mod closed_predicate;
mod comments;
mod counter;
mod long_fork;
mod register;
mod sequential;
mod set;
mod set_full;
mod show;
#[cfg(test)]
mod testing;

pub(crate) use bank::{balances, torn_transfers, total};
pub(crate) use counter::bounded_reads;
pub(crate) use set::elements;

use crate::Why;
use anomalist_check::Budget;
use anomalist_history::{Datum, Event, Events};
use anomalist_level::Level;
use std::fmt;

/// A workload of Jepsen's, by elle-cli's name for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Model {
    /// Transfers between accounts; the total never changes.
    Bank,
    /// A counter that is added to.
    Counter,
    /// A grow-only set, judged by its last read.
    Set,
    /// A grow-only set, judged by all reads.
    SetFull,
    /// Single writes and reads of groups of keys.
    LongFork,
    /// A register with compare-and-set.
    CasRegister,
    /// A lock.
    Mutex,
    /// Writes whose real-time order readers must respect.
    Comments,
    /// Keys written one after another and read in reverse.
    Sequential,
    /// Rows read by predicate. Elle's, though elle-cli does not offer it.
    ClosedPredicate,
}

impl Model {
    /// All models.
    pub const ALL: [Model; 10] = [
        Model::Bank,
        Model::Counter,
        Model::Set,
        Model::SetFull,
        Model::LongFork,
        Model::CasRegister,
        Model::Mutex,
        Model::Comments,
        Model::Sequential,
        Model::ClosedPredicate,
    ];

    /// elle-cli's name.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Bank => "bank",
            Model::Counter => "counter",
            Model::Set => "set",
            Model::SetFull => "set-full",
            Model::LongFork => "long-fork",
            Model::CasRegister => "cas-register",
            Model::Mutex => "mutex",
            Model::Comments => "comments",
            Model::Sequential => "sequential",
            Model::ClosedPredicate => "closed-predicate",
        }
    }

    /// The model of this name.
    ///
    /// ```
    /// use anomalist_jepsen::models::Model;
    /// assert_eq!(Model::from_name("set-full"), Some(Model::SetFull));
    /// ```
    pub fn from_name(name: &str) -> Option<Model> {
        Model::ALL.into_iter().find(|model| model.name() == name)
    }
}

/// What some models want to know besides the history.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// long-fork: how many keys a read must have; `None` or 0: whatever it has.
    pub group_size: Option<usize>,
    /// bank: balances may be negative.
    pub allow_negative_balances: bool,
    /// bank: the total of all balances; `None`: that of the first read.
    pub total_amount: Option<i64>,
    /// closed-predicate: the levels that must not be violated; empty: strict-serializable.
    pub levels: Vec<Level>,
    /// set-full: an element that was known and then missing from a read is an error even if it comes back.
    pub linearizable: bool,
}

/// Whether a history keeps the rule of its model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Valid {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nothing can be said, for this reason.
    Unknown(Why),
}

/// What was found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelResult {
    /// The verdict.
    pub valid: Valid,
    /// A map with Jepsen's keys, `valid?` first; `anomalist` holds what Jepsen would not say.
    pub details: Datum,
}

impl ModelResult {
    fn new<'k>(valid: Valid, details: impl IntoIterator<Item = (&'k str, Datum)>) -> ModelResult {
        let (word, error) = match &valid {
            Valid::True => (Datum::Bool(true), None),
            Valid::False => (Datum::Bool(false), None),
            Valid::Unknown(reason) => {
                (Datum::keyword("unknown"), Some(("error", Datum::text(reason.to_string()))))
            }
        };
        let details = Datum::map([("valid?", word)].into_iter().chain(error).chain(details));
        ModelResult { valid, details }
    }
}

impl From<bool> for Valid {
    fn from(valid: bool) -> Valid {
        if valid { Valid::True } else { Valid::False }
    }
}

/// An operation is not one of the model's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// The line of the file it begins on.
    pub line: u32,
    /// "expected …, found …".
    pub message: String,
}

impl Malformed {
    pub(crate) fn new(event: &Event, expected: &str) -> Malformed {
        let found = event.value.to_string();
        let short: String = found.chars().take(40).collect();
        let dots = if short.len() < found.len() { "…" } else { "" };
        let message =
            format!("expected {expected} in this {} {}, found {short}{dots}", event.kind.name(), event.f);
        Malformed { line: event.line, message }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for Malformed {}

/// Judges a history by a model. If the rule holds only because it is not known which invocation a
/// completion without a process belongs to, the answer is unknown. Linear in the size of the history, but
/// for cas-register, mutex and closed-predicate, which search.
///
/// ```
/// use anomalist_check::Budget;
/// use anomalist_history::{Datum, Event, EventKind, Events, Process};
/// use anomalist_jepsen::models::{self, Model, Options, Valid};
/// let event = |kind, f: &str, value| Event {
///     kind, f: f.into(), value, process: Process::Client(0), index: None, time: None, line: 1,
/// };
/// let events = Events::new(vec![
///     event(EventKind::Invoke, "add", Datum::Int(7)),
///     event(EventKind::Ok, "add", Datum::Int(7)),
///     event(EventKind::Invoke, "read", Datum::Nil),
///     event(EventKind::Ok, "read", Datum::List(vec![])),
/// ]);
/// let result = models::check(Model::Set, &events, &Options::default(), &Budget::unlimited())?;
/// assert_eq!(result.valid, Valid::False);
/// assert_eq!(result.details.get("lost-count"), Some(&Datum::Int(1)));
/// # Ok::<(), models::Malformed>(())
/// ```
pub fn check(
    model: Model,
    events: &Events,
    options: &Options,
    budget: &Budget<'_>,
) -> Result<ModelResult, Malformed> {
    let result = by_rule(model, events, options, budget)?;
    if result.valid == Valid::True && events.unpaired() {
        return Ok(ModelResult::new(Valid::Unknown(Why::Unpaired), []));
    }
    Ok(result)
}

fn by_rule(
    model: Model,
    events: &Events,
    options: &Options,
    budget: &Budget<'_>,
) -> Result<ModelResult, Malformed> {
    match model {
        Model::Bank => bank::check(events, options),
        Model::Counter => counter::check(events),
        Model::Set => set::check(events),
        Model::SetFull => set_full::check(events, options),
        Model::LongFork => long_fork::check(events, options, budget),
        Model::CasRegister => register::check_cas(events, budget),
        Model::Mutex => register::check_mutex(events, budget),
        Model::Comments => comments::check(events),
        Model::Sequential => sequential::check(events),
        Model::ClosedPredicate => closed_predicate::check(events, options, budget),
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{expect, judge};
    use super::{Model, Valid};

    /// One operation at a time: which invocation a completion belongs to is plain.
    #[test]
    fn operations_without_a_process_are_paired_where_that_is_plain() {
        expect(Model::Counter, "- invoke add 1; - ok add 1; - invoke read; - ok read 0", false);
        expect(Model::Counter, "- invoke add 1; - ok add 1; - invoke read; - ok read 1", true);
        let writes = "- invoke write 1; - ok write 1; - invoke write 2; - ok write 2; - invoke read; ";
        expect(Model::CasRegister, &format!("{writes} - ok read 1"), false);
        expect(Model::Set, "- invoke add 1; - ok add 1; - invoke read; - ok read []", false);
    }

    #[test]
    fn operations_without_a_process_that_cannot_be_paired_are_unknown() {
        let text = "- invoke read; - invoke add 1; - ok add 1; - invoke read; - ok read 1; - ok read 0";
        assert!(matches!(judge(Model::Counter, text).valid, Valid::Unknown(_)));
        assert!(matches!(judge(Model::Counter, "- ok add 1; - ok read 1").valid, Valid::Unknown(_)));
    }
}
