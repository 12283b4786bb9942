//! What is marked on the whole run: where instances of anomalies are, and when faults were injected.

use anomalist_history::{History, TxnId};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The most marks of one kind; of more, some are left out evenly, and the page says so.
const MOST: usize = 20_000;

/// Ascending transactions as differences, which compress well.
pub(crate) fn encoded(places: &[TxnId]) -> Vec<u32> {
    let count = places.len().min(MOST);
    let mut last = 0;
    let difference = |i: usize| {
        let t = places[i * places.len() / count].0;
        t - std::mem::replace(&mut last, t)
    };
    (0..count).map(difference).collect()
}

/// The transactions that a kept result names as places of instances, per anomaly. Of several with one name
/// the first is meant.
pub(crate) fn named(history: &History, result: &Value) -> Vec<Vec<TxnId>> {
    let anomalies = result["anomalies"].as_array().map_or(&[][..], Vec::as_slice);
    let names = |anomaly: &Value| anomaly["instances"].as_array().cloned().unwrap_or_default();
    if anomalies.iter().all(|anomaly| names(anomaly).is_empty()) {
        return Vec::new();
    }
    let mut places: HashMap<String, TxnId> = HashMap::new();
    for t in history.txns() {
        places.entry(history.raw_name(t)).or_insert(t);
    }
    let of = |anomaly: &Value| {
        let mut found: Vec<TxnId> =
            names(anomaly).iter().filter_map(|name| places.get(name.as_str()?).copied()).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    anomalies.iter().map(of).collect()
}

/// The faults that are no transactions, on an axis that counts from `origin`: begin, end, name, detail.
pub(crate) fn outages(history: &History, origin: i64) -> Vec<Value> {
    let place = |at: u64| i64::try_from(at).map_or(0, |at| at.saturating_sub(origin).max(0));
    let outage = |o: &anomalist_history::Outage| {
        let begin = place(o.interval.invoked);
        json!([begin, o.interval.completed.map_or(begin, place), o.name, o.detail])
    };
    history.outages().iter().map(outage).collect()
}

/// The faults that a recording of `anomalist test` holds: transactions of a session of their own.
pub(crate) fn faults(history: &History) -> Vec<Value> {
    let fault = |(t, facts): (&TxnId, &anomalist_history::Metadata)| {
        Some(json!([t.0, facts.get("fault")?, facts.get("detail")]))
    };
    history.metadata().iter().filter_map(fault).collect()
}
