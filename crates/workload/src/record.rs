//! From finished transactions to a [`Builder`]: names, timestamps, outcomes.

use crate::spec::{Kind, Spec};
use anomalist_history::{Builder, Draft, Interval, OpKind, Outcome, Stamps, Timestamp, Value};

/// What a transaction did so far. Lists that it read lie one after another in one vector.
#[derive(Default)]
pub(crate) struct Log {
    ops: Vec<Done>,
    elements: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Done {
    write: bool,
    key: u64,
    /// The value; for a list that was read, its end in `elements`.
    value: u64,
}

impl Log {
    pub fn clear(&mut self) {
        self.ops.clear();
        self.elements.clear();
    }

    #[inline]
    pub fn write(&mut self, key: u64, value: u64) {
        self.ops.push(Done { write: true, key, value });
    }

    #[inline]
    pub fn read(&mut self, key: u64, value: u64) {
        self.ops.push(Done { write: false, key, value });
    }

    pub fn read_list(&mut self, key: u64, elements: &[u64], more: impl Iterator<Item = u64>) {
        self.elements.extend_from_slice(elements);
        self.elements.extend(more);
        self.ops.push(Done { write: false, key, value: self.elements.len() as u64 });
    }
}

/// When a transaction happened, in clock ticks.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// The client first tried.
    pub invoked: u64,
    /// The attempt that counted began.
    pub start: u64,
    /// It ended.
    pub end: u64,
}

/// Marks the value of a write that deletes its key. Inside the simulated database every write has a value
/// of its own; clients see the initial value.
pub(crate) const DELETED: u64 = 1 << 60;

/// Writes transactions into builders.
pub(crate) struct Recorder {
    kind: Kind,
    real_time: bool,
    nil_initial: bool,
    sessions: u32,
    /// How wrong each session's clock is; empty if none is.
    skew: Vec<i64>,
    next_label: i64,
    list: Vec<Value>,
    /// List elements written into the current builder.
    pub elements: usize,
}

impl Recorder {
    pub fn new(spec: &Spec, rng: &mut fastrand::Rng) -> Recorder {
        let most = i64::from(spec.clock_skew);
        let skew = (0..spec.sessions).map(|_| rng.i64(-most..=most)).collect();
        Recorder {
            kind: spec.kind,
            real_time: spec.real_time,
            nil_initial: spec.nil_initial,
            sessions: spec.sessions,
            skew: if most == 0 { Vec::new() } else { skew },
            next_label: 0,
            list: Vec::new(),
            elements: 0,
        }
    }

    /// An empty builder, its sessions named in order.
    pub fn builder(&mut self) -> Builder {
        let mut b = Builder::new();
        for s in 0..self.sessions {
            let label = b.int(i64::from(s));
            b.session(label);
        }
        let initial = if self.kind.is_list() { b.list(&[]) } else { self.value(&mut b, 0) };
        b.set_initial_default(Some(initial));
        self.elements = 0;
        b
    }

    /// Appends a transaction; the next of its session.
    pub fn record(&mut self, b: &mut Builder, log: &Log, session: u32, outcome: Outcome, times: Times) {
        let name = b.int(i64::from(session));
        let session_id = b.session(name);
        let draft = b.transaction(session_id);
        if outcome != Outcome::Committed {
            b.set_outcome(draft, outcome);
        }
        let label = b.int(self.next_label);
        self.next_label += 1;
        b.set_label(draft, label);
        if self.kind.is_timestamped() {
            let stamp = |ticks| Timestamp { physical: self.reading(session, ticks), logical: 0 };
            b.set_stamps(draft, Stamps { start: stamp(times.start), commit: stamp(times.end) });
        }
        if self.real_time {
            let completed = (outcome != Outcome::Indeterminate).then_some(times.end);
            b.set_interval(draft, Interval { invoked: times.invoked, completed });
        }
        self.operations(b, draft, log);
    }

    fn operations(&mut self, b: &mut Builder, draft: Draft, log: &Log) {
        let lists = self.kind.is_list();
        let write = if lists { OpKind::Append } else { OpKind::Write };
        let mut from = 0;
        for done in &log.ops {
            let key = b.int(done.key as i64);
            let key = b.key(key);
            if lists && !done.write {
                let to = done.value as usize;
                self.list.clear();
                for &e in &log.elements[from..to] {
                    self.list.push(b.int(e as i64));
                }
                self.elements += to - from;
                from = to;
                let value = b.list(&self.list);
                b.op(draft, OpKind::Read, key, value);
            } else {
                let value = self.value(b, done.value);
                b.op(draft, if done.write { write } else { OpKind::Read }, key, value);
            }
        }
    }

    /// A value of a register; 0 is the initial one, which only deletions write.
    #[inline]
    fn value(&self, b: &mut Builder, value: u64) -> Value {
        let value = if value & DELETED == 0 { value } else { 0 };
        if value == 0 && self.nil_initial { Value::NIL } else { b.int(value as i64) }
    }

    /// What a session's clock shows. Wrong clocks are spread out so that no two sessions ever read the same
    /// time.
    fn reading(&self, session: u32, ticks: u64) -> i64 {
        match self.skew.get(session as usize) {
            None => ticks as i64,
            Some(skew) => (ticks as i64 + skew) * i64::from(self.sessions) + i64::from(session),
        }
    }
}
