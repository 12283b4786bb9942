//! Several workers find what the check of the whole history finds: the same verdicts, counts and listed
//! violations. Within a key their order, and so which of several equally small examples is shown, may differ
//! where commits are equal: the check of the whole looks at reads that share their commit with a transaction
//! that has nothing to do with the key after the others.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use anomalist_cluster::{Error, Job, run};
use anomalist_format::write::Sink;
use anomalist_format::{Format, Input, ReadOptions};
use anomalist_history::{History, KeyId, TxnId};
use anomalist_level::{Anomaly, Budget, Judgement, Level, Verdict, Why};
use anomalist_testkit::random::{StampedShape, stamped};
use anomalist_timestamp::offline::{self, ByStamps, Findings};
use anomalist_timestamp::{Mode, Tie, Violation};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

fn levels() -> Vec<Level> {
    Level::CANONICAL.iter().copied().filter(|&level| Mode::of(level).is_some()).collect()
}

/// Memory that can be written to from a distance.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn text(history: &History, format: Format) -> Vec<u8> {
    let shared = Shared::default();
    let mut writer = anomalist_format::writer(format, Sink::Stream(Box::new(shared.clone())), true).unwrap();
    writer.append(history).unwrap();
    writer.finish().unwrap();
    shared.0.lock().unwrap().clone()
}

struct Shown<'a>(&'a History);

impl Shown<'_> {
    fn txn(&self, t: TxnId) -> String {
        self.0.raw_name(t)
    }

    fn key(&self, key: KeyId) -> String {
        self.0.show_key(key).raw().to_string()
    }

    fn violation(&self, v: &Violation) -> String {
        let name = |t: Option<TxnId>| t.map(|t| self.txn(t));
        let key = v.key.map(|key| self.key(key));
        format!(
            "{} {} key {key:?} other {:?} read {:?} {:?} source {:?}",
            v.axiom.code(),
            self.txn(v.txn),
            name(v.other),
            v.read,
            v.class,
            name(v.source)
        )
    }

    /// Its size, and where it is.
    fn anomaly(&self, a: &Anomaly) -> String {
        let of_example = |t: &TxnId| self.0.op_range(*t).len();
        let size: usize = a.witness.transactions.iter().map(of_example).sum();
        let mut seen: Vec<String> = a.places.iter().map(|&t| self.txn(t)).collect();
        seen.sort();
        format!("{} ×{} example of {size} operations in {seen:?}", a.kind, a.count)
    }
}

fn shown(history: &History, judgement: &Judgement, found: &[(Mode, Findings)]) -> Vec<String> {
    let show = Shown(history);
    let mut lines: Vec<String> =
        judgement.levels.iter().map(|l| format!("{} {:?} {:?}", l.level, l.verdict, l.anomalies)).collect();
    lines.extend(judgement.anomalies.iter().map(|a| show.anomaly(a)));
    for (mode, found) in found {
        lines.push(format!(
            "{mode:?} {:?} {} {} {}",
            found.counts, found.unjudged, found.unmatched, found.open
        ));
        let mut listed: Vec<String> = found.listed.iter().map(|v| show.violation(v)).collect();
        listed.sort();
        lines.extend(listed);
    }
    lines
}

struct Case {
    text: Vec<u8>,
    format: Format,
    tie: Tie,
}

impl Case {
    fn alone(&self, path: &Path) -> Result<(Vec<String>, Judgement), String> {
        let options = ReadOptions { format: Some(self.format), ..ReadOptions::default() };
        let loaded = anomalist_format::read(Input::open(path).unwrap(), &options);
        let history = loaded.map_err(|error| error.to_string())?.history;
        let threads = NonZeroUsize::MIN;
        let request = ByStamps { levels: levels(), anomalies: None, tie: self.tie, threads };
        let judged = offline::judge(&history, &request, &Budget::unlimited());
        let (judgement, found) = judged.ok_or("no timestamps")?;
        Ok((shown(&history, &judgement, &found), judgement))
    }

    fn job(&self, path: PathBuf, scratch: PathBuf, piece: u64, parts: usize) -> Job {
        Job {
            files: vec![path],
            format: Some(self.format),
            initial: None,
            levels: levels(),
            anomalies: None,
            tie: self.tie,
            memory: 1 << 30,
            scratch,
            piece,
            parts: NonZeroUsize::new(parts),
            stop: Box::new(|| false),
            tell: Box::new(|_| {}),
        }
    }
}

#[derive(Default, Debug)]
struct Tally {
    equal: usize,
    refused: usize,
    /// The engine for whole histories tried choices of outcomes.
    choices: usize,
    broken: usize,
    violations: usize,
}

