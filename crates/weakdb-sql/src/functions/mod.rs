//! The functions of SQL: one row says all that is known about one, so that a new one is a new row.
//!
//! A row gives the names that statements call it by, the type of its result, and how it is done: by SQLite,
//! by a function of this folder that SQLite calls, or by a form that the rewriter puts in its place
//! (`calls.rs`, `sets.rs`). Functions whose first name begins with `weak_` or `exact_` are those that the
//! rewriter puts in the place of operators, and those whose plain name means something else to SQLite.

mod decimals;
mod fold;
mod introspect;
mod lists;
mod native;
mod numbers;
mod state;
mod texts;
mod times;

use super::arrays::Element;
use super::engine::{Shared, fail, lite, lock, value};
use super::error::{Code, SqlError};
use super::infer::{common, element_of};
use super::names::{Names, arguments, bare};
use super::types::{Type, plain};
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{Expr, Function as Call, FunctionArguments, Value as Literal};
use anomalist_weakdb::Value;
use fold::Fold;
use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::Value as Lite;
use rustc_hash::FxHashMap;
use std::sync::{Arc, LazyLock, Mutex};

type Answer = Result<Value, SqlError>;

type Run = fn(&mut Shared, &[Value]) -> Answer;

/// A function of SQL.
pub(super) struct Function {
    /// What statements call it by, divided by spaces.
    names: &'static str,
    returns: Returns,
    how: How,
}

/// The type of a result.
enum Returns {
    Is(Type),
    /// It differs between the dialects.
    Dialects {
        postgres: Type,
        mysql: Type,
    },
    /// That of the first argument.
    First,
    /// The common type of all arguments.
    Common,
    By(fn(&Names<'_>, &[&Expr]) -> Type),
}

/// How a function is done.
enum How {
    /// SQLite calls it by its first name, with this number of arguments (-1: any). `constant`: it may be
    /// called once per statement.
    Ours { count: i32, run: Run, constant: bool },
    /// It goes through many rows; SQLite calls it by its first name.
    Aggregate(Fold),
    /// SQLite has it, under the same name or this one.
    Sqlite(Option<&'static str>),
    /// The rewriter replaces it.
    Form,
    /// It takes a lock of the application. Refused: without the lock, a correct application would look
    /// broken.
    Lock,
}

const fn ours(names: &'static str, count: i32, returns: Returns, run: Run) -> Function {
    Function { names, returns, how: How::Ours { count, run, constant: false } }
}

const fn constant(names: &'static str, count: i32, returns: Returns, run: Run) -> Function {
    Function { names, returns, how: How::Ours { count, run, constant: true } }
}

const fn sqlite(names: &'static str, returns: Returns) -> Function {
    Function { names, returns, how: How::Sqlite(None) }
}

const fn named(names: &'static str, returns: Returns, as_sqlite: &'static str) -> Function {
    Function { names, returns, how: How::Sqlite(Some(as_sqlite)) }
}

const fn form(names: &'static str, returns: Returns) -> Function {
    Function { names, returns, how: How::Form }
}

const TABLES: [&[Function]; 8] = [
    native::FUNCTIONS,
    decimals::FUNCTIONS,
    numbers::FUNCTIONS,
    texts::FUNCTIONS,
    times::FUNCTIONS,
    lists::FUNCTIONS,
    state::FUNCTIONS,
    introspect::FUNCTIONS,
];

fn all() -> impl Iterator<Item = &'static Function> {
    TABLES.into_iter().flatten()
}

static BY_NAME: LazyLock<FxHashMap<&'static str, &'static Function>> =
    LazyLock::new(|| all().flat_map(|f| f.names.split(' ').map(move |name| (name, f))).collect());

impl Function {
    /// The function of a name in lower case.
    pub fn named(name: &str) -> Option<&'static Function> {
        BY_NAME.get(name).copied()
    }

    /// The name by which SQLite knows what a statement calls by this name.
    pub fn in_sqlite<'n>(&self, called: &'n str) -> &'n str {
        match self.how {
            How::Sqlite(Some(name)) => name,
            How::Ours { .. } | How::Aggregate(_) => self.first_name(),
            How::Sqlite(None) | How::Form | How::Lock => called,
        }
    }

    fn first_name(&self) -> &'static str {
        self.names.split(' ').next().unwrap_or_default()
    }

    /// What takes its place if its result is a decimal.
    pub fn exact(called: &str) -> Option<&'static str> {
        decimals::EXACT.iter().find(|(name, _)| *name == called).map(|(_, exact)| *exact)
    }

    /// Whether it takes a lock of the application.
    pub fn is_lock(&self) -> bool {
        matches!(self.how, How::Lock)
    }

    fn result(&self, names: &Names<'_>, args: &[&Expr]) -> Type {
        match self.returns {
            Returns::Is(kind) => kind,
            Returns::Dialects { mysql, .. } if names.dialect == Dialect::MySql => mysql,
            Returns::Dialects { postgres, .. } => postgres,
            Returns::First => first(names, args),
            Returns::Common => args.iter().map(|e| names.expr(e)).reduce(common).unwrap_or(Type::Unknown),
            Returns::By(rule) => rule(names, args),
        }
    }
}

