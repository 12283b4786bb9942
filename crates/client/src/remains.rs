//! What would be left behind if this process ended now: processes that it started and folders that it made.
//!
//! Usually their owners remove them. A handler that ends this process while other threads work calls
//! [`remove_all`]. So each process and folder is noted at the moment it exists, before anything is done
//! with it.

#[cfg(not(unix))]
#[path = "remains/elsewhere.rs"]
mod processes;
#[cfg(unix)]
mod processes;

#[cfg(unix)]
pub use processes::descendants;
pub use processes::{Noted, kill_tree, start};

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Remains {
    processes: Vec<u32>,
    folders: Vec<PathBuf>,
}

static REMAINS: Mutex<Remains> = Mutex::new(Remains { processes: Vec::new(), folders: Vec::new() });

fn remains() -> MutexGuard<'static, Remains> {
    REMAINS.lock().unwrap_or_else(PoisonError::into_inner)
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
