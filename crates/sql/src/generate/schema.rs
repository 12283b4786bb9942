//! Random tables, constraints, indexes, rows and views.

use super::{Knobs, percent};
use crate::schema::{Column, Foreign, Kind, Literal, Schema, Table, View};
use fastrand::Rng;

pub(super) fn schema(knobs: &Knobs, rng: &mut Rng) -> Schema {
    let mut schema = Schema::default();
    for i in 0..rng.usize(1..=knobs.tables.max(1)) {
        let table = table(format!("t{i}"), knobs, &schema.tables, rng);
        schema.tables.push(table);
    }
    if percent(rng, 40) {
        let table = &schema.tables[rng.usize(..schema.tables.len())];
        let columns: Vec<(String, Kind)> = table.columns.iter().map(|c| (c.name.clone(), c.kind)).collect();
        let names: Vec<&str> = columns.iter().map(|c| c.0.as_str()).collect();
        let mut query = format!("SELECT {} FROM {}", names.join(", "), table.name);
        if let Some((name, _)) = columns.iter().find(|c| c.1 == Kind::Int)
            && rng.bool()
        {
            query += &format!(" WHERE {name} < {}", rng.i64(2..=knobs.values.max(2)));
        }
        schema.views.push(View { name: "v0".into(), query, columns });
    }
    schema
}

fn table(name: String, knobs: &Knobs, others: &[Table], rng: &mut Rng) -> Table {
    let count = rng.usize(1..=knobs.columns.max(1));
    let mut columns: Vec<Column> = (0..count)
        .map(|i| Column {
            name: format!("c{i}"),
            // The first is a number, so that every table has ranges.
            kind: if i > 0 && percent(rng, 30) { Kind::Text } else { Kind::Int },
            not_null: percent(rng, 15),
            default: None,
            check: None,
            auto_increment: false,
        })
        .collect();
    for column in columns.iter_mut().skip(1) {
        if percent(rng, 20) {
            column.default = Some(value(column.kind, knobs, rng));
        }
        if column.kind == Kind::Int && percent(rng, 10) {
            column.check = Some(format!("{} >= 0", column.name));
        }
    }
    let primary_key = match rng.u8(0..10) {
        0..=3 => vec![0],
        4..=5 if count > 1 => vec![0, 1],
        _ => Vec::new(),
    };
    columns[0].auto_increment = primary_key == [0] && percent(rng, 25);
    for &i in &primary_key {
        columns[i].not_null = true;
        columns[i].default = None;
    }
    let unique = (count > 1 && primary_key.len() < 2 && percent(rng, 15)).then_some(count - 1);
    let keyed = |c: &usize| primary_key.first() == Some(c) || unique == Some(*c);
    let indexes: Vec<usize> = (0..count).filter(|c| !keyed(c) && percent(rng, 25)).collect();
    let parent = others.iter().find(|t| t.primary_key == [0] && !t.rows.is_empty());
    let foreign = parent
        .filter(|_| count > 1 && unique.is_none() && columns[count - 1].kind == Kind::Int)
        .and_then(|parent| {
            percent(rng, 40).then(|| Foreign {
                column: count - 1,
                table: parent.name.clone(),
                key: parent.columns[0].name.clone(),
            })
        });
    let mut made = Table { name, columns, primary_key, unique, indexes, foreign, rows: Vec::new() };
    made.rows = rows(&made, knobs, parent, rng);
    made
}

/// Rows that the constraints allow: keys count up, references refer to the parent's first row.
fn rows(table: &Table, knobs: &Knobs, parent: Option<&Table>, rng: &mut Rng) -> Vec<Vec<Literal>> {
    // From one on: MySQL takes a zero in a numbered column for the next number.
    let made = (1..=rng.i64(1..=(knobs.rows.max(1) as i64))).map(|row| {
        let cell = |i: usize| {
            let column = &table.columns[i];
            let unique = table.unique == Some(i) || table.primary_key.first() == Some(&i);
            if table.foreign.as_ref().is_some_and(|f| f.column == i) {
                return parent.map_or(Literal::Null, |p| p.rows[0][0].clone());
            }
            match (unique, column.kind) {
                (true, Kind::Int) => Literal::Int(row),
                (true, Kind::Text) => Literal::Text(letter(row)),
                (false, kind) if column.not_null || !percent(rng, 8) => value(kind, knobs, rng),
                _ => Literal::Null,
            }
        };
        (0..table.columns.len()).map(cell).collect()
    });
    made.collect::<Vec<Vec<Literal>>>()
}

/// A value that hardly any row has yet.
pub(super) fn fresh(kind: Kind, knobs: &Knobs, rng: &mut Rng) -> Literal {
    let number = rng.i64(knobs.values.max(1)..knobs.values.max(1) + 5000);
    match kind {
        Kind::Int => Literal::Int(number),
        Kind::Text => Literal::Text([number / 676, number / 26, number].map(letter).concat()),
    }
}

/// A value of a type.
pub(super) fn value(kind: Kind, knobs: &Knobs, rng: &mut Rng) -> Literal {
    match kind {
        Kind::Int => Literal::Int(rng.i64(0..knobs.values.max(1))),
        Kind::Text => Literal::Text(letter(rng.i64(0..knobs.values.max(1)))),
    }
}

fn letter(i: i64) -> String {
    char::from(b'a' + (i % 26) as u8).to_string()
}
