//! What goes wrong in SQL, with the codes that PostgreSQL and MySQL have for it.
//!
//! Clients decide by code whether to retry, so a code is part of the behaviour: 40001/1213 means "try the
//! transaction again".

use anomalist_weakdb as store;
use std::fmt;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The text is not SQL.
    Syntax,
    /// It is, but this database does not have it.
    Unsupported,
    /// No such table.
    UndefinedTable,
    /// No such column.
    UndefinedColumn,
    /// A column name that fits several tables.
    AmbiguousColumn,
    /// No such function.
    UndefinedFunction,
    /// No such index, sequence, constraint, prepared statement.
    UndefinedObject,
    /// The table exists.
    DuplicateTable,
    /// The column exists.
    DuplicateColumn,
    /// An aggregate where none may stand.
    Grouping,
    /// A unique constraint.
    Unique,
    /// NOT NULL.
    NotNull,
    /// A foreign key: no such parent.
    NoParent,
    /// A foreign key: there are children.
    HasChildren,
    /// CHECK.
    Check,
    /// Not a value of the type.
    InvalidValue,
    /// Not a date or time.
    InvalidMoment,
    /// A date or time that the calendar does not have.
    MomentOverflow,
    /// Not a value of the setting or argument.
    InvalidParameter,
    /// Too large for the type.
    OutOfRange,
    /// Too long for the type.
    TooLong,
    /// Division by zero.
    DivisionByZero,
    /// Fewer or more values than columns, parameters, …
    WrongCount,
    /// A scalar subquery with several rows.
    Cardinality,
    /// The transaction has no place in the order; try again.
    Serialization,
    /// Another transaction holds the (serial) schedule.
    LockTimeout,
    /// The transaction has failed before.
    InFailed,
    /// A write in a read-only transaction.
    ReadOnly,
    /// No such savepoint.
    UndefinedSavepoint,
    /// Only inside a transaction.
    NoTransaction,
    /// No such prepared statement.
    UndefinedStatement,
    /// No such portal, or cursor.
    UndefinedPortal,
    /// The cursor exists.
    DuplicateCursor,
    /// Not as things stand: a cursor that cannot go back.
    NotInState,
    /// No statement at all, where one is needed.
    EmptyQuery,
    /// The client broke the protocol.
    Protocol,
    /// Too many operators or too much nesting.
    TooComplex,
    /// The statement was ended by another session or by its client.
    Cancelled,
    /// The statement's time is over.
    TimeOver,
    /// The same, by MariaDB's `max_statement_time`.
    StatementTime,
    /// A result, or a session, has grown too large.
    TooMuch,
    /// All sessions together have.
    OutOfMemory,
    /// Too many connections.
    TooManyConnections,
    /// A message that is too long.
    PacketTooLarge,
    /// No such connection.
    NoConnection,
    /// The connection was ended by another one.
    Killed,
    /// Nothing was asked for too long.
    IdleSession,
    /// The same, in a transaction.
    IdleTransaction,
    /// A fault in weakdb itself.
    Internal,
}

impl Code {
    /// SQLSTATE, MySQL's number, MySQL's SQLSTATE.
    fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::Syntax => ("42601", 1064, "42000"),
            Self::Unsupported => ("0A000", 1235, "42000"),
            Self::UndefinedTable => ("42P01", 1146, "42S02"),
            Self::UndefinedColumn => ("42703", 1054, "42S22"),
            Self::AmbiguousColumn => ("42702", 1052, "23000"),
            Self::UndefinedFunction => ("42883", 1305, "42000"),
            Self::UndefinedObject => ("42704", 1091, "42000"),
            Self::DuplicateTable => ("42P07", 1050, "42S01"),
            Self::DuplicateColumn => ("42701", 1060, "42S21"),
            Self::Grouping => ("42803", 1111, "HY000"),
            Self::Unique => ("23505", 1062, "23000"),
            Self::NotNull => ("23502", 1048, "23000"),
            Self::NoParent => ("23503", 1452, "23000"),
            Self::HasChildren => ("23503", 1451, "23000"),
            Self::Check => ("23514", 4025, "23000"),
            Self::InvalidValue => ("22P02", 1366, "22007"),
            Self::InvalidMoment => ("22007", 1292, "22007"),
            Self::MomentOverflow => ("22008", 1292, "22007"),
            Self::InvalidParameter => ("22023", 1298, "HY000"),
            Self::OutOfRange => ("22003", 1264, "22003"),
            Self::TooLong => ("22001", 1406, "22001"),
            Self::DivisionByZero => ("22012", 1365, "22012"),
            Self::WrongCount => ("42601", 1136, "21S01"),
            Self::Cardinality => ("21000", 1242, "21000"),
            Self::Serialization => ("40001", 1213, "40001"),
            Self::LockTimeout => ("55P03", 1205, "HY000"),
            Self::InFailed => ("25P02", 1105, "25000"),
            Self::ReadOnly => ("25006", 1792, "25006"),
            Self::UndefinedSavepoint => ("3B001", 1305, "42000"),
            Self::NoTransaction => ("25P01", 1105, "25000"),
            Self::UndefinedStatement => ("26000", 1243, "HY000"),
            Self::UndefinedPortal => ("34000", 1243, "HY000"),
            Self::DuplicateCursor => ("42P03", 1105, "HY000"),
            Self::NotInState => ("55000", 1105, "HY000"),
            Self::EmptyQuery => ("42601", 1065, "42000"),
            Self::Protocol => ("08P01", 1047, "08S01"),
            Self::TooComplex => ("54001", 1436, "HY000"),
            Self::Cancelled => ("57014", 1317, "70100"),
            Self::TimeOver => ("57014", 3024, "HY000"),
            Self::StatementTime => ("57014", 1969, "70100"),
            Self::TooMuch => ("54000", 1104, "42000"),
            Self::OutOfMemory => ("53200", 1041, "HY000"),
            Self::TooManyConnections => ("53300", 1040, "08004"),
            Self::PacketTooLarge => ("08P01", 1153, "08S01"),
            Self::NoConnection => ("42704", 1094, "HY000"),
            Self::Killed => ("57P01", 1927, "70100"),
            Self::IdleSession => ("57P05", 4031, "HY000"),
            Self::IdleTransaction => ("25P03", 4031, "HY000"),
            Self::Internal => ("XX000", 1105, "HY000"),
        }
    }

    /// As PostgreSQL calls it.
    #[must_use]
    pub fn sqlstate(self) -> &'static str {
        self.row().0
    }

    /// As MySQL calls it: the number and its SQLSTATE.
    #[must_use]
    pub fn mysql(self) -> (u16, &'static str) {
        let (_, number, state) = self.row();
        (number, state)
    }
}

