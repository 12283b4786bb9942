//! The requests of the protocol, one by one.

use super::{Block, Task, Weakened};
use crate::reads::Parameters;
use crate::statement::{Kind, Reason};
use anomalist_proxy::{Interest, Observer, Outcome, Request, Run, RunError, ServerError, Status, Verdict};

impl Observer for Weakened {
    fn interest(&self) -> Interest {
        Interest::InStep { rows: false }
    }

    fn request(&mut self, request: &Request, server: &mut dyn Run) -> Verdict {
        let verdict = match request {
            Request::Query { text } => self.before(text, &Parameters::default(), false, server),
            Request::Parse { text, types, .. } => {
                if !types.is_empty() {
                    self.types.insert(text.clone(), types.clone());
                }
                if self.failed { Ok(()) } else { self.leave(server) }.map(|()| Verdict::Pass)
            }
            Request::Bind { portal, text: Some(text), formats, values } => {
                self.portals.remove(portal);
                let types = self.types.get(text).cloned().unwrap_or_default();
                let parameters = Parameters { formats, values, types: &types };
                // What ends a transaction is decided when it runs.
                let verdict = match &*self.kind(text) {
                    Kind::Control(_) => {
                        self.task = Task { kind: Some(self.kind(text)), ..Task::default() };
                        Ok(Verdict::Pass)
                    }
                    _ => self.before(text, &parameters, true, server),
                };
                let task = std::mem::take(&mut self.task);
                self.portals.insert(portal.clone(), task);
                verdict
            }
            Request::Execute { portal, .. } => {
                let kind = self.portals.get(portal).and_then(|task| task.kind.clone());
                match kind.as_deref() {
                    Some(Kind::Control(control)) if !self.failed => self.control(control, server),
                    _ => Ok(Verdict::Pass),
                }
            }
            Request::Sync if self.block == Block::Own && !self.failed => {
                self.task.current =
                    self.portals.values_mut().flat_map(|t| std::mem::take(&mut t.current)).collect();
                // An error of its own commit reaches the client as that of the query.
                if let Err(error) = self.decide(server) {
                    let raise = format!(
                        "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = {}; END $$",
                        crate::catalogue::literal(&error.message).replace("$$", "")
                    );
                    let _ = server.run(&raise);
                } else if server.run("COMMIT").is_ok() {
                    self.committed();
                }
                Ok(Verdict::Pass)
            }
            Request::Bind { text: None, .. } | Request::Call => {
                self.shared.count(Some(Reason::Cursor));
                self.leave(server).and_then(|()| self.open(server)).map(|()| Verdict::Pass)
            }
            Request::Sync => Ok(Verdict::Pass),
        };
        verdict.unwrap_or_else(|error| match error {
            RunError::Server(error) => Verdict::Refuse(error),
            // The client has the server's error already, or the client's own error comes first.
            _ => Verdict::Pass,
        })
    }

    fn finished(
        &mut self,
        request: &Request,
        outcome: &Outcome,
        server: &mut dyn Run,
    ) -> Option<ServerError> {
        match request {
            Request::Execute { portal, .. } => {
                self.unshare();
                // A portal that is not read to its end stays.
                let ended = outcome.error.is_some() || !outcome.tags.is_empty();
                let task = if ended { self.portals.remove(portal) } else { None };
                if let Some(mut task) = task {
                    self.after(&task, outcome, server);
                    if self.block == Block::Own {
                        // The store hears of its reads when it commits.
                        task.weak = false;
                        self.portals.insert(format!("{portal} done"), task);
                    }
                }
                if outcome.error.is_some() && self.block != Block::None {
                    self.failed = true;
                }
                None
            }
            Request::Query { .. } | Request::Call => {
                self.unshare();
                let task = self.task.clone();
                self.after(&task, outcome, server);
                let refused = match (self.block, outcome.status) {
                    (Block::Own, Status::Open) => self.end_own(server),
                    (Block::Own, Status::Failed) => {
                        let _ = server.run("ROLLBACK");
                        self.ended();
                        None
                    }
                    _ => None,
                };
                let settled = Outcome { status: server.status(), ..outcome.clone() };
                self.settle(&settled, server);
                refused
            }
            Request::Sync => {
                self.unshare();
                if self.block == Block::Own && outcome.status == Status::Failed {
                    let _ = server.run("ROLLBACK");
                    self.ended();
                }
                let settled = Outcome { status: server.status(), ..outcome.clone() };
                // A local setting of an extended query ends with it.
                if self.block == Block::None {
                    self.weak = None;
                }
                self.settle(&settled, server);
                None
            }
            Request::Parse { .. } | Request::Bind { .. } => None,
        }
    }
}

impl Drop for Weakened {
    fn drop(&mut self) {
        // The connection was lost while the server committed: it knows what became of that.
        if let Some(xid) = self.doubtful.take()
            && self.shared.has_committed(&xid)
        {
            self.work.commit(&self.shared);
        }
        self.reopen();
        self.unshare();
    }
}
