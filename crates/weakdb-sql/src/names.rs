//! What columns a statement can name, and the types of its expressions.
//!
//! Clients ask for the types of parameters and results before anything runs (Describe, COM_STMT_PREPARE).
//! They are inferred from the tree. Scopes are flat: all tables of a statement, outer and inner, are in one
//! list, and an unqualified name is looked up in their order. Where two of them have a column of one name
//! and different types this may guess wrong; values are then sent as what they are, since the guess only
//! decides their form.

use super::catalogue::{Catalogue, Table};
use super::infer::{common, element_of, short_name};
use super::sets::{UNNEST, list_columns};
use super::types::Type;
use anomalist_sqltext::ast::{
    Cte, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Insert, JoinConstraint,
    ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor,
    TableObject, TableWithJoins, Value, Visitor,
};
use anomalist_sqltext::walk;
use anomalist_sqltext::{Dialect, join_constraint};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultColumn {
    /// As clients see it.
    pub name: String,
    /// Its type.
    pub kind: Type,
    /// The table it comes from, if it is a plain column.
    pub table: Option<String>,
}

/// Something that columns come from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name it goes by, in lower case.
    pub alias: String,
    /// What it was called before it was given another.
    pub name: String,
    /// Its columns.
    pub columns: Vec<(String, Type)>,
    /// The table, if it is one.
    pub table: Option<Arc<Table>>,
}

/// Gives the columns of a catalogue table.
pub type System = dyn Fn(&str) -> Option<Vec<(String, Type)>>;

/// All sources of a statement.
pub struct Names<'a> {
    catalogue: &'a Catalogue,
    pub(super) dialect: Dialect,
    /// In the order of the text.
    pub sources: Vec<Source>,
    ctes: BTreeMap<String, Vec<(String, Type)>>,
    /// What select lists call their columns: HAVING and ORDER BY may use the names.
    aliases: BTreeMap<String, Type>,
    system: &'a System,
}

/// The last part of a name.
#[must_use]
pub fn bare(name: &ObjectName) -> String {
    name.0
        .last()
        .and_then(|part| part.as_ident())
        .map_or_else(|| name.to_string(), |ident| ident.value.clone())
}

impl<'a> Names<'a> {
    /// The sources of a statement. `system` gives the columns of catalogue tables.
    pub fn of(statement: &Statement, catalogue: &'a Catalogue, dialect: Dialect, system: &'a System) -> Self {
        let (ctes, aliases) = (BTreeMap::new(), BTreeMap::new());
        let mut names = Self { catalogue, dialect, sources: Vec::new(), ctes, aliases, system };
        if let Statement::Insert(Insert { table: TableObject::TableName(name), table_alias, .. }) = statement
        {
            names.add_table(name, table_alias.as_ref().map(|a| &a.alias));
        }
        let _ = walk::read(statement, &mut names);
        names
    }

