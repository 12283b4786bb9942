//! Which tables a statement reads, and which of their rows.
//!
//! Where a SELECT, UPDATE or DELETE demands, in WHERE or in the condition of an inner join, that the first
//! columns of a key equal constants or parameters, other rows cannot change its result, and only these
//! count as read. In all other cases the table is read as a whole. That restricts what a transaction may be
//! shown, and never allows anything that the level forbids.

use crate::catalogue::{KeyColumn, KeyKind};
use anomalist_sqltext::ast::{
    BinaryOperator, DataType, Delete, Expr, FromTable, Ident, JoinOperator, ObjectName, Query, Select,
    SetExpr, Statement, TableFactor, TableWithJoins, UnaryOperator, Value, Visitor,
};
use anomalist_sqltext::{join_constraint, walk};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// What a key column is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Literal(String),
    /// From 0.
    Parameter(usize),
}

impl Operand {
    /// As it stands in the name of a key; `None` if that is not known.
    pub fn text(&self, kind: KeyKind, parameters: &Parameters<'_>) -> Option<String> {
        match self {
            Operand::Literal(text) => kind.text(text),
            Operand::Parameter(at) => parameters.text(*at, kind),
        }
    }
}

/// The values of a Bind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parameters<'a> {
    pub formats: &'a [i16],
    pub values: &'a [Option<Vec<u8>>],
    /// Their types by number, as far as the client named them.
    pub types: &'a [u32],
}

impl Parameters<'_> {
    fn text(&self, at: usize, kind: KeyKind) -> Option<String> {
        let value = self.values.get(at)?.as_deref()?;
        let format = match self.formats {
            [] => 0,
            [all] => *all,
            each => *each.get(at)?,
        };
        let named = self.types.get(at).copied().unwrap_or(0);
        // Without a type of the client's, the server takes that of the column.
        let fits = match kind {
            KeyKind::Int => matches!(named, 0 | 20 | 21 | 23),
            KeyKind::Text => matches!(named, 0 | 25 | 1043 | 705),
            KeyKind::Uuid => matches!(named, 0 | 2950),
            KeyKind::Other => false,
        };
        if !fits {
            return None;
        }
        if format == 0 {
            return kind.text(std::str::from_utf8(value).ok()?);
        }
        match (kind, value.len()) {
            (KeyKind::Int, 2) => Some(i16::from_be_bytes(value.try_into().ok()?).to_string()),
            (KeyKind::Int, 4) => Some(i32::from_be_bytes(value.try_into().ok()?).to_string()),
            (KeyKind::Int, 8) => Some(i64::from_be_bytes(value.try_into().ok()?).to_string()),
            (KeyKind::Text, _) => kind.text(std::str::from_utf8(value).ok()?),
            (KeyKind::Uuid, 16) => kind.text(&value.iter().map(|b| format!("{b:02x}")).collect::<String>()),
            _ => None,
        }
    }
}

/// A table that is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableRead {
    pub schema: Option<String>,
    pub name: String,
    /// What columns must equal: one of these.
    equal: HashMap<String, Vec<Operand>>,
}

/// How many keys a list of values may name before the table counts as read in whole.
const MOST_KEYS: usize = 1000;

impl TableRead {
    /// The first columns of the key, as far as they are fixed: each list names rows that are read. An empty
    /// list is all rows.
    pub fn fixed(&self, key: &[KeyColumn]) -> Vec<Vec<Operand>> {
        let mut prefixes: Vec<Vec<Operand>> = vec![Vec::new()];
        for column in key {
            let Some(values) = self.equal.get(&column.name).filter(|_| column.kind != KeyKind::Other) else {
                break;
            };
            if prefixes.len() * values.len() > MOST_KEYS {
                break;
            }
            prefixes = prefixes
                .iter()
                .flat_map(|p| values.iter().map(|v| p.iter().chain([v]).cloned().collect()))
                .collect();
        }
        prefixes
    }
}

/// What a statement reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    pub tables: Vec<TableRead>,
    pub functions: HashSet<String>,
    pub locks: bool,
    pub writes: bool,
    pub into: bool,
    /// What an UPDATE or DELETE changes, if it looks at nothing of the rows but these columns, and returns
    /// nothing of them: where they are the key's, it writes without reading.
    pub blind: Option<TableRead>,
}

