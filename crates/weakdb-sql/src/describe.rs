//! Relations as PostgreSQL's catalogue has them: their numbers, indexes and constraints, and the texts that
//! define them.
//!
//! Tables, views, sequences and indexes that were created by name have an id each, and [`number`] makes
//! room after it for what belongs to a table without an id of its own: the indexes of its constraints, the
//! constraints, the sequences of its columns.

use super::catalogue::{Action, Catalogue, Sequence, Table};
use super::types::Type;
use std::sync::Arc;

/// Numbers from here on belong to what users define.
const FIRST: i64 = 16_384;
/// Numbers for each id.
const ROOM: i64 = 4_096;
/// Where in it constraints begin that have no index, and sequences.
const CONSTRAINTS: i64 = 1_024;
const SEQUENCES: i64 = 2_048;

/// The number of the relation with this id.
#[must_use]
pub fn number(id: u32) -> i64 {
    FIRST + i64::from(id) * ROOM
}

/// An index.
pub struct Index {
    /// Its number.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// What it is over, as it would be written.
    pub columns: Vec<String>,
    /// The places of its columns, from 1; 0 for an expression.
    pub places: Vec<usize>,
    /// No two rows have the same.
    pub unique: bool,
    /// It is the primary key's.
    pub primary: bool,
    /// It belongs to a constraint.
    pub constraint: bool,
}

impl Index {
    /// The statement that would create it.
    #[must_use]
    pub fn definition(&self, table: &Table) -> String {
        let unique = if self.unique { "UNIQUE " } else { "" };
        let (name, table) = (quoted(&self.name), quoted(&table.name));
        format!("CREATE {unique}INDEX {name} ON public.{table} USING btree ({})", self.columns.join(", "))
    }
}

/// The indexes of a table: those of its keys, and those that were created.
#[must_use]
pub fn indexes(table: &Table, catalogue: &Catalogue) -> Vec<Index> {
    let created = catalogue.indexes(&table.name);
    let named = |at: &usize| quoted(&table.columns[*at].name);
    let places = |columns: &[usize]| columns.iter().map(|c| c + 1).collect();
    let mut all = Vec::new();
    if !table.key.is_empty() {
        all.push(Index {
            number: number(table.id) + 1,
            name: table.key_name.clone(),
            columns: table.key.iter().map(named).collect(),
            places: places(&table.key),
            unique: true,
            primary: true,
            constraint: true,
        });
    }
    for (at, unique) in table.unique.iter().enumerate() {
        all.push(Index {
            number: number(table.id) + 2 + at as i64,
            name: unique.name.clone(),
            columns: unique.columns.iter().map(named).collect(),
            places: places(&unique.columns),
            unique: true,
            primary: false,
            constraint: !created.iter().any(|(name, _)| name.eq_ignore_ascii_case(&unique.name)),
        });
    }
    for (name, index) in created.into_iter().filter(|(_, index)| !index.unique) {
        let places = index.columns.iter().map(|c| table.column(c.trim_matches('"')).map_or(0, |at| at + 1));
        all.push(Index {
            number: number(index.id),
            name,
            places: places.collect(),
            columns: index.columns,
            unique: false,
            primary: false,
            constraint: false,
        });
    }
    all
}

/// A constraint.
pub struct Constraint {
    /// Its number.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// `p`, `u`, `f` or `c`.
    pub kind: char,
    /// The number of its index, or 0.
    pub index: i64,
    /// Its columns, by place from 1.
    pub columns: Vec<usize>,
    /// The table that a foreign key refers to, and the columns there.
    pub parent: Option<(Arc<Table>, Vec<String>)>,
    /// What happens to children when the parent's key changes, and when the parent goes, as letters.
    pub actions: [char; 2],
    /// As it would be written.
    pub definition: String,
}

/// The constraints of a table.
#[must_use]
pub fn constraints(table: &Table, catalogue: &Catalogue) -> Vec<Constraint> {
    let mut all = Vec::new();
    for index in indexes(table, catalogue).into_iter().filter(|i| i.constraint) {
        let (kind, words) = if index.primary { ('p', "PRIMARY KEY") } else { ('u', "UNIQUE") };
        all.push(Constraint {
            number: index.number,
            definition: format!("{words} ({})", index.columns.join(", ")),
            name: index.name,
            kind,
            index: index.number,
            columns: index.places,
            parent: None,
            actions: [' '; 2],
        });
    }
    let next = number(table.id) + CONSTRAINTS;
    for (at, foreign) in table.foreign.iter().enumerate() {
        let parent = catalogue.table(&foreign.parent);
        let referred: Vec<String> = match (&parent, foreign.referred.is_empty()) {
            (Some(parent), true) => parent.key.iter().map(|&k| parent.columns[k].name.clone()).collect(),
            _ => foreign.referred.clone(),
        };
        let own: Vec<String> = foreign.columns.iter().map(|&c| quoted(&table.columns[c].name)).collect();
        let others: Vec<String> = referred.iter().map(|c| quoted(c)).collect();
        let called = parent.as_ref().map_or(&foreign.parent, |p| &p.name);
        let mut definition =
            format!("FOREIGN KEY ({}) REFERENCES {}({})", own.join(", "), quoted(called), others.join(", "));
        for (event, action) in [("UPDATE", foreign.on_update), ("DELETE", foreign.on_delete)] {
            if let Some(words) = words(action) {
                definition += &format!(" ON {event} {words}");
            }
        }
        all.push(Constraint {
            number: next + at as i64,
            name: foreign.name.clone(),
            kind: 'f',
            index: 0,
            columns: foreign.columns.iter().map(|c| c + 1).collect(),
            parent: parent.map(|parent| (parent, referred)),
            actions: [letter(foreign.on_update), letter(foreign.on_delete)],
            definition,
        });
    }
    let next = next + table.foreign.len() as i64;
    for (at, check) in table.checks.iter().enumerate() {
        all.push(Constraint {
            number: next + at as i64,
            name: check.name.clone(),
            kind: 'c',
            index: 0,
            columns: Vec::new(),
            parent: None,
            actions: [' '; 2],
            definition: format!("CHECK ({})", check.shown),
        });
    }
    all
}

