//! How long a check may go on. Checkers read no clock: they poll.

/// Asked now and then whether to go on.
///
/// ```
/// use anomalist_check::Budget;
/// assert!(!Budget::unlimited().is_spent());
/// assert!(Budget::new(&|| true).is_spent());
/// ```
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    spent: &'a (dyn Fn() -> bool + Sync),
    search: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> Budget<'a> {
    /// A budget that is spent when the function says so. It is called often: it must be cheap.
    pub fn new(spent: &'a (dyn Fn() -> bool + Sync)) -> Budget<'a> {
        Budget { spent, search: spent }
    }

    /// A budget that never ends.
    pub fn unlimited() -> Budget<'static> {
        Budget { spent: &|| false, search: &|| false }
    }

    /// The same with a limit of its own for the levels whose decision can take exponential time; the function must also be
    /// true when the whole budget is spent.
    pub fn with_search(self, search: &'a (dyn Fn() -> bool + Sync)) -> Budget<'a> {
        Budget { search, ..self }
    }

    /// The budget of searches.
    pub(crate) fn search(&self) -> Budget<'a> {
        Budget { spent: self.search, search: self.search }
    }

    /// True if the work should stop.
    pub fn is_spent(&self) -> bool {
        (self.spent)()
    }
}

/// The budget ran out before the answer was known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfBudget;
