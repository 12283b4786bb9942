//! Temporary folders of this process alone.
//!
//! A folder has a name that others cannot guess and belongs to its maker alone (mode 0700); a folder or link
//! that is there already is never used. It has a file that this process keeps locked: the lock ends with
//! the process, however it ends, so the next process that makes a folder finds those of killed ones and
//! removes them.

use super::remains;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// The file that is locked as long as its folder's owner lives.
const OWNER: &str = ".owner";
/// What the names of folders begin with.
const PREFIX: &str = "anomalist-";

/// A folder that is removed, with everything in it, when this is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _owner: File,
}

impl Folder {
    /// Makes one, where temporary files are.
    pub fn temporary(name: &str) -> io::Result<Folder> {
        let place = std::env::temp_dir();
        sweep(&place);
        loop {
            let path = place.join(format!("{PREFIX}{name}-{:016x}", random()));
            match Folder::create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => return done,
            }
        }
    }

    /// Makes it there. Nothing of this name may exist.
    fn create(path: &Path) -> io::Result<Folder> {
        let mut remains = remains();
        private().create(path)?;
        remains.folders.push(path.to_owned());
        drop(remains);
        // Locked before it has its name: a sweep finds no file that is not locked.
        let hidden = path.join(".making");
        let owner = File::create_new(&hidden)
            .and_then(|file| file.lock().map(|()| file))
            .and_then(|file| fs::rename(&hidden, path.join(OWNER)).map(|()| file));
        match owner {
            Ok(owner) => Ok(Folder { path: path.to_owned(), _owner: owner }),
            Err(error) => {
                remove(path);
                Err(error)
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove(path: &Path) {
    // Nothing can be done about a folder that does not want to go.
    let _ = fs::remove_dir_all(path);
    remains().folders.retain(|other| other != path);
}

/// A number that other accounts do not guess: the standard library takes keys from the system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(unix)]
fn private() -> DirBuilder {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(not(unix))]
fn private() -> DirBuilder {
    DirBuilder::new()
}

/// Opens a file as it is: no link is followed, and nothing is waited for.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

/// Removes folders whose owners are gone. Those of other accounts cannot be opened, and stay.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !named || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let owner = open(&entry.path().join(OWNER));
        if owner.is_ok_and(|owner| owner.try_lock().is_ok()) {
            // What cannot be removed stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_living_stay() {
        let place = Folder::temporary("sweep").unwrap();
        let path = |name: &str| place.path().join(name);
        let living = Folder::create(&path("anomalist-living")).unwrap();
        // A killed process leaves the file without its lock.
        fs::create_dir(path("anomalist-dead")).unwrap();
        fs::write(path("anomalist-dead/.owner"), "").unwrap();
        fs::create_dir(path("anomalist-unknown")).unwrap();
        fs::create_dir(path("other")).unwrap();
        fs::write(path("other/.owner"), "").unwrap();
        sweep(place.path());
        assert!(!path("anomalist-dead").exists());
        for kept in [living.path(), &path("anomalist-unknown"), &path("other")] {
            assert!(kept.exists(), "{}", kept.display());
        }
        assert!(Folder::create(living.path()).is_err(), "what exists is not used");
    }

    #[cfg(unix)]
    #[test]
    fn folders_are_private_and_links_are_not_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let place = Folder::temporary("links").unwrap();
        assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o700);
        let (target, link) = (place.path().join("target"), place.path().join("anomalist-planted"));
        fs::create_dir(&target).unwrap();
        fs::write(target.join(OWNER), "").unwrap();
        symlink(&target, &link).unwrap();
        assert!(Folder::create(&link).is_err());
        sweep(place.path());
        assert!(target.join(OWNER).exists(), "a link is not swept");
        let trap = place.path().join("anomalist-trap");
        fs::create_dir(&trap).unwrap();
        symlink(target.join(OWNER), trap.join(OWNER)).unwrap();
        sweep(place.path());
        assert!(trap.exists(), "a link is not an owner");
    }
}
