//! Pages to explore, the same for every command that writes one.

use crate::cli::Global;
use crate::{load, secret, supervised};
use anomalist_check::lint::{Severity, lint};
use anomalist_history::{History, Indexed};
use anomalist_page::{Page, Run, Unseen, html};

/// The page about these runs.
pub fn page(title: &str, runs: Vec<Run<'_>>) -> String {
    let next = Some("anomalist shrink --level {level} {path} -o small.txt");
    html(&Page { title: title.to_owned(), command: Some(command()), next, runs })
}

/// What a history could not have shown.
pub fn unseen(history: &History, global: &Global) -> Vec<Unseen> {
    let findings = lint(&Indexed::new(history, load::threads(global)));
    let notes = findings.into_iter().filter(|f| f.severity == Severity::Note);
    notes.map(|f| Unseen { code: f.code, message: f.message, advice: f.advice }).collect()
}

/// The command line, without secrets, as a shell would take it.
fn command() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments = if supervised::is_on() { asked(arguments) } else { arguments };
    let arguments = arguments.iter().map(|argument| quoted(&secret::masked_argument(argument)));
    std::iter::once("anomalist".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// What a person would have typed: without where the program that supervises this one wants its output.
fn asked(arguments: Vec<String>) -> Vec<String> {
    let mut rest = arguments.into_iter();
    let mut kept = Vec::new();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--json" | "--" => {}
            "--report" => _ = rest.next(),
            _ => kept.push(argument),
        }
    }
    kept
}

fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,*".contains(c);
    match !argument.is_empty() && argument.chars().all(plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::{asked, quoted};

    #[test]
    fn a_supervisor_leaves_no_trace() {
        let given = ["check", "--json", "--report", "/tmp/x.html", "--", "a.txt"].map(str::to_owned);
        assert_eq!(asked(given.to_vec()), ["check", "a.txt"]);
    }

    #[test]
    fn a_shell_takes_it_back() {
        assert_eq!(quoted("runs/a.txt"), "runs/a.txt");
        assert_eq!(quoted("read committed"), "'read committed'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
