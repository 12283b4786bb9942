//! The histories to measure, as files in a folder that goes away.

use crate::cases::{Case, Source};
use anomalist_cli::destination::Destination;
use anomalist_cli::exit::Failure;
use anomalist_cli::interrupt;
use anomalist_format::Format;
use anomalist_history::{Builder, History, OpKind, TooLarge};
use anomalist_workload::{Generator, Kind};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What is known of a history without reading it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The format of the file.
    pub format: Format,
    /// Its size.
    pub bytes: u64,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of transactions.
    pub transactions: u64,
    /// Number of operations.
    pub operations: u64,
}

/// A history in a file, which goes away with it.
pub struct HistoryFile {
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub facts: Facts,
    keep: bool,
}

impl Drop for HistoryFile {
    fn drop(&mut self) {
        if !self.keep {
            // The folder goes away later, and then says nothing either.
            _ = fs::remove_file(&self.path);
        }
    }
}

/// A folder of our own, which goes away with us: at the end, after a failure, and after Ctrl-C.
pub struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    /// Makes one, in `parent` or where temporary files go.
    pub fn create(parent: Option<&Path>, keep: bool) -> Result<Folder, Failure> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = parent.join(format!("anomalist-bench-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| Failure::io(&path, error))?;
        Ok(Folder { path, keep })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the history of a case, in the format of its kind.
    pub fn write(&self, case: &Case) -> Result<HistoryFile, Failure> {
        let is = |kind: fn(Kind) -> bool| matches!(&case.source, Source::Simulated(spec) if kind(spec.kind));
        self.write_as(
            case,
            if is(Kind::is_timestamped) {
                Format::Timekiller
            } else if is(Kind::is_list) {
                Format::ElleJsonl
            } else {
                Format::Plume
            },
        )
    }

    /// Writes the history of a case in a format.
    pub fn write_as(&self, case: &Case, format: Format) -> Result<HistoryFile, Failure> {
        let extension = match format {
            Format::Timekiller => "json",
            Format::ElleJsonl => "jsonl",
            Format::Dbcop => "bincode",
            _ => "txt",
        };
        let path = self.path.join(format!("{}-{}.{extension}", case.group, case.name));
        let mut file = HistoryFile {
            facts: Facts { format, bytes: 0, sessions: 0, transactions: 0, operations: 0 },
            keep: self.keep,
            path,
        };
        let mut out = Destination::create(&file.path, format, false)?;
        let mut write = |batch: &History, facts: &mut Facts| {
            facts.transactions += batch.txn_count() as u64;
            facts.operations += batch.op_count() as u64;
            facts.sessions = facts.sessions.max(batch.session_count() as u64);
            if interrupt::is_requested() { Err(Failure::Interrupted) } else { out.append(batch) }
        };
        match &case.source {
            Source::Simulated(spec) => {
                for batch in Generator::new((**spec).clone()).map_err(Failure::input)? {
                    write(&batch, &mut file.facts)?;
                }
                file.facts.sessions = spec.sessions.into();
            }
            &Source::OneWriter { sessions, txns_per_session, ops_per_txn, keys } => {
                let history = one_writer(sessions, txns_per_session, ops_per_txn, keys);
                write(&history.map_err(Failure::input)?, &mut file.facts)?;
            }
        }
        out.finish()?;
        let io = |error| Failure::io(&file.path, error);
        if case.by_session && format == Format::Plume {
            sort_by_session(&file.path, file.facts.sessions as usize).map_err(io)?;
        }
        file.facts.bytes = fs::metadata(&file.path).map_err(io)?.len();
        Ok(file)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            // Whatever made us give up has been reported already.
            _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A session writes every key in one transaction; the others read keys here and there.
fn one_writer(sessions: u32, txns: u32, ops: u32, keys: u32) -> Result<History, TooLarge> {
    let mut b = Builder::new();
    let zero = b.int(0);
    b.set_initial_default(Some(zero));
    let labels: Vec<_> = (0..=i64::from(sessions.max(keys))).map(|i| b.int(i)).collect();
    let session = b.session(labels[0]);
    let draft = b.transaction(session);
    b.set_label(draft, labels[0]);
    for k in 0..keys as usize {
        let key = b.key(labels[k]);
        b.op(draft, OpKind::Write, key, labels[k + 1]);
    }
    let mut next = 0_u64;
    for t in 0..txns {
        for s in 1..=sessions {
            let session = b.session(labels[s as usize]);
            let draft = b.transaction(session);
            let label = b.int(i64::from(t * sessions + s));
            b.set_label(draft, label);
            for _ in 0..ops {
                // Knuth's multiplier: far apart, and the same every time.
                next += 1;
                let k = (next.wrapping_mul(2_654_435_761) >> 7) as usize % keys as usize;
                let key = b.key(labels[k]);
                b.op(draft, OpKind::Read, key, labels[k + 1]);
            }
        }
    }
    b.finish()
}

/// Sorts the lines of Plume's text by session, keeping the order within each.
fn sort_by_session(path: &Path, sessions: usize) -> io::Result<()> {
    let mut sorted: Vec<Vec<u8>> = vec![Vec::new(); sessions];
    let mut lines = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let session =
            line.split(|&c| c == b',').nth(2).and_then(|s| std::str::from_utf8(s).ok()?.parse().ok());
        let session: usize = session.unwrap_or(0);
        if session >= sorted.len() {
            sorted.resize(session + 1, Vec::new());
        }
        sorted[session].append(&mut line);
    }
    drop(lines);
    let mut out = BufWriter::new(File::create(path)?);
    for lines in sorted {
        out.write_all(&lines)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorting_keeps_the_order_within_a_session() {
        let path = std::env::temp_dir().join(format!("anomalist-sort-{}.txt", std::process::id()));
        fs::write(&path, "w(1,1,1,0)\nw(2,2,0,1)\nr(1,1,1,2)\nr(2,2,0,3)\n").unwrap();
        sort_by_session(&path, 2).unwrap();
        let sorted = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(sorted, "w(2,2,0,1)\nr(2,2,0,3)\nw(1,1,1,0)\nr(1,1,1,2)\n");
    }

    #[test]
    fn one_writer_is_read_by_everybody() {
        let history = one_writer(3, 2, 5, 4).unwrap();
        assert_eq!((history.session_count(), history.txn_count(), history.op_count()), (4, 7, 4 + 3 * 2 * 5));
        let indexed = anomalist_history::Indexed::new(&history, std::num::NonZeroUsize::MIN);
        assert!(indexed.index().faults().is_empty());
    }
}
