//! The statements of every operation, in each database's words.

use super::{Access, Encoding, ListEncoding};
use crate::{Family, Product, Value};
use anomalist_workload::client::{ClientSpec, Recording, Workload};

/// Rows: registers, lists, accounts, the counter.
const TABLE: &str = "anomalist_rows";
/// Elements of sets.
const SET: &str = "anomalist_sets";

/// What to send for each operation.
pub(super) struct Statements {
    pub workload: Workload,
    pub encoding: Encoding,
    family: Family,
    /// Makes the tables and their first rows.
    pub prepare: Vec<String>,
    /// Key.
    pub read: String,
    /// Key, key, value.
    pub upsert: String,
    /// Value, key: tried before `upsert` where rows are not found by their primary key.
    pub update_only: Option<String>,
    /// Key, key, element; the element again if `append_twice`.
    pub append: String,
    pub append_twice: bool,
    /// Element, key: tried before `append`.
    pub append_only: Option<String>,
    /// Key.
    pub read_set: String,
    /// Key, element.
    pub add: String,
    /// Amount, key.
    pub increment: String,
    pub read_all: String,
    /// Key, key, value.
    pub insert: String,
    /// Value, key.
    pub update: String,
    /// Key.
    pub delete: String,
    /// Divisor, rest.
    pub read_where: String,
}

impl Statements {
    pub fn new(product: &Product, spec: &ClientSpec, encoding: Encoding) -> Statements {
        let family = product.family;
        let column = match encoding.access {
            Access::Primary => "id",
            Access::Indexed | Access::Scan => "sk",
        };
        let lists = spec.workload.recording() == Recording::Lists;
        let by_hand = column != "id";
        // Placeholders are numbered in PostgreSQL, and the same everywhere else.
        let p = |n| product.placeholder(n);
        let (one, two, three) = (p(1), p(2), p(3));
        let native = lists && encoding.list == ListEncoding::Native;
        let insert =
            |value: &str| format!("INSERT INTO {TABLE} (id, sk, val) VALUES ({one}, {two}, {value})");
        let on_conflict = |set: &str| match family {
            Family::Mysql => format!("ON DUPLICATE KEY UPDATE val = {set}"),
            _ => format!("ON CONFLICT (id) DO UPDATE SET val = {set}"),
        };
        let fresh = if family == Family::Mysql { "VALUES(val)" } else { "excluded.val" };
        let upsert = format!("{} {}", insert(&three), on_conflict(fresh));
        let (append, append_only, append_twice) = match (native, family) {
            (false, Family::Mysql) => (
                format!("{} {}", insert(&three), on_conflict("CONCAT(val, ',', VALUES(val))")),
                format!("CONCAT(val, ',', {one})"),
                false,
            ),
            (false, _) => (
                format!("{} {}", insert(&three), on_conflict(&format!("{TABLE}.val || ',' || excluded.val"))),
                format!("val || ',' || {one}"),
                false,
            ),
            (true, Family::Postgres) => (
                format!(
                    "{} {}",
                    insert("ARRAY[$3::bigint]"),
                    on_conflict(&format!("{TABLE}.val || excluded.val"))
                ),
                "val || $1::bigint".to_owned(),
                false,
            ),
            (true, Family::Mysql) => (
                format!("{} {}", insert("JSON_ARRAY(?)"), on_conflict("JSON_ARRAY_APPEND(val, '$', ?)")),
                "JSON_ARRAY_APPEND(val, '$', ?)".to_owned(),
                true,
            ),
            (true, Family::Sqlite) => (
                format!(
                    "{} {}",
                    insert("json_array(?)"),
                    on_conflict(&format!("json_insert({TABLE}.val, '$[#]', ?)"))
                ),
                "json_insert(val, '$[#]', ?)".to_owned(),
                true,
            ),
        };
        let set = |expression: &str| format!("UPDATE {TABLE} SET val = {expression} WHERE {column} = {two}");
        let where_rest = match family {
            Family::Mysql => format!("MOD(val, {one}) = {two}"),
            _ => format!("val % {one} = {two}"),
        };
        Statements {
            workload: spec.workload,
            encoding,
            family,
            prepare: prepare(family, spec, encoding, lists, native),
            read: format!("SELECT val FROM {TABLE} WHERE {column} = {one}"),
            upsert,
            update_only: by_hand.then(|| set(&one)),
            append,
            append_twice,
            append_only: by_hand.then(|| set(&append_only)),
            read_set: format!("SELECT x FROM {SET} WHERE k = {one}"),
            add: format!("INSERT INTO {SET} (k, x) VALUES ({one}, {two})"),
            increment: set(&format!("val + {one}")),
            read_all: format!("SELECT id, val FROM {TABLE} ORDER BY id"),
            insert: insert(&three),
            update: set(&one),
            delete: format!("DELETE FROM {TABLE} WHERE {column} = {one}"),
            read_where: format!("SELECT id, val FROM {TABLE} WHERE {where_rest} ORDER BY id"),
        }
    }

    /// An element as a parameter: text where lists are text.
    pub fn element(&self, element: i64) -> Value {
        match (self.encoding.list, self.family) {
            (ListEncoding::Native, _) => Value::Int(element),
            _ => Value::Text(element.to_string()),
        }
    }
}

fn prepare(family: Family, spec: &ClientSpec, encoding: Encoding, lists: bool, native: bool) -> Vec<String> {
    let value = match (lists, native, family) {
        (false, ..) => "BIGINT",
        (true, false, Family::Mysql) => "LONGTEXT",
        (true, false, _) => "TEXT",
        (true, true, Family::Postgres) => "BIGINT[]",
        (true, true, Family::Mysql) => "JSON",
        (true, true, Family::Sqlite) => "TEXT",
    };
    let engine = if family == Family::Mysql { " ENGINE=InnoDB" } else { "" };
    let mut all = vec![
        format!("DROP TABLE IF EXISTS {TABLE}"),
        format!("DROP TABLE IF EXISTS {SET}"),
        format!(
            "CREATE TABLE {TABLE} (id BIGINT NOT NULL PRIMARY KEY, sk BIGINT NOT NULL, val {value} NOT NULL){engine}"
        ),
        format!("CREATE TABLE {SET} (k BIGINT NOT NULL, x BIGINT NOT NULL, PRIMARY KEY (k, x)){engine}"),
    ];
    if encoding.access == Access::Indexed {
        all.push(format!("CREATE INDEX {TABLE}_sk ON {TABLE} (sk)"));
    }
    let rows = match spec.workload {
        Workload::Counter => Some((1, 0)),
        Workload::Bank => Some((spec.keys, ClientSpec::BALANCE)),
        _ => None,
    };
    if let Some((count, value)) = rows {
        let rows: Vec<String> = (0..count).map(|id| format!("({id}, {id}, {value})")).collect();
        all.push(format!("INSERT INTO {TABLE} (id, sk, val) VALUES {}", rows.join(", ")));
    }
    all
}
