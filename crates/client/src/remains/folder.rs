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
use std::time::Duration;

/// The file that is locked as long as its folder's owner lives.
const OWNER: &str = ".owner";
/// Its name before it is locked.
const MAKER: &str = ".making";
/// What the names of folders begin with.
const PREFIX: &str = "anomalist-";
/// A folder that has no owner after this time gets none: its maker was killed while it made it.
const MAKING: Duration = Duration::from_secs(60);

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
        let hidden = path.join(MAKER);
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
        let gone = match open(&entry.path().join(OWNER)) {
            Ok(owner) => owner.try_lock().is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound && is_left(&entry.path()),
        };
        if gone {
            clear(&entry.path());
        }
    }
}

/// Removes a folder whose owner was killed. A server that the owner had started may be about to end, and
/// still write to it, so this tries again for a short time. The file of the owner goes last: as long as it
/// is there, the next sweep tries again.
fn clear(path: &Path) {
    const TRIES: u32 = 10;
    for _ in 0..TRIES {
        let mut removed = true;
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if entry.file_name() != OWNER {
                let path = entry.path();
                let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let gone = if folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed &= gone.is_ok();
            }
        }
        if removed {
            // What has no owner file is empty now.
            let _ = fs::remove_dir_all(path);
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether this is a private folder of this account that was made some time ago, and nothing is in it but
/// the file that would have become its owner.
fn is_left(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    let old = metadata.modified().is_ok_and(|made| made.elapsed().is_ok_and(|age| age > MAKING));
    let Ok(mut entries) = fs::read_dir(path) else { return false };
    old && is_private(&metadata) && entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == MAKER))
}

#[cfg(unix)]
fn is_private(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.mode() & 0o777 == 0o700 && metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_private(_: &fs::Metadata) -> bool {
    false
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
        // One that was killed before there was an owner, long ago.
        for (name, content) in [("anomalist-begun", ".making"), ("anomalist-used", "data")] {
            private().create(path(name)).unwrap();
            fs::write(path(name).join(content), "").unwrap();
            let long_ago = std::time::SystemTime::now() - 2 * MAKING;
            File::open(path(name)).unwrap().set_modified(long_ago).unwrap();
        }
        private().create(path("anomalist-young")).unwrap();
        sweep(place.path());
        assert!(!path("anomalist-dead").exists());
        #[cfg(unix)]
        assert!(!path("anomalist-begun").exists());
        assert!(path("anomalist-used").exists() && path("anomalist-young").exists());
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
