//! The loop: batches in, events out, and now and then a checkpoint.

use super::Flags;
use super::engine::{Engine, STANDARD_INPUT, Setup};
use super::ingest::{Block, Ingest, Parsed};
use super::live::Live;
use super::medium::OnDisk;
use super::metrics::{self, Snapshot};
use super::options;
use super::report::Voice;
use super::room::Rooms;
use super::servers::Servers;
use super::sources::{self, Hub, Known, Resume};
use super::store::SEGMENT;
use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::{interrupt, memory, supervised, terminal};
use anomalist_format::PathName;
use anomalist_online::{Batch, StoreError};
use std::collections::VecDeque;
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
    let (blocks, received) = sync_channel::<Block>(DEPTH);
    let hub = Hub::new(blocks, Rooms::of(options::memory(flags)));
    let mut ingest = Ingest::default();
    let mut watch = Watch::new(flags, Live::new(global, flags.json), hub.known.clone(), &mut ingest)?;
    let servers = Servers::start(flags, &hub, &watch.shared, &watch.engine.voice)?;
    let source = match &flags.source {
        Some(path) => Some(path.as_path()),
        None if servers.is_source() => None,
        None => Some(Path::new("-")),
    };
    if let Some(path) = source {
        let registered = hub.known.register(&source_name(path));
        let position = watch.engine.extra.positions.get(&*registered.1);
        let resume = position.map_or_else(Resume::default, |position| Resume {
            offset: position.offset,
            beginning: position.beginning.clone(),
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

/// What the flags ask for.
fn setup(flags: &Flags) -> Result<Setup, Failure> {
    let options = options::checker(flags)?;
    let state = match &flags.state {
        Some(folder) => Some((OnDisk::open(folder).map_err(|error| Failure::io(folder, error))?, SEGMENT)),
        None => None,
    };
    Ok(Setup {
        options,
        voice: Voice { json: flags.json, level: flags.level, mode: options.rule.mode },
        subject: format!("{} {:?} {:?}", flags.level.name(), flags.tie, flags.initial),
        initial: options::initial(flags.initial.as_deref())?,
        file: flags.source.as_deref().filter(|path| path.as_os_str() != "-").map(source_name),
        state,
    })
}

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
    engine: Engine<Live>,
    known: Arc<Known>,
    clock: Clock,
    began: Instant,
    /// When something last arrived.
    active: Instant,
    checkpoint_every: Duration,
    checkpoint_at: Instant,
    shown: (Instant, u64),
    shared: Arc<Mutex<Snapshot>>,
    /// A source may go on for ever.
    endless: bool,
    settle_ms: u64,
    /// When transactions arrived that have not settled.
    arrivals: VecDeque<u64>,
    /// Where batches go that were taken in.
    spare: Option<Sender<Batch>>,
}

impl Watch {
    /// Goes on where an earlier process ended, with what had arrived by then.
    fn new(flags: &Flags, live: Live, known: Arc<Known>, ingest: &mut Ingest) -> Result<Watch, Failure> {
        let setup = setup(flags)?;
        let settle_ms = setup.options.settle_ms;
        let (mut engine, journal) = Engine::open(setup, known.clone(), live)?;
        let clock = Clock::new(engine.extra.now);
        if engine.is_fresh() {
            engine.checkpoint(clock.now())?;
        }
        let arrivals = if journal.is_empty() { VecDeque::new() } else { [clock.now()].into() };
        engine.catch_up(journal, ingest, clock.now())?;
        let now = Instant::now();
        Ok(Watch {
            shown: (now, engine.checker.stats().arrived),
            engine,
            known,
            clock,
            began: now,
            active: now,
            checkpoint_every: flags.checkpoint,
            checkpoint_at: now + flags.checkpoint,
            shared: Arc::default(),
            endless: flags.follow || flags.source.as_deref().is_none_or(|path| path.as_os_str() == "-"),
            settle_ms,
            arrivals,
            spare: None,
        })
    }

    /// Runs until the sources end, the user interrupts it, or nothing happens for too long.
    fn run(&mut self, parsed: &Receiver<Parsed>, idle: Option<Duration>) -> Result<(), Failure> {
        loop {
            match parsed.recv_timeout(TICK) {
                Ok(parsed) => self.take(parsed)?,
                Err(RecvTimeoutError::Timeout) => {
                    self.engine.settle(self.clock.now())?;
                    let over =
                        |idle| self.known.open.load(Ordering::SeqCst) == 0 && self.active.elapsed() > idle;
                    if idle.is_some_and(over) {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.engine.has_state() && Instant::now() >= self.checkpoint_at {
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
        terminal::is_closed() && self.endless && self.engine.voice.standing(self.engine.checker.stats()) > 0
    }

    fn take(&mut self, parsed: Parsed) -> Result<(), Failure> {
        self.active = Instant::now();
        let now = self.clock.now();
        // What the process holds beside the checker counts too.
        let checker = &mut self.engine.checker;
        let counted = checker.memory();
        checker.set_outside(memory::allocated().saturating_sub(counted));
        let batch = self.engine.take(parsed, now)?;
        if !batch.is_empty() {
            self.arrivals.push_back(now);
        }
        if let Some(spare) = &self.spare {
            // At the end no thread parses any more.
            _ = spare.send(batch);
        }
        Ok(())
    }

    fn make_checkpoint(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        self.engine.checkpoint(self.clock.now())?;
        // Not so often that checkpoints are most of the work.
        self.checkpoint_at = Instant::now() + self.checkpoint_every.max(9 * began.elapsed());
        Ok(())
    }

    /// Lets metrics and people know how it goes.
    fn show(&mut self) {
        let (since, before) = self.shown;
        let stats = *self.engine.checker.stats();
        let now = self.clock.now();
        while self.arrivals.front().is_some_and(|&at| at + self.settle_ms <= now) {
            self.arrivals.pop_front();
        }
        let snapshot = Snapshot {
            stats,
            lines: self.engine.lines,
            provisional: self.engine.checker.unsettled(),
            memory: self.engine.checker.memory(),
            live: self.engine.checker.live(),
            lag_ms: self.arrivals.front().map_or(0, |&at| now - at),
        };
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
        let rate = (stats.arrived - before) as f64 / since.elapsed().as_secs_f64();
        supervised::report(metrics::sample(&snapshot, rate));
        self.shown = (Instant::now(), stats.arrived);
        self.engine.audience.show(&self.engine.voice, &snapshot, rate, self.began.elapsed());
    }

    /// The end. A stream that was interrupted would have gone on, so what has not settled stays open: who
    /// is missing may just not have arrived.
    fn end(mut self) -> Result<Exit, Failure> {
        if !interrupt::is_requested() {
            self.engine.settle(u64::MAX)?;
        }
        self.make_checkpoint()?;
        self.show();
        self.engine.audience.clear();
        let doubt = self.doubt();
        let took = self.began.elapsed();
        terminal::print(&self.engine.audience.last(&self.engine.voice))?;
        terminal::print(&self.engine.voice.summary(
            &self.engine.checker,
            self.engine.lines,
            took,
            doubt.as_deref(),
        ))?;
        Ok(self.engine.voice.verdict(&self.engine.checker, doubt.as_deref()).0)
    }

    /// Why finding no violation proves nothing.
    fn doubt(&self) -> Option<String> {
        let lost = self.known.lost.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if lost.is_some() {
            return lost;
        }
        let stats = self.engine.checker.stats();
        let (read, unusable) =
            (self.engine.lines.read, self.engine.lines.malformed + self.engine.lines.untimed);
        match (stats.checked, stats.arrived) {
            (0, 0) if unusable > 0 => Some(format!("none of {read} lines could be used")),
            (0, 0) => Some("no transaction arrived".to_owned()),
            (0, arrived) => Some(format!("none of {arrived} transactions could be checked")),
            _ => None,
        }
    }
}
