//! The database under test: a URL, a throw-away server, or SQLite in a folder of its own.

use super::Where;
use crate::cli::Global;
use crate::commands::database::claim::in_force;
use crate::commands::database::{self, Scratch, unreached};
use crate::exit::Failure;
use crate::interrupt;
use anomalist_databases::{Database, Family, Isolation, Product, Target, Value};
use anomalist_lab::server::Server;
use anomalist_sql::Flavour;
use anomalist_sql::campaign::Subject;
use anomalist_sql::lease::{self, Lease};
use anomalist_sql::namespace::Namespace;

/// Everything that has to live as long as the run.
pub struct Opened {
    /// Given back after the tables are removed.
    lease: Option<Lease>,
    target: Target,
    pub product: Product,
    pub flavour: Flavour,
    namespace: Namespace,
    // In this order: the server goes before its folder.
    _server: Option<Server>,
    _scratch: Option<Scratch>,
}

impl Opened {
    /// Finds the database, or starts it.
    pub fn open(place: &Where, global: &Global) -> Result<Opened, Failure> {
        let (mut server, mut scratch) = (None, None);
        let target = match place.throwaway {
            Some(engine) => server.insert(database::start(engine, global)?).target(0).clone(),
            None => match database::named(place.url.as_ref(), global) {
                Some(url) => database::target(&url, "postgres://…, mysql://… or sqlite:FILE")?,
                None => scratch.insert(Scratch::new("sql")?).sqlite("?synchronous=off")?,
            },
        };
        // SQLite does not wait: a busy database is an answer.
        let target = match target.family() {
            Family::Sqlite => target.with_statement_timeout(std::time::Duration::from_millis(200)),
            _ => target,
        };
        let product = target.product().map_err(|e| unreached(&target, &e))?;
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
        let namespace = Namespace::unused(flavour);
        // A server without such locks keeps what killed runs leave.
        let lease = lease::take(target.clone(), &namespace).ok().flatten();
        Ok(Opened { lease, target, product, flavour, namespace, _server: server, _scratch: scratch })
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

    /// The level in force when a transaction was begun at this one, as the server tells it.
    pub fn in_force(&self, isolation: &Isolation) -> Result<Option<String>, Failure> {
        let asked = self.target.connect().and_then(|mut session| in_force(&mut *session, isolation));
        asked.map_err(|error| unreached(&self.target, &error))
    }

    /// The level of a client that says nothing, as the server has it.
    pub fn default_isolation(&self) -> Result<Isolation, Failure> {
        let fail = |e: &dyn std::fmt::Display| Failure::input(format_args!("{}: {e}", self.product));
        let mut session = self.target.connect().map_err(|e| fail(&e))?;
        let mut ask = |question: &str| session.query(question, &[]).ok().and_then(|r| r.value().cloned());
        let name = match self.product.family {
            Family::Postgres => ask("SHOW default_transaction_isolation"),
            Family::Mysql => ask("SELECT @@transaction_isolation").or_else(|| ask("SELECT @@tx_isolation")),
            Family::Sqlite => Some(Value::Text("DEFERRED".to_owned())),
        };
        let switched = self.product.family == Family::Mysql
            && ask("SELECT @@innodb_snapshot_isolation").and_then(|v| v.as_int()) == Some(1);
        let Some(Value::Text(name)) = name else {
            return Err(fail(&"it does not report its isolation level"));
        };
        let snapshot = self.product.isolation(&format!("{name} with innodb_snapshot_isolation"));
        let found = snapshot.filter(|_| switched).or_else(|| self.product.isolation(&name));
        found.ok_or_else(|| fail(&format_args!("no isolation level {name:?}")))
    }

    /// The database as the tester needs it.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            database: &self.target,
            flavour: self.flavour,
            product: self.product.name.clone(),
            namespace: self.namespace.clone(),
            stop: &interrupt::is_requested,
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
        drop(self.lease.take());
    }
}
