//! `*`, which would return the auxiliary columns as well: the columns one by one instead.
//!
//! A query that is instrumented has this done on the way. The query of an `INSERT` is not: its rows get
//! names of their own, and what it returns must fit the columns of the table. There, only every `*` is
//! expanded, at all depths of `FROM` and `WITH`. What has no auxiliary columns, such as a function in
//! `FROM`, may keep its `*`.

use super::catalog::{Catalog, Relation};
use super::fragment::items;
use super::select::output_name;
use super::{Instrumenter, Unsupported};
use crate::Flavour;
use anomalist_sqltext::ast::{
    JoinConstraint, JoinOperator, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableAlias, TableFactor, TableWithJoins,
};
use anomalist_sqltext::join_constraint;

/// A relation in a `FROM` clause.
pub(super) struct Source {
    /// What its columns are qualified with.
    pub name: String,
    pub relation: Relation,
}

pub(super) fn is_star(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

pub(super) fn compares_all(operator: &JoinOperator) -> bool {
    matches!(join_constraint(operator), Some(JoinConstraint::Natural))
}

fn shares_columns(operator: &JoinOperator) -> bool {
    matches!(join_constraint(operator), Some(JoinConstraint::Using(_)))
}

/// Expands every `*` of a `SELECT`. `lenient`: one of a table that is not known may stay.
pub(super) fn expand(
    flavour: Flavour,
    select: &mut Select,
    sources: &[Source],
    lenient: bool,
) -> Result<(), Unsupported> {
    let mut expanded = Vec::new();
    for item in &select.projection {
        if !is_star(item) {
            expanded.push(item.clone());
            continue;
        }
        let of = |s: &&Source| match item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                s.name.eq_ignore_ascii_case(&name.to_string())
            }
            _ => true,
        };
        let joins = || select.from.iter().flat_map(|f| &f.joins);
        if matches!(item, SelectItem::Wildcard(_)) && joins().any(|j| shares_columns(&j.join_operator)) {
            return Err(Unsupported::new("* of a JOIN with USING, which has its columns once; name them"));
        }
        let columns: Option<Vec<String>> = sources.iter().filter(of).try_fold(Vec::new(), |mut all, s| {
            let column = |c: &String| if sources.len() == 1 { c.clone() } else { format!("{}.{c}", s.name) };
            all.extend(s.relation.columns.as_ref()?.iter().map(column));
            Some(all)
        });
        match columns {
            Some(columns) => expanded.extend(items(flavour, &columns.join(", "))?),
            None if lenient => expanded.push(item.clone()),
            None => return Err(Unsupported::new("* of a table that is not known; name its columns")),
        }
    }
    select.projection = expanded;
    Ok(())
}

impl Instrumenter {
    /// Expands every `*` of a query, and returns the names of its columns where they are known.
    pub(super) fn starless(
        &self,
        query: &mut Query,
        catalog: &Catalog,
    ) -> Result<Option<Vec<String>>, Unsupported> {
        let mut extended;
        let mut catalog = catalog;
        if let Some(with) = &mut query.with {
            extended = catalog.clone();
            if with.recursive {
                for cte in &with.cte_tables {
                    let columns = renamed(&cte.alias, None);
                    extended.add_named(&cte.alias.name.value, Relation::derived(columns, Vec::new()));
                }
            }
            for cte in &mut with.cte_tables {
                let columns = self.starless(&mut cte.query, &extended)?;
                let columns = renamed(&cte.alias, columns);
                extended.add_named(&cte.alias.name.value, Relation::derived(columns, Vec::new()));
            }
            catalog = &extended;
        }
        self.starless_body(&mut query.body, catalog)
    }

    fn starless_body(
        &self,
        body: &mut SetExpr,
        catalog: &Catalog,
    ) -> Result<Option<Vec<String>>, Unsupported> {
        match body {
            SetExpr::Select(select) => {
                let mut sources = Vec::new();
                self.plain_sources(&mut select.from, catalog, &mut sources)?;
                let bare = sources.iter().all(|s| s.relation.aux.is_empty());
                expand(self.flavour, select, &sources, bare)?;
                Ok(select.projection.iter().map(output_name).collect())
            }
            SetExpr::Query(within) => self.starless(within, catalog),
            SetExpr::SetOperation { left, right, .. } => {
                let columns = self.starless_body(left, catalog)?;
                self.starless_body(right, catalog)?;
                Ok(columns)
            }
            _ => Ok(None),
        }
    }

    fn plain_sources(
        &self,
        from: &mut [TableWithJoins],
        catalog: &Catalog,
        found: &mut Vec<Source>,
    ) -> Result<(), Unsupported> {
        for item in from {
            self.plain_factor(&mut item.relation, catalog, found)?;
            for join in &mut item.joins {
                if compares_all(&join.join_operator) {
                    return Err(Unsupported::new("NATURAL JOIN would compare the auxiliary columns"));
                }
                self.plain_factor(&mut join.relation, catalog, found)?;
            }
        }
        Ok(())
    }

    fn plain_factor(
        &self,
        factor: &mut TableFactor,
        catalog: &Catalog,
        found: &mut Vec<Source>,
    ) -> Result<(), Unsupported> {
        let (name, relation) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let mut relation = catalog.get(name);
                if let Some(alias) = alias.as_ref().filter(|a| !a.columns.is_empty()) {
                    relation.columns = renamed(alias, relation.columns);
                }
                (alias.as_ref().map_or_else(|| name.to_string(), |a| a.name.to_string()), relation)
            }
            TableFactor::Derived { subquery, alias, .. } => {
                let columns = self.starless(subquery, catalog)?;
                let (name, columns) = match alias {
                    Some(alias) => (alias.name.to_string(), renamed(alias, columns)),
                    None => (String::new(), columns),
                };
                (name, Relation::derived(columns, Vec::new()))
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                let within = std::slice::from_mut(table_with_joins.as_mut());
                return self.plain_sources(within, catalog, found);
            }
            _ => (String::new(), Relation::derived(None, Vec::new())),
        };
        found.push(Source { name, relation });
        Ok(())
    }
}

/// The names that an alias gives to the first columns, and those of the others.
fn renamed(alias: &TableAlias, columns: Option<Vec<String>>) -> Option<Vec<String>> {
    let given: Vec<String> = alias.columns.iter().map(|c| c.name.to_string()).collect();
    match columns {
        None => (!given.is_empty()).then_some(given),
        Some(columns) => {
            let rest = columns.into_iter().skip(given.len()).collect();
            Some([given, rest].concat())
        }
    }
}
