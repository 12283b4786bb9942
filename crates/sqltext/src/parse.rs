//! Trees of statements: the one place that calls sqlparser.

use crate::Dialect;
use crate::lexed::{Edit, Lexed};
use crate::lexer::{Kind, Token};
use sqlparser::dialect::{MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::{Parser, ParserError};

/// The trees. Their version is pinned; what it offers is sqlparser's business.
pub mod ast {
    pub use sqlparser::ast::*;
    pub use sqlparser::tokenizer::Span;
}

/// The longest chain of operators: a chain is a tree as deep as it is long, and trees are walked and
/// dropped by recursion.
const LONGEST_CHAIN: usize = 1000;

/// A statement that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error: {0}")]
pub struct SyntaxError(pub String);

/// The tree of one statement.
///
/// MySQL's `LOCK IN SHARE MODE`, which the parser does not know, is read as `FOR SHARE`, which means the
/// same.
///
/// # Errors
/// If the text is not exactly one statement of the dialect, as far as the parser knows it.
pub fn parse(dialect: Dialect, statement: &str) -> Result<ast::Statement, SyntaxError> {
    Lexed::new(dialect, statement).parse()
}

/// The same, of a text whose chains are short.
pub(crate) fn one(dialect: Dialect, statement: &str) -> Result<ast::Statement, SyntaxError> {
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
    Lexed::script(dialect, script).iter().map(Lexed::parse).collect()
}

fn statements(dialect: Dialect, text: &str) -> Result<Vec<ast::Statement>, SyntaxError> {
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

/// Refuses chains that are too long.
pub(crate) fn check_chains(tokens: &[Token<'_>]) -> Result<(), SyntaxError> {
    match chain(tokens) {
        ..=LONGEST_CHAIN => Ok(()),
        _ => Err(SyntaxError(format!("more than {LONGEST_CHAIN} operators in one expression"))),
    }
}

/// The most operators between two commas or parentheses of one level. Keywords such as AND and UNION count
/// too.
fn chain(tokens: &[Token<'_>]) -> usize {
    let (mut longest, mut counts) = (0, vec![0usize]);
    for token in tokens {
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

/// `FOR SHARE` for each `LOCK IN SHARE MODE` of MySQL.
pub(crate) fn shared(dialect: Dialect, tokens: &[Token<'_>]) -> Vec<Edit> {
    let said = |window: &[Token<'_>]| {
        ["LOCK", "IN", "SHARE", "MODE"].iter().zip(window).all(|(word, token)| token.is(word))
    };
    let found = tokens.windows(4).filter(|window| dialect == Dialect::MySql && said(window));
    found.map(|window| (window[0].start..window[3].end(), "FOR SHARE".to_owned())).collect()
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
    fn what_cannot_be_parsed_is_an_error() {
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