impl Names<'_> {
    /// The type of a function's result. What is in no row is SQLite's, and taken for text.
    pub(super) fn function(&self, call: &Call) -> Type {
        if let FunctionArguments::Subquery(query) = &call.args {
            // ARRAY(SELECT …)
            return Type::List(Element::of(self.query(query).first().map_or(Type::Text, |c| c.kind)));
        }
        let function = Function::named(&bare(&call.name).to_lowercase());
        function.map_or(Type::Text, |function| function.result(self, &arguments(call)))
    }
}

fn first(names: &Names<'_>, args: &[&Expr]) -> Type {
    args.first().map_or(Type::Unknown, |e| names.expr(e))
}

fn element(names: &Names<'_>, args: &[&Expr]) -> Type {
    element_of(first(names, args))
}

fn list_of_first(names: &Names<'_>, args: &[&Expr]) -> Type {
    Type::List(Element::of(first(names, args)))
}

/// A decimal loses its places.
fn whole(names: &Names<'_>, args: &[&Expr]) -> Type {
    match first(names, args) {
        Type::Numeric(_) => Type::Numeric(Some(0)),
        kind => kind,
    }
}

/// That of a rounded number, by its places: the second argument.
fn places(names: &Names<'_>, args: &[&Expr]) -> Type {
    match (first(names, args), args.get(1)) {
        (Type::Float4 | Type::Float8, _) => Type::Float8,
        (kind, None) if kind.is_integer() => kind,
        (kind, Some(_)) if kind.is_integer() && names.dialect == Dialect::MySql => kind,
        (_, None) => Type::Numeric(Some(0)),
        (_, Some(Expr::Value(v))) => match &v.value {
            Literal::Number(n, _) => Type::Numeric(n.parse().ok()),
            _ => Type::Numeric(None),
        },
        _ => Type::Numeric(None),
    }
}

/// Makes all of them known to SQLite.
pub(super) fn register(db: &Connection, shared: &Arc<Mutex<Shared>>) -> Result<(), SqlError> {
    for function in all() {
        let (count, run, constant) = match function.how {
            How::Ours { count, run, constant } => (count, run, constant),
            How::Aggregate(fold) => {
                fold.register(db, function.first_name(), shared)?;
                continue;
            }
            _ => continue,
        };
        let shared = shared.clone();
        let flags = match constant {
            true => FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC,
            false => FunctionFlags::SQLITE_UTF8,
        };
        db.create_scalar_function(
            function.first_name(),
            count,
            flags,
            move |context| -> rusqlite::Result<Lite> {
                let args = values(context);
                let mut shared = lock(&shared);
                run(&mut shared, &args).map(lite).map_err(|error| fail(&mut shared, error))
            },
        )?;
    }
    Ok(())
}

fn values(context: &Context<'_>) -> Vec<Value> {
    (0..context.len()).map(|i| value(context.get_raw(i))).collect()
}

/// NULL if any argument is NULL, as most functions do.
fn strict(args: &[Value]) -> bool {
    args.contains(&Value::Null)
}

fn invalid(function: &str, value: &Value) -> SqlError {
    SqlError::new(Code::InvalidValue, format!("invalid argument of {function}: \"{}\"", plain(value)))
}

#[cfg(test)]
mod tests {
    use super::{How, all};
    use rusqlite::Connection;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_has_one_row() {
        let mut seen = BTreeSet::new();
        for name in all().flat_map(|f| f.names.split(' ')) {
            assert!(seen.insert(name), "{name} has two rows");
        }
    }

    #[test]
    fn what_sqlite_is_said_to_have_it_has() {
        let db = Connection::open_in_memory().unwrap();
        let mut statement = db.prepare("SELECT name FROM pragma_function_list").unwrap();
        let known: BTreeSet<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let ours: BTreeSet<&str> = all()
            .filter(|f| matches!(f.how, How::Ours { .. } | How::Aggregate(_)))
            .map(|f| f.first_name())
            .collect();
        let missing: Vec<&str> = all()
            .filter(|f| matches!(f.how, How::Sqlite(_)))
            .flat_map(|f| f.names.split(' ').map(|name| f.in_sqlite(name)))
            .filter(|name| !known.contains(*name) && !ours.contains(name))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
