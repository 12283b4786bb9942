//! `convert` and `generate` in every writable format: verdicts survive, losses are named, nothing is left
//! half-written.

mod support;

use support::{Scratch, anomalist, anomalist_with};

/// Formats that can express registers with initial values. AWDIT's has none, so it is tested on its own.
const FORMATS: [&str; 8] =
    ["plume", "dbcop", "cobra", "viper", "elle-edn", "elle-json", "elle-jsonl", "anomalist"];

/// The verdicts by level and the number of instances by kind.
fn verdicts(path: &str) -> Vec<(String, String)> {
    let document = anomalist(&["check", "--json", path]).expect(0).json();
    let pairs = |list: &str, name: &str, value: &str| -> Vec<(String, String)> {
        let entries = document[list].as_array().expect("an array");
        entries.iter().map(|e| (e[name].to_string(), e[value].to_string())).collect()
    };
    [pairs("levels", "level", "verdict"), pairs("anomalies", "kind", "count")].concat()
}

#[test]
fn conversion_preserves_verdicts_between_all_formats() {
    let scratch = Scratch::new("convert-all");
    for (seed, inject) in ["TAP-h", "TAP-k", "TAP-m", "G1c"].into_iter().enumerate() {
        let original = scratch.path(&format!("{inject}.txt"));
        let (seed, size) =
            (seed.to_string(), ["--sessions", "4", "--txns-per-session", "20", "--keys", "30"]);
        anomalist(&[&["generate", "--seed", &seed, "--inject", inject, "-o", &original], &size[..]].concat())
            .expect(0);
        let expected = verdicts(&original);
        for via in FORMATS {
            let converted = scratch.path(&format!("{inject}.{via}"));
            anomalist(&["convert", &original, &converted, "--to", via, "--lossy"]).expect(0);
            assert_eq!(verdicts(&converted), expected, "{inject} as {via}");
            // Initial values differ (0, nil, a marker); renaming them is all that is lost.
            for to in FORMATS {
                let again = scratch.path(&format!("{inject}.{via}.{to}"));
                anomalist(&["convert", &converted, &again, "--from", via, "--to", to, "--lossy"]).expect(0);
                assert_eq!(verdicts(&again), expected, "{inject} from {via} to {to}");
            }
        }
    }
}

#[test]
fn histories_are_generated_in_every_format() {
    let scratch = Scratch::new("generate-all");
    for format in FORMATS {
        let path = scratch.path(format);
        anomalist(&["generate", "--sessions", "3", "--txns-per-session", "9", "--to", format, "-o", &path])
            .expect(0);
        let document = anomalist(&["stats", "--json", &path]).expect(0).json();
        assert_eq!((&document["transactions"], &document["format"]), (&27.into(), &format.into()));
    }
}

#[test]
fn lists_and_timestamps_are_converted_between_the_formats_that_have_them() {
    let scratch = Scratch::new("convert-lists");
    let size = ["--sessions", "4", "--txns-per-session", "30", "--keys", "10", "--ops-per-txn", "4"];
    let lists = ["elle-edn", "elle-json", "elle-jsonl", "anomalist"];
    let stamped = ["timekiller", "anomalist"];
    let cases = [
        ("list-append", "incompatible-order", &lists[..]),
        ("list-append", "TAP-k", &lists[..]),
        ("timestamped", "EXT", &stamped[..]),
        ("timestamped-list", "TAP-h", &stamped[..]),
    ];
    for (kind, inject, formats) in cases {
        let original = scratch.path(&format!("{kind}-{inject}"));
        anomalist(&[&["generate", "--kind", kind, "--inject", inject, "-o", &original], &size[..]].concat())
            .expect(0);
        let expected = verdicts(&original);
        for to in formats {
            let converted = scratch.path(&format!("{kind}-{inject}.{to}"));
            anomalist(&["convert", &original, &converted, "--to", to]).expect(0);
            assert_eq!(verdicts(&converted), expected, "{kind} with {inject} to {to}");
        }
        let run = anomalist(&["convert", &original, &scratch.path("h.txt")]).expect(3);
        assert!(run.stderr().contains("plume cannot express"), "{}", run.stderr());
    }
}

