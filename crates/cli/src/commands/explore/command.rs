//! A command that uses a database through its sockets, as something that can be explored.

use super::over::{self, Ground};
use super::process as group;
use anomalist_explore::{Run, Subject};
use anomalist_level::Level;
use anomalist_weakdb::{Options, Store};
use anomalist_weakdb_sql::Database;
use anomalist_weakdb_sql::wire::{Addresses, Server};
use std::ffi::OsString;
use std::time::Duration;
use std::{env, io, process};

/// How a command ended.
#[cfg_attr(not(unix), allow(dead_code, reason = "no command is run there"))]
pub enum End {
    Status(process::ExitStatus),
    /// It took too long.
    Late,
    /// The user asked for the end.
    Interrupted,
}

/// Why a command could not be run at all.
#[derive(Debug)]
pub enum Unable {
    Start { program: String, error: io::Error },
    Listen(io::Error),
    Setup(String),
    Server(String),
    Store(anomalist_weakdb::Error),
    Interrupted,
}

impl std::fmt::Display for Unable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unable::Start { program, error } => write!(f, "cannot start {program}: {error}"),
            Unable::Listen(error) => write!(f, "cannot listen on the loopback interface: {error}"),
            Unable::Setup(message) => write!(f, "the setup command failed: {message}"),
            Unable::Server(message) => f.write_str(message),
            Unable::Store(error) => error.fmt(f),
            Unable::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl From<anomalist_weakdb::Error> for Unable {
    fn from(error: anomalist_weakdb::Error) -> Unable {
        Unable::Store(error)
    }
}

/// How much of a command's output a message shows.
const LINES: usize = 30;

/// The command.
pub struct Command {
    words: Vec<OsString>,
    timeout: Duration,
    /// What the setup left in the embedded engine.
    initial: Option<Database>,
    /// A real server instead of the embedded engine.
    ground: Option<Ground>,
    /// Some run has used the database.
    connected: bool,
}

impl Command {
    pub fn new(words: Vec<OsString>, timeout: Duration, ground: Option<Ground>) -> Command {
        Command { words, timeout, initial: None, ground, connected: false }
    }

    /// Whether any run has used the database.
    pub fn has_connected(&self) -> bool {
        self.connected
    }

    /// Runs a shell command at the serializable level. What it leaves is where every run begins.
    pub fn set_up(&mut self, command: &str) -> Result<(), Unable> {
        let words = ["sh", "-c", command].map(OsString::from);
        if let Some(ground) = &mut self.ground {
            let variables = ground.prepare()?;
            let failure = execute(variables, &words, self.timeout)?;
            return failure.map_or(Ok(()), |message| Err(Unable::Setup(message)));
        }
        let store = Store::new(Options::new(Level::Serializable))?;
        let server = serve(Database::new(store))?;
        let failure = execute(environment(&server), &words, self.timeout)?;
        if let Some(message) = failure {
            return Err(Unable::Setup(message));
        }
        // The state is the server's; a restart copies it.
        let database = server.database().restart(Options::new(Level::Serializable))?;
        self.initial = Some(database);
        Ok(())
    }
}

impl Subject for Command {
    type Error = Unable;

    fn run(&mut self, options: &Options) -> Result<Run, Unable> {
        if let Some(ground) = &mut self.ground {
            let copy = ground.open(options)?;
            let address = copy.over.address().ok_or_else(|| Unable::Server("it does not listen".into()))?;
            let mut variables = over::environment(&copy.target, address);
            variables.extend(chosen(options));
            let failure = execute(variables, &self.words, self.timeout)?;
            let store = copy.over.store().clone();
            ground.close(copy)?;
            let run = Run::of(&store, failure);
            self.connected |= !run.sessions.is_empty();
            return Ok(run);
        }
        let database = match &self.initial {
            Some(initial) => initial.restart(options.clone())?,
            None => Database::new(Store::new(options.clone())?),
        };
        let store = database.store().clone();
        let server = serve(database)?;
        let failure = execute(environment(&server), &self.words, self.timeout)?;
        // Rolls back what the command left open.
        server.stop();
        let run = Run::of(&store, failure);
        self.connected |= !run.sessions.is_empty();
        Ok(run)
    }
}

