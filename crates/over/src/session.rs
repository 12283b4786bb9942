//! One client's session: what is done before and after each of its requests.
//!
//! - A plain read: the store chooses, the choice becomes a setting of the session, and the search path has
//!   the schemas of views first, until something else than a plain read comes.
//! - A statement that may write runs on the tables. Outside of a transaction it gets one, because its commit
//!   has to be decided; the client sees nothing of that.
//! - COMMIT: what the transaction has written is fetched from the log and taken in by the store, which
//!   decides. If it refuses, the transaction is rolled back and the client gets SQLSTATE 40001.
//!
//! The server runs every transaction at READ COMMITTED, whatever the client asks for: the level is the
//! store's, and the tables have to show the newest versions.

use crate::install::weak_path;
use crate::reads::{Parameters, Reads};
use crate::shared::Shared;
use crate::statement::{Kind, Reason, Resolved, classify};
use crate::work::{Change, Reading, Savepoint, Work, changes, readings};
use anomalist_proxy::{Interest, Observer, Outcome, Request, Run, RunError, ServerError, Status, Verdict};
use anomalist_sqltext::{Control, Dialect, Kind as TokenKind, Scope, tokens};
use rustc_hash::FxHashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whose transaction is open on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    None,
    Client,
    /// Begun for one statement of the client, or one extended query.
    Own,
}

/// What is known of the client's search path.
struct Path {
    setting: String,
    schemas: Vec<String>,
    /// Its temporary tables.
    temporary: HashSet<String>,
}

/// What a request was found to be, for its end.
#[derive(Clone, Default)]
struct Task {
    kind: Option<Arc<Kind>>,
    /// Read weakly.
    weak: bool,
    /// Tables that it reads as they are.
    told: Vec<Reading>,
}

pub(crate) struct Weakened {
    shared: Arc<Shared>,
    work: Work,
    block: Block,
    /// The open transaction has failed.
    failed: bool,
    path: Option<Path>,
    /// The search path has views first, and the choice is this.
    weak: Option<String>,
    /// The log may have more than the store knows.
    dirty: bool,
    /// The table that these changes were written to without reading it.
    blind: Option<u32>,
    /// The open transaction has changed definitions.
    defined: bool,
    /// New transactions may begin at another level than READ COMMITTED.
    levels: bool,
    sharing: bool,
    closing: bool,
    /// The transaction that COMMIT was sent for.
    doubtful: Option<String>,
    savepoints: Vec<(String, Savepoint)>,
    /// The request at hand.
    task: Task,
    /// By portal.
    portals: FxHashMap<String, Task>,
    kinds: FxHashMap<Arc<str>, Arc<Kind>>,
    types: FxHashMap<Arc<str>, Vec<u32>>,
}

/// The error that a statement of our own met, for the client.
fn shown(error: RunError) -> ServerError {
    match error {
        RunError::Server(error) => error,
        other => ServerError { code: "58000".into(), message: other.to_string() },
    }
}

impl Weakened {
    pub fn new(shared: Arc<Shared>) -> Weakened {
        let number = shared.sessions.fetch_add(1, Ordering::SeqCst) + 1;
        let session = shared.store.session(&format!("c{number}"));
        let work = Work::new(session, shared.highest.load(Ordering::SeqCst));
        Weakened {
            shared,
            work,
            block: Block::None,
            failed: false,
            path: None,
            weak: None,
            dirty: false,
            blind: None,
            defined: false,
            levels: true,
            sharing: false,
            closing: false,
            doubtful: None,
            savepoints: Vec::new(),
            task: Task::default(),
            portals: FxHashMap::default(),
            kinds: FxHashMap::default(),
            types: FxHashMap::default(),
        }
    }

    fn kind(&mut self, text: &Arc<str>) -> Arc<Kind> {
        if let Some(kind) = self.kinds.get(text) {
            return kind.clone();
        }
        let kind = Arc::new(classify(text));
        if self.kinds.len() >= 2000 {
            self.kinds.clear();
        }
        self.kinds.insert(text.clone(), kind.clone());
        kind
    }

