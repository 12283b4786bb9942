//! The database under test: a URL, a throw-away server, or SQLite in a folder of its own.

use super::Where;
use crate::cli::Global;
use crate::exit::Failure;
use crate::terminal;
use isolde_driver::server::{Server, Setup};
use isolde_driver::{Database, Family, Isolation, Product, Target};
use isolde_sql::Flavour;
use isolde_sql::campaign::Subject;
use isolde_sql::namespace::Namespace;
use std::path::PathBuf;

/// Everything that has to live as long as the run.
pub struct Opened {
    target: Target,
    pub product: Product,
    pub flavour: Flavour,
    namespace: Namespace,
    // In this order: the server goes before its folder.
    _server: Option<Server>,
    _scratch: Option<Scratch>,
}

/// A folder that is removed in the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody needs it, and nobody could do anything about it.
        _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Opened {
    /// Finds the database, or starts it.
    pub fn open(place: &Where, global: &Global) -> Result<Opened, Failure> {
        let mut server = None;
        let mut scratch = None;
        let from_environment = || std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty());
        let target: Target = match (place.throwaway, place.url.clone().or_else(from_environment)) {
            (Some(engine), _) => {
                if !global.quiet {
                    terminal::tell(&format!("starting a throw-away {}", engine.name()));
                }
                let started = Server::start(engine, &Setup::default()).map_err(Failure::input)?;
                let target = started.target(0).clone();
                server = Some(started);
                target
            }
            (None, Some(url)) => url.parse().map_err(Failure::input)?,
            (None, None) => {
                let folder = std::env::temp_dir().join(format!("isolde-sql-{}", std::process::id()));
                std::fs::create_dir_all(&folder).map_err(|e| Failure::io(&folder, e))?;
                let path =
                    folder.join("sql.db").display().to_string().replace('%', "%25").replace('?', "%3F");
                scratch = Some(Scratch(folder));
                format!("sqlite:{path}?synchronous=off").parse().map_err(Failure::input)?
            }
        };
        // SQLite waits for nobody: a busy database is an answer.
        let target = match target.family() {
            Family::Sqlite => target.with_statement_timeout(std::time::Duration::from_millis(200)),
            _ => target,
        };
        let product = target.product().map_err(Failure::input)?;
        let natural = match (product.family, product.name.as_str()) {
            (Family::Postgres, _) => Flavour::PostgreSql,
            (Family::Mysql, "MariaDB") => Flavour::MariaDb,
            (Family::Mysql, _) => Flavour::MySql,
            (Family::Sqlite, _) => Flavour::Sqlite,
        };
        let flavour = place.dialect.unwrap_or(natural);
        if flavour.dialect() != natural.dialect() {
            return Err(Failure::input(format_args!("{product} does not speak {flavour}'s SQL")));
        }
        let namespace = Namespace::new(flavour, "isolde_sql");
        Ok(Opened { target, product, flavour, namespace, _server: server, _scratch: scratch })
    }

    /// The isolation levels that were asked for.
    pub fn isolations(&self, place: &Where) -> Result<Vec<Isolation>, Failure> {
        if place.isolation.eq_ignore_ascii_case("all") {
            return Ok(self.product.isolations());
        }
        match self.product.isolation(&place.isolation) {
            Some(isolation) => Ok(vec![isolation]),
            None => {
                let all = self.product.isolations();
                let names: Vec<&str> = all.iter().map(Isolation::name).collect();
                Err(Failure::input(format_args!(
                    "{} has no isolation level {:?}\n  help: there are {}",
                    self.product,
                    place.isolation,
                    names.join(", ")
                )))
            }
        }
    }

    /// The database as the tester needs it.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            database: &self.target,
            flavour: self.flavour,
            product: self.product.name.clone(),
            namespace: self.namespace.clone(),
        }
    }

    /// Where the database is, without passwords.
    pub fn address(&self) -> String {
        self.target.to_string()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // The database may be gone; then so is what was made in it.
        if let Ok(mut session) = self.target.connect() {
            for statement in self.namespace.remove() {
                _ = session.run(&statement);
            }
        }
    }
}
