//! A folder that only this account can read, with a name that cannot be guessed; removed at the end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// 128 random bits in hexadecimal digits.
///
/// # Errors
/// If the system has no randomness.
pub fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The folder.
pub(crate) struct Private(PathBuf);

impl Private {
    pub(crate) fn create() -> io::Result<Private> {
        let path = std::env::temp_dir().join(format!("anomalist-ui-{}", random_name()?));
        make(&path)?;
        Ok(Private(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // What cannot be removed now cannot be removed by trying again.
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Fails if it exists already, so nothing that another account prepared is used.
#[cfg(unix)]
fn make(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}