    fn share(&mut self) {
        if !self.sharing && !self.closing {
            self.shared.gate.share();
            self.sharing = true;
        }
    }

    fn unshare(&mut self) {
        if std::mem::take(&mut self.sharing) {
            self.shared.gate.unshare();
        }
    }

    fn reopen(&mut self) {
        if std::mem::take(&mut self.closing) {
            self.shared.gate.open();
        }
    }

    /// The client's search path; asks for it if it may have changed.
    fn path(&mut self, server: &mut dyn Run) -> Result<&Path, RunError> {
        if self.path.is_none() {
            let ask = "SELECT current_setting('search_path'), array_to_json(current_schemas(false))::text, \
                       (SELECT json_agg(relname)::text FROM pg_class WHERE relnamespace = pg_my_temp_schema()), \
                       current_setting('default_transaction_isolation')";
            let mut rows = server.run(ask)?;
            let row = rows.pop().unwrap_or_default();
            let mut values = row.into_iter().map(Option::unwrap_or_default);
            let setting = values.next().unwrap_or_default();
            let list = |text: String| serde_json::from_str::<Vec<String>>(&text).unwrap_or_default();
            let schemas = list(values.next().unwrap_or_default());
            let temporary = list(values.next().unwrap_or_default()).into_iter().collect();
            self.levels = values.next().is_none_or(|level| level != "read committed");
            self.path = Some(Path { setting, schemas, temporary });
        }
        self.path.as_ref().ok_or(RunError::OutOfStep)
    }

    /// Tables first again.
    fn leave(&mut self, server: &mut dyn Run) -> Result<(), RunError> {
        if self.weak.take().is_some()
            && let Some(path) = &self.path
        {
            let setting = crate::catalogue::literal(&path.setting);
            let local = self.block != Block::None;
            server.run(&format!("SELECT set_config('search_path', {setting}, {local})"))?;
        }
        Ok(())
    }

    /// Views first, with this choice.
    fn enter(&mut self, choice: &str, local: bool, server: &mut dyn Run) -> Result<(), RunError> {
        if self.weak.as_deref() == Some(choice) {
            return Ok(());
        }
        let catalogue = self.shared.catalogue();
        let mut sql =
            format!("SELECT set_config('anomalist.choice', {}, {local})", crate::catalogue::literal(choice));
        if self.weak.is_none() {
            let schemas = self.path(server)?.schemas.clone();
            let path = weak_path(&schemas, |s| catalogue.weak_schemas.contains(s));
            sql.push_str(&format!(
                ", set_config('search_path', {}, {local})",
                crate::catalogue::literal(&path)
            ));
        }
        server.run(&sql)?;
        self.weak = Some(choice.to_owned());
        Ok(())
    }

    /// What of the log the store does not know yet.
    fn fetch(&mut self, server: &mut dyn Run) -> Result<Vec<Change>, RunError> {
        if !self.dirty {
            return Ok(Vec::new());
        }
        let ask = format!("SELECT * FROM anomalist_versions.written({})", self.work.last);
        let found = changes(server.run(&ask)?);
        self.dirty = false;
        Ok(found)
    }

    /// Takes in what the open transaction has written so far.
    fn sync(&mut self, server: &mut dyn Run) -> Result<(), RunError> {
        let found = self.fetch(server)?;
        if !found.is_empty() {
            let catalogue = self.shared.catalogue();
            self.share();
            self.work.take(&catalogue, &found, self.blind);
            self.unshare();
        }
        Ok(())
    }

    fn resolve(&mut self, reads: &Reads, server: &mut dyn Run) -> Result<Resolved, RunError> {
        let catalogue = self.shared.catalogue();
        let path = self.path(server)?;
        Ok(reads.resolve(&catalogue, &path.schemas, &path.temporary))
    }

