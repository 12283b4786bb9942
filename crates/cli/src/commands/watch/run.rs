//! The loop: batches in, events out, and now and then a checkpoint.

use super::Flags;
use super::earlier::{self, Earlier};
use super::ingest::{Block, Ingest, Parsed, Taken};
use super::live::Live;
use super::metrics::{self, Snapshot};
use super::options;
use super::report::{Lines, Voice};
use super::room::Rooms;
use super::servers::Servers;
use super::sources::{self, BEGINNING, Hub, Known, NAMED, Resume};
use super::state::{Extra, Journaled, Logged, State};
use super::store::DiskStore;
use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::{interrupt, memory, supervised, terminal};
use anomalist_format::PathName;
use anomalist_online::{Batch, Checker, Event, Options, StoreError};
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the clock is looked at when nothing arrives.
const TICK: Duration = Duration::from_millis(20);
/// How often people and metrics learn how it goes.
const SHOW: Duration = Duration::from_millis(200);
/// Blocks on their way, each.
const DEPTH: usize = 4;

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::input(error)
    }
}

/// Watches.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let options = options::checker(flags)?;
    let voice = Voice { json: flags.json, level: flags.level, mode: options.rule.mode };
    let (blocks, received) = sync_channel::<Block>(DEPTH);
    let hub = Hub::new(blocks, Rooms::of(options::memory(flags)));
    let (mut watch, journal) = Watch::new(flags, options, voice, hub.known.clone())?;
    watch.live = Live::new(global, flags.json);
    let mut ingest = Ingest::default();
    watch.catch_up(journal, &mut ingest)?;
    let servers = Servers::start(flags, &hub, &watch.shared, &watch.voice)?;
    let source = match &flags.source {
        Some(path) => Some(path.as_path()),
        None if servers.is_source() => None,
        None => Some(Path::new("-")),
    };
    if let Some(path) = source {
        let registered = hub.known.register(&source_name(path));
        let resume = watch.extra.positions.get(&*registered.1).map_or_else(Resume::default, |position| {
            Resume { offset: position.offset, beginning: position.beginning.clone() }
        });
        sources::read_all(path, flags.follow, &hub, registered, resume)?;
    }
    // The loop ends when no source is left; servers are sources that never end.
    drop(hub);
    let (spare, used) = channel();
    watch.spare = Some(spare);
    let parsed = parse(ingest, received, used);
    watch.run(&parsed, flags.exit_when_idle)?;
    watch.end()
}

fn source_name(path: &Path) -> String {
    if path.as_os_str() == "-" { STANDARD_INPUT.to_owned() } else { path.shown() }
}

const STANDARD_INPUT: &str = "standard input";

/// Parses on a thread of its own, into batches that were used before if there are any: their memory is warm.
fn parse(mut ingest: Ingest, received: Receiver<Block>, used: Receiver<Batch>) -> Receiver<Parsed> {
    let (sender, parsed) = sync_channel(DEPTH);
    std::thread::spawn(move || {
        for block in received {
            if sender.send(ingest.parse(block, used.try_recv().unwrap_or_default())).is_err() {
                break;
            }
        }
    });
    parsed
}

/// Milliseconds in which something could arrive, since 1970 at first. After a restart they go on from the
/// checkpoint: a writer that a reader waits for cannot arrive while no process watches, so that time must
/// not settle anything.
struct Clock {
    start: Instant,
    base: u64,
}

impl Clock {
    fn new(before: u64) -> Clock {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        Clock { start: Instant::now(), base: if before > 0 { before } else { now() } }
    }

    fn now(&self) -> u64 {
        self.base + self.start.elapsed().as_millis() as u64
    }
}

/// A watch that is going on.
struct Watch {
    voice: Voice,
    checker: Checker<DiskStore>,
    state: Option<State>,
    known: Arc<Known>,
    /// The file that is read, and can be read again.
    file: Option<String>,
    extra: Extra,
    lines: Lines,
    events: Vec<Event>,
    /// Lines that could not be used, to be reported.
    bad: Vec<String>,
    /// Faults that an earlier process reported after its last checkpoint, with how often.
    heard: HashMap<String, u32>,
    clock: Clock,
    began: Instant,
    /// When something last arrived.
    active: Instant,
    checkpoint_every: Duration,
    checkpoint_at: Instant,
    shown: (Instant, u64),
    shared: Arc<Mutex<Snapshot>>,
    live: Live,
    /// A source may go on for ever.
    endless: bool,
    settle_ms: u64,
    /// When transactions arrived that have not settled.
    arrivals: VecDeque<u64>,
    /// Where batches go that were taken in.
    spare: Option<Sender<Batch>>,
}

