//! Finding the database that `test` and `sql` are about: what users name, what the environment adds, what
//! is started for them.

pub mod claim;
mod environment;

use crate::cli::Global;
use crate::exit::Failure;
use crate::{system, terminal};
use anomalist_client::remains::Folder;
use anomalist_databases::{Error, Family, Target};
use anomalist_lab::server::{Engine, Server, Setup};

/// A throw-away server by the name of its kind.
pub fn throwaway(name: &str) -> Result<Engine, String> {
    let known = || Engine::ALL.map(Engine::name).join(", ");
    Engine::ALL.into_iter().find(|e| e.name() == name).ok_or_else(|| format!("there are {}", known()))
}

/// Starts a throw-away server.
pub fn start(engine: Engine, global: &Global) -> Result<Server, Failure> {
    if !global.quiet {
        terminal::tell(&format!("starting a throw-away {}", engine.name()));
    }
    Server::start(engine, &Setup::default()).map_err(Failure::input)
}

/// The URL that was given, else that of `DATABASE_URL`, which is reported.
pub fn named(url: Option<&String>, global: &Global) -> Option<String> {
    if let Some(url) = url {
        return Some(url.clone());
    }
    let url = std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty())?;
    if !global.quiet {
        terminal::tell("testing the database of DATABASE_URL");
    }
    Some(url)
}

/// Where a URL leads, completed by the environment. `schemes`: what else it may be, for the message.
pub fn target(url: &str, schemes: &str) -> Result<Target, Failure> {
    let target = url.parse().map_err(|e| Failure::input(format_args!("{e}\n  help: {schemes}")))?;
    let account = system::account();
    environment::completed(url, target, &|name| std::env::var(name).ok(), account.as_deref())
        .map_err(Failure::input)
}

/// A database that cannot be used.
pub fn unreached(target: &Target, error: &Error) -> Failure {
    let message = error.message();
    if message.contains("none was given") {
        let variable = if target.family() == Family::Postgres { "PGPASSWORD" } else { "MYSQL_PWD" };
        return Failure::input(format_args!(
            "{target}: {message}\n  help: it can be in the URL, or in the variable {variable}"
        ));
    }
    if !message.starts_with("cannot connect") {
        return Failure::input(format_args!("{target}: {error}"));
    }
    let own = match target.family() {
        Family::Postgres => "postgres",
        _ => "mariadb",
    };
    Failure::input(format_args!(
        "{message}\n  help: --throwaway {own}, without a URL, starts a server of its own"
    ))
}

/// A folder for a file of SQLite. It is removed in the end.
pub struct Scratch(Folder);

impl Scratch {
    /// Makes the folder.
    pub fn new(command: &str) -> Result<Scratch, Failure> {
        Folder::temporary(command).map(Scratch).map_err(|e| Failure::io(&std::env::temp_dir(), e))
    }

    /// The database in it, with these options.
    pub fn sqlite(&self, options: &str) -> Result<Target, Failure> {
        let path =
            self.0.path().join("test.db").display().to_string().replace('%', "%25").replace('?', "%3F");
        format!("sqlite:{path}{options}").parse().map_err(Failure::input)
    }
}
