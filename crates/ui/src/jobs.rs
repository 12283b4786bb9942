//! All commands: at most so many at one time, and the last ones remembered.

use crate::fields::Invocation;
use crate::job::{Job, Start};
use crate::names::random_name;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How many commands that have ended are remembered.
const REMEMBERED: usize = 100;
/// How long commands have to end when the server does.
const FAREWELL: Duration = Duration::from_secs(6);

/// Why a command was not started.
pub(crate) enum Unstarted {
    /// Too many run.
    Busy(usize),
    /// The system refused.
    Io(io::Error),
}

/// The commands.
pub(crate) struct Jobs {
    program: PathBuf,
    supervision: &'static str,
    most: usize,
    all: Mutex<BTreeMap<u64, Arc<Job>>>,
    next: AtomicU64,
    ending: AtomicBool,
}

impl Jobs {
    pub(crate) fn new(program: PathBuf, supervision: &'static str, most: usize) -> Jobs {
        let (all, next, ending) = (Mutex::default(), AtomicU64::new(1), AtomicBool::new(false));
        Jobs { program, supervision, most, all, next, ending }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Job>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fresh name for a page in a folder.
    pub(crate) fn report(folder: &Path) -> io::Result<PathBuf> {
        Ok(folder.join(format!("{}.html", random_name()?)))
    }

    pub(crate) fn start(
        &self,
        invocation: Invocation,
        item: Option<String>,
        report: PathBuf,
        finally: impl FnOnce(&Job) + Send + 'static,
    ) -> Result<Arc<Job>, Unstarted> {
        let mut all = self.lock();
        let running = all.values().filter(|job| job.is_running()).count();
        if running >= self.most || self.ending.load(SeqCst) {
            return Err(Unstarted::Busy(self.most));
        }
        let id = self.next.fetch_add(1, SeqCst);
        let (program, supervision) = (self.program.as_path(), self.supervision);
        let start = Start { id, program, supervision, invocation, item, report, finally: Box::new(finally) };
        let job = Job::start(start).map_err(Unstarted::Io)?;
        all.insert(id, job.clone());
        let ended: Vec<u64> = all.iter().filter(|(_, job)| !job.is_running()).map(|(id, _)| *id).collect();
        for id in ended.iter().take(ended.len().saturating_sub(REMEMBERED)) {
            if let Some(job) = all.remove(id) {
                _ = fs::remove_file(&job.report);
            }
        }
        Ok(job)
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Job>> {
        self.lock().get(&id.parse().ok()?).cloned()
    }

    /// The newest first.
    pub(crate) fn list(&self) -> Value {
        json!(self.lock().values().rev().map(|job| job.summary()).collect::<Vec<_>>())
    }

    /// The newest command about an item.
    pub(crate) fn about(&self, item: &str) -> Option<Arc<Job>> {
        self.lock().values().rev().find(|job| job.item.as_deref() == Some(item)).cloned()
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(SeqCst)
    }

    /// Ends all commands: asks them, and kills those that do not listen.
    pub(crate) fn end(&self) {
        self.ending.store(true, SeqCst);
        let all: Vec<Arc<Job>> = self.lock().values().filter(|job| job.is_running()).cloned().collect();
        all.iter().for_each(|job| job.cancel());
        let until = Instant::now() + FAREWELL;
        while all.iter().any(|job| job.is_running()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        all.iter().filter(|job| job.is_running()).for_each(|job| job.kill());
        let until = Instant::now() + Duration::from_secs(1);
        while all.iter().any(|job| job.is_running()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
    }
}
