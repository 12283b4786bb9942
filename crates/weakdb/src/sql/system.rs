//! PostgreSQL's catalogue and the information schema, as ordinary tables of SQLite: what drivers and object mappers ask when
//! they connect. Only what such clients look at is there.

use super::catalogue::{Catalogue, Table};
use super::engine::Shared;
use super::settings;
use super::types::Type;
use isolde_sqltext::Dialect;

/// The number of a table in PostgreSQL's catalogue.
#[must_use]
pub fn oid(table: &Table) -> i64 {
    16_384 + i64::from(table.id) * 16
}

/// Types with their names in `pg_type`.
const TYPES: &[(Type, &str)] = &[
    (Type::Bool, "bool"),
    (Type::Bytes, "bytea"),
    (Type::Name, "name"),
    (Type::Int8, "int8"),
    (Type::Int2, "int2"),
    (Type::Int4, "int4"),
    (Type::Text, "text"),
    (Type::Oid, "oid"),
    (Type::Float4, "float4"),
    (Type::Float8, "float8"),
    (Type::Char(1), "bpchar"),
    (Type::Varchar(None), "varchar"),
    (Type::Date, "date"),
    (Type::Time, "time"),
    (Type::Timestamp, "timestamp"),
    (Type::TimestampTz, "timestamptz"),
    (Type::Numeric(None), "numeric"),
    (Type::Uuid, "uuid"),
    (Type::Json, "jsonb"),
];

/// The name of the type with this number.
#[must_use]
pub fn type_name(oid: i64) -> &'static str {
    TYPES.iter().find(|(kind, _)| i64::from(kind.oid()) == oid).map_or("text", |(kind, _)| kind.name())
}

/// The type with this name in the catalogue.
#[must_use]
pub fn type_named(name: &str) -> Option<Type> {
    TYPES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
}

