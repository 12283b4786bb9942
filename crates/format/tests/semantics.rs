//! What the words of each format mean: initial values, aborts, versions, sessions, and which format it is.
#![allow(clippy::unwrap_used)]

mod common;

use anomalist_format::{Format, Input, Loaded, ReadOptions};
use anomalist_history::{FaultKind, History, Indexed, Outcome};
use common::{bad, fresh_folder, good, model, read};

fn faults(h: &History) -> Vec<FaultKind> {
    Indexed::new(h, 1.try_into().unwrap()).index().faults().iter().map(|fault| fault.kind).collect()
}

fn counts(h: &History) -> (usize, usize, usize) {
    (h.session_count(), h.txn_count(), h.op_count())
}

fn with_initial(format: Format, bytes: &[u8], initial: &str) -> Loaded {
    let options = ReadOptions { format: Some(format), initial: Some(initial), ..ReadOptions::default() };
    anomalist_format::read(Input::from_bytes("h", bytes.to_vec()), &options).unwrap()
}

#[test]
fn plume_zero_is_the_initial_value() {
    assert_eq!(faults(&good(Format::Plume, b"r(1,0,1,1)").history), []);
    assert_eq!(faults(&good(Format::Plume, b"r(1,7,1,1)").history), [FaultKind::ThinAir]);
    assert_eq!(faults(&with_initial(Format::Plume, b"r(1,7,1,1)", "7").history), []);
    assert_eq!(faults(&with_initial(Format::Plume, b"r(1,0,1,1)", "none").history), [FaultKind::ThinAir]);
    let options = ReadOptions { initial: Some("zero"), ..ReadOptions::default() };
    let error = anomalist_format::read(Input::from_bytes("h", b"r(1,7,1,1)".to_vec()), &options).unwrap_err();
    assert!(error.to_string().starts_with("error: initial value: cannot read"), "{error}");
}

#[test]
fn a_byte_order_mark_is_no_content() {
    for (format, text) in [
        (Format::Plume, "w(1,1,1,1)\n"),
        (Format::Awdit, "w 1 1\n"),
        (Format::Anomalist, "{\"session\":1,\"ops\":[]}\n"),
        (Format::ElleEdn, "{:type :ok, :process 1, :value [[:w :x 5]]}\n"),
    ] {
        let loaded = read(None, format!("\u{feff}{text}").as_bytes(), false).unwrap();
        assert_eq!((loaded.format, loaded.history.txn_count()), (format, 1));
    }
}

#[test]
fn a_key_is_a_list_or_a_register() {
    let text = b"{\"session\":1,\"ops\":[[\"w\",\"x\",5]]}\n{\"session\":2,\"ops\":[[\"append\",\"x\",1]]}\n";
    assert_eq!(
        bad(Format::Anomalist, text),
        "error: h:2:1: key x is appended to here, and written as a register on line 1\n  help: use different keys for lists \
         and for registers"
    );
    let text = b"{\"session\":1,\"ops\":[[\"r\",\"x\",[5]]]}\n{\"session\":2,\"ops\":[[\"w\",\"x\",5]]}\n";
    assert!(
        bad(Format::Anomalist, text)
            .contains("h:1:1: key x is read as a list here, and written as a register on line 2")
    );
    let elle =
        b"{:type :ok, :process 1, :value [[:append :x 1]]}\n{:type :ok, :process 2, :value [[:w :x 5]]}\n";
    assert!(bad(Format::ElleEdn, elle).contains("and written as a register"));
    let both = b"{\"session\":1,\"ops\":[[\"w\",\"x\",5],[\"append\",\"y\",1],[\"r\",\"y\",[1]]]}\n";
    assert_eq!(counts(&good(Format::Anomalist, both).history), (1, 1, 3));
}

