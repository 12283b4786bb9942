//! The judging half of a monitor: the engine for single steps, and checks of the whole now and then.

use crate::history::History;
use crate::monitor::{Breach, Precedes, Standing, Status};
use crate::{Basis, check};
use anomalist_history::{
    Builder, FaultKind, History as Transactions, Initial, Interval, KeyId, OpKind, Outcome, SessionId, Value,
};
use anomalist_incremental::{
    Arrival, Because, Doubt, Engine, Link, Operation, Standing as Known, Unsupported, Violation, Why,
};
use anomalist_level::{Level, Verdict};
use anomalist_report::reason;
use std::time::Duration;

/// A transaction that ended.
pub(crate) struct Ended<'a> {
    pub session: SessionId,
    pub outcome: Outcome,
    pub interval: Interval,
    pub ops: &'a [(OpKind, KeyId, Value)],
}

pub(crate) struct Watch {
    levels: Vec<Level>,
    engine: Engine,
    initial: Initial,
    steps: usize,
    /// Violations that were found step by step, with names.
    breaches: Vec<(Level, Breach)>,
    /// What checks of the whole found, and when.
    checked: Vec<(Level, usize, Verdict)>,
    /// When the whole is checked again.
    next: usize,
    /// How long that may take.
    pub limit: Duration,
}

/// When the whole is checked first.
const FIRST: usize = 8;

impl Watch {
    pub fn new(steps: usize) -> Watch {
        Watch {
            levels: Vec::new(),
            engine: Engine::default(),
            initial: Initial::default(),
            steps,
            breaches: Vec::new(),
            checked: Vec::new(),
            next: FIRST,
            limit: Duration::from_secs(1),
        }
    }

    pub fn require(&mut self, level: Level) {
        if self.levels.contains(&level) {
            return;
        }
        self.levels.push(level);
        if self.steps == 0 {
            self.engine = Engine::new(&self.levels);
            self.engine.set_initial(self.initial.clone());
        }
    }

    pub fn set_initial(&mut self, initial: &Initial) {
        self.initial = initial.clone();
        self.engine.set_initial(initial.clone());
    }

    pub fn accept(&mut self, builder: &Builder, ended: &Ended<'_>) {
        let operation = |&(kind, key, value): &(OpKind, KeyId, Value)| Operation {
            kind,
            key,
            value,
            elements: builder.elements(value).filter(|_| kind == OpKind::Read),
        };
        let ops: Vec<Operation<'_>> = ended.ops.iter().map(operation).collect();
        let Ended { session, outcome, interval, .. } = *ended;
        self.engine.accept(&Arrival { session, outcome, interval: Some(interval), ops: &ops });
        self.steps += 1;
        self.name_breaches(builder);
        if self.steps >= self.next {
            self.check_whole(builder, false);
        }
    }

    pub fn end(&mut self, builder: &Builder) {
        self.engine.end();
        self.name_breaches(builder);
        self.check_whole(builder, true);
    }

    /// Gives names to the transactions of new violations: the only time that takes the whole recording.
    fn name_breaches(&mut self, builder: &Builder) {
        for &level in &self.levels {
            if let Known::Violated(violation) = self.engine.standing(level)
                && self.breaches.iter().all(|(l, _)| *l != level)
                && let Ok(history) = builder.clone().finish()
            {
                self.breaches.push((level, breach(&history, violation)));
            }
        }
    }

    /// Checks the levels that are not decided step by step.
    fn check_whole(&mut self, builder: &Builder, ended: bool) {
        let open = |level: &Level| matches!(self.engine.standing(*level), Known::Unknown(_));
        let open: Vec<Level> = self.levels.iter().copied().filter(open).collect();
        if open.is_empty() || self.limit.is_zero() {
            return;
        }
        self.next = 2 * self.steps;
        let mut builder = builder.clone();
        if !ended {
            // Their writers may yet arrive. What is left is part of every longer recording.
            builder.forget_unexplained();
        }
        let Ok(history) = builder.finish().map(History::from) else { return };
        let question = open.iter().fold(check(&history).by(Basis::Values), |q, &level| q.decide(level));
        let Ok(answer) = question.timeout(self.limit).run() else { return };
        self.checked.retain(|(level, ..)| !open.contains(level));
        for level in open {
            self.checked.extend(answer.verdict(level).map(|v| (level, self.steps, v.clone())));
        }
    }

    pub fn status(&self) -> Status {
        let standing = |&level: &Level| (level, self.standing(level));
        Status { steps: self.steps, levels: self.levels.iter().map(standing).collect() }
    }

