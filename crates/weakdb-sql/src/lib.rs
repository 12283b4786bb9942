//! SQL over the store.
//!
//! A [`Database`] is a store with tables; a [`Session`] of it takes statements in the SQL of PostgreSQL or
//! MySQL and answers with rows, or with the error that those databases would give. SQLite executes, over
//! tables whose every cell is a key of the store (`engine.rs`); everything else here is about being taken
//! for the real thing.
//!
//! ```
//! use anomalist_level::Level;
//! use anomalist_sqltext::Dialect;
//! use anomalist_weakdb_sql::Database;
//! use anomalist_weakdb::{Options, Store, Value};
//!
//! let database = Database::new(Store::new(Options::new(Level::Causal))?);
//! let mut alice = database.session(Dialect::PostgreSql, "alice")?;
//! alice.execute("CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)", &[])?;
//! alice.execute("INSERT INTO account VALUES (1, 100), (2, 50)", &[])?;
//! let found = alice.execute("SELECT sum(balance) FROM account WHERE id < $1", &[Value::Int(3)])?;
//! assert_eq!(found.rows, [[Value::Int(150)]]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod absent;
mod access;
pub(crate) mod arrays;
mod bounds;
mod calls;
mod catalogue;
mod changes;
mod constraints;
mod control;
mod cursor;
mod ddl;
mod decimal;
mod declared;
mod describe;
mod engine;
mod error;
mod exact;
mod expressions;
mod functions;
mod infer;
mod interval;
mod kill;
mod names;
mod operators;
mod parameters;
mod pattern;
mod plan;
mod rewrite;
mod rows;
mod scopes;
mod session;
mod sets;
mod settings;
mod show;
mod system;
pub(crate) mod time;
mod trees;
mod types;
pub mod wire;
mod write;

pub use arrays::Element;
pub use bounds::Limits;
pub use error::{Code, SqlError};
pub use names::ResultColumn;
pub use plan::Prepared;
pub use session::{Outcome, Session, Status};
pub use types::Type;

use anomalist_sqltext::Dialect;
use anomalist_weakdb::{Options, Store};
use bounds::{Meter, Running};
use catalogue::Catalogue;
use engine::Shared;
use pattern::Patterns;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How constraints (keys, unique, foreign) find out about other transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Constraints {
    /// By reads of the level, as in the paper: what a transaction does not see, it may insert again.
    #[default]
    Weak,
    /// By current reads that are confirmed at commit, as in databases whose indexes know no isolation.
    Strict,
}

/// A store with tables.
pub struct Database {
    store: Arc<Store>,
    catalogue: Arc<Catalogue>,
    constraints: Constraints,
    connections: AtomicU32,
    limits: Limits,
    /// What is kept for all sessions.
    meter: Arc<Meter>,
    running: Arc<Running>,
    /// How many databases it continues: what was random there is not to be repeated.
    restarts: u32,
}

impl Database {
    /// A database without tables.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        Self::with_constraints(store, Constraints::default())
    }

    /// A database without tables whose constraints are checked so.
    #[must_use]
    pub fn with_constraints(store: Arc<Store>, constraints: Constraints) -> Self {
        let limits = Limits::default();
        Self {
            store,
            catalogue: Arc::default(),
            constraints,
            connections: AtomicU32::new(0),
            limits,
            meter: Meter::of_all(limits.all),
            running: Arc::default(),
            restarts: 0,
        }
    }

    /// With other limits of what clients may take.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.meter = Meter::of_all(limits.all);
        self
    }

    /// What clients may take.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Ends the statement that a connection runs, if the secret is that of the connection.
    pub(crate) fn cancel(&self, connection: u32, secret: u32) {
        if let Some(stop) = self.running.find(connection).filter(|stop| stop.names().1 == secret) {
            stop.cancel();
        }
    }

    /// Ends all statements that run, and their connections.
    pub(crate) fn kill_all(&self) {
        self.running.all().iter().for_each(|stop| stop.kill());
    }

    /// A new database with the same tables, in which what committed last here is the initial state: for
    /// many runs after one setup.
    ///
    /// # Errors
    /// If the store does not know the level.
    pub fn restart(&self, options: Options) -> Result<Self, anomalist_weakdb::Error> {
        let state = self.store.snapshot();
        let initial = state.iter().map(|(key, value)| (&**key, value.clone()));
        let store = Store::with_initial(options, initial)?;
        let catalogue = Arc::new(self.catalogue.copy());
        Ok(Self {
            store,
            catalogue,
            constraints: self.constraints,
            connections: AtomicU32::new(0),
            limits: self.limits,
            meter: Meter::of_all(self.limits.all),
            running: Arc::default(),
            restarts: self.restarts + 1,
        })
    }

    /// Randomness of a session's own.
    fn random(&self, session: u32) -> fastrand::Rng {
        let parts = [u64::from(self.restarts), u64::from(session)];
        let mix = |state: u64, part: u64| {
            fastrand::Rng::with_seed(state ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..)
        };
        fastrand::Rng::with_seed(parts.into_iter().fold(self.store.options().seed, mix))
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// A session that speaks this dialect. The name tells it apart in a recorded history.
    ///
    /// # Errors
    /// If SQLite cannot be started.
    pub fn session(&self, dialect: Dialect, name: &str) -> Result<Session, SqlError> {
        let connection = self.connections.fetch_add(1, Ordering::SeqCst) + 1;
        let store = self.store.session(name);
        let shared = Shared {
            patterns: Patterns::default(),
            random: self.random(store.number()),
            store,
            catalogue: self.catalogue.clone(),
            tables: FxHashMap::default(),
            current: false,
            failure: None,
            variables: BTreeMap::new(),
            last_id: 0,
            last_count: 0,
            now: time::now(),
            connection,
            database: "weakdb".into(),
            user: if dialect == Dialect::PostgreSql { "postgres".into() } else { "root".into() },
            dialect,
            strict: self.constraints == Constraints::Strict,
            limits: self.limits,
            meter: Meter::of_session(self.limits.session, &self.meter),
            stop: self.running.add(connection),
            running: self.running.clone(),
        };
        Session::new(shared)
    }
}
