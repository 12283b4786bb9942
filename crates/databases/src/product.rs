//! Which database it is, and the isolation levels it has under its own names.

use std::fmt;

/// The family of SQL and of protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// PostgreSQL and what speaks its protocol.
    Postgres,
    /// MySQL, MariaDB and what speaks their protocol.
    Mysql,
    /// SQLite.
    Sqlite,
}

/// A database product with its version, as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// Whose SQL and protocol it speaks.
    pub family: Family,
    /// `PostgreSQL`, `MariaDB`, `MySQL`, `SQLite`.
    pub name: String,
    /// The version, as the server says it.
    pub version: String,
    /// Whether `innodb_snapshot_isolation` can be set (MariaDB 10.6.18, 10.11.8, 11.4.2 and later).
    pub(crate) snapshot_switch: bool,
}

impl Product {
    /// A product without peculiarities.
    pub fn new(family: Family, name: impl Into<String>, version: impl Into<String>) -> Product {
        Product { family, name: name.into(), version: version.into(), snapshot_switch: false }
    }

    /// The placeholder of the parameter with this number, from 1: `$1` or `?`.
    pub fn placeholder(&self, number: usize) -> String {
        match self.family {
            Family::Postgres => format!("${number}"),
            Family::Mysql | Family::Sqlite => "?".to_owned(),
        }
    }

    /// The isolation levels, weakest first. Levels that a database only takes for another one are left out:
    /// PostgreSQL's READ UNCOMMITTED is its READ COMMITTED.
    pub fn isolations(&self) -> Vec<Isolation> {
        let plain = |name: &str, setup: String, begin: &str| Isolation {
            name: name.to_owned(),
            setup,
            begin: begin.to_owned(),
        };
        match self.family {
            Family::Postgres => ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
                .map(|name| plain(name, String::new(), &format!("BEGIN ISOLATION LEVEL {name}")))
                .to_vec(),
            Family::Sqlite => ["DEFERRED", "IMMEDIATE", "EXCLUSIVE"]
                .map(|name| plain(name, String::new(), &format!("BEGIN {name}")))
                .to_vec(),
            Family::Mysql => {
                let switch = |on: &str| match self.snapshot_switch {
                    true => format!("; SET SESSION innodb_snapshot_isolation = {on}"),
                    false => String::new(),
                };
                let level = |name: &str, of: &str, on: &str| {
                    let setup = format!("SET SESSION TRANSACTION ISOLATION LEVEL {of}{}", switch(on));
                    plain(name, setup, "START TRANSACTION")
                };
                let mut levels = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ"]
                    .map(|name| level(name, name, "OFF"))
                    .to_vec();
                if self.snapshot_switch {
                    let name = "REPEATABLE READ with innodb_snapshot_isolation";
                    levels.push(level(name, "REPEATABLE READ", "ON"));
                }
                levels.push(level("SERIALIZABLE", "SERIALIZABLE", "OFF"));
                levels
            }
        }
    }

    /// The level with this name; case, hyphens and underscores do not matter.
    pub fn isolation(&self, name: &str) -> Option<Isolation> {
        let folded = |name: &str| name.to_ascii_lowercase().replace(['-', '_'], " ");
        let levels = self.isolations().into_iter();
        levels.chain(self.aliases()).find(|level| folded(&level.name) == folded(name))
    }

    /// Names that are accepted, but not a level of their own.
    fn aliases(&self) -> Option<Isolation> {
        let (name, begin) = match self.family {
            Family::Postgres => ("READ UNCOMMITTED", "BEGIN ISOLATION LEVEL READ UNCOMMITTED"),
            Family::Sqlite => ("SERIALIZABLE", "BEGIN"),
            Family::Mysql => return None,
        };
        Some(Isolation { name: name.to_owned(), setup: String::new(), begin: begin.to_owned() })
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// An isolation level of a database, by its own name, with the statements that begin a transaction at it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Isolation {
    name: String,
    /// Run when the session was last used at another level.
    setup: String,
    begin: String,
}

impl Isolation {
    /// A level for a database that is not in the list: `setup` is run when a session changes to it, `begin`
    /// each time.
    pub fn new(name: impl Into<String>, setup: impl Into<String>, begin: impl Into<String>) -> Isolation {
        Isolation { name: name.into(), setup: setup.into(), begin: begin.into() }
    }

    /// The database's own name for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What prepares the session; may be empty.
    pub fn setup(&self) -> &str {
        &self.setup
    }

    /// What begins the transaction.
    pub fn begin(&self) -> &str {
        &self.begin
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
