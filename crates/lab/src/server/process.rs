//! Processes that do not outlive us, and folders that go with them.

use super::ServerError;
use anomalist_client::remains::{self, Noted};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The account that a server runs as if we are root, which servers refuse.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account(pub(super) &'static str);

/// A command that runs under the account if we are root, and gets the signal when this process dies,
/// however it dies.
pub(super) fn command(program: &Path, account: Account, on_death: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.arg(format!("--pdeathsig={on_death}"));
    if rustix::process::geteuid().is_root() {
        command
            .arg(format!("--reuid={0}", account.0))
            .arg(format!("--regid={0}", account.0))
            .arg("--init-groups");
    }
    command.arg("--").arg(program).stdin(Stdio::null()).current_dir("/");
    command
}

/// Sends a signal; a process that is gone is fine.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

type Order = (Command, Sender<io::Result<(Child, Noted)>>);

/// Starts a process, in a group of its own that Ctrl-C does not reach, from a thread that lives as long as
/// this process: the kernel means the *thread* when it says that a parent died.
pub(super) fn spawn(command: Command) -> io::Result<(Child, Noted)> {
    static KEEPER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (sender, orders) = channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in orders {
                // The caller no longer waits: then the process is not needed either.
                if let Err(unsent) = answer.send(remains::start(&mut command))
                    && let Ok((mut child, _noted)) = unsent.0
                {
                    remains::kill_tree(child.id());
                    let _ = child.wait();
                }
            }
        });
        Mutex::new(sender)
    });
    let (answer, child) = channel();
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    keeper.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer)).map_err(|_| gone(()))?;
    child.recv().map_err(|_| gone(()))?
}

/// Runs to the end; the error shows the last lines of what it printed.
pub(super) fn finish(mut command: Command, what: &str) -> Result<String, ServerError> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let (child, _noted) = spawn(command)?;
    let output = child.wait_with_output()?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    match output.status.success() {
        true => Ok(text),
        false => Err(ServerError::Failed { what: what.to_owned(), log: tail(&text) }),
    }
}

/// The last lines of a log.
pub(super) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// Whether every thread of a process has stopped, or the process is gone. A signal to stop takes effect a
/// moment later.
pub(super) fn is_stopped(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok()).all(|stat| {
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        matches!(state, None | Some('T' | 't' | 'Z' | 'X'))
    })
}

/// Waits until something is so, looking often. The limit is about time in which we could look: if we were
/// stopped ourselves, or the machine was, that does not count.
pub(super) fn wait_until(limit: Duration, so: impl FnMut() -> bool) -> bool {
    wait_while_busy(limit, limit, || 0, so)
}

/// The same for something that takes as long as it takes: the limit is about time without a sign of life,
/// which is any change of the number. Only what lives and never comes to an end is given up after the
/// longest time.
pub(super) fn wait_while_busy(
    silence: Duration,
    longest: Duration,
    mut sign_of_life: impl FnMut() -> u64,
    mut so: impl FnMut() -> bool,
) -> bool {
    const LONGEST_LOOK: Duration = Duration::from_secs(3);
    let (mut silent, mut waited, mut last) = (Duration::ZERO, Duration::ZERO, sign_of_life());
    loop {
        let start = Instant::now();
        if so() {
            return true;
        }
        if silent > silence || waited > longest {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
        let looked = start.elapsed().min(LONGEST_LOOK);
        let now = sign_of_life();
        silent = if now == last { silent + looked } else { Duration::ZERO };
        waited += looked;
        last = now;
    }
}

/// A folder of our own that is removed with everything in it, and the ports of the server that lives there.
#[derive(Debug)]
pub(super) struct Folder {
    folder: remains::Folder,
    /// What keeps the ports.
    kept: Vec<UnixListener>,
}

impl Folder {
    pub(super) fn new(name: &str, account: Account) -> Result<Folder, ServerError> {
        let folder = remains::Folder::temporary(name)?;
        give(folder.path(), account)?;
        Ok(Folder { folder, kept: Vec::new() })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Ports of the loopback on which no program listens, all different, and not given out again while the
    /// folder is there.
    ///
    /// A port cannot be reserved: it is free again whenever its server is down. So processes of Anomalist
    /// agree on a name per port, in the abstract namespace of sockets, which the kernel clears when a
    /// process ends. Ports are below those that the kernel hands out itself: no outgoing connection takes
    /// one.
    pub(super) fn free_ports(&mut self, count: usize) -> io::Result<Vec<u16>> {
        let mut ports = Vec::with_capacity(count);
        for _ in 0..10_000 {
            if ports.len() == count {
                return Ok(ports);
            }
            let port = fastrand::u16(10_000..32_000);
            let name = SocketAddr::from_abstract_name(format!("anomalist-port-{port}"))?;
            let Ok(kept) = UnixListener::bind_addr(&name) else { continue };
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                self.kept.push(kept);
                ports.push(port);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }
}

/// A password that other accounts do not know.
pub(super) fn password() -> io::Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a file that this account alone reads, and gives it to the server's.
pub(super) fn write_private(path: &Path, text: &str, account: Account) -> Result<(), ServerError> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    give(path, account)
}

/// Makes the account the owner, if we are root.
pub(super) fn give(path: &Path, account: Account) -> Result<(), ServerError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let mut chown = Command::new("chown");
    chown.arg("-R").arg(format!("{0}:{0}", account.0)).arg(path);
    finish(chown, "chown").map(drop)
}

/// The first of these programs that exists: in the search path, or in one of the folders.
pub(super) fn find(program: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(folders.iter().cloned()).map(|f| f.join(program)).find(|f| f.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shows_signs_of_life_is_waited_for() {
        let brief = Duration::from_millis(100);
        let mut looks = 0;
        let patient =
            |life: &mut dyn FnMut() -> u64, longest| wait_while_busy(brief, longest, life, || false);
        assert!(!patient(&mut || 0, Duration::MAX), "silence has an end");
        let mut counted = || {
            looks += 1;
            looks
        };
        assert!(!patient(&mut counted, 4 * brief), "so has a life without result");
        let mut left = 20;
        assert!(wait_while_busy(
            brief,
            Duration::MAX,
            || 0,
            || {
                left -= 1;
                left == 18
            }
        ));
    }
}
