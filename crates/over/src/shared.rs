//! What all sessions share: the store, the definitions, and which version of each row is the newest.

use crate::catalogue::{Catalogue, Table, VERSIONS};
use crate::error::{Error, refused};
use crate::gate::Gate;
use crate::install;
use crate::statement::Reason;
use anomalist_databases::{Connection, Database, Target};
use anomalist_weakdb::Store;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long making triggers may wait for a table that others use; then it is tried again later.
const PATIENCE: &str = "500ms";

/// How many reads were weakened, and how many were not, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads that saw what the store chose.
    pub weakened: u64,
    /// Reads that saw the tables as they are.
    pub unweakened: BTreeMap<Reason, u64>,
}

/// The versions of a row that was changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Negative if it was deleted.
    pub newest: i64,
    /// The first change, if there was a row before it.
    pub initial: Option<i64>,
}

pub(crate) struct Shared {
    pub store: Arc<Store>,
    pub gate: Gate,
    target: Target,
    admin: Mutex<Box<dyn Connection>>,
    catalogue: Mutex<Arc<Catalogue>>,
    pub keys: Mutex<FxHashMap<Arc<str>, Known>>,
    /// The highest version that any session has seen: a new session has written none of these.
    pub highest: AtomicI64,
    /// Definitions have changed.
    stale: AtomicBool,
    /// How often tables of a name have begun anew.
    epochs: Mutex<HashMap<String, u32>>,
    /// Whether texts can be run on views.
    probes: Mutex<FxHashMap<String, bool>>,
    counts: Mutex<Counts>,
    pub sessions: AtomicU64,
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Installs what is needed in the database.
    pub fn install(target: &Target, store: Arc<Store>) -> Result<Shared, Error> {
        let mut admin = target.connect().map_err(refused("cannot connect"))?;
        install::claim(&mut *admin)?;
        install::install(&mut *admin)?;
        let shared = Shared {
            store,
            gate: Gate::default(),
            target: target.clone(),
            admin: Mutex::new(admin),
            catalogue: Mutex::default(),
            keys: Mutex::default(),
            highest: AtomicI64::new(0),
            stale: AtomicBool::new(false),
            epochs: Mutex::default(),
            probes: Mutex::default(),
            counts: Mutex::default(),
            sessions: AtomicU64::new(0),
        };
        match shared.define() {
            Ok(None) => Ok(shared),
            Ok(Some(error)) | Err(error) => {
                // What was refused leaves nothing behind.
                let _ = shared.remove();
                Err(refused("cannot make triggers and views")(error))
            }
        }
    }

    /// Takes everything out of the database again.
    pub fn remove(&self) -> Result<(), Error> {
        install::remove(&mut **lock(&self.admin))
    }

    pub fn catalogue(&self) -> Arc<Catalogue> {
        lock(&self.catalogue).clone()
    }

    pub fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    pub fn count(&self, reason: Option<Reason>) {
        let mut counts = lock(&self.counts);
        match reason {
            None => counts.weakened += 1,
            Some(reason) => *counts.unweakened.entry(reason).or_default() += 1,
        }
    }

    /// Definitions may have changed.
    pub fn outdate(&self) {
        self.stale.store(true, Ordering::SeqCst);
    }

    /// Makes what is missing after definitions have changed. Tables that are in use stay without weak reads
    /// for now.
    pub fn renew(&self) {
        if !self.stale.swap(false, Ordering::SeqCst) {
            return;
        }
        lock(&self.probes).clear();
        if !matches!(self.define(), Ok(None)) {
            self.outdate();
        }
    }

