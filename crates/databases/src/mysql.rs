//! MySQL, MariaDB and what speaks their protocol.
//!
//! The server says after a failure only sometimes that it rolled the transaction back (a deadlock does, a
//! lock wait does not), so a transaction counts as open until it is rolled back or committed: rolling back
//! twice costs nothing. Statements of the schema commit what is open, silently; they have no place in a
//! transaction.
//!
//! `affected` counts the rows that matched, as in other databases, not only those that changed.

use crate::tls::{self, SslMode};
use crate::{Cancel, Connection, Error, Family, Fate, Isolation, Kind, Product, Reply, Target, Value};
use mysql::consts::{CapabilityFlags, ColumnFlags, ColumnType};
use mysql::prelude::{Protocol, Queryable};
use mysql::{ClientIdentity, Conn, DriverError, OptsBuilder, QueryResult, SslOpts};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

struct Mysql {
    inner: Conn,
    target: Target,
    product: Product,
    setup: String,
    open: bool,
    lost: bool,
}

pub(crate) fn open(target: &Target) -> Result<impl Connection + use<>, Error> {
    let mut inner = dial(target)?;
    let unknown = || Error::new(Kind::Unsupported, "the server does not report its version");
    let version: String = inner.query_first("SELECT VERSION()").map_err(failure)?.ok_or_else(unknown)?;
    let product = match version.split_once("-MariaDB") {
        Some((number, _)) => {
            let found: Option<mysql::Row> =
                inner.query_first("SHOW VARIABLES LIKE 'innodb_snapshot_isolation'").map_err(failure)?;
            let number = number.strip_prefix("5.5.5-").unwrap_or(number);
            let product = Product::new(Family::Mysql, "MariaDB", number);
            Product { snapshot_switch: found.is_some(), ..product }
        }
        None => match version.split_once("-TiDB-") {
            Some((_, number)) => Product::new(Family::Mysql, "TiDB", number),
            None => Product::new(Family::Mysql, "MySQL", version),
        },
    };
    let (target, setup) = (target.clone(), String::new());
    Ok(Mysql { inner, target, product, setup, open: false, lost: false })
}

fn dial(target: &Target) -> Result<Conn, Error> {
    let mode = tls::mode(target, SslMode::Disable);
    let plain = || Conn::new(options(target, None));
    let encrypted = || Conn::new(options(target, Some(mode)));
    let connected = match mode {
        SslMode::Disable => plain(),
        SslMode::Allow => plain().or_else(|_| encrypted()),
        SslMode::Prefer => encrypted().or_else(|e| match e {
            mysql::Error::DriverError(DriverError::TlsNotSupported) => plain(),
            other => Err(other),
        }),
        _ => encrypted(),
    };
    connected.map_err(|e| {
        let unreachable = |why: &str| Error::new(Kind::Lost, format!("cannot connect to {target}: {why}"));
        match e {
            mysql::Error::DriverError(DriverError::CouldNotConnect(Some((_, why, _)))) => unreachable(&why),
            e => match failure(e) {
                error if error.kind() == Kind::Timeout => unreachable(error.message()),
                error => error,
            },
        }
    })
}

fn options(target: &Target, encrypted: Option<SslMode>) -> OptsBuilder {
    let parts = &target.parts;
    let socket = parts.host.starts_with('/').then(|| parts.host.clone());
    let host = if socket.is_some() { "localhost".to_owned() } else { parts.host.clone() };
    let tls = encrypted.map(|mode| {
        let roots = match target.parameter("sslrootcert") {
            None | Some("system") => PathBuf::from(tls::SYSTEM_ROOTS),
            Some(path) => PathBuf::from(path),
        };
        let own = |name: &str| target.parameter(name).map(PathBuf::from);
        let identity = own("sslcert").zip(own("sslkey"));
        let identity = identity.map(|(certificate, key)| ClientIdentity::new(certificate, key));
        let options = SslOpts::default().with_client_identity(identity);
        match mode {
            SslMode::VerifyFull => options.with_root_cert_path(Some(roots)),
            SslMode::VerifyCa => {
                options.with_root_cert_path(Some(roots)).with_danger_skip_domain_validation(true)
            }
            _ => options.with_danger_accept_invalid_certs(true).with_danger_skip_domain_validation(true),
        }
    });
    OptsBuilder::new()
        .ip_or_hostname(Some(host))
        .tcp_port(parts.port)
        .socket(socket)
        .prefer_socket(false)
        .user(Some(parts.user.as_deref().unwrap_or("root")))
        .pass(parts.password.as_ref().map(|p| p.0.as_str()))
        .db_name(parts.database.as_deref())
        .tcp_connect_timeout(Some(target.connect_timeout))
        .read_timeout(Some(target.statement_timeout))
        .write_timeout(Some(target.statement_timeout))
        .stmt_cache_size(256)
        .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS)
        .ssl_opts(tls)
}

