//! The servers of a watch: lines over sockets, transactions over HTTP, metrics.

use super::Flags;
use super::http::{self, Service};
use super::metrics::{self, Snapshot};
use super::report::{Object, Voice};
use super::sources::{self, Hub, SocketFile};
use crate::exit::Failure;
use crate::terminal;
use anomalist_http::Server;
use std::sync::{Arc, Mutex, PoisonError};

/// Servers until the watch ends. Those of HTTP are stopped with requests that wait answered.
#[derive(Default)]
pub struct Servers {
    files: Vec<Option<SocketFile>>,
    http: Option<Server>,
    metrics: Option<Server>,
}

impl Servers {
    /// Starts the servers that the flags ask for, and reports where they listen. What is returned has to be
    /// kept until the end.
    pub fn start(
        flags: &Flags,
        hub: &Hub,
        shown: &Arc<Mutex<Snapshot>>,
        voice: &Voice,
    ) -> Result<Servers, Failure> {
        let mut servers = Servers::default();
        let mut listening = Vec::new();
        for text in &flags.listen {
            let (address, file) = sources::listen(text, hub)?;
            listening.push(("lines", address));
            servers.files.push(file);
        }
        let shown = shown.clone();
        let metrics = move || metrics::text(&shown.lock().unwrap_or_else(PoisonError::into_inner));
        let service = Service { hub: None, metrics: Arc::new(metrics) };
        let mut serve = |what, text: &String, service| {
            let listener = sources::bind(text)?;
            listening.push((what, listener.local_addr().map_or_else(|_| text.clone(), |a| a.to_string())));
            http::serve(listener, service, &flags.allow_host).map_err(Failure::input)
        };
        if let Some(text) = &flags.http {
            let service = Service { hub: Some(hub.clone()), ..service.clone() };
            servers.http = Some(serve("http", text, service)?);
        }
        if let Some(text) = &flags.metrics {
            servers.metrics = Some(serve("metrics", text, service)?);
        }
        for (what, address) in listening {
            report(what, address, voice)?;
        }
        Ok(servers)
    }

    /// Whether any of them takes transactions in.
    pub fn is_source(&self) -> bool {
        !self.files.is_empty() || self.http.is_some()
    }
}

fn report(what: &str, address: String, voice: &Voice) -> Result<(), Failure> {
    if !voice.json {
        terminal::tell(&format!("accepting {what} on {address}"));
        return Ok(());
    }
    let mut out = Object::new("listening");
    out.put("for", what);
    out.put("address", address);
    terminal::print(&out.end())
}
