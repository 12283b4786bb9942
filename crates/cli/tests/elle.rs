//! `anomalist elle` as its users run it: elle-cli's contract, and each difference that
//! `docs/elle-differences.md` lists.

mod support;

use serde_json::{Value, json};
use support::{Run, Scratch, anomalist, anomalist_with};

/// Completions, one per transaction: `(process, micro-operations)`.
fn completions(txns: &[(u64, Value)]) -> String {
    let line = |(process, value): &(u64, Value)| json!({"type": "ok", "process": process, "f": "txn", "value": value});
    txns.iter().map(|t| format!("{}\n", line(t))).collect()
}

/// The same with an invocation before each.
fn one_after_another(txns: &[(u64, Value)]) -> String {
    txns.iter()
        .map(|(process, value)| {
            let event = |kind: &str| json!({"type": kind, "process": process, "f": "txn", "value": value});
            format!("{}\n{}\n", event("invoke"), event("ok"))
        })
        .collect()
}

fn elle(args: &[&str], history: &str) -> Run {
    anomalist_with(&[&["elle", "-q"], args, &["-"]].concat(), history.as_bytes())
}

/// The answer in full.
fn answer(args: &[&str], history: &str) -> Value {
    elle(&[args, &["-v"]].concat(), history).json()
}

const APPEND: [&str; 2] = ["-m", "list-append"];
const REGISTER: [&str; 2] = ["-m", "rw-register"];

/// Two transactions that each overlook the other's append.
fn write_skew() -> String {
    completions(&[
        (0, json!([["r", "x", null], ["append", "y", 1]])),
        (1, json!([["r", "y", null], ["append", "x", 1]])),
    ])
}

#[test]
fn exit_statuses() {
    let scratch = Scratch::new("elle-exit");
    let bad = scratch.file("bad.jsonl", &write_skew());
    let good = scratch
        .file("good.jsonl", &completions(&[(0, json!([["append", "x", 1]])), (1, json!([["r", "x", [1]]]))]));
    let empty = scratch.file("empty.jsonl", &completions(&[(0, json!([["append", "x", 1]]))]));
    let run = anomalist(&["elle", "-m", "list-append", &good]).expect(0);
    assert_eq!(run.text(), format!("{good}\ttrue\n"));
    let run = anomalist(&["elle", "-m", "list-append", &good, &bad]).expect(1);
    assert_eq!(run.text(), format!("{good}\ttrue\n{bad}\tfalse\n"));
    let run = anomalist(&["elle", "-m", "list-append", &empty]).expect(2);
    assert_eq!(run.text(), format!("{empty}\tunknown\n"));
    anomalist(&["elle", "-m", "list-append", "-c", "read-committed", &bad]).expect(0);
    anomalist(&["elle", "-m", "list-append", "-c", "none", "-a", "G2-item", &bad]).expect(1);
    anomalist(&["elle", "-m", "list-append", &scratch.path("missing.edn")]).expect(3);
    anomalist(&["elle", "-m", "list-append", &scratch.path("missing.edn"), &bad]).expect(3);
    anomalist(&["elle", &bad]).expect(3);
    anomalist(&["elle", "--help"]).expect(0);
}

#[test]
fn wrong_names_and_histories_are_told_plainly() {
    let skew = write_skew();
    let reported = |args: &[&str], history: &str, word: &str| {
        let run = elle(args, history).expect(3);
        assert!(run.stderr().contains(word), "{args:?}: {}", run.stderr());
    };
    reported(&["-m", "linked-list"], &skew, "list-append");
    reported(&[&APPEND[..], &["-c", "serialisable"]].concat(), &skew, "strict-serializable");
    reported(&[&APPEND[..], &["-a", "G7"]].concat(), &skew, "G-single-item");
    reported(&[&APPEND[..], &["-f", "xml"]].concat(), &skew, "edn");
    reported(&[&APPEND[..], &["-p", "png"]].concat(), &skew, "svg");
    reported(
        &APPEND,
        "{\"type\": \"ok\", \"process\": 0, \"value\": [[\"inc\", 1, 2]]}\n",
        "micro-operation",
    );
    reported(&APPEND, &completions(&[(0, json!([["w", "x", 1]]))]), "reads and appends only");
    reported(&APPEND, &completions(&[(0, json!([["r", "x", 1]]))]), "reads of lists only");
    reported(
        &APPEND,
        &one_after_another(&[(0, json!([["append", "x", 1]])), (1, json!([["append", "x", 1]]))]),
        "written twice",
    );
    let twice =
        completions(&[(0, json!([["w", "x", 1]])), (1, json!([["w", "x", 1]])), (2, json!([["r", "x", 1]]))]);
    reported(&REGISTER, &twice, "written twice");
    let scratch = Scratch::new("elle-order");
    for wrong in ["[1]", "{\"a\": 1}", "{\"1\": \"b\"}", "{"] {
        let order = scratch.file("order.json", wrong);
        reported(&[&REGISTER[..], &["--transaction-order", &order]].concat(), &skew, "JSON object");
    }
}

