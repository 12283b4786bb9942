//! A watch: lines from several sources, the engine of `watch`, a folder that fails. [`crate::judge`] judges.

use crate::disk::{Disk, Due, Fault, Process};
use crate::judge::{self, Expected};
use crate::sources::{FILE, Source, shape, sources};
use crate::step::Step;
use crate::{Seen, World};
use anomalist_cli::commands::watch::engine::{Audience, Engine, Setup};
use anomalist_cli::commands::watch::ingest::{Block, Ingest};
use anomalist_cli::commands::watch::{Known, NAMED, Voice};
use anomalist_cli::exit::{Exit, Failure};
use anomalist_history::Outcome;
use anomalist_level::Level;
use anomalist_online::{Batch, Event, Gc, Key128, Options};
use anomalist_testkit::random::stamped;
use anomalist_timestamp::{Mode, Rule, Tie};
use fastrand::Rng;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// A plan.
#[derive(Clone)]
pub struct Stream {
    sources: Vec<Source>,
    steps: Vec<Step>,
    options: Options,
    voice: Voice,
    segment: u64,
    /// No outcome is unknown.
    certain: bool,
}

impl World for Stream {
    type Step = Step;

    fn plan(rng: &mut Rng) -> Stream {
        let history = stamped(rng, &shape(rng.clone()));
        let certain = !history.txns().any(|t| history.outcome(t) == Outcome::Indeterminate);
        let sources = sources(rng, &history);
        let steps = steps(rng, &sources);
        let mode = if rng.bool() { Mode::Si } else { Mode::Ser };
        let level = match mode {
            Mode::Si => Level::StrongSessionSnapshotIsolation,
            Mode::Ser => Level::StrongSessionSerializable,
        };
        let options = Options {
            rule: Rule { mode, tie: if rng.bool() { Tie::Inclusive } else { Tie::Exclusive } },
            settle_ms: [0, 0, 2, 5, 1_000][rng.usize(..5)],
            gc: [Gc::None, Gc::Threshold(0), Gc::Threshold(3), Gc::Memory(0)][rng.usize(..4)],
            provisional: rng.bool(),
            checkpoints: true,
            ..Options::default()
        };
        let segment = [64, 512, 1 << 16][rng.usize(..3)];
        Stream { sources, steps, options, voice: Voice { json: true, level, mode }, segment, certain }
    }

    fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn with(&self, steps: Vec<Step>) -> Stream {
        Stream { steps, ..self.clone() }
    }

    fn describe(&self) -> String {
        let mut out = format!("{:?}, segments of {} bytes\n", self.options, self.segment);
        for (number, source) in self.sources.iter().enumerate() {
            out += &format!("source {number}, {}:\n", source.name);
            for line in &source.lines {
                out += &format!("  {}\n", String::from_utf8_lossy(line).trim_end().escape_debug());
            }
        }
        out
    }

    fn run(&self, seen: &mut Seen) -> Result<(), String> {
        let mut run = Run::new(self, seen);
        for step in &self.steps {
            run.step(step)?;
        }
        run.end()
    }
}

fn steps(rng: &mut Rng, sources: &[Source]) -> Vec<Step> {
    let mut left: Vec<usize> = sources.iter().map(|source| source.lines.len()).collect();
    let mut steps = Vec::new();
    // Some clients end before they have sent everything.
    let until = if rng.u8(..4) == 0 { rng.usize(..8) } else { 0 };
    let (faults, power) = (rng.u8(..5), rng.bool());
    while left.iter().sum::<usize>() > until {
        let source = rng.usize(..left.len());
        match rng.u8(..20) {
            0..=10 => {
                let lines = rng.usize(1..4).min(left[source]);
                left[source] -= lines;
                steps.push(Step::Deliver(source, lines));
            }
            11..=13 => steps.push(Step::Wait(rng.u64(..6) * rng.u64(..3))),
            14..=15 => steps.push(Step::Checkpoint),
            n if n >= 20 - faults => {
                let fault = match rng.u8(..6) {
                    0..=2 if power => Fault::Power,
                    0..=2 => Fault::Kill,
                    3 => Fault::Full,
                    4 => Fault::Device,
                    _ => Fault::Kill,
                };
                let seed = rng.u64(..);
                let most = [4, 20, 80][rng.usize(..3)];
                let after = rng.u32(..most);
                steps.push(match fault {
                    Fault::Kill | Fault::Power if rng.u8(..4) == 0 => Step::End(fault, seed),
                    _ => Step::Fault(Due { fault, after, seed }),
                });
            }
            _ => {}
        }
    }
    steps
}

