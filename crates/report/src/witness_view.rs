//! Who plays in a witness: its transactions in a readable order with short names, and the operations that
//! matter.
//!
//! Text, sentences and pictures all show the same view, so `T2` in a sentence is `T2` in the picture. The
//! order follows session order and reads as far as these are acyclic: causes come before effects, and what
//! contradicts them points back.

use crate::layout::head;
use anomalist_history::{History, KeyId, OpId, OpKind, Outcome, TxnId, Value};
use anomalist_level::{Anomaly, AnomalyKind, Edge, Evidence, Node, Relation};
use std::collections::{BTreeMap, BTreeSet};

/// The longest a value or key may be before its middle is left out.
const LONG: usize = 32;
/// Lists up to this length are shown whole.
const SHORT_LIST: usize = 7;

/// The transactions and operations of one witness.
pub(crate) struct WitnessView<'a> {
    pub history: &'a History,
    pub anomaly: &'a Anomaly,
    /// Causes first.
    pub txns: Vec<TxnId>,
    names: BTreeMap<TxnId, String>,
    /// The short names are made up here: the input has others.
    pub renamed: bool,
    matters: BTreeSet<OpId>,
    /// Elements of a list read that must not be left out.
    focus: BTreeMap<OpId, Vec<Value>>,
}

