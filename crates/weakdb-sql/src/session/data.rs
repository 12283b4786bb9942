//! Statements that read or write tables: each runs in the store's transaction, and alone is one.

use super::Session;
use super::outcome::{Outcome, found, tagged};
use crate::access::Part;
use crate::error::{Code, SqlError};
use crate::plan::{Plan, Prepared, QueryPlan};
use crate::types::Type;
use crate::write::{Changed, Writer};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::Value;
use std::sync::atomic::Ordering;

impl Session {
    /// Runs a statement that reads or writes tables.
    pub(super) fn data(&mut self, prepared: &Prepared, params: &[Value]) -> Result<Outcome, SqlError> {
        self.open()?;
        let mark = {
            let mut shared = self.engine.shared();
            shared.store.statement(Some(&prepared.text));
            shared.store.mark()?
        };
        let outcome = self.touch(prepared, params);
        self.engine.shared().current = false;
        match outcome {
            Ok(outcome) if self.in_block() => Ok(outcome),
            Ok(outcome) => {
                self.commit()?;
                Ok(outcome)
            }
            Err(error) => {
                let mut shared = self.engine.shared();
                if !self.in_block() {
                    let _ = shared.store.rollback();
                } else if self.dialect != Dialect::PostgreSql {
                    shared.store.rollback_to(mark)?;
                }
                Err(error)
            }
        }
    }

    /// Runs the plan of a statement that reads or writes tables.
    fn touch(&mut self, prepared: &Prepared, params: &[Value]) -> Result<Outcome, SqlError> {
        let source = match &prepared.plan {
            Plan::Query(query) => Some(query),
            Plan::Insert(insert) => insert.source.as_ref().ok(),
            Plan::Update(update) => Some(&update.source),
            Plan::Delete(delete) => Some(&delete.source),
            _ => None,
        };
        self.refresh(source.map_or("", |s| s.sql.as_str()))?;
        if let Some(source) = source {
            self.look(source, params)?;
        }
        let (engine, dialect, strict) = (&mut self.engine, self.dialect, self.strict);
        let mut writer = Writer { engine, dialect, strict };
        let (verb, changed) = match &prepared.plan {
            Plan::Query(query) => {
                let rows = writer.engine.query(&query.sql, params)?;
                return Ok(found(prepared, rows, "SELECT"));
            }
            Plan::Insert(plan) => {
                writer.engine.sync(&plan.table)?;
                ("INSERT 0", writer.insert(plan, params)?)
            }
            Plan::Update(plan) => ("UPDATE", writer.update(plan, params)?),
            Plan::Delete(plan) => ("DELETE", writer.delete(plan, params)?),
            Plan::Truncate(tables, restart) => {
                for table in tables {
                    writer.engine.shared().cover(table, "")?;
                    writer.engine.sync(table)?;
                    writer.truncate(table)?;
                    if *restart {
                        table.counter.store(0, Ordering::SeqCst);
                    }
                }
                return Ok(tagged("TRUNCATE TABLE"));
            }
            _ => return Err(SqlError::new(Code::Internal, "not a statement about tables")),
        };
        let Changed { count, first_id, rows } = changed;
        self.engine.shared().last_count = count as i64;
        let columns = (!prepared.columns.is_empty()).then(|| prepared.columns.clone());
        let tag = format!("{verb} {count}");
        Ok(Outcome { columns, rows, tag, count, last_id: first_id, ..Outcome::default() })
    }

    /// Before a query: SQLite learns of keys, and the store of what the query covers.
    fn look(&mut self, query: &QueryPlan, params: &[Value]) -> Result<(), SqlError> {
        self.engine.shared().current = query.locks;
        for access in &query.accesses {
            match access.part(params, self.dialect) {
                Part::Row(key) => {
                    if access.table.keys.number(&key).is_none() {
                        self.engine.shared().has(&access.table, &key)?;
                    }
                }
                Part::Covers(prefix) => self.engine.shared().cover(&access.table, &prefix)?,
            }
        }
        for access in &query.accesses {
            self.engine.sync(&access.table)?;
        }
        Ok(())
    }

    /// Parameters as values of their types.
    pub(super) fn coerced(&self, prepared: &Prepared, params: &[Value]) -> Result<Vec<Value>, SqlError> {
        let kind = |at: usize| prepared.parameters.get(at).copied().unwrap_or(Type::Unknown);
        let wanted = |kind: Type| {
            !matches!(kind, Type::Varchar(_) | Type::Char(_) | Type::Numeric(_) | Type::Float4 | Type::Float8)
        };
        let coerce = |(at, value): (usize, &Value)| match kind(at) {
            // Lengths and scales are those of the column, and checked when it is written.
            kind if wanted(kind) => match (kind.is_integer(), value) {
                (true, Value::Real(_)) => Ok(value.clone()),
                (true, Value::Text(t)) if t.contains('.') => Type::Float8.coerce(value.clone(), self.dialect),
                (true, _) => Type::Int8.coerce(value.clone(), self.dialect),
                _ => kind.coerce(value.clone(), self.dialect),
            },
            Type::Varchar(_) | Type::Char(_) => Type::Text.coerce(value.clone(), self.dialect),
            Type::Numeric(_) => Type::Numeric(None).coerce(value.clone(), self.dialect),
            _ => Type::Float8.coerce(value.clone(), self.dialect),
        };
        params.iter().enumerate().map(coerce).collect()
    }
}
