//! The search over configurations, each at a return whose call has not taken effect yet.
//!
//! Depth first, which finds an order quickly where there is one. Where there is none, everything is
//! searched, and what was searched fills the memory: after some patience the search begins anew, return by
//! return, and then needs to remember only the configurations at the present one.
//!
//! Why the savings lose nothing. Take any linearisation; each step changes it into another.
//! - *Reads at once.* A read that is open while the value is the one it returns can move to that moment: it
//!   changes nothing, and leaves the rest as it was.
//! - *Writes for a call that needs them.* What follows a write either finds its value or overwrites it. If
//!   it overwrites it, the write is *hidden*, and could stand right before any write that took effect while
//!   it was open. So once one did, the write may return without having taken effect by itself (the bit in
//!   `pass`), and need not be ordered among the others. If a call finds its value, the write can wait until
//!   that call is open, or until it must return itself; nothing takes effect in between. A lost write,
//!   which may be left out, waits for a call to find it in any case. And who may return hidden, with a
//!   value no call finds later, does.
//! - *Comparable configurations.* At the same return with the same value, the one that used fewer lost
//!   calls, has more writes left to use, and lets the same calls return can do everything the other can.
//! - *Twins.* Of open calls with one action, the one that returns first goes first: they could swap places.
//!   Lost calls with one action are taken in the order of invocation.
//! - *Doomed calls* (`plan.rs`) fit nowhere, so the first configuration that gets to one shows all there is
//!   to show.
//! - *No call can produce it.* A read or compare-and-set that needs a value which is not there, and which no
//!   open or lost call puts there, cannot take effect before it returns.

use super::plan::{Plan, Return};
use super::{Action, Configuration, Refutation, Value};
use anomalist_check::Budget;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Words of memory that remembered configurations may fill; about a gigabyte with the rest of an entry.
const MEMORY: usize = 1 << 24;
/// Configurations per return to look at depth first, and how many more in any case.
const PATIENCE: (u64, u64) = (20, 50_000);
/// How many configurations a refutation shows.
const SHOWN: usize = 8;
/// The end of a path.
const START: u32 = u32::MAX;

pub(super) enum Found {
    Order(Vec<usize>),
    Stuck(Refutation),
    OutOfBudget(u64),
    TooMany(u64),
}

type Bits<const W: usize> = [u64; W];

/// What took effect so far: everything that returned before `ret`, and some of the open calls.
#[derive(Clone)]
struct Config<const W: usize> {
    ret: u32,
    value: Value,
    /// Open calls that took effect, other than reads.
    done: Bits<W>,
    /// Open calls that may return: those that took effect, and writes that can be hidden.
    pass: Bits<W>,
    /// Lost calls that took effect.
    used: Bits<W>,
    /// The last step of the order so far.
    path: u32,
}

fn has<const W: usize>(bits: &Bits<W>, i: usize) -> bool {
    bits[i / 64] >> (i % 64) & 1 == 1
}

fn set<const W: usize>(bits: &mut Bits<W>, i: usize) {
    bits[i / 64] |= 1 << (i % 64);
}

fn clear<const W: usize>(bits: &mut Bits<W>, i: usize) {
    bits[i / 64] &= !(1 << (i % 64));
}

fn subset<const W: usize>(a: &Bits<W>, b: &Bits<W>) -> bool {
    a.iter().zip(b).all(|(a, b)| a & !b == 0)
}

/// Open calls done and lost calls used.
type Spent<const W: usize> = (Bits<W>, Bits<W>);

/// What was searched: per return, value and calls that may return, the smallest sets of calls spent.
struct Memory<const W: usize> {
    seen: FxHashMap<(u32, Value, Bits<W>), Vec<Spent<W>>>,
    words: usize,
}

impl<const W: usize> Memory<W> {
    /// Remembers a configuration; false if it, or one at least as good, is known.
    fn insert(&mut self, c: &Config<W>) -> bool {
        let known = self.seen.entry((c.ret, c.value, c.pass)).or_default();
        if known.iter().any(|(done, used)| subset(done, &c.done) && subset(used, &c.used)) {
            return false;
        }
        known.retain(|(done, used)| !(subset(&c.done, done) && subset(&c.used, used)));
        known.push((c.done, c.used));
        self.words += 3 * W + 4;
        true
    }

