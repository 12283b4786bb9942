//! Pairs invocations with completions: Elle's events become transactions.

use super::{Event, Process};
use crate::load::ops::{Assembler, Cell, Columns, Operation};
use crate::load::{Reading, initial};
use crate::text::fault::Fault;
use crate::{Diagnostic, Loaded, Place, ReadError};
use anomalist_history::{AtomKind, Clock, Draft, EventKind, Interval, OpKind, Outcome, SessionId, Value};
use rustc_hash::FxHashMap;

/// An invocation that has not completed.
struct Open {
    position: u64,
    label: Value,
    line: u32,
}

/// A client process.
struct Client {
    session: SessionId,
    open: Option<Open>,
    /// What the open invocation asked for; reads are unknown.
    asked: Vec<Operation>,
}

/// How often something odd occurred, and where first.
#[derive(Default)]
struct Oddity {
    count: u64,
    line: u32,
}

impl Oddity {
    fn note(&mut self, line: u32) {
        if self.count == 0 {
            self.line = line;
        }
        self.count += 1;
    }

    /// "1 operation has", "3 operations have": the two forms of a message, reported if it occurred.
    fn tell(&self, reading: &mut Reading<'_>, one: &str, many: &str, then: &str) {
        match self.count {
            0 => {}
            1 => reading.warn(self.line, format!("{one}{then}")),
            n => reading.warn(self.line, format!("{n} {many}{then}")),
        }
    }
}

/// Operations without a process: what an invocation asks for tells which completion is its own, if no other
/// asks the same.
type Nameless = FxHashMap<Vec<Operation>, Vec<Open>>;

/// Pairs events.
#[derive(Default)]
pub(crate) struct Merger {
    assembler: Assembler,
    position: u64,
    invocations: u64,
    clients: FxHashMap<Value, Client>,
    nameless: Nameless,
    scratch: Vec<Operation>,
    other: Oddity,
    missing: Oddity,
    overlapping: Oddity,
    unopened: Oddity,
    /// Operations that are ok and have no value.
    silent: Oddity,
    /// Some operation has a list of micro-operations, be it empty.
    speaks: bool,
}

impl Merger {
    /// The next event of the file.
    pub fn merge(&mut self, mut event: Event, columns: &mut Columns, line: u32) -> Result<(), Fault> {
        let position = self.position;
        self.position += 1;
        if event.process == Process::Other {
            self.other.note(line);
            return Ok(());
        }
        if let Some(fault) = event.fault.take() {
            return Err(*fault);
        }
        self.speaks |= event.recorded;
        if event.kind == EventKind::Ok && !event.recorded {
            self.silent.note(line);
        }
        let label = match event.index {
            Some(index) => self.assembler.value(columns, index),
            None => self.assembler.builder.int(position as i64),
        };
        let open = Open { position, label, line };
        match event.process {
            Process::Client(process) => {
                let process = self.assembler.value(columns, process);
                self.client_event(process, open, &event, columns);
            }
            _ => self.nameless_event(open, &event, columns),
        }
        Ok(())
    }

    fn client_event(&mut self, process: Value, here: Open, event: &Event, columns: &mut Columns) {
        let assembler = &mut self.assembler;
        let client = self.clients.entry(process).or_insert_with(|| Client {
            session: assembler.builder.session(process),
            open: None,
            asked: Vec::new(),
        });
        if event.kind == EventKind::Invoke {
            self.invocations += 1;
            if let Some(open) = client.open.replace(here) {
                self.overlapping.note(open.line);
                abandon(assembler, client.session, &open, &client.asked);
            }
            assembler.keep(columns, event.mops.clone(), &mut client.asked);
            return;
        }
        let draft = begin(assembler, client.session, event.kind, &here);
        let open = client.open.take();
        match &open {
            Some(open) => {
                // After an `info` it is not known when, or whether, it took effect.
                let completed = (event.kind != EventKind::Info).then_some(here.position);
                assembler.builder.set_interval(draft, Interval { invoked: open.position, completed });
            }
            None => self.unopened.note(here.line),
        }
        let mops = event.mops.clone();
        // An ok without a value did what it was asked to do, and does not say what it read.
        let reported = event.kind == EventKind::Ok && event.recorded;
        if reported || open.is_none() || client.asked.is_empty() {
            assembler.add(draft, columns, mops, event.kind == EventKind::Ok);
            return;
        }
        // What it wrote is what it was asked to write; a read may have returned before things went wrong.
        if mops.len() == client.asked.len() {
            assembler.keep_reads(columns, mops, &mut client.asked);
        }
        assembler.add_operations(draft, &client.asked);
    }

