//! The table of histories that separate levels is what the engines decide.
//!
//! Candidates are the examples of levels and anomalies, and each of them with times: all sessions at once,
//! or one transaction after another. The smallest candidate of a pair is taken, without times if possible.
//! A time is written behind its transaction: `@1` from 1 to before 2, `@1-3` from 1 to before 4.
//! `ANOMALIST_UPDATE=1` writes the table.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist::{History, check};
use anomalist_format::{Input, ReadOptions};
use anomalist_level::{AnomalyKind, Level, Verdict};
use anomalist_testkit::mini;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Each session's transactions, each as its text.
fn sessions(text: &str) -> Vec<Vec<&str>> {
    text.split("||").map(|session| session.split(';').map(str::trim).collect()).collect()
}

/// The same with a time for each transaction: (session, position) to slots.
fn timed(text: &str, time: impl Fn(usize, usize) -> String) -> String {
    let all = sessions(text).into_iter().enumerate().map(|(session, txns)| {
        let txns = txns.iter().enumerate().map(|(at, txn)| format!("{txn} @{}", time(session, at)));
        txns.collect::<Vec<_>>().join("; ")
    });
    all.collect::<Vec<_>>().join(" || ")
}

/// The candidate as it is, all sessions at once, and one session after another in both directions.
fn variants(text: &str) -> Vec<String> {
    let before = |session: usize| sessions(text)[..session].iter().map(Vec::len).sum::<usize>();
    let after = |session: usize| sessions(text)[session + 1..].iter().map(Vec::len).sum::<usize>();
    vec![
        timed(text, |_, at| (at + 1).to_string()),
        timed(text, |session, at| (before(session) + at + 1).to_string()),
        timed(text, |session, at| (after(session) + at + 1).to_string()),
    ]
}

/// A candidate with times in Anomalist's own format.
fn lines(text: &str) -> String {
    let mut out = String::from("{\"anomalist\":1,\"initial\":0}\n");
    for (session, txns) in sessions(text).iter().enumerate() {
        for txn in txns {
            let (operations, slot) = txn.split_once('@').unwrap();
            let slot: u64 = slot.trim().parse().unwrap();
            let (operations, outcome) = match operations.split_once('!') {
                Some((operations, "abort ")) => (operations, ",\"outcome\":\"aborted\""),
                Some((operations, _)) => (operations, ",\"outcome\":\"unknown\""),
                None => (operations, ""),
            };
            let operations: Vec<String> = operations.split(')').filter_map(operation).collect();
            writeln!(
                out,
                "{{\"session\":{},\"ops\":[{}]{outcome},\"invoked\":{},\"completed\":{}}}",
                session + 1,
                operations.join(","),
                slot * 10,
                slot * 10 + 9
            )
            .unwrap();
        }
    }
    out
}

/// `r(x,[1 2]` as JSON.
fn operation(text: &str) -> Option<String> {
    let (name, rest) = text.trim().split_once('(')?;
    let (key, value) = rest.split_once(',')?;
    let name = if name == "a" { "append" } else { name };
    Some(format!("[\"{name}\",\"{key}\",{}]", value.trim().replace(' ', ",").replace('?', "null")))
}

/// The verdict on each canonical level; none if it is no history.
fn verdicts(text: &str) -> Option<Vec<Verdict>> {
    let history = if text.contains('@') {
        anomalist_format::read(Input::from_bytes(text, lines(text).into_bytes()), &ReadOptions::default())
            .ok()?
            .history
    } else {
        mini::parse(text).ok()?
    };
    let history = History::from(history);
    let answer = check(&history).run().unwrap();
    Some(Level::CANONICAL.iter().map(|&level| answer.verdict(level).unwrap().clone()).collect())
}

fn candidates() -> Vec<String> {
    let of_levels = Level::ALL.iter().flat_map(|level| {
        let info = level.info();
        [info.example_accepts, info.example_rejects].into_iter().flatten()
    });
    let of_anomalies = AnomalyKind::ALL.iter().filter_map(|kind| kind.info().example);
    let mut plain: Vec<String> = of_levels.chain(of_anomalies).map(str::to_owned).collect();
    plain.retain(|text| !text.contains(':'));
    // Only times make it a violation of anything.
    plain.push("w(x,1) || r(x,0)".to_owned());
    plain.sort_by_key(|text| (text.matches('(').count(), text.len(), text.clone()));
    plain.dedup();
    let timed: Vec<String> =
        plain.iter().filter(|text| !text.contains('?')).flat_map(|t| variants(t)).collect();
    plain.into_iter().chain(timed).collect()
}

#[test]
fn the_table_is_what_the_engines_decide() {
    let mut found: BTreeMap<(usize, usize), String> = BTreeMap::new();
    for text in candidates() {
        let Some(verdicts) = verdicts(&text) else { continue };
        for (allows, holds) in verdicts.iter().enumerate().filter(|(_, v)| **v == Verdict::Holds) {
            for (forbids, _) in verdicts.iter().enumerate().filter(|(_, v)| **v == Verdict::Violated) {
                assert!(!Level::CANONICAL[allows].implies(Level::CANONICAL[forbids]), "{text}: {holds:?}");
                found.entry((allows, forbids)).or_insert_with(|| text.clone());
            }
        }
    }
    let mut table = String::new();
    let mut missing = Vec::new();
    for (a, allows) in Level::CANONICAL.iter().enumerate() {
        for (f, forbids) in Level::CANONICAL.iter().enumerate().filter(|(_, f)| !allows.implies(**f)) {
            match found.get(&(a, f)) {
                Some(text) => writeln!(table, "{allows}\t{forbids}\t{text}").unwrap(),
                None => missing.push(format!("{allows} without {forbids}")),
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/separations.tsv");
    if std::env::var_os("ANOMALIST_UPDATE").is_some() {
        fs::write(&path, &table).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), table, "ANOMALIST_UPDATE=1 writes it again");
    assert_eq!(missing, MISSING, "pairs without an example");
}

/// Pairs of levels that no example separates: the first does not imply the second in general, but no history
/// here shows it. Repeatable read and serializability differ by predicates only.
const MISSING: [&str; 12] = [
    "read-your-writes without read-uncommitted",
    "read-your-writes without adya-read-committed",
    "monotonic-reads without read-uncommitted",
    "monotonic-reads without adya-read-committed",
    "monotonic-writes without read-uncommitted",
    "monotonic-writes without adya-read-committed",
    "writes-follow-reads without read-uncommitted",
    "writes-follow-reads without adya-read-committed",
    "repeatable-read without snapshot-isolation",
    "repeatable-read without update-serializable",
    "repeatable-read without serializable",
    "update-serializable without cut-isolation",
];
