//! Strong levels by definition: every serial execution, every interleaving of begins and commits, every
//! version order.
//!
//! Serializability is executed on a state. The snapshot levels and prefix consistency are executed as
//! sequences of begins (reads happen, all at once) and commits (writes happen, all at once). Parallel
//! snapshot isolation has no single order of snapshots: every order of each key's writers is tried against
//! `(so ∪ wr ∪ ww)+ ; rw?` irreflexive (Cerone & Gotsman 2018). A position once reached is not explored
//! twice; nothing else is clever. (`docs/spec/levels.md` 3, `docs/spec/algorithms.md` 7.)

use super::reading::{Ambiguous, Facts, Reading};
use super::relation::Relation;
use super::{Executed, StrongLevel};
use anomalist_history::{History, OpKind};
use std::collections::HashSet;

/// What a key holds: the transactions (registers) or operations (lists) that made its value, oldest first.
/// Of a register only the last counts.
type State = Vec<Vec<usize>>;

/// What a transaction must find under a key.
struct Seen {
    reader: usize,
    key: usize,
    contents: Vec<usize>,
}

struct Game<'a> {
    facts: &'a Facts<'a>,
    exists: u32,
    seen: Vec<Seen>,
    /// Per transaction, whom it must follow.
    after: Vec<u32>,
    /// Per transaction, who must have committed before it commits.
    installed: Vec<u32>,
    lists: Vec<bool>,
}

pub(super) fn satisfies(history: &History, level: StrongLevel, versions: &[(usize, usize)]) -> Option<bool> {
    let facts = Facts::new(history);
    let StrongLevel { executed, sessions, real_time } = level;
    if real_time && history.intervals().is_none() {
        return None;
    }
    let readings = facts.readings(Ambiguous::Enumerate);
    Some(readings.iter().any(|reading| {
        if reading.read_taps != [0; 6] || reading.duplicate_elements > 0 {
            return false;
        }
        let mut game = Game::new(&facts, reading, sessions, real_time);
        versions.iter().for_each(|&(a, b)| game.installed[b] |= 1 << a);
        match executed {
            Executed::Serially => game.serial(),
            Executed::FromSnapshots => game.snapshots(true),
            Executed::FromPrefixes => game.snapshots(false),
            Executed::InParallel => game.parallel(),
        }
    }))
}

/// Update serializability, which knows neither sessions nor real time.
pub(super) fn updates(history: &History) -> Option<bool> {
    let facts = Facts::new(history);
    let readings = facts.readings(Ambiguous::Enumerate);
    if readings.iter().any(|r| r.read_taps[2..5] != [0; 3] || r.duplicate_elements > 0) {
        return None;
    }
    Some(
        readings
            .iter()
            .any(|reading| reading.read_taps == [0; 6] && Game::new(&facts, reading, false, false).updates()),
    )
}

