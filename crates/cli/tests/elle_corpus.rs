//! Histories that Elle, its test suite or adya have answered: `anomalist elle` must say the same, or the
//! case is on the list of deliberate differences. From the corpus (`anomalist_testkit::skip::corpus`).

#![allow(clippy::unwrap_used)]

use anomalist_check::Budget;
use anomalist_format::{Input, ReadOptions};
use anomalist_history::History;
use anomalist_jepsen::elle::{Answer, Datatype, Options, Validity, check, infer};
use anomalist_level::{AnomalyKind, Level, elle};
use anomalist_testkit::skip::corpus;
use serde_json::{Value as Json, json};
use std::path::Path;

/// The cases on which we differ on purpose: lines of the document that begin with a case's name.
fn deliberate() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/elle-differences.md");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// What is expected of a case: from the file beside it, else from its line in the index.
fn expectations(file: &Path, expected: &str) -> Vec<Json> {
    let name = file.to_string_lossy().into_owned();
    let stem = [".jsonl", ".json", ".edn"]
        .iter()
        .find_map(|ending| name.strip_suffix(".zst").unwrap_or(&name).strip_suffix(ending));
    if let Some(text) = stem.and_then(|stem| std::fs::read_to_string(format!("{stem}.expect.json")).ok()) {
        let document: Json = serde_json::from_str(&text).unwrap();
        return document["checks"].as_array().unwrap().clone();
    }
    let facts = |text: &str| {
        let mut check = serde_json::Map::new();
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some(("valid", v)) => {
                    _ = check.insert("valid".into(), serde_json::from_str(v).unwrap_or(json!(v)))
                }
                Some(("anomalies", list)) => _ = check.insert("anomaly-types".into(), names(list, ',')),
                Some(("not", list)) => _ = check.insert("not".into(), names(list, ',')),
                _ => {}
            }
        }
        check
    };
    let mut checks = Vec::new();
    for part in expected.split(" || ").next().unwrap().split(" | ") {
        let Some((options, facts_text)) = part.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
            continue;
        };
        let mut check = facts(facts_text);
        let find: Vec<&str> = options.split_whitespace().filter_map(|w| w.strip_prefix("find:")).collect();
        let models: Vec<&str> = options.split_whitespace().filter(|w| !w.starts_with("find:")).collect();
        check.insert("options".into(), json!({"anomalies": names(&find.join("+"), '+'), "consistency-models": names(&models.join("+"), '+')}));
        checks.push(Json::Object(check));
    }
    if checks.is_empty() {
        let models = [
            ("rc", "read-committed"),
            ("si", "snapshot-isolation"),
            ("ser", "serializable"),
            ("strict-ser", "strict-serializable"),
        ];
        for word in expected.split_whitespace() {
            let Some((name, outcome)) = word.split_once('=') else { continue };
            let Some((_, model)) = models.iter().find(|(short, _)| *short == name) else { continue };
            let mut check =
                if name == "strict-ser" && outcome == "fail" { facts(expected) } else { Default::default() };
            check.insert("valid".into(), json!(outcome == "ok"));
            check.insert("options".into(), json!({"consistency-models": [model]}));
            checks.push(Json::Object(check));
        }
    }
    checks
}

fn names(list: &str, separator: char) -> Json {
    let mut names: Vec<&str> = list.split(separator).filter(|n| !n.is_empty()).collect();
    names.sort_unstable();
    json!(names)
}

fn strings(list: &Json) -> Vec<&str> {
    let mut all: Vec<&str> = list.as_array().map_or(vec![], |a| a.iter().filter_map(Json::as_str).collect());
    all.sort_unstable();
    all
}

fn options(datatype: Datatype, given: &Json) -> Options {
    let mut options = Options::new(datatype);
    let models = strings(&given["consistency-models"]);
    options.models = models.iter().map(|name| elle::model(name).unwrap().level).collect();
    let anomalies = strings(&given["anomalies"]);
    options.anomalies = anomalies.iter().map(|name| elle::anomaly(name).unwrap().kind).collect();
    let on = |name: &str| given[name].as_bool().unwrap_or(false);
    options.wfr_keys = on("wfr-keys");
    options.sequential_keys = on("sequential-keys");
    options.linearizable_keys = on("linearizable-keys");
    options.transaction_order = given["transaction-order"]
        .as_object()
        .map(|order| order.iter().map(|(k, v)| (k.parse().unwrap(), v.as_f64().unwrap())).collect());
    options
}

/// What is wrong with an answer.
fn judge(answer: &Answer, expected: &Json) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut compare = |what: &str, found: Json, wanted: &Json| {
        if !wanted.is_null() && found != *wanted {
            wrong.push(format!("{what}: expected {wanted}, found {found}"));
        }
    };
    let valid = match answer.validity {
        Validity::Valid => json!(true),
        Validity::Invalid => json!(false),
        Validity::Unknown => json!("unknown"),
    };
    compare("valid?", valid, &expected["valid"]);
    let sorted = |list: &Json| if list.is_null() { Json::Null } else { json!(strings(list)) };
    let types: Vec<&str> = answer.reported.iter().map(|(kind, _)| kind.code()).collect();
    compare("types", json!(types), &sorted(&expected["anomaly-types"]));
    let mut not: Vec<&str> = answer.not.iter().map(|m| m.printed).collect();
    not.sort_unstable();
    compare("not", json!(not), &sorted(&expected["not"]));
    wrong
}

