//! Scripts of interleaved sessions, as Hermitage writes them: a statement per line, with the session it
//! belongs to.
//!
//! ```text
//! -- isolation: REPEATABLE READ
//! CREATE TABLE test (id INT PRIMARY KEY, value INT);
//! INSERT INTO test (id, value) VALUES (1, 10);
//! BEGIN;                                        -- T1
//!                  BEGIN;                       -- T2
//! SELECT value FROM test WHERE id = 1;          -- T1
//!                  UPDATE test SET value = 11;  -- T2
//!                  COMMIT;                      -- T2
//! UPDATE test SET value = 12;                   -- T1
//! COMMIT;                                       -- T1
//! ```
//!
//! Lines without a session come first and make the tables. What all sessions begin with, such as
//! `SET SESSION TRANSACTION ISOLATION LEVEL …`, is the *prelude*: it stands in every column, so that a
//! column can be pasted as it is. How far a line is indented does not matter, so that sessions can be
//! columns, each to be pasted into a client window of its own. Headers are comments: `-- isolation: …`,
//! `-- dialect: …`, `-- expects: …` (the name of an anomaly). Transactions are numbered in the order in
//! which they begin.

use crate::Flavour;
use anomalist_databases::Isolation;
use anomalist_sqltext::{Control, Kind, Scope, control, settings, split, tokens};
use std::fmt::Write as _;

/// The widest column, as it is printed.
const WIDEST: usize = 36;

/// A script.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Script {
    /// The isolation level, by the database's name.
    pub isolation: Option<String>,
    /// Whose SQL it is.
    pub dialect: Option<String>,
    /// The anomaly it is about.
    pub expects: Option<String>,
    /// Statements that make the tables.
    pub setup: Vec<String>,
    /// Settings that every session begins with.
    pub prelude: Vec<String>,
    /// Statements with their session, from 1, in the order in which they are sent.
    pub steps: Vec<Line>,
}

/// A statement of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The session, from 1.
    pub session: usize,
    /// The statement, without its semicolon.
    pub text: String,
}

/// A script that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ScriptError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl Script {
    /// Reads a script.
    pub fn parse(flavour: Flavour, text: &str) -> Result<Script, ScriptError> {
        let dialect = flavour.dialect();
        let mut script = Script::default();
        // Statements of the setup may span lines; those of sessions do not.
        let mut setup = String::new();
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |what: &str| ScriptError { line: number, what: what.to_owned() };
            let mut end = 0;
            for token in tokens(dialect, line) {
                end = token.end();
            }
            let comment = line[end..].trim().trim_start_matches("--").trim();
            if line.trim_start().starts_with("--") {
                let header = line.trim_start().trim_start_matches('-').trim();
                if let Some((name, value)) = header.split_once(':') {
                    let value = Some(value.trim().to_owned());
                    match name.trim().to_ascii_lowercase().as_str() {
                        "isolation" => script.isolation = value,
                        "dialect" => script.dialect = value,
                        "expects" => script.expects = value,
                        _ => {}
                    }
                }
                continue;
            }
            let Some(session) = session_of(comment) else {
                if !script.steps.is_empty() && tokens(dialect, line).any(|t| t.kind != Kind::Semicolon) {
                    return Err(wrong("a statement without its session, such as `-- T1`"));
                }
                setup.push_str(&line[..end]);
                setup.push('\n');
                continue;
            };
            if session == 0 || session > 99 {
                return Err(wrong("sessions are T1 to T99"));
            }
            let lines = split(dialect, &line[..end]).map(|p| Line { session, text: p.text.to_owned() });
            script.steps.extend(lines);
        }
        script.setup = split(dialect, &setup).map(|p| p.text.to_owned()).collect();
        script.find_prelude(flavour);
        Ok(script)
    }

    /// Every statement, those of the setup first.
    pub fn statements(&self) -> impl Iterator<Item = &str> {
        self.setup.iter().map(String::as_str).chain(self.steps.iter().map(|line| line.text.as_str()))
    }

    /// Takes the settings that all sessions begin with out of the lines.
    fn find_prelude(&mut self, flavour: Flavour) {
        let count = self.sessions();
        let of = |session: usize| self.steps.iter().filter(move |l| l.session == session);
        let is_setting = |line: &&Line| {
            matches!(control(flavour.dialect(), &line.text), Some(Control::Set(Scope::Session, _)))
                || settings(flavour.dialect(), &line.text)
                    .is_some_and(|all| all.iter().all(|s| s.name == "innodb_snapshot_isolation"))
        };
        let first = |session| of(session).take_while(is_setting).map(|l| l.text.clone()).collect();
        let firsts: Vec<Vec<String>> = (1..=count).filter(|s| of(*s).next().is_some()).map(first).collect();
        let Some((prelude, rest)) = firsts.split_first() else { return };
        if prelude.is_empty() || rest.iter().any(|other| other != prelude) {
            return;
        }
        let mut passed = vec![0; count + 1];
        self.steps.retain(|line| {
            passed[line.session] += 1;
            passed[line.session] > prelude.len()
        });
        self.prelude.clone_from(prelude);
    }

    /// Reads a script in the SQL that its header names; without one, in this.
    pub fn parse_any(otherwise: Flavour, text: &str) -> Result<Script, ScriptError> {
        let header = text.lines().find_map(|line| {
            let (name, value) = line.trim_start().strip_prefix("--")?.split_once(':')?;
            name.trim().eq_ignore_ascii_case("dialect").then(|| value.trim())
        });
        Script::parse(header.and_then(|d| d.parse().ok()).unwrap_or(otherwise), text)
    }

    /// The number of sessions.
    pub fn sessions(&self) -> usize {
        self.steps.iter().map(|s| s.session).max().unwrap_or(0)
    }

    /// The script as text, a column per session.
    pub fn print(&self) -> String {
        let mut out = String::new();
        for (name, value) in
            [("dialect", &self.dialect), ("isolation", &self.isolation), ("expects", &self.expects)]
        {
            if let Some(value) = value {
                _ = writeln!(out, "-- {name}: {value}");
            }
        }
        for statement in &self.setup {
            _ = writeln!(out, "{statement};");
        }
        let sessions = 1..=self.sessions();
        let prelude = sessions
            .flat_map(|session| self.prelude.iter().map(move |text| Line { session, text: text.clone() }));
        let lines: Vec<Line> = prelude.chain(self.steps.iter().cloned()).collect();
        let width =
            |s: usize| self.steps.iter().filter(|l| l.session == s).map(|l| l.text.chars().count() + 3).max();
        // A long statement reaches into the next column, so that lines can still be read.
        let widths: Vec<usize> = (1..=self.sessions()).map(|s| width(s).unwrap_or(0).min(WIDEST)).collect();
        let total: usize = widths.iter().sum();
        for line in &lines {
            let indent: usize = widths[..line.session - 1].iter().sum();
            let text = format!("{}{};", " ".repeat(indent), line.text);
            _ = writeln!(out, "{text:<total$} -- T{}", line.session);
        }
        out
    }
}

