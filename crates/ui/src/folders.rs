//! Runs and histories in the chosen folders.
//!
//! Folders are walked anew for each list, to a depth and a number; links are not followed. What is found
//! has an identifier made from its path, and a browser names things by it. Before a path is used it is
//! resolved again, and refused if it now leads elsewhere.
//!
//! A *run* is a folder with `result.json`, as `anomalist test` and `anomalist sql` keep it; one of `sql` has
//! no history, but the page that was written at its end. A *history* is a file whose
//! content one of the formats recognises, or a folder of logs. A history's verdict is known once it was
//! checked; changing the file forgets it.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// How deep folders are walked, and how many entries are looked at.
const DEPTH: usize = 5;
const ENTRIES: usize = 20_000;
/// Most items of a list.
const ITEMS: usize = 2_000;
/// A larger result is not read for a list.
const RESULT: u64 = 64 << 20;
/// How much of a log is shown.
const LOG: usize = 64 << 10;
/// Folders of builds, which hold no histories.
const SKIPPED: [&str; 2] = ["target", "node_modules"];
/// The page of a run.
const PAGE: &str = "report.html";
/// A larger page is not shown.
const PAGE_SIZE: u64 = 64 << 20;
/// What the history of a run is called.
const RECORDINGS: [&str; 2] = ["history.jsonl", "history.elle.jsonl"];

/// A run, a history, or a file that a browser sent.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) id: String,
    kind: &'static str,
    name: String,
    /// The folder as the user named it; empty for files that a browser sent.
    folder: String,
    /// What is checked.
    pub(crate) history: PathBuf,
    /// The folder of a run.
    run: Option<PathBuf>,
    format: Option<&'static str>,
    size: u64,
    modified_ms: u64,
}

/// When a file was last changed, and its size: what a cached answer is about.
type Stamp = (u64, u64);

#[derive(Default)]
struct Known {
    items: HashMap<String, Item>,
    formats: HashMap<PathBuf, (Stamp, Option<&'static str>)>,
    results: HashMap<String, (Stamp, Value)>,
    dropped: Vec<Item>,
}

/// The folders.
pub(crate) struct Folders {
    /// As the user named them, and what they are.
    roots: Vec<(PathBuf, PathBuf)>,
    known: Mutex<Known>,
}

impl Folders {
    pub(crate) fn new(folders: &[PathBuf]) -> io::Result<Folders> {
        let real = |folder: &PathBuf| Ok((folder.clone(), folder.canonicalize()?));
        let roots = folders.iter().map(real).collect::<io::Result<_>>()?;
        Ok(Folders { roots, known: Mutex::default() })
    }