#[test]
fn the_answer_has_elles_keys() {
    let found = answer(&APPEND, &write_skew());
    assert_eq!(found["valid?"], false);
    assert_eq!(found["anomaly-types"], json!(["G2-item"]));
    assert_eq!(found["not"], json!(["repeatable-read"]));
    assert!(
        found["also-not"].as_array().is_some_and(|a| a.contains(&json!("strong-serializable"))),
        "{found}"
    );
    let cycle = &found["anomalies"]["G2-item"][0];
    assert_eq!(cycle["type"], "G2-item");
    assert_eq!(cycle["cycle"].as_array().map(Vec::len), Some(3));
    assert_eq!(cycle["steps"][0]["type"], "rw");
    assert_eq!(cycle["steps"][0]["value"], "init");
    assert!(found["anomalist"]["levels"].is_object(), "{found}");
    let fine = answer(&[&APPEND[..], &["-c", "snapshot-isolation"]].concat(), &write_skew());
    assert_eq!(fine["valid?"], true);
    assert!(fine.get("not").is_none() && fine.get("anomaly-types").is_none(), "{fine}");
}

#[test]
fn what_anomalist_finds_beyond_counts_if_asked() {
    // No transaction wrote 7. Elle does not look.
    let history = one_after_another(&[(0, json!([["w", "x", 1]])), (1, json!([["r", "x", 7]]))]);
    let plain = answer(&REGISTER, &history);
    assert_eq!(plain["valid?"], true);
    assert_eq!(plain["anomalist"]["levels"]["strict-serializable"], "violated");
    let extended = answer(&[&REGISTER[..], &["--extended"]].concat(), &history);
    assert_eq!(extended["valid?"], false);
    assert_eq!(extended["anomaly-types"].as_array().map(Vec::len), Some(1), "{extended}");
    assert_eq!(extended["not"], json!(["read-committed"]), "{extended}");
    elle(&[&REGISTER[..], &["--extended"]].concat(), &history).expect(1);
}

/// Two sessions, one operation per transaction, each sees the other's write after its own: other tools call
/// it valid. Elle's inference does; we do not.
#[test]
fn each_session_sees_the_others_write_after_its_own() {
    let history = completions(&[
        (1, json!([["r", "x", null]])),
        (1, json!([["w", "x", 100]])),
        (2, json!([["w", "x", 200]])),
        (1, json!([["r", "x", 200]])),
        (2, json!([["r", "x", 100]])),
    ]);
    let scratch = Scratch::new("elle-silent");
    let file = scratch.file("h.jsonl", &history);
    for level in ["strong-session-serializable", "strict-serializable"] {
        let run = anomalist(&["elle", "-m", "rw-register", "-c", level, &file]);
        assert!(run.stderr().contains(&format!("{level} is violated")), "{}", run.stderr());
        assert_eq!(run.expect(2).text(), format!("{file}\tunknown\n"));
        anomalist(&["elle", "-m", "rw-register", "-c", level, "--extended", &file]).expect(1);
        let found = answer(&[&REGISTER[..], &["-c", level]].concat(), &history);
        assert_eq!(found["anomalist"]["levels"][level], "violated", "{found}");
        anomalist(&["check", "--level", level, &file]).expect(1);
    }
    // Without session order there is nothing to say.
    let run = anomalist(&["elle", "-m", "rw-register", "-c", "serializable", &file]).expect(0);
    assert_eq!(run.stderr(), "");
}