/// An error of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// Its kind.
    pub code: Code,
    /// For people.
    pub message: String,
    /// The name of the constraint that was violated.
    pub constraint: Option<String>,
}

impl SqlError {
    /// An error of this kind.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), constraint: None }
    }

    /// Something this database does not have, by its name.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(Code::Unsupported, format!("weakdb does not support {what}"))
    }

    /// With the constraint's name.
    #[must_use]
    pub fn of_constraint(mut self, name: impl Into<String>) -> Self {
        self.constraint = Some(name.into());
        self
    }

    /// Whether the connection ends with it.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(
            self.code,
            Code::Protocol
                | Code::PacketTooLarge
                | Code::TooManyConnections
                | Code::Killed
                | Code::IdleSession
                | Code::IdleTransaction
        )
    }

    /// Whether the whole transaction is gone, in every dialect.
    #[must_use]
    pub fn ends_transaction(&self) -> bool {
        self.code == Code::Serialization
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SqlError {}

impl From<store::Error> for SqlError {
    fn from(error: store::Error) -> Self {
        let code = match error {
            store::Error::Serialization(_) => Code::Serialization,
            store::Error::Busy => Code::LockTimeout,
            store::Error::NoTransaction => Code::NoTransaction,
            _ => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

impl From<anomalist_sqltext::SyntaxError> for SqlError {
    fn from(error: anomalist_sqltext::SyntaxError) -> Self {
        let deep = error.0.contains("operators in one") || error.0.contains("nested too deeply");
        Self::new(if deep { Code::TooComplex } else { Code::Syntax }, error.to_string())
    }
}

impl From<rusqlite::Error> for SqlError {
    /// SQLite tells by text what is missing; its constraint and type errors cannot occur, because tables
    /// are ours.
    fn from(error: rusqlite::Error) -> Self {
        let text = match &error {
            rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
            rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
            other => other.to_string(),
        };
        let after = |prefix: &str| text.strip_prefix(prefix).map(|name| name.trim().to_owned());
        if let Some(name) = after("no such column:") {
            return Self::new(Code::UndefinedColumn, format!("column {name} does not exist"));
        }
        if let Some(name) = after("no such table:") {
            return Self::new(Code::UndefinedTable, format!("relation \"{name}\" does not exist"));
        }
        if text.contains("no such function: weak_array") {
            return Self::unsupported("arrays");
        }
        if let Some(name) = after("no such function:") {
            return Self::new(Code::UndefinedFunction, format!("function {name} does not exist"));
        }
        if let Some(name) = after("circular reference:") {
            return Self::unsupported(format!("a query {name} of WITH over another {name} of WITH"));
        }
        if let Some(name) = after("ambiguous column name:") {
            return Self::new(Code::AmbiguousColumn, format!("column reference {name} is ambiguous"));
        }
        if text.contains("string or blob too big") {
            return Self::new(Code::TooMuch, "a value is too long");
        }
        if text == "out of memory" {
            return Self::new(Code::OutOfMemory, text);
        }
        let code = if text.contains("wrong number of arguments") {
            Code::UndefinedFunction
        } else if text.contains("misuse of aggregate") || text.contains("GROUP BY") {
            Code::Grouping
        } else if text.contains("number of result columns") || text.contains("values for") {
            Code::WrongCount
        } else if text.contains("syntax error") || text.contains("misuse") {
            Code::Syntax
        } else if text.contains("too large") || text.contains("too deep") || text.contains("too many") {
            Code::TooComplex
        } else if text.contains("integer overflow") {
            Code::OutOfRange
        } else {
            Code::Internal
        };
        Self::new(code, text)
    }
}
