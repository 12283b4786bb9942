//! What is left behind when we are wrong: a file with everything needed to see it again.

use crate::destination::write_file;
use crate::exit::Failure;
use crate::secret::masked_argument;
use anomalist_format::certificate::Fingerprint;
use anomalist_history::History;
use anomalist_level::Judgement;
use anomalist_report::HistoryFacts;
use serde_json::json;
use std::path::PathBuf;

/// Writes a bundle about a wrong answer, in the current folder or else in that for temporary files, and says where.
pub fn report(history: &History, facts: &HistoryFacts, judgement: &Judgement, what: &str) -> Failure {
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
            format!("Everything needed to look into it, but for the history, is in {}.", path.display())
        }
        None => "It could not be written to a file.".to_owned(),
    };
    Failure::Bug(format!(
        "error: {}: {what}\nThis is a bug of ours, not of your history. {kept}\nPlease report it, with the history if you can.",
        facts.path
    ))
}
