//! The levels as data for a picture: definitions, implications, examples, and a history for each pair of
//! levels that one allows and the other forbids.
//!
//! The histories were decided once, by the engines: `crates/ui/tests/separations.rs` writes and checks the
//! table.

use anomalist_level::{AnomalyKind, Level};
use serde_json::{Map, Value, json};

/// Lines of: level that allows it, level that forbids it, the history.
const SEPARATIONS: &str = include_str!("separations.tsv");

/// Everything.
pub(crate) fn document() -> Value {
    let levels: Vec<Value> = Level::CANONICAL.iter().map(|&level| about(level)).collect();
    let mut separations = Map::new();
    for line in SEPARATIONS.lines() {
        let mut cells = line.split('\t');
        if let (Some(allows), Some(forbids), Some(history)) = (cells.next(), cells.next(), cells.next()) {
            separations.insert(format!("{allows} {forbids}"), json!(history));
        }
    }
    let kinds = AnomalyKind::ALL.iter().map(|&kind| (kind.name().to_owned(), json!(kind.title())));
    json!({"levels": levels, "separations": separations, "anomalies": kinds.collect::<Map<_, _>>()})
}

fn about(level: Level) -> Value {
    let info = level.info();
    let names = |levels: Vec<Level>| levels.into_iter().map(Level::name).collect::<Vec<_>>();
    let canonical = |other: &Level| other.is_canonical() && *other != level;
    let forbids = AnomalyKind::ALL.iter().filter(|&&kind| level.forbids(kind) && !kind.is_no_order());
    json!({
        "name": level.name(),
        "aliases": info.aliases,
        "family": info.family.map(|family| format!("{family:?}")),
        "bound": format!("{:?}", level.bound()),
        "definition": info.definition,
        "source": info.source,
        "implies": names(level.implied().filter(canonical).collect()),
        "forbids": forbids.map(|kind| json!({"name": kind.name(), "code": kind.code()})).collect::<Vec<_>>(),
        "accepts": info.example_accepts,
        "rejects": info.example_rejects,
    })
}
