//! `weakdb --over` and `--throwaway`: weak reads over a real server.

use crate::cli::Global;
use crate::commands::database;
use crate::exit::{Exit, Failure};
use crate::{interrupt, terminal};
use anomalist_databases::Target;
use anomalist_lab::server::{Engine, Server};
use anomalist_over::{Counts, Over};
use anomalist_weakdb::Store;
use clap::Args;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Which server executes statements, if it is not the embedded engine.
#[derive(Args, Debug)]
pub struct OverFlags {
    /// Let this PostgreSQL execute everything, and weaken only what plain reads see: postgres://USER@HOST/DB
    #[arg(long, value_name = "URL", conflicts_with = "throwaway")]
    over: Option<String>,
    /// The same over a throw-away server: postgres
    #[arg(long, value_name = "DB", value_parser = database::throwaway)]
    throwaway: Option<Engine>,
}

/// The server, which ends with this if it is a throw-away one.
pub struct Place {
    /// Its database.
    pub target: Target,
    _server: Option<Server>,
}

impl OverFlags {
    /// Whether another server than the embedded engine is wanted.
    pub fn is_given(&self) -> bool {
        self.over.is_some() || self.throwaway.is_some()
    }

    /// Finds the server, or starts it.
    pub fn open(&self, global: &Global) -> Result<Place, Failure> {
        match (self.throwaway, &self.over) {
            (Some(Engine::Postgres), _) => {
                let server = database::start(Engine::Postgres, global)?;
                Ok(Place { target: server.target(0).clone(), _server: Some(server) })
            }
            (Some(other), _) => {
                Err(Failure::input(format_args!("weak reads over {} are not there yet", other.name())))
            }
            (None, url) => {
                let target = database::target(url.as_deref().unwrap_or_default(), "postgres://USER@HOST/DB")?;
                Ok(Place { target, _server: None })
            }
        }
    }

    /// The words that give the same again.
    pub fn words(&self) -> Option<(&'static str, String)> {
        match (&self.over, self.throwaway) {
            (Some(url), _) => Some(("--over", crate::secret::masked(url))),
            (None, Some(engine)) => Some(("--throwaway", engine.name().to_owned())),
            (None, None) => None,
        }
    }
}

/// The address of a database through the proxy, with the password.
pub fn url(target: &Target, address: SocketAddr) -> String {
    let (user, database) = (target.user().unwrap_or("postgres"), target.database().unwrap_or("postgres"));
    let password = target.password().map(|p| format!(":{p}")).unwrap_or_default();
    format!("postgresql://{user}{password}@{address}/{database}")
}

/// Serves until the user asks for the end.
pub fn serve(
    flags: &OverFlags,
    store: &Arc<Store>,
    address: Option<SocketAddr>,
    as_json: bool,
    global: &Global,
) -> Result<(), Failure> {
    let place = flags.open(global)?;
    let address = address.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let listener =
        TcpListener::bind(address).map_err(|e| Failure::input(format_args!("cannot listen: {e}")))?;
    let over = Over::start(&place.target, store.clone(), listener).map_err(Failure::input)?;
    let options = store.options();
    let address = over.address().unwrap_or(address);
    // The password of a server that someone else keeps is not repeated.
    let shown = match flags.throwaway {
        Some(_) => url(&place.target, address),
        None => place.target.via(&address.ip().to_string(), address.port()).to_string(),
    };
    terminal::print(&match as_json {
        true => json!({"level": options.level.name(), "seed": options.seed, "postgres": shown}).to_string(),
        false => format!(
            "weakdb shows {}, seed {}, over {}\n  {shown}",
            options.level.name(),
            options.seed,
            place.target
        ),
    })?;
    while !interrupt::is_requested() {
        thread::sleep(Duration::from_millis(50));
    }
    let counts = over.counts();
    over.stop().map_err(Failure::input)?;
    if !global.quiet && !as_json {
        terminal::tell(&summary(&counts));
    }
    Ok(())
}

/// How many reads were weakened.
pub fn summary(counts: &Counts) -> String {
    let mut text = format!("reads weakened: {}", counts.weakened);
    for (reason, count) in &counts.unweakened {
        text.push_str(&format!("\n  not weakened: {count} that {}", reason.text()));
    }
    text
}

/// Takes everything out of the database.
pub fn remove(flags: &OverFlags) -> Result<Exit, Failure> {
    let url = flags.over.as_deref().unwrap_or_default();
    let target = database::target(url, "postgres://USER@HOST/DB")?;
    anomalist_over::remove(&target).map_err(Failure::input)?;
    terminal::print(&format!("nothing of weakdb is left in {target}"))?;
    Ok(Exit::Holds)
}
