//! Histories in one line: `t1: w(x,1) w(y,1); r(x,1) || r(y,?) !info`.
//!
//! | written | means |
//! |---|---|
//! | <code>\|\|</code> | next session |
//! | `;` | next transaction of the session |
//! | `w(x,1)` `r(x,1)` `a(x,1)` | write, read, append to a list |
//! | `r(x,[1 2])` `r(x,?)` | read of a list; read whose result was not recorded |
//! | `!abort` `!info` | after the operations: it aborted; its outcome is not known |
//! | `@1-5` `@1-` | when the client began the transaction and learnt its outcome |
//! | `#1-5` | the database's timestamps of its start and its commit |
//! | `t1:` | before the operations: the transaction's label |
//! | `nop` | a transaction without operations |
//! | `init=none:` `init=7:` | before everything: registers have no initial value, or this one instead of 0 |
//!
//! Keys and labels are identifiers or integers, values are integers; an unread list is `[]`.

use anomalist_history::{
    AtomKind, Builder, Draft, History, Interval, KeyId, OpKind, Outcome, Stamps, Timestamp, TxnId, Value,
    View,
};
use std::fmt::Write;

/// The history that `text` describes.
///
/// ```
/// use anomalist_testkit::mini::{parse, print};
/// let text = "t1: w(x,1) a(l,7); r(x,?) !info || r(l,[7]) !abort";
/// assert_eq!(print(&parse(text)?), text);
/// assert!(parse("w(x").unwrap_err().contains("w(x"));
/// # Ok::<(), String>(())
/// ```
pub fn parse(text: &str) -> Result<History, String> {
    let mut b = Builder::new();
    let mut rest = text.trim();
    let mut default = Some(b.int(0));
    if let Some(after) = rest.strip_prefix("init=") {
        let (value, after) = after.split_once(':').ok_or("`init=` needs a `:` after its value")?;
        default = match value.trim() {
            "none" => None,
            number => Some(integer(&mut b, number)?),
        };
        rest = after;
    }
    b.set_initial_default(default);
    for (number, session) in rest.split("||").enumerate() {
        let label = b.int(number as i64 + 1);
        let session_id = b.session(label);
        for txn in session.split(';') {
            let draft = b.transaction(session_id);
            transaction(&mut b, draft, txn).map_err(|why| format!("{why} in `{}`", txn.trim()))?;
        }
    }
    b.finish().map_err(|e| e.to_string())
}

/// The history that `text` describes, for tests.
///
/// # Panics
/// If `text` is not in the notation.
pub fn history(text: &str) -> History {
    parse(text).unwrap_or_else(|why| panic!("{why}"))
}

fn transaction(b: &mut Builder, draft: Draft, text: &str) -> Result<(), String> {
    let mut rest = text.trim();
    if let Some((label, after)) = rest.split_once(':')
        && !label.contains('(')
    {
        let label = name(b, label.trim())?;
        b.set_label(draft, label);
        rest = after.trim_start();
    }
    if rest.is_empty() {
        return Err("no operation (an empty transaction is written `nop`)".into());
    }
    let mut over = false;
    while !rest.is_empty() {
        // A list has spaces of its own, so an operation ends at its bracket, not at a space.
        let word_end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let end = match rest[..word_end].contains('(') {
            true => rest.find(')').map(|i| i + 1).ok_or_else(|| format!("no `)` in `{rest}`"))?,
            false => word_end,
        };
        let (word, after) = rest.split_at(end);
        rest = after.trim_start();
        if over {
            return Err(format!("`{word}` after the outcome"));
        }
        match word {
            "nop" => {}
            _ if word.starts_with(['@', '#']) => time(b, draft, word)?,
            "!abort" | "!info" => {
                let outcome = if word == "!abort" { Outcome::Aborted } else { Outcome::Indeterminate };
                b.set_outcome(draft, outcome);
                over = true;
            }
            _ => operation(b, draft, word)?,
        }
    }
    Ok(())
}

/// `@1-5` or `#1-5`.
fn time(b: &mut Builder, draft: Draft, word: &str) -> Result<(), String> {
    let expected = || format!("expected two times such as @1-5, found `{word}`");
    let (first, second) = word[1..].split_once('-').ok_or_else(expected)?;
    let first: u64 = first.parse().map_err(|_| expected())?;
    let second: Option<u64> = match second {
        "" => None,
        number => Some(number.parse().map_err(|_| expected())?),
    };
    if word.starts_with('@') {
        b.set_interval(draft, Interval { invoked: first, completed: second });
        return Ok(());
    }
    let stamp = |at: u64| {
        i64::try_from(at).map(|physical| Timestamp { physical, logical: 0 }).map_err(|_| expected())
    };
    b.set_stamps(draft, Stamps { start: stamp(first)?, commit: stamp(second.ok_or_else(expected)?)? });
    Ok(())
}

