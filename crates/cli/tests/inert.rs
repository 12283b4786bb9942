//! What people read is inert: no key, value, name, level or file name of an input can command the terminal,
//! forge a line of a log or turn text around, at any command and in any format that can carry it.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use support::{Run, Scratch, anomalist_with};

/// A new line that looks like an annotation, terminal commands (C0, C1), direction overrides, separators.
const HOSTILE: &str = "k\n::error::forged\r\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\u{2028}\u{2029}\u{200f}\u{7f}";

fn is_hostile(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[track_caller]
fn is_inert(what: &str, run: &Run) {
    for text in [run.text(), run.stderr()] {
        let found = text.find(is_hostile).map(|at| &text[at..]);
        assert_eq!(found, None, "{what}");
        assert!(
            !text.lines().any(|line| line.trim_start().starts_with("::error::forged")),
            "{what}: {text:?}"
        );
    }
}

/// Two transactions that contradict each other, with hostile names wherever the format has a place for one.
fn histories(scratch: &Scratch) -> Vec<(String, &'static str)> {
    let h = serde_json::to_string(HOSTILE).unwrap();
    let line = |session: &str, id: &str, ops: &str, rest: &str| {
        format!("{{\"session\":{session},\"id\":{id},\"ops\":[{ops}]{rest}}}\n")
    };
    let session = |n: u32| serde_json::to_string(&format!("{HOSTILE}{n}")).unwrap();
    let level = format!(",\"meta\":{{\"level\":{h},{h}:{h}}}");
    let own = [
        line(&session(1), &session(10), &format!("[\"w\",{h},{}],[\"w\",\"y\",1]", session(1)), &level),
        line(&session(1), &session(11), &format!("[\"w\",{h},{}]", session(2)), ""),
        line(&session(2), &session(12), &format!("[\"r\",{h},{}]", session(2)), ""),
        line(&session(2), &session(13), &format!("[\"r\",{h},{}]", session(1)), &level),
        line(&session(3), &session(14), &format!("[\"r\",\"y\",{}]", session(7)), ""),
    ];
    let stamped: String = own
        .iter()
        .enumerate()
        .map(|(i, line)| {
            format!(
                "{},\"start\":{},\"commit\":{}}}\n",
                line.trim_end().trim_end_matches('}'),
                2 * i + 1,
                2 * i + 2
            )
        })
        .collect();
    let events: Vec<String> = own
        .iter()
        .enumerate()
        .map(|(i, line)| {
            let parsed: serde_json::Value = serde_json::from_str(line).unwrap();
            format!(
                "{{\"index\":{i},\"process\":{i},\"type\":\"ok\",\"f\":\"txn\",\"value\":{}}}",
                parsed["ops"]
            )
        })
        .collect();
    // EDN's strings have the escapes of JSON's that occur here.
    let edn: String = events
        .iter()
        .enumerate()
        .map(|(i, event)| {
            let parsed: serde_json::Value = serde_json::from_str(event).unwrap();
            let ops = parsed["value"].to_string().replace("\"w\"", ":w").replace("\"r\"", ":r");
            format!("{{:index {i} :process {i} :type :ok :f :txn :value {ops}}}\n")
        })
        .collect();
    let file = |name: &str, text: &str| scratch.file(name, text);
    vec![
        (file("own.jsonl", &own.concat()), "anomalist"),
        (file("stamped.jsonl", &stamped), "anomalist"),
        (file("events.jsonl", &events.join("\n")), "elle-jsonl"),
        (file("events.json", &format!("[{}]", events.join(","))), "elle-json"),
        (file("events.edn", &edn), "elle-edn"),
        (file("plume.txt", &format!("w({HOSTILE},1,0,0)\n")), "plume"),
        (file("viper.log", &format!("{{\"value\":[[\"w\",{h},{h},true]]}}\n")), "viper"),
        (file("awdit.txt", &format!("{HOSTILE}\n")), "awdit"),
        (
            file(
                "timekiller.json",
                &format!("[{{\"tid\":{h},\"sid\":{h},\"ops\":[{{\"t\":\"w\",\"k\":{h},\"v\":{h}}}]}}]"),
            ),
            "timekiller",
        ),
    ]
}

#[test]
fn commands_show_hostile_names_as_escapes() {
    let scratch = Scratch::new("inert");
    // The file's own name is hostile, too.
    for (path, format) in histories(&scratch) {
        let renamed = scratch.path(&format!("{HOSTILE}{}", path.rsplit('/').next().unwrap()));
        std::fs::rename(&path, &renamed).unwrap();
        let commands: [&[&str]; 14] = [
            &["check", "PATH", "--format", format],
            &["check", "PATH", "--format", format, "-vv", "--declared", "--level", "serializable,causal"],
            &["check", "PATH", "--format", format, "--every-component", "--verify", "--cross-check"],
            &["check", "PATH", "PATH", "--format", format],
            &["check", "PATH"],
            &["check", "PATH", "--lossy", "--memory", "1kB"],
            &["lint", "PATH", "--format", format],
            &["stats", "PATH", "--format", format],
            &["shrink", "PATH", "-o", "/dev/null", "--to", "anomalist", "--level", "causal"],
            &["verify", "PATH", "PATH"],
            &["elle", "-m", "rw-register", "-v", "PATH"],
            &["elle", "-m", "list-append", "PATH"],
            &["watch", "PATH"],
            &["convert", "PATH", "/nowhere/x", "--to", "plume"],
        ];
        for command in commands {
            let args: Vec<&str> = command.iter().map(|&a| if a == "PATH" { &*renamed } else { a }).collect();
            let run = Run::new(&args, b"", &[]);
            is_inert(&format!("{format}: {}", command.join(" ")), &run);
            assert!(!run.ended_with(4) && !run.ended_with(101), "{}{}", run.text(), run.stderr());
            let annotated = Run::new(&args, b"", &[("GITHUB_ACTIONS", "true")]);
            is_inert(&format!("{format}: annotated {}", command.join(" ")), &annotated);
        }
    }
}

#[test]
fn missing_files_and_flags_are_named_inertly() {
    for args in [
        vec!["check", HOSTILE],
        vec!["lint", HOSTILE],
        vec!["stats", HOSTILE],
        vec!["watch", HOSTILE],
        vec!["verify", HOSTILE, HOSTILE],
        vec!["elle", "-m", "bank", HOSTILE],
        vec!["convert", HOSTILE, HOSTILE],
        vec!["shrink", HOSTILE, "-o", HOSTILE, "--level", "causal"],
        vec!["generate", "-o", "/nowhere/\n::error::forged"],
    ] {
        is_inert(&args.join(" "), &anomalist_with(&args, b""));
    }
}

/// JSON has the names as they are.
#[test]
fn json_keeps_names() {
    let scratch = Scratch::new("inert-json");
    let path = histories(&scratch).remove(0).0;
    let run = anomalist_with(&["check", &path, "--json", "--level", "causal"], b"").expect(1);
    let text = run.json().to_string();
    assert!(text.contains(&serde_json::to_string(&format!("{HOSTILE}10")).unwrap()), "{text}");
}
