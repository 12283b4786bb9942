//! Other checkers, run on the same file beside Anomalist.
//!
//! Times of two machines, or of two days, say little about each other. So a checker that is installed runs
//! in turn with Anomalist, each run a process from start to end, and the best time of each counts. One that
//! is not installed is called that: no figures of other days are quoted. A checker is found by an
//! environment variable with the path of its program or jar, or by its name in `PATH`.
//!
//! What they read is the file of the case, in the format that they share with Anomalist; VeriStrong gets the
//! same history in dbcop's. Their command lines are those that their documentation gives.

use crate::cases::Case;
use crate::history::{Folder, HistoryFile};
use crate::measure::Runner;
use crate::question::Question;
use anomalist_cli::exit::Failure;
use anomalist_cli::interrupt;
use anomalist_format::Format;
use serde_json::{Value, json};
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A checker of others.
#[derive(Debug)]
pub struct Peer {
    /// Its name.
    pub name: &'static str,
    /// The environment variable with its path.
    variable: &'static str,
    /// What it is called in `PATH`; `None`: it is a jar, which Java runs.
    program: Option<&'static str>,
    /// The format that it reads.
    format: Format,
    /// What it calls the level of a question, if it decides it.
    level: fn(Question) -> Option<&'static str>,
    /// Its command line, by level and file.
    arguments: fn(&str, &Path) -> Vec<String>,
}

/// What a checker took for a question.
#[derive(Clone, PartialEq, Debug)]
pub struct Beside {
    /// Its name.
    pub name: &'static str,
    /// Its best time in milliseconds, or why there is none.
    pub took: Result<f64, String>,
}

static PEERS: [Peer; 5] = [
    Peer {
        name: "AWDIT",
        variable: "ANOMALIST_PEER_AWDIT",
        program: Some("awdit"),
        format: Format::Plume,
        level: |question| weak(question, ["read-committed", "read-atomic", "causal"]),
        arguments: |level, file| words(&["check", "-i", level], file),
    },
    Peer {
        name: "Plume",
        variable: "ANOMALIST_PEER_PLUME",
        program: None,
        format: Format::Plume,
        level: |question| weak(question, ["RC", "RA", "TCC"]),
        arguments: |level, file| words(&["-t", "PLUME", "-i", level], file),
    },
    Peer {
        name: "Chronos",
        variable: "ANOMALIST_PEER_CHRONOS",
        program: None,
        format: Format::Timekiller,
        level: |question| (question == Question::SiStamps).then_some("kv"),
        arguments: |model, file| words(&["--data_model", model, "--history_path"], file),
    },
    Peer {
        name: "adya",
        variable: "ANOMALIST_PEER_ADYA",
        program: Some("adya"),
        format: Format::ElleJsonl,
        level: |question| match question {
            Question::Strict => Some("strict-serializable"),
            Question::PlainSerializable => Some("serializable"),
            _ => None,
        },
        arguments: |level, file| words(&["check", "-m", "list-append", "-c", level], file),
    },
    Peer {
        name: "VeriStrong",
        variable: "ANOMALIST_PEER_VERISTRONG",
        program: Some("veristrong"),
        format: Format::Dbcop,
        level: |question| match question {
            Question::Serializable => Some("ser"),
            Question::SnapshotIsolation => Some("si"),
            _ => None,
        },
        arguments: |level, file| {
            words(&["--history-type", "dbcop", "--pruning", "fast", "--isolation-level", level], file)
        },
    },
];

