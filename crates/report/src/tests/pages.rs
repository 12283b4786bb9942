//! The page, JUnit and SARIF of a history that holds, of one that does not, and of one that nothing is
//! known about.

use super::fixture::{Checked, checked};
use crate::{html, junit, sarif};
use anomalist_level::{By, Level, LevelVerdict, Mixed, Sought, Verdict, Why};
use serde_json::Value;

const GOOD: &str = "w(x,1) || r(x,1)";
const BAD: &str = "w(x,1) w(y,1) || r(x,1) r(y,0)";

/// The page, the JUnit report and the results of SARIF.
fn outputs(c: &Checked) -> (String, String, Vec<Value>) {
    let subject = c.subject();
    let sarif: Value = serde_json::from_str(&sarif(&[subject])).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap().clone();
    (html("a page", &[("h.txt", subject)]), junit(&[subject]), results)
}

#[test]
fn what_holds() {
    let (page, junit, results) = outputs(&checked(GOOD).requiring(&[Level::Serializable]));
    assert!(page.contains("<td>serializable (required)<td class=holds>holds"), "{page}");
    assert!(page.contains("required: serializable holds"), "{page}");
    assert!(!page.contains("<p></p>") && !page.contains("<svg "), "{page}");
    assert!(junit.contains("failures=\"0\" errors=\"0\"") && results.is_empty(), "{junit}");
    // Nothing is required.
    let (page, ..) = outputs(&checked(GOOD));
    assert!(page.contains("strongest"), "{page}");
}

#[test]
fn what_does_not() {
    let (page, junit, results) = outputs(&checked(BAD).requiring(&[Level::Causal]));
    assert!(page.contains("<td>causal (required)<td class=violated>violated"), "{page}");
    assert!(page.contains("required: causal violated") && page.contains("<svg "), "{page}");
    assert!(junit.contains("failures=\"1\" errors=\"0\""), "{junit}");
    assert!(results.iter().any(|r| r["level"] == "error"), "{results:?}");
}

#[test]
fn what_is_unknown() {
    let mut c = checked(GOOD).requiring(&[Level::StrictSerializable]);
    c.judgement.levels.retain(|l| l.level == Level::StrictSerializable);
    c.judgement.levels[0].verdict = Verdict::Unknown(Why::NoRound { error: "no <clock>".to_owned() });
    let (page, junit, results) = outputs(&c);
    assert!(page.contains("<td class=unknown>unknown<td>no round was run: no &lt;clock&gt;"), "{page}");
    assert!(page.contains("required: strict-serializable unknown"), "{page}");
    assert!(
        junit.contains("errors=\"1\"") && junit.contains("unknown: no round was run: no &lt;clock&gt;"),
        "{junit}"
    );
    assert_eq!(results[0]["message"]["text"], "strict-serializable is unknown: no round was run: no <clock>");
}

/// What the text says, the page says too.
#[test]
fn the_page_leaves_nothing_out() {
    let mut c = checked(BAD);
    let twice = LevelVerdict {
        level: Level::Causal,
        by: By::Timestamps,
        verdict: Verdict::Holds,
        anomalies: Vec::new(),
    };
    c.judgement.levels.push(twice);
    let mut another = c.judgement.anomalies[0].clone();
    another.count = 1;
    c.judgement.further = vec![another];
    c.judgement.sought = vec![(c.judgement.anomalies[0].kind, Sought::Found)];
    c.judgement.mixed =
        Some(Mixed { levels: vec![(Level::Causal, 2)], verdict: Verdict::Holds, ..Mixed::default() });
    let (page, ..) = outputs(&c);
    for part in ["causal by timestamps", "causal by values", "asked for: ", "one commit order suits"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // The other kinds have the same example.
    assert_eq!(page.matches("<details").count(), 2, "{page}");
}
