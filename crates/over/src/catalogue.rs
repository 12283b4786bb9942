//! Which tables have weak reads, and how their rows are named.
//!
//! A key of the store is a row: `table(key)`, with the values of the primary key, or of the first unique
//! index without NULLs, separated by commas. A whole key, or its first columns with the comma after them, is
//! a prefix that names what a query reads. Commas, parentheses and per cent signs within values are written
//! as in URLs, by the trigger and by [`KeyKind::text`] alike.
//!
//! Left out are tables without a key, parts of partitioned tables (their rows belong to the whole), tables
//! with parents or children by inheritance, with row-level security, and temporary ones: reads see them as
//! they are.

use anomalist_databases::{Connection, Error, Value};
use anomalist_sqltext::Dialect;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The schema of the versions and of everything else that is shared.
pub(crate) const VERSIONS: &str = "anomalist_versions";
/// How the names of schemas with views begin; the name of the tables' schema follows.
pub(crate) const WEAK: &str = "anomalist_weak_";

/// `name` as an identifier.
pub(crate) fn quote(name: &str) -> String {
    Dialect::PostgreSql.quote(name)
}

/// `text` as a literal.
pub(crate) fn literal(text: &str) -> String {
    Dialect::PostgreSql.literal(text)
}

/// How the values of a column of a key are compared with those of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Int,
    Text,
    Uuid,
    /// Not at all: statements that fix it are taken to read everything.
    Other,
}

impl KeyKind {
    fn of(name: &str) -> KeyKind {
        match name {
            "int2" | "int4" | "int8" => KeyKind::Int,
            "text" | "varchar" => KeyKind::Text,
            "uuid" => KeyKind::Uuid,
            _ => KeyKind::Other,
        }
    }

    /// A value as it stands in the name of a key.
    pub fn text(self, value: &str) -> Option<String> {
        match self {
            KeyKind::Int => value.trim().parse::<i64>().ok().map(|n| n.to_string()),
            KeyKind::Text => {
                Some(value.replace('%', "%25").replace(',', "%2C").replace('(', "%28").replace(')', "%29"))
            }
            KeyKind::Uuid => {
                let hex: String = value.chars().filter(|c| *c != '-').collect::<String>().to_lowercase();
                let plain = hex.len() == 32 && hex.chars().all(|c| c.is_ascii_hexdigit());
                plain.then(|| [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
            }
            KeyKind::Other => None,
        }
    }
}

/// A column of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyColumn {
    pub name: String,
    pub kind: KeyKind,
}

/// A table with weak reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub rel: u32,
    pub schema: String,
    pub name: String,
    pub columns: Vec<String>,
    pub key: Vec<KeyColumn>,
    /// Columns with their types, and the key: what the trigger and the view depend on.
    pub shape: String,
    /// With what the names of its keys begin. A table whose definition changed begins anew, with another
    /// name.
    pub prefix: String,
}

impl Table {
    /// The schema of its view.
    pub fn weak_schema(&self) -> String {
        format!("{WEAK}{}", self.schema)
    }

    /// Its view.
    pub fn view(&self) -> String {
        format!("{}.{}", quote(&self.weak_schema()), quote(&self.name))
    }

    pub fn qualified(&self) -> String {
        format!("{}.{}", quote(&self.schema), quote(&self.name))
    }

    /// The key of a row as SQL, of a row variable of this name.
    pub fn key_expression(&self, row: &str) -> String {
        let column = |c: &KeyColumn| {
            let text = format!("{row}.{}::text", quote(&c.name));
            match c.kind {
                KeyKind::Int | KeyKind::Uuid => text,
                KeyKind::Text | KeyKind::Other => {
                    let escaped = [("%", "%25"), (",", "%2C"), ("(", "%28"), (")", "%29")];
                    escaped.iter().fold(text, |t, (c, e)| format!("replace({t}, '{c}', '{e}')"))
                }
            }
        };
        let parts: Vec<String> = self.key.iter().map(column).collect();
        format!("({})", parts.join(" || ',' || "))
    }

