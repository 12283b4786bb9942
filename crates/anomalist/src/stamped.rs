//! Judges by timestamps as transactions end: one online checker per mode, without a clock.
//!
//! What breaks a transaction alone, its session or NOCONFLICT is final when both transactions have ended. A
//! read that no version explains so far is provisional, because its writer may end later. It is final once
//! the declared virtual time has passed the moment of the read: what commits later is not visible to it,
//! whatever its outcome. The same holds for the conclusion that a transaction of unknown outcome committed,
//! so no violation has to be taken back (`anomalist-online`, `doubt.rs`) unless the declaration was wrong.
//!
//! A step costs what its transaction costs, and the reads that its versions concern.

use crate::monitor::Breach;
use anomalist_history::{
    Builder, History, Initial, KeyId, OpKind, Outcome, SessionId, Stamps, Timestamp, Value, View,
};
use anomalist_level::Level;
use anomalist_online::{
    Batch, Cell, Checker, Event, Finding, Head, Initial as Header, Key128, MemoryStore, Options, Origin,
    Shown, TxnKey, TxnName, moment,
};
use anomalist_timestamp::{Axiom, Identity, Mode, Rule, Tie};
use std::collections::BTreeMap;

/// What is known about a level.
pub(crate) enum Known<'a> {
    /// Nothing breaks it so far, but for so many reads that are not final.
    Holds(usize),
    Violated(&'a Found),
    /// It is decided as a whole, at the end.
    Undecided(&'static str),
}

/// A violation, and how many transactions had ended when it was final.
pub(crate) struct Found {
    steps: usize,
    finding: Finding,
}

type Findings = BTreeMap<Identity<TxnKey, Key128>, Found>;

/// The axioms of one mode.
struct Judge {
    mode: Mode,
    checker: Checker<MemoryStore>,
    /// By axiom.
    violations: [Findings; Axiom::ALL.len()],
    /// Reads that are wrong so far.
    provisional: Findings,
}

/// All that is judged by timestamps.
pub(crate) struct Stamped {
    pub tie: Tie,
    judges: Vec<Judge>,
    /// The rank among all transactions of each of a session's.
    sessions: Vec<Vec<u32>>,
    batch: Batch,
    /// Initial values that the judges do not know yet.
    initial: Option<Initial>,
    steps: usize,
    now: u64,
    /// Why all of it is decided as a whole.
    obstacle: Option<&'static str>,
    ended: bool,
}

impl Stamped {
    /// For levels that timestamps speak about. `late`: transactions have ended before.
    pub fn new(levels: &[Level], tie: Tie, initial: &Initial, late: bool) -> Stamped {
        let mut stamped = Stamped {
            tie,
            judges: Vec::new(),
            sessions: Vec::new(),
            batch: Batch::default(),
            initial: Some(initial.clone()),
            steps: 0,
            now: 0,
            obstacle: late.then_some("transactions had ended before it was required by timestamps"),
            ended: false,
        };
        for mode in levels.iter().filter_map(|&level| Mode::of(level)) {
            if stamped.judges.iter().all(|judge| judge.mode != mode) {
                stamped.judges.push(Judge::new(Rule { mode, tie }));
            }
        }
        stamped
    }

    pub fn set_initial(&mut self, initial: &Initial) {
        if self.steps > 0 {
            self.obstacle = Some("initial values were set after transactions had ended");
        }
        self.initial = Some(initial.clone());
    }

    /// A transaction has ended.
    pub fn accept(
        &mut self,
        builder: &Builder,
        session: SessionId,
        outcome: Outcome,
        stamps: Option<Stamps>,
        ops: &[(OpKind, KeyId, Value)],
    ) {
        self.batch.clear();
        if let Some(initial) = self.initial.take() {
            self.begin_with(builder, &initial);
        }
        if self.sessions.len() <= session.index() {
            self.sessions.resize_with(session.index() + 1, Vec::new);
        }
        self.sessions[session.index()].push(self.steps as u32);
        self.steps += 1;
        // An aborted one takes its place in the session and no more.
        let stamps = match (stamps, outcome) {
            (Some(stamps), _) => stamps,
            (None, Outcome::Aborted) => Stamps { start: ZERO, commit: ZERO },
            (None, _) => {
                self.obstacle = Some("a transaction has no timestamps");
                return;
            }
        };
        for &(kind, key, value) in ops {
            match (self.cell(builder, value), kind) {
                (Some(Cell::List(..)), OpKind::Write | OpKind::Append) | (None, _) => {
                    self.obstacle = Some("a list was written as one value");
                }
                (Some(cell), _) => self.batch.op(kind, Key128::int(key.index() as i64), cell),
            }
        }
        self.batch.transaction(Head {
            session: Key128::int(session.index() as i64),
            id: None,
            outcome,
            stamps,
            number: None,
            set_id: None,
            set: None,
            origin: Origin::default(),
        });
        self.run(|checker, batch, now, events| checker.accept(batch, now, events));
    }

    fn begin_with(&mut self, builder: &Builder, initial: &Initial) {
        let mut header = Header { default: Some(None), keys: Vec::new() };
        match initial.default.map(|value| self.cell(builder, value)) {
            None => {}
            Some(Some(Cell::One(value))) => header.default = Some(Some(value)),
            Some(_) => self.obstacle = Some("keys begin as lists"),
        }
        for (key, &value) in &initial.keys {
            match self.cell(builder, value) {
                Some(cell) => header.keys.push((Key128::int(key.index() as i64), cell)),
                None => self.obstacle = Some("a key begins as a list of lists"),
            }
        }
        self.batch.initial(header);
    }

    /// A value for the judges; none for a list of lists.
    fn cell(&mut self, builder: &Builder, value: Value) -> Option<Cell> {
        match builder.elements(value) {
            _ if value == Value::UNKNOWN => Some(Cell::Unknown),
            None => Some(Cell::One(datum(builder, &mut self.batch, value)?)),
            Some(elements) => {
                let elements: Option<Vec<Key128>> =
                    elements.iter().map(|&e| datum(builder, &mut self.batch, e)).collect();
                Some(self.batch.list(elements?))
            }
        }
    }

    /// Nothing that ends from now on commits before this.
    pub fn advance(&mut self, to: Timestamp) {
        self.now = self.now.max(moment(to));
        self.run(|checker, _, now, events| checker.settle(now, events));
    }

    /// Nothing more will end.
    pub fn end(&mut self) {
        self.ended = true;
        self.run(|checker, _, _, events| checker.finish(events));
    }

    fn run<E>(
        &mut self,
        mut act: impl FnMut(&mut Checker<MemoryStore>, &Batch, u64, &mut Vec<Event>) -> Result<(), E>,
    ) {
        for judge in &mut self.judges {
            let mut events = Vec::new();
            if act(&mut judge.checker, &self.batch, self.now, &mut events).is_err() {
                self.obstacle = Some("the state of the check was lost");
            }
            judge.absorb(events, self.steps);
        }
    }

    /// What is known about a level; `None` if it is not judged by timestamps.
    pub fn known(&self, level: Level) -> Option<Known<'_>> {
        let mode = Mode::of(level)?;
        if let Some(obstacle) = self.obstacle {
            return Some(Known::Undecided(obstacle));
        }
        let Some(judge) = self.judges.iter().find(|judge| judge.mode == mode) else {
            return Some(Known::Undecided("transactions had ended before it was required"));
        };
        let stats = judge.checker.stats();
        Some(match judge.violation(level) {
            _ if stats.no_start > 0 => Known::Undecided("a transaction has no start timestamp"),
            Some(_) if stats.doubts > 0 => Known::Undecided(
                "a transaction committed before the virtual time that was declared, and an outcome had been \
                 concluded without it",
            ),
            Some(found) => Known::Violated(found),
            None if self.ended && judge.checker.open() > 0 => {
                Known::Undecided("some reads could not be judged step by step")
            }
            None => Known::Holds(judge.checker.unsettled()),
        })
    }

    /// The reads that are wrong so far at a level.
    pub fn provisional(&self, level: Level) -> impl Iterator<Item = &Found> {
        let judge = self.judges.iter().find(|judge| Mode::of(level) == Some(judge.mode));
        judge.into_iter().flat_map(|judge| judge.provisional.values())
    }

    /// A violation with names.
    pub fn breach(&self, history: &History, found: &Found) -> Breach {
        let nth = |step: u32| {
            let t = history.txns().find(|&t| history.position(t) == step);
            t.map_or_else(|| format!("number {}", step + 1), |t| history.txn_name(t))
        };
        let name = |t: &TxnName| match t.session {
            Shown::Int(session) => {
                let ranks = self.sessions.get(session as usize);
                let step = ranks.and_then(|ranks| ranks.get(t.position as usize - 1));
                step.map_or_else(|| t.to_string(), |&step| nth(step))
            }
            _ => t.to_string(),
        };
        let finding = &found.finding;
        let key = match finding.key {
            Some(Shown::Int(key)) => history.show_key(KeyId(key as u32)).to_string(),
            _ => String::new(),
        };
        let (txn, other) = (name(&finding.txn), finding.other.as_ref().map(name));
        Breach {
            steps: found.steps,
            transaction: nth(found.steps.saturating_sub(1) as u32),
            reason: reason(finding, &txn, other.as_deref(), &key),
            cycle: Vec::new(),
        }
    }
}

