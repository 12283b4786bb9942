//! The judging half of a monitor: the engine for single steps, and checks of the whole now and then.

use crate::history::History;
use crate::monitor::{Breach, Precedes, Standing, Status};
use crate::stamped::{Known as ByStamps, Stamped};
use crate::{Basis, check};
use anomalist_history::{
    Builder, FaultKind, History as Transactions, Initial, Interval, KeyId, OpKind, Outcome, SessionId,
    Stamps, Timestamp, Value,
};
use anomalist_incremental::{
    Arrival, Because, Doubt, Engine, Link, Operation, Standing as Known, Unsupported, Violation, Why,
};
use anomalist_level::{Level, Verdict};
use anomalist_report::reason;
use anomalist_timestamp::{Mode, Tie};
use std::time::Duration;

/// A transaction that ended.
pub(crate) struct Ended<'a> {
    pub session: SessionId,
    pub outcome: Outcome,
    pub interval: Interval,
    pub stamps: Option<Stamps>,
    pub ops: &'a [(OpKind, KeyId, Value)],
}

pub(crate) struct Watch {
    levels: Vec<Level>,
    engine: Engine,
    /// Judges the levels that timestamps speak about, if they are to.
    stamped: Option<Box<Stamped>>,
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
            stamped: None,
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
            self.begin(self.tie());
        }
    }

    pub fn by_timestamps(&mut self, tie: Tie) {
        if self.steps == 0 {
            self.begin(Some(tie));
        } else {
            self.stamped = Some(Box::new(Stamped::new(&self.levels, tie, &self.initial, true)));
        }
    }

    fn begin(&mut self, tie: Option<Tie>) {
        let (stamps, values): (Vec<Level>, Vec<Level>) =
            self.levels.iter().partition(|&&level| tie.is_some() && Mode::of(level).is_some());
        self.engine = Engine::new(&values);
        self.engine.set_initial(self.initial.clone());
        self.stamped = tie.map(|tie| Box::new(Stamped::new(&stamps, tie, &self.initial, false)));
    }

    /// What equal timestamps mean, if timestamps judge.
    pub fn tie(&self) -> Option<Tie> {
        self.stamped.as_ref().map(|stamped| stamped.tie)
    }

    pub fn set_initial(&mut self, initial: &Initial) {
        self.initial = initial.clone();
        self.engine.set_initial(initial.clone());
        if let Some(stamped) = &mut self.stamped {
            stamped.set_initial(initial);
        }
    }

    pub fn accept(&mut self, builder: &Builder, ended: &Ended<'_>) {
        let operation = |&(kind, key, value): &(OpKind, KeyId, Value)| Operation {
            kind,
            key,
            value,
            elements: builder.elements(value).filter(|_| kind == OpKind::Read),
        };
        let ops: Vec<Operation<'_>> = ended.ops.iter().map(operation).collect();
        let Ended { session, outcome, interval, stamps, .. } = *ended;
        self.engine.accept(&Arrival { session, outcome, interval: Some(interval), ops: &ops });
        if let Some(stamped) = &mut self.stamped {
            stamped.accept(builder, session, outcome, stamps, ended.ops);
        }
        self.steps += 1;
        self.name_breaches(builder);
        if self.steps >= self.next {
            self.check_whole(builder, false);
        }
    }

    pub fn end(&mut self, builder: &Builder) {
        self.engine.end();
        if let Some(stamped) = &mut self.stamped {
            stamped.end();
        }
        self.name_breaches(builder);
        self.check_whole(builder, true);
    }

    /// No transaction that ends from now on commits before this.
    pub fn advance(&mut self, builder: &Builder, to: Timestamp) {
        if let Some(stamped) = &mut self.stamped {
            stamped.advance(to);
            self.name_breaches(builder);
        }
    }

    /// What timestamps say about a level, if it is judged by them.
    fn by_stamps(&self, level: Level) -> Option<(&Stamped, ByStamps<'_>)> {
        let stamped = self.stamped.as_deref()?;
        Some((stamped, stamped.known(level)?))
    }

    /// Gives names to the transactions of new violations: the only time that takes the whole recording.
    fn name_breaches(&mut self, builder: &Builder) {
        for &level in &self.levels {
            let is_named = self.breaches.iter().any(|(l, _)| *l == level);
            let named = match self.by_stamps(level) {
                Some((_, ByStamps::Holds(_))) => {
                    // It was retracted: the declared virtual time was wrong.
                    self.breaches.retain(|(l, _)| *l != level);
                    continue;
                }
                _ if is_named => continue,
                Some((stamped, ByStamps::Violated(found))) => {
                    builder.clone().finish().map(|history| stamped.breach(&history, found))
                }
                Some(_) => continue,
                None => match self.engine.standing(level) {
                    Known::Violated(v) => builder.clone().finish().map(|history| breach(&history, v)),
                    _ => continue,
                },
            };
            self.breaches.extend(named.ok().map(|breach| (level, breach)));
        }
    }

    /// Reads that no version explains so far, with names.
    pub fn provisional(&self, builder: &Builder) -> Vec<(Level, Breach)> {
        let Some(stamped) = &self.stamped else { return Vec::new() };
        let Ok(history) = builder.clone().finish() else { return Vec::new() };
        let all = self.levels.iter().flat_map(|&level| stamped.provisional(level).map(move |f| (level, f)));
        all.map(|(level, found)| (level, stamped.breach(&history, found))).collect()
    }

    /// Checks the levels that are not decided step by step.
    fn check_whole(&mut self, builder: &Builder, ended: bool) {
        // By timestamps a check of a part says nothing about the whole.
        let open = |level: &Level| match self.by_stamps(*level) {
            Some((_, known)) => ended && matches!(known, ByStamps::Undecided(_)),
            None => matches!(self.engine.standing(*level), Known::Unknown(_)),
        };
        let mut open: Vec<Level> = self.levels.iter().copied().filter(open).collect();
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
        let timed = history.transactions().stamps().is_some();
        open.retain(|&level| timed || self.by_stamps(level).is_none());
        let question = match &self.stamped {
            Some(stamped) if ended && timed => check(&history).by(Basis::Timestamps).ties(stamped.tie),
            _ => check(&history).by(Basis::Values),
        };
        let question = open.iter().fold(question, |q, &level| q.decide(level));
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
        match self.by_stamps(level) {
            Some((_, ByStamps::Holds(pending))) => return Standing::Holds { pending },
            Some((_, ByStamps::Violated(_))) => return self.named(level),
            Some((_, ByStamps::Undecided(why))) => return self.checked(level, why),
            None => {}
        }
        match self.engine.standing(level) {
            Known::Holds { pending } => Standing::Holds { pending },
            Known::Violated(_) => self.named(level),
            Known::Unknown(doubt) => self.checked(level, doubted(doubt)),
        }
    }

    fn named(&self, level: Level) -> Standing {
        let named = self.breaches.iter().find(|(l, _)| *l == level);
        named.map_or_else(
            || Standing::Unknown { reason: "the recording is too large".to_owned() },
            |(_, breach)| Standing::Violated(breach.clone()),
        )
    }

    /// What the last check of the whole said.
    fn checked(&self, level: Level, why: &str) -> Standing {
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