    fn standing(&self, level: Level) -> Standing {
        match self.engine.standing(level) {
            Known::Holds { pending } => Standing::Holds { pending },
            Known::Violated(_) => {
                let named = self.breaches.iter().find(|(l, _)| *l == level);
                named.map_or_else(
                    || Standing::Unknown { reason: "the recording is too large".to_owned() },
                    |(_, breach)| Standing::Violated(breach.clone()),
                )
            }
            Known::Unknown(doubt) => self.checked(level, doubt),
        }
    }

    /// What the last check of the whole said.
    fn checked(&self, level: Level, doubt: Doubt) -> Standing {
        let why = doubted(doubt);
        let Some((_, at, verdict)) = self.checked.iter().find(|(l, ..)| *l == level) else {
            return Standing::Unknown { reason: format!("{why}; not checked as a whole yet") };
        };
        match verdict {
            Verdict::Holds if *at == self.steps => Standing::Holds { pending: 0 },
            Verdict::Holds => Standing::Unknown {
                reason: format!("{why}; it held after {at} transactions, when all were checked"),
            },
            Verdict::Violated => Standing::Violated(Breach {
                steps: *at,
                transaction: "one of all transactions".to_owned(),
                reason: "a check of all transactions found a violation, which explain() shows".to_owned(),
                cycle: Vec::new(),
            }),
            Verdict::Unknown(open) => Standing::Unknown {
                reason: format!("{why}; when all were checked, after {at} transactions: {}", reason(open)),
            },
        }
    }
}

fn doubted(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::Unsupported(Unsupported::Repeated(_)) => "a value was written to a key more than once",
        Doubt::Unsupported(Unsupported::Mixed(_)) => "a key is a list and a register",
        Doubt::Unsupported(Unsupported::LateInitial) => {
            "initial values were set after transactions had ended"
        }
        Doubt::BlindWrites(_) => {
            "a register was written without being read, so the order of its versions is open"
        }
        Doubt::UnseenAppends => "no read shows the order of the last appends to some lists",
        Doubt::NoRealTime => "a transaction has no real time",
        _ => "this level is not decided step by step",
    }
}

/// A violation with the names of its transactions.
fn breach(history: &Transactions, violation: &Violation) -> Breach {
    let name = |step: u32| {
        let found = history.txns().find(|&t| history.position(t) == step);
        found.map_or_else(|| format!("number {}", step + 1), |t| history.txn_name(t))
    };
    let key = |key: KeyId| history.show_key(key).to_string();
    let reason = match &violation.why {
        Why::Read { reader, kind, key: k } => {
            format!("{} {} (key {})", name(*reader), fault(*kind), key(*k))
        }
        Why::Cycle(_) => "each of these transactions must come before the next".to_owned(),
        Why::Overlooked { reader, writer, key: k } => format!(
            "{} read the initial value of {} although it could see the version of {}",
            name(*reader),
            key(*k),
            name(*writer)
        ),
        Why::LostUpdate { writers: [a, b], key: k } => {
            format!("{} and {} read one version of {} and both replaced it", name(*a), name(*b), key(*k))
        }
        _ => "no execution explains what was read".to_owned(),
    };
    let because = |because: Because| match because {
        Because::Session => "it is earlier in their session".to_owned(),
        Because::RealTime => "it ended before the other began".to_owned(),
        Because::Read(k) => format!("the other read its version of {}", key(k)),
        Because::Version(k) => format!("its version of {} is older", key(k)),
        Because::Overwritten(k) => format!("it read a version of {} that the other replaced", key(k)),
        Because::Overlooked(k) => {
            format!("a transaction that could see its version of {} read the other's", key(k))
        }
        _ => "what was read shows it".to_owned(),
    };
    let precedes = |link: &Link| Precedes {
        first: name(link.from),
        then: name(link.to),
        because: because(link.because),
    };
    let cycle = match &violation.why {
        Why::Cycle(links) => links.iter().map(precedes).collect(),
        _ => Vec::new(),
    };
    Breach { steps: violation.step as usize + 1, transaction: name(violation.step), reason, cycle }
}

fn fault(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::ThinAir => "read a value that was never written",
        FaultKind::Aborted => "read a value of an aborted transaction",
        FaultKind::Future => "read a value that it wrote only later",
        FaultKind::NotMyOwnWrite => "did not read its own write",
        FaultKind::NotMyLastWrite => "read an own write that it had replaced",
        FaultKind::Intermediate => "read a value that its writer replaced before it committed",
        FaultKind::DuplicateElement => "read a list that shows an element too often",
        FaultKind::IncompatibleOrder => "read a list in an order that contradicts another read",
    }
}
