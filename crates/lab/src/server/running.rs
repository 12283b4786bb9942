//! Servers and their nodes as processes of this machine.

#[cfg(feature = "postgres")]
use super::postgres;
use super::process::{self, Folder, signal, wait_until, wait_while_busy};
use super::{Engine, ServerError, Setup};
#[cfg(feature = "mysql")]
use super::{galera, mariadb};
use anomalist_client::remains::{Noted, descendants, kill_tree};
use anomalist_databases::Target;
use rustix::process::Signal;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What differs between engines.
pub(super) trait Program: Send + Sync {
    /// The command that runs the node in the foreground. `alone`: no other node runs.
    fn command(&self, alone: bool) -> Result<Command, ServerError>;
    /// The signal that asks it to end properly.
    fn farewell(&self) -> Signal;
    /// Whether it takes statements.
    fn ready(&self, pid: u32) -> bool;
    /// Whether it keeps processes of its own that have to be signalled too.
    fn forks(&self) -> bool;
}

pub(super) struct Node {
    pub(super) target: Target,
    pub(super) secret: String,
    pub(super) log: PathBuf,
    pub(super) program: Box<dyn Program>,
    pub(super) child: Mutex<Option<(Child, Noted)>>,
}

struct Inner {
    engine: Engine,
    nodes: Vec<Node>,
    // After the nodes: dropped when no process is left.
    folder: Folder,
}

/// A throw-away server. Ends, and is removed, when dropped.
pub struct Server {
    inner: Inner,
}

/// How long a server that is about to start may say nothing in its log, and how long it may take
/// altogether. A start takes a second or two, and much longer on a machine that is busy.
const SILENCE: Duration = Duration::from_secs(180);
pub(super) const PATIENCE: Duration = Duration::from_secs(900);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a program that comes with a database is, such as its own benchmark.
pub fn program(engine: Engine, name: &'static str) -> Result<PathBuf, ServerError> {
    match engine {
        #[cfg(feature = "postgres")]
        Engine::Postgres => postgres::locate(name),
        #[cfg(feature = "mysql")]
        Engine::Mariadb | Engine::Galera => mariadb::locate(name),
        #[allow(unreachable_patterns, reason = "reached in builds without some database")]
        other => Err(ServerError::LeftOut(other.name())),
    }
}

impl Server {
    /// Makes a database and starts it.
    pub fn start(engine: Engine, setup: &Setup) -> Result<Server, ServerError> {
        // Another program may have taken a port in the meantime, or the machine was short of something:
        // once more is cheap.
        match Server::attempt(engine, setup) {
            Err(ServerError::Failed { .. }) => Server::attempt(engine, setup),
            done => done,
        }
    }

    fn attempt(engine: Engine, setup: &Setup) -> Result<Server, ServerError> {
        let (folder, nodes) = match engine {
            #[cfg(feature = "postgres")]
            Engine::Postgres => postgres::create(setup)?,
            #[cfg(feature = "mysql")]
            Engine::Mariadb => mariadb::create(setup)?,
            #[cfg(feature = "mysql")]
            Engine::Galera => galera::create(setup)?,
            #[allow(unreachable_patterns, reason = "reached in builds without some database")]
            other => return Err(ServerError::LeftOut(other.name())),
        };
        let server = Server { inner: Inner { engine, nodes, folder } };
        // The first node alone makes the cluster that the others join.
        for node in 0..server.nodes() {
            server.launch(node)?;
        }
        (0..server.nodes()).try_for_each(|node| server.wait_ready(node))?;
        Ok(server)
    }

