//! The local web application behind `anomalist ui`: a server that one person uses from a browser on the
//! same machine.
//!
//! ```text
//! browser ──HTTP──► guard (host, origin, token) ──► routes ──► folders   runs and histories, read only
//!                                                        ├──► jobs      child processes of the program
//!                                                        ├──► uploads   a private folder
//!                                                        └──► lattice   tables of anomalist-level
//! ```
//!
//! Work is done by child processes of the program itself: a check that takes all memory ends alone, and
//! ending one is ending a process. Which arguments a request stands for is decided by the [`Commands`] that
//! the program gives: this crate knows no command line.
//!
//! A browser names runs, jobs and uploads by identifiers that the server made, never by paths: there is no
//! path that could lead outside of the chosen folders. Answers are JSON; pages are built from it by scripts
//! that insert text as text. Every answer forbids what the pages do not need (`guard`).
//!
//! Costs: a thread per request while it runs, three threads per job, 64 KiB read of each new file in the
//! folders.

mod assets;
mod fields;
mod folders;
mod group;
mod guard;
mod job;
mod jobs;
mod lattice;
mod names;
mod routes;
mod tally;
mod tops;
mod uploads;

pub use fields::{Invocation, Output, Refusal, Target};
pub use names::random_name;

use anomalist_http::{Limits, Router, Server, blocking};
use guard::Guard;
use routes::App;
use serde_json::Value;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The commands that a browser may start, as the program defines them.
pub trait Commands: Send + Sync {
    /// The forms, for the browser.
    fn forms(&self) -> Value;

    /// What a filled-in form stands for.
    ///
    /// # Errors
    /// If a field is wrong, or names what the person who started the server did not allow.
    fn invocation(&self, command: &str, fields: &Value, target: &Target<'_>) -> Result<Invocation, Refusal>;

    /// Decides the levels of a history, which a person knows by a name, and writes the page about it.
    fn check(&self, history: &Path, name: &str, report: &Path) -> Invocation;
}

/// How to serve.
pub struct Settings {
    /// The program whose commands are run.
    pub program: PathBuf,
    /// Folders of runs and histories. New ones are kept in the first.
    pub folders: Vec<PathBuf>,
    /// What may be run.
    pub commands: Box<dyn Commands>,
    /// Most bytes of a file that a browser sends.
    pub upload: u64,
    /// Most commands that run at one time.
    pub jobs: usize,
    /// The environment variable that makes the program report its progress and end with its standard input.
    pub supervision: &'static str,
}

/// Bytes of a part of a file that a browser sends.
const PART: usize = 8 << 20;

/// The application. Dropping it ends its commands and removes its files.
pub struct Ui {
    app: Arc<App>,
    server: Option<Server>,
    address: String,
}

impl Ui {
    /// Serves on an address.
    ///
    /// # Errors
    /// If a folder cannot be used, or the system has no randomness, no temporary folder or no threads.
    pub fn start(listener: TcpListener, settings: Settings) -> io::Result<Ui> {
        let guard = Guard::new(listener.local_addr()?)?;
        let address = guard.address();
        let app = Arc::new(App::new(settings, guard)?);
        let limits =
            Limits::default().with_body(PART).with_connections(64).with_pause(Duration::from_secs(20));
        let served = Arc::clone(&app);
        let router = Router::new().fallback(blocking(move |request| served.answer(request)));
        let settings = anomalist_http::Settings {
            limits,
            refuse: routes::refused,
            ..anomalist_http::Settings::default()
        };
        let server = Server::start(listener, router, settings)?;
        Ok(Ui { app, server: Some(server), address })
    }

    /// The address to open, which carries the token.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(Server::address)
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        // Requests that wait for news are answered first, so that connections end at once.
        self.app.end();
        drop(self.server.take());
    }
}
