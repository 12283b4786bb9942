//! `explore --over` and `--throwaway`: each run gets a copy of a database of a real server.

use super::command::Unable;
use crate::commands::weakdb::over::{Place, url};
use anomalist_databases::{Database, Target};
use anomalist_over::Over;
use anomalist_weakdb::{Options, Store};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process;

/// A server, and the database whose copies are used.
pub struct Ground {
    place: Place,
    /// What the setup has left.
    prepared: Option<String>,
    runs: u64,
}

/// A copy of the database with weak reads over it.
pub struct Copy {
    pub over: Over,
    pub target: Target,
}

type Variables = Vec<(&'static str, String)>;

/// What leads a client to a database.
pub fn environment(target: &Target, address: SocketAddr) -> Variables {
    let mut variables = vec![
        ("DATABASE_URL", url(target, address)),
        ("PGHOST", address.ip().to_string()),
        ("PGPORT", address.port().to_string()),
        ("PGUSER", target.user().unwrap_or("postgres").to_owned()),
        ("PGDATABASE", target.database().unwrap_or("postgres").to_owned()),
        ("PGSSLMODE", "disable".to_owned()),
    ];
    variables.extend(target.password().map(|p| ("PGPASSWORD", p.to_owned())));
    variables
}

impl Ground {
    pub fn new(place: Place) -> Ground {
        Ground { place, prepared: None, runs: 0 }
    }

    /// A connection to a database that is not copied: PostgreSQL copies one only while it is not in use.
    fn run(&self, sql: &str) -> Result<(), Unable> {
        let other = if self.place.target.database() == Some("postgres") { "template1" } else { "postgres" };
        let connection = self.place.target.with_database(other).connect();
        let ran = connection.and_then(|mut connection| connection.run(sql));
        ran.map(drop).map_err(|e| Unable::Server(e.to_string()))
    }

    fn copy(&self, name: &str) -> Result<Target, Unable> {
        let base = self.prepared.as_deref().or(self.place.target.database()).unwrap_or("postgres");
        self.run(&format!("CREATE DATABASE {} TEMPLATE {}", quote(name), quote(base)))?;
        Ok(self.place.target.with_database(name))
    }

    fn drop(&self, name: &str) -> Result<(), Unable> {
        self.run(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", quote(name)))
    }

    /// Makes a database for the setup and says how a command reaches it, without weak reads.
    pub fn prepare(&mut self) -> Result<Variables, Unable> {
        let name = format!("anomalist_setup_{}", process::id());
        let target = self.copy(&name)?;
        self.prepared = Some(name);
        let (host, port) = target.address().unwrap_or(("127.0.0.1", 5432));
        let mut variables = environment(&target, SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        for (name, value) in &mut variables {
            match *name {
                "PGHOST" => host.clone_into(value),
                "DATABASE_URL" => *value = value.replacen("@127.0.0.1:", &format!("@{host}:"), 1),
                _ => {}
            }
        }
        Ok(variables)
    }

    /// A copy for one run.
    pub fn open(&mut self, options: &Options) -> Result<Copy, Unable> {
        self.runs += 1;
        let target = self.copy(&format!("anomalist_run_{}_{}", process::id(), self.runs))?;
        let store = Store::new(Options { ordered: true, ..options.clone() })?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Unable::Listen)?;
        match Over::start(&target, store, listener) {
            Ok(over) => Ok(Copy { over, target }),
            Err(error) => Err(Unable::Server(error.to_string())),
        }
    }

    /// The run is over.
    pub fn close(&self, copy: Copy) -> Result<(), Unable> {
        let name = copy.target.database().unwrap_or_default().to_owned();
        // With its connections; the database goes as a whole.
        drop(copy.over);
        self.drop(&name)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Some(name) = self.prepared.take() {
            let _ = Ground::drop(self, &name);
        }
        if self.runs > 0 {
            let _ = Ground::drop(self, &format!("anomalist_run_{}_{}", process::id(), self.runs));
        }
    }
}

fn quote(name: &str) -> String {
    anomalist_sqltext::Dialect::PostgreSql.quote(name)
}
