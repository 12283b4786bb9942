//! Statements that steer transactions.
//!
//! A small matcher over tokens, one function per family. A statement that begins like one of these but goes
//! on in a way that the dialect does not have is not recognised; the parser then explains what is wrong
//! with it.

use crate::Dialect;
use crate::lexed::Lexed;
use crate::lexer::{Kind, Token};

/// A level by its SQL name. What it means is the database's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// READ UNCOMMITTED
    ReadUncommitted,
    /// READ COMMITTED
    ReadCommitted,
    /// REPEATABLE READ
    RepeatableRead,
    /// SERIALIZABLE
    Serializable,
}

impl Isolation {
    /// The name as SQL spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "READ UNCOMMITTED",
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }

    /// From a name in any case, its words apart or joined by `-`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim().replace('-', " ").to_ascii_uppercase();
        let all = [Self::ReadUncommitted, Self::ReadCommitted, Self::RepeatableRead, Self::Serializable];
        all.into_iter().find(|level| level.name() == name)
    }
}

/// Whether a transaction may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// READ WRITE
    ReadWrite,
    /// READ ONLY
    ReadOnly,
}

/// What a statement asks of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// ISOLATION LEVEL …
    pub isolation: Option<Isolation>,
    /// READ ONLY, READ WRITE
    pub access: Option<Access>,
    /// DEFERRABLE, NOT DEFERRABLE
    pub deferrable: Option<bool>,
    /// WITH CONSISTENT SNAPSHOT
    pub snapshot: bool,
}

/// How SQLite takes its lock when a transaction begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// With the first statement that needs it; every other dialect.
    #[default]
    Deferred,
    /// At once, for writing.
    Immediate,
    /// At once, for itself alone.
    Exclusive,
    /// As one of several writers.
    Concurrent,
}

/// What follows the end of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// AND CHAIN: the next transaction begins at once, with the same modes.
    pub chain: bool,
    /// RELEASE: the server closes the connection.
    pub release: bool,
}

/// Which transactions a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The present transaction (PostgreSQL) or the next one (MySQL).
    Transaction,
    /// All later ones of this session.
    Session,
    /// All sessions that come.
    Global,
}

/// A statement that steers transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// BEGIN, START TRANSACTION
    Begin(Modes),
    /// BEGIN IMMEDIATE and its kind, of SQLite
    BeginLocked(Begin),
    /// COMMIT, END
    Commit(Chain),
    /// ROLLBACK, ABORT
    Rollback(Chain),
    /// SAVEPOINT
    Savepoint(String),
    /// ROLLBACK TO
    RollbackTo(String),
    /// RELEASE
    Release(String),
    /// `SET [SESSION] TRANSACTION …`, SET SESSION CHARACTERISTICS …, SET default_transaction_isolation …
    Set(Scope, Modes),
    /// SET autocommit
    Autocommit(Scope, bool),
    /// Two-phase commit: XA …, PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED; the words name it.
    TwoPhase(&'static str),
}

/// What the statement does to transactions, if that is what it is for.
#[must_use]
pub fn control(dialect: Dialect, statement: &str) -> Option<Control> {
    Lexed::new(dialect, statement).control()
}

/// The same, from its first tokens.
pub(crate) fn recognise(lexed: &Lexed<'_>, tokens: &[Token<'_>]) -> Option<Control> {
    let dialect = lexed.dialect();
    let first = tokens.first()?;
    let known = [
        "BEGIN",
        "START",
        "COMMIT",
        "END",
        "ROLLBACK",
        "ABORT",
        "SAVEPOINT",
        "RELEASE",
        "SET",
        "XA",
        "PREPARE",
    ];
    if !known.iter().any(|word| first.is(word)) {
        return None;
    }
    if first.is("SET") {
        return set(lexed, &mut Cursor { tokens: &tokens[1..] });
    }
    let mut cursor = Cursor { tokens: &tokens[1..] };
    let found = match first.text.to_ascii_uppercase().as_str() {
        "BEGIN" => begin(dialect, &mut cursor),
        "START" if dialect != Dialect::Sqlite && cursor.take("TRANSACTION") => {
            modes(dialect, &mut cursor).map(Control::Begin)
        }
        "COMMIT" | "END" if !(first.is("END") && dialect == Dialect::MySql) => {
            if dialect == Dialect::PostgreSql && cursor.take("PREPARED") {
                return Some(Control::TwoPhase("COMMIT PREPARED"));
            }
            work(dialect, &mut cursor);
            chain(dialect, &mut cursor).map(Control::Commit)
        }
        "ROLLBACK" => rollback(dialect, &mut cursor),
        "ABORT" if dialect == Dialect::PostgreSql => {
            work(dialect, &mut cursor);
            chain(dialect, &mut cursor).map(Control::Rollback)
        }
        "SAVEPOINT" => cursor.name().map(Control::Savepoint),
        "RELEASE" => {
            let said = cursor.take("SAVEPOINT");
            cursor.name().filter(|_| said || dialect != Dialect::MySql).map(Control::Release)
        }
        "XA" if dialect == Dialect::MySql => return Some(Control::TwoPhase("XA")),
        "PREPARE" if dialect == Dialect::PostgreSql && cursor.take("TRANSACTION") => {
            return Some(Control::TwoPhase("PREPARE TRANSACTION"));
        }
        _ => None,
    }?;
    cursor.tokens.is_empty().then_some(found)
}

struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
}

impl Cursor<'_, '_> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.tokens.first().is_some_and(|t| t.is(word));
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    /// All the words, or none.
    fn take_all(&mut self, words: &[&str]) -> bool {
        let found = self.tokens.len() >= words.len()
            && words.iter().zip(self.tokens).all(|(word, token)| token.is(word));
        if found {
            self.tokens = &self.tokens[words.len()..];
        }
        found
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = self.tokens.first().is_some_and(|t| t.kind == Kind::Symbol && t.text == symbol);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    /// A name; one without quotes is the same in any case.
    fn name(&mut self) -> Option<String> {
        let token = self.tokens.first().filter(|t| matches!(t.kind, Kind::Word | Kind::Name | Kind::Text))?;
        self.tokens = &self.tokens[1..];
        Some(token.name())
    }
}

/// Skips the words that mean nothing after BEGIN, COMMIT and ROLLBACK.
fn work(dialect: Dialect, cursor: &mut Cursor<'_, '_>) {
    let _ = (dialect != Dialect::Sqlite && cursor.take("WORK"))
        || (dialect != Dialect::MySql && cursor.take("TRANSACTION"));
}

fn begin(dialect: Dialect, cursor: &mut Cursor<'_, '_>) -> Option<Control> {
    match dialect {
        Dialect::PostgreSql => {
            work(dialect, cursor);
            modes(dialect, cursor).map(Control::Begin)
        }
        Dialect::MySql => {
            cursor.take("WORK");
            Some(Control::Begin(Modes::default()))
        }
        Dialect::Sqlite => {
            let kinds = [
                ("DEFERRED", Begin::Deferred),
                ("IMMEDIATE", Begin::Immediate),
                ("EXCLUSIVE", Begin::Exclusive),
                ("CONCURRENT", Begin::Concurrent),
            ];
            let kind =
                kinds.into_iter().find(|(word, _)| cursor.take(word)).map_or(Begin::Deferred, |(_, k)| k);
            cursor.take("TRANSACTION");
            Some(match kind {
                Begin::Deferred => Control::Begin(Modes::default()),
                _ => Control::BeginLocked(kind),
            })
        }
    }
}

fn rollback(dialect: Dialect, cursor: &mut Cursor<'_, '_>) -> Option<Control> {
    if dialect == Dialect::PostgreSql && cursor.take("PREPARED") {
        cursor.tokens = &[];
        return Some(Control::TwoPhase("ROLLBACK PREPARED"));
    }
    work(dialect, cursor);
    if cursor.take("TO") {
        cursor.take("SAVEPOINT");
        return cursor.name().map(Control::RollbackTo);
    }
    chain(dialect, cursor).map(Control::Rollback)
}

/// `[AND [NO] CHAIN] [[NO] RELEASE]`
fn chain(dialect: Dialect, cursor: &mut Cursor<'_, '_>) -> Option<Chain> {
    let mut after = Chain::default();
    if dialect == Dialect::Sqlite {
        return Some(after);
    }
    if cursor.take("AND") {
        after.chain = !cursor.take("NO");
        if !cursor.take("CHAIN") {
            return None;
        }
    }
    if dialect == Dialect::MySql {
        let _ = cursor.take_all(&["NO", "RELEASE"]) || {
            after.release = cursor.take("RELEASE");
            true
        };
    }
    Some(after)
}

