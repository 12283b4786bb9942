//! The four session guarantees (Terry et al. 1994) as levels of their own.
//!
//! Each is the causal axiom with a smaller visibility, so `G_L ⊆ G_causal` and every cycle of `G_L` lies inside one strongly
//! connected component of `G_causal`. Only reads from such a component, and of the initial state, need to be looked at; a
//! history that is causal has none.

use super::clocks::AllClocks;
use super::order::Causality;
use super::problem::{Problem, Read};
use super::required::RequiredEdge;
use super::taps::{Instance, LevelGraph};
use isolde_graph::{Components, components};
use isolde_history::TxnId;
use isolde_level::AnomalyKind;

/// A session guarantee, by the visibility it demands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guarantee {
    /// `so`.
    ReadYourWrites,
    /// `wr ; so`.
    MonotonicReads,
    /// `so ; wr`.
    MonotonicWrites,
    /// `wr ; so ; wr`.
    WritesFollowReads,
}

impl Guarantee {
    pub const ALL: [Guarantee; 4] = [
        Guarantee::ReadYourWrites,
        Guarantee::MonotonicReads,
        Guarantee::MonotonicWrites,
        Guarantee::WritesFollowReads,
    ];

    /// The anomaly that is its violation.
    pub fn violation(self) -> AnomalyKind {
        match self {
            Guarantee::ReadYourWrites => AnomalyKind::NotReadYourWrites,
            Guarantee::MonotonicReads => AnomalyKind::NonMonotonicReads,
            Guarantee::MonotonicWrites => AnomalyKind::NonMonotonicWrites,
            Guarantee::WritesFollowReads => AnomalyKind::WritesDontFollowReads,
        }
    }
}

/// What became of a guarantee.
pub(crate) struct GuaranteeOutcome {
    /// Pairs (external read, `t2`) that contradict it.
    pub count: u64,
    /// The smallest of them.
    pub smallest: Option<Instance>,
    pub demanded: Vec<RequiredEdge>,
    pub components: Components,
}

/// Decides a guarantee on a history that is not causal.
pub(crate) fn decide(
    problem: Problem<'_>,
    clocks: &AllClocks<'_>,
    causality: &Causality<'_>,
    causal: &LevelGraph,
    version_edges: &[(u32, u32)],
    guarantee: Guarantee,
) -> GuaranteeOutcome {
    let mut suspects: Vec<Instance> = Vec::new();
    for t3 in problem.committed() {
        for read in problem.reads(t3) {
            let t1 = read.from;
            if t1.is_some_and(|t1| !causal.components.is_cyclic(t1.0)) {
                continue;
            }
            for &t2 in problem.index.writers(read.key) {
                let on_cycle = t1.is_none_or(|t1| causal.components.share_cycle(t1.0, t2.0));
                if on_cycle
                    && Some(t2) != t1
                    && t2 != t3
                    && clocks.has_seen(t3, t2)
                    && sees(problem, causality, guarantee, t2, t3)
                {
                    suspects.push(Instance { t1, t2, t3, read });
                }
            }
        }
    }
    let demanded: Vec<RequiredEdge> = suspects
        .iter()
        .filter_map(|s| s.t1.map(|t1| RequiredEdge { from: s.t2, to: t1, read: s.read.op }))
        .collect();
    let edges: Vec<(u32, u32)> =
        version_edges.iter().copied().chain(demanded.iter().map(|e| (e.from.0, e.to.0))).collect();
    let components = components(&causality.joined(&edges));
    let size = |t: TxnId| problem.history.op_range(t).len();
    let contradictions =
        suspects.iter().filter(|s| s.t1.is_none_or(|t1| components.share_cycle(t1.0, s.t2.0)));
    let count = contradictions.clone().count() as u64;
    let smallest = contradictions.min_by_key(|s| size(s.t2) + size(s.t3) + s.t1.map_or(0, size)).copied();
    GuaranteeOutcome { count, smallest, demanded, components }
}

/// Is `t2` visible to `t3` under the guarantee? (Transaction-level: the position of the read does not matter.)
pub(crate) fn sees(
    problem: Problem<'_>,
    causality: &Causality<'_>,
    guarantee: Guarantee,
    t2: TxnId,
    t3: TxnId,
) -> bool {
    let sources = || problem.reads(t3).filter_map(|r: Read| r.from);
    match guarantee {
        Guarantee::ReadYourWrites => {
            t2 < t3 && problem.history.session_of(t2) == problem.history.session_of(t3)
        }
        Guarantee::MonotonicReads => read_earlier_in_session(problem, causality, t2, t3),
        Guarantee::MonotonicWrites => {
            let session = problem.history.session_of(t2);
            sources().any(|w| w > t2 && problem.history.session_of(w) == session)
        }
        Guarantee::WritesFollowReads => sources().any(|w| read_earlier_in_session(problem, causality, t2, w)),
    }
}

/// Did a transaction before `t` in its session read from `writer`?
fn read_earlier_in_session(problem: Problem<'_>, causality: &Causality<'_>, writer: TxnId, t: TxnId) -> bool {
    let start = problem.history.session_range(problem.history.session_of(t)).start;
    let readers = causality.readers(writer);
    let at = readers.partition_point(|&r| r < start);
    readers.get(at).is_some_and(|&r| r < t.0)
}