impl Mysql {
    /// The error of a statement, with its consequences for the session.
    fn failed(&mut self, was_open: bool, error: Error) -> Error {
        self.note(&error);
        error.at_statement(was_open, self.open, self.lost)
    }

    fn note(&mut self, error: &Error) {
        // An answer that did not come in time may come later, where it is not expected.
        let unanswered = error.kind() == Kind::Timeout && error.code().is_none();
        self.lost |= unanswered || error.kind() == Kind::Lost;
    }

    fn text(&mut self, sql: &str) -> Result<Vec<Reply>, (Error, usize)> {
        if self.lost {
            return Err((gone(), 0));
        }
        let mut replies = Vec::new();
        let done = self.inner.query_iter(sql).and_then(|r| collect(r, &mut replies));
        done.map_err(|e| (failure(e), replies.len()))?;
        Ok(replies)
    }
}

fn gone() -> Error {
    Error::new(Kind::Lost, "the connection was lost before")
}

fn collect<T: Protocol>(
    mut result: QueryResult<'_, '_, '_, T>,
    replies: &mut Vec<Reply>,
) -> Result<(), mysql::Error> {
    while let Some(mut set) = result.iter() {
        let affected = set.affected_rows();
        let columns: Vec<mysql::Column> = set.columns().as_ref().to_vec();
        let mut rows = Vec::new();
        for row in set.by_ref() {
            let values = row?.unwrap();
            rows.push(values.into_iter().zip(&columns).map(|(v, c)| value_of(v, c)).collect());
        }
        let affected = if columns.is_empty() { affected } else { 0 };
        let names = columns.iter().map(|c| c.name_str().into_owned()).collect();
        replies.push(Reply { columns: names, rows, affected });
    }
    Ok(())
}

impl Connection for Mysql {
    fn product(&self) -> &Product {
        &self.product
    }

    fn run(&mut self, sql: &str) -> Result<Vec<Reply>, Error> {
        let was_open = self.open;
        self.text(sql).map_err(|(error, at)| self.failed(was_open, error).with_place(at))
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Reply, Error> {
        let was_open = self.open;
        if self.lost {
            return Err(self.failed(was_open, gone()));
        }
        let values: Vec<mysql::Value> = parameters.iter().map(parameter).collect();
        let mut replies = Vec::with_capacity(1);
        let done = match self.inner.prep(sql) {
            Ok(statement) => match values.is_empty() {
                true => self.inner.exec_iter(statement, ()).and_then(|r| collect(r, &mut replies)),
                false => self.inner.exec_iter(statement, values).and_then(|r| collect(r, &mut replies)),
            },
            Err(error) => Err(error),
        };
        done.map_err(|e| self.failed(was_open, failure(e)))?;
        Ok(replies.into_iter().next().unwrap_or_default())
    }

    fn begin(&mut self, isolation: &Isolation) -> Result<(), Error> {
        let nothing_done = |e: Error| e.with_fate(Fate::Aborted);
        if self.setup != isolation.setup() {
            self.run(isolation.setup()).map_err(nothing_done)?;
            isolation.setup().clone_into(&mut self.setup);
        }
        self.run(isolation.begin()).map_err(nothing_done)?;
        self.open = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        if self.lost || !self.open {
            let kind = if self.lost { Kind::Lost } else { Kind::Other };
            return Err(Error::new(kind, "no transaction is open").with_fate(Fate::Aborted));
        }
        let done = self.text("COMMIT");
        self.open = false;
        let Err((error, _)) = done else { return Ok(()) };
        self.note(&error);
        if !self.lost {
            let _ = self.text("ROLLBACK");
        }
        Err(error.at_commit())
    }

    fn rollback(&mut self) -> Result<(), Error> {
        if self.lost || !self.open {
            return Ok(());
        }
        self.run("ROLLBACK")?;
        self.open = false;
        Ok(())
    }

    fn in_transaction(&self) -> bool {
        self.open && !self.lost
    }

    fn is_lost(&self) -> bool {
        self.lost
    }

    fn backend(&self) -> Option<u64> {
        Some(u64::from(self.inner.connection_id()))
    }

    fn canceller(&self) -> Arc<dyn Cancel> {
        Arc::new(Kill { target: self.target.clone(), thread: self.inner.connection_id() })
    }
}

/// Cancels from a connection of its own.
struct Kill {
    target: Target,
    thread: u32,
}

impl Cancel for Kill {
    fn cancel(&self) -> Result<(), Error> {
        dial(&self.target)?.query_drop(format!("KILL QUERY {}", self.thread)).map_err(failure)
    }
}

fn parameter(value: &Value) -> mysql::Value {
    match value {
        Value::Null => mysql::Value::NULL,
        Value::Int(int) => mysql::Value::Int(*int),
        Value::Float(float) => mysql::Value::Double(*float),
        Value::Text(text) => mysql::Value::Bytes(text.clone().into_bytes()),
        Value::Bytes(bytes) => mysql::Value::Bytes(bytes.clone()),
    }
}

fn value_of(value: mysql::Value, column: &mysql::Column) -> Value {
    /// The pseudo character set of bytes.
    const BINARY: u16 = 63;
    let bytes = match value {
        mysql::Value::NULL => return Value::Null,
        mysql::Value::Int(int) => return Value::Int(int),
        mysql::Value::UInt(int) => {
            return i64::try_from(int).map_or_else(|_| Value::Text(int.to_string()), Value::Int);
        }
        mysql::Value::Float(float) => return Value::Float(f64::from(float)),
        mysql::Value::Double(float) => return Value::Float(float),
        time @ (mysql::Value::Date(..) | mysql::Value::Time(..)) => {
            return Value::Text(time.as_sql(true).trim_matches('\'').to_owned());
        }
        mysql::Value::Bytes(bytes) => bytes,
    };
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Value::Bytes(error.into_bytes()),
    };
    match column.column_type() {
        ColumnType::MYSQL_TYPE_TINY
        | ColumnType::MYSQL_TYPE_SHORT
        | ColumnType::MYSQL_TYPE_INT24
        | ColumnType::MYSQL_TYPE_LONG
        | ColumnType::MYSQL_TYPE_LONGLONG
        | ColumnType::MYSQL_TYPE_YEAR => text.parse().map_or(Value::Text(text), Value::Int),
        ColumnType::MYSQL_TYPE_FLOAT | ColumnType::MYSQL_TYPE_DOUBLE => {
            text.parse().map_or(Value::Text(text), Value::Float)
        }
        ColumnType::MYSQL_TYPE_DECIMAL | ColumnType::MYSQL_TYPE_NEWDECIMAL => Value::decimal(&text),
        ColumnType::MYSQL_TYPE_BIT => Value::Bytes(text.into_bytes()),
        ColumnType::MYSQL_TYPE_TINY_BLOB
        | ColumnType::MYSQL_TYPE_MEDIUM_BLOB
        | ColumnType::MYSQL_TYPE_LONG_BLOB
        | ColumnType::MYSQL_TYPE_BLOB
        | ColumnType::MYSQL_TYPE_VAR_STRING
        | ColumnType::MYSQL_TYPE_STRING
            if column.character_set() == BINARY && column.flags().contains(ColumnFlags::BINARY_FLAG) =>
        {
            Value::Bytes(text.into_bytes())
        }
        _ => Value::Text(text),
    }
}