    /// The folder for what is new.
    pub(crate) fn first(&self) -> &Path {
        self.roots.first().map_or(Path::new("."), |(named, _)| named)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.roots.iter().map(|(named, _)| named.display().to_string()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything, the newest first, with a summary of what is known about it.
    pub(crate) fn list(&self) -> Value {
        let mut walk = Walk { left: ENTRIES, found: Vec::new(), folder: String::new() };
        for (named, real) in &self.roots {
            walk.folder = named.display().to_string();
            walk.folder(named, real, DEPTH, &mut self.lock().formats);
        }
        let complete = walk.left > 0 && walk.found.len() <= ITEMS;
        let mut items = walk.found;
        let mut known = self.lock();
        items.extend(known.dropped.iter().cloned());
        items.sort_by(|a, b| b.modified_ms.cmp(&a.modified_ms).then_with(|| a.id.cmp(&b.id)));
        items.truncate(ITEMS);
        known.items = items.iter().map(|item| (item.id.clone(), item.clone())).collect();
        let shown: Vec<Value> = items.iter().map(|item| known.summary(item)).collect();
        json!({"items": shown, "complete": complete})
    }

    /// A file that a browser sent.
    pub(crate) fn add(&self, name: String, path: PathBuf) -> io::Result<Item> {
        let metadata = fs::metadata(&path)?;
        let item = Item {
            id: identifier(&path),
            kind: "dropped",
            name,
            folder: String::new(),
            format: recognised(&path),
            run: None,
            history: path,
            size: metadata.len(),
            modified_ms: modified(&metadata),
        };
        let mut known = self.lock();
        known.dropped.push(item.clone());
        known.items.insert(item.id.clone(), item.clone());
        Ok(item)
    }

    /// An item whose history is where it was and inside a folder.
    pub(crate) fn get(&self, id: &str) -> Option<Item> {
        let (item, dropped) = {
            let known = self.lock();
            let item = known.items.get(id)?.clone();
            let dropped = known.dropped.iter().any(|dropped| dropped.id == id);
            (item, dropped)
        };
        (dropped || self.is_inside(&item.history)).then_some(item)
    }

    /// Whether a path, with all links resolved, is in a folder.
    pub(crate) fn is_inside(&self, path: &Path) -> bool {
        let Ok(real) = path.canonicalize() else { return false };
        self.roots.iter().any(|(_, root)| real.starts_with(root))
    }

    /// Remembers the answer of a check. What a run says about itself stays.
    pub(crate) fn learn(&self, id: &str, mut results: Value) {
        let mut known = self.lock();
        let Some(item) = known.items.get(id).cloned().filter(|_| results[0].is_object()) else { return };
        if let Some(before) = known.results(&item) {
            for name in ["about", "claim"] {
                if let Some(value) = before[0].get(name) {
                    results[0][name] = value.clone();
                }
            }
        }
        known.results.insert(id.to_owned(), (item.stamp(), results));
    }

    /// An item in full: how the run went, results, the end of the log.
    pub(crate) fn detail(&self, item: &Item) -> Value {
        let mut known = self.lock();
        let mut shown = known.summary(item);
        shown["results"] = known.results(item).map_or(Value::Null, |result| result.clone());
        drop(known);
        if let Some(run) = &item.run {
            shown["run"] = item.document().map_or(Value::Null, |mut document| {
                if let Some(fields) = document.as_object_mut() {
                    fields.remove("result");
                }
                document
            });
            shown["log"] = json!(tail(&run.join("log.txt")));
        }
        shown
    }
}

impl Item {
    fn stamp(&self) -> Stamp {
        (self.size, self.modified_ms)
    }

    /// What a person knows it by: its path, or the name of a file that a browser sent.
    pub(crate) fn title(&self) -> String {
        match self.kind {
            "dropped" => self.name.clone(),
            _ => self.history.display().to_string(),
        }
    }

    /// What `result.json` says.
    fn document(&self) -> Option<Value> {
        serde_json::from_slice(&self.kept("result.json", RESULT)?).ok()
    }

    /// The page that was written at the end of the run.
    pub(crate) fn page(&self) -> Option<Vec<u8>> {
        self.kept(PAGE, PAGE_SIZE)
    }

    /// A file of the run's folder, unless it is a link or larger than this.
    fn kept(&self, name: &str, most: u64) -> Option<Vec<u8>> {
        let path = self.run.as_ref()?.join(name);
        let metadata = fs::symlink_metadata(&path).ok()?;
        (metadata.is_file() && metadata.len() <= most).then(|| fs::read(path).ok())?
    }

    /// Whether it can be checked: a run of `sql` has no history.
    pub(crate) fn has_history(&self) -> bool {
        self.kind != "sql"
    }
}

impl Known {
    /// What is known about an item's levels: an array with a result per history in it.
    fn results(&mut self, item: &Item) -> Option<&Value> {
        let current = self.results.get(&item.id).is_some_and(|(stamp, _)| *stamp == item.stamp());
        if !current {
            self.results.remove(&item.id);
            let document = item.document()?;
            let mut result = document.get("result").filter(|result| result.is_object())?.clone();
            if let Some(claim) = document.get("claim").filter(|claim| !claim.is_null()) {
                result["claim"] = claim.clone();
            }
            let about: Vec<(&str, Value)> =
                ["target", "name", "workload", "started", "committed", "aborted", "indeterminate"]
                    .into_iter()
                    .filter_map(|name| Some((name, document.get(name)?.clone())))
                    .collect();
            result["about"] = about.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let mut results = json!([result]);
            crate::tops::add(&mut results);
            self.results.insert(item.id.clone(), (item.stamp(), results));
        }
        self.results.get(&item.id).map(|(_, result)| result)
    }

    /// An item in a list.
    fn summary(&mut self, item: &Item) -> Value {
        let results = self.results(item).and_then(Value::as_array);
        let mut shown = json!({"id": item.id, "kind": item.kind, "name": item.name, "folder": item.folder,
            "format": item.format, "size": item.size, "modified_ms": item.modified_ms,
            "path": (item.kind != "dropped").then(|| item.title())});
        let Some(results) = results else {
            if item.kind == "sql"
                && let Some(document) = item.document()
            {
                show_sql(&mut shown, &document);
            }
            return shown;
        };
        shown["verdicts"] = verdicts(results);
        shown["anomalies"] = anomalies(results);
        // A result is a file that anything may have written: only what has the right type is passed on.
        let first = results.first().unwrap_or(&Value::Null);
        for name in ["target", "workload", "started"] {
            shown[format!("run_{name}")] = json!(first["about"][name].as_str());
        }
        for name in ["committed", "aborted", "indeterminate"] {
            shown[format!("run_{name}")] = json!(first["about"][name].as_u64());
        }
        if let (Some(level), Some(verdict)) =
            (first["claim"]["level"].as_str(), first["claim"]["verdict"].as_str())
        {
            shown["claim"] = json!({"level": level, "verdict": verdict});
        }
        shown
    }
}

/// What a list says about a run of `sql`: the database, and the verdict on each of its isolation levels.
/// Only what has the right type is passed on.
fn show_sql(shown: &mut Value, document: &Value) {
    let text = |name: &str| document["database"][name].as_str().unwrap_or_default();
    shown["run_target"] = json!(format!("{} {}", text("product"), text("version")).trim());
    shown["run_workload"] = json!("sql");
    shown["run_started"] = json!(document["started"].as_str());
    let levels = || document["levels"].as_array().into_iter().flatten();
    for name in ["committed", "aborted", "indeterminate"] {
        let count = levels().filter_map(|level| level[name].as_u64()).fold(0, u64::saturating_add);
        shown[format!("run_{name}")] = json!(count);
    }
    let isolation = |level: &Value| {
        Some(json!({"isolation": level["isolation"].as_str()?, "verdict": level["verdict"].as_str()?}))
    };
    shown["isolations"] = levels().filter_map(isolation).collect();
    shown["anomalies"] = anomalies(document["levels"].as_array().map_or(&[][..], Vec::as_slice));
}

/// How often each anomaly was found.
fn anomalies(results: &[Value]) -> Value {
    let all = results.iter().filter_map(|result| result.get("anomalies")?.as_array()).flatten();
    let counted = all.filter_map(|anomaly| {
        let (kind, code) = (anomaly["kind"].as_str()?, anomaly["code"].as_str());
        Some(json!({"kind": kind, "code": code.unwrap_or(kind), "count": anomaly["count"].as_u64()?}))
    });
    counted.collect()
}

/// The verdict on each level, the worst of several histories.
fn verdicts(results: &[Value]) -> Value {
    let rank = |verdict: &str| ["holds", "unknown", "violated"].iter().position(|v| *v == verdict);
    let mut worst = serde_json::Map::new();
    for level in results.iter().filter_map(|result| result.get("levels")?.as_array()).flatten() {
        let (Some(name), Some(verdict)) = (level["level"].as_str(), level["verdict"].as_str()) else {
            continue;
        };
        let before = worst.get(name).and_then(Value::as_str).and_then(rank);
        if before < rank(verdict) {
            worst.insert(name.to_owned(), json!(verdict));
        }
    }
    Value::Object(worst)
}

struct Walk {
    left: usize,
    found: Vec<Item>,
    folder: String,
}

type Formats = HashMap<PathBuf, (Stamp, Option<&'static str>)>;

impl Walk {
    fn folder(&mut self, path: &Path, real: &Path, depth: usize, formats: &mut Formats) {
        if depth == 0 || self.add_run(path) {
            return;
        }
        let Ok(entries) = fs::read_dir(real) else { return };
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        if names.iter().any(|name| name.to_string_lossy().ends_with(".log")) {
            self.add(path, "history", formats);
        }
        for name in names {
            if self.left == 0 || self.found.len() > ITEMS {
                return;
            }
            self.left -= 1;
            let text = name.to_string_lossy();
            if text.starts_with('.') || SKIPPED.contains(&&*text) || text.ends_with(".log") {
                continue;
            }
            let inner = path.join(&name);
            // Not followed: a link may lead anywhere.
            match fs::symlink_metadata(&inner) {
                Ok(metadata) if metadata.is_dir() => self.folder(&inner, &inner, depth - 1, formats),
                Ok(metadata) if metadata.is_file() => self.add(&inner, "history", formats),
                _ => {}
            }
        }
    }

    /// Adds a run, if the folder is one.
    fn add_run(&mut self, path: &Path) -> bool {
        let is_file = |file: &Path| fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_file());
        let history = RECORDINGS.map(|name| path.join(name)).into_iter().find(|file| is_file(file));
        let result = path.join("result.json");
        if !is_file(&result) {
            return false;
        }
        let (kind, history) = match history {
            Some(history) => ("run", history),
            None if is_file(&path.join(PAGE)) => ("sql", result),
            None => return false,
        };
        let Ok(metadata) = fs::metadata(&history) else { return false };
        self.found.push(Item {
            id: identifier(path),
            kind,
            name: path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            folder: self.folder.clone(),
            history,
            run: Some(path.to_owned()),
            format: None,
            size: metadata.len(),
            modified_ms: modified(&metadata),
        });
        true
    }

    /// Adds a history, if a format recognises it.
    fn add(&mut self, path: &Path, kind: &'static str, formats: &mut Formats) {
        let Ok(metadata) = fs::metadata(path) else { return };
        let stamp = (metadata.len(), modified(&metadata));
        let format = match formats.get(path) {
            Some((known, format)) if *known == stamp => *format,
            _ => {
                let format = recognised(path);
                formats.insert(path.to_owned(), (stamp, format));
                format
            }
        };
        let Some(format) = format else { return };
        let name = path.strip_prefix(&self.folder).unwrap_or(path).to_string_lossy().into_owned();
        self.found.push(Item {
            id: identifier(path),
            kind,
            name,
            folder: self.folder.clone(),
            history: path.to_owned(),
            run: None,
            format: Some(format),
            size: stamp.0,
            modified_ms: stamp.1,
        });
    }
}

fn recognised(path: &Path) -> Option<&'static str> {
    anomalist_format::detect(path).ok().map(|format| format.name())
}

fn modified(metadata: &Metadata) -> u64 {
    let since = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH).duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as u64)
}

/// The same for the same path, in every run of the same program.
fn identifier(path: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The end of a text file.
fn tail(path: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok().filter(Metadata::is_file)?;
    let mut file = fs::File::open(path).ok()?;
    let skipped = metadata.len().saturating_sub(LOG as u64);
    io::Seek::seek(&mut file, io::SeekFrom::Start(skipped)).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