const ZERO: Timestamp = Timestamp { physical: 0, logical: 0 };

fn datum(builder: &Builder, batch: &mut Batch, value: Value) -> Option<Key128> {
    match value.view() {
        View::Int(i) => Some(Key128::int(i)),
        View::Atom(_) => {
            let (kind, text) = builder.text(value)?;
            let datum = Key128::text(kind, text);
            batch.text(datum, text);
            Some(datum)
        }
        View::List(_) => None,
        _ => Some(Key128::NIL),
    }
}

impl Judge {
    fn new(rule: Rule) -> Judge {
        let options =
            Options { rule, virtual_time: true, ties: false, provisional: true, ..Options::default() };
        Judge {
            mode: rule.mode,
            checker: Checker::new(options, MemoryStore::default()),
            violations: Default::default(),
            provisional: Findings::new(),
        }
    }

    fn absorb(&mut self, events: Vec<Event>, steps: usize) {
        for event in events {
            match event {
                Event::Violation(finding) => {
                    self.provisional.remove(&finding.identity);
                    self.violations[finding.axiom() as usize]
                        .insert(finding.identity, Found { steps, finding });
                }
                Event::Retracted(finding) => {
                    self.violations[finding.axiom() as usize].remove(&finding.identity);
                }
                Event::Provisional { finding, holds: true } => {
                    self.provisional.insert(finding.identity, Found { steps, finding });
                }
                Event::Provisional { finding, holds: false } => {
                    self.provisional.remove(&finding.identity);
                }
                Event::Fault { .. } => {}
            }
        }
    }

