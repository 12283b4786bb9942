//! Mixed levels: every transaction under the level that it declares (metadata entry `level`), all in one
//! commit order.
//!
//! **Definition.** There is one total order of the transactions that took effect such that each `t`, under
//! its level `L`:
//! * reads only what comes earlier (not if `L` is read-uncommitted), and nothing that `L` forbids whatever
//!   the order;
//! * comes after the earlier transactions of its session if `L` has session order, and after whatever had
//!   ended when it began if `L` has real time;
//! * whenever it reads `x` from `t1`, every other writer of `x` that `L` makes visible to it comes before
//!   `t1`: for the weak levels what they always see; for prefix, whatever comes before (or is) something
//!   that it follows in its session or reads from; for snapshot isolation also whatever comes before (or
//!   is) an earlier writer of a key that it writes; for serializable and repeatable-read, whatever comes
//!   before it.
//!
//! Versions follow the order, so lists show it to everybody. This is Biswas & Enea's axiomatic framework
//! with the axiom chosen per reader (as Bouajjani, Enea & Román-Calvo 2025 mix levels); among PL-1, PL-2,
//! PL-2.99 and PL-3 it says that Adya's mixing graph is acyclic: `ww` edges always count, `wr` edges if the
//! reader is PL-2 or above, `rw` edges if the reader is PL-2.99 or above. A transaction that declares
//! nothing promises nothing, as read-uncommitted.
//!
//! **Deciding** is the strong engine's business (`strong/mixed.rs`), proofs included: NP-hard as soon as
//! serializable is among the levels. For comparing (`--cross-check`), [`decide_by_trying`] writes every
//! constraint down, takes those of which there is no choice as edges, and tries the sides of the others in
//! turn.

mod constraints;
mod search;

use crate::Budget;
use crate::Request;
use crate::strong;
use crate::view::CommittedView;
use anomalist_history::{FaultKind, History, ReadFault, TxnId};
use anomalist_level::{self as level, Level, Mixed, Verdict, Visible, Why};
use constraints::Constraints;

/// How a level looks at its transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    /// Nothing is asked of its reads.
    Uncommitted,
    /// Only that it reads final values of earlier transactions.
    Committed,
    /// A key is read from one transaction; nothing else.
    Cut,
    /// What is visible does not depend on the order.
    Weak(Visible),
    /// It reads at its begin; with `conflicts`, no other transaction writes its keys after that.
    Snapshot { conflicts: bool },
    /// It reads at its commit.
    Serial,
}

fn family(level: Level) -> Option<Family> {
    Some(match level.family()? {
        level::Family::Writes => Family::Uncommitted,
        level::Family::Flow => Family::Committed,
        level::Family::Cut => Family::Cut,
        level::Family::Visible(visible) => Family::Weak(visible),
        level::Family::Prefix => Family::Snapshot { conflicts: false },
        level::Family::Snapshot => Family::Snapshot { conflicts: true },
        level::Family::Serial => Family::Serial,
        level::Family::Parallel | level::Family::Updates => return None,
    })
}

/// What transactions declare.
struct Declared {
    /// The level of each; read-uncommitted if it declares nothing.
    levels: Vec<Level>,
    counts: Vec<(Level, u64)>,
    /// A transaction that declares a level that cannot be mixed, and the level.
    unclear: Option<(TxnId, Box<str>)>,
}

impl Declared {
    /// `None` if no transaction declares anything.
    fn of(history: &History) -> Option<Declared> {
        let mut levels = vec![Level::ReadUncommitted; history.txn_count()];
        let mut counts: Vec<(Level, u64)> = Vec::new();
        let mut unclear = None;
        for (&t, facts) in history.metadata() {
            let Some(name) = facts.get("level") else { continue };
            let level = name.parse::<Level>().ok().filter(|&level| family(level).is_some());
            let Some(level) = level else {
                unclear.get_or_insert_with(|| (t, name.clone()));
                continue;
            };
            levels[t.index()] = level;
            match counts.iter_mut().find(|(l, _)| *l == level) {
                Some((_, count)) => *count += 1,
                None => counts.push((level, 1)),
            }
        }
        counts.sort_unstable();
        (!counts.is_empty() || unclear.is_some()).then_some(Declared { levels, counts, unclear })
    }
}

