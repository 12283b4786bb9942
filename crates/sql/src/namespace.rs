//! A place of its own for the tables of a run, so that nobody's tables are touched.

use crate::Flavour;
use isolde_sqltext::ast::Statement;
use isolde_sqltext::parse;

/// A schema of PostgreSQL, a database of MySQL; in SQLite the file itself, and tables that are already there are an error.
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

    /// Statements that make it anew. A file of SQLite stays as it is: it may be somebody's.
    pub fn clear(&self) -> Vec<String> {
        match self.flavour {
            Flavour::Sqlite => Vec::new(),
            _ => [self.remove(), self.create()].concat(),
        }
    }

    /// Statements that take back what these ones created, where there is no place of its own to remove.
    pub fn undo(&self, statements: &[String]) -> Vec<String> {
        if self.flavour != Flavour::Sqlite {
            return Vec::new();
        }
        let dropping = |statement: &String| match parse(self.flavour.dialect(), statement) {
            Ok(Statement::CreateTable(table)) => Some(format!("DROP TABLE {}", table.name)),
            Ok(Statement::CreateView(view)) => Some(format!("DROP VIEW {}", view.name)),
            _ => None,
        };
        statements.iter().rev().filter_map(dropping).collect()
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