    /// A violation that breaks a level.
    fn violation(&self, level: Level) -> Option<&Found> {
        let mut forbidden = Axiom::ALL.iter().filter(|axiom| level.forbids(axiom.kind(self.mode)));
        forbidden.find_map(|&axiom| self.violations[axiom as usize].values().next())
    }
}

/// What is wrong, in a sentence.
fn reason(finding: &Finding, txn: &str, other: Option<&str>, key: &str) -> String {
    let value = |shown: &Option<Shown>| shown.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
    let other = other.unwrap_or("the initial state");
    let sentence = match finding.axiom() {
        Axiom::Timestamp => format!("{txn} starts after it commits"),
        Axiom::Session => format!("{txn} does not follow {other} of its session"),
        Axiom::Int => format!(
            "{txn} read {key} = {} after its own operations made it {}",
            value(&finding.seen),
            value(&finding.expected)
        ),
        Axiom::Ext => format!(
            "{txn} read {key} = {}, and the last version that it sees is {} of {other}",
            value(&finding.seen),
            value(&finding.expected)
        ),
        Axiom::NoConflict => format!("{txn} and {other} both wrote {key}, and neither sees the other"),
        Axiom::Tie => format!("{txn} read {key} = {}, one of several versions", value(&finding.seen)),
    };
    format!("{sentence} ({})", finding.axiom().code())
}
