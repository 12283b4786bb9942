//! A small HTTP/1.1 server: batches of transactions by POST, metrics by GET.
//!
//! Only what that takes: bodies by length or in chunks, connections that stay open, limits on everything a client can make
//! large, time-outs on everything it can make slow. A POST is answered when its transactions have been taken in (and, with
//! a state, are safe), so a client that got no answer sends it again; transactions that arrive twice are told by their ids.

use super::ingest::{Block, Taken};
use super::sources::{Hub, LONGEST_LINE};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const LONGEST_HEAD: u64 = 16 << 10;
const LARGEST_BODY: usize = LONGEST_LINE;
const MOST_CONNECTIONS: usize = 128;
const PATIENCE: Duration = Duration::from_secs(30);

/// What is served.
#[derive(Clone)]
pub struct Service {
    /// Takes in transactions, if they may be posted here.
    pub hub: Option<Hub>,
    /// The metrics, as text.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Serves, on threads of its own.
pub fn serve(listener: TcpListener, service: Service) {
    let open = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if open.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
                open.fetch_sub(1, Ordering::SeqCst);
                _ = answer(&stream, 503, "text/plain", "too many connections\n", false);
                continue;
            }
            let (service, open) = (service.clone(), open.clone());
            thread::spawn(move || {
                if let Some(hub) = &service.hub {
                    hub.known.open.fetch_add(1, Ordering::SeqCst);
                }
                // A client that went away is nobody's problem.
                _ = converse(&stream, &service);
                if let Some(hub) = &service.hub {
                    hub.known.open.fetch_sub(1, Ordering::SeqCst);
                }
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
}

/// A request.
struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
    keep: bool,
}

/// Why a request is refused.
enum Refusal {
    Status(u16, &'static str),
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Io(error)
    }
}

fn converse(stream: &TcpStream, service: &Service) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let peer = stream.peer_addr().map_or_else(|_| "?".to_owned(), |a| a.to_string());
    let mut reader = BufReader::new(stream);
    loop {
        let request = match read_request(&mut reader, stream) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(Refusal::Io(error)) => return Err(error),
            Err(Refusal::Status(status, why)) => return answer(stream, status, "text/plain", why, false),
        };
        let keep = request.keep;
        let path = request.path.split('?').next().unwrap_or_default();
        match (request.method.as_str(), path, &service.hub) {
            ("GET" | "HEAD", "/metrics", _) => {
                answer(stream, 200, "text/plain; version=0.0.4", &(service.metrics)(), keep)?;
            }
            ("POST", _, Some(hub)) => match take(hub, &peer, request.body) {
                Some(Taken { transactions, malformed, .. }) => {
                    let body = format!("{{\"transactions\":{transactions},\"malformed\":{malformed}}}\n");
                    answer(stream, 200, "application/json", &body, keep)?;
                }
                None => answer(stream, 503, "text/plain", "the watch is ending\n", false)?,
            },
            ("GET" | "HEAD", "/", _) => {
                answer(
                    stream,
                    200,
                    "text/plain",
                    "anomalist watch: POST transactions, GET /metrics\n",
                    keep,
                )?;
            }
            ("GET" | "HEAD", ..) => answer(stream, 404, "text/plain", "not found\n", keep)?,
            _ => answer(stream, 405, "text/plain", "POST transactions, GET /metrics\n", keep)?,
        }
        if !keep {
            return Ok(());
        }
    }
}

/// Hands over a batch and waits until it has been taken in.
fn take(hub: &Hub, peer: &str, bytes: Vec<u8>) -> Option<Taken> {
    let (source, name) = hub.known.register(&format!("http {peer}"));
    let (reply, taken) = channel();
    let sent = hub.send(Block { source, name, bytes, last: true, reply: Some(reply), replayed: false });
    sent.then(|| taken.recv().ok()).flatten()
}

