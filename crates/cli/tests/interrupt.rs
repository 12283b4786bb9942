//! Ctrl-C ends the run with status 2, and leaves nothing behind.
#![cfg(target_os = "linux")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use support::Scratch;

const SIGINT_BIT: u64 = 1 << 1;

/// Waits until the process has a handler for SIGINT, then sends it one.
fn interrupt(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    loop {
        let text = std::fs::read_to_string(&status).expect("the process lives");
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
        let mask = u64::from_str_radix(caught.trim(), 16).expect("hexadecimal");
        if mask & SIGINT_BIT != 0 {
            break;
        }
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
}

fn start(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

#[test]
fn reading_an_endless_history_can_be_interrupted() {
    let mut child = start(&["check", "-", "--level", "causal"]);
    interrupt(&child);
    let mut stdin = child.stdin.take().expect("piped");
    // The signal arrives at some moment while this is read; then reading stops.
    for n in 0_u64.. {
        if writeln!(stdin, "w({},{n},0,{n})", n % 1000).is_err() {
            break;
        }
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "interrupted\n");
}

#[test]
fn an_interrupted_generation_leaves_no_file() {
    let scratch = Scratch::new("interrupted");
    let sessions = ["--sessions", "1000", "--txns-per-session", "1000000"];
    let child = start(&[&["generate", "-o", &scratch.path("h.txt")], &sessions[..]].concat());
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(2));
    assert!(scratch.names().is_empty(), "{:?}", scratch.names());
}

/// Who was read from may just not have arrived: that is no violation yet.
#[test]
fn an_interrupted_watch_leaves_open_what_has_not_settled() {
    let mut child = start(&["watch", "-", "--json", "--level", "si", "--settle", "1h"]);
    let mut stdin = child.stdin.take().expect("piped");
    let reader = r#"{"session":1,"ops":[["r","x",1]],"start":5,"commit":5}"#;
    write!(stdin, "{reader}\nnonsense\n").expect("it reads");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("an event");
    assert!(line.contains("malformed"), "{line}");
    interrupt(&child);
    line.clear();
    stdout.read_line(&mut line).expect("the summary");
    assert!(line.contains(r#""standing":0,"unsettled":1"#), "{line}");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn an_interrupted_test_judges_what_was_recorded() {
    let scratch = Scratch::new("interrupted-test");
    let runs = scratch.path("runs");
    let args =
        ["test", "simulated:serializable", "--duration", "600s", "--sessions", "2", "--json", "--quiet"];
    let mut child = start(&[&args[..], &["--runs", &runs]].concat());
    let history = std::path::Path::new(&runs).join("latest/history.jsonl");
    while !std::fs::metadata(&history).is_ok_and(|file| file.len() > 1_000) {
        assert!(child.try_wait().expect("a child").is_none(), "it goes on until it is interrupted");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let run = &answer["runs"][0];
    assert_eq!(run["interrupted"], true);
    let levels = run["result"]["levels"].as_array().expect("levels");
    assert!(levels.iter().all(|level| level["verdict"] == "holds"), "{levels:?}");
    assert!(
        run["committed"].as_u64().is_some_and(|n| n > 0) && history.with_file_name("report.html").is_file()
    );
}

/// Ctrl-C at a terminal reaches the whole group of the foreground: the test command's end is then no
/// failure of the test.
#[test]
#[cfg(feature = "weakdb")]
fn an_interrupted_exploration_is_no_failing_test() {
    use std::os::unix::process::CommandExt;
    let scratch = Scratch::new("interrupted-explore");
    let begun = scratch.path("begun");
    let mut child = Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(["explore", "--quiet", "--", "sh", "-c", &format!("echo > {begun}; sleep 4713")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the binary starts");
    while !std::path::Path::new(&begun).exists() {
        assert!(child.try_wait().expect("a child").is_none(), "it goes on until it is interrupted");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let left = Command::new("pgrep").args(["-f", "sleep 4713"]).output().expect("pgrep runs");
    assert!(left.stdout.is_empty(), "the command is left");
}

/// The names of the temporary folders of a living process: it keeps a file of each open.
fn folders_of(child: u32) -> Vec<String> {
    let open = std::fs::read_dir(format!("/proc/{child}/fd")).into_iter().flatten().flatten();
    let files = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let owners = files.filter(|file| file.ends_with(".owner"));
    owners.filter_map(|file| Some(file.parent()?.file_name()?.to_str()?.to_owned())).collect()
}

/// Those of these folders that exist.
fn left(names: &[String]) -> Vec<String> {
    let exists = |name: &&String| std::env::temp_dir().join(name).exists();
    names.iter().filter(exists).cloned().collect()
}

/// Processes whose command line has one of these names.
fn running(names: &[String]) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| names.iter().any(|name| line.contains(name))).collect()
}

/// Wherever it is: making the database, starting it, or running.
#[test]
fn a_second_interrupt_leaves_nothing_behind() {
    let scratch = Scratch::new("twice");
    let runs = scratch.path("runs");
    let cases: [(&[&str], u64); 5] = [
        (&[], 300),
        (&["--throwaway", "postgres"], 0),
        (&["--throwaway", "postgres"], 1_500),
        (&["--throwaway", "mariadb"], 0),
        (&["--throwaway", "mariadb"], 1_000),
    ];
    for (what, after) in cases {
        let args = [&["test", "--duration", "600s", "--quiet", "--runs", &runs], what].concat();
        let mut child = start(&args);
        let pid = child.id();
        let names = loop {
            let names = folders_of(pid);
            if !names.is_empty() {
                break names;
            }
            if child.try_wait().expect("a child").is_some() {
                // The server's programs are not on this machine.
                break Vec::new();
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        if names.is_empty() {
            continue;
        }
        std::thread::sleep(std::time::Duration::from_millis(after));
        interrupt(&child);
        std::thread::sleep(std::time::Duration::from_millis(100));
        // The first may have been enough.
        if child.try_wait().expect("a child").is_none() {
            interrupt(&child);
        }
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{what:?} after {after} ms: {said}");
        assert_eq!(left(&names), Vec::<String>::new(), "{what:?} after {after} ms");
        assert_eq!(running(&names), Vec::<String>::new(), "{what:?} after {after} ms");
    }
}

#[test]
fn a_program_that_hangs_does_not_hold_up_the_end() {
    let scratch = Scratch::new("hanging");
    let (runs, started) = (scratch.path("runs"), scratch.path("started"));
    let command = format!("exec:touch '{started}'; sleep 600");
    let mut child = start(&["test", &command, "--runs", &runs, "--quiet"]);
    while !std::path::Path::new(&started).exists() {
        assert!(child.try_wait().expect("a child").is_none(), "it waits for the program");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let since = std::time::Instant::now();
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(since.elapsed() < std::time::Duration::from_secs(15), "{:?}", since.elapsed());
    assert_eq!(running(&[started]), Vec::<String>::new());
}
