//! A TCP proxy between sessions and a server that can misbehave in the ways networks do.
//!
//! It knows one thing about what passes: a short message that says COMMIT. So it can cut a connection
//! *between* the server's commit and the client's learning of it, the one moment in which a client must
//! answer "unknown". That does not work through TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From client to server.
    ToServer,
    /// From server to client.
    ToClient,
}

/// When a connection is cut that sends COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitCut {
    /// Before the server sees it: the transaction is not committed.
    Before,
    /// When the server has answered, and the client has not seen it: the transaction is committed, if it
    /// could be.
    Answer,
}

/// A proxy in front of one address. Ends with all its connections when dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    server: SocketAddr,
    weather: Mutex<Weather>,
    /// Notified whenever the weather changes.
    changed: Condvar,
    ended: AtomicBool,
    cut: AtomicU64,
    commits_cut: AtomicU64,
}

/// How things are at the moment.
#[derive(Default)]
struct Weather {
    delay: Duration,
    /// Bytes per second and direction.
    rate: Option<u64>,
    refusing: bool,
    holding: bool,
    /// How many more COMMITs meet the cut.
    commits: Option<(CommitCut, u64)>,
    /// Connections that are open: number, client's side, server's side.
    open: Vec<(u64, TcpStream, TcpStream)>,
}

impl Proxy {
    /// A proxy on a free loopback port for this server.
    pub fn new(server: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            weather: Mutex::default(),
            changed: Condvar::new(),
            ended: AtomicBool::new(false),
            cut: AtomicU64::new(0),
            commits_cut: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&shared);
        let accepting = thread::spawn(move || of_thread.accept(&listener));
        Ok(Proxy { shared, address, accepting: Some(accepting) })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every chunk of bytes comes this much later, in both directions.
    pub fn delay(&self, by: Duration) {
        self.shared.change(|w| w.delay = by);
    }

    /// At most this many bytes per second, connection and direction.
    pub fn throttle(&self, rate: Option<u64>) {
        self.shared.change(|w| w.rate = rate.map(|r| r.max(1)));
    }

    /// New connections are closed at once.
    pub fn refuse(&self, refusing: bool) {
        self.shared.change(|w| w.refusing = refusing);
    }

    /// Nothing is passed on, nothing is closed: a partition. What was held is passed on afterwards.
    pub fn hold(&self, holding: bool) {
        self.shared.change(|w| w.holding = holding);
    }

    /// Closes all connections, both ways.
    pub fn cut(&self) {
        let mut weather = self.shared.weather();
        for (_, client, server) in weather.open.drain(..) {
            close(&client, &server);
            self.shared.cut.fetch_add(1, Ordering::Relaxed);
        }
        drop(weather);
        self.shared.changed.notify_all();
    }

