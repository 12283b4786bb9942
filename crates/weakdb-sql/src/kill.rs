//! MySQL's KILL: another connection's statement ends, or the connection does.

use super::error::{Code, SqlError};
use super::session::{Outcome, Session, tagged};
use anomalist_sqltext::{Dialect, Kind, Lexed};

/// What is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    connection: u32,
    /// The statement alone.
    query: bool,
}

impl Kill {
    /// `KILL [HARD | SOFT] [CONNECTION | QUERY] number`; nothing if it is another statement.
    pub(super) fn of(lexed: &Lexed<'_>) -> Option<Result<Kill, SqlError>> {
        let words: Vec<String> = lexed
            .tokens()
            .iter()
            .filter(|token| token.kind != Kind::Semicolon)
            .map(|token| token.text.to_ascii_uppercase())
            .collect();
        let (verb, rest) = words.split_first()?;
        if lexed.dialect() != Dialect::MySql || verb != "KILL" {
            return None;
        }
        let rest = match rest {
            [strength, rest @ ..] if matches!(strength.as_str(), "HARD" | "SOFT") => rest,
            rest => rest,
        };
        let (query, number) = match rest {
            [what, number] if what == "QUERY" => (true, number),
            [what, number] if what == "CONNECTION" => (false, number),
            [number] => (false, number),
            _ => return Some(Err(SqlError::new(Code::Syntax, "KILL takes the number of a connection"))),
        };
        let unknown = || SqlError::new(Code::NoConnection, format!("Unknown thread id: {number}"));
        Some(number.parse().map(|connection| Kill { connection, query }).map_err(|_| unknown()))
    }
}

impl Session {
    /// Ends what a connection does, or the connection.
    pub(super) fn kill(&mut self, kill: Kill) -> Result<Outcome, SqlError> {
        let (found, own) = {
            let shared = self.engine.shared();
            (shared.running.find(kill.connection), shared.connection)
        };
        let Some(stop) = found else {
            let text = format!("Unknown thread id: {}", kill.connection);
            return Err(SqlError::new(Code::NoConnection, text));
        };
        match kill.query {
            true => stop.cancel(),
            false => stop.kill(),
        }
        // A session that ends its own statement, this one, gets the error of it.
        if own == kill.connection {
            self.engine.check()?;
        }
        Ok(tagged("KILL"))
    }

    /// The same by the protocol's own command.
    pub(crate) fn kill_connection(&mut self, connection: u32) -> Result<Outcome, SqlError> {
        self.kill(Kill { connection, query: false })
    }
}
