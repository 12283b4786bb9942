//! Every file of the shared corpus in a format of registers over numbers can be read, and has the size its
//! index says; the unit tests of Elle's and TimeKiller's formats do the same for theirs.
//!
//! The corpus is not part of the repository (`anomalist_testkit::skip::corpus`).
#![allow(clippy::unwrap_used)]

use anomalist_format::{Format, Input, Loaded, ReadOptions};
use anomalist_history::{Indexed, Outcome, Source};
use anomalist_testkit::skip::{self, corpus};
use std::path::{Path, PathBuf};
use std::process::Command;

struct Case {
    id: String,
    file: PathBuf,
    sessions: usize,
    txns: usize,
    ops: usize,
    expected: String,
}

fn cases(corpus: &Path, format: &str) -> Vec<Case> {
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    let fields = index.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    fields
        .filter(|f| f[2] == format)
        .map(|f| Case {
            id: f[0].to_owned(),
            file: corpus.join(f[1]),
            sessions: f[6].parse().unwrap(),
            txns: f[7].parse().unwrap(),
            ops: f[8].parse().unwrap(),
            expected: f[9].to_owned(),
        })
        .collect()
}

fn load(path: &Path) -> Loaded {
    let options = ReadOptions { threads: 2.try_into().unwrap(), ..ReadOptions::default() };
    anomalist_format::read(Input::open(path).unwrap(), &options)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Sessions, transactions and operations of committed transactions, and how many transactions aborted.
fn committed(loaded: &Loaded) -> (usize, usize, usize, usize) {
    let h = &loaded.history;
    let of = |outcome| h.txns().filter(move |&t| h.outcome(t) == outcome);
    let sessions = h.sessions().filter(|&s| h.session_txns(s).any(|t| h.outcome(t) == Outcome::Committed));
    let ops = of(Outcome::Committed).map(|t| h.op_range(t).len()).sum();
    (sessions.count(), of(Outcome::Committed).count(), ops, of(Outcome::Aborted).count())
}

/// A history whose label says that it is at least read committed has no faulty read: if the meaning of a
/// format were misread, some read would find no writer.
fn no_fault_where_read_committed(case: &Case, loaded: &Loaded) {
    if case.expected.contains("rc=ok") {
        let indexed = Indexed::new(&loaded.history, 1.try_into().unwrap());
        assert_eq!(indexed.index().faults(), [], "{}", case.id);
        assert_eq!(indexed.index().ambiguous_reads(), 0, "{}", case.id);
    }
}

fn unpacked(case: &Case) -> Option<PathBuf> {
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus");
    std::fs::create_dir_all(&into).unwrap();
    let unpack = format!("zstd -dc '{}' | tar -x -C '{}'", case.file.display(), into.display());
    let done = Command::new("sh").arg("-c").arg(unpack).status().is_ok_and(|status| status.success());
    if !done {
        skip::missing("corpus", format!("cannot unpack {} (are tar and zstd installed?)", case.id));
    }
    done.then(|| into.join(&case.id))
}

#[test]
fn plume() {
    let Some(corpus) = corpus() else { return };
    for case in cases(&corpus, "plume-text") {
        let loaded = load(&case.file);
        no_fault_where_read_committed(&case, &loaded);
        assert_eq!(loaded.format, Format::Plume, "{}", case.id);
        let (sessions, txns, ops, _) = committed(&loaded);
        let expected = match case.id.as_str() {
            // The index counts the transaction that is the initial state; a history does not.
            "isovista-pg-ser" => (case.sessions - 1, case.txns - 1, case.ops - 10),
            _ => (case.sessions, case.txns, case.ops),
        };
        assert_eq!((sessions, txns, ops), expected, "{}", case.id);
        assert!(loaded.warnings.is_empty(), "{}: {:?}", case.id, loaded.warnings);
    }
}

#[test]
fn awdit() {
    let Some(corpus) = corpus() else { return };
    for case in cases(&corpus, "awdit-test") {
        let loaded = load(&case.file);
        no_fault_where_read_committed(&case, &loaded);
        assert_eq!(loaded.format, Format::Awdit, "{}", case.id);
        let (sessions, txns, ops, _) = committed(&loaded);
        assert_eq!((sessions, txns, ops), (case.sessions, case.txns, case.ops), "{}", case.id);
    }
}

#[test]
fn dbcop() {
    let Some(corpus) = corpus() else { return };
    for case in cases(&corpus, "dbcop-bincode") {
        let loaded = load(&case.file);
        no_fault_where_read_committed(&case, &loaded);
        assert_eq!(loaded.format, Format::Dbcop, "{}", case.id);
        let h = &loaded.history;
        assert_eq!((h.session_count(), h.txn_count()), (case.sessions, case.txns), "{}", case.id);
        assert_eq!(h.op_count(), case.ops, "{}", case.id);
    }
}

#[test]
fn cobra() {
    let Some(corpus) = corpus() else { return };
    for case in cases(&corpus, "cobra-logs") {
        let Some(folder) = unpacked(&case) else { continue };
        let loaded = load(&folder);
        no_fault_where_read_committed(&case, &loaded);
        assert_eq!(loaded.format, Format::Cobra, "{}", case.id);
        let h = &loaded.history;
        let counts = (h.session_count(), h.txn_count(), h.op_count());
        assert_eq!(counts, (case.sessions, case.txns, case.ops), "{}", case.id);
        assert!(loaded.warnings.is_empty(), "{}: {:?}", case.id, loaded.warnings);
    }
}

#[test]
fn viper() {
    let Some(corpus) = corpus() else { return };
    for case in cases(&corpus, "viper-json") {
        let Some(folder) = unpacked(&case) else { continue };
        let loaded = load(&folder);
        no_fault_where_read_committed(&case, &loaded);
        assert_eq!(loaded.format, Format::Viper, "{}", case.id);
        let h = &loaded.history;
        let counts = (h.session_count(), h.txn_count(), h.op_count());
        assert_eq!(counts, (case.sessions, case.txns, case.ops), "{}", case.id);
        if case.id == "viper-si-cheng-1000-json" {
            // The same run in Cobra's format marks as many reads as initial.
            let indexed = Indexed::new(h, 1.try_into().unwrap());
            let initial = h
                .txns()
                .flat_map(|t| h.ops(t))
                .filter(|(op, _)| indexed.index().source(*op) == Source::Initial);
            assert_eq!(initial.count(), 3300);
        }
    }
}