    /// Reads weakly, or says why not.
    fn read(
        &mut self,
        text: &str,
        resolved: &Resolved,
        parameters: &Parameters<'_>,
        extended: bool,
        server: &mut dyn Run,
    ) -> Result<Option<Reason>, RunError> {
        let obstacle = resolved.obstacle.or(match () {
            () if self.defined => Some(Reason::Definitions),
            () if self.portals.values().any(|task| task.weak) => Some(Reason::Portal),
            () if !self.suits(text, parameters.types, server)? => Some(Reason::Shape),
            () => None,
        });
        if obstacle.is_some() {
            return Ok(obstacle);
        }
        self.sync(server)?;
        self.work.begin();
        self.work.statement(text);
        self.share();
        let choice = self.work.choose(&self.shared, &readings(&resolved.tables, parameters));
        let local = self.block != Block::None || extended;
        self.enter(&choice, local, server)?;
        Ok(None)
    }

    /// Whether views will do for a text.
    fn suits(&mut self, text: &str, types: &[u32], server: &mut dyn Run) -> Result<bool, RunError> {
        let mut pattern = String::new();
        for token in tokens(Dialect::PostgreSql, text) {
            pattern.push_str(match token.kind {
                TokenKind::Text => "''",
                TokenKind::Number => "0",
                _ => token.text,
            });
            pattern.push(' ');
        }
        let shared = self.shared.clone();
        let catalogue = shared.catalogue();
        let schemas = &self.path(server)?.schemas;
        let path = weak_path(schemas, |s| catalogue.weak_schemas.contains(s));
        Ok(shared.suits_views(&pattern, text.trim_end().trim_end_matches(';'), types, &path))
    }

    /// A transaction is open on the server, and in the store.
    fn open(&mut self, server: &mut dyn Run) -> Result<(), RunError> {
        if self.block == Block::None {
            server.run("BEGIN ISOLATION LEVEL READ COMMITTED")?;
            self.block = Block::Own;
        }
        self.work.begin();
        Ok(())
    }

    /// Before a statement reaches the server.
    fn before(
        &mut self,
        text: &Arc<str>,
        parameters: &Parameters<'_>,
        extended: bool,
        server: &mut dyn Run,
    ) -> Result<Verdict, RunError> {
        let kind = self.kind(text);
        self.task = Task { kind: Some(kind.clone()), ..Task::default() };
        if self.failed {
            return Ok(Verdict::Pass);
        }
        if self.block == Block::None {
            self.shared.renew();
        }
        match &*kind {
            Kind::Read(reads) => {
                let resolved = self.resolve(reads, server)?;
                if resolved.tables.is_empty() && resolved.obstacle.is_none() {
                    self.leave(server)?;
                    return Ok(Verdict::Pass);
                }
                let reason = self.read(text, &resolved, parameters, extended, server)?;
                self.shared.count(reason);
                self.task.weak = reason.is_none();
                if reason.is_some() {
                    self.leave(server)?;
                    if reason == Some(Reason::Function) {
                        self.open(server)?;
                    }
                    self.task.told = readings(&resolved.tables, parameters);
                }
            }
            Kind::Work { reads, reason } => {
                let resolved = self.resolve(reads, server)?;
                self.leave(server)?;
                self.open(server)?;
                if self.dirty && self.blind != resolved.blind {
                    self.sync(server)?;
                }
                self.blind = resolved.blind;
                self.task.told = readings(&resolved.tables, parameters);
                if let Some(reason) = reason {
                    self.shared.count(Some(*reason));
                }
            }
            Kind::Define { releases, names } => self.release(*releases, names, server)?,
            Kind::Opaque { releases, names, reads } => {
                let resolved = self.resolve(reads, server)?;
                self.task.told = readings(&resolved.tables, parameters);
                self.release(*releases, names, server)?;
                self.sync(server)?;
                self.shared.count(Some(Reason::Script));
            }
            Kind::Control(control) => return self.control(control, server),
            Kind::Setting | Kind::Other => self.leave(server)?,
        }
        Ok(Verdict::Pass)
    }

    /// Before definitions change: views, and the triggers of the tables that are named, would be in the way.
    fn release(&mut self, releases: bool, names: &[String], server: &mut dyn Run) -> Result<(), RunError> {
        self.leave(server)?;
        if !releases {
            return Ok(());
        }
        let catalogue = self.shared.catalogue();
        let rels: Vec<String> = catalogue
            .tables()
            .iter()
            .filter(|table| names.contains(&table.name))
            .map(|table| table.rel.to_string())
            .collect();
        server.run(&format!("SELECT anomalist_versions.release(ARRAY[{}]::oid[])", rels.join(", ")))?;
        self.shared.outdate();
        Ok(())
    }

