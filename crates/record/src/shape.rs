//! What a statement is, whatever its constants: kept by its shape, because applications send the same few
//! shapes again and again.
//!
//! The shape is the text without constants and comments. A plan names a token, not a place in a text, so
//! it serves every statement of the shape: constants are single tokens, and no rule of `plan.rs` looks at
//! them. Once known, a statement costs its lexing.

use crate::catalogue::Catalogue;
use crate::plan::{Plan, Reason, plan};
use anomalist_sqltext::{Control, Dialect, Kind as TokenKind, Lexed};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Shapes that are kept; then all are forgotten.
const KEPT: usize = 10_000;
/// The longest shape that is shown.
const SHOWN: usize = 300;

/// What a statement does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Control(Control),
    /// Reads, and nothing else that matters. `calls` if it calls functions, which may do anything.
    Read {
        plan: Result<Plan, Reason>,
        calls: bool,
    },
    /// Writes rows.
    Write,
    /// Changes definitions.
    Define {
        temporary: bool,
    },
    /// Settings, locks, notifications: neither reads nor writes rows.
    Quiet,
    /// May do anything.
    Opaque(Reason),
    /// Several statements in one text; what each does to transactions.
    Script(Vec<Option<Control>>),
}

/// A statement without its constants.
#[derive(Debug)]
pub(crate) struct Shape {
    pub text: String,
    pub kind: Kind,
}

impl Shape {
    /// Whether the transaction may have written something after it.
    pub fn may_write(&self) -> bool {
        match &self.kind {
            Kind::Control(_) | Kind::Quiet => false,
            Kind::Read { calls, .. } => *calls,
            _ => true,
        }
    }

    /// What the statement at this place of the text does to transactions.
    pub fn control(&self, place: usize) -> Option<&Control> {
        match &self.kind {
            Kind::Control(control) => Some(control),
            Kind::Script(all) => all.get(place)?.as_ref(),
            _ => None,
        }
    }
}

/// The shapes that were seen.
#[derive(Default)]
pub(crate) struct Shapes(Mutex<FxHashMap<String, Arc<Shape>>>);

impl Shapes {
    /// The shape of a text, and where in it a plan's addition goes.
    pub fn of(&self, text: &str, catalogue: &Catalogue) -> (Arc<Shape>, usize) {
        let lexed = Lexed::new(Dialect::PostgreSql, text);
        let key = shape(&lexed);
        let known = self.lock().get(&key).cloned();
        let found = known.unwrap_or_else(|| {
            let kind = classify(&lexed, catalogue);
            let found = Arc::new(Shape { text: shortened(&key), kind });
            let mut kept = self.lock();
            if kept.len() >= KEPT {
                kept.clear();
            }
            kept.insert(key, found.clone());
            found
        });
        let place = match &found.kind {
            Kind::Read { plan: Ok(plan), .. } => lexed.tokens().get(plan.token).map_or(0, |t| t.start),
            _ => 0,
        };
        (found, place)
    }

