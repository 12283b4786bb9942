//! Which answer belongs to which request.
//!
//! A client may send many requests before it reads an answer. The server answers them in order, so a queue
//! of requests says to which one each message of the server belongs, and whether the client asked for it or
//! the proxy did. The rules are those of the chapter "Message Flow" of PostgreSQL's manual:
//!
//! - a simple query or a function call ends with ReadyForQuery, each other request with its own answer;
//! - after an error in an extended query the server ignores everything up to Sync;
//! - while the server takes the data of a COPY that an Execute began, it ignores Sync.
//!
//! The queue also knows the text of each prepared statement. A Parse that fails leaves the statement of that
//! name as it was. Each step costs O(1), apart from requests that an error makes the server ignore.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Whether a transaction is open, as ReadyForQuery reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// None is open.
    #[default]
    Idle,
    /// One is open.
    Open,
    /// One is open and has failed.
    Failed,
}

impl Status {
    /// The byte of ReadyForQuery.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::Open => b'T',
            Self::Failed => b'E',
        }
    }

    fn of(byte: u8) -> Self {
        match byte {
            b'T' => Self::Open,
            b'E' => Self::Failed,
            _ => Self::Idle,
        }
    }
}

/// A kind of request, by what ends its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The session itself: authentication and parameters.
    Startup,
    Query,
    Call,
    Parse,
    Bind,
    Describe,
    Execute,
    Close,
    Sync,
    /// Data of a COPY begin here: no answer.
    CopyData,
    /// The client ended a COPY: no answer.
    CopyEnd,
}

impl Asked {
    /// Whether the answer ends with ReadyForQuery.
    fn ends_ready(self) -> bool {
        matches!(self, Self::Startup | Self::Query | Self::Call)
    }
}

/// Text that the proxy put into a statement, in characters, and that its rows have a column more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Addition {
    /// How much of the client's text is before it.
    pub at: usize,
    pub length: usize,
    /// Whether the rows have one more column, which the client does not see.
    pub widens: bool,
}

impl Addition {
    /// A place in the server's text, as one in the client's; both count from 1.
    pub fn undone(self, place: usize) -> usize {
        if place <= self.at { place } else { place.saturating_sub(self.length).max(self.at + 1) }
    }
}

/// A request on its way to the server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// The proxy asked, not the client.
    pub injected: bool,
    /// Its number among those that the observer was shown; 0 if it was not.
    pub number: u64,
    pub addition: Option<Addition>,
    /// A statement of the observer comes first in the same query.
    pub preceded: bool,
}

/// A statement that was prepared.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub text: Arc<str>,
    pub addition: Option<Addition>,
}

#[derive(Debug)]
struct Pending {
    asked: Asked,
    sent: Sent,
    /// For a Parse: the name, and what it replaced.
    replaced: Option<(Vec<u8>, Option<Prepared>)>,
}

/// What a message of the server is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The request that it belongs to.
    pub of: Option<Asked>,
    /// How that was sent. `preceded` if this message is about the statement that came first.
    pub sent: Sent,
}

/// The state of one session's protocol.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    queue: VecDeque<Pending>,
    /// An extended query failed: the server ignores requests up to Sync.
    skipping: bool,
    /// The server waits for data of a COPY.
    copying: bool,
    status: Status,
    statements: HashMap<Vec<u8>, Prepared>,
    portals: HashMap<Vec<u8>, Prepared>,
}

impl Flow {
    pub fn ask(&mut self, asked: Asked, sent: Sent) {
        // Many messages of data are one mark.
        if asked == Asked::CopyData && self.queue.back().is_some_and(|p| p.asked == Asked::CopyData) {
            return;
        }
        self.queue.push_back(Pending { asked, sent, replaced: None });
    }

    /// The client prepares a statement.
    pub fn parse(&mut self, name: &[u8], text: &str, sent: Sent) {
        let prepared = Prepared { text: text.into(), addition: sent.addition };
        let before = self.statements.insert(name.to_vec(), prepared);
        let replaced = Some((name.to_vec(), before));
        self.queue.push_back(Pending { asked: Asked::Parse, sent, replaced });
    }

    /// The client binds a statement to a portal; the statement, if it was seen.
    pub fn bind(&mut self, portal: &[u8], statement: &[u8]) -> Option<Prepared> {
        let prepared = self.statements.get(statement).cloned();
        match &prepared {
            Some(prepared) => self.portals.insert(portal.to_vec(), prepared.clone()),
            None => self.portals.remove(portal),
        };
        prepared
    }

    /// The statement of a portal.
    pub fn portal(&self, name: &[u8]) -> Option<Prepared> {
        self.portals.get(name).cloned()
    }

    pub fn close(&mut self, kind: u8, name: &[u8]) {
        match kind {
            b'S' => self.statements.remove(name),
            _ => self.portals.remove(name),
        };
    }

    /// All prepared statements were dropped by SQL.
    pub fn forget(&mut self) {
        self.statements.clear();
    }

    pub fn status(&self) -> Status {
        self.status
    }

