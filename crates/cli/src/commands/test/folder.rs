//! The folder of a run: `runs/<time>-<name>/` with the history, the result, the report (as text and as a
//! page) and the log.
//!
//! Everything in it can be read while the run goes on, and `anomalist check` takes the history as it takes
//! any other. `runs/latest` is the newest.

use crate::destination::{Destination, sweep_folder, write_file};
use crate::exit::Failure;
use anomalist_client::Output;
use anomalist_format::Format;
use anomalist_history::History;
use anomalist_workload::client::{Recording, Workload};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, LineWriter};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the history of a run is called: of transactions, or of other operations.
const RECORDINGS: [&str; 2] = ["history.jsonl", "history.elle.jsonl"];

pub struct RunFolder {
    path: PathBuf,
    history: PathBuf,
    started: String,
}

impl RunFolder {
    /// Makes a fresh folder.
    pub fn create(runs: &Path, name: &str, workload: Workload) -> Result<RunFolder, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let base = format!("{}-{name}", stamp(since.as_secs()));
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
        let [transactions, events] = RECORDINGS;
        let history = path.join(match workload.recording() {
            Recording::Events => events,
            Recording::Registers | Recording::Lists => transactions,
        });
        let started = stamp(since.as_secs());
        Ok(RunFolder { path, history, started })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When it was made, in UTC.
    pub fn started(&self) -> &str {
        &self.started
    }

    /// The history in it.
    pub fn history(&self) -> PathBuf {
        self.history.clone()
    }

    /// The log in it.
    pub fn log(&self) -> PathBuf {
        self.path.join("log.txt")
    }

    /// Files for a run to write.
    pub fn outputs(&self) -> Result<Output, Failure> {
        let create = |path: PathBuf| File::create(&path).map_err(|e| Failure::io(&path, e));
        Ok(Output {
            history: Box::new(create(self.history())?),
            log: Box::new(LineWriter::new(create(self.log())?)),
        })
    }

    /// The history with the server's timestamps, for the online check.
    pub fn stamped(&self) -> Result<File, Failure> {
        let path = self.path.join("stamped.jsonl");
        File::create(&path).map_err(|e| Failure::io(&path, e))
    }

    /// Removes the folder if nothing was recorded or logged; says whether it did.
    pub fn discard_if_empty(&self) -> bool {
        let empty = |path: PathBuf| fs::metadata(path).is_ok_and(|file| file.len() == 0);
        if !empty(self.log()) || !empty(self.history()) || fs::remove_dir_all(&self.path).is_err() {
            return false;
        }
        let latest = self.path.with_file_name("latest");
        if fs::read_link(&latest).is_ok_and(|to| Some(to.as_os_str()) == self.path.file_name()) {
            _ = fs::remove_file(latest);
        }
        true
    }

    /// Keeps the answer.
    pub fn keep(&self, report: &str, page: &str, result: &Value) -> Result<(), Failure> {
        write_file(&self.path.join("report.txt"), report.as_bytes())?;
        write_file(&self.path.join("report.html"), page.as_bytes())?;
        write_file(&self.path.join("result.json"), format!("{result:#}\n").as_bytes())
    }

    /// Writes the history in another format as well.
    pub fn also_write(&self, format: Option<Format>, history: &History) -> Result<(), Failure> {
        let Some(format) = format else { return Ok(()) };
        let extension = format.extensions().first().copied().unwrap_or("txt");
        let name = format!("history.{}.{extension}", format.name());
        let mut destination = Destination::create(&self.path.join(name), format, true)?;
        destination.append(history)?;
        destination.finish()
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
