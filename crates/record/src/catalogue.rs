//! The tables of a database: their keys, and which name surely means which table.
//!
//! Statements name tables; rows name them by their numbers; the log names them again. A table that is
//! renamed while it is recorded could be taken for another, and a read of one row for a read of another:
//! so whenever the catalogue is read again, a table whose name, schema or key is not what it was is given
//! up for the rest of the recording ([`Catalogue::changed_since`]).

use crate::error::{Error, refused};
use anomalist_databases::{Connection, Reply, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A column of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyColumn {
    pub name: String,
    /// Spaces at the end mean nothing.
    pub padded: bool,
    pub boolean: bool,
}

/// A table with a primary key whose changes are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub number: u32,
    pub schema: String,
    pub name: String,
    pub key: Vec<KeyColumn>,
}

/// What a name in a statement is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Table(Arc<Table>),
    /// A table without a primary key, or with one whose text depends on settings, or that is not logged.
    Keyless,
    /// A view, a foreign table, a table of the system.
    Other,
    /// Several relations have the name, or none has.
    Unsure,
}

#[derive(Clone, Debug)]
struct Relation {
    schema: String,
    named: Named,
}

/// The catalogue as it was at one moment.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    by_name: FxHashMap<String, Vec<Relation>>,
    by_number: FxHashMap<u32, Arc<Table>>,
    /// Functions that make one row of many.
    aggregates: FxHashSet<String>,
}

/// One row for each relation and column of its key. Tables that are no heaps have no versions to show, nor
/// have parents of such tables.
const RELATIONS: &str = "SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text, \
    (c.relpersistence = 'p' AND c.relam IN (0, 2) AND NOT (c.relhassubclass AND EXISTS (SELECT FROM \
    pg_catalog.pg_class f WHERE f.relkind = 'f' OR f.relkind = 'r' AND f.relam <> 2)))::int, \
    (EXISTS (SELECT FROM pg_catalog.pg_attribute x WHERE x.attrelid = c.oid AND x.attacl IS NOT NULL))::int, \
    a.attname::text, t.oid::bigint, (t.typtype = 'e')::int \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    LEFT JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisprimary AND i.indisvalid \
    LEFT JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(number, place) ON k.place <= i.indnkeyatts \
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number \
    LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
    WHERE c.relkind NOT IN ('i', 'I', 't', 'c') ORDER BY c.oid, k.place";

const AGGREGATES: &str = "SELECT DISTINCT proname::text FROM pg_catalog.pg_proc WHERE prokind IN ('a', 'w')";

/// A number that differs whenever a table has another name than before.
pub(crate) const FINGERPRINT: &str = "SELECT coalesce(sum(pg_catalog.hashtextextended(c.oid::text || ' ' || \
    c.relnamespace::text || ' ' || c.relname::text || ' ' || coalesce(i.indkey::text, ''), 0)), 0)::text \
    FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisprimary \
    WHERE c.relkind IN ('r', 'p')";

/// Types whose text is the same under all settings of a session: int2, int4, int8, oid, text, varchar,
/// bpchar, uuid, bool, numeric, name.
const PLAIN: [i64; 11] = [21, 23, 20, 26, 25, 1043, 1042, 2950, 16, 1700, 19];

fn text(row: &[Value], at: usize) -> String {
    row.get(at).and_then(Value::as_text).unwrap_or_default().to_owned()
}

fn int(row: &[Value], at: usize) -> i64 {
    row.get(at).and_then(Value::as_int).unwrap_or_default()
}

impl Catalogue {
    pub fn read(connection: &mut dyn Connection) -> Result<Catalogue, Error> {
        let ask = refused("cannot read the catalogue");
        let relations = connection.query(RELATIONS, &[]).map_err(&ask)?;
        let aggregates = connection.query(AGGREGATES, &[]).map_err(&ask)?;
        Ok(Catalogue::of(&relations, aggregates.rows.iter().map(|row| text(row, 0)).collect()))
    }

    fn of(relations: &Reply, aggregates: FxHashSet<String>) -> Catalogue {
        let mut catalogue = Catalogue { aggregates, ..Catalogue::default() };
        for rows in relations.rows.chunk_by(|a, b| int(a, 0) == int(b, 0)) {
            let first = &rows[0];
            let (schema, name, kind) = (text(first, 1), text(first, 2), text(first, 3));
            let (logged, by_column) = (int(first, 4) == 1, int(first, 5) == 1);
            let column = |row: &Vec<Value>| {
                let (of, is_enum) = (int(row, 7), int(row, 8) == 1);
                let known = PLAIN.contains(&of) || is_enum;
                known.then(|| KeyColumn { name: text(row, 6), padded: of == 1042, boolean: of == 16 })
            };
            let key: Option<Vec<KeyColumn>> = rows.iter().map(column).collect();
            let named = match (kind.as_str(), key) {
                ("r" | "p", Some(key)) if logged && !by_column && schema != "pg_catalog" => {
                    let number = u32::try_from(int(first, 0)).unwrap_or_default();
                    let table = Table { number, schema: schema.clone(), name: name.clone(), key };
                    let table = Arc::new(table);
                    catalogue.by_number.insert(number, table.clone());
                    Named::Table(table)
                }
                ("r" | "p", _) if schema != "pg_catalog" && schema != "information_schema" => Named::Keyless,
                _ => Named::Other,
            };
            catalogue.by_name.entry(name).or_default().push(Relation { schema, named });
        }
        catalogue
    }