    /// No ReadyForQuery is on its way.
    pub fn is_current(&self) -> bool {
        self.queue.iter().all(|p| !p.asked.ends_ready() && p.asked != Asked::Sync)
    }

    pub fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// The server waits for data, and the client has not ended them.
    pub fn wants_data(&self) -> bool {
        self.copying && !self.queue.iter().any(|p| p.asked == Asked::CopyEnd)
    }

    /// Nothing is unanswered that the server will answer without being sent more.
    pub fn is_settled(&self) -> bool {
        let mark = |p: &Pending| matches!(p.asked, Asked::CopyData | Asked::CopyEnd);
        match self.skipping {
            true => self.queue.iter().all(|p| p.asked != Asked::Sync),
            false => self.queue.iter().all(mark),
        }
    }

    /// Takes the next message of the server; `first` is the first byte of its body.
    pub fn receive(&mut self, kind: u8, first: Option<u8>) -> Seen {
        while !self.copying
            && self.queue.front().is_some_and(|p| matches!(p.asked, Asked::CopyData | Asked::CopyEnd))
        {
            self.queue.pop_front();
        }
        // What the server ignores it does not answer: the next answer is that of Sync.
        let next = if self.skipping {
            self.queue.iter().find(|p| p.asked == Asked::Sync)
        } else {
            self.queue.front()
        };
        let asked = next.map(|p| p.asked);
        let seen = Seen { of: asked, sent: next.map(|p| p.sent).unwrap_or_default() };
        if seen.sent.preceded
            && matches!(kind, b'C' | b'E')
            && let Some(front) = self.queue.front_mut()
        {
            // What follows is about the client's own statement; so is an error, which ends the query.
            front.sent.preceded = false;
        }
        match kind {
            // A notification belongs to no request.
            b'A' => return Seen::default(),
            b'Z' => self.ready(Status::of(first.unwrap_or(b'I'))),
            b'E' if asked.is_some_and(|a| !a.ends_ready()) && !self.skipping => self.fail(),
            b'E' => self.copying = false,
            b'G' | b'W' => self.copying = true,
            b'1' if asked == Some(Asked::Parse) => self.answered(),
            b'2' if asked == Some(Asked::Bind) => self.answered(),
            b'3' if asked == Some(Asked::Close) => self.answered(),
            b'T' | b'n' if asked == Some(Asked::Describe) => self.answered(),
            b'C' | b'I' | b's' => {
                let copied = std::mem::take(&mut self.copying);
                if asked == Some(Asked::Execute) {
                    self.answered();
                    if copied {
                        // What came before the end of the data was ignored.
                        let end = self.queue.iter().position(|p| p.asked == Asked::CopyEnd);
                        self.queue.drain(..end.map_or(0, |end| end + 1));
                    }
                }
            }
            _ => {}
        }
        seen
    }

    fn answered(&mut self) {
        self.queue.pop_front();
    }

    /// An extended query failed.
    fn fail(&mut self) {
        if let Some(failed) = self.queue.pop_front() {
            self.undo(failed);
        }
        self.skipping = true;
        if std::mem::take(&mut self.copying) {
            // The server had read, and ignored, each Sync before the data that it refused.
            if let Some(data) =
                self.queue.iter().position(|p| matches!(p.asked, Asked::CopyData | Asked::CopyEnd))
            {
                self.queue.drain(..data);
            }
        }
    }

    fn ready(&mut self, status: Status) {
        self.status = status;
        self.copying = false;
        let whole = self.queue.front().is_some_and(|p| p.asked.ends_ready()) && !self.skipping;
        self.skipping = false;
        if status == Status::Idle {
            self.portals.clear();
        }
        if whole {
            self.answered();
            return;
        }
        let end = self.queue.iter().position(|p| p.asked == Asked::Sync).map_or(0, |at| at + 1);
        let ignored: Vec<Pending> = self.queue.drain(..end).collect();
        ignored.into_iter().rev().for_each(|p| self.undo(p));
    }

