//! Conditions, and queries of all kinds.

use super::percent;
use super::schema::value;
use super::statement::Writer;
use crate::schema::Kind;

/// Something to select from: a table or a view, by the name its columns are qualified with.
#[derive(Clone)]
pub(super) struct From {
    pub name: String,
    pub columns: Vec<(String, Kind)>,
}

impl Writer<'_> {
    /// A table, or sometimes a view.
    pub(super) fn relation(&mut self, with_views: bool) -> From {
        let (tables, views) = (&self.schema.tables, &self.schema.views);
        let count = tables.len() + if with_views { views.len() } else { 0 };
        let at = self.rng.usize(..count);
        match tables.get(at) {
            Some(table) => From {
                name: table.name.clone(),
                columns: table.columns.iter().map(|c| (c.name.clone(), c.kind)).collect(),
            },
            None => {
                let view = &views[at - tables.len()];
                From { name: view.name.clone(), columns: view.columns.clone() }
            }
        }
    }

    /// One to all of the columns, in order.
    fn some_columns(&mut self, from: &From) -> Vec<String> {
        let must = self.rng.usize(..from.columns.len());
        let chosen = from.columns.iter().enumerate().filter(|&(i, _)| i == must || self.rng.bool());
        chosen.map(|(_, c)| c.0.clone()).collect()
    }

    pub(super) fn literal(&mut self, kind: Kind) -> String {
        value(kind, self.knobs, self.rng).to_string()
    }

    /// A condition on one relation; `prefix` is put before its columns.
    pub(super) fn condition(&mut self, from: &From, prefix: &str) -> String {
        let first = self.comparison(from, prefix);
        match self.rng.u8(0..10) {
            0 => format!("{first} AND {}", self.comparison(from, prefix)),
            1 => format!("{first} OR {}", self.comparison(from, prefix)),
            2 => format!("NOT ({first})"),
            _ => first,
        }
    }

    fn comparison(&mut self, from: &From, prefix: &str) -> String {
        let (name, kind) = from.columns[self.rng.usize(..from.columns.len())].clone();
        let column = format!("{prefix}{name}");
        match self.rng.u8(0..12) {
            0 => {
                let (a, b) = (self.literal(kind), self.literal(kind));
                format!("{column} BETWEEN {a} AND {b}")
            }
            1 => {
                let (a, b, c) = (self.literal(kind), self.literal(kind), self.literal(kind));
                format!("{column} IN ({a}, {b}, {c})")
            }
            2 => format!("{column} IS NULL"),
            3 => format!("{column} IS NOT NULL"),
            _ => {
                let operator = ["=", "=", "=", "<", ">", "<=", ">=", "<>"][self.rng.usize(..8)];
                format!("{column} {operator} {}", self.literal(kind))
            }
        }
    }

    /// ` WHERE …`, or nothing.
    pub(super) fn filter(&mut self, from: &From, prefix: &str) -> String {
        match percent(self.rng, 85) {
            true => format!(" WHERE {}", self.condition(from, prefix)),
            false => String::new(),
        }
    }

    /// A query of one table or view.
    pub(super) fn select(&mut self) -> String {
        let from = self.relation(true);
        self.select_from(&from)
    }

    fn select_from(&mut self, from: &From) -> String {
        let columns = match percent(self.rng, 20) {
            true => "*".to_owned(),
            false => self.some_columns(from).join(", "),
        };
        let filter = self.filter(from, "");
        let order = match percent(self.rng, 10) {
            true => format!(" ORDER BY {}", from.columns[0].0),
            false => String::new(),
        };
        format!("SELECT {columns} FROM {}{filter}{order}", from.name)
    }

    /// A query that locks what it reads.
    pub(super) fn locking(&mut self) -> String {
        let from = self.relation(false);
        let query = self.select_from(&from);
        let lock = match (self.flavour.is_mysql(), self.rng.u8(0..4)) {
            (_, 0..3) => "FOR UPDATE",
            (true, _) => "LOCK IN SHARE MODE",
            (false, _) => "FOR SHARE",
        };
        format!("{query} {lock}")
    }

    /// Joins and subqueries.
    pub(super) fn cross(&mut self) -> String {
        let (a, b) = (self.relation(true), self.relation(false));
        match self.rng.u8(0..6) {
            0 => {
                let inner = self.filter(&a, "");
                let names: Vec<String> = a.columns.iter().map(|c| c.0.clone()).collect();
                let (names, outer) = (names.join(", "), self.filter(&a, ""));
                format!("SELECT {names} FROM (SELECT {names} FROM {}{inner}) AS s{outer}", a.name)
            }
            1 => {
                let inner = self.filter(&b, "");
                let columns = self.some_columns(&a).join(", ");
                let (outer, picked) = (&a.columns[0].0, &b.columns[0].0);
                let not = if self.rng.bool() { "" } else { "NOT " };
                format!(
                    "SELECT {columns} FROM {} WHERE {outer} {not}IN (SELECT {picked} FROM {}{inner})",
                    a.name, b.name
                )
            }
            2 => {
                let columns = self.some_columns(&a).join(", ");
                let inner = self.condition(&b, "");
                format!(
                    "SELECT {columns} FROM {} WHERE EXISTS (SELECT 1 FROM {} WHERE {inner})",
                    a.name, b.name
                )
            }
            kind => {
                let filter = self.filter(&a, "x.");
                let join = if kind == 3 { "LEFT JOIN" } else { "JOIN" };
                let (left, right) = (&a.columns[0].0, &b.columns[0].0);
                let chosen = format!("x.{left}, y.{right}");
                format!(
                    "SELECT {chosen} FROM {} AS x {join} {} AS y ON x.{left} = y.{right}{filter}",
                    a.name, b.name
                )
            }
        }
    }

    /// Set operations and `DISTINCT`.
    pub(super) fn compound(&mut self) -> String {
        let (a, b) = (self.relation(true), self.relation(true));
        let (left, right) = (self.filter(&a, ""), self.filter(&b, ""));
        if percent(self.rng, 30) {
            let columns = self.some_columns(&a).join(", ");
            return format!("SELECT DISTINCT {columns} FROM {}{left}", a.name);
        }
        let operator = ["UNION", "UNION", "UNION ALL", "INTERSECT", "EXCEPT"][self.rng.usize(..5)];
        let (x, y) = (&a.columns[0].0, &b.columns[0].0);
        format!("SELECT {x} FROM {}{left} {operator} SELECT {y} FROM {}{right}", a.name, b.name)
    }

    /// Aggregates.
    pub(super) fn aggregate(&mut self) -> String {
        let from = self.relation(true);
        let (filter, first) = (self.filter(&from, ""), from.columns[0].0.clone());
        match self.rng.u8(0..4) {
            0 if from.columns.len() > 1 => {
                let by = &from.columns[1].0;
                format!("SELECT {by}, COUNT(*) FROM {}{filter} GROUP BY {by}", from.name)
            }
            1 => format!("SELECT SUM({first}), MAX({first}) FROM {}{filter}", from.name),
            _ => format!("SELECT COUNT(*) FROM {}{filter}", from.name),
        }
    }
}
