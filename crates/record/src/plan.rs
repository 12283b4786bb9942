//! Which rows a SELECT returns: one more column, with the version of each row.
//!
//! The column is `ROW(t.tableoid, t.xmin, t.key…)::text` for every table of the outermost FROM whose name is
//! sure. `xmin` is the number of the transaction that wrote the version, and is the same column in every
//! table, so nothing has to be added to tables.
//!
//! Why the other columns, the rows and their order stay: the addition is the last column of the list, it
//! calls nothing but the output of plain types, and it is only made where each row of the result is one row
//! of the tables joined (no DISTINCT, GROUP BY, aggregate, set operation or INTO). The changed text is
//! parsed again: without its last column it must be the tree of the original.
//!
//! What it may change is how the server reads: a column of the system is in no index, so an index-only scan
//! becomes an index scan.

use crate::catalogue::{Catalogue, Named, Table};
use anomalist_proxy::EXTRA;
use anomalist_sqltext::ast::{
    Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins,
};
use anomalist_sqltext::{Dialect, Kind as TokenKind, Lexed, walk};
use std::sync::Arc;

/// Why it is not seen what a statement reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It makes one row of several: aggregates, DISTINCT, GROUP BY.
    Aggregate,
    /// It joins results: UNION, EXCEPT, INTERSECT.
    SetOperation,
    /// It has no table that is read directly: a view, a function, the catalogue.
    NoTable,
    /// Its tables have no primary key, or one of a type whose text depends on settings, or are not logged.
    Keyless,
    /// The name could be that of several tables.
    Name,
    /// It is a cursor, EXECUTE, COPY, EXPLAIN, or CALL.
    Cursor,
    /// It is part of a simple query with several statements.
    Script,
    /// It writes, and what it looks at on the way is not returned.
    Writes,
    /// Its session has temporary tables, or its transaction has changed definitions.
    Definitions,
    /// The parser does not know it, or its form is another.
    Syntax,
}

impl Reason {
    /// For people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Aggregate => "make one row of several (aggregates, GROUP BY, DISTINCT)",
            Self::SetOperation => "join results (UNION, EXCEPT, INTERSECT)",
            Self::NoTable => "read no table directly (views, functions, the catalogue)",
            Self::Keyless => "read tables without a plain primary key, or that are not logged",
            Self::Name => "name a table that several tables could be",
            Self::Cursor => "are cursors, EXECUTE, COPY, EXPLAIN or CALL",
            Self::Script => "are among several statements in one query",
            Self::Writes => "write, and look at rows on the way",
            Self::Definitions => "follow a change of definitions, or temporary tables",
            Self::Syntax => "are not understood",
        }
    }
}

/// What is added to a SELECT, and what the addition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The addition goes before this token.
    pub token: usize,
    pub addition: String,
    /// For each table its key columns, in the order of the addition.
    pub keys: Vec<Arc<Table>>,
}

/// How the reads of a SELECT can be seen.
pub(crate) fn plan(statement: &Lexed<'_>, catalogue: &Catalogue) -> Result<Plan, Reason> {
    let tree = statement.parse().map_err(|_| Reason::Syntax)?;
    let Statement::Query(query) = &tree else { return Err(Reason::Syntax) };
    let select = plain(query, catalogue)?;
    let tables = tables(query, select, catalogue)?;
    let columns = tables.iter().map(|(name, table)| {
        let name = Dialect::PostgreSql.quote(name);
        let key = table.key.iter().map(|c| format!(", {name}.{}", Dialect::PostgreSql.quote(&c.name)));
        format!("{name}.tableoid, {name}.xmin{}", key.collect::<String>())
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let addition = format!(", ROW({columns})::pg_catalog.text AS \"{EXTRA}\" ");
    let token = from(statement).ok_or(Reason::Syntax)?;
    let plan = Plan { token, addition, keys: tables.into_iter().map(|(_, table)| table).collect() };
    is_faithful(statement, &plan, &tree).then_some(plan).ok_or(Reason::Syntax)
}

/// The SELECT of a query, if each row of the result is one row of the tables joined.
fn plain<'q>(query: &'q Query, catalogue: &Catalogue) -> Result<&'q Select, Reason> {
    let select = match &*query.body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => return Err(Reason::SetOperation),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
            return Err(Reason::Writes);
        }
        _ => return Err(Reason::Syntax),
    };
    let groups = match &select.group_by {
        GroupByExpr::Expressions(all, more) => !all.is_empty() || !more.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let aggregates = walk::any_expr(query, &mut |expr| match expr {
        Expr::Function(call) => {
            let name = call.name.0.last().map(ToString::to_string).unwrap_or_default();
            call.over.is_none() && catalogue.is_aggregate(&name.trim_matches('"').to_lowercase())
        }
        _ => false,
    });
    if select.distinct.is_some() || groups || select.having.is_some() || aggregates {
        return Err(Reason::Aggregate);
    }
    let writes = query.with.iter().flat_map(|with| &with.cte_tables).any(|cte| {
        !matches!(&*cte.query.body, SetExpr::Select(_) | SetExpr::SetOperation { .. } | SetExpr::Values(_))
    });
    if writes || select.into.is_some() {
        return Err(Reason::Writes);
    }
    if select.projection.is_empty() { Err(Reason::Syntax) } else { Ok(select) }
}

