//! What would be left behind if this process ended now: processes of ours and folders.
//!
//! Usually their owners see to them. A process that is ended by a signal, or a handler that ends it while other threads work,
//! calls [`remove_all`]. So whatever is started or made is noted at the moment it exists, before anything is done with it.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

struct Remains {
    processes: Vec<u32>,
    folders: Vec<PathBuf>,
}

static REMAINS: Mutex<Remains> = Mutex::new(Remains { processes: Vec::new(), folders: Vec::new() });

fn remains() -> MutexGuard<'static, Remains> {
    REMAINS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that is noted until this is dropped. Drop it when the process has been waited for.
#[derive(Debug)]
pub(crate) struct Noted(u32);

impl Drop for Noted {
    fn drop(&mut self) {
        remains().processes.retain(|&pid| pid != self.0);
    }
}

/// Starts a process and notes it. It should lead a group of its own.
pub(crate) fn start(command: &mut Command) -> io::Result<(Child, Noted)> {
    let mut remains = remains();
    let child = command.spawn()?;
    let noted = Noted(child.id());
    remains.processes.push(noted.0);
    Ok((child, noted))
}

/// A folder that is removed, with everything in it, when this is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes it. It must not exist.
    pub fn create(path: &Path) -> io::Result<Folder> {
        let mut remains = remains();
        fs::create_dir(path)?;
        remains.folders.push(path.to_owned());
        Ok(Folder(path.to_owned()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about a folder that does not want to go.
        let _ = fs::remove_dir_all(&self.0);
        remains().folders.retain(|path| *path != self.0);
    }
}

/// Ends every process of ours and removes every folder: for a program that is about to end without dropping anything. Whoever starts
/// or makes something from now on waits forever.
pub fn remove_all() {
    let remains = remains();
    remains.processes.iter().for_each(|&pid| kill_tree(pid));
    for folder in &remains.folders {
        let _ = fs::remove_dir_all(folder);
    }
    std::mem::forget(remains);
}

/// Kills a child of ours, its group and whatever descends from it, and waits until they are gone.
pub(crate) fn kill_tree(pid: u32) {
    // It may have been waited for, and the number be somebody else's by now.
    if parent(Path::new("/proc").join(pid.to_string()).as_path()) != Some(std::process::id()) {
        return;
    }
    // A process that is stopped cannot start others while we look for them.
    signal(pid, Signal::STOP);
    let mut all = descendants(pid);
    all.iter().for_each(|&pid| signal(pid, Signal::STOP));
    all = descendants(pid);
    all.push(pid);
    for &pid in &all {
        signal(pid, Signal::KILL);
    }
    // Those who lost their parent, but not their group.
    if let Some(group) = known(pid) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let gone = |pid: &u32| !Path::new("/proc").join(pid.to_string()).join("exe").exists();
    let until = Instant::now() + Duration::from_secs(10);
    while !all.iter().all(gone) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn known(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Sends a signal; a process that is gone is fine.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = known(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// The parent of a process, by its folder under `/proc`.
fn parent(process: &Path) -> Option<u32> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name, in parentheses, may contain anything; the parent is the second field after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The processes that a process has started, those that these have, and so on.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(other) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        if let Some(parent) = parent(&entry.path()) {
            children.entry(parent).or_default().push(other);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(pid) = next.pop() {
        let own = children.remove(&pid).unwrap_or_default();
        found.extend(&own);
        next.extend(own);
    }
    found.sort_unstable();
    found
}
