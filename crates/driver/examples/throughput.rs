//! How fast sessions of this crate are beside `pgbench`: the same statements, prepared, from as many sessions, on the same
//! throw-away server, turn by turn.
//!
//! ```text
//! cargo run --release -p isolde-driver --example throughput [SESSIONS] [SECONDS]
//! ```

use isolde_driver::server::{Engine, Server, Setup};
use isolde_driver::{Connection, Database, Error, Isolation, Target, Value};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

type Anything = Box<dyn std::error::Error + Send + Sync>;

/// A transaction, once for each of the two.
struct Script {
    name: &'static str,
    pgbench: &'static str,
    ours: fn(&mut dyn Connection, &mut fastrand::Rng) -> Result<(), Error>,
}

const ROWS: i64 = 100_000;

const SCRIPTS: &[Script] = &[
    Script {
        name: "two reads and two updates",
        pgbench: "\\set a random(1, 100000)\n\\set b random(1, 100000)\n\\set c random(1, 100000)\n\
                  \\set d random(1, 100000)\nBEGIN;\nSELECT abalance FROM pgbench_accounts WHERE aid = :a;\n\
                  SELECT abalance FROM pgbench_accounts WHERE aid = :b;\n\
                  UPDATE pgbench_accounts SET abalance = :d WHERE aid = :c;\n\
                  UPDATE pgbench_accounts SET abalance = :c WHERE aid = :d;\nCOMMIT;\n",
        ours: |session, random| {
            for _ in 0..2 {
                let row = Value::Int(random.i64(1..=ROWS));
                session.query("SELECT abalance FROM pgbench_accounts WHERE aid = $1", &[row])?;
            }
            for _ in 0..2 {
                let values = [Value::Int(random.i64(1..=ROWS)), Value::Int(random.i64(1..=ROWS))];
                session.query("UPDATE pgbench_accounts SET abalance = $1 WHERE aid = $2", &values)?;
            }
            Ok(())
        },
    },
    Script {
        name: "pgbench's own (TPC-B)",
        pgbench: "\\set aid random(1, 100000)\n\\set bid 1\n\\set tid random(1, 10)\n\\set delta random(-5000, 5000)\n\
                  BEGIN;\nUPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
                  SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n\
                  UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n\
                  UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n\
                  INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
                  VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\nCOMMIT;\n",
        ours: |session, random| {
            let (aid, tid) = (Value::Int(random.i64(1..=ROWS)), Value::Int(random.i64(1..=10)));
            let (delta, bid) = (Value::Int(random.i64(-5000..=5000)), Value::Int(1));
            session.query(
                "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
                &[delta.clone(), aid.clone()],
            )?;
            session
                .query("SELECT abalance FROM pgbench_accounts WHERE aid = $1", std::slice::from_ref(&aid))?;
            session.query(
                "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2",
                &[delta.clone(), tid.clone()],
            )?;
            session.query(
                "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2",
                &[delta.clone(), bid.clone()],
            )?;
            session.query(
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
                 VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
                &[tid, bid, aid, delta],
            )?;
            Ok(())
        },
    },
];

fn main() -> Result<(), Anything> {
    let mut arguments = std::env::args().skip(1);
    let sessions: usize = arguments.next().map_or(Ok(8), |a| a.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(5), |a| a.parse())?;
    let server = Server::start(Engine::Postgres, &Setup::default())?;
    let target = server.target(0);
    let pgbench = newest_pgbench()?;
    let (host, port) = target.address().ok_or("no address")?;
    let reach = ["-h".to_owned(), host.to_owned(), "-p".to_owned(), port.to_string()];
    let reach: Vec<String> =
        reach.into_iter().chain(["-U", "postgres", "postgres"].map(str::to_owned)).collect();
    let made = Command::new(&pgbench).args(["-i", "-s", "1", "-q"]).args(&reach).output()?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stderr).into());
    }
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{}, {sessions} sessions, {seconds} s each, best of three, transactions per second",
        target.product()?
    )?;
    for script in SCRIPTS {
        let file = server.folder().join("script.sql");
        fs::write(&file, script.pgbench)?;
        let (mut theirs, mut ours) = (0.0f64, 0.0f64);
        for _ in 0..3 {
            theirs = theirs.max(run_pgbench(&pgbench, &file, &reach, sessions, seconds)?);
            ours = ours.max(run_ours(target, script, sessions, Duration::from_secs(seconds))?);
        }
        let ratio = 100.0 * ours / theirs;
        writeln!(out, "{:28} pgbench {theirs:7.0}   isolde {ours:7.0}   {ratio:4.0} %", script.name)?;
    }
    Ok(())
}

/// Debian's wrapper in the search path wants a cluster of its own.
fn newest_pgbench() -> Result<PathBuf, Anything> {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")?
        .flatten()
        .map(|entry| entry.path().join("bin/pgbench"))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.pop().ok_or_else(|| "no pgbench under /usr/lib/postgresql".into())
}

fn run_pgbench(
    pgbench: &Path,
    file: &Path,
    reach: &[String],
    sessions: usize,
    seconds: u64,
) -> Result<f64, Anything> {
    let (count, time) = (sessions.to_string(), seconds.to_string());
    let output = Command::new(pgbench)
        .args(["-n", "-M", "prepared", "-c", &count, "-j", "2", "-T", &time, "-f"])
        .arg(file)
        .args(reach)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.ok_or_else(|| format!("{text}{}", String::from_utf8_lossy(&output.stderr)).into())
}

fn run_ours(target: &Target, script: &Script, sessions: usize, time: Duration) -> Result<f64, Anything> {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut open: Vec<Box<dyn Connection>> =
        (0..sessions).map(|_| target.connect()).collect::<Result<_, Error>>()?;
    let level = Isolation::new("READ COMMITTED", "", "BEGIN");
    let start = Instant::now();
    thread::scope(|scope| {
        let running: Vec<_> = (0..)
            .zip(&mut open)
            .map(|(seed, session)| {
                let (level, done, stop) = (&level, &done, &stop);
                scope.spawn(move || -> Result<(), Error> {
                    let mut random = fastrand::Rng::with_seed(seed);
                    while !stop.load(Ordering::Relaxed) {
                        session.begin(level)?;
                        (script.ours)(session.as_mut(), &mut random)?;
                        session.commit()?;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    Ok(done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}
