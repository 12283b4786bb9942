//! Elle's answer against a transcription of its rules: small random histories, every cycle enumerated.
#![allow(clippy::unwrap_used)]

mod naive;
mod random;
mod rules;

use anomalist_check::Budget;
use anomalist_jepsen::elle::{Datatype, Unfit, Validity, check, infer};
use anomalist_level::elle;
use std::collections::BTreeMap;

fn kinds<T>(cases: &[(anomalist_level::AnomalyKind, T)]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    cases.iter().for_each(|(kind, _)| *counts.entry(kind.code()).or_insert(0) += 1);
    counts
}

fn agree(datatype: Datatype, seed: u64, rounds: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut invalid, mut skipped) = (0, 0);
    for round in 0..rounds {
        let txns = random::transactions(&mut rng, datatype);
        let history = random::history(&txns, datatype);
        let options = random::options(&mut rng, datatype, &txns);
        let place = || format!("seed {seed} round {round}: {txns:#?}\n{options:?}");
        let inference = match infer(&history, &options) {
            Err(unfit) => {
                assert!(rules::has_duplicates(&txns, datatype), "{unfit} {}", place());
                assert!(matches!(unfit, Unfit::Duplicate { .. }));
                continue;
            }
            Ok(inference) => inference,
        };
        assert!(!rules::has_duplicates(&txns, datatype), "{}", place());
        let expected = rules::infer(&txns, datatype, &options);
        let found: Vec<(usize, usize, elle::Edge)> = inference
            .graph
            .edges()
            .into_iter()
            .map(|(a, b, edge)| (history.position(a) as usize, history.position(b) as usize, edge))
            .collect();
        assert_eq!(found, expected.edges, "{}", place());
        assert_eq!(kinds(&inference.findings), expected.anomalies, "{}", place());
        let answer = check(&history, &options, &Budget::unlimited()).unwrap();
        let Some(naive) = naive::answer(&txns, datatype, &options, &expected) else {
            skipped += 1;
            continue;
        };
        let types: Vec<&str> = answer.reported.iter().map(|(kind, _)| kind.code()).collect();
        assert_eq!(types, naive.types, "{}", place());
        let mut not: Vec<&str> = answer.not.iter().map(|m| m.printed).collect();
        not.sort_unstable();
        assert_eq!(not, naive.not, "{}", place());
        let garbage = answer.objection.is_some() && answer.validity == Validity::Unknown;
        assert!(answer.validity == naive.validity || garbage, "{:?} {}", answer.validity, place());
        invalid += usize::from(answer.validity == Validity::Invalid);
    }
    assert!(invalid > rounds / 10, "only {invalid} of {rounds} invalid");
    assert!(skipped < rounds / 10, "{skipped} of {rounds} skipped");
}

#[test]
fn lists_are_judged_by_elles_rules() {
    agree(Datatype::ListAppend, 1, 2500);
    agree(Datatype::ListAppend, fastrand::u64(..), 1000);
}

#[test]
fn registers_are_judged_by_elles_rules() {
    agree(Datatype::RwRegister, 2, 2500);
    agree(Datatype::RwRegister, fastrand::u64(..), 1000);
}
