//! What is left behind when an answer is wrong: a file with everything needed to see it again.

use crate::destination::write_file;
use crate::exit::Failure;
use crate::secret::masked_argument;
use anomalist::History;
use anomalist_format::PathName;
use anomalist_format::certificate::Fingerprint;
use anomalist_level::Judgement;
use serde_json::json;
use std::path::PathBuf;

/// An error as a failure. About a wrong answer it writes a bundle, in the current folder or else in that
/// for temporary files, and says where.
pub fn report(history: &History, error: anomalist::Error) -> Failure {
    match error {
        anomalist::Error::Internal { what, judgement } => bundle(history, &judgement, &what),
        other => other.into(),
    }
}

fn bundle(history: &History, judgement: &Judgement, what: &str) -> Failure {
    let (history, facts) = (history.transactions(), history.facts());
    let fingerprint = Fingerprint::of(history).to_string();
    let bundle = json!({
        "anomalist": env!("CARGO_PKG_VERSION"),
        "what": what,
        "arguments": std::env::args().map(|a| masked_argument(&a)).collect::<Vec<_>>(),
        "folder": std::env::current_dir().ok(),
        "history": {"path": facts.path, "format": facts.format, "fingerprint": fingerprint},
        "certificate": anomalist_format::certificate::write(history, &facts.path, &facts.format, judgement),
    });
    let name = format!("anomalist-bug-{}.json", &fingerprint[..12]);
    let content = format!("{bundle:#}\n");
    let places = [PathBuf::from(&name), std::env::temp_dir().join(&name)];
    let written = places.iter().find(|path| write_file(path, content.as_bytes()).is_ok());
    let kept = match written {
        Some(path) => {
            format!("Everything needed to investigate, except the history, is in {}.", path.shown())
        }
        None => "It could not be written to a file.".to_owned(),
    };
    Failure::Bug(format!(
        "error: {}: {what}\nThis is an internal error; your history is not at fault. {kept}\nPlease report it, with the history if you can.",
        facts.path
    ))
}
