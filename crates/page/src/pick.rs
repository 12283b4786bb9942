//! Which transactions' operations a page carries when not all fit: in the order of how likely a reader asks
//! for them.
//!
//! First the transactions of the examples, then all that touch a key of an example (its history: those that
//! it read from, and that read from it), then the rest, the nearest in time to an example first.

use crate::axis::Axis;
use anomalist_history::{History, KeyId, TxnId};
use std::collections::BTreeSet;

/// All transactions, the most wanted first. `examples`: transactions of examples; `keys`: keys of theirs.
pub(crate) fn order(
    history: &History,
    axis: &Axis,
    examples: &BTreeSet<TxnId>,
    keys: &BTreeSet<KeyId>,
) -> Vec<TxnId> {
    let mut known = vec![false; history.key_count()];
    for key in keys {
        known[key.index()] = true;
    }
    let heads = history.heads();
    let touches = |t: TxnId| history.op_range(t).any(|i| known[heads[i].key().index()]);
    let mut moments: Vec<u64> = examples.iter().map(|t| axis.spans[t.index()].0).collect();
    moments.sort_unstable();
    let distance = |t: TxnId| {
        let at = axis.spans[t.index()].0;
        let after = moments.partition_point(|&m| m < at);
        let near = moments[after.saturating_sub(1)..].iter().take(2);
        near.map(|m| m.abs_diff(at)).min().unwrap_or(at)
    };
    let mut all: Vec<(u8, u64, TxnId)> = history
        .txns()
        .map(|t| match () {
            () if examples.contains(&t) => (0, 0, t),
            () if touches(t) => (1, distance(t), t),
            () => (2, distance(t), t),
        })
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(_, _, t)| t).collect()
}
