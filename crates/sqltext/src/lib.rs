//! SQL as text, in the dialects of PostgreSQL, MySQL/MariaDB and SQLite.
//!
//! Three things are needed by everything that handles the SQL of others, and they are needed in this order:
//!
//! 1. [`split`] cuts a script into statements, by a lexer that knows the dialect's quotes and comments.
//! 2. [`control`] recognises statements that steer transactions ([`Control`]). This happens *before*
//!    parsing, because the parser refuses some of their spellings and drops words of others (`SESSION` in
//!    `SET SESSION TRANSACTION …`), which would change what is meant. Such a statement is passed on
//!    verbatim, never reprinted. [`settings`] does the same for `SET name = value`.
//! 3. [`parse`] gives the tree of one other statement. Trees are those of sqlparser, under [`ast`], and
//!    no other crate of the project names sqlparser: its types change with most releases. A tree prints as
//!    SQL by `to_string`; comments are lost on the way, so only statements that were changed should be
//!    printed. [`walk`] goes through them.
//!
//! ```
//! use anomalist_sqltext::{Control, Dialect, control, parse, split};
//!
//! let script = "BEGIN; UPDATE t SET v = 'a;b' WHERE id = 1; COMMIT";
//! let statements: Vec<&str> = split(Dialect::PostgreSql, script).map(|s| s.text).collect();
//! assert_eq!(statements, ["BEGIN", "UPDATE t SET v = 'a;b' WHERE id = 1", "COMMIT"]);
//! assert!(matches!(control(Dialect::PostgreSql, statements[0]), Some(Control::Begin(_))));
//! assert_eq!(parse(Dialect::PostgreSql, statements[1])?.to_string(), statements[1]);
//! # Ok::<(), anomalist_sqltext::SyntaxError>(())
//! ```
//!
//! A [`Lexed`] has all of these as methods, for several of them on one text: the lexer is started once.
//!
//! Not done here: stored programs (a body with semicolons between BEGIN and END is cut apart), the client's
//! own commands (`DELIMITER`, `\d`).

mod control;
mod lexed;
mod lexer;
mod parse;
mod script;
mod settings;
pub mod walk;

pub use control::{Access, Begin, Chain, Control, Isolation, Modes, Scope, control};
pub use lexed::{Edit, Lexed};
pub use lexer::{Kind, Token, tokens};
pub use parse::{SyntaxError, ast, join_constraint, parse, parse_many};
pub use script::{Piece, split};
pub use settings::{Setting, settings};

/// Whose SQL it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// PostgreSQL.
    PostgreSql,
    /// MySQL and MariaDB.
    MySql,
    /// SQLite.
    Sqlite,
}

impl Dialect {
    /// `name` as an identifier of this dialect, quoted whatever it contains.
    #[must_use]
    pub fn quote(self, name: &str) -> String {
        match self {
            Self::MySql => format!("`{}`", name.replace('`', "``")),
            Self::PostgreSql | Self::Sqlite => format!("\"{}\"", name.replace('"', "\"\"")),
        }
    }

    /// `text` as a string literal of this dialect.
    #[must_use]
    pub fn literal(self, text: &str) -> String {
        let doubled = text.replace('\'', "''");
        match self {
            Self::MySql => format!("'{}'", doubled.replace('\\', "\\\\")),
            Self::PostgreSql | Self::Sqlite => format!("'{doubled}'"),
        }
    }
}
