//! What a watch should have reported: the offline check of the lines that arrived.

use anomalist_format::StreamReader;
use anomalist_history::{Builder, History, TxnId, Value as Datum};
use anomalist_level::Budget;
use anomalist_timestamp::offline::find;
use anomalist_timestamp::{Axiom, Rule};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;

/// What the offline check found.
pub struct Expected {
    /// Violations and how often each, by axiom, transaction and key.
    pub found: BTreeMap<String, i64>,
    /// The axiom of each.
    pub axioms: Vec<Axiom>,
    /// Some reads cannot be judged.
    pub open: bool,
}

/// Checks lines. Of lines that are the same the first counts, and what is no transaction does not.
pub fn expected<'a>(lines: impl Iterator<Item = &'a Vec<u8>>, rule: Rule) -> Result<Expected, String> {
    let (mut reader, mut builder, mut known) = (StreamReader::default(), Builder::new(), HashSet::new());
    builder.set_initial_default(Some(Datum::NIL));
    let mut transactions = 0;
    for (number, line) in lines.enumerate() {
        let header = line.starts_with(b"{\"anomalist\"");
        if header || known.insert(line) {
            let read = reader.read(line.trim_ascii(), number as u64 + 1, &mut builder);
            transactions += usize::from(read.is_ok() && !header);
        }
    }
    if transactions == 0 {
        return Ok(Expected { found: BTreeMap::new(), axioms: Vec::new(), open: true });
    }
    let history = builder.finish().map_err(|error| error.to_string())?;
    let found = find(&history, rule, usize::MAX, NonZeroUsize::MIN, &Budget::unlimited());
    let found = found.ok().flatten().ok_or("the judge has no answer")?;
    let mut expected = Expected {
        found: BTreeMap::new(),
        axioms: Vec::new(),
        open: found.open + found.unmatched + found.unjudged > 0,
    };
    for violation in &found.listed {
        let id = violation.identity();
        let key = id.key.map(|key| history.show_key(key).to_string());
        *expected
            .found
            .entry(name(id.axiom.code(), &place(&history, id.txn), key.as_deref()))
            .or_default() += 1;
        expected.axioms.push(id.axiom);
    }
    Ok(expected)
}

/// Session and rank.
fn place(history: &History, t: TxnId) -> String {
    let session = history.issuer(t);
    let rank = history.issued(session).position(|other| other == t).map_or(0, |rank| rank + 1);
    format!("{}:{rank}", history.show(history.session_label(session)))
}

fn name(code: &str, place: &str, key: Option<&str>) -> String {
    format!("{code} {place} {}", key.unwrap_or_default())
}

/// The violations that stand by what was printed: reported and not retracted.
pub fn standing<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<String, i64> {
    let mut standing = BTreeMap::new();
    for line in lines {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        let change = if event["event"] == "retracted" { -1 } else { 1 };
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        let place = format!("{}:{}", text("session"), event["position"]);
        let name = name(text("code"), &place, Some(text("key")));
        *standing.entry(name).or_default() += change;
    }
    standing.retain(|_, times| *times != 0);
    standing
}
