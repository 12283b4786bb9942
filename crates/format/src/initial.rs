//! The value of a key before any write: the user's choice, and transactions that only load it.

use crate::{Diagnostic, Place, ReadError, ReadOptions};
use isolde_history::{AtomKind, Builder, Draft, OpKind, SessionId, Value};

/// The initial value that the options ask for, or the format's default.
///
/// It is text: `none`, or a JSON scalar (an integer, a string in quotes, `null`, `true`, a decimal number).
pub(crate) fn value(
    options: &ReadOptions<'_>,
    builder: &mut Builder,
    default: Option<Value>,
) -> Result<Option<Value>, ReadError> {
    let Some(text) = options.initial else { return Ok(default) };
    if text == "none" {
        return Ok(None);
    }
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Null) => Ok(Some(Value::NIL)),
        Ok(serde_json::Value::String(text)) => Ok(Some(builder.atom(AtomKind::Text, &text))),
        Ok(serde_json::Value::Number(n)) => Ok(Some(match n.as_i64() {
            Some(i) => builder.int(i),
            None => builder.atom(AtomKind::Token, &n.to_string()),
        })),
        Ok(serde_json::Value::Bool(b)) => {
            Ok(Some(builder.atom(AtomKind::Token, if b { "true" } else { "false" })))
        }
        _ => Err(ReadError::Malformed(vec![
            Diagnostic::error("--initial", Place::File, format!("cannot read the initial value {text:?}"))
                .help("give an integer, a string in double quotes, null, or none"),
        ])),
    }
}

/// Forgets the first transaction of the file if it *is* the initial state: committed, alone in its session, and writing only
/// initial values. `sessions` has the session of every transaction. A transaction that is the whole history stays.
pub(crate) fn discard_initial_transaction(
    builder: &mut Builder,
    sessions: &[SessionId],
    first_committed: bool,
    initial: Option<Value>,
) {
    let Some((&first, others)) = sessions.split_first() else { return };
    if !first_committed || others.is_empty() || others.contains(&first) {
        return;
    }
    let ops = builder.draft_ops(Draft(0));
    let loads = |&(head, value): &(isolde_history::OpHead, Value)| {
        head.kind() == OpKind::Write && Some(value) == initial
    };
    if !ops.is_empty() && ops.iter().all(loads) {
        builder.discard(Draft(0));
    }
}
