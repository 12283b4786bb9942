//! What is tested: databases by URL, throw-away servers, simulated stores, programs.

use super::faults;
use super::flags::Flags;
use crate::cli::Global;
use crate::commands::database::{self, Scratch, claim, unreached};
use crate::exit::Failure;
use crate::interrupt;
use anomalist_client::{Engine, ExecEngine, SimulatedEngine, WeakEngine};
use anomalist_databases::broken::{Broken, Bug};
use anomalist_databases::collect::{self, Collector};
use anomalist_databases::engine::{Encoding, SqlEngine};
use anomalist_databases::{Database, Family, Isolation, Target};
use anomalist_lab::fault::{Fault, Needs, Proxy, Sessions, Tracked, is_encrypted};
use anomalist_lab::server::Server;
use anomalist_level::{AnomalyKind, Level};
use anomalist_workload::SimLevel;
use anomalist_workload::client::{ClientSpec, Workload};
use std::net::ToSocketAddrs;
use std::time::Duration;

/// What stays while runs come and go.
pub struct TestBed {
    kind: Kind,
    /// Where the nodes of a database that is reached by TCP are, not through a proxy.
    pub direct: Vec<Target>,
    /// A proxy in front of each, if faults need one.
    pub proxies: Vec<Proxy>,
    /// The sessions of the run.
    pub sessions: Sessions,
    /// The faults to make.
    pub faults: Vec<Fault>,
    /// The bug that the database is given on purpose.
    bug: Option<Bug>,
}

enum Kind {
    /// Nothing was named: SQLite beside a simulated store.
    Showcase(Scratch),
    Database(Target),
    Server(Server),
    Simulated(Option<SimLevel>),
    Weak(Level),
    Exec(String),
}

impl Kind {
    fn open(flags: &Flags, global: &Global) -> Result<Kind, Failure> {
        if let Some(product) = flags.throwaway {
            return database::start(product, global).map(Kind::Server);
        }
        let Some(url) = database::named(flags.url.as_ref(), global) else {
            return Scratch::new("test").map(Kind::Showcase);
        };
        const SCHEMES: &str =
            "postgres://…, mysql://…, sqlite:FILE, simulated:LEVEL, weakdb:LEVEL or exec:CMD";
        Ok(match url.split_once(':') {
            Some(("exec", command)) if !command.trim().is_empty() => Kind::Exec(command.to_owned()),
            Some(("weakdb", level)) => Kind::Weak(level.parse().map_err(Failure::input)?),
            Some(("simulated", "")) => Kind::Simulated(None),
            Some(("simulated", level)) => Kind::Simulated(Some(level.parse().map_err(Failure::input)?)),
            _ => Kind::Database(database::target(&url, SCHEMES)?),
        })
    }
}

impl Kind {
    /// Refuses what would be ignored.
    fn suits(&self, flags: &Flags) -> Result<(), Failure> {
        let (name, levels) = match self {
            Kind::Showcase(_) | Kind::Database(_) | Kind::Server(_) => return Ok(()),
            Kind::Simulated(_) => ("simulated:", true),
            Kind::Weak(_) => ("weakdb:", false),
            // A program gets the level, and knows no others.
            Kind::Exec(_) => ("exec:", true),
        };
        for (flag, given, possible) in [
            ("--bug", flags.bug.is_some(), false),
            ("--online", flags.online, false),
            ("--isolation", flags.isolation.is_some(), levels),
            ("--matrix", flags.matrix, levels),
        ] {
            if given && !possible {
                return Err(Failure::input(format_args!("{name} has no {flag}")));
            }
        }
        if let Kind::Weak(_) = self
            && flags.spec()?.iter().any(|spec| spec.workload == Workload::ListAppend)
        {
            return Err(Failure::input("weakdb: has no lists; use --workload register"));
        }
        Ok(())
    }
}

/// A run to be.
pub struct PlannedRun<'a> {
    /// Its heading.
    pub head: String,
    pub spec: ClientSpec,
    /// The level that the vendor documents, if it is a database with a vendor.
    pub claim: Option<Level>,
    /// The level in force, as the server tells it.
    pub in_force: Option<String>,
    make: Box<Make<'a>>,
}

/// Makes the engine for a workload.
type Make<'a> = dyn Fn(&ClientSpec) -> Result<Box<dyn Engine>, Failure> + 'a;