/// The settings that give a client's session a level. SQLite has none: there, the level is a word of
/// `BEGIN`.
pub fn prelude(flavour: Flavour, level: &Isolation) -> Vec<String> {
    match flavour {
        Flavour::PostgreSql => {
            vec![format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {}", level.name())]
        }
        Flavour::MariaDb | Flavour::MySql => level.setup().split("; ").map(str::to_owned).collect(),
        Flavour::Sqlite => Vec::new(),
    }
}

/// `T2`, whatever follows it.
fn session_of(comment: &str) -> Option<usize> {
    let rest = comment.strip_prefix(['T', 't'])?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const TEXT: &str = "-- isolation: REPEATABLE READ\n-- expects: lost-update\n\
        CREATE TABLE test (id INT,\n  value INT);\nINSERT INTO test VALUES (1, 'a -- T3');\n\n\
        BEGIN; -- T1\n    BEGIN; -- T2. Hermitage says more here\nSELECT ';' FROM test; -- T1\n\
        COMMIT; -- T2\nCOMMIT; -- T1\n";

    #[test]
    fn what_is_printed_can_be_read() {
        let script = Script::parse(Flavour::MySql, TEXT).unwrap();
        assert_eq!(script.isolation.as_deref(), Some("REPEATABLE READ"));
        assert_eq!(script.setup.len(), 2);
        let sessions: Vec<usize> = script.steps.iter().map(|s| s.session).collect();
        assert_eq!(sessions, [1, 2, 1, 2, 1]);
        assert_eq!(script.steps[2].text, "SELECT ';' FROM test");
        let printed = script.print();
        assert_eq!(Script::parse(Flavour::MySql, &printed).unwrap(), script);
        assert!(printed.ends_with("COMMIT;                          -- T1\n"), "{printed}");
    }

    #[test]
    fn every_column_begins_with_the_level() {
        let text = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN; -- T1\n\
            SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; -- T2\nSELECT 1; -- T2\nCOMMIT; -- T1\n";
        let script = Script::parse(Flavour::MySql, text).unwrap();
        assert_eq!(script.prelude, ["SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"]);
        let lines: Vec<&str> = script.steps.iter().map(|l| l.text.as_str()).collect();
        assert_eq!(lines, ["BEGIN", "SELECT 1", "COMMIT"]);
        let printed = script.print();
        assert_eq!(printed.matches("SERIALIZABLE;").count(), 2, "{printed}");
        assert_eq!(Script::parse(Flavour::MySql, &printed).unwrap(), script);
        // Sessions that differ keep theirs.
        let differing =
            Script::parse(Flavour::MySql, &text.replacen("SERIALIZABLE", "READ COMMITTED", 1)).unwrap();
        assert_eq!((differing.prelude.len(), differing.steps.len()), (0, 5));
    }

    #[test]
    fn statements_without_a_session_are_refused() {
        let error = Script::parse(Flavour::Sqlite, "BEGIN; -- T1\nCOMMIT;\n").unwrap_err();
        assert_eq!(error.line, 2);
    }
}
