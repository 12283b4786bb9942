//! What the text of a statement may be.

use super::Limits;
use crate::error::{Code, SqlError};
use anomalist_sqltext::Lexed;

/// How many queries a statement may have in WITH: the time to resolve their names is quadratic.
const WITH_QUERIES: usize = 1000;

/// An error if a text is too long.
pub(crate) fn check_length(text: &str, limits: &Limits) -> Result<(), SqlError> {
    if text.len() <= limits.text {
        return Ok(());
    }
    let text = format!("the statement has more than {} bytes", limits.text);
    Err(SqlError::new(Code::TooComplex, text))
}

/// An error if a statement has too many queries in WITH.
pub(crate) fn check_parts(lexed: &Lexed<'_>) -> Result<(), SqlError> {
    let tokens = lexed.tokens();
    if tokens.len() < WITH_QUERIES || !tokens.iter().any(|token| token.is("WITH")) {
        return Ok(());
    }
    let plain = tokens.windows(2).filter(|pair| pair[0].is("AS") && pair[1].text == "(").count();
    let count = plain + tokens.iter().filter(|token| token.is("MATERIALIZED")).count();
    if count <= WITH_QUERIES {
        return Ok(());
    }
    let text = format!("the statement has more than {WITH_QUERIES} queries in WITH");
    Err(SqlError::new(Code::TooComplex, text))
}
