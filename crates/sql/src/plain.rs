//! Whether a script changes values in a plain client, too.
//!
//! Instrumented, every `UPDATE` changes its rows: it appends to their lists. By itself it may set a column
//! to the value that it has, and then a plain client sees nothing, and MySQL writes nothing. So a script is
//! replayed without instrumentation, with one thing added to the condition of each `UPDATE`: that a value
//! changes. An `UPDATE` that then finds no row is a no-op by value.

use crate::Flavour;
use crate::campaign::Subject;
use crate::instrument::Effect;
use crate::record::{Outcome, Run, Step};
use crate::replay::replay_with;
use crate::script::Script;
use anomalist_databases::{Error, Isolation};
use anomalist_sqltext::ast::{Assignment, AssignmentTarget, Statement};
use anomalist_sqltext::parse;

impl Subject<'_> {
    /// How many statements of a script, which ran like this with instrumentation, update rows and change no
    /// value.
    pub(crate) fn no_ops(&self, isolation: &Isolation, script: &Script, run: &Run) -> Result<usize, Error> {
        let mut plain = script.clone();
        for line in &mut plain.steps {
            if let Some(changing) = changing(self.flavour, &line.text) {
                line.text = changing;
            }
        }
        let plain = replay_with(None, self.database, isolation, &self.namespace, &plain, self.stop)?.run;
        let changes = |id: u64, step: &Step| {
            let same = plain.transactions.iter().find(|t| t.id == id);
            let same = same.and_then(|t| t.steps.iter().find(|s| s.number == step.number));
            same.is_some_and(|s| s.affected > 0)
        };
        let updates = |s: &&Step| s.effect == Effect::Update && s.affected > 0 && !s.undone;
        let committed = run.transactions.iter().filter(|t| t.outcome == Outcome::Committed);
        Ok(committed.map(|t| t.steps.iter().filter(updates).filter(|s| !changes(t.id, s)).count()).sum())
    }
}

/// An `UPDATE` of one table that finds only the rows that it changes.
fn changing(flavour: Flavour, text: &str) -> Option<String> {
    let Ok(Statement::Update(mut update)) = parse(flavour.dialect(), text) else { return None };
    if !update.table.joins.is_empty() || update.from.is_some() {
        return None;
    }
    let differs = |a: &Assignment| {
        let AssignmentTarget::ColumnName(column) = &a.target else { return None };
        let value = &a.value;
        Some(match flavour {
            Flavour::PostgreSql | Flavour::Sqlite => format!("{column} IS DISTINCT FROM ({value})"),
            Flavour::MariaDb | Flavour::MySql => format!("NOT ({column} <=> ({value}))"),
        })
    };
    let differs: Vec<String> = update.assignments.iter().map(differs).collect::<Option<_>>()?;
    let condition = match update.selection.take() {
        Some(condition) => format!("({condition}) AND ({})", differs.join(" OR ")),
        None => differs.join(" OR "),
    };
    let Ok(Statement::Update(only)) =
        parse(flavour.dialect(), &format!("UPDATE t SET a = 1 WHERE {condition}"))
    else {
        return None;
    };
    update.selection = only.selection;
    Some(Statement::Update(update).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_that_change() {
        let of = |flavour, text| changing(flavour, text).unwrap_or_default();
        assert_eq!(
            of(Flavour::PostgreSql, "UPDATE t SET a = 1, b = b + 1 WHERE c = 2 OR d"),
            "UPDATE t SET a = 1, b = b + 1 WHERE (c = 2 OR d) AND (a IS DISTINCT FROM (1) OR b IS DISTINCT FROM (b + 1))"
        );
        assert_eq!(
            of(Flavour::MariaDb, "UPDATE t SET a = 'x'"),
            "UPDATE t SET a = 'x' WHERE NOT (a <=> ('x'))"
        );
        assert_eq!(
            of(Flavour::Sqlite, "UPDATE t SET a = NULL"),
            "UPDATE t SET a = NULL WHERE a IS DISTINCT FROM (NULL)"
        );
        assert_eq!(of(Flavour::Sqlite, "SELECT 1"), "");
    }
}