/// What was printed, by all processes.
#[derive(Default)]
struct Printed {
    /// Events by their numbers.
    events: BTreeMap<u64, String>,
    /// Sources and lines of which a fault was reported.
    faults: BTreeSet<(String, u64)>,
    wrong: Option<String>,
}

/// Prints for one process.
struct Reader {
    process: Process,
    printed: Arc<Mutex<Printed>>,
}

impl Audience for Reader {
    fn note(&mut self, _: Option<&Event>, _: &str) -> bool {
        false
    }

    fn print(&mut self, text: &str) -> Result<(), Failure> {
        let text = if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
        let (text, result) = self.process.print(&text);
        let printed = &mut *self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).unwrap_or_default();
            if let Some(seq) = event["seq"].as_u64() {
                let before = printed.events.insert(seq, line.to_owned());
                if before.is_some_and(|before| before != line) {
                    printed.wrong = Some(format!("two events with the number {seq}"));
                }
            }
            if let (Some(source), Some(line)) = (event["source"].as_str(), event["line"].as_u64()) {
                printed.faults.insert((source.to_owned(), line));
            }
        }
        result.map_err(Failure::input)
    }
}

/// A process at work.
struct Running {
    engine: Engine<Reader>,
    ingest: Ingest,
    known: Arc<Known>,
    now: u64,
}

