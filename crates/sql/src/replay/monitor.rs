//! Asks the server which sessions wait for a lock.

use crate::Flavour;
use anomalist_databases::{Connection, Error};
use std::time::{Duration, Instant};

/// Asks the server which sessions wait.
pub(super) struct Monitor<'a> {
    pub(super) connection: &'a mut dyn Connection,
    pub(super) flavour: Flavour,
    pub(super) backends: Vec<Option<u64>>,
    /// When the server was asked last.
    pub(super) asked: Option<Instant>,
}

impl Monitor<'_> {
    /// How long it takes until an answer about waiting is not an old one: InnoDB's table is made anew only
    /// when it was not read for a tenth of a second.
    pub(super) fn settles(&self) -> Duration {
        Duration::from_millis(if self.flavour.is_mysql() { 150 } else { 10 })
    }

    /// Whether a session waits for a lock; no if the answer would be an old one, and then it has to be
    /// asked again.
    pub(super) fn is_waiting(&mut self, session: usize) -> Result<bool, Error> {
        let Some(backend) = self.backends[session] else { return Ok(false) };
        if self.flavour.is_mysql() && self.asked.is_some_and(|at| at.elapsed() < self.settles()) {
            return Ok(false);
        }
        let query = match self.flavour {
            // Waiting for autovacuum is not waiting for a session of the script.
            Flavour::PostgreSql => {
                let ours: Vec<String> = self.backends.iter().flatten().map(u64::to_string).collect();
                format!(
                    "SELECT COUNT(*) FROM unnest(pg_blocking_pids({backend})) AS pid WHERE pid IN ({})",
                    ours.join(", ")
                )
            }
            Flavour::MariaDb | Flavour::MySql => format!(
                "SELECT COUNT(*) FROM information_schema.innodb_trx \
                 WHERE trx_mysql_thread_id = {backend} AND trx_state = 'LOCK WAIT'"
            ),
            Flavour::Sqlite => return Ok(false),
        };
        let reply = self.connection.query(&query, &[])?;
        self.asked = Some(Instant::now());
        Ok(reply.int().unwrap_or(0) > 0)
    }
}