#[test]
fn options_for_registers_are_used() {
    // The first process writes 1 and then 2; another reads 2 and then 1.
    let history = one_after_another(&[
        (0, json!([["w", "x", 1]])),
        (0, json!([["w", "x", 2]])),
        (1, json!([["r", "x", 2]])),
        (1, json!([["r", "x", 1]])),
    ]);
    assert_eq!(answer(&[&REGISTER[..], &["-c", "serializable"]].concat(), &history)["valid?"], true);
    for keys in ["--linearizable-keys", "--sequential-keys"] {
        let found = answer(&[&REGISTER[..], &["-c", "serializable", keys]].concat(), &history);
        assert_eq!(found["anomaly-types"], json!(["cyclic-versions"]), "{keys}");
    }
    let scratch = Scratch::new("elle-options");
    let order = scratch.file("order.json", "{\"0\": 2, \"1\": 1}");
    let skew = completions(&[
        (0, json!([["r", "x", null], ["w", "y", 2]])),
        (0, json!([["w", "x", 3], ["w", "y", 4]])),
    ]);
    let found =
        answer(&[&REGISTER[..], &["-c", "serializable", "--transaction-order", &order]].concat(), &skew);
    assert_eq!(found["anomaly-types"], json!(["G-single-item"]));
}

/// A ring of dependencies with one anti-dependency, and many others that close nothing.
fn ring(n: u64) -> String {
    let mut txns = vec![(0, json!([["append", "anti", 1], ["append", "k0", 1]]))];
    for i in 1..n {
        let before = format!("k{}", i - 1);
        let mut ops = vec![json!(["r", before, [1]]), json!(["append", format!("k{i}"), 1])];
        for noise in 0..10 {
            ops.push(json!(["r", format!("noise{}", (i * 7 + noise) % n), null]));
        }
        if i == n - 1 {
            ops.push(json!(["r", "anti", null]));
        }
        txns.push((i % 5, Value::Array(ops)));
    }
    completions(&txns)
}

#[test]
fn nothing_is_given_up() {
    let args = [&APPEND[..], &["-c", "serializable"]].concat();
    // The last of the ring did not see what the first appended.
    let found = answer(&args, &ring(400));
    assert_eq!(found["anomaly-types"], json!(["G-single-item"]), "{found}");
    assert_eq!(found["anomalies"]["G-single-item"][0]["steps"].as_array().map(Vec::len), Some(400));
    let stopped = answer(&[&args[..], &["-s", "0"]].concat(), &ring(400));
    let types = stopped["anomaly-types"].as_array().cloned().unwrap_or_default();
    assert!(types.contains(&json!("cycle-search-timeout")), "{types:?}");
}

#[test]
fn a_cycle_told_otherwise_hides_no_other() {
    // 0 and 1 append to x and y in opposite orders. 0 read x after its own append, so the step from 0 to 1
    // is an anti-dependency as well, reported as the order of appends. 2 saw 1's append to y and not the
    // one to x.
    let history = completions(&[
        (0, json!([["append", "x", 1], ["r", "x", [1]], ["append", "y", 2]])),
        (1, json!([["append", "x", 2], ["append", "y", 1]])),
        (2, json!([["r", "x", [1]], ["r", "y", [1]]])),
        (3, json!([["r", "x", [1, 2]]])),
        (3, json!([["r", "y", [1, 2]]])),
    ]);
    let found = answer(&[&APPEND[..], &["-c", "serializable"]].concat(), &history);
    let types = found["anomaly-types"].as_array().cloned().unwrap_or_default();
    assert!(types.contains(&json!("G0")) && types.contains(&json!("G-single-item")), "{types:?}");
}

