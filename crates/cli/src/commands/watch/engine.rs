//! What a watch does with a block of lines: keep it if it cannot be had again, check it, log and print what
//! there is to report, answer the sender; and now and then a checkpoint.
//!
//! It has no clock, no threads and no terminal of its own, and its folder is a [`Medium`](super::medium):
//! `run` gives it those of the machine, `crates/simulate` those of a simulation.

use super::earlier::{self, Earlier};
use super::ingest::{Block, Ingest, Parsed, Place, Taken};
use super::medium::Shared;
use super::report::{Lines, Voice};
use super::sources::{BEGINNING, Known, NAMED};
use super::state::{Extra, Journaled, Logged, State};
use super::store::DiskStore;
use crate::exit::Failure;
use anomalist_online::{Batch, Checker, Event, Key128, Options};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

/// Standard input, as a source.
pub const STANDARD_INPUT: &str = "standard input";

/// What is watched, and how.
pub struct Setup {
    /// How to check.
    pub options: Options,
    /// How events are written.
    pub voice: Voice,
    /// What is checked; a state is good for nothing else.
    pub subject: String,
    /// What keys hold at first, unless the stream says so.
    pub initial: Option<Key128>,
    /// The source that can be read again.
    pub file: Option<String>,
    /// Where the state is kept, if anywhere, and how long its segments are.
    pub state: Option<(Shared, u64)>,
}

/// Who reads the events.
pub trait Audience {
    /// Takes note of an event, or of a line that could not be used; true if it need not be printed.
    fn note(&mut self, event: Option<&Event>, line: &str) -> bool;
    /// Prints lines, all of them or none before this returns.
    fn print(&mut self, text: &str) -> Result<(), Failure>;
}

/// A watch without its surroundings.
pub struct Engine<A> {
    /// Who reads the events.
    pub audience: A,
    /// The checker.
    pub checker: Checker<DiskStore>,
    /// Lines so far.
    pub lines: Lines,
    /// What a checkpoint says beside the checker's state.
    pub extra: Extra,
    /// How events are written.
    pub voice: Voice,
    state: Option<State>,
    known: Arc<Known>,
    file: Option<String>,
    events: Vec<Event>,
    /// Lines that could not be used, to be reported.
    bad: Vec<String>,
    /// Faults that an earlier process reported after its last checkpoint, with how often.
    heard: HashMap<String, u32>,
}