#[test]
fn an_interval_ends_after_it_begins() {
    let text = b"{\"session\":1,\"ops\":[],\"invoked\":3,\"completed\":3}\n{\"session\":1,\"ops\":[],\"invoked\":5,\"completed\":2}\n";
    let message = bad(Format::Anomalist, text);
    assert!(message.starts_with("error: h:2:1: \"completed\" (2) is before \"invoked\" (5)"), "{message}");
}

/// Who wrote a value may be in the part that is missing.
#[test]
fn a_cut_invents_no_thin_air_reads() {
    let whole = b"r 1 7\nr 2 9\n-----\nw 2 9\n=====\nw 1 7\n";
    assert_eq!(faults(&good(Format::Awdit, whole).history), []);
    let cut = read(Some(Format::Awdit), b"r 1 7\nr 2 9\n-----\nw 2 9\n=====\nw 1", true).unwrap();
    assert_eq!(faults(&cut.history), []);
    let warnings: Vec<String> = cut.warnings.iter().map(|w| w.message.clone()).collect();
    let expected = "1 read of a value without a writer in the remaining part: the results are ignored";
    assert!(warnings.iter().any(|w| w == expected), "{warnings:?}");
}

#[test]
fn a_first_transaction_that_loads_initial_values_is_the_initial_state() {
    let read = |text: &str| counts(&good(Format::Plume, text.as_bytes()).history);
    assert_eq!(read("w(1,0,0,0)\nw(2,0,0,0)\nr(1,0,1,1)\n"), (1, 1, 1));
    // It writes something else, it is not alone in its session, it is not the first, it is all there is, it
    // reads.
    assert_eq!(read("w(1,1,0,0)\nr(1,1,1,1)\n"), (2, 2, 2));
    assert_eq!(read("w(1,0,0,0)\nr(1,0,0,1)\n"), (1, 2, 2));
    assert_eq!(read("r(1,0,1,1)\nw(1,0,0,0)\n"), (2, 2, 2));
    assert_eq!(read("w(1,0,0,0)\n"), (1, 1, 1));
    assert_eq!(read("w(1,0,0,0)\nr(1,0,0,0)\nr(1,0,1,1)\n"), (2, 2, 3));
    assert_eq!(read("w(1,0,0,-1)\nr(1,0,1,1)\n"), (2, 2, 2));
}

#[test]
fn plume_lines_of_transactions_may_interleave() {
    let text = b"w(1,1,7,30)\r\nw(2,1,5,20)\n\nr(2,1,7,30)   \nw(3,1,5,10)\nr(1,1,5,20)\n";
    let h = good(Format::Plume, text).history;
    assert_eq!(
        model(&h),
        "session\n  Committed Write 1=1 Read 2=1\nsession\n  Committed Write 2=1 Read 1=1\n  Committed Write 3=1\n\
         1 Some(\"0\")\n2 Some(\"0\")\n3 Some(\"0\")"
    );
    let named: Vec<_> = h.txns().map(|t| (h.txn_name(t), h.line(t).unwrap(), h.position(t))).collect();
    let expected = [("30", 1, 0), ("20", 2, 1), ("10", 5, 2)];
    assert_eq!(named, expected.map(|(name, line, position)| (name.to_owned(), line, position)));
}

#[test]
fn plume_the_first_line_decides_the_session() {
    let loaded = good(Format::Plume, b"w(1,1,7,30)\nw(2,1,8,30)\nw(3,1,9,30)\n");
    assert_eq!(counts(&loaded.history), (1, 1, 3));
    assert_eq!(
        loaded.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "warning: h:2:1: transaction 30 began in another session, which it keeps; session 8 is ignored here\n  \
          2 | w(2,1,8,30)\n    | ^"
        ]
    );
}

#[test]
fn plume_aborted_lines_are_transactions_of_their_own() {
    let h = good(Format::Plume, b"w(1,1,7,-1)\nw(1,2,7,-1)\nr(1,2,7,-1)\nr(1,2,8,1)\n").history;
    let outcomes: Vec<_> = h.txns().map(|t| (h.outcome(t), h.line(t).unwrap())).collect();
    assert_eq!(outcomes, [(Outcome::Aborted, 1), (Outcome::Aborted, 2), (Outcome::Committed, 4)]);
    assert_eq!(faults(&h).len(), 1);
}