#[test]
fn outcomes_and_real_time_are_generated_in_a_format_that_has_them() {
    let flags = ["--abort-ratio", "0.2", "--indeterminate-ratio", "0.2", "--real-time", "--sessions", "3"];
    for kind in ["register", "list-append"] {
        let generated = anomalist(&[&["generate", "--kind", kind], &flags[..]].concat()).expect(0);
        let document = anomalist_with(&["stats", "--json", "-"], &generated.stdout).expect(0).json();
        for outcome in ["aborted", "indeterminate"] {
            assert!(document[outcome].as_u64() > Some(60), "{kind} {outcome}: {document}");
        }
        assert_eq!(document["realtime"], true);
        anomalist_with(&["check", "-", "--level", "causal"], &generated.stdout).expect(0);
    }
}

#[test]
fn a_loss_is_named_and_leaves_no_file() {
    let scratch = Scratch::new("loss");
    let aborted = scratch.path("h.bincode");
    let make = ["generate", "--abort-ratio", "0.5", "--sessions", "2", "--txns-per-session", "10"];
    anomalist(&[&make[..], &["--to", "dbcop", "-o", &aborted]].concat()).expect(0);
    let target = scratch.path("h.txt");
    let run = anomalist(&["convert", &aborted, &target, "--to", "plume"]).expect(3);
    assert!(run.stderr().contains("aborted transactions"), "{}", run.stderr());
    assert!(run.stderr().contains("--lossy"), "{}", run.stderr());
    anomalist(&[&make[..], &["--to", "plume", "-o", &target]].concat()).expect(3);
    assert_eq!(scratch.names(), ["h.bincode"]);
    anomalist(&["convert", &aborted, &target, "--lossy"]).expect(0);
    assert_eq!(scratch.names(), ["h.bincode", "h.txt"]);
}

#[test]
fn standard_streams_and_file_names() {
    let scratch = Scratch::new("streams");
    let history = b"w(1,1,0,0)\nr(1,1,1,1)\n";
    let awdit = anomalist_with(&["convert", "-", "-", "--to", "awdit"], history).expect(0);
    let back =
        anomalist_with(&["convert", "-", "-", "--from", "awdit", "--to", "plume"], &awdit.stdout).expect(0);
    assert_eq!(back.text().lines().count(), 2, "{}", back.text());
    let run = anomalist_with(&["convert", "-", "-"], history).expect(3);
    assert!(run.stderr().contains("--to"), "{}", run.stderr());
    let packed = scratch.path("h.bincode.gz");
    anomalist_with(&["convert", "-", &packed], history).expect(0);
    assert_eq!(anomalist(&["stats", "--json", &packed]).expect(0).json()["format"], "dbcop");
    anomalist_with(&["convert", "-", "-", "--to", "cobra"], history).expect(3);
    anomalist_with(&["convert", "-", &scratch.path("no/such/folder/h.txt")], history).expect(3);
    anomalist_with(&["convert", "-", "/dev/null", "--to", "plume"], history).expect(0);
}

#[test]
fn timestamps_asked_for_are_not_dropped_silently() {
    let size = ["--sessions", "2", "--txns-per-session", "5"];
    let run =
        anomalist(&[&["generate", "--kind", "timestamped", "--to", "plume"], &size[..]].concat()).expect(3);
    assert!(run.stderr().contains("timestamps"), "{}", run.stderr());
    anomalist(&[&["generate", "--kind", "timestamped", "--to", "plume", "--lossy"], &size[..]].concat())
        .expect(0);
    // A shape's timestamps were not asked for.
    anomalist(&[&["generate", "--shape", "W2", "--to", "plume"], &size[..]].concat()).expect(0);
}
