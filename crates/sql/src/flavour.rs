//! The databases that are distinguished: what a dialect of SQL leaves open and instrumentation has to know.

use anomalist_sqltext::Dialect;
use std::fmt;
use std::str::FromStr;

/// A database as far as its SQL is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Flavour {
    /// PostgreSQL, CockroachDB, YugabyteDB.
    PostgreSql,
    /// MariaDB: MySQL's SQL, and `RETURNING` after `INSERT`, `REPLACE` and `DELETE`.
    MariaDb,
    /// MySQL, TiDB: nothing returns rows but queries.
    MySql,
    /// SQLite.
    Sqlite,
}

/// A name that no flavour has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no SQL dialect is called {0:?}; there are postgres, mariadb, mysql, sqlite, cockroachdb, yugabytedb, tidb"
)]
pub struct UnknownFlavour(String);

impl FromStr for Flavour {
    type Err = UnknownFlavour;

    fn from_str(name: &str) -> Result<Flavour, UnknownFlavour> {
        match name.to_ascii_lowercase().as_str() {
            "postgres" | "postgresql" | "cockroachdb" | "cockroach" | "yugabytedb" | "yugabyte" => {
                Ok(Flavour::PostgreSql)
            }
            "mariadb" | "galera" => Ok(Flavour::MariaDb),
            "mysql" | "tidb" => Ok(Flavour::MySql),
            "sqlite" => Ok(Flavour::Sqlite),
            _ => Err(UnknownFlavour(name.to_owned())),
        }
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flavour::PostgreSql => "postgres",
            Flavour::MariaDb => "mariadb",
            Flavour::MySql => "mysql",
            Flavour::Sqlite => "sqlite",
        })
    }
}

impl Flavour {
    /// The dialect it is parsed and printed in.
    pub fn dialect(self) -> Dialect {
        match self {
            Flavour::PostgreSql => Dialect::PostgreSql,
            Flavour::MariaDb | Flavour::MySql => Dialect::MySql,
            Flavour::Sqlite => Dialect::Sqlite,
        }
    }

    /// Whether it is MySQL or its kin.
    pub fn is_mysql(self) -> bool {
        self.dialect() == Dialect::MySql
    }

    /// Whether `UPDATE … RETURNING` shows what was written.
    pub fn update_returns(self) -> bool {
        matches!(self, Flavour::PostgreSql | Flavour::Sqlite)
    }

    /// Whether `INSERT`, `REPLACE` and `DELETE` can have `RETURNING`.
    pub fn returns(self) -> bool {
        self != Flavour::MySql
    }

    /// How it is known which rows were deleted. `RETURNING` takes no lock of its own.
    pub fn deletions_are_told_by(self) -> &'static str {
        match self {
            Flavour::PostgreSql => "RETURNING",
            Flavour::MariaDb => "RETURNING; REPLACE: a locking SELECT by its keys before it",
            Flavour::MySql => "a locking SELECT before DELETE and REPLACE",
            Flavour::Sqlite => "RETURNING; REPLACE: a SELECT by its keys before it",
        }
    }

    /// Whether queries can lock rows: SQLite has no `FOR UPDATE`, because a writer has the database for
    /// itself.
    pub fn locks_rows(self) -> bool {
        self != Flavour::Sqlite
    }
}
