//! The value of a key before any write: the user's choice, and transactions that only load it.

use crate::text::json::{Json, Scalar};
use crate::{Diagnostic, Place, ReadError, ReadOptions};
use anomalist_history::{AtomKind, Builder, Draft, OpKind, SessionId, Value};

/// The initial value that the options ask for; `Some(None)` for `none`.
///
/// It is text: `none`, or a JSON scalar (an integer, a string in quotes, `null`, `true`, a decimal number).
pub(crate) fn given(
    options: &ReadOptions<'_>,
    builder: &mut Builder,
) -> Result<Option<Option<Value>>, ReadError> {
    let Some(text) = options.initial else { return Ok(None) };
    if text == "none" {
        return Ok(Some(None));
    }
    let mut json = Json::new(text.as_bytes());
    let value = json.scalar("a value").map(|scalar| match scalar {
        Scalar::Null => Value::NIL,
        Scalar::Int(i) => builder.int(i),
        Scalar::Bool(b) => builder.atom(AtomKind::Token, if b { "true" } else { "false" }),
        Scalar::Number(text) => builder.atom(AtomKind::Token, &text),
        Scalar::Text(text) => builder.atom(AtomKind::Text, &text),
    });
    match value {
        Ok(value) if json.peek().is_none() => Ok(Some(Some(value))),
        _ => {
            let message = format!("cannot read {text:?}");
            let help = "give an integer, a string in double quotes, null, or none";
            Err(ReadError::Malformed(vec![
                Diagnostic::error("initial value", Place::File, message).help(help),
            ]))
        }
    }
}

/// The initial value that the options ask for, or the format's default.
pub(crate) fn value(
    options: &ReadOptions<'_>,
    builder: &mut Builder,
    default: Option<Value>,
) -> Result<Option<Value>, ReadError> {
    Ok(given(options, builder)?.unwrap_or(default))
}

/// Forgets the first transaction of the file if it *is* the initial state: committed, alone in its session,
/// and writing only initial values. `sessions` has the session of every transaction. A transaction that is
/// the whole history stays.
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
    let loads = |&(head, value): &(anomalist_history::OpHead, Value)| {
        head.kind() == OpKind::Write && Some(value) == initial
    };
    if !ops.is_empty() && ops.iter().all(loads) {
        builder.discard(Draft(0));
    }
}
