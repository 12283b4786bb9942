//! `CREATE TABLE` and `CREATE VIEW`.

use super::catalog::{Aux, Relation, described};
use super::{Capture, Effect, Instrumented, Instrumenter, Unsupported};
use crate::schema::{ROW_ID, W_LIST};
use anomalist_sqltext::ast::{CreateTable, CreateView, Statement, ViewColumnDef};
use anomalist_sqltext::parse;

impl Instrumenter {
    pub(super) fn create_table(&mut self, table: &CreateTable) -> Result<Instrumented, Unsupported> {
        if table.query.is_some() || table.like.is_some() || table.clone.is_some() {
            return Err(Unsupported::new("a table made from another one has rows without names"));
        }
        let columns = format!("CREATE TABLE t ({ROW_ID} TEXT, {W_LIST} TEXT)");
        let Ok(Statement::CreateTable(added)) = parse(self.flavour.dialect(), &columns) else {
            return Err(Unsupported::new("the auxiliary columns do not parse"));
        };
        self.catalog.add(&table.name, described(table));
        let mut made = table.clone();
        made.columns.extend(added.columns);
        Ok(silent(Statement::CreateTable(made)))
    }

    pub(super) fn create_view(&mut self, view: &CreateView) -> Result<Instrumented, Unsupported> {
        let mut made = view.clone();
        let (visible, aux) = self.query(&mut made.query, &self.catalog, true)?;
        let mut columns = visible;
        if !made.columns.is_empty() {
            columns = Some(made.columns.iter().map(|c| c.name.to_string()).collect());
            for name in aux.iter().flat_map(names) {
                made.columns.push(ViewColumnDef { name: name.into(), data_type: None, options: None });
            }
        }
        self.catalog.add(&view.name, Relation::derived(columns, aux));
        Ok(silent(Statement::CreateView(made)))
    }
}

fn names(aux: &Aux) -> Vec<&str> {
    match aux {
        Aux::Pair(row, list) => vec![row, list],
        Aux::Rows(rows) => vec![rows],
    }
}

fn silent(statement: Statement) -> Instrumented {
    Instrumented {
        before: None,
        statement: statement.to_string(),
        capture: Capture::default(),
        inserted: Vec::new(),
        effect: Effect::None,
    }
}
