//! A session, as the proxy shows it: which transactions it ran, how they ended, what they read.
//!
//! Only what the server answers counts: a transaction begins with its first request, and ends when the
//! server says so (the tag of COMMIT, or the state in ReadyForQuery). Where the answer does not come, its
//! outcome is unknown.
//!
//! With each COMMIT the server is asked for the transaction's number and for the level in force. The
//! question goes with the COMMIT, so it costs no round trip, and is only put where it cannot fail: the
//! transaction was not in a failed state when the server last reported, and nothing is on its way that
//! could have changed that. Otherwise the number is not known; then only what was read before the
//! transaction could have written is kept, because a version may be its own.

use crate::plan::{Plan, Reason};
use crate::shape::{Kind, Shape};
use crate::shared::{Opened, Shared};
use crate::transaction::{End, Own, Read, Transaction, columns};
use anomalist_proxy::message::Body;
use anomalist_proxy::{Answer, Interest, Observer, Request, Run, Status, Verdict};
use anomalist_sqltext::{Control, Isolation};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

/// Its number, which it has only if it has written, and its level.
const OWN: &str = "SELECT pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text, \
                   pg_catalog.current_setting('transaction_isolation')";

/// The most rows of one transaction that are recorded.
const MOST_READS: usize = 10_000;
/// The most statements of one transaction that are kept.
const MOST_STATEMENTS: usize = 50;
/// Texts of prepared statements that are remembered.
const KNOWN: usize = 5_000;

/// A request that was sent and not answered.
struct Sent {
    number: u64,
    at: u64,
    shape: Option<Arc<Shape>>,
    /// Statements of it that completed.
    completed: usize,
    is_sync: bool,
}

/// The requests since the last Sync.
#[derive(Default)]
struct Batch {
    writes: bool,
    /// Something other than plain reads and writes.
    other: bool,
}

/// An open transaction.
struct Open {
    transaction: Transaction,
    explicit: bool,
    wrote: bool,
    failed: bool,
}

pub(crate) struct Session {
    shared: Arc<Shared>,
    sender: Sender<crate::ledger::Event>,
    number: u64,
    era: u32,
    opened: Arc<Opened>,
    requests: u64,
    sent: VecDeque<Sent>,
    open: Option<Open>,
    batch: Batch,
    known: FxHashMap<Arc<str>, Arc<Shape>>,
    /// It has temporary tables, which may have the names of others.
    temporary: bool,
    /// Its transaction has changed definitions.
    defined: bool,
    /// The level for later transactions, if the session asked for one.
    wish: Option<Isolation>,
}

impl Session {
    pub fn new(shared: Arc<Shared>) -> Session {
        let (number, opened) = shared.session();
        Session {
            sender: shared.sender(),
            era: shared.era.load(Ordering::SeqCst),
            number,
            opened,
            shared,
            requests: 0,
            sent: VecDeque::new(),
            open: None,
            batch: Batch::default(),
            known: FxHashMap::default(),
            temporary: false,
            defined: false,
            wish: None,
        }
    }

    fn shape(&self, text: &str) -> (Arc<Shape>, usize) {
        self.shared.shapes.of(text, &self.shared.catalogue())
    }