    fn control(&mut self, control: &Control, server: &mut dyn Run) -> Result<Verdict, RunError> {
        match control {
            Control::Commit(_) if self.block == Block::Client => {
                if let Err(error) = self.decide(server) {
                    let _ = server.run("ROLLBACK");
                    self.ended();
                    return Ok(Verdict::Refuse(error));
                }
            }
            Control::Begin(_) => {
                self.leave(server)?;
                self.path(server)?;
            }
            Control::Savepoint(_) => {
                self.leave(server)?;
                self.sync(server)?;
            }
            Control::BeginLocked(_)
            | Control::Commit(_)
            | Control::Rollback(_)
            | Control::RollbackTo(_)
            | Control::Release(_)
            | Control::Set(..)
            | Control::Autocommit(..)
            | Control::TwoPhase(_) => self.leave(server)?,
        }
        Ok(Verdict::Pass)
    }

    /// Whether the open transaction may commit. If so, and if it has written, the gate stays closed until
    /// the commit is over.
    fn decide(&mut self, server: &mut dyn Run) -> Result<(), ServerError> {
        self.unshare();
        if self.dirty && self.shared.catalogue().deferrable {
            // What may wait for others, or fail, does so now.
            server.run("SET CONSTRAINTS ALL IMMEDIATE").map_err(shown)?;
        }
        let found = self.fetch(server).map_err(shown)?;
        if found.is_empty() && !self.work.has_written() {
            return self.work.may_commit();
        }
        self.shared.gate.close();
        self.closing = true;
        let catalogue = self.shared.catalogue();
        self.work.take(&catalogue, &found, self.blind);
        if self.block == Block::Own {
            // Whatever its statement has read is read now: others cannot come between.
            let told = std::mem::take(&mut self.task.told);
            self.work.tell(&told);
        }
        match self.work.may_commit() {
            Ok(()) => {
                self.doubtful = found.last().map(|change| change.xid.clone()).or(Some(String::new()));
                Ok(())
            }
            Err(error) => {
                self.reopen();
                Err(error)
            }
        }
    }

    /// The transaction has ended on the server, and the store has heard of it.
    fn ended(&mut self) {
        self.doubtful = None;
        self.work.rollback();
        self.reopen();
        self.unshare();
        self.block = Block::None;
        self.failed = false;
        self.dirty = false;
        self.weak = None;
        self.savepoints.clear();
        self.portals.clear();
        if std::mem::take(&mut self.defined) {
            self.path = None;
            self.shared.outdate();
        }
    }

    fn committed(&mut self) {
        self.work.commit(&self.shared);
        self.ended();
    }

    /// Ends a transaction that was begun for one statement; what the client is to hear.
    fn end_own(&mut self, server: &mut dyn Run) -> Option<ServerError> {
        let decided = self.decide(server);
        let committed = decided.and_then(|()| server.run("COMMIT").map(drop).map_err(shown));
        match committed {
            Ok(()) => {
                self.committed();
                None
            }
            Err(error) => {
                let _ = server.run("ROLLBACK");
                self.ended();
                Some(error)
            }
        }
    }

    /// After a statement of the client has been answered.
    fn after(&mut self, task: &Task, outcome: &Outcome, server: &mut dyn Run) {
        let Some(kind) = task.kind.clone() else { return };
        if outcome.error.is_some() {
            if matches!(&*kind, Kind::Define { .. } | Kind::Opaque { .. }) {
                self.shared.outdate();
            }
            return;
        }
        match &*kind {
            Kind::Read(_) if task.weak => {}
            Kind::Read(_) | Kind::Work { .. } => {
                self.dirty |= !matches!(&*kind, Kind::Read(_)) || self.block != Block::None;
                if self.block == Block::Client {
                    self.share();
                    self.work.tell(&task.told);
                    self.unshare();
                }
            }
            Kind::Define { .. } => {
                self.path = None;
                self.defined |= self.block != Block::None;
                self.shared.outdate();
            }
            Kind::Setting => self.path = None,
            Kind::Opaque { .. } => {
                self.path = None;
                self.dirty = true;
                self.shared.outdate();
            }
            Kind::Control(control) => self.controlled(control, outcome, server),
            Kind::Other => {}
        }
    }

