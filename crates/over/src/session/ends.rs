//! How transactions end, and what the end of a statement means for them.

use super::{Block, Task, Weakened, shown};
use crate::statement::Kind;
use anomalist_proxy::{Outcome, Run, RunError, ServerError, Status, Verdict};
use anomalist_sqltext::{Control, Scope};

impl Weakened {
    pub(super) fn control(&mut self, control: &Control, server: &mut dyn Run) -> Result<Verdict, RunError> {
        match control {
            Control::Commit(_) if self.block == Block::Client => {
                if let Err(error) = self.decide(server) {
                    let _ = server.run("ROLLBACK");
                    self.ended();
                    return Ok(Verdict::Refuse(error));
                }
            }
            Control::Begin(_) => {
                self.leave(server)?;
                self.path(server)?;
            }
            Control::Savepoint(_) => {
                self.leave(server)?;
                self.sync(server)?;
            }
            Control::BeginLocked(_)
            | Control::Commit(_)
            | Control::Rollback(_)
            | Control::RollbackTo(_)
            | Control::Release(_)
            | Control::Set(..)
            | Control::Autocommit(..)
            | Control::TwoPhase(_) => self.leave(server)?,
        }
        Ok(Verdict::Pass)
    }

    /// Whether the open transaction may commit. If so, and if it has written, the gate stays closed until
    /// the commit is over.
    pub(super) fn decide(&mut self, server: &mut dyn Run) -> Result<(), ServerError> {
        self.unshare();
        if self.dirty && self.shared.catalogue().deferrable {
            // What may wait for others, or fail, does so now.
            server.run("SET CONSTRAINTS ALL IMMEDIATE").map_err(shown)?;
        }
        let found = self.fetch(server).map_err(shown)?;
        if found.is_empty() && !self.work.has_written() {
            return self.work.may_commit();
        }
        self.shared.gate.close();
        self.closing = true;
        let catalogue = self.shared.catalogue();
        self.work.take(&catalogue, &found, self.blind);
        if self.block == Block::Own {
            // Whatever its statement has read is read now: others cannot come between.
            let current = std::mem::take(&mut self.task.current);
            self.work.tell(&current);
        }
        match self.work.may_commit() {
            Ok(()) => {
                self.doubtful = found.last().map(|change| change.xid.clone()).or(Some(String::new()));
                Ok(())
            }
            Err(error) => {
                self.reopen();
                Err(error)
            }
        }
    }

    /// The transaction has ended on the server, and the store has heard of it.
    pub(super) fn ended(&mut self) {
        self.doubtful = None;
        self.work.rollback();
        self.reopen();
        self.unshare();
        self.block = Block::None;
        self.failed = false;
        self.dirty = false;
        self.weak = None;
        self.savepoints.clear();
        self.portals.clear();
        if std::mem::take(&mut self.defined) {
            self.path = None;
            self.shared.outdate();
        }
    }

    pub(super) fn committed(&mut self) {
        self.work.commit(&self.shared);
        self.ended();
    }

    /// Ends a transaction that was begun for one statement; what the client is to hear.
    pub(super) fn end_own(&mut self, server: &mut dyn Run) -> Option<ServerError> {
        let decided = self.decide(server);
        let committed = decided.and_then(|()| server.run("COMMIT").map(drop).map_err(shown));
        match committed {
            Ok(()) => {
                self.committed();
                None
            }
            Err(error) => {
                let _ = server.run("ROLLBACK");
                self.ended();
                Some(error)
            }
        }
    }

    /// After a statement of the client has been answered.
    pub(super) fn after(&mut self, task: &Task, outcome: &Outcome, server: &mut dyn Run) {
        let Some(kind) = task.kind.clone() else { return };
        if outcome.error.is_some() {
            if matches!(&*kind, Kind::Define { .. } | Kind::Opaque { .. }) {
                self.shared.outdate();
            }
            return;
        }
        match &*kind {
            Kind::Read(_) if task.weak => {}
            Kind::Read(_) | Kind::Work { .. } => {
                self.dirty |= !matches!(&*kind, Kind::Read(_)) || self.block != Block::None;
                if self.block == Block::Client {
                    self.share();
                    self.work.tell(&task.current);
                    self.unshare();
                }
            }
            Kind::Define { .. } => {
                self.path = None;
                self.defined |= self.block != Block::None;
                self.shared.outdate();
            }
            Kind::Setting => self.path = None,
            Kind::Opaque { .. } => {
                self.path = None;
                self.dirty = true;
                self.shared.outdate();
            }
            Kind::Control(control) => self.controlled(control, outcome, server),
            Kind::Other => {}
        }
    }

    pub(super) fn controlled(&mut self, control: &Control, outcome: &Outcome, server: &mut dyn Run) {
        let tag = outcome.tags.last().map(String::as_str).unwrap_or_default();
        match control {
            Control::Begin(modes) if matches!(tag, "BEGIN" | "START TRANSACTION") => {
                if self.block != Block::Client && (modes.isolation.is_some() || self.levels) {
                    let _ = server.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
                }
                self.block = Block::Client;
                self.work.begin();
            }
            Control::Set(Scope::Transaction, modes) if modes.isolation.is_some() => {
                let _ = server.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
            }
            Control::Set(..) => self.path = None,
            Control::Commit(chain) | Control::Rollback(chain) => {
                match tag {
                    "COMMIT" if self.block == Block::Client => self.committed(),
                    _ => self.ended(),
                }
                if chain.chain {
                    self.block = Block::Client;
                    self.work.begin();
                }
            }
            Control::Savepoint(name) => {
                let savepoint = self.work.mark().map(|mark| (name.clone(), mark));
                self.savepoints.extend(savepoint);
            }
            Control::RollbackTo(name) => {
                self.failed = false;
                self.weak = None;
                self.dirty = false;
                if let Some(at) = self.savepoints.iter().rposition(|(n, _)| n == name) {
                    self.savepoints.truncate(at + 1);
                    self.work.rollback_to(self.savepoints[at].1);
                }
            }
            Control::Release(name) => {
                if let Some(at) = self.savepoints.iter().rposition(|(n, _)| n == name) {
                    self.savepoints.truncate(at);
                }
            }
            Control::TwoPhase(_) => self.ended(),
            Control::Begin(_) | Control::BeginLocked(_) | Control::Autocommit(..) => {}
        }
    }

    /// Compares what is known with what the server says, at the end of a query.
    pub(super) fn settle(&mut self, outcome: &Outcome, server: &mut dyn Run) {
        self.failed = outcome.status == Status::Failed;
        match (outcome.status, self.block) {
            (Status::Idle, Block::None) => {
                if self.dirty
                    && let Ok(found) = self.fetch(server)
                {
                    // A procedure or a script has committed by itself.
                    let catalogue = self.shared.catalogue();
                    self.shared.gate.close();
                    self.closing = true;
                    self.work.adopt(&self.shared, &catalogue, &found);
                    self.reopen();
                }
                // A read by itself is a transaction.
                self.work.commit(&self.shared);
                if outcome.error.is_some() {
                    self.weak = None;
                    self.path = None;
                }
                self.portals.clear();
            }
            (Status::Idle, Block::Client | Block::Own) => {
                if self.dirty
                    && outcome.error.is_none()
                    && let Ok(found) = self.fetch(server)
                {
                    let catalogue = self.shared.catalogue();
                    self.work.adopt(&self.shared, &catalogue, &found);
                }
                self.ended();
            }
            (Status::Open, Block::None) => {
                self.block = Block::Client;
                let _ = server.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
                self.work.begin();
            }
            (Status::Open | Status::Failed, _) => {}
        }
    }
}
