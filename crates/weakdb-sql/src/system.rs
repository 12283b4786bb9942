//! PostgreSQL's catalogue and the information schema, as ordinary tables of SQLite: what drivers and object
//! mappers ask when they connect, and psql for `\\d`. Only what such clients look at is there.

use super::arrays::Element;
use super::types::Type;

/// Types with their names in `pg_type`.
pub(super) const TYPES: &[(Type, &str)] = &[
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
    (Type::List(Element::Bool), "_bool"),
    (Type::List(Element::Int2), "_int2"),
    (Type::List(Element::Int4), "_int4"),
    (Type::List(Element::Int8), "_int8"),
    (Type::List(Element::Text), "_text"),
];

/// The type with this number.
#[must_use]
pub fn type_numbered(oid: i64) -> Option<Type> {
    TYPES.iter().find(|(kind, _)| i64::from(kind.oid()) == oid).map(|(kind, _)| *kind)
}

/// The type with this name in the catalogue.
#[must_use]
pub fn type_named(name: &str) -> Option<Type> {
    TYPES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
}

/// Catalogue tables with their columns. `i` marks an integer, `b` a boolean, `t` a text, `l` a list of
/// small integers.
const TABLES: &[(&str, &str)] = &[
    ("pg_namespace", "oid:i nspname:t nspowner:i nspacl:t"),
    (
        "pg_class",
        "oid:i relname:t relnamespace:i relkind:t relowner:i relpersistence:t relhasindex:b reltuples:i relam:i \
         relispartition:b reloftype:i relhasrules:b relhastriggers:b relchecks:i relrowsecurity:b \
         relforcerowsecurity:b reltablespace:i reloptions:t relreplident:t relpartbound:t reltoastrelid:i relacl:t \
         relpages:i relnatts:i",
    ),
    (
        "pg_attribute",
        "attrelid:i attname:t atttypid:i attnum:i attnotnull:b attisdropped:b atttypmod:i atthasdef:b attidentity:t \
         attgenerated:t attcollation:i attlen:i attstorage:t attcompression:t attstattarget:i attacl:t atthasmissing:b \
         attndims:i attislocal:b attinhcount:i",
    ),
    (
        "pg_type",
        "oid:i typname:t typnamespace:i typtype:t typelem:i typarray:i typcategory:t typrelid:i typbasetype:i \
         typnotnull:b typdelim:t typcollation:i typlen:i typinput:t typreceive:t typtypmod:i \
         typdefault:t typowner:i typacl:t",
    ),
    (
        "pg_index",
        "indexrelid:i indrelid:i indisunique:b indisprimary:b indkey:t indisvalid:b indnatts:i indpred:t indclass:t indoption:t indexprs:t indnkeyatts:i indisexclusion:b indimmediate:b indisclustered:b indisreplident:b indnullsnotdistinct:b indcollation:t",
    ),
    (
        "pg_constraint",
        "oid:i conname:t conrelid:i contype:t confrelid:i conkey:l confkey:l conindid:i connamespace:i condeferrable:b condeferred:b convalidated:b confupdtype:t confdeltype:t conparentid:i confmatchtype:t conislocal:b connoinherit:b contypid:i conbin:t",
    ),
    ("pg_attrdef", "oid:i adrelid:i adnum:i adbin:t"),
    ("pg_description", "objoid:i classoid:i objsubid:i description:t"),
    (
        "pg_database",
        "oid:i datname:t datdba:i encoding:i datcollate:t datctype:t datallowconn:b datistemplate:b datacl:t \
         daticulocale:t datlocprovider:t dattablespace:i",
    ),
    (
        "pg_roles",
        "oid:i rolname:t rolsuper:b rolcanlogin:b rolinherit:b rolcreaterole:b rolcreatedb:b rolconnlimit:i \
         rolvaliduntil:t rolreplication:b rolbypassrls:b",
    ),
    ("pg_tablespace", "oid:i spcname:t spcowner:i spcacl:t spcoptions:t"),
    ("pg_user", "usename:t usesysid:i usesuper:b"),
    ("pg_settings", "name:t setting:t unit:t source:t boot_val:t context:t vartype:t"),
    ("pg_am", "oid:i amname:t"),
    ("pg_collation", "oid:i collname:t collnamespace:i"),
    (
        "pg_sequence",
        "seqrelid:i seqtypid:i seqstart:i seqmin:i seqmax:i seqincrement:i seqcycle:b seqcache:i",
    ),
    ("pg_depend", "classid:i objid:i objsubid:i refclassid:i refobjid:i refobjsubid:i deptype:t"),
    ("pg_sequences", "schemaname:t sequencename:t start_value:i increment_by:i"),
    ("pg_tables", "schemaname:t tablename:t tableowner:t"),
    ("pg_views", "schemaname:t viewname:t definition:t"),
    ("pg_indexes", "schemaname:t tablename:t indexname:t indexdef:t"),
    ("pg_stat_activity", "pid:i datname:t usename:t state:t query:t"),
    ("pg_locks", "pid:i locktype:t mode:t granted:b"),
    (
        "information_schema_tables",
        "table_catalog:t table_schema:t table_name:t table_type:t engine:t table_comment:t table_collation:t",
    ),
    (
        "information_schema_columns",
        "table_catalog:t table_schema:t table_name:t column_name:t ordinal_position:i column_default:t is_nullable:t \
         data_type:t column_type:t column_key:t extra:t character_maximum_length:i numeric_precision:i numeric_scale:i \
         collation_name:t column_comment:t",
    ),
    ("information_schema_schemata", "catalog_name:t schema_name:t"),
    (
        "information_schema_table_constraints",
        "constraint_schema:t constraint_name:t table_schema:t table_name:t constraint_type:t",
    ),
    (
        "information_schema_key_column_usage",
        "constraint_schema:t constraint_name:t table_schema:t table_name:t column_name:t ordinal_position:i \
         referenced_table_schema:t referenced_table_name:t referenced_column_name:t",
    ),
    (
        "information_schema_check_constraints",
        "constraint_schema:t table_name:t constraint_name:t check_clause:t",
    ),
    ("information_schema_views", "table_schema:t table_name:t view_definition:t"),
    (
        "information_schema_statistics",
        "table_schema:t table_name:t index_name:t column_name:t seq_in_index:i non_unique:i",
    ),
];

