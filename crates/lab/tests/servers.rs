//! Throw-away servers come, go, crash and come back, and leave nothing behind.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]
#![allow(clippy::print_stdout, reason = "figures of a test")]
#![cfg(all(feature = "postgres", feature = "mysql"))]

mod suite;

use anomalist_databases::{Connection, Database, Error, Fate, Kind, Target, Value};
use anomalist_lab::server::{Engine, Server, Setup};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Commits what it can and says what must be there.
fn commits(session: &mut dyn Connection, value: i64) {
    let level = session.product().isolation("serializable").unwrap();
    session.begin(&level).unwrap();
    session.run(&format!("INSERT INTO kept VALUES ({value})")).unwrap();
    session.commit().unwrap();
}

fn kept(target: &Target) -> i64 {
    target.connect().unwrap().run("SELECT COUNT(*) FROM kept").unwrap()[0].int().unwrap()
}

fn lives_and_dies(server: Server, node: usize) {
    let target = server.target(node).clone();
    target.connect().unwrap().run("CREATE TABLE kept (v BIGINT PRIMARY KEY)").unwrap();
    let mut session = target.connect().unwrap();
    commits(session.as_mut(), 1);

    // Killed in the middle of a transaction.
    let level = session.product().isolation("read committed").unwrap();
    session.begin(&level).unwrap();
    session.run("INSERT INTO kept VALUES (2)").unwrap();
    server.kill(node);
    assert!(!server.is_running(node));
    let error = session.run("INSERT INTO kept VALUES (3)").unwrap_err();
    assert_eq!((error.kind(), error.fate()), (Kind::Lost, Fate::Aborted), "{error}");
    assert_eq!(target.connect().err().map(|e| e.kind()), Some(Kind::Lost));
    server.start_again(node).unwrap();
    assert_eq!(kept(&target), 1, "what was committed survives, what was not does not");

    // Stopped properly.
    server.stop(node).unwrap();
    server.start_again(node).unwrap();
    assert_eq!(kept(&target), 1);

    // Paused: nothing is answered, and goes on afterwards.
    let mut session = suite::brief(&target, Duration::from_millis(1000));
    let mut patient = target.connect().unwrap();
    server.pause(node);
    let error = session.run("SELECT COUNT(*) FROM kept").unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    server.resume(node);
    assert_eq!(patient.query("SELECT COUNT(*) FROM kept", &[]).unwrap().value(), Some(&Value::Int(1)));

    let folder = server.folder().to_owned();
    assert!(folder.is_dir());
    drop(server);
    assert!(!folder.exists());
    assert!(target.connect().is_err());
}

#[test]
fn postgres() {
    if let Some(server) = suite::server(Engine::Postgres, &Setup::default()) {
        lives_and_dies(server, 0);
    }
}

#[test]
fn mariadb() {
    if let Some(server) = suite::server(Engine::Mariadb, &Setup::default()) {
        lives_and_dies(server, 0);
    }
}

