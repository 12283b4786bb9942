//! Variables that clients read and set. Most only have to be there; those that mean something are kept by
//! the session.

use super::engine::Shared;
use super::error::{Code, SqlError};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::{Latest, Value};
use std::time::Duration;

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
    ("idle_in_transaction_session_timeout", "0"),
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
    ("max_allowed_packet", "67108864"),
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

/// Variables that are limits, with the seconds of a plain number: PostgreSQL's, and those of MySQL and
/// MariaDB.
const TIMES: [(&str, f64); 6] = [
    ("statement_timeout", 1e-3),
    ("idle_session_timeout", 1e-3),
    ("idle_in_transaction_session_timeout", 1e-3),
    ("max_execution_time", 1e-3),
    ("max_statement_time", 1.0),
    ("wait_timeout", 1.0),
];

/// The time that a limit says; none: no limit. Fails if it is not a time.
pub fn time(name: &str, value: &str) -> Option<Result<Option<Duration>, SqlError>> {
    let (_, unit) = TIMES.iter().find(|(known, _)| *known == name)?;
    let value = value.trim();
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match value[digits.len()..].to_ascii_lowercase().as_str() {
        "" => Some(*unit),
        "us" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        "min" => Some(60.0),
        "h" => Some(3600.0),
        "d" => Some(86400.0),
        _ => None,
    };
    let seconds = factor.and_then(|factor| Some(digits.trim().parse::<f64>().ok()? * factor));
    Some(match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(time) => Ok((!time.is_zero()).then_some(time)),
        None => {
            let text = format!("invalid value for parameter \"{name}\": \"{value}\"");
            Err(SqlError::new(Code::InvalidParameter, text))
        }
    })
}

/// What the session has set a limit to, if it has.
fn set_time(shared: &Shared, name: &str) -> Option<Option<Duration>> {
    time(name, shared.variables.get(name)?)?.ok()
}

/// The time of a statement, with the error of one that takes longer. MySQL's own limit is about queries.
pub fn statement_time(shared: &Shared, query: bool) -> Option<(Duration, Code)> {
    let default = || shared.limits.statement.map(|time| (time, Code::TimeOver));
    let limit = |name, code| Some(set_time(shared, name)?.map(|time| (time, code)));
    if shared.dialect == Dialect::PostgreSql {
        return limit("statement_timeout", Code::TimeOver).unwrap_or_else(default);
    }
    let own = limit("max_execution_time", Code::TimeOver).filter(|_| query);
    own.or_else(|| limit("max_statement_time", Code::StatementTime)).unwrap_or_else(default)
}

/// How long a client may ask for nothing, in a transaction or not.
pub fn patience(shared: &Shared, open: bool) -> Duration {
    let names: &[&str] = match (shared.dialect, open) {
        (Dialect::PostgreSql, true) => &["idle_in_transaction_session_timeout"],
        (Dialect::PostgreSql, false) => &["idle_session_timeout"],
        _ => &["wait_timeout"],
    };
    let most = shared.limits.idle;
    names.iter().filter_map(|name| set_time(shared, name)?).fold(most, Duration::min)
}

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
        _ => return limit_started_with(shared, name),
    };
    Some(value.to_owned())
}

/// The same of limits, as the dialect writes them.
fn limit_started_with(shared: &Shared, name: &str) -> Option<String> {
    let statement = shared.limits.statement.unwrap_or_default();
    match (shared.dialect == Dialect::PostgreSql, name) {
        (true, "statement_timeout") => Some(shown_time(statement)),
        (true, "idle_session_timeout") => Some(shown_time(shared.limits.idle)),
        (false, "max_execution_time") => Some("0".to_owned()),
        (false, "max_statement_time") => Some(format!("{:.6}", statement.as_secs_f64())),
        (false, "wait_timeout") => Some(shared.limits.idle.as_secs().to_string()),
        _ => None,
    }
}

/// A time in PostgreSQL's largest unit of which it is a whole number.
fn shown_time(time: Duration) -> String {
    let milliseconds = time.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")];
    let unit = units.iter().find(|(size, _)| milliseconds.is_multiple_of(*size));
    match unit.filter(|_| milliseconds > 0) {
        Some((size, name)) => format!("{}{name}", milliseconds / size),
        None => "0".to_owned(),
    }
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
    all.extend(
        OWN.into_iter()
            .chain(TIMES.iter().map(|(n, _)| *n))
            .filter_map(|n| Some((n.to_owned(), started_with(shared, n)?))),
    );
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
