//! The contract of the command line: exit statuses, JSON, formats, pipes. Runs the binary as a user would.

mod support;

use support::{Run, Scratch, anomalist, anomalist_with, shell};

/// A history that is fine, one session writing and another reading.
const FINE: &str = "w(1,1,0,0)\nr(1,1,1,1)\n";
/// The second session sees the second write of the first by key 2, then reads the first by key 1: TAP-h.
const NON_MONOTONIC: &str = "w(1,1,0,0)\nw(1,2,0,1)\nw(2,2,0,1)\nr(2,2,1,2)\nr(1,1,1,2)\n";

#[test]
fn generated_histories_can_be_checked_through_a_pipe() {
    let size = ["--sessions", "5", "--txns-per-session", "20", "--keys", "50"];
    let generated =
        anomalist(&[&["generate", "--level", "causal", "--seed", "7"], &size[..]].concat()).expect(0);
    anomalist_with(&["check", "-", "--level", "causal"], &generated.stdout).expect(0);
    let injected = anomalist(&[&["generate", "--inject", "TAP-k"], &size[..]].concat());
    let checked = anomalist_with(&["check", "-", "--level", "ra"], &injected.stdout).expect(1);
    assert!(checked.text().contains("TAP-k"), "{}", checked.text());
}

#[test]
fn exit_statuses_tell_holds_violated_unknown_and_bad_input_apart() {
    let scratch = Scratch::new("exit");
    let fine = scratch.file("fine.txt", FINE);
    let bad = scratch.file("bad.txt", NON_MONOTONIC);
    anomalist(&["check", &fine, "--level", "rc,causal"]).expect(0);
    anomalist(&["check", &fine, "--level", "strict-serializable"]).expect(2);
    anomalist(&["check", &bad, "--level", "read-committed"]).expect(1);
    anomalist(&["check", &bad, "--level", "strict-serializable,rc"]).expect(1);
    anomalist(&["check", &bad]).expect(0);
    anomalist(&["check", &scratch.path("missing.txt")]).expect(3);
    anomalist(&["check", &scratch.file("empty.txt", "")]).expect(3);
    anomalist(&["check", &scratch.file("odd.txt", "hello\n")]).expect(3);
    anomalist(&["check", &fine, "--by", "timestamps"]).expect(3);
    anomalist(&["check", &fine, "--no-such-flag"]).expect(3);
    anomalist(&["check"]).expect(3);
    anomalist(&[]).expect(3);
    for asked in [["--help"], ["--version"]] {
        anomalist(&asked).expect(0);
    }
    anomalist(&["check", &fine, "--level", "causal", "--timeout", "0ms"]).expect(2);
}

#[test]
fn an_unknown_name_is_answered_with_a_suggestion() {
    let run = anomalist(&["check", "h.txt", "--level", "serialisable"]).expect(3);
    assert!(run.stderr().contains("`serializable`"), "{}", run.stderr());
    let run = anomalist(&["explain", "fractured-read-cp"]).expect(3);
    assert!(run.stderr().contains("fractured-read-co"), "{}", run.stderr());
    anomalist(&["generate", "--inject", "TAP-z"]).expect(3);
    anomalist(&["generate", "--shape", "W9"]).expect(3);
}

#[test]
fn a_truncated_file_is_reported_with_its_place() {
    let scratch = Scratch::new("truncated");
    let path = scratch.file("h.txt", "w(1,1,1,1)\nw(1,1,1");
    let run = anomalist(&["check", &path]).expect(3);
    assert!(run.stderr().starts_with(&format!("error: {path}:2:8: expected")), "{}", run.stderr());
    assert_eq!(run.text(), "");
    let lossy = anomalist(&["check", &path, "--lossy", "--level", "causal"]).expect(0);
    assert!(lossy.stderr().starts_with("warning:"), "{}", lossy.stderr());
    let quiet = anomalist(&["check", &path, "--lossy", "--quiet"]).expect(0);
    assert_eq!(quiet.stderr(), "");
}

#[test]
fn json_is_all_there_is_on_standard_output() {
    let scratch = Scratch::new("json");
    let bad = scratch.file("bad.txt", NON_MONOTONIC);
    let document = anomalist(&["check", "--json", &bad, "--level", "rc"]).expect(1).json();
    for key in ["anomalist", "schema", "history", "levels", "strongest", "anomalies", "timing_ms"] {
        assert!(!document[key].is_null(), "{key}");
    }
    for key in ["path", "format", "kind", "sessions", "transactions", "aborted", "operations", "keys"] {
        assert!(!document["history"][key].is_null(), "{key}");
    }
    assert_eq!(document["history"]["format"], "plume");
    assert_eq!(document["levels"][0]["level"], "read-committed");
    assert_eq!(document["levels"][0]["verdict"], "violated");
    assert_eq!(document["anomalies"][0]["code"], "TAP-h");
    assert_eq!(document["anomalies"][0]["count"], 1);
    assert!(document["anomalies"][0]["witness"]["edges"].is_array());
    let fine = scratch.file("fine.txt", FINE);
    let several = anomalist(&["check", "--json", &bad, &fine]).expect(0).json();
    assert_eq!(several.as_array().map(Vec::len), Some(2));
    let one_missing = anomalist(&["check", "--json", &scratch.path("none"), &fine]).expect(3).json();
    assert_eq!(one_missing.as_array().map(Vec::len), Some(1));
}

