//! The drawings of the book: `docs/spec/pictures` has a picture of every kind of anomaly that an example
//! shows, one of every level's example, and the lattice of levels. The program draws them.
//!
//! `ANOMALIST_UPDATE=1 cargo test -p anomalist-report --test book` writes them again; then
//! `ANOMALIST_UPDATE=1 cargo test -p anomalist-level --test spec` puts new ones on the pages.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Inference, Request, check};
use anomalist_history::{Datum, Event, EventKind, Events, History, Indexed, Process};
use anomalist_jepsen::datatypes::{self, Datatype};
use anomalist_level::{Anomaly, AnomalyKind, Judgement, Level, Verdict};
use anomalist_testkit::mini;
use anomalist_timestamp::{Tie, offline};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Examples of what the tables have none of: sessions, real time, timestamps.
const FURTHER: &[&str] = &[
    "a(x,1); a(x,2) || r(x,[2 1])",
    "r(x,1); w(x,1)",
    "r(x,1) w(x,2) || r(x,2) w(x,1)",
    "w(x,1) || r(x,1) r(y,0) || w(y,1); r(x,0)",
    "w(y,1); r(x,0) || r(y,0) w(x,1)",
    "a(x,1) @1-2 || a(x,2) @3-4 || r(x,[2 1]) @5-6",
    "r(x,1) @1-2 || w(x,1) @3-4",
    "w(x,1) @1-2 || r(x,0) @3-4",
    "w(x,1) @1-9 || r(x,1) r(y,0) @1-9 || w(y,1) @1-2 || r(x,0) @3-9",
    "w(y,1) @1-2 || r(x,0) @3-4 || r(y,0) w(x,1) @1-9",
    "w(x,1) #3-4; w(y,1) #1-5",
    "w(x,1) r(x,2) #1-2",
    "w(x,1) #1-2 || r(x,0) #3-4",
    "w(x,1) #1-4 || w(x,2) #2-5",
    "w(x,1) #1-3 || w(x,2) #2-3 || r(x,1) #4-5",
    "w(x,1) #4-2",
    "w(x,1) #1-4; w(y,1) #1-2",
    "w(x,1) #1-2 || r(x,0) #1-4",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spec/pictures")
}

/// A history with everything that is found in it.
struct Shown {
    history: History,
    judgement: Judgement,
}

fn shown(text: &str) -> Shown {
    let history = mini::history(text);
    let indexed = Indexed::new(&history, 1.try_into().unwrap());
    // Each register is said to be written after what was read, so that more orders of versions are known.
    let inference = Inference { writes_follow_reads: true, ..Inference::default() };
    let request = Request { levels: Level::ALL.to_vec(), inference, ..Request::default() };
    let mut judgement = check(&indexed, &request, &Budget::unlimited());
    let levels = Level::ALL.to_vec();
    let request =
        offline::ByStamps { levels, anomalies: None, tie: Tie::Inclusive, threads: 1.try_into().unwrap() };
    if let Some((stamps, _)) = offline::judge(&history, &request, &Budget::unlimited()) {
        judgement.anomalies.extend(stamps.anomalies);
    }
    Shown { history, judgement }
}

/// A read of rows that misses one: row 1 is there from the beginning, and a transaction finds nothing.
fn missing_row() -> Shown {
    let event = |process, f: &str, value| Event {
        kind: EventKind::Ok,
        process: Process::Client(process),
        f: f.into(),
        value,
        index: None,
        time: None,
        line: 1,
    };
    let rows = Datum::Map(vec![(Datum::Int(1), Datum::Int(5))]);
    let read = Datum::List(vec![Datum::keyword("r"), Datum::Int(1), Datum::Nil]);
    let events = Events::new(vec![event(0, "init", rows), event(1, "txn", Datum::List(vec![read]))]);
    let lowered = datatypes::lower(Datatype::Predicates, &events).unwrap();
    let judgement = Judgement { anomalies: lowered.anomalies, ..Judgement::default() };
    Shown { history: lowered.history, judgement }
}

/// Smaller is better to look at.
fn size(anomaly: &Anomaly) -> (usize, usize) {
    (anomaly.witness.transactions.len(), anomaly.witness.operations.len())
}

/// All pictures, by the names of their files.
fn pictures() -> BTreeMap<String, String> {
    let examples = AnomalyKind::ALL.iter().filter_map(|kind| kind.info().example);
    let rejects = Level::ALL.iter().filter_map(|level| level.info().example_rejects);
    let mut pool: Vec<Shown> = examples.chain(rejects).chain(FURTHER.iter().copied()).map(shown).collect();
    pool.push(missing_row());
    let mut all = BTreeMap::from([("lattice.svg".to_owned(), anomalist_report::lattice())]);
    for kind in AnomalyKind::ALL.iter().copied() {
        let own = kind.info().example.map(shown);
        let is = |s: &Shown, a: &Anomaly| a.kind == kind || a.pattern(&s.history) == Some(kind);
        let found = |s: &Shown| s.judgement.anomalies.iter().find(|a| is(s, a)).cloned();
        let best = own.iter().find_map(|s| Some((s, found(s)?)));
        let best =
            best.or_else(|| pool.iter().filter_map(|s| Some((s, found(s)?))).min_by_key(|(_, a)| size(a)));
        if let Some((s, anomaly)) = best {
            all.insert(format!("{kind}.svg"), anomalist_report::svg(&s.history, &anomaly));
        }
    }
    for level in Level::ALL.iter().copied() {
        let Some(example) = level.info().example_rejects else { continue };
        let s = shown(example);
        let verdict = s.judgement.levels.iter().find(|l| l.level == level).unwrap();
        assert_eq!(verdict.verdict, Verdict::Violated, "{level}: {example}");
        let named = s.judgement.anomalies.iter().filter(|a| verdict.anomalies.contains(&a.kind));
        let anomaly = named.min_by_key(|a| (a.kind.is_no_order(), size(a))).unwrap();
        let name = level.name().replace(':', "-");
        all.insert(format!("level-{name}.svg"), anomalist_report::svg(&s.history, anomaly));
    }
    all
}

#[test]
fn the_pictures_of_the_book_are_current() {
    let all = pictures();
    if std::env::var_os("ANOMALIST_UPDATE").is_some() {
        _ = std::fs::remove_dir_all(folder());
        std::fs::create_dir_all(folder()).unwrap();
        for (name, svg) in &all {
            std::fs::write(folder().join(name), svg).unwrap();
        }
    }
    let stored: BTreeMap<String, String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|e| (e.file_name().into_string().unwrap(), std::fs::read_to_string(e.path()).unwrap()))
        .collect();
    assert!(
        stored.keys().eq(all.keys()),
        "other pictures: ANOMALIST_UPDATE=1 cargo test -p anomalist-report --test book"
    );
    for (name, svg) in &all {
        assert_eq!(
            &stored[name], svg,
            "{name}: ANOMALIST_UPDATE=1 cargo test -p anomalist-report --test book"
        );
        assert!(svg.len() < 20_000, "{name} has {} bytes", svg.len());
        assert!(svg.contains("prefers-color-scheme"), "{name} does not adapt to dark pages");
    }
}