/// Catalogue tables with their columns. `i` marks an integer, `b` a boolean, `t` a text.
const TABLES: &[(&str, &str)] = &[
    ("pg_namespace", "oid:i nspname:t nspowner:i"),
    (
        "pg_class",
        "oid:i relname:t relnamespace:i relkind:t relowner:i relpersistence:t relhasindex:b reltuples:i relam:i \
         relispartition:b reloftype:i relhasrules:b relhastriggers:b relchecks:i relrowsecurity:b \
         relforcerowsecurity:b reltablespace:i reloptions:t relreplident:t relpartbound:t reltoastrelid:i",
    ),
    (
        "pg_attribute",
        "attrelid:i attname:t atttypid:i attnum:i attnotnull:b attisdropped:b atttypmod:i atthasdef:b attidentity:t \
         attgenerated:t attcollation:i attlen:i",
    ),
    (
        "pg_type",
        "oid:i typname:t typnamespace:i typtype:t typelem:i typarray:i typcategory:t typrelid:i typbasetype:i \
         typnotnull:b typdelim:t typcollation:i typlen:i typinput:t typreceive:t",
    ),
    (
        "pg_index",
        "indexrelid:i indrelid:i indisunique:b indisprimary:b indkey:t indisvalid:b indnatts:i indpred:t indclass:t indoption:t indexprs:t indnkeyatts:i indisexclusion:b indimmediate:b indisclustered:b indisreplident:b",
    ),
    (
        "pg_constraint",
        "oid:i conname:t conrelid:i contype:t confrelid:i conkey:t confkey:t conindid:i connamespace:i condeferrable:b condeferred:b convalidated:b confupdtype:t confdeltype:t conparentid:i",
    ),
    ("pg_attrdef", "oid:i adrelid:i adnum:i adbin:t"),
    ("pg_description", "objoid:i classoid:i objsubid:i description:t"),
    (
        "pg_database",
        "oid:i datname:t datdba:i encoding:i datcollate:t datctype:t datallowconn:b datistemplate:b datacl:t \
         daticulocale:t datlocprovider:t",
    ),
    ("pg_roles", "oid:i rolname:t rolsuper:b rolcanlogin:b"),
    ("pg_user", "usename:t usesysid:i usesuper:b"),
    ("pg_settings", "name:t setting:t unit:t"),
    ("pg_proc", "oid:i proname:t pronamespace:i"),
    ("pg_am", "oid:i amname:t"),
    ("pg_enum", "oid:i enumtypid:i enumlabel:t enumsortorder:i"),
    ("pg_range", "rngtypid:i rngsubtype:i rngmultitypid:i"),
    ("pg_collation", "oid:i collname:t"),
    ("pg_inherits", "inhrelid:i inhparent:i inhseqno:i"),
    ("pg_sequence", "seqrelid:i seqtypid:i seqstart:i"),
    ("pg_extension", "oid:i extname:t extversion:t"),
    ("pg_tables", "schemaname:t tablename:t tableowner:t"),
    ("pg_views", "schemaname:t viewname:t definition:t"),
    ("pg_indexes", "schemaname:t tablename:t indexname:t indexdef:t"),
    ("pg_stat_activity", "pid:i datname:t usename:t state:t query:t"),
    ("pg_locks", "pid:i locktype:t mode:t granted:b"),
    (
        "information_schema_tables",
        "table_catalog:t table_schema:t table_name:t table_type:t engine:t table_comment:t",
    ),
    (
        "information_schema_columns",
        "table_catalog:t table_schema:t table_name:t column_name:t ordinal_position:i column_default:t is_nullable:t \
         data_type:t column_type:t column_key:t extra:t character_maximum_length:i numeric_scale:i",
    ),
    ("information_schema_schemata", "catalog_name:t schema_name:t"),
    (
        "information_schema_table_constraints",
        "constraint_schema:t constraint_name:t table_schema:t table_name:t constraint_type:t",
    ),
    (
        "information_schema_key_column_usage",
        "constraint_schema:t constraint_name:t table_schema:t table_name:t column_name:t ordinal_position:i \
         referenced_table_name:t referenced_column_name:t",
    ),
    ("information_schema_views", "table_schema:t table_name:t view_definition:t"),
    (
        "information_schema_statistics",
        "table_schema:t table_name:t index_name:t column_name:t seq_in_index:i non_unique:i",
    ),
];

fn parts(columns: &str) -> impl Iterator<Item = (&str, Type)> {
    columns.split_whitespace().map(|c| match c.split_once(':') {
        Some((name, "i")) => (name, Type::Int8),
        Some((name, "b")) => (name, Type::Bool),
        Some((name, _)) => (name, Type::Text),
        None => (c, Type::Text),
    })
}

/// The columns of a catalogue table.
#[must_use]
pub fn columns(table: &str) -> Option<Vec<(String, Type)>> {
    let (_, columns) = TABLES.iter().find(|(name, _)| name.eq_ignore_ascii_case(table))?;
    Some(parts(columns).map(|(name, kind)| (name.to_owned(), kind)).collect())
}

/// Whether the text mentions any of them.
#[must_use]
pub fn mentions(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    lower.contains("pg_") || lower.contains("information_schema")
}