#[test]
fn plume_threads_change_nothing() {
    let mut text = String::new();
    for i in 0..300_000u64 {
        let (txn, key) = (i / 3, i.wrapping_mul(2_654_435_761) % 50_000);
        text +=
            &format!("{}({key},{i},{},{})\n", if i % 2 == 0 { 'w' } else { 'r' }, txn % 7, txn * 1_000_003);
        if i % 1000 == 0 {
            text += &format!("w({key},{i},9,-1)\n\n");
        }
    }
    let load = |text: &str, threads: usize| {
        let options = ReadOptions { threads: threads.try_into().unwrap(), ..ReadOptions::default() };
        anomalist_format::read(Input::from_bytes("h", text.as_bytes().to_vec()), &options)
    };
    let alone = load(&text, 1).unwrap().history;
    let lines: Vec<_> = alone.txns().map(|t| alone.line(t)).collect();
    for threads in [2, 5] {
        let h = load(&text, threads).unwrap().history;
        assert_eq!((h.heads(), h.values()), (alone.heads(), alone.values()));
        assert_eq!(h.txns().map(|t| h.line(t)).collect::<Vec<_>>(), lines);
    }
    // The line of a late mistake does not depend on them either.
    let damaged = text.clone() + "w(1,2,3,4\n" + &text;
    let line = text.lines().count() + 1;
    for threads in [1, 2, 3] {
        let error = load(&damaged, threads).unwrap_err().to_string();
        assert!(error.starts_with(&format!("error: h:{line}:10: expected \")\"")), "{error}");
    }
}

#[test]
fn lossy_keeps_the_beginning() {
    for (format, bytes) in [
        (Format::Plume, &b"w(1,1,1,1)\nr(1,1,1,2)\nw(1,2"[..]),
        (Format::Awdit, b"w 1 1\n-\nr 1 1\n-\nr 1"),
        (Format::Viper, b"{\"value\": [[\"w\", 1, 1, true]]}\n{\"value\": [[\"r\", 1, 1, false]]}\n{\"val"),
    ] {
        bad(format, bytes);
        let loaded = read(Some(format), bytes, true).unwrap();
        assert_eq!(counts(&loaded.history), (1, 2, 2), "{}", format.name());
        assert!(loaded.warnings[0].to_string().starts_with("warning: h:"), "{:?}", loaded.warnings);
    }
}

#[test]
fn awdit_separators_may_be_anywhere() {
    let h = good(Format::Awdit, b"==\nw 0 0=-=w 1 1 -- r 1 1\r\n=====\n\n").history;
    let expected = "session\n  Committed Write 0=0\nsession\n  Committed Write 1=1\n  Committed Read 1=1\n0 None\n1 None";
    assert_eq!(model(&h), expected);
    assert_eq!(faults(&good(Format::Awdit, b"r 1 0").history), [FaultKind::ThinAir]);
}

fn dbcop_txn(events: &[(bool, u64, u64, bool)], success: bool) -> Vec<u8> {
    let mut bytes = (events.len() as u64).to_le_bytes().to_vec();
    for &(write, key, value, success) in events {
        bytes.push(u8::from(write));
        bytes.extend([key, value].iter().flat_map(|n| n.to_le_bytes()));
        bytes.push(u8::from(success));
    }
    bytes.push(u8::from(success));
    bytes
}

fn dbcop_file(sessions: &[&[Vec<u8>]]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes.extend((sessions.len() as u64).to_le_bytes());
    for session in sessions {
        bytes.extend((session.len() as u64).to_le_bytes());
        bytes.extend(session.concat());
    }
    bytes
}

