//! Our tables against the facts recorded from Elle: `elle-tables.json` and the assertions of Elle's own tests.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test: its helpers may panic, and say when they skip"
)]

use anomalist_level::{AnomalyKind, Level, elle};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Names = BTreeSet<String>;

/// Where the shared facts are: `ANOMALIST_CORPUS` (…/shared/corpus), or beside the repository.
fn shared() -> PathBuf {
    match std::env::var_os("ANOMALIST_CORPUS") {
        Some(corpus) => Path::new(&corpus)
            .ancestors()
            .find(|p| p.join("design").is_dir())
            .map_or_else(|| PathBuf::from(&corpus), Path::to_path_buf),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    }
}

fn facts(path: &str) -> Option<Value> {
    let path = shared().join(path);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(serde_json::from_str(&text).unwrap()),
        Err(error) => {
            eprintln!("skipped: {}: {error}", path.display());
            None
        }
    }
}

fn names(value: &Value) -> Names {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

fn canonical(level: Level) -> String {
    level.info().elle_name.unwrap_or_else(|| panic!("{level} is not Elle's")).to_owned()
}

fn levels(levels: impl IntoIterator<Item = Level>) -> Names {
    levels.into_iter().map(canonical).collect()
}

fn kinds(kinds: impl IntoIterator<Item = AnomalyKind>) -> Names {
    kinds.into_iter().map(|k| k.code().to_owned()).collect()
}

#[test]
fn models_are_elles() {
    let Some(facts) = facts("design/elle-tables.json") else { return };
    let recorded = facts["models"].as_object().unwrap();
    assert_eq!(recorded.keys().cloned().collect::<Names>(), levels(elle::models().iter().map(|m| m.level)));
    for model in elle::models() {
        let name = model.canonical;
        let fact = &recorded[name];
        assert_eq!(model.level.info().elle_name, Some(name));
        assert_eq!(fact["display"], model.printed, "{name}");
        let mut accepted: Names = model.aliases.iter().map(|a| (*a).to_owned()).collect();
        if model.printed != name {
            accepted.insert(model.printed.to_owned());
        }
        assert_eq!(names(&fact["aliases"]), accepted, "{name}");
        assert_eq!(names(&fact["implies"]), levels(model.implies()), "{name} implies");
        let mut implied = levels(elle::all_implied(&[model.level]));
        assert!(implied.remove(name));
        assert_eq!(names(&fact["implies_transitively"]), implied, "{name} implies in the end");
        assert_eq!(names(&fact["directly_proscribes"]), kinds(model.proscribes()), "{name} proscribes");
        assert_eq!(
            names(&fact["proscribes_all"]),
            kinds(elle::prohibited(&[model.level])),
            "{name} prohibits"
        );
        assert_eq!(fact["can_ever_be_ruled_out"], model.can_be_ruled_out(), "{name}");
        assert_eq!(model.level.info().name_only, !model.can_be_ruled_out(), "{name}");
    }
}

#[test]
fn anomalies_are_elles() {
    let Some(facts) = facts("design/elle-tables.json") else { return };
    let recorded = facts["anomalies"].as_object().unwrap();
    assert_eq!(recorded.keys().cloned().collect::<Names>(), kinds(elle::anomalies().iter().map(|a| a.kind)));
    for anomaly in elle::anomalies() {
        let name = anomaly.name();
        let fact = &recorded[name];
        assert_eq!(names(&fact["implies"]), kinds(anomaly.implies()), "{name} implies");
        let implied = elle::anomalies().iter().map(|a| a.kind);
        let implied = kinds(implied.filter(|&k| k != anomaly.kind && anomaly.kind.implies(k)));
        assert_eq!(names(&fact["implies_transitively"]), implied, "{name} implies in the end");
        assert_eq!(names(&fact["rules_out"]), levels(anomaly.rules_out().iter().copied()), "{name}");
        let boundary = elle::boundary(&[anomaly.kind]);
        assert_eq!(names(&fact["rules_out"]), levels(boundary.not.iter().map(|m| m.level)), "{name} not");
        assert_eq!(
            names(&fact["also_rules_out"]),
            levels(boundary.also_not.iter().map(|m| m.level)),
            "{name}"
        );
        let printed: Names = boundary.not.iter().map(|m| m.printed.to_owned()).collect();
        assert_eq!(names(&fact["rules_out_display"]), printed, "{name}");
        let emitted: Names = anomaly.emitted_by.iter().map(|c| c.name().to_owned()).collect();
        assert_eq!(names(&fact["emitted_by"]), emitted, "{name}");
        assert_eq!(fact["depth"].as_u64(), anomaly.depth.map(u64::from), "{name}");
        assert_eq!(fact["verdict_if_alone"] == "unknown", anomaly.means_unknown(), "{name}");
    }
    let unknown = elle::anomalies().iter().filter(|a| a.means_unknown()).map(|a| a.kind);
    assert_eq!(names(&facts["unknown_anomaly_types"]), kinds(unknown));
}

#[test]
fn searches_are_elles() {
    let Some(facts) = facts("design/elle-tables.json") else { return };
    let order: Vec<_> = elle::SEARCH_ORDER.iter().map(|k| Value::from(k.code())).collect();
    assert_eq!(facts["cycle_search_order"], Value::from(order));

    let severity: BTreeMap<_, _> = elle::SEVERITY
        .iter()
        .map(|(worse, than)| (worse.code().to_owned(), kinds(than.iter().copied())))
        .collect();
    let recorded: BTreeMap<_, _> =
        facts["severity_edges"].as_object().unwrap().iter().map(|(k, v)| (k.clone(), names(v))).collect();
    assert_eq!(recorded, severity);

    let edges = |edges: &[elle::Edge]| -> Names { edges.iter().map(|e| e.name().to_owned()).collect() };
    let optional = |value: &Value| if value.is_null() { Names::new() } else { names(value) };
    let exists = facts["cycle_exists_specs"].as_array().unwrap();
    assert_eq!(exists.len(), elle::CYCLE_EXISTS.len());
    for (fact, ours) in exists.iter().zip(elle::CYCLE_EXISTS) {
        assert_eq!(fact["model"], canonical(ours.model));
        assert_eq!(fact["anomaly"], ours.anomaly.code());
        assert_eq!(names(&fact["edges"]), edges(ours.edges), "{}", ours.anomaly);
        assert_eq!(optional(&fact["then_one_of"]), edges(ours.then), "{}", ours.anomaly);
        assert_eq!(fact["kind"] == "extension", !ours.then.is_empty(), "{}", ours.anomaly);
    }

    let specs = facts["cycle_specs"].as_object().unwrap();
    assert_eq!(specs.len(), elle::CYCLES.len());
    for spec in elle::CYCLES {
        let name = spec.kind(None).code();
        let fact = &specs[name];
        // The facts list anti-dependencies of G2 among the edges as well.
        let plain: Names = names(&fact["edges"]).into_iter().filter(|e| !e.starts_with("rw")).collect();
        assert_eq!(plain, edges(spec.edges), "{name}");
        let (field, adjacent) = match spec.anti_dependencies {
            elle::AntiDependencies::None => ("none", false),
            elle::AntiDependencies::One => ("exactly_one_of", false),
            elle::AntiDependencies::NonAdjacent => ("two_or_more_nonadjacent_of", false),
            elle::AntiDependencies::Adjacent => ("two_or_more_of", true),
        };
        assert_eq!(optional(&fact[field]), edges(spec.anti_edges), "{name}");
        assert_eq!(fact["some_adjacent_pair"] == true, adjacent, "{name}");
        let mut required = optional(&fact["at_least_one_of"][0]);
        required.extend(fact["must_include"].as_str().map(str::to_owned));
        assert_eq!(required, edges(spec.required), "{name}");
        assert_eq!(spec.kind(Some(elle::Edge::Process)).code(), format!("{name}-process"));
        assert_eq!(spec.kind(Some(elle::Edge::Realtime)).code(), format!("{name}-realtime"));
    }
}

#[test]
fn elles_own_assertions_hold() {
    let Some(facts) = facts("corpus/open/elle-facts/consistency-model-facts.json") else { return };
    let model = |name: &String| elle::model(name).unwrap_or_else(|| panic!("no model {name}")).level;
    let given = |case: &Value| names(&case["models"]).iter().map(model).collect::<Vec<_>>();
    let found = |case: &Value| -> Vec<AnomalyKind> {
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
