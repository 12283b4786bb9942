//! Tests of Elle's notations.

use super::{sniff_edn, sniff_json, sniff_jsonl};
use crate::testing::{corpus, describe, read_bytes, survives, written};
use crate::text::edn::{Edn, Token};
use crate::{Format, Loaded, ReadError, ReadOptions};
use anomalist_history::{History, Outcome};
use std::collections::BTreeSet;

/// The transactions without labels and times, and which of them ended before which began.
fn orders(h: &History) -> (Vec<String>, BTreeSet<(String, String)>) {
    let text = |t| {
        let ops: Vec<_> = h
            .ops(t)
            .map(|(_, o)| format!("{:?} {} {}", o.kind, h.show_key(o.key), h.show(o.value)))
            .collect();
        format!("{} {:?} {ops:?}", h.show(h.session_label(h.session_of(t))), h.outcome(t))
    };
    let texts: Vec<String> = h.txns().map(text).collect();
    let times = h.intervals().unwrap_or_default();
    let ends = times.iter().zip(&texts).filter_map(|(time, text)| Some((time.completed?, text)));
    let pairs = ends.flat_map(|(end, a)| {
        let later = times.iter().zip(&texts).filter(move |(time, _)| end < time.invoked);
        later.map(move |(_, b)| (a.clone(), b.clone()))
    });
    (texts.clone(), pairs.collect())
}

fn read(format: Format, text: &str) -> Result<Loaded, ReadError> {
    read_bytes("h", text.as_bytes(), format, &ReadOptions::default())
}

fn shown(format: Format, text: &str) -> String {
    match read(format, text) {
        Ok(loaded) => {
            let warnings: String = loaded.warnings.iter().map(|w| format!("{w}\n")).collect();
            describe(&loaded.history, true) + &warnings
        }
        Err(error) => error.to_string(),
    }
}

