//! Recorded histories with expected verdicts, from the corpus (`anomalist_testkit::skip::corpus`).

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use anomalist_check::{Budget, Inference, Request, check};
use anomalist_format::{Input, ReadOptions};
use anomalist_history::Indexed;
use anomalist_level::{Level, Verdict, elle};
use anomalist_testkit::skip::corpus;
use anomalist_timestamp::offline::{self, ByStamps};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that disappears with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("anomalist-corpus-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The file of a case; an archive is unpacked.
fn unpacked(file: &Path, scratch: &Path) -> PathBuf {
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let Some(stem) = name.strip_suffix(".tar.zst") else { return file.to_owned() };
    let run = format!("zstd -dcq '{}' | tar -x -C '{}'", file.display(), scratch.display());
    assert!(Command::new("sh").args(["-c", &run]).status().unwrap().success(), "{run}");
    scratch.join(stem)
}

#[test]
fn weak_levels_of_real_histories() {
    let Some(corpus) = corpus() else { return };
    let scratch = Scratch::new("weak");
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    let mut met = 0;
    for row in index.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [id, file, format, model, ..] = columns[..] else { panic!("{row}") };
        if model != "kv" || format == "facts-json" {
            continue;
        }
        let path = unpacked(&corpus.join(file), &scratch.0);
        let loaded = anomalist_format::read(Input::open(&path).unwrap(), &ReadOptions::default())
            .unwrap_or_else(|e| panic!("{id}: {e}"));
        let indexed = Indexed::new(&loaded.history, 1.try_into().unwrap());
        // The stronger levels are the solver's, and take it a while.
        let levels = vec![Level::ReadCommitted, Level::ReadAtomic, Level::Causal];
        let request = Request { levels, ..Request::default() };
        // Where values repeat this is a search; nothing is expected of those that take long.
        let polls = std::sync::atomic::AtomicU64::new(0);
        let spent = || polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 200;
        let search = Budget::unlimited();
        let judgement = check(&indexed, &request, &search.with_search(&spent));
        for word in columns[9].split_whitespace() {
            let Some((name, expected)) = word.split_once('=') else { continue };
            let level = match name {
                "rc" => Level::ReadCommitted,
                "ra" => Level::ReadAtomic,
                "tcc" => Level::Causal,
                "taps" => {
                    let mut found: Vec<&str> = judgement.anomalies.iter().map(|a| a.kind.code()).collect();
                    found.retain(|code| code.starts_with("TAP-"));
                    let letter = expected.chars().next().unwrap();
                    let wanted: Vec<String> =
                        if expected == "none" { Vec::new() } else { vec![format!("TAP-{letter}")] };
                    assert_eq!(found, wanted, "{id}");
                    continue;
                }
                _ => continue,
            };
            let wanted = if expected == "ok" { Verdict::Holds } else { Verdict::Violated };
            assert_eq!(judgement.verdict(level), Some(&wanted), "{id} {name}");
            met += 1;
        }
    }
    assert!(met > 1000, "only {met} expectations were found");
}

/// The codes of an expectation such as `fail:EXT(889)` or `fail:INT,EXT`, with their counts where they have
/// one.
fn codes(expected: &str) -> Vec<(String, Option<u64>)> {
    let kinds = expected.strip_prefix("fail:").unwrap_or_default().split(',').filter(|kind| !kind.is_empty());
    kinds
        .map(|kind| match kind.split_once('(') {
            Some((code, count)) => (code.to_owned(), count.trim_end_matches(')').parse().ok()),
            None => (kind.to_owned(), None),
        })
        .collect()
}

#[test]
fn timestamped_histories() {
    let Some(corpus) = corpus() else { return };
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    let mut met = 0;
    for row in index.lines().skip(1).filter(|row| row.contains("\ttimekiller-json\t")) {
        let columns: Vec<&str> = row.split('\t').collect();
        for part in columns[9].split(';') {
            let initial = part.split_once("init=").and_then(|(_, rest)| rest.split(':').next());
            let options = ReadOptions { initial, ..ReadOptions::default() };
            let loaded =
                anomalist_format::read(Input::open(&corpus.join(columns[1])).unwrap(), &options).unwrap();
            for word in part.split_whitespace() {
                let (level, expected) = match word.split_once('=') {
                    Some(("si", expected)) => (Level::StrongSessionSnapshotIsolation, expected),
                    Some(("ser", expected)) => (Level::StrongSessionSerializable, expected),
                    _ => continue,
                };
                let request = ByStamps {
                    levels: vec![level],
                    anomalies: None,
                    tie: Default::default(),
                    threads: 2.try_into().unwrap(),
                };
                let (judgement, _) = offline::judge(&loaded.history, &request, &Budget::unlimited()).unwrap();
                let wanted = if expected == "ok" { Verdict::Holds } else { Verdict::Violated };
                assert_eq!(judgement.verdict(level), Some(&wanted), "{} {word}", columns[0]);
                // A TIE is a warning.
                let found = judgement.anomalies.iter().map(|a| (a.kind.code(), a.count));
                let found = found.filter(|(code, _)| *code != "TIE");
                let found: std::collections::BTreeMap<&str, u64> = found.collect();
                let codes = codes(expected);
                assert_eq!(found.len(), codes.len(), "{} {word}: {found:?}", columns[0]);
                for (code, count) in codes {
                    let seen = found.get(code.as_str()).copied();
                    assert!(
                        seen.is_some() && (count.is_none() || count == seen),
                        "{} {word}: {found:?}",
                        columns[0]
                    );
                }
                met += 1;
            }
        }
    }
    assert!(met > 35, "only {met} expectations were found");
}