fn read_request(reader: &mut BufReader<&TcpStream>, stream: &TcpStream) -> Result<Option<Request>, Refusal> {
    let mut head = reader.by_ref().take(LONGEST_HEAD);
    let mut line = String::new();
    // A connection that ends between requests has ended well.
    let text = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => Refusal::Status(400, "the request head is not text\n"),
        _ => Refusal::Io(error),
    };
    if head.read_line(&mut line).map_err(text)? == 0 {
        return Ok(None);
    }
    let mut parts = line.split_ascii_whitespace();
    let (Some(method), Some(path), Some(version)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Refusal::Status(400, "not a request\n"));
    };
    if !version.starts_with("HTTP/1.") {
        return Err(Refusal::Status(505, "HTTP/1.1 only\n"));
    }
    let mut request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        body: Vec::new(),
        keep: version != "HTTP/1.0",
    };
    let (mut length, mut chunked, mut expects) = (None, false, false);
    loop {
        let mut line = String::new();
        if head.read_line(&mut line).map_err(text)? == 0 || !line.ends_with('\n') {
            return Err(Refusal::Status(431, "the request head is too long or incomplete\n"));
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else {
            return Err(Refusal::Status(400, "not a header\n"));
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => match value.parse::<usize>() {
                Ok(n) if length.is_none_or(|before| before == n) => length = Some(n),
                _ => return Err(Refusal::Status(400, "not a length\n")),
            },
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => chunked = true,
            "transfer-encoding" => {
                return Err(Refusal::Status(501, "unknown transfer encoding\n"));
            }
            "content-encoding" if !value.eq_ignore_ascii_case("identity") => {
                return Err(Refusal::Status(415, "send it uncompressed\n"));
            }
            "connection" if value.eq_ignore_ascii_case("close") => request.keep = false,
            "connection" if value.eq_ignore_ascii_case("keep-alive") => request.keep = true,
            "expect" if value.eq_ignore_ascii_case("100-continue") => expects = true,
            _ => {}
        }
    }
    if length.is_some_and(|n| n > LARGEST_BODY) {
        return Err(Refusal::Status(413, "the body is too large\n"));
    }
    if chunked && length.is_some() {
        return Err(Refusal::Status(400, "both Content-Length and chunked encoding\n"));
    }
    if expects {
        let mut stream = stream;
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if chunked {
        read_chunks(reader, &mut request.body)?;
    } else if let Some(length) = length {
        // As it comes, so that a length alone reserves nothing.
        let n = reader.by_ref().take(length as u64).read_to_end(&mut request.body)?;
        if n < length {
            return Err(Refusal::Status(400, "the body ended early\n"));
        }
    }
    Ok(Some(request))
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> Result<(), Refusal> {
    const WRONG: Refusal = Refusal::Status(400, "not a chunk\n");
    loop {
        let mut line = Vec::new();
        reader.by_ref().take(1024).read_until(b'\n', &mut line)?;
        let size = line.split(|&b| b == b';').next().map(<[u8]>::trim_ascii).unwrap_or_default();
        let size = std::str::from_utf8(size).ok().filter(|s| !s.is_empty() && !s.starts_with('+'));
        let size = size.and_then(|s| usize::from_str_radix(s, 16).ok()).ok_or(WRONG)?;
        if size > LARGEST_BODY.saturating_sub(body.len()) {
            return Err(Refusal::Status(413, "the body is too large\n"));
        }
        if size == 0 {
            // Trailers, then an empty line.
            for _ in 0..64 {
                let mut line = Vec::new();
                reader.by_ref().take(4096).read_until(b'\n', &mut line)?;
                if line.trim_ascii().is_empty() {
                    return Ok(());
                }
            }
            return Err(WRONG);
        }
        if reader.by_ref().take(size as u64).read_to_end(body)? < size {
            return Err(WRONG);
        }
        let mut end = [0; 2];
        reader.read_exact(&mut end)?;
        if end != *b"\r\n" {
            return Err(WRONG);
        }
    }
}

fn answer(mut stream: &TcpStream, status: u16, kind: &str, body: &str, keep: bool) -> io::Result<()> {
    let reason = match status {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        503 => "Service Unavailable",
        _ => "Error",
    };
    let connection = if keep { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
