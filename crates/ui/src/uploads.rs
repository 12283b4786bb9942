//! Files that a browser sends: in parts, each written to disk before the next is asked for.
//!
//! The size is stated first, so a file that is too large is refused before any of it is sent. Parts must
//! follow each other; what exceeds the stated size is refused too.

use crate::names::random_name;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most files that are on their way at one time.
const OPEN: usize = 8;
/// A file of which no part came for so long gives way to another.
const IDLE: Duration = Duration::from_secs(60);
/// Most characters of a name that are kept.
const NAME: usize = 200;

/// Why a file or a part is refused.
#[derive(Debug)]
pub(crate) enum Refused {
    TooLarge,
    TooMany,
    Unknown,
    /// Parts must follow each other.
    OutOfPlace,
    Incomplete,
    Io(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Io(error)
    }
}

struct Upload {
    name: String,
    path: PathBuf,
    file: File,
    size: u64,
    written: u64,
    last: Instant,
}

/// Files on their way.
pub(crate) struct Uploads {
    folder: PathBuf,
    most: u64,
    open: Mutex<HashMap<String, Upload>>,
}

impl Uploads {
    pub(crate) fn new(folder: &Path, most: u64) -> Uploads {
        Uploads { folder: folder.to_owned(), most, open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Upload>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces a file; its identifier. The name only keeps its extension on disk, which helps to
    /// recognise the format.
    pub(crate) fn begin(&self, name: &str, size: u64) -> Result<String, Refused> {
        if size > self.most {
            return Err(Refused::TooLarge);
        }
        let mut open = self.lock();
        if open.len() >= OPEN {
            // A page that was left does not say so.
            let idle = open.iter().filter(|(_, upload)| upload.last.elapsed() > IDLE);
            let longest = idle.min_by_key(|(_, upload)| upload.last).map(|(id, _)| id.clone());
            let left = longest.and_then(|id| open.remove(&id)).ok_or(Refused::TooMany)?;
            _ = fs::remove_file(left.path);
        }
        let id = random_name()?;
        let path = self.folder.join(format!("{id}{}", extensions(name)));
        let file = File::create_new(&path)?;
        let name = name.chars().take(NAME).collect();
        open.insert(id.clone(), Upload { name, path, file, size, written: 0, last: Instant::now() });
        Ok(id)
    }

    /// Writes the next part.
    pub(crate) fn write(&self, id: &str, offset: u64, part: &[u8]) -> Result<u64, Refused> {
        let mut open = self.lock();
        let upload = open.get_mut(id).ok_or(Refused::Unknown)?;
        if offset != upload.written {
            return Err(Refused::OutOfPlace);
        }
        if part.len() as u64 > upload.size - upload.written {
            return Err(Refused::TooLarge);
        }
        upload.file.write_all(part)?;
        upload.written += part.len() as u64;
        upload.last = Instant::now();
        Ok(upload.written)
    }

    /// The file is complete: its name and where it is.
    pub(crate) fn finish(&self, id: &str) -> Result<(String, PathBuf), Refused> {
        let mut open = self.lock();
        match open.get(id) {
            None => return Err(Refused::Unknown),
            Some(upload) if upload.written < upload.size => return Err(Refused::Incomplete),
            Some(_) => {}
        }
        let upload = open.remove(id).ok_or(Refused::Unknown)?;
        Ok((upload.name, upload.path))
    }

    /// Forgets a file.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        let removed = self.lock().remove(id);
        if let Some(upload) = &removed {
            // The folder goes at the end in any case.
            _ = fs::remove_file(&upload.path);
        }
        removed.is_some()
    }
}

/// The last one or two extensions of a name, such as `.txt.gz`, if they are plain.
fn extensions(name: &str) -> String {
    let parts: Vec<&str> = name.rsplit(['/', '\\']).next().unwrap_or_default().split('.').collect();
    let plain =
        |part: &&&str| !part.is_empty() && part.len() <= 8 && part.bytes().all(|b| b.is_ascii_alphanumeric());
    let last = parts.iter().skip(1).rev().take_while(plain).take(2).collect::<Vec<_>>();
    last.into_iter().rev().map(|part| format!(".{part}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_extensions_are_kept() {
        for (name, kept) in [
            ("history.edn", ".edn"),
            ("a.txt.gz", ".txt.gz"),
            ("../../etc/passwd", ""),
            ("x.<script>", ""),
            ("..", ""),
            ("a.b.c.d", ".c.d"),
            (".hidden", ".hidden"),
            ("x./../y.txt", ".txt"),
        ] {
            assert_eq!(extensions(name), kept, "{name}");
        }
    }

    #[test]
    fn parts_follow_each_other_and_stay_within_the_size() {
        let folder = std::env::temp_dir().join(format!("anomalist-uploads-{}", random_name().unwrap()));
        fs::create_dir(&folder).unwrap();
        let uploads = Uploads::new(&folder, 10);
        assert!(matches!(uploads.begin("x", 1 << 30), Err(Refused::TooLarge)));
        let id = uploads.begin("../x.txt", 4).unwrap();
        assert!(matches!(uploads.finish(&id), Err(Refused::Incomplete)));
        assert_eq!(uploads.write(&id, 0, b"ab").unwrap(), 2);
        assert!(matches!(uploads.write(&id, 1, b"b"), Err(Refused::OutOfPlace)));
        assert!(matches!(uploads.write(&id, 2, b"cde"), Err(Refused::TooLarge)));
        assert_eq!(uploads.write(&id, 2, b"cd").unwrap(), 4);
        let (name, path) = uploads.finish(&id).unwrap();
        assert_eq!((name.as_str(), fs::read(&path).unwrap().as_slice()), ("../x.txt", b"abcd".as_slice()));
        assert!(path.starts_with(&folder) && matches!(uploads.write(&id, 4, b""), Err(Refused::Unknown)));
        let gone = uploads.begin("y", 4).unwrap();
        assert!(uploads.cancel(&gone) && !uploads.cancel(&gone));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