/// Cases about Elle's parts: the edges it infers, or how often an analysis finds something.
fn judge_part(history: &History, datatype: Datatype, expected: &Json) -> Vec<String> {
    let options = options(datatype, &Json::Null);
    let inference = infer(history, &options).unwrap();
    if let Some(name) = expected["analysis"].as_str() {
        let kind = elle::anomaly(name).unwrap().kind;
        let count = inference.findings.iter().filter(|(k, _)| *k == kind).count();
        let wanted = expected["count"].as_u64().unwrap() as usize;
        return if count == wanted { vec![] } else { vec![format!("{count} {name}, expected {wanted}")] };
    }
    let relations = strings(&expected["graph"]);
    let edges: Vec<(u32, u32)> = inference
        .graph
        .edges()
        .into_iter()
        .filter(|(.., e)| relations.contains(&e.name()))
        .map(|(a, b, _)| (history.position(a), history.position(b)))
        .collect();
    if let Some(acyclic) = expected["acyclic"].as_bool() {
        let mut reach = edges.clone();
        // A path is no longer than there are transactions.
        for _ in 0..history.txn_count() {
            let longer: Vec<(u32, u32)> = reach
                .iter()
                .flat_map(|&(a, b)| edges.iter().filter(move |e| e.0 == b).map(move |e| (a, e.1)))
                .collect();
            reach.extend(longer);
            reach.sort_unstable();
            reach.dedup();
        }
        let found = reach.iter().all(|(a, b)| a != b);
        return if found == acyclic { vec![] } else { vec![format!("acyclic: {found}")] };
    }
    let mut wanted: Vec<(u32, u32)> = Vec::new();
    for (from, to) in expected["adjacency"].as_object().unwrap() {
        let from: u32 = from.parse().unwrap();
        wanted.extend(to.as_array().unwrap().iter().map(|to| (from, to.as_u64().unwrap() as u32)));
    }
    wanted.sort_unstable();
    let mut edges = edges;
    edges.sort_unstable();
    edges.dedup();
    if edges == wanted { vec![] } else { vec![format!("edges {edges:?}, expected {wanted:?}")] }
}

#[test]
fn elle_would_say_the_same() {
    let Some(corpus) = corpus() else { return };
    let deliberate = deliberate();
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    let (mut met, mut wrong) = (0, Vec::new());
    for row in index.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [id, file, format, model, ..] = columns[..] else { panic!("{row}") };
        let datatype = match model {
            "list-append" => Datatype::ListAppend,
            "rw-register" => Datatype::RwRegister,
            _ => continue,
        };
        if !format.starts_with("elle") {
            continue;
        }
        let path = corpus.join(file);
        let loaded = anomalist_format::read(Input::open(&path).unwrap(), &ReadOptions::default()).unwrap();
        let checks = expectations(&path, columns[9]);
        assert!(!checks.is_empty(), "{id}: expectation not understood");
        for check_of in &checks {
            let problems = if check_of["options"].is_null() {
                judge_part(&loaded.history, datatype, check_of)
            } else {
                let answer =
                    check(&loaded.history, &options(datatype, &check_of["options"]), &Budget::unlimited());
                judge(&answer.unwrap(), check_of)
            };
            met += usize::from(problems.is_empty());
            if !deliberate.iter().any(|known| known == id) {
                wrong.extend(problems.into_iter().map(|p| format!("{id}: {p}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} met, wrong:\n{}", met, wrong.join("\n"));
    assert!(met > 0, "no case of Elle's in the corpus");
}

#[test]
fn elles_own_assertions_about_models_hold() {
    type Names = std::collections::BTreeSet<String>;
    let Some(corpus) = corpus() else { return };
    let text = std::fs::read_to_string(corpus.join("elle-facts/consistency-model-facts.json")).unwrap();
    let facts: Json = serde_json::from_str(&text).unwrap();
    let names = |value: &Json| -> Names {
        value.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
    };
    let kinds = |kinds: Vec<AnomalyKind>| -> Names { kinds.iter().map(|k| k.code().to_owned()).collect() };
    let model = |name: &String| elle::model(name).unwrap_or_else(|| panic!("no model {name}")).level;
    let given = |case: &Json| names(&case["models"]).iter().map(model).collect::<Vec<_>>();
    let found = |case: &Json| -> Vec<AnomalyKind> {
        names(&case["anomalies"]).iter().map(|a| elle::anomaly(a).unwrap().kind).collect()
    };
    let printed = |set: &[&elle::Model]| set.iter().map(|m| m.printed.to_owned()).collect::<Names>();
    let print = |levels: &[Level]| -> Names {
        elle::models().iter().filter(|m| levels.contains(&m.level)).map(|m| m.printed.to_owned()).collect()
    };
    let cases = facts["cases"].as_array().unwrap();
    for case in cases {
        match case["kind"].as_str().unwrap() {
            "impossible-models" => assert_eq!(names(&case["models"]), print(&elle::impossible(&found(case)))),
            "anomalies-prohibited-by" => {
                assert_eq!(names(&case["anomalies"]), kinds(elle::prohibited(&given(case))));
            }
            "boundary" => {
                let boundary = elle::boundary(&found(case));
                assert_eq!(names(&case["not"]), printed(&boundary.not));
                if !case["also-not"].is_null() {
                    assert_eq!(names(&case["also-not"]), printed(&boundary.also_not));
                }
            }
            "weakest" => assert_eq!(names(&case["result"]), print(&Level::weakest(&given(case)))),
            "strongest" => assert_eq!(names(&case["result"]), print(&Level::strongest(&given(case)))),
            other => panic!("a new kind of fact: {other}"),
        }
    }
    assert!(!cases.is_empty());
}
