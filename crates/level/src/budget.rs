//! How long a check may go on. Checkers read no clock: they poll. Between two polls they publish what
//! is known, for callers that cannot wait.

use crate::Judgement;

/// Asked now and then whether to go on.
///
/// ```
/// use anomalist_level::Budget;
/// assert!(!Budget::unlimited().is_spent());
/// assert!(Budget::new(&|| true).is_spent());
/// ```
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    spent: &'a (dyn Fn() -> bool + Sync),
    over: &'a (dyn Fn() -> bool + Sync),
    search: &'a (dyn Fn() -> bool + Sync),
    known: Option<&'a (dyn Fn(Judgement) + Sync)>,
    memory: Option<&'a (dyn Fn(u64) -> bool + Sync)>,
}

impl<'a> Budget<'a> {
    /// A budget that is spent when the function says so. It is called often: it must be cheap.
    pub fn new(spent: &'a (dyn Fn() -> bool + Sync)) -> Budget<'a> {
        Budget { spent, over: spent, search: spent, known: None, memory: None }
    }

    /// A budget that never ends.
    pub fn unlimited() -> Budget<'static> {
        Budget { spent: &|| false, over: &|| false, search: &|| false, known: None, memory: None }
    }

    /// The same with a limit of its own for the levels whose decision can take exponential time; the
    /// function must also be true when the whole budget is spent.
    pub fn with_search(self, search: &'a (dyn Fn() -> bool + Sync)) -> Budget<'a> {
        Budget { search, ..self }
    }

    /// The same, and what is known so far goes to this function now and then: what would be the answer if
    /// the budget were spent.
    pub fn with_known(self, known: &'a (dyn Fn(Judgement) + Sync)) -> Budget<'a> {
        Budget { known: Some(known), ..self }
    }

    /// The same with a limit on memory: the function is asked before a table of so many bytes is allocated,
    /// and notes a refusal. What has been allocated beyond the limit already is for `spent` to notice.
    pub fn with_memory(self, allows: &'a (dyn Fn(u64) -> bool + Sync)) -> Budget<'a> {
        Budget { memory: Some(allows), ..self }
    }

    /// True if so many bytes may be allocated. For tables that grow faster than the history.
    pub fn allows(&self, bytes: u64) -> bool {
        self.memory.is_none_or(|allows| allows(bytes))
    }

    /// The same for work on the side, whose findings are not what is wanted to be known.
    pub fn aside(self) -> Budget<'a> {
        Budget { known: None, ..self }
    }

    /// Passes on what is known, if a function for it was given.
    pub fn report(&self, known: impl FnOnce() -> Judgement) {
        if let Some(report) = self.known {
            report(known());
        }
    }

    /// The budget of searches.
    pub fn search(&self) -> Budget<'a> {
        Budget { spent: self.search, ..*self }
    }

    /// True if all work should stop, not only a search that takes too long: what is cheap may still be
    /// tried.
    pub fn is_over(&self) -> bool {
        (self.over)()
    }

    /// True if the work should stop.
    pub fn is_spent(&self) -> bool {
        (self.spent)()
    }
}

/// The budget ran out before the answer was known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfBudget;
