//! Recordings as Jepsen and Clojure write them: values that are equal in several spellings, run folders and
//! stores, independent keys, operations without a process, and lists whose keys are assumed to be
//! linearizable.

mod support;

use support::{Scratch, anomalist, anomalist_with};

fn check(history: &str, level: &str, status: i32) -> String {
    let run = anomalist_with(&["check", "-", "--level", level], history.as_bytes()).expect(status);
    run.text().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A write and a read of a register, as JSON lines.
fn json(written: &str, read: &str) -> String {
    format!(
        "{{\"type\":\"ok\",\"process\":0,\"f\":\"txn\",\"value\":[[\"w\",\"x\",{written}]]}}\n\
         {{\"type\":\"ok\",\"process\":1,\"f\":\"txn\",\"value\":[[\"r\",\"x\",{read}]]}}\n"
    )
}

/// The same in EDN, of a list.
fn edn(key: &str, other: &str, appended: &str, read: &str) -> String {
    format!(
        "{{:type :ok, :process 0, :f :txn, :value [[:append {key} {appended}]]}}\n\
         {{:type :ok, :process 1, :f :txn, :value [[:r {other} [{read}]]]}}\n"
    )
}

#[test]
fn json_values_are_equal_as_values() {
    for (written, read) in [
        (r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{"b":{"d":3,"c":2},"a":1}"#),
        ("1e2", "100"),
        ("1.0", "1.00"),
        ("100.0", "100"),
        ("[1.0,2]", "[1,2.0]"),
    ] {
        check(&json(written, read), "read-committed", 0);
    }
    check(&json("1.5", "1.25"), "read-committed", 1);
    check(&json(r#"{"a":1}"#, r#"{"a":2}"#), "read-committed", 1);
}

#[test]
fn edn_values_are_equal_as_in_clojure() {
    for (a, b) in [
        ("1.0", "1.00"),
        ("2/4", "1/2"),
        ("4/2", "2"),
        ("(1 2)", "[1 2]"),
        ("#{1 2}", "#{2 1}"),
        ("{:a 1, :b 2}", "{:b 2, :a 1}"),
        ("1.0M", "1.00M"),
        ("7N", "7"),
        ("0x1F", "31"),
        ("017", "15"),
        ("2r101", "5"),
        ("#:n{:a 1}", "{:n/a 1}"),
        ("\\u0061", "\\a"),
        ("^{:line 3} [1]", "[1]"),
    ] {
        check(&edn(":x", ":x", a, b), "read-committed", 0);
        check(&edn(a, b, "1", "1"), "read-committed", 0);
    }
    for (a, b) in [("100", "1e2"), ("100", "100M"), ("[1 2]", "#{1 2}"), ("17", "017")] {
        check(&edn(":x", ":x", a, b), "read-committed", 1);
    }
}

#[test]
fn what_clojure_prints_is_read() {
    let history = "{:type :invoke, :process 0, :f :txn, :value [[:append 1 1]], :time 0x1F}\n\
        ^{:m 1} {:type :ok, :process 0, :f :txn, :value nil, \
        :exception #object[java.lang.Exception 0x1a2b \"java.lang.Exception@1a2b\"]}\n\
        {\"type\" \"invoke\", \"process\" 1, \"f\" \"txn\", \"value\" [[\"r\" 1 nil]]}\n\
        {:type :ok, :process 1, :f :txn, :value [[:r 1 [1]]]}\n\
        {:type :ok, :process 2, :f :txn, :value []}\n";
    check(history, "serializable", 0);
    // Nothing but operations without a value are no transactions: a lock, say.
    let lock = "{:type :invoke, :process 0, :f :acquire, :value nil}\n\
        {:type :ok, :process 0, :f :acquire, :value nil}\n";
    check(lock, "serializable", 3);
}

const STALE: &str = "{:type :invoke, :process 0, :f :txn, :value [[:append 1 1]]}\n\
    {:type :ok, :process 0, :f :txn, :value [[:append 1 1]]}\n\
    {:type :invoke, :process 1, :f :txn, :value [[:r 1 nil]]}\n\
    {:type :ok, :process 1, :f :txn, :value [[:r 1 []]]}\n";

#[test]
fn a_stale_list_is_found_if_keys_are_linearizable() {
    let check = |history: &str, flag: &str, status| {
        let args = ["check", "-", "--level", "serializable", "--verify", flag];
        anomalist_with(&args, history.as_bytes()).expect(status)
    };
    check(STALE, "--wfr-keys", 0);
    check(STALE, "--sequential-keys", 0);
    assert!(check(STALE, "--linearizable-keys", 1).text().contains("cyclic-versions"));
    check(&STALE.replace("[:r 1 []]", "[:r 1 [1]]"), "--linearizable-keys", 0);
    // A transaction that reads its own append does not go back.
    let own = STALE
        .replace("[[:r 1 nil]]", "[[:append 1 2] [:r 1 nil]]")
        .replace("[[:r 1 []]]", "[[:append 1 2] [:r 1 [1 2]]]");
    check(&own, "--linearizable-keys", 0);
    // The longer list came first: what lists show contradicts what is assumed.
    let back = "{:type :invoke, :process 2, :f :txn, :value [[:append 1 2]]}\n\
        {:type :ok, :process 2, :f :txn, :value [[:append 1 2]]}\n\
        {:type :invoke, :process 0, :f :txn, :value [[:r 1 nil]]}\n\
        {:type :ok, :process 0, :f :txn, :value [[:r 1 [1 2]]]}\n\
        {:type :invoke, :process 0, :f :txn, :value [[:r 1 nil]]}\n\
        {:type :ok, :process 0, :f :txn, :value [[:r 1 [1]]]}\n";
    let history = format!("{}{back}", STALE.replace("[:r 1 []]", "[:r 1 [1]]"));
    assert!(check(&history, "--sequential-keys", 1).text().contains("cyclic-versions"));
}

#[test]
fn a_store_stands_for_its_runs() {
    let scratch = Scratch::new("jepsen-store");
    for (run, history) in [("t1", STALE.replace("[]]", "[1]]")), ("t2", STALE.to_owned())] {
        let folder = scratch.path(&format!("store/append/{run}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(format!("{folder}/history.edn"), history).unwrap();
        std::fs::write(format!("{folder}/test.jepsen"), b"JEPSEN").unwrap();
    }
    #[cfg(unix)]
    for link in ["store/latest", "store/append/latest"] {
        std::os::unix::fs::symlink(scratch.path("store/append/t2"), scratch.path(link)).unwrap();
    }
    let level = ["--level", "strict-serializable"];
    anomalist(&[&["check", &*scratch.path("store/append/t1")], &level[..]].concat()).expect(0);
    anomalist(&[&["check", &*scratch.path("store/append/t2")], &level[..]].concat()).expect(1);
    let run = anomalist(&[&["check", "--json", &*scratch.path("store")], &level[..]].concat()).expect(1);
    assert_eq!(run.json().as_array().map(Vec::len), Some(2));
    let run = anomalist(&["check", &scratch.path("store/append/t1/test.jepsen")]).expect(3);
    assert!(run.stderr().contains("use history.edn"));
}

const INDEPENDENT: &str = "{:type :invoke, :process 0, :f :write, :value [1 3]}\n\
    {:type :ok, :process 0, :f :write, :value [1 3]}\n\
    {:type :invoke, :process 0, :f :write, :value [2 5]}\n\
    {:type :ok, :process 0, :f :write, :value [2 5]}\n\
    {:type :invoke, :process 1, :f :cas, :value [1 [3 4]]}\n\
    {:type :ok, :process 1, :f :cas, :value [1 [3 4]]}\n\
    {:type :invoke, :process 1, :f :read, :value [1 nil]}\n\
    {:type :ok, :process 1, :f :read, :value [1 4]}\n";

#[test]
fn independent_keys_are_histories_of_their_own() {
    let run = |history: &str, status| {
        let args = ["check", "-", "--json", "--level", "strict-serializable"];
        anomalist_with(&args, history.as_bytes()).expect(status).json()
    };
    assert_eq!(run(INDEPENDENT, 0).as_array().map(Vec::len), Some(2));
    run(&INDEPENDENT.replace("[1 4]}\n", "[1 3]}\n"), 1);
}

#[test]
fn a_bank_names_what_it_read_and_who_may_have_torn_it() {
    let bank = "{:type :invoke, :process 0, :f :read, :value nil}\n\
        {:type :ok, :process 0, :f :read, :value {0 10, 1 10}}\n\
        {:type :invoke, :process 1, :f :transfer, :value {:from 0, :to 1, :amount 3}}\n\
        {:type :invoke, :process 0, :f :read, :value nil}\n\
        {:type :ok, :process 0, :f :read, :value {0 7, 1 10}}\n\
        {:type :ok, :process 1, :f :transfer, :value {:from 0, :to 1, :amount 3}}\n";
    let said = check(bank, "snapshot-isolation", 1);
    assert!(said.contains("r(account 0 at 4,7)") && said.contains("r(account 1 at 4,10)"), "{said}");
    assert!(said.contains(":amount 3"), "{said}");
}

#[test]
fn reads_by_predicate_are_proven_where_an_order_explains_them() {
    let history = "{:type :invoke, :process 0, :f :init, :value {1 0, 2 1}}\n\
        {:type :ok, :process 0, :f :init, :value {1 0, 2 1}}\n\
        {:type :invoke, :process 1, :f :txn, :value [[:w 1 3]]}\n\
        {:type :ok, :process 1, :f :txn, :value [[:w 1 3]]}\n\
        {:type :invoke, :process 2, :f :txn, :value [[:rp [:mod 2 1] nil]]}\n\
        {:type :ok, :process 2, :f :txn, :value [[:rp [:mod 2 1] {1 3, 2 1}]]}\n";
    check(history, "strict-serializable", 0);
    let nil = history.replace("[[:rp [:mod 2 1] {1 3, 2 1}]]", "[[:r 2 nil]]");
    check(&nil, "serializable", 1);
    let elle = |history: &str, status| {
        anomalist_with(&["elle", "-m", "closed-predicate", "-"], history.as_bytes()).expect(status)
    };
    assert!(elle(history, 0).text().ends_with("true\n"));
    assert!(elle(&nil, 1).text().ends_with("false\n"));
}

#[test]
fn extended_is_never_true_where_check_proves_a_violation() {
    let fractured = "{:type :invoke, :process 0, :f :txn, :value [[:w :x 1] [:w :y 1]]}\n\
        {:type :invoke, :process 1, :f :txn, :value [[:r :x nil] [:r :y nil]]}\n\
        {:type :ok, :process 0, :f :txn, :value [[:w :x 1] [:w :y 1]]}\n\
        {:type :ok, :process 1, :f :txn, :value [[:r :x 1] [:r :y nil]]}\n";
    let back = "{:type :ok, :process 0, :f :txn, :value [[:w :x 1]]}\n\
        {:type :ok, :process 0, :f :txn, :value [[:w :x 2]]}\n\
        {:type :ok, :process 0, :f :txn, :value [[:r :x 1]]}\n";
    let elle = |model: &str, history: &str, status| {
        let args = ["elle", "-m", "rw-register", "--extended", "-c", model, "-"];
        anomalist_with(&args, history.as_bytes()).expect(status)
    };
    elle("read-atomic", fractured, 1);
    elle("causal", back, 1);
    elle("read-your-writes", back, 1);
    elle("linearizable", back, 2);
    elle("read-your-writes", &back.replace("[:r :x 1]", "[:r :x 2]"), 0);
}

#[test]
fn every_unknown_has_a_reason() {
    let alone = "{:type :ok, :process 0, :f :txn, :value [[:append :x 1]]}\n";
    let run = anomalist_with(&["elle", "-m", "list-append", "-"], alone.as_bytes()).expect(2);
    assert!(run.stderr().contains("unknown: no transaction depends on any other"));
    let unread =
        "{:type :invoke, :process 0, :f :add, :value 1}\n{:type :ok, :process 0, :f :add, :value 1}\n";
    let elle = |model: &str, history: &str, status| {
        anomalist_with(&["elle", "-m", model, "-"], history.as_bytes()).expect(status)
    };
    elle("counter", unread, 0);
    assert!(elle("set", unread, 2).stderr().contains("unknown: the set was never read"));
    elle("cas-register", "{:type :invoke, :process 0, :f :write, :value 1}\n", 0);
    let stale = "{:type :invoke, :f :add, :value 1}\n{:type :ok, :f :add, :value 1}\n\
        {:type :invoke, :f :read, :value nil}\n{:type :ok, :f :read, :value 0}\n";
    elle("counter", stale, 1);
}

#[test]
fn the_phenomena_of_berenson_are_explained() {
    for (code, name) in
        [("P0", "dirty write"), ("p4", "lost update"), ("P4C", "cursor"), ("A5B", "write skew")]
    {
        assert!(anomalist(&["explain", code]).expect(0).text().contains(name), "{code}");
    }
}