    /// All columns of a row variable as a row, in the order of the table.
    pub fn row_expression(&self, row: &str) -> String {
        let parts: Vec<String> = self.columns.iter().map(|c| format!("{row}.{}", quote(c))).collect();
        format!("ROW({})::text", parts.join(", "))
    }
}

/// All of them, and what else has to be known of the database's definitions.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    tables: HashMap<String, HashMap<String, Arc<Table>>>,
    by_rel: HashMap<u32, Arc<Table>>,
    /// Views and parts of partitioned tables, with the tables whose rows they show.
    others: HashMap<String, HashMap<String, Vec<u32>>>,
    /// Functions of the database's users that may write or read tables.
    functions: HashSet<String>,
    /// Some constraint may be checked at the commit.
    pub deferrable: bool,
    /// Schemas that have a schema of views.
    pub weak_schemas: HashSet<String>,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Relation {
    Weak(Arc<Table>),
    /// A view, or a part of a partitioned table.
    Shows(Vec<Arc<Table>>),
    Catalogue,
    Plain,
}

const TABLES: &str = r"
SELECT c.oid::int8, n.nspname::text, c.relname::text, a.attname::text, t.typname::text, k.place::int8,
       format_type(a.atttypid, a.atttypmod)
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type t ON t.oid = a.atttypid
  JOIN LATERAL (
    SELECT i.indkey FROM pg_index i
     WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
       AND NOT EXISTS (SELECT FROM pg_attribute b WHERE b.attrelid = c.oid AND b.attnum = ANY (i.indkey)
                          AND NOT b.attnotnull)
     ORDER BY i.indisprimary DESC, i.indexrelid LIMIT 1) x ON true
  LEFT JOIN LATERAL unnest(x.indkey) WITH ORDINALITY k(attnum, place) ON k.attnum = a.attnum
 WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND NOT c.relispartition AND NOT c.relrowsecurity
   AND n.nspname !~ '^(pg_|anomalist_)' AND n.nspname <> 'information_schema'
   AND NOT EXISTS (SELECT FROM pg_inherits h
                    WHERE h.inhrelid = c.oid OR (h.inhparent = c.oid AND c.relkind = 'r'))
   AND NOT EXISTS (SELECT FROM pg_depend d
                    WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
 ORDER BY n.nspname, c.relname, a.attnum";

const OTHERS: &str = r"
WITH RECURSIVE uses(rel, base) AS (
  SELECT r.ev_class, d.refobjid FROM pg_rewrite r
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                    AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> r.ev_class
   UNION SELECT i.inhrelid, i.inhparent FROM pg_inherits i
), shows(rel, base) AS (
  SELECT rel, base FROM uses UNION SELECT s.rel, u.base FROM shows s JOIN uses u ON u.rel = s.base)
SELECT n.nspname::text, c.relname::text, s.base::int8 FROM shows s
  JOIN pg_class c ON c.oid = s.rel JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname !~ '^(pg_|anomalist_)' AND n.nspname <> 'information_schema'";

const FUNCTIONS: &str = r"
SELECT DISTINCT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE p.provolatile <> 'i' AND n.nspname !~ '^(pg_|anomalist_)' AND n.nspname <> 'information_schema'";

const DEFERRABLE: &str = "SELECT count(*)::int8 FROM pg_trigger WHERE tgdeferrable";

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        other => other.as_text().map_or_else(|| other.to_string(), str::to_owned),
    }
}

