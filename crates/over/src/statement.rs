//! What a statement is, as far as weak reads need to know: decided by its text and kept for the next time.
//!
//! Only what is surely a plain read is weakened. Everything else runs on the real tables, and where it reads
//! tables, the store hears that it has read the newest versions.

use crate::catalogue::{Catalogue, Relation, Table};
use crate::reads::{self, Reads};
use anomalist_sqltext::ast::Statement as Tree;
use anomalist_sqltext::{Control, Dialect, Kind as TokenKind, Lexed};
use std::collections::HashSet;
use std::sync::Arc;

/// Why a read is not weakened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It asks the catalogue.
    Catalogue,
    /// It locks rows (FOR UPDATE, FOR SHARE), and reads them as they are.
    Locks,
    /// It writes, in WITH or by INTO.
    Writes,
    /// It calls a function of the database that may write, or read tables.
    Function,
    /// It reads a view of the database, or a part of a partitioned table.
    View,
    /// It is part of a simple query with several statements.
    Script,
    /// It is a cursor, a prepared statement of SQL, COPY, or a function call of the protocol.
    Cursor,
    /// The views would not do: it groups by a key alone, names system columns, takes whole rows, …
    Shape,
    /// The parser does not know it.
    Syntax,
    /// Another portal of the session is being read.
    Portal,
    /// Its transaction has changed definitions.
    Definitions,
}

impl Reason {
    /// For people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Catalogue => "ask the catalogue",
            Self::Locks => "lock rows",
            Self::Writes => "write too",
            Self::Function => "call functions that may write or read tables",
            Self::View => "read views or partitions",
            Self::Script => "are among several statements in one query",
            Self::Cursor => "are cursors, EXECUTE or COPY",
            Self::Shape => "need more than views can give",
            Self::Syntax => "are not understood",
            Self::Portal => "run while another portal is read",
            Self::Definitions => "follow a change of definitions in their transaction",
        }
    }
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Reads tables, and nothing else.
    Read(Reads),
    /// May read and write rows, in a transaction of its own or in an open one.
    Work {
        reads: Reads,
        reason: Option<Reason>,
    },
    /// Changes definitions.
    Define {
        releases: bool,
        names: Vec<String>,
    },
    Control(Control),
    /// Changes settings.
    Setting,
    /// May commit by itself: DO, CALL, scripts with BEGIN or COMMIT in them.
    Opaque {
        releases: bool,
        names: Vec<String>,
        reads: Reads,
    },
    /// Neither reads nor writes rows of tables.
    Other,
}

/// Tables in which a statement is interested.
pub(crate) struct Resolved {
    pub tables: Vec<(Arc<Table>, Vec<Vec<reads::Operand>>)>,
    pub obstacle: Option<Reason>,
    /// The table that it writes without reading.
    pub blind: Option<u32>,
}

/// What a text is.
pub(crate) fn classify(text: &str) -> Kind {
    let statements = Lexed::script(Dialect::PostgreSql, text);
    match statements.as_slice() {
        [] => Kind::Other,
        [one] => single(one),
        several => script(several),
    }
}

