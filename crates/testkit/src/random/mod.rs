//! Histories that are not written by hand: random, nearly valid, structured, and all of a tiny size.
//!
//! Every generator takes the random numbers from its caller, so a seed names a history.
//! * [`tiny`]: uniform, with switches in [`Shape`] for everything that can go wrong;
//! * [`executed`] and [`mutated`]: what a database of some level would show, and the same with one read
//!   changed, which lies near the boundary of the level far more often than a uniform history does;
//! * [`stamped`]: with the timestamps of a database, right and wrong;
//! * [`structured`]: shapes on which checkers have fast paths;
//! * [`exhaustive`]: all of them.

mod execute;
mod exhaustive;
mod stamped;
mod structured;

pub use execute::{Reference, executed, mutated};
pub use exhaustive::{Exhaustive, exhaustive};
pub use stamped::{StampedShape, stamped};
pub use structured::{Pattern, structured};

use crate::plan::{Act, Plan, Step, Txn};
use anomalist_history::{History, Interval, Outcome};
use fastrand::Rng;
use std::ops::RangeInclusive;

/// What [`tiny`] histories look like. Shares are probabilities, from 0 to 1.
///
/// ```
/// use anomalist_testkit::random::{Shape, tiny};
/// let mut rng = fastrand::Rng::with_seed(7);
/// let shape = Shape { sessions: 2..=2, aborted: 0.2, ..Shape::default() };
/// assert!(tiny(&mut rng, &shape).session_count() <= 2);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Number of sessions; those that get no transaction disappear.
    pub sessions: RangeInclusive<usize>,
    /// Number of transactions.
    pub txns: RangeInclusive<usize>,
    /// Number of keys.
    pub keys: RangeInclusive<usize>,
    /// Operations of each transaction.
    pub ops: RangeInclusive<usize>,
    /// Share of operations that read.
    pub reads: f64,
    /// Share of transactions that abort.
    pub aborted: f64,
    /// Share of transactions whose outcome is not known.
    pub indeterminate: f64,
    /// Share of writes that repeat a value already written to the key, or the initial one.
    pub repeated: f64,
    /// Share of reads of a value that no transaction wrote.
    pub thin_air: f64,
    /// Share of reads without a result.
    pub unknown: f64,
    /// Share of reads from anywhere: overwritten, aborted, own and future writes; for lists any damage.
    pub faulty: f64,
    /// Share of keys that are lists.
    pub lists: f64,
    /// Whether transactions read keys that they wrote before.
    pub internal: bool,
    /// Share of histories that say when each transaction ran.
    pub timed: f64,
}

/// Registers, final writes of committed transactions only: everything depends on the order of commits.
impl Default for Shape {
    fn default() -> Shape {
        Shape {
            sessions: 1..=4,
            txns: 2..=7,
            keys: 1..=3,
            ops: 1..=4,
            reads: 0.5,
            aborted: 0.0,
            indeterminate: 0.0,
            repeated: 0.0,
            thin_air: 0.0,
            unknown: 0.0,
            faulty: 0.0,
            lists: 0.0,
            internal: false,
            timed: 0.0,
        }
    }
}

impl Shape {
    /// Reads of aborted, overwritten, own, future and unwritten values among good ones.
    pub fn faulty() -> Shape {
        Shape { aborted: 0.15, faulty: 0.1, thin_air: 0.02, internal: true, ..Shape::default() }
    }

    /// Transactions without a known outcome, and reads without a result.
    pub fn uncertain() -> Shape {
        Shape { aborted: 0.1, indeterminate: 0.3, unknown: 0.1, internal: true, ..Shape::default() }
    }

    /// Values written more than once: reads with several explanations.
    pub fn repeated() -> Shape {
        Shape { repeated: 0.3, indeterminate: 0.15, aborted: 0.1, internal: true, ..Shape::default() }
    }

    /// Lists, all reads good but for the order of commits.
    pub fn lists() -> Shape {
        Shape { lists: 1.0, internal: true, ..Shape::default() }
    }

