//! GitLab's code quality report against a schema written from its documentation.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::Indexed;
use anomalist_level::Level;
use anomalist_report::{HistoryFacts, Subject, gitlab};
use anomalist_testkit::json_schema::valid;
use anomalist_testkit::mini;
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn findings_for_gitlab_conform_and_differ() {
    let schema: Value = serde_json::from_str(include_str!("schemas/gitlab-code-quality.json")).unwrap();
    assert!(!valid(&schema, &serde_json::json!([{"description": "x"}])));
    for text in ["w(x,1)", "r(x,0) w(y,1) || r(y,0) w(x,1)", "w(x,1) !abort || r(x,1) r(y,7); r(x,1) r(x,0)"]
    {
        let history = mini::history(text);
        let indexed = Indexed::new(&history, 1.try_into().unwrap());
        let judgement = check(&indexed, &Request::default(), &Budget::unlimited());
        let facts = HistoryFacts::of(&history, "./a folder/h.txt", "plume");
        for required in [&[][..], &[Level::Serializable, Level::StrictSerializable]] {
            let subject = Subject {
                history: &history,
                facts: &facts,
                judgement: &judgement,
                timing: None,
                required,
                declared: false,
                stopped: false,
            };
            let report: Value = serde_json::from_str(&gitlab(&[subject])).unwrap();
            assert!(valid(&schema, &report), "{report:#}");
            let findings = report.as_array().unwrap();
            let fingerprints: BTreeSet<&str> =
                findings.iter().map(|f| f["fingerprint"].as_str().unwrap()).collect();
            assert_eq!(fingerprints.len(), findings.len(), "{report:#}");
            assert!(findings.iter().all(|f| f["location"]["path"] == "a folder/h.txt"));
            assert_eq!(
                findings.is_empty(),
                judgement.anomalies.is_empty() && required.is_empty(),
                "{report:#}"
            );
        }
    }
}
