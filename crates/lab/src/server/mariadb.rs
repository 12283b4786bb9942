//! MariaDB from the binaries of a package: `mariadb-install-db`, then the server itself in the foreground.

use super::process::{Account, Folder, command, find, finish, give, password, write_private};
use super::running::{Node, Program};
use super::{ServerError, Setup};
use anomalist_databases::{Connection, Database, Target};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

pub(super) const ACCOUNT: Account = Account("mysql");

struct Mariadb {
    program: PathBuf,
    arguments: Vec<String>,
    target: Target,
}

/// Where a program that comes with MariaDB is.
pub(super) fn locate(program: &'static str) -> Result<PathBuf, ServerError> {
    let folders = ["/usr/sbin", "/usr/libexec", "/usr/local/mariadb/bin", "/usr/local/mysql/bin"];
    let missing = ServerError::Missing { program, package: "mariadb-server" };
    find(program, &folders.map(PathBuf::from)).ok_or(missing)
}

/// Makes the files of a database: one administrator, with this password, and the database `anomalist`. The
/// accounts without a password that the program makes are removed.
pub(super) fn install(folder: &Path, data: &Path, secret: &str) -> Result<(), ServerError> {
    let extra = folder.join("extra.sql");
    let text = format!(
        "DELETE FROM mysql.global_priv WHERE User IN ('', 'root');\nFLUSH PRIVILEGES;\n\
         CREATE DATABASE anomalist;\nCREATE USER anomalist@'%' IDENTIFIED BY '{secret}';\n\
         GRANT ALL PRIVILEGES ON *.* TO anomalist@'%' WITH GRANT OPTION;\n"
    );
    write_private(&extra, &text, ACCOUNT)?;
    let mut making = command(&locate("mariadb-install-db")?, ACCOUNT, "KILL");
    making.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    making.arg("--skip-name-resolve").arg("--innodb-flush-method=nosync").arg("--innodb-use-native-aio=OFF");
    making.arg(format!("--datadir={}", data.display())).arg(format!("--extra-file={}", extra.display()));
    making.arg(format!("--tmpdir={}", data.display()));
    finish(making, "mariadb-install-db")?;
    Ok(fs::remove_file(&extra)?)
}

/// The arguments that every node gets.
pub(super) fn arguments(folder: &Path, name: &str, port: u16, id: usize) -> Vec<String> {
    let place = |what: &str| folder.join(format!("{name}{what}")).display().to_string();
    let data = place("data");
    vec![
        "--no-defaults".to_owned(),
        format!("--datadir={data}"),
        // A server that starts removes all temporary tables from this folder, also those of another server.
        format!("--tmpdir={data}"),
        format!("--socket={}", place("sock")),
        format!("--pid-file={}", place("pid")),
        format!("--port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--log-bin={data}/binlog"),
        "--binlog-format=ROW".to_owned(),
        format!("--server-id={id}"),
        // Written at each commit, though not synchronised: with 0, a killed process would lose what it had
        // committed.
        "--innodb-flush-log-at-trx-commit=2".to_owned(),
        "--innodb-buffer-pool-size=64M".to_owned(),
        "--innodb-log-file-size=16M".to_owned(),
        // Rings of the kernel are counted against limits that many servers on one machine share.
        "--innodb-use-native-aio=OFF".to_owned(),
        "--performance-schema=OFF".to_owned(),
        "--skip-name-resolve".to_owned(),
        "--max-connections=300".to_owned(),
    ]
}

/// The arguments for TLS and for settings, with the files they need.
pub(super) fn wishes(setup: &Setup, folder: &Path) -> Result<Vec<String>, ServerError> {
    let mut arguments = Vec::new();
    if let Some((certificate, key)) = &setup.tls {
        for (option, from, name) in [("ssl-cert", certificate, "cert.pem"), ("ssl-key", key, "key.pem")] {
            let to = folder.join(name);
            fs::copy(from, &to)?;
            give(&to, ACCOUNT)?;
            arguments.push(format!("--{option}={}", to.display()));
        }
    }
    arguments.extend(setup.settings.iter().map(|(name, value)| format!("--{name}={value}")));
    Ok(arguments)
}

pub(super) fn target(port: u16, secret: &str) -> Result<Target, ServerError> {
    let url = format!("mysql://anomalist@127.0.0.1:{port}/anomalist");
    let target = url.parse::<Target>().map_err(std::io::Error::other)?;
    Ok(target.with_login("anomalist", Some(secret)))
}

pub(super) fn create(setup: &Setup) -> Result<(Folder, Vec<Node>), ServerError> {
    let program = locate("mariadbd")?;
    let mut folder = Folder::new("mariadb", ACCOUNT)?;
    let port = folder.free_ports(1)?.first().copied().unwrap_or_default();
    let path = folder.path();
    let secret = password()?;
    install(path, &path.join("data"), &secret)?;
    let mut arguments = arguments(path, "", port, 1);
    arguments.extend(wishes(setup, path)?);
    let target = target(port, &secret)?;
    let log = path.join("log");
    let program = Box::new(Mariadb { program, arguments, target: target.clone() });
    let node = Node { target, secret, log, program, child: Mutex::new(None) };
    Ok((folder, vec![node]))
}

/// A connection for looking whether it is there, which must not take long.
pub(super) fn glance(target: &Target) -> Option<Box<dyn Connection>> {
    let brief = Duration::from_secs(2);
    target.clone().with_connect_timeout(brief).with_statement_timeout(brief).connect().ok()
}

impl Program for Mariadb {
    fn command(&self, _alone: bool) -> Result<Command, ServerError> {
        let mut command = command(&self.program, ACCOUNT, "KILL");
        command.args(&self.arguments);
        Ok(command)
    }

    fn farewell(&self) -> Signal {
        Signal::TERM
    }

    fn ready(&self, _pid: u32) -> bool {
        glance(&self.target).is_some()
    }

    fn forks(&self) -> bool {
        false
    }
}