    /// A Parse that did not happen.
    fn undo(&mut self, pending: Pending) {
        if let Some((name, before)) = pending.replaced {
            match before {
                Some(prepared) => self.statements.insert(name, prepared),
                None => self.statements.remove(&name),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(flow: &mut Flow, all: &[Asked]) {
        all.iter().for_each(|&a| flow.ask(a, Sent::default()));
    }

    /// What each of these messages answers.
    fn answers(flow: &mut Flow, kinds: &[u8]) -> Vec<Option<Asked>> {
        kinds.iter().map(|&kind| flow.receive(kind, Some(b'I')).of).collect()
    }

    #[test]
    fn a_pipeline_is_answered_in_order() {
        use Asked::{Bind, Describe, Execute, Parse, Query, Sync};
        let mut flow = Flow::default();
        asked(&mut flow, &[Parse, Bind, Describe, Execute, Sync, Query]);
        let found = answers(&mut flow, b"12TDDCZTDCTDCZ");
        let execute = [Some(Execute); 3];
        let expected =
            [&[Some(Parse), Some(Bind), Some(Describe)], &execute[..], &[Some(Sync)], &[Some(Query); 7]];
        assert_eq!(found, expected.concat());
        assert!(flow.is_settled());
    }

    #[test]
    fn after_an_error_everything_up_to_sync_is_ignored() {
        use Asked::{Bind, Execute, Query, Sync};
        let mut flow = Flow::default();
        flow.parse(b"s", "SELECT 1", Sent::default());
        assert_eq!(answers(&mut flow, b"1"), [Some(Asked::Parse)]);
        flow.parse(b"s", "SELECT 2", Sent::default());
        asked(&mut flow, &[Bind, Execute]);
        assert_eq!(answers(&mut flow, b"E"), [Some(Asked::Parse)]);
        assert!(flow.is_skipping() && flow.is_settled());
        let bound = flow.bind(b"", b"s").map(|s| s.text);
        assert_eq!(bound.as_deref(), Some("SELECT 1"), "the failed Parse changed nothing");
        // A query that is sent now is ignored too.
        asked(&mut flow, &[Query, Sync, Query]);
        assert_eq!(answers(&mut flow, b"ZCZ")[1..], [Some(Query), Some(Query)]);
        assert!(flow.is_settled());
    }

    #[test]
    fn while_data_are_copied_sync_is_ignored() {
        use Asked::{Bind, CopyData, CopyEnd, Execute, Sync};
        let mut flow = Flow::default();
        asked(&mut flow, &[Bind, Execute, Sync]);
        assert_eq!(answers(&mut flow, b"2G"), [Some(Bind), Some(Execute)]);
        assert!(flow.wants_data());
        asked(&mut flow, &[CopyData, CopyData, CopyEnd, Sync]);
        assert_eq!(answers(&mut flow, b"CZ"), [Some(Execute), Some(Sync)]);
        assert!(flow.is_settled() && !flow.wants_data());
        // The same with data that the server refuses.
        asked(&mut flow, &[Bind, Execute, Sync]);
        answers(&mut flow, b"2G");
        asked(&mut flow, &[CopyData]);
        answers(&mut flow, b"E");
        asked(&mut flow, &[CopyEnd, Sync]);
        answers(&mut flow, b"Z");
        asked(&mut flow, &[Asked::Query]);
        assert_eq!(answers(&mut flow, b"CZ"), [Some(Asked::Query); 2]);
        assert!(flow.is_settled());
    }

    #[test]
    fn data_of_a_simple_copy_leave_nothing_behind() {
        let mut flow = Flow::default();
        asked(&mut flow, &[Asked::Query]);
        answers(&mut flow, b"G");
        asked(&mut flow, &[Asked::CopyData, Asked::CopyEnd]);
        assert_eq!(answers(&mut flow, b"CZ"), [Some(Asked::Query); 2]);
        asked(&mut flow, &[Asked::Query]);
        assert_eq!(answers(&mut flow, b"ACZ"), [None, Some(Asked::Query), Some(Asked::Query)]);
    }

    #[test]
    fn answers_to_the_proxy_are_marked() {
        let mut flow = Flow::default();
        let own = Sent { injected: true, ..Sent::default() };
        flow.ask(Asked::Query, own);
        flow.ask(Asked::Query, Sent::default());
        let injected: Vec<bool> =
            b"NCZCZ".iter().map(|&k| flow.receive(k, Some(b'T')).sent.injected).collect();
        assert_eq!(injected, [true, true, true, false, false]);
        assert_eq!(flow.status(), Status::Open);
        // Of a pipeline that fails in a statement of the proxy, the end is the client's.
        flow.ask(Asked::Execute, own);
        flow.ask(Asked::Close, own);
        flow.ask(Asked::Sync, Sent::default());
        let injected: Vec<bool> = b"ESZ".iter().map(|&k| flow.receive(k, Some(b'I')).sent.injected).collect();
        assert_eq!(injected, [true, false, false]);
    }

    #[test]
    fn a_statement_that_comes_first_is_apart_until_it_completes() {
        let mut flow = Flow::default();
        flow.ask(Asked::Query, Sent { preceded: true, number: 7, ..Sent::default() });
        let seen: Vec<bool> = b"TDCTDCZ".iter().map(|&k| flow.receive(k, Some(b'I')).sent.preceded).collect();
        assert_eq!(seen, [true, true, true, false, false, false, false]);
        flow.ask(Asked::Query, Sent { preceded: true, ..Sent::default() });
        let seen: Vec<bool> = b"EZ".iter().map(|&k| flow.receive(k, Some(b'E')).sent.preceded).collect();
        assert_eq!(seen, [true, false]);
        assert!(flow.is_settled());
    }

    #[test]
    fn places_in_a_text_with_an_addition() {
        let addition = Addition { at: 9, length: 5, widens: true };
        let found: Vec<usize> = [1, 9, 10, 14, 15, 20].map(|place| addition.undone(place)).to_vec();
        assert_eq!(found, [1, 9, 10, 10, 10, 15]);
    }
}
