//! Pages of small histories: what they contain, and that nothing recorded can break out of them.

use crate::{Page, Run, html};
use anomalist_check::{Budget, Request, check};
use anomalist_history::{Builder, History, Indexed, OpKind};
use anomalist_level::Judgement;
use anomalist_report::{HistoryFacts, Subject};
use base64::Engine as _;
use serde_json::Value;
use std::io::Read;

fn judged(history: &History) -> Judgement {
    let indexed = Indexed::new(history, std::num::NonZeroUsize::MIN);
    check(&indexed, &Request::default(), &Budget::unlimited())
}

/// The page of a history.
fn page(history: &History) -> String {
    let judgement = judged(history);
    let facts = HistoryFacts::of(history, "h<b>.txt", "plume");
    let subject = Subject {
        history,
        facts: &facts,
        judgement: &judgement,
        timing: None,
        required: &[],
        declared: false,
        stopped: false,
    };
    html(&Page { title: "t".to_owned(), command: None, next: None, runs: vec![Run::of(&subject)] })
}

/// The document and the columns that a page carries.
fn carried(page: &str) -> (Value, Vec<u8>) {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    let text = rest.split_once("</script>").unwrap().0;
    let packed = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    (serde_json::from_slice(&bytes[4..4 + length]).unwrap(), bytes[4 + length..].to_vec())
}

/// A history with a fractured read, whose texts are `name`.
fn hostile(name: &str) -> History {
    let mut b = Builder::new();
    let text = b.atom(anomalist_history::AtomKind::Text, name);
    let (zero, one, two) = (b.int(0), b.int(1), b.int(2));
    b.set_initial_default(Some(zero));
    let (x, y) = (b.key(text), b.key(one));
    let (s, other) = (b.session(text), b.session(two));
    let writer = b.transaction(s);
    b.set_label(writer, text);
    b.op(writer, OpKind::Write, x, one);
    b.op(writer, OpKind::Write, y, one);
    let reader = b.transaction(other);
    b.op(reader, OpKind::Read, x, one);
    b.op(reader, OpKind::Read, y, zero);
    b.finish().unwrap()
}

#[test]
fn the_document_is_that_of_the_result() {
    let history = hostile("x");
    let page = page(&history);
    let (document, columns) = carried(&page);
    let run = &document["runs"][0];
    let judgement = judged(&history);
    let facts = HistoryFacts::of(&history, "h<b>.txt", "plume");
    let subject = Subject {
        history: &history,
        facts: &facts,
        judgement: &judgement,
        timing: None,
        required: &[],
        declared: false,
        stopped: false,
    };
    assert_eq!(run["result"], anomalist_report::json(&[subject]));
    assert_eq!(run["sentence"], anomalist_report::summary_sentence(&subject));
    assert_eq!(run["history"]["transactions"], 2);
    assert_eq!(run["history"]["carried"], 2);
    let places = run["history"]["columns"].as_object().unwrap();
    let ends = places.values().map(|p| p[0].as_u64().unwrap() + p[1].as_u64().unwrap());
    assert_eq!(ends.max(), Some(columns.len() as u64));
    assert!(!run["pictures"].as_array().unwrap().is_empty());
    // Without a script the page says the same.
    let unescaped =
        page.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    for anomaly in run["result"]["anomalies"].as_array().unwrap() {
        let explanation = anomaly["explanation"].as_str().unwrap();
        assert!(unescaped.contains(explanation) || anomaly["same_as"].is_string(), "{explanation}");
    }
}

#[test]
fn nothing_recorded_breaks_out() {
    for name in [
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\"'><b>",
        "a\u{2028}b\u{202e}c",
        "<!--<script>",
        "]]>",
    ] {
        let (usual, page) = (page(&hostile("x")), page(&hostile(name)));
        for tag in ["<script", "</script", "<img", "<b>", "<!--"] {
            assert_eq!(page.matches(tag).count(), usual.matches(tag).count(), "{tag} of {name:?}");
        }
        let hidden = |c: char| matches!(c, '\u{2028}' | '\u{202e}');
        assert!(!page.contains(hidden), "{name:?}");
        assert_eq!(carried(&page).0["runs"][0]["places"][name], 0, "{name:?}");
    }
}

#[test]
fn a_kept_result_needs_no_history() {
    let history = hostile("x");
    let (document, _) = carried(&page(&history));
    let result = document["runs"][0]["result"].clone();
    let run = Run::of_result(result.clone(), None).unwrap();
    let kept = html(&Page { title: "t".to_owned(), command: None, next: None, runs: vec![run] });
    let (again, columns) = carried(&kept);
    assert_eq!((&again["runs"][0]["result"], columns.len()), (&result, 0));
    assert_eq!(again["runs"][0]["sentence"], document["runs"][0]["sentence"]);
    assert_eq!(again["runs"][0]["ladder"], document["runs"][0]["ladder"]);
    let mut broken = result;
    broken["levels"][0]["level"] = "no-such-level".into();
    let error = Run::of_result(broken, None).unwrap_err();
    assert_eq!(error.to_string(), "\"no-such-level\" is no level");
    assert!(Run::of_result(Value::Null, None).is_err());
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    assert_eq!(page(&hostile("x")), page(&hostile("x")));
}

#[test]
fn the_policy_allows_exactly_the_script_and_the_style() {
    let page = page(&hostile("x"));
    let script = page.rsplit_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let policy =
        page.split_once("Content-Security-Policy\" content=\"").unwrap().1.split_once("\">").unwrap().0;
    assert!(policy.contains(&crate::hash(script)) && policy.contains(&crate::hash(style)), "{policy}");
    assert!(!policy.contains("unsafe") && policy.starts_with("default-src 'none'"), "{policy}");
}
