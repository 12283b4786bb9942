//! PostgreSQL from the binaries of a package: `initdb`, then the server itself in the foreground.

use super::process::{Account, Folder, command, find, finish, give, password, write_private};
use super::running::{Node, Program};
use super::{ServerError, Setup};
use anomalist_databases::Target;
use rustix::process::Signal;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const ACCOUNT: Account = Account("postgres");

struct Postgres {
    program: PathBuf,
    data: PathBuf,
}

/// Where packages put the programs, newest version first.
fn folders() -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for root in ["/usr/lib/postgresql", "/usr/local/lib/postgresql"] {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let version = entry.file_name().to_str().and_then(|n| n.parse().ok()).unwrap_or(0);
            found.push((version, entry.path().join("bin")));
        }
    }
    found.sort();
    found.into_iter().rev().map(|(_, folder)| folder).chain([PathBuf::from("/usr/local/pgsql/bin")]).collect()
}

/// Where a program that comes with PostgreSQL is.
pub(super) fn locate(program: &'static str) -> Result<PathBuf, ServerError> {
    // Not from the search path alone: Debian keeps only wrappers there.
    let folders = folders();
    let direct = folders.iter().map(|f| f.join(program)).find(|f| f.is_file());
    let missing = ServerError::Missing { program, package: "postgresql" };
    direct.or_else(|| find(program, &[])).ok_or(missing)
}

pub(super) fn create(setup: &Setup) -> Result<(Folder, Vec<Node>), ServerError> {
    let (initdb, program) = (locate("initdb")?, locate("postgres")?);
    let mut folder = Folder::new("postgres", ACCOUNT)?;
    let data = folder.path().join("data");
    let (secret, file) = (password()?, folder.path().join("password"));
    write_private(&file, &secret, ACCOUNT)?;
    let mut making = command(&initdb, ACCOUNT, "KILL");
    making.arg("-D").arg(&data);
    making.args(["-A", "scram-sha-256", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C"]);
    making.arg(format!("--pwfile={}", file.display()));
    finish(making, "initdb")?;
    fs::remove_file(&file)?;

    let port = folder.free_ports(1)?.first().copied().unwrap_or_default();
    let mut settings = format!(
        "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\nfsync = off\n\
         wal_level = logical\ntrack_commit_timestamp = on\nmax_connections = 300\nmax_wal_senders = 10\n",
        folder.path().display()
    );
    if let Some((certificate, key)) = &setup.tls {
        for (from, name) in [(certificate, "server.crt"), (key, "server.key")] {
            copy_private(from, &data.join(name))?;
        }
        settings.push_str("ssl = on\n");
    }
    for (name, value) in &setup.settings {
        settings.push_str(&format!("{name} = '{}'\n", value.replace('\'', "''")));
    }
    fs::File::options().append(true).open(data.join("postgresql.conf"))?.write_all(settings.as_bytes())?;

    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let target = url.parse::<Target>().map_err(std::io::Error::other)?;
    let target = target.with_login("postgres", Some(&secret));
    let log = folder.path().join("log");
    let program = Box::new(Postgres { program, data });
    let node = Node { target, secret, log, program, child: Mutex::new(None) };
    Ok((folder, vec![node]))
}

/// Copies a file for the server's eyes only, as PostgreSQL demands of keys.
fn copy_private(from: &Path, to: &Path) -> Result<(), ServerError> {
    use std::os::unix::fs::PermissionsExt;
    fs::copy(from, to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o600))?;
    give(to, ACCOUNT)
}

impl Program for Postgres {
    fn command(&self, _alone: bool) -> Result<Command, ServerError> {
        // If we die it shuts down at once, and takes its processes along.
        let mut command = command(&self.program, ACCOUNT, "QUIT");
        command.arg("-D").arg(&self.data);
        Ok(command)
    }

    fn farewell(&self) -> Signal {
        // Fast: sessions are ended, not waited for.
        Signal::INT
    }

    fn ready(&self, pid: u32) -> bool {
        // The file is of this process, and its eighth line is the state.
        let file = fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
        let mut lines = file.lines();
        lines.next().is_some_and(|line| line.trim() == pid.to_string())
            && lines.nth(6).is_some_and(|line| line.trim() == "ready")
    }

    fn forks(&self) -> bool {
        true
    }
}
