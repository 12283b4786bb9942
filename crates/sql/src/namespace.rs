//! A place of its own for the tables of a run, so that nobody's tables are touched.

use crate::Flavour;
use crate::schema::Schema;

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

    /// Statements that empty it before tables are made.
    pub fn clear(&self, schema: &Schema) -> Vec<String> {
        match self.flavour {
            Flavour::Sqlite => schema.drop(),
            _ => [self.remove(), self.create()].concat(),
        }
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