/// Lines that fit on a screen.
const SCREEN: usize = 45;

/// The fewest lines in which a violation is explained completely; none if every example leaves something
/// out.
fn shortest(
    history: &anomalist_history::History,
    judgement: &anomalist_level::Judgement,
    level: Level,
) -> Option<usize> {
    let facts = anomalist_report::HistoryFacts::of(history, "", "");
    let described = judgement.anomalies.iter().filter(|a| level.forbids(a.kind)).filter_map(|anomaly| {
        let mut one = judgement.clone();
        one.anomalies = vec![anomaly.clone()];
        for answer in &mut one.levels {
            answer.anomalies.retain(|&kind| kind == anomaly.kind);
        }
        let subject = anomalist_report::Subject {
            history,
            facts: &facts,
            judgement: &one,
            timing: None,
            required: &[level],
            declared: false,
            stopped: false,
        };
        let text = anomalist_report::text(&subject, &anomalist_report::Style::default());
        (!text.contains("the whole proof has")).then(|| text.lines().count())
    });
    described.min()
}

/// Every violation of snapshot isolation and serializability has a proof that the verifier accepts and that
/// fits on a screen. Every twelfth of those with up to 1,500 transactions; all of them if
/// `ANOMALIST_CORPUS_ALL` is set (`scripts/corpus` does).
#[test]
fn proofs_fit_on_a_screen() {
    let Some(corpus) = corpus() else { return };
    let all = std::env::var_os("ANOMALIST_CORPUS_ALL").is_some();
    let scratch = Scratch::new("proofs");
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    let violated = |row: &&str| row.contains(" si=fail") || row.contains(" ser=fail");
    let (mut met, mut long) = (0, Vec::new());
    for row in index.lines().skip(1).filter(violated).step_by(if all { 1 } else { 12 }) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [id, file, format, model, ..] = columns[..] else { panic!("{row}") };
        if model.contains("timestamped") || format == "facts-json" {
            continue;
        }
        let path = unpacked(&corpus.join(file), &scratch.0);
        let loaded = anomalist_format::read(Input::open(&path).unwrap(), &ReadOptions::default()).unwrap();
        if !all && loaded.history.txn_count() > 1_500 {
            continue;
        }
        let indexed = Indexed::new(&loaded.history, 1.try_into().unwrap());
        for (word, level) in [
            ("si=fail", Level::StrongSessionSnapshotIsolation),
            ("ser=fail", Level::StrongSessionSerializable),
        ] {
            if !columns[9].split_whitespace().any(|w| w == word) {
                continue;
            }
            let request = Request { levels: vec![level], certificates: true, ..Request::default() };
            let mut judgement = check(&indexed, &request, &Budget::unlimited());
            anomalist_check::shrink::tighten(&loaded.history, &mut judgement, &Budget::unlimited());
            assert_eq!(judgement.verdict(level), Some(&Verdict::Violated), "{id} {level}");
            let flaw = anomalist_verify::Verifier::new(&loaded.history).judgement(&judgement).err();
            assert!(flaw.is_none(), "{id} {level}: {}", flaw.unwrap().message(&loaded.history));
            match shortest(&loaded.history, &judgement, level) {
                Some(lines) if lines <= SCREEN => {}
                lines => long.push(format!("{id} {level}: {lines:?} lines")),
            }
            met += 1;
        }
    }
    assert!(long.is_empty(), "{} of {met}:\n{}", long.len(), long.join("\n"));
    eprintln!("{met} violations");
    assert!(met > 20, "only {met} violations were found");
}