    /// Whether a plan may be used now.
    fn plan<'s>(&self, shape: &'s Shape) -> Result<&'s Plan, Reason> {
        match &shape.kind {
            Kind::Read { plan: Ok(_), .. } if self.temporary || self.defined || self.shared.is_stale() => {
                Err(Reason::Definitions)
            }
            Kind::Read { plan, .. } => plan.as_ref().map_err(|reason| *reason),
            Kind::Opaque(reason) => Err(*reason),
            Kind::Script(_) => Err(Reason::Script),
            _ => Err(Reason::Writes),
        }
    }

    /// Counts a statement that may read rows.
    fn count(&self, shape: &Shape, is_seen: Result<(), Reason>) {
        if !matches!(shape.kind, Kind::Control(_) | Kind::Quiet | Kind::Define { .. }) {
            self.shared.count(is_seen.err());
        }
    }

    /// Notes what a statement will do, before it is sent.
    fn sends(&mut self, at: u64, shape: Option<Arc<Shape>>, is_sync: bool) {
        self.opened.begin(at);
        if let Some(shape) = &shape {
            if let Kind::Define { temporary } = shape.kind {
                self.temporary |= temporary;
                self.defined = true;
                self.shared.outdate();
            }
            match &shape.kind {
                Kind::Write => self.batch.writes = true,
                Kind::Read { .. } => {}
                _ => self.batch.other = true,
            }
        }
        self.sent.push_back(Sent { number: self.requests, at, shape, completed: 0, is_sync });
    }

    fn query(&mut self, text: &str, server: &dyn Run) -> Verdict {
        let at = self.shared.now();
        let (shape, place) = self.shape(text);
        let plan = self.plan(&shape).map(|plan| plan.addition.clone());
        self.count(&shape, plan.as_ref().map(drop).map_err(|r| *r));
        self.sends(at, Some(shape.clone()), false);
        self.batch = Batch::default();
        match plan {
            Ok(addition) => Verdict::Widen { at: place, addition },
            Err(_) if ends(&shape) && server.is_current() && server.status() == Status::Open => {
                Verdict::Precede(OWN.to_owned())
            }
            Err(_) => Verdict::Pass,
        }
    }

    fn execute(&mut self, text: Option<&Arc<str>>, server: &dyn Run) -> Verdict {
        let at = self.shared.now();
        let shape = text.and_then(|text| self.known.get(text).cloned());
        match &shape {
            Some(shape) => self.count(shape, self.plan(shape).map(drop)),
            None => self.shared.count(Some(Reason::Cursor)),
        }
        let asks = shape.as_deref().is_some_and(ends) && !self.batch.other;
        self.sends(at, shape, false);
        match asks && server.is_current() && server.status() != Status::Failed {
            true => Verdict::Precede(OWN.to_owned()),
            false => Verdict::Pass,
        }
    }

    fn sync(&mut self, server: &dyn Run) -> Verdict {
        let batch = std::mem::take(&mut self.batch);
        self.sends(self.shared.now(), None, true);
        let asks = batch.writes && !batch.other && server.is_current() && server.status() == Status::Idle;
        if asks { Verdict::Precede(OWN.to_owned()) } else { Verdict::Pass }
    }

    /// The open transaction; it began with the request that is answered.
    fn opened(&mut self, at: u64) -> &mut Open {
        let (session, era) = (self.number, self.era);
        self.open.get_or_insert_with(|| Open {
            transaction: Transaction {
                session,
                era,
                invoked: at,
                completed: at,
                end: End::Unknown,
                own: Own::Unasked,
                isolation: None,
                asked: None,
                reads: Vec::new(),
                statements: Vec::new(),
            },
            explicit: false,
            wrote: false,
            failed: false,
        })
    }

    fn end(&mut self, end: End) {
        if let Some(open) = self.open.take() {
            let mut transaction = open.transaction;
            transaction.end = end;
            transaction.completed = self.shared.now();
            // The other end is gone when the recording has ended.
            let _ = self.sender.send(crate::ledger::Event::Ended(Box::new(transaction)));
        }
    }

    /// Finds the request that is answered: those before it are done, or were ignored. False if it is of a
    /// kind that is not kept.
    fn is_answered(&mut self, number: u64) -> bool {
        while self.sent.front().is_some_and(|sent| sent.number < number) {
            self.sent.pop_front();
        }
        self.sent.front().is_some_and(|sent| sent.number == number)
    }

    fn read(&mut self, value: Option<&[u8]>) {
        let Some((at, shape)) = self.sent.front().and_then(|s| Some((s.at, s.shape.clone()?))) else {
            return;
        };
        let Kind::Read { plan: Ok(plan), calls } = &shape.kind else { return };
        let text = value.and_then(|value| std::str::from_utf8(value).ok());
        let Some(mut rest) = text.and_then(columns) else { return };
        let open = self.opened(at);
        for table in &plan.keys {
            if rest.len() < 2 + table.key.len() || open.transaction.reads.len() >= MOST_READS {
                return;
            }
            let after = rest.split_off(2 + table.key.len());
            let mut row = std::mem::replace(&mut rest, after).into_iter();
            let mut number = || row.next().flatten().and_then(|n| n.parse().ok());
            // Where an outer join found no row, there is none.
            let (Some(number), Some(writer)) = (number(), number()) else { continue };
            let Some(key) = row.collect::<Option<Vec<String>>>() else { continue };
            let read = Read {
                table: number,
                writer,
                key,
                known_as: table.clone(),
                after_write: open.wrote || *calls,
            };
            open.transaction.reads.push(read);
        }
    }

    fn own(&mut self, row: &[u8]) {
        let Some(at) = self.sent.front().map(|sent| sent.at) else { return };
        let Ok(values) = (Body { bytes: row }).values() else { return };
        let text = |at: usize| std::str::from_utf8(values.get(at).copied().flatten()?).ok();
        let own = match values.first() {
            Some(Some(_)) => text(0).and_then(|n| n.parse().ok()).map_or(Own::Unasked, Own::Number),
            Some(None) => Own::None,
            None => Own::Unasked,
        };
        let isolation = text(1).and_then(Isolation::named);
        let transaction = &mut self.opened(at).transaction;
        (transaction.own, transaction.isolation) = (own, isolation);
    }

    fn complete(&mut self, tag: &str) {
        let Some(sent) = self.sent.front_mut() else { return };
        let (at, place, shape) = (sent.at, sent.completed, sent.shape.clone());
        sent.completed += 1;
        let control = shape.as_deref().and_then(|shape| shape.control(place)).cloned();
        let wish = self.wish;
        let open = self.opened(at);
        if let Some(shape) = &shape {
            open.wrote |= shape.may_write();
            let known = open.transaction.statements.last().is_some_and(|last| Arc::ptr_eq(last, shape));
            if !matches!(shape.kind, Kind::Control(_))
                && !known
                && open.transaction.statements.len() < MOST_STATEMENTS
            {
                open.transaction.statements.push(shape.clone());
            }
        } else {
            open.wrote = true;
        }
        match (tag, control) {
            ("BEGIN" | "START TRANSACTION", control) => {
                open.explicit = true;
                open.transaction.asked = match control {
                    Some(Control::Begin(modes)) => modes.isolation.or(wish),
                    _ => wish,
                };
            }
            ("SET", Some(Control::Set(anomalist_sqltext::Scope::Transaction, modes))) => {
                open.transaction.asked = modes.isolation.or(open.transaction.asked);
            }
            ("SET", Some(Control::Set(anomalist_sqltext::Scope::Session, modes))) => {
                self.wish = modes.isolation.or(wish);
            }
            ("COMMIT", _) => self.end(End::Committed),
            ("ROLLBACK", Some(Control::RollbackTo(_))) => {}
            ("ROLLBACK", _) => self.end(End::Aborted),
            ("PREPARE TRANSACTION", _) => self.end(End::Unknown),
            ("RESET" | "DISCARD ALL", _) => self.wish = None,
            _ => {}
        }
    }

    /// A request failed. Preparing and binding are not kept, but their errors end a transaction too.
    fn failed(&mut self, number: u64) {
        if self.is_answered(number)
            && let Some(at) = self.sent.front().map(|sent| sent.at)
        {
            self.opened(at);
        }
        if let Some(open) = &mut self.open {
            // What it did before it failed was undone.
            open.failed = true;
        }
    }

    fn ready(&mut self, status: Status) {
        let at = self.sent.pop_front().map(|sent| sent.at);
        match status {
            Status::Idle => {
                if let Some(open) = &self.open {
                    let end = match (open.failed, open.explicit) {
                        (true, _) => End::Aborted,
                        (false, false) => End::Committed,
                        // It ended in a way that has no tag.
                        (false, true) => End::Unknown,
                    };
                    self.end(end);
                }
                if std::mem::take(&mut self.defined) {
                    self.shared.outdate();
                }
                if self.sent.is_empty() {
                    self.opened.end();
                }
            }
            Status::Open | Status::Failed => {
                if let Some(at) = at {
                    let open = self.opened(at);
                    (open.explicit, open.failed) = (true, false);
                }
            }
        }
    }
}

