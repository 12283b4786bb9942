//! A statement with its tokens, which all that look at it share.
//!
//! Whether a statement steers transactions, sets a variable or has words that the parser does not know is
//! decided by its first tokens, by several recognisers one after another. They take a [`Lexed`], so the
//! text is gone through once. (The parser has a lexer of its own.)

use crate::Dialect;
use crate::control::{self, Control};
use crate::lexer::{Kind, Token, tokens};
use crate::parse::{self, SyntaxError, ast};
use crate::settings::{self, Setting};
use std::ops::Range;

/// The longest statement that can steer transactions, in tokens.
const LONGEST_CONTROL: usize = 40;

/// A statement and its tokens.
#[derive(Clone, Debug)]
pub struct Lexed<'a> {
    dialect: Dialect,
    text: &'a str,
    tokens: Vec<Token<'a>>,
}

/// What is to stand in the place of a part of a text.
pub type Edit = (Range<usize>, String);

impl<'a> Lexed<'a> {
    /// Starts the lexer.
    #[must_use]
    pub fn new(dialect: Dialect, text: &'a str) -> Self {
        Self { dialect, text, tokens: tokens(dialect, text).collect() }
    }

    /// The statements of a script; empty ones are left out.
    #[must_use]
    pub fn script(dialect: Dialect, script: &'a str) -> Vec<Self> {
        let all: Vec<Token<'a>> = tokens(dialect, script).collect();
        let pieces = all.split(|token| token.kind == Kind::Semicolon);
        pieces
            .filter_map(|piece| {
                let (first, last) = (piece.first()?, piece.last()?);
                Some(Self::part(dialect, script, first.start..last.end(), piece))
            })
            .collect()
    }

    /// A part of a text, with its tokens.
    fn part(dialect: Dialect, whole: &'a str, range: Range<usize>, tokens: &[Token<'a>]) -> Self {
        let moved = |token: &Token<'a>| Token { start: token.start - range.start, ..*token };
        Self { dialect, text: &whole[range.clone()], tokens: tokens.iter().map(moved).collect() }
    }

    /// What comes after a token.
    #[must_use]
    pub fn after(&self, token: usize) -> Self {
        let from = self.tokens.get(token).map_or(self.text.len(), Token::end);
        let rest = self.tokens.get(token + 1..).unwrap_or_default();
        Self::part(self.dialect, self.text, from..self.text.len(), rest)
    }

    /// Whose SQL it is.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// All its tokens.
    #[must_use]
    pub fn tokens(&self) -> &[Token<'a>] {
        &self.tokens
    }

    /// The first so many tokens, in capitals.
    #[must_use]
    pub fn words(&self, count: usize) -> Vec<String> {
        self.tokens.iter().take(count).map(|token| token.text.to_ascii_uppercase()).collect()
    }

    /// The tokens without semicolons at the end.
    fn body(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
        let end = tokens.iter().rposition(|token| token.kind != Kind::Semicolon).map_or(0, |last| last + 1);
        tokens[..end].to_vec()
    }

    /// What it does to transactions, if that is what it is for.
    #[must_use]
    pub fn control(&self) -> Option<Control> {
        let first = &self.tokens[..self.tokens.len().min(LONGEST_CONTROL)];
        control::recognise(self, &Self::body(first))
    }

    /// The assignments of a SET statement; nothing if it is another statement, or a SET of another form.
    #[must_use]
    pub fn settings(&self) -> Option<Vec<Setting>> {
        settings::recognise(self.dialect, self.text, &Self::body(&self.tokens))
    }

    /// The tree of one statement.
    ///
    /// # Errors
    /// As [`crate::parse`].
    pub fn parse(&self) -> Result<ast::Statement, SyntaxError> {
        self.parse_edited(Vec::new())
    }

    /// The tree of one statement, after some parts of the text, which must not overlap, were replaced. No
    /// edit may add operators.
    ///
    /// # Errors
    /// As [`crate::parse`].
    pub fn parse_edited(&self, mut edits: Vec<Edit>) -> Result<ast::Statement, SyntaxError> {
        parse::check_chains(&self.tokens)?;
        edits.extend(parse::shared(self.dialect, &self.tokens));
        if edits.is_empty() {
            return parse::one(self.dialect, self.text);
        }
        edits.sort_by_key(|(range, _)| range.start);
        let (mut edited, mut done) = (String::with_capacity(self.text.len() + 16), 0);
        for (range, replacement) in edits {
            edited.push_str(&self.text[done..range.start]);
            edited.push_str(&replacement);
            done = range.end;
        }
        edited.push_str(&self.text[done..]);
        parse::one(self.dialect, &edited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_a_script_have_their_own_places() {
        let pieces = Lexed::script(Dialect::PostgreSql, "BEGIN; ; SELECT 'a;b', x -- ;\n FROM t;");
        let texts: Vec<&str> = pieces.iter().map(Lexed::text).collect();
        assert_eq!(texts, ["BEGIN", "SELECT 'a;b', x -- ;\n FROM t"]);
        for piece in &pieces {
            assert!(piece.tokens().iter().all(|t| &piece.text()[t.start..t.end()] == t.text));
            let alone = Lexed::new(Dialect::PostgreSql, piece.text());
            assert_eq!(alone.tokens(), piece.tokens());
        }
        assert_eq!(
            pieces[1].after(0).tokens(),
            Lexed::new(Dialect::PostgreSql, " 'a;b', x -- ;\n FROM t").tokens()
        );
    }

    #[test]
    fn edits_are_made_before_parsing() {
        let lexed = Lexed::new(Dialect::MySql, "SELECT ?, ? FROM t LOCK IN SHARE MODE");
        let numbers = lexed.tokens().iter().filter(|t| t.kind == Kind::Parameter).enumerate();
        let edits = numbers.map(|(at, token)| (token.end()..token.end(), (at + 1).to_string())).collect();
        let tree = lexed.parse_edited(edits).map(|tree| tree.to_string());
        assert_eq!(tree.as_deref(), Ok("SELECT ?1, ?2 FROM t FOR SHARE"));
    }
}