    /// What runs.
    pub fn engine(&self) -> Engine {
        self.inner.engine
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> usize {
        self.inner.nodes.len()
    }

    /// Where a node is reached: an administrator, in a database of its own.
    pub fn target(&self, node: usize) -> &Target {
        &self.inner.nodes[node].target
    }

    /// The administrator's password, which other accounts of this machine do not know.
    pub fn password(&self, node: usize) -> &str {
        &self.inner.nodes[node].secret
    }

    /// The address of a node with the password, for another program.
    pub fn url(&self, node: usize) -> String {
        let node = &self.inner.nodes[node];
        node.target.to_string().replacen('@', &format!(":{}@", node.secret), 1)
    }

    /// Where all nodes are reached.
    pub fn targets(&self) -> Vec<Target> {
        self.inner.nodes.iter().map(|n| n.target.clone()).collect()
    }

    /// Its folder, with logs.
    pub fn folder(&self) -> &Path {
        self.inner.folder.path()
    }

    /// The end of a node's log.
    pub fn log(&self, node: usize) -> String {
        process::tail(&fs::read_to_string(&self.inner.nodes[node].log).unwrap_or_default())
    }

    /// Whether the node's process runs (or is paused).
    pub fn is_running(&self, node: usize) -> bool {
        self.inner.nodes[node].is_running()
    }

    /// Ends a node properly and waits for it.
    pub fn stop(&self, node: usize) -> Result<(), ServerError> {
        self.inner.nodes[node].stop()
    }

    /// Kills a node with all its processes, as a crash would, and waits until they are gone.
    pub fn kill(&self, node: usize) {
        self.inner.nodes[node].kill();
    }

    /// Starts a node that was stopped or killed, and waits until it takes statements.
    pub fn start_again(&self, node: usize) -> Result<(), ServerError> {
        if !self.is_running(node) {
            self.launch(node)?;
        }
        self.wait_ready(node)
    }

    /// Pauses all processes of a node: the kernel accepts connections for it, and nothing is answered.
    /// Returns when they have stopped.
    pub fn pause(&self, node: usize) {
        let node = &self.inner.nodes[node];
        wait_until(Duration::from_secs(10), || {
            node.signal_all(Signal::STOP);
            node.processes().into_iter().all(process::is_stopped)
        });
    }

    /// Lets a paused node go on.
    pub fn resume(&self, node: usize) {
        self.inner.nodes[node].signal_all(Signal::CONT);
    }

    fn launch(&self, node: usize) -> Result<(), ServerError> {
        let alone = !(0..self.nodes()).any(|other| other != node && self.is_running(other));
        let node = &self.inner.nodes[node];
        let mut command = node.program.command(alone)?;
        let log = File::options().append(true).create(true).open(&node.log)?;
        command.stdout(log.try_clone()?).stderr(log);
        *locked(&node.child) = Some(process::spawn(command)?);
        // Others can only join what is there.
        match alone && self.nodes() > 1 {
            true => self.wait_ready_of(node),
            false => Ok(()),
        }
    }

    fn wait_ready(&self, node: usize) -> Result<(), ServerError> {
        self.wait_ready_of(&self.inner.nodes[node])
    }

    fn wait_ready_of(&self, node: &Node) -> Result<(), ServerError> {
        let mut running = true;
        let written = || fs::metadata(&node.log).map_or(0, |log| log.len());
        let ready = wait_while_busy(SILENCE, PATIENCE, written, || {
            running = node.is_running();
            !running || node.pid().is_some_and(|pid| node.program.ready(pid))
        });
        if running && ready {
            return Ok(());
        }
        let log = process::tail(&fs::read_to_string(&node.log).unwrap_or_default());
        let how = match running {
            true => "it does not answer",
            false => "it ended by itself",
        };
        Err(ServerError::Failed { what: format!("starting {} ({how})", self.inner.engine.name()), log })
    }
}

impl Node {
    fn is_running(&self) -> bool {
        locked(&self.child).as_mut().is_some_and(|(child, _)| matches!(child.try_wait(), Ok(None)))
    }

    fn pid(&self) -> Option<u32> {
        locked(&self.child).as_ref().map(|(child, _)| child.id())
    }

    /// The node's processes, the one that makes others first.
    fn processes(&self) -> Vec<u32> {
        let Some(pid) = self.pid().filter(|_| self.is_running()) else { return Vec::new() };
        let more = if self.program.forks() { descendants(pid) } else { Vec::new() };
        std::iter::once(pid).chain(more).collect()
    }

    fn signal_all(&self, what: Signal) {
        // The first one is signalled first, so that it makes no more of them while we look.
        if let Some(pid) = self.pid().filter(|_| self.is_running()) {
            signal(pid, what);
        }
        self.processes().into_iter().skip(1).for_each(|pid| signal(pid, what));
    }

    fn stop(&self) -> Result<(), ServerError> {
        if let Some(pid) = self.pid().filter(|_| self.is_running()) {
            signal(pid, Signal::CONT);
            signal(pid, self.program.farewell());
            if !wait_until(Duration::from_secs(60), || !self.is_running()) {
                self.kill();
                return Err(ServerError::Failed { what: "stopping".to_owned(), log: String::new() });
            }
        }
        Ok(())
    }

    fn kill(&self) {
        let child = locked(&self.child).take();
        if let Some((mut child, _noted)) = child {
            // Not yet waited for, so the number is still its own; what it started may outlive it.
            kill_tree(child.id());
            let _ = child.wait();
        }
    }
}

impl Inner {
    fn kill_all(&self) {
        self.nodes.iter().for_each(Node::kill);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.kill_all();
    }
}
