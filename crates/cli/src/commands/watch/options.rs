//! What the flags say about checking: rule, patience, memory, initial values.

use super::Flags;
use crate::exit::Failure;
use anomalist_history::AtomKind;
use anomalist_online::{Gc, Key128, Options};
use anomalist_timestamp::{Mode, Rule};

/// The default limit of memory.
const MEMORY: usize = 1_000_000_000;
/// The least that makes sense.
const LEAST: usize = 16_000;

/// The options of the checker.
pub fn checker(flags: &Flags) -> Result<Options, Failure> {
    let Some(mode) = Mode::of(flags.level) else {
        return Err(Failure::input(format_args!(
            "timestamps say nothing about {}\n  help: watch checks snapshot-isolation, serializable and their \
             strong-session variants",
            flags.level.name()
        )));
    };
    Ok(Options {
        rule: Rule { mode, tie: flags.tie },
        settle_ms: u64::try_from(flags.settle.as_millis()).unwrap_or(u64::MAX).min(u64::MAX / 4),
        gc: gc(flags)?,
        provisional: flags.provisional,
        checkpoints: flags.state.is_some(),
        ..Options::default()
    })
}

/// The memory that is allowed.
pub fn memory(flags: &Flags) -> usize {
    flags.memory.unwrap_or(MEMORY)
}

fn gc(flags: &Flags) -> Result<Gc, Failure> {
    match (flags.gc.as_str(), flags.gc.strip_prefix("threshold:"), flags.memory) {
        ("memory", _, Some(few)) if few < LEAST => Err(Failure::input(format_args!(
            "--memory {few}: with less than 16kB hardly a transaction fits\n  help: a number alone is bytes; write 700MB"
        ))),
        ("memory", _, memory) => Ok(Gc::Memory(memory.unwrap_or(MEMORY))),
        ("none", _, None) => Ok(Gc::None),
        (_, Some(n), None) => match n.parse() {
            Ok(n) => Ok(Gc::Threshold(n)),
            Err(_) => Err(Failure::input(format_args!("--gc threshold:{n}: not a number"))),
        },
        ("none", ..) | (_, Some(_), _) => Err(Failure::input("--memory goes with --gc memory")),
        _ => Err(Failure::input(format_args!(
            "unknown policy {:?}\n  help: there are memory, threshold:N and none",
            flags.gc
        ))),
    }
}

/// What `--initial` says: a JSON scalar, nil or none.
pub fn initial(text: Option<&str>) -> Result<Option<Key128>, Failure> {
    let Some(text) = text else { return Ok(Some(Key128::NIL)) };
    match (text, serde_json::from_str::<serde_json::Value>(text)) {
        ("none", _) => Ok(None),
        ("nil", _) | (_, Ok(serde_json::Value::Null)) => Ok(Some(Key128::NIL)),
        (_, Ok(serde_json::Value::String(text))) => Ok(Some(Key128::text(AtomKind::Text, &text))),
        (_, Ok(value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_)))) => {
            let token = || Key128::text(AtomKind::Token, text);
            Ok(Some(value.as_i64().filter(|i| i.to_string() == text).map_or_else(token, Key128::int)))
        }
        _ => Err(Failure::input(format_args!("--initial {text}: a number, a string in quotes, nil or none"))),
    }
}