fn campaign(name: &str, count: usize, seed: u64, shape: &StampedShape) -> Tally {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut tally = Tally::default();
    let folder = std::env::temp_dir().join(format!("anomalist-equality-{}-{seed}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("history");
    for round in 0..count {
        let history = stamped(&mut rng, shape);
        let plain = shape.lost == 0.0;
        let format = if plain && rng.bool() { Format::Timekiller } else { Format::Anomalist };
        let tie = if rng.u8(0..4) == 0 { Tie::Exclusive } else { Tie::Inclusive };
        let case = Case { text: text(&history, format), format, tie };
        std::fs::write(&path, &case.text).unwrap();
        let expected = case.alone(&path);
        let workers = 1 + round % 4;
        let (piece, parts) = (rng.u64(1..600), rng.usize(1..9));
        let job = Arc::new(case.job(path.clone(), folder.clone(), piece, parts));
        let answer = run(&job, NonZeroUsize::new(workers).unwrap());
        let context = || {
            let text = String::from_utf8_lossy(&case.text);
            format!(
                "{name} {round}: {workers} workers, piece {piece}, {parts} parts, {tie:?}, {format:?}\n{text}"
            )
        };
        match (expected, answer) {
            (Err(_), Err(Error::Input(_) | Error::Unsupported(_))) => tally.refused += 1,
            (Ok((expected, judgement)), Ok(answer)) => {
                let open = |l: &anomalist_level::LevelVerdict| {
                    matches!(l.verdict, Verdict::Unknown(Why::OutcomeChoice { .. }))
                };
                let chosen = |l: &anomalist_level::LevelVerdict| {
                    open(l) && judgement.verdict(l.level) != Some(&l.verdict)
                };
                if answer.judgement.levels.iter().any(chosen) {
                    tally.choices += 1;
                    continue;
                }
                let found = shown(&answer.history, &answer.judgement, &answer.violations);
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!(found, expected, "{}", context());
                }
                assert_eq!(found.len(), expected.len(), "{}", context());
                tally.equal += 1;
                let broken = judgement.levels.iter().any(|l| l.verdict == Verdict::Violated);
                tally.broken += usize::from(broken);
                let all = answer.violations.iter().map(|(_, found)| found.listed.len());
                tally.violations += all.sum::<usize>();
            }
            (expected, answer) => {
                panic!("{}: alone {expected:?}, together {:?}", context(), answer.map(|a| a.judgement))
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    eprintln!("{name}: {tally:?}");
    tally
}

fn shape() -> StampedShape {
    StampedShape { txns: 14, ..StampedShape::default() }
}

/// How many histories of each shape.
fn histories() -> usize {
    std::env::var("ANOMALIST_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(250)
}

#[test]
fn registers() {
    let tally = campaign("registers", histories(), 1, &StampedShape { wrong: 0.1, ..shape() });
    assert!(tally.broken > tally.equal / 4 && tally.violations > tally.equal);
}

#[test]
fn right_histories() {
    let tally = campaign("right", histories() / 2, 2, &StampedShape { wrong: 0.0, points: 0.4, ..shape() });
    assert!(tally.equal > 0);
}

#[test]
fn ties_and_odd_clocks() {
    let ties = StampedShape { clock: 5, points: 0.4, skewed: 0.1, ..shape() };
    let tally = campaign("ties", histories(), 3, &ties);
    assert!(tally.broken > tally.equal / 4);
    campaign("ties, wrong", histories(), 4, &StampedShape { wrong: 0.3, clock: 8, repeated: 0.3, ..ties });
}

#[test]
fn lists() {
    let lists = StampedShape { lists: 1.0, clock: 30, ..shape() };
    let tally = campaign("lists", histories(), 5, &lists);
    assert!(tally.equal > histories() / 2);
    let both = StampedShape { lists: 0.5, clock: 9, repeated: 0.1, initial: 0.1, ..lists };
    campaign("lists and registers", histories(), 6, &both);
    campaign("mixed keys", histories() / 2, 7, &StampedShape { mixed: 0.05, ..both });
}

#[test]
fn numbers_and_initial_values() {
    let numbered = StampedShape { numbered: 1.0, initial: 0.2, repeated: 0.2, ..shape() };
    campaign("numbers", histories(), 8, &numbered);
    campaign("numbers, ties", histories(), 9, &StampedShape { clock: 6, ..numbered });
}

#[test]
fn aborted_and_unknown_outcomes() {
    let lost = StampedShape { lost: 0.4, repeated: 0.3, ..shape() };
    let tally = campaign("unknown outcomes", histories(), 10, &lost);
    assert!(tally.choices < tally.equal / 4, "{tally:?}");
    campaign("unknown outcomes, ties", histories(), 11, &StampedShape { clock: 6, ..lost });
    let lists = StampedShape { lists: 0.7, repeated: 0.05, numbered: 0.5, ..lost };
    campaign("unknown outcomes, lists", histories(), 12, &lists);
}