    /// Plans were made by another catalogue.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FxHashMap<String, Arc<Shape>>> {
        // No invariant spans two critical sections.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The tokens with spaces between them where there were any; constants are question marks.
fn shape(lexed: &Lexed<'_>) -> String {
    let mut shape = String::with_capacity(lexed.text().len());
    let mut end = None;
    for token in lexed.tokens() {
        if end.is_some_and(|end| end < token.start) {
            shape.push(' ');
        }
        end = Some(token.end());
        match token.kind {
            TokenKind::Number | TokenKind::Text => shape.push('?'),
            _ => shape.push_str(token.text),
        }
    }
    shape
}

fn classify(lexed: &Lexed<'_>, catalogue: &Catalogue) -> Kind {
    let mut statements = Lexed::script(Dialect::PostgreSql, lexed.text());
    match statements.len() {
        0 => Kind::Quiet,
        // Its tokens are those of the whole text, from its first on.
        1 => single(lexed, catalogue),
        _ => Kind::Script(statements.drain(..).map(|s| s.control()).collect()),
    }
}

fn single(statement: &Lexed<'_>, catalogue: &Catalogue) -> Kind {
    if let Some(control) = statement.control() {
        return Kind::Control(control);
    }
    let tokens = statement.tokens();
    let first = tokens.iter().find(|t| t.text != "(").map(|t| t.text.to_ascii_uppercase());
    let calls = tokens.windows(2).any(|pair| {
        matches!(pair[0].kind, TokenKind::Word | TokenKind::Name)
            && pair[1].text == "("
            && !["IN", "VALUES", "AS", "ANY", "ALL", "SOME", "EXISTS", "FROM", "AND", "OR", "NOT", "BY"]
                .iter()
                .any(|w| pair[0].is(w))
    });
    match first.as_deref().unwrap_or_default() {
        "SELECT" | "WITH" | "VALUES" | "TABLE" => match plan(statement, catalogue) {
            Err(Reason::Writes) => Kind::Write,
            // What is not understood may write: WITH has its statements anywhere.
            Err(Reason::Syntax) => Kind::Read { plan: Err(Reason::Syntax), calls: true },
            plan => Kind::Read { plan, calls },
        },
        "INSERT" | "UPDATE" | "DELETE" | "MERGE" => Kind::Write,
        "CREATE" | "ALTER" | "DROP" => {
            let temporary = tokens.iter().take(5).any(|t| t.is("TEMP") || t.is("TEMPORARY"));
            Kind::Define { temporary }
        }
        "SHOW" | "SET" | "RESET" | "LISTEN" | "NOTIFY" | "UNLISTEN" | "LOCK" | "DEALLOCATE" => Kind::Quiet,
        _ => Kind::Opaque(Reason::Cursor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::tests::catalogue;

    #[test]
    fn constants_and_comments_make_no_other_shape() {
        let found = catalogue(&[(1, "public", "t", "r", &[("id", 23)])]);
        let shapes = Shapes::default();
        let texts = [
            "SELECT v FROM t WHERE id = 1",
            "SELECT  v FROM t -- x\n WHERE id = 17",
            "SELECT v /* route */ FROM t WHERE id = 'a '' b'",
        ];
        let all = texts.map(|text| shapes.of(text, &found));
        for ((shape, at), text) in all.iter().zip(texts) {
            assert!(Arc::ptr_eq(shape, &all[0].0), "{text}");
            assert!(text[*at..].starts_with("FROM t"), "{text}");
        }
        assert_eq!(all[0].0.text, "SELECT v FROM t WHERE id = ?");
        assert_ne!(shapes.of("SELECT v FROM t WHERE id = $1", &found).0.text, all[0].0.text);
    }

    #[test]
    fn what_statements_do() {
        let found = catalogue(&[(1, "public", "t", "r", &[("id", 23)])]);
        let shapes = Shapes::default();
        let name = |text: &str| match &shapes.of(text, &found).0.kind {
            Kind::Control(_) => "control".to_owned(),
            Kind::Read { plan, calls } => format!("read {} {calls}", plan.is_ok()),
            Kind::Write => "write".to_owned(),
            Kind::Define { temporary } => format!("define {temporary}"),
            Kind::Quiet => "quiet".to_owned(),
            Kind::Opaque(_) => "opaque".to_owned(),
            Kind::Script(all) => format!("script of {}", all.len()),
        };
        for (text, expected) in [
            ("BEGIN ISOLATION LEVEL SERIALIZABLE", "control"),
            ("SELECT * FROM t WHERE id IN (1)", "read true false"),
            ("SELECT f(id) FROM t", "read true true"),
            ("SELECT count(*) FROM t", "read false true"),
            ("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x, t", "write"),
            ("INSERT INTO t VALUES (1)", "write"),
            ("CREATE TEMP TABLE x (id int)", "define true"),
            ("ALTER TABLE t ADD c int", "define false"),
            ("SET x = 1", "quiet"),
            ("", "quiet"),
            ("COPY t FROM STDIN", "opaque"),
            ("EXECUTE s", "opaque"),
            ("SELECT 1; COMMIT; SELECT 2", "script of 3"),
            ("SELECT v FROM t;", "read true false"),
        ] {
            assert_eq!(name(text), expected, "{text}");
        }
    }
}