    fn controlled(&mut self, control: &Control, outcome: &Outcome, server: &mut dyn Run) {
        let tag = outcome.tags.last().map(String::as_str).unwrap_or_default();
        match control {
            Control::Begin(modes) if matches!(tag, "BEGIN" | "START TRANSACTION") => {
                if self.block != Block::Client && (modes.isolation.is_some() || self.levels) {
                    let _ = server.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
                }
                self.block = Block::Client;
                self.work.begin();
            }
            Control::Set(Scope::Transaction, modes) if modes.isolation.is_some() => {
                let _ = server.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
            }
            Control::Set(..) => self.path = None,
            Control::Commit(chain) | Control::Rollback(chain) => {
                match tag {
                    "COMMIT" if self.block == Block::Client => self.committed(),
                    _ => self.ended(),
                }
                if chain.chain {
                    self.block = Block::Client;
                    self.work.begin();
                }
            }
            Control::Savepoint(name) => {
                let savepoint = self.work.mark().map(|mark| (name.clone(), mark));
                self.savepoints.extend(savepoint);
            }
            Control::RollbackTo(name) => {
                self.failed = false;
                self.weak = None;
                self.dirty = false;
                if let Some(at) = self.savepoints.iter().rposition(|(n, _)| n == name) {
                    self.savepoints.truncate(at + 1);
                    self.work.rollback_to(self.savepoints[at].1);
                }
            }
            Control::Release(name) => {
                if let Some(at) = self.savepoints.iter().rposition(|(n, _)| n == name) {
                    self.savepoints.truncate(at);
                }
            }
            Control::TwoPhase(_) => self.ended(),
            Control::Begin(_) | Control::BeginLocked(_) | Control::Autocommit(..) => {}
        }
    }

    /// Compares what is known with what the server says, at the end of a query.
    fn settle(&mut self, outcome: &Outcome, server: &mut dyn Run) {
        self.failed = outcome.status == Status::Failed;
        match (outcome.status, self.block) {
            (Status::Idle, Block::None) => {
                if self.dirty
                    && let Ok(found) = self.fetch(server)
                {
                    // A procedure or a script has committed by itself.
                    let catalogue = self.shared.catalogue();
                    self.shared.gate.close();
                    self.closing = true;
                    self.work.adopt(&self.shared, &catalogue, &found);
                    self.reopen();
                }
                // A read by itself is a transaction.
                self.work.commit(&self.shared);
                if outcome.error.is_some() {
                    self.weak = None;
                    self.path = None;
                }
                self.portals.clear();
            }
            (Status::Idle, Block::Client | Block::Own) => {
                if self.dirty
                    && outcome.error.is_none()
                    && let Ok(found) = self.fetch(server)
                {
                    let catalogue = self.shared.catalogue();
                    self.work.adopt(&self.shared, &catalogue, &found);
                }
                self.ended();
            }
            (Status::Open, Block::None) => {
                self.block = Block::Client;
                let _ = server.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
                self.work.begin();
            }
            (Status::Open | Status::Failed, _) => {}
        }
    }
}

impl Observer for Weakened {
    fn interest(&self) -> Interest {
        Interest::InStep { rows: false }
    }