impl<'a> WitnessView<'a> {
    pub fn new(history: &'a History, anomaly: &'a Anomaly) -> WitnessView<'a> {
        let witness = &anomaly.witness;
        let mut matters: BTreeSet<OpId> = witness.operations.iter().copied().collect();
        let mut txns: BTreeSet<TxnId> = witness.transactions.iter().copied().collect();
        let mut before: BTreeSet<(TxnId, TxnId)> = BTreeSet::new();
        let mut focus: BTreeMap<OpId, Vec<Value>> = BTreeMap::new();
        let value = |op: OpId| history.values()[op.index()];
        for_each_edge(&witness.edges, &mut |edge| {
            let ends = [edge.from, edge.to].map(|node| match node {
                Node::Txn(t) => Some(t),
                Node::Initial => None,
            });
            txns.extend(ends.into_iter().flatten());
            let ops: Vec<OpId> = edge.evidence.operations();
            txns.extend(ops.iter().map(|&op| history.txn_of(op)));
            for &read in ops.iter().filter(|&&op| history.op(op).kind == OpKind::Read) {
                focus
                    .entry(read)
                    .or_default()
                    .extend(ops.iter().filter(|&&op| op != read).map(|&op| value(op)));
            }
            matters.extend(ops);
            if let (Relation::SessionOrder | Relation::WriteRead, [Some(a), Some(b)]) = (edge.relation, ends)
            {
                before.insert((a, b));
            }
            if let Evidence::Forced { read, overwritten: Some(write), .. } = edge.evidence {
                before.insert((history.txn_of(write), history.txn_of(read)));
            }
        });
        focus_on_lists(history, anomaly.kind, &matters, &mut focus);
        let txns = causes_first(&txns, &before);
        let (names, renamed) = names(history, &txns);
        WitnessView { history, anomaly, txns, names, renamed, matters, focus }
    }

    /// The short name of a transaction.
    pub fn name(&self, t: TxnId) -> String {
        self.names.get(&t).cloned().unwrap_or_else(|| self.history.txn_name(t))
    }

    /// The short name of a node.
    pub fn node(&self, node: Node) -> String {
        match node {
            Node::Initial => "the initial state".to_owned(),
            Node::Txn(t) => self.name(t),
        }
    }

    /// Where to find a transaction in the input: `3:17, line 40` or `8841, session 3, line 40, aborted`.
    pub fn whereabouts(&self, t: TxnId) -> String {
        let own = self.renamed.then(|| head(&self.history.txn_name(t), LONG));
        own.into_iter().chain(self.particulars(t)).collect::<Vec<_>>().join(", ")
    }

    /// Session, line, stamps and outcome, as far as they need saying.
    pub fn particulars(&self, t: TxnId) -> Vec<String> {
        let mut parts = Vec::new();
        if self.history.txn_label(t).is_some() {
            parts.push(format!("session {}", self.session(t)));
        }
        if let Some(line) = self.history.line(t) {
            parts.push(format!("line {line}"));
        }
        if self.anomaly.kind.is_stamp()
            && let Some(stamps) = self.history.stamps()
        {
            let at = stamps[t.index()];
            parts.push(match self.history.snapshot(t) {
                Some(set) => format!("snapshot {set}, commit {}", stamp(at.commit)),
                None if !at.has_start() => format!("commit {}", stamp(at.commit)),
                None => format!("start {}, commit {}", stamp(at.start), stamp(at.commit)),
            });
            if self.history.has_snapshots()
                && let Some(id) = self.history.snapshot_id(t)
            {
                parts.push(format!("id {id}"));
            }
        }
        match self.history.outcome(t) {
            Outcome::Committed => {}
            Outcome::Aborted => parts.push("aborted".to_owned()),
            Outcome::Indeterminate if self.observed(t) => {
                parts.push("outcome unknown, but observed, hence committed".to_owned());
            }
            Outcome::Indeterminate => parts.push("outcome unknown".to_owned()),
        }
        parts
    }

    /// True if something of the witness follows from this transaction's having taken effect. That a
    /// transaction saw its writes is how one knows: without a known outcome it counts only then.
    fn observed(&self, t: TxnId) -> bool {
        let mut met = false;
        for_each_edge(&self.anomaly.witness.edges, &mut |e| met |= [e.from, e.to].contains(&Node::Txn(t)));
        met
    }

    /// The name of a transaction's session.
    pub fn session(&self, t: TxnId) -> String {
        let label = self.history.session_label(self.history.session_of(t));
        head(&self.history.show(label).to_string(), LONG)
    }

    /// A key.
    pub fn key(&self, key: KeyId) -> String {
        head(&self.history.show_key(key).to_string(), LONG)
    }

    /// The key of an operation.
    pub fn key_of(&self, op: OpId) -> String {
        self.key(self.history.op(op).key)
    }

    /// The value of an operation; long lists only around what matters.
    pub fn value(&self, op: OpId) -> String {
        let value = self.history.op(op).value;
        match self.history.list(value) {
            Some(elements) => self.list(elements, self.focus.get(&op).map_or(&[], Vec::as_slice)),
            None => self.atom(value),
        }
    }

    /// A value that is no list.
    pub fn atom(&self, value: Value) -> String {
        head(&self.history.show(value).to_string(), LONG)
    }

    fn list(&self, elements: &[Value], focus: &[Value]) -> String {
        let n = elements.len();
        let kept: BTreeSet<usize> = if n <= SHORT_LIST {
            (0..n).collect()
        } else {
            let around = |i: usize| [i.saturating_sub(1), i, (i + 1).min(n - 1)];
            let wanted = (0..n).filter(|&i| focus.contains(&elements[i])).take(4).flat_map(around);
            [0, n - 2, n - 1].into_iter().chain(wanted).collect()
        };
        let mut shown = Vec::new();
        let mut next = 0;
        for i in kept {
            match i - next {
                0 => {}
                1 => shown.push(self.atom(elements[next])),
                _ => shown.push("…".to_owned()),
            }
            shown.push(self.atom(elements[i]));
            next = i + 1;
        }
        format!("[{}]", shown.join(" "))
    }

    /// An operation in short: `r(x,1)`, `w(x,2)`, `a(x,3)`.
    pub fn op(&self, op: OpId) -> String {
        format!("{}({},{})", letter(self.history.op(op).kind), self.key_of(op), self.value(op))
    }

    /// Whether an operation matters.
    pub fn matters(&self, op: OpId) -> bool {
        self.matters.contains(&op)
    }

    /// The operations of a transaction that matter, with `…` where others were left out.
    pub fn shown_ops(&self, t: TxnId) -> Vec<String> {
        self.shown_lines(t).into_iter().map(|(_, text)| text).collect()
    }

    /// The same, with the operation that each line is.
    pub fn shown_lines(&self, t: TxnId) -> Vec<(Option<OpId>, String)> {
        let mut shown = Vec::new();
        let left_out = || (None, "…".to_owned());
        let mut next = self.history.op_range(t).start;
        let end = self.history.op_range(t).end;
        for op in self.matters.range(OpId(next as u32)..OpId(end as u32)) {
            if op.index() > next {
                shown.push(left_out());
            }
            shown.push((Some(*op), self.op(*op)));
            next = op.index() + 1;
        }
        if next < end {
            shown.push(left_out());
        }
        shown
    }

    /// The operations that matter, in the order of the view.
    pub fn ops_in_order(&self) -> Vec<OpId> {
        self.txns
            .iter()
            .flat_map(|&t| self.history.op_range(t))
            .map(|i| OpId(i as u32))
            .filter(|&op| self.matters(op))
            .collect()
    }
}

