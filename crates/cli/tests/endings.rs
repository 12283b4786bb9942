//! How commands end: exit statuses that survive closed pipes, streams that say nothing, files that are
//! rotated away.

mod support;

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Run, Scratch, anomalist, anomalist_with, shell};

/// Read committed is violated: two reads of one transaction see the writes of one session in the wrong
/// order.
const BAD: &str = "w(1,1,0,0)\nw(1,2,0,1)\nw(2,2,0,1)\nr(2,2,1,2)\nr(1,1,1,2)\n";

const STREAM: &str = r#"{"session":1,"id":1,"ops":[["w","x",1]],"start":1,"commit":2}
{"session":2,"id":2,"ops":[["r","x",1]],"start":3,"commit":3}
"#;
const STALE: &str = r#"{"session":3,"id":3,"ops":[["r","x",null]],"start":4,"commit":4}
"#;

/// The exit status of a command whose output is a pipe that was closed before it wrote anything.
fn unread(command: &str) -> String {
    let run = shell(&format!("(sleep 0.2; {command}; echo $? >&2) | true"));
    run.stderr().lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_closed_pipe_does_not_change_the_exit_status() {
    let scratch = Scratch::new("unread");
    let (bad, junit) = (scratch.file("bad.txt", BAD), scratch.path("j.xml"));
    assert_eq!(unread(&format!("$ANOMALIST check {bad} --level rc")), "1");
    assert_eq!(unread(&format!("$ANOMALIST check {bad} --level rc --json")), "1");
    assert_eq!(unread(&format!("$ANOMALIST check {bad} --level read-uncommitted")), "0");
    assert_eq!(unread(&format!("$ANOMALIST check {bad} --level linearizable --anomalies TAP-b")), "2");
    assert_eq!(unread(&format!("$ANOMALIST check {bad} --level rc --junit {junit}")), "1");
    assert!(scratch.read("j.xml").contains("<failure"));
    assert_eq!(unread("$ANOMALIST --help"), "0");
}

/// What cannot be written is an error, also if it is help.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_changes_it() {
    for asked in ["--help", "--version", "check --help", "levels"] {
        let run = shell(&format!("$ANOMALIST {asked} > /dev/full; echo $? >&2"));
        assert_eq!(run.stderr().lines().last(), Some("3"), "{asked}: {}", run.stderr());
        assert!(run.stderr().contains("standard output"), "{asked}: {}", run.stderr());
    }
}

#[test]
fn a_watch_that_is_not_read_keeps_its_exit_status() {
    let scratch = Scratch::new("unread-watch");
    let bad = scratch.file("bad.jsonl", &format!("{STREAM}{STALE}"));
    let fine = scratch.file("fine.jsonl", STREAM);
    let malformed = scratch.file("late.jsonl", &format!("nonsense\n{STREAM}{STALE}"));
    assert_eq!(unread(&format!("$ANOMALIST watch {bad}")), "1");
    assert_eq!(unread(&format!("$ANOMALIST watch - < {bad}")), "1");
    assert_eq!(unread(&format!("$ANOMALIST watch {malformed}")), "1");
    assert_eq!(unread(&format!("$ANOMALIST watch {fine}")), "0");
    // A stream without end is left as soon as the answer is known.
    assert_eq!(unread(&format!("$ANOMALIST watch {bad} --follow --settle 10ms")), "1");
}

#[test]
fn a_watch_that_could_use_nothing_does_not_hold() {
    let malformed = "{\"session\":1,\"ops\":[[\"w\",\"x\",1]],\"commit\":\"?\"}\nnonsense\n";
    let run = anomalist_with(&["watch", "-"], malformed.as_bytes()).expect(2);
    assert!(run.text().contains("unknown: 0 transactions"), "{}", run.text());
    assert!(run.text().contains("none of 2 lines could be used"), "{}", run.text());
    let run = anomalist(&["watch", "--json"]).expect(2);
    assert_eq!(run.json()["verdict"], "unknown");
    assert_eq!(run.json()["reason"], "no transaction arrived");
}