/// Those that are always empty: nothing here has or is such a thing.
const EMPTY: &[(&str, &str)] = &[
    ("pg_proc", "oid:i proname:t pronamespace:i prokind:t prorettype:i proargtypes:t prosrc:t prolang:i"),
    ("pg_enum", "oid:i enumtypid:i enumlabel:t enumsortorder:i"),
    ("pg_range", "rngtypid:i rngsubtype:i rngmultitypid:i"),
    ("pg_inherits", "inhrelid:i inhparent:i inhseqno:i inhdetachpending:b"),
    ("pg_extension", "oid:i extname:t extversion:t extnamespace:i"),
    ("pg_auth_members", "oid:i roleid:i member:i grantor:i admin_option:b"),
    ("pg_policy", "oid:i polname:t polrelid:i polcmd:t polpermissive:b polroles:t polqual:t polwithcheck:t"),
    ("pg_statistic_ext", "oid:i stxrelid:i stxname:t stxnamespace:i stxkind:t"),
    ("pg_publication", "oid:i pubname:t puballtables:b"),
    ("pg_publication_rel", "oid:i prpubid:i prrelid:i"),
    ("pg_publication_namespace", "oid:i pnpubid:i pnnspid:i"),
    ("pg_subscription", "oid:i subname:t"),
    ("pg_trigger", "oid:i tgname:t tgrelid:i tgenabled:t tgisinternal:b tgparentid:i"),
    ("pg_event_trigger", "oid:i evtname:t"),
    ("pg_rewrite", "oid:i rulename:t ev_class:i"),
    ("pg_partitioned_table", "partrelid:i partstrat:t"),
    ("pg_foreign_table", "ftrelid:i ftserver:i"),
    ("pg_foreign_server", "oid:i srvname:t"),
    ("pg_db_role_setting", "setdatabase:i setrole:i setconfig:t"),
    ("pg_default_acl", "oid:i defaclrole:i defaclacl:t"),
    ("pg_aggregate", "aggfnoid:i"),
    ("pg_cast", "oid:i castsource:i casttarget:i"),
    ("pg_operator", "oid:i oprname:t"),
    ("pg_opclass", "oid:i opcname:t opcnamespace:i opcmethod:i opcdefault:b"),
    ("pg_language", "oid:i lanname:t"),
];

/// Whether this is a catalogue table in which there is never anything.
#[must_use]
pub fn is_empty(table: &str) -> bool {
    EMPTY.iter().any(|(name, _)| name.eq_ignore_ascii_case(table))
}

/// All catalogue tables with their columns.
pub(super) fn tables() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    TABLES.iter().chain(EMPTY)
}

/// Numbers that catalogue tables have in PostgreSQL.
const NUMBERS: &[(&str, i64)] = &[
    ("pg_class", 1259),
    ("pg_type", 1247),
    ("pg_attribute", 1249),
    ("pg_proc", 1255),
    ("pg_database", 1262),
    ("pg_constraint", 2606),
    ("pg_namespace", 2615),
    ("pg_extension", 3079),
];

/// The number of a catalogue table.
#[must_use]
pub fn table_number(name: &str) -> Option<i64> {
    let known = NUMBERS.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, number)| *number);
    // The others need only differ.
    known.or_else(|| tables().position(|(n, _)| n.eq_ignore_ascii_case(name)).map(|at| 10_000 + at as i64))
}

/// The columns of a table, with their types.
pub(super) fn parts(columns: &str) -> impl Iterator<Item = (&str, Type)> {
    columns.split_whitespace().map(|c| match c.split_once(':') {
        Some((name, "i")) => (name, Type::Int8),
        Some((name, "b")) => (name, Type::Bool),
        Some((name, "l")) => (name, Type::List(Element::Int2)),
        Some((name, _)) => (name, Type::Text),
        None => (c, Type::Text),
    })
}

/// The columns of a catalogue table.
#[must_use]
pub fn columns(table: &str) -> Option<Vec<(String, Type)>> {
    let (_, columns) = tables().find(|(name, _)| name.eq_ignore_ascii_case(table))?;
    Some(parts(columns).map(|(name, kind)| (name.to_owned(), kind)).collect())
}

/// Whether the text mentions any of them.
#[must_use]
pub fn mentions(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    lower.contains("pg_") || lower.contains("information_schema")
}
