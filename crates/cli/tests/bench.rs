//! `anomalist bench` measures, says what it measured, and leaves nothing behind.

mod support;

use support::{Scratch, anomalist};

#[test]
fn a_case_is_measured_for_every_question() {
    let scratch = Scratch::new("bench");
    let folder = scratch.path("");
    let run = anomalist(&[
        "bench",
        "transactions/50",
        "lists/sessions-5",
        "--repeats",
        "2",
        "--dir",
        &folder,
        "--json",
        "--ablation",
    ])
    .expect(0);
    let document = run.json();
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
    assert!(scratch.names().is_empty(), "{:?}", scratch.names());
}

#[test]
fn the_table_has_a_row_per_question_and_says_where_other_figures_come_from() {
    let run = anomalist(&["bench", "peers/W1", "--repeats", "1", "--quiet"]).expect(0);
    let text = run.text();
    assert_eq!(text.lines().filter(|line| line.starts_with("peers/W1 ")).count(), 4, "{text}");
    assert!(text.contains("AWDIT 0.2.1 0.08 s") && text.contains("on another machine"), "{text}");
    assert!(text.contains("checking to loading"), "{text}");
    assert_eq!(run.stderr(), "");
}

#[test]
fn a_name_that_stands_for_nothing_is_answered_with_the_names_there_are() {
    let run = anomalist(&["bench", "session"]).expect(3);
    assert!(run.stderr().contains("peers, sessions"), "{}", run.stderr());
    let list = anomalist(&["bench", "adversarial", "--list"]).expect(0).text();
    assert!(list.contains("adversarial/hot-key "), "{list}");
}

#[test]
fn timestamps_are_measured_by_their_own_questions() {
    let scratch = Scratch::new("bench-stamps");
    let folder = scratch.path("");
    let run = anomalist(&[
        "bench",
        "timestamps/transactions-5000",
        "--repeats",
        "1",
        "--dir",
        &folder,
        "--json",
        "--quiet",
    ])
    .expect(0);
    let document = run.json();
    let case = &document["cases"][0];
    assert_eq!(case["format"], "timekiller");
    let answers = case["answers"].as_array().expect("answers");
    let seen: Vec<_> = answers.iter().map(|a| (a["question"].as_str(), a["verdict"].as_str())).collect();
    assert_eq!(seen, [(Some("si"), Some("holds")), (Some("ser"), Some("violated"))]);
    assert!(answers[0]["wall_ms"].is_f64() && answers[0]["order_ms"]["min"].is_f64(), "{document}");
}
