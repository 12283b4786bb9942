//! Which run a place on a server belongs to, and the removal of places whose runs are gone.
//!
//! A run holds a lock of the server under the name of its place (`pg_try_advisory_lock`, `GET_LOCK`). The
//! lock belongs to a connection: the server releases it however the process ends. The next run tries the
//! locks of all places whose names are of the form that runs use. Where it gets a lock, no run is there, and
//! it removes the place before it releases the lock.
//!
//! A lock that says nothing removes nothing. Some servers grant every lock, and poolers exchange the
//! connections behind it: so a run first tries its own lock from a second connection, which must refuse it.
//! In clusters with several writers a lock is known to one node only: there nothing is removed.
//!
//! A connection may be lost while its run goes on. A thread looks every second, and takes the lock again.

use crate::Flavour;
use crate::namespace::Namespace;
use anomalist_databases::{Connection, Database, Error, Value};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How often the connection is used.
const PAUSE: Duration = Duration::from_secs(1);

/// The right to a place, as long as it exists. Dropping it gives the lock back.
#[derive(Debug)]
pub struct Lease {
    /// Nothing is sent: the thread ends when this is gone.
    end: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(keeper) = self.keeper.take() {
            _ = keeper.join();
        }
    }
}

/// Takes the lease of a place, before it is made, and removes what killed runs left on the server.
///
/// # Errors
/// If the server does not answer, or has no such locks. Then nothing was removed.
pub fn take(database: impl Database + 'static, namespace: &Namespace) -> Result<Option<Lease>, Error> {
    let flavour = namespace.flavour();
    if flavour == Flavour::Sqlite {
        return Ok(None);
    }
    let lock = Lock { flavour, name: namespace.name().to_owned() };
    let mut connection = database.connect()?;
    if !lock.take(&mut *connection)? {
        return Ok(None);
    }
    // What cannot be removed now, can be later.
    _ = sweep(&database, &lock);
    let (end, ended) = channel::<()>();
    let keep = move || {
        while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            if connection.run("SELECT 1").is_err()
                && let Ok(mut again) = database.connect()
            {
                _ = lock.take(&mut *again);
                connection = again;
            }
        }
    };
    let keeper = Builder::new().name("sql lease".to_owned()).spawn(keep).ok();
    Ok(Some(Lease { end: Some(end), keeper }))
}

/// Removes places without a run.
fn sweep(database: &impl Database, own: &Lock) -> Result<(), Error> {
    let mut connection = database.connect()?;
    let connection = &mut *connection;
    if own.take(connection)? {
        // The lock is held already: locks are worth nothing here.
        return own.release(connection);
    }
    let patience = match own.flavour {
        Flavour::PostgreSql => "SET lock_timeout = '2s'",
        _ => "SET SESSION lock_wait_timeout = 2",
    };
    connection.run(patience)?;
    if own.flavour.is_mysql() && has_several_writers(connection)? {
        return Ok(());
    }
    for name in places(connection, own.flavour)? {
        let Some(owner) = owner(&name) else { continue };
        let lock = Lock { flavour: own.flavour, name: owner.to_owned() };
        if lock.name != own.name && lock.take(connection)? {
            for statement in Namespace::new(own.flavour, &name).remove() {
                // It may be another account's.
                _ = connection.run(&statement);
            }
            lock.release(connection)?;
        }
    }
    Ok(())
}

fn has_several_writers(connection: &mut dyn Connection) -> Result<bool, Error> {
    let galera = connection.run("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")?;
    let galera = galera.iter().flat_map(|reply| &reply.rows).any(|row| is_on(row.get(1)));
    let members = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_id <> ''";
    // MariaDB has no such table.
    let members = connection.run(members).ok().and_then(|mut replies| replies.pop());
    let members = members.and_then(|reply| reply.rows.first()?.first()?.as_int());
    Ok(galera || members.is_some_and(|members| members > 1))
}

fn is_on(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Text(text)) if text.eq_ignore_ascii_case("on") || text == "1")
}

/// The names of all places that may be those of runs.
fn places(connection: &mut dyn Connection, flavour: Flavour) -> Result<Vec<String>, Error> {
    let all = match flavour {
        Flavour::PostgreSql => "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'anomalist%'",
        _ => "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'anomalist%'",
    };
    let replies = connection.run(all)?;
    let rows = replies.into_iter().flat_map(|reply| reply.rows);
    let name = |row: Vec<Value>| match row.into_iter().next() {
        Some(Value::Text(name)) => Some(name),
        _ => None,
    };
    Ok(rows.filter_map(name).collect())
}

/// The place that a run named, if a name is of the form that runs use ([`Namespace::unused`]): itself, or
/// that which it lies beside.
fn owner(name: &str) -> Option<&str> {
    let owner = name.strip_suffix("_states").unwrap_or(name);
    let (process, time) = owner.strip_prefix(Namespace::PREFIX)?.split_once('_')?;
    let is_process = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    // Nanoseconds since 1970 have 16 digits.
    let is_time = time.len() == 16 && time.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_process && is_time).then_some(owner)
}

/// A lock of the server.
struct Lock {
    flavour: Flavour,
    name: String,
}

impl Lock {
    /// PostgreSQL's locks have numbers: the time in the name.
    fn number(&self) -> i64 {
        let time = self.name.rsplit('_').next().and_then(|time| u64::from_str_radix(time, 16).ok());
        time.unwrap_or(0).cast_signed()
    }

    /// Whether it was free and is this connection's now.
    fn take(&self, connection: &mut dyn Connection) -> Result<bool, Error> {
        let text = match self.flavour {
            Flavour::PostgreSql => format!("SELECT pg_try_advisory_lock({})::int", self.number()),
            _ => format!("SELECT GET_LOCK('{}', 0)", self.name),
        };
        let reply = connection.query(&text, &[])?;
        Ok(reply.int() == Some(1))
    }

    fn release(&self, connection: &mut dyn Connection) -> Result<(), Error> {
        let text = match self.flavour {
            Flavour::PostgreSql => format!("SELECT pg_advisory_unlock({})", self.number()),
            _ => format!("SELECT RELEASE_LOCK('{}')", self.name),
        };
        connection.query(&text, &[]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_runs_are_swept() {
        let run = Namespace::unused(Flavour::PostgreSql);
        assert_eq!(owner(run.name()), Some(run.name()));
        assert_eq!(owner(run.beside("states").name()), Some(run.name()));
        for other in [
            "anomalist_sql",
            "anomalist_sql_made",
            "anomalist_sql_mine_2024",
            "public",
            "anomalist_sql_1_states",
            "anomalist_sql_1_18f2a3b4c5d6e7f8_old",
            "anomalist_sql__18f2a3b4c5d6e7f8",
        ] {
            assert_eq!(owner(other), None, "{other}");
        }
    }
}