    /// Closes one direction of all connections, and leaves the other open.
    pub fn half_close(&self, direction: Direction) {
        for (_, client, server) in &self.shared.weather().open {
            let _ = match direction {
                Direction::ToServer => server.shutdown(Shutdown::Write),
                Direction::ToClient => client.shutdown(Shutdown::Write),
            };
            self.shared.cut.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The next so many COMMITs cost their connection.
    pub fn cut_commits(&self, when: CommitCut, count: u64) {
        self.shared.change(|w| w.commits = (count > 0).then_some((when, count)));
    }

    /// How many connections were cut or half-closed so far, those at COMMIT not counted.
    pub fn cuts(&self) -> u64 {
        self.shared.cut.load(Ordering::Relaxed)
    }

    /// How many connections were cut at COMMIT so far.
    pub fn commits_cut(&self) -> u64 {
        self.shared.commits_cut.load(Ordering::Relaxed)
    }

    /// Good weather again; what was cut stays cut.
    pub fn heal(&self) {
        self.shared.change(|w| {
            *w = Weather { open: std::mem::take(&mut w.open), ..Weather::default() };
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.shared.changed.notify_all();
        self.cut();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        self.cut();
    }
}

fn close(client: &TcpStream, server: &TcpStream) {
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

impl Shared {
    fn weather(&self) -> MutexGuard<'_, Weather> {
        self.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, how: impl FnOnce(&mut Weather)) {
        how(&mut self.weather());
        self.changed.notify_all();
    }

    fn accept(self: Arc<Shared>, listener: &TcpListener) {
        for (number, client) in (0..).zip(listener.incoming()) {
            if self.ended.load(Ordering::SeqCst) {
                return;
            }
            let Ok(client) = client else { continue };
            // A connection that cannot be made is one that is closed.
            let _ = self.connect(number, client);
        }
    }

    fn connect(self: &Arc<Shared>, number: u64, client: TcpStream) -> io::Result<()> {
        if self.weather().refusing {
            return Ok(());
        }
        let server = TcpStream::connect_timeout(&self.server, Duration::from_secs(5))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (to_client, to_server) = (client.try_clone()?, server.try_clone()?);
        self.weather().open.push((number, client.try_clone()?, server.try_clone()?));
        let trap = Arc::new(AtomicBool::new(false));
        let up = Pump {
            shared: Arc::clone(self),
            number,
            direction: Direction::ToServer,
            trap: Arc::clone(&trap),
        };
        let down = Pump { shared: Arc::clone(self), number, direction: Direction::ToClient, trap };
        thread::spawn(move || up.run(client, to_server));
        thread::spawn(move || down.run(server, to_client));
        Ok(())
    }
}

/// One direction of one connection.
struct Pump {
    shared: Arc<Shared>,
    number: u64,
    direction: Direction,
    /// Set when COMMIT has been passed on and its answer must not be.
    trap: Arc<AtomicBool>,
}

impl Pump {
    fn run(self, mut from: TcpStream, mut to: TcpStream) {
        let mut chunk = vec![0; 16 << 10];
        loop {
            let count = match from.read(&mut chunk) {
                Ok(0) => {
                    // An orderly end of one direction is passed on as such.
                    let _ = to.shutdown(Shutdown::Write);
                    break;
                }
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return self.close(),
            };
            let bytes = &chunk[..count];
            if !self.pass(bytes) {
                self.shared.commits_cut.fetch_add(1, Ordering::Relaxed);
                return self.close();
            }
            if to.write_all(bytes).is_err() {
                return self.close();
            }
        }
        if self.direction == Direction::ToClient {
            self.close();
        }
    }

    /// Waits as the weather demands. False: the connection is to be cut instead.
    fn pass(&self, bytes: &[u8]) -> bool {
        let mut weather = self.shared.weather();
        while weather.holding && !self.shared.ended.load(Ordering::SeqCst) {
            weather = self.shared.changed.wait(weather).unwrap_or_else(PoisonError::into_inner);
        }
        let (delay, rate) = (weather.delay, weather.rate);
        let mut cut = None;
        if self.direction == Direction::ToServer
            && let Some((when, left)) = weather.commits
            && is_commit(bytes)
        {
            cut = Some(when);
            weather.commits = (left > 1).then_some((when, left - 1));
        }
        drop(weather);
        let slow = rate.map_or(Duration::ZERO, |r| Duration::from_secs_f64(bytes.len() as f64 / r as f64));
        if !(delay + slow).is_zero() {
            thread::sleep(delay + slow);
        }
        match (self.direction, cut) {
            (Direction::ToServer, Some(CommitCut::Before)) => false,
            (Direction::ToServer, Some(CommitCut::Answer)) => {
                self.trap.store(true, Ordering::SeqCst);
                true
            }
            (Direction::ToServer, None) => true,
            (Direction::ToClient, _) => !self.trap.load(Ordering::SeqCst),
        }
    }

    fn close(&self) {
        let mut weather = self.shared.weather();
        if let Some(at) = weather.open.iter().position(|(number, ..)| *number == self.number) {
            let (_, client, server) = weather.open.swap_remove(at);
            close(&client, &server);
        }
    }
}

/// Whether this is a COMMIT on its own: PostgreSQL's simple query or MySQL's text command, without anything
/// else.
fn is_commit(bytes: &[u8]) -> bool {
    let text = match bytes {
        [b'Q', _, _, _, _, text @ ..] => text,
        [_, 0, 0, 0, 3, text @ ..] => text,
        _ => return false,
    };
    let end = text.iter().rposition(|b| !matches!(b, 0 | b';' | b' ')).map_or(0, |at| at + 1);
    text[..end].eq_ignore_ascii_case(b"COMMIT")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || io::copy(&mut stream.try_clone().unwrap(), &mut &stream));
            }
        });
        address
    }

    fn client(proxy: &Proxy) -> TcpStream {
        let stream = TcpStream::connect(proxy.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    fn ask(stream: &mut TcpStream, what: &[u8]) -> io::Result<Vec<u8>> {
        stream.write_all(what)?;
        let mut answer = vec![0; what.len()];
        stream.read_exact(&mut answer).map(|()| answer)
    }

    #[test]
    fn bytes_pass_and_weather_changes() {
        let proxy = Proxy::new(echo()).unwrap();
        let mut stream = client(&proxy);
        assert_eq!(ask(&mut stream, b"hello").unwrap(), b"hello");

        proxy.delay(Duration::from_millis(30));
        let start = std::time::Instant::now();
        ask(&mut stream, b"slow").unwrap();
        assert!(start.elapsed() >= Duration::from_millis(60), "both directions are late");
        proxy.heal();

        proxy.throttle(Some(1000));
        let start = std::time::Instant::now();
        ask(&mut stream, &[7; 50]).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(50));
        proxy.heal();

        proxy.hold(true);
        stream.write_all(b"held").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(stream.read(&mut [0; 4]).is_err(), "nothing comes through a partition");
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        proxy.hold(false);
        let mut late = [0; 4];
        stream.read_exact(&mut late).unwrap();
        assert_eq!(&late, b"held");

        proxy.refuse(true);
        assert!(ask(&mut client(&proxy), b"x").is_err());
        proxy.refuse(false);
        proxy.cut();
        assert!(ask(&mut stream, b"x").is_err());
        assert_eq!(ask(&mut client(&proxy), b"again").unwrap(), b"again");
        assert!(proxy.cuts() >= 1);
    }

    #[test]
    fn half_closed_means_one_direction() {
        let proxy = Proxy::new(echo()).unwrap();
        let mut stream = client(&proxy);
        ask(&mut stream, b"hello").unwrap();
        proxy.half_close(Direction::ToClient);
        assert_eq!(stream.read(&mut [0; 4]).unwrap(), 0, "the client sees the end");
    }

    #[test]
    fn only_a_commit_springs_the_trap() {
        let proxy = Proxy::new(echo()).unwrap();
        proxy.cut_commits(CommitCut::Answer, 1);
        let mut stream = client(&proxy);
        assert!(ask(&mut stream, b"Q\0\0\0\x1bSELECT 'COMMIT'\0").is_ok());
        assert!(ask(&mut stream, b"Q\0\0\0\x0bCOMMIT\0").is_err());
        assert_eq!(proxy.commits_cut(), 1);
        let mut stream = client(&proxy);
        assert!(ask(&mut stream, b"\x07\0\0\0\x03commit").is_ok(), "the trap is used up");
        proxy.cut_commits(CommitCut::Before, 1);
        assert!(ask(&mut stream, b"\x07\0\0\0\x03commit").is_err());
        assert_eq!(proxy.commits_cut(), 2);
    }
}
