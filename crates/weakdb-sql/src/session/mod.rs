//! A client's session: statements one after another, transactions, settings.
//!
//! The store's transaction begins with the first statement that reads or writes a table, or the first
//! savepoint, not with BEGIN, so that an idle client does not stand in the way of others. Inside a block an
//! error spoils the transaction in PostgreSQL, and undoes only the statement in MySQL; a serialization
//! failure ends it in both.

mod data;
mod outcome;

pub use outcome::Outcome;
pub(crate) use outcome::tagged;

use crate::bounds::{self, Charge, Stop};
use crate::catalogue::Catalogue;
use crate::cursor::Cursors;
use crate::ddl::Definer;
use crate::engine::{Engine, Shared};
use crate::error::{Code, SqlError};
use crate::names::ResultColumn;
use crate::plan::{Plan, Planner, Prepared};
use crate::{rows, settings, show, system, time};
use anomalist_sqltext::{Control, Dialect, Lexed, Setting};
use anomalist_weakdb::{Mark, Value};
use outcome::found;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Duration;

/// Where the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// In no transaction.
    Idle,
    /// In one.
    Open,
    /// In one that has failed.
    Failed,
}

/// How many plans a session keeps.
const PLANS: usize = 512;

/// A session.
pub struct Session {
    pub(crate) engine: Engine,
    catalogue: Arc<Catalogue>,
    pub(crate) dialect: Dialect,
    pub(crate) strict: bool,
    pub(crate) autocommit: bool,
    /// Inside BEGIN … COMMIT.
    pub(crate) explicit: bool,
    /// Inside several statements sent as one.
    pub(crate) block: bool,
    pub(crate) failed: bool,
    /// READ ONLY, for this transaction and for all.
    pub(crate) read_only: (bool, bool),
    pub(crate) savepoints: Vec<(String, Mark)>,
    pub(crate) cursors: Cursors,
    /// What SET LOCAL has replaced in this transaction.
    pub(crate) replaced: Vec<Setting>,
    plans: FxHashMap<Arc<str>, (u64, Arc<Prepared>)>,
    /// The version of the catalogue that the catalogue tables are of.
    system: Option<u64>,
}

impl Session {
    pub(crate) fn new(shared: Shared) -> Result<Self, SqlError> {
        let (catalogue, dialect, strict) = (shared.catalogue.clone(), shared.dialect, shared.strict);
        Ok(Self {
            engine: Engine::new(shared)?,
            catalogue,
            dialect,
            strict,
            autocommit: true,
            explicit: false,
            block: false,
            failed: false,
            read_only: (false, false),
            savepoints: Vec::new(),
            cursors: Cursors::default(),
            replaced: Vec::new(),
            plans: FxHashMap::default(),
            system: None,
        })
    }

    /// Where the session is.
    #[must_use]
    pub fn status(&self) -> Status {
        match (self.failed, self.explicit || self.engine.shared().store.in_transaction()) {
            (true, _) => Status::Failed,
            (false, true) => Status::Open,
            (false, false) => Status::Idle,
        }
    }

    /// Whether each statement is a transaction of its own outside of BEGIN.
    #[must_use]
    pub fn autocommit(&self) -> bool {
        self.autocommit
    }

    /// Whose SQL it speaks.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Ends its statements.
    pub(crate) fn stop(&self) -> Arc<Stop> {
        self.engine.shared().stop.clone()
    }

    /// For what is kept for its client.
    pub(crate) fn charge(&self) -> Charge {
        Charge::new(&self.engine.shared().meter)
    }

    /// How long its client may ask for nothing now.
    pub(crate) fn patience(&self) -> Duration {
        let open = self.status() != Status::Idle;
        settings::patience(&self.engine.shared(), open)
    }

    /// The number of the connection.
    #[must_use]
    pub fn connection(&self) -> u32 {
        self.engine.shared().connection
    }

    /// The columns of a cursor, if there is one of this name.
    #[must_use]
    pub fn cursor_columns(&self, name: &str) -> Option<&[ResultColumn]> {
        self.cursors.columns(name)
    }