/// Follows a file, has it rotated by `rotate`, and appends a violating line.
fn rotated(name: &str, rotate: impl FnOnce(&str)) {
    let scratch = Scratch::new(name);
    let log = scratch.file("log.jsonl", STREAM);
    let child = Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(["watch", &log, "--follow", "--settle", "10ms", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    std::thread::sleep(Duration::from_millis(500));
    rotate(&log);
    let mut file = fs::OpenOptions::new().append(true).open(&log).expect("the log");
    file.write_all(STALE.as_bytes()).expect("a line");
    let since = Instant::now();
    let output = child.wait_with_output().expect("it ends by itself");
    assert!(since.elapsed() < Duration::from_secs(20));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let summary: serde_json::Value =
        serde_json::from_str(text.lines().last().expect("a summary")).expect("JSON");
    assert_eq!(summary["verdict"], "unknown", "{text}");
    assert!(summary["reason"].as_str().is_some_and(|reason| reason.contains("rotation")), "{text}");
}

#[test]
fn a_watch_that_loses_its_file_does_not_hold() {
    rotated("renamed", |log| {
        fs::rename(log, format!("{log}.1")).expect("renamed");
        fs::write(log, "").expect("made anew");
    });
    rotated("truncated", |log| {
        fs::copy(log, format!("{log}.1")).expect("copied");
        fs::write(log, "").expect("truncated");
    });
}

/// The exit status of `check --anomalies`, and what it says of each.
fn sought(history: &str, anomalies: &str, more: &[&str], status: i32) -> Vec<String> {
    let args = [&["check", "-", "--json", "--anomalies", anomalies][..], more].concat();
    let document = anomalist_with(&args, history.as_bytes()).expect(status).json();
    let sought = document["sought"].as_array().expect("an answer each");
    sought.iter().map(|s| s["answer"].as_str().expect("a word").to_owned()).collect()
}

#[test]
fn anomalies_asked_for_decide_the_exit_status() {
    let fine = "w(1,1,0,0)\nr(1,1,1,1)\n";
    assert_eq!(sought(BAD, "TAP-h", &[], 1), ["found"]);
    assert_eq!(sought(BAD, "TAP-a,TAP-h", &[], 1), ["absent", "found"]);
    assert_eq!(sought(fine, "TAP-h", &[], 0), ["absent"]);
    assert_eq!(sought(fine, "G2-item,G1c,lost-update", &[], 0), ["absent", "absent", "absent"]);
    assert_eq!(sought(fine, "TAP-h", &["--timeout", "0s"], 2), ["unknown"]);
    // A required level decides alone.
    assert_eq!(sought(BAD, "TAP-j", &["--level", "read-uncommitted"], 0), ["absent"]);
}

/// Plume, Theorems 2 to 5: the absence of these patterns is the level.
#[test]
fn absent_patterns_prove_the_level_that_they_define() {
    let fine = "w(1,1,0,0)\nr(1,1,1,1)\n";
    let up_to = |last: char| ('a'..=last).map(|c| format!("TAP-{c}")).collect::<Vec<_>>().join(",");
    for (patterns, level) in [
        (up_to('i'), "read-committed"),
        ("TAP-j".to_owned(), "cut-isolation"),
        (up_to('l'), "read-atomic"),
        (up_to('n'), "causal"),
    ] {
        sought(fine, &patterns, &["--level", level], 0);
    }
    sought(BAD, &up_to('i'), &["--level", "read-committed"], 1);
    // Less than that proves nothing.
    sought(fine, "TAP-a", &["--level", "read-committed"], 2);
    // One of the patterns was not asked for, and is there: neither proven nor shown.
    let aborted = "w(1,1,0,0)\nr(1,2,1,1)\n";
    sought(aborted, "TAP-h,TAP-i", &["--level", "read-committed"], 2);
    sought(aborted, &up_to('i'), &["--level", "read-committed"], 1);
}

#[test]
fn what_holds_because_nothing_was_read_says_so() {
    let run = anomalist_with(&["check", "-", "--json"], b"w(1,1,0,0)\nw(2,2,1,1)\n").expect(0);
    assert!(run.json()["vacuous"].as_str().is_some_and(|why| why.contains("no committed transaction reads")));
    let run = anomalist_with(&["check", "-"], b"w(1,1,0,0)\nw(2,2,1,1)\n").expect(0);
    let text = run.text().replace('\n', " ");
    assert!(text.contains("Yet no committed transaction reads"), "{text}");
    let run = anomalist_with(&["check", "-", "--json"], b"w(1,1,0,0)\nr(1,1,1,1)\n").expect(0);
    assert!(run.json()["vacuous"].is_null());
}

#[test]
fn a_summary_is_appended_for_github() {
    let scratch = Scratch::new("step-summary");
    let (bad, file) = (scratch.file("bad.txt", BAD), scratch.file("summary.md", "# before\n"));
    let environment = [("GITHUB_STEP_SUMMARY", file.as_str())];
    Run::new(&["check", &bad, "--level", "rc"], b"", &environment).expect(1);
    let text = scratch.read("summary.md");
    assert!(text.starts_with("# before\n") && text.contains("read-committed is VIOLATED"), "{text}");
}

/// A history that takes seconds to judge.
fn large(scratch: &Scratch) -> String {
    let path = scratch.path("large.txt");
    let flags =
        ["--shape", "GeneralRW", "--sessions", "50", "--txns-per-session", "2000", "--inject", "TAP-k"];
    anomalist(&[&["generate", "--seed", "3", "-o", &path][..], &flags].concat()).expect(0);
    path
}

/// Asked to end, it ends within a second; the machine may be busy.
const SOON: Duration = Duration::from_millis(2500);

#[test]
fn a_time_limit_is_kept_with_what_is_known() {
    let scratch = Scratch::new("timeout");
    let large = large(&scratch);
    for limit in ["1ms", "300ms", "1s"] {
        let since = Instant::now();
        let run = anomalist(&["check", &large, "--timeout", limit, "--level", "serializable", "--json"]);
        assert!(since.elapsed() < SOON + Duration::from_secs(1), "{limit}: {:?}", since.elapsed());
        let verdict = run.json()["levels"][0]["verdict"].as_str().map(str::to_owned);
        let status = match verdict.as_deref() {
            Some("violated") => 1,
            Some("holds") => 0,
            _ => 2,
        };
        run.expect(status);
    }
}

/// Few values, written again and again: there is much to try, and every step of it polls. (A small file has
/// no thread of its own that could be left behind.)
#[test]
fn a_small_history_of_repeated_values_ends_in_time() {
    let scratch = Scratch::new("repeated-values");
    let mut random = fastrand::Rng::with_seed(1);
    let mut operation = || {
        let (kind, key, value) = (random.choice(["r", "w"]), random.u8(0..8), random.u8(0..4));
        format!("[\"{}\",\"{key}\",{value}]", kind.unwrap_or("r"))
    };
    let line = |i: usize| {
        let operations = [operation(), operation(), operation(), operation()].join(",");
        format!("{{\"session\":{},\"ops\":[{operations}]}}\n", i % 12)
    };
    let file = scratch.file("values.jsonl", &(0..8000).map(line).collect::<String>());
    let since = Instant::now();
    anomalist(&["check", &file, "--timeout", "500ms"]);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
}

/// Kills a run in the middle, and reads what it left.
#[test]
fn a_killed_test_leaves_a_recording_that_says_so() {
    let scratch = Scratch::new("killed");
    let (database, runs) = (format!("sqlite:{}", scratch.path("t.db")), scratch.path("runs"));
    let args = ["test", &database, "--duration", "60s", "--sessions", "20", "--runs", &runs, "-q"];
    for workload in ["list-append", "register", "counter"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_anomalist"))
            .args(args)
            .args(["--workload", workload])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let latest = scratch.path("runs/latest");
        // Until something is recorded, however busy the machine is.
        let until = Instant::now() + Duration::from_secs(60);
        let recorded = || {
            let files = fs::read_dir(&latest).into_iter().flatten().flatten();
            files
                .filter(|f| f.file_name().to_string_lossy().starts_with("history"))
                .any(|f| f.metadata().is_ok_and(|file| file.len() > 100_000))
        };
        while !recorded() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().expect("it runs");
        child.wait().expect("it is gone");
        let run = anomalist(&["check", &latest, "--level", "serializable"]).expect(3);
        assert!(run.stderr().contains("the recording was cut off"), "{workload}: {}", run.stderr());
        let run = anomalist(&["check", &latest, "--level", "serializable", "--lossy"]);
        assert!(run.ended_with(0) || run.ended_with(2), "{workload}: {}", run.text());
    }
}

/// A run that comes to its end has its marker, is judged as `check` judges it, and the database is held to
/// what its vendor documents.
#[test]
fn a_test_is_judged_as_its_recording_is() {
    let scratch = Scratch::new("judged");
    let runs = scratch.path("runs");
    for (workload, url) in [
        ("list-append", format!("sqlite:{}", scratch.path("a.db"))),
        ("register", format!("sqlite:{}", scratch.path("b.db"))),
        ("bank", "simulated:snapshot-isolation".to_owned()),
        ("register", "simulated:read-committed".to_owned()),
    ] {
        let args = ["test", &url, "--txns", "600", "--runs", &runs, "-q", "--json", "--workload", workload];
        let run = anomalist(&args).expect(0).json();
        let folder = run["runs"][0]["folder"].as_str().expect("a folder").to_owned();
        let check = anomalist(&["check", &folder, "--json"]).expect(0).json();
        assert_eq!(run["runs"][0]["result"]["levels"], check["levels"], "{workload} {url}");
    }
    // A database with a bug breaks what SQLite documents.
    let url = format!("sqlite:{}", scratch.path("c.db"));
    let bug = ["test", &url, "--bug", "dirty-read", "--txns", "2000", "--runs", &runs, "-q", "--json"];
    let run = anomalist(&bug).expect(1).json();
    assert_eq!(run["runs"][0]["claim"]["level"], "serializable");
    anomalist(&[&bug[..], &["--no-claim"]].concat()).expect(0);
}

#[test]
fn an_interrupt_ends_a_check_soon_with_what_is_known() {
    let scratch = Scratch::new("interrupted-check");
    let large = large(&scratch);
    for wait in [300, 1500, 3000] {
        let child = Command::new(env!("CARGO_BIN_EXE_anomalist"))
            .args(["check", &large])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        std::thread::sleep(Duration::from_millis(wait));
        let pid = child.id().to_string();
        // It may have ended by itself.
        _ = Command::new("kill").args(["-INT", &pid]).stderr(Stdio::null()).status();
        let since = Instant::now();
        let output = child.wait_with_output().expect("it ends");
        assert!(since.elapsed() < SOON, "{wait} ms: {:?}", since.elapsed());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let complete = !text.is_empty() && !text.contains("unknown    [");
        // A verdict that is complete stands, whenever the interrupt comes; any other end says that it was
        // stopped.
        match output.status.code() {
            Some(0) => assert!(complete, "{text}"),
            Some(2) => assert!(text.contains("stopped") || !output.stderr.is_empty(), "{text}"),
            status => panic!("{status:?}: {text}"),
        }
    }
}