    fn request(&mut self, request: &Request, server: &mut dyn Run) -> Verdict {
        let verdict = match request {
            Request::Query { text } => self.before(text, &Parameters::default(), false, server),
            Request::Parse { text, types, .. } => {
                if !types.is_empty() {
                    self.types.insert(text.clone(), types.clone());
                }
                if self.failed { Ok(()) } else { self.leave(server) }.map(|()| Verdict::Pass)
            }
            Request::Bind { portal, text: Some(text), formats, values } => {
                self.portals.remove(portal);
                let types = self.types.get(text).cloned().unwrap_or_default();
                let parameters = Parameters { formats, values, types: &types };
                // What ends a transaction is decided when it runs.
                let verdict = match &*self.kind(text) {
                    Kind::Control(_) => {
                        self.task = Task { kind: Some(self.kind(text)), ..Task::default() };
                        Ok(Verdict::Pass)
                    }
                    _ => self.before(text, &parameters, true, server),
                };
                let task = std::mem::take(&mut self.task);
                self.portals.insert(portal.clone(), task);
                verdict
            }
            Request::Execute { portal, .. } => {
                let kind = self.portals.get(portal).and_then(|task| task.kind.clone());
                match kind.as_deref() {
                    Some(Kind::Control(control)) if !self.failed => self.control(control, server),
                    _ => Ok(Verdict::Pass),
                }
            }
            Request::Sync if self.block == Block::Own && !self.failed => {
                self.task.told =
                    self.portals.values_mut().flat_map(|t| std::mem::take(&mut t.told)).collect();
                // An error of its own commit reaches the client as that of the query.
                if let Err(error) = self.decide(server) {
                    let raise = format!(
                        "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = {}; END $$",
                        crate::catalogue::literal(&error.message).replace("$$", "")
                    );
                    let _ = server.run(&raise);
                } else if server.run("COMMIT").is_ok() {
                    self.committed();
                }
                Ok(Verdict::Pass)
            }
            Request::Bind { text: None, .. } | Request::Call => {
                self.shared.count(Some(Reason::Cursor));
                self.leave(server).and_then(|()| self.open(server)).map(|()| Verdict::Pass)
            }
            Request::Sync => Ok(Verdict::Pass),
        };
        verdict.unwrap_or_else(|error| match error {
            RunError::Server(error) => Verdict::Refuse(error),
            // The server has told the client already, or the client's own error comes first.
            _ => Verdict::Pass,
        })
    }

    fn finished(
        &mut self,
        request: &Request,
        outcome: &Outcome,
        server: &mut dyn Run,
    ) -> Option<ServerError> {
        match request {
            Request::Execute { portal, .. } => {
                self.unshare();
                // A portal that is not read to its end stays.
                let ended = outcome.error.is_some() || !outcome.tags.is_empty();
                let task = if ended { self.portals.remove(portal) } else { None };
                if let Some(mut task) = task {
                    self.after(&task, outcome, server);
                    if self.block == Block::Own {
                        // Told when it commits.
                        task.weak = false;
                        self.portals.insert(format!("{portal} done"), task);
                    }
                }
                if outcome.error.is_some() && self.block != Block::None {
                    self.failed = true;
                }
                None
            }
            Request::Query { .. } | Request::Call => {
                self.unshare();
                let task = self.task.clone();
                self.after(&task, outcome, server);
                let refused = match (self.block, outcome.status) {
                    (Block::Own, Status::Open) => self.end_own(server),
                    (Block::Own, Status::Failed) => {
                        let _ = server.run("ROLLBACK");
                        self.ended();
                        None
                    }
                    _ => None,
                };
                let settled = Outcome { status: server.status(), ..outcome.clone() };
                self.settle(&settled, server);
                refused
            }
            Request::Sync => {
                self.unshare();
                if self.block == Block::Own && outcome.status == Status::Failed {
                    let _ = server.run("ROLLBACK");
                    self.ended();
                }
                let settled = Outcome { status: server.status(), ..outcome.clone() };
                // A local setting of an extended query ends with it.
                if self.block == Block::None {
                    self.weak = None;
                }
                self.settle(&settled, server);
                None
            }
            Request::Parse { .. } | Request::Bind { .. } => None,
        }
    }
}

impl Drop for Weakened {
    fn drop(&mut self) {
        // The connection was lost while the server committed: it knows what became of that.
        if let Some(xid) = self.doubtful.take()
            && self.shared.has_committed(&xid)
        {
            self.work.commit(&self.shared);
        }
        self.reopen();
        self.unshare();
    }
}
