//! Recordings of `jepsen.independent`: many systems of one kind at once, each value a tuple `[key value]`.
//!
//! The keys have nothing to do with each other, so each is a recording of its own. A tuple is a list of two
//! whose first part is no collection. A compare-and-set `[old new]` looks like one: its tuple is
//! `[key [old new]]`. O(n).

use anomalist_history::{Datum, Event, Events, Process};
use std::collections::BTreeMap;

/// The recording of each key; none if values are no tuples.
pub fn independent(events: &Events) -> Option<BTreeMap<Datum, Events>> {
    let mut keys: BTreeMap<Datum, Events> = BTreeMap::new();
    for (position, event) in events.iter().enumerate().filter(|(_, e)| e.process != Process::Other) {
        let (key, value) = event.value.as_pair()?;
        let is_name = key.as_list().is_none() && key.as_map().is_none() && !key.is_nil();
        if !is_name || &*event.f == "cas" && value.as_pair().is_none() {
            return None;
        }
        // What a transfer or a transaction is about is no tuple.
        if matches!(key, Datum::Keyword(_)) && matches!(&*event.f, "txn" | "transfer") {
            return None;
        }
        let index = Some(event.index.unwrap_or(position as i64));
        keys.entry(key.clone()).or_default().push(Event { value: value.clone(), index, ..event.clone() });
    }
    (!keys.is_empty()).then_some(keys)
}