/// Statements that fill the catalogue tables.
#[must_use]
pub fn statements(catalogue: &Catalogue, shared: &Shared) -> Vec<String> {
    let mut all = Vec::new();
    for (name, columns) in TABLES {
        let declared: Vec<String> = parts(columns)
            .map(|(name, kind)| format!("{name} {}", if kind == Type::Text { "TEXT" } else { "INTEGER" }))
            .collect();
        all.push(format!("DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({});", declared.join(", ")));
    }
    let quote = |text: &str| Dialect::Sqlite.literal(text);
    let mut add = |table: &str, pairs: &[(&str, String)]| {
        let (names, values): (Vec<&str>, Vec<&str>) = pairs.iter().map(|(n, v)| (*n, v.as_str())).unzip();
        all.push(format!("INSERT INTO {table} ({}) VALUES ({});", names.join(", "), values.join(", ")));
    };
    let schema =
        if shared.dialect == Dialect::PostgreSql { "public".to_owned() } else { shared.database.clone() };
    for (number, name) in [(11, "pg_catalog"), (2200, "public"), (13_000, "information_schema")] {
        add(
            "pg_namespace",
            &[("oid", number.to_string()), ("nspname", quote(name)), ("nspowner", "10".into())],
        );
        add(
            "information_schema_schemata",
            &[("catalog_name", quote(&shared.database)), ("schema_name", quote(name))],
        );
    }
    for (kind, name) in TYPES {
        let category = if kind.is_number() { "'N'" } else { "'S'" };
        add(
            "pg_type",
            &[
                ("oid", kind.oid().to_string()),
                ("typname", quote(name)),
                ("typnamespace", "11".into()),
                ("typtype", "'b'".into()),
                ("typelem", "0".into()),
                ("typarray", "0".into()),
                ("typcategory", category.into()),
                ("typrelid", "0".into()),
                ("typbasetype", "0".into()),
                ("typdelim", "','".into()),
                ("typnotnull", "0".into()),
            ],
        );
    }
    add(
        "pg_database",
        &[
            ("oid", "5".into()),
            ("datname", quote(&shared.database)),
            ("datallowconn", "1".into()),
            ("encoding", "6".into()),
            ("datcollate", "'C'".into()),
            ("datctype", "'C.UTF-8'".into()),
            ("datlocprovider", "'c'".into()),
        ],
    );
    add("pg_roles", &[("oid", "10".into()), ("rolname", quote(&shared.user)), ("rolsuper", "1".into())]);
    add("pg_am", &[("oid", "2".into()), ("amname", "'heap'".into())]);
    for (name, value) in settings::all(shared) {
        add("pg_settings", &[("name", quote(&name)), ("setting", quote(&value))]);
    }
    for table in catalogue.tables() {
        describe(&table, &schema, &shared.database, &mut add);
    }
    for (name, _) in catalogue.views() {
        add("pg_views", &[("schemaname", quote(&schema)), ("viewname", quote(&name))]);
        add("information_schema_views", &[("table_schema", quote(&schema)), ("table_name", quote(&name))]);
    }
    all
}

/// Adds a row to a catalogue table.
type Add<'a> = dyn FnMut(&str, &[(&str, String)]) + 'a;

