//! The folder of a run: `runs/<time>-<name>/` with the history, the result, the report (as text and as a
//! page) and the log.
//!
//! Everything in it can be read while the run goes on, and `anomalist check` takes the history as it takes
//! any other. `runs/latest` is the newest.

use crate::destination::{Destination, write_file};
use crate::exit::Failure;
use crate::runs::Fresh;
use anomalist_client::Output;
use anomalist_format::Format;
use anomalist_history::History;
use anomalist_workload::client::{Recording, Workload};
use serde_json::Value;
use std::fs::{self, File};
use std::io::LineWriter;
use std::path::{Path, PathBuf};

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
        let Fresh { path, started } = Fresh::create(runs, name)?;
        let [transactions, events] = RECORDINGS;
        let history = path.join(match workload.recording() {
            Recording::Events => events,
            Recording::Registers | Recording::Lists => transactions,
        });
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
