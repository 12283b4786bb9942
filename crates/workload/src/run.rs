//! The clients: a seeded scheduler that interleaves the sessions' operations, retries what was refused, and
//! plants anomalies.
//!
//! Each step picks a session with work left and lets it begin, do one operation, or end. A transaction that
//! an engine refuses starts again, with the same operations and new values; after [`RETRIES`] times it runs
//! alone, in one step, so a run always ends and contention costs at most a constant factor.

use crate::engine::{Conflict, Engine, Txn, engine_for};
use crate::inject::{list_up_to, stamps};
use crate::keys::{Keys, Planned};
use crate::recipes::{KEYS, Recipe, Step, VALUES};
use crate::record::{DELETED, Log, Recorder, Times};
use crate::spec::{SimLevel, Spec, SpecError};
use anomalist_history::{Builder, Outcome};

/// How often a transaction is refused before it runs alone.
const RETRIES: u32 = 4;
/// A batch is full with this many transactions, operations or list elements.
const BATCH_TXNS: usize = 2_000;
const BATCH_OPS: usize = 200_000;
const BATCH_ELEMENTS: usize = 1_000_000;

/// What will become of a transaction, decided beforehand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Commit,
    Abort,
    /// Takes effect, and the client does not learn the outcome.
    Unheard,
    /// Has no effect, and the client does not learn the outcome.
    Lost,
}

struct Session {
    /// Transactions yet to be finished.
    left: u32,
    planned: bool,
    running: bool,
    fate: Fate,
    refusals: u32,
    invoked: u64,
    start: u64,
    /// The next operation of the plan.
    next: usize,
    plan: Vec<Planned>,
    txn: Txn,
    log: Log,
}

