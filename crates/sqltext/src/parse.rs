//! Trees of statements: the one place that calls sqlparser.

use crate::Dialect;
use crate::lexer::{Token, tokens};
use crate::script::split;
use sqlparser::dialect::{MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::{Parser, ParserError};

/// The trees. Their version is pinned; what it offers is sqlparser's business.
pub mod ast {
    pub use sqlparser::ast::*;
    pub use sqlparser::tokenizer::Span;
}

/// A statement that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error: {0}")]
pub struct SyntaxError(pub String);

/// The tree of one statement.
///
/// MySQL's `LOCK IN SHARE MODE`, which the parser does not know, is read as `FOR SHARE`, which means the same.
///
/// # Errors
/// If the text is not exactly one statement of the dialect, as far as the parser knows it.
pub fn parse(dialect: Dialect, statement: &str) -> Result<ast::Statement, SyntaxError> {
    let mut found = statements(dialect, statement)?;
    match (found.pop(), found.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (Some(_), false) => Err(SyntaxError("more than one statement".into())),
        (None, _) => Err(SyntaxError("no statement".into())),
    }
}

/// The trees of a script.
///
/// # Errors
/// As [`parse`], with the first statement that is none.
pub fn parse_many(dialect: Dialect, script: &str) -> Result<Vec<ast::Statement>, SyntaxError> {
    split(dialect, script).map(|piece| parse(dialect, piece.text)).collect()
}

fn statements(dialect: Dialect, text: &str) -> Result<Vec<ast::Statement>, SyntaxError> {
    let shared = share(dialect, text);
    let text = shared.as_deref().unwrap_or(text);
    let parsed = match dialect {
        Dialect::PostgreSql => Parser::parse_sql(&PostgreSqlDialect {}, text),
        Dialect::MySql => Parser::parse_sql(&MySqlDialect {}, text),
        Dialect::Sqlite => Parser::parse_sql(&SQLiteDialect {}, text),
    };
    parsed.map_err(|error| {
        SyntaxError(match error {
            ParserError::TokenizerError(why) | ParserError::ParserError(why) => why,
            ParserError::RecursionLimitExceeded => "the statement is nested too deeply".into(),
        })
    })
}

/// The text with `FOR SHARE` for `LOCK IN SHARE MODE`, if it has that.
fn share(dialect: Dialect, text: &str) -> Option<String> {
    if dialect != Dialect::MySql || !text.to_ascii_uppercase().contains("SHARE") {
        return None;
    }
    let tokens: Vec<Token<'_>> = tokens(dialect, text).collect();
    let mut changed = text.to_owned();
    for at in (0..tokens.len().saturating_sub(3)).rev() {
        let window = &tokens[at..at + 4];
        if ["LOCK", "IN", "SHARE", "MODE"].iter().zip(window).all(|(word, token)| token.is(word)) {
            changed.replace_range(window[0].start..window[3].end(), "FOR SHARE");
        }
    }
    (changed != text).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_real_clients_send_comes_back() {
        for (dialect, text) in [
            (Dialect::PostgreSql, "SELECT v FROM t WHERE id = $1 FOR UPDATE SKIP LOCKED"),
            (
                Dialect::PostgreSql,
                "INSERT INTO t (a) VALUES (1) ON CONFLICT(a) DO UPDATE SET a = excluded.a RETURNING a",
            ),
            (Dialect::MySql, "INSERT INTO t (a) VALUES (?) ON DUPLICATE KEY UPDATE a = VALUES(a)"),
            (Dialect::MySql, "REPLACE INTO t (a) VALUES (1)"),
            (Dialect::Sqlite, "INSERT OR REPLACE INTO t (a) VALUES (1)"),
        ] {
            assert_eq!(parse(dialect, text).map(|s| s.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn share_mode_is_for_share() {
        let tree = parse(Dialect::MySql, "SELECT 'LOCK IN SHARE MODE' FROM t lock in share mode");
        assert_eq!(tree.map(|s| s.to_string()), Ok("SELECT 'LOCK IN SHARE MODE' FROM t FOR SHARE".into()));
    }

    #[test]
    fn errors_are_told() {
        assert!(parse(Dialect::MySql, "SELEC 1").is_err());
        assert!(parse(Dialect::MySql, "").is_err());
        assert!(parse(Dialect::MySql, "SELECT 1; SELECT 2").is_err());
        let deep = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        assert!(parse(Dialect::PostgreSql, &deep).is_err());
        assert_eq!(parse_many(Dialect::MySql, "SELECT 1; SELECT 2;").map(|s| s.len()), Ok(2));
    }
}
