//! Five hundred clients, of which fifty are hostile: the others hardly notice.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]
#![allow(clippy::print_stdout, reason = "figures of a test")]

use anomalist_level::Level;
use anomalist_sqltext::Dialect;
use anomalist_weakdb::{Options, Store};
use anomalist_weakdb_sql::Database;
use anomalist_weakdb_sql::wire::{Addresses, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const OTHERS: usize = 450;
const HOSTILE: usize = 50;
const ROUND: Duration = Duration::from_secs(4);

fn connect(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(b"\0\0\0\x10\0\x03\0\0user\0a\0\0").unwrap();
    stream
}

fn query(sql: &str) -> Vec<u8> {
    [b"Q", &(sql.len() as i32 + 5).to_be_bytes()[..], sql.as_bytes(), b"\0"].concat()
}

/// Reads until the server is ready for the next statement.
fn answered(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !seen.ends_with(b"Z\0\0\0\x05I") {
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => seen.extend_from_slice(&buffer[..read]),
            _ => return false,
        }
    }
    true
}

/// Something that a client should not do, again and again.
fn hostile(kind: usize, address: SocketAddr, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut stream = connect(address);
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        // The server may end the connection at any time.
        _ = match kind % 5 {
            0 => stream.write_all(&query("SELECT count(*) FROM generate_series(1, 1000000000000)")),
            1 => stream.write_all(&query("SELECT * FROM generate_series(1, 1000000000000)")),
            2 => stream.write_all(b"Q\0\xff\xff\xffSELECT"),
            3 => stream.write_all(&[&b"Q\x03\0\0\0"[..], &vec![b' '; 1 << 20]].concat()),
            _ => stream.write_all(b"\xff\xff\xff\xff\xff\xff\xff"),
        };
        while !stop.load(Ordering::Relaxed) {
            match stream.read(&mut [0; 4096]) {
                Ok(0) => break,
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
                _ => {}
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().stack_size(1 << 18).spawn(work).unwrap()
}

/// Statements per second of the others in one round.
fn rate(done: &AtomicU64) -> f64 {
    let (before, began) = (done.load(Ordering::Relaxed), Instant::now());
    thread::sleep(ROUND);
    (done.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64()
}

#[test]
fn others_hardly_notice() {
    let database = Database::new(Store::new(Options::new(Level::ReadCommitted)).unwrap());
    let mut session = database.session(Dialect::PostgreSql, "setup").unwrap();
    session.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", &[]).unwrap();
    session.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 500) g", &[]).unwrap();
    let server = Server::start(database, &Addresses::free()).unwrap();
    let address = server.postgres().unwrap();
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let others: Vec<_> = (0..OTHERS)
        .map(|n| {
            let (stop, done) = (stop.clone(), done.clone());
            spawn(move || {
                let mut stream = connect(address);
                assert!(answered(&mut stream));
                let sql = query(&format!("SELECT v FROM t WHERE id = {}", n + 1));
                while !stop.load(Ordering::Relaxed) {
                    stream.write_all(&sql).unwrap();
                    assert!(answered(&mut stream));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // Every client has a plan of its own to make first.
    while done.load(Ordering::Relaxed) < 4 * OTHERS as u64 {
        thread::sleep(Duration::from_millis(50));
    }
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        without.push(rate(&done));
        let enough = Arc::new(AtomicBool::new(false));
        let enemies: Vec<_> = (0..HOSTILE)
            .map(|n| {
                let enough = enough.clone();
                spawn(move || hostile(n, address, &enough))
            })
            .collect();
        thread::sleep(Duration::from_secs(1));
        with.push(rate(&done));
        enough.store(true, Ordering::Relaxed);
        enemies.into_iter().for_each(|enemy| enemy.join().unwrap());
        // Statements of clients that are gone end, too.
        thread::sleep(Duration::from_secs(2));
    }
    stop.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|other| other.join().unwrap());
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let (without, with) = (median(&mut without), median(&mut with));
    println!("{without:.0} statements/s without, {with:.0} with: {:.0} %", 100.0 * with / without);
    assert!(with >= 0.8 * without, "{with:.0} of {without:.0} statements/s");
}
