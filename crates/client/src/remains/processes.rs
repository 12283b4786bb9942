//! Processes on Unix: each leads a group of its own, and is killed with all its descendants.
//!
//! A process that left the group is found by its parents under `/proc`. Where there is no such folder, only
//! the group is killed.

use super::remains;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A process that is noted until this is dropped. Drop it when the process has been waited for.
#[derive(Debug)]
pub struct Noted(u32);

impl Drop for Noted {
    fn drop(&mut self) {
        remains().processes.retain(|&pid| pid != self.0);
    }
}

/// Starts a process as the leader of a group of its own, so that Ctrl-C does not reach it, and notes it.
pub fn start(command: &mut Command) -> io::Result<(Child, Noted)> {
    command.process_group(0);
    let mut remains = remains();
    let child = command.spawn()?;
    let noted = Noted(child.id());
    remains.processes.push(noted.0);
    Ok((child, noted))
}

/// Kills a child of this process, its group and all its descendants, and waits until they are gone.
pub fn kill_tree(pid: u32) {
    // It may have been waited for: then the number may be another process's by now.
    let child = parent(Path::new("/proc").join(pid.to_string()).as_path()) == Some(std::process::id());
    if !child && Path::new("/proc/self/stat").exists() {
        return;
    }
    // A process that is stopped cannot start others during the search for them.
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
fn signal(pid: u32, signal: Signal) {
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

/// The processes that a process has started, those that these have, and so on; by `/proc`.
pub fn descendants(pid: u32) -> Vec<u32> {
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

/// Whether a process with this number is there.
pub fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // One of another account refuses the question.
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}
