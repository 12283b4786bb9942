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

mod ends;
mod observer;

use crate::install::weak_path;
use crate::reads::{Parameters, Reads};
use crate::shared::Shared;
use crate::statement::{Kind, Reason, Resolved, classify};
use crate::work::{Change, Reading, Savepoint, Work, changes, readings};
use anomalist_proxy::{Run, RunError, ServerError, Verdict};
use anomalist_sqltext::{Dialect, Kind as TokenKind, tokens};
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
    current: Vec<Reading>,
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
            server.post(&format!("SELECT set_config('search_path', {setting}, {local})"))?;
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
        server.post(&sql)?;
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
            server.post("BEGIN ISOLATION LEVEL READ COMMITTED")?;
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
                    self.task.current = readings(&resolved.tables, parameters);
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
                self.task.current = readings(&resolved.tables, parameters);
                if let Some(reason) = reason {
                    self.shared.count(Some(*reason));
                }
            }
            Kind::Define { releases, names } => self.release(*releases, names, server)?,
            Kind::Opaque { releases, names, reads } => {
                let resolved = self.resolve(reads, server)?;
                self.task.current = readings(&resolved.tables, parameters);
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
}
