//! Databases for the tests: SQLite in a folder of its own, throw-away servers.

#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code)]

use anomalist_driver::server::{Engine, Server, ServerError, Setup};
use anomalist_driver::{Database, Target};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file of SQLite that is removed in the end.
pub struct File {
    folder: PathBuf,
    pub target: Target,
}

impl File {
    pub fn new() -> File {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("anomalist-sql-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let target: Target =
            format!("sqlite:{}?synchronous=off", folder.join("t.db").display()).parse().unwrap();
        File { folder, target: target.with_statement_timeout(std::time::Duration::from_millis(500)) }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A throw-away server; none, with a message, where its programs are missing and this is not CI.
pub fn server(engine: Engine) -> Option<Server> {
    match Server::start(engine, &Setup::default()) {
        Ok(server) => Some(server),
        Err(error @ ServerError::Missing { .. }) if std::env::var_os("CI").is_none() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// What a database is called.
pub fn product(database: &dyn Database) -> String {
    database.product().unwrap().name
}
