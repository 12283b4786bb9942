//! Scripts: statements between semicolons.

use crate::Dialect;
use crate::lexer::{Kind, tokens};

/// A statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// From its first to its last token, without the semicolon.
    pub text: &'a str,
    /// Where it begins in the script, in bytes.
    pub start: usize,
}

/// The statements of a script; empty ones are left out.
pub fn split(dialect: Dialect, script: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut tokens = tokens(dialect, script);
    std::iter::from_fn(move || {
        let mut range: Option<(usize, usize)> = None;
        for token in tokens.by_ref() {
            match (token.kind, &mut range) {
                (Kind::Semicolon, Some(_)) => break,
                (Kind::Semicolon, None) => {}
                (_, Some((_, end))) => *end = token.end(),
                (_, none) => *none = Some((token.start, token.end())),
            }
        }
        range.map(|(start, end)| Piece { text: &script[start..end], start })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_statements_are_left_out() {
        let script = ";; a ;\n-- none;\n; b;c ;";
        let found: Vec<_> = split(Dialect::Sqlite, script).map(|p| (p.text, p.start)).collect();
        assert_eq!(found, [("a", 3), ("b", 18), ("c", 20)]);
        assert_eq!(split(Dialect::MySql, " /* nothing */ ;").count(), 0);
    }
}