#[test]
fn several_histories_end_with_a_table() {
    let scratch = Scratch::new("table");
    let (bad, fine) = (scratch.file("bad.txt", NON_MONOTONIC), scratch.file("fine.txt", FINE));
    let run = anomalist(&["check", &bad, &fine]).expect(0);
    let text = run.text();
    let table = text.rsplit_once("strongest level that holds\n").expect("a table").1;
    assert!(table.contains("non-mono-read-co (TAP-h)") && table.contains("1 of 2"), "{text}");
    anomalist(&["check", &bad, &fine, "--level", "rc"]).expect(1);
    let run = anomalist(&["check", &bad, &scratch.path("missing"), &fine]).expect(3);
    assert!(run.text().contains("1 of 3 could not be read"), "{}", run.text());
    assert!(run.text().contains("1 of 2") && run.stderr().contains("missing"), "{}", run.text());
}

#[test]
fn only_the_anomalies_asked_for_are_looked_for() {
    let run =
        anomalist_with(&["check", "-", "--json", "--anomalies", "TAP-h,TAP-j"], NON_MONOTONIC.as_bytes());
    let document = run.expect(1).json();
    assert_eq!(document["anomalies"].as_array().map(Vec::len), Some(1));
    let run = anomalist_with(&["check", "-", "--json", "--anomalies", "TAP-j"], NON_MONOTONIC.as_bytes());
    assert_eq!(run.expect(0).json()["anomalies"].as_array().map(Vec::len), Some(0));
    anomalist_with(&["check", "-", "--anomalies", "TAP-j", "--level", "rc"], FINE.as_bytes()).expect(2);
}

#[test]
fn a_closed_pipe_is_success_without_noise() {
    for command in ["generate", "generate --to dbcop", "levels", "explain si", "man", "completions bash"] {
        let run = shell(&format!("( $ANOMALIST {command}; echo $? >&2 ) | head -1 > /dev/null"));
        assert_eq!(run.stderr(), "0\n", "{command}");
    }
}

#[test]
fn who_closes_the_pipe_still_gets_the_files() {
    let scratch = Scratch::new("closed");
    let (history, junit) = (scratch.file("h.txt", "w(1,1,1,1)\nr(1,1,2,2)\n"), scratch.path("j.xml"));
    let run = shell(&format!("(sleep 0.2; $ANOMALIST check {history} --junit {junit}; echo $? >&2) | true"));
    assert_eq!(run.stderr(), "0\n");
    assert!(scratch.read("j.xml").contains("<testsuite"));
    let nowhere = scratch.path("no/such/folder.xml");
    let run = anomalist(&["check", "/dev/null", "--junit", &nowhere]).expect(3);
    assert!(run.stderr().contains(&nowhere), "reported before the history is read: {}", run.stderr());
}

#[test]
fn a_check_that_was_stopped_says_so() {
    let scratch = Scratch::new("stopped");
    let history = scratch.path("h.txt");
    anomalist(&["generate", "--level", "read-committed", "--keys", "2000", "-o", &history]).expect(0);
    let run = anomalist(&["check", &history, "--level", "causal", "--timeout", "0s"]);
    let note = "stopped, by an interrupt or the time limit";
    assert!(run.text().contains(note) || run.stderr().contains(note), "{}", run.text());
    let whole = anomalist(&["check", &history, "--level", "causal"]).expect(1);
    assert!(!whole.text().contains(note));
}

#[test]
fn compressed_input_is_recognised_on_standard_input() {
    let scratch = Scratch::new("packed");
    for (name, magic) in [("h.txt.gz", &[0x1f, 0x8b][..]), ("h.txt.zst", &[0x28, 0xb5, 0x2f, 0xfd][..])] {
        let path = scratch.path(name);
        anomalist(&["generate", "--sessions", "3", "-o", &path]).expect(0);
        let bytes = std::fs::read(&path).expect("written");
        assert!(bytes.starts_with(magic), "{name}");
        let document = anomalist_with(&["stats", "--json", "-"], &bytes).expect(0).json();
        assert_eq!(document["transactions"], 600, "{name}");
    }
}

