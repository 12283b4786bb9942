//! From a filled-in form to a command line: no shell, a word per value, checked by the parser of the
//! program itself.
//!
//! Beyond what the parser checks: commands that are run must have been allowed, files must be in the
//! folders, ports are those of this machine. A login in a URL goes by the environment, because every
//! account of a machine sees command lines.

use super::forms::{FORMS, Field, Form, Kind};
use crate::cli::Cli;
use crate::secret;
use crate::terminal::quoted;
use anomalist_ui::{Commands, Invocation, Output, Refusal, Target};
use clap::Parser;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;

/// Longest value of a field, in characters.
const LONGEST: usize = 400;

/// A command's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    words: Vec<String>,
    shown: String,
}

/// The words of a command, as a shell separates them: quotes and backslashes, nothing else.
pub fn words(text: &str) -> Result<Words, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (Some('"') | None, '\\') => {
                let next = letters.next().ok_or("a backslash at the end")?;
                word.get_or_insert_default().push(next);
            }
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, space) if space.is_whitespace() => words.extend(word.take()),
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err("a quote that is not closed".to_owned());
    }
    words.extend(word);
    match words.is_empty() {
        true => Err("no command".to_owned()),
        false => Ok(Words { words, shown: text.trim().to_owned() }),
    }
}

/// What the person who started the application allowed.
pub struct Allowed {
    pub commands: Vec<Words>,
}

/// A command line that grows.
#[derive(Default)]
struct Line {
    command: Vec<OsString>,
    /// What is not shown: how the application wants the answer.
    hidden: Vec<OsString>,
    /// Behind everything else.
    last: Vec<OsString>,
    environment: Vec<(String, String)>,
    makes: Option<std::path::PathBuf>,
}

impl Line {
    fn push(&mut self, words: impl IntoIterator<Item = impl Into<OsString>>) {
        self.command.extend(words.into_iter().map(Into::into));
    }

    /// `--name value`, or as one word where the value looks like a flag.
    fn set(&mut self, name: &str, value: &str) {
        match value.starts_with('-') {
            true => self.push([format!("--{name}={value}")]),
            false => self.push([format!("--{name}"), value.to_owned()]),
        }
    }

    fn shown(&self) -> String {
        let environment = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={} ", quoted(&secret::masked(value))));
        let words = self.command.iter().chain(&self.last);
        let words: Vec<String> = words.map(|word| quoted(&secret::masked(&word.to_string_lossy()))).collect();
        format!("{}anomalist {}", environment.collect::<String>(), words.join(" "))
    }

    fn finish(self, output: Output) -> Invocation {
        let shown = self.shown();
        let Line { mut command, hidden, last, environment, makes } = self;
        command.extend(hidden);
        command.extend(last);
        Invocation { arguments: command, environment, shown, output, makes }
    }
}

impl Commands for Allowed {
    fn forms(&self) -> Value {
        let commands: Vec<String> = self.commands.iter().map(|command| command.shown.clone()).collect();
        json!(super::forms::document(&commands))
    }

    fn invocation(&self, command: &str, fields: &Value, target: &Target<'_>) -> Result<Invocation, Refusal> {
        let form = FORMS.iter().find(|form| form.command == command);
        let form = form.ok_or_else(|| Refusal::new("there is no such command"))?;
        let mut line = Line::default();
        line.push([command]);
        for field in form.fields {
            let value = value(field, &fields[field.name])?;
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                self.add(&mut line, field, &value, target)?;
            }
        }
        self.complete(&mut line, form, target)?;
        let output = match command {
            "watch" => Output::Lines,
            "generate" => Output::Nothing,
            _ => Output::Document,
        };
        let invocation = line.finish(output);
        parsed(&invocation, form)?;
        Ok(invocation)
    }

    fn check(&self, history: &Path, name: &str, report: &Path) -> Invocation {
        let mut line = Line::default();
        line.push(["check"]);
        line.hidden = vec!["--json".into(), "--report".into(), report.into(), "--".into()];
        line.last = vec![history.into()];
        Invocation { shown: format!("anomalist check {}", quoted(name)), ..line.finish(Output::Document) }
    }
}

/// The text of a field.
fn value(field: &Field, given: &Value) -> Result<Option<String>, Refusal> {
    let text = match given {
        Value::Null => return Ok(None),
        Value::Bool(set) if matches!(field.kind, Kind::Flag) => return Ok(set.then(|| "on".to_owned())),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_owned(),
        _ => return Err(Refusal::of(field.name, "this is no value of this field")),
    };
    if text.chars().any(char::is_control) || text.chars().count() > LONGEST {
        return Err(Refusal::of(field.name, "too long, or with characters that cannot be typed"));
    }
    Ok(Some(text))
}

