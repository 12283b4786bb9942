//! A transaction as its session showed it.

use crate::shape::Shape;
use anomalist_sqltext::Isolation;
use std::sync::Arc;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Committed,
    Aborted,
    /// The answer did not come.
    Unknown,
}

/// The number under which it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// The server was not asked.
    Unasked,
    /// It had none: it wrote nothing.
    None,
    Number(u64),
}

/// A row was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// The number of its table.
    pub table: u32,
    /// The number of the transaction that wrote the version, its last 32 bits.
    pub writer: u32,
    /// The columns of its key.
    pub key: Vec<String>,
    /// How many columns of keys its statement knew.
    pub known_as: Arc<crate::catalogue::Table>,
    /// The transaction may have written before.
    pub after_write: bool,
}

/// A transaction that has ended. Times are in nanoseconds since the recording began.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub session: u64,
    /// Which life of the server its session belongs to.
    pub era: u32,
    pub invoked: u64,
    pub completed: u64,
    pub end: End,
    pub own: Own,
    /// The level in force, as the server said it.
    pub isolation: Option<Isolation>,
    /// The level that the application asked for.
    pub asked: Option<Isolation>,
    pub reads: Vec<Read>,
    pub statements: Vec<Arc<Shape>>,
}

/// The columns of a row in the text that PostgreSQL gives a record: `(1,"a b",)`. An empty column is NULL.
pub(crate) fn columns(record: &str) -> Option<Vec<Option<String>>> {
    let inner = record.strip_prefix('(')?.strip_suffix(')')?;
    let mut columns = Vec::new();
    let mut rest = inner;
    loop {
        let (mut value, mut quoted, mut any) = (String::new(), false, false);
        let mut chars = rest.char_indices().peekable();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' if quoted && chars.peek().is_some_and(|(_, next)| *next == '"') => {
                    value.push('"');
                    chars.next();
                }
                '"' => (quoted, any) = (!quoted, true),
                '\\' => value.extend(chars.next().map(|(_, c)| c)),
                ',' if !quoted => {
                    end = at;
                    break;
                }
                _ => value.push(c),
            }
        }
        if quoted {
            return None;
        }
        columns.push((any || !value.is_empty()).then_some(value));
        match rest.get(end + 1..) {
            Some(more) => rest = more,
            None => return Some(columns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_as_text() {
        let found = |text: &str| {
            columns(text).map(|all| all.into_iter().map(|c| c.unwrap_or("NULL".into())).collect::<Vec<_>>())
        };
        assert_eq!(found("(16385,745,42)").unwrap(), ["16385", "745", "42"]);
        assert_eq!(found(r#"(1,"a,""b""\\ c","",x)"#).unwrap(), ["1", "a,\"b\"\\ c", "", "x"]);
        assert_eq!(found("(,,)").unwrap(), ["NULL", "NULL", "NULL"]);
        assert_eq!(found("(1,2,)").unwrap(), ["1", "2", "NULL"]);
        assert_eq!(found("1,2"), None);
        assert_eq!(found("(\"1)"), None);
    }
}