    /// What a name means. Without a schema it is sure only if one relation has it, in whatever schema.
    pub fn named(&self, schema: Option<&str>, name: &str) -> Named {
        let all = self.by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        match (schema, all) {
            (None, [one]) => one.named.clone(),
            (None, several) if several.iter().all(|r| r.named == Named::Other) && !several.is_empty() => {
                Named::Other
            }
            (None, _) => Named::Unsure,
            (Some(schema), all) => {
                let found = all.iter().find(|r| r.schema == schema);
                found.map_or(Named::Unsure, |r| r.named.clone())
            }
        }
    }

    /// The table that the log means.
    pub fn logged(&self, schema: &str, name: &str) -> Option<&Arc<Table>> {
        let relation = self.by_name.get(name)?.iter().find(|r| r.schema == schema)?;
        match &relation.named {
            Named::Table(table) => Some(table),
            _ => None,
        }
    }

    pub fn table(&self, number: u32) -> Option<&Arc<Table>> {
        self.by_number.get(&number)
    }

    pub fn is_aggregate(&self, function: &str) -> bool {
        self.aggregates.contains(function)
    }

    /// Tables that have another name or key than before, or the name of another table that is still there.
    ///
    /// Rows are called by the names of their tables. So a table that took the place of one that was dropped
    /// needs no care, if its key has the same columns: its rows are later versions of the same names.
    pub fn changed_since(&self, before: &Catalogue) -> Vec<u32> {
        let mut changed: Vec<u32> = Vec::new();
        for table in before.by_number.values() {
            let now = self.by_number.get(&table.number);
            let heir = self.logged(&table.schema, &table.name);
            if now == Some(table) {
                continue;
            }
            changed.extend(now.map(|now| now.number));
            let differs = |heir: &&Arc<Table>| now.is_some() || heir.key != table.key;
            changed.extend(heir.filter(differs).map(|heir| heir.number));
        }
        changed
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A relation of a test: number, schema, name, kind, columns of its key with their types.
    pub type Row<'a> = (i64, &'a str, &'a str, &'a str, &'a [(&'a str, i64)]);

    pub fn catalogue(relations: &[Row<'_>]) -> Catalogue {
        let mut rows = Vec::new();
        for (number, schema, name, kind, key) in relations {
            let row = |column: Value, of: Value| {
                let texts = [schema, name, kind].map(|t| Value::Text((**t).to_owned()));
                let [schema, name, kind] = texts;
                vec![
                    Value::Int(*number),
                    schema,
                    name,
                    kind,
                    Value::Int(1),
                    Value::Int(0),
                    column,
                    of,
                    Value::Int(0),
                ]
            };
            if key.is_empty() {
                rows.push(row(Value::Null, Value::Null));
            }
            rows.extend(key.iter().map(|(c, of)| row(Value::Text((*c).to_owned()), Value::Int(*of))));
        }
        let aggregates = ["count", "sum", "max"].map(str::to_owned).into_iter().collect();
        Catalogue::of(&Reply { rows, ..Reply::default() }, aggregates)
    }

    #[test]
    fn a_name_is_sure_if_one_relation_has_it() {
        let found = catalogue(&[
            (1, "public", "t", "r", &[("id", 23)]),
            (2, "public", "u", "r", &[("a", 25), ("b", 1042)]),
            (3, "other", "u", "r", &[("id", 23)]),
            (4, "public", "v", "v", &[]),
            (5, "public", "keyless", "r", &[]),
            (6, "public", "dated", "r", &[("day", 1082)]),
            (7, "pg_catalog", "pg_class", "r", &[("oid", 26)]),
        ]);
        let table = |schema, name| match found.named(schema, name) {
            Named::Table(table) => i64::from(table.number),
            Named::Keyless => -1,
            Named::Other => -2,
            Named::Unsure => -3,
        };
        assert_eq!(table(None, "t"), 1);
        assert_eq!(table(None, "u"), -3);
        assert_eq!((table(Some("public"), "u"), table(Some("other"), "u")), (2, 3));
        assert_eq!(
            ["v", "keyless", "dated", "pg_class", "nothing"].map(|n| table(None, n)),
            [-2, -1, -1, -2, -3]
        );
        assert!(found.named(Some("public"), "nothing") == Named::Unsure && found.is_aggregate("sum"));
    }

    #[test]
    fn tables_that_change_places_are_found() {
        let before = catalogue(&[
            (1, "public", "a", "r", &[("id", 23)]),
            (2, "public", "b", "r", &[("id", 23)]),
            (3, "public", "c", "r", &[("id", 23)]),
            (4, "public", "d", "r", &[("id", 23)]),
        ]);
        let after = catalogue(&[
            (2, "public", "a", "r", &[("id", 23)]),
            (1, "public", "b", "r", &[("id", 23)]),
            (3, "public", "c", "r", &[("id", 23)]),
            (4, "public", "d", "r", &[("id", 23), ("more", 23)]),
            (5, "public", "e", "r", &[("id", 23)]),
        ]);
        let mut found = after.changed_since(&before);
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, [1, 2, 4]);
        assert!(after.changed_since(&after).is_empty());
        let again =
            catalogue(&[(9, "public", "c", "r", &[("id", 23)]), (8, "public", "d", "r", &[("n", 23)])]);
        assert_eq!(again.changed_since(&before), [8], "c was dropped and made again, d has another key");
    }
}