/// Judges the declared levels; `None` if no transaction declares one.
pub(crate) fn judge(view: CommittedView<'_>, request: &Request, budget: &Budget<'_>) -> Option<Mixed> {
    let Declared { levels, counts, unclear } = Declared::of(view.history)?;
    let open = |why: Why| Mixed { verdict: Verdict::Unknown(why), ..Mixed::default() };
    let needs_time = levels.iter().any(|level| level.info().real_time);
    let answer = if let Some((t, name)) = unclear {
        open(Why::CannotMix { transaction: view.history.txn_name(t), level: name.into_string() })
    } else if budget.is_over() {
        open(Why::Stopped)
    } else if needs_time && view.history.intervals().is_none() {
        open(Why::DeclaredRealTime)
    } else {
        match strong::decide_mixed(view, &levels, request.no_guess, budget) {
            Some(strong::MixedAnswer { verdict, transactions, proof }) => {
                let proof = proof.filter(|_| request.certificates || verdict == Verdict::Violated);
                Mixed { verdict, transactions, proof, ..Mixed::default() }
            }
            None => open(Why::NoRule),
        }
    };
    Some(Mixed { levels: counts, ..answer })
}

/// Choices up to which everything is written down.
const LARGEST: usize = 1 << 22;

/// Decides what transactions declare by another algorithm, for comparing; `None`: it does not apply.
pub(crate) fn decide_by_trying(view: CommittedView<'_>, budget: &Budget<'_>) -> Option<Verdict> {
    let Declared { levels, unclear: None, .. } = Declared::of(view.history)? else { return None };
    let timed = view.history.intervals().is_some() || !levels.iter().any(|level| level.info().real_time);
    let pairs: usize = view
        .committed()
        .flat_map(|t| view.reads(t))
        .fold(0, |pairs, read| pairs.saturating_add(view.index.writers(read.key).len()));
    if view.index.ambiguous_reads() > 0 || !timed || pairs > LARGEST {
        return None;
    }
    if faulty(view, &levels) {
        return Some(Verdict::Violated);
    }
    let Some(constraints) = Constraints::collect(view, &levels) else { return Some(Verdict::Violated) };
    match search::order(&constraints, view, budget) {
        search::Found::Order => Some(Verdict::Holds),
        search::Found::Cycle => Some(Verdict::Violated),
        search::Found::OutOfBudget => None,
    }
}

/// Is there a transaction whose level forbids one of its reads, whatever the order?
fn faulty(view: CommittedView<'_>, declared: &[Level]) -> bool {
    let forbidden = |fault: &ReadFault| {
        let t = view.history.txn_of(fault.op);
        match (fault.kind, family(declared[t.index()])) {
            // Versions follow one order, the same for every reader.
            (FaultKind::IncompatibleOrder, _) => true,
            (_, Some(Family::Uncommitted | Family::Cut)) => false,
            (FaultKind::NotMyOwnWrite | FaultKind::NotMyLastWrite, Some(Family::Committed)) => false,
            _ => true,
        }
    };
    // Read atomic and cut isolation: a key is read from one transaction.
    let repeats = |t: TxnId| {
        let reads: Vec<_> = view.reads(t).collect();
        matches!(family(declared[t.index()]), Some(Family::Cut | Family::Weak(Visible::ReadAtomic)))
            && reads.iter().any(|a| reads.iter().any(|b| a.key == b.key && a.from != b.from))
    };
    view.index.faults().iter().any(forbidden) || view.committed().any(repeats)
}
