//! What a client can make large, slow or numerous is bounded, handlers may block, and a stop lets answers
//! out.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_http::{Limits, Request, Router, Server, Settings, blocking, get, peer, post};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(300);

/// `POST /` answers with the length of the body, `GET /peer` with the address of the client.
fn router() -> Router {
    let length = |request: Request| request.body().len().to_string();
    let from = |request: Request| peer(&request).unwrap().to_string();
    Router::new().route("/", post(blocking(length))).route("/peer", get(blocking(from)))
}

fn serve(router: Router, limits: Limits) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Server::start(listener, router, Settings { limits, ..Settings::default() }).unwrap()
}

fn small() -> Server {
    serve(router(), Limits::default().with_body(1000).with_pause(PAUSE))
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn rest(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Sends bytes as they are, and reads until the connection ends.
fn raw(server: &Server, request: &str) -> String {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).unwrap();
    rest(stream)
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

const ASK: &str = "POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";

#[test]
fn requests_are_answered() {
    let server = small();
    assert!(raw(&server, ASK).ends_with("\r\n\r\n3"));
    let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                   2;x=y\r\nab\r\n3\r\ncde\r\n0\r\nA: trailer\r\n\r\n";
    assert!(raw(&server, chunked).ends_with("\r\n\r\n5"));
    // Two on one connection.
    let two = format!("POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx{ASK}");
    assert_eq!(raw(&server, &two).matches("HTTP/1.1 200 OK").count(), 2);
    let mut stream = connect(&server);
    let own = stream.local_addr().unwrap().to_string();
    stream.write_all(b"GET /peer HTTP/1.0\r\n\r\n").unwrap();
    assert!(rest(stream).ends_with(&own));
    let head = raw(&server, "HEAD /peer HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(status(&head) == 200 && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(status(&raw(&server, "DELETE / HTTP/1.1\r\nConnection: close\r\n\r\n")), 405);
    assert_eq!(status(&raw(&server, "GET /no HTTP/1.1\r\nConnection: close\r\n\r\n")), 404);
}

/// As `nc -N` does: the request, the end, and then the answer.
#[test]
fn a_client_that_has_ended_its_side_is_answered() {
    let server = small();
    let mut stream = connect(&server);
    stream.write_all(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(rest(stream).ends_with("\r\n\r\n2"));
}

#[test]
fn large_requests_are_refused() {
    let server = small();
    let announced = raw(&server, "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nabc");
    assert!(status(&announced) == 413 && announced.ends_with("the body is too long\n"), "{announced}");
    let chunk = format!("3e8\r\n{}\r\n", "x".repeat(1000));
    let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(status(&raw(&server, &format!("{head}{chunk}{chunk}0\r\n\r\n"))), 413);
    let head = format!("POST / HTTP/1.1\r\nContent-Length: 3\r\nX: {}\r\n\r\nabc", "x".repeat(32 << 10));
    assert_eq!(status(&raw(&server, &head)), 431);
    let many = format!("POST / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(101));
    assert_eq!(status(&raw(&server, &many)), 431);
    let packed = "POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(status(&raw(&server, packed)), 415);
    assert_eq!(status(&raw(&server, "GARBAGE\r\n\r\n")), 400);
    assert!(raw(&server, ASK).ends_with("\r\n\r\n3"), "others are served");
}

#[test]
fn permission_is_given_and_refused() {
    let server = small();
    let mut stream = connect(&server);
    stream
        .write_all(
            b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
        )
        .unwrap();
    let mut permission = [0; 25];
    stream.read_exact(&mut permission).unwrap();
    assert_eq!(&permission, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").unwrap();
    assert!(rest(stream).ends_with("\r\n\r\n3"));
    let asked = "POST / HTTP/1.1\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(status(&raw(&server, asked)), 413);
}

#[test]
fn slow_requests_are_ended() {
    let server = small();
    let began = Instant::now();
    let slow_body = raw(&server, "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na");
    assert_eq!(status(&slow_body), 408);
    // A head that never ends, and a connection on which nothing is asked.
    let slow_head = raw(&server, "POST / HTTP/1.1\r\nContent-");
    assert!(slow_head.is_empty() || status(&slow_head) == 408, "{slow_head}");
    assert_eq!(raw(&server, ""), "");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn one_connection_too_many_is_refused() {
    let server = serve(router(), Limits::default().with_connections(2));
    let (first, second) = (connect(&server), connect(&server));
    while server.connections() < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let third = rest(connect(&server));
    assert!(status(&third) == 503 && third.ends_with("\r\n\r\ntoo many connections\n"), "{third}");
    drop(first);
    while server.connections() == 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(raw(&server, ASK).ends_with("\r\n\r\n3"));
    drop(second);
}

/// A router whose `GET /wait` says that it waits and does, until `GET /go`.
fn waiting() -> (Router, Receiver<()>, Sender<()>) {
    let (waits, is_waiting) = channel();
    let (go, gone) = channel();
    let (waits, gone) = (Mutex::new(waits), Mutex::new(gone));
    let signal = go.clone();
    let go = Mutex::new(go);
    let wait = move |_: Request| {
        waits.lock().unwrap().send(()).unwrap();
        gone.lock().unwrap().recv().unwrap();
        "waited"
    };
    let let_go = move |_: Request| go.lock().unwrap().send(()).unwrap();
    let router = Router::new().route("/wait", get(blocking(wait))).route("/go", post(blocking(let_go)));
    (router, is_waiting, signal)
}

#[test]
fn handlers_may_wait_for_each_other() {
    let (router, is_waiting, _signal) = waiting();
    let server = serve(router, Limits::default().with_connections(2));
    let mut first = connect(&server);
    first.write_all(b"GET /wait HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    is_waiting.recv().unwrap();
    assert_eq!(status(&raw(&server, "POST /go HTTP/1.1\r\nConnection: close\r\n\r\n")), 200);
    assert!(rest(first).ends_with("waited"));
}

#[test]
fn a_stop_lets_answers_out() {
    let (router, is_waiting, signal) = waiting();
    let server = serve(router, Limits::default());
    let address = server.address();
    let idle = connect(&server);
    let mut asking = connect(&server);
    asking.write_all(b"GET /wait HTTP/1.1\r\n\r\n").unwrap();
    is_waiting.recv().unwrap();
    let stopping = std::thread::spawn(move || server.stop());
    assert_eq!(rest(idle), "", "an idle connection ends at once");
    assert!(TcpStream::connect(address).is_err(), "nothing listens");
    signal.send(()).unwrap();
    assert!(rest(asking).ends_with("waited"));
    stopping.join().unwrap();
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    let (router, is_waiting, signal) = waiting();
    let mut limits = Limits::default();
    limits.farewell = Duration::from_millis(100);
    let server = serve(router, limits);
    let mut asking = connect(&server);
    asking.write_all(b"GET /wait HTTP/1.1\r\n\r\n").unwrap();
    is_waiting.recv().unwrap();
    server.stop();
    assert_eq!(rest(asking), "");
    signal.send(()).unwrap();
}

#[test]
fn a_handler_that_panics_ends_only_its_request() {
    let count = Arc::new(Mutex::new(0));
    let handler = move |_: Request| {
        // The lock is not held across the panic.
        let now = {
            let mut count = count.lock().unwrap();
            *count += 1;
            *count
        };
        assert!(now != 1, "the first request meets a bug");
        "fine"
    };
    let server = serve(Router::new().route("/", get(blocking(handler))), Limits::default());
    let ask = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&raw(&server, ask)), 500);
    assert!(raw(&server, ask).ends_with("fine"));
}

/// A request with these headers.
fn asked(server: &Server, headers: &str) -> u16 {
    status(&raw(server, &format!("POST / HTTP/1.1\r\n{headers}Connection: close\r\n\r\nabc")))
}

#[test]
fn foreign_hosts_and_pages_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = ["tests.example".to_owned()].into();
    let types = &["application/json"];
    let settings = Settings { hosts, types, ..Settings::default() };
    let server = Server::start(listener, router(), settings).unwrap();
    let json = "Content-Type: application/json; charset=utf-8\r\nContent-Length: 3\r\n";
    let own = [
        "localhost",
        "LOCALHOST.:80",
        "a.localhost",
        "127.0.0.1",
        "127.1.2.3:9",
        "[::1]:80",
        "tests.example",
    ];
    for host in own {
        assert_eq!(asked(&server, &format!("{json}Host: {host}\r\n")), 200, "{host}");
        let origin = format!("{json}Host: {host}\r\nOrigin: http://{host}\r\n");
        assert_eq!(asked(&server, &origin), 200, "{host}");
    }
    for host in
        ["evil.example", "localhost.evil.example", "10.0.0.1", "[fe80::1]", "127.0.0.1.evil.example", ""]
    {
        assert_eq!(asked(&server, &format!("{json}Host: {host}\r\n")), 403, "{host}");
        let origin = format!("{json}Host: localhost\r\nOrigin: https://{host}\r\n");
        assert_eq!(asked(&server, &origin), 403, "{host}");
    }
    assert_eq!(asked(&server, &format!("{json}Host: localhost\r\nOrigin: null\r\n")), 403);
    assert_eq!(asked(&server, &format!("{json}Host: localhost\r\nHost: localhost\r\n")), 400);
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"]
    {
        assert_eq!(asked(&server, &format!("Content-Type: {kind}\r\nContent-Length: 3\r\n")), 415, "{kind}");
    }
    assert_eq!(asked(&server, "Content-Length: 3\r\n"), 415);
    assert_eq!(status(&raw(&server, "POST / HTTP/1.1\r\nConnection: close\r\n\r\n")), 200, "nothing is sent");
}

/// Framing is hyper's: a length that is not one is refused, equal ones count once, and chunks go before it.
#[test]
fn contradicting_lengths_are_refused() {
    let server = small();
    for lengths in ["3\r\nContent-Length: 4", "3, 3", "+3", "0x3", "-1", ""] {
        assert_eq!(asked(&server, &format!("Content-Length: {lengths}\r\n")), 400, "{lengths}");
    }
    let coded = "Transfer-Encoding: chunked, identity\r\n";
    assert_eq!(asked(&server, coded), 400);
}

/// Connections that keep the server waiting do not keep others out.
#[test]
fn slow_clients_make_way() {
    let mut limits = Limits::default().with_connections(4);
    limits.grace = Duration::from_millis(100);
    let server = serve(router(), limits);
    let slow: Vec<TcpStream> = (0..4)
        .map(|n| {
            let mut stream = connect(&server);
            let part =
                ["", "POST", "POST / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"][n];
            stream.write_all(part.as_bytes()).unwrap();
            stream
        })
        .collect();
    while server.connections() < 4 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(150));
    for _ in 0..10 {
        assert!(raw(&server, ASK).ends_with("\r\n\r\n3"));
    }
    drop(slow);
}

#[test]
fn bodies_together_are_limited() {
    let server = serve(router(), Limits::default().with_bodies(1 << 20));
    let mut slow = connect(&server);
    slow.write_all(b"POST / HTTP/1.1\r\nContent-Length: 1000001\r\n\r\n").unwrap();
    slow.write_all(&vec![b'x'; 1_000_000]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let body = "x".repeat(100_000);
    let ask = format!("POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n{body}");
    assert_eq!(status(&raw(&server, &ask)), 503);
    assert!(raw(&server, ASK).ends_with("\r\n\r\n3"), "small ones are taken");
    slow.write_all(b"x").unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    drop(slow);
    let mut last = 0;
    for _ in 0..100 {
        last = status(&raw(&server, &ask));
        if last == 200 {
            break;
        }
    }
    assert_eq!(last, 200);
}