const EDN: &str = r#"; a comment
#jepsen.history.Op{:index 0, :type :invoke, :process 0, :f :txn, :value [[:append :x 1] [:r :y nil]], :time 3}
{:index 1 :type :invoke :process 1 :value ((:append :y 2) [:r [1 :b] nil])} #_ {:gone [1 2]}
{:index 2 :type :info :process :nemesis :f :start :value {"n1" #{1 2}}}
{:index 4 :type :ok :process 0 :f :txn :value [[:append :x 1] [:r :y [2]]]}
{:index 5 :type :info :process 1 :value [[:append :y 2] [:r [1 :b] [7 "s"]]] :error [:timeout "x"]}
{:index 6 :type :invoke :process 0 :value [[:r :z nil] [:append :x 3N]]}
{:index 7 :type :fail :process 0 :value [[:r :z nil] [:append :x 3]]}
{:index 8 :type :invoke :process 0 :value [[:r :z nil] [:r :y]]}
{:index 9 :type :ok :process 0 :value [[:r :z nil] [:r :y]]}
{:index 10 :type :invoke :process 2 :value [[:append :x 99999999999999999999]]}
"#;

const JSON: &str = r#"{"index":0,"type":"invoke","process":0,"value":[["w","x",1],["r","y",null]]}
{"index":1,"type":"ok","process":0,"f":"txn","value":[["w","x",1],["r","y",null]]}
{"index":2,"type":"invoke","process":1,"value":[["r","x",null],["w","y","\u00e9\n"]]}
{"index":3,"type":"invoke","process":0,"value":[["r","x",null]],"error":{"a":[1,{}]}}
{"index":4,"type":"ok","process":0,"value":[["r","x",1.5]]}
{"index":9,"type":"info","process":1,"value":null}
"#;

#[test]
fn edn_events_become_transactions() {
    assert_eq!(
        shown(Format::ElleEdn, EDN),
        "0 #4 ok a(:x,1) r(:y,[2]) [0-3]\n\
         1 #5 info a(:y,2) r([1 :b],[7 s]) [1-?]\n\
         0 #7 fail r(:z,?) a(:x,3) [5-6]\n\
         0 #9 ok r(:z,[]) r(:y,[]) [7-8]\n\
         2 #10 info a(:x,99999999999999999999) [9-?]\n\
         warning: h:4:1: one operation of a process that is not an integer (nemesis): skipped\n"
    );
    let vector = format!("[{EDN}]");
    assert_eq!(shown(Format::ElleEdn, &vector).lines().take(5).count(), 5);
}

#[test]
fn json_events_become_transactions() {
    let expected =
        "0 #1 ok w(x,1) r(y,nil*) [0-1]\n0 #4 ok r(x,1.5) [3-4]\n1 #9 info r(x,?) w(y,é\\n) [2-?]\n";
    assert_eq!(shown(Format::ElleJsonl, JSON), expected);
    let array = format!("[{}]", JSON.trim_end().replace("}\n{", "},\n{"));
    assert_eq!(shown(Format::ElleJson, &array), expected);
}

#[test]
fn nil_means_what_its_key_holds() {
    // Key 1 turns out to be a list, 2 a register, of 3 nothing is ever known: the file has lists.
    let text = r#"{:type :ok :process 0 :value [[:r 1 nil] [:r 2 nil] [:r 3 nil]]}
{:type :info :process 0 :value [[:r 1 nil] [:r 2 nil]]}
{:type :ok :process 1 :value [[:append 1 1] [:w 2 2] [:w 4 nil]]}
{:type :ok :process 1 :value [[:r 1 nil] [:r 1 []] [:r 2]]}"#;
    assert_eq!(
        shown(Format::ElleEdn, text),
        "0 #0 ok r(1,[]) r(2,nil*) r(3,[])\n0 #1 info r(1,?) r(2,?)\n1 #2 ok a(1,1) w(2,2) w(4,nil*)\n1 #3 ok r(1,[]) r(1,[]) r(2,nil*)\n"
    );
    assert_eq!(shown(Format::ElleEdn, "{:type :ok :process 0 :value [[:r 1 nil]]}"), "0 #0 ok r(1,nil*)\n");
}

#[test]
fn vectors_in_registers_are_values() {
    // Read before it is known what the keys hold; key 3 is a list that was there before.
    let text = r#"{:type :ok :process 0 :value [[:r 1 [1 2]] [:r 2 [1 2]] [:r 3 [5]] [:r 1 []]]}
{:type :ok :process 1 :value [[:w 1 [1, 2]] [:append 2 1] [:w 1 []] [:append 2 2] [:w 1 ["a" :b]]]}
{:type :ok :process 1 :value [[:r 1 ["a" :b]]]}"#;
    let history = read(Format::ElleEdn, text).unwrap().history;
    let indexed = anomalist_history::Indexed::new(&history, std::num::NonZeroUsize::MIN);
    let thin_air =
        indexed.index().faults().iter().filter(|fault| fault.kind == anomalist_history::FaultKind::ThinAir);
    let keys: Vec<String> =
        thin_air.map(|fault| history.show_key(history.op(fault.op).key).to_string()).collect();
    assert_eq!(keys, ["3"]);
    let lists = history.values().iter().filter(|v| v.is_list()).count();
    assert_eq!(lists, 2);
}

#[test]
fn reading_can_be_cancelled() {
    let text = "{\"type\":\"ok\",\"process\":0,\"value\":[]}\n".repeat(100_000);
    let stop = |bytes: u64| bytes < 2_000_000;
    let options = ReadOptions { progress: Some(&stop), ..ReadOptions::default() };
    let read = read_bytes("h", text.as_bytes(), Format::ElleJsonl, &options);
    assert!(matches!(read, Err(ReadError::Cancelled)));
}

#[test]
fn odd_processes_give_warnings() {
    let nameless = r#"{:type :invoke :value [[:append 1 1]]} {:type :ok :value [[:append 1 1]]}
{:type :invoke :value [[:append 1 2]]} {:type :ok :value [[:r 1 [1]]]}"#;
    assert_eq!(
        shown(Format::ElleEdn, nameless),
        "?1 #1 ok a(1,1)\n?3 #3 ok r(1,[1])\n?2 #2 info a(1,2)\n\
         warning: h:1:1: 4 operations without a process: each transaction is taken as a session of its own\n\
         warning: h:2:1: one completion without an invocation: real-time order is not used\n"
    );
    let overlapping = r#"{:type :invoke :process 0 :value [[:w 1 1]]} {:type :invoke :process 0 :value [[:w 1 2]]}
{:type :ok :process 0 :value [[:w 1 2]]} {:type :ok :process 1 :value [[:r 1 2]]}"#;
    assert_eq!(
        shown(Format::ElleEdn, overlapping),
        "0 #0 info w(1,1)\n0 #2 ok w(1,2)\n1 #3 ok r(1,2)\n\
         warning: h:1:1: one operation was followed by another of its process before it completed: taken as indeterminate\n\
         warning: h:2:1: one completion without an invocation: real-time order is not used\n"
    );
}

#[test]
fn faults_are_pointed_at() {
    assert_eq!(
        shown(
            Format::ElleJsonl,
            "{\"type\":\"ok\",\"process\":0,\"value\":[]}\n{\"type\":\"ok\",\"process\":0,\"value\":[[\"cas\",1,2]]}\n"
        ),
        "error: h:2:36: expected the micro-operation r, w or append, found \"cas\"\n  \
         2 | {\"type\":\"ok\",\"process\":0,\"value\":[[\"cas\",1,2]]}\n    | \
         "
        .to_owned()
            + &" ".repeat(35)
            + "^"
    );
    assert_eq!(
        shown(Format::ElleEdn, "{:type :ok :process 0 :value [[:r 1 [1 2"),
        "error: h:1:41: expected a value or \"]\", found the end of the file\n  \
         1 | …pe :ok :process 0 :value [[:r 1 [1 2\n    | "
            .to_owned()
            + &" ".repeat(37)
            + "^ the file seems to be cut off"
    );
    let broken = "{\"type\":\"ok\",\"process\":0\n{\"type\":\"ok\",\"process\":0,\"value\":[]}\n";
    assert_eq!(
        shown(Format::ElleJsonl, broken).lines().next().unwrap(),
        "error: h:1:25: expected \",\" or \"}\", found the end of the line"
    );
    assert_eq!(
        shown(Format::ElleEdn, "; nothing\n"),
        "error: h: no transaction in this file (read as elle-edn)"
    );
    assert_eq!(shown(Format::ElleJson, "[]"), "error: h: no transaction in this file (read as elle-json)");
    let cut = "{\"type\":\"ok\",\"process\":0,\"value\":[[\"w\",1,1]]}\n{\"type\":\"ok\",\"proc";
    let options = ReadOptions { lossy: true, ..ReadOptions::default() };
    let loaded = read_bytes("h", cut.as_bytes(), Format::ElleJsonl, &options).unwrap();
    assert_eq!(loaded.history.txn_count(), 1);
    assert_eq!(
        loaded.warnings[0].to_string().lines().next().unwrap(),
        "warning: h:2:19: expected a closing double quote, found the end of the file; \
         ignored from here on"
    );
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    assert!(shown(Format::ElleJsonl, &deep).contains("more than 128 levels of nesting"));
    let deep = format!("{{:x {}", "[".repeat(100_000));
    assert!(shown(Format::ElleEdn, &deep).contains("more than 128 levels of nesting"));
    assert!(shown(Format::ElleEdn, &"#_".repeat(100_000)).contains("found the end of the file"));
}

#[test]
fn what_is_written_reads_back() {
    for (from, text) in [(Format::ElleEdn, EDN), (Format::ElleJsonl, JSON)] {
        let history = read(from, text).unwrap().history;
        for to in [Format::ElleEdn, Format::ElleJson, Format::ElleJsonl] {
            let lossy = from != to;
            let out = written(|sink| super::write::writer(to, sink, lossy), &[&history]).unwrap();
            let again = read(to, &out).unwrap();
            assert!(again.warnings.is_empty(), "{out}");
            if from == to {
                assert_eq!(orders(&again.history), orders(&history), "{out}");
            }
            // A second time nothing changes at all.
            let twice = written(|sink| super::write::writer(to, sink, false), &[&again.history]).unwrap();
            assert_eq!(twice, out);
        }
    }
    let jsonl = "{\"index\":4,\"type\":\"ok\",\"process\":7,\"f\":\"txn\",\"value\":[[\"w\",\"x\",1],[\"r\",2,null]]}\n\
                 {\"index\":9,\"type\":\"fail\",\"process\":7,\"f\":\"txn\",\"value\":[[\"w\",\"x\",2]]}\n";
    let history = read(Format::ElleJsonl, jsonl).unwrap().history;
    let out = written(|sink| super::write::writer(Format::ElleJsonl, sink, false), &[&history]);
    assert_eq!(out.unwrap(), jsonl);
}

#[test]
fn losses_are_named() {
    let history = read(Format::ElleEdn, EDN).unwrap().history;
    let error = written(|sink| super::write::writer(Format::ElleJson, sink, false), &[&history]).unwrap_err();
    assert_eq!(error.to_string(), "elle-json cannot express 4 keys that are not JSON values");
}

#[test]
fn anything_ends_with_a_history_or_a_diagnostic() {
    let array = format!("[{}]", JSON.trim_end().replace("}\n{", "},\n{"));
    for (format, text) in [(Format::ElleEdn, EDN), (Format::ElleJsonl, JSON), (Format::ElleJson, &array)] {
        survives(text.as_bytes(), &|text, lossy| {
            read_bytes("h", text, format, &ReadOptions { lossy, ..ReadOptions::default() })
        });
    }
}

#[test]
fn notations_are_told_apart() {
    assert!(sniff_edn(EDN.as_bytes()) && !sniff_json(EDN.as_bytes()) && !sniff_jsonl(EDN.as_bytes()));
    assert!(sniff_jsonl(JSON.as_bytes()) && !sniff_json(JSON.as_bytes()) && !sniff_edn(JSON.as_bytes()));
    assert!(sniff_json(format!(" [{JSON}").as_bytes()));
    assert!(!sniff_jsonl(br#"{"tid": 1, "sid": 2, "ops": []}"#));
}

#[test]
fn the_corpus_is_read() {
    for (name, format) in
        [("elle-edn", Format::ElleEdn), ("elle-json", Format::ElleJson), ("elle-jsonl", Format::ElleJsonl)]
    {
        for (id, text, [sessions, txns, ops]) in corpus(name) {
            let loaded = read_bytes(&id, &text, format, &ReadOptions::default())
                .unwrap_or_else(|e| panic!("{id}: {e}"));
            let h = &loaded.history;
            let sniffed = [sniff_edn(&text), sniff_json(&text), sniff_jsonl(&text)];
            assert_eq!(
                sniffed.iter().position(|&s| s),
                Some(["elle-edn", "elle-json", "elle-jsonl"].iter().position(|&n| n == name).unwrap()),
                "{id}"
            );
            // The index counts completions only, unless there are none, and the nemesis's too.
            let skipped = loaded.warnings.iter().find(|w| w.message.contains("skipped"));
            let skipped: usize =
                skipped.map_or(0, |w| w.message.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(1));
            let txns = txns - skipped;
            let open = h.txns().filter(|&t| {
                h.outcome(t) == Outcome::Indeterminate
                    && h.txn_count() > txns
                    && h.position(t) as usize >= txns
            });
            assert_eq!(h.txn_count() - open.count(), txns, "{id}");
            let nameless = loaded.warnings.iter().any(|w| w.message.contains("without a process"));
            if h.txn_count() == txns && skipped == 0 {
                assert_eq!(h.op_count(), ops, "{id}");
                assert!(nameless || h.session_count() == sessions, "{id}: {} sessions", h.session_count());
            }
            let out = written(|sink| super::write::writer(format, sink, false), &[h]).unwrap();
            let again = read_bytes(&id, out.as_bytes(), format, &ReadOptions::default()).unwrap().history;
            if !nameless && h.intervals().is_none() {
                assert_eq!(describe(&again, false), describe(h, false), "{id}");
            }
            if !nameless && h.txn_count() < 400 {
                assert_eq!(orders(&again), orders(h), "{id}");
            }
            assert_eq!((again.txn_count(), again.op_count()), (h.txn_count(), h.op_count()), "{id}");
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let (mut edn, mut all) = (Edn::new(text.as_bytes()), Vec::new());
    loop {
        match edn.next().map_err(|fault| format!("{}: {}", fault.at, fault.message))? {
            Token::End => return Ok(all),
            token => all.push(token),
        }
    }
}

#[test]
fn every_kind_of_token() {
    assert_eq!(
        tokens("[:a/b, nil true x -5 +5 7N 7M] ; no\n(1.5M 1/2 \\[ \\newline) #{\"a\\n\"} ##NaN").unwrap(),
        [
            Token::Open(b']'),
            Token::Keyword("a/b"),
            Token::Nil,
            Token::Bool(true),
            Token::Symbol("x".into()),
            Token::Int(-5),
            Token::Int(5),
            Token::Int(7),
            Token::Number("7M".into()),
            Token::Close(b']'),
            Token::Open(b')'),
            Token::Number("1.5M".into()),
            Token::Number("1/2".into()),
            Token::Symbol("\\[".into()),
            Token::Symbol("\\newline".into()),
            Token::Close(b')'),
            Token::Open(b'}'),
            Token::Text("a\n".into()),
            Token::Close(b'}'),
            Token::Symbol("##NaN".into()),
        ]
    );
}

#[test]
fn tags_and_discards_do_not_show() {
    let expected = [Token::Int(1), Token::Text("2020".into()), Token::Int(2)];
    assert_eq!(tokens("1 #_ [a #_ b {c d}] #inst \"2020\" #_ #_ x #t y #my/tag 2").unwrap(), expected);
    assert_eq!(tokens("[#inst ]").unwrap_err(), "7: expected a value after the tag, found \"]\"");
    assert_eq!(tokens("#_").unwrap_err(), "2: expected a value, found the end of the file");
    assert_eq!(tokens("-9223372036854775808").unwrap(), [Token::Int(i64::MIN)]);
    assert_eq!(tokens("-9223372036854775809N").unwrap(), [Token::Number("-9223372036854775809".into())]);
    assert_eq!(tokens("12a").unwrap_err(), "0: expected a number, found \"12a\"");
}

#[test]
fn what_clojure_prints_is_read() {
    let shown = |text| tokens(text).unwrap().iter().map(|t| format!("{t:?} ")).collect::<String>();
    assert_eq!(shown("[0x1F 017 2r101 31]"), "Open(93) Int(31) Int(15) Int(5) Int(31) Close(93) ");
    let object = "#object[java.lang.Object 0x1f \"java.lang.Object@1f\"]";
    assert!(shown(object).starts_with("Open(93) Symbol(\"java.lang.Object\") Int(31) Text("));
    assert_eq!(shown("^{:line 1} [1] ^:dynamic x ^String y #^:z 2"), shown("[1] x y 2"));
    assert_eq!(shown("#_ ^:a b 1 [^{:a [1]} #_ 2 3]"), shown("1 [3]"));
    assert_eq!(shown("#'user/x #\"a.b\""), shown("user/x \"a.b\""));
    assert_eq!(shown("\\u0061 \\o141 \\u0020 \\u \\o"), shown("\\a \\a \\space \\u \\o"));
    assert_eq!(tokens("[^:a ]").unwrap_err(), "5: expected a value after the tag, found \"]\"");
    assert_eq!(tokens("08").unwrap_err(), "0: expected a number, found \"08\"");
}

#[test]
fn equal_collections_have_one_text() {
    let text = |text: &str| {
        let mut edn = Edn::new(text.as_bytes());
        let first = edn.next().unwrap();
        edn.canonical(first).unwrap()
    };
    assert_eq!(text("[1,  :b ; c\n {\"x\" #{2}}]"), "[1 :b {\"x\" #{2}}]");
    let equal: [&[&str]; 4] = [
        &["[1 2]", "(1 2)", "[0x1 2N]", "^:m (1 #_ x 4/2)"],
        &["{:b 1.0, :a #{2 1}}", "{:a #{1 2} :b 1.00}"],
        &["{:n/a 1, :b 2}", "#:n{:a 1 :_/b 2}"],
        &["[100]", "[100N]"],
    ];
    for class in equal {
        assert!(class.iter().all(|other| text(other) == text(class[0])), "{class:?}");
    }
    for (a, b) in [("[100]", "[1e2]"), ("[1 2]", "#{1 2}"), ("[1 2]", "[2 1]"), ("{1 2}", "[1 2]")] {
        assert_ne!(text(a), text(b));
    }
    let json = |text: &str| crate::text::json::Json::new(text.as_bytes()).canonical().unwrap();
    assert_eq!(json(r#"{"b":[1e2,1.50],"a":{"y":1,"x":2}}"#), json(r#"{"a":{"x":2.0,"y":1},"b":[100,1.5]}"#));
}
