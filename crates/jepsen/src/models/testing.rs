//! A notation for tiny recordings: `process type f value; …`, values in brackets, braces or as one word.

use super::{Model, ModelResult, Options, Valid, check};
use anomalist_check::Budget;
use anomalist_history::{Datum, Event, EventKind, Events, Process};

/// Reads a recording such as `0 invoke add 1; 0 ok add 1; 1 invoke read nil; 1 ok read [1 2]`.
pub(crate) fn events(text: &str) -> Events {
    let events =
        text.split(';').map(str::trim).filter(|line| !line.is_empty()).enumerate().map(|(i, line)| {
            let mut parts = line.splitn(4, ' ');
            let process = match parts.next().unwrap() {
                "-" => Process::Missing,
                p => p.parse().map_or(Process::Other, Process::Client),
            };
            let kind = EventKind::from_name(parts.next().unwrap().as_bytes()).unwrap();
            let f = parts.next().unwrap().into();
            let value = datum(&mut parts.next().unwrap_or("nil").chars().peekable());
            Event { kind, process, f, value, index: None, time: None, line: i as u32 + 1 }
        });
    Events::new(events.collect())
}

fn datum(text: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Datum {
    while text.next_if(|c| *c == ' ').is_some() {}
    let mut parts = Vec::new();
    let mut collect = |text: &mut std::iter::Peekable<std::str::Chars<'_>>, close: char| {
        text.next();
        loop {
            while text.next_if(|c| *c == ' ').is_some() {}
            if text.next_if_eq(&close).is_some() {
                return;
            }
            parts.push(datum(text));
        }
    };
    match text.peek() {
        Some('[') => {
            collect(text, ']');
            Datum::List(parts)
        }
        Some('{') => {
            collect(text, '}');
            Datum::Map(parts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
        }
        _ => {
            let mut word = String::new();
            while let Some(c) = text.next_if(|c| !" []{}".contains(*c)) {
                word.push(c);
            }
            match (word.as_str(), word.parse()) {
                ("nil", _) => Datum::Nil,
                (_, Ok(i)) => Datum::Int(i),
                (name, _) if name.starts_with(':') => Datum::keyword(&name[1..]),
                (name, _) => Datum::text(name),
            }
        }
    }
}

/// The result for a recording in the notation above.
pub(crate) fn judge_with(model: Model, text: &str, options: &Options) -> ModelResult {
    check(model, &events(text), options, &Budget::unlimited()).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// The same without options.
pub(crate) fn judge(model: Model, text: &str) -> ModelResult {
    judge_with(model, text, &Options::default())
}

/// Asserts a verdict; the details come with a failure, and are returned.
pub(crate) fn expect(model: Model, text: &str, valid: bool) -> Datum {
    let result = judge(model, text);
    assert_eq!(result.valid, Valid::from(valid), "{text}: {}", result.details);
    result.details
}
