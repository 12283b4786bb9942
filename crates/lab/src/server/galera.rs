//! Three MariaDB nodes on one machine that replicate through Galera.
//!
//! Nodes start from copies of one folder that has already been a cluster of one, so they agree on what they
//! hold and no node has to be sent everything. A node that was killed is asked for its position first, for
//! the same reason.

use super::mariadb::{ACCOUNT, arguments, glance, install, locate, target, wishes};
use super::process::{Folder, command, finish, give, password, signal, spawn, wait_until};
use super::running::{Node, PATIENCE, Program};
use super::{ServerError, Setup};
use anomalist_client::remains::kill_tree;
use anomalist_databases::Target;
use rustix::process::Signal;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const NODES: usize = 3;

struct Galera {
    program: PathBuf,
    arguments: Vec<String>,
    data: PathBuf,
    target: Target,
}

fn provider() -> Result<PathBuf, ServerError> {
    let places = ["/usr/lib/galera", "/usr/lib64/galera-4", "/usr/lib/x86_64-linux-gnu/galera"];
    let found = places.iter().map(|p| Path::new(p).join("libgalera_smm.so")).find(|p| p.is_file());
    found.ok_or(ServerError::Missing { program: "libgalera_smm.so", package: "galera-4" })
}

pub(super) fn create(setup: &Setup) -> Result<(Folder, Vec<Node>), ServerError> {
    let (program, provider) = (locate("mariadbd")?, provider()?);
    let mut folder = Folder::new("galera", ACCOUNT)?;
    let ports = folder.free_ports(4 * NODES)?;
    let path = folder.path();
    let port = |kind: usize, node: usize| ports[kind * NODES + node];
    let cluster: Vec<String> = (0..NODES).map(|n| format!("127.0.0.1:{}", port(1, n))).collect();
    let wishes = wishes(setup, path)?;
    let secret = password()?;
    let mut nodes = Vec::new();
    for at in 0..NODES {
        let name = format!("node{}-", at + 1);
        let (group, state) = (port(1, at), port(2, at));
        let mut arguments = arguments(path, &name, port(0, at), at + 1);
        arguments.extend([
            "--innodb-autoinc-lock-mode=2".to_owned(),
            "--wsrep-on=ON".to_owned(),
            format!("--wsrep-provider={}", provider.display()),
            "--wsrep-cluster-name=anomalist".to_owned(),
            format!("--wsrep-node-name=node{}", at + 1),
            format!("--wsrep-cluster-address=gcomm://{}", cluster.join(",")),
            "--wsrep-node-address=127.0.0.1".to_owned(),
            "--wsrep-sst-method=rsync".to_owned(),
            format!("--wsrep-sst-receive-address=127.0.0.1:{state}"),
            // Shorter limits than usual: a node that is gone should not hold up the others for long.
            format!(
                "--wsrep-provider-options=base_host=127.0.0.1;base_port={group};\
                 gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{};\
                 ist.recv_bind=127.0.0.1;gcache.size=16M;evs.keepalive_period=PT0.5S;\
                 evs.suspect_timeout=PT3S;evs.inactive_timeout=PT10S;evs.install_timeout=PT10S",
                port(3, at)
            ),
        ]);
        arguments.extend(wishes.iter().cloned());
        let data = path.join(format!("{name}data"));
        let target = target(port(0, at), &secret)?;
        let (program, arguments) = (program.clone(), arguments);
        let galera = Galera { program, arguments, data, target: target.clone() };
        let log = path.join(format!("{name}log"));
        nodes.push((galera, target, log));
    }
    let first = nodes.first().map(|(galera, ..)| galera).ok_or_else(|| std::io::Error::other("no nodes"))?;
    install(path, &first.data, &secret)?;
    first.found(path)?;
    for (galera, ..) in nodes.iter().skip(1) {
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(&first.data).arg(&galera.data);
        finish(copy, "cp")?;
        give(&galera.data, ACCOUNT)?;
        galera.allow_founding(false)?;
        // The node's own identity must not be copied.
        let _ = fs::remove_file(galera.data.join("gvwstate.dat"));
    }
    let nodes = nodes
        .into_iter()
        .map(|(galera, target, log)| {
            let (program, child) = (Box::new(galera) as Box<dyn Program>, Mutex::new(None));
            Node { target, secret: secret.clone(), log, program, child }
        })
        .collect();
    Ok((folder, nodes))
}

