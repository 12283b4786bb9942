//! HTTP: batches of transactions by POST, metrics by GET.
//!
//! A POST is answered when its transactions have been taken in (and, with a state, are safe), so a client
//! that got no answer sends it again; transactions that arrive twice are recognised by their ids. Limits
//! are those of `anomalist-http`; a body may be as long as a line.

use super::ingest::{Block, Taken};
use super::sources::{Hub, LONGEST_LINE};
use anomalist_http::{
    IntoResponse, Limits, Method, Request, Response, Router, Server, Settings, StatusCode, blocking, get,
    header, peer,
};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// What is served.
#[derive(Clone)]
pub struct Service {
    /// Takes in transactions, if they may be posted here.
    pub hub: Option<Hub>,
    /// The metrics, as text.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Types that forms of web pages cannot send.
const TYPES: &[&str] =
    &["application/json", "application/x-ndjson", "application/jsonl", "application/octet-stream"];

/// Serves until the server is dropped.
pub fn serve(listener: TcpListener, service: Service, hosts: &[String]) -> io::Result<Server> {
    let Service { hub, metrics } = service;
    let longest = hub.as_ref().map_or(LONGEST_LINE, |hub| hub.rooms.longest);
    let limits = Limits::default().with_body(longest).with_bodies(2 * longest);
    let mut settings = Settings { limits, hosts: hosts.into(), types: TYPES, ..Settings::default() };
    if let Some(hub) = &hub {
        settings.open = hub.known.open.clone();
    }
    // Transactions may be posted to every path.
    let other = blocking(move |request: Request| match (request.method(), &hub) {
        (&Method::POST, Some(hub)) => take(hub, request),
        (&Method::GET | &Method::HEAD, _) => (StatusCode::NOT_FOUND, "not found\n").into_response(),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "POST transactions, GET /metrics\n").into_response(),
    });
    let metrics = move |_| ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics());
    let router = Router::new()
        .route("/", get(|| async { "anomalist watch: POST transactions, GET /metrics\n" }))
        .route("/metrics", get(blocking(metrics)))
        .method_not_allowed_fallback(other.clone())
        .fallback(other);
    Server::start(listener, router, settings)
}

/// Hands over a batch and waits until it has been taken in.
fn take(hub: &Hub, request: Request) -> Response {
    let from = peer(&request).map_or_else(|| "?".to_owned(), |peer| peer.to_string());
    let (source, name) = hub.known.register(&format!("http {from}"));
    let (reply, taken) = channel();
    let bytes = request.into_body().into();
    let sent =
        hub.send(Block { source, name, bytes, last: true, reply: Some(reply), replayed: false, held: None });
    let Some(Taken { transactions, malformed, .. }) = sent.then(|| taken.recv().ok()).flatten() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the watch is ending\n").into_response();
    };
    let body = format!("{{\"transactions\":{transactions},\"malformed\":{malformed}}}\n");
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