    fn define(&self) -> Result<Option<anomalist_databases::Error>, anomalist_databases::Error> {
        let mut admin = lock(&self.admin);
        if admin.is_lost() {
            *admin = self.target.connect()?;
        }
        let mut catalogue = Catalogue::load(&mut **admin)?;
        let tracked =
            format!("SELECT rel::int8, (to_regclass(view) IS NOT NULL)::int FROM {VERSIONS}.tracked");
        let mut has: HashMap<u32, bool> = HashMap::new();
        for row in admin.query(&tracked, &[])?.rows {
            if let [rel, view] = &row[..] {
                let rel = rel.as_int().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
                has.insert(rel, view.as_int() == Some(1));
            }
        }
        let before = self.catalogue();
        let mut failed = None;
        for table in catalogue.tables() {
            let mut table = Table::clone(&table);
            let known = before.table(table.rel).filter(|known| {
                has.contains_key(&table.rel)
                    && (&known.shape, &known.schema, &known.name)
                        == (&table.shape, &table.schema, &table.name)
            });
            let mut sql = format!("SELECT set_config('lock_timeout', '{PATIENCE}', true);");
            match known {
                Some(known) => {
                    table.prefix.clone_from(&known.prefix);
                    if has.get(&table.rel) == Some(&true) {
                        catalogue.add(table);
                        continue;
                    }
                }
                None => {
                    let mut epochs = lock(&self.epochs);
                    let epoch = epochs.entry(table.prefix.clone()).and_modify(|n| *n += 1).or_insert(0);
                    if *epoch > 0 {
                        let name = table.prefix.trim_end_matches('(').to_owned();
                        table.prefix = format!("{name}#{epoch}(");
                    }
                    sql.push_str(&install::triggers(&table));
                }
            }
            sql.push_str(&install::view(&table));
            sql.push_str(&install::tracked(&table));
            match admin.run(&sql) {
                Ok(_) => catalogue.add(table),
                Err(error) => {
                    catalogue.remove(table.rel);
                    failed.get_or_insert(error);
                }
            }
        }
        *lock(&self.catalogue) = Arc::new(catalogue);
        Ok(failed)
    }

    /// Whether the text, of which `pattern` has no constants, can be run on views with this search path.
    pub fn suits_views(&self, pattern: &str, text: &str, types: &[u32], path: &str) -> bool {
        let name = format!("{path}\n{pattern}");
        if let Some(&known) = lock(&self.probes).get(&name) {
            return known;
        }
        let types: Vec<String> = types
            .iter()
            .map(|t| if *t == 0 { "unknown".to_owned() } else { format!("{t}::regtype") })
            .collect();
        let mut admin = lock(&self.admin);
        let mut declared = String::new();
        if types.iter().any(|t| t != "unknown") {
            // Types are named in SQL; the server knows their names.
            let asked = format!(
                "SELECT concat_ws(', ', {})",
                types
                    .iter()
                    .map(|t| match t.as_str() {
                        "unknown" => "'unknown'".to_owned(),
                        other => format!("{other}::text"),
                    })
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            if let Ok(reply) = admin.query(&asked, &[]) {
                declared = format!("({})", reply.value().and_then(|v| v.as_text()).unwrap_or_default());
            }
        }
        let sql = format!(
            "SELECT set_config('search_path', {}, true); PREPARE anomalist_probe{declared} AS {text};\n\
             DEALLOCATE anomalist_probe",
            crate::catalogue::literal(path)
        );
        let suits = admin.run(&sql).is_ok();
        let mut probes = lock(&self.probes);
        if probes.len() > 10_000 {
            probes.clear();
        }
        probes.insert(name, suits);
        suits
    }

    /// Whether a transaction whose session was lost has committed.
    pub fn has_committed(&self, xid: &str) -> bool {
        let mut admin = lock(&self.admin);
        if admin.is_lost()
            && let Ok(new) = self.target.connect()
        {
            *admin = new;
        }
        let sql = format!("SELECT pg_xact_status({}::xid8)", crate::catalogue::literal(xid));
        admin.query(&sql, &[]).is_ok_and(|r| r.value().and_then(|v| v.as_text()) == Some("committed"))
    }
}
