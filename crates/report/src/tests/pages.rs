//! JUnit and SARIF of a history that holds, of one that does not, and of one that nothing is
//! known about.

use super::fixture::{Checked, checked};
use crate::{junit, sarif};
use anomalist_level::{Level, Verdict, Why};
use serde_json::Value;

const GOOD: &str = "w(x,1) || r(x,1)";
const BAD: &str = "w(x,1) w(y,1) || r(x,1) r(y,0)";

/// The JUnit report and the results of SARIF.
fn outputs(c: &Checked) -> (String, Vec<Value>) {
    let subject = c.subject();
    let sarif: Value = serde_json::from_str(&sarif(&[subject])).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap().clone();
    (junit(&[subject]), results)
}

#[test]
fn what_holds() {
    let (junit, results) = outputs(&checked(GOOD).requiring(&[Level::Serializable]));
    assert!(junit.contains("failures=\"0\" errors=\"0\"") && results.is_empty(), "{junit}");
}

#[test]
fn what_does_not() {
    let (junit, results) = outputs(&checked(BAD).requiring(&[Level::Causal]));
    assert!(junit.contains("failures=\"1\" errors=\"0\""), "{junit}");
    assert!(results.iter().any(|r| r["level"] == "error"), "{results:?}");
}

#[test]
fn what_is_unknown() {
    let mut c = checked(GOOD).requiring(&[Level::StrictSerializable]);
    c.judgement.levels.retain(|l| l.level == Level::StrictSerializable);
    c.judgement.levels[0].verdict = Verdict::Unknown(Why::NoRound { error: "no <clock>".to_owned() });
    let (junit, results) = outputs(&c);
    assert!(
        junit.contains("errors=\"1\"") && junit.contains("unknown: no round was run: no &lt;clock&gt;"),
        "{junit}"
    );
    assert_eq!(results[0]["message"]["text"], "strict-serializable is unknown: no round was run: no <clock>");
}
