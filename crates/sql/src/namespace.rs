//! A place of its own for the tables of a run, so that no other tables are touched.
//!
//! A file of SQLite has no such places. There a table of this module's own notes what is about to be made,
//! and by which process, so that the next run drops what a killed one left and nothing else.

use crate::Flavour;
use anomalist_client::remains::is_alive;
use anomalist_databases::{Connection, Error, Kind, Value};
use anomalist_sqltext::ast::{ObjectName, ObjectNamePart, Statement};
use anomalist_sqltext::parse;
use std::time::SystemTime;

/// What was made in a file of SQLite.
const NOTES: &str = "anomalist_sql_made";

/// A schema of PostgreSQL, a database of MySQL; in SQLite the file itself, and tables that are already
/// there are an error.
#[derive(Clone, Debug)]
pub struct Namespace {
    flavour: Flavour,
    name: String,
}

impl Namespace {
    /// What the names of places of runs begin with.
    pub(crate) const PREFIX: &str = "anomalist_sql_";

    /// A place that is not in use: it is dropped with all that is in it, and runs may share a server.
    pub fn unused(flavour: Flavour) -> Namespace {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        Namespace { flavour, name: format!("{}{}_{now:016x}", Namespace::PREFIX, std::process::id()) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A place with this name.
    pub fn new(flavour: Flavour, name: &str) -> Namespace {
        Namespace { flavour, name: name.to_owned() }
    }

    /// Another place whose name is made from this one's.
    pub(crate) fn beside(&self, suffix: &str) -> Namespace {
        Namespace { flavour: self.flavour, name: format!("{}_{suffix}", self.name) }
    }

    /// Statements that a session enters it with, so that types and functions of another place are found
    /// where this one has none of that name.
    pub(crate) fn enter_before(&self, other: &Namespace) -> Vec<String> {
        match self.flavour {
            Flavour::PostgreSql => vec![format!("SET search_path TO {}, {}", self.name, other.name)],
            _ => self.enter(),
        }
    }

    /// Whose SQL it is made with.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Statements that make it.
    pub fn create(&self) -> Vec<String> {
        match self.flavour {
            Flavour::PostgreSql => vec![format!("CREATE SCHEMA {}", self.name)],
            Flavour::MariaDb | Flavour::MySql => vec![format!("CREATE DATABASE {}", self.name)],
            Flavour::Sqlite => Vec::new(),
        }
    }

    /// Statements that a session enters it with.
    pub fn enter(&self) -> Vec<String> {
        match self.flavour {
            Flavour::PostgreSql => vec![format!("SET search_path TO {}", self.name)],
            Flavour::MariaDb | Flavour::MySql => vec![format!("USE {}", self.name)],
            Flavour::Sqlite => Vec::new(),
        }
    }

    /// Statements that make it anew. A file of SQLite stays as it is: it may hold data of the user.
    pub fn clear(&self) -> Vec<String> {
        match self.flavour {
            Flavour::Sqlite => Vec::new(),
            _ => [self.remove(), self.create()].concat(),
        }
    }

    /// What these statements create where there is no place of its own to remove, last first.
    fn created(&self, statements: &[&str]) -> Vec<(&'static str, ObjectName)> {
        if self.flavour != Flavour::Sqlite {
            return Vec::new();
        }
        let created = |statement: &&str| match parse(self.flavour.dialect(), statement) {
            Ok(Statement::CreateTable(table)) => Some(("TABLE", table.name)),
            Ok(Statement::CreateView(view)) => Some(("VIEW", view.name)),
            _ => None,
        };
        statements.iter().rev().filter_map(created).collect()
    }

    /// Drops what a killed process made.
    fn sweep(connection: &mut dyn Connection) -> Result<(), Error> {
        let noted = "SELECT COUNT(*) FROM sqlite_schema WHERE name = ?";
        if connection.query(noted, &[Value::Text(NOTES.to_owned())])?.int() == Some(0) {
            return Ok(());
        }
        let made = connection.query(&format!("SELECT process, kind, name FROM {NOTES}"), &[])?.rows;
        let lives = |row: &Vec<Value>| {
            let process = row.first().and_then(Value::as_int).and_then(|process| u32::try_from(process).ok());
            process.is_none_or(|process| process != std::process::id() && is_alive(process))
        };
        if made.iter().any(lives) {
            return Ok(());
        }
        for row in made {
            if let [_, Value::Text(kind), Value::Text(name)] = &row[..] {
                connection.run(&format!("DROP {kind} IF EXISTS {name}"))?;
            }
        }
        connection.run(&format!("DROP TABLE IF EXISTS {NOTES}")).map(drop)
    }

    /// Notes what these statements are about to create. Refuses what is there already: it belongs to the
    /// user or to a run that goes on, and would be dropped in the end.
    pub(crate) fn claim(&self, connection: &mut dyn Connection, statements: &[&str]) -> Result<(), Error> {
        let created = self.created(statements);
        if created.is_empty() {
            return Ok(());
        }
        Namespace::sweep(connection)?;
        self.refuse_existing(connection, &created)?;
        let columns = "process INTEGER, kind TEXT, name TEXT";
        connection.run(&format!("CREATE TABLE IF NOT EXISTS {NOTES} ({columns})"))?;
        for (kind, name) in created {
            let (process, kind) = (i64::from(std::process::id()), Value::Text(kind.to_owned()));
            let values = [Value::Int(process), kind, Value::Text(name.to_string())];
            connection.query(&format!("INSERT INTO {NOTES} VALUES (?, ?, ?)"), &values)?;
        }
        Ok(())
    }

    fn refuse_existing(
        &self,
        connection: &mut dyn Connection,
        created: &[(&'static str, ObjectName)],
    ) -> Result<(), Error> {
        for (kind, name) in created {
            let bare = name.0.last().and_then(ObjectNamePart::as_ident).map(|i| i.value.clone());
            let known = "SELECT COUNT(*) FROM sqlite_schema WHERE lower(name) = lower(?)";
            let reply = connection.query(known, &[Value::Text(bare.unwrap_or_default())])?;
            if reply.int() != Some(0) {
                let kind = kind.to_ascii_lowercase();
                let what = format!("the {kind} {name} exists already, and would be dropped afterwards");
                return Err(Error::new(Kind::Unsupported, what));
            }
        }
        Ok(())
    }

    /// Statements that take back what these ones created. It was not there before.
    pub fn undo(&self, statements: &[&str]) -> Vec<String> {
        let dropped = |(kind, name): (&str, ObjectName)| format!("DROP {kind} IF EXISTS {name}");
        let mut undo: Vec<String> = self.created(statements).into_iter().map(dropped).collect();
        if !undo.is_empty() {
            undo.push(format!("DROP TABLE IF EXISTS {NOTES}"));
        }
        undo
    }

    /// Statements that remove it.
    pub fn remove(&self) -> Vec<String> {
        match self.flavour {
            Flavour::PostgreSql => vec![format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name)],
            Flavour::MariaDb | Flavour::MySql => vec![format!("DROP DATABASE IF EXISTS {}", self.name)],
            Flavour::Sqlite => Vec::new(),
        }
    }
}