#[test]
fn output_is_the_same_on_every_run_but_for_timings() {
    let scratch = Scratch::new("same");
    let path = scratch.path("h.txt");
    let make = ["generate", "--level", "rc", "--keys", "30", "--ops-per-txn", "5", "--seed", "3"];
    let (first, second) = (anomalist(&make).expect(0), anomalist(&make).expect(0));
    assert_eq!(first.stdout, second.stdout);
    std::fs::write(&path, &first.stdout).expect("scratch file");
    let text = |threads: &str| anomalist(&["check", &path, "--threads", threads]).expect(0).stdout;
    assert_eq!(text("1"), text("2"));
    let json = |threads: &str| {
        let mut document = anomalist(&["check", "--json", &path, "--threads", threads]).expect(0).json();
        document.as_object_mut().expect("an object").remove("timing_ms").expect("timings");
        document
    };
    assert_eq!(json("1"), json("2"));
}

#[test]
fn text_fits_in_80_columns() {
    let scratch = Scratch::new("width");
    let history =
        anomalist(&["generate", "--level", "ru", "--keys", "20", "--abort-ratio", "0.1", "--to", "dbcop"])
            .expect(0)
            .stdout;
    let path = scratch.path("h.bincode");
    std::fs::write(&path, history).expect("scratch file");
    let mut runs = vec![
        anomalist(&["check", &path]),
        anomalist(&["check", "-v", &path]),
        anomalist(&["check", &path, &path]),
        anomalist(&["stats", &path]),
        anomalist(&["lint", &path]),
        anomalist(&["levels"]),
        anomalist(&["explain", "G2-item"]),
        anomalist(&["--help"]),
    ];
    for command in
        ["check", "stats", "convert", "generate", "levels", "explain", "lint", "man", "completions"]
    {
        let help = anomalist(&[command, "--help"]);
        assert!(help.text().contains("Example"), "{command}");
        runs.push(help);
    }
    for run in runs {
        let text = run.expect(0).text();
        let wide = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None);
        assert!(!text.contains('\x1b'), "colours in a pipe");
    }
}

#[test]
fn annotations_are_printed_for_github() {
    let scratch = Scratch::new("github");
    let bad = scratch.file("bad.txt", NON_MONOTONIC);
    let annotated = |args: &[&str]| Run::new(args, b"", &[("GITHUB_ACTIONS", "true")]).expect(1);
    let run = annotated(&["check", &bad, "--level", "rc"]);
    assert!(run.text().contains(&format!("\n::error file={bad},line=")), "{}", run.text());
    let run = annotated(&["check", "--json", &bad, "--level", "rc"]);
    run.json();
    assert!(run.stderr().contains("::error "), "{}", run.stderr());
}

#[test]
fn files_beside_the_answer() {
    let scratch = Scratch::new("files");
    let (bad, fine) = (scratch.file("bad.txt", NON_MONOTONIC), scratch.file("fine.txt", FINE));
    let (dot, svg) = (scratch.path("dot"), scratch.path("svg"));
    let (junit, sarif, certificate) =
        (scratch.path("j.xml"), scratch.path("s.sarif"), scratch.path("c.json"));
    let flags =
        ["--dot", &dot, "--svg", &svg, "--junit", &junit, "--sarif", &sarif, "--certificate", &certificate];
    let report = scratch.path("r.html");
    anomalist(&[&["check", &bad], &flags[..]].concat()).expect(0);
    assert!(scratch.read("dot/bad-TAP-h.dot").starts_with("digraph"));
    assert!(scratch.read("svg/bad-TAP-h.svg").contains("<svg"));
    assert!(scratch.read("j.xml").contains("<testsuite"));
    let sarif: serde_json::Value = serde_json::from_str(&scratch.read("s.sarif")).expect("JSON");
    assert_eq!(sarif["version"], "2.1.0");
    anomalist(&["check", &bad, &fine, "--report", &report]).expect(0);
    let page = scratch.read("r.html");
    assert!(page.contains("Content-Security-Policy") && page.contains("TAP-h") && page.contains(&fine));
    anomalist(&["check", &fine, "--certificate", &certificate]).expect(0);
    let proof: serde_json::Value = serde_json::from_str(&scratch.read("c.json")).expect("JSON");
    assert_eq!(proof["history"]["path"], fine);
    let of_causal =
        |p: &&serde_json::Value| p["levels"].as_array().is_some_and(|l| l.contains(&"causal".into()));
    let causal = proof["proofs"].as_array().expect("proofs").iter().find(of_causal);
    assert_eq!(causal.expect("of causal")["commits"], serde_json::json!(["0", "1"]));
}

