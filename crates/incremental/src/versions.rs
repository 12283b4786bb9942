//! The versions of keys, and what is known about their order.

use crate::fact::Node;
use anomalist_history::{KeyId, Value};

pub(crate) type VersionId = u32;

/// Who wrote a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writer {
    /// It was read, and its writer has not arrived.
    Pending,
    /// The initial state.
    Initial,
    /// A transaction of unknown outcome of which nothing was read yet.
    Held(u32),
    /// A transaction that took no effect.
    Aborted,
    /// A transaction that counts.
    Node(Node),
}

#[derive(Debug)]
pub(crate) struct Version {
    pub key: KeyId,
    pub writer: Writer,
    /// Its writer did not write the key again.
    pub is_final: bool,
    /// The one before it that the same transaction appended.
    pub after_own: Option<VersionId>,
    /// The next version, where that is known.
    pub next: Option<VersionId>,
    pub previous: Option<VersionId>,
    /// Of a list: its place in what reads show.
    pub place: Option<usize>,
    /// It is taken to follow the initial state only because its writer did not read the key.
    pub is_blind: bool,
    /// Transactions that read it from others.
    pub readers: Vec<Node>,
    /// The first transaction that showed it.
    pub shown_by: Option<Node>,
}

impl Version {
    pub fn new(key: KeyId, writer: Writer) -> Version {
        Version {
            key,
            writer,
            is_final: true,
            after_own: None,
            next: None,
            previous: None,
            place: None,
            is_blind: false,
            readers: Vec::new(),
            shown_by: None,
        }
    }

    pub fn node(&self) -> Option<Node> {
        match self.writer {
            Writer::Node(node) => Some(node),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Register,
    List,
}

/// A key.
#[derive(Debug)]
pub(crate) struct Key {
    pub kind: Kind,
    pub initial: VersionId,
    /// Of a list: the versions that reads show, and their elements.
    pub order: Vec<VersionId>,
    pub elements: Vec<Value>,
    /// Of a list: appends that no read shows.
    pub unplaced: Vec<VersionId>,
    /// Of a list: the gap behind the last version that a read shows.
    pub gap: Option<Node>,
    /// Of a list: the transaction that read the last version and appended to it.
    pub head: Option<Node>,
}

impl Key {
    /// The last version that a read shows.
    pub fn tail(&self) -> VersionId {
        self.order.last().copied().unwrap_or(self.initial)
    }
}