fn describe(table: &Table, schema: &str, database: &str, add: &mut Add<'_>) {
    let quote = |text: &str| Dialect::Sqlite.literal(text);
    let number = oid(table).to_string();
    let (name, schema) = (quote(&table.name), quote(schema));
    let relation = |oid: String, name: String, kind: &str| {
        vec![
            ("oid", oid),
            ("relname", name),
            ("relnamespace", "2200".into()),
            ("relkind", quote(kind)),
            ("relowner", "10".into()),
            ("relpersistence", "'p'".into()),
            ("relhasindex", "1".into()),
            ("relispartition", "0".into()),
            ("relam", "2".into()),
            ("reloftype", "0".into()),
            ("relchecks", table.checks.len().to_string()),
            ("relhasrules", "0".into()),
            ("relhastriggers", "0".into()),
            ("relrowsecurity", "0".into()),
            ("relforcerowsecurity", "0".into()),
            ("reltablespace", "0".into()),
            ("relreplident", "'d'".into()),
        ]
    };
    add("pg_class", &relation(number.clone(), name.clone(), "r"));
    add("pg_tables", &[("schemaname", schema.clone()), ("tablename", name.clone())]);
    add(
        "information_schema_tables",
        &[
            ("table_catalog", quote(database)),
            ("table_schema", schema.clone()),
            ("table_name", name.clone()),
            ("table_type", "'BASE TABLE'".into()),
            ("engine", "'InnoDB'".into()),
        ],
    );
    for (at, column) in table.columns.iter().enumerate() {
        let (place, is_key) = ((at + 1).to_string(), table.key.contains(&at));
        let length = match column.kind {
            Type::Varchar(Some(n)) | Type::Char(n) => Some(n),
            _ => None,
        };
        let default = column.default.clone().or_else(|| {
            column.auto.then(|| format!("nextval('{}_{}_seq'::regclass)", table.name, column.name))
        });
        add(
            "pg_attribute",
            &[
                ("attrelid", number.clone()),
                ("attname", quote(&column.name)),
                ("atttypid", column.kind.oid().to_string()),
                ("attnum", place.clone()),
                ("attnotnull", u8::from(column.not_null).to_string()),
                ("attisdropped", "0".into()),
                ("atttypmod", length.map_or(-1, |n| i64::from(n) + 4).to_string()),
                ("atthasdef", u8::from(default.is_some()).to_string()),
                ("attidentity", "''".into()),
                ("attgenerated", "''".into()),
                ("attcollation", "0".into()),
            ],
        );
        if let Some(default) = &default {
            add(
                "pg_attrdef",
                &[("adrelid", number.clone()), ("adnum", place.clone()), ("adbin", quote(default))],
            );
        }
        add(
            "information_schema_columns",
            &[
                ("table_catalog", quote(database)),
                ("table_schema", schema.clone()),
                ("table_name", name.clone()),
                ("column_name", quote(&column.name)),
                ("ordinal_position", place),
                ("column_default", default.as_deref().map_or("NULL".into(), quote)),
                ("is_nullable", if column.not_null { "'NO'" } else { "'YES'" }.into()),
                ("data_type", quote(column.kind.name())),
                ("column_type", quote(&column.kind.mysql_name())),
                ("column_key", if is_key { "'PRI'" } else { "''" }.into()),
                ("extra", if column.auto { "'auto_increment'" } else { "''" }.into()),
                ("character_maximum_length", length.map_or("NULL".into(), |n| n.to_string())),
            ],
        );
    }
    let primary = (!table.key.is_empty()).then_some((&table.key_name, &table.key, true));
    let unique = table.unique.iter().map(|u| (&u.name, &u.columns, false));
    for (at, (constraint, columns, primary)) in primary.into_iter().chain(unique).enumerate() {
        let index = (oid(table) + 1 + at as i64).to_string();
        add("pg_class", &relation(index.clone(), quote(constraint), "i"));
        let places: Vec<String> = columns.iter().map(|c| (c + 1).to_string()).collect();
        add(
            "pg_index",
            &[
                ("indexrelid", index.clone()),
                ("indrelid", number.clone()),
                ("indisunique", "1".into()),
                ("indisprimary", u8::from(primary).to_string()),
                ("indkey", quote(&places.join(" "))),
                ("indisvalid", "1".into()),
            ],
        );
        add(
            "pg_constraint",
            &[
                ("oid", index),
                ("conname", quote(constraint)),
                ("conrelid", number.clone()),
                ("contype", if primary { "'p'" } else { "'u'" }.into()),
            ],
        );
        let kind = if primary { "'PRIMARY KEY'" } else { "'UNIQUE'" };
        add(
            "information_schema_table_constraints",
            &[
                ("constraint_name", quote(constraint)),
                ("table_schema", schema.clone()),
                ("table_name", name.clone()),
                ("constraint_type", kind.into()),
            ],
        );
        for (at, &column) in columns.iter().enumerate() {
            add(
                "information_schema_key_column_usage",
                &[
                    ("constraint_name", quote(constraint)),
                    ("table_schema", schema.clone()),
                    ("table_name", name.clone()),
                    ("column_name", quote(&table.columns[column].name)),
                    ("ordinal_position", (at + 1).to_string()),
                ],
            );
        }
    }
}