impl Reads {
    /// Of a statement that is not understood: any of these names may be a table, read as a whole.
    pub fn mentioned(names: Vec<String>) -> Reads {
        let unique: HashSet<String> = names.into_iter().collect();
        let tables = unique.into_iter().map(|name| TableRead { name, ..TableRead::default() }).collect();
        Reads { tables, ..Reads::default() }
    }

    pub fn merge(&mut self, more: Reads) {
        self.tables.extend(more.tables);
        self.functions.extend(more.functions);
    }
}

impl TableRead {
    /// Whether the columns that are looked at are those of the key.
    pub fn looks_only_at(&self, key: &[KeyColumn]) -> bool {
        self.equal.len() == key.len() && key.iter().all(|c| self.equal.contains_key(&c.name))
    }
}

/// The table of a statement that reads nothing of it but what its condition compares with constants.
fn blind(table: &TableWithJoins, selection: Option<&Expr>, values: &[&Expr]) -> Option<TableRead> {
    let TableFactor::Table { name, alias, args: None, .. } = &table.relation else { return None };
    let constant = |expr: &&Expr| {
        !walk::any_expr(*expr, &mut |e| {
            matches!(
                e,
                Expr::Identifier(_)
                    | Expr::CompoundIdentifier(_)
                    | Expr::Subquery(_)
                    | Expr::Exists { .. }
                    | Expr::InSubquery { .. }
            )
        })
    };
    if !table.joins.is_empty() || !values.iter().all(constant) {
        return None;
    }
    let mut read = named(name);
    let shown = alias.as_ref().map_or_else(|| read.name.clone(), |a| folded(&a.name));
    let mut demands = Vec::new();
    conjuncts(selection, &mut demands);
    for demand in demands {
        let (column, values) = equality(demand, &shown, true)?;
        read.equal.entry(column).or_insert(values);
    }
    Some(read)
}

fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// Schema and name; of a name with a database, the last two.
fn named(name: &ObjectName) -> TableRead {
    let mut parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    let last = parts.pop().unwrap_or_default();
    TableRead { schema: parts.pop(), name: last, equal: HashMap::new() }
}

/// What the statement reads.
pub(crate) fn of(tree: &Statement) -> Reads {
    let mut finder = Finder::default();
    let inserts = match tree {
        Statement::Update(update) => {
            finder.scope(std::slice::from_ref(&update.table), update.selection.as_ref());
            if update.from.is_none() && update.returning.is_none() {
                let values: Vec<&Expr> = update.assignments.iter().map(|a| &a.value).collect();
                finder.reads.blind = blind(&update.table, update.selection.as_ref(), &values);
            }
            None
        }
        Statement::Delete(Delete { from, using: None, selection, returning, .. }) => {
            let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = from;
            finder.scope(tables, selection.as_ref());
            if let ([table], None) = (tables.as_slice(), returning) {
                finder.reads.blind = blind(table, selection.as_ref(), &[]);
            }
            None
        }
        // The rows that an INSERT conflicts with are found by the server, and are in the log if changed.
        Statement::Insert(insert) => Some(insert.table.to_string()),
        _ => None,
    };
    let _ = walk::read(tree, &mut finder);
    finder.finish(inserts)
}

#[derive(Default)]
struct Finder {
    reads: Reads,
    /// How often a relation was found in a scope, less how often it was visited.
    balance: HashMap<(Option<String>, String), i64>,
}