    fn forget(&mut self) {
        self.seen.clear();
        self.words = 0;
    }
}

/// A step of an order: a call that took effect, or a write hidden before the last write that did.
#[derive(Clone, Copy)]
struct Step {
    call: u32,
    hidden: bool,
    before: u32,
}

struct Search<'p, 'c, const W: usize> {
    plan: &'p Plan<'c>,
    steps: Vec<Step>,
    memory: Memory<W>,
    todo: Vec<Config<W>>,
    /// Configurations by return, once depth first has taken too long.
    layers: Option<BTreeMap<u32, Vec<Config<W>>>>,
    /// The return that is being looked at then.
    layer: u32,
    /// The furthest return that was not passed, the configurations stuck there, and how many there were.
    furthest: u32,
    stuck: Vec<Config<W>>,
    stuck_count: u64,
}

pub(super) fn search<const W: usize>(plan: &Plan<'_>, initial: Value, budget: &Budget<'_>) -> Found {
    let start = Config { ret: 0, value: initial, done: [0; W], pass: [0; W], used: [0; W], path: START };
    let mut s = Search::<W> {
        plan,
        steps: Vec::new(),
        memory: Memory { seen: FxHashMap::default(), words: 0 },
        todo: vec![start.clone()],
        layers: None,
        layer: 0,
        furthest: 0,
        stuck: Vec::new(),
        stuck_count: 0,
    };
    let patience = PATIENCE.0 * plan.returns.len() as u64 + PATIENCE.1;
    let mut explored = 0u64;
    while let Some(mut config) = s.next() {
        explored += 1;
        if explored % 256 == 1 && budget.is_spent() {
            return Found::OutOfBudget(explored);
        }
        if s.memory.words > MEMORY || s.steps.len() >= START as usize / 2 {
            return Found::TooMany(explored);
        }
        if explored == patience {
            s.begin_anew(start.clone());
            continue;
        }
        let at = config.ret;
        let Some(ret) = s.advance(&mut config) else { return Found::Order(s.order(config.path)) };
        match &mut s.layers {
            Some(layers) if config.ret > at => layers.entry(config.ret).or_default().push(config),
            _ => {
                if s.memory.insert(&config) {
                    s.note(&config);
                    if plan.doomed == Some(config.ret as usize) {
                        break;
                    }
                    s.branch(&config, ret);
                }
            }
        }
    }
    match s.refutation() {
        Some(refutation) => Found::Stuck(refutation),
        // Without a return there is nothing to get stuck at, and the first configuration was the end.
        None => Found::Order(Vec::new()),
    }
}