    fn nameless_event(&mut self, here: Open, event: &Event, columns: &mut Columns) {
        self.missing.note(here.line);
        let assembler = &mut self.assembler;
        assembler.keep(columns, event.mops.clone(), &mut self.scratch);
        if event.kind == EventKind::Invoke {
            self.invocations += 1;
            self.nameless.entry(self.scratch.clone()).or_default().push(here);
            return;
        }
        let session = own_session(assembler, here.position);
        let draft = begin(assembler, session, event.kind, &here);
        let open = self.nameless.get_mut(&self.scratch);
        let alone = open.as_ref().is_some_and(|open| open.len() == 1);
        match open.and_then(Vec::pop) {
            Some(open) if alone => {
                let completed = (event.kind != EventKind::Info).then_some(here.position);
                assembler.builder.set_interval(draft, Interval { invoked: open.position, completed });
            }
            // Which of several that ask for the same does not matter, but then it is not known when it
            // began.
            _ => self.unopened.note(here.line),
        }
        assembler.add(draft, columns, event.mops.clone(), event.kind == EventKind::Ok);
    }

    /// The history.
    pub fn finish(mut self, mut reading: Reading<'_>) -> Result<Loaded, ReadError> {
        if self.silent.count > 0 && !self.speaks {
            let message = "expected a value in this ok operation, found none in the whole file";
            let place = Place::Line { line: self.silent.line, column: 1 };
            return Err(ReadError::Malformed(vec![Diagnostic::error(reading.name, place, message)]));
        }
        let assembler = &mut self.assembler;
        let mut left: Vec<(Option<SessionId>, Open, Vec<Operation>)> = Vec::new();
        for client in self.clients.into_values() {
            if let Some(open) = client.open {
                left.push((Some(client.session), open, client.asked));
            }
        }
        // What only asked to read says nothing.
        let asks_to_write = |asked: &[Operation]| asked.iter().any(|&(kind, _, _)| kind != OpKind::Read);
        for (asked, open) in self.nameless.into_iter().filter(|(asked, _)| asks_to_write(asked)) {
            left.extend(open.into_iter().map(|open| (None, open, asked.clone())));
        }
        // Also undoes the order of the maps.
        left.sort_unstable_by_key(|(_, open, _)| open.position);
        for (session, open, asked) in left {
            let own = session.unwrap_or_else(|| own_session(assembler, open.position));
            abandon(assembler, own, &open, &asked);
        }
        self.other.tell(
            &mut reading,
            "one operation of a process that is not an integer",
            "operations of processes that are not integers",
            " (nemesis): skipped",
        );
        self.missing.tell(
            &mut reading,
            "one operation without a process",
            "operations without a process",
            ": each transaction is taken as a session of its own",
        );
        self.overlapping.tell(
            &mut reading,
            "one operation was followed by another of its process before it completed",
            "operations were followed by another of their process before they completed",
            ": taken as indeterminate",
        );
        if self.invocations > 0 {
            let then = ": real-time order is not used";
            self.unopened.tell(
                &mut reading,
                "one completion without an invocation",
                "completions without an invocation",
                then,
            );
        }
        self.assembler.builder.set_clock(Clock::Events);
        let initial = initial::given(reading.options, &mut self.assembler.builder)?;
        reading.finish(self.assembler.finish(initial))
    }
}

/// A session for one transaction without a process.
fn own_session(assembler: &mut Assembler, position: u64) -> SessionId {
    let label = assembler.builder.atom(AtomKind::Token, &format!("?{position}"));
    assembler.builder.session(label)
}

fn begin(assembler: &mut Assembler, session: SessionId, kind: EventKind, here: &Open) -> Draft {
    let builder = &mut assembler.builder;
    let draft = builder.transaction(session);
    match kind {
        EventKind::Ok => {}
        EventKind::Fail => builder.set_outcome(draft, Outcome::Aborted),
        EventKind::Info | EventKind::Invoke => builder.set_outcome(draft, Outcome::Indeterminate),
    }
    builder.set_label(draft, here.label);
    builder.set_line(draft, here.line);
    draft
}

/// An invocation that will not complete.
fn abandon(assembler: &mut Assembler, session: SessionId, open: &Open, asked: &[Operation]) {
    let draft = begin(assembler, session, EventKind::Invoke, open);
    assembler.builder.set_interval(draft, Interval { invoked: open.position, completed: None });
    assembler.add_operations(draft, asked);
}

impl Assembler {
    /// Puts what the reads of a completion show in the place of what its invocation asked for.
    fn keep_reads(&mut self, columns: &mut Columns, mops: std::ops::Range<usize>, asked: &mut [Operation]) {
        for (i, slot) in mops.zip(asked) {
            let mop = columns.mops[i];
            if slot.0 == OpKind::Read && mop.kind == OpKind::Read && mop.cell != Cell::Nil {
                let read = self.operation(columns, mop, false);
                if read.1 == slot.1 {
                    *slot = read;
                }
            }
        }
    }
}
