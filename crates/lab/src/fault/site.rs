//! Faults by name, planned ahead and carried out one after the other.

use super::{CommitCut, Direction, Proxy, Sessions, terminate};
use crate::server::{Server, ServerError};
use anomalist_databases::{Database, Target};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// What can be done to a database, or to the way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// All connections are closed.
    Cut,
    /// All connections are closed in one direction.
    HalfClose,
    /// COMMITs lose their answer, and their connection, for a while; at most three.
    LoseCommits,
    /// Everything is late for a while.
    Delay,
    /// Everything is slow for a while.
    Throttle,
    /// Nothing comes through for a while, then everything.
    Partition,
    /// A session is ended by the administrator.
    Terminate,
    /// The processes of a node are paused for a while.
    Pause,
    /// A node is stopped properly and started again.
    Restart,
    /// A node is killed and, after a while, started again.
    Kill,
}

/// What a fault takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// That sessions go through a [`Proxy`].
    Proxy,
    /// An administrator's session.
    Administrator,
    /// A [`Server`] of our own.
    Server,
}

impl Fault {
    /// All of them, mildest first.
    pub const ALL: [Fault; 10] = [
        Fault::Delay,
        Fault::Throttle,
        Fault::Terminate,
        Fault::LoseCommits,
        Fault::Cut,
        Fault::HalfClose,
        Fault::Partition,
        Fault::Pause,
        Fault::Restart,
        Fault::Kill,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Cut => "cut",
            Fault::HalfClose => "half-close",
            Fault::LoseCommits => "lose-commits",
            Fault::Delay => "delay",
            Fault::Throttle => "throttle",
            Fault::Partition => "partition",
            Fault::Terminate => "terminate",
            Fault::Pause => "pause",
            Fault::Restart => "restart",
            Fault::Kill => "kill",
        }
    }

    /// What it is, in a sentence for `--help`.
    pub fn summary(self) -> &'static str {
        match self {
            Fault::Cut => "close all connections",
            Fault::HalfClose => "close all connections in one direction",
            Fault::LoseCommits => "close connections between COMMIT and its answer",
            Fault::Delay => "everything 50 ms late for a while",
            Fault::Throttle => "4 kB per second and connection for a while",
            Fault::Partition => "nothing comes through for a while",
            Fault::Terminate => "end a session as an administrator",
            Fault::Pause => "pause all processes of a node (SIGSTOP) for a while",
            Fault::Restart => "stop a node properly and start it again",
            Fault::Kill => "kill -9 a node and, after a while, start it again",
        }
    }

    /// What it takes.
    pub fn needs(self) -> Needs {
        match self {
            Fault::Terminate => Needs::Administrator,
            Fault::Pause | Fault::Restart | Fault::Kill => Needs::Server,
            _ => Needs::Proxy,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Fault, String> {
        let found = Fault::ALL.into_iter().find(|fault| fault.name() == name);
        found
            .ok_or_else(|| format!("no fault {name:?}; there are {}", Fault::ALL.map(Fault::name).join(", ")))
    }
}

/// A fault with its time, from the beginning of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// When it begins.
    pub at: Duration,
    /// What it is.
    pub fault: Fault,
    /// To which node.
    pub node: usize,
    /// For how long, if it lasts.
    pub lasts: Duration,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.node + 1)?;
        match self.fault {
            Fault::Cut | Fault::HalfClose | Fault::Terminate | Fault::Restart => Ok(()),
            _ => write!(f, " for {:.1} s", self.lasts.as_secs_f64()),
        }
    }
}

/// A plan of these faults, one about every so often until the end, in random order and on random nodes.
/// Same seed, same plan.
pub fn plan(faults: &[Fault], nodes: usize, every: Duration, total: Duration, seed: u64) -> Vec<Planned> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut planned = Vec::new();
    let mut at = Duration::ZERO;
    let mut order: Vec<Fault> = Vec::new();
    loop {
        at += every.mul_f64(0.5 + random.f64());
        if at >= total || faults.is_empty() || nodes == 0 {
            return planned;
        }
        // Each once before any comes again.
        if order.is_empty() {
            order = faults.to_vec();
            random.shuffle(&mut order);
        }
        let Some(fault) = order.pop() else { return planned };
        let lasts = every.mul_f64(0.2 + 0.4 * random.f64());
        planned.push(Planned { at, fault, node: random.usize(..nodes), lasts });
        at += lasts;
    }
}

/// Why a fault could not be carried out.
#[derive(Debug, Error)]
pub enum FaultError {
    /// There is no proxy, or no server of our own.
    #[error("{fault} needs {}", match .fault.needs() {
        Needs::Proxy => "sessions that go through a proxy",
        Needs::Administrator => "an administrator's session",
        Needs::Server => "a throw-away server",
    })]
    Unable {
        /// The fault.
        fault: Fault,
    },
    /// The server does not come back.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The administrator's session failed.
    #[error(transparent)]
    Administrator(#[from] anomalist_databases::Error),
}

