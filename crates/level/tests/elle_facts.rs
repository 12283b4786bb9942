//! The tables of `elle` against the facts about Elle in `elle_facts.txt`, which states their source.
//!
//! The file has direct relations only. What follows from them is derived here without the code under test:
//! a model implies what its implications imply; it prohibits what it or an implied model proscribes, and
//! every anomaly that implies that; an anomaly makes impossible the models that prohibit it, and the
//! boundary is the weakest of those.

#![allow(clippy::unwrap_used, reason = "a test: its helpers may panic")]

use anomalist_level::{AnomalyKind, Level, elle};
use std::collections::{BTreeMap, BTreeSet};

type Names = BTreeSet<String>;

/// A line: what the fact is about, and its fields.
struct Fact {
    name: &'static str,
    fields: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Fact {
    fn list(&self, field: &str) -> &[&'static str] {
        self.fields.get(field).map_or(&[], Vec::as_slice)
    }

    fn names(&self, field: &str) -> Names {
        self.list(field).iter().map(|&name| name.to_owned()).collect()
    }
}

/// The facts that begin with a word, in the order of the file.
fn facts(word: &str) -> Vec<Fact> {
    let lines = include_str!("elle_facts.txt").lines().filter(|line| !line.starts_with('#'));
    let ours = lines.filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    ours.map(|line| {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let fields = words.map(|field| field.split_once('=').unwrap());
        Fact { name, fields: fields.map(|(name, list)| (name, list.split(',').collect())).collect() }
    })
    .collect()
}

/// Everything that a name implies, other than itself.
fn closure(facts: &[Fact]) -> BTreeMap<&'static str, Names> {
    let direct: BTreeMap<&str, &Fact> = facts.iter().map(|fact| (fact.name, fact)).collect();
    let follow = |fact: &Fact| {
        let (mut seen, mut open) = (Names::new(), fact.list("implies").to_vec());
        while let Some(name) = open.pop() {
            if seen.insert(name.to_owned()) {
                open.extend(direct[name].list("implies"));
            }
        }
        seen.remove(fact.name);
        seen
    };
    facts.iter().map(|fact| (fact.name, follow(fact))).collect()
}

/// For each model the anomalies that no history of it has.
fn prohibited() -> BTreeMap<&'static str, Names> {
    let (models, anomalies) = (facts("model"), facts("anomaly"));
    let (weaker, worse) = (closure(&models), closure(&anomalies));
    let of = |model: &Fact| {
        let implied = models.iter().filter(|m| m.name == model.name || weaker[model.name].contains(m.name));
        let direct: Names = implied.flat_map(|m| m.names("proscribes")).collect();
        let is_one =
            |a: &&Fact| direct.contains(a.name) || worse[a.name].iter().any(|name| direct.contains(name));
        anomalies.iter().filter(is_one).map(|a| a.name.to_owned()).collect()
    };
    models.iter().map(|model| (model.name, of(model))).collect()
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

fn edges(edges: &[elle::Edge]) -> Names {
    edges.iter().map(|e| e.name().to_owned()).collect()
}

#[test]
fn models_are_elles() {
    let (recorded, prohibited) = (facts("model"), prohibited());
    let implied = closure(&recorded);
    let all: Names = recorded.iter().map(|fact| fact.name.to_owned()).collect();
    assert_eq!(all, levels(elle::models().iter().map(|m| m.level)));
    for fact in &recorded {
        let name = fact.name;
        let model = elle::models().iter().find(|m| m.canonical == name).unwrap();
        assert_eq!(model.level.info().elle_name, Some(name));
        assert_eq!(fact.list("printed"), [model.printed], "{name}");
        let mut accepted: Names = model.aliases.iter().map(|a| (*a).to_owned()).collect();
        if model.printed != name {
            accepted.insert(model.printed.to_owned());
        }
        assert_eq!(fact.names("aliases"), accepted, "{name}");
        assert_eq!(fact.names("implies"), levels(model.implies()), "{name} implies");
        let mut in_the_end = levels(elle::all_implied(&[model.level]));
        assert!(in_the_end.remove(name));
        assert_eq!(implied[name], in_the_end, "{name} implies in the end");
        assert_eq!(fact.names("proscribes"), kinds(model.proscribes()), "{name} proscribes");
        assert_eq!(prohibited[name], kinds(elle::prohibited(&[model.level])), "{name} prohibits");
        assert_eq!(!prohibited[name].is_empty(), model.can_be_ruled_out(), "{name}");
        assert_eq!(model.level.info().name_only, !model.can_be_ruled_out(), "{name}");
    }
}