impl<'p, const W: usize> Search<'p, '_, W> {
    /// The configuration to look at now: the last one found, or one at the earliest return.
    fn next(&mut self) -> Option<Config<W>> {
        let Some(layers) = &mut self.layers else { return self.todo.pop() };
        for config in self.todo.drain(..) {
            layers.entry(config.ret).or_default().push(config);
        }
        let mut first = layers.first_entry()?;
        if *first.key() > self.layer {
            // Nothing leads back to an earlier return.
            self.layer = *first.key();
            self.memory.forget();
        }
        let config = first.get_mut().pop();
        if first.get().is_empty() {
            first.remove();
        }
        config
    }

    /// Begins again, this time return by return.
    fn begin_anew(&mut self, start: Config<W>) {
        self.todo.clear();
        self.steps.clear();
        self.memory.forget();
        (self.furthest, self.stuck_count) = (0, 0);
        self.stuck.clear();
        self.layers = Some(BTreeMap::from([(start.ret, vec![start])]));
    }

    fn step(&mut self, config: &mut Config<W>, call: usize, hidden: bool) {
        self.steps.push(Step { call: call as u32, hidden, before: config.path });
        config.path = (self.steps.len() - 1) as u32;
    }

    fn action(&self, call: usize) -> Action {
        self.plan.calls[call].action
    }

    /// Passes returns where there is nothing to choose; `None` at the end.
    fn advance(&mut self, config: &mut Config<W>) -> Option<&'p Return> {
        loop {
            let ret = self.plan.returns.get(config.ret as usize)?;
            self.take_reads(config, ret);
            let slot = self.plan.slot(ret.call);
            let choice = match self.action(ret.call) {
                Action::Write(v) => !has(&config.done, slot) && self.plan.wanted_after(v, ret.at),
                _ => false,
            };
            if choice || !has(&config.pass, slot) {
                return Some(ret);
            }
            self.pass(config, ret);
        }
    }

    /// Lets the call return; a write that did not take effect by itself is hidden.
    fn pass(&mut self, config: &mut Config<W>, ret: &Return) {
        let slot = self.plan.slot(ret.call);
        if matches!(self.action(ret.call), Action::Write(_)) && !has(&config.done, slot) {
            self.step(config, ret.call, true);
        }
        clear(&mut config.done, slot);
        clear(&mut config.pass, slot);
        config.ret += 1;
    }

    /// Linearises the open reads of the present value.
    fn take_reads(&mut self, config: &mut Config<W>, ret: &Return) {
        let plan = self.plan;
        for (call, slot) in plan.open(ret) {
            if plan.calls[call].action == Action::Read(config.value) && !has(&config.pass, slot) {
                set(&mut config.pass, slot);
                self.step(config, call, false);
            }
        }
    }

    /// The configuration after a call took effect, which is possible; `mark` notes that it did.
    fn take(
        &mut self,
        config: &Config<W>,
        ret: &Return,
        (call, value): (usize, Value),
        mark: impl FnOnce(&mut Config<W>),
    ) {
        let mut next = Config { value, ..config.clone() };
        self.step(&mut next, call, false);
        if let Action::Write(_) = self.action(call) {
            for (other, slot) in self.plan.open(ret) {
                if let Action::Write(_) = self.action(other) {
                    set(&mut next.pass, slot);
                }
            }
        }
        mark(&mut next);
        self.take_reads(&mut next, ret);
        self.todo.push(next);
    }

    fn note(&mut self, config: &Config<W>) {
        if config.ret > self.furthest {
            self.furthest = config.ret;
            self.stuck.clear();
            self.stuck_count = 0;
        }
        if config.ret == self.furthest {
            self.stuck_count += 1;
            if self.stuck.len() < SHOWN {
                self.stuck.push(config.clone());
            }
        }
    }

    /// Puts on the stack every way to go on, the most promising last.
    fn branch(&mut self, config: &Config<W>, ret: &'p Return) {
        let plan = self.plan;
        if !self.possible(config, ret) {
            return;
        }
        let first = self.todo.len();
        let slot = plan.slot(ret.call);
        if has(&config.pass, slot) {
            let mut hidden = config.clone();
            self.pass(&mut hidden, ret);
            self.todo.push(hidden);
        }
        let found = self.found_by_some_call(config, ret);
        self.branch_lost(config, ret, &found);
        let mut open: Vec<(Action, Option<usize>, usize, usize)> = plan
            .open(ret)
            .filter(|&(_, s)| !has(&config.done, s))
            .map(|(call, s)| (self.action(call), plan.calls[call].ended, call, s))
            .collect();
        open.sort_unstable();
        open.dedup_by_key(|(action, ..)| *action);
        // The call that returns first is most urgent.
        open.sort_unstable_by_key(|&(_, ended, call, _)| std::cmp::Reverse((ended, call)));
        for (action, _, call, s) in open {
            let sensible = match action {
                Action::Read(_) => false,
                Action::Write(v) => call == ret.call || found.binary_search(&v).is_ok(),
                Action::Cas(..) => true,
            };
            if let (true, Some(value)) = (sensible, action.apply(config.value)) {
                self.take(config, ret, (call, value), |next| {
                    set(&mut next.done, s);
                    set(&mut next.pass, s);
                });
            }
        }
        // Those in which the call took effect go on top.
        self.todo[first..].sort_by_key(|next| next.ret == config.ret && has(&next.pass, slot));
    }

    /// The values that some call, open or lost, would find if they were there; sorted.
    fn found_by_some_call(&self, config: &Config<W>, ret: &Return) -> Vec<Value> {
        let plan = self.plan;
        let open = plan.open(ret).filter_map(|(call, slot)| match self.action(call) {
            Action::Read(v) | Action::Cas(v, _) if !has(&config.pass, slot) => Some(v),
            _ => None,
        });
        let mut found: Vec<Value> = open.collect();
        for (&from, classes) in &plan.lost_cas {
            if classes.iter().any(|&class| next_lost(plan, config, ret, class).is_some()) {
                found.push(from);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The lost calls that could take effect now, for a call that needs them.
    fn branch_lost(&mut self, config: &Config<W>, ret: &'p Return, found: &[Value]) {
        let plan = self.plan;
        if plan.lost.is_empty() {
            return;
        }
        let writes = found.iter().filter_map(|v| plan.lost_writes.get(v));
        let cas = plan.lost_cas.get(&config.value).into_iter().flatten();
        for &class in writes.chain(cas) {
            let Some((bit, call)) = next_lost(plan, config, ret, class) else { continue };
            let Some(value) = plan.lost[class].action.apply(config.value) else { continue };
            self.take(config, ret, (call, value), |next| set(&mut next.used, bit));
        }
    }

    /// False if the call that returns needs a value that no call can produce by then.
    fn possible(&self, config: &Config<W>, ret: &Return) -> bool {
        let plan = self.plan;
        let needed = match self.action(ret.call) {
            Action::Write(_) => return true,
            Action::Read(v) | Action::Cas(v, _) => v,
        };
        let produces = |action| matches!(action, Action::Write(v) | Action::Cas(_, v) if v == needed);
        needed == config.value
            || plan.open(ret).any(|(call, slot)| {
                call != ret.call && !has(&config.done, slot) && produces(plan.calls[call].action)
            })
            || plan
                .lost
                .iter()
                .enumerate()
                .any(|(class, lost)| produces(lost.action) && next_lost(plan, config, ret, class).is_some())
    }

    /// The calls of a path in order, hidden writes where they hide.
    fn order(&self, mut path: u32) -> Vec<usize> {
        let mut steps = Vec::new();
        while let Some(&step) = self.steps.get(path as usize) {
            steps.push(step);
            path = step.before;
        }
        // From the end: a hidden write waits for the write it stands before.
        let (mut order, mut hidden) = (Vec::new(), Vec::new());
        for step in steps {
            let call = step.call as usize;
            if step.hidden {
                hidden.push(call);
                continue;
            }
            order.push(call);
            if let Action::Write(_) = self.action(call) {
                order.append(&mut hidden);
            }
        }
        order.reverse();
        order
    }

    fn refutation(&self) -> Option<Refutation> {
        let ret = self.plan.returns.get(self.furthest as usize)?;
        let previous = self.furthest.checked_sub(1).map(|i| self.plan.returns[i as usize].call);
        let mut configurations: Vec<Configuration> = self
            .stuck
            .iter()
            .map(|config| {
                let pending = self.plan.open(ret).filter(|&(call, slot)| match self.action(call) {
                    Action::Read(_) => !has(&config.pass, slot),
                    _ => !has(&config.done, slot),
                });
                Configuration {
                    value: config.value,
                    order: self.order(config.path),
                    pending: pending.map(|(call, _)| call).collect(),
                }
            })
            .collect();
        configurations.sort_by(|a, b| (a.value, &a.pending, &a.order).cmp(&(b.value, &b.pending, &b.order)));
        Some(Refutation { call: ret.call, previous, configurations, count: self.stuck_count })
    }
}

/// The first call of a class of lost calls that has begun and has not taken effect, with its bit.
fn next_lost<const W: usize>(
    plan: &Plan<'_>,
    config: &Config<W>,
    ret: &Return,
    class: usize,
) -> Option<(usize, usize)> {
    let lost = &plan.lost[class];
    let (i, &(began, call)) =
        lost.calls.iter().enumerate().find(|(i, _)| !has(&config.used, lost.bit + i))?;
    (began <= ret.at).then_some((lost.bit + i, call))
}