fn script(several: &[Lexed<'_>]) -> Kind {
    let (mut reads, mut names, mut releases, mut opaque, mut defines) =
        (Reads::default(), Vec::new(), false, false, false);
    for statement in several {
        match single(statement) {
            Kind::Read(more) | Kind::Work { reads: more, .. } => reads.merge(more),
            Kind::Define { releases: r, names: n } => {
                defines = true;
                releases |= r;
                names.extend(n);
            }
            Kind::Control(_) => opaque = true,
            Kind::Opaque { releases: r, names: n, reads: more } => {
                opaque = true;
                releases |= r;
                names.extend(n);
                reads.merge(more);
            }
            // Some of them do not run in transactions; a script of them is run as it is.
            Kind::Setting | Kind::Other => {}
        }
    }
    if opaque || defines {
        return Kind::Opaque { releases, names, reads };
    }
    Kind::Work { reads, reason: Some(Reason::Script) }
}

/// Every name in a statement that could be a table's.
fn names(statement: &Lexed<'_>) -> Vec<String> {
    let named = |t: &&anomalist_sqltext::Token<'_>| matches!(t.kind, TokenKind::Word | TokenKind::Name);
    statement.tokens().iter().filter(named).map(anomalist_sqltext::Token::name).collect()
}

fn single(statement: &Lexed<'_>) -> Kind {
    if let Some(control) = statement.control() {
        return Kind::Control(control);
    }
    let words = statement.words(2);
    let first = words.first().map(String::as_str).unwrap_or_default();
    let mentioned = || Reads::mentioned(names(statement));
    match first {
        "SELECT" | "WITH" | "TABLE" | "VALUES" | "(" => query(statement),
        "INSERT" | "UPDATE" | "DELETE" | "MERGE" => match statement.parse() {
            Ok(tree) => Kind::Work { reads: reads::of(&tree), reason: None },
            Err(_) => Kind::Work { reads: mentioned(), reason: None },
        },
        "DECLARE" | "FETCH" | "MOVE" | "CLOSE" | "PREPARE" | "EXECUTE" | "COPY" => {
            Kind::Work { reads: mentioned(), reason: Some(Reason::Cursor) }
        }
        "EXPLAIN" | "TRUNCATE" | "LOCK" => Kind::Work { reads: Reads::default(), reason: None },
        "SET" | "RESET" | "DISCARD" | "SHOW" => Kind::Setting,
        "DO" | "CALL" => Kind::Opaque { releases: false, names: Vec::new(), reads: mentioned() },
        "ALTER" | "DROP" => Kind::Define { releases: true, names: names(statement) },
        "CREATE" | "COMMENT" | "GRANT" | "REVOKE" | "REFRESH" | "IMPORT" | "SECURITY" | "REASSIGN"
        | "CLUSTER" | "REINDEX" => Kind::Define { releases: false, names: Vec::new() },
        _ => Kind::Other,
    }
}

fn query(statement: &Lexed<'_>) -> Kind {
    let Ok(tree) = statement.parse() else {
        return Kind::Work { reads: Reads::mentioned(names(statement)), reason: Some(Reason::Syntax) };
    };
    let reads = reads::of(&tree);
    let reason = match () {
        () if !matches!(tree, Tree::Query(_)) || reads.writes => Some(Reason::Writes),
        () if reads.locks => Some(Reason::Locks),
        () => None,
    };
    if reads.into {
        return Kind::Define { releases: false, names: Vec::new() };
    }
    match reason {
        Some(_) => Kind::Work { reads, reason },
        None => Kind::Read(reads),
    }
}

impl Reads {
    /// The tables that are read, with this search path, and why they cannot be read weakly.
    pub fn resolve(&self, catalogue: &Catalogue, path: &[String], hidden: &HashSet<String>) -> Resolved {
        let mut resolved = Resolved { tables: Vec::new(), obstacle: None, blind: None };
        let blind = self.blind.as_ref();
        let mut obstacle = None;
        let mut hinder = |reason| {
            let _ = obstacle.get_or_insert(reason);
        };
        if self.functions.iter().any(|f| catalogue.is_busy_function(f)) {
            hinder(Reason::Function);
        }
        for read in &self.tables {
            // A temporary table comes first, whatever else has its name.
            if read.schema.is_none() && hidden.contains(&read.name) {
                continue;
            }
            match catalogue.relation(read.schema.as_deref(), &read.name, path) {
                Relation::Weak(table)
                    if resolved.blind.is_none()
                        && blind.is_some_and(|b| {
                            (&b.schema, &b.name) == (&read.schema, &read.name) && b.looks_only_at(&table.key)
                        }) =>
                {
                    resolved.blind = Some(table.rel);
                }
                Relation::Weak(table) => {
                    if read.schema.is_some() {
                        hinder(Reason::Shape);
                    }
                    let prefixes = read.fixed(&table.key);
                    resolved.tables.push((table, prefixes));
                }
                Relation::Shows(tables) => {
                    hinder(Reason::View);
                    resolved.tables.extend(tables.into_iter().map(|t| (t, vec![Vec::new()])));
                }
                Relation::Catalogue => hinder(Reason::Catalogue),
                Relation::Plain => {}
            }
        }
        resolved.obstacle = obstacle;
        resolved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> String {
        match classify(text) {
            Kind::Read(_) => "read".into(),
            Kind::Work { reason, .. } => format!("work {reason:?}"),
            Kind::Define { releases, .. } => format!("define {releases}"),
            Kind::Control(control) => format!("{control:?}").chars().take(8).collect(),
            Kind::Setting => "setting".into(),
            Kind::Opaque { .. } => "opaque".into(),
            Kind::Other => "other".into(),
        }
    }

    #[test]
    fn only_plain_reads_are_reads() {
        for (text, expected) in [
            ("SELECT * FROM t", "read"),
            ("/* by an application */ WITH a AS (SELECT 1) SELECT * FROM a, t;", "read"),
            ("(SELECT 1) UNION SELECT v FROM t", "read"),
            ("SELECT * FROM t FOR UPDATE SKIP LOCKED", "work Some(Locks)"),
            ("SELECT * FROM (SELECT * FROM t FOR SHARE) s", "work Some(Locks)"),
            ("WITH d AS (DELETE FROM t RETURNING id) SELECT * FROM d", "work Some(Writes)"),
            ("SELECT * INTO u FROM t", "define false"),
            ("UPDATE t SET v = 1", "work None"),
            ("COPY t TO STDOUT", "work Some(Cursor)"),
            ("DECLARE c CURSOR FOR SELECT * FROM t", "work Some(Cursor)"),
            ("BEGIN", "Begin(Mo"),
            ("SELECT 1; SELECT v FROM t", "work Some(Script)"),
            ("BEGIN; SELECT v FROM t; COMMIT", "opaque"),
            ("ALTER TABLE t ADD COLUMN x int", "define true"),
            ("CREATE TABLE t (id int)", "define false"),
            ("LISTEN c", "other"),
            ("SET search_path = a", "setting"),
            ("", "other"),
        ] {
            assert!(name(text).starts_with(expected), "{text}: {}", name(text));
        }
    }
}
