//! `anomalist record`: what a running application does to its database, as a history.

use crate::cli::Global;
use crate::commands::database;
use crate::exit::{Exit, Failure};
use crate::{interrupt, system, terminal, values};
use anomalist_databases::Target;
use anomalist_record::{Options, Recording, Summary};
use anomalist_report::thousands;
use clap::Args;
use serde_json::json;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How often the end is looked for.
const TICK: Duration = Duration::from_millis(20);
/// How long a command that Ctrl-C has reached may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// Flags of `record`.
#[derive(Args, Debug)]
#[command(after_help = "Examples: anomalist record --to postgres://me@127.0.0.1/shop -- pytest\n          \
    anomalist record --to postgres://me@db/shop --listen 6543 -o monday.jsonl\n          \
    anomalist check recording.jsonl --version-numbers\n\n\
    The server needs wal_level = logical, and the user REPLICATION. A temporary replication slot is made; \
    the server removes it when the recording ends, however that happens. Nothing else is written.")]
pub struct Flags {
    /// The server to record: postgres://USER@HOST/DB [default: DATABASE_URL]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Listen here for the application: HOST:PORT, or a PORT of this machine alone [default: a free port]
    #[arg(long, value_name = "ADDR", value_parser = values::address)]
    listen: Option<SocketAddr>,
    /// Where the history goes
    #[arg(long, short, value_name = "FILE", default_value = "recording.jsonl")]
    output: PathBuf,
    /// Record only a part of the rows, always the same ones, such as 1/64
    #[arg(long, value_name = "1/N", default_value = "1/1", value_parser = sample)]
    keys: u32,
    /// Hash the keys of rows, with a secret that is not kept
    #[arg(long)]
    private: bool,
    /// Print what was recorded as one JSON document
    #[arg(long)]
    json: bool,
    /// A command to record; it finds the proxy in DATABASE_URL and in PGHOST, PGPORT and so on
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn sample(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("1/").and_then(|n| n.parse().ok()).filter(|&n| n > 0);
    number.ok_or_else(|| "expected 1/N, such as 1/64".to_owned())
}

/// Records until the command ends, or Ctrl-C.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let schemes = "postgres://USER@HOST/DB";
    let url = database::named(flags.to.as_ref(), &Global { quiet: true, ..global.clone() });
    let url = url.ok_or_else(|| Failure::input(format_args!("name the database: --to {schemes}")))?;
    let target = database::target(&url, schemes)?;
    let address = flags.listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let listener = TcpListener::bind(address)
        .map_err(|e| Failure::input(format_args!("cannot listen at {address}: {e}")))?;
    let out = File::create(&flags.output).map_err(|e| Failure::io(&flags.output, e))?;
    let options = Options { sample: flags.keys, private: flags.private };
    if !global.quiet {
        terminal::tell(&format!("{target}: making a temporary replication slot"));
    }
    let recording = Recording::start(&target, listener, Box::new(out), options).map_err(Failure::input)?;
    let address = recording.address().unwrap_or(address);
    if !global.quiet {
        let shown = target.via(&address.ip().to_string(), address.port());
        terminal::tell(&format!(
            "recording {target} by the slot {}; connect to {shown}, without TLS",
            recording.slot()
        ));
    }
    let ended = wait(flags, &target, address, &recording);
    let summary = recording.stop().map_err(Failure::input)?;
    let status = ended?;
    match flags.json {
        true => terminal::print(&document(flags, &summary))?,
        false if !global.quiet => terminal::tell(&text(flags, &summary)),
        false => {}
    }
    match status {
        Some(status) if !status.success() => {
            terminal::tell(&format!("the command ended with {status}"));
            Ok(Exit::Violated)
        }
        _ => Ok(Exit::Holds),
    }
}

