//! A server, proxies in front of it, and observers that change nothing.

#![allow(dead_code, reason = "each file of tests uses a part")]

pub mod script;

use anomalist_databases::Database;
use anomalist_lab::server::{Engine, Server, Setup};
use anomalist_proxy::{
    Answer, Interest, Limits, Observer, Outcome, PassThrough, Proxy, Request, Run, ServerError, Service,
    Verdict,
};
use std::collections::BTreeMap;
use std::net::TcpListener;

/// A server that lets every client in without a password: scripts of bytes cannot answer SCRAM.
pub fn server(settings: &[(&str, &str)]) -> Server {
    let settings = settings.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let server = Server::start(Engine::Postgres, &Setup { settings, ..Setup::default() }).unwrap();
    set_rules(&server, "host all all 127.0.0.1/32 trust\n");
    server
}

/// Sets who may connect how.
pub fn set_rules(server: &Server, rules: &str) {
    std::fs::write(server.folder().join("data/pg_hba.conf"), rules).unwrap();
    server.target(0).connect().unwrap().run("SELECT pg_reload_conf()").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
}

pub fn port(server: &Server) -> u16 {
    server.target(0).address().unwrap().1
}

/// What stands between client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// The proxy, without an observer.
    Bytes,
    /// An observer that sees everything.
    Watching,
    /// An observer in step that runs statements of its own before and after each request.
    InStep,
}

impl Between {
    pub const ALL: [Between; 3] = [Between::Bytes, Between::Watching, Between::InStep];
}

struct Idle(Between);

impl Observer for Idle {
    fn interest(&self) -> Interest {
        match self.0 {
            Between::Bytes => Interest::Nothing,
            Between::Watching => Interest::Passing { rows: true },
            Between::InStep => Interest::InStep { rows: false },
        }
    }

    fn request(&mut self, _request: &Request, server: &mut dyn Run) -> Verdict {
        if self.0 == Between::InStep && server.status() != anomalist_proxy::Status::Failed {
            // It fails where the client's own query has failed, and the client has that error already.
            if let Ok(rows) = server.run("SELECT 'own', NULL, count(*) FROM pg_database") {
                assert_eq!(rows[0][..2], [Some("own".to_owned()), None]);
            }
        }
        Verdict::Pass
    }

    fn finished(
        &mut self,
        _request: &Request,
        outcome: &Outcome,
        server: &mut dyn Run,
    ) -> Option<ServerError> {
        if outcome.error.is_none() && outcome.status != anomalist_proxy::Status::Failed {
            let _ = server.run("SELECT set_config('anomalist.test', 'x', true)");
        }
        None
    }

    fn answer(&mut self, answer: Answer<'_>) {
        std::hint::black_box(answer);
    }
}

impl Service for Between {
    fn session(&self, options: &BTreeMap<String, String>) -> Box<dyn Observer> {
        match self {
            Between::Bytes => PassThrough.session(options),
            _ => Box::new(Idle(*self)),
        }
    }
}

pub fn proxy(server: &Server, service: impl Service + 'static) -> Proxy {
    limited(server, service, Limits::default())
}

pub fn limited(server: &Server, service: impl Service + 'static, limits: Limits) -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Proxy::start(listener, &format!("127.0.0.1:{}", port(server)), Box::new(service), limits).unwrap()
}
