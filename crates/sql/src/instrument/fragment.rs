//! Pieces of trees, made by parsing the SQL one would write by hand.

use super::Unsupported;
use crate::Flavour;
use anomalist_sqltext::ast::{Expr, Query, Select, SelectItem, SetExpr, Statement};
use anomalist_sqltext::parse;

/// The tree of a query.
pub(super) fn query(flavour: Flavour, text: &str) -> Result<Query, Unsupported> {
    match parse(flavour.dialect(), text) {
        Ok(Statement::Query(query)) => Ok(*query),
        Ok(_) => Err(Unsupported::new("this is no query")),
        Err(error) => Err(Unsupported::new(error.to_string())),
    }
}

/// The tree of a single `SELECT`.
pub(super) fn select(flavour: Flavour, text: &str) -> Result<Select, Unsupported> {
    match *query(flavour, text)?.body {
        SetExpr::Select(select) => Ok(*select),
        _ => Err(Unsupported::new("this is no single SELECT")),
    }
}

/// Items of a select list.
pub(super) fn items(flavour: Flavour, text: &str) -> Result<Vec<SelectItem>, Unsupported> {
    Ok(select(flavour, &format!("SELECT {text}"))?.projection)
}

/// An expression.
pub(super) fn expr(flavour: Flavour, text: &str) -> Result<Expr, Unsupported> {
    match items(flavour, text)?.pop() {
        Some(SelectItem::UnnamedExpr(expr)) => Ok(expr),
        _ => Err(Unsupported::new("this is no expression")),
    }
}

/// An expression that appends to a text.
pub(super) fn append(flavour: Flavour, column: &str, text: &str) -> String {
    match flavour.is_mysql() {
        true => format!("CONCAT({column}, '{text}')"),
        false => format!("{column} || '{text}'"),
    }
}

/// `row=list` as one text.
pub(super) fn joined(flavour: Flavour, row: &str, list: &str) -> String {
    match flavour.is_mysql() {
        true => format!("CONCAT({row}, '=', {list})"),
        false => format!("{row} || '=' || {list}"),
    }
}

/// Several such texts, some of which may be missing, as one.
pub(super) fn all_of(flavour: Flavour, texts: &[String]) -> String {
    match (texts, flavour) {
        ([], _) => "NULL".to_owned(),
        ([one], _) => one.clone(),
        (_, Flavour::Sqlite) => {
            let parts: Vec<String> = texts.iter().map(|t| format!("COALESCE({t} || ';', '')")).collect();
            parts.join(" || ")
        }
        _ => format!("CONCAT_WS(';', {})", texts.join(", ")),
    }
}

/// The texts of a group, one after the other.
pub(super) fn aggregate(flavour: Flavour, text: &str) -> String {
    match flavour {
        Flavour::PostgreSql => format!("STRING_AGG({text}, ';')"),
        Flavour::Sqlite => format!("GROUP_CONCAT({text}, ';')"),
        Flavour::MariaDb | Flavour::MySql => format!("GROUP_CONCAT({text} SEPARATOR ';')"),
    }
}
