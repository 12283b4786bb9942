//! Variables that clients read and set. Most only have to be there; those that mean something are kept by
//! the session.

use super::engine::Shared;
use anomalist_sqltext::Dialect;
use anomalist_weakdb::{Latest, Value};

/// What `SELECT version()` says. Clients branch on the number.
#[must_use]
pub fn version(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::PostgreSql => "PostgreSQL 15.6 (anomalist weakdb)",
        _ => "10.11.6-MariaDB-weakdb",
    }
}

const POSTGRES: &[(&str, &str)] = &[
    ("server_version", "15.6"),
    ("server_version_num", "150006"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("standard_conforming_strings", "on"),
    ("datestyle", "ISO, MDY"),
    ("intervalstyle", "postgres"),
    ("timezone", "UTC"),
    ("integer_datetimes", "on"),
    ("transaction_isolation", "read committed"),
    ("default_transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
    ("default_transaction_read_only", "off"),
    ("default_transaction_deferrable", "off"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("search_path", "\"$user\", public"),
    ("application_name", ""),
    ("is_superuser", "on"),
    ("session_authorization", "postgres"),
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "1"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("in_hot_standby", "off"),
    ("wal_level", "replica"),
    ("max_connections", "1000"),
];

const MYSQL: &[(&str, &str)] = &[
    ("version", "10.11.6-MariaDB-weakdb"),
    ("version_comment", "anomalist weakdb"),
    ("version_compile_os", "Linux"),
    ("version_compile_machine", "x86_64"),
    ("max_allowed_packet", "1073741824"),
    ("system_time_zone", "UTC"),
    ("time_zone", "SYSTEM"),
    ("auto_increment_increment", "1"),
    ("auto_increment_offset", "1"),
    ("sql_mode", "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION"),
    ("sql_auto_is_null", "0"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("character_set_system", "utf8mb3"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("collation_database", "utf8mb4_general_ci"),
    ("collation_server", "utf8mb4_general_ci"),
    ("lower_case_table_names", "0"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("transaction_isolation", "REPEATABLE-READ"),
    ("tx_read_only", "0"),
    ("transaction_read_only", "0"),
    ("autocommit", "1"),
    ("wait_timeout", "28800"),
    ("interactive_timeout", "28800"),
    ("net_write_timeout", "60"),
    ("net_read_timeout", "30"),
    ("net_buffer_length", "16384"),
    ("performance_schema", "0"),
    ("license", "MIT OR Apache-2.0"),
    ("init_connect", ""),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("default_storage_engine", "InnoDB"),
    ("storage_engine", "InnoDB"),
    ("innodb_version", "10.11.6"),
    ("foreign_key_checks", "1"),
    ("unique_checks", "1"),
    ("max_connections", "1000"),
    ("have_ssl", "DISABLED"),
    ("have_openssl", "NO"),
    ("hostname", "weakdb"),
    ("port", "3306"),
    ("read_only", "0"),
    ("socket", ""),
    ("last_insert_id", "0"),
    ("warning_count", "0"),
    ("session_track_schema", "1"),
    ("session_track_system_variables", ""),
    ("session_track_transaction_info", "OFF"),
    ("sql_select_limit", "18446744073709551615"),
    ("protocol_version", "10"),
    ("profiling", "0"),
];

fn defaults(dialect: Dialect) -> &'static [(&'static str, &'static str)] {
    match dialect {
        Dialect::PostgreSql => POSTGRES,
        _ => MYSQL,
    }
}

/// Variables of weakdb itself, which `docs/weakdb.md` explains.
const OWN: [&str; 2] = ["anomalist.latest", "anomalist.constraints"];

/// What such a variable is unless it is set: what the server was started with.
fn started_with(shared: &Shared, name: &str) -> Option<String> {
    let value = match name {
        "anomalist.latest" => match shared.store.store().options().latest {
            Latest::Off => "off",
            Latest::On => "on",
            Latest::PerSession => "per-session",
        },
        "anomalist.constraints" if shared.strict => "strict",
        "anomalist.constraints" => "weak",
        _ => return None,
    };
    Some(value.to_owned())
}

/// The value of a variable, if there is one.
#[must_use]
pub fn show(shared: &Shared, name: &str) -> Option<String> {
    let name = name.to_lowercase();
    let own = shared.variables.get(&name).cloned();
    own.or_else(|| defaults(shared.dialect).iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        .or_else(|| started_with(shared, &name))
}

/// All variables, by name.
#[must_use]
pub fn all(shared: &Shared) -> Vec<(String, String)> {
    let mut all: std::collections::BTreeMap<String, String> =
        defaults(shared.dialect).iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect();
    let set = shared.variables.iter().filter(|(n, _)| !n.starts_with('@'));
    all.extend(OWN.into_iter().filter_map(|n| Some((n.to_owned(), started_with(shared, n)?))));
    all.extend(set.map(|(n, v)| (n.clone(), v.clone())));
    all.into_iter().collect()
}

/// `@@name` or `@name` in an expression of MySQL.
#[must_use]
pub fn variable(shared: &Shared, written: &str) -> Value {
    let lower = written.to_lowercase();
    let found = match lower.strip_prefix("@@") {
        Some("last_insert_id" | "identity") => return Value::Int(shared.last_id),
        Some(system) => {
            let scoped = ["global.", "session.", "local."].iter().find_map(|s| system.strip_prefix(s));
            show(shared, scoped.unwrap_or(system))
        }
        None => shared.variables.get(&lower).cloned(),
    };
    match found {
        Some(text) => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::Int),
        None => Value::Null,
    }
}
