//! `anomalist weakdb`: the mock weak database on the network, until Ctrl-C.

pub mod over;

use crate::cli::Global;
use crate::destination::{Destination, write_file};
use crate::exit::{Exit, Failure};
use crate::load;
use crate::{interrupt, terminal, values};
use anomalist_format::{Format, PathName};
use anomalist_level::Level;
use anomalist_weakdb::{
    Choice, Granularity, Latest, Options, Otherwise, ReadName, Replay, Schedule, Store, TxnName,
};
use anomalist_weakdb_sql::wire::{Addresses, Server};
use anomalist_weakdb_sql::{Constraints, Database, Limits};
use clap::{Args, ValueEnum};
use serde_json::{Value as Json, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Flags of `weakdb`.
#[derive(Args, Debug)]
#[command(after_help = "Examples: anomalist weakdb --level causal --postgres 5433 &\n          \
    psql -h 127.0.0.1 -p 5433 -U postgres weakdb\n          \
    anomalist weakdb --level read-committed --mysql 3307 --seed 7 --record run.jsonl\n          \
    anomalist weakdb --level causal --throwaway postgres --postgres 5433\n\n\
    Any user and password will do. SET anomalist.latest = on makes a session read only the latest writes, for assertions.")]
pub struct Flags {
    /// Level to show: read-committed, read-atomic, causal, prefix, snapshot-isolation or serializable
    #[arg(long, value_name = "L", default_value = "causal")]
    level: Level,
    /// Speak PostgreSQL's protocol here: HOST:PORT, or a PORT of this machine alone, 0 for a free one
    /// [default, if no address is given: all protocols on free ports]
    #[arg(long, value_name = "ADDR", value_parser = values::address)]
    postgres: Option<SocketAddr>,
    /// Speak MySQL's protocol here
    #[arg(long, value_name = "ADDR", value_parser = values::address)]
    mysql: Option<SocketAddr>,
    /// Answer HTTP requests with JSON here
    #[arg(long, value_name = "ADDR", value_parser = values::address)]
    http: Option<SocketAddr>,
    #[command(flatten)]
    over: over::OverFlags,
    /// Take out of the database of --over what a killed weakdb has left in it, and end
    #[arg(long, requires = "over")]
    remove: bool,
    /// Transactions overlap as clients make them (interleaved), or run one after another (serial)
    #[arg(long, value_name = "HOW", default_value = "interleaved")]
    schedule: Scheduling,
    /// Probability of an older value than the newest allowed one [default: every allowed value is as likely]
    #[arg(long, value_name = "P", value_parser = probability)]
    stale: Option<f64>,
    /// Probability that a commit is refused at random, to test retries
    #[arg(long, value_name = "P", default_value = "0", value_parser = probability)]
    abort: f64,
    /// Random time to wait before each transaction, such as 0-4ms
    #[arg(long, value_name = "A-B", value_parser = delay)]
    delay: Option<(Duration, Duration)>,
    /// All sessions read only the latest writes, as with SET anomalist.latest: writes that are not known to
    /// be overwritten (on), or the last of each session, as in the MonkeyDB paper (per-session)
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "on", require_equals = true)]
    latest: Option<LatestName>,
    /// What is read and written as one: a cell or a whole row
    #[arg(long, value_name = "WHAT", default_value = "cell")]
    granularity: Grain,
    /// How primary, unique and foreign keys are checked: by reads of the level (weak), or against the
    /// newest state (strict)
    #[arg(long, value_name = "HOW", default_value = "weak")]
    constraints: Checking,
    /// Longest time of a statement, unless its session sets statement_timeout or max_statement_time; 0: none
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = values::duration)]
    statement_timeout: Duration,
    /// Rows that a statement may find
    #[arg(long, value_name = "N", default_value = "1000000")]
    max_rows: usize,
    /// Bytes that a statement may find; a session may keep twice, all together four times as many
    #[arg(long, value_name = "SIZE", default_value = "256MB", value_parser = values::size)]
    max_result: usize,
    /// Connections of each protocol at one time
    #[arg(long, value_name = "N", default_value = "1000")]
    max_connections: usize,
    /// Name that HTTP requests may have as Host or Origin, beside this machine's own [may be repeated]
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Decides every choice
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
    /// At the end, write the history here, and the choices beside it, as FILE.choices
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Repeat the choices of a recorded run; reads that it did not make return the newest allowed value
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Print its addresses as one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scheduling {
    Interleaved,
    Serial,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Grain {
    Cell,
    Row,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Checking {
    Weak,
    Strict,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LatestName {
    On,
    PerSession,
}

/// A number from 0 to 1.
pub fn probability(text: &str) -> Result<f64, String> {
    let found: f64 = text.parse().map_err(|_| "a number between 0 and 1".to_owned())?;
    if (0.0..=1.0).contains(&found) { Ok(found) } else { Err("a number between 0 and 1".to_owned()) }
}

/// `0-4ms`: the unit of the first is that of the second unless it has one.
pub fn delay(text: &str) -> Result<(Duration, Duration), String> {
    let (from, to) = text.split_once('-').ok_or("write A-B, such as 0-4ms")?;
    let unit = to.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let bare = from.chars().all(|c| c.is_ascii_digit() || c == '.');
    let from = values::duration(&if bare { format!("{from}{unit}") } else { from.to_owned() })?;
    let to = values::duration(to)?;
    if from <= to { Ok((from, to)) } else { Err("the first is the shorter one".to_owned()) }
}

/// Serves until the user asks for the end.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    if flags.remove {
        return over::remove(&flags.over);
    }
    let replay = flags.replay.as_deref().map(read_choices).transpose()?;
    let options = Options {
        seed: flags.seed,
        schedule: match flags.schedule {
            Scheduling::Interleaved => Schedule::Interleaved,
            Scheduling::Serial => Schedule::Serial,
        },
        stale: flags.stale,
        abort: flags.abort,
        latest: match flags.latest {
            None => Latest::Off,
            Some(LatestName::On) => Latest::On,
            Some(LatestName::PerSession) => Latest::PerSession,
        },
        delay: flags.delay,
        granularity: match flags.granularity {
            Grain::Cell => Granularity::Cell,
            Grain::Row => Granularity::Row,
        },
        record: flags.record.is_some(),
        record_choices: flags.record.is_some(),
        replay,
        ordered: flags.over.is_given(),
        ..Options::new(flags.level)
    };
    let constraints = match flags.constraints {
        Checking::Weak => Constraints::Weak,
        Checking::Strict => Constraints::Strict,
    };
    // Opened before any client connects: what cannot be written should not be found out at the end.
    let record = flags
        .record
        .as_deref()
        .map(|path| Destination::create(path, Format::Anomalist, false))
        .transpose()?;
    let store = Store::new(options).map_err(Failure::input)?;
    if flags.over.is_given() {
        if flags.mysql.or(flags.http).is_some() {
            return Err(Failure::input("over a server there is only its own protocol: --postgres"));
        }
        over::serve(&flags.over, &store, flags.postgres, flags.json, global)?;
        return finish(flags, &store, record);
    }
    let time = flags.statement_timeout;
    let most = flags.max_result;
    let limits = Limits::default()
        .with_statement((!time.is_zero()).then_some(time))
        .with_result(flags.max_rows, most)
        .with_kept(most.saturating_mul(2), most.saturating_mul(4))
        .with_connections(flags.max_connections);
    let database = Database::with_constraints(store.clone(), constraints).with_limits(limits);
    let (postgres, mysql, http) = match (flags.postgres, flags.mysql, flags.http) {
        (None, None, None) => {
            let free = Addresses::free();
            (free.postgres, free.mysql, free.http)
        }
        given => given,
    };
    let addresses = Addresses { postgres, mysql, http, hosts: flags.allow_host.clone() };
    let server = Server::start(database, &addresses)
        .map_err(|e| Failure::input(format_args!("cannot listen: {e}")))?;
    announce(&server, flags)?;
    while !interrupt::is_requested() {
        thread::sleep(Duration::from_millis(50));
    }
    server.stop();
    finish(flags, &store, record)
}

/// Writes what was recorded.
fn finish(flags: &Flags, store: &Store, record: Option<Destination>) -> Result<Exit, Failure> {
    if let (Some(path), Some(mut destination)) = (&flags.record, record) {
        let history = store.history().map_err(|e| Failure::input(format_args!("{}: {e}", path.shown())))?;
        destination.append(&history)?;
        destination.finish()?;
        write_file(&beside(path), choices_text(&store.choices()).as_bytes())?;
    }
    Ok(Exit::Holds)
}

fn announce(server: &Server, flags: &Flags) -> Result<(), Failure> {
    let url = |address: Option<SocketAddr>, before: &str, after: &str| {
        address.map(|a| format!("{before}{a}{after}"))
    };
    let urls = [
        ("postgres", url(server.postgres(), "postgres://postgres@", "/weakdb")),
        ("mysql", url(server.mysql(), "mysql://root@", "/weakdb")),
        ("http", url(server.http(), "http://", "/")),
    ];
    let mut text = String::new();
    if flags.json {
        let mut document = json!({"level": flags.level.name(), "seed": flags.seed});
        for (name, url) in urls {
            document[name] = json!(url);
        }
        text = document.to_string();
    } else {
        let _ = write!(text, "weakdb shows {}, seed {}", flags.level.name(), flags.seed);
        for url in urls.into_iter().filter_map(|(_, url)| url) {
            let _ = write!(text, "\n  {url}");
        }
    }
    terminal::print(&text)
}

/// Where the choices of a recorded history are.
fn beside(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".choices");
    PathBuf::from(name)
}

