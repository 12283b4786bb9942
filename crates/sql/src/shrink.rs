//! Smaller scripts that still show the anomaly, on the live database (IsoRel does this by hand, 20 minutes
//! each).
//!
//! A reduction is tried by replaying the script with its forced interleaving, and kept if the same anomaly
//! is found again. Reductions: a whole session without one of its transactions, blocks of statements, of
//! rows of the setup, a condition without one of its halves, a column that no statement uses. Largest
//! first, until none is kept. Every replay makes the tables anew, so an answer does not depend on what was
//! tried before.

use crate::Flavour;
use crate::script::{Line, Script};
use anomalist_sqltext::ast::{BinaryOperator, Expr, ObjectNamePart, SetExpr, Statement, TableFactor};
use anomalist_sqltext::{Control, control, parse};
use std::ops::Range;

/// Shrinks a script. `shows` replays a candidate and says whether it still shows the anomaly; `stop` ends
/// the search with what has been reached.
pub fn shrink(
    flavour: Flavour,
    script: &Script,
    mut shows: impl FnMut(&Script) -> bool,
    stop: impl Fn() -> bool,
) -> Script {
    let mut best = script.clone();
    loop {
        let mut improved = false;
        for pass in [transactions, statements, setup, conditions, columns] {
            let mut at = 0;
            while let Some(candidate) = pass(flavour, &best, at) {
                if stop() {
                    return best;
                }
                match candidate {
                    // The next candidate moves into this place.
                    Some(smaller) if shows(&smaller) => {
                        best = smaller;
                        improved = true;
                    }
                    _ => at += 1,
                }
            }
        }
        if !improved {
            return best;
        }
    }
}

/// The `at`-th reduction of a kind: none if there are no more, `Some(None)` if this one makes no sense.
type Pass = fn(Flavour, &Script, usize) -> Option<Option<Script>>;

const _: [Pass; 5] = [transactions, statements, setup, conditions, columns];

/// The lines of each transaction: from its BEGIN to its end, or a statement alone.
fn spans(flavour: Flavour, script: &Script) -> Vec<Vec<usize>> {
    let mut open: Vec<Option<usize>> = vec![None; script.sessions()];
    let mut found: Vec<Vec<usize>> = Vec::new();
    for (i, line) in script.steps.iter().enumerate() {
        let known = control(flavour.dialect(), &line.text);
        let slot = &mut open[line.session - 1];
        let begins = matches!(known, Some(Control::Begin(_) | Control::BeginLocked(_)));
        match *slot {
            Some(span) if !begins => found[span].push(i),
            _ => {
                found.push(vec![i]);
                *slot = begins.then_some(found.len() - 1);
            }
        }
        if matches!(known, Some(Control::Commit(_) | Control::Rollback(_))) {
            *slot = None;
        }
    }
    found
}

fn without(script: &Script, lines: &[usize]) -> Script {
    let steps = script.steps.iter().enumerate().filter(|(i, _)| !lines.contains(i)).map(|(_, l)| l.clone());
    let mut smaller = Script { steps: steps.collect(), ..script.clone() };
    renumber(&mut smaller.steps);
    smaller
}

/// Sessions without a gap.
fn renumber(steps: &mut [Line]) {
    let mut used: Vec<usize> = steps.iter().map(|l| l.session).collect();
    used.sort_unstable();
    used.dedup();
    for line in steps {
        line.session = used.partition_point(|s| *s < line.session) + 1;
    }
}

fn transactions(flavour: Flavour, script: &Script, at: usize) -> Option<Option<Script>> {
    let spans = spans(flavour, script);
    let span = spans.get(at)?;
    Some((spans.len() > 1).then(|| without(script, span)))
}

/// Half of the lines, quarters, and so on down to single ones; from the end, because what comes later
/// depends on what comes before.
fn block(count: usize, at: usize) -> Option<Range<usize>> {
    let mut left = at;
    let mut size = (count / 2).max(1);
    loop {
        let blocks = count.div_ceil(size);
        if left < blocks {
            let end = count - left * size;
            return Some(end.saturating_sub(size)..end);
        }
        left -= blocks;
        if size == 1 {
            return None;
        }
        size /= 2;
    }
}

