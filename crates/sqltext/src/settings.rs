//! `SET name = value`: names, scopes and values as written.

use crate::Dialect;
use crate::control::Scope;
use crate::lexed::Lexed;
use crate::lexer::{Kind, Token};

/// One assignment of a SET statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// SESSION, LOCAL or GLOBAL, if said.
    pub scope: Option<Scope>,
    /// In lower case, without at signs and scope. A user's variable of MySQL keeps its `@`.
    pub name: String,
    /// A single word or string without its quotes; otherwise the expression as written. `DEFAULT` is a word
    /// like others.
    pub value: String,
}

/// The assignments of a SET statement; nothing if it is another statement, or a SET of another form.
#[must_use]
pub fn settings(dialect: Dialect, statement: &str) -> Option<Vec<Setting>> {
    Lexed::new(dialect, statement).settings()
}

/// The same, from its tokens.
pub(crate) fn recognise(dialect: Dialect, statement: &str, tokens: &[Token<'_>]) -> Option<Vec<Setting>> {
    let (first, rest) = tokens.split_first()?;
    if !first.is("SET") || dialect == Dialect::Sqlite {
        return None;
    }
    match dialect {
        Dialect::MySql => commas(rest).into_iter().map(|part| one(dialect, statement, part)).collect(),
        _ => one(dialect, statement, rest).map(|s| vec![s]),
    }
}

/// The parts between commas that stand outside parentheses.
fn commas<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let mut depth = 0i32;
    tokens
        .split(|t| {
            depth += i32::from(t.text == "(") - i32::from(t.text == ")");
            depth == 0 && t.kind == Kind::Symbol && t.text == ","
        })
        .collect()
}

fn one(dialect: Dialect, statement: &str, mut part: &[Token<'_>]) -> Option<Setting> {
    let mut scope = None;
    let scopes = [("GLOBAL", Scope::Global), ("SESSION", Scope::Session)];
    let local = if dialect == Dialect::MySql { Scope::Session } else { Scope::Transaction };
    for (word, said) in scopes.into_iter().chain([("LOCAL", local)]) {
        if part.len() > 2 && part[0].is(word) {
            scope = Some(said);
            part = &part[1..];
            break;
        }
    }
    let (head, mut rest) = part.split_first()?;
    // NAMES, CHARACTER SET and TIME ZONE are settings without an equals sign.
    let mut name = match head.kind {
        Kind::Variable => head.text.to_ascii_lowercase(),
        Kind::Word | Kind::Name => head.unquoted().to_ascii_lowercase(),
        _ => return None,
    };
    if name == "names" {
        return Some(Setting { scope, name, value: value(statement, rest)? });
    }
    if (name == "time" || name == "character") && rest.first().is_some_and(|t| t.is("ZONE") || t.is("SET")) {
        name = format!("{name}{}", if name == "time" { "zone" } else { "_set" });
        return Some(Setting { scope, name, value: value(statement, &rest[1..])? });
    }
    while let [dot, word, ..] = rest
        && dot.text == "."
        && matches!(word.kind, Kind::Word | Kind::Name)
    {
        name = format!("{name}.{}", word.unquoted().to_ascii_lowercase());
        rest = &rest[2..];
    }
    rest = match rest {
        [colon, equals, rest @ ..] if colon.text == ":" && equals.text == "=" => rest,
        [equals, rest @ ..] if equals.text == "=" => rest,
        [to, rest @ ..] if to.is("TO") => rest,
        _ => return None,
    };
    if let Some(system) = name.strip_prefix("@@") {
        let (said, bare) = match system.split_once('.') {
            Some(("global", bare)) => (Some(Scope::Global), bare),
            Some(("session" | "local", bare)) => (Some(Scope::Session), bare),
            _ => (None, system),
        };
        (scope, name) = (scope.or(said), bare.to_owned());
    }
    Some(Setting { scope, name, value: value(statement, rest)? })
}

fn value(statement: &str, tokens: &[Token<'_>]) -> Option<String> {
    let (first, last) = (tokens.first()?, tokens.last()?);
    Some(if tokens.len() == 1 { first.unquoted() } else { statement[first.start..last.end()].to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(dialect: Dialect, text: &str) -> Vec<(String, String)> {
        settings(dialect, text).into_iter().flatten().map(|s| (s.name, s.value)).collect()
    }

    fn own(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect()
    }

    #[test]
    fn names_and_values() {
        let text = "SET autocommit=1, sql_mode = concat(@@sql_mode,',X'), @a := 'b', NAMES utf8mb4";
        let expected =
            [("autocommit", "1"), ("sql_mode", "concat(@@sql_mode,',X')"), ("@a", "b"), ("names", "utf8mb4")];
        assert_eq!(pairs(Dialect::MySql, text), own(&expected));
        assert_eq!(pairs(Dialect::PostgreSql, "SET search_path TO a, b"), own(&[("search_path", "a, b")]));
        assert_eq!(
            pairs(Dialect::PostgreSql, "SET anomalist.latest = on;"),
            own(&[("anomalist.latest", "on")])
        );
        assert_eq!(pairs(Dialect::PostgreSql, "SET TIME ZONE 'UTC'"), own(&[("timezone", "UTC")]));
        assert_eq!(settings(Dialect::PostgreSql, "SELECT 1"), None);
    }

    #[test]
    fn scopes() {
        let scope = |text| settings(Dialect::MySql, text).and_then(|s| s[0].scope);
        assert_eq!(scope("SET GLOBAL x = 1"), Some(Scope::Global));
        assert_eq!(scope("SET @@session.x = 1"), Some(Scope::Session));
        assert_eq!(scope("SET x = 1"), None);
    }
}
