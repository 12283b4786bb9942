//! What the search needs to know at each return: which calls are open then, and which bit stands for each.

use super::{Action, Call, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Calls that never returned, with one action: interchangeable, so always taken in the order of their
/// invocations.
pub(super) struct Lost {
    pub action: Action,
    /// When each began, and its call; ascending.
    pub calls: Vec<(usize, usize)>,
    /// The bit of the first; the others follow.
    pub bit: usize,
}

/// A moment when a call that took effect returns.
pub(super) struct Return {
    pub at: usize,
    pub call: usize,
    /// The calls open now that will return, this one among them: a range of `Plan::open`.
    open: (usize, usize),
}

/// Calls in the shape of the search.
pub(super) struct Plan<'a> {
    pub calls: &'a [Call],
    pub returns: Vec<Return>,
    open: Vec<u32>,
    /// The bit of each call that returned; bits are used again.
    slots: Vec<u32>,
    pub lost: Vec<Lost>,
    /// The classes of lost writes by their value, and of lost compare-and-sets by the value they find.
    pub lost_writes: FxHashMap<Value, usize>,
    pub lost_cas: FxHashMap<Value, Vec<usize>>,
    /// Per value, the last return of a call that found it; the end of time if a lost call may find it.
    last_found: FxHashMap<Value, usize>,
    /// The first return of a call that fits nowhere, whatever the others do.
    pub doomed: Option<usize>,
    width: usize,
}

