//! Values of a history as JSON and as EDN. What a notation does not have becomes a string; `write.rs`
//! refuses such values beforehand unless losing them is allowed.

use super::edn::{Edn, Token};
use super::json::{Json, Scalar};
use anomalist_history::{AtomKind, History, Value, View};
use std::fmt::Write as _;

/// Appends a value as JSON.
pub(crate) fn json_value(out: &mut String, history: &History, value: Value) {
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
                json_value(out, history, element);
            }
            out.push(']');
        }
        View::Atom(id) => match history.atom(id) {
            (AtomKind::Token, text) if is_json(text) => out.push_str(text),
            (AtomKind::Compound, text) => {
                let start = out.len();
                if json_compound(out, text).is_none() {
                    out.truncate(start);
                    quote(out, text);
                }
            }
            (_, text) => quote(out, text),
        },
    }
}

/// True if the text is one JSON number or word, and reads back as itself.
pub(crate) fn is_json(text: &str) -> bool {
    let mut json = Json::new(text.as_bytes());
    match json.scalar("") {
        Ok(Scalar::Int(i)) => i.to_string() == text,
        Ok(Scalar::Number(number)) => number == text,
        Ok(Scalar::Bool(b)) => text == if b { "true" } else { "false" },
        _ => false,
    }
}

/// True if JSON has this atom.
pub(crate) fn is_json_atom(kind: AtomKind, text: &str) -> bool {
    match kind {
        AtomKind::Text => true,
        AtomKind::Keyword => false,
        AtomKind::Token => is_json(text),
        AtomKind::Compound => {
            let mut json = String::new();
            json_compound(&mut json, text).is_some()
                && Json::new(json.as_bytes()).canonical().is_ok_and(|again| again == text)
        }
    }
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
                Token::Number(n) if is_json(&n) => out.push_str(&n),
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
pub(crate) fn edn_value(out: &mut String, history: &History, value: Value) {
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
                edn_value(out, history, element);
            }
            out.push(']');
        }
        View::Atom(id) => {
            let (kind, text) = history.atom(id);
            match kind {
                _ if !is_edn_atom(kind, text) => quote(out, text),
                AtomKind::Text => quote(out, text),
                AtomKind::Keyword => {
                    out.push(':');
                    out.push_str(text);
                }
                AtomKind::Token | AtomKind::Compound => out.push_str(text),
            }
        }
    }
}

/// True if EDN has this atom: written down, it reads back as itself.
pub(crate) fn is_edn_atom(kind: AtomKind, text: &str) -> bool {
    let keyword;
    let written = match kind {
        AtomKind::Text => return true,
        AtomKind::Keyword => {
            keyword = format!(":{text}");
            &keyword
        }
        AtomKind::Token | AtomKind::Compound => text,
    };
    let mut edn = Edn::new(written.as_bytes());
    let Ok(first) = edn.next() else { return false };
    let same = match (first, kind) {
        (Token::Keyword(name), AtomKind::Keyword) => name == text,
        (Token::Number(t) | Token::Symbol(t), AtomKind::Token) => t == text,
        (Token::Bool(b), AtomKind::Token) => b.to_string() == text,
        (Token::Int(i), AtomKind::Token) => i.to_string() == text,
        (first @ Token::Open(_), AtomKind::Compound) => edn.canonical(first).is_ok_and(|again| again == text),
        _ => false,
    };
    same && edn.next() == Ok(Token::End)
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
