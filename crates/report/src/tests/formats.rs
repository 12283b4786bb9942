//! What programs read, and pictures.

use super::fixture::{checked, example};
use crate::{dot, github, json, json_text, junit, levels_json, sarif, step_summary, svg};
use anomalist_level::{AnomalyKind, Level, Verdict, Why};
use serde_json::Value;

/// A history whose names need escaping everywhere.
fn nasty() -> super::fixture::Checked {
    let mut c = checked("w(<k&\"'\\>,1); w(<k&\"'\\>,2) w(y,1) || r(y,1) r(<k&\"'\\>,1)");
    c.facts.path = "a,b:<c>&\"d'.txt".to_owned();
    c
}

#[test]
fn json_of_one_history() {
    insta::assert_snapshot!(json_text(&[example(AnomalyKind::FracturedReadCo).subject()]));
}

#[test]
fn json_keeps_the_contract() {
    let c = example(AnomalyKind::ConflictCm).requiring(&[Level::Causal]);
    let text = json_text(&[c.subject()]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document, json(&[c.subject()]));
    let order = ["anomalist", "schema", "history", "levels", "strongest", "anomalies", "timing_ms"];
    let places: Vec<usize> = order.iter().map(|k| text.find(&format!("\n  \"{k}\": ")).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
    for level in document["levels"].as_array().unwrap() {
        let unknown = level["verdict"] == "unknown";
        assert_eq!(level.get("reason").is_some(), unknown);
        assert!(level["anomalies"].is_array() && level["by"] == "values");
    }
    for anomaly in document["anomalies"].as_array().unwrap() {
        for field in ["kind", "code", "explanation"] {
            assert!(anomaly[field].is_string());
        }
        assert!(anomaly["count"].is_u64() && anomaly["rules_out"].is_array());
        assert!(!anomaly["witness"]["transactions"].as_array().unwrap().is_empty());
        for edge in anomaly["witness"]["edges"].as_array().unwrap() {
            assert!(edge["from"].is_string() && edge["to"].is_string() && edge["type"].is_string());
        }
    }
    assert_eq!(document["timing_ms"]["load"], 12.1);
    let several = json(&[c.subject(), c.subject()]);
    assert_eq!(several.as_array().unwrap().len(), 2);
    assert_eq!(json(&[]), Value::Array(Vec::new()));
}

#[test]
fn the_initial_state_is_a_node() {
    let c = example(AnomalyKind::NotReadYourWrites);
    let document = json(&[c.subject()]);
    assert_eq!(document["anomalies"][0]["witness"]["edges"][0]["to"], "initial");
}

#[test]
fn long_transactions_and_lists_stay_short_in_json() {
    let numbers: Vec<String> = (1..=500).map(|i| i.to_string()).collect();
    let appends: Vec<String> = numbers.iter().map(|i| format!("a(x,{i})")).collect();
    let c = checked(&format!("{} || r(x,[{} 500])", appends.join(" "), numbers.join(" ")));
    let document = json(&[c.subject()]);
    let transaction = &document["anomalies"][0]["witness"]["transactions"][0];
    let shown = &transaction["operations"][0]["value"];
    assert_eq!(shown["length"], 501);
    assert_eq!(shown["end"].as_array().unwrap().last().unwrap(), 500);
    let c = checked(&format!("{} || r(x,[1])", appends.join(" ")));
    let witness = &json(&[c.subject()])["anomalies"][0]["witness"]["transactions"][0];
    assert_eq!(witness["operations_total"], 500);
}

#[test]
fn levels_as_json() {
    let document: Value = serde_json::from_str(&levels_json()).unwrap();
    assert_eq!(document["levels"].as_array().unwrap().len(), Level::ALL.len());
    assert_eq!(document["anomalies"].as_array().unwrap().len(), AnomalyKind::ALL.len());
}

#[test]
fn junit_of_required_levels() {
    let mut c = example(AnomalyKind::FracturedReadCo).requiring(&[Level::ReadAtomic, Level::Serializable]);
    let wanted = [Level::ReadCommitted, Level::ReadAtomic, Level::Causal, Level::Serializable];
    c.judgement.levels.retain(|l| wanted.contains(&l.level));
    insta::assert_snapshot!(junit(&[c.subject()]), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="anomalist">
      <testsuite name="h.txt" tests="4" failures="1" errors="0" skipped="0" time="0.015">
        <testcase classname="h.txt" name="read-committed"/>
        <testcase classname="h.txt" name="read-atomic">
          <failure type="violated" message="read-atomic is violated: fractured-read-co (TAP-k)">fractured-read-co (TAP-k), once:
    Let T1 = 1:1 (line 1), T2 = 1:2 (line 2), T3 = 2:1 (line 4).
    1. T3 read y = 1, which T2 wrote, so T3 must see T2.
    2. T2 wrote x = 2, yet T3 read x = 1, which T1 wrote: T2 must commit before T1.
    3. But T1 comes before T2 in session 1. So T2 &lt; T1 &lt; T2: a contradiction.</failure>
        </testcase>
        <testcase classname="h.txt" name="causal">
          <system-out>violated: fractured-read-co (TAP-k)</system-out>
        </testcase>
        <testcase classname="h.txt" name="serializable"/>
      </testsuite>
    </testsuites>
    "#);
}

#[test]
fn without_required_levels_nothing_fails_in_junit() {
    let c = nasty();
    assert!(c.judgement.levels.iter().any(|l| l.verdict == Verdict::Violated));
    let text = junit(&[c.subject()]);
    balanced(&text);
    assert!(text.contains("failures=\"0\"") && text.contains("<system-out>violated: "), "{text}");
}

#[test]
fn github_annotations() {
    let c = example(AnomalyKind::FracturedReadCo).requiring(&[Level::ReadAtomic]);
    insta::assert_snapshot!(github(&[c.subject()]), @"::error file=h.txt,line=4,title=anomalist%3A fractured-read-co (TAP-k)::TAP-k (fractured read), once; breaks read-atomic, which is required%0ALet T1 = 1:1 (line 1), T2 = 1:2 (line 2), T3 = 2:1 (line 4).%0A1. T3 read y = 1, which T2 wrote, so T3 must see T2.%0A2. T2 wrote x = 2, yet T3 read x = 1, which T1 wrote: T2 must commit before T1.%0A3. But T1 comes before T2 in session 1. So T2 < T1 < T2: a contradiction.");
    let nasty = nasty().requiring(&[Level::ReadUncommitted]);
    let text = github(&[nasty.subject()]);
    let start = "::notice file=a%2Cb%3A<c>&\"d'.txt,line=5,title=anomalist%3A non-mono-read-co (TAP-h)::";
    assert!(text.starts_with(start), "{text}");
    assert_eq!(text.lines().count(), nasty.judgement.anomalies.len());
}

/// A required level of which nothing is known is green nowhere.
#[test]
fn a_required_unknown_is_an_error_everywhere() {
    let mut c = example(AnomalyKind::FracturedReadCo).requiring(&[Level::StrictSerializable]);
    c.judgement.levels.retain(|l| l.level == Level::StrictSerializable);
    c.judgement.anomalies.clear();
    c.judgement.levels[0].verdict = Verdict::Unknown(Why::Stopped);
    let subject = [c.subject()];
    let xml = junit(&subject);
    assert!(xml.contains("errors=\"1\"") && xml.contains("<error type=\"unknown\""), "{xml}");
    assert!(!xml.contains("<skipped"), "{xml}");
    assert!(
        github(&subject)
            .starts_with("::error file=h.txt,title=anomalist%3A strict-serializable is unknown::")
    );
    let log: Value = serde_json::from_str(&sarif(&subject)).unwrap();
    let result = &log["runs"][0]["results"][0];
    assert_eq!((&result["level"], &result["ruleId"]), (&"error".into(), &"required-level-not-proven".into()));
    assert!(result["partialFingerprints"]["anomalist/v1"].is_string());
    assert!(step_summary(&subject).contains("Required: strict-serializable is unknown."));
}

/// The line is that of a transaction that saw the violation, the level the one that was required.
#[test]
fn annotations_point_at_the_violation_and_name_what_was_required() {
    let c = example(AnomalyKind::FracturedReadCo).requiring(&[Level::Serializable, Level::Causal]);
    let text = github(&[c.subject()]);
    assert!(text.contains(",line=4,") && text.contains("breaks causal, which is required"), "{text}");
    let summary = step_summary(&[c.subject()]);
    assert!(summary.contains("causal is VIOLATED") && summary.contains("line 4"), "{summary}");
    assert!(summary.contains("| causal | | ✗ **violated**, required | |"), "{summary}");
}

#[test]
fn sarif_log() {
    let c = example(AnomalyKind::AbortedRead);
    let text = sarif(&[c.subject()]);
    insta::assert_snapshot!(text, @r#"
    {
      "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
      "version": "2.1.0",
      "runs": [
        {
          "tool": {
            "driver": {
              "name": "anomalist",
              "version": "0.1.0",
              "semanticVersion": "0.1.0",
              "informationUri": "https://github.com/anomalist-db/anomalist",
              "rules": [
                {
                  "id": "aborted-read",
                  "name": "AbortedReadAnomaly",
                  "shortDescription": {"text": "TAP-b (dirty read)"},
                  "fullDescription": {"text": "A read returned a value whose only writer aborted."},
                  "help": {
                    "text": "A read returned a value whose only writer aborted. Rules out: adya-read-committed, read-your-writes, monotonic-reads, monotonic-writes, writes-follow-reads. Source: Plume (Liu et al. 2024), Table 1."
                  },
                  "helpUri": "https://github.com/anomalist-db/anomalist/blob/main/docs/spec/anomalies.md#aborted-read",
                  "defaultConfiguration": {"level": "error"}
                },
                {
                  "id": "required-level-not-proven",
                  "name": "RequiredLevelNotProven",
                  "shortDescription": {
                    "text": "A required level is not decided, or is violated without an example."
                  },
                  "fullDescription": {
                    "text": "A required level is not decided, or is violated without an example."
                  },
                  "help": {"text": "What was required is not known to hold. The message has the reason."},
                  "helpUri": "https://github.com/anomalist-db/anomalist/blob/main/docs/ci.md"
                }
              ]
            }
          },
          "results": [
            {
              "ruleId": "aborted-read",
              "ruleIndex": 0,
              "level": "error",
              "message": {
                "text": "TAP-b (dirty read), once; rules out adya-read-committed, read-your-writes, monotonic-reads, monotonic-writes, writes-follow-reads.\nLet T1 = 1:1 (line 1, aborted), T2 = 2:1 (line 2).\n1. T2 read x = 1, which T1 wrote. T1 aborted, so no read should return it."
              },
              "locations": [
                {"physicalLocation": {"artifactLocation": {"uri": "h.txt"}, "region": {"startLine": 2}}}
              ],
              "relatedLocations": [
                {
                  "physicalLocation": {"artifactLocation": {"uri": "h.txt"}, "region": {"startLine": 1}},
                  "message": {"text": "transaction 1:1"}
                },
                {
                  "physicalLocation": {"artifactLocation": {"uri": "h.txt"}, "region": {"startLine": 2}},
                  "message": {"text": "transaction 2:1"}
                }
              ],
              "occurrenceCount": 1,
              "partialFingerprints": {"anomalist/v1": "d1a178c20ad59529"}
            }
          ]
        }
      ]
    }
    "#);
    let nasty = nasty();
    let log: Value = serde_json::from_str(&sarif(&[nasty.subject(), c.subject()])).unwrap();
    let run = &log["runs"][0];
    for result in run["results"].as_array().unwrap() {
        let rule = &run["tool"]["driver"]["rules"][result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!(rule["id"], result["ruleId"]);
    }
}

#[test]
fn dot_graph() {
    let c = example(AnomalyKind::NotReadYourWrites);
    insta::assert_snapshot!(dot(&c.history, c.anomaly(AnomalyKind::NotReadYourWrites)), @r##"
    digraph witness {
      label="RYW (own session's write lost)";
      labelloc=t;
      fontname="sans-serif";
      node [shape=box, style=rounded, fontname="monospace"];
      edge [fontname="sans-serif", fontsize=11];
      initial [label="initial state"];
      subgraph cluster_0 {
        label="session 1";
        color=gray;
        t0 [label="T1\n1:1, line 1\nw(x,1)"];
        t1 [label="T2\n1:2, line 2\nr(x,0)"];
      }
      t0 -> initial [label="cm x=1", color="#d6455d", fontcolor="#d6455d", penwidth=2];
      initial -> t0 [label="so", color="#2f9e62", fontcolor="#2f9e62", penwidth=2];
      t0 -> t1 [label="so", color="#2f9e62", fontcolor="#2f9e62", style=dashed];
      initial -> t1 [label="wr x=0", color="#3b82d6", fontcolor="#3b82d6", style=dashed];
    }
    "##);
    let nasty = nasty();
    let graph = dot(&nasty.history, &nasty.judgement.anomalies[0]);
    assert!(graph.contains("r(<k&\\\"'\\\\>,1)"), "{graph}");
}

#[test]
fn svg_is_well_formed_for_every_pattern() {
    for &kind in &AnomalyKind::ALL[..18] {
        let c = example(kind);
        for anomaly in &c.judgement.anomalies {
            let picture = svg(&c.history, anomaly);
            balanced(&picture);
            assert!(!picture.contains("NaN") && !picture.contains("\"inf"), "{kind}");
        }
    }
    let nasty = nasty();
    let picture = svg(&nasty.history, &nasty.judgement.anomalies[0]);
    balanced(&picture);
    assert!(picture.contains("w(&lt;k&amp;&quot;&apos;\\&gt;,1)"), "{picture}");
}

#[test]
fn a_small_picture() {
    let c = example(AnomalyKind::AbortedRead);
    let picture = svg(&c.history, c.anomaly(AnomalyKind::AbortedRead));
    let body: Vec<&str> = picture.lines().filter(|line| !line.starts_with("<style>")).collect();
    insta::assert_snapshot!(body.join("\n"), @r##"
    <svg xmlns="http://www.w3.org/2000/svg" class="anomalist" viewBox="0 0 426 280" width="426" height="280" role="img">
    <title>aborted-read: TAP-b (dirty read)</title>
    <defs>
    <marker id="anomalist-wr" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="#3b82d6"/></marker>
    </defs>
    <rect class="bg" width="426" height="280" rx="8"/>
    <text x="16" y="28" font-weight="bold" style="font-size:14px">aborted-read: TAP-b (dirty read)</text>
    <rect class="lane" x="16.0" y="48.0" width="189.9" height="190.0" rx="8"/><text class="dim" x="111.0" y="68.0" text-anchor="middle">session 1</text>
    <rect class="lane" x="277.7" y="48.0" width="132.3" height="190.0" rx="8"/><text class="dim" x="343.9" y="68.0" text-anchor="middle">session 2</text>
    <rect class="box" x="24.0" y="80.0" width="173.9" height="52.0" rx="6"/><text class="m" x="34.0" y="99.0" font-weight="bold">T1</text><text class="dim" x="55.9" y="99.0">1:1, line 1, aborted</text>
    <text class="m" x="34.0" y="119.0">w(x,1)</text>
    <rect class="box" x="285.7" y="174.0" width="116.3" height="52.0" rx="6"/><text class="m" x="295.7" y="193.0" font-weight="bold">T2</text><text class="dim" x="317.6" y="193.0">2:1, line 2</text>
    <text class="m" x="295.7" y="213.0">r(x,1)</text>
    <path class="arrow" d="M197.9,115.0 L233.8,115.0 Q241.8,115.0 241.8,123.0 L241.8,201.0 Q241.8,209.0 249.8,209.0 L285.7,209.0" fill="none" stroke="#3b82d6" stroke-width="2.6" marker-end="url(#anomalist-wr)"><title>wr x=1: T1 w(x,1) → T2 r(x,1)</title></path>
    <text class="label" x="268.7" y="165.5" text-anchor="middle" font-weight="bold" style="font-size:11px;fill:#3b82d6">wr x=1</text>
    <path d="M16.0,262.0 L40.0,262.0" stroke="#3b82d6" stroke-width="2.6"/><text class="dim" x="46.0" y="266.0">wr read from</text>
    </svg>
    "##);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let all = || {
        let c = example(AnomalyKind::ConflictCm);
        let (h, a) = (&c.history, &c.judgement.anomalies[0]);
        let s = [c.subject()];
        [json_text(&s), junit(&s), sarif(&s), github(&s), dot(h, a), svg(h, a), levels_json()]
    };
    assert_eq!(all(), all());
}

/// Every tag is closed, in order, attributes are quoted, and `<` and `&` occur only as markup.
fn balanced(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        for piece in text.split('&').skip(1) {
            assert!(
                ["amp;", "lt;", "gt;", "quot;", "apos;", "#13;"].iter().any(|e| piece.starts_with(e)),
                "{piece}"
            );
        }
        let end = at + rest[at..].find('>').expect("a tag that ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if tag.starts_with('?') {
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{xml}");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap_or_default());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(rest.trim().is_empty(), "{rest}");
}

/// The steps are the explanation, sentence by sentence, and refer to what is there.
#[test]
fn steps_are_the_explanation() {
    for history in ["w(x,1); w(x,2) w(y,1) || r(y,1) r(x,1)", "r(x,7)", "r(x,0) w(y,1) || r(y,0) w(x,1)"] {
        let c = checked(history);
        let document = crate::json(&[c.subject()]);
        for anomaly in document["anomalies"].as_array().unwrap() {
            let explanation = anomaly["explanation"].as_str().unwrap();
            for step in anomaly["steps"].as_array().unwrap() {
                assert!(explanation.contains(step["text"].as_str().unwrap()), "{step}: {explanation}");
                for place in step["operations"].as_array().unwrap() {
                    let of = anomaly["witness"]["transactions"].as_array().unwrap();
                    let t = of.iter().find(|t| t["alias"] == place[0]).unwrap();
                    assert!(t["operations"][place[1].as_u64().unwrap() as usize].is_object(), "{place}");
                }
            }
            assert!(!anomaly["steps"].as_array().unwrap().is_empty(), "{anomaly}");
        }
        assert!(!document["anomalies"].as_array().unwrap().is_empty(), "{history}");
    }
}
