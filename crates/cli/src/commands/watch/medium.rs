//! The folder that a state is kept in, as far as the state needs it.
//!
//! A trait, so that `crates/simulate` can put a folder in its place that tears writes, fails, and forgets
//! what was not forced to disk. What is written is seen by the next process at once; it survives the end
//! of the machine only after `sync`, and a new name or a removed one only after [`Medium::sync`].

use crate::system;
use anomalist_format::PathName;
use redb::{Builder, Database, DatabaseError};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which file to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// One that is there.
    Found,
    /// One that is there, or an empty one.
    Any,
    /// An empty one, in the place of what is there.
    Empty,
}

/// A folder of files.
pub trait Medium: Send + Sync {
    /// Opens a file for reading and writing.
    fn open(&self, name: &str, how: How) -> io::Result<Box<dyn Opened>>;
    /// Opens a database of redb, or makes one.
    fn database(&self, builder: &Builder, name: &str) -> Result<Database, DatabaseError>;
    /// The names of the files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Gives a file another name, in the place of the file that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Forces to disk which names there are.
    fn sync(&self) -> io::Result<()>;
    /// Its name, for messages.
    fn shown(&self) -> String;
}

/// A file of a [`Medium`].
pub trait Opened: Send + Sync {
    /// Its length.
    fn length(&self) -> io::Result<u64>;
    /// Reads until the buffer is full.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all bytes.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts it off.
    fn cut(&self, length: u64) -> io::Result<()>;
    /// Forces its bytes to disk.
    fn sync(&self) -> io::Result<()>;
}

/// What a medium is shared as.
pub type Shared = Arc<dyn Medium>;

/// A folder of this machine.
pub struct OnDisk(PathBuf);

impl OnDisk {
    /// This folder, which is made if it is missing.
    pub fn open(folder: &Path) -> io::Result<Shared> {
        fs::create_dir_all(folder)?;
        Ok(Arc::new(OnDisk(folder.to_owned())))
    }
}

impl Medium for OnDisk {
    fn open(&self, name: &str, how: How) -> io::Result<Box<dyn Opened>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(how != How::Found).truncate(how == How::Empty);
        Ok(Box::new(options.open(self.0.join(name))?))
    }

    fn database(&self, builder: &Builder, name: &str) -> Result<Database, DatabaseError> {
        builder.create(self.0.join(name))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        system::sync_folder(&self.0)
    }

    fn shown(&self) -> String {
        self.0.shown()
    }
}

impl Opened for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        system::read_exact_at(self, buffer, offset)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        system::write_all_at(self, bytes, offset)
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
