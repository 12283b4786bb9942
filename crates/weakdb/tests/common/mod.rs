//! Straight-line programs, run against a store statement by statement in a given order.

#![allow(clippy::unwrap_used)]
#![allow(dead_code)]

use anomalist_history::History;
use anomalist_level::Level;
use anomalist_testkit::oracle;
use anomalist_weakdb::{Choice, Error, Options, Session, Store, TxnName};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

pub const LEVELS: [Level; 6] = [
    Level::ReadCommitted,
    Level::ReadAtomic,
    Level::Causal,
    Level::Prefix,
    Level::StrongSessionSnapshotIsolation,
    Level::StrongSessionSerializable,
];

/// What the definition says.
pub fn oracle(history: &History, level: Level) -> bool {
    oracle::decide(history, level) == Some(true)
}

pub const KEYS: [&str; 3] = ["x", "y", "z"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Read(usize),
    Write(usize),
}

/// Sessions of transactions of operations.
pub type Program = Vec<Vec<Vec<Op>>>;

pub fn random_program(
    rng: &mut fastrand::Rng,
    sessions: usize,
    txns: usize,
    ops: usize,
    keys: usize,
) -> Program {
    let op = |rng: &mut fastrand::Rng| {
        let key = rng.usize(..keys);
        if rng.bool() { Op::Read(key) } else { Op::Write(key) }
    };
    (0..sessions)
        .map(|_| {
            (0..rng.usize(1..=txns)).map(|_| (0..rng.usize(1..=ops)).map(|_| op(rng)).collect()).collect()
        })
        .collect()
}

/// An operation that happened, with the value read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub op: Op,
    pub value: i64,
}

pub struct Client {
    /// Until its program is finished.
    session: Option<Session>,
    /// Transactions that committed or are open, by their number in the session.
    pub txns: BTreeMap<u32, Vec<Done>>,
    begun: u32,
    next: usize,
    open: Option<usize>,
}

impl Client {
    /// A session that is over makes room for others, which must not be seen in what these are allowed.
    fn end(&mut self, transactions: usize) {
        if self.next == transactions {
            self.session = None;
        }
    }
}

/// A program at work.
pub struct Run {
    pub store: Arc<Store>,
    pub clients: Vec<Client>,
    program: Program,
    written: i64,
    pub refused: usize,
}

/// What a step did.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Finished,
    Read,
    Other,
}

impl Run {
    pub fn new(program: &Program, options: Options) -> Run {
        let store = Store::new(options).unwrap();
        let clients = (0..program.len())
            .map(|i| Client {
                session: Some(store.session(&i.to_string())),
                txns: BTreeMap::new(),
                begun: 0,
                next: 0,
                open: None,
            })
            .collect();
        Run { store, clients, program: program.clone(), written: 0, refused: 0 }
    }

    /// The next statement of the session; begin goes with the first and commit with the last operation.
    pub fn step(&mut self, s: usize) -> Step {
        let client = &mut self.clients[s];
        let Some(body) = self.program[s].get(client.next) else { return Step::Finished };
        let session = client.session.as_mut().unwrap();
        let at = match client.open {
            Some(at) => at,
            None => {
                session.begin().unwrap();
                client.txns.insert(client.begun, Vec::new());
                client.begun += 1;
                0
            }
        };
        let log = client.txns.get_mut(&(client.begun - 1)).unwrap();
        let step = match body[at] {
            Op::Read(k) => {
                let value = session.read(KEYS[k]).unwrap().map_or(0, |v| v.as_int().unwrap());
                log.push(Done { op: body[at], value });
                Step::Read
            }
            Op::Write(k) => {
                self.written += 1;
                session.write(KEYS[k], self.written).unwrap();
                log.push(Done { op: body[at], value: self.written });
                Step::Other
            }
        };
        client.open = Some(at + 1);
        if at + 1 == body.len() {
            client.open = None;
            client.next += 1;
            if let Err(Error::Serialization(_)) = session.commit() {
                client.txns.remove(&(client.begun - 1));
                self.refused += 1;
            }
            client.end(self.program[s].len());
        }
        step
    }

    /// Rolls the session's open transaction back, if there is one; the program goes on with the next.
    pub fn abort(&mut self, s: usize) {
        let client = &mut self.clients[s];
        if client.open.take().is_some() {
            client.session.as_mut().unwrap().rollback().unwrap();
            client.txns.remove(&(client.begun - 1));
            client.next += 1;
            client.end(self.program[s].len());
        }
    }

    pub fn is_finished(&self, s: usize) -> bool {
        self.clients[s].next == self.program[s].len()
    }

    pub fn has_open(&self, s: usize) -> bool {
        self.clients[s].open.is_some()
    }

    /// The value that this transaction left in the key.
    pub fn left(&self, name: Option<TxnName>, key: usize) -> i64 {
        let Some(name) = name else { return 0 };
        let ops = &self.clients[name.session as usize].txns[&name.transaction];
        ops.iter().rev().find(|d| d.op == Op::Write(key)).unwrap().value
    }

    /// What happened, open transactions included, in the mini-language; with another value for the last
    /// operation of this session.
    pub fn text(&self, instead: Option<(usize, i64)>) -> String {
        let mut text = String::new();
        for (s, client) in self.clients.iter().enumerate() {
            if client.txns.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push_str(" || ");
            }
            for (i, ops) in client.txns.values().enumerate() {
                text.push_str(if i > 0 { "; " } else { "" });
                for (j, done) in ops.iter().enumerate() {
                    let last = i + 1 == client.txns.len() && j + 1 == ops.len();
                    let value = instead.filter(|&(of, _)| of == s && last).map_or(done.value, |(_, v)| v);
                    let (letter, key) = match done.op {
                        Op::Read(k) => ('r', k),
                        Op::Write(k) => ('w', k),
                    };
                    write!(text, "{}{letter}({},{value})", if j > 0 { " " } else { "" }, KEYS[key]).unwrap();
                }
            }
        }
        text
    }

    pub fn choices(&self) -> Vec<Choice> {
        self.store.choices()
    }
}
