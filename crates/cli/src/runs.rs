//! Folders of runs: `runs/<time>-<name>/`, one per run, and `runs/latest`, which leads to the newest.

use crate::destination::sweep_folder;
use crate::exit::Failure;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

/// A folder that was just made.
pub struct Fresh {
    pub path: PathBuf,
    /// When it was made, in UTC.
    pub started: String,
}

impl Fresh {
    /// Makes a folder for a run of this name.
    pub fn create(runs: &Path, name: &str) -> Result<Fresh, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let started = stamp(since.as_secs());
        let base = format!("{started}-{name}");
        fs::create_dir_all(runs).map_err(|e| Failure::io(runs, e))?;
        let mut path = runs.join(&base);
        let mut number = 2;
        loop {
            match fs::create_dir(&path) {
                Ok(()) => break,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    path = runs.join(format!("{base}-{number}"));
                    number += 1;
                }
                Err(e) => return Err(Failure::io(&path, e)),
            }
        }
        // What the run before began to write when it was killed.
        sweep_folder(&runs.join("latest"), b".");
        link_latest(runs, &path);
        Ok(Fresh { path, started })
    }
}

/// Points `latest` to a folder. Where links are impossible, there is none.
#[cfg(unix)]
fn link_latest(runs: &Path, path: &Path) {
    let (link, Some(name)) = (runs.join("latest"), path.file_name()) else { return };
    if fs::symlink_metadata(&link).map_or(true, |m| m.is_symlink()) {
        _ = fs::remove_file(&link);
        _ = std::os::unix::fs::symlink(name, link);
    }
}

#[cfg(not(unix))]
fn link_latest(_: &Path, _: &Path) {}

/// `20261116T085027Z` for seconds since 1970.
fn stamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March 0000, so that leap days come last (Hinnant, "chrono-compatible low-level date
    // algorithms").
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::stamp;

    #[test]
    fn times_have_dates() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(951_827_696), "20000229T123456Z");
        assert_eq!(stamp(1_794_819_027), "20261116T085027Z");
    }
}
