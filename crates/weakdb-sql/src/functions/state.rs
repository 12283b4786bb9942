//! The session and what it keeps: sequences, counts, settings; and casts, which depend on the dialect.

use super::Returns::{By, Is};
use super::{Function, How, Returns, constant, introspect, ours};
use crate::bounds::Stop;
use crate::catalogue::Sequence;
use crate::describe;
use crate::engine::Shared;
use crate::error::{Code, SqlError};
use crate::names::Names;
use crate::settings;
use crate::types::{Type, plain, truth};
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::Expr;
use anomalist_weakdb::Value;
use std::sync::atomic::Ordering;

/// Ends what the connection with this number does, if there is one.
fn end(shared: &Shared, number: &Value, how: fn(&Stop)) -> Value {
    let number = number.as_int().and_then(|number| u32::try_from(number).ok());
    let found = number.and_then(|number| shared.running.find(number));
    found.as_deref().map(how);
    Value::Bool(found.is_some())
}

pub(super) const FUNCTIONS: &[Function] = &[
    constant("weak_cast", 2, By(by_code), |shared, args| {
        let code = plain(&args[1]);
        if code.starts_with("weak_reg") {
            return introspect::number_of(shared, &code, &args[0]);
        }
        let kind = Type::from_code(&code);
        let source = match (&args[0], kind) {
            // A text is cut to fit when it is cast, and refused only when it is stored.
            (v, Type::Varchar(Some(n)) | Type::Char(n)) if *v != Value::Null => {
                Value::from(plain(v).chars().take(n as usize).collect::<String>())
            }
            (Value::Text(t), kind) if kind.is_integer() && shared.dialect == Dialect::MySql => {
                Value::Int(leading(t) as i64)
            }
            (v, _) => v.clone(),
        };
        kind.coerce(source, shared.dialect)
    }),
    ours("weak_only", 3, By(by_code), |_, args| match args[2].as_int() {
        Some(0 | 1) => Ok(args[0].clone()),
        _ => {
            let text = "more than one row returned by a subquery used as an expression";
            Err(SqlError::new(Code::Cardinality, text))
        }
    }),
    ours("nextval", 1, Is(Type::Int8), |shared, args| {
        let Sequence { counter, increment, .. } = sequence(shared, &args[0])?;
        shared.last_id = counter.fetch_add(increment, Ordering::SeqCst).wrapping_add(increment);
        Ok(Value::Int(shared.last_id))
    }),
    ours("setval", -1, Is(Type::Int8), |shared, args| {
        let wanted = args.get(1).and_then(Value::as_int).unwrap_or(1);
        let called = args.get(2).and_then(truth).unwrap_or(true);
        let Sequence { counter, increment, .. } = sequence(shared, &args[0])?;
        counter.store(if called { wanted } else { wanted.wrapping_sub(increment) }, Ordering::SeqCst);
        Ok(Value::Int(wanted))
    }),
    ours("currval", 1, Is(Type::Int8), |shared, _| Ok(Value::Int(shared.last_id))),
    ours("lastval", 0, Is(Type::Int8), |shared, _| Ok(Value::Int(shared.last_id))),
    ours("last_insert_id", -1, Is(Type::Int8), |shared, _| Ok(Value::Int(shared.last_id))),
    ours("pg_cancel_backend", 1, Is(Type::Bool), |shared, args| Ok(end(shared, &args[0], Stop::cancel))),
    ours("pg_terminate_backend", 1, Is(Type::Bool), |shared, args| Ok(end(shared, &args[0], Stop::kill))),
    ours("pg_get_serial_sequence", 2, Is(Type::Text), |_, args| {
        Ok(format!("{}_{}_seq", plain(&args[0]), plain(&args[1])).into())
    }),
    ours("row_count", 0, Is(Type::Int8), |shared, _| Ok(Value::Int(shared.last_count))),
    ours("found_rows", 0, Is(Type::Int8), |shared, _| Ok(Value::Int(shared.last_count))),
    ours("connection_id", 0, Is(Type::Int8), |shared, _| Ok(Value::Int(i64::from(shared.connection)))),
    ours("pg_backend_pid", 0, Is(Type::Int4), |shared, _| Ok(Value::Int(i64::from(shared.connection)))),
    ours("version", 0, Is(Type::Text), |shared, _| Ok(settings::version(shared.dialect).into())),
    ours("current_schema", -1, Is(Type::Text), |_, _| Ok("public".into())),
    ours("current_database", 0, Is(Type::Text), |shared, _| Ok(shared.database.as_str().into())),
    ours("database schema", 0, Is(Type::Text), |shared, _| Ok(shared.database.as_str().into())),
    ours("current_user user session_user system_user", 0, Is(Type::Text), |shared, _| {
        Ok(shared.user.as_str().into())
    }),
    ours("current_setting", -1, Is(Type::Text), |shared, args| {
        Ok(settings::show(shared, &plain(&args[0])).map_or(Value::Null, Value::from))
    }),
    ours("set_config", 3, Is(Type::Text), |shared, args| {
        shared.variables.insert(plain(&args[0]).to_lowercase(), plain(&args[1]));
        Ok(args[1].clone())
    }),
    ours("weak_variable", 1, Is(Type::Unknown), |shared, args| {
        Ok(settings::variable(shared, &plain(&args[0])))
    }),
    ours("pg_advisory_unlock", -1, Is(Type::Bool), |_, _| Ok(Value::Int(0))),
    ours("pg_advisory_unlock_all", 0, Is(Type::Text), |_, _| Ok(Value::Null)),
    Function { names: LOCKS, returns: Returns::Is(Type::Bool), how: How::Lock },
];

const LOCKS: &str = "pg_advisory_lock pg_advisory_lock_shared pg_advisory_xact_lock pg_advisory_xact_lock_shared \
    pg_try_advisory_lock pg_try_advisory_lock_shared pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared \
    get_lock is_free_lock is_used_lock release_lock release_all_locks";

/// The type that the second argument names.
fn by_code(_: &Names<'_>, args: &[&Expr]) -> Type {
    match args.get(1) {
        Some(Expr::Value(v)) => {
            v.value.clone().into_string().map_or(Type::Unknown, |code| Type::from_code(&code))
        }
        _ => Type::Unknown,
    }
}

/// The number that a text begins with, as MySQL reads it.
fn leading(text: &str) -> f64 {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '-' | '+' | '.')).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0.0)
}

fn sequence(shared: &Shared, name: &Value) -> Result<Sequence, SqlError> {
    let name = plain(name);
    let bare = name.rsplit('.').next().unwrap_or(&name).trim_matches('"');
    describe::sequence(&shared.catalogue, bare)
        .ok_or_else(|| SqlError::new(Code::UndefinedTable, format!("relation \"{name}\" does not exist")))
}
