//! Edges from outside: what a user of the library knows about a history that its reads and writes do not
//! show.
//!
//! An [`Analyser`] looks at the history and adds dependencies, each with its reason; the engine searches
//! the whole graph, and a cycle that uses such an edge tells the reason. Edges only ever refute: a level
//! that holds was proven with them in the graph, so it holds with the added order as well.
//! [`MonotonicKeys`] is one that is ready to use.

use super::depend::{RT, RW, RWP, SO, WR, WW};
use anomalist_graph::labelled::Labels;
use anomalist_history::{History, Index, KeyId, OpId, OpKind, Outcome, TxnId, Value, View};
use anomalist_level::{Anomaly, Evidence, Relation};
use rustc_hash::FxHashMap;

/// Something that knows more about a history: an audit log, a column that only grows, another checker. What
/// it adds joins the graph of dependencies, and a cycle through it tells its reason; see
/// [`check_with`](crate::check_with). Ready to use: [`MonotonicKeys`].
///
/// ```
/// use anomalist_check::{Analyser, Budget, ExtraEdge, Request, check_with};
/// use anomalist_history::{Builder, History, Index, Indexed, OpKind, TxnId};
/// use anomalist_level::{Level, Relation, Verdict};
///
/// /// An audit log says that the second transaction was committed first.
/// struct AuditLog;
///
/// impl Analyser for AuditLog {
///     fn edges(&self, _: &History, _: &Index, add: &mut dyn FnMut(ExtraEdge)) {
///         add(ExtraEdge {
///             from: TxnId(1),
///             to: TxnId(0),
///             relation: Relation::RealTime,
///             reason: "the audit log has it first".into(),
///             operations: vec![],
///         });
///     }
/// }
///
/// let mut b = Builder::new();
/// let one = b.int(1);
/// let (x, s, r) = (b.key(one), b.session(one), b.int(2));
/// let reader_session = b.session(r);
/// let writer = b.transaction(s);
/// b.op(writer, OpKind::Append, x, one);
/// let reader = b.transaction(reader_session);
/// let list = b.list(&[one]);
/// b.op(reader, OpKind::Read, x, list);
/// let history = b.finish()?;
/// let indexed = Indexed::new(&history, 1.try_into().unwrap());
/// let judged = |analysers: &[&dyn Analyser]| {
///     check_with(&indexed, &Request::default(), analysers, &Budget::unlimited())
/// };
/// assert_eq!(judged(&[]).verdict(Level::Serializable), Some(&Verdict::Holds));
/// // Reading what will be written only later is a cycle of one read and the log's order.
/// let codes: Vec<_> = judged(&[&AuditLog]).anomalies.iter().map(|a| a.kind.code()).collect();
/// assert_eq!(codes, ["G1c-realtime"]);
/// # Ok::<(), anomalist_history::TooLarge>(())
/// ```
pub trait Analyser {
    /// Calls `add` with every dependency it knows of.
    fn edges(&self, history: &History, index: &Index, add: &mut dyn FnMut(ExtraEdge));

    /// What it knows to be wrong without any cycle.
    fn anomalies(&self) -> Vec<Anomaly> {
        Vec::new()
    }
}

/// A dependency that the caller vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraEdge {
    /// The transaction that comes first.
    pub from: TxnId,
    /// The transaction that comes later.
    pub to: TxnId,
    /// In which sense. `WriteRead`, `VersionOrder` and the anti-dependencies are dependencies at every
    /// level; `SessionOrder` binds only levels with session order, and any other only levels with real
    /// time.
    pub relation: Relation,
    /// Why, as a sentence without a full stop.
    pub reason: Box<str>,
    /// The operations it rests on.
    pub operations: Vec<OpId>,
}

/// The edges of all analysers.
#[derive(Default)]
pub(crate) struct Given {
    edges: Vec<(TxnId, TxnId, Labels, Evidence)>,
}

impl Given {
    pub fn collect(history: &History, index: &Index, analysers: &[&dyn Analyser]) -> Given {
        let mut given = Given::default();
        for analyser in analysers {
            analyser.edges(history, index, &mut |edge| {
                let exists = |t: TxnId| t.index() < history.txn_count() && index.is_committed(t);
                if exists(edge.from) && exists(edge.to) && edge.from != edge.to {
                    let evidence = Evidence::Given { reason: edge.reason, operations: edge.operations };
                    given.edges.push((edge.from, edge.to, label(edge.relation), evidence));
                }
            });
        }
        given
    }

