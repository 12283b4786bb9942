//! The faults of a [`Site`], one after another for as long as a run lasts.

use super::{Fault, FaultError, Planned, Site, plan};
use anomalist_client::{EngineError, FaultEvent, FaultSource};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Faults are planned for this time, which is longer than any run.
const HORIZON: Duration = Duration::from_secs(24 * 3600);

/// Carries out faults at a site in random order, about one every so often.
pub struct SiteFaults<'a> {
    site: Site<'a>,
    planned: std::vec::IntoIter<Planned>,
    next: Option<Planned>,
    /// When the last one is over, by the plan.
    free: Duration,
}

impl<'a> SiteFaults<'a> {
    /// These faults, on this many nodes. Same seed, same plan.
    pub fn new(site: Site<'a>, faults: &[Fault], nodes: usize, every: Duration, seed: u64) -> SiteFaults<'a> {
        let planned = plan(faults, nodes, every, HORIZON, seed).into_iter();
        SiteFaults { site, planned, next: None, free: Duration::ZERO }
    }
}

impl FaultSource for SiteFaults<'_> {
    fn pause(&mut self) -> Duration {
        self.next = self.planned.next();
        let pause = self.next.as_ref().map_or(HORIZON, |next| next.at.saturating_sub(self.free));
        self.free = self.next.as_ref().map_or(self.free, |next| next.at + next.lasts);
        pause
    }

    fn inject(&mut self, over: &AtomicBool) -> Result<Option<FaultEvent>, EngineError> {
        let Some(planned) = self.next.take() else {
            return Err(EngineError::new("no fault is left"));
        };
        let detail = match self.site.carry_out(&planned, over) {
            Ok(true) => planned.to_string(),
            Ok(false) => return Ok(None),
            // The server may be in the middle of an earlier fault.
            Err(FaultError::Administrator(error)) => format!("{planned}: {error}"),
            Err(error) => return Err(EngineError::new(error)),
        };
        Ok(Some(FaultEvent { name: planned.fault.name().to_owned(), detail }))
    }

    fn heal(&mut self) {
        self.site.heal();
    }
}
