//! `--state DIR`: what survives the process.
//!
//! The checker's state is in its store, as of the last checkpoint. Beside it are two logs, in generations
//! that begin at a checkpoint: the journal, with what arrived since from sources that cannot be read again
//! (files can, so of them the position is kept), and the events reported since. A restart takes up the
//! checkpoint, learns from the log what was reported, and feeds the journal, then the sources, to the
//! checker again. An event is in the log before it is printed, and how far printing got is noted after;
//! what was logged and perhaps not printed is printed (again) first, with the number it had. So are the
//! faults of the stream: those that the log has are not reported again when their lines are fed again.
//!
//! This is safe against the end of the process at any point. The end of the machine may cost what arrived
//! since the last checkpoint, because logs are forced to disk only when they end: a log that follows
//! another is found only if the other is whole.

use super::frames::FrameLog;
use super::ingest::Place;
use super::medium::{How, Opened, Shared};
use super::report::Lines;
use super::store::DiskStore;
use crate::exit::Failure;
use anomalist_online::{Reported, decode_reported, encode_reported};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How far a source that can be read again was taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes.
    pub offset: u64,
    /// The first of them.
    pub beginning: Vec<u8>,
    /// Where its lines stand.
    pub place: Place,
}

/// What a checkpoint says beside the checker's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// What was checked; a state is good for nothing else.
    pub subject: String,
    /// The logs that follow it.
    pub generation: u32,
    /// Number of the next event.
    pub seq: u64,
    /// Faults of the stream so far.
    pub faults: u64,
    /// The clock.
    pub now: u64,
    /// Lines read, malformed, without timestamps.
    pub lines: [u64; 3],
    /// Sources that can be read again, standard input, and connections that were open.
    pub positions: BTreeMap<String, Position>,
    /// Lines taken in from sources that have given a name.
    pub named: BTreeMap<String, u64>,
}

impl Extra {
    pub fn encode(&self) -> Vec<u8> {
        let positions: Vec<Value> = self
            .positions
            .iter()
            .map(|(name, p)| {
                json!({"name": name, "offset": p.offset, "beginning": p.beginning, "lines": p.place.lines,
                    "begun": p.place.begun, "array": p.place.array, "open": p.place.open, "open_line": p.place.open_line})
            })
            .collect();
        json!({"subject": self.subject, "generation": self.generation, "seq": self.seq, "faults": self.faults, "now": self.now,
            "lines": self.lines, "positions": positions, "named": self.named})
        .to_string()
        .into_bytes()
    }

    pub fn decode(bytes: &[u8]) -> Option<Extra> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let number = |value: &Value, name: &str| value.get(name)?.as_u64();
        let bytes = |value: &Value, name: &str| -> Option<Vec<u8>> {
            value.get(name)?.as_array()?.iter().map(|b| u8::try_from(b.as_u64()?).ok()).collect()
        };
        let mut lines = [0; 3];
        for (line, value) in lines.iter_mut().zip(value.get("lines")?.as_array()?) {
            *line = value.as_u64()?;
        }
        let positions = value.get("positions")?.as_array()?.iter().map(|p| {
            let place = Place {
                lines: number(p, "lines")?,
                begun: p.get("begun")?.as_bool()?,
                array: p.get("array")?.as_bool()?,
                open: bytes(p, "open")?,
                open_line: number(p, "open_line")?,
            };
            let position =
                Position { offset: number(p, "offset")?, beginning: bytes(p, "beginning")?, place };
            Some((p.get("name")?.as_str()?.to_owned(), position))
        });
        let named =
            value.get("named")?.as_object()?.iter().map(|(name, n)| Some((name.clone(), n.as_u64()?)));
        Some(Extra {
            subject: value.get("subject")?.as_str()?.to_owned(),
            generation: u32::try_from(number(&value, "generation")?).ok()?,
            seq: number(&value, "seq")?,
            faults: number(&value, "faults")?,
            now: number(&value, "now")?,
            lines,
            positions: positions.collect::<Option<_>>()?,
            named: named.collect::<Option<_>>()?,
        })
    }

    pub fn set_lines(&mut self, lines: Lines) {
        self.lines = [lines.read, lines.malformed, lines.untimed];
    }

    pub fn get_lines(&self) -> Lines {
        let [read, malformed, untimed] = self.lines;
        Lines { read, malformed, untimed }
    }
}

