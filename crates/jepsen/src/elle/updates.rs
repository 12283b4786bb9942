//! `lost-update`: several committed transactions read one version of a key and then write it.
//!
//! A transaction counts with its first read of the key, if a write follows. No version order is needed, and
//! what was read may be anything that can be compared. Linear.

use super::elle_history::ElleHistory;
use super::{Case, Findings};
use anomalist_history::{KeyId, Op, OpId, OpKind, TxnId};
use anomalist_level::AnomalyKind;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Finds them, one per version; `seen` is what a read returned, if that was recorded.
pub(super) fn lost_update<V: Copy + Eq + Hash>(
    numbered: &ElleHistory<'_>,
    seen: impl Fn(&Op) -> Option<V>,
    findings: &mut Findings,
) {
    let mut groups: FxHashMap<(KeyId, V), usize> = FxHashMap::default();
    let mut cases: Vec<(OpId, Vec<TxnId>)> = Vec::new();
    // The first read of each key; nothing once a write has followed it.
    let mut first: FxHashMap<KeyId, Option<(OpId, V)>> = FxHashMap::default();
    for node in numbered.nodes().filter(|&node| numbered.is_ok(node)) {
        first.clear();
        for (op, o) in numbered.ops(node) {
            if o.kind == OpKind::Read {
                if let Some(version) = seen(&o) {
                    first.entry(o.key).or_insert(Some((op, version)));
                }
            } else if let Some((read, version)) = first.get_mut(&o.key).and_then(Option::take) {
                let group = *groups.entry((o.key, version)).or_insert_with(|| {
                    cases.push((read, Vec::new()));
                    cases.len() - 1
                });
                cases[group].1.push(numbered.txn(node));
            }
        }
    }
    for (read, txns) in cases.into_iter().filter(|(_, txns)| txns.len() > 1) {
        findings.push((AnomalyKind::LostUpdate, Case::LostUpdate { read, txns }));
    }
}
