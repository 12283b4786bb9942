//! The files that `check` writes beside its answer: certificates, pictures, reports for build servers.

use super::Flags;
use crate::cli::Global;
use crate::destination::{can_be_written, write_file};
use crate::exit::Failure;
use crate::{pages, terminal};
use anomalist_level::Verdict;
use anomalist_page::Run;
use anomalist_report::Subject;
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files asked for, and what has been gathered for them.
pub struct Outputs<'a> {
    flags: &'a Flags,
    certificates: Vec<Value>,
    stems: HashSet<String>,
}

impl<'a> Outputs<'a> {
    /// Nothing yet.
    pub fn new(flags: &'a Flags) -> Outputs<'a> {
        Outputs { flags, certificates: Vec::new(), stems: HashSet::new() }
    }

    /// Fails if one of the files could not be written in the end.
    pub fn can_be_written(&self) -> Result<(), Failure> {
        can_be_written(self.files())
    }

    fn files(&self) -> impl Iterator<Item = &'a PathBuf> {
        let flags = self.flags;
        [&flags.certificate, &flags.report].into_iter().flatten().chain(flags.documents.files())
    }

    /// What is written for each history.
    pub fn of_one(&mut self, subject: &Subject<'_>) -> Result<(), Failure> {
        if self.flags.certificate.is_some() {
            let (path, format) = (&subject.facts.path, &subject.facts.format);
            let document =
                anomalist_format::certificate::write(subject.history, path, format, subject.judgement);
            let decided =
                subject.judgement.levels.iter().filter(|l| !matches!(l.verdict, Verdict::Unknown(_)));
            let written = document["verdicts"].as_array().map_or(0, Vec::len);
            let left_out = decided.count().saturating_sub(written);
            if left_out > 0 {
                terminal::tell(&format!(
                    "note: {path}: the certificate leaves out {left_out} verdicts by timestamps; --verify \
                     verifies them"
                ));
            }
            self.certificates.push(document);
        }
        if self.flags.dot.is_none() && self.flags.svg.is_none() {
            return Ok(());
        }
        let stem = self.stem(&subject.facts.path);
        if let Some(folder) = &self.flags.dot {
            pictures(folder, &stem, "dot", subject, anomalist_report::dot)?;
        }
        if let Some(folder) = &self.flags.svg {
            pictures(folder, &stem, "svg", subject, anomalist_report::svg)?;
        }
        Ok(())
    }

    /// What is written at the end.
    pub fn of_all(&mut self, subjects: &[Subject<'_>], global: &Global) -> Result<(), Failure> {
        if let Some(path) = &self.flags.certificate {
            let mut documents = std::mem::take(&mut self.certificates);
            let lone = if self.flags.histories.len() == 1 { documents.pop() } else { None };
            let document = lone.unwrap_or(Value::Array(documents));
            write_file(path, format!("{document}\n").as_bytes())?;
        }
        if let Some(path) = &self.flags.report {
            let runs = subjects.iter().map(|subject| {
                let mut run = Run::of(subject);
                run.unseen = pages::unseen(subject.history, global);
                run
            });
            let page = pages::page("Isolation of recorded histories", runs.collect());
            write_file(path, page.as_bytes())?;
        }
        self.flags.documents.write(subjects)
    }

    /// A name for the pictures of a history: its own, without folder and endings, and a number if it is
    /// taken.
    fn stem(&mut self, path: &str) -> String {
        let name = Path::new(path).file_name().map_or("history".into(), |name| name.to_string_lossy());
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
        let base = match name.rsplit_once('.') {
            Some((base, _)) if !base.is_empty() => base,
            _ if name == "-" => "history",
            _ => name,
        };
        let mut stem = base.to_owned();
        let mut number = 2;
        while !self.stems.insert(stem.clone()) {
            stem = format!("{base}-{number}");
            number += 1;
        }
        stem
    }
}

type Draw = fn(&anomalist_history::History, &anomalist_level::Anomaly) -> String;

/// One picture per kind of anomaly.
fn pictures(
    folder: &Path,
    stem: &str,
    ending: &str,
    subject: &Subject<'_>,
    draw: Draw,
) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::io(folder, error))?;
    for anomaly in &subject.judgement.anomalies {
        let code = anomaly.kind.code();
        let alike = subject.judgement.anomalies.iter().filter(|a| a.kind.code() == code).count();
        let name = if alike > 1 { anomaly.kind.info().name } else { code };
        let path = folder.join(format!("{stem}-{name}.{ending}"));
        write_file(&path, draw(subject.history, anomaly).as_bytes())?;
    }
    Ok(())
}