fn words(action: Action) -> Option<&'static str> {
    match action {
        Action::Refuse => None,
        Action::Cascade => Some("CASCADE"),
        Action::SetNull => Some("SET NULL"),
        Action::SetDefault => Some("SET DEFAULT"),
    }
}

fn letter(action: Action) -> char {
    match action {
        Action::Refuse => 'a',
        Action::Cascade => 'c',
        Action::SetNull => 'n',
        Action::SetDefault => 'd',
    }
}

/// The sequences behind SERIAL columns: number, name, place of the column from 1.
pub fn owned_sequences(table: &Table) -> impl Iterator<Item = (i64, String, usize)> + '_ {
    let auto = table.columns.iter().enumerate().filter(|(_, column)| column.auto);
    auto.map(|(at, column)| {
        let name = format!("{}_{}_seq", table.name, column.name);
        (number(table.id) + SEQUENCES + at as i64, name, at + 1)
    })
}

/// The sequence of this name, also of a SERIAL column.
#[must_use]
pub fn sequence(catalogue: &Catalogue, name: &str) -> Option<Sequence> {
    if let Some(found) = catalogue.sequence(name) {
        return Some(found);
    }
    let owns = |t: &Arc<Table>| owned_sequences(t).any(|(_, owned, _)| owned.eq_ignore_ascii_case(name));
    let table = catalogue.tables().into_iter().find(owns)?;
    Some(Sequence { id: table.id, counter: table.counter.clone(), start: 1, increment: 1 })
}

/// All relations of users by name, with their numbers.
fn relations(catalogue: &Catalogue) -> Vec<(String, i64)> {
    let mut all = Vec::new();
    for table in catalogue.tables() {
        all.extend(indexes(&table, catalogue).into_iter().map(|i| (i.name, i.number)));
        all.extend(owned_sequences(&table).map(|(number, name, _)| (name, number)));
        all.push((table.name.clone(), number(table.id)));
    }
    all.extend(catalogue.views().into_iter().map(|(name, view)| (name, number(view.id))));
    all.extend(catalogue.sequences().into_iter().map(|(name, sequence)| (name, number(sequence.id))));
    all
}

/// The relation of this name.
#[must_use]
pub fn relation_number(catalogue: &Catalogue, name: &str) -> Option<i64> {
    relations(catalogue).into_iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, number)| number)
}

/// The relation with this number.
#[must_use]
pub fn relation_name(catalogue: &Catalogue, number: i64) -> Option<String> {
    relations(catalogue).into_iter().find(|(_, n)| *n == number).map(|(name, _)| quoted(&name))
}

/// The text of the constraint with this number.
#[must_use]
pub fn constraint_definition(catalogue: &Catalogue, number: i64) -> Option<String> {
    let all = catalogue.tables().into_iter().flat_map(|t| constraints(&t, catalogue));
    all.into_iter().find(|c| c.number == number).map(|c| c.definition)
}

/// The text of the index with this number; of one of its columns, unless 0.
#[must_use]
pub fn index_definition(catalogue: &Catalogue, number: i64, column: usize) -> Option<String> {
    for table in catalogue.tables() {
        if let Some(index) = indexes(&table, catalogue).into_iter().find(|i| i.number == number) {
            return match column {
                0 => Some(index.definition(&table)),
                _ => index.columns.get(column - 1).cloned(),
            };
        }
    }
    None
}

/// What a type is called, with the modifier that a column has (`atttypmod`).
#[must_use]
pub fn type_text(kind: Type, modifier: i64) -> String {
    let (name, bits) = (kind.name(), modifier - 4);
    match kind {
        _ if bits < 0 => name.to_owned(),
        Type::Varchar(_) | Type::Char(_) => format!("{name}({bits})"),
        Type::Numeric(_) => format!("{name}({},{})", bits >> 16, bits & 0xffff),
        _ => name.to_owned(),
    }
}

/// The modifier of a column (`atttypmod`), or -1.
#[must_use]
pub fn modifier(kind: Type, precision: Option<u64>) -> i64 {
    match (kind, precision) {
        (Type::Varchar(Some(n)) | Type::Char(n), _) => i64::from(n) + 4,
        (Type::Numeric(scale), Some(digits)) => {
            i64::try_from(digits).unwrap_or(0) << 16 | (i64::from(scale.unwrap_or(0)) + 4)
        }
        _ => -1,
    }
}

/// A name as it has to be written.
#[must_use]
pub fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