fn statements(flavour: Flavour, script: &Script, at: usize) -> Option<Option<Script>> {
    let ends = |line: &usize| {
        let known = control(flavour.dialect(), &script.steps[*line].text);
        matches!(
            known,
            Some(Control::Begin(_) | Control::BeginLocked(_) | Control::Commit(_) | Control::Rollback(_))
        )
    };
    let inner: Vec<usize> = (0..script.steps.len()).filter(|line| !ends(line)).collect();
    block(inner.len(), at).map(|range| Some(without(script, &inner[range])))
}

/// Statements of the setup, unless something that they make is used by what stays.
fn setup(flavour: Flavour, script: &Script, at: usize) -> Option<Option<Script>> {
    let range = block(script.setup.len(), at)?;
    let mut smaller = script.clone();
    let gone: Vec<String> = smaller.setup.drain(range).filter_map(|text| creates(flavour, &text)).collect();
    let steps = smaller.steps.iter().map(|l| &l.text);
    let is_used = smaller.setup.iter().chain(steps).any(|text| gone.iter().any(|name| mentions(text, name)));
    Some((!is_used).then_some(smaller))
}

/// The name of the table or view that a statement makes.
fn creates(flavour: Flavour, text: &str) -> Option<String> {
    let name = match parse(flavour.dialect(), text).ok()? {
        Statement::CreateTable(table) => table.name,
        Statement::CreateView(view) => view.name,
        _ => return None,
    };
    name.0.last().and_then(ObjectNamePart::as_ident).map(|ident| ident.value.clone())
}

/// Every statement with a condition, as often as it has ways to be simpler.
fn conditions(flavour: Flavour, script: &Script, at: usize) -> Option<Option<Script>> {
    let mut left = at;
    for (i, line) in script.steps.iter().enumerate() {
        let Ok(mut tree) = parse(flavour.dialect(), &line.text) else { continue };
        let Some(selection) = selection(&mut tree) else { continue };
        let ways = simpler(selection);
        if left < ways.len() {
            *selection = ways.into_iter().nth(left)?;
            let mut smaller = script.clone();
            smaller.steps[i].text = tree.to_string();
            return Some((smaller.steps[i].text != line.text).then_some(smaller));
        }
        left -= ways.len();
    }
    None
}

fn selection(tree: &mut Statement) -> Option<&mut Option<Expr>> {
    match tree {
        Statement::Query(query) => match query.body.as_mut() {
            SetExpr::Select(select) => Some(&mut select.selection),
            _ => None,
        },
        Statement::Update(update) => Some(&mut update.selection),
        Statement::Delete(delete) => Some(&mut delete.selection),
        _ => None,
    }
}

fn simpler(selection: &Option<Expr>) -> Vec<Option<Expr>> {
    let Some(condition) = selection else { return Vec::new() };
    let mut ways = vec![None];
    if let Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } = condition {
        ways.extend([Some((**left).clone()), Some((**right).clone())]);
    }
    ways
}

/// A column that nothing uses: gone from the table and from the rows.
fn columns(flavour: Flavour, script: &Script, at: usize) -> Option<Option<Script>> {
    let dialect = flavour.dialect();
    let mut left = at;
    for (i, text) in script.setup.iter().enumerate() {
        let Ok(Statement::CreateTable(table)) = parse(dialect, text) else { continue };
        if left >= table.columns.len() {
            left -= table.columns.len();
            continue;
        }
        if table.columns.len() < 2 {
            return Some(None);
        }
        let column = table.columns[left].name.value.clone();
        let mut made = table.clone();
        made.columns.remove(left);
        if made.constraints.iter().any(|c| mentions(&c.to_string(), &column)) {
            return Some(None);
        }
        let mut smaller = script.clone();
        smaller.setup[i] = Statement::CreateTable(made).to_string();
        let name = table.name.to_string();
        for (j, text) in script.setup.iter().enumerate().filter(|(j, _)| *j != i) {
            match parse(dialect, text) {
                Ok(Statement::Insert(mut insert)) if insert.table.to_string() == name => {
                    let place = insert.columns.iter().position(|c| c.to_string() == column)?;
                    insert.columns.remove(place);
                    if let Some(SetExpr::Values(values)) = insert.source.as_mut().map(|s| s.body.as_mut()) {
                        values.rows.iter_mut().for_each(|row| drop(row.content.remove(place)));
                    }
                    smaller.setup[j] = Statement::Insert(insert).to_string();
                }
                _ if mentions(text, &name) && mentions(text, &column) => return Some(None),
                _ => {}
            }
        }
        for line in &mut smaller.steps {
            if !mentions(&line.text, &name) || !mentions(&line.text, &column) {
                continue;
            }
            // A column that is only looked at can be left out of the list.
            let Ok(Statement::Query(mut query)) = parse(dialect, &line.text) else { return Some(None) };
            let SetExpr::Select(select) = query.body.as_mut() else { return Some(None) };
            let one = matches!(&select.from[..], [from] if from.joins.is_empty()
                && matches!(from.relation, TableFactor::Table { .. }));
            if !one || select.projection.len() < 2 {
                return Some(None);
            }
            select.projection.retain(|item| item.to_string() != column);
            line.text = query.to_string();
            if mentions(&line.text, &column) {
                return Some(None);
            }
        }
        return Some(Some(smaller));
    }
    None
}