/// A database with everything that faults take.
#[derive(Default)]
pub struct Site<'a> {
    /// The server, if it is our own.
    pub server: Option<&'a Server>,
    /// A proxy in front of each node, if sessions go through one.
    pub proxies: &'a [Proxy],
    /// Where an administrator reaches each node, not through a proxy.
    pub administrators: &'a [Target],
    /// The sessions that may be ended; all that belong to the run.
    pub sessions: Sessions,
}

impl Site<'_> {
    /// Whether a fault can be carried out here.
    pub fn can(&self, fault: Fault) -> bool {
        match fault.needs() {
            Needs::Proxy => !self.proxies.is_empty(),
            Needs::Administrator => !self.administrators.is_empty(),
            Needs::Server => self.server.is_some(),
        }
    }

    /// Carries out one fault from beginning to end, and says whether it had an effect. If `stop` is set
    /// meanwhile, it ends early.
    pub fn carry_out(&self, planned: &Planned, stop: &AtomicBool) -> Result<bool, FaultError> {
        let &Planned { fault, node, lasts, .. } = planned;
        let unable = || FaultError::Unable { fault };
        match fault.needs() {
            Needs::Server => {
                let server = self.server.ok_or_else(unable)?;
                match fault {
                    Fault::Pause => {
                        server.pause(node);
                        wait(lasts, stop);
                        server.resume(node);
                    }
                    Fault::Restart => server.stop(node)?,
                    _ => {
                        server.kill(node);
                        wait(lasts, stop);
                    }
                }
                server.start_again(node)?;
            }
            Needs::Administrator => {
                let target = self.administrators.get(node).ok_or_else(unable)?;
                let sessions = self.sessions.of(node);
                let Some(&backend) = fastrand::choice(&sessions) else { return Ok(false) };
                terminate(target.connect()?.as_mut(), backend)?;
            }
            Needs::Proxy => {
                let proxy = self.proxies.get(node).ok_or_else(unable)?;
                let lost = proxy.commits_cut();
                match fault {
                    Fault::Cut => proxy.cut(),
                    Fault::HalfClose if lasts.as_millis() % 2 == 0 => proxy.half_close(Direction::ToClient),
                    Fault::HalfClose => proxy.half_close(Direction::ToServer),
                    Fault::LoseCommits => proxy.cut_commits(CommitCut::Answer, 3),
                    Fault::Delay => proxy.delay(Duration::from_millis(50)),
                    Fault::Throttle => proxy.throttle(Some(4096)),
                    _ => proxy.hold(true),
                }
                if !matches!(fault, Fault::Cut | Fault::HalfClose) {
                    wait(lasts, stop);
                    proxy.heal();
                }
                return Ok(fault != Fault::LoseCommits || proxy.commits_cut() > lost);
            }
        }
        Ok(true)
    }

    /// Carries out a plan until it is done or `stop` is set. `tell` hears of each fault when it begins
    /// (`None`) and when it is over (`Some`, with the failure if it could not be carried out).
    pub fn run(
        &self,
        planned: &[Planned],
        stop: &AtomicBool,
        mut tell: impl FnMut(&Planned, Option<Result<(), FaultError>>),
    ) {
        let start = Instant::now();
        for fault in planned {
            wait(fault.at.saturating_sub(start.elapsed()), stop);
            if stop.load(Ordering::SeqCst) {
                break;
            }
            tell(fault, None);
            let done = self.carry_out(fault, stop);
            tell(fault, Some(done.map(drop)));
        }
        self.heal();
    }

    /// Puts everything right: good weather, all nodes running.
    pub fn heal(&self) {
        self.proxies.iter().for_each(Proxy::heal);
        if let Some(server) = self.server {
            for node in 0..server.nodes() {
                server.resume(node);
                // If this fails, the next client of the node will find out.
                let _ = server.start_again(node);
            }
        }
    }
}

fn wait(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while !stop.load(Ordering::SeqCst) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(20)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_reproducible_and_fair() {
        let (every, total) = (Duration::from_secs(1), Duration::from_secs(60));
        let faults = [Fault::Cut, Fault::Kill, Fault::Delay];
        let one = plan(&faults, 3, every, total, 7);
        assert_eq!(one, plan(&faults, 3, every, total, 7));
        assert_ne!(one, plan(&faults, 3, every, total, 8));
        assert!(one.len() > 30 && one.iter().all(|p| p.at < total && p.node < 3));
        assert!(one.is_sorted_by_key(|p| p.at));
        for three in one.chunks_exact(3) {
            assert!(faults.iter().all(|f| three.iter().any(|p| p.fault == *f)), "{three:?}");
        }
        assert!(plan(&[], 1, every, total, 7).is_empty());
    }

    #[test]
    fn names_come_back() {
        for fault in Fault::ALL {
            assert_eq!(fault.name().parse(), Ok(fault));
        }
        assert!("meteor".parse::<Fault>().unwrap_err().contains("half-close"));
        let nowhere = Site::default();
        let planned = Planned { at: Duration::ZERO, fault: Fault::Kill, node: 0, lasts: Duration::ZERO };
        let error = nowhere.carry_out(&planned, &AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.to_string(), "kill needs a throw-away server");
    }
}
