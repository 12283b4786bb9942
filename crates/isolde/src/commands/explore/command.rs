//! A command that uses a database through its sockets, as something that can be explored.

use crate::interrupt;
use isolde_explore::{Run, Subject};
use isolde_level::Level;
use isolde_weakdb::sql::Database;
use isolde_weakdb::wire::{Addresses, Server};
use isolde_weakdb::{Options, Store};
use std::ffi::OsString;
use std::io::{self, Read};
use std::process::{self, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Why a command could not be run at all.
#[derive(Debug)]
pub enum Unable {
    Start { program: String, error: io::Error },
    Listen(io::Error),
    Setup(String),
    Store(isolde_weakdb::Error),
    Interrupted,
}

impl std::fmt::Display for Unable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unable::Start { program, error } => write!(f, "cannot start {program}: {error}"),
            Unable::Listen(error) => write!(f, "cannot listen on the loopback interface: {error}"),
            Unable::Setup(message) => write!(f, "the setup command failed: {message}"),
            Unable::Store(error) => error.fmt(f),
            Unable::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl From<isolde_weakdb::Error> for Unable {
    fn from(error: isolde_weakdb::Error) -> Unable {
        Unable::Store(error)
    }
}

/// How much of a command's output a message shows.
const LINES: usize = 30;

/// The command.
pub struct Command {
    words: Vec<OsString>,
    timeout: Duration,
    /// What the setup left.
    initial: Option<Database>,
}

impl Command {
    pub fn new(words: Vec<OsString>, timeout: Duration) -> Command {
        Command { words, timeout, initial: None }
    }

    /// Runs a shell command at the serializable level. What it leaves is where every run begins.
    pub fn set_up(&mut self, command: &str) -> Result<(), Unable> {
        let store = Store::new(Options::new(Level::Serializable))?;
        let words = ["sh", "-c", command].map(OsString::from);
        let (server, failure) = execute(Database::new(store), &words, self.timeout)?;
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
        let database = match &self.initial {
            Some(initial) => initial.restart(options.clone())?,
            None => Database::new(Store::new(options.clone())?),
        };
        let store = database.store().clone();
        let (server, failure) = execute(database, &self.words, self.timeout)?;
        // Rolls back what the command left open.
        server.stop();
        Ok(Run::of(&store, failure))
    }
}

/// Runs a command against a database; says why it failed, if it did.
fn execute(
    database: Database,
    words: &[OsString],
    timeout: Duration,
) -> Result<(Server, Option<String>), Unable> {
    let server = Server::start(database, &Addresses::free()).map_err(Unable::Listen)?;
    let Some((program, arguments)) = words.split_first() else {
        return Ok((server, None));
    };
    let mut child = process::Command::new(program)
        .args(arguments)
        .envs(environment(&server))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Unable::Start { program: program.to_string_lossy().into_owned(), error })?;
    let output = [drain(child.stdout.take()), drain(child.stderr.take())];
    let status = wait(&mut child, timeout)?;
    // A grandchild may keep the pipes open after the child was killed: its output is not waited for.
    let texts =
        if status.is_some() { output.map(|o| o.join().unwrap_or_default()) } else { Default::default() };
    let failure = match status {
        None => Some(format!("it took longer than {timeout:?}")),
        Some(status) if status.success() => None,
        Some(status) => Some(message(status, &texts)),
    };
    Ok((server, failure))
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
        env.push(("ISOLDE_MYSQL_URL", format!("mysql://root@{at}/weakdb")));
    }
    if let Some(at) = server.http() {
        env.push(("ISOLDE_HTTP_URL", format!("http://{at}")));
    }
    let options = server.database().store().options();
    env.push(("ISOLDE_SEED", options.seed.to_string()));
    env.push(("ISOLDE_LEVEL", options.level.name().to_owned()));
    env
}

/// Reads a pipe to its end, on a thread: a command that fills both must not wait for us.
fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before an error is all there is to show.
            _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// `None`: it took too long and was ended.
fn wait(child: &mut process::Child, timeout: Duration) -> Result<Option<ExitStatus>, Unable> {
    let since = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        let lost = |error| Unable::Start { program: "the command".into(), error };
        if let Some(status) = child.try_wait().map_err(lost)? {
            return Ok(Some(status));
        }
        let interrupted = interrupt::is_requested();
        if interrupted || since.elapsed() > timeout {
            // It may have ended in this moment, which is as good.
            _ = child.kill();
            _ = child.wait();
            return if interrupted { Err(Unable::Interrupted) } else { Ok(None) };
        }
        thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(10));
    }
}

fn message(status: ExitStatus, output: &[String]) -> String {
    let lines: Vec<&str> = output.iter().flat_map(|text| text.lines()).collect();
    let mut message = status.to_string();
    if lines.len() > LINES {
        message.push_str("\n…");
    }
    for line in &lines[lines.len().saturating_sub(LINES)..] {
        message.push('\n');
        message.push_str(line);
    }
    message
}
