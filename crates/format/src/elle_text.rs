//! Values of a history as JSON and as EDN, and an account of what gets lost on the way.

use crate::edn::{Edn, Token};
use crate::json::{Json, Scalar};
use crate::{Format, WriteError};
use isolde_history::{AtomKind, History, Op, OpKind, Outcome, Value, View};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Counts what a format cannot express.
#[derive(Default)]
pub(crate) struct Losses {
    /// By name in the singular and plural.
    counts: BTreeMap<(&'static str, &'static str), u64>,
}

impl Losses {
    pub fn add(&mut self, one: &'static str, many: &'static str, count: usize) {
        if count > 0 {
            *self.counts.entry((one, many)).or_default() += count as u64;
        }
    }

    /// Refuses unless nothing is lost, or losing is allowed.
    pub fn check(&mut self, format: Format, lossy: bool) -> Result<(), WriteError> {
        if self.counts.is_empty() || lossy {
            return Ok(());
        }
        let counts = std::mem::take(&mut self.counts);
        let lost = counts
            .into_iter()
            .map(|((one, many), n)| if n == 1 { format!("1 {one}") } else { format!("{n} {many}") })
            .collect();
        Err(WriteError::Loss { format, lost })
    }
}

/// What neither Elle's nor TimeKiller's formats know about transactions, and about reads where null has a meaning.
pub(crate) fn common_losses(history: &History, losses: &mut Losses) {
    losses.add("transaction's metadata", "transactions' metadata", history.metadata().len());
    let unknown = history.txns().filter(|&t| history.outcome(t) == Outcome::Committed).map(|t| {
        let unknown = |o: isolde_history::Op| o.kind == OpKind::Read && o.value == Value::UNKNOWN;
        history.ops(t).filter(|&(_, o)| unknown(o)).count()
    });
    losses.add(
        "read of unknown result in a committed transaction",
        "reads of unknown result in committed transactions",
        unknown.sum(),
    );
}

/// The number of reads that return an initial value other than nil, or a nil that is not the initial value: where nil is the
/// initial value of every key, they mean something else.
pub(crate) fn other_initial(history: &History) -> usize {
    let reads = history.heads().iter().zip(history.values()).filter(|(head, _)| head.is_read());
    reads
        .filter(|(head, value)| {
            let initial = history.initial().of(head.key()).filter(|v| !v.is_list());
            initial != Some(Value::NIL)
                && (initial == Some(**value) || (initial.is_some() && **value == Value::NIL))
        })
        .count()
}

/// What to write for an operation's value where nil is the initial value of every key: a read of the initial value stays one,
/// whatever that value is.
pub(crate) fn with_nil_initial(history: &History, op: Op) -> Value {
    let initial =
        op.kind == OpKind::Read && history.initial().of(op.key) == Some(op.value) && !op.value.is_list();
    if initial { Value::NIL } else { op.value }
}

/// Appends a value as JSON.
pub(crate) fn json_value(out: &mut String, history: &History, value: Value, losses: &mut Losses) {
    match value.view() {
        View::Nil | View::Unknown => out.push_str("null"),
        View::Int(i) => {
            let _ = write!(out, "{i}");
        }
        View::List(_) => {
            out.push('[');
            for (i, &element) in history.list(value).unwrap_or_default().iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                json_value(out, history, element, losses);
            }
            out.push(']');
        }
        View::Atom(id) => match history.atom(id) {
            (AtomKind::Text, text) => quote(out, text),
            (AtomKind::Keyword, text) => {
                losses.add("keyword (JSON has strings)", "keywords (JSON has strings)", 1);
                quote(out, text);
            }
            (AtomKind::Token, text) if is_json(text) => out.push_str(text),
            (AtomKind::Token, text) => {
                losses.add("symbol (JSON has strings)", "symbols (JSON has strings)", 1);
                quote(out, text);
            }
            (AtomKind::Compound, text) => {
                let start = out.len();
                if json_compound(out, text).is_none() {
                    out.truncate(start);
                    losses.add("composite value", "composite values", 1);
                    quote(out, text);
                }
            }
        },
    }
}