/// A generation under way.
pub(crate) struct Run {
    spec: Spec,
    rng: fastrand::Rng,
    keys: Keys,
    cells: usize,
    engine: Box<dyn Engine>,
    recorder: Recorder,
    sessions: Vec<Session>,
    /// Sessions with work left.
    active: Vec<u32>,
    /// Begin and end events so far.
    clock: u64,
    values: u64,
    /// Transactions finished, retries and injected ones not counted.
    finished: u64,
    /// Anomalies to plant once so many transactions are finished, last first.
    injections: Vec<(u64, &'static Recipe)>,
    /// Sessions that must not begin anything until the next anomaly is planted.
    held: Vec<u32>,
}

impl Run {
    pub fn new(spec: &Spec) -> Result<Run, SpecError> {
        spec.check()?;
        let mut rng = fastrand::Rng::with_seed(spec.seed);
        let total = u64::from(spec.sessions) * u64::from(spec.txns_per_session);
        let mut injections: Vec<(u64, &'static Recipe)> = Vec::new();
        for recipe in spec.inject.iter().filter_map(|i| i.recipe()) {
            injections.push((rng.u64(0..=total), recipe));
        }
        injections.sort_by_key(|i| std::cmp::Reverse(i.0));
        let session = |s| Session {
            left: spec.txns_per_session,
            planned: false,
            running: false,
            fate: Fate::Commit,
            refusals: 0,
            invoked: 0,
            start: 0,
            next: 0,
            plan: Vec::new(),
            txn: Txn { session: s, ..Txn::default() },
            log: Log::default(),
        };
        Ok(Run {
            keys: Keys::new(spec),
            cells: spec.keys as usize,
            engine: engine_for(spec, rng.u64(..)),
            recorder: Recorder::new(spec, &mut rng),
            sessions: (0..spec.sessions).map(session).collect(),
            active: if spec.txns_per_session == 0 { Vec::new() } else { (0..spec.sessions).collect() },
            clock: 0,
            values: 0,
            finished: 0,
            injections,
            held: Vec::new(),
            spec: spec.clone(),
            rng,
        })
    }

    /// Number of transactions there will be, recorded conflicts aside.
    pub fn total_txns(&self) -> u64 {
        let lists = self.spec.kind.is_list();
        let injected =
            self.spec.inject.iter().filter_map(|i| i.recipe()).map(|r| r.turns(lists).len() as u64);
        u64::from(self.spec.sessions) * u64::from(self.spec.txns_per_session) + injected.sum::<u64>()
    }

    /// The next batch, or all that is left. Empty at the end.
    pub fn fill(&mut self, whole: bool) -> Builder {
        let mut b = self.recorder.builder();
        let full = |b: &Builder, elements: usize| {
            b.txn_count() >= BATCH_TXNS || b.op_count() >= BATCH_OPS || elements >= BATCH_ELEMENTS
        };
        while (whole || !full(&b, self.recorder.elements)) && self.advance(&mut b) {}
        b
    }

    /// One step; false if there is nothing left to do.
    fn advance(&mut self, b: &mut Builder) -> bool {
        if let Some(&(at, recipe)) = self.injections.last()
            && self.finished >= at
            && self.plant(b, recipe)
        {
            self.injections.pop();
            return true;
        }
        if self.active.is_empty() {
            return false;
        }
        let place = self.rng.usize(0..self.active.len());
        let s = self.active[place] as usize;
        if self.sessions[s].running {
            self.proceed(b, s);
        } else if self.held.is_empty() || !self.held.contains(&(s as u32)) {
            self.begin(b, s);
        }
        if self.sessions[s].left == 0 {
            self.active.swap_remove(place);
        }
        true
    }

    fn begin(&mut self, b: &mut Builder, s: usize) {
        let session = &mut self.sessions[s];
        if !session.planned {
            self.keys.plan(&mut self.rng, &mut session.plan);
            if let Some(cells) = self.keys.cells().filter(|&cells| cells > self.cells) {
                self.engine.grow(cells);
                self.cells = cells;
            }
            session.planned = true;
            session.refusals = 0;
            session.fate = draw_fate(&self.spec, &mut self.rng);
        }
        let alone = session.refusals >= RETRIES;
        if !self.engine.begin(&mut session.txn, &session.plan, self.clock + 1, alone) {
            return;
        }
        self.clock += 1;
        session.start = self.clock;
        if session.refusals == 0 {
            session.invoked = self.clock;
        }
        session.next = 0;
        session.running = true;
        while alone && self.sessions[s].running {
            self.proceed(b, s);
        }
    }

    /// The next operation of a session, or its end.
    #[inline]
    fn proceed(&mut self, b: &mut Builder, s: usize) {
        let session = &mut self.sessions[s];
        let result = match session.plan.get(session.next) {
            Some(&op) => {
                session.next += 1;
                self.operate(s, op)
            }
            None => self.end(b, s),
        };
        if result.is_err() {
            self.refuse(b, s);
        }
    }

    #[inline]
    fn operate(&mut self, s: usize, op: Planned) -> Result<(), Conflict> {
        let Session { txn, log, .. } = &mut self.sessions[s];
        let (cell, key) = (op.cell, self.keys.label(op.cell));
        if op.write {
            self.values += 1;
            let ratio = self.spec.delete_ratio;
            let value =
                if ratio > 0.0 && self.rng.f64() < ratio { self.values | DELETED } else { self.values };
            self.engine.write(txn, cell, value)?;
            txn.writes.push((cell, value));
            log.write(key, value);
        } else if self.spec.kind.is_list() {
            let seen = self.engine.read(txn, cell)?;
            let own = txn.writes.iter().filter(|w| seen.own && w.0 == cell).map(|w| w.1);
            log.read_list(key, &self.engine.log(cell)[..seen.value as usize], own);
        } else {
            let value = match txn.own(cell) {
                Some(value) => value,
                None => self.engine.read(txn, cell)?.value,
            };
            log.read(key, value);
        }
        Ok(())
    }

    fn end(&mut self, b: &mut Builder, s: usize) -> Result<(), Conflict> {
        let session = &mut self.sessions[s];
        match session.fate {
            Fate::Commit | Fate::Unheard => self.engine.commit(&mut session.txn, self.clock + 1)?,
            Fate::Abort | Fate::Lost => self.engine.rollback(&mut session.txn),
        }
        let outcome = match session.fate {
            Fate::Commit => Outcome::Committed,
            Fate::Abort => Outcome::Aborted,
            Fate::Unheard | Fate::Lost => Outcome::Indeterminate,
        };
        self.record(b, s, outcome);
        let session = &mut self.sessions[s];
        self.keys.done(&session.plan, |cell| self.engine.clear(cell));
        session.planned = false;
        session.left -= 1;
        self.finished += 1;
        Ok(())
    }

    /// Takes a transaction back; its session will try again.
    fn refuse(&mut self, b: &mut Builder, s: usize) {
        let session = &mut self.sessions[s];
        debug_assert!(session.refusals < RETRIES, "refused although alone");
        session.refusals += 1;
        self.engine.rollback(&mut session.txn);
        if self.spec.record_conflicts {
            self.record(b, s, Outcome::Aborted);
        }
        let session = &mut self.sessions[s];
        session.running = false;
        session.txn.reset();
        session.log.clear();
    }

    fn record(&mut self, b: &mut Builder, s: usize, outcome: Outcome) {
        self.clock += 1;
        let session = &mut self.sessions[s];
        let times = Times { invoked: session.invoked, start: session.start, end: self.clock };
        self.recorder.record(b, &session.log, s as u32, outcome, times);
        if outcome == Outcome::Aborted {
            session.invoked = self.clock + 1;
        }
        session.running = false;
        session.txn.reset();
        session.log.clear();
    }

    /// Plants an anomaly if the sessions it takes are idle; otherwise sees to it that they will be.
    fn plant(&mut self, b: &mut Builder, recipe: &'static Recipe) -> bool {
        let lists = self.spec.kind.is_list();
        if self.held.is_empty() {
            let all = 0..self.spec.sessions;
            self.held = self.rng.choose_multiple(all, recipe.sessions(lists) as usize);
            self.rng.shuffle(&mut self.held);
        }
        if self.held.iter().any(|&s| self.sessions[s as usize].running) {
            return false;
        }
        self.engine.synchronise();
        let keys: [u64; KEYS] = std::array::from_fn(|_| self.keys.fresh_label());
        let mut written = [[0u64; VALUES]; KEYS];
        let mut value = |key: usize, v: u8| {
            let value = &mut written[key][v as usize];
            if *value == 0 && v != 0 {
                self.values += 1;
                *value = self.values;
            }
            *value
        };
        let turns = recipe.turns(lists);
        let mut log = Log::default();
        for (i, turn) in turns.iter().enumerate() {
            log.clear();
            for step in turn.steps() {
                match *step {
                    Step::W(key, v) => log.write(keys[key], value(key, v)),
                    Step::R(key, v) if !lists => log.read(keys[key], value(key, v)),
                    Step::R(key, v) => {
                        let list = list_up_to(turns, key, v);
                        log.read_list(keys[key], &[], list.into_iter().map(|e| value(key, e)));
                    }
                    Step::L(key, list) => {
                        log.read_list(keys[key], &[], list.iter().map(|&e| value(key, e)));
                    }
                }
            }
            let (start, end) = stamps(turns, i);
            let (start, end) = (self.clock + start, self.clock + end);
            let outcome = if turn.aborted() { Outcome::Aborted } else { Outcome::Committed };
            let times = Times { invoked: start.min(end), start, end };
            self.recorder.record(b, &log, self.held[turn.session() as usize], outcome, times);
        }
        self.clock += recipe.ticks(lists);
        self.held.clear();
        true
    }
}

fn draw_fate(spec: &Spec, rng: &mut fastrand::Rng) -> Fate {
    if spec.abort_ratio == 0.0 && spec.indeterminate_ratio == 0.0 {
        return Fate::Commit;
    }
    let drawn = rng.f64();
    if drawn < spec.abort_ratio {
        Fate::Abort
    } else if drawn < spec.abort_ratio + spec.indeterminate_ratio {
        // Who has read uncommitted data knows that its writer existed: then it must have taken effect.
        let effect = spec.level == SimLevel::ReadUncommitted || rng.bool();
        if effect { Fate::Unheard } else { Fate::Lost }
    } else {
        Fate::Commit
    }
}