#[test]
fn dbcop_flags_and_initial_values() {
    let load = dbcop_txn(&[(true, 1, 0, true), (true, 2, 0, true)], true);
    let aborted = dbcop_txn(&[(true, 1, u64::MAX, true)], false);
    let reader = dbcop_txn(&[(false, 1, u64::MAX, true), (false, 2, 0, true), (true, 1, 9, false)], true);
    let h = good(Format::Dbcop, &dbcop_file(&[std::slice::from_ref(&load), &[aborted, reader.clone()], &[]]))
        .history;
    assert_eq!(
        model(&h),
        "session\n  Aborted Write 1=18446744073709551615\n  Committed Read 1=18446744073709551615 Read 2=0\n\
         1 Some(\"0\")\n2 Some(\"0\")"
    );
    // Not alone in its session: an ordinary transaction.
    assert_eq!(counts(&good(Format::Dbcop, &dbcop_file(&[&[load, reader]])).history), (1, 2, 4));
}

#[test]
fn dbcop_lossy_forgets_the_transaction_that_was_cut() {
    let whole = dbcop_txn(&[(true, 1, 1, true)], true);
    let mut bytes = dbcop_file(&[&[whole.clone(), whole]]);
    bytes.truncate(bytes.len() - 3);
    let loaded = read(Some(Format::Dbcop), &bytes, true).unwrap();
    assert_eq!(counts(&loaded.history), (1, 1, 1));
    assert_eq!(loaded.warnings.len(), 1);
}