impl Finder {
    /// Tables of one FROM, with what its WHERE demands.
    fn scope(&mut self, from: &[TableWithJoins], selection: Option<&Expr>) {
        let mut demands = Vec::new();
        conjuncts(selection, &mut demands);
        let mut factors: Vec<&TableFactor> = Vec::new();
        for tables in from {
            factors.push(&tables.relation);
            for join in &tables.joins {
                factors.push(&join.relation);
                if matches!(join.join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_))
                    && let Some(anomalist_sqltext::ast::JoinConstraint::On(on)) =
                        join_constraint(&join.join_operator)
                {
                    conjuncts(Some(on), &mut demands);
                }
            }
        }
        let alone = factors.len() == 1;
        for factor in factors {
            let TableFactor::Table { name, alias, args: None, .. } = factor else { continue };
            let mut read = named(name);
            let shown = alias.as_ref().map_or_else(|| read.name.clone(), |a| folded(&a.name));
            for demand in &demands {
                if let Some((column, values)) = equality(demand, &shown, alone) {
                    read.equal.entry(column).or_insert(values);
                }
            }
            *self.balance.entry((read.schema.clone(), read.name.clone())).or_default() += 1;
            self.reads.tables.push(read);
        }
    }

    /// Relations that were seen outside of the scopes above are read as a whole, except the one that rows
    /// are inserted into.
    fn finish(mut self, inserts: Option<String>) -> Reads {
        let mut once = inserts;
        for ((schema, name), balance) in self.balance {
            let mut left = -balance;
            if once.as_ref().is_some_and(|i| {
                i.trim_matches('"')
                    .rsplit('.')
                    .next()
                    .is_some_and(|l| l.trim_matches('"').eq_ignore_ascii_case(&name))
            }) && left > 0
            {
                left -= 1;
                once = None;
            }
            if left > 0 {
                self.reads.tables.push(TableRead { schema, name, equal: HashMap::new() });
            }
        }
        self.reads
    }
}

impl Visitor for Finder {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.reads.locks |= !query.locks.is_empty();
        self.reads.writes |= writes(&query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.reads.into |= select.into.is_some();
        self.scope(&select.from, select.selection.as_ref());
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let read = named(relation);
        *self.balance.entry((read.schema, read.name)).or_default() -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                self.reads.functions.insert(named(name).name);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr {
            self.reads.functions.insert(named(&function.name).name);
        }
        ControlFlow::Continue(())
    }
}

fn writes(body: &SetExpr) -> bool {
    match body {
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => true,
        SetExpr::SetOperation { left, right, .. } => writes(left) || writes(right),
        _ => false,
    }
}

/// The parts of a condition that must all hold.
fn conjuncts<'e>(condition: Option<&'e Expr>, into: &mut Vec<&'e Expr>) {
    match condition {
        Some(Expr::BinaryOp { left, op: BinaryOperator::And, right }) => {
            conjuncts(Some(left), into);
            conjuncts(Some(right), into);
        }
        Some(Expr::Nested(inner)) => conjuncts(Some(inner), into),
        Some(other) => into.push(other),
        None => {}
    }
}

/// The column of the table, and the values that it must have one of.
fn equality(demand: &Expr, table: &str, alone: bool) -> Option<(String, Vec<Operand>)> {
    let column = |expr: &Expr| match expr {
        Expr::Identifier(name) if alone => Some(folded(name)),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [.., of, name] if folded(of) == table => Some(folded(name)),
            _ => None,
        },
        _ => None,
    };
    match demand {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            let sides = [(left, right), (right, left)];
            sides.into_iter().find_map(|(a, b)| Some((column(a)?, vec![operand(b)?])))
        }
        Expr::InList { expr, list, negated: false } => {
            let values: Option<Vec<Operand>> = list.iter().map(operand).collect();
            Some((column(expr)?, values?))
        }
        _ => None,
    }
}

