//! SHOW and DESCRIBE.

use super::catalogue::{Catalogue, Table};
use super::engine::Shared;
use super::error::SqlError;
use super::names::{ResultColumn, bare};
use super::settings;
use super::types::Type;
use anomalist_sqltext::ast::{
    Expr, ShowStatementFilter, ShowStatementFilterPosition, ShowStatementOptions, Statement,
};
use anomalist_sqltext::{Dialect, walk};
use anomalist_weakdb::Value;

fn titled(names: &[&str]) -> Vec<ResultColumn> {
    let column = |name: &&str| ResultColumn { name: (*name).to_owned(), kind: Type::Text, table: None };
    names.iter().map(column).collect()
}

/// The columns of SHOW.
#[must_use]
pub fn show_columns(statement: &Statement, dialect: Dialect) -> Vec<ResultColumn> {
    match statement {
        Statement::ShowVariable { variable } => {
            let name: Vec<String> = variable.iter().map(|v| v.value.to_lowercase()).collect();
            match (dialect, name.join(" ").as_str()) {
                (Dialect::PostgreSql, "all") => titled(&["name", "setting", "description"]),
                (Dialect::PostgreSql, "transaction isolation level") => titled(&["transaction_isolation"]),
                (Dialect::PostgreSql, "time zone") => titled(&["TimeZone"]),
                (Dialect::PostgreSql, name) => titled(&[&name.replace(' ', ".").replace("..", ".")]),
                (_, "warnings" | "errors") => titled(&["Level", "Code", "Message"]),
                (_, "engines") => {
                    titled(&["Engine", "Support", "Comment", "Transactions", "XA", "Savepoints"])
                }
                (_, name) if name.contains("index") || name.contains("keys") => {
                    titled(&["Table", "Non_unique", "Key_name"])
                }
                _ => titled(&["Variable_name", "Value"]),
            }
        }
        Statement::ShowVariables { .. } | Statement::ShowStatus { .. } => titled(&["Variable_name", "Value"]),
        Statement::ShowTables { full: true, .. } => titled(&["Tables_in_weakdb", "Table_type"]),
        Statement::ShowTables { .. } => titled(&["Tables_in_weakdb"]),
        Statement::ShowDatabases { .. } | Statement::ShowSchemas { .. } => titled(&["Database"]),
        Statement::ShowCreate { .. } => titled(&["Table", "Create Table"]),
        Statement::ShowCollation { .. } => {
            titled(&["Collation", "Charset", "Id", "Default", "Compiled", "Sortlen"])
        }
        Statement::ShowCharset(_) => titled(&["Charset", "Description", "Default collation", "Maxlen"]),
        Statement::ShowColumns { full: true, .. } => titled(&[
            "Field",
            "Type",
            "Collation",
            "Null",
            "Key",
            "Default",
            "Extra",
            "Privileges",
            "Comment",
        ]),
        _ => titled(&["Field", "Type", "Null", "Key", "Default", "Extra"]),
    }
}

/// The rows of SHOW.
pub fn show(
    statement: &Statement,
    catalogue: &Catalogue,
    shared: &Shared,
) -> Result<Vec<Vec<Value>>, SqlError> {
    let text = |t: &str| Value::from(t);
    Ok(match statement {
        Statement::ShowVariable { variable } => {
            let name: Vec<String> = variable.iter().map(|v| v.value.to_lowercase()).collect();
            let name = name.join(" ");
            match (shared.dialect, name.as_str()) {
                (Dialect::PostgreSql, "all") => settings::all(shared)
                    .into_iter()
                    .map(|(n, v)| vec![n.into(), v.into(), text("")])
                    .collect(),
                (Dialect::PostgreSql, "transaction isolation level") => {
                    vec![vec![settings::show(shared, "transaction_isolation").unwrap_or_default().into()]]
                }
                (Dialect::PostgreSql, "time zone") => vec![vec![text("UTC")]],
                (Dialect::PostgreSql, name) => {
                    let name = name.replace(' ', ".").replace("..", ".");
                    let value = settings::show(shared, &name).ok_or_else(|| {
                        let text = format!("unrecognized configuration parameter \"{name}\"");
                        SqlError::new(super::error::Code::UndefinedObject, text)
                    })?;
                    vec![vec![value.into()]]
                }
                (_, "warnings" | "errors") => Vec::new(),
                (_, "engines") => {
                    vec![["InnoDB", "DEFAULT", "weakdb", "YES", "NO", "YES"].into_iter().map(text).collect()]
                }
                _ => Vec::new(),
            }
        }
        Statement::ShowVariables { filter, .. } => {
            let wanted = wanted(filter.as_ref());
            let all = settings::all(shared).into_iter().filter(|(name, _)| wanted(name));
            all.map(|(name, value)| vec![name.clone().into(), switch(&name, value).into()]).collect()
        }
        Statement::ShowTables { full, show_options, .. } => {
            let filter = filter_of(show_options);
            let wanted = wanted(filter);
            let views = catalogue.views().into_iter().map(|(name, _)| (name, "VIEW"));
            let tables = catalogue.tables().into_iter().map(|t| (t.name.clone(), "BASE TABLE"));
            let mut all: Vec<(String, &str)> = tables.chain(views).filter(|(name, _)| wanted(name)).collect();
            all.sort();
            let row = |(name, kind): (String, &str)| {
                if *full { vec![name.into(), text(kind)] } else { vec![name.into()] }
            };
            all.into_iter().map(row).collect()
        }
        Statement::ShowDatabases { .. } | Statement::ShowSchemas { .. } => {
            vec![vec![text("information_schema")], vec![shared.database.as_str().into()]]
        }
        Statement::ShowCreate { obj_name, .. } => {
            let table = catalogue.require(&bare(obj_name))?;
            vec![vec![table.name.as_str().into(), create(&table).into()]]
        }
        Statement::ShowColumns { full, show_options, .. } => {
            let named = show_options
                .show_in
                .as_ref()
                .and_then(|i| i.parent_name.as_ref())
                .map(bare)
                .unwrap_or_default();
            fields(&*catalogue.require(&named)?, *full)
        }
        Statement::ExplainTable { table_name, .. } => fields(&*catalogue.require(&bare(table_name))?, false),
        Statement::ShowCollation { .. } => {
            vec![["utf8mb4_general_ci", "utf8mb4", "45", "Yes", "Yes", "1"].into_iter().map(text).collect()]
        }
        Statement::ShowCharset(_) => {
            vec![["utf8mb4", "UTF-8 Unicode", "utf8mb4_general_ci", "4"].into_iter().map(text).collect()]
        }
        _ => Vec::new(),
    })
}