struct Run<'a> {
    plan: &'a Stream,
    seen: &'a mut Seen,
    disk: Disk,
    printed: Arc<Mutex<Printed>>,
    running: Option<Running>,
    /// Lines of each source that have been sent, by now or before a restart.
    sent: Vec<usize>,
    /// Lines of each source that the engine has.
    taken: Vec<usize>,
    /// The same at the last checkpoint.
    safe: Vec<usize>,
    /// Lines of a source that were acknowledged last.
    acknowledged: Option<usize>,
    /// Everything has arrived and settled.
    over: bool,
    /// The machine has lost power: what was printed may have been forgotten.
    lost_power: bool,
    seed: u64,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Stream, seen: &'a mut Seen) -> Run<'a> {
        let none = vec![0; plan.sources.len()];
        Run {
            plan,
            seen,
            disk: Disk::default(),
            printed: Arc::default(),
            running: None,
            sent: none.clone(),
            taken: none.clone(),
            safe: none,
            acknowledged: None,
            over: false,
            lost_power: false,
            seed: 0,
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Deliver(source, lines) => {
                self.sent[source] += lines;
                self.deliver(source)
            }
            Step::Wait(ms) => self.with(|running, _| {
                running.now += ms;
                running.engine.settle(running.now)
            }),
            Step::Checkpoint => self.checkpoint(),
            Step::Fault(due) => {
                self.disk.set(due);
                Ok(())
            }
            Step::End(fault, seed) => {
                self.seed = seed;
                self.disk.end(fault);
                self.ended("between operations")
            }
        }
    }

    /// Sends what was to be sent and has not arrived.
    fn deliver(&mut self, source: usize) -> Result<(), String> {
        while self.taken[source] < self.sent[source] {
            let plan = self.plan;
            self.with(|running, run| {
                let Source { name, lines, .. } = &plan.sources[source];
                // A process that was started just now may have it in its journal.
                if run.taken[source] == run.sent[source] {
                    return Ok(());
                }
                let bytes = lines[run.taken[source]..run.sent[source]].concat();
                let last = run.sent[source] == lines.len();
                let (number, name) = running.known.register(name);
                let (reply, answer) = std::sync::mpsc::channel();
                let block = Block {
                    source: number,
                    name,
                    bytes,
                    last,
                    reply: Some(reply),
                    replayed: false,
                    held: None,
                };
                let parsed = running.ingest.parse(block, Batch::default());
                running.engine.take(parsed, running.now)?;
                run.taken[source] = run.sent[source];
                run.acknowledged = answer.try_recv().ok().map(|taken| taken.lines as usize);
                Ok(())
            })?;
            // Without an answer the process has ended.
            if let Some(lines) = self.acknowledged.take().filter(|&lines| lines != self.taken[source]) {
                let (name, taken) = (&plan.sources[source].name, self.taken[source]);
                return Err(format!("of {name}, {taken} lines were taken and {lines} acknowledged"));
            }
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), String> {
        self.with(|running, run| {
            running.engine.checkpoint(running.now)?;
            run.safe.clone_from(&run.taken);
            Ok(())
        })
    }

    /// Does something in a process that runs. If it ends, the next one takes up its work.
    fn with(
        &mut self,
        act: impl FnOnce(&mut Running, &mut Run<'a>) -> Result<(), Failure>,
    ) -> Result<(), String> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.restart()?,
        };
        let result = act(&mut running, self);
        let failed = self.disk.has_failed();
        match (self.disk.ended(), result) {
            (None, Ok(())) => {
                self.running = Some(running);
                Ok(())
            }
            (None, Err(failure)) if !failed => {
                Err(format!("it ended without a fault: {}", failure.message().unwrap_or_default()))
            }
            (None, Err(failure)) if failure.exit() != Exit::BadInput => {
                Err(format!("it ended with {:?}", failure.exit()))
            }
            (None, Err(_)) => {
                self.seen.note("refused writes");
                drop(running);
                self.disk.end(Fault::Kill);
                self.ended("after a refused write")
            }
            (Some(_), _) => {
                drop(running);
                self.ended("in an operation")
            }
        }
    }

    /// The process has ended.
    fn ended(&mut self, when: &'static str) -> Result<(), String> {
        self.running = None;
        self.seen.note(when);
        if self.disk.ended() == Some(Fault::Power) {
            self.seen.note("power losses");
            self.lost_power = true;
        }
        Ok(())
    }

    /// Starts processes until one has come to where the last one was.
    fn restart(&mut self) -> Result<Running, String> {
        let mut lost_power = false;
        loop {
            self.seed = self.seed.wrapping_add(1);
            lost_power |= self.disk.ended() == Some(Fault::Power);
            let process = self.disk.restart(self.seed);
            let opened = self.open(process);
            let failed = self.disk.has_failed();
            match (self.disk.ended(), opened) {
                (None, Ok(running)) => {
                    self.resume(&running, lost_power)?;
                    return Ok(running);
                }
                (None, Err(failure)) if !failed => {
                    return Err(format!(
                        "the state cannot be used: {}",
                        failure.message().unwrap_or_default()
                    ));
                }
                (None, Err(_)) => self.disk.end(Fault::Kill),
                (Some(_), _) => {}
            }
            self.ended("in a start")?;
        }
    }

    fn open(&self, process: Process) -> Result<Running, Failure> {
        let plan = self.plan;
        let setup = Setup {
            options: plan.options,
            voice: plan.voice,
            subject: "simulation".to_owned(),
            initial: Some(Key128::NIL),
            file: Some(FILE.to_owned()),
            state: Some((Arc::new(process.clone()), plan.segment)),
        };
        let known = Arc::new(Known::default());
        let reader = Reader { process, printed: self.printed.clone() };
        let (mut engine, journal) = Engine::open(setup, known.clone(), reader)?;
        let now = engine.extra.now.max(1_000);
        if engine.is_fresh() {
            engine.checkpoint(now)?;
        }
        let mut ingest = Ingest::default();
        engine.catch_up(journal, &mut ingest, now)?;
        Ok(Running { engine, ingest, known, now })
    }

    /// Learns how far the engine has got, as its sources do.
    fn resume(&mut self, running: &Running, lost_power: bool) -> Result<(), String> {
        let named = running.known.lines.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (number, source) in self.plan.sources.iter().enumerate() {
            let taken = match source.name.strip_prefix(NAMED) {
                Some(name) => named.get(name).copied().unwrap_or(0) as usize,
                None => {
                    let position = running.engine.extra.positions.get(&source.name);
                    let offset = position.map_or(0, |position| position.offset) as usize;
                    let mut ends = source.lines.iter().scan(0, |end, line| {
                        *end += line.len();
                        Some(*end)
                    });
                    match offset {
                        0 => 0,
                        _ => ends.position(|end| end == offset).ok_or("it stands within a line")? + 1,
                    }
                }
            };
            let promised = match lost_power || source.name == FILE {
                true => self.safe[number],
                false => self.taken[number],
            };
            if taken < promised || taken > self.sent[number] {
                let sent = self.sent[number];
                return Err(format!(
                    "of {}, {promised} lines were acknowledged and {sent} sent; {taken} are known after a restart",
                    source.name
                ));
            }
            self.taken[number] = taken;
        }
        if lost_power {
            // What is known is what the next loss may not take.
            self.safe.iter_mut().zip(&self.taken).for_each(|(safe, taken)| *safe = (*safe).min(*taken));
        }
        Ok(())
    }

    /// Everything that was sent arrives, everything settles, and the judge speaks.
    fn end(mut self) -> Result<(), String> {
        let running = loop {
            for source in 0..self.sent.len() {
                self.deliver(source)?;
            }
            self.with(|running, run| {
                // A process that was started just now has to hear the rest.
                if run.taken != run.sent {
                    return Ok(());
                }
                running.engine.settle(u64::MAX)?;
                running.engine.checkpoint(running.now)?;
                run.over = true;
                Ok(())
            })?;
            if let Some(running) = self.running.take_if(|_| self.over) {
                break running;
            }
            self.over = false;
        };
        let sent = self.sent.clone();
        let arrived = self.plan.sources.iter().zip(&sent);
        let lines = arrived.clone().flat_map(|(source, &sent)| source.lines[..sent].iter());
        let expected = judge::expected(lines, self.plan.options.rule)?;
        self.judge(&running, &expected)?;
        if self.lost_power {
            return Ok(());
        }
        let printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wrong) = &printed.wrong {
            return Err(wrong.clone());
        }
        for (source, &sent) in arrived {
            for &bad in source.bad.iter().filter(|&&bad| bad < sent) {
                if !printed.faults.contains(&(source.name.clone(), bad as u64 + 1)) {
                    return Err(format!("no fault was reported of line {} of {}", bad + 1, source.name));
                }
            }
        }
        let stands = judge::standing(printed.events.values().map(String::as_str));
        if self.plan.certain && stands != expected.found {
            return Err(format!("by what was printed {stands:?} stand, by the judge {:?}", expected.found));
        }
        Ok(())
    }

    fn judge(&mut self, running: &Running, expected: &Expected) -> Result<(), String> {
        let (voice, checker) = (&self.plan.voice, &running.engine.checker);
        let (exit, _) = voice.verdict(checker, None);
        let violated = expected.axioms.iter().any(|&axiom| voice.forbids(axiom));
        self.seen.note(if violated { "violated" } else { "holds" });
        let stats = checker.stats();
        if stats.spilled_chunks > 0 {
            self.seen.note("spilled");
        }
        if self.plan.certain {
            let counts = expected.axioms.iter().filter(|&&axiom| voice.forbids(axiom)).count() as u64;
            if voice.standing(stats) != counts {
                let printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
                let stands = judge::standing(printed.events.values().map(String::as_str));
                let (count, found) = (voice.standing(stats), &expected.found);
                return Err(format!(
                    "{count} violations stand, by what was printed {stands:?}, by the judge {found:?}"
                ));
            }
        }
        match exit {
            Exit::Violated if !violated => Err("it says violated, the judge holds".to_owned()),
            Exit::Holds if violated => Err(format!("it says holds, the judge {:?}", expected.found)),
            Exit::Undecided if self.plan.certain && !expected.open => Err("it is undecided".to_owned()),
            _ => Ok(()),
        }
    }
}