impl Allowed {
    /// Adds what a field stands for.
    fn add(&self, line: &mut Line, field: &Field, value: &str, target: &Target<'_>) -> Result<(), Refusal> {
        let wrong = |why: &str| Err(Refusal::of(field.name, why));
        match field.kind {
            Kind::Flag => line.push([format!("--{}", field.name)]),
            Kind::Text | Kind::Number | Kind::Choice(_) => line.set(field.name, value),
            Kind::Suggest(_) if field.name == "url" => self.connect(line, value, target)?,
            Kind::Suggest(_) => line.set(field.name, value),
            Kind::Port(_) => match value.parse::<u16>() {
                Ok(port) => line.set(field.name, &port.to_string()),
                Err(_) => return wrong("a port is a number up to 65535"),
            },
            Kind::NewFile if !is_file_name(value) => {
                return wrong("a name of letters, digits, dots, - and _, without folders");
            }
            Kind::NewFile => {
                let path = target.folder.join(value);
                line.push(["--output".into(), path.clone().into_os_string()]);
                line.makes = Some(path);
            }
            Kind::History => match target.history {
                Some(history) => line.push([history]),
                None => return wrong("this history is not in the folders"),
            },
            Kind::Command => match self.commands.iter().find(|command| command.shown == value) {
                Some(command) => {
                    line.last = std::iter::once("--")
                        .chain(command.words.iter().map(String::as_str))
                        .map(Into::into)
                        .collect();
                }
                None => return wrong("this command was not allowed when the application was started"),
            },
        }
        Ok(())
    }

    /// Adds the database to connect to.
    fn connect(&self, line: &mut Line, url: &str, target: &Target<'_>) -> Result<(), Refusal> {
        let wrong = |why: String| Err(Refusal::of("url", why));
        if let Some(command) = url.strip_prefix("exec:") {
            if !self.commands.iter().any(|allowed| allowed.shown == command.trim()) {
                return wrong("this command was not allowed when the application was started".to_owned());
            }
        } else if let Some(file) = url.strip_prefix("sqlite:") {
            if !is_file_name(file) {
                return wrong("sqlite: and the name of a file in the first folder".to_owned());
            }
            line.push([format!("sqlite:{}", target.folder.join(file).display())]);
            return Ok(());
        } else {
            let known = ["postgres://", "postgresql://", "mysql://", "mariadb://", "simulated:", "weakdb:"];
            if !known.iter().any(|scheme| url.starts_with(scheme)) {
                return wrong(format!("an address begins with {}, sqlite: or exec:", known.join(", ")));
            }
        }
        match secret::masked(url) == url {
            true => line.push([url]),
            false => line.environment.push(("DATABASE_URL".to_owned(), url.to_owned())),
        }
        Ok(())
    }

    /// Adds what the application needs beside the fields.
    fn complete(&self, line: &mut Line, form: &Form, target: &Target<'_>) -> Result<(), Refusal> {
        let missing = |field: &str, why: &str| Err(Refusal::of(field, why));
        match form.command {
            "test" | "sql" => {
                if target.folder != Path::new("runs") {
                    line.push(["--runs".into(), target.folder.as_os_str().to_owned()]);
                }
                line.hidden = vec!["--json".into()];
                if form.command == "sql" {
                    line.hidden.extend(["--report".into(), target.report.into()]);
                }
            }
            "explore" if line.last.is_empty() && self.commands.is_empty() => {
                return missing("command", "no command was allowed: start anomalist ui with --allow-command");
            }
            "explore" if line.last.is_empty() => return missing("command", "choose a command"),
            "explore" => line.hidden = vec!["--json".into()],
            "generate" if line.makes.is_none() => return missing("output", "the history needs a name"),
            "watch" => {
                let listens = |word: &OsString| word == "--listen" || word == "--http";
                if target.history.is_none() && !line.command.iter().any(listens) {
                    return missing("history", "choose a history, or a port to listen on");
                }
                line.hidden = vec!["--json".into()];
            }
            _ => {}
        }
        Ok(())
    }
}