/// True if the text is one JSON number or word.
pub(crate) fn is_json(text: &str) -> bool {
    let mut json = Json::new(text.as_bytes());
    let scalar = json.scalar("");
    matches!(scalar, Ok(Scalar::Int(_) | Scalar::Number(_) | Scalar::Bool(_)))
        && json.at() == text.len()
        && !text.starts_with(char::is_whitespace)
}

/// Appends canonical EDN text as JSON, if JSON has the like.
fn json_compound(out: &mut String, text: &str) -> Option<()> {
    let mut edn = Edn::new(text.as_bytes());
    // Per level: the bracket that closes it, and the number of values so far.
    let mut open: Vec<(u8, usize)> = Vec::new();
    loop {
        let token = edn.next().ok()?;
        if let Token::Close(b) = token {
            let (close, count) = open.pop()?;
            if b != close || (b == b'}' && count % 2 == 1) {
                return None;
            }
            out.push(b as char);
        } else {
            if let Some((close, count)) = open.last_mut() {
                let name = *close == b'}' && count.is_multiple_of(2);
                if name && !matches!(token, Token::Text(_)) {
                    return None;
                }
                match (*count, *close) {
                    (0, _) => {}
                    (n, b'}') if n % 2 == 1 => out.push(':'),
                    _ => out.push(','),
                }
                *count += 1;
            }
            match token {
                Token::Open(b']') => {
                    out.push('[');
                    open.push((b']', 0));
                }
                Token::Open(b'}') if text.as_bytes().get(edn.token_at()) == Some(&b'{') => {
                    out.push('{');
                    open.push((b'}', 0));
                }
                Token::Nil => out.push_str("null"),
                Token::Bool(b) => out.push_str(if b { "true" } else { "false" }),
                Token::Int(i) => out.push_str(&i.to_string()),
                Token::Number(n) if is_json(n) => out.push_str(n),
                Token::Text(s) => quote(out, &s),
                _ => return None,
            }
        }
        if open.is_empty() {
            return (edn.next().ok()? == Token::End).then_some(());
        }
    }
}

/// Appends a value as EDN.
pub(crate) fn edn_value(out: &mut String, history: &History, value: Value, losses: &mut Losses) {
    match value.view() {
        View::Nil | View::Unknown => out.push_str("nil"),
        View::Int(i) => {
            let _ = write!(out, "{i}");
        }
        View::List(_) => {
            out.push('[');
            for (i, &element) in history.list(value).unwrap_or_default().iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                edn_value(out, history, element, losses);
            }
            out.push(']');
        }
        View::Atom(id) => {
            let (kind, text) = history.atom(id);
            let start = out.len();
            match kind {
                AtomKind::Text => quote(out, text),
                AtomKind::Keyword => {
                    out.push(':');
                    out.push_str(text);
                }
                AtomKind::Token | AtomKind::Compound => out.push_str(text),
            }
            if kind != AtomKind::Text && !is_edn(&out[start..], kind) {
                out.truncate(start);
                losses.add("name that EDN cannot write", "names that EDN cannot write", 1);
                quote(out, text);
            }
        }
    }
}

/// True if the text reads back as one value of this kind.
fn is_edn(text: &str, kind: AtomKind) -> bool {
    let mut edn = Edn::new(text.as_bytes());
    let Ok(first) = edn.next() else { return false };
    let right = match (&first, kind) {
        (Token::Keyword(_), AtomKind::Keyword) => true,
        (Token::Number(t) | Token::Symbol(t), AtomKind::Token) => *t == text,
        (Token::Bool(_) | Token::Int(_), AtomKind::Token) => true,
        (Token::Open(_), AtomKind::Compound) => true,
        _ => false,
    };
    right && edn.skip(&first).is_ok() && edn.at() == text.len() && edn.next() == Ok(Token::End)
}

/// Appends a string in double quotes, escaped so that both JSON and EDN read it back.
pub(crate) fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' || c == '\u{7f}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