fn number(value: &Value) -> u32 {
    value.as_int().and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

impl Catalogue {
    /// Asks the server. Names of keys are those without an epoch.
    pub fn load(admin: &mut dyn Connection) -> Result<Catalogue, Error> {
        let mut catalogue = Catalogue::default();
        let mut tables: Vec<(Table, Vec<(i64, KeyColumn)>)> = Vec::new();
        for row in admin.query(TABLES, &[])?.rows {
            let [rel, schema, name, column, kind, place, full] = &row[..] else { continue };
            let rel = number(rel);
            if tables.last().is_none_or(|(t, _)| t.rel != rel) {
                let (schema, name) = (text(schema), text(name));
                let prefix =
                    if schema == "public" { format!("{name}(") } else { format!("{schema}.{name}(") };
                let (columns, key, shape) = (Vec::new(), Vec::new(), String::new());
                tables.push((Table { rel, schema, name, columns, key, shape, prefix }, Vec::new()));
            }
            if let Some((table, key)) = tables.last_mut() {
                let column = text(column);
                let place = place.as_int();
                table.shape.push_str(&format!("{column} {} {place:?},", text(full)));
                if let Some(place) = place {
                    key.push((place, KeyColumn { name: column.clone(), kind: KeyKind::of(&text(kind)) }));
                }
                table.columns.push(column);
            }
        }
        for (mut table, mut key) in tables {
            key.sort_by_key(|(place, _)| *place);
            table.key = key.into_iter().map(|(_, column)| column).collect();
            catalogue.add(table);
        }
        for row in admin.query(OTHERS, &[])?.rows {
            let [schema, name, base] = &row[..] else { continue };
            let names = catalogue.others.entry(text(schema)).or_default();
            names.entry(text(name)).or_default().push(number(base));
        }
        catalogue.functions =
            admin.query(FUNCTIONS, &[])?.rows.iter().filter_map(|row| row.first().map(text)).collect();
        catalogue.deferrable = admin.query(DEFERRABLE, &[])?.int().unwrap_or(0) > 0;
        Ok(catalogue)
    }

    /// Adds a table, or replaces it.
    pub fn add(&mut self, table: Table) {
        self.weak_schemas.insert(table.schema.clone());
        let table = Arc::new(table);
        self.by_rel.insert(table.rel, table.clone());
        self.tables.entry(table.schema.clone()).or_default().insert(table.name.clone(), table);
    }

    /// Takes a table out: reads see it as it is.
    pub fn remove(&mut self, rel: u32) {
        if let Some(table) = self.by_rel.remove(&rel)
            && let Some(tables) = self.tables.get_mut(&table.schema)
        {
            tables.remove(&table.name);
        }
    }

    pub fn tables(&self) -> Vec<Arc<Table>> {
        let mut all: Vec<Arc<Table>> = self.by_rel.values().cloned().collect();
        all.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        all
    }

    pub fn table(&self, rel: u32) -> Option<&Arc<Table>> {
        self.by_rel.get(&rel)
    }

    /// What a name means with this search path.
    pub fn relation(&self, schema: Option<&str>, name: &str, path: &[String]) -> Relation {
        match schema {
            Some("pg_catalog" | "information_schema") => return Relation::Catalogue,
            Some(schema) => return self.within(schema, name).unwrap_or(Relation::Plain),
            None => {}
        }
        if let Some(found) = path.iter().find_map(|schema| self.within(schema, name)) {
            return found;
        }
        if name.starts_with("pg_") { Relation::Catalogue } else { Relation::Plain }
    }

    fn within(&self, schema: &str, name: &str) -> Option<Relation> {
        if let Some(table) = self.tables.get(schema).and_then(|t| t.get(name)) {
            return Some(Relation::Weak(table.clone()));
        }
        let bases = self.others.get(schema)?.get(name)?;
        Some(Relation::Shows(bases.iter().filter_map(|rel| self.by_rel.get(rel).cloned()).collect()))
    }

    /// Whether a function of this name may write, or read tables.
    pub fn is_busy_function(&self, name: &str) -> bool {
        self.functions.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_named_as_the_trigger_names_them() {
        assert_eq!(KeyKind::Int.text(" 007 ").as_deref(), Some("7"));
        assert_eq!(KeyKind::Int.text("7.0"), None);
        assert_eq!(KeyKind::Text.text("a,(b)%").as_deref(), Some("a%2C%28b%29%25"));
        let uuid = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11";
        assert_eq!(KeyKind::Uuid.text(&uuid.replace('-', "")), Some(uuid.to_lowercase()));
        assert_eq!(KeyKind::Uuid.text("a0"), None);
    }
}
