//! The data of a page: one JSON document and the columns of the histories, deflated, in base64.
//!
//! Base64 contains no `<`, so that nothing that was recorded can end the element it stands in.

use crate::axis::Axis;
use crate::columns::{Columns, columns};
use crate::marks;
use crate::pick;
use crate::{Page, Run, Unseen};
use anomalist_history::{Clock, History, KeyId, TxnId};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, write::ZlibEncoder};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// The data of a page may take so many bytes before they are written in base64, unless what is drawn of
/// every transaction needs more.
const MOST: usize = 2_000_000;
/// What operations may take before they are compressed, at first; numbers shrink to a third or less.
const OPERATIONS: usize = 8_000_000;
/// A page always carries so many bytes of operations, if there are so many: enough for the examples.
const LEAST: usize = 200_000;

/// The data of a page, in base64.
pub(crate) fn encoded(page: &Page<'_>) -> String {
    let share = MOST / page.runs.len().max(1);
    let parts: Vec<Part> = page.runs.iter().map(|run| part(run, share)).collect();
    let mut columns = Vec::new();
    let mut runs = Vec::new();
    for part in parts {
        let mut run = part.run;
        if let Some(Columns { about, bytes }) = part.columns {
            run["history"] = about;
            run["history"]["offset"] = json!(columns.len());
            columns.extend(bytes);
        }
        runs.push(run);
    }
    let document =
        json!({"command": page.command, "next": page.next, "version": env!("CARGO_PKG_VERSION"), "runs": runs}).to_string();
    let mut bytes = (document.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(document.as_bytes());
    bytes.extend(columns);
    STANDARD.encode(deflated(&bytes))
}

struct Part {
    run: Value,
    columns: Option<Columns>,
}

fn part(run: &Run<'_>, share: usize) -> Part {
    let history = run.history.filter(|history| history.txn_count() > 0);
    let places = history.map_or_else(BTreeMap::new, |history| places(history, &run.result));
    let columns = history.map(|history| fitting(history, run, &places, share));
    let document = json!({
        "name": run.name,
        "about": run.about,
        "sentence": run.verdicts.sentence,
        "outcome": run.verdicts.outcome,
        "ladder": run.verdicts.rows(),
        "unseen": run.unseen.iter().map(unseen).collect::<Vec<_>>(),
        "unit": history.and_then(History::clock).map(Clock::name),
        "instances": run.instances.iter().map(|places| marks::encoded(places)).collect::<Vec<_>>(),
        "faults": history.map_or_else(Vec::new, marks::faults),
        "pictures": run.pictures.iter().map(|p| json!({"svg": p.svg, "dot": p.dot})).collect::<Vec<_>>(),
        "places": places,
        "result": run.result,
    });
    Part { run: document, columns }
}

fn unseen(unseen: &Unseen) -> Value {
    json!({"code": unseen.code, "message": unseen.message, "advice": unseen.advice})
}

/// The columns, with as many operations as fit.
fn fitting(history: &History, run: &Run<'_>, places: &BTreeMap<String, u32>, share: usize) -> Columns {
    let by_stamps = |l: &Value| l["by"] == "timestamps";
    let axis =
        Axis::of(history, run.result["levels"].as_array().is_some_and(|all| all.iter().any(by_stamps)));
    let examples: BTreeSet<TxnId> = places.values().map(|&i| TxnId(i)).collect();
    let wanted = pick::order(history, &axis, &examples, &keys(history, &run.result));
    let size = |columns: &Columns| deflated(&columns.bytes).len();
    let bare = columns(history, &axis, &wanted, 0);
    let room = share.saturating_sub(size(&bare));
    let mut most = if room == 0 { LEAST } else { OPERATIONS };
    loop {
        let columns = columns(history, &axis, &wanted, most);
        let taken = size(&columns).saturating_sub(share - room);
        if taken <= room || most <= LEAST {
            return columns;
        }
        // What they took is about proportional to what they are.
        let raw = columns.bytes.len().saturating_sub(bare.bytes.len());
        most = (raw.min(most) as f64 * room as f64 / taken as f64 * 0.95) as usize;
        most = most.max(LEAST);
    }
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
    // Writing into memory does not fail.
    _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// The witnesses of a result.
fn witnesses(result: &Value) -> impl Iterator<Item = &Value> {
    let anomalies = result["anomalies"].as_array().into_iter().flatten();
    anomalies.flat_map(|a| std::iter::once(a).chain(a["further"].as_array().into_iter().flatten()))
}

fn transactions(result: &Value) -> impl Iterator<Item = &Value> {
    witnesses(result).flat_map(|a| a["witness"]["transactions"].as_array().into_iter().flatten())
}

/// Where the transactions of the examples are in the history, by name. Of several with one name, the one on
/// the line that the result names.
fn places(history: &History, result: &Value) -> BTreeMap<String, u32> {
    let wanted: BTreeMap<&str, Option<u64>> =
        transactions(result).filter_map(|t| Some((t["name"].as_str()?, t["line"].as_u64()))).collect();
    let mut places = BTreeMap::new();
    if wanted.is_empty() {
        return places;
    }
    for t in history.txns() {
        let name = history.raw_name(t);
        let Some(line) = wanted.get(name.as_str()) else { continue };
        let exact = line.is_none() || *line == history.line(t).map(u64::from);
        if exact || !places.contains_key(&name) {
            places.insert(name, t.0);
        }
    }
    places
}

/// The keys that the examples are about.
fn keys(history: &History, result: &Value) -> BTreeSet<KeyId> {
    let operations = transactions(result).flat_map(|t| t["operations"].as_array().into_iter().flatten());
    let names: BTreeSet<String> = operations
        .filter(|op| op["matters"] == true)
        .map(|op| op["key"].as_str().map_or_else(|| op["key"].to_string(), str::to_owned))
        .collect();
    let is_named = |key: &KeyId| names.contains(&history.show_key(*key).to_string());
    history.keys().filter(is_named).collect()
}