fn serve(database: Database) -> Result<Server, Unable> {
    Server::start(database, &Addresses::free()).map_err(Unable::Listen)
}

/// Runs a command with these variables, which lead to a database; says why it failed, if it did.
fn execute(
    variables: Vec<(&'static str, String)>,
    words: &[OsString],
    timeout: Duration,
) -> Result<Option<String>, Unable> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(None);
    };
    let mut command = process::Command::new(program);
    command.args(arguments);
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(leads_elsewhere)) {
        command.env_remove(name);
    }
    command.envs(variables);
    let (end, output) = group::run(&mut command, timeout)
        .map_err(|error| Unable::Start { program: program.to_string_lossy().into_owned(), error })?;
    Ok(match end {
        End::Interrupted => return Err(Unable::Interrupted),
        End::Late => Some(message(&format!("it took longer than {timeout:?}"), &output)),
        End::Status(status) if status.success() => None,
        End::Status(status) => Some(message(&status.to_string(), &output)),
    })
}

/// Of PostgreSQL's variables, those that are handed on: none says where to connect or what to ask of the
/// server first.
const HARMLESS: [&str; 7] =
    ["PGDATA", "PGTZ", "PGDATESTYLE", "PGCLIENTENCODING", "PGAPPNAME", "PGCONNECT_TIMEOUT", "PGPASSWORD"];

/// What MySQL's clients look at beside what is set for them.
const MYSQL: [&str; 7] = [
    "MYSQL_UNIX_PORT",
    "MYSQL_PWD",
    "MYSQL_HOME",
    "MARIADB_HOME",
    "MYSQL_GROUP_SUFFIX",
    "MARIADB_GROUP_SUFFIX",
    "MYSQL_TEST_LOGIN_FILE",
];

/// True of a variable that may lead a client to another database than ours, such as PGSERVICE, or make it
/// ask for what ours does not speak, such as PGREQUIRESSL. A test that empties its tables must not find the
/// wrong ones, so of libpq's only the harmless are kept.
fn leads_elsewhere(name: &str) -> bool {
    let libpq =
        name.strip_prefix("PG").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    (libpq && !HARMLESS.contains(&name)) || MYSQL.contains(&name)
}

fn environment(server: &Server) -> Vec<(&'static str, String)> {
    let mut env = Vec::new();
    if let Some(at) = server.postgres() {
        env.push(("DATABASE_URL", format!("postgresql://postgres@{at}/weakdb")));
        env.push(("PGHOST", at.ip().to_string()));
        env.push(("PGPORT", at.port().to_string()));
        env.push(("PGUSER", "postgres".into()));
        env.push(("PGDATABASE", "weakdb".into()));
        env.push(("PGSSLMODE", "disable".into()));
    }
    if let Some(at) = server.mysql() {
        env.push(("MYSQL_HOST", at.ip().to_string()));
        env.push(("MYSQL_TCP_PORT", at.port().to_string()));
        env.push(("MYSQL_PORT", at.port().to_string()));
        env.push(("ANOMALIST_MYSQL_URL", format!("mysql://root@{at}/weakdb")));
    }
    if let Some(at) = server.http() {
        env.push(("ANOMALIST_HTTP_URL", format!("http://{at}")));
    }
    env.extend(chosen(server.database().store().options()));
    env
}

/// What the run is made with.
fn chosen(options: &Options) -> [(&'static str, String); 2] {
    [("ANOMALIST_SEED", options.seed.to_string()), ("ANOMALIST_LEVEL", options.level.name().to_owned())]
}

/// What happened, and the last lines that were printed.
fn message(what: &str, output: &[String]) -> String {
    let lines: Vec<&str> = output.iter().flat_map(|text| text.lines()).collect();
    let mut message = what.to_owned();
    if lines.len() > LINES {
        message.push_str("\n…");
    }
    for line in &lines[lines.len().saturating_sub(LINES)..] {
        message.push('\n');
        message.push_str(line);
    }
    message
}