/// An event of the log, or a fault of the stream.
pub struct Logged {
    /// Its number among those, or among faults.
    pub seq: u64,
    /// `None`: a fault.
    pub reported: Option<Reported>,
    pub line: String,
}

/// A block of the journal.
pub struct Journaled {
    pub name: String,
    pub last: bool,
    pub bytes: Vec<u8>,
}

/// The logs of a state.
pub struct State {
    medium: Shared,
    generation: u32,
    journal: FrameLog,
    events: FrameLog,
    printed: Printed,
}

/// What the logs held.
#[derive(Default)]
pub struct Recovered {
    pub events: Vec<Logged>,
    pub journal: Vec<Journaled>,
    /// Events up to this number were printed, and this many faults.
    pub printed: [u64; 2],
}

/// How far printing got: two numbers and a checksum, in two slots by turns. Half of a slot does not count,
/// and then the other does.
struct Printed {
    file: Box<dyn Opened>,
    slot: u64,
}

impl Printed {
    const NUMBERS: usize = 16;
    const SLOT: usize = Printed::NUMBERS + 4;

    fn open(medium: &Shared) -> std::io::Result<(Printed, [u64; 2])> {
        let file = medium.open("printed", How::Any)?;
        let (mut known, mut newest) = ([0; 2], 0);
        for slot in 0..2 {
            let mut bytes = [0; Printed::SLOT];
            let (numbers, sum) = match file.read(&mut bytes, slot * Printed::SLOT as u64) {
                Ok(()) => bytes.split_at(Printed::NUMBERS),
                Err(_) => continue,
            };
            if sum == crc32fast::hash(numbers).to_le_bytes() {
                let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
                let found = [number(&numbers[..8]), number(&numbers[8..])];
                // Both only grow.
                if found >= known {
                    (known, newest) = (found, slot);
                }
            }
        }
        Ok((Printed { file, slot: newest }, known))
    }

    fn note(&mut self, seq: u64, faults: u64) -> std::io::Result<()> {
        let numbers = [seq.to_le_bytes(), faults.to_le_bytes()].concat();
        let sum = crc32fast::hash(&numbers).to_le_bytes();
        self.slot = 1 - self.slot;
        self.file.write(&[&numbers[..], &sum].concat(), self.slot * Printed::SLOT as u64)
    }
}

fn name_of(what: &str, generation: u32) -> String {
    format!("{what}-{generation}")
}

impl State {
    /// The store of a state.
    pub fn store(medium: &Shared, segment: u64) -> Result<DiskStore, Failure> {
        DiskStore::open(medium.clone(), segment).map_err(|error| {
            Failure::input(format_args!("{}: {error} (is another watch using this state?)", medium.shown()))
        })
    }

    /// Opens the logs, and reads what they hold since a generation.
    pub fn open(medium: Shared, since: u32) -> Result<(State, Recovered), Failure> {
        let opened = State::open_logs(medium.clone(), since);
        opened.map_err(|error| Failure::input(format_args!("{}: {error}", medium.shown())))
    }

    fn open_logs(medium: Shared, since: u32) -> std::io::Result<(State, Recovered)> {
        let mut recovered = Recovered::default();
        let mut generation = since;
        let names = medium.names()?;
        let (journal, events) = loop {
            let (journal, blocks) = FrameLog::open(&*medium, &name_of("journal", generation))?;
            recovered.journal.extend(blocks.into_iter().filter_map(decode_block));
            let (events, logged) = FrameLog::open(&*medium, &name_of("events", generation))?;
            recovered.events.extend(logged.iter().filter_map(|frame| decode_event(frame)));
            if !names.contains(&name_of("journal", generation + 1)) {
                break (journal, events);
            }
            generation += 1;
        };
        let (printed, known) = Printed::open(&medium)?;
        recovered.printed = known;
        Ok((State { medium, generation, journal, events, printed }, recovered))
    }