fn cobra(records: &[(u8, &[i64])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (tag, numbers) in records {
        bytes.push(*tag);
        bytes.extend(numbers.iter().flat_map(|n| n.to_be_bytes()));
    }
    bytes
}

#[test]
fn cobra_versions() {
    let log = cobra(&[
        (b'S', &[1]),
        (b'W', &[5, 7, -8]),
        (b'R', &[0xbebe_ebee, 0xbebe_ebee, 3, 77]),
        (b'R', &[0xdead_beef, 0xdead_beef, 3, 0]),
        (b'C', &[1]),
        (b'S', &[2]),
        (b'W', &[5, 7, -8]),
        (b'R', &[1, 5, 7, -8]),
        (b'R', &[99, 6, 7, -8]),
        (b'A', &[2]),
        (b'S', &[3]),
    ]);
    let loaded = good(Format::Cobra, &log);
    let nil = "3 Some(\"nil\")\n7 Some(\"nil\")";
    assert_eq!(
        model(&loaded.history),
        format!(
            "session\n  Committed Write 7=5 Read 3=nil Read 3=nil\n  Aborted Write 7=2.5 Read 7=5 Read 7=6\n  Indeterminate\n{nil}"
        )
    );
    assert!(
        loaded.warnings[0].to_string().contains("the log ends before transaction 3 does"),
        "{:?}",
        loaded.warnings
    );
    let universal = cobra(&[
        (b'S', &[1]),
        (b'W', &[0xabdd_efee, 7, 70]),
        (b'C', &[1]),
        (b'S', &[2]),
        (b'R', &[0xabdd_efee, 0xabdd_efee, 7, 70]),
        (b'C', &[2]),
    ]);
    let h = good(Format::Cobra, &universal).history;
    assert_eq!(model(&h), "session\n  Committed Write 7=70\n  Committed Read 7=70\n7 Some(\"nil\")");
}

#[test]
fn cobra_lossy_keeps_a_cut_transaction_as_indeterminate() {
    let log = cobra(&[(b'S', &[1]), (b'W', &[5, 7, 8]), (b'W', &[6, 7, 8])]);
    let loaded = read(Some(Format::Cobra), &log[..log.len() - 2], true).unwrap();
    assert_eq!(model(&loaded.history), "session\n  Indeterminate Write 7=5\n7 Some(\"nil\")");
    assert_eq!(loaded.warnings.len(), 2);
}

#[test]
fn viper_initial_values() {
    let text = br#"{"value": [["r", 1, 10, false], ["r", 1, 11, false], ["r", 2, 20, false], ["w", 2, 20, true]]}
{"value": [["w", 3, 30, false], ["d", 4, true], ["i", 4, 40, true], ["range", 1, 9, [{"id": 4, "val": 40}], []]]}
"#;
    let h = good(Format::Viper, text).history;
    assert_eq!(
        model(&h),
        "session\n  Committed Read 1=10 Read 1=11 Read 2=20 Write 2=20\n  Committed Write 4=nil Write 4=40 Read 4=40\n\
         1 Some(\"10\")\n2 None\n4 None"
    );
    let explicit = br#"{"value": [["r", 1, 10, false], ["r", 2, 20, false]]}
{"value": [["w", 2, 20, true]], "isInitial": true}"#;
    assert_eq!(faults(&good(Format::Viper, explicit).history), [FaultKind::ThinAir]);
    let h = with_initial(Format::Viper, br#"{"value": [["r", 1, 10, false]]}"#, "null").history;
    assert_eq!(faults(&h), [FaultKind::ThinAir]);
}

#[test]
fn folders_are_recognised_by_their_logs() {
    let folder = fresh_folder();
    let log = |n: i64| cobra(&[(b'S', &[n]), (b'W', &[n, 1, n]), (b'C', &[n])]);
    for n in [10, 2, 1] {
        std::fs::write(folder.join(format!("T{n}.log")), log(n)).unwrap();
    }
    std::fs::write(folder.join("T0.log"), b"").unwrap();
    std::fs::write(folder.join("T3.debug"), b"nothing to see").unwrap();
    let open = || anomalist_format::read(Input::open(&folder).unwrap(), &ReadOptions::default());
    let loaded = open().unwrap();
    assert_eq!(loaded.format, Format::Cobra);
    let names: Vec<_> = loaded
        .history
        .sessions()
        .map(|s| loaded.history.show(loaded.history.session_label(s)).to_string())
        .collect();
    assert_eq!(names, ["1", "2", "10"]);
    for n in [0, 1, 2, 10] {
        std::fs::remove_file(folder.join(format!("T{n}.log"))).unwrap();
    }
    assert!(open().unwrap_err().to_string().contains("the folder has no file named *.log"));
    std::fs::write(folder.join("J1.log"), br#"{"value": [["r", 1, 10, false]]}"#).unwrap();
    assert_eq!(open().unwrap().format, Format::Viper);
    std::fs::write(folder.join("J1.log"), b"12:00 started").unwrap();
    assert!(open().unwrap_err().to_string().contains("unknown format"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn progress_of_a_folder_is_that_of_all_its_logs() {
    let folder = fresh_folder();
    for n in 0..3 {
        std::fs::write(folder.join(format!("T{n}.log")), cobra(&[(b'S', &[n]), (b'C', &[n])])).unwrap();
    }
    let seen = std::sync::Mutex::new(Vec::new());
    let progress = |bytes| {
        seen.lock().unwrap().push(bytes);
        true
    };
    let options = ReadOptions { progress: Some(&progress), ..ReadOptions::default() };
    anomalist_format::read(Input::open(&folder).unwrap(), &options).unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.is_sorted() && seen.last() == Some(&54), "{seen:?}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn sessions_are_not_confused_by_names_that_look_alike() {
    let mut b = anomalist_history::Builder::new();
    let zero = b.int(0);
    b.set_initial_default(Some(zero));
    let (one, text) = (b.int(1), b.atom(anomalist_history::AtomKind::Text, "1"));
    for label in [one, text] {
        let session = b.session(label);
        let draft = b.transaction(session);
        let key = b.key(one);
        b.op(draft, anomalist_history::OpKind::Read, key, zero);
    }
    let history = b.finish().unwrap();
    for format in [Format::Plume, Format::Dbcop, Format::Cobra, Format::Viper] {
        let h = common::through(format, &[&history], false).unwrap().history;
        assert_eq!(counts(&h), (2, 2, 2), "{}", format.name());
    }
}
