//! From an instance of an anomaly in a long run to a script of its own.
//!
//! The script has the transactions involved, their statements in the order in which they were sent, and the
//! rows that were committed when the first of them began: of each row, the version whose writers had all
//! been committed by then, with the values that some statement returned for it. At the end every table is
//! read, because an order of versions has to be seen. Whether the anomaly comes back is for a replay to
//! tell. If it does not, a transaction beside the cycle may be what it takes, an aborted one too: PostgreSQL
//! 12.2 lost track of a conflict when a third transaction failed to update the row in question. Therefore
//! there is a second script, with everything that was open at the same time.

use crate::Flavour;
use crate::judge::Found;
use crate::record::{Executed, Outcome, Run, WholeRow, writer_of};
use crate::schema::{Literal, Schema, Table};
use crate::script::{Line, Script, prelude};
use anomalist_databases::{Isolation, Value};
use std::collections::BTreeMap;

/// The transactions that were open while one of these was, and these.
pub fn with_bystanders(run: &Run, places: &[usize]) -> Vec<usize> {
    let spans: Vec<(u64, u64)> = places.iter().map(|&p| run.transactions[p].interval).collect();
    let overlaps = |&(from, to): &(u64, u64)| spans.iter().any(|&(f, t)| from <= t && f <= to);
    let of = |(place, txn): (usize, &Executed)| overlaps(&txn.interval).then_some(place);
    run.transactions.iter().enumerate().filter_map(of).collect()
}

/// The script of an instance, with these transactions.
pub fn script(
    flavour: Flavour,
    level: &Isolation,
    (schema, run): (&Schema, &Run),
    found: &Found,
    places: &[usize],
) -> Script {
    let begin = if flavour == Flavour::Sqlite { level.begin() } else { "BEGIN" };
    let mut places = places.to_vec();
    places.sort_by_key(|&p| run.transactions[p].interval.0);
    places.dedup();
    let moment = places.first().map_or(0, |&p| run.transactions[p].interval.0);
    let mut tables = schema.clone();
    let rows = committed_rows(schema, run, moment);
    for table in &mut tables.tables {
        if let Some(rows) = rows.get(table.name.as_str()) {
            table.rows = rows.iter().map(|row| row.iter().map(literal).collect()).collect();
        }
    }
    // Sessions are numbered in the order in which they appear.
    let mut sessions: Vec<usize> = Vec::new();
    let mut lines: Vec<(u64, usize, Line)> = Vec::new();
    for &place in &places {
        let txn = &run.transactions[place];
        let session = match sessions.iter().position(|s| *s == txn.session) {
            Some(at) => at + 1,
            None => {
                sessions.push(txn.session);
                sessions.len()
            }
        };
        let mut add =
            |at: u64, text: &str| lines.push((at, lines.len(), Line { session, text: text.to_owned() }));
        add(txn.interval.0, begin);
        // What the database does not understand did nothing.
        for step in txn.steps.iter().filter(|s| !s.is_unsupported()) {
            add(step.interval.0, &step.text);
        }
        let given_up = txn.outcome == Outcome::Aborted && txn.failed.is_none();
        let end = if given_up { "ROLLBACK" } else { "COMMIT" };
        // Sent after its last statement answered.
        add(txn.steps.last().map_or(txn.interval.1, |s| s.interval.1), end);
    }
    lines.sort_by_key(|(at, order, _)| (*at, *order));
    let mut steps: Vec<Line> = lines.into_iter().map(|(.., line)| line).collect();
    for table in &schema.tables {
        let columns: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        steps.push(Line { session: 1, text: format!("SELECT {} FROM {}", columns.join(", "), table.name) });
    }
    Script {
        isolation: Some(level.name().to_owned()),
        dialect: Some(flavour.to_string()),
        expects: Some(found.name.kind().to_owned()),
        setup: tables.create(flavour),
        prelude: prelude(flavour, level),
        steps,
    }
}

/// Per table, the values of the rows that were there at a moment, as far as they are known.
fn committed_rows<'s>(schema: &'s Schema, run: &Run, moment: u64) -> BTreeMap<&'s str, Vec<Vec<Value>>> {
    let mut ended: BTreeMap<u64, (Outcome, u64)> = BTreeMap::new();
    // The versions of each row that were returned with all their values, by list.
    let mut versions: BTreeMap<&str, BTreeMap<&str, (&str, &WholeRow)>> = BTreeMap::new();
    let mut gone: BTreeMap<&str, u64> = BTreeMap::new();
    for txn in &run.transactions {
        ended.insert(txn.id, (txn.outcome, txn.interval.1));
        for step in txn.steps.iter().filter(|s| !s.undone) {
            if let Some(table) = &step.table {
                for whole in &step.whole {
                    let of = versions.entry(&whole.version.row).or_default();
                    of.insert(&whole.version.list, (table, whole));
                }
            }
            if txn.outcome == Outcome::Committed {
                for version in &step.deleted {
                    gone.insert(&version.row, txn.interval.1);
                }
            }
        }
    }
    let committed = |list: &str| {
        list.split(',').filter_map(writer_of).all(|(txn, _)| {
            ended.get(&txn).is_some_and(|(outcome, end)| *outcome != Outcome::Aborted && *end <= moment)
        })
    };
    let mut rows: BTreeMap<&'s str, Vec<Vec<Value>>> = BTreeMap::new();
    for table in &schema.tables {
        rows.insert(&table.name, Vec::new());
    }
    for (row, of) in versions {
        if gone.get(row).is_some_and(|&end| end <= moment) {
            continue;
        }
        let newest = of.iter().filter(|(list, _)| committed(list)).max_by_key(|(list, _)| list.len());
        if let Some((_, (table, whole))) = newest
            && let Some(table) = schema.tables.iter().find(|t| t.name == *table)
            && let Some(rows) = rows.get_mut(table.name.as_str())
            && !meets(table, rows, &whole.values)
        {
            rows.push(whole.values.clone());
        }
    }
    rows
}

/// Whether a row would break a key: what is known of the moment is not always exact.
fn meets(table: &Table, rows: &[Vec<Value>], new: &[Value]) -> bool {
    let same = |key: &[usize]| rows.iter().any(|row| key.iter().all(|&i| row.get(i) == new.get(i)));
    let primary = !table.primary_key.is_empty() && same(&table.primary_key);
    primary || table.unique.is_some_and(|u| new.get(u) != Some(&Value::Null) && same(&[u]))
}

fn literal(value: &Value) -> Literal {
    match value {
        Value::Int(i) => Literal::Int(*i),
        Value::Text(text) => Literal::Text(text.clone()),
        _ => Literal::Null,
    }
}
