//! `anomalist weakdb`: it says where it listens, answers, and leaves a history that `anomalist check`
//! accepts, and choices to replay.

#![cfg(feature = "weakdb")]
#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use serde_json::Value as Json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn anomalist() -> Command {
    Command::new(env!("CARGO_BIN_EXE_anomalist"))
}

/// Starts it, and gives the address of its HTTP port.
fn start(more: &[&str]) -> (Child, String) {
    let mut command = anomalist();
    command.args(["weakdb", "--json", "--http", "0", "--seed", "3"]).args(more).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let reported: Json = serde_json::from_str(&line).unwrap();
    assert_eq!(reported["seed"], 3);
    assert_eq!(reported["postgres"], Json::Null);
    let url = reported["http"].as_str().unwrap();
    let address = url.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    (child, address)
}

fn stop(mut child: Child) {
    let reported = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(reported.success());
    assert!(child.wait().unwrap().success());
}

fn sql(address: &str, session: u64, sql: &str) -> Json {
    let body = serde_json::json!({"session": session, "sql": sql}).to_string();
    post(address, "/sql", &body)
}

fn post(address: &str, path: &str, body: &str) -> Json {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// What two sessions see of each other's row.
fn play(address: &str) -> Vec<String> {
    let session = || post(address, "/session", "{}")["session"].as_u64().unwrap();
    let (a, b) = (session(), session());
    sql(address, a, "CREATE TABLE t (id INT PRIMARY KEY, v INT)");
    sql(address, a, "INSERT INTO t VALUES (1, 0), (2, 0)");
    let mut seen = Vec::new();
    for round in 1..12 {
        sql(address, a, &format!("UPDATE t SET v = {round} WHERE id = 1"));
        seen.push(sql(address, b, "SELECT * FROM t ORDER BY id")["rows"].to_string());
    }
    seen
}

#[test]
fn records_and_replays() {
    let folder = std::env::temp_dir().join(format!("anomalist-weakdb-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("run.anomalist");
    let path = file.to_str().unwrap();
    let (child, address) = start(&["--level", "causal", "--record", path]);
    let first = play(&address);
    stop(child);
    assert!(first.windows(2).any(|w| w[0] == w[1]), "every read was the newest: {first:?}");
    assert!(Path::new(&format!("{path}.choices")).exists());
    let judged = anomalist().args(["check", path, "--level", "causal", "--verify", "-q"]).output().unwrap();
    assert_eq!(judged.status.code(), Some(0), "{}", String::from_utf8_lossy(&judged.stdout));
    let (child, address) = start(&["--level", "causal", "--replay", path, "--stale", "0"]);
    let again = play(&address);
    stop(child);
    assert_eq!(first, again);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn bad_flags_are_refused() {
    for flags in [
        &["--level", "strict-serializable"][..],
        &["--stale", "2"],
        &["--delay", "4"],
        &["--postgres", "nowhere"],
        &["--replay", "/nonexistent"],
        &["--record", "/nonexistent/history.jsonl"],
    ] {
        let run = anomalist().arg("weakdb").args(flags).output().unwrap();
        assert_eq!(run.status.code(), Some(3), "{flags:?}");
        assert!(!run.stderr.is_empty());
    }
}
