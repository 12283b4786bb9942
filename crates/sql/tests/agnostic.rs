//! Instrumentation is isolation-agnostic: the same transactions in the same order, with and without it, on
//! real servers, give the same rows after projection, wait at the same statements and fail in the same way.
//!
//! Some things are the server's to decide, and comparing stops there: which transaction a deadlock ends
//! (MySQL's kin count what each has changed, PostgreSQL looks at the clock), who comes first of two that
//! wait and are let go by one commit, and whom PostgreSQL's SERIALIZABLE gives up, which depends on pages
//! and plans, and so on how wide a row is.
//!
//! Two things are different by nature and left out. InnoDB does not write an UPDATE to the value that is
//! already there, but `wList` makes it a change: here every UPDATE changes a column, with and without. And
//! a query that an index alone can answer reads, and locks, less than one that also returns the list: here
//! are no secondary indexes.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use anomalist_databases::{Database, Error, Kind};
use anomalist_lab::server::Engine;
use anomalist_sql::Flavour;
use anomalist_sql::generate::{End, Generator, Knobs, Mix};
use anomalist_sql::namespace::Namespace;
use anomalist_sql::replay::{Event, Replayed, replay, replay_with};
use anomalist_sql::schema::{self, Column, Literal, Schema};
use anomalist_sql::script::{Line, Script};
use fastrand::Rng;

/// Two or three sessions with two transactions each, in a random order of their statements.
fn script(flavour: Flavour, seed: u64) -> Script {
    // Few rows and many updates, so that sessions meet.
    let mix = Mix { update: 50, locking: 15, ..Mix::default() };
    let knobs = Knobs { tables: 2, rows: 4, values: 5, statements: 5, mix, ..Knobs::default() };
    let generator = Generator::new(knobs, flavour, seed);
    let mut schema: Schema = generator.schema(0);
    let plain = schema.clone();
    for table in &mut schema.tables {
        table.indexes.clear();
        let touched = Column {
            name: "touched".to_owned(),
            kind: schema::Kind::Int,
            not_null: false,
            default: Some(Literal::Int(0)),
            check: None,
            auto_increment: false,
        };
        table.columns.push(touched);
        table.rows.iter_mut().for_each(|row| row.push(Literal::Int(0)));
    }
    let touch = |statement: String| match statement.starts_with("UPDATE") {
        true => statement.replacen(" SET ", " SET touched = touched + 1, ", 1),
        false => statement
            .replace("DO UPDATE SET ", "DO UPDATE SET touched = 1 + excluded.touched, ")
            .replace("KEY UPDATE ", "KEY UPDATE touched = touched + 1, "),
    };
    let mut rng = Rng::with_seed(seed);
    let mut sessions: Vec<Vec<String>> = Vec::new();
    for session in 0..2 + seed % 2 {
        let mut lines = Vec::new();
        for index in 0..2 {
            let transaction = generator.transaction(&plain, 0, session, index);
            let end = match transaction.end {
                End::Commit => Some("COMMIT"),
                End::Rollback => Some("ROLLBACK"),
                End::Autocommit => None,
            };
            lines.extend(end.map(|_| "BEGIN".to_owned()));
            lines.extend(transaction.statements.into_iter().map(touch));
            lines.extend(end.map(str::to_owned));
        }
        lines.reverse();
        sessions.push(lines);
    }
    let mut steps = Vec::new();
    while sessions.iter().any(|s| !s.is_empty()) {
        let session = rng.usize(..sessions.len());
        if let Some(text) = sessions[session].pop() {
            steps.push(Line { session: session + 1, text });
        }
    }
    Script { setup: schema.create(flavour), steps, ..Script::default() }
}

fn rows(event: &Event) -> Vec<String> {
    let mut all: Vec<String> = event.rows.iter().map(|row| format!("{row:?}")).collect();
    all.sort();
    all
}

/// The lines before which the server decided something by itself.
fn decided(isolation: &str, plain: &[Event], other: &[Event]) -> usize {
    let own_choice = |kind: Kind| match kind {
        Kind::Deadlock | Kind::Timeout => true,
        Kind::Conflict => isolation == "SERIALIZABLE",
        _ => false,
    };
    let chose = |e: &Event| e.failed.as_ref().is_some_and(|f| own_choice(f.kind));
    let mut end = usize::MAX;
    for events in [plain, other] {
        let together = |a: &Event| {
            let with = |b: &&Event| a.line != b.line && b.waited && a.sent <= b.answer && b.sent <= a.answer;
            a.waited && events.iter().any(|b| with(&b))
        };
        if let Some(first) = events.iter().filter(|e| chose(e) || together(e)).map(|e| e.answer).min() {
            let after = events.iter().filter(|e| e.answer >= first).map(|e| e.line).min();
            end = end.min(after.unwrap_or(usize::MAX));
        }
    }
    end
}

/// Compares scripts at a level; how many statements waited.
fn compare(database: &dyn Database, flavour: Flavour, isolation: &str, seeds: std::ops::Range<u64>) -> u32 {
    let level = database.product().unwrap().isolation(isolation).unwrap();
    let namespace = Namespace::new(flavour, "anomalist_agnostic");
    let (mut compared, mut waited, mut failed, mut cut) = (0, 0, 0, 0);
    for seed in seeds {
        let script = script(flavour, seed);
        // InnoDB removes deleted rows when it finds time, and with them what others wait for; not while
        // a transaction may see them.
        let mut witness = database.connect().unwrap();
        if flavour.is_mysql() {
            witness.run("START TRANSACTION WITH CONSISTENT SNAPSHOT").unwrap();
        }
        let stuck = |e: Error| -> Replayed { panic!("{isolation}, seed {seed}: {e}\n{}", script.print()) };
        let plain =
            replay_with(None, database, &level, &namespace, &script, &|| false).unwrap_or_else(stuck).events;
        let other = replay(database, &level, &namespace, &script, &|| false).unwrap_or_else(stuck).events;
        let end = decided(isolation, &plain, &other);
        cut += u32::from(end != usize::MAX);
        for (a, b) in plain.iter().zip(&other).take_while(|(a, _)| a.line < end) {
            let reported = |e: &Event| {
                let failure = e.failed.as_ref().map(|f| f.kind);
                (rows(e), e.waited, e.skipped, failure)
            };
            assert_eq!(
                reported(a),
                reported(b),
                "{isolation}, seed {seed}, line {}:\n{}",
                a.line,
                script.print()
            );
            compared += 1;
            waited += u32::from(a.waited);
            failed += u32::from(a.failed.is_some());
        }
    }
    println!(
        "{isolation}: {compared} statements the same ({waited} waited, {failed} failed), {cut} scripts cut short"
    );
    assert!(compared > 30, "{compared}");
    waited
}

#[test]
fn on_postgresql() {
    let Some(server) = support::server(Engine::Postgres) else { return };
    let waited = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
        .map(|isolation| compare(server.target(0), Flavour::PostgreSql, isolation, 0..seeds()));
    assert!(waited.iter().sum::<u32>() > 0);
}

#[test]
fn on_mariadb() {
    let Some(server) = support::server(Engine::Mariadb) else { return };
    let waited = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
        .map(|isolation| compare(server.target(0), Flavour::MariaDb, isolation, 0..seeds()));
    assert!(waited.iter().sum::<u32>() > 0);
}

/// How many scripts per level; `ANOMALIST_SEEDS` asks for more.
fn seeds() -> u64 {
    std::env::var("ANOMALIST_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(8)
}