#[test]
fn kept_results_become_pages() {
    let scratch = Scratch::new("report");
    let bad = scratch.file("bad.txt", NON_MONOTONIC);
    std::fs::create_dir(scratch.path("kept")).expect("a folder");
    let result = scratch.file("kept/result.json", &anomalist(&["check", &bad, "--json"]).expect(0).text());
    let (folder, page) = (scratch.path("kept"), scratch.path("page.html"));
    for source in [&result, &folder] {
        let run = anomalist(&["report", source, "-o", &page]).expect(0);
        assert_eq!(run.stderr(), "", "the history is found");
        assert!(scratch.read("page.html").contains("TAP-h"));
    }
    // Where the history was moved into the folder of the result, and where it is gone.
    std::fs::rename(&bad, scratch.path("kept/bad.txt")).expect("moved");
    assert_eq!(anomalist(&["report", &result, "-o", &page]).expect(0).stderr(), "");
    std::fs::remove_file(scratch.path("kept/bad.txt")).expect("removed");
    let said = anomalist(&["report", &result, "-o", &page]).expect(0).stderr();
    assert!(said.contains("the page shows the examples only"), "{said}");
    let fine = scratch.file("fine.txt", FINE);
    let said = anomalist(&["report", &result, "--history", &fine, "-o", &page]).expect(3).stderr();
    assert!(said.contains("the result is about a history of"), "{said}");
    let nothing = scratch.file("nothing.json", "{}");
    anomalist(&["report", &nothing, "-o", &page]).expect(3);
    anomalist(&["report", &scratch.path("none.json"), "-o", &page]).expect(3);
}

#[test]
fn completions_and_manual_pages_are_generated() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(anomalist(&["completions", shell]).expect(0).text().contains("generate"), "{shell}");
    }
    let page = anomalist(&["man", "check"]).expect(0).text();
    assert!(
        [".TH", ".SH \"EXIT STATUS\"\n0 every", ".SH EXAMPLES"].iter().all(|part| page.contains(part)),
        "{page}"
    );
    assert!(!page.contains("EXTRA"), "{page}");
    let scratch = Scratch::new("man");
    anomalist(&["man", "--dir", &scratch.path("man1")]).expect(0);
    assert!(scratch.read("man1/anomalist-check.1").contains("certificate"));
    anomalist(&["man", "nothing"]).expect(3);
}

#[test]
fn lint_warns_and_fails_only_when_strict() {
    let scratch = Scratch::new("lint");
    let twice = scratch.file("twice.txt", "w(1,1,0,0)\nw(1,1,1,1)\n");
    let document = anomalist(&["lint", "--json", &twice]).expect(0).json();
    let first = &document["findings"][0];
    assert_eq!((&first["code"], &first["line"]), (&"duplicate-writes".into(), &1.into()));
    anomalist(&["lint", "--strict", &twice]).expect(1);
    anomalist(&["lint", "--strict", &scratch.file("fine.txt", FINE)]).expect(0);
}

#[test]
fn levels_and_explanations() {
    assert!(anomalist(&["levels"]).expect(0).text().contains("strict-serializable"));
    anomalist(&["levels", "--json"]).expect(0).json();
    assert_eq!(anomalist(&["explain", "SI"]).stdout, anomalist(&["explain", "snapshot-isolation"]).stdout);
    assert!(anomalist(&["explain", "g1c"]).expect(0).text().contains("G1c"));
}

/// Names of a history can neither command the terminal nor the log of a workflow, whatever prints them.
#[test]
fn hostile_names_are_shown_harmlessly() {
    let scratch = Scratch::new("hostile");
    let text = r#"{"session":"\u001b[2J\n::error::x","id":"\u202e ::error::","ops":[["w","\u001b]0;t\u0007\n::error::k","\u001b[1m"],["w","y",1]],"start":1,"commit":2}
{"session":"b","ops":[["r","y",1],["r","\u001b]0;t\u0007\n::error::k",null],["r","z","\u2028##[error]"]],"start":3,"commit":4}
{"session":"b","ops":[["w","\u001b]0;t\u0007\n::error::k","\u001b[1m"]],"start":5,"commit":6}
"#;
    let (file, shrunk) = (scratch.file("h.jsonl", text), scratch.path("s.jsonl"));
    let commands: [&[&str]; 7] = [
        &["check", &file],
        &["check", &file, "--by", "values", "-v", "--level", "serializable"],
        &["lint", &file],
        &["stats", &file],
        &["watch", &file],
        &["elle", "-m", "rw-register", &file],
        &["shrink", &file, "--level", "serializable", "-o", &shrunk],
    ];
    for command in commands {
        let run = anomalist(command);
        for line in (run.text() + &run.stderr()).lines() {
            let hidden = |c: char| c.is_control() && c != '\t' || ['\u{202e}', '\u{2028}'].contains(&c);
            let obeyed = line.trim_start().starts_with("::") || line.contains("##[");
            assert!(!line.contains(hidden) && !obeyed, "{command:?}: {line:?}");
        }
    }
}