fn weak(question: Question, names: [&'static str; 3]) -> Option<&'static str> {
    let at = [Question::ReadCommitted, Question::ReadAtomic, Question::Causal];
    at.iter().position(|&q| q == question).map(|i| names[i])
}

fn words(flags: &[&str], file: &Path) -> Vec<String> {
    flags.iter().map(|&flag| flag.to_owned()).chain([file.display().to_string()]).collect()
}

/// The files that checkers read for one case.
pub struct Files<'a> {
    /// The file that Anomalist reads.
    pub ours: &'a HistoryFile,
    /// The same history as dbcop writes it, if a checker that reads that is installed.
    dbcop: Option<HistoryFile>,
}

impl<'a> Files<'a> {
    /// Writes what installed checkers need in another format.
    pub fn new(case: &Case, ours: &'a HistoryFile, folder: &Folder) -> Result<Files<'a>, Failure> {
        let asked = |peer: &Peer| case.questions().iter().any(|&q| (peer.level)(q).is_some());
        let needed = PEERS.iter().any(|p| p.format == Format::Dbcop && asked(p) && p.path().is_some());
        let dbcop = if needed { Some(folder.write_as(case, Format::Dbcop)?) } else { None };
        Ok(Files { ours, dbcop })
    }

    fn of(&self, format: Format) -> Option<&HistoryFile> {
        [Some(self.ours), self.dbcop.as_ref()].into_iter().flatten().find(|file| file.facts.format == format)
    }
}

impl Peer {
    /// Where it is, if it is installed.
    fn path(&self) -> Option<PathBuf> {
        let named = env::var_os(self.variable).map(PathBuf::from);
        named.or_else(|| {
            let program = self.program?;
            let folders = env::var_os("PATH").unwrap_or_default();
            env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
        })
    }

    fn command(&self, path: &Path, level: &str, file: &HistoryFile) -> Command {
        let mut command = Command::new(if self.program.is_some() { path } else { Path::new("java") });
        if self.program.is_none() {
            command.arg("-jar").arg(path);
        }
        command.args((self.arguments)(level, &file.path));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// A checker that answers a question about a case.
struct Contender<'a> {
    peer: &'static Peer,
    level: &'static str,
    /// Where it is, and what it reads.
    ready: Option<(PathBuf, &'a HistoryFile)>,
    best: Option<f64>,
    failed: Option<String>,
}

/// The best times of Anomalist and of the checkers that answer the same question, run in turn; `None`:
/// Anomalist did not answer.
pub fn measure(
    files: &Files<'_>,
    question: Question,
    repeats: u32,
    runner: &Runner,
) -> Result<Option<(f64, Vec<Beside>)>, Failure> {
    let own = files.ours.facts.format;
    let contends =
        |peer: &&'static Peer| peer.format == own || own == Format::Plume && peer.format == Format::Dbcop;
    let contender = |peer: &'static Peer| {
        let level = (peer.level)(question)?;
        let ready = peer.path().and_then(|path| Some((path, files.of(peer.format)?)));
        Some(Contender { peer, level, ready, best: None, failed: None })
    };
    let mut contenders: Vec<Contender<'_>> = PEERS.iter().filter(contends).filter_map(contender).collect();
    let mut ours: Option<f64> = None;
    for _ in 0..repeats {
        let Some(took) = runner.once(files.ours, question)? else { return Ok(None) };
        ours = Some(ours.map_or(took, |best| best.min(took)));
        for contender in &mut contenders {
            contender.run(runner)?;
        }
        if interrupt::is_requested() {
            return Err(Failure::Interrupted);
        }
    }
    Ok(ours.map(|ours| (ours, contenders.into_iter().map(Contender::result).collect())))
}

impl Contender<'_> {
    /// One run. A checker that failed, or took too long, is not run again.
    fn run(&mut self, runner: &Runner) -> Result<(), Failure> {
        let Some((path, file)) = self.ready.as_ref().filter(|_| self.failed.is_none()) else { return Ok(()) };
        match runner.timed(self.peer.command(path, self.level, file))? {
            Ok(took) => self.best = Some(self.best.map_or(took, |best| best.min(took))),
            Err(why) => self.failed = Some(why),
        }
        Ok(())
    }

    fn result(self) -> Beside {
        let missing = || self.failed.clone().unwrap_or_else(|| "not installed".to_owned());
        let took = self.best.filter(|_| self.failed.is_none()).ok_or_else(missing);
        Beside { name: self.peer.name, took }
    }
}

impl Beside {
    /// How many times as long it took as Anomalist.
    pub fn ratio(&self, ours_ms: f64) -> Option<f64> {
        self.took.as_ref().ok().map(|theirs| theirs / ours_ms.max(1e-3))
    }

    /// As data.
    pub fn json(&self, ours_ms: f64) -> Value {
        match &self.took {
            Ok(ms) => json!({"tool": self.name, "ms": ms, "ratio": self.ratio(ours_ms)}),
            Err(why) => json!({"tool": self.name, "failed": why}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_asked_what_it_decides() {
        let asked = |question| -> Vec<&str> {
            PEERS.iter().filter(|p| (p.level)(question).is_some()).map(|p| p.name).collect()
        };
        assert_eq!(asked(Question::Causal), ["AWDIT", "Plume"]);
        assert_eq!(asked(Question::SiStamps), ["Chronos"]);
        assert_eq!(asked(Question::Strict), ["adya"]);
        assert_eq!(asked(Question::SnapshotIsolation), ["VeriStrong"]);
        assert!(asked(Question::AllWeak).is_empty());
    }

    #[test]
    fn a_ratio_is_of_one_run() {
        let beside = Beside { name: "x", took: Ok(300.0) };
        assert_eq!(beside.ratio(100.0), Some(3.0));
        let missing = Beside { name: "x", took: Err("not installed".to_owned()) };
        assert_eq!(missing.ratio(100.0), None);
        assert_eq!(missing.json(100.0)["failed"], "not installed");
    }
}