/// A failure of the stream.
fn unanswered(error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Error::new(Kind::Timeout, "the server did not answer in time")
        }
        _ => Error::new(Kind::Lost, format!("connection lost: {error}")),
    }
}

fn failure(error: mysql::Error) -> Error {
    let server = match error {
        mysql::Error::MySqlError(server) => server,
        mysql::Error::IoError(e) => return unanswered(&e),
        mysql::Error::CodecError(e) => {
            let cause = std::error::Error::source(&e).and_then(|s| s.downcast_ref::<std::io::Error>());
            return cause.map_or_else(|| Error::new(Kind::Lost, e.to_string()), unanswered);
        }
        mysql::Error::DriverError(
            e @ (DriverError::MismatchedStmtParams(..)
            | DriverError::Params(_)
            | DriverError::MixedParams
            | DriverError::TlsNotSupported
            | DriverError::UnknownAuthPlugin(_)
            | DriverError::OldMysqlPasswordDisabled
            | DriverError::CleartextPluginDisabled),
        ) => return Error::new(Kind::Unsupported, e.to_string()),
        mysql::Error::TlsError(e) => return Error::new(Kind::Unsupported, format!("TLS: {e}")),
        mysql::Error::UrlError(e) => return Error::new(Kind::Unsupported, e.to_string()),
        // Anything the driver did not expect leaves the connection in an unknown state.
        other => return Error::new(Kind::Lost, other.to_string()),
    };
    let kind = match (server.code, server.state.get(..2)) {
        (1213 | 1614, _) => Kind::Deadlock,
        // MariaDB's snapshot isolation, group replication, TiDB.
        (1020 | 3101 | 8022 | 9007, _) => Kind::Conflict,
        (1205 | 1969 | 3024 | 3572, _) => Kind::Timeout,
        (1317 | 3169, _) => Kind::Cancelled,
        // Shutdown, killed connections, too many of them, a Galera node that is not in the cluster.
        (1040 | 1053 | 1077..=1079 | 1158..=1161 | 1927, _) | (_, Some("08")) => Kind::Lost,
        (1364 | 3819 | 4025, _) | (_, Some("23")) => Kind::Constraint,
        (1193 | 1231 | 1235 | 1289 | 1295, _) | (_, Some("42" | "0A")) => Kind::Unsupported,
        (_, Some("40")) => Kind::Conflict,
        _ => Kind::Other,
    };
    Error::new(kind, server.message).with_code(server.code.to_string())
}
