//! Connections between the processes of a run, and what ends a run when one of them is lost.
//!
//! Each process listens at its own address and nowhere else, until those that come after it in the list have
//! connected; it connects to those before it. Strangers are shown out (`handshake.rs`) and end nothing. Two
//! processes have two connections: one for timely's messages, and one for signs of life, a byte per second.
//! A connection that ends too early, or a process from which nothing was heard for a while, ends the run
//! with an error. Timely itself cannot give up, so its threads are left behind, waiting: the process should
//! end soon.

use crate::error::Error;
use crate::handshake::{self, Hello, Purpose};
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use timely::communication::allocator::zero_copy::stream::Stream;

/// How long to wait for the others to be there.
const GATHERING: Duration = Duration::from_secs(60);
/// How long a handshake may take.
const MANNERS: Duration = Duration::from_secs(3);
/// How often a process says that it lives.
const BEAT: Duration = Duration::from_secs(1);
/// After how long a silence a process counts as lost.
const SILENCE: Duration = Duration::from_secs(6);
/// How often connecting is tried.
const AGAIN: Duration = Duration::from_millis(100);
/// Handshakes with those who connected that may go on at a time.
const AT_ONCE: usize = 64;

/// It lives; it has done its part.
const ALIVE: u8 = b'.';
const DONE: u8 = b'!';

/// The processes of a run.
#[derive(Clone)]
pub struct Hosts {
    /// The address of each, `host:port`, in the same order everywhere.
    pub addresses: Vec<String>,
    /// Which of them this one is, from 0.
    pub process: usize,
    /// The secret that all of them share.
    pub token: Vec<u8>,
}

/// Who hears of losses.
#[derive(Clone)]
pub(crate) struct Losses {
    sender: Arc<Mutex<Sender<Error>>>,
}

impl Losses {
    pub fn new() -> (Losses, Receiver<Error>) {
        let (sender, receiver) = channel();
        (Losses { sender: Arc::new(Mutex::new(sender)) }, receiver)
    }

    fn report(&self, message: String) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        _ = sender.send(Error::Lost(message));
    }
}

/// A connection for timely. What would make timely panic is reported instead, and the thread sleeps.
pub(crate) struct Link {
    stream: TcpStream,
    losses: Losses,
    peer: String,
    /// How many zeros came last: timely ends a connection with a header of nothing else.
    zeros: usize,
}

/// Bytes of timely's header.
const HEADER: usize = 48;

impl Link {
    fn lost(&self, what: &str) -> ! {
        self.losses.report(format!("the process at {} is lost: {what}", self.peer));
        loop {
            thread::park();
        }
    }
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) if self.zeros >= HEADER => return Ok(0),
                Ok(0) => self.lost("the connection ended"),
                Ok(n) => {
                    let zeros = buffer[..n].iter().rev().take_while(|&&byte| byte == 0).count();
                    self.zeros = if zeros == n { self.zeros + n } else { zeros };
                    return Ok(n);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.lost(&error.to_string()),
            }
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        loop {
            match self.stream.write(bytes) {
                Ok(n) => return Ok(n),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.lost(&error.to_string()),
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.stream.flush()
    }
}

impl Stream for Link {
    fn try_clone(&self) -> Result<Link> {
        let stream = self.stream.try_clone()?;
        Ok(Link { stream, losses: self.losses.clone(), peer: self.peer.clone(), zeros: 0 })
    }

    fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
        self.stream.set_nonblocking(nonblocking)
    }

    fn shutdown(&self, how: Shutdown) -> Result<()> {
        // The other side may be gone already.
        match self.stream.shutdown(how) {
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            result => result,
        }
    }
}

/// The connections to the other processes.
pub(crate) struct Connections {
    /// By process; `None` for this one.
    pub links: Vec<Option<Link>>,
    pub pulses: Pulses,
}

/// Connects to all other processes.
pub(crate) fn connect(hosts: &Hosts, losses: &Losses) -> std::result::Result<Connections, Error> {
    let Hosts { addresses, process, token } = hosts;
    let until = Instant::now() + GATHERING;
    let count = addresses.len();
    let mut streams: Vec<[Option<TcpStream>; 2]> = (0..count).map(|_| [None, None]).collect();
    let listener = (process + 1 < count).then(|| listen(&addresses[*process])).transpose()?;
    for (to, address) in addresses.iter().enumerate().take(*process) {
        for (slot, purpose) in [Purpose::Data, Purpose::Pulse].into_iter().enumerate() {
            let hello = Hello { from: *process as u32, to: to as u32, purpose };
            streams[to][slot] = Some(dial(address, token, hello, until)?);
        }
    }
    if let Some(listener) = listener {
        await_others(&listener, hosts, &mut streams, until)?;
    }
    let mut links = Vec::new();
    let mut pulses = Vec::new();
    for (peer, [data, pulse]) in addresses.iter().zip(streams) {
        let (losses, peer) = (losses.clone(), peer.clone());
        pulses.extend(pulse.map(|pulse| (pulse, peer.clone())));
        links.push(data.map(|stream| Link { stream, losses, peer, zeros: 0 }));
    }
    Ok(Connections { links, pulses: Pulses::start(pulses, losses)? })
}

