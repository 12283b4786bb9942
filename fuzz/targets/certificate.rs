//! Bytes as a certificate of a fixed history: refused, or read and then verified or not; never a panic. `FINGERPRINT` in the
//! bytes stands for the history's, which no fuzzer guesses.
#![no_main]

use anomalist_format::certificate::{self, Fingerprint};
use anomalist_format::{Input, ReadOptions};
use anomalist_history::History;
use anomalist_verify::Verifier;
use std::sync::OnceLock;

static HISTORY: OnceLock<History> = OnceLock::new();

/// Two values are written twice, one transaction appends: every kind of step and edge has something to name.
const TEXT: &[u8] = br#"{"anomalist":1,"initial":0}
{"session":1,"id":1,"ops":[["w","x",1],["append","l",5]]}
{"session":1,"id":2,"ops":[["w","x",1],["w","y",2],["append","l",6]]}
{"session":2,"id":3,"ops":[["r","x",1],["r","y",0],["r","l",[5,6]]]}
{"session":3,"id":4,"ops":[["r","y",2],["w","x",3]],"outcome":"indeterminate"}
"#;

fn history() -> &'static History {
    HISTORY.get_or_init(|| {
        let input = Input::from_bytes("h.jsonl", TEXT.to_vec());
        anomalist_format::read(input, &ReadOptions::default()).expect("the fixed history is valid").history
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let history = history();
    let fingerprint = Fingerprint::of(history).to_string();
    let text = String::from_utf8_lossy(bytes).replace("FINGERPRINT", &fingerprint);
    if let Ok(statement) = certificate::read(history, text.as_bytes())
        && let Err(flaw) = Verifier::new(history).judgement(&statement.judgement)
    {
        assert!(!flaw.message(history).is_empty());
    }
});
