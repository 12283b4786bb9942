//! Operations as Jepsen records them: not transactions of reads and writes, but calls of any function with
//! any value.
//!
//! An [`Events`] is the file in its order; [`Events::operations`] pairs invocations with completions. This
//! is what the models of elle-cli (bank, counter, set, …) and the linearizability checker read. Order is
//! position in the file, as in Jepsen, where `time` is for people.
//!
//! Pairing is per process: an invocation opens, the next completion of the process closes. What never
//! completes, or is followed by another invocation of its process, is indeterminate. A completion without
//! an invocation is an operation that began at any time after the process's last one. A completion of no
//! process is paired with the one open invocation that fits: of the same function and value, where nil
//! stands for what is not known yet. If several fit, it began at any time, and [`Events::unpaired`] says
//! so. O(n), but for operations of no process times their concurrency.

use crate::Datum;
use std::collections::{HashMap, HashSet};

/// The type of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventKind {
    /// A client asks for something.
    Invoke,
    /// It was done.
    Ok,
    /// It was not done, and never will be.
    Fail,
    /// Not known; it may still be done.
    Info,
}

impl EventKind {
    /// The event of this name.
    pub fn from_name(name: &[u8]) -> Option<EventKind> {
        Some(match name {
            b"invoke" => EventKind::Invoke,
            b"ok" => EventKind::Ok,
            b"fail" => EventKind::Fail,
            b"info" => EventKind::Info,
            _ => return None,
        })
    }

    /// `invoke`, `ok`, `fail` or `info`.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::Invoke => "invoke",
            EventKind::Ok => "ok",
            EventKind::Fail => "fail",
            EventKind::Info => "info",
        }
    }
}

/// Who ran an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Process {
    /// The file does not say.
    Missing,
    /// Not an integer: the nemesis.
    Other,
    /// A client.
    Client(i64),
}

/// One line of a Jepsen history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its type.
    pub kind: EventKind,
    /// Who ran it.
    pub process: Process,
    /// What was called; empty if the file does not say.
    pub f: Box<str>,
    /// With what, or with what result.
    pub value: Datum,
    /// Its number in the recording, if it has one.
    pub index: Option<i64>,
    /// Nanoseconds since the start, if recorded.
    pub time: Option<i64>,
    /// The line of the file it begins on.
    pub line: u32,
}

impl Event {
    /// The event as the file has it, without its place.
    pub fn datum(&self, position: usize) -> Datum {
        let process = match self.process {
            Process::Client(p) => Datum::Int(p),
            Process::Other => Datum::keyword("nemesis"),
            Process::Missing => Datum::Nil,
        };
        let index = self.index.map_or_else(|| Datum::count(position), Datum::Int);
        let mut entries = vec![
            ("index", index),
            ("type", Datum::keyword(self.kind.name())),
            ("process", process),
            ("f", Datum::keyword(&self.f)),
            ("value", self.value.clone()),
        ];
        if let Some(time) = self.time {
            entries.push(("time", Datum::Int(time)));
        }
        Datum::map(entries)
    }
}

/// A recorded run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Events {
    events: Vec<Event>,
}

/// One client operation: an invocation with its completion, as positions in the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Where it was invoked, if recorded and known to be this operation's.
    pub invocation: Option<usize>,
    /// Where it completed.
    pub completion: Option<usize>,
    /// `Ok`, `Fail` or `Info`.
    pub outcome: EventKind,
    /// It began at this position or later.
    pub began: usize,
}

impl Operation {
    /// The position after which it was surely done; none if it is indeterminate.
    pub fn ended(&self) -> Option<usize> {
        self.completion.filter(|_| self.outcome != EventKind::Info)
    }

    /// The event that shows it best: its completion, or else its invocation.
    pub fn shown(&self) -> usize {
        self.completion.or(self.invocation).unwrap_or(self.began)
    }

    /// True if it took effect for certain.
    pub fn is_ok(&self) -> bool {
        self.outcome == EventKind::Ok
    }

    /// True if it did not take effect.
    pub fn failed(&self) -> bool {
        self.outcome == EventKind::Fail
    }
}

impl Events {
    /// A recording of these events, in this order.
    pub fn new(events: Vec<Event>) -> Events {
        Events { events }
    }

    /// Adds an event at the end.
    pub fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// True if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The event at a position.
    ///
    /// # Panics
    /// If there is none.
    pub fn get(&self, position: usize) -> &Event {
        &self.events[position]
    }

    /// All events in order.
    pub fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// The event at a position as the file has it.
    pub fn datum(&self, position: usize) -> Datum {
        self.events[position].datum(position)
    }

    /// What was called in an operation.
    pub fn f(&self, op: &Operation) -> &str {
        &self.events[op.shown()].f
    }

    /// What an operation was asked to do: the value of its invocation, or of its completion if there is
    /// none.
    pub fn argument(&self, op: &Operation) -> &Datum {
        &self.events[op.invocation.unwrap_or(op.shown())].value
    }

    /// What an operation that is `ok` returned.
    pub fn result(&self, op: &Operation) -> &Datum {
        &self.events[op.shown()].value
    }