fn listen(address: &str) -> std::result::Result<TcpListener, Error> {
    let listener = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| Error::Lost(format!("cannot listen at {address}: {error}")))
}

/// Connects, again and again until the other is there.
fn dial(address: &str, token: &[u8], hello: Hello, until: Instant) -> std::result::Result<TcpStream, Error> {
    let try_once = || -> Result<TcpStream> {
        let mut last = std::io::Error::new(ErrorKind::NotFound, "it has no address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, MANNERS) {
                Ok(mut stream) => {
                    politely(&stream)?;
                    handshake::connect(&mut stream, token, hello)?;
                    stream.set_read_timeout(None)?;
                    stream.set_write_timeout(None)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    };
    loop {
        match try_once() {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(Error::Lost(format!("the process at {address} is not one of this run: {error}")));
            }
            Err(error) if Instant::now() >= until => {
                return Err(Error::Lost(format!("the process at {address} does not answer: {error}")));
            }
            Err(_) => thread::sleep(AGAIN),
        }
    }
}

fn politely(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(MANNERS))?;
    stream.set_write_timeout(Some(MANNERS))
}

/// Waits for the processes that come after this one. Each that connects is heard on a thread of its own, so
/// that a stranger that is silent delays none of them.
fn await_others(
    listener: &TcpListener,
    hosts: &Hosts,
    streams: &mut [[Option<TcpStream>; 2]],
    until: Instant,
) -> std::result::Result<(), Error> {
    let (sender, met) = channel::<Option<(Hello, TcpStream)>>();
    let mut hearing = 0;
    let is_missing = |streams: &[[Option<TcpStream>; 2]]| {
        let later = streams.iter().enumerate().skip(hosts.process + 1);
        later.filter(|(_, pair)| pair.iter().any(Option::is_none)).map(|(i, _)| i).next()
    };
    while let Some(missing) = is_missing(streams) {
        if Instant::now() >= until {
            let address = &hosts.addresses[missing];
            return Err(Error::Lost(format!("the process at {address} did not connect")));
        }
        if hearing < AT_ONCE
            && let Ok((mut stream, _)) = listener.accept()
        {
            hearing += 1;
            let (sender, token) = (sender.clone(), hosts.token.clone());
            thread::spawn(move || {
                let heard = politely(&stream).and_then(|()| handshake::accept(&mut stream, &token));
                let _ = sender.send(heard.ok().map(|hello| (hello, stream)));
            });
        }
        while let Ok(heard) = met.try_recv() {
            hearing -= 1;
            let Some((hello, stream)) = heard else { continue };
            let is_later = hello.from as usize > hosts.process && hello.to as usize == hosts.process;
            if let Some(pair) = streams.get_mut(hello.from as usize).filter(|_| is_later) {
                let free =
                    stream.set_read_timeout(None).and_then(|()| stream.set_write_timeout(None)).is_ok();
                pair[usize::from(hello.purpose == Purpose::Pulse)] = free.then_some(stream);
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Signs of life.
pub(crate) struct Pulses {
    streams: Vec<TcpStream>,
    over: Arc<AtomicBool>,
}

impl Pulses {
    fn start(streams: Vec<(TcpStream, String)>, losses: &Losses) -> std::result::Result<Pulses, Error> {
        let over = Arc::new(AtomicBool::new(false));
        let mut kept = Vec::new();
        for (stream, peer) in streams {
            let prepared = stream
                .set_read_timeout(Some(SILENCE))
                .and_then(|()| stream.set_write_timeout(Some(SILENCE)))
                .and_then(|()| Ok((stream.try_clone()?, stream.try_clone()?)));
            let (listening, speaking) =
                prepared.map_err(|error| Error::Lost(format!("the connection to {peer}: {error}")))?;
            kept.push(stream);
            let (losses, over) = (losses.clone(), Arc::clone(&over));
            let ended = Arc::clone(&over);
            thread::spawn(move || hear(listening, &peer, &losses, &over));
            thread::spawn(move || speak(speaking, &ended));
        }
        Ok(Pulses { streams: kept, over })
    }

    /// This process has done its part.
    pub fn end(self) {
        self.over.store(true, Relaxed);
        for mut stream in self.streams {
            let _ = stream.write_all(&[DONE]);
        }
    }
}

fn hear(mut stream: TcpStream, peer: &str, losses: &Losses, over: &AtomicBool) {
    let mut byte = [0];
    let what = loop {
        match stream.read(&mut byte) {
            Ok(1) if byte[0] == ALIVE => {}
            Ok(1) => return,
            Ok(_) => break "the connection ended".to_owned(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break format!("nothing was heard of it for {} seconds", SILENCE.as_secs());
            }
            Err(error) => break error.to_string(),
        }
    };
    if !over.load(Relaxed) {
        losses.report(format!("the process at {peer} is lost: {what}"));
    }
}

fn speak(mut stream: TcpStream, over: &AtomicBool) {
    while !over.load(Relaxed) && stream.write_all(&[ALIVE]).is_ok() {
        thread::sleep(BEAT);
    }
}