/// Lets the program's own parser look at a command line.
fn parsed(invocation: &Invocation, form: &Form) -> Result<(), Refusal> {
    let words = std::iter::once(OsString::from("anomalist")).chain(invocation.arguments.iter().cloned());
    let Err(error) = Cli::try_parse_from(words) else { return Ok(()) };
    let text = secret::masked(&error.render().to_string());
    let first = text.lines().next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    // `--txns <N>`, but not `--txns-per-session`.
    let names = |field: &&Field| {
        message.contains(&format!("--{} ", field.name)) || message.contains(&format!("--{}'", field.name))
    };
    let field = form.fields.iter().find(names).map(|field| field.name.to_owned());
    Err(Refusal { field, message })
}

/// A name that stays in its folder, whatever decodes it.
fn is_file_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with(['.', '-']) && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(command: &str, fields: Value) -> Result<Invocation, Refusal> {
        let allowed = Allowed { commands: vec![words("pytest 'a b' -q").unwrap()] };
        let target = Target {
            folder: Path::new("kept"),
            report: Path::new("/tmp/r.html"),
            history: fields["history"].is_string().then(|| Path::new("kept/h.jsonl")),
        };
        allowed.invocation(command, &fields, &target)
    }

    fn shown(command: &str, fields: Value) -> String {
        asked(command, fields).unwrap().shown
    }

    fn refused(command: &str, fields: Value) -> String {
        asked(command, fields).unwrap_err().field.unwrap_or_default()
    }

    #[test]
    fn words_are_separated_as_by_a_shell() {
        assert_eq!(words(r#"a 'b c' "d \" e" f\ g '' "#).unwrap().words, ["a", "b c", "d \" e", "f g", ""]);
        assert!(words("'a").is_err() && words("  ").is_err() && words("a\\").is_err());
    }

    #[test]
    fn forms_become_command_lines() {
        assert_eq!(
            shown(
                "test",
                json!({"url": "simulated:serializable", "txns": "300", "matrix": false, "online": true})
            ),
            "anomalist test simulated:serializable --txns 300 --online --runs kept"
        );
        assert_eq!(
            shown("explore", json!({"command": "pytest 'a b' -q", "level": "causal", "runs": 5})),
            "anomalist explore --level causal --runs 5 -- pytest 'a b' -q"
        );
        assert_eq!(shown("generate", json!({"output": "h.txt"})), "anomalist generate --output kept/h.txt");
        assert_eq!(
            shown("watch", json!({"history": "0", "listen": "9000"})),
            "anomalist watch kept/h.jsonl --listen 9000"
        );
        let hidden = asked("sql", json!({"duration": "2s"})).unwrap();
        assert_eq!(hidden.shown, "anomalist sql --duration 2s --runs kept");
        assert!(
            hidden.arguments.contains(&"--json".into()) && hidden.arguments.contains(&"/tmp/r.html".into())
        );
    }

    #[test]
    fn logins_are_not_seen() {
        let invocation = asked("test", json!({"url": "postgres://ann:SECRET@h/db"})).unwrap();
        assert!(!format!("{:?}{}", invocation.arguments, invocation.shown).contains("SECRET"));
        assert_eq!(invocation.environment[0].1, "postgres://ann:SECRET@h/db");
    }

    #[test]
    fn what_was_not_allowed_is_refused() {
        for (command, fields, field) in [
            ("explore", json!({"command": "rm -rf /"}), "command"),
            ("explore", json!({}), "command"),
            ("test", json!({"url": "exec:sh -c true"}), "url"),
            ("test", json!({"url": "sqlite:/etc/passwd"}), "url"),
            ("test", json!({"url": "sqlite:%2e%2e%2fx"}), "url"),
            ("test", json!({"url": "--help"}), "url"),
            ("test", json!({"url": "file:///etc/passwd"}), "url"),
            ("test", json!({"txns": "-5"}), "txns"),
            ("test", json!({"txns": "many"}), "txns"),
            ("test", json!({"seed": "1\n2"}), "seed"),
            ("test", json!({"level": ["x"]}), "level"),
            ("generate", json!({"output": "../x"}), "output"),
            ("generate", json!({"output": "-x"}), "output"),
            ("generate", json!({}), "output"),
            ("watch", json!({}), "history"),
            ("watch", json!({"listen": "0.0.0.0:80"}), "listen"),
        ] {
            assert_eq!(refused(command, fields.clone()), field, "{command} {fields}");
        }
        assert!(asked("weakdb", json!({})).is_err());
        // What is not in the form is not looked at.
        assert_eq!(
            shown("sql", json!({"report": "/etc/passwd", "scripts": "/"})),
            "anomalist sql --runs kept"
        );
    }
}