/// The tables of the outermost FROM that can be seen, with the names that they have there.
fn tables(
    query: &Query,
    select: &Select,
    catalogue: &Catalogue,
) -> Result<Vec<(String, Arc<Table>)>, Reason> {
    let fold = |ident: &anomalist_sqltext::ast::Ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    let mut shadowed: Vec<String> = Vec::new();
    if let Some(with) = &query.with {
        shadowed.extend(with.cte_tables.iter().map(|cte| fold(&cte.alias.name)));
    }
    let mut found: Vec<(String, Arc<Table>)> = Vec::new();
    let mut visible: Vec<String> = Vec::new();
    let mut reason = Reason::NoTable;
    for factor in select.from.iter().flat_map(factors) {
        let TableFactor::Table { name, alias, args, .. } = factor else {
            visible.extend(alias_of(factor).map(|alias| fold(&alias.name)));
            continue;
        };
        let parts: Option<Vec<String>> = name.0.iter().map(|p| p.as_ident().map(fold)).collect();
        let Some(parts) = parts.filter(|parts| args.is_none() && matches!(parts.len(), 1 | 2)) else {
            continue;
        };
        let last = parts[parts.len() - 1].clone();
        let shown = alias.as_ref().map_or_else(|| last.clone(), |alias| fold(&alias.name));
        visible.push(shown.clone());
        let schema = (parts.len() == 2).then(|| parts[0].as_str());
        if schema.is_none() && shadowed.contains(&last) {
            continue;
        }
        match catalogue.named(schema, &last) {
            // Columns may have other names than those of the table.
            Named::Table(_) if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) => {
                reason = Reason::Syntax;
            }
            Named::Table(table) => found.push((shown, table)),
            Named::Keyless => reason = Reason::Keyless,
            Named::Unsure => reason = Reason::Name,
            Named::Other => {}
        }
    }
    if found.is_empty() {
        return Err(reason);
    }
    let twice = |name: &String| visible.iter().filter(|other| *other == name).count() > 1;
    if found.iter().any(|(name, _)| twice(name)) { Err(Reason::Syntax) } else { Ok(found) }
}

fn factors(from: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
}

fn alias_of(factor: &TableFactor) -> Option<&anomalist_sqltext::ast::TableAlias> {
    match factor {
        TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

/// The FROM that ends the list of columns: the first outside of parentheses. That of `IS DISTINCT FROM` is
/// none.
fn from(statement: &Lexed<'_>) -> Option<usize> {
    let tokens = statement.tokens();
    let mut depth = 0i32;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" if token.kind == TokenKind::Symbol => depth += 1,
            ")" | "]" if token.kind == TokenKind::Symbol => depth -= 1,
            _ if depth == 0 && token.is("FROM") && !(at > 0 && tokens[at - 1].is("DISTINCT")) => {
                return Some(at);
            }
            _ => {}
        }
    }
    None
}