    /// The value of a variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        settings::show(&self.engine.shared(), name)
    }

    /// Changes the name of the database.
    pub fn set_database(&mut self, name: &str) {
        name.clone_into(&mut self.engine.shared().database);
    }

    /// Back to the state of a new session: an open transaction is rolled back, settings are forgotten.
    pub fn reset(&mut self) {
        self.end_block();
        self.cursors.clear();
        self.autocommit = true;
        self.read_only = (false, false);
        let mut shared = self.engine.shared();
        let latest = shared.store.store().options().latest;
        shared.store.set_latest(latest);
        shared.variables.clear();
        self.strict = shared.strict;
    }

    /// Plans a statement, or finds its plan.
    ///
    /// # Errors
    /// If it cannot be understood, or names what does not exist.
    pub fn prepare(&mut self, text: &str) -> Result<Arc<Prepared>, SqlError> {
        self.prepare_lexed(text, None)
    }

    /// The same, of a statement that has been through the lexer if it is given.
    fn prepare_lexed(&mut self, text: &str, lexed: Option<&Lexed<'_>>) -> Result<Arc<Prepared>, SqlError> {
        let version = self.catalogue.version();
        if let Some((of, prepared)) = self.plans.get(text)
            && *of == version
        {
            return Ok(prepared.clone());
        }
        bounds::check_length(text, self.engine.limits())?;
        let planner = Planner { catalogue: &self.catalogue, dialect: self.dialect };
        let own;
        let lexed = match lexed {
            Some(lexed) => lexed,
            None => {
                own = Lexed::new(self.dialect, text);
                &own
            }
        };
        bounds::check_parts(lexed)?;
        let mut prepared = planner.plan(lexed)?;
        if let Plan::Cursor(cursor) = &prepared.plan {
            // What it returns is known only of the cursor that has the name now.
            let columns = cursor.fetched().and_then(|name| self.cursors.columns(name));
            prepared.columns = columns.unwrap_or_default().to_vec();
            return Ok(Arc::new(prepared));
        }
        let prepared = Arc::new(prepared);
        if text.len() <= 1 << 14 {
            if self.plans.len() >= PLANS {
                self.plans.clear();
            }
            self.plans.insert(text.into(), (version, prepared.clone()));
        }
        Ok(prepared)
    }

    /// Runs one statement with parameters.
    ///
    /// # Errors
    /// As the database would: see [`Code`].
    pub fn execute(&mut self, text: &str, params: &[Value]) -> Result<Outcome, SqlError> {
        let prepared = self.plan(text)?;
        self.run(&prepared, params)
    }

    /// Runs one statement without parameters.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub fn execute_lexed(&mut self, statement: &Lexed<'_>) -> Result<Outcome, SqlError> {
        let prepared = self.prepare_lexed(statement.text(), Some(statement));
        let prepared = self.planned(prepared)?;
        self.run(&prepared, &[])
    }

    /// Plans a statement as a step of its own: an error is an error of the transaction.
    ///
    /// # Errors
    /// As [`Session::prepare`]; in a transaction that has failed, everything but its end is refused.
    pub fn plan(&mut self, text: &str) -> Result<Arc<Prepared>, SqlError> {
        let prepared = self.prepare(text);
        self.planned(prepared)
    }

    fn planned(&mut self, prepared: Result<Arc<Prepared>, SqlError>) -> Result<Arc<Prepared>, SqlError> {
        match prepared {
            Ok(prepared) if self.failed && !ends(&prepared.plan) => Err(in_failed()),
            Ok(prepared) => Ok(prepared),
            Err(_) if self.failed => Err(in_failed()),
            Err(error) => {
                self.spoil();
                Err(error)
            }
        }
    }

    /// Runs a script: statements between semicolons, up to the first error. PostgreSQL makes them one
    /// transaction.
    pub fn script(&mut self, text: &str) -> Vec<Result<Outcome, SqlError>> {
        let dialect = self.dialect;
        let pieces = Lexed::script(dialect, text);
        self.block = dialect == Dialect::PostgreSql && pieces.len() > 1;
        let mut outcomes = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let outcome = self.execute_lexed(&piece);
            let stop = outcome.is_err();
            outcomes.push(outcome);
            if stop {
                break;
            }
        }
        if self.block {
            self.block = false;
            let failed = outcomes.last().is_some_and(Result::is_err);
            if !self.explicit && self.engine.shared().store.in_transaction() {
                if failed {
                    self.end_block();
                } else if let Err(error) = self.commit() {
                    outcomes.pop();
                    outcomes.push(Err(error));
                }
            } else if !self.explicit {
                self.failed = false;
            }
        }
        outcomes
    }

    /// Runs a statement that is planned.
    ///
    /// # Errors
    /// As the database would: see [`Code`].
    pub fn run(&mut self, prepared: &Prepared, params: &[Value]) -> Result<Outcome, SqlError> {
        if self.failed && !ends(&prepared.plan) {
            return Err(in_failed());
        }
        let (stop, time) = {
            let shared = self.engine.shared();
            (shared.stop.clone(), settings::statement_time(&shared, prepared.plan.reads()))
        };
        let whole = stop.begin(time);
        let mut outcome = self.dispatch(prepared, params);
        if whole {
            stop.end();
            let charge = self.engine.take_charge();
            if let Ok(outcome) = &mut outcome {
                outcome.charge = Some(Arc::new(charge));
            }
        }
        if outcome.is_err() {
            self.spoil();
        }
        outcome
    }

    /// After an error: PostgreSQL's transaction has failed, if there is one.
    fn spoil(&mut self) {
        if self.dialect == Dialect::PostgreSql && (self.explicit || self.block) {
            self.failed = true;
        }
    }

    pub(crate) fn dispatch(&mut self, prepared: &Prepared, params: &[Value]) -> Result<Outcome, SqlError> {
        match &prepared.plan {
            Plan::Empty => Ok(Outcome::default()),
            Plan::Control(control) => self.control(control),
            Plan::Set(settings, tag) => {
                if *tag == "DISCARD ALL" {
                    self.cursors.clear();
                }
                self.set(settings).map(|()| tagged(*tag))
            }
            Plan::Ignore(tag) => Ok(tagged(*tag)),
            Plan::Kill(kill) => self.kill(*kill),
            Plan::Cursor(plan) => self.cursor(plan, params),
            Plan::Show(statement) => {
                let rows = show::show(statement, &self.catalogue, &self.engine.shared())?;
                Ok(found(prepared, rows, "SHOW"))
            }
            Plan::Define(statement) => {
                if self.dialect == Dialect::MySql {
                    self.commit()?;
                }
                self.refresh("")?;
                let mut definer =
                    Definer { catalogue: &self.catalogue, dialect: self.dialect, engine: &mut self.engine };
                definer.run(statement).map(tagged)
            }
            Plan::Query(query) if query.constant => {
                self.tick();
                self.refresh("")?;
                let params = self.coerced(prepared, params)?;
                let rows = self.engine.query(&query.sql, &params)?;
                Ok(found(prepared, rows, "SELECT"))
            }
            plan => {
                if plan.writes() && (self.read_only.0 || self.read_only.1) {
                    let text = "cannot execute a statement that writes in a read-only transaction";
                    return Err(SqlError::new(Code::ReadOnly, text));
                }
                let params = self.coerced(prepared, params)?;
                self.data(prepared, &params)
            }
        }
    }

    fn tick(&self) {
        let mut shared = self.engine.shared();
        if !shared.store.in_transaction() {
            shared.now = time::now();
        }
    }

    /// Brings SQLite's views up to date, and the catalogue tables if the statement asks for them.
    fn refresh(&mut self, sql: &str) -> Result<(), SqlError> {
        self.engine.refresh(&self.catalogue)?;
        let version = self.catalogue.version();
        if self.system != Some(version) && system::mentions(sql) {
            let statements = rows::statements(&self.catalogue, &self.engine.shared());
            self.engine.batch(&statements)?;
            self.system = Some(version);
        }
        Ok(())
    }

    pub(crate) fn in_block(&self) -> bool {
        self.explicit || self.block || !self.autocommit
    }

    /// Begins the store's transaction unless it is open.
    pub(crate) fn open(&mut self) -> Result<(), SqlError> {
        self.tick();
        let mut shared = self.engine.shared();
        if !shared.store.in_transaction() {
            if self.read_only.0 || self.read_only.1 {
                shared.store.begin_read_only()?;
            } else {
                shared.store.begin()?;
            }
        }
        Ok(())
    }

    /// Commits what is open.
    pub(crate) fn commit(&mut self) -> Result<(), SqlError> {
        self.forget();
        let mut shared = self.engine.shared();
        let committed = if shared.store.in_transaction() { shared.store.commit() } else { Ok(()) };
        match committed {
            Ok(()) => self.cursors.committed(),
            Err(_) => self.cursors.rolled_back(),
        }
        Ok(committed?)
    }

    /// Rolls back what is open, and leaves every block.
    pub(crate) fn end_block(&mut self) {
        (self.explicit, self.block, self.failed) = (false, false, false);
        self.cursors.rolled_back();
        self.forget();
        let mut shared = self.engine.shared();
        if shared.store.in_transaction() {
            let _ = shared.store.rollback();
        }
    }
}

/// What may be done in a transaction that has failed.
fn ends(plan: &Plan) -> bool {
    matches!(
        plan,
        Plan::Control(Control::Commit(_) | Control::Rollback(_) | Control::RollbackTo(_)) | Plan::Empty
    )
}

fn in_failed() -> SqlError {
    let text = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(Code::InFailed, text)
}
