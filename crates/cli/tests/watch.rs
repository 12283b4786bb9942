//! `anomalist watch`: sources, faults of the stream, restarts.

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use support::{Scratch, anomalist, anomalist_with};

fn events(stdout: &[u8]) -> Vec<Value> {
    let text = String::from_utf8(stdout.to_vec()).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {text}"))).collect()
}

fn summary(events: &[Value]) -> &Value {
    let last = events.last().expect("a line");
    assert_eq!(last["event"], "summary");
    last
}

/// What stands: violations minus retractions, by what makes them what they are.
fn standing<'a>(events: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, i64> {
    let mut found: BTreeMap<String, i64> = BTreeMap::new();
    for event in events {
        let change = match event["event"].as_str() {
            Some("violation" | "warning") => 1,
            Some("retracted") => -1,
            _ => continue,
        };
        let other = if event["code"] == "NOCONFLICT" { event["other"].to_string() } else { String::new() };
        let op = if event["code"] == "INT" { event["operation"].to_string() } else { String::new() };
        let name = format!("{} {} {} {other} {op}", event["code"], event["transaction"], event["key"]);
        *found.entry(name).or_default() += change;
    }
    found.retain(|_, n| *n != 0);
    found
}

const HISTORY: &str = r#"{"session":1,"id":1,"ops":[["w","x",1]],"start":1,"commit":2}
{"session":2,"id":2,"ops":[["r","x",1]],"start":3,"commit":3}
{"session":3,"id":3,"ops":[["r","x",null]],"start":4,"commit":4}
"#;

#[test]
fn a_violation_is_an_event_and_decides_the_exit_status() {
    let run = anomalist_with(&["watch", "-", "--json"], HISTORY.as_bytes()).expect(1);
    let events = events(&run.stdout);
    assert_eq!(events.len(), 2);
    for (field, value) in [("event", "violation"), ("code", "EXT"), ("transaction", "3"), ("key", "x")] {
        assert_eq!(events[0][field], value);
    }
    assert_eq!(summary(&events)["violations"]["EXT"], 1);
    assert!(
        run.text().starts_with("{\"event\":\"violation\",\"seq\":1,\"code\":\"EXT\",\"transaction\":\"3\"")
    );
    let clean: String = HISTORY.lines().take(2).map(|line| format!("{line}\n")).collect();
    anomalist_with(&["watch"], clean.as_bytes()).expect(0);
    anomalist(&["watch", "--level", "causal"]).expect(3);
    anomalist(&["watch", "/no/such/file"]).expect(3);
}

#[test]
fn a_reader_that_comes_before_its_writer_is_not_reported() {
    let late: String = HISTORY.lines().rev().skip(1).map(|line| format!("{line}\n")).collect();
    let run = anomalist_with(&["watch", "-", "--json", "--provisional"], late.as_bytes()).expect(0);
    let events = events(&run.stdout);
    let provisional: Vec<_> = events.iter().filter(|e| e["event"] == "provisional").collect();
    assert_eq!(provisional.len(), 2);
    assert_eq!((&provisional[0]["holds"], &provisional[1]["holds"]), (&true.into(), &false.into()));
    assert_eq!(summary(&events)["flip_flops"]["pairs"][0], 1);
}

/// Writes a history of snapshot isolation: sessions, transactions each, operations each, keys, seed.
fn generate(file: &str, [sessions, txns, ops, keys, seed]: [&str; 5]) {
    let shape = ["--sessions", sessions, "--txns-per-session", txns, "--ops-per-txn", ops, "--keys", keys];
    let kind = ["generate", "--kind", "timestamped", "--level", "si", "--to", "anomalist"];
    anomalist(&[&kind[..], &shape, &["--seed", seed, "-o", file]].concat()).expect(0);
}

