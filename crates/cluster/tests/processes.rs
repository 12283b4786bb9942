//! Several processes: the same answer as one, and a clear error when something is wrong with one of them.

#![allow(clippy::unwrap_used)]

use anomalist_cluster::{Answer, Error, Hosts, Job, Progress, run, run_among};
use anomalist_format::Format;
use anomalist_level::Level;
use anomalist_timestamp::{Mode, Tie};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Transactions with timestamps; some overlap and write the same key, some read what was replaced.
fn generate(seed: u64, transactions: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut text = String::from("{\"anomalist\":1,\"initial\":0}\n");
    let mut state = vec![0; 40];
    for t in 1..=transactions {
        let (read, write) = (rng.usize(0..40), rng.usize(0..40));
        let seen = if rng.u8(0..30) == 0 { rng.u64(0..t) } else { state[read] };
        state[write] = t;
        let start = if rng.u8(0..9) == 0 { (10 * t).saturating_sub(rng.u64(1..40)) } else { 10 * t };
        text += &format!(
            "{{\"session\":{},\"ops\":[[\"r\",{read},{seen}],[\"w\",{write},{t}]],\"start\":{start},\"commit\":{}}}\n",
            t % 7,
            10 * t + 5
        );
    }
    text
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("anomalist-processes-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn job(path: &Path, scratch: PathBuf, tell: impl Fn(Progress) + Send + Sync + 'static) -> Arc<Job> {
    let levels = Level::CANONICAL.iter().copied().filter(|&level| Mode::of(level).is_some()).collect();
    Arc::new(Job {
        files: vec![path.to_owned()],
        format: Some(Format::Anomalist),
        initial: None,
        levels,
        anomalies: None,
        tie: Tie::Inclusive,
        memory: 1 << 30,
        scratch,
        piece: 3000,
        parts: NonZeroUsize::new(5),
        stop: Box::new(|| false),
        tell: Box::new(tell),
    })
}

/// Addresses that were free a moment ago.
fn addresses(count: usize) -> Vec<String> {
    let listeners: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect()
}

fn hosts(addresses: &[String], process: usize, token: &str) -> Hosts {
    Hosts { addresses: addresses.to_vec(), process, token: token.as_bytes().to_vec() }
}

fn shown(answer: &Answer) -> String {
    let h = &answer.history;
    let names = |found: &anomalist_timestamp::offline::Findings| -> Vec<String> {
        let listed = found.listed.iter();
        listed.map(|v| format!("{:?} {} {:?} {:?}", v.axiom, h.raw_name(v.txn), v.read, v.class)).collect()
    };
    let found: Vec<_> = answer.violations.iter().map(|(mode, f)| (*mode, f.counts, names(f))).collect();
    let verdicts: Vec<_> = answer.judgement.levels.iter().map(|l| (l.level, l.verdict.clone())).collect();
    format!("{verdicts:?} {found:?} {:?}", answer.size)
}

/// Runs processes as threads of this one: they share nothing but the network.
fn among(path: &Path, folder: &Path, processes: usize, workers: usize) -> Result<Answer, Error> {
    let addresses = addresses(processes);
    let threads: Vec<_> = (0..processes)
        .map(|process| {
            let job = job(path, folder.join(format!("scratch-{process}")), |_| {});
            let hosts = hosts(&addresses, process, "the token");
            std::thread::spawn(move || run_among(&job, NonZeroUsize::new(workers).unwrap(), &hosts))
        })
        .collect();
    let mut answers = threads.into_iter().map(|thread| thread.join().unwrap());
    let first = answers.next().unwrap();
    for other in answers {
        assert!(matches!(other, Ok(None)) || first.is_err());
    }
    first.map(Option::unwrap)
}

#[test]
fn several_processes_find_what_one_does() {
    let folder = folder("equal");
    let path = folder.join("history");
    for seed in 0..12 {
        std::fs::write(&path, generate(seed, 1500)).unwrap();
        let alone = run(&job(&path, folder.join("scratch"), |_| {}), NonZeroUsize::MIN).unwrap();
        assert!(alone.violations.iter().all(|(_, found)| !found.is_clean()));
        let (processes, workers) = (2 + seed as usize % 2, 1 + seed as usize % 3);
        let together = among(&path, &folder, processes, workers).unwrap();
        assert_eq!(shown(&together), shown(&alone), "{processes} processes of {workers}");
        assert!(together.exchanged > 0);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_error_of_one_is_an_error_of_all() {
    let folder = folder("errors");
    let path = folder.join("history");
    let mut text = generate(1, 1500);
    text += "{\"session\":1,\"opps\":[]}\n";
    std::fs::write(&path, &text).unwrap();
    let error = among(&path, &folder, 2, 2).unwrap_err().to_string();
    assert!(error.contains("unknown field \"opps\"") && error.contains(":1502:"), "{error}");
    let missing = among(&folder.join("none"), &folder, 2, 1).unwrap_err();
    assert!(matches!(missing, Error::Input(_)), "{missing}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_wrong_token_is_refused_and_strangers_end_nothing() {
    let folder = folder("token");
    let path = folder.join("history");
    std::fs::write(&path, generate(2, 500)).unwrap();
    let addresses = addresses(2);
    let start = |process: usize, token: &'static str| {
        let job = job(&path, folder.join(format!("scratch-{process}")), |_| {});
        let hosts = hosts(&addresses, process, token);
        std::thread::spawn(move || run_among(&job, NonZeroUsize::MIN, &hosts))
    };
    let first = start(0, "right");
    let began = Instant::now();
    let mut strangers = Vec::new();
    while strangers.len() < 3 && began.elapsed() < Duration::from_secs(10) {
        if let Ok(mut stream) = TcpStream::connect(&addresses[0]) {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            strangers.push(stream);
        }
    }
    let refused = start(1, "wrong").join().unwrap().unwrap_err();
    assert!(matches!(refused, Error::Lost(_)), "{refused}");
    assert!(start(1, "right").join().unwrap().unwrap().is_none());
    assert!(first.join().unwrap().unwrap().is_some());
    assert!(began.elapsed() < Duration::from_secs(30));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Plays the second process, and dies while it works.
#[test]
#[ignore = "the other process of the next test"]
fn a_process_that_dies() {
    let Some(addresses) = std::env::var("ANOMALIST_ADDRESSES").ok() else { return };
    let stage = std::env::var("ANOMALIST_DIES").unwrap();
    let path = PathBuf::from(std::env::var_os("ANOMALIST_HISTORY").unwrap());
    let addresses: Vec<String> = addresses.split(',').map(str::to_owned).collect();
    let dies = move |progress: Progress| {
        if progress.stage == stage {
            std::process::abort();
        }
    };
    let scratch = path.with_extension(format!("other-{}", std::process::id()));
    let job = job(&path, scratch, dies);
    let _ = run_among(&job, NonZeroUsize::MIN, &hosts(&addresses, 1, "t"));
}

#[test]
fn a_process_that_dies_ends_the_run_of_the_others() {
    let folder = folder("death");
    let path = folder.join("history");
    std::fs::write(&path, generate(3, 3000)).unwrap();
    for stage in ["reading", "judging", "gathering"] {
        let addresses = addresses(2);
        let mut other = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_that_dies", "--ignored"])
            .env("ANOMALIST_ADDRESSES", addresses.join(","))
            .env("ANOMALIST_DIES", stage)
            .env("ANOMALIST_HISTORY", &path)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        let job = job(&path, folder.join(format!("scratch-{stage}")), |_| {});
        let error = run_among(&job, NonZeroUsize::MIN, &hosts(&addresses, 0, "t")).unwrap_err();
        assert!(matches!(&error, Error::Lost(message) if message.contains("is lost")), "{stage}: {error}");
        assert!(began.elapsed() < Duration::from_secs(20), "{stage}: {:?}", began.elapsed());
        other.wait().unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
