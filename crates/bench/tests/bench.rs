//! `anomalist-bench` measures, says what it measured, and leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs it; standard output and standard error. Fails the test if the exit status is another.
#[track_caller]
fn bench(arguments: &[&str], status: i32) -> (String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_anomalist-bench")).args(arguments).output().unwrap();
    let Output { stdout, stderr, .. } = &run;
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(run.status.code(), Some(status), "{stdout}\n{stderr}");
    (stdout, stderr)
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&bench(arguments, 0).0).unwrap()
}

/// A folder for one test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_case_is_measured_for_every_question() {
    let folder = scratch("bench");
    let document = json(&[
        "transactions/50",
        "lists/sessions-5",
        "--repeats",
        "2",
        "--dir",
        folder.to_str().unwrap(),
        "--json",
        "--ablation",
    ]);
    assert_eq!(document["schema"], 1);
    assert!(document["machine"]["cores"].as_u64().is_some_and(|cores| cores > 0));
    let cases = document["cases"].as_array().expect("cases");
    let ids: Vec<_> = cases.iter().map(|c| (c["group"].as_str(), c["case"].as_str())).collect();
    assert_eq!(ids, [(Some("transactions"), Some("50")), (Some("lists"), Some("sessions-5"))]);
    assert_eq!((&cases[0]["operations"], &cases[0]["format"]), (&25_000.into(), &"plume".into()));
    assert_eq!(cases[1]["format"], "elle-jsonl");
    for case in cases {
        let answers = case["answers"].as_array().expect("answers");
        let questions: Vec<_> = answers.iter().filter_map(|a| a["question"].as_str()).collect();
        assert_eq!(questions, ["read-committed", "read-atomic", "causal", "all-weak"]);
        for answer in answers {
            assert_eq!((&answer["verdict"], &answer["repeats"]), (&"holds".into(), &2.into()), "{answer}");
            for phase in ["load", "index", "check", "direct", "order", "search", "total"] {
                let times = &answer[format!("{phase}_ms")];
                let (median, min) = (times["median"].as_f64(), times["min"].as_f64());
                assert!(min.is_some() && min <= median, "{phase}: {answer}");
            }
            assert!(answer["ns_per_op"].as_f64().is_some_and(|ns| ns > 0.0), "{answer}");
            assert!(answer["ablation"]["no_guess_check_ratio"].is_f64(), "{answer}");
            if cfg!(target_os = "linux") {
                assert!(answer["peak_mib"].as_f64().is_some_and(|mib| mib > 1.0), "{answer}");
            }
        }
    }
    fs::remove_dir(&folder).expect("an empty folder");
}

#[test]
fn the_table_has_a_row_per_question_and_no_figures_of_what_is_not_installed() {
    let (text, errors) = bench(&["peers/W1", "--repeats", "1", "--quiet"], 0);
    assert_eq!(text.lines().filter(|line| line.starts_with("peers/W1 ")).count(), 4, "{text}");
    assert!(text.contains("Plume: not installed") && text.contains("in turn with Anomalist"), "{text}");
    assert!(text.contains("checking to loading"), "{text}");
    assert_eq!(errors, "");
}

#[test]
fn a_name_that_stands_for_nothing_is_answered_with_the_names_there_are() {
    let (_, errors) = bench(&["session"], 3);
    assert!(errors.contains("peers, sessions"), "{errors}");
    let (list, _) = bench(&["adversarial", "--list"], 0);
    assert!(list.contains("adversarial/hot-key "), "{list}");
}

#[test]
fn the_page_shows_the_list() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md")).unwrap();
    let (list, _) = bench(&["keys", "--list"], 0);
    assert!(page.contains(&format!("$ anomalist-bench keys --list\n{list}")), "{list}");
}

#[test]
fn timestamps_are_measured_by_their_own_questions() {
    let folder = scratch("bench-stamps");
    let document = json(&[
        "timestamps/transactions-5000",
        "--repeats",
        "1",
        "--dir",
        folder.to_str().unwrap(),
        "--json",
        "--quiet",
    ]);
    fs::remove_dir(&folder).expect("an empty folder");
    let case = &document["cases"][0];
    assert_eq!(case["format"], "timekiller");
    let answers = case["answers"].as_array().expect("answers");
    let seen: Vec<_> = answers.iter().map(|a| (a["question"].as_str(), a["verdict"].as_str())).collect();
    assert_eq!(seen, [(Some("si"), Some("holds")), (Some("ser"), Some("violated"))]);
    assert!(answers[0]["wall_ms"].is_f64() && answers[0]["order_ms"]["min"].is_f64(), "{document}");
}