    fn io(&self, error: std::io::Error) -> Failure {
        Failure::input(format_args!("{}: {error}", self.medium.shown()))
    }

    /// Keeps a block that cannot be read again.
    pub fn journal(&mut self, name: &str, last: bool, bytes: &[u8]) -> Result<(), Failure> {
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX).to_le_bytes();
        let frame = [&length[..], name.as_bytes(), &[u8::from(last)], bytes].concat();
        self.journal.append([&frame[..]]).map_err(|error| self.io(error))
    }

    /// Keeps events that are about to be printed.
    pub fn log(&mut self, events: &[Logged]) -> Result<(), Failure> {
        let frames: Vec<Vec<u8>> = events
            .iter()
            .map(|event| {
                let reported = event.reported.as_ref().map_or_else(Vec::new, encode_reported);
                let length = u32::try_from(reported.len()).unwrap_or(u32::MAX).to_le_bytes();
                [&event.seq.to_le_bytes()[..], &length, &reported, event.line.as_bytes()].concat()
            })
            .collect();
        self.events.append(frames.iter().map(Vec::as_slice)).map_err(|error| self.io(error))
    }

    /// Notes that events up to a number were printed, and so many faults.
    pub fn printed(&mut self, seq: u64, faults: u64) -> Result<(), Failure> {
        self.printed.note(seq, faults).map_err(|error| self.io(error))
    }

    /// Begins the logs that follow the next checkpoint; its number.
    pub fn turn(&mut self) -> Result<u32, Failure> {
        self.follow().map_err(|error| self.io(error))?;
        Ok(self.generation)
    }

    fn follow(&mut self) -> std::io::Result<()> {
        self.journal.sync()?;
        self.events.sync()?;
        let next = self.generation + 1;
        // The events first: a journal without its events is found at a restart, and read with an empty log.
        self.events = FrameLog::open(&*self.medium, &name_of("events", next))?.0;
        self.journal = FrameLog::open(&*self.medium, &name_of("journal", next))?.0;
        self.generation = next;
        Ok(())
    }

    /// The checkpoint is safe: older logs are not needed.
    pub fn forget_older(&self) {
        for name in self.medium.names().unwrap_or_default() {
            let number = name.strip_prefix("journal-").or_else(|| name.strip_prefix("events-"));
            if number.and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n < self.generation) {
                _ = self.medium.remove(&name);
            }
        }
    }
}

fn split_number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number) as usize, rest))
}

fn decode_block(frame: Vec<u8>) -> Option<Journaled> {
    let (length, rest) = split_number(&frame)?;
    let (name, rest) = rest.split_at_checked(length)?;
    let (last, bytes) = rest.split_first()?;
    Some(Journaled {
        name: String::from_utf8_lossy(name).into_owned(),
        last: *last != 0,
        bytes: bytes.to_vec(),
    })
}

fn decode_event(frame: &[u8]) -> Option<Logged> {
    let (seq, rest) = frame.split_first_chunk::<8>()?;
    let (length, rest) = split_number(rest)?;
    let (reported, line) = rest.split_at_checked(length)?;
    let line = String::from_utf8_lossy(line).into_owned();
    let reported = if reported.is_empty() { None } else { Some(decode_reported(reported).ok()?) };
    Some(Logged { seq: u64::from_le_bytes(*seq), reported, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_comes_back() {
        let place = Place { lines: 3, begun: true, array: true, open: b"{\"x\xff".to_vec(), open_line: 2 };
        let extra = Extra {
            subject: "si".into(),
            generation: 4,
            seq: 17,
            faults: 3,
            now: 99,
            lines: [9, 1, 2],
            positions: [("f".to_owned(), Position { offset: 7, beginning: vec![0, 255], place })].into(),
            named: [("a".to_owned(), 5)].into(),
        };
        assert_eq!(Extra::decode(&extra.encode()), Some(extra));
        assert_eq!(Extra::decode(b"{}"), None);
    }
}