impl<'a> Game<'a> {
    fn new(facts: &'a Facts<'a>, reading: &Reading, sessions: bool, real_time: bool) -> Game<'a> {
        let n = facts.txn_count();
        let keys = facts.ops.iter().map(|op| op.key + 1).max().unwrap_or(0);
        let lists: Vec<bool> = (0..keys).map(|k| facts.is_list_key(k)).collect();
        let mut seen = Vec::new();
        for read in &reading.external {
            if !lists[read.key] || read.from.is_none() {
                let contents = read.from.into_iter().collect();
                seen.push(Seen { reader: read.reader, key: read.key, contents });
            }
        }
        for body in &reading.bodies {
            seen.push(Seen { reader: body.reader, key: body.key, contents: body.appends.clone() });
        }
        let exists = reading.committed;
        let mut after = vec![0u32; n];
        for a in (0..n).filter(|&a| exists >> a & 1 == 1) {
            for b in (0..n).filter(|&b| b != a && exists >> b & 1 == 1) {
                let before = sessions && facts.same_session_before(a, b)
                    || real_time && facts.ended_before(a, b) == Some(true);
                after[b] |= u32::from(before) << a;
            }
        }
        Game { facts, exists, seen, after, installed: vec![0; n], lists }
    }

    fn txns(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.after.len()).filter(|&t| self.exists >> t & 1 == 1)
    }

    fn sees_its_reads(&self, t: usize, state: &State) -> bool {
        self.seen.iter().filter(|seen| seen.reader == t).all(|seen| {
            let now = &state[seen.key];
            if self.lists[seen.key] { *now == seen.contents } else { now.last() == seen.contents.last() }
        })
    }

    fn write(&self, t: usize, state: &State) -> State {
        let mut next = state.clone();
        for (i, op) in self.facts.ops.iter().enumerate().filter(|(_, op)| op.txn == t) {
            match op.kind {
                OpKind::Read => {}
                OpKind::Write => next[op.key] = vec![t],
                OpKind::Append => next[op.key].push(i),
            }
        }
        next
    }

    fn nothing_written(&self) -> State {
        vec![Vec::new(); self.lists.len()]
    }

    /// Is there a serial execution?
    fn serial(&self) -> bool {
        let mut met: HashSet<(u32, State)> = HashSet::new();
        let mut work = vec![(0u32, self.nothing_written())];
        while let Some((done, state)) = work.pop() {
            if done == self.exists {
                return true;
            }
            let late = |t: usize| (self.after[t] | self.installed[t]) & !done != 0;
            for t in self.txns().filter(|&t| done >> t & 1 == 0 && !late(t)) {
                if self.sees_its_reads(t, &state) {
                    let next = (done | 1 << t, self.write(t, &state));
                    if met.insert(next.clone()) {
                        work.push(next);
                    }
                }
            }
        }
        false
    }

    /// Is there an order of begins and commits? With `conflicts`, no transaction may commit a write of a
    /// key that a transaction which has begun, and not committed, writes too: that one could never commit.
    fn snapshots(&self, conflicts: bool) -> bool {
        let mut met: HashSet<(u32, u32, State)> = HashSet::new();
        let mut work = vec![(0u32, 0u32, self.nothing_written())];
        while let Some((begun, done, state)) = work.pop() {
            if done == self.exists {
                return true;
            }
            for t in self.txns() {
                let next = if begun >> t & 1 == 0 {
                    if self.after[t] & !done != 0 || !self.sees_its_reads(t, &state) {
                        continue;
                    }
                    (begun | 1 << t, done, state.clone())
                } else if done >> t & 1 == 0 {
                    let running = (0..self.after.len()).filter(|&o| o != t && (begun & !done) >> o & 1 == 1);
                    let late = self.installed[t] & !done != 0;
                    if late || conflicts && running.into_iter().any(|o| self.both_write(t, o)) {
                        continue;
                    }
                    (begun, done | 1 << t, self.write(t, &state))
                } else {
                    continue;
                };
                if met.insert(next.clone()) {
                    work.push(next);
                }
            }
        }
        false
    }

    fn both_write(&self, a: usize, b: usize) -> bool {
        (0..self.lists.len()).any(|k| self.facts.writes(a, k) && self.facts.writes(b, k))
    }

    /// Are there version orders that parallel snapshot isolation allows?
    fn parallel(&self) -> bool {
        let mut depends = Relation::empty(self.after.len());
        for (t, (after, installed)) in self.after.iter().zip(&self.installed).enumerate() {
            let before = after | installed;
            (0..self.after.len()).filter(|&o| before >> o & 1 == 1).for_each(|o| depends.add(o, t));
        }
        for seen in &self.seen {
            if let Some(writer) = seen.contents.last().map(|&c| self.author(seen.key, c)) {
                depends.add(writer, seen.reader);
            }
        }
        self.parallel_from(0, &depends, &Relation::empty(self.after.len()))
    }

    /// Is there an order of the transactions that write in which they, and they with any one other, have no
    /// cycle of dependencies?
    fn updates(&self) -> bool {
        let n = self.after.len();
        let writes = |t: usize| (0..self.lists.len()).any(|k| self.facts.writes(t, k));
        let mut writers: Vec<usize> = self.txns().filter(|&t| writes(t)).collect();
        permutations(&mut writers, 0, &mut |order| {
            let mut depends = Relation::empty(n);
            for key in 0..self.lists.len() {
                let order: Vec<usize> =
                    order.iter().copied().filter(|&t| self.facts.writes(t, key)).collect();
                order.windows(2).for_each(|pair| depends.add(pair[0], pair[1]));
                for seen in self.seen.iter().filter(|seen| seen.key == key) {
                    let Some(read) = self.version_read(key, &order, seen) else { return false };
                    if let Some(writer) = seen.contents.last().map(|&c| self.author(key, c)) {
                        depends.add(writer, seen.reader);
                    }
                    for &later in order[read..].iter().filter(|&&later| later != seen.reader) {
                        depends.add(seen.reader, later);
                    }
                }
            }
            (0..=n).all(|reader| {
                let inside = |t: usize| writes(t) || t == reader;
                let mut within = Relation::empty(n);
                for a in (0..n).filter(|&a| inside(a)) {
                    (0..n).filter(|&b| inside(b) && depends.has(a, b)).for_each(|b| within.add(a, b));
                }
                let closure = within.closure();
                (0..n).all(|t| !closure.has(t, t))
            })
        })
    }

    /// After how many of a key's writers the key holds what was seen.
    fn version_read(&self, key: usize, order: &[usize], seen: &Seen) -> Option<usize> {
        let mut state = self.nothing_written();
        let mut read = None;
        for i in 0..=order.len() {
            let now = &state[key];
            let same =
                if self.lists[key] { *now == seen.contents } else { now.last() == seen.contents.last() };
            if same {
                read = Some(i);
            }
            if i < order.len() {
                state = self.write(order[i], &state);
            }
        }
        read
    }

    /// Who made an entry of a [`State`].
    fn author(&self, key: usize, entry: usize) -> usize {
        if self.lists[key] { self.facts.ops[entry].txn } else { entry }
    }

    /// Tries all version orders of the keys from `key` on.
    fn parallel_from(&self, key: usize, depends: &Relation, overwrites: &Relation) -> bool {
        let closure = depends.clone().closure();
        let bad = closure.union(&closure.then(overwrites));
        if self.txns().any(|t| bad.has(t, t)) {
            return false;
        }
        if key == self.lists.len() {
            return true;
        }
        let mut writers: Vec<usize> = self.txns().filter(|&t| self.facts.writes(t, key)).collect();
        permutations(&mut writers, 0, &mut |order| {
            let (mut depends, mut overwrites) = (depends.clone(), overwrites.clone());
            order.windows(2).for_each(|pair| depends.add(pair[0], pair[1]));
            for seen in self.seen.iter().filter(|seen| seen.key == key) {
                let Some(read) = self.version_read(key, order, seen) else { return false };
                for &later in order[read..].iter().filter(|&&later| later != seen.reader) {
                    overwrites.add(seen.reader, later);
                }
            }
            self.parallel_from(key + 1, &depends, &overwrites)
        })
    }
}

