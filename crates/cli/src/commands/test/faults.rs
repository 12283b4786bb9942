//! Faults and known bugs by name.

use super::subject::TestBed;
use crate::exit::Failure;
use anomalist_client::FaultSource;
use anomalist_lab::fault::{Fault, Needs, Site, SiteFaults};
use std::time::Duration;

/// The faults of these names; `all` is every one that is possible.
pub fn named(names: &[String], possible: impl Fn(Fault) -> bool) -> Result<Vec<Fault>, Failure> {
    let mut found = Vec::new();
    for name in names {
        if name == "all" {
            found.extend(Fault::ALL.into_iter().filter(|&fault| possible(fault)));
            continue;
        }
        let fault: Fault = name.parse().map_err(Failure::input)?;
        if !possible(fault) {
            let what = match fault.needs() {
                _ if fault == Fault::LoseCommits => {
                    "a database that is reached by TCP without TLS, where COMMIT can be seen: ?sslmode=disable"
                }
                Needs::Server => "a throw-away server: --throwaway",
                Needs::Proxy | Needs::Administrator => "a database that is reached by TCP",
            };
            return Err(Failure::input(format_args!("{name} needs {what}")));
        }
        found.push(fault);
    }
    found.dedup();
    if found.is_empty() && !names.is_empty() {
        return Err(Failure::input(
            "--fault: no fault is possible here; faults need a database that is reached by TCP",
        ));
    }
    Ok(found)
}

/// The source of the faults that were asked for.
pub fn source(bed: &TestBed, every: Duration, seed: u64) -> Option<Box<dyn FaultSource + '_>> {
    if bed.faults.is_empty() {
        return None;
    }
    let site = Site {
        server: bed.server(),
        proxies: &bed.proxies,
        administrators: &bed.direct,
        sessions: bed.sessions.clone(),
    };
    Some(Box::new(SiteFaults::new(site, &bed.faults, bed.direct.len(), every, seed)))
}