impl PlannedRun<'_> {
    pub fn engine(&self) -> Result<Box<dyn Engine>, Failure> {
        (self.make)(&self.spec)
    }

    /// A name for its folder.
    pub fn name(&self) -> String {
        let plain =
            |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
        let mut name: String = self.head.chars().map(plain).collect();
        while name.contains("--") {
            name = name.replace("--", "-");
        }
        format!("{}-{}", name.trim_matches('-'), self.spec.workload.name())
    }
}

/// Under faults no session waits for an answer longer than this.
const IMPATIENCE: Duration = Duration::from_secs(5);

impl TestBed {
    /// Finds out what is to be tested, and starts what has to be started.
    pub fn open(flags: &Flags, global: &Global) -> Result<TestBed, Failure> {
        if flags.bug == Some(Bug::StaleFailover) && flags.txns.is_some_and(|n| n <= TAKES_OVER) {
            return Err(Failure::input(format_args!(
                "stale-failover takes over after {TAKES_OVER} commits: --txns must be larger"
            )));
        }
        let kind = Kind::open(flags, global)?;
        kind.suits(flags)?;
        let reached = |target: &Target| target.address().is_some();
        let direct: Vec<Target> = match &kind {
            Kind::Database(target) if reached(target) => vec![target.clone()],
            Kind::Server(server) => server.targets(),
            _ => Vec::new(),
        };
        let own = matches!(kind, Kind::Server(_));
        // `all` means all that are possible here.
        let concerned = |name: &String| name == "all" || *name == Fault::LoseCommits.name();
        let encrypted = match direct.first().filter(|_| !own && flags.fault.iter().any(concerned)) {
            Some(target) => {
                let mut session = target.connect().map_err(|e| unreached(target, &e))?;
                // Without a setting, TLS is taken to be off.
                is_encrypted(session.as_mut()).unwrap_or(false)
            }
            None => false,
        };
        let faults = faults::named(&flags.fault, |fault| match fault.needs() {
            Needs::Server => own,
            _ if fault == Fault::LoseCommits && encrypted => false,
            Needs::Proxy | Needs::Administrator => !direct.is_empty(),
        })?;
        let mut proxies = Vec::new();
        if faults.iter().any(|fault| fault.needs() == Needs::Proxy) {
            for target in &direct {
                if target.family() == Family::Mysql && target.verifies_name() {
                    return Err(Failure::input(
                        "MySQL's client cannot verify the server's name through the proxy that these faults need; \
                         sslmode=verify-ca works",
                    ));
                }
                let (host, port) = target.address().unwrap_or(("localhost", 0));
                let unknown = |e| Failure::input(format_args!("{host}:{port}: {e}"));
                let address = (host, port).to_socket_addrs().map_err(unknown)?.next();
                let address = address.ok_or_else(|| Failure::input(format_args!("{host} has no address")))?;
                proxies.push(Proxy::new(address).map_err(unknown)?);
            }
        }
        let sessions = Sessions::default();
        Ok(TestBed { kind, direct, proxies, sessions, faults, bug: flags.bug })
    }
    /// The server that was started, if one was.
    pub fn server(&self) -> Option<&Server> {
        if let Kind::Server(server) = &self.kind { Some(server) } else { None }
    }

    /// Where sessions reach the database: through proxies, if there are some.
    fn targets(&self) -> Vec<Target> {
        let nodes = match &self.kind {
            Kind::Database(target) => vec![target.clone()],
            Kind::Server(server) => server.targets(),
            _ => Vec::new(),
        };
        let impatient =
            |target: Target| target.with_statement_timeout(IMPATIENCE).with_connect_timeout(IMPATIENCE);
        let through = |(i, target): (usize, Target)| {
            let target = if self.faults.is_empty() { target } else { impatient(target) };
            match self.proxies.get(i) {
                Some(proxy) => target.through("127.0.0.1", proxy.address().port()),
                None => target,
            }
        };
        nodes.into_iter().enumerate().map(through).collect()
    }

