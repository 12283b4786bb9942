//! What would be left behind if this process ended now: processes that it started and folders that it made.
//!
//! Usually their owners remove them. A handler that ends this process while other threads work calls
//! [`remove_all`]. So each process and folder is noted at the moment it exists, before anything is done
//! with it.

mod folder;
#[cfg(not(unix))]
#[path = "remains/elsewhere.rs"]
mod processes;
#[cfg(unix)]
mod processes;

pub use folder::Folder;
#[cfg(unix)]
pub use processes::descendants;
pub use processes::{Noted, is_alive, kill_tree, start};

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Remains {
    processes: Vec<u32>,
    folders: Vec<PathBuf>,
}

static REMAINS: Mutex<Remains> = Mutex::new(Remains { processes: Vec::new(), folders: Vec::new() });

fn remains() -> MutexGuard<'static, Remains> {
    REMAINS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every noted process and removes every folder: for a program that is about to end without dropping
/// anything. Calls that start or make something from now on wait forever.
pub fn remove_all() {
    let remains = remains();
    remains.processes.iter().for_each(|&pid| kill_tree(pid));
    for folder in &remains.folders {
        let _ = fs::remove_dir_all(folder);
    }
    std::mem::forget(remains);
}