fn switch(name: &str, value: String) -> String {
    match (name, value.as_str()) {
        ("autocommit" | "foreign_key_checks" | "unique_checks", "1") => "ON".into(),
        ("autocommit" | "foreign_key_checks" | "unique_checks" | "read_only", "0") => "OFF".into(),
        _ => value,
    }
}

fn filter_of(options: &ShowStatementOptions) -> Option<&ShowStatementFilter> {
    match &options.filter_position {
        Some(ShowStatementFilterPosition::Infix(filter) | ShowStatementFilterPosition::Suffix(filter)) => {
            Some(filter)
        }
        None => None,
    }
}

/// LIKE, or the names that a WHERE mentions as texts.
fn wanted(filter: Option<&ShowStatementFilter>) -> impl Fn(&str) -> bool {
    let (patterns, names): (Vec<String>, Vec<String>) = match filter {
        None => (vec!["%".into()], Vec::new()),
        Some(ShowStatementFilter::Like(p) | ShowStatementFilter::ILike(p)) => (vec![p.clone()], Vec::new()),
        Some(ShowStatementFilter::Where(expr)) => {
            let mut texts = Vec::new();
            walk::any_expr(expr, &mut |expr| {
                if let Expr::Value(value) = expr {
                    texts.extend(value.value.clone().into_string().map(|text| text.to_lowercase()));
                }
                false
            });
            (Vec::new(), texts)
        }
        Some(_) => (Vec::new(), Vec::new()),
    };
    move |name: &str| {
        let name = name.to_lowercase();
        names.contains(&name) || patterns.iter().any(|p| like(&name, &p.to_lowercase()))
    }
}

fn like(text: &str, pattern: &str) -> bool {
    let mut regular = String::from("^");
    let mut escaped = false;
    for c in pattern.chars() {
        match c {
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            '%' if !escaped => regular.push_str(".*"),
            '_' if !escaped => regular.push('.'),
            c if c.is_alphanumeric() || c == '_' => regular.push(c),
            c => {
                regular.push('\\');
                regular.push(c);
            }
        }
        escaped = false;
    }
    regular.push('$');
    super::pattern::matches(text, &regular, true).unwrap_or(false)
}

fn fields(table: &Table, full: bool) -> Vec<Vec<Value>> {
    let row = |(at, column): (usize, &super::catalogue::Column)| {
        let key = if table.key.contains(&at) {
            "PRI"
        } else if table.unique.iter().any(|u| u.columns == [at]) {
            "UNI"
        } else {
            ""
        };
        let mut row: Vec<Value> = vec![column.name.as_str().into(), column.mysql_type().into()];
        if full {
            row.push(Value::Null);
        }
        row.push(if column.not_null { "NO" } else { "YES" }.into());
        row.push(key.into());
        let default = column.shown_default.as_deref().map(|d| d.trim_matches('\''));
        row.push(default.map_or(Value::Null, Value::from));
        row.push(if column.auto { "auto_increment" } else { "" }.into());
        if full {
            row.extend([Value::from("select,insert,update,references"), Value::from("")]);
        }
        row
    };
    table.columns.iter().enumerate().map(row).collect()
}

fn create(table: &Table) -> String {
    let quote = |name: &str| Dialect::MySql.quote(name);
    let list = |columns: &[usize]| {
        columns.iter().map(|&c| quote(&table.columns[c].name)).collect::<Vec<_>>().join(",")
    };
    let mut lines: Vec<String> = table
        .columns
        .iter()
        .map(|c| {
            let null = if c.not_null { " NOT NULL" } else { "" };
            let default = c.shown_default.as_ref().map_or_else(String::new, |d| format!(" DEFAULT {d}"));
            let auto = if c.auto { " AUTO_INCREMENT" } else { "" };
            format!("  {} {}{null}{default}{auto}", quote(&c.name), c.mysql_type())
        })
        .collect();
    if !table.key.is_empty() {
        lines.push(format!("  PRIMARY KEY ({})", list(&table.key)));
    }
    lines.extend(
        table.unique.iter().map(|u| format!("  UNIQUE KEY {} ({})", quote(&u.name), list(&u.columns))),
    );
    for foreign in &table.foreign {
        let referred: Vec<String> = foreign.referred.iter().map(|c| quote(c)).collect();
        lines.push(format!(
            "  CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({})",
            quote(&foreign.name),
            list(&foreign.columns),
            quote(&foreign.parent),
            referred.join(",")
        ));
    }
    format!(
        "CREATE TABLE {} (\n{}\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
        quote(&table.name),
        lines.join(",\n")
    )
}