/// The modes up to the end, separated by commas (PostgreSQL: or by nothing).
fn modes(dialect: Dialect, cursor: &mut Cursor<'_, '_>) -> Option<Modes> {
    let mut modes = Modes::default();
    let mut comma = true;
    while !cursor.tokens.is_empty() {
        if !comma && dialect == Dialect::MySql {
            return None;
        }
        if cursor.take_all(&["ISOLATION", "LEVEL"]) {
            let levels = [
                (&["READ", "UNCOMMITTED"][..], Isolation::ReadUncommitted),
                (&["READ", "COMMITTED"], Isolation::ReadCommitted),
                (&["REPEATABLE", "READ"], Isolation::RepeatableRead),
                (&["SERIALIZABLE"], Isolation::Serializable),
            ];
            modes.isolation = Some(levels.into_iter().find(|(words, _)| cursor.take_all(words))?.1);
        } else if cursor.take_all(&["READ", "ONLY"]) {
            modes.access = Some(Access::ReadOnly);
        } else if cursor.take_all(&["READ", "WRITE"]) {
            modes.access = Some(Access::ReadWrite);
        } else if dialect == Dialect::PostgreSql && cursor.take_all(&["NOT", "DEFERRABLE"]) {
            modes.deferrable = Some(false);
        } else if dialect == Dialect::PostgreSql && cursor.take("DEFERRABLE") {
            modes.deferrable = Some(true);
        } else if dialect == Dialect::MySql && cursor.take_all(&["WITH", "CONSISTENT", "SNAPSHOT"]) {
            modes.snapshot = true;
        } else {
            return None;
        }
        comma = cursor.symbol(",");
        if comma && cursor.tokens.is_empty() {
            return None;
        }
    }
    Some(modes)
}

fn set(lexed: &Lexed<'_>, cursor: &mut Cursor<'_, '_>) -> Option<Control> {
    let dialect = lexed.dialect();
    if dialect == Dialect::Sqlite {
        return None;
    }
    let before = cursor.tokens;
    if dialect == Dialect::PostgreSql && cursor.take_all(&["SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"])
    {
        return modes(dialect, cursor).map(|m| Control::Set(Scope::Session, m));
    }
    let scope = if cursor.take("GLOBAL") {
        Scope::Global
    } else if cursor.take("SESSION") || (dialect == Dialect::MySql && cursor.take("LOCAL")) {
        Scope::Session
    } else {
        cursor.take("LOCAL");
        Scope::Transaction
    };
    if cursor.take("TRANSACTION") {
        if dialect == Dialect::PostgreSql && cursor.take("SNAPSHOT") {
            return None;
        }
        return modes(dialect, cursor).filter(|m| *m != Modes::default()).map(|m| Control::Set(scope, m));
    }
    cursor.tokens = before;
    by_variable(lexed)
}

/// `SET` of a variable that means the same as a statement above.
fn by_variable(lexed: &Lexed<'_>) -> Option<Control> {
    let dialect = lexed.dialect();
    for setting in lexed.settings()? {
        let value = setting.value.trim().to_ascii_lowercase();
        let isolation = || {
            let isolation = Isolation::named(&setting.value)?;
            Some(Modes { isolation: Some(isolation), ..Modes::default() })
        };
        let access = |on| Modes {
            access: Some(if on { Access::ReadOnly } else { Access::ReadWrite }),
            ..Modes::default()
        };
        let switch = match value.as_str() {
            "1" | "on" | "true" | "yes" => Some(true),
            "0" | "off" | "false" | "no" => Some(false),
            _ => None,
        };
        match (dialect, setting.name.as_str()) {
            (Dialect::MySql, "autocommit") => {
                return switch.map(|on| Control::Autocommit(session(setting.scope), on));
            }
            (Dialect::MySql, "tx_isolation" | "transaction_isolation") => {
                return isolation().map(|m| Control::Set(setting.scope.unwrap_or(Scope::Session), m));
            }
            (Dialect::MySql, "tx_read_only" | "transaction_read_only") => {
                return switch.map(|on| Control::Set(setting.scope.unwrap_or(Scope::Session), access(on)));
            }
            (Dialect::PostgreSql, "default_transaction_isolation") => {
                return isolation().map(|m| Control::Set(Scope::Session, m));
            }
            (Dialect::PostgreSql, "transaction_isolation") => {
                return isolation().map(|m| Control::Set(Scope::Transaction, m));
            }
            (Dialect::PostgreSql, "default_transaction_read_only") => {
                return switch.map(|on| Control::Set(Scope::Session, access(on)));
            }
            (Dialect::PostgreSql, "transaction_read_only") => {
                return switch.map(|on| Control::Set(Scope::Transaction, access(on)));
            }
            _ => {}
        }
    }
    None
}

fn session(scope: Option<Scope>) -> Scope {
    if scope == Some(Scope::Global) { Scope::Global } else { Scope::Session }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