/// Where Anomalist says less than Elle, on purpose.
const DIFFERENCES: [(&str, Level, &str); 3] = [
    (
        "ellecli-rw-register-keys-linearizable-anomaly",
        Level::ElleReadUncommitted,
        "the cycle of versions is through a value that no transaction wrote: such a read rules out PL-2 (G1a), and is reported; PL-1 is \
         about writes, and those that there are have an order that agrees with linearizable keys",
    ),
    ("gen-sim-list-append-lost-update-300-s1", Level::ElleReadUncommitted, INCOMPATIBLE),
    ("gen-sim-list-append-lost-update-40-s1", Level::ElleReadUncommitted, INCOMPATIBLE),
];
const INCOMPATIBLE: &str = "Elle takes the longer of two lists that contradict each other for the version order, and its G0 is between \
                            what only one of them shows. At most one is the order of installed versions; with the other, and with \
                            what both agree on, there is no cycle of writes. PL-2 is violated (incompatible-order)";

/// What Elle (or adya) calls invalid is violated here, model by model; what adya calls valid of lists is
/// not.
#[test]
fn what_elle_rules_out_is_violated() {
    let Some(corpus) = corpus() else { return };
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    let (mut met, mut missed) = (0, Vec::new());
    for row in index.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [id, file, format, model, ..] = columns[..] else { panic!("{row}") };
        if !matches!(model, "list-append" | "rw-register") || !format.starts_with("elle-") {
            continue;
        }
        let Ok(loaded) =
            anomalist_format::read(Input::open(&corpus.join(file)).unwrap(), &ReadOptions::default())
        else {
            continue;
        };
        let indexed = Indexed::new(&loaded.history, 1.try_into().unwrap());
        let mut judged: Vec<(Inference, anomalist_level::Judgement)> = Vec::new();
        for (inference, level, expected) in expectations(columns[9], model) {
            if !judged.iter().any(|(i, _)| *i == inference) {
                let request = Request {
                    levels: Level::ALL.to_vec(),
                    inference: inference.clone(),
                    ..Request::default()
                };
                let polls = std::sync::atomic::AtomicU64::new(0);
                let spent = || polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 200_000;
                let judgement = check(&indexed, &request, &Budget::new(&spent));
                judged.push((inference.clone(), judgement));
            }
            let judgement = &judged.iter().find(|(i, _)| *i == inference).unwrap().1;
            let violated = judgement.verdict(level) == Some(&Verdict::Violated);
            met += 1;
            let known = DIFFERENCES.iter().find(|(i, l, _)| (*i, *l) == (id, level));
            assert!(known.is_none() || violated != expected, "{id}: {level} is no difference any more");
            if let Some((_, _, reason)) = known.filter(|_| violated != expected) {
                eprintln!("{id}: {level} as known: {reason}");
            } else if violated != expected {
                missed.push(format!("{id}: {level} violated: {violated}, expected {expected}"));
            }
        }
    }
    assert!(missed.is_empty(), "{} of {met}:\n{}", missed.len(), missed.join("\n"));
    assert!(met > 150, "only {met} expectations were found");
}

/// Assumptions, a level, and whether it is violated. Of what is called valid, only adya's answers about
/// lists.
fn expectations(text: &str, model: &str) -> Vec<(Inference, Level, bool)> {
    let mut found = Vec::new();
    for part in text.split("||").next().unwrap().split(" | ") {
        let part = part.trim();
        let mut inference = Inference::default();
        if let Some((asked, _)) = part.strip_prefix('[').and_then(|p| p.split_once(']')) {
            inference.writes_follow_reads = asked.split(' ').any(|w| w == "wfr-keys");
            inference.sequential_keys = asked.contains("sequential-keys");
            inference.linearizable_keys = asked.contains("linearizable-keys");
            if asked.contains("transaction-order") || !part.contains("valid=false") {
                continue;
            }
        }
        for word in part.split_whitespace() {
            let short = |name: &str| match name {
                "rc" => Some(Level::AdyaReadCommitted),
                "si" => Some(Level::SnapshotIsolation),
                "ser" => Some(Level::Serializable),
                "strict-ser" => Some(Level::StrictSerializable),
                _ => None,
            };
            match word.split_once('=') {
                Some(("not", names)) => {
                    let models = names.split(',').filter_map(elle::model);
                    found.extend(models.map(|m| (inference.clone(), m.level, true)));
                }
                Some((name, "fail")) => found.extend(short(name).map(|l| (inference.clone(), l, true))),
                Some((name, "ok")) if model == "list-append" => {
                    found.extend(short(name).map(|l| (inference.clone(), l, false)));
                }
                _ => {}
            }
        }
    }
    found
}