/// Whether the changed text is the statement with one more column at the end.
fn is_faithful(statement: &Lexed<'_>, plan: &Plan, tree: &Statement) -> bool {
    let at = statement.tokens()[plan.token].start;
    let Ok(Statement::Query(mut query)) = statement.parse_edited(vec![(at..at, plan.addition.clone())])
    else {
        return false;
    };
    let SetExpr::Select(select) = &mut *query.body else { return false };
    let added = matches!(
        select.projection.pop(),
        Some(SelectItem::ExprWithAlias { alias, .. }) if alias.value == EXTRA
    );
    added && Statement::Query(query) == *tree
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::tests::catalogue;

    fn found() -> Catalogue {
        catalogue(&[
            (1, "public", "t", "r", &[("id", 23)]),
            (2, "public", "lines", "r", &[("order", 23), ("n", 23)]),
            (3, "public", "v", "v", &[]),
            (4, "public", "keyless", "r", &[]),
            (5, "public", "u", "r", &[("id", 23)]),
            (6, "other", "u", "r", &[("id", 23)]),
            (7, "public", "Quoted", "r", &[("id", 23)]),
            (8, "public", "a", "r", &[("id", 23)]),
        ])
    }

    /// The text that the server gets.
    fn widened(text: &str) -> Result<String, Reason> {
        let lexed = Lexed::new(Dialect::PostgreSql, text);
        let plan = plan(&lexed, &found())?;
        let at = lexed.tokens()[plan.token].start;
        let short = plan.addition.replace("::pg_catalog.text AS \"anomalist extra\"", "#");
        Ok(format!("{}{short}{}", &text[..at], &text[at..]))
    }

    #[test]
    fn the_versions_of_rows_are_one_column_more() {
        for (text, expected) in [
            (
                "SELECT v FROM t WHERE id = $1",
                "SELECT v , ROW(\"t\".tableoid, \"t\".xmin, \"t\".\"id\")# FROM t WHERE id = $1",
            ),
            (
                "select * -- all\n from T as x, public.lines where x.v is not distinct from 1 limit 1 for update",
                "select * -- all\n , ROW(\"x\".tableoid, \"x\".xmin, \"x\".\"id\", \"lines\".tableoid, \
                 \"lines\".xmin, \"lines\".\"order\", \"lines\".\"n\")# from T as x, public.lines where x.v \
                 is not distinct from 1 limit 1 for update",
            ),
            (
                "SELECT a IS DISTINCT FROM b, extract(day FROM c) FROM \"Quoted\" LEFT JOIN other.u USING (id)",
                "SELECT a IS DISTINCT FROM b, extract(day FROM c) , ROW(\"Quoted\".tableoid, \"Quoted\".xmin, \
                 \"Quoted\".\"id\", \"u\".tableoid, \"u\".xmin, \"u\".\"id\")# FROM \"Quoted\" LEFT JOIN \
                 other.u USING (id)",
            ),
            (
                "WITH t AS (SELECT 1 AS id) SELECT * FROM t JOIN lines l ON l.n = t.id ORDER BY 1",
                "WITH t AS (SELECT 1 AS id) SELECT * , ROW(\"l\".tableoid, \"l\".xmin, \"l\".\"order\", \
                 \"l\".\"n\")# FROM t JOIN lines l ON l.n = t.id ORDER BY 1",
            ),
            (
                "SELECT row_number() OVER (ORDER BY id), sum(v) OVER () FROM t",
                "SELECT row_number() OVER (ORDER BY id), sum(v) OVER () , ROW(\"t\".tableoid, \"t\".xmin, \
                 \"t\".\"id\")# FROM t",
            ),
        ] {
            assert_eq!(widened(text).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_cannot_be_seen_has_a_reason() {
        for (text, expected) in [
            ("SELECT count(*) FROM t", Reason::Aggregate),
            ("SELECT DISTINCT v FROM t", Reason::Aggregate),
            ("SELECT v FROM t GROUP BY v", Reason::Aggregate),
            ("SELECT v FROM t ORDER BY max(v)", Reason::Aggregate),
            ("SELECT v FROM t UNION SELECT 1", Reason::SetOperation),
            ("SELECT 1", Reason::NoTable),
            ("SELECT * FROM v", Reason::NoTable),
            ("SELECT * FROM generate_series(1, 2) t", Reason::NoTable),
            ("SELECT * FROM (SELECT * FROM t) s", Reason::NoTable),
            ("SELECT * FROM keyless", Reason::Keyless),
            ("SELECT * FROM u", Reason::Name),
            ("SELECT * FROM nothing", Reason::Name),
            ("SELECT * INTO n FROM t", Reason::Writes),
            ("WITH d AS (DELETE FROM t RETURNING id) SELECT * FROM d, a", Reason::Writes),
            ("SELECT FROM t", Reason::Syntax),
            ("(SELECT * FROM t)", Reason::Syntax),
            ("SELECT * FROM t AS x (b)", Reason::Syntax),
            ("SELECT * FROM public.u, other.u", Reason::Syntax),
            ("SELECT * FROM t, v AS t", Reason::Syntax),
            ("TABLE t", Reason::Syntax),
            ("SELEC 1", Reason::Syntax),
        ] {
            assert_eq!(widened(text), Err(expected), "{text}");
        }
    }
}