    /// A table of the catalogue.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.catalogue.table(name)
    }

    fn add_table(&mut self, name: &ObjectName, alias: Option<&Ident>) {
        let bare = bare(name);
        let bare = bare.strip_suffix(super::engine::ROWS).unwrap_or(&bare).to_owned();
        if self.dialect == Dialect::MySql && bare.eq_ignore_ascii_case("dual") {
            return;
        }
        // A name of WITH hides a table of that name.
        let common = self.ctes.get(&bare.to_lowercase()).filter(|_| name.0.len() == 1);
        let known = if common.is_some() { None } else { self.catalogue.table(&bare) };
        let columns = match (common, &known) {
            (Some(columns), _) => columns.clone(),
            (None, Some(table)) => table.columns.iter().map(|c| (c.name.clone(), c.kind)).collect(),
            (None, None) => match self.catalogue.view(&bare) {
                Some(view) => view.columns,
                None => (self.system)(&super::rewrite::relation(name)).unwrap_or_default(),
            },
        };
        let alias = alias.map_or_else(|| bare.clone(), |a| a.value.clone()).to_lowercase();
        self.sources.push(Source { alias, name: bare, columns, table: known });
    }

    fn name(&mut self, cte: &Cte, columns: Vec<ResultColumn>) {
        let mut columns: Vec<(String, Type)> = columns.into_iter().map(|c| (c.name, c.kind)).collect();
        for (column, named) in columns.iter_mut().zip(&cte.alias.columns) {
            column.0.clone_from(&named.name.value);
        }
        self.ctes.insert(cte.alias.name.value.to_lowercase(), columns);
    }

    /// The type of a column.
    #[must_use]
    pub fn column(&self, qualifier: Option<&str>, name: &str) -> Option<Type> {
        let fits = |source: &&Source| qualifier.is_none_or(|q| source.alias.eq_ignore_ascii_case(q));
        let of =
            |s: &Source| s.columns.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind);
        let alias = || self.aliases.get(&name.to_lowercase()).copied().filter(|_| qualifier.is_none());
        self.sources.iter().filter(fits).find_map(of).or_else(alias)
    }

    /// The columns of a query's result.
    #[must_use]
    pub fn query(&self, query: &Query) -> Vec<ResultColumn> {
        self.body(&query.body)
    }

    fn body(&self, body: &SetExpr) -> Vec<ResultColumn> {
        let (mut body, mut others) = (body, Vec::new());
        let mut columns = loop {
            match body {
                SetExpr::Select(select) => break self.select(select),
                SetExpr::Query(query) => body = &query.body,
                SetExpr::SetOperation { left, right, .. } => {
                    others.push(right);
                    body = left;
                }
                SetExpr::Values(values) => {
                    let width = values.rows.first().map_or(0, |row| row.content.len());
                    let cells = |at: usize| values.rows.iter().filter_map(move |row| row.content.get(at));
                    let kind = |at| cells(at).map(|e| self.expr(e)).reduce(common);
                    let column = |at| ResultColumn {
                        name: format!("column{}", at + 1),
                        kind: kind(at).unwrap_or(Type::Unknown),
                        table: None,
                    };
                    break (0..width).map(column).collect();
                }
                _ => break Vec::new(),
            }
        };
        for other in others {
            for (column, other) in columns.iter_mut().zip(self.body(other)) {
                column.kind = common(column.kind, other.kind);
            }
        }
        columns
    }

    fn select(&self, select: &Select) -> Vec<ResultColumn> {
        self.items(&select.projection, &select.from)
    }

    /// The columns of a select list, or of RETURNING.
    #[must_use]
    pub fn items(&self, items: &[SelectItem], from: &[TableWithJoins]) -> Vec<ResultColumn> {
        let mut columns = Vec::new();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => columns.push(self.item(expr, self.name_of(expr))),
                SelectItem::ExprWithAlias { expr, alias } => {
                    columns.push(self.item(expr, alias.value.clone()))
                }
                SelectItem::ExprWithAliases { .. } => {}
                SelectItem::Wildcard(_) => self.star(from, &mut columns),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    self.all_of(&bare(name), &mut columns);
                }
                SelectItem::QualifiedWildcard(..) => {}
            }
        }
        columns
    }

    /// What `*` stands for. A column that USING or NATURAL merges is there once, where the first of its
    /// tables has it.
    fn star(&self, from: &[TableWithJoins], columns: &mut Vec<ResultColumn>) {
        for item in from {
            let mut all = Vec::new();
            self.factor(&item.relation, &mut all);
            for join in &item.joins {
                let mut more = Vec::new();
                self.factor(&join.relation, &mut more);
                match join_constraint(&join.join_operator) {
                    Some(JoinConstraint::Using(merged)) => {
                        more.retain(|c| !merged.iter().any(|name| bare(name).eq_ignore_ascii_case(&c.name)));
                    }
                    Some(JoinConstraint::Natural) => {
                        more.retain(|c| !all.iter().any(|known| known.name.eq_ignore_ascii_case(&c.name)));
                    }
                    _ => {}
                }
                all.append(&mut more);
            }
            columns.append(&mut all);
        }
    }

    fn factor(&self, factor: &TableFactor, columns: &mut Vec<ResultColumn>) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                self.star(std::slice::from_ref(&**table_with_joins), columns);
            }
            TableFactor::Table { alias: Some(a), .. }
            | TableFactor::Derived { alias: Some(a), .. }
            | TableFactor::UNNEST { alias: Some(a), .. }
            | TableFactor::Function { alias: Some(a), .. } => self.all_of(&a.name.value, columns),
            TableFactor::Table { name, .. } => self.all_of(&bare(name), columns),
            TableFactor::UNNEST { .. } => self.all_of(UNNEST, columns),
            _ => {}
        }
    }

    fn item(&self, expr: &Expr, name: String) -> ResultColumn {
        let table = match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.table_of(expr),
            _ => None,
        };
        ResultColumn { name, kind: self.expr(expr), table }
    }

    fn table_of(&self, expr: &Expr) -> Option<String> {
        let (qualifier, name) = match expr {
            Expr::Identifier(name) => (None, &name.value),
            Expr::CompoundIdentifier(parts) if parts.len() > 1 => {
                (Some(parts[parts.len() - 2].value.as_str()), &parts[parts.len() - 1].value)
            }
            _ => return None,
        };
        let fits = |s: &&Source| qualifier.is_none_or(|q| s.alias.eq_ignore_ascii_case(q));
        let found = self
            .sources
            .iter()
            .filter(fits)
            .find(|s| s.columns.iter().any(|c| c.0.eq_ignore_ascii_case(name)))?;
        found.table.as_ref().map(|t| t.name.clone())
    }

    fn all_of(&self, alias: &str, columns: &mut Vec<ResultColumn>) {
        if let Some(source) = self.sources.iter().find(|s| s.alias.eq_ignore_ascii_case(alias)) {
            let table = source.table.as_ref().map(|t| t.name.clone());
            let all = source.columns.iter().map(|(name, kind)| ResultColumn {
                name: name.clone(),
                kind: *kind,
                table: table.clone(),
            });
            columns.extend(all);
        }
    }

    /// What a column without AS is called.
    fn name_of(&self, expr: &Expr) -> String {
        match (expr, self.dialect) {
            (Expr::Identifier(name), _) => name.value.clone(),
            (Expr::CompoundIdentifier(parts), Dialect::PostgreSql) => {
                parts.last().map(|p| p.value.clone()).unwrap_or_default()
            }
            (Expr::CompoundIdentifier(parts), _) => match parts.first() {
                Some(first) if first.value.starts_with('@') => expr.to_string(),
                _ => parts.last().map(|p| p.value.clone()).unwrap_or_default(),
            },
            (Expr::Nested(inner), Dialect::PostgreSql) => self.name_of(inner),
            (Expr::Function(function), Dialect::PostgreSql) => bare(&function.name).to_lowercase(),
            (Expr::Cast { expr, data_type, .. }, Dialect::PostgreSql) => match self.name_of(expr) {
                name if name == "?column?" => Type::declared(data_type).map_or("?column?".into(), short_name),
                name => name,
            },
            (Expr::Case { .. }, Dialect::PostgreSql) => "case".into(),
            (Expr::Exists { .. }, Dialect::PostgreSql) => "exists".into(),
            (Expr::Extract { .. }, Dialect::PostgreSql) => "extract".into(),
            (Expr::Substring { .. }, Dialect::PostgreSql) => "substring".into(),
            (Expr::Value(v), Dialect::PostgreSql) if matches!(v.value, Value::Boolean(_)) => "bool".into(),
            (Expr::Subquery(query), Dialect::PostgreSql) => {
                self.query(query).first().map_or_else(|| "?column?".into(), |c| c.name.clone())
            }
            (_, Dialect::PostgreSql) => "?column?".into(),
            (expr, _) => expr.to_string(),
        }
    }
}

