//! Offline checking: a history and levels in, verdicts with evidence out.
//!
//! `Holds` is a proof, `Violated` comes with a witness, and `Unknown` says why. No I/O, no clock, no
//! printing.
//!
//! The rooms:
//!
//! - `weak`: read committed, read atomic, causal and the session guarantees; `adya`: dependencies and named
//!   cycles; `strong`: the search for a commit order; `mixed`: transactions that declare levels of their
//!   own. All of them read the committed view of the history (`view.rs`). Costs are in their headers;
//!   definitions in `docs/spec/levels.md`, arguments in `docs/spec/algorithms.md`.
//! - [`shrink`]: a smaller history that still violates a level. [`lint`], [`stats`]: what can be said about
//!   a recording without judging it. Levels by timestamps are decided in crate `timestamp`.
//! - `cross.rs` decides everything again in other ways and compares.
//!
//! ```
//! use anomalist_check::{Budget, Request, check};
//! use anomalist_history::{Builder, Indexed, OpKind};
//! use anomalist_level::{Level, Verdict};
//!
//! // One session writes x = 1 and then reads the initial value 0: it does not see its own write.
//! let mut b = Builder::new();
//! let (zero, one) = (b.int(0), b.int(1));
//! b.set_initial_default(Some(zero));
//! let (x, session) = (b.key(one), b.session(one));
//! let writer = b.transaction(session);
//! b.op(writer, OpKind::Write, x, one);
//! let reader = b.transaction(session);
//! b.op(reader, OpKind::Read, x, zero);
//! let history = b.finish()?;
//!
//! let indexed = Indexed::new(&history, 1.try_into().unwrap());
//! let judgement = check(&indexed, &Request::default(), &Budget::unlimited());
//! assert_eq!(judgement.verdict(Level::ReadCommitted), Some(&Verdict::Holds));
//! assert_eq!(judgement.verdict(Level::ReadAtomic), Some(&Verdict::Violated));
//! # Ok::<(), anomalist_history::TooLarge>(())
//! ```

mod adya;
mod cross;
mod direct;
pub mod lint;
mod mixed;
mod sessionless;
pub mod shrink;
mod sought;
pub mod stats;
mod strong;
mod verdicts;
mod view;
mod weak;

pub use adya::{Analyser, Dependency, ExtraEdge, Inference, MonotonicKeys, dependencies};
pub use anomalist_level::{Budget, OutOfBudget};
pub use cross::{Disagreement, compare, cross_check, cross_check_stamps};

use anomalist_history::Indexed;
use anomalist_level::{AnomalyKind, Definitions, Judgement, Level};

/// What to find out.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The levels to decide; empty: every level with a meaning of its own.
    pub levels: Vec<Level>,
    /// Look for just these anomalies, at the cost of just these. A level that was named is then proven only
    /// if what was looked at for their sake proves it: read committed by the absence of TAP-a to TAP-i,
    /// read atomic of TAP-a to TAP-l, causal of all fourteen, cut isolation of TAP-j (Plume, Theorems 2 to
    /// 5).
    pub anomalies: Option<Vec<AnomalyKind>>,
    /// Also return the commit order behind each level that holds.
    pub certificates: bool,
    /// Do not try orders first; collect every constraint of a level at once. The answers are the same, the
    /// cost is not: for measuring what the guess is worth, and for checking one way against the other.
    pub no_guess: bool,
    /// Never work out what follows from the known order before searching, at strong levels; again the
    /// answers are the same.
    pub no_saturation: bool,
    /// Leave everything to the search: the engines for weak levels and for dependencies are not asked, and
    /// lists are read element by element. The answers are the same, the cost is not; anomalies get no
    /// names. For checking one way against the other.
    pub search_only: bool,
    /// Also give an example from each component that has a cycle of some kind, not only the smallest of the
    /// kind.
    pub every_component: bool,
    /// What may be assumed about the order of a register's versions.
    pub inference: Inference,
    /// Whose definitions of read committed, read atomic, causal, cut isolation and TAP-a to TAP-n. Plume's
    /// are about values that are written once; where values repeat, cut isolation of transactions that read
    /// others' values after own writes is unknown.
    pub definitions: Definitions,
}

/// Decides the levels. Costs are stated in the modules of `weak` and `adya`; when the budget runs out, what
/// is left is unknown.
pub fn check(indexed: &Indexed<'_>, request: &Request, budget: &Budget<'_>) -> Judgement {
    check_with(indexed, request, &[], budget)
}

/// [`check`] with dependencies that are not in the history: see [`Analyser`].
pub fn check_with(
    indexed: &Indexed<'_>,
    request: &Request,
    analysers: &[&dyn Analyser],
    budget: &Budget<'_>,
) -> Judgement {
    let (history, index) = (indexed.history(), indexed.index());
    let reads = view::ExternalReads::new(history, index);
    let seen = view::CommittedView { history, index, reads: &reads, assumed: &[] };
    let registers = adya::Registers::new(seen, &request.inference);
    let assumed = registers.edges(seen);
    let view = view::CommittedView { assumed: &assumed, ..seen };
    verdicts::judge(view, &registers, request, analysers, budget)
}