    /// The runs to do.
    pub fn planned_runs(&self, flags: &Flags, specs: &[ClientSpec]) -> Result<Vec<PlannedRun<'_>>, Failure> {
        let mut all = Vec::new();
        for spec in specs {
            self.of_workload(flags, spec, &mut all)?;
        }
        Ok(all)
    }

    fn of_workload<'a>(
        &'a self,
        flags: &Flags,
        spec: &ClientSpec,
        all: &mut Vec<PlannedRun<'a>>,
    ) -> Result<(), Failure> {
        let (sessions, encoding) = (flags.sessions, flags.encoding());
        let mut spec = spec.clone();
        if matches!(self.kind, Kind::Showcase(_)) && flags.writes_per_key.is_none() {
            // Short lists make examples that are easy to read.
            spec.writes_per_key = spec.writes_per_key.map(|n| n.min(8));
        }
        let spec = &spec;
        let simulated = |level: SimLevel, head: String| PlannedRun {
            head,
            spec: spec.clone(),
            claim: None,
            in_force: None,
            make: Box::new(move |spec| Ok(Box::new(SimulatedEngine::new(level, spec, sessions)))),
        };
        match &self.kind {
            Kind::Showcase(scratch) => {
                all.extend(self.sql(vec![scratch.sqlite("")?], flags, spec, encoding, Some("SQLite"))?);
                if !flags.matrix {
                    all.push(simulated(SimLevel::SnapshotIsolation, "simulated snapshot-isolation".into()));
                }
            }
            Kind::Database(_) | Kind::Server(_) => {
                all.extend(self.sql(self.targets(), flags, spec, encoding, None)?);
            }
            Kind::Simulated(level) => {
                let named = flags.isolation.as_deref().map(str::parse).transpose().map_err(Failure::input)?;
                let levels = match named.or(*level) {
                    Some(level) if !flags.matrix => vec![level],
                    _ if flags.matrix => SimLevel::ALL.into_iter().rev().collect(),
                    _ => vec![SimLevel::Serializable],
                };
                all.extend(levels.into_iter().map(|level| simulated(level, level.name().to_owned())));
            }
            Kind::Weak(level) => {
                let level = *level;
                all.push(PlannedRun {
                    head: format!("weakdb {level}"),
                    spec: spec.clone(),
                    claim: None,
                    in_force: None,
                    make: Box::new(move |spec| {
                        Ok(Box::new(WeakEngine::new(level, spec).map_err(Failure::input)?))
                    }),
                });
            }
            Kind::Exec(command) => {
                if flags.matrix {
                    return Err(Failure::input("--matrix takes a database whose isolation levels are known"));
                }
                let (command, isolation) = (command.clone(), flags.isolation.clone());
                all.push(PlannedRun {
                    head: "exec".to_owned(),
                    spec: spec.clone(),
                    claim: None,
                    in_force: None,
                    make: Box::new(move |spec| {
                        let isolation = isolation.as_deref();
                        Ok(Box::new(ExecEngine::new(&command, spec, isolation, interrupt::is_requested)))
                    }),
                });
            }
        }
        Ok(())
    }

    /// A command worth trying after this one, which found this anomaly, or none.
    pub fn next_step(&self, flags: &Flags, found: Option<AnomalyKind>) -> String {
        let installed = |program: &str| {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
        };
        match &self.kind {
            Kind::Showcase(_) if installed("mariadbd") => {
                "anomalist test --throwaway mariadb --matrix".to_owned()
            }
            Kind::Showcase(_) => "anomalist test postgres://USER@HOST/DATABASE --matrix".to_owned(),
            _ if !flags.matrix && !matches!(self.kind, Kind::Exec(_)) => {
                "the same with --matrix: every isolation level of this database".to_owned()
            }
            _ if flags.fault.is_empty() && self.server().is_some() => {
                "the same with --fault all --duration 30s: does it hold when things break?".to_owned()
            }
            _ => match found {
                Some(kind) => format!("anomalist explain {}", kind.name()),
                None => "the same with more contention: --keys 3 --duration 1m".to_owned(),
            },
        }
    }
}