/// Waits for the end of the command, or for Ctrl-C.
fn wait(
    flags: &Flags,
    target: &Target,
    address: SocketAddr,
    recording: &Recording,
) -> Result<Option<ExitStatus>, Failure> {
    let mut child = match flags.command.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).envs(environment(target, address));
            let started = command.spawn();
            Some(started.map_err(|e| Failure::input(format_args!("{}: {e}", program.display())))?)
        }
        None => None,
    };
    while !interrupt::is_requested() && !recording.has_failed() {
        if let Some(child) = &mut child
            && let Some(status) = child.try_wait().map_err(Failure::input)?
        {
            return Ok(Some(status));
        }
        thread::sleep(TICK);
    }
    child.map(last).transpose()
}

/// Ctrl-C at a terminal reaches the command too; it has some time to end.
fn last(mut child: Child) -> Result<ExitStatus, Failure> {
    let since = Instant::now();
    while since.elapsed() < GRACE {
        if let Some(status) = child.try_wait().map_err(Failure::input)? {
            return Ok(status);
        }
        thread::sleep(TICK);
    }
    child.kill().and_then(|()| child.wait()).map_err(Failure::input)
}

/// What leads a command to the proxy.
fn environment(target: &Target, address: SocketAddr) -> Vec<(&'static str, String)> {
    // libpq takes the user's own name where none is said.
    let account = system::account();
    let user = target.user().or(account.as_deref()).unwrap_or("postgres");
    let database = target.database().unwrap_or(user);
    let password = target.password().map(|p| format!(":{p}")).unwrap_or_default();
    let mut variables = vec![
        ("DATABASE_URL", format!("postgresql://{user}{password}@{address}/{database}")),
        ("PGHOST", address.ip().to_string()),
        ("PGPORT", address.port().to_string()),
        ("PGUSER", user.to_owned()),
        ("PGDATABASE", database.to_owned()),
        ("PGSSLMODE", "disable".to_owned()),
    ];
    variables.extend(target.password().map(|p| ("PGPASSWORD", p.to_owned())));
    variables
}

fn text(flags: &Flags, summary: &Summary) -> String {
    let statements = &summary.statements;
    let mut text = format!(
        "{}: {} transactions ({} committed, {} aborted, {} of unknown outcome), {} of other clients\n  \
         rows read: {} in recorded versions, {} in initial ones, {} in versions of unknown origin\n  \
         statements whose reads were seen: {}",
        flags.output.display(),
        thousands(summary.transactions),
        thousands(summary.committed),
        thousands(summary.aborted),
        thousands(summary.unknown),
        thousands(summary.others),
        thousands(summary.versions),
        thousands(summary.initial),
        thousands(summary.unresolved),
        thousands(statements.seen),
    );
    for (reason, count) in &statements.unseen {
        let _ = write!(text, "\n  not seen: {} that {}", thousands(*count), reason.text());
    }
    for ((asked, isolation), count) in &summary.other_level {
        let _ = write!(text, "\n  {} asked for {asked} and ran at {isolation}", thousands(*count));
    }
    if summary.gaps > 0 {
        let _ = write!(
            text,
            "\n  the server's log was lost {} times: the recording is not complete, and check refuses it",
            summary.gaps
        );
    }
    if summary.tables_given_up > 0 {
        let _ =
            write!(text, "\n  {} tables got another name or key, and are left out", summary.tables_given_up);
    }
    let _ = write!(text, "\nNext: anomalist check {} --version-numbers", flags.output.display());
    text
}

fn document(flags: &Flags, summary: &Summary) -> String {
    let statements = &summary.statements;
    let unseen: Vec<_> =
        statements.unseen.iter().map(|(reason, n)| json!({"reason": reason.text(), "count": n})).collect();
    let levels = summary.other_level.iter();
    let levels: Vec<_> =
        levels.map(|((asked, ran), n)| json!({"asked": asked, "in_force": ran, "count": n})).collect();
    json!({
        "history": flags.output.display().to_string(),
        "transactions": summary.transactions,
        "committed": summary.committed,
        "aborted": summary.aborted,
        "unknown": summary.unknown,
        "others": summary.others,
        "reads": {"versions": summary.versions, "initial": summary.initial, "unresolved": summary.unresolved},
        "statements": {"seen": statements.seen, "unseen": unseen},
        "other_levels": levels,
        "gaps": summary.gaps,
        "tables_given_up": summary.tables_given_up,
    })
    .to_string()
}