/// The expressions a function is applied to.
#[must_use]
pub fn arguments(function: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let expr = |arg| match arg {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref e))
        | &FunctionArg::Named { arg: FunctionArgExpr::Expr(ref e), .. } => Some(e),
        _ => None,
    };
    list.args.iter().filter_map(expr).collect()
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(with) = &query.with {
            for cte in &with.cte_tables {
                // What a recursive one is called in its own second part is known from the first.
                if let (true, SetExpr::SetOperation { left, .. }) = (with.recursive, &*cte.query.body) {
                    walk::read(&**left, self)?;
                    self.name(cte, self.body(left));
                }
                walk::read(&*cte.query, self)?;
                self.name(cte, self.query(&cte.query));
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { expr, alias } = item {
                let kind = self.expr(expr);
                self.aliases.entry(alias.value.to_lowercase()).or_insert(kind);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, alias: given, args, .. } => {
                let called = given.as_ref().map(|a| &a.name);
                if args.is_some() {
                    let alias = called.map_or_else(|| bare(name), |a| a.value.clone());
                    let list = bare(name).eq_ignore_ascii_case(UNNEST);
                    let column = given.as_ref().and_then(|a| a.columns.first());
                    let column = column.map_or_else(|| alias.clone(), |c| c.name.value.clone());
                    let columns = vec![(column, if list { Type::Text } else { Type::Int4 })];
                    let (alias, name) = (alias.to_lowercase(), alias);
                    self.sources.push(Source { alias, name, columns, table: None });
                } else {
                    self.add_table(name, called);
                }
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let kinds = array_exprs.iter().map(|list| element_of(self.expr(list))).chain([Type::Int8]);
                let columns = list_columns(alias.as_ref(), array_exprs.len(), *with_ordinality);
                let name = alias.as_ref().map_or(UNNEST, |a| &a.name.value).to_owned();
                let columns = columns.into_iter().zip(kinds).collect();
                self.sources.push(Source { alias: name.to_lowercase(), name, columns, table: None });
            }
            TableFactor::Derived { subquery, alias: Some(alias), .. } => {
                let mut columns: Vec<(String, Type)> =
                    self.query(subquery).into_iter().map(|c| (c.name, c.kind)).collect();
                for (column, named) in columns.iter_mut().zip(&alias.columns) {
                    column.0.clone_from(&named.name.value);
                }
                let name = alias.name.value.clone();
                self.sources.push(Source { alias: name.to_lowercase(), name, columns, table: None });
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