fn operation(b: &mut Builder, draft: Draft, word: &str) -> Result<(), String> {
    let expected = || format!("expected w(key,value), r(key,value) or a(key,value), found `{word}`");
    let (kind, inside) = word.strip_suffix(')').and_then(|w| w.split_once('(')).ok_or_else(expected)?;
    let (key, value) = inside.split_once(',').ok_or_else(expected)?;
    let kind = match kind {
        "w" => OpKind::Write,
        "r" => OpKind::Read,
        "a" => OpKind::Append,
        _ => return Err(expected()),
    };
    let label = name(b, key.trim())?;
    let key: KeyId = b.key(label);
    let value = match value.trim() {
        "?" if kind == OpKind::Read => Value::UNKNOWN,
        list if kind == OpKind::Read && list.starts_with('[') => {
            let inside = list[1..].strip_suffix(']').ok_or_else(expected)?;
            let elements = inside.split_whitespace().map(|e| integer(b, e)).collect::<Result<Vec<_>, _>>()?;
            b.list(&elements)
        }
        number => integer(b, number)?,
    };
    b.op(draft, kind, key, value);
    Ok(())
}

fn integer(b: &mut Builder, text: &str) -> Result<Value, String> {
    text.parse().map(|i| b.int(i)).map_err(|_| format!("expected an integer, found `{text}`"))
}

fn name(b: &mut Builder, text: &str) -> Result<Value, String> {
    if let Ok(i) = text.parse() {
        return Ok(b.int(i));
    }
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text.chars().all(word) {
        Ok(b.atom(AtomKind::Text, text))
    } else {
        Err(format!("expected a name, found `{text}`"))
    }
}

/// A history in the notation. Inverse of [`parse`] on what the notation can say: it has no timestamps, no
/// names of sessions, and no initial values of single keys.
pub fn print(history: &History) -> String {
    let mut out = String::new();
    match history.initial().default.map(Value::view) {
        Some(View::Int(0)) => {}
        Some(View::Int(i)) => push(&mut out, format_args!("init={i}: ")),
        _ => out.push_str("init=none: "),
    }
    let branches = |t: TxnId| history.sessions().filter(move |&s| history.branches_off(s) == Some(t));
    for s in history.sessions().filter(|&s| history.branches_off(s).is_none()) {
        out.push_str(if s.0 == 0 { "" } else { " || " });
        let session = history.session_txns(s);
        let issued = session
            .flat_map(|t| [t].into_iter().chain(branches(t).flat_map(|branch| history.session_txns(branch))));
        for (i, t) in issued.enumerate() {
            out.push_str(if i == 0 { "" } else { "; " });
            print_txn(&mut out, history, t);
        }
    }
    out
}

fn print_txn(out: &mut String, history: &History, t: TxnId) {
    if let Some(label) = history.txn_label(t) {
        push(out, format_args!("{}: ", history.show(label)));
    }
    let start = out.len();
    for (_, op) in history.ops(t) {
        let kind = match op.kind {
            OpKind::Read => 'r',
            OpKind::Write => 'w',
            OpKind::Append => 'a',
        };
        let space = if out.len() == start { "" } else { " " };
        push(out, format_args!("{space}{kind}({},{})", history.show_key(op.key), history.show(op.value)));
    }
    if out.len() == start {
        out.push_str("nop");
    }
    out.push_str(match history.outcome(t) {
        Outcome::Committed => "",
        Outcome::Aborted => " !abort",
        Outcome::Indeterminate => " !info",
    });
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn print_is_the_inverse_of_parse() {
        for text in [
            "w(x,1)",
            "init=none: w(x,1); r(x,1) || r(x,1)",
            "init=7: r(x,7)",
            "t1: w(x,-1) r(x,-1) !abort; 5: r(3,0) || a(l,1) a(l,2) || r(l,[1 2]) r(l,[]) r(x,?) !info",
            "nop || nop !abort",
        ] {
            assert_eq!(print(&history(text)), text);
        }
    }

    #[test]
    fn times_arrive() {
        let h = history("w(x,1) @1-2 || r(x,1) @3-");
        let ends: Vec<_> = h.intervals().unwrap().iter().map(|i| (i.invoked, i.completed)).collect();
        assert_eq!(ends, [(1, Some(2)), (3, None)]);
        let h = history("w(x,1) #1-2");
        assert_eq!(h.stamps().unwrap()[0].commit, Timestamp { physical: 2, logical: 0 });
        assert!(parse("w(x,1) @1").unwrap_err().contains("@1"));
    }

    #[test]
    fn outcomes_labels_and_initial_values_arrive() {
        let h = history("a: w(x,1) !abort; w(x,2) !info || r(x,1)");
        let outcomes: Vec<_> = h.txns().map(|t| h.outcome(t)).collect();
        assert_eq!(outcomes, [Outcome::Aborted, Outcome::Indeterminate, Outcome::Committed]);
        assert_eq!(h.txn_name(TxnId(0)), "a");
        assert_eq!(h.initial().default, Value::int(0));
        assert_eq!(history("init=none: w(x,1)").initial().default, None);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "no operation"),
            ("w(x,1);", "no operation"),
            ("w(x,1", "no `)`"),
            ("x(x,1)", "expected w(key,value)"),
            ("w(x,y)", "expected an integer, found `y`"),
            ("w(x,[1])", "expected an integer"),
            ("w(x y,1)", "expected a name"),
            ("w(x,1) !abort r(x,1)", "after the outcome"),
            ("init=1 w(x,1)", "needs a `:`"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