fn operand(expr: &Expr) -> Option<Operand> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => Some(Operand::Literal(number.clone())),
            Value::SingleQuotedString(text) => Some(Operand::Literal(text.clone())),
            Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                Some(Operand::Parameter(number.checked_sub(1)?))
            }
            _ => None,
        },
        Expr::Nested(inner) => operand(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match operand(expr)? {
            Operand::Literal(number) => Some(Operand::Literal(format!("-{number}"))),
            Operand::Parameter(_) => None,
        },
        // A cast that changes no value of a key.
        Expr::Cast {
            expr,
            data_type:
                DataType::Int(None)
                | DataType::Integer(None)
                | DataType::BigInt(None)
                | DataType::SmallInt(None)
                | DataType::Int4(None)
                | DataType::Int8(None)
                | DataType::Int2(None)
                | DataType::Text
                | DataType::Varchar(None)
                | DataType::Uuid,
            ..
        } => operand(expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_sqltext::{Dialect, parse};

    fn key() -> Vec<KeyColumn> {
        [("a", KeyKind::Int), ("b", KeyKind::Text)]
            .map(|(name, kind)| KeyColumn { name: name.into(), kind })
            .into()
    }

    /// Tables with the keys that are read, `*` for all.
    fn found(text: &str) -> String {
        let reads = of(&parse(Dialect::PostgreSql, text).unwrap());
        let parameters = Parameters { values: &[Some(b"7".to_vec())], ..Parameters::default() };
        let show = |t: &TableRead| {
            let key = key();
            let prefixes = t.fixed(&key);
            let text = |p: &Vec<Operand>| -> String {
                let parts: Vec<String> = p
                    .iter()
                    .zip(&key)
                    .map(|(o, c)| o.text(c.kind, &parameters).unwrap_or("?".into()))
                    .collect();
                if parts.is_empty() { "*".into() } else { parts.join(",") }
            };
            format!("{}:{}", t.name, prefixes.iter().map(text).collect::<Vec<_>>().join("|"))
        };
        let mut all: Vec<String> = reads.tables.iter().map(show).collect();
        all.sort();
        all.join(" ")
    }

    #[test]
    fn keys_are_found_where_they_are_fixed() {
        for (text, expected) in [
            ("SELECT * FROM t", "t:*"),
            ("SELECT * FROM t WHERE a = 1 AND b = 'x' AND c > 2", "t:1,x"),
            ("SELECT * FROM t WHERE b = 'x'", "t:*"),
            ("SELECT * FROM t WHERE a = 1 OR b = 'x'", "t:*"),
            ("SELECT * FROM t WHERE (($1::int) = t.a)", "t:7"),
            ("SELECT * FROM t WHERE a IN (1, -2)", "t:1|-2"),
            ("SELECT * FROM t x JOIN u ON x.a = u.a AND u.a = 3 WHERE x.a = 4", "t:4 u:3"),
            ("SELECT * FROM t LEFT JOIN u ON u.a = 3", "t:* u:*"),
            ("SELECT (SELECT max(v) FROM u WHERE a = 5) FROM t WHERE a = $1", "t:7 u:5"),
            ("WITH s AS (SELECT * FROM u) SELECT * FROM s, t WHERE t.a = 1", "s:* t:1 u:*"),
            ("UPDATE t SET v = 1 WHERE a = 2", "t:2"),
            ("UPDATE t SET v = (SELECT v FROM u WHERE a = 9) WHERE a = 2 AND b = 'y'", "t:2,y u:9"),
            ("DELETE FROM t WHERE a = 3", "t:3"),
            ("INSERT INTO t VALUES (1, 'x')", ""),
            ("INSERT INTO t SELECT * FROM u", "u:*"),
            ("INSERT INTO t SELECT * FROM t WHERE a = 1", "t:1"),
            ("SELECT * FROM t WHERE a = 1 UNION SELECT * FROM t", "t:* t:1"),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn blind_writes_look_at_keys_alone() {
        for (text, expected) in [
            ("UPDATE t SET v = 1, w = now() WHERE a = 2 AND b = $1", true),
            ("UPDATE t SET v = v + 1 WHERE a = 2", false),
            ("UPDATE t SET v = (SELECT 1 FROM u) WHERE a = 2", false),
            ("UPDATE t SET v = 1 WHERE a = 2 AND v = 3", false),
            ("UPDATE t SET v = 1 WHERE a > 2", false),
            ("UPDATE t SET v = 1 WHERE a = 2 RETURNING w", false),
            ("DELETE FROM t WHERE a = 2 AND b IN ('x', 'y')", true),
            ("DELETE FROM t WHERE a = 2", false),
            ("DELETE FROM t", false),
        ] {
            let blind = of(&parse(Dialect::PostgreSql, text).unwrap()).blind;
            assert_eq!(blind.is_some_and(|t| t.looks_only_at(&key())), expected, "{text}");
        }
    }

    #[test]
    fn parameters_in_both_formats() {
        let values = [Some(7i32.to_be_bytes().to_vec()), Some(b"8".to_vec()), None];
        let all = Parameters { formats: &[1, 0, 0], values: &values, types: &[23] };
        assert_eq!(all.text(0, KeyKind::Int).as_deref(), Some("7"));
        assert_eq!(all.text(1, KeyKind::Int).as_deref(), Some("8"));
        assert_eq!(all.text(2, KeyKind::Int), None);
        let float = Parameters { types: &[701], ..all };
        assert_eq!(float.text(0, KeyKind::Int), None, "a floating-point number is no key");
    }
}