/// A timestamp: `17`, or `17.3` with its logical part.
pub(crate) fn stamp(at: anomalist_history::Timestamp) -> String {
    match at.logical {
        0 => at.physical.to_string(),
        logical => format!("{}.{logical}", at.physical),
    }
}

/// `r`, `w` or `a`.
pub(crate) fn letter(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Read => "r",
        OpKind::Write => "w",
        OpKind::Append => "a",
    }
}

/// Every edge, those behind a forced edge after it.
pub(crate) fn for_each_edge<'e>(edges: &'e [Edge], visit: &mut impl FnMut(&'e Edge)) {
    let mut open: Vec<&Edge> = edges.iter().rev().collect();
    while let Some(edge) = open.pop() {
        visit(edge);
        if let Evidence::Forced { path, .. } = &edge.evidence {
            open.extend(path.iter().rev());
        }
    }
}

/// Contradictions inside lists are about elements that no edge names.
fn focus_on_lists(
    history: &History,
    kind: AnomalyKind,
    matters: &BTreeSet<OpId>,
    focus: &mut BTreeMap<OpId, Vec<Value>>,
) {
    let lists: Vec<(OpId, &[Value])> = matters
        .iter()
        .filter_map(|&op| history.list(history.op(op).value).map(|elements| (op, elements)))
        .collect();
    match (kind, lists.as_slice()) {
        (AnomalyKind::IncompatibleOrder, [(a, left), (b, right), ..]) => {
            if let Some(at) = left.iter().zip(*right).position(|(l, r)| l != r) {
                focus.entry(*a).or_default().push(left[at]);
                focus.entry(*b).or_default().push(right[at]);
            }
        }
        _ => {
            for (op, elements) in lists {
                focus.entry(op).or_default().extend(repeated(elements));
            }
        }
    }
}

/// The first element that a list contains twice.
pub(crate) fn repeated(elements: &[Value]) -> Option<Value> {
    let mut seen = BTreeSet::new();
    elements.iter().copied().find(|&e| !seen.insert(e))
}

/// A topological order; on a cycle, the smallest goes first.
fn causes_first(txns: &BTreeSet<TxnId>, before: &BTreeSet<(TxnId, TxnId)>) -> Vec<TxnId> {
    let mut left = txns.clone();
    let mut order = Vec::new();
    while let Some(&smallest) = left.first() {
        let free = |t: &&TxnId| !before.iter().any(|(a, b)| b == *t && a != *t && left.contains(a));
        let next = left.iter().find(free).copied().unwrap_or(smallest);
        left.remove(&next);
        order.push(next);
    }
    order
}

/// The input's own names if they look like names, else `T1`, `T2` …
fn names(history: &History, txns: &[TxnId]) -> (BTreeMap<TxnId, String>, bool) {
    let own: BTreeMap<TxnId, String> = txns
        .iter()
        .filter_map(|&t| {
            let name = history.show(history.txn_label(t)?).to_string();
            let fits = name.len() <= 12 && name.starts_with(|c: char| c.is_ascii_alphabetic());
            (fits && name.chars().all(|c| c.is_ascii_graphic())).then_some((t, name))
        })
        .collect();
    if own.len() == txns.len() {
        return (own, false);
    }
    (txns.iter().enumerate().map(|(i, &t)| (t, format!("T{}", i + 1))).collect(), true)
}
