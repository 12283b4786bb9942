//! A throw-away server, a recording of it, and what the recording says.

#![allow(dead_code, reason = "each file of tests uses a part")]

use anomalist::{History, Inference, Level, Verdict};
use anomalist_databases::{Connection, Database, Target};
use anomalist_lab::server::{Engine, Server, Setup};
use anomalist_record::{Options, Recording, Summary};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A server that lets every client in without a password: scripts of bytes cannot answer SCRAM.
pub fn server() -> Server {
    let server = Server::start(Engine::Postgres, &Setup::default()).unwrap();
    let rules = "host all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n";
    std::fs::write(server.folder().join("data/pg_hba.conf"), rules).unwrap();
    run(server.target(0), "SELECT pg_reload_conf()");
    std::thread::sleep(std::time::Duration::from_millis(500));
    server
}

pub fn run(target: &Target, sql: &str) -> String {
    text(&mut target.connect().unwrap(), sql)
}

/// The last result of a script, as text.
pub fn text(connection: &mut Box<dyn Connection>, sql: &str) -> String {
    let replies = connection.run(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let row = |row: &Vec<anomalist_databases::Value>| {
        row.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    replies.last().map(|r| r.rows.iter().map(row).collect::<Vec<_>>().join(" ")).unwrap_or_default()
}

/// A recording into a file.
pub struct Recorded {
    pub recording: Recording,
    pub target: Target,
    pub file: PathBuf,
}

pub fn record(server: &Server, options: Options) -> Recorded {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("anomalist-record-{}-{count}.jsonl", std::process::id()));
    let out = Box::new(std::fs::File::create(&file).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let recording = Recording::start(server.target(0), listener, out, options).unwrap();
    let target = server.target(0).via("127.0.0.1", recording.address().unwrap().port());
    Recorded { recording, target, file }
}

impl Recorded {
    pub fn connect(&self) -> Box<dyn Connection> {
        self.target.connect().unwrap()
    }

    /// Ends the recording: the history as text, and what was counted.
    pub fn end(self) -> (String, Summary) {
        let summary = self.recording.stop().unwrap();
        let text = std::fs::read_to_string(&self.file).unwrap();
        std::fs::remove_file(&self.file).unwrap();
        (text, summary)
    }
}

/// What is decided about a history, with its version numbers: of each level whether it holds. Every proof is
/// verified.
///
/// `ANOMALIST_KEEP` is a folder in which histories are kept.
pub fn judge(text: &str, levels: &[Level]) -> Vec<Option<bool>> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("anomalist-judged-{}-{count}.jsonl", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let history = History::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let assumed = Inference { version_numbers: true, ..Inference::default() };
    let mut check = anomalist::check(&history).assume(assumed).verified();
    for level in levels {
        check = check.decide(*level);
    }
    let answer = check.run().unwrap();
    let holds = |level: &Level| match answer.verdict(*level) {
        Some(Verdict::Holds) => Some(true),
        Some(Verdict::Violated) => Some(false),
        _ => None,
    };
    let found: Vec<Option<bool>> = levels.iter().map(holds).collect();
    if let Some(folder) = std::env::var_os("ANOMALIST_KEEP") {
        let name = format!("{}-{count}.jsonl", std::process::id());
        std::fs::write(PathBuf::from(folder).join(name), text).unwrap();
    }
    found
}

pub fn isolated(target: &Target, level: &str) -> Target {
    target
        .clone()
        .with_parameter("options", &format!("-c default_transaction_isolation={}", level.replace(' ', "\\ ")))
        .unwrap()
}