impl<'a> Plan<'a> {
    pub fn new(calls: &'a [Call], initial: Value) -> Plan<'a> {
        // Invocations before returns at one position: a call is before another only if it ended strictly
        // earlier.
        let mut moments: Vec<(usize, bool, usize)> = Vec::with_capacity(2 * calls.len());
        for (i, call) in calls.iter().enumerate() {
            if let Some(ended) = call.ended {
                moments.push((call.began.min(ended), false, i));
                moments.push((ended, true, i));
            }
        }
        moments.sort_unstable();
        let (mut returns, mut open, mut slots) = (Vec::new(), Vec::new(), vec![0; calls.len()]);
        let (mut now, mut free, mut used): (Vec<u32>, Vec<u32>, u32) = (Vec::new(), Vec::new(), 0);
        for (at, is_return, call) in moments {
            if !is_return {
                slots[call] = free.pop().unwrap_or_else(|| {
                    used += 1;
                    used - 1
                });
                now.push(call as u32);
                continue;
            }
            let start = open.len();
            open.extend_from_slice(&now);
            returns.push(Return { at, call, open: (start, open.len()) });
            now.retain(|&c| c as usize != call);
            free.push(slots[call]);
        }
        let (lost, bits) = lost_calls(calls);
        let mut lost_writes = FxHashMap::default();
        let mut lost_cas: FxHashMap<Value, Vec<usize>> = FxHashMap::default();
        for (class, l) in lost.iter().enumerate() {
            match l.action {
                Action::Write(v) => drop(lost_writes.insert(v, class)),
                Action::Cas(from, _) => lost_cas.entry(from).or_default().push(class),
                Action::Read(_) => {}
            }
        }
        let mut last_found: FxHashMap<Value, usize> = lost_cas.keys().map(|&v| (v, usize::MAX)).collect();
        for call in calls {
            if let (Action::Read(v) | Action::Cas(v, _), Some(ended)) = (call.action, call.ended) {
                let last = last_found.entry(v).or_default();
                *last = ended.max(*last);
            }
        }
        let width = bits.max(used as usize);
        let doomed = doomed(calls, &returns, initial);
        Plan { calls, returns, open, slots, lost, lost_writes, lost_cas, last_found, doomed, width }
    }

    /// False if no call that returns after this moment found the value.
    pub fn wanted_after(&self, value: Value, moment: usize) -> bool {
        self.last_found.get(&value).is_some_and(|&last| last > moment)
    }

    /// How many bits a set of calls needs.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The calls open at a return, in the order of their invocations, each with its bit.
    pub fn open(&self, ret: &Return) -> impl Iterator<Item = (usize, usize)> {
        self.open[ret.open.0..ret.open.1].iter().map(|&c| (c as usize, self.slots[c as usize] as usize))
    }

    /// The bit of a call that returned.
    pub fn slot(&self, call: usize) -> usize {
        self.slots[call] as usize
    }
}

/// Lost calls in classes, and the number of their bits.
///
/// A lost read changes nothing. A lost write of a value that no call finds can be left out of any order:
/// whatever follows it does not look at the value. "No call" is no read and no compare-and-set that
/// returned, and no lost compare-and-set that is itself of use.
fn lost_calls(calls: &[Call]) -> (Vec<Lost>, usize) {
    let mut wanted: FxHashSet<Value> = FxHashSet::default();
    for call in calls.iter().filter(|c| c.ended.is_some()) {
        if let Action::Read(v) | Action::Cas(v, _) = call.action {
            wanted.insert(v);
        }
    }
    let mut steps: FxHashMap<Value, Vec<Value>> = FxHashMap::default();
    for call in calls.iter().filter(|c| c.ended.is_none()) {
        if let Action::Cas(from, to) = call.action {
            steps.entry(to).or_default().push(from);
        }
    }
    let mut todo: Vec<Value> = wanted.iter().copied().collect();
    while let Some(v) = todo.pop() {
        for from in steps.remove(&v).unwrap_or_default() {
            if wanted.insert(from) {
                todo.push(from);
            }
        }
    }
    let mut useful: Vec<(Action, usize, usize)> = Vec::new();
    for (i, call) in calls.iter().enumerate().filter(|(_, c)| c.ended.is_none()) {
        if let Action::Write(v) | Action::Cas(_, v) = call.action
            && wanted.contains(&v)
        {
            useful.push((call.action, call.began, i));
        }
    }
    useful.sort_unstable();
    let mut lost: Vec<Lost> = Vec::new();
    for (bit, &(action, began, call)) in useful.iter().enumerate() {
        match lost.last_mut() {
            Some(class) if class.action == action => class.calls.push((began, call)),
            _ => lost.push(Lost { action, calls: vec![(began, call)], bit }),
        }
    }
    (lost, useful.len())
}

/// The first return of a call that found a value which was not there: no call had put it, or the call that
/// had put it was done before something else was put, all of which was done before the call began.
///
/// Such calls are why most histories are not linearizable, and they need no search. O(n log n).
fn doomed(calls: &[Call], returns: &[Return], initial: Value) -> Option<usize> {
    let put = |call: &Call| match call.action {
        Action::Write(v) | Action::Cas(_, v) => Some(v),
        Action::Read(_) => None,
    };
    // Per value, who put it: when each began, and when the last of those that began by then had ended.
    let mut putters: FxHashMap<Value, Vec<(usize, usize)>> = FxHashMap::default();
    // When each change began, and when the first of those that began then or later had ended.
    let mut changes: Vec<(usize, usize)> = Vec::new();
    for call in calls {
        if let Some(v) = put(call) {
            putters.entry(v).or_default().push((call.began, call.ended.unwrap_or(usize::MAX)));
            changes.push((call.began, call.ended.unwrap_or(usize::MAX)));
        }
    }
    for list in putters.values_mut() {
        list.sort_unstable();
        let mut last = 0;
        for (_, ended) in list {
            last = last.max(*ended);
            *ended = last;
        }
    }
    changes.sort_unstable();
    let mut first = usize::MAX;
    for (_, ended) in changes.iter_mut().rev() {
        first = first.min(*ended);
        *ended = first;
    }
    returns.iter().position(|ret| {
        let call = &calls[ret.call];
        let (Action::Read(v) | Action::Cas(v, _)) = call.action else { return false };
        let begun = putters.get(&v).and_then(|list| {
            let count = list.partition_point(|&(began, _)| began <= ret.at);
            list[..count].last()
        });
        // A compare-and-set does not put for itself what it finds.
        let own = matches!(call.action, Action::Cas(a, b) if a == b);
        let since = match begun {
            _ if own => return false,
            Some(&(_, ended)) => ended,
            None if v != initial => return true,
            None => 0,
        };
        let after = changes.partition_point(|&(began, _)| match begun {
            Some(_) => began <= since,
            None => false,
        });
        changes.get(after).is_some_and(|&(_, ended)| ended < call.began)
    })
}
