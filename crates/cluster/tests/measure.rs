//! How fast, and in how much memory:
//! `cargo test -p anomalist-cluster --test measure -- --ignored --nocapture`.
//! `ANOMALIST_OPERATIONS`, `ANOMALIST_WORKERS` and `ANOMALIST_MEMORY` (bytes) say what.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use anomalist_cluster::{Job, run};
use anomalist_level::{Level, Verdict};
use anomalist_timestamp::{Mode, Tie};
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// A serial execution of transactions of ten operations in 64 sessions, with timestamps.
fn generate(path: &std::path::Path, operations: u64) {
    let keys = (operations / 20).max(1000);
    let mut state = vec![0u64; keys as usize];
    let mut rng = fastrand::Rng::with_seed(1);
    let mut out = BufWriter::with_capacity(1 << 20, std::fs::File::create(path).unwrap());
    writeln!(out, "{{\"anomalist\":1,\"initial\":0}}").unwrap();
    for t in 0..operations / 10 {
        write!(out, "{{\"session\":{},\"ops\":[", t % 64).unwrap();
        for op in 0..10 {
            let key = rng.u64(0..keys);
            let (letter, value) = if rng.bool() {
                ("r", state[key as usize])
            } else {
                state[key as usize] = t * 10 + op + 1;
                ("w", t * 10 + op + 1)
            };
            let comma = if op == 0 { "" } else { "," };
            write!(out, "{comma}[\"{letter}\",{key},{value}]").unwrap();
        }
        writeln!(out, "],\"start\":{},\"commit\":{}}}", 2 * t + 1, 2 * t + 2).unwrap();
    }
    out.flush().unwrap();
}

/// The most memory that this process has had, in kilobytes.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("?").trim().to_owned()
}

#[test]
#[ignore = "a measurement"]
fn measure() {
    let operations = asked("ANOMALIST_OPERATIONS", 10_000_000);
    let workers = NonZeroUsize::new(asked("ANOMALIST_WORKERS", 2) as usize).unwrap();
    let folder = std::env::temp_dir().join(format!("anomalist-measure-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("history");
    generate(&path, operations);
    let size = std::fs::metadata(&path).unwrap().len();
    let began = Instant::now();
    let last = std::sync::Mutex::new("");
    let levels = vec!["snapshot-isolation".parse::<Level>().unwrap()];
    assert_eq!(Mode::of(levels[0]), Some(Mode::Si));
    let job = Job {
        files: vec![path],
        format: None,
        initial: None,
        levels,
        anomalies: None,
        tie: Tie::Inclusive,
        memory: asked("ANOMALIST_MEMORY", 1_000_000_000),
        scratch: folder.join("scratch"),
        piece: 0,
        parts: None,
        stop: Box::new(|| false),
        tell: Box::new(move |progress| {
            let mut last = last.lock().unwrap();
            if *last != progress.stage {
                eprintln!("{:.2} s: {}", began.elapsed().as_secs_f64(), progress.stage);
                *last = progress.stage;
            }
        }),
    };
    let answer = run(&Arc::new(job), workers).unwrap();
    let took = began.elapsed().as_secs_f64();
    eprintln!(
        "{operations} operations, {size} bytes, {workers} workers: {took:.2} s, {:.0} ns each, peak {}, \
         exchanged {}",
        took * 1e9 / operations as f64,
        peak(),
        answer.exchanged
    );
    assert_eq!(answer.judgement.levels[0].verdict, Verdict::Holds);
    assert_eq!(answer.size.operations, operations);
    std::fs::remove_dir_all(&folder).unwrap();
}
