//! A place of its own for the tables of a run, so that no other tables are touched.

use crate::Flavour;
use anomalist_databases::{Connection, Error, Kind, Value};
use anomalist_sqltext::ast::{ObjectName, ObjectNamePart, Statement};
use anomalist_sqltext::parse;

/// A schema of PostgreSQL, a database of MySQL; in SQLite the file itself, and tables that are already
/// there are an error.
#[derive(Clone, Debug)]
pub struct Namespace {
    flavour: Flavour,
    name: String,
}

impl Namespace {
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

    /// Refuses statements that would create what is there already. It belongs to the user, and would be
    /// dropped in the end.
    pub(crate) fn refuse_existing(
        &self,
        connection: &mut dyn Connection,
        statements: &[&str],
    ) -> Result<(), Error> {
        for (kind, name) in self.created(statements) {
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
        self.created(statements).into_iter().map(dropped).collect()
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
