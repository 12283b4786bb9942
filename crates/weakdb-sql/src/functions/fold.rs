//! Sum and average of decimals, over groups and over windows.

use crate::decimal::Decimal;
use crate::engine::{Shared, fail, lite, lock, value};
use crate::error::SqlError;
use anomalist_weakdb::Value;
use rusqlite::Connection;
use rusqlite::functions::{Aggregate, Context, FunctionFlags, WindowAggregate};
use rusqlite::types::Value as Lite;
use std::sync::{Arc, Mutex};

/// What is made of the rows.
#[derive(Clone, Copy)]
pub(super) enum Fold {
    Sum,
    Average,
}

impl Fold {
    /// Makes it known to SQLite.
    pub(super) fn register(
        self,
        db: &Connection,
        name: &str,
        shared: &Arc<Mutex<Shared>>,
    ) -> Result<(), SqlError> {
        let folding = Folding { fold: self, shared: shared.clone() };
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
        Ok(db.create_window_function(name, 1, flags, folding)?)
    }
}

/// The decimals so far.
struct Total {
    sum: Decimal,
    count: i64,
}

struct Folding {
    fold: Fold,
    shared: Arc<Mutex<Shared>>,
}

impl Folding {
    /// The argument; `None` if it is NULL.
    fn argument(&self, context: &Context<'_>) -> rusqlite::Result<Option<Decimal>> {
        let given = value(context.get_raw(0));
        if given == Value::Null {
            return Ok(None);
        }
        let mut shared = lock(&self.shared);
        Decimal::require(&given, shared.dialect).map(Some).map_err(|error| fail(&mut shared, error))
    }

    fn result(&self, total: Option<&Total>) -> rusqlite::Result<Lite> {
        let Some(total) = total.filter(|t| t.count > 0) else { return Ok(Lite::Null) };
        let mut shared = lock(&self.shared);
        let found = match self.fold {
            Fold::Sum => Some(total.sum.clone()),
            Fold::Average => total.sum.over(&total.count.into(), shared.dialect),
        };
        let found = found.map(|decimal| decimal.checked(shared.dialect)).transpose();
        found.map(|d| lite(d.map_or(Value::Null, Value::from))).map_err(|error| fail(&mut shared, error))
    }
}

impl Aggregate<Total, Lite> for Folding {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Total> {
        Ok(Total { sum: 0.into(), count: 0 })
    }

    fn step(&self, context: &mut Context<'_>, total: &mut Total) -> rusqlite::Result<()> {
        if let Some(decimal) = self.argument(context)? {
            total.sum = total.sum.plus(&decimal);
            total.count += 1;
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, total: Option<Total>) -> rusqlite::Result<Lite> {
        self.result(total.as_ref())
    }
}

impl WindowAggregate<Total, Lite> for Folding {
    fn value(&self, total: Option<&mut Total>) -> rusqlite::Result<Lite> {
        self.result(total.as_deref())
    }

    fn inverse(&self, context: &mut Context<'_>, total: &mut Total) -> rusqlite::Result<()> {
        if let Some(decimal) = self.argument(context)? {
            total.sum = total.sum.minus(&decimal);
            total.count -= 1;
        }
        Ok(())
    }
}