    pub fn edges(&self) -> impl Iterator<Item = (TxnId, TxnId, Labels)> + '_ {
        self.edges.iter().map(|&(from, to, label, _)| (from, to, label))
    }

    pub fn evidence(&self, from: TxnId, to: TxnId, label: Labels) -> Option<Evidence> {
        let found = self.edges.iter().find(|e| (e.0, e.1, e.2) == (from, to, label));
        found.map(|(.., evidence)| evidence.clone())
    }

    /// All labels that occur.
    pub fn labels(&self) -> Labels {
        self.edges.iter().fold(0, |all, e| all | e.2)
    }
}

fn label(relation: Relation) -> Labels {
    match relation {
        Relation::VersionOrder => WW,
        Relation::WriteRead => WR,
        Relation::AntiDependency => RW,
        Relation::PredicateAntiDependency => RWP,
        Relation::SessionOrder => SO,
        Relation::RealTime | Relation::Required => RT,
    }
}

/// Keys whose integer values only grow: any transaction that saw or wrote a smaller value comes before any
/// transaction that saw or wrote the next larger one. For counters and versions that a database promises to
/// be monotonic.
#[derive(Clone, Debug, Default)]
pub struct MonotonicKeys {
    /// The keys; empty: all.
    pub keys: Vec<KeyId>,
}

impl Analyser for MonotonicKeys {
    fn edges(&self, history: &History, _: &Index, add: &mut dyn FnMut(ExtraEdge)) {
        let mut touched: FxHashMap<KeyId, Vec<(i64, TxnId, OpId)>> = FxHashMap::default();
        for t in history.txns().filter(|&t| history.outcome(t) == Outcome::Committed) {
            for (op, o) in history.ops(t).filter(|(_, o)| o.kind != OpKind::Append) {
                if (self.keys.is_empty() || self.keys.contains(&o.key))
                    && let Some(value) = integer(o.value)
                {
                    touched.entry(o.key).or_default().push((value, t, op));
                }
            }
        }
        let mut keys: Vec<KeyId> = touched.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let mut all = touched.remove(&key).unwrap_or_default();
            all.sort_unstable();
            let steps: Vec<&[(i64, TxnId, OpId)]> = all.chunk_by(|a, b| a.0 == b.0).collect();
            for pair in steps.windows(2) {
                for &(small, from, first) in pair[0] {
                    for &(large, to, second) in pair[1].iter().filter(|later| later.1 != from) {
                        let key = history.show_key(key);
                        let reason = format!("{key} only grows, and {small} is less than {large}").into();
                        let relation = relation(history.op(first).kind, history.op(second).kind);
                        add(ExtraEdge { from, to, relation, reason, operations: vec![first, second] });
                    }
                }
            }
        }
    }
}

/// How an operation on a smaller value comes before one on a larger. Who only saw the smaller one missed
/// whatever made the larger: that is an anti-dependency, even if dependencies follow it.
fn relation(first: OpKind, second: OpKind) -> Relation {
    match (first, second) {
        (OpKind::Read, _) => Relation::AntiDependency,
        (_, OpKind::Read) => Relation::WriteRead,
        _ => Relation::VersionOrder,
    }
}

fn integer(value: Value) -> Option<i64> {
    match value.view() {
        View::Int(i) => Some(i),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Budget, Request, check_with};
    use anomalist_level::{Level, Verdict};

    #[test]
    fn two_counters_read_in_opposite_orders_are_not_serializable_and_no_dirty_write() {
        let history = anomalist_testkit::mini::history(
            "w(x,1); w(x,2) || w(y,1); w(y,2) || r(x,1) r(y,2) || r(x,2) r(y,1)",
        );
        let indexed = anomalist_history::Indexed::new(&history, 1.try_into().unwrap());
        let request =
            Request { levels: vec![Level::ReadUncommitted, Level::Serializable], ..Request::default() };
        let keys = MonotonicKeys::default();
        let judgement = check_with(&indexed, &request, &[&keys], &Budget::unlimited());
        assert_ne!(judgement.verdict(Level::ReadUncommitted), Some(&Verdict::Violated));
        assert_eq!(judgement.verdict(Level::Serializable), Some(&Verdict::Violated));
    }
}