/// A stream with one line in a hundred broken, in every way a line can be; and of which kind and where
/// these are.
fn with_faults(clean: &str) -> (String, Vec<(&'static str, u64)>) {
    let (mut out, mut expected) = (Vec::new(), Vec::new());
    for (i, line) in clean.lines().enumerate() {
        out.push(line.to_owned());
        if i % 100 != 50 {
            continue;
        }
        let (kind, broken) = match (i / 100) % 6 {
            0 => ("malformed", line[..line.len() / 2].to_owned()),
            1 => ("malformed", "not even JSON".to_owned()),
            2 => ("repeated", line.to_owned()),
            3 => ("untimed", r#"{"session":99,"ops":[["w","zz",1]]}"#.to_owned()),
            4 => {
                let at = 1_i64 << 50;
                let future =
                    format!(r#"{{"session":"f{i}","ops":[["r","never",0]],"start":{at},"commit":{at}}}"#);
                ("future", future)
            }
            _ => {
                // The second of a session of its own comes before the first.
                out.push(format!(
                    r#"{{"session":"o{i}","ops":[],"start":{},"commit":{}}}"#,
                    i * 5 + 7,
                    i * 5 + 8
                ));
                let early =
                    format!(r#"{{"session":"o{i}","ops":[],"start":{},"commit":{}}}"#, i * 5, i * 5 + 1);
                ("session-order", early)
            }
        };
        out.push(broken);
        expected.push((kind, out.len() as u64));
    }
    (out.join("\n") + "\n", expected)
}

#[test]
fn faults_of_the_stream_are_counted_and_placed_and_the_rest_is_checked() {
    let scratch = Scratch::new("faults");
    let clean = scratch.path("clean.jsonl");
    generate(&clean, ["12", "250", "5", "60", "11"]);
    let text = std::fs::read_to_string(&clean).expect("generated");
    let (broken, expected) = with_faults(&text);
    for level in ["session-si", "session-ser"] {
        let reference = anomalist(&["watch", &clean, "--level", level, "--json"]);
        let reference = standing(&events(&reference.stdout));
        let run = anomalist_with(&["watch", "-", "--level", level, "--json"], broken.as_bytes());
        let events = events(&run.stdout);
        let mut found: Vec<(&str, u64)> = events
            .iter()
            .filter(|e| e["event"] == "error")
            .map(|e| (e["kind"].as_str().expect("a kind"), e["line"].as_u64().expect("a line")))
            .collect();
        found.sort_by_key(|e| e.1);
        assert_eq!(found, expected, "{level}");
        let mut stands = standing(&events);
        // A session delivered out of order is also what it looks like: a session out of order.
        stands.retain(|name, _| !name.starts_with("\"SESSION\" \"o"));
        assert_eq!(stands, reference, "{level}");
        let errors = &summary(&events)["errors"];
        for kind in ["malformed", "repeated", "untimed", "future", "session-order"] {
            let count = expected.iter().filter(|e| e.0 == kind).count();
            assert_eq!(errors[kind], count, "{kind}");
        }
    }
}

/// A running watch, and what it prints.
struct Watch {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

fn start(args: &[&str]) -> Watch {
    let mut child = Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .arg("watch")
        .args(args)
        .arg("--json")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    Watch { child, stdout }
}

impl Watch {
    fn event(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// The address of a server.
    fn address(&mut self) -> String {
        let event = self.event();
        assert_eq!(event["event"], "listening");
        event["address"].as_str().expect("an address").to_owned()
    }

    /// The rest of the events, after the end.
    fn end(mut self) -> (Option<i32>, Vec<Value>) {
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest).expect("readable");
        (self.child.wait().expect("it ends").code(), events(&rest))
    }
}

fn request(address: &str, text: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(text.as_bytes()).expect("writable");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("readable");
    answer
}

#[test]
fn transactions_come_over_sockets_and_http_and_metrics_say_so() {
    let scratch = Scratch::new("sockets");
    let unix = format!("unix:{}", scratch.path("socket"));
    let args = ["--listen", "127.0.0.1:0", "--listen", &unix, "--http", "0", "--metrics", "0"];
    let mut watch = start(&[&args[..], &["--exit-when-idle", "400ms", "--settle", "10ms"]].concat());
    let (tcp, _, http, metrics) = (watch.address(), watch.address(), watch.address(), watch.address());
    let lines: Vec<&str> = HISTORY.lines().collect();
    // One over TCP, with acknowledgements; one over a Unix socket; one in chunks by POST.
    let mut stream = TcpStream::connect(&tcp).expect("it listens");
    writeln!(stream, "{{\"source\":\"a\"}}\n{}", lines[0]).expect("writable");
    let mut answers = BufReader::new(stream.try_clone().expect("cloned"));
    let mut answer = String::new();
    answers.read_line(&mut answer).expect("readable");
    answers.read_line(&mut answer).expect("readable");
    assert_eq!(answer, "{\"next\":0}\n{\"ack\":1}\n");
    drop((stream, answers));
    let mut stream = std::os::unix::net::UnixStream::connect(scratch.path("socket")).expect("it listens");
    writeln!(stream, "{}", lines[1]).expect("writable");
    drop(stream);
    let (first, second) = lines[2].split_at(20);
    let answer = request(
        &http,
        &format!(
            "POST /transactions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n\
             Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
             {:x}\r\n{first}\r\n{:x};x=y\r\n{second}\r\n0\r\n\r\n",
            first.len(),
            second.len()
        ),
    );
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("{\"transactions\":1,\"malformed\":0}\n"),
        "{answer}"
    );
    let bad = request(
        &http,
        "POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 5\r\nConnection: close\r\n\r\njunk\n",
    );
    assert!(bad.ends_with("{\"transactions\":0,\"malformed\":1}\n"), "{bad}");
    for (wrong, status) in [
        ("GARBAGE\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n", "413"),
        ("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\njunk\n", "415"),
        ("POST / HTTP/1.1\r\nOrigin: http://evil.example\r\n\r\n", "403"),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
        ("DELETE / HTTP/1.1\r\nConnection: close\r\n\r\n", "405"),
        ("GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n", "404"),
    ] {
        assert!(request(&http, wrong).starts_with(&format!("HTTP/1.1 {status}")), "{wrong}");
    }
    // The metrics are renewed now and then.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let text = request(&metrics, "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n");
        if text.contains("anomalist_transactions_total 3\n") {
            assert!(text.contains("anomalist_stream_errors_total{kind=\"malformed\"} 1\n"), "{text}");
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{text}");
    }
    let (status, events) = watch.end();
    assert_eq!(status, Some(1));
    assert_eq!(standing(&events).len(), 1);
}

/// What a watch printed that was killed again and again at random moments, and restarted each time.
#[derive(Default)]
struct Killed {
    kills: u32,
    /// By number: an event that was logged but perhaps not printed is printed again with the number it had.
    seen: BTreeMap<u64, Value>,
    /// The lines of faults.
    errors: Vec<u64>,
    /// The summary.
    last: Value,
}

impl Killed {
    fn until_the_end(args: &[&str]) -> Killed {
        let mut killed = Killed::default();
        let mut rng = fastrand::Rng::with_seed(9);
        loop {
            let mut watch = start(args);
            if killed.kills < 12 {
                std::thread::sleep(std::time::Duration::from_millis(rng.u64(5..120)));
                if watch.child.try_wait().expect("it is ours").is_none() {
                    watch.child.kill().expect("it is ours");
                    killed.kills += 1;
                }
            }
            let mut text = Vec::new();
            watch.stdout.read_to_end(&mut text).expect("readable");
            watch.child.wait().expect("it ends");
            // The last line may have been cut by the kill.
            let whole = text.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
            if killed.ends_with(&events(&text[..whole])) {
                return killed;
            }
        }
    }

    /// Adds what one process printed; whether it came to its end.
    fn ends_with(&mut self, printed: &[Value]) -> bool {
        for event in printed.iter().filter(|e| e["seq"].is_u64()) {
            let seq = event["seq"].as_u64().expect("a number");
            if let Some(before) = self.seen.insert(seq, event.clone()) {
                assert_eq!(&before, event, "one number, one event");
            }
        }
        let faults = printed.iter().filter(|e| e["event"] == "error");
        self.errors.extend(faults.map(|e| e["line"].as_u64().expect("a line")));
        let summary = printed.last().filter(|e| e["event"] == "summary");
        self.last = summary.cloned().unwrap_or_default();
        summary.is_some()
    }
}

/// Nothing is lost, nothing is reported twice.
#[test]
fn a_killed_watch_goes_on_where_it_was() {
    let scratch = Scratch::new("killed");
    let file = scratch.path("h.jsonl");
    generate(&file, ["8", "4000", "4", "200", "5"]);
    // One line in a hundred cannot be used.
    let mut text = String::new();
    for (i, line) in scratch.read("h.jsonl").lines().enumerate() {
        text += line;
        text += if i % 100 == 50 { "\n{\"session\":1,\n" } else { "\n" };
    }
    std::fs::write(&file, &text).expect("scratch file");
    let bad: BTreeSet<u64> =
        (1..).zip(text.lines()).filter(|(_, line)| line.len() < 15).map(|(n, _)| n).collect();
    let reference = anomalist(&["watch", &file, "--level", "session-ser", "--json"]).expect(1);
    let reference = standing(&events(&reference.stdout));
    assert!(reference.len() > 100 && bad.len() == 320);
    for (name, memory) in [("roomy", "1GB"), ("tight", "300kB")] {
        let state = scratch.path(name);
        let args = [
            &file,
            "--level",
            "session-ser",
            "--state",
            &state,
            "--checkpoint",
            "15ms",
            "--memory",
            memory,
            "--settle",
            "5ms",
        ];
        let Killed { kills, seen, errors, last } = Killed::until_the_end(&args);
        assert!(kills > 2, "{name}: it was killed {kills} times only");
        let stands = standing(seen.values());
        assert!(stands.values().all(|&n| n == 1), "{name}: reported twice");
        assert_eq!(stands, reference, "{name}");
        assert_eq!(last["standing"], reference.len(), "{name}");
        assert_eq!(last["transactions"], 32_000, "{name}");
        // Faults have no number: those that were logged and perhaps not printed, a batch at most, are
        // described again. Telling all of them after each of the kills would be many times as much.
        let described = errors.len();
        assert_eq!(BTreeSet::from_iter(errors), bad, "{name}");
        assert!(described < 2 * bad.len(), "{name}: {described} errors");
        assert_eq!(last["errors"]["malformed"], bad.len(), "{name}");
    }
}

/// Each collector on a sample of what its database writes: one stale read, found.
#[test]
fn collectors_make_streams_of_what_databases_write() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/collectors");
    for (script, logs) in [
        ("tidb_cdc.py", &["samples/tidb-client.jsonl", "samples/tidb-cdc.jsonl"][..]),
        ("yugabyte_wal.py", &["samples/yugabyte-client.jsonl", "samples/yugabyte-wal.txt"]),
        ("dgraph.py", &["samples/dgraph.jsonl"]),
    ] {
        let run = Command::new("python3")
            .arg(script)
            .args(logs)
            .current_dir(folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output();
        let Ok(run) = run else {
            return anomalist_testkit::skip::missing("python", "python3 cannot be started");
        };
        assert!(
            run.status.success() && run.stderr.is_empty(),
            "{script}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
        let watch = anomalist_with(&["watch", "-", "--json"], &run.stdout).expect(1);
        let events = events(&watch.stdout);
        assert_eq!(standing(&events).len(), 1, "{script}: {events:?}");
        assert_eq!(events[0]["code"], "EXT", "{script}");
        assert_eq!(summary(&events)["checked"], 3, "{script}");
        assert_eq!(summary(&events)["errors"]["malformed"], 0, "{script}");
    }
}

/// The load generator sends over TCP and HTTP what it would write to a file, out of order; the verdict is
/// the same.
#[test]
fn generated_load_arrives_out_of_order_and_is_judged_the_same() {
    let scratch = Scratch::new("load");
    let shape = [
        "generate",
        "--kind",
        "timestamped",
        "--level",
        "si",
        "--sessions",
        "12",
        "--txns-per-session",
        "300",
        "--ops-per-txn",
        "5",
        "--keys",
        "50",
        "--to",
        "anomalist",
        "--seed",
        "3",
    ];
    let file = scratch.path("h.jsonl");
    anomalist(&[&shape[..], &["-o", &file]].concat()).expect(0);
    let reference = anomalist(&["watch", &file, "--level", "session-ser", "--json"]).expect(1);
    let reference = standing(&events(&reference.stdout));
    for scheme in ["tcp", "http"] {
        let flag = if scheme == "tcp" { "--listen" } else { "--http" };
        // Long enough for a generator that a busy machine starts late.
        let mut watch = start(&[flag, "0", "--level", "session-ser", "--exit-when-idle", "3s"]);
        let address = format!("{scheme}://{}", watch.address());
        let arrival =
            ["--arrival", "normal(100ms,10ms)", "--rate", "20000", "--batch", "100", "-o", &address];
        anomalist(&[&shape[..], &arrival].concat()).expect(0);
        let (status, events) = watch.end();
        assert_eq!(status, Some(1));
        assert_eq!(standing(&events), reference, "{scheme}");
        assert!(summary(&events)["flip_flops"]["transactions"].as_u64() > Some(0), "it was out of order");
        assert_eq!(summary(&events)["transactions"], 3600);
    }
}
