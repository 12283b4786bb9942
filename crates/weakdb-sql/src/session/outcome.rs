//! What a statement did, for all protocols.

use crate::bounds::Charge;
use crate::names::ResultColumn;
use crate::plan::Prepared;
use crate::types::Type;
use anomalist_weakdb::Value;
use std::sync::Arc;

/// What a statement did.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The columns of its result, if it has one.
    pub columns: Option<Vec<ResultColumn>>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
    /// PostgreSQL's words for it.
    pub tag: String,
    /// Rows changed, or found.
    pub count: u64,
    /// What AUTO_INCREMENT gave.
    pub last_id: Option<i64>,
    /// The client asked to be disconnected.
    pub closes: bool,
    /// Counts the rows as long as they are kept.
    pub(crate) charge: Option<Arc<Charge>>,
}

/// Success without a result.
pub(crate) fn tagged(tag: impl Into<String>) -> Outcome {
    Outcome { tag: tag.into(), ..Outcome::default() }
}

/// The rows that a query found.
pub(super) fn found(prepared: &Prepared, rows: Vec<Vec<Value>>, verb: &str) -> Outcome {
    let mut columns = prepared.columns.clone();
    let width = rows.first().map_or(columns.len(), Vec::len);
    let unnamed = || ResultColumn { name: "?column?".into(), kind: Type::Unknown, table: None };
    columns.resize_with(width, unnamed);
    let count = rows.len() as u64;
    let tag = if verb == "SHOW" { "SHOW".to_owned() } else { format!("{verb} {count}") };
    Outcome { columns: Some(columns), rows, tag, count, ..Outcome::default() }
}