#[test]
fn nil_is_the_empty_list() {
    let history = completions(&[
        (0, json!([["r", "x", null], ["r", "x", []], ["append", "x", 1]])),
        (1, json!([["r", "x", [1]]])),
    ]);
    assert_eq!(answer(&APPEND, &history)["valid?"], true);
    let update = |seen| json!([["r", "x", seen], ["append", "x", 1]]);
    let mut second = update(json!([]));
    second[1][2] = json!(2);
    let lost = completions(&[(0, update(json!(null))), (1, second), (2, json!([["r", "x", [1, 2]]]))]);
    let types = answer(&APPEND, &lost)["anomaly-types"].clone();
    assert!(types.as_array().is_some_and(|t| t.contains(&json!("lost-update"))), "{types}");
}

#[test]
fn of_several_longest_reads_the_first_counts() {
    let history = |first: Value, second: Value| {
        completions(&[
            (0, json!([["append", "x", 1], ["append", "y", 1]])),
            (1, json!([["append", "x", 2], ["append", "y", 2]])),
            (2, json!([["r", "x", first]])),
            (3, json!([["r", "x", second]])),
            (4, json!([["r", "y", [2, 1]]])),
        ])
    };
    let types =
        |text: &str| answer(&[&APPEND[..], &["-c", "serializable"]].concat(), text)["anomaly-types"].clone();
    let first = types(&history(json!([1, 2]), json!([2, 1])));
    assert!(first.as_array().is_some_and(|t| t.contains(&json!("G0"))), "{first}");
    let other = types(&history(json!([2, 1]), json!([1, 2])));
    assert!(!other.as_array().is_some_and(|t| t.contains(&json!("G0"))), "{other}");
}

#[test]
fn operations_without_a_process_count() {
    let history = write_skew().replace("\"process\":0,", "").replace("\"process\":1,", "");
    assert!(!history.contains("process"));
    assert_eq!(answer(&APPEND, &history)["anomaly-types"], json!(["G2-item"]));
}

#[test]
fn completions_alone_are_a_history() {
    // Stale, were the places of completions taken for real time.
    let history = completions(&[
        (0, json!([["append", "x", 1]])),
        (1, json!([["r", "x", null]])),
        (2, json!([["r", "x", [1]]])),
    ]);
    assert_eq!(answer(&APPEND, &history)["valid?"], true);
    let timed = one_after_another(&[
        (0, json!([["append", "x", 1]])),
        (1, json!([["r", "x", null]])),
        (2, json!([["r", "x", [1]]])),
    ]);
    assert_eq!(answer(&APPEND, &timed)["anomaly-types"], json!(["G-single-item-realtime"]));
}

#[test]
fn an_open_invocation_is_indeterminate() {
    let history = "{\"type\": \"invoke\", \"process\": 0, \"value\": [[\"append\", \"x\", 1]]}\n".to_owned()
        + &one_after_another(&[(1, json!([["r", "x", [1]]]))]);
    let found = answer(&APPEND, &history);
    assert_eq!((&found["valid?"], found.get("error")), (&json!(true), None));
}

#[test]
fn garbage_makes_the_answer_unknown() {
    let history = completions(&[(0, json!([["append", "x", 1]])), (1, json!([["r", "x", [1, 9]]]))]);
    let run = elle(&[&APPEND[..], &["-v"]].concat(), &history).expect(2);
    assert_eq!(run.json()["valid?"], "unknown");
    assert!(
        run.json()["error"].as_str().is_some_and(|e| e.contains("no transaction appended")),
        "{}",
        run.text()
    );
    elle(&[&APPEND[..], &["--extended"]].concat(), &history).expect(1);
}

#[test]
fn keys_of_any_type_are_accepted() {
    let history = completions(&[
        (0, json!([["w", "x", 1], ["w", 5, "five"]])),
        (1, json!([["r", "x", 1], ["r", 5, "five"], ["w", [1, 2], 3]])),
    ])
    .replace("\"five\"", "99999999999999999999999");
    assert_eq!(answer(&REGISTER, &history)["valid?"], true);
}

#[test]
fn notations_agree() {
    let lines = write_skew();
    let array = format!("[{}]", lines.trim().replace('\n', ",\n"));
    let edn = "{:type :ok, :process 0, :value [[:r :x nil] [:append :y 1]]}\n\
               {:type :ok, :process 1, :value [[:r :y nil] [:append :x 1]]}";
    for (format, text) in [("jsonl", &*lines), ("json", &*array), ("edn", edn), ("json", &*lines)] {
        let found = answer(&[&APPEND[..], &["-f", format]].concat(), text);
        assert_eq!(found["anomaly-types"], json!(["G2-item"]), "{format}");
    }
}

