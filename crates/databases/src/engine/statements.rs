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

/// The parts that statements are made of.
struct Words<'a> {
    product: &'a Product,
    /// The column that rows are found by.
    column: &'static str,
}

impl Words<'_> {
    /// Placeholders are numbered in PostgreSQL, and the same everywhere else.
    fn parameter(&self, number: usize) -> String {
        self.product.placeholder(number)
    }

    fn insert(&self, value: &str) -> String {
        let (id, sk) = (self.parameter(1), self.parameter(2));
        format!("INSERT INTO {TABLE} (id, sk, val) VALUES ({id}, {sk}, {value})")
    }

    /// Inserts a row, or changes the row that exists to an expression.
    fn insert_or_set(&self, value: &str, expression: &str) -> String {
        let conflict = match self.product.family {
            Family::Mysql => "ON DUPLICATE KEY UPDATE",
            Family::Postgres | Family::Sqlite => "ON CONFLICT (id) DO UPDATE SET",
        };
        format!("{} {conflict} val = {expression}", self.insert(value))
    }

    fn set(&self, expression: &str) -> String {
        format!("UPDATE {TABLE} SET val = {expression} WHERE {} = {}", self.column, self.parameter(2))
    }
}

/// How an element comes to the end of a list.
struct Appending {
    /// Inserts the list, or appends to the list that exists.
    insert_or_append: String,
    /// The list with the element of the first parameter.
    appended: String,
    /// `insert_or_append` has the element twice.
    twice: bool,
}

impl Appending {
    fn new(words: &Words<'_>, native: bool) -> Appending {
        let (one, three) = (words.parameter(1), words.parameter(3));
        let (insert_or_append, appended, twice) = match (native, words.product.family) {
            (false, Family::Mysql) => (
                words.insert_or_set(&three, "CONCAT(val, ',', VALUES(val))"),
                format!("CONCAT(val, ',', {one})"),
                false,
            ),
            (false, Family::Postgres | Family::Sqlite) => (
                words.insert_or_set(&three, &format!("{TABLE}.val || ',' || excluded.val")),
                format!("val || ',' || {one}"),
                false,
            ),
            (true, Family::Postgres) => (
                words.insert_or_set("ARRAY[$3::bigint]", &format!("{TABLE}.val || excluded.val")),
                "val || $1::bigint".to_owned(),
                false,
            ),
            (true, Family::Mysql) => (
                words.insert_or_set("JSON_ARRAY(?)", "JSON_ARRAY_APPEND(val, '$', ?)"),
                "JSON_ARRAY_APPEND(val, '$', ?)".to_owned(),
                true,
            ),
            (true, Family::Sqlite) => (
                words.insert_or_set("json_array(?)", &format!("json_insert({TABLE}.val, '$[#]', ?)")),
                "json_insert(val, '$[#]', ?)".to_owned(),
                true,
            ),
        };
        Appending { insert_or_append, appended, twice }
    }
}

impl Statements {
    pub fn new(product: &Product, spec: &ClientSpec, encoding: Encoding) -> Statements {
        let family = product.family;
        let by_primary_key = encoding.access == Access::Primary;
        let column = if by_primary_key { "id" } else { "sk" };
        let words = Words { product, column };
        let lists = spec.workload.recording() == Recording::Lists;
        let native = lists && encoding.list == ListEncoding::Native;
        let (one, two, three) = (words.parameter(1), words.parameter(2), words.parameter(3));
        let (fresh, where_rest) = match family {
            Family::Mysql => ("VALUES(val)", format!("MOD(val, {one}) = {two}")),
            Family::Postgres | Family::Sqlite => ("excluded.val", format!("val % {one} = {two}")),
        };
        let append = Appending::new(&words, native);
        Statements {
            workload: spec.workload,
            encoding,
            family,
            prepare: prepare(family, spec, encoding, lists, native),
            read: format!("SELECT val FROM {TABLE} WHERE {column} = {one}"),
            upsert: words.insert_or_set(&three, fresh),
            update_only: (!by_primary_key).then(|| words.set(&one)),
            append_only: (!by_primary_key).then(|| words.set(&append.appended)),
            append: append.insert_or_append,
            append_twice: append.twice,
            read_set: format!("SELECT x FROM {SET} WHERE k = {one}"),
            add: format!("INSERT INTO {SET} (k, x) VALUES ({one}, {two})"),
            increment: words.set(&format!("val + {one}")),
            read_all: format!("SELECT id, val FROM {TABLE} ORDER BY id"),
            insert: words.insert(&three),
            update: words.set(&one),
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