impl<A: Audience> Engine<A> {
    /// Goes on where an earlier process ended. What it returns is what had arrived by then.
    pub fn open(
        setup: Setup,
        known: Arc<Known>,
        mut audience: A,
    ) -> Result<(Engine<A>, Vec<Journaled>), Failure> {
        let Earlier { checker, state, extra, journal, heard } = earlier::open(&setup, &mut audience)?;
        known.lines.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&extra.named);
        let engine = Engine {
            audience,
            checker,
            lines: extra.get_lines(),
            extra,
            voice: setup.voice,
            state,
            known,
            file: setup.file,
            events: Vec::new(),
            bad: Vec::new(),
            heard,
        };
        Ok((engine, journal))
    }

    /// Whether there is no checkpoint yet.
    pub fn is_fresh(&self) -> bool {
        self.extra.generation == 0
    }

    /// Whether there is a state to keep.
    pub fn has_state(&self) -> bool {
        self.state.is_some()
    }

    /// Feeds the checker what had arrived when the last process ended.
    pub fn catch_up(
        &mut self,
        journal: Vec<Journaled>,
        ingest: &mut Ingest,
        now: u64,
    ) -> Result<(), Failure> {
        for (name, &lines) in &self.extra.named {
            ingest.resume(self.known.register(&format!("{NAMED}{name}")).0, Place::after(lines));
        }
        for (name, position) in &self.extra.positions {
            ingest.resume(self.known.register(name).0, position.place.clone());
        }
        for Journaled { name, last, bytes } in journal {
            let (source, name) = self.known.register(&name);
            let block = Block { source, name, bytes, last, reply: None, replayed: true, held: None };
            self.take(ingest.parse(block, Batch::default()), now)?;
        }
        // Connections ended with the process that they led to.
        let (file, known) = (self.file.as_deref(), &self.known);
        self.extra.positions.retain(|name, _| {
            let resumed = is_resumed(file, name);
            if !resumed {
                ingest.end(known.register(name).0, name);
            }
            resumed
        });
        Ok(())
    }

    /// Takes in a block; its batch can be used again.
    pub fn take(&mut self, parsed: Parsed, now: u64) -> Result<Batch, Failure> {
        let Parsed { block, batch, bad, place } = parsed;
        let again = self.file.as_deref() == Some(&*block.name);
        if let Some(state) = self.state.as_mut().filter(|_| !block.replayed && !again) {
            state.journal(&block.name, block.last, &block.bytes)?;
        }
        self.lines.read += memchr::memchr_iter(b'\n', &block.bytes).count() as u64;
        let lines = self.follow(&block, place);
        for bad in &bad {
            let count = if bad.untimed { &mut self.lines.untimed } else { &mut self.lines.malformed };
            *count += 1;
            self.bad.push(self.voice.bad_line(bad, self.known.name(bad.origin.source)));
        }
        self.checker.accept(&batch, now, &mut self.events)?;
        self.emit(!block.replayed)?;
        if let Some(reply) = block.reply {
            let taken = Taken { transactions: batch.len() as u64, malformed: bad.len() as u64, lines };
            // The client that asked may be gone.
            _ = reply.send(taken);
        }
        Ok(batch)
    }

    /// Notes how far a source was taken in; the number of its lines.
    fn follow(&mut self, block: &Block, place: Place) -> u64 {
        let lines = place.lines;
        if let Some(name) = block.name.strip_prefix(NAMED) {
            self.extra.named.insert(name.to_owned(), lines);
            let known = &mut *self.known.lines.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(name.to_owned(), lines);
        }
        if self.state.is_none() {
            return lines;
        }
        let resumed = is_resumed(self.file.as_deref(), &block.name);
        if block.last && !resumed {
            self.extra.positions.remove(&*block.name);
            return lines;
        }
        let position = self.extra.positions.entry(block.name.to_string()).or_default();
        position.place = place;
        if resumed {
            position.offset += block.bytes.len() as u64;
            let missing = BEGINNING.saturating_sub(position.beginning.len()).min(block.bytes.len());
            position.beginning.extend_from_slice(&block.bytes[..missing]);
        }
        lines
    }

    /// Prints what there is to report; verdicts that may change are printed only if a reader can see them
    /// change (`provisional`). Findings are numbered, and logged before they are printed, as are faults.
    fn emit(&mut self, provisional: bool) -> Result<(), Failure> {
        if self.events.is_empty() && self.bad.is_empty() {
            return Ok(());
        }
        let mut out = String::new();
        let mut logged = Vec::new();
        let faults = self.bad.drain(..).map(|line| (None, line));
        let events = self.events.drain(..).map(|event| (Some(event), String::new()));
        for (event, line) in faults.chain(events) {
            let before = out.len();
            match &event {
                Some(event) => {
                    out = self.voice.event(out, event, self.extra.seq, &|source| self.known.name(source));
                }
                None => out += &line,
            }
            let reported = event.as_ref().and_then(Event::reported);
            let next = match (&event, reported) {
                (_, Some(_)) => &mut self.extra.seq,
                (Some(Event::Provisional { .. }), _) if !provisional => {
                    out.truncate(before);
                    continue;
                }
                (Some(Event::Provisional { .. }), _) => &mut 0,
                _ => match self.heard.get_mut(&out[before..]) {
                    Some(times) if *times > 0 => {
                        *times -= 1;
                        out.truncate(before);
                        continue;
                    }
                    _ => &mut self.extra.faults,
                },
            };
            if *next > 0 {
                if self.state.is_some() {
                    logged.push(Logged { seq: *next, reported, line: out[before..].to_owned() });
                }
                *next += 1;
            }
            match self.audience.note(event.as_ref(), &out[before..]) {
                true => out.truncate(before),
                false => out.push('\n'),
            }
        }
        if let Some(state) = self.state.as_mut().filter(|_| !logged.is_empty()) {
            state.log(&logged)?;
        }
        if !out.is_empty() {
            self.audience.print(&out)?;
        }
        match &mut self.state {
            Some(state) if !logged.is_empty() => state.printed(self.extra.seq - 1, self.extra.faults - 1),
            _ => Ok(()),
        }
    }

    /// Reports what has settled, a piece at a time: there may be much of it at the end.
    pub fn settle(&mut self, now: u64) -> Result<(), Failure> {
        const PIECE: usize = 10_000;
        while self.checker.settle_some(now, PIECE, &mut self.events)? {
            self.emit(true)?;
        }
        self.emit(true)
    }

    /// Makes the state durable, if there is one.
    pub fn checkpoint(&mut self, now: u64) -> Result<(), Failure> {
        let Some(state) = &mut self.state else { return Ok(()) };
        self.extra.generation = state.turn()?;
        self.extra.now = now;
        self.extra.set_lines(self.lines);
        self.checker.checkpoint(&self.extra.encode())?;
        state.forget_older();
        Ok(())
    }
}

/// Whether a source goes on after a restart where it was: the file, and standard input.
fn is_resumed(file: Option<&str>, name: &str) -> bool {
    name == STANDARD_INPUT || file == Some(name)
}