#[test]
fn the_directory_has_sentences_and_pictures() {
    let scratch = Scratch::new("elle-directory");
    let folder = scratch.path("out");
    let history = completions(&[
        (0, json!([["append", "x", 1], ["append", "y", 1]])),
        (1, json!([["append", "x", 2], ["append", "y", 2]])),
        (2, json!([["r", "x", [1, 2]], ["r", "y", [2, 1]]])),
        (3, json!([["r", "x", [2]]])),
    ]);
    elle(&[&APPEND[..], &["-d", &folder]].concat(), &history).expect(1);
    let reported = scratch.read("out/G0.txt");
    assert!(reported.contains("T1 < T2, because T2 appended 2 to x after T1 had appended 1"), "{reported}");
    assert!(reported.contains("However, T2 < T1") && reported.contains("a contradiction"), "{reported}");
    assert!(scratch.read("out/incompatible-order.txt").contains("neither begins with the other"));
    for picture in ["out/G0/0.svg", "out/sccs/0.svg"] {
        assert!(scratch.read(picture).starts_with("<svg "), "{picture}");
    }
    assert!(scratch.read("out/incompatible-order/x.html").contains("class=\"differs\">2<"));
    let small = scratch.path("small");
    elle(&[&APPEND[..], &["-d", &small, "-b", "10"]].concat(), &history).expect(1);
    assert!(!std::path::Path::new(&small).join("G0").exists());
}

#[test]
fn all_models_are_there() {
    let line = |kind: &str, f: &str, value: Value| {
        json!({"type": kind, "process": 0, "f": f, "value": value}).to_string()
    };
    let ran =
        |f: &str, asked: Value, got: Value| format!("{}\n{}\n", line("invoke", f, asked), line("ok", f, got));
    let read = |value: Value| ran("read", json!(null), value);
    let add = ran("add", json!(1), json!(1));
    let write = ran("write", json!(1), json!(1));
    let cases: [(&str, String, String); 9] = [
        (
            "bank",
            read(json!({"0": 5, "1": 5})),
            read(json!({"0": 5, "1": 5})) + &read(json!({"0": 5, "1": 4})),
        ),
        ("counter", add.clone() + &read(json!(1)), add.clone() + &read(json!(7))),
        ("set", add.clone() + &read(json!([1])), add.clone() + &read(json!([]))),
        ("set-full", add.clone() + &read(json!([1])), add + &read(json!([1])) + &read(json!([]))),
        (
            "long-fork",
            ran("write", json!([["w", 0, 1]]), json!([["w", 0, 1]]))
                + &ran("read", json!([["r", 0, null]]), json!([["r", 0, 1]])),
            [(0, 1), (1, 1)]
                .iter()
                .map(|(k, v)| ran("write", json!([["w", k, v]]), json!([["w", k, v]])))
                .collect::<String>()
                + &ran("read", json!([["r", 0, null], ["r", 1, null]]), json!([["r", 0, 1], ["r", 1, null]]))
                + &ran("read", json!([["r", 0, null], ["r", 1, null]]), json!([["r", 0, null], ["r", 1, 1]])),
        ),
        ("cas-register", write.clone() + &read(json!(1)), write.clone() + &read(json!(2))),
        (
            "mutex",
            ran("acquire", json!(null), json!(null)) + &ran("release", json!(null), json!(null)),
            ran("acquire", json!(null), json!(null)) + &ran("acquire", json!(null), json!(null)),
        ),
        (
            "comments",
            write.clone() + &read(json!([1])),
            write.clone() + &ran("write", json!(2), json!(2)) + &read(json!([2])),
        ),
        ("sequential", read(json!([0, ["c", "b", "a"]])), read(json!([0, ["c", null, "a"]]))),
    ];
    for (model, good, bad) in cases {
        for (history, status) in [(good, 0), (bad, 1)] {
            let run = elle(&["-m", model, "-v"], &history).expect(status);
            assert_eq!(run.json()["valid?"], json!(status == 0), "{model}");
        }
    }
}
