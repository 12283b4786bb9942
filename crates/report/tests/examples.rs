//! What an example lists and what it tells are one thing: in every output each cycle goes through
//! transactions that the example lists, and each of its links has a sentence. On many random histories,
//! with and without `tighten`.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check, shrink::tighten};
use anomalist_history::{History, Indexed};
use anomalist_level::{Judgement, Level};
use anomalist_report::{HistoryFacts, Style, Subject};
use anomalist_testkit::mini;
use anomalist_testkit::random::{self, Reference, Shape};
use serde_json::Value;
use std::collections::BTreeSet;

/// How many cycles of each sort were met.
#[derive(Default)]
struct Met {
    dependencies: usize,
    refutations: usize,
}

/// The cycles that a text tells, as the names of the transactions around each, the first again at the end.
fn cycles(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for line in text.lines() {
        let starts = ["a cycle: ", "the cycle ", " So "];
        for (start, rest) in starts.iter().filter_map(|s| Some((s, line.split_once(s)?.1))) {
            let sign = if *start == " So " { " < " } else { " → " };
            let end = rest.find([':', '.', '(']).unwrap_or(rest.len());
            let around: Vec<String> = rest[..end].split(sign).map(name).collect();
            if around.len() > 1 && !around.contains(&"…".to_owned()) {
                found.push(around);
            }
        }
    }
    found
}

/// A transaction, whichever of its moments is meant.
fn name(point: &str) -> String {
    point.trim().trim_end_matches("'s snapshot").trim_end_matches("'s commit").to_owned()
}

/// Whether a text speaks of a transaction: `T1`, not `T11`.
fn mentions(text: &str, who: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| word == who)
        || who == "initial state" && text.contains(who)
}

/// Every cycle reported goes around, through transactions that are listed, and each link has a sentence.
fn look(reported: &str, listed: &BTreeSet<String>, met: &mut Met, context: &str) {
    for around in cycles(reported) {
        let of_refutation = reported.contains('→');
        *(if of_refutation { &mut met.refutations } else { &mut met.dependencies }) += 1;
        assert_eq!(around.first(), around.last(), "{context}\n{reported}");
        for link in around.windows(2).filter(|link| link[0] != link[1]) {
            for who in link {
                let known = listed.contains(who) || who == "initial state";
                assert!(known, "{who} is not in the example, which lists {listed:?}: {context}\n{reported}");
            }
            // The arrows of a cycle give no reasons; what follows them in parentheses does.
            let reasons = |line: &'_ str| match line.contains('→') {
                true => line.split_once('(').map_or(String::new(), |(_, reasons)| reasons.to_owned()),
                false => line.to_owned(),
            };
            let lines: Vec<String> = reported.lines().map(reasons).collect();
            let mut sentences = lines.iter().flat_map(|line| line.split(';'));
            let has_reason = sentences.any(|s| link.iter().all(|who| mentions(s, who)));
            assert!(has_reason, "no reason for {} before {}: {context}\n{reported}", link[0], link[1]);
        }
    }
}

/// The transactions that an example of the text lists: `  T1 (3:1)  r(x,1) …`.
fn listed(example: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in example.lines().filter(|l| l.starts_with("  T")) {
        let word = line.trim_start().split(' ').next().unwrap();
        if line.contains(&format!("{word} (")) {
            names.insert(word.to_owned());
        }
    }
    names
}

/// The transactions of `Let T1 = 1:1, T2 = 2:1.`.
fn introduced(reported: &str) -> BTreeSet<String> {
    let first = reported.lines().find(|l| l.contains("Let T1 = ")).unwrap_or_default();
    let words: Vec<&str> = first.split(' ').collect();
    words.windows(2).filter(|pair| pair[1] == "=").map(|pair| pair[0].to_owned()).collect()
}

fn outputs(history: &History, judgement: &Judgement, met: &mut Met, context: &str) {
    let facts = HistoryFacts::of(history, "h.txt", "plume");
    let required = [Level::StrictSerializable, Level::StrongSessionSerializable];
    let subject = Subject {
        history,
        facts: &facts,
        judgement,
        timing: None,
        required: &required,
        declared: false,
        stopped: false,
    };
    let style = Style { verbose: 1, width: 100_000, ..Style::default() };
    for (i, anomaly) in judgement.anomalies.iter().enumerate() {
        let example = anomalist_report::example_text(&subject, anomaly, &style);
        let players = listed(&example);
        look(&example, &players, met, context);

        let json = &anomalist_report::json(&[subject])["anomalies"][i];
        let field = |name: &str| -> BTreeSet<String> {
            let txns = json["witness"]["transactions"].as_array().unwrap();
            txns.iter().map(|t| t[name].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(field("alias"), players, "{context}");
        look(json["explanation"].as_str().unwrap(), &players, met, context);
        for edge in json["witness"]["edges"].as_array().unwrap() {
            for end in [&edge["from"], &edge["to"]] {
                let end = end.as_str().unwrap();
                assert!(end == "initial" || field("name").contains(end), "{end}: {context}");
            }
        }

        let picture = anomalist_report::svg(history, anomaly);
        for who in &players {
            assert!(picture.contains(&format!(">{who}</text>")), "{who}: {context}");
        }
    }
    let text = anomalist_report::text(&subject, &style);
    for example in text.split("\n\n") {
        look(example, &listed(example), met, context);
    }
    let sarif: Value = serde_json::from_str(&anomalist_report::sarif(&[subject])).unwrap();
    for result in sarif["runs"][0]["results"].as_array().unwrap() {
        let reported = result["message"]["text"].as_str().unwrap();
        look(reported, &introduced(reported), met, context);
    }
    let junit = anomalist_report::junit(&[subject]).replace("&gt;", ">").replace("&lt;", "<");
    for reported in
        junit.replace("</failure>", "\n\n").split("\n\n").map(|reported| reported.replace("&apos;", "'"))
    {
        look(&reported, &introduced(&reported), met, context);
    }
    let github = anomalist_report::github(&[subject]);
    for reported in github.lines().map(|line| line.replace("%0A", "\n")) {
        look(&reported, &introduced(&reported), met, context);
    }
}

fn histories(seed: u64) -> Vec<History> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let large = Shape { txns: 6..=14, sessions: 3..=6, keys: 2..=4, reads: 0.4, ..Shape::default() };
    let timed = Shape { timed: 1.0, ..large.clone() };
    let repeated = Shape { repeated: 0.1, indeterminate: 0.1, ..large.clone() };
    let lists = Shape { lists: 0.5, ..large.clone() };
    let mut all: Vec<History> =
        [&large, &timed, &repeated, &lists].map(|shape| random::tiny(&mut rng, shape)).into();
    all.push(random::mutated(&mut rng, Reference::Snapshot, &timed));
    all.push(random::executed(&mut rng, Reference::Snapshot, &timed));
    all
}

#[test]
fn every_output_tells_the_cycle_of_the_example_it_lists() {
    let mut met = Met::default();
    for seed in 0..50 {
        for history in histories(seed) {
            let indexed = Indexed::new(&history, 1.try_into().unwrap());
            let mut judgement = check(&indexed, &Request::default(), &Budget::unlimited());
            let context = format!("seed {seed}: {}", mini::print(&history));
            outputs(&history, &judgement, &mut met, &context);
            tighten(&history, &mut judgement, &Budget::unlimited());
            outputs(&history, &judgement, &mut met, &context);
        }
    }
    assert!(met.dependencies > 500 && met.refutations > 100, "{} {}", met.dependencies, met.refutations);
}