/// One line per choice.
fn choices_text(choices: &[Choice]) -> String {
    let mut text = String::new();
    for choice in choices {
        let ReadName { by, read } = choice.read;
        let from = choice.source.map(|t| [t.session, t.transaction]);
        let line = json!({"session": by.session, "transaction": by.transaction, "read": read, "key": &*choice.key, "from": from});
        let _ = writeln!(text, "{line}");
    }
    text
}

fn read_choices(path: &Path) -> Result<Replay, Failure> {
    let found = beside(path);
    let path = if found.exists() { found.as_path() } else { path };
    let text = load::small_text(path)?;
    let mut replay = Replay { otherwise: Otherwise::Newest, ..Replay::default() };
    for (at, line) in text.lines().enumerate() {
        let wrong = || Failure::input(format_args!("{}:{}: not a recorded choice", path.shown(), at + 1));
        let parsed: Json = serde_json::from_str(line).map_err(|_| wrong())?;
        let number = |json: &Json| json.as_u64().and_then(|n| u32::try_from(n).ok());
        let field = |name: &str| parsed.get(name).and_then(number).ok_or_else(wrong);
        let by = TxnName { session: field("session")?, transaction: field("transaction")? };
        let from = match parsed.get("from") {
            Some(Json::Array(pair)) => match pair.as_slice() {
                [s, t] => {
                    let (session, transaction) = (number(s).ok_or_else(wrong)?, number(t).ok_or_else(wrong)?);
                    Some(TxnName { session, transaction })
                }
                _ => return Err(wrong()),
            },
            Some(Json::Null) => None,
            _ => return Err(wrong()),
        };
        replay.choices.insert(ReadName { by, read: field("read")? }, from);
    }
    Ok(replay)
}