/// What a cluster does in the end: while it looks for its members, which a busy machine may make it do at
/// any time, statements fail.
fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Result<T, Error>) -> T {
    let limit = Instant::now() + Duration::from_secs(180);
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(Instant::now() < limit, "{what}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn galera() {
    let start = Instant::now();
    let Some(server) = suite::server(Engine::Galera, &Setup::default()) else { return };
    println!("three nodes after {:.1} s", start.elapsed().as_secs_f64());
    let targets = server.targets();
    let run = |node: usize, sql: &str| {
        eventually(sql, || {
            let mut session = targets[node].connect()?;
            session.run("SET SESSION wsrep_sync_wait = 1")?;
            session.run(sql).map(|replies| replies.first().and_then(|reply| reply.int()))
        })
    };
    run(0, "CREATE TABLE IF NOT EXISTS kept (v BIGINT PRIMARY KEY)");
    run(1, "REPLACE INTO kept VALUES (1)");
    assert_eq!(run(2, "SELECT COUNT(*) FROM kept"), Some(1), "all nodes have it");

    // Two nodes change the same row: certification lets one through, and the other is certainly aborted.
    let error = eventually("a conflict", || {
        let (mut one, mut two) = (targets[0].connect()?, targets[1].connect()?);
        let level = one.product().isolation("repeatable read").unwrap();
        for session in [&mut one, &mut two] {
            // Each waits for what the others have done: a node that has not seen the row yet would change
            // nothing.
            session.run("SET SESSION wsrep_sync_wait = 7")?;
            session.begin(&level)?;
            session.run("UPDATE kept SET v = v + 10")?;
        }
        one.commit()?;
        Ok(two.commit().expect_err("both changed the row"))
    });
    assert_eq!((error.kind(), error.fate()), (Kind::Deadlock, Fate::Aborted), "{error}");

    // A node dies; the others go on; it comes back and has what it missed.
    server.kill(2);
    let start = Instant::now();
    run(1, "REPLACE INTO kept VALUES (2)");
    println!("the others go on after {:.1} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    server.start_again(2).unwrap();
    println!("the node is back after {:.1} s", start.elapsed().as_secs_f64());
    assert_eq!(run(2, "SELECT COUNT(*) FROM kept"), Some(2));
}

/// Other accounts of this machine, which reach the port, are refused; and the folder is closed to them.
#[test]
fn other_accounts_stay_outside() {
    use std::os::unix::fs::PermissionsExt;
    for engine in [Engine::Postgres, Engine::Mariadb] {
        let Some(server) = suite::server(engine, &Setup::default()) else { return };
        let mode = std::fs::metadata(server.folder()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{engine:?}");
        for user in ["postgres", "anomalist", "root", "mysql", ""] {
            for password in [None, Some(""), Some("postgres")] {
                let target = server.target(0).clone().with_login(user, password);
                assert!(target.connect().is_err(), "{engine:?}: {user} {password:?}");
            }
        }
        let (host, port) = server.target(0).address().unwrap();
        let folder = server.folder().display();
        let (client, ways) = match engine {
            Engine::Postgres => {
                let ask = format!("-w -U postgres -p {port} -c TABLE(pg_user) -h");
                ("psql", [format!("{ask} {folder}"), format!("{ask} {host}")])
            }
            _ => {
                let socket = format!("-u root -S {folder}/sock -e STATUS");
                ("mariadb", [socket, format!("-u anomalist -h {host} -P {port} -e STATUS")])
            }
        };
        for way in ways {
            let mut command = match rustix::process::geteuid().is_root() {
                true => {
                    let mut command = Command::new("setpriv");
                    // An account that owns nothing.
                    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", client]);
                    command
                }
                false => Command::new(client),
            };
            let output = command
                .args(way.split(' '))
                .env_remove("PGPASSWORD")
                .env_remove("MYSQL_PWD")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{engine:?}: {way}");
            assert!(!said.is_empty() && !said.contains("not found"), "{engine:?}: {said}");
        }
        assert!(server.target(0).connect().is_ok());
    }
}

/// Set for the process that is to be killed.
const VICTIM: &str = "ANOMALIST_TEST_VICTIM";

/// What the process does that the test below starts, to be killed.
fn victim() {
    let Some(server) = suite::server(Engine::Postgres, &Setup::default()) else { return };
    println!("victim {} {}", server.url(0), server.folder().display());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    // As a handler of Ctrl-C does: nothing is dropped afterwards.
    anomalist_client::remains::remove_all();
    println!("victim removed");
    std::process::abort();
}

#[test]
fn servers_do_not_outlive_us() {
    if std::env::var_os(VICTIM).is_some() {
        return victim();
    }
    for politely in [true, false] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "servers_do_not_outlive_us", "--nocapture"])
            .env(VICTIM, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let Some(line) = lines.find(|line| line.contains("victim ")) else {
            // Without the server's programs it says so and passes; in CI it does not.
            assert!(child.wait().unwrap().success(), "no server was started");
            return;
        };
        let words: Vec<&str> = line.split("victim ").nth(1).unwrap().split(' ').collect();
        let (target, folder): (Target, &Path) = (words[0].parse().unwrap(), Path::new(words[1]));
        assert!(target.connect().is_ok());
        if politely {
            drop(child.stdin.take());
            assert!(lines.any(|line| line == "victim removed"));
            assert!(!folder.exists());
        } else {
            child.kill().unwrap();
        }
        child.wait().unwrap();
        let limit = Instant::now() + Duration::from_secs(120);
        while target.connect().is_ok() {
            assert!(Instant::now() < limit, "the server lives on");
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = std::fs::remove_dir_all(folder);
    }
}