/// Whether the statement ends its transaction, and the number is to be known.
fn ends(shape: &Shape) -> bool {
    matches!(shape.kind, Kind::Control(Control::Commit(_) | Control::TwoPhase("PREPARE TRANSACTION")))
}

impl Observer for Session {
    fn interest(&self) -> Interest {
        Interest::Passing { rows: false }
    }

    fn request(&mut self, request: &Request, server: &mut dyn Run) -> Verdict {
        self.requests += 1;
        match request {
            Request::Query { text } => self.query(text, server),
            Request::Parse { text, .. } => {
                let (shape, place) = self.shape(text);
                if self.known.len() >= KNOWN {
                    self.known.clear();
                }
                let verdict = match self.plan(&shape) {
                    Ok(plan) => Verdict::Widen { at: place, addition: plan.addition.clone() },
                    Err(_) => Verdict::Pass,
                };
                self.known.insert(text.clone(), shape);
                verdict
            }
            Request::Bind { .. } => Verdict::Pass,
            Request::Execute { text, .. } => self.execute(text.as_ref(), server),
            Request::Sync => self.sync(server),
            Request::Call => {
                self.sends(self.shared.now(), None, false);
                Verdict::Pass
            }
        }
    }

    fn answer_to(&mut self, number: u64, answer: Answer<'_>) {
        if let Answer::Failed(_) = answer {
            return self.failed(number);
        }
        if !self.is_answered(number) {
            return;
        }
        match answer {
            Answer::Extra(value) => self.read(value),
            Answer::Own(row) => self.own(row),
            Answer::Complete(tag) => self.complete(tag),
            Answer::Ready(status) => self.ready(status),
            Answer::Columns(_) | Answer::Row(_) | Answer::Failed(_) => {}
        }
    }
}

impl Drop for Session {
    /// The session is over. What was not answered may have happened; what is open and was not to be
    /// committed was rolled back.
    fn drop(&mut self) {
        let unanswered = self.sent.iter().find(|sent| !sent.is_sync || self.open.is_some()).map(|s| s.at);
        if let Some(at) = unanswered {
            self.opened(at);
        }
        self.end(if unanswered.is_some() { End::Unknown } else { End::Aborted });
        if self.defined {
            self.shared.outdate();
        }
        self.opened.end();
        self.shared.leave(self.number);
    }
}