    /// Transactions with real-time intervals, some never over.
    pub fn timed() -> Shape {
        Shape { timed: 1.0, indeterminate: 0.1, ..Shape::default() }
    }

    /// Lists and registers, with everything that can go wrong.
    pub fn anything() -> Shape {
        Shape { lists: 0.5, indeterminate: 0.1, unknown: 0.05, ..Shape::faulty() }
    }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> Option<T> {
    rng.choice(from.iter().copied())
}

fn chance(rng: &mut Rng, share: f64) -> bool {
    share > 0.0 && rng.f64() < share
}

/// A skeleton: who does what to which key. Reads have no result yet, writes have unique values from 1.
fn skeleton(rng: &mut Rng, shape: &Shape) -> (Plan, Vec<bool>) {
    let sessions = rng.usize(shape.sessions.clone()).max(1);
    let keys = rng.usize(shape.keys.clone()).max(1);
    let lists: Vec<bool> = (0..keys).map(|_| chance(rng, shape.lists)).collect();
    let mut plan = Plan { sessions: vec![Vec::new(); sessions], ..Plan::default() };
    let mut next = 1;
    let mut used: Vec<Vec<i64>> = vec![vec![0]; keys];
    for _ in 0..rng.usize(shape.txns.clone()) {
        let mut txn = Txn { steps: Vec::new(), outcome: Outcome::Committed };
        if chance(rng, shape.aborted) {
            txn.outcome = Outcome::Aborted;
        } else if chance(rng, shape.indeterminate) {
            txn.outcome = Outcome::Indeterminate;
        }
        for _ in 0..rng.usize(shape.ops.clone()) {
            let key = rng.usize(..keys);
            let own = txn.steps.iter().any(|s| s.key == key && s.written().is_some());
            if chance(rng, shape.reads) && (shape.internal || !own) {
                txn.steps.push(Step { key, act: Act::ReadUnknown });
                continue;
            }
            let mut value = next;
            if chance(rng, shape.repeated) {
                value = pick(rng, &used[key][usize::from(lists[key])..]).unwrap_or(next);
            }
            if value == next {
                next += 1;
                used[key].push(value);
            }
            let act = if lists[key] { Act::Append(value) } else { Act::Write(value) };
            txn.steps.push(Step { key, act });
        }
        let session = rng.usize(..sessions);
        plan.sessions[session].push(txn);
    }
    plan.sessions.retain(|s| !s.is_empty());
    (plan, lists)
}

/// Gives every transaction an interval around the moment at which it takes effect: `order` lists them, as
/// session and place, by that moment, each session's in its order.
fn measure(rng: &mut Rng, plan: &mut Plan, order: &[(usize, usize)]) {
    const STEP: u64 = 10;
    let mut moments: Vec<Vec<u64>> = plan.sessions.iter().map(|s| vec![0; s.len()]).collect();
    for (i, &(s, t)) in order.iter().enumerate() {
        moments[s][t] = (i as u64 + 4) * STEP;
    }
    plan.intervals = Vec::new();
    for (session, moments) in plan.sessions.iter().zip(&moments) {
        let mut free_from = 0;
        let mut intervals = Vec::new();
        for (i, txn) in session.iter().enumerate() {
            let moment = moments[i];
            let invoked = rng.u64(free_from.max(moment.saturating_sub(4 * STEP))..=moment);
            let last = moments.get(i + 1).map_or(moment + 4 * STEP, |&next| next - 2);
            let end = rng.u64(moment..=last.min(moment + 4 * STEP));
            let over = txn.outcome != Outcome::Indeterminate;
            intervals.push(Interval { invoked, completed: over.then_some(end) });
            free_from = end + 1;
        }
        plan.intervals.push(intervals);
    }
}

/// An order of all transactions, as session and place, that keeps each session's.
fn interleaving(rng: &mut Rng, plan: &Plan) -> Vec<(usize, usize)> {
    let mut next = vec![0; plan.sessions.len()];
    let mut order = Vec::new();
    loop {
        let ready: Vec<usize> = (0..next.len()).filter(|&s| next[s] < plan.sessions[s].len()).collect();
        let Some(s) = pick(rng, &ready) else { return order };
        order.push((s, next[s]));
        next[s] += 1;
    }
}

/// A uniform random history: each read takes its value from any source that the shape allows.
pub fn tiny(rng: &mut Rng, shape: &Shape) -> History {
    let (mut plan, lists) = skeleton(rng, shape);
    // One order of appends for all reads of a list; writers that aborted are not in it.
    let mut order: Vec<usize> = (0..plan.txns().count()).collect();
    rng.shuffle(&mut order);
    let before = plan.clone();
    let txns: Vec<&Txn> = before.txns().collect();
    let mut reader = 0;
    for session in &mut plan.sessions {
        for txn in session {
            for i in 0..txn.steps.len() {
                let key = txn.steps[i].key;
                if txn.steps[i].act != Act::ReadUnknown || chance(rng, shape.unknown) {
                    continue;
                }
                txn.steps[i].act = match lists[key] {
                    true => Act::ReadList(list(rng, shape, &txns, &order, reader, i)),
                    false => Act::Read(register(rng, shape, &txns, reader, i)),
                };
            }
            reader += 1;
        }
    }
    if chance(rng, shape.timed) {
        let order = interleaving(rng, &plan);
        measure(rng, &mut plan, &order);
    }
    plan.build()
}

fn register(rng: &mut Rng, shape: &Shape, txns: &[&Txn], reader: usize, step: usize) -> i64 {
    let key = txns[reader].steps[step].key;
    if chance(rng, shape.thin_air) {
        return 1000;
    }
    if chance(rng, shape.faulty) {
        let written: Vec<i64> = txns.iter().flat_map(|t| t.written(key)).chain([0]).collect();
        return pick(rng, &written).unwrap_or(0);
    }
    if let Some(&own) = txns[reader].written_before(key, step).last() {
        return own;
    }
    let others = txns.iter().enumerate().filter(|&(t, txn)| t != reader && txn.outcome != Outcome::Aborted);
    let finals: Vec<i64> = others.filter_map(|(_, t)| t.written(key).last().copied()).chain([0]).collect();
    pick(rng, &finals).unwrap_or(0)
}

fn list(
    rng: &mut Rng,
    shape: &Shape,
    txns: &[&Txn],
    order: &[usize],
    reader: usize,
    step: usize,
) -> Vec<i64> {
    let key = txns[reader].steps[step].key;
    // What commits after the reader is not in its list, if it appends at all.
    let appends = !txns[reader].written(key).is_empty();
    let visible: Vec<usize> = order
        .iter()
        .copied()
        .take_while(|&t| !(appends && t == reader))
        .filter(|&t| txns[t].outcome != Outcome::Aborted && !txns[t].written(key).is_empty())
        .collect();
    let count = rng.usize(..=visible.len());
    let mut elements: Vec<i64> = visible[..count].iter().flat_map(|&t| txns[t].written(key)).collect();
    elements.extend(txns[reader].written_before(key, step));
    if chance(rng, shape.thin_air) {
        elements.insert(rng.usize(..=elements.len()), 1000);
    }
    if chance(rng, shape.faulty) {
        damage(rng, txns, key, &mut elements);
    }
    elements
}

fn damage(rng: &mut Rng, txns: &[&Txn], key: usize, elements: &mut Vec<i64>) {
    let all: Vec<i64> = txns.iter().flat_map(|t| t.written(key)).collect();
    let place = rng.usize(..=elements.len());
    match rng.u8(..4) {
        0 => elements.truncate(place),
        1 => rng.shuffle(elements),
        2 if place < elements.len() => {
            elements.remove(place);
        }
        _ => {
            if let Some(element) = pick(rng, &all) {
                elements.insert(place, element);
            }
        }
    }
}
