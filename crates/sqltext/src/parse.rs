//! Trees of statements: the one place that calls sqlparser.

use crate::Dialect;
use crate::lexer::{Kind, Token, tokens};
use crate::script::split;
use sqlparser::dialect::{MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::{Parser, ParserError};

/// The trees. Their version is pinned; what it offers is sqlparser's business.
pub mod ast {
    pub use sqlparser::ast::*;
    pub use sqlparser::tokenizer::Span;
}

/// The longest chain of operators: a chain is a tree as deep as it is long, and trees are walked and dropped by recursion.
const LONGEST_CHAIN: usize = 1000;

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
    if chain(dialect, text) > LONGEST_CHAIN {
        return Err(SyntaxError(format!("more than {LONGEST_CHAIN} operators in one expression")));
    }
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

/// The most operators between two commas or parentheses of one level. Keywords such as AND and UNION count too.
fn chain(dialect: Dialect, text: &str) -> usize {
    let (mut longest, mut counts) = (0, vec![0usize]);
    for token in tokens(dialect, text) {
        let operator = match token.kind {
            Kind::Word => ["AND", "OR", "XOR", "UNION", "EXCEPT", "INTERSECT", "NOT", "COLLATE", "IS"]
                .iter()
                .any(|w| token.is(w)),
            Kind::Symbol => !matches!(token.text, "," | "(" | ")" | "."),
            _ => false,
        };
        match token.text {
            "(" => counts.push(0),
            ")" if counts.len() > 1 => {
                counts.pop();
            }
            "," | ";" => counts.iter_mut().rev().take(1).for_each(|count| *count = 0),
            _ if operator => {
                if let Some(count) = counts.last_mut() {
                    *count += 1;
                    longest = longest.max(*count);
                }
            }
            _ => {}
        }
    }
    longest
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

/// What a join compares, if it is of a kind that can say so.
#[must_use]
pub fn join_constraint(join: &ast::JoinOperator) -> Option<&ast::JoinConstraint> {
    use ast::JoinOperator as J;
    match join {
        J::Join(c)
        | J::Inner(c)
        | J::Left(c)
        | J::LeftOuter(c)
        | J::Right(c)
        | J::RightOuter(c)
        | J::FullOuter(c)
        | J::StraightJoin(c) => Some(c),
        _ => None,
    }
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
        let wide = |n: usize| parse(Dialect::MySql, &format!("SELECT 1{}", " + 1".repeat(n)));
        assert!(wide(900).is_ok() && wide(2000).is_err());
        let list = format!("SELECT 1 IN ({})", vec!["1 + 1"; 5000].join(", "));
        assert!(parse(Dialect::Sqlite, &list).is_ok());
        assert_eq!(parse_many(Dialect::MySql, "SELECT 1; SELECT 2;").map(|s| s.len()), Ok(2));
    }
}