    /// The operations of clients, in the order in which they began.
    pub fn operations(&self) -> Vec<Operation> {
        let mut ops: Vec<Operation> = Vec::new();
        // Per process: its open operation, and the position after its last completion.
        let mut clients: HashMap<i64, (Option<usize>, usize)> = HashMap::new();
        let (mut nameless, mut tainted): (Vec<usize>, HashSet<&str>) = (Vec::new(), HashSet::new());
        for (position, event) in self.events.iter().enumerate() {
            let fresh = |began| Operation {
                invocation: None,
                completion: Some(position),
                outcome: event.kind,
                began,
            };
            let invoked = Operation {
                invocation: Some(position),
                completion: None,
                outcome: EventKind::Info,
                began: position,
            };
            match (event.process, event.kind) {
                (Process::Other, _) => {}
                (Process::Client(p), EventKind::Invoke) => {
                    clients.entry(p).or_insert((None, 0)).0 = Some(ops.len());
                    ops.push(invoked);
                }
                (Process::Client(p), kind) => {
                    let (open, after) = clients.entry(p).or_insert((None, 0));
                    match open.take() {
                        Some(op) => {
                            ops[op].completion = Some(position);
                            ops[op].outcome = kind;
                        }
                        None => ops.push(fresh(*after)),
                    }
                    *after = position + 1;
                }
                (Process::Missing, EventKind::Invoke) => {
                    nameless.push(ops.len());
                    ops.push(invoked);
                }
                (Process::Missing, kind) => match self.asked(event, &nameless, &ops) {
                    Asked::By(place) if !tainted.contains(&*event.f) => {
                        let op = nameless.remove(place);
                        ops[op].completion = Some(position);
                        ops[op].outcome = kind;
                    }
                    // When it was asked for stays open, and with it which invocations of the function are.
                    Asked::By(place) | Asked::BySome(place) => {
                        tainted.insert(&*event.f);
                        ops[nameless.remove(place)] = fresh(0);
                    }
                    Asked::ByNone => ops.push(fresh(0)),
                },
            }
        }
        ops.sort_by_key(|op| (op.began, op.shown()));
        ops
    }

    /// Which of the open invocations of no process this completion answers.
    fn asked(&self, completion: &Event, open: &[usize], ops: &[Operation]) -> Asked {
        let fits = |place: &usize| {
            let invocation = ops[open[*place]].invocation.map(|at| &self.events[at]);
            invocation
                .is_some_and(|asked| asked.f == completion.f && is_answer(&asked.value, &completion.value))
        };
        let mut fitting = (0..open.len()).filter(fits);
        match (fitting.next(), fitting.next()) {
            (None, _) => Asked::ByNone,
            (Some(only), None) => Asked::By(only),
            (Some(first), Some(_)) => Asked::BySome(first),
        }
    }

    /// True if some operation of no process completed, and it is not known when it began.
    pub fn unpaired(&self) -> bool {
        let unknown =
            |op: &Operation| op.invocation.is_none() && self.events[op.shown()].process == Process::Missing;
        self.events.iter().any(|e| e.process == Process::Missing) && self.operations().iter().any(unknown)
    }
}

/// True if a value may be the answer to another: nil stands for what was not known yet.
fn is_answer(asked: &Datum, answer: &Datum) -> bool {
    match (asked, answer) {
        (Datum::Nil, _) => true,
        (Datum::List(a), Datum::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_answer(a, b))
        }
        (a, b) => a == b,
    }
}

/// Which invocation a completion of no process answers, by its place among the open ones.
enum Asked {
    By(usize),
    /// One of several, of which this is the first.
    BySome(usize),
    ByNone,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, process: Process, value: i64) -> Event {
        Event { kind, process, f: "add".into(), value: Datum::Int(value), index: None, time: None, line: 1 }
    }

    #[test]
    fn operations_are_paired_per_process() {
        let c = Process::Client;
        let events = Events::new(vec![
            event(EventKind::Invoke, c(0), 1),         // 0 completes at 3
            event(EventKind::Invoke, c(1), 2),         // 1 abandoned: followed by 4
            event(EventKind::Info, Process::Other, 0), // 2 the nemesis
            event(EventKind::Ok, c(0), 1),             // 3
            event(EventKind::Invoke, c(1), 3),         // 4 never completes
            event(EventKind::Ok, c(0), 4),             // 5 no invocation: after 3
            event(EventKind::Invoke, Process::Missing, 5),
            event(EventKind::Ok, Process::Missing, 5),
            event(EventKind::Fail, Process::Missing, 6),
            event(EventKind::Invoke, Process::Missing, 7),
            event(EventKind::Invoke, Process::Missing, 7),
            event(EventKind::Ok, Process::Missing, 7),
        ]);
        assert!(events.unpaired());
        let shown: Vec<_> = events
            .operations()
            .iter()
            .map(|o| (o.invocation, o.completion, o.outcome.name(), o.began))
            .collect();
        assert_eq!(
            shown,
            [
                (Some(0), Some(3), "ok", 0),
                (None, Some(8), "fail", 0),
                (None, Some(11), "ok", 0),
                (Some(1), None, "info", 1),
                (Some(4), None, "info", 4),
                (None, Some(5), "ok", 4),
                (Some(6), Some(7), "ok", 6),
                (Some(10), None, "info", 10),
            ]
        );
    }
}