/// Whether a name occurs as a word.
fn mentions(text: &str, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c: char| !word(c)).any(|w| w.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_does_not_matter_goes() {
        let text = "CREATE TABLE t (a INT, b INT, c INT);\nCREATE TABLE u (a INT);\n\
            INSERT INTO t (a, b, c) VALUES (1, 2, 3);\nINSERT INTO t (a, b, c) VALUES (4, 5, 6);\n\
            BEGIN; -- T1\nBEGIN; -- T2\nBEGIN; -- T3\nSELECT a, c FROM t WHERE a = 1 AND b = 2; -- T1\n\
            UPDATE t SET a = 2 WHERE b > 0; -- T3\nSELECT a FROM u; -- T2\nCOMMIT; -- T1\nCOMMIT; -- T2\nCOMMIT; -- T3\n";
        let script = Script::parse(Flavour::PostgreSql, text).unwrap();
        // The anomaly needs a read and an update of t, in sessions of their own, and a row.
        let mut tries = 0;
        let shows = |s: &Script| {
            tries += 1;
            let of = |verb: &str| {
                let line = s.steps.iter().find(|l| l.text.starts_with(verb) && l.text.contains(" t"));
                line.map(|l| l.session)
            };
            let made = ["CREATE TABLE t ", "INSERT INTO t "]
                .iter()
                .all(|m| s.setup.iter().any(|l| l.starts_with(m)));
            made && of("SELECT").is_some() && of("UPDATE").is_some() && of("SELECT") != of("UPDATE")
        };
        let small = shrink(Flavour::PostgreSql, &script, shows, || false);
        assert_eq!(small.setup, ["CREATE TABLE t (a INT)", "INSERT INTO t (a) VALUES (1)"]);
        let lines: Vec<(usize, &str)> = small.steps.iter().map(|l| (l.session, l.text.as_str())).collect();
        let expected = [
            (1, "BEGIN"),
            (2, "BEGIN"),
            (1, "SELECT a FROM t"),
            (2, "UPDATE t SET a = 2"),
            (1, "COMMIT"),
            (2, "COMMIT"),
        ];
        assert_eq!(lines, expected);
        assert!(tries < 100, "{tries}");
    }

    #[test]
    fn what_is_used_stays() {
        let text = "CREATE TABLE t (a INT);\nCREATE VIEW v0 AS SELECT a FROM t;\nCREATE VIEW v1 AS SELECT a FROM t;\n\
            SELECT a FROM v0; -- T1\n";
        let script = Script::parse(Flavour::MariaDb, text).unwrap();
        // The database has nothing against a missing view, as it fails the statement alone.
        let shows = |s: &Script| s.steps.len() == 1;
        let small = shrink(Flavour::MariaDb, &script, shows, || false);
        assert_eq!(small.setup, ["CREATE TABLE t (a INT)", "CREATE VIEW v0 AS SELECT a FROM t"]);
    }

    #[test]
    fn blocks_become_smaller() {
        let all: Vec<Range<usize>> = (0..).map_while(|at| block(5, at)).collect();
        assert_eq!(all, [3..5, 1..3, 0..1, 4..5, 3..4, 2..3, 1..2, 0..1]);
        assert_eq!(block(1, 0), Some(0..1));
        assert_eq!((block(1, 1), block(0, 0)), (None, None));
    }
}