/// True if `accept` takes some order of the items from `from` on.
fn permutations(items: &mut Vec<usize>, from: usize, accept: &mut dyn FnMut(&[usize]) -> bool) -> bool {
    if from == items.len() {
        return accept(items);
    }
    for i in from..items.len() {
        items.swap(from, i);
        if permutations(items, from + 1, accept) {
            return true;
        }
        items.swap(from, i);
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::mini::{history, print};
    use crate::oracle::{StrongLevel as L, WeakLevel, satisfies, strongly_satisfies};
    use crate::random::{Reference, Shape, executed, tiny};

    /// Textbook histories, with the levels (of those without real time) that they satisfy.
    #[test]
    fn the_textbook() {
        let without_time = [
            L::SERIALIZABLE,
            L::STRONG_SESSION_SERIALIZABLE,
            L::SNAPSHOT_ISOLATION,
            L::STRONG_SESSION_SNAPSHOT_ISOLATION,
            L::PREFIX,
            L::PARALLEL_SNAPSHOT_ISOLATION,
        ];
        for (text, expected) in [
            ("w(x,1); r(x,1) w(x,2)", [true; 6]),
            ("w(x,1); r(x,0)", [true, false, true, false, false, false]),
            // Write skew, lost update, long fork.
            ("r(x,0) w(y,1) || r(y,0) w(x,1)", [false, false, true, true, true, true]),
            ("r(x,0) w(x,1) || r(x,0) w(x,2)", [false, false, false, false, true, false]),
            ("w(x,1) || w(y,1) || r(x,1) r(y,0) || r(x,0) r(y,1)", [false, false, false, false, false, true]),
            (
                "a(x,1) || a(y,1) || r(x,[1]) r(y,[]) || r(x,[]) r(y,[1])",
                [false, false, false, false, false, true],
            ),
            // Read skew; non-repeatable read; a list read again after an own append.
            ("w(x,1) w(y,1) || r(x,0) r(y,1)", [false; 6]),
            ("w(x,1) || r(x,0) r(x,1)", [false; 6]),
            ("a(x,1) || r(x,[]) a(x,2) r(x,[1 2])", [false; 6]),
            ("a(x,1) || a(x,2) r(x,[1 2])", [true; 6]),
            // The read's source decides: from the second session there is an order, from the first there is
            // none.
            ("w(x,1); w(y,1) || w(x,1) || r(x,1) r(y,0); r(x,1) r(y,1)", [true; 6]),
            // One of them must have committed; none must have.
            ("w(x,1) !info || r(x,1); r(x,0)", [true, false, true, false, false, false]),
            ("r(y,7) w(x,1) !info || r(x,0)", [true; 6]),
            ("w(x,1) !abort || r(x,1)", [false; 6]),
        ] {
            let h = history(text);
            let got = without_time.map(|l| strongly_satisfies(&h, l).unwrap());
            assert_eq!(got, expected, "{text}");
        }
    }

    /// The implications of the contract, on histories of all kinds; those about real time where there is
    /// some.
    #[test]
    fn stronger_levels_imply_weaker_ones() {
        let implied = [
            (L::STRICT_SERIALIZABLE, L::STRONG_SESSION_SERIALIZABLE),
            (L::STRICT_SERIALIZABLE, L::STRONG_SNAPSHOT_ISOLATION),
            (L::STRONG_SESSION_SERIALIZABLE, L::SERIALIZABLE),
            (L::STRONG_SESSION_SERIALIZABLE, L::STRONG_SESSION_SNAPSHOT_ISOLATION),
            (L::SERIALIZABLE, L::SNAPSHOT_ISOLATION),
            (L::STRONG_SNAPSHOT_ISOLATION, L::STRONG_SESSION_SNAPSHOT_ISOLATION),
            (L::STRONG_SESSION_SNAPSHOT_ISOLATION, L::SNAPSHOT_ISOLATION),
            (L::STRONG_SESSION_SNAPSHOT_ISOLATION, L::PREFIX),
            (L::STRONG_SESSION_SNAPSHOT_ISOLATION, L::PARALLEL_SNAPSHOT_ISOLATION),
        ];
        let shapes =
            [Shape::default(), Shape::uncertain(), Shape::lists(), Shape::anything(), Shape::timed()];
        let mut seen = [[0u32; 2]; 8];
        for seed in 0..3_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut histories: Vec<_> =
                shapes.iter().map(|s| tiny(&mut rng, &Shape { txns: 2..=6, ..s.clone() })).collect();
            histories.push(executed(
                &mut rng,
                Reference::Snapshot,
                &Shape { timed: 0.5, ..Shape::default() },
            ));
            for h in histories {
                let verdicts = L::ALL.map(|l| strongly_satisfies(&h, l));
                for (verdict, seen) in verdicts.iter().zip(&mut seen) {
                    if let Some(v) = verdict {
                        seen[usize::from(*v)] += 1;
                    }
                }
                let get = |l: L| verdicts[L::ALL.iter().position(|&o| o == l).unwrap()];
                for (strong, weak) in implied {
                    assert!(
                        !(get(strong) == Some(true) && get(weak) == Some(false)),
                        "seed {seed}: {strong:?} without {weak:?}: {}",
                        print(&h)
                    );
                }
                for strong in [L::PREFIX, L::PARALLEL_SNAPSHOT_ISOLATION] {
                    assert!(
                        get(strong) != Some(true) || satisfies(&h, WeakLevel::Causal),
                        "seed {seed}: {strong:?} without causal: {}",
                        print(&h)
                    );
                }
            }
        }
        assert!(
            seen.iter().all(|s| s[0] > 100 && s[1] > 100),
            "a level that always or never holds: {seen:?}"
        );
    }

    #[test]
    fn executions_satisfy_the_level_they_ran_at() {
        for seed in 0..2_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let shape = Shape { timed: 1.0, lists: 0.3, ..Shape::uncertain() };
            let serial = executed(&mut rng, Reference::Serial, &shape);
            assert_eq!(
                strongly_satisfies(&serial, L::STRICT_SERIALIZABLE),
                Some(true),
                "{seed}: {}",
                print(&serial)
            );
            let snapshot = executed(&mut rng, Reference::Snapshot, &shape);
            assert_eq!(
                strongly_satisfies(&snapshot, L::STRONG_SESSION_SNAPSHOT_ISOLATION),
                Some(true),
                "{seed}: {}",
                print(&snapshot)
            );
        }
    }
}