#[test]
fn anomalies_are_elles() {
    let (recorded, models, prohibited) = (facts("anomaly"), facts("model"), prohibited());
    let (implied, weaker) = (closure(&recorded), closure(&models));
    let all: Names = recorded.iter().map(|fact| fact.name.to_owned()).collect();
    assert_eq!(all, kinds(elle::anomalies().iter().map(|a| a.kind)));
    for fact in &recorded {
        let name = fact.name;
        let anomaly = elle::anomalies().iter().find(|a| a.name() == name).unwrap();
        assert_eq!(fact.names("implies"), kinds(anomaly.implies()), "{name} implies");
        let others = elle::anomalies().iter().map(|a| a.kind);
        let others = kinds(others.filter(|&k| k != anomaly.kind && anomaly.kind.implies(k)));
        assert_eq!(implied[name], others, "{name} implies in the end");

        let is_impossible = |model: &str| prohibited[model].contains(name);
        let impossible = models.iter().filter(|m| is_impossible(m.name));
        let (weakest, rest): (Vec<&Fact>, Vec<&Fact>) =
            impossible.partition(|m| !weaker[m.name].iter().any(|other| is_impossible(other)));
        let named = |facts: &[&Fact]| facts.iter().map(|m| m.name.to_owned()).collect::<Names>();
        let boundary = elle::boundary(&[anomaly.kind]);
        assert_eq!(named(&weakest), levels(anomaly.rules_out().iter().copied()), "{name}");
        assert_eq!(named(&weakest), levels(boundary.not.iter().map(|m| m.level)), "{name} not");
        assert_eq!(named(&rest), levels(boundary.also_not.iter().map(|m| m.level)), "{name} also not");

        let emitted: Names = anomaly.emitted_by.iter().map(|c| c.name().to_owned()).collect();
        assert_eq!(fact.names("emitted"), emitted, "{name}");
        let depth = fact.list("depth").first().map(|depth| depth.parse::<u64>().unwrap());
        assert_eq!(depth, anomaly.depth.map(u64::from), "{name}");
        assert_eq!(!fact.list("alone").is_empty(), anomaly.means_unknown(), "{name}");
    }
}

#[test]
fn searches_are_elles() {
    let order: Vec<&str> = elle::SEARCH_ORDER.iter().map(|k| k.code()).collect();
    assert_eq!(facts("search").iter().map(|fact| fact.name).collect::<Vec<_>>(), order);

    let severity: BTreeMap<String, Names> = elle::SEVERITY
        .iter()
        .map(|(worse, than)| (worse.code().to_owned(), kinds(than.iter().copied())))
        .collect();
    let recorded = facts("severity").into_iter().map(|fact| (fact.name.to_owned(), fact.names("than")));
    assert_eq!(recorded.collect::<BTreeMap<_, _>>(), severity);
}

#[test]
fn cycles_are_elles() {
    let exists = facts("exists");
    assert_eq!(exists.len(), elle::CYCLE_EXISTS.len());
    for (fact, ours) in exists.iter().zip(elle::CYCLE_EXISTS) {
        assert_eq!(fact.list("model"), [canonical(ours.model)]);
        assert_eq!(fact.name, ours.anomaly.code());
        assert_eq!(fact.names("edges"), edges(ours.edges), "{}", ours.anomaly);
        assert_eq!(fact.names("then"), edges(ours.then), "{}", ours.anomaly);
    }

    let specs = facts("cycle");
    assert_eq!(specs.len(), elle::CYCLES.len());
    for spec in elle::CYCLES {
        let name = spec.kind(None).code();
        let fact = specs.iter().find(|fact| fact.name == name).unwrap();
        assert_eq!(fact.names("edges"), edges(spec.edges), "{name}");
        let anti: &[&str] = match spec.anti_dependencies {
            elle::AntiDependencies::None => &[],
            elle::AntiDependencies::One => &["one"],
            elle::AntiDependencies::NonAdjacent => &["nonadjacent"],
            elle::AntiDependencies::Adjacent => &["adjacent"],
        };
        assert_eq!(fact.list("anti"), anti, "{name}");
        assert_eq!(fact.names("of"), edges(spec.anti_edges), "{name}");
        assert_eq!(fact.names("required"), edges(spec.required), "{name}");
        assert_eq!(spec.kind(Some(elle::Edge::Process)).code(), format!("{name}-process"));
        assert_eq!(spec.kind(Some(elle::Edge::Realtime)).code(), format!("{name}-realtime"));
    }
}
