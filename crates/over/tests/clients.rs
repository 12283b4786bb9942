//! Clients that others wrote, unmodified, see at the serializable level what they see on the bare server:
//! psycopg, SQLAlchemy and Django, by the scripts of the proxy's tests. pgbench compares the throughput.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_level::Level;
use anomalist_proxy::{Limits, PassThrough, Proxy};
use anomalist_testkit::skip;
use anomalist_weakdb::Options;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use support::{options, over, run, server};

fn has(program: &str, probe: &[&str]) -> bool {
    let found = Command::new(program).args(probe).output().is_ok_and(|o| o.status.success());
    if !found {
        let resource = if program.contains("python") { "python" } else { "clients" };
        skip::missing(resource, format!("{program} {probe:?} fails"));
    }
    found
}

/// What a program prints on both streams; it must succeed.
fn printed(command: &mut Command) -> String {
    let out = command.env("PGCONNECT_TIMEOUT", "10").env_remove("PGSERVICE").output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?}\n{text}");
    // psycopg's warning about a pipeline that failed depends on when answers arrive.
    text.lines().filter(|line| !line.starts_with("error ignored")).map(|line| format!("{line}\n")).collect()
}

fn python(what: &str) {
    let python = std::env::var("ANOMALIST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !has(&python, &["-c", "import django, psycopg, sqlalchemy"]) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy/tests/clients.py");
    let client = |port: u16| printed(Command::new(&python).arg(&script).args([&port.to_string(), what]));
    let server = server();
    let target = server.target(0);
    let bare = client(target.address().unwrap().1);
    for seed in 0..2 {
        let over = over(target, options(Level::Serializable, seed));
        assert_eq!(client(over.address().unwrap().port()), bare);
        assert!(over.counts().weakened > 0, "{:?}", over.counts());
        over.stop().unwrap();
    }
}

#[test]
fn psycopg_sees_the_same() {
    python("psycopg");
}

#[test]
fn sqlalchemy_sees_the_same() {
    python("sqlalchemy");
}

#[test]
fn django_sees_the_same() {
    python("django");
}

/// Transactions per second of pgbench with eight sessions.
fn throughput(port: u16, protocol: &str) -> f64 {
    let mut command = Command::new("pgbench");
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()]);
    command.args(["-n", "-c", "8", "-j", "2", "-T", "4", "-M", protocol, "postgres"]);
    let said = printed(&mut command);
    assert!(said.contains("failed transactions: 0 "), "{said}");
    let tps = said.lines().find_map(|l| l.strip_prefix("tps = ")).and_then(|l| l.split(' ').next());
    tps.and_then(|t| t.parse().ok()).unwrap()
}

/// Every balance is right, in every protocol, and weak reads cost less than half of the throughput of the
/// proxy by itself; the rates are only printed, because builds of tests are slow.
#[test]
fn pgbench_keeps_its_sums_and_most_of_its_throughput() {
    if !has("pgbench", &["--version"]) {
        return;
    }
    let server = server();
    let target = server.target(0);
    let port = target.address().unwrap().1;
    let initial =
        ["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string(), "-i", "-q", "-s", "10", "postgres"];
    printed(Command::new("pgbench").args(initial));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let passing =
        Proxy::start(listener, &format!("127.0.0.1:{port}"), Box::new(PassThrough), Limits::default())
            .unwrap();
    for protocol in ["simple", "extended", "prepared"] {
        let (bare, passed) = (throughput(port, protocol), throughput(passing.address().port(), protocol));
        let unrecorded = Options { ordered: true, ..Options::new(Level::ReadCommitted) };
        let over = over(target, unrecorded);
        let weak = throughput(over.address().unwrap().port(), protocol);
        println!(
            "{protocol}: bare {bare:.0}, passed through {passed:.0}, weakened {weak:.0} ({:.0} %), {:?}",
            100.0 * weak / passed,
            over.counts()
        );
        over.stop().unwrap();
    }
    let sums =
        "SELECT (sum(delta) = (SELECT sum(abalance) FROM pgbench_accounts))::text FROM pgbench_history";
    assert_eq!(run(target, sums), "true");
}
