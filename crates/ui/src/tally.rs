//! Events of a stream, counted by class and key: what a dashboard shows of a million of them.

use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Most pairs of class and key that are counted apart.
const GROUPS: usize = 1_000;
/// Most events that are kept as they came.
const RECENT: usize = 100;

/// How often a class of violations occurred under a key.
#[derive(Default)]
struct Group {
    count: i64,
    first_ms: u64,
    last_ms: u64,
}

/// The counts.
#[derive(Default)]
pub(crate) struct Tally {
    groups: BTreeMap<(String, String), Group>,
    /// Violations under keys beyond the limit.
    beyond: i64,
    recent: VecDeque<Value>,
    errors: u64,
    /// The last line, which sums up.
    pub(crate) summary: Option<Value>,
}

impl Tally {
    /// Takes in an event that arrived at a time.
    pub(crate) fn add(&mut self, event: Value, at_ms: u64) {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let step = match text("event").as_str() {
            "violation" | "warning" => 1,
            "retracted" => -1,
            "error" => {
                self.errors += 1;
                0
            }
            "summary" => {
                self.summary = Some(event);
                return;
            }
            _ => return,
        };
        if step != 0 {
            let name = (text("code"), text("key"));
            if self.groups.len() >= GROUPS && !self.groups.contains_key(&name) {
                self.beyond += step;
            } else {
                let group =
                    self.groups.entry(name).or_insert_with(|| Group { first_ms: at_ms, ..Group::default() });
                group.count += step;
                group.last_ms = at_ms;
            }
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(json!({"at_ms": at_ms, "event": event}));
    }

    /// Everything, for a browser: the most frequent groups first.
    pub(crate) fn document(&self) -> Value {
        let mut groups: Vec<_> = self.groups.iter().filter(|(_, group)| group.count != 0).collect();
        groups.sort_by_key(|(_, group)| -group.count);
        let groups: Vec<Value> = groups
            .into_iter()
            .map(|((code, key), g)| {
                json!({"code": code, "key": key, "count": g.count, "first_ms": g.first_ms, "last_ms": g.last_ms})
            })
            .collect();
        json!({"groups": groups, "beyond": self.beyond, "recent": self.recent, "errors": self.errors,
               "summary": self.summary})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_grouped_and_retractions_taken_back() {
        let mut tally = Tally::default();
        for (key, event) in [("x", "violation"), ("y", "violation"), ("x", "violation"), ("y", "retracted")] {
            tally.add(json!({"event": event, "code": "EXT", "key": key}), 5);
        }
        tally.add(json!({"event": "error", "kind": "malformed"}), 6);
        let shown = tally.document();
        assert_eq!(shown["groups"].as_array().unwrap().len(), 1, "{shown}");
        assert_eq!((&shown["groups"][0]["key"], &shown["groups"][0]["count"]), (&json!("x"), &json!(2)));
        assert_eq!((shown["errors"].clone(), shown["recent"].as_array().unwrap().len()), (json!(1), 5));
    }

    #[test]
    fn memory_is_bounded() {
        let mut tally = Tally::default();
        for n in 0..GROUPS + 7 {
            tally.add(json!({"event": "violation", "code": "EXT", "key": n.to_string()}), 0);
        }
        assert_eq!((tally.groups.len(), tally.beyond, tally.recent.len()), (GROUPS, 7, RECENT));
    }
}