impl TestBed {
    /// Runs against databases that speak SQL: at one level, or at all.
    fn sql(
        &self,
        targets: Vec<Target>,
        flags: &Flags,
        spec: &ClientSpec,
        encoding: Encoding,
        name: Option<&str>,
    ) -> Result<Vec<PlannedRun<'_>>, Failure> {
        let Some(first) = targets.first() else { return Ok(Vec::new()) };
        let reached = |e| unreached(first, &e);
        let product = first.product().map_err(reached)?;
        let all = first.isolations().map_err(reached)?;
        let chosen: Vec<Isolation> = match &flags.isolation {
            Some(wanted) => {
                let known = || all.iter().map(Isolation::name).collect::<Vec<_>>().join(", ");
                let found = product.isolation(wanted);
                let found = found.ok_or_else(|| {
                    let known = known();
                    Failure::input(format_args!(
                        "{product} has no isolation level {wanted:?}; it has {known}"
                    ))
                })?;
                vec![found]
            }
            None if flags.matrix => all,
            // SQLite's modes are all serializable; the plain one is what people use.
            None if product.family == Family::Sqlite => all.into_iter().take(1).collect(),
            None => all.into_iter().last().into_iter().collect(),
        };
        let online = flags.online;
        if online {
            let session = first.connect().map_err(reached)?;
            let fit = |isolation: &&Isolation| !collect::suits(&*session, isolation);
            if let Some(unfit) = chosen.iter().find(fit) {
                return Err(Failure::input(format_args!(
                    "--online: {product} does not report what transactions at {unfit} see; choose another --isolation"
                )));
            }
        }
        // A cluster promises less than its nodes.
        let claimed = |isolation: &Isolation| {
            (targets.len() == 1).then(|| claim::claimed(&product.name, isolation.name()))
        };
        let mut session = first.connect().map_err(reached)?;
        let mut reported = Vec::new();
        for isolation in chosen {
            let in_force = claim::in_force(&mut *session, &isolation).map_err(reached)?;
            reported.push((claimed(&isolation), in_force, isolation));
        }
        let runs = reported.into_iter().map(|(claim, in_force, isolation)| {
            let targets = targets.clone();
            let mut head = match name {
                Some(name) => format!("{name} {isolation}"),
                None => isolation.name().to_owned(),
            };
            if let Some(bug) = self.bug {
                head = format!("{head} with {}", bug.name());
            }
            let make = move |spec: &ClientSpec| -> Result<Box<dyn Engine>, Failure> {
                let databases = targets.iter().enumerate().map(|(node, target)| self.database(node, target));
                let databases = databases.collect::<Result<Vec<_>, _>>()?;
                let engine = SqlEngine::new(databases, isolation.clone(), spec, encoding);
                let engine = engine.map_err(Failure::input)?;
                Ok(Box::new(if online { engine.with_stamps() } else { engine }))
            };
            PlannedRun { head, spec: spec.clone(), claim, in_force, make: Box::new(make) }
        });
        Ok(runs.collect())
    }

    /// The order of commits, from the server.
    pub fn collector(&self) -> Result<Box<dyn Collector>, Failure> {
        // A cluster has as many orders of commits as nodes.
        let one = <[Target; 1]>::try_from(self.direct.clone()).ok();
        let [target] =
            one.ok_or_else(|| Failure::input("--online takes one PostgreSQL or MariaDB server"))?;
        collect::collector(&target, self.server().is_some()).map_err(|e| unreached(&target, &e))
    }

    /// A node as sessions see it: tracked, and with the bug that was asked for.
    fn database(&self, node: usize, target: &Target) -> Result<Box<dyn Database>, Failure> {
        let tracked = |target: Target| Tracked::new(target, node, &self.sessions);
        Ok(match self.bug {
            None => Box::new(tracked(target.clone())),
            Some(Bug::StaleFailover) => {
                let reached = |e| unreached(target, &e);
                let copy = match target.family() {
                    Family::Sqlite => {
                        let path = target.to_string();
                        target.with_database(&format!("{}.copy", path.trim_start_matches("sqlite:")))
                    }
                    _ => {
                        const COPY: &str = "anomalist_copy";
                        let mut session = target.connect().map_err(reached)?;
                        session.run(&format!("DROP DATABASE IF EXISTS {COPY}")).map_err(reached)?;
                        session.run(&format!("CREATE DATABASE {COPY}")).map_err(reached)?;
                        target.with_database(COPY)
                    }
                };
                let broken = Broken::with_failover(tracked(target.clone()), tracked(copy), LAG, TAKES_OVER);
                Box::new(broken.map_err(reached)?)
            }
            Some(bug) => Box::new(Broken::new(tracked(target.clone()), bug)),
        })
    }
}

/// How many commits a copy is behind, and after how many it takes over.
const LAG: usize = 20;
const TAKES_OVER: u64 = 400;