impl Watch {
    fn new(
        flags: &Flags,
        options: Options,
        voice: Voice,
        known: Arc<Known>,
    ) -> Result<(Watch, Vec<Journaled>), Failure> {
        let Earlier { checker, state, extra, journal, heard, fresh } = earlier::open(flags, options)?;
        known.lines.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&extra.named);
        let now = Instant::now();
        let mut watch = Watch {
            voice,
            state,
            known,
            file: flags.source.as_deref().filter(|path| path.as_os_str() != "-").map(source_name),
            lines: extra.get_lines(),
            events: Vec::new(),
            bad: Vec::new(),
            heard,
            clock: Clock::new(extra.now),
            extra,
            began: now,
            active: now,
            checkpoint_every: flags.checkpoint,
            checkpoint_at: now + flags.checkpoint,
            shown: (now, checker.stats().arrived),
            checker,
            shared: Arc::default(),
            live: Live::Silent,
            endless: flags.follow || flags.source.as_deref().is_none_or(|path| path.as_os_str() == "-"),
            settle_ms: options.settle_ms,
            arrivals: VecDeque::new(),
            spare: None,
        };
        if fresh {
            watch.make_checkpoint()?;
        }
        Ok((watch, journal))
    }

    /// Feeds the checker what had arrived when the last process ended.
    fn catch_up(&mut self, journal: Vec<Journaled>, ingest: &mut Ingest) -> Result<(), Failure> {
        for (name, position) in &self.extra.positions {
            ingest.resume(self.known.register(name).0, position.place.clone());
        }
        for Journaled { name, last, bytes } in journal {
            let (source, name) = self.known.register(&name);
            let block = Block { source, name, bytes, last, reply: None, replayed: true, held: None };
            self.take(ingest.parse(block, Batch::default()))?;
        }
        Ok(())
    }

    /// Runs until the sources end, the user interrupts it, or nothing happens for too long.
    fn run(&mut self, parsed: &Receiver<Parsed>, idle: Option<Duration>) -> Result<(), Failure> {
        loop {
            match parsed.recv_timeout(TICK) {
                Ok(parsed) => self.take(parsed)?,
                Err(RecvTimeoutError::Timeout) => {
                    self.settle(self.clock.now())?;
                    let over =
                        |idle| self.known.open.load(Ordering::SeqCst) == 0 && self.active.elapsed() > idle;
                    if idle.is_some_and(over) {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.state.is_some() && Instant::now() >= self.checkpoint_at {
                self.make_checkpoint()?;
            }
            if self.shown.0.elapsed() >= SHOW {
                self.show();
            }
            if interrupt::is_requested() || self.is_of_no_use() {
                return Ok(());
            }
        }
    }

    /// The reader of the events has gone, the answer is known, and the stream may never end. A file is read
    /// to its end, so that the exit status is the one that a reader would have seen.
    fn is_of_no_use(&self) -> bool {
        terminal::is_closed() && self.endless && self.voice.standing(self.checker.stats()) > 0
    }

    /// Takes in a block: keeps it if it cannot be had again, checks it, reports, and answers the sender.
    fn take(&mut self, parsed: Parsed) -> Result<(), Failure> {
        let Parsed { block, batch, bad, place } = parsed;
        let again = self.file.as_deref() == Some(&*block.name);
        if let Some(state) = self.state.as_mut().filter(|_| !block.replayed && !again) {
            state.journal(&block.name, block.last, &block.bytes)?;
        }
        self.active = Instant::now();
        let now = self.clock.now();
        self.lines.read += memchr::memchr_iter(b'\n', &block.bytes).count() as u64;
        let lines = self.follow(&block, place);
        for bad in &bad {
            let count = if bad.untimed { &mut self.lines.untimed } else { &mut self.lines.malformed };
            *count += 1;
            self.bad.push(self.voice.bad_line(bad, self.known.name(bad.origin.source)));
        }
        let counted = self.checker.memory();
        self.checker.set_outside(memory::allocated().saturating_sub(counted));
        self.checker.accept(&batch, now, &mut self.events)?;
        if !batch.is_empty() {
            self.arrivals.push_back(now);
        }
        self.emit(!block.replayed)?;
        if let Some(reply) = block.reply {
            let taken = Taken { transactions: batch.len() as u64, malformed: bad.len() as u64, lines };
            // The client that asked may be gone.
            _ = reply.send(taken);
        }
        if let Some(spare) = &self.spare {
            // At the end no thread parses any more.
            _ = spare.send(batch);
        }
        Ok(())
    }

    /// Notes how far a source was taken in; the number of its lines.
    fn follow(&mut self, block: &Block, place: super::ingest::Place) -> u64 {
        let lines = place.lines;
        if self.state.is_none() {
            return lines;
        }
        if let Some(name) = block.name.strip_prefix(NAMED) {
            let newlines = memchr::memchr_iter(b'\n', &block.bytes).count() as u64;
            let tail = u64::from(block.last && block.bytes.last().is_some_and(|&b| b != b'\n'));
            *self.extra.named.entry(name.to_owned()).or_default() += newlines + tail;
            self.known.lines.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.extra.named);
        } else if *block.name == *STANDARD_INPUT || self.file.as_deref() == Some(&*block.name) {
            let position = self.extra.positions.entry(block.name.to_string()).or_default();
            position.offset += block.bytes.len() as u64;
            let missing = BEGINNING.saturating_sub(position.beginning.len()).min(block.bytes.len());
            position.beginning.extend_from_slice(&block.bytes[..missing]);
            position.place = place;
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
            match self.live.note(event.as_ref(), &out[before..]) {
                true => out.truncate(before),
                false => out.push('\n'),
            }
        }
        if let Some(state) = self.state.as_mut().filter(|_| !logged.is_empty()) {
            state.log(&logged)?;
        }
        if !out.is_empty() {
            self.live.clear();
            terminal::print(&out)?;
        }
        match &self.state {
            Some(state) if !logged.is_empty() => state.printed(self.extra.seq - 1, self.extra.faults - 1),
            _ => Ok(()),
        }
    }

    /// Reports what has settled, a piece at a time: there may be much of it at the end.
    fn settle(&mut self, now: u64) -> Result<(), Failure> {
        const PIECE: usize = 10_000;
        while self.checker.settle_some(now, PIECE, &mut self.events)? {
            self.emit(true)?;
        }
        self.emit(true)
    }

    fn make_checkpoint(&mut self) -> Result<(), Failure> {
        let Some(state) = &mut self.state else { return Ok(()) };
        let began = Instant::now();
        self.extra.generation = state.turn()?;
        self.extra.now = self.clock.now();
        self.extra.set_lines(self.lines);
        self.checker.checkpoint(&self.extra.encode())?;
        state.forget_older();
        // Not so often that checkpoints are most of the work.
        self.checkpoint_at = Instant::now() + self.checkpoint_every.max(9 * began.elapsed());
        Ok(())
    }

    /// Lets metrics and people know how it goes.
    fn show(&mut self) {
        let (since, before) = self.shown;
        let stats = *self.checker.stats();
        let now = self.clock.now();
        while self.arrivals.front().is_some_and(|&at| at + self.settle_ms <= now) {
            self.arrivals.pop_front();
        }
        let snapshot = Snapshot {
            stats,
            lines: self.lines,
            provisional: self.checker.unsettled(),
            memory: self.checker.memory(),
            live: self.checker.live(),
            lag_ms: self.arrivals.front().map_or(0, |&at| now - at),
        };
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
        let rate = (stats.arrived - before) as f64 / since.elapsed().as_secs_f64();
        supervised::report(metrics::sample(&snapshot, rate));
        self.shown = (Instant::now(), stats.arrived);
        self.live.show(&self.voice, &snapshot, rate, self.began.elapsed());
    }

    /// The end. A stream that was interrupted would have gone on, so what has not settled stays open: who
    /// is missing may just not have arrived.
    fn end(mut self) -> Result<Exit, Failure> {
        if !interrupt::is_requested() {
            self.settle(u64::MAX)?;
        }
        self.make_checkpoint()?;
        self.show();
        self.live.clear();
        let doubt = self.doubt();
        let took = self.began.elapsed();
        terminal::print(&self.live.last(&self.voice))?;
        terminal::print(&self.voice.summary(&self.checker, self.lines, took, doubt.as_deref()))?;
        Ok(self.voice.verdict(&self.checker, doubt.as_deref()).0)
    }

    /// Why finding no violation proves nothing.
    fn doubt(&self) -> Option<String> {
        let lost = self.known.lost.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if lost.is_some() {
            return lost;
        }
        let stats = self.checker.stats();
        let (read, unusable) = (self.lines.read, self.lines.malformed + self.lines.untimed);
        match (stats.checked, stats.arrived) {
            (0, 0) if unusable > 0 => Some(format!("none of {read} lines could be used")),
            (0, 0) => Some("no transaction arrived".to_owned()),
            (0, arrived) => Some(format!("none of {arrived} transactions could be checked")),
            _ => None,
        }
    }
}