impl Galera {
    /// Runs the first node once as a cluster of its own, so that its folder has a position in a history.
    fn found(&self, folder: &Path) -> Result<(), ServerError> {
        let mut command = self.command(true)?;
        let log = File::create(folder.join("founding-log"))?;
        command.stdout(log.try_clone()?).stderr(log);
        let (mut child, _noted) = spawn(command)?;
        let ready = wait_until(PATIENCE, || self.ready(child.id()) || !matches!(child.try_wait(), Ok(None)));
        signal(child.id(), Signal::TERM);
        let ended = wait_until(PATIENCE, || !matches!(child.try_wait(), Ok(None)));
        if ready && ended {
            return Ok(());
        }
        kill_tree(child.id());
        let _ = child.wait();
        let log = fs::read_to_string(folder.join("founding-log")).unwrap_or_default();
        Err(ServerError::Failed { what: "founding the cluster".to_owned(), log: super::process::tail(&log) })
    }

    /// Says in the node's state file whether it may make a cluster of its own.
    fn allow_founding(&self, allowed: bool) -> Result<(), ServerError> {
        let path = self.data.join("grastate.dat");
        let Ok(text) = fs::read_to_string(&path) else { return Ok(()) };
        let wanted = format!("safe_to_bootstrap: {}", u8::from(allowed));
        let lines =
            text.lines().map(|l| if l.starts_with("safe_to_bootstrap") { wanted.as_str() } else { l });
        fs::write(&path, lines.collect::<Vec<_>>().join("\n") + "\n")?;
        give(&path, ACCOUNT)
    }

    /// Where the node is in the history, if the state file does not say it: after a crash.
    fn position(&self) -> Result<Option<String>, ServerError> {
        let state = fs::read_to_string(self.data.join("grastate.dat")).unwrap_or_default();
        if !state.lines().any(|l| l.starts_with("seqno:") && l.ends_with(" -1")) {
            return Ok(None);
        }
        let mut asking = command(&self.program, ACCOUNT, "KILL");
        asking.args(&self.arguments).arg("--wsrep-recover");
        let said = finish(asking, "asking for the node's position")?;
        let found = said.lines().rev().find_map(|l| l.split_once("Recovered position: "));
        Ok(found.map(|(_, position)| position.trim().to_owned()))
    }
}

impl Program for Galera {
    fn command(&self, alone: bool) -> Result<Command, ServerError> {
        let position = self.position()?;
        let mut command = command(&self.program, ACCOUNT, "KILL");
        command.args(&self.arguments);
        command.args(position.map(|p| format!("--wsrep-start-position={p}")));
        if alone {
            self.allow_founding(true)?;
            command.arg("--wsrep-new-cluster");
        }
        Ok(command)
    }

    fn farewell(&self) -> Signal {
        Signal::TERM
    }

    fn ready(&self, _pid: u32) -> bool {
        let asked = "SELECT COUNT(*) FROM information_schema.global_status WHERE \
                     (variable_name = 'wsrep_local_state_comment' AND variable_value = 'Synced') OR \
                     (variable_name = 'wsrep_ready' AND variable_value = 'ON')";
        let answer = glance(&self.target).and_then(|mut session| session.run(asked).ok());
        answer.is_some_and(|replies| replies.first().and_then(anomalist_databases::Reply::int) == Some(2))
    }

    fn forks(&self) -> bool {
        false
    }
}
