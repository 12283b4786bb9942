//! Plume's levels and its fourteen patterns, to the letter (Liu, Gu, Wei, Basin, "Plume: Efficient and
//! Complete Black-Box Checking of Weak Isolation Levels", OOPSLA 2024): Definitions 3 to 6 and Table 1.
//!
//! Plume's histories have committed and aborted transactions, registers, and values that are written once
//! per key (Section 2.2); of others nothing is said. "Every history contains a special transaction that
//! writes the initial values of all keys. This transaction precedes all the other transactions": here it is
//! one more transaction, the last number.
//!
//! - `wr` relates the write of a value to each read that returned it, whatever stands between. `WR(x)`
//!   relates their transactions, if those are two. Definition 2 has `WR(x)` only for a transaction's first
//!   read of `x`, before it writes `x`, and only for last writes; but the proof of Theorem 1 applies the
//!   axiom of read atomic to both of two reads, and that of Theorem 3 relates "each transaction that reads
//!   value v of x with the write transaction that writes v to x". So does this module. `CO = (SO ∪ WR)+`.
//! - A level is *there is* a commit order (a strict total order that contains `CO`) such that its
//!   axiom holds: all orders are tried.
//! - `CM` in patterns i, l and n is what the axiom of read committed, read atomic and causal, in this
//!   order, infers (caption of Figure 3): the closure of `CO` with all demands of the axiom. (Algorithm 1
//!   builds it from the axiom of causal alone; then i and l would be found in histories that satisfy read
//!   committed and read atomic, against Theorems 3 and 4.)
//! - The paper counts instances but does not say what one is. Here a to f are counted by reads, g by
//!   components of `SO ∪ WR`, j by reads whose writer is not that of the transaction's first read of the
//!   key from another transaction, and h, i, k to n by pairs of the read of `x` and `t2`. Table 1 says
//!   which pattern is a general case of which; a pair is counted under the first that it is an instance of,
//!   in the order h, i, k, l, m, n.

use crate::model::{Atom, History, Key, Kind, Op, Outcome, Seen};

/// What Plume says of a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plume {
    /// Definition 3.
    pub cut_isolation: bool,
    /// Definition 4.
    pub read_committed: bool,
    /// Definition 5.
    pub read_atomic: bool,
    /// Definition 6.
    pub causal: bool,
    /// The numbers of instances of TAP-a to TAP-n.
    pub counts: [u64; 14],
}

impl Plume {
    /// The number of instances of a pattern, by its letter.
    pub fn count(&self, letter: char) -> u64 {
        let place = (letter as usize).wrapping_sub('a' as usize);
        self.counts.get(place).copied().unwrap_or(0)
    }

    /// Whether there is an instance of any of these patterns, from a letter to another.
    pub fn any(&self, letters: std::ops::RangeInclusive<char>) -> bool {
        letters.into_iter().any(|letter| self.count(letter) > 0)
    }
}

/// What Plume says of a history; `None` if its definitions are not about such histories.
pub fn judge(history: &History) -> Option<Plume> {
    let world = World::of(history)?;
    let valid = !world.reads.iter().any(|r| matches!(r.from, From::NoWrite | From::Aborted))
        && !(0..world.txns).any(|t| world.co[t][t]);
    let sound = valid && world.reads.iter().all(|r| world.rc_1(r) && world.rc_2(r) && world.rc_3(r));
    let axiom = |axiom| sound && world.has_commit_order(axiom);
    Some(Plume {
        cut_isolation: world.cut_isolation(),
        read_committed: axiom(Axiom::MonoAtomicView),
        read_atomic: axiom(Axiom::ReadAtomic),
        causal: axiom(Axiom::Causal),
        counts: world.counts(),
    })
}

/// Whose write a read returned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    NoWrite,
    Aborted,
    /// This operation of this transaction.
    Write(usize, usize),
}

/// A read of a committed transaction.
struct Read {
    txn: usize,
    /// Its place in program order.
    po: usize,
    key: Key,
    from: From,
}

impl Read {
    /// The other committed transaction whose write it returned.
    fn other(&self) -> Option<usize> {
        match self.from {
            From::Write(t, _) if t != self.txn => Some(t),
            _ => None,
        }
    }
}

type Relation = Vec<Vec<bool>>;

/// Which demands on the commit order count.
#[derive(Clone, Copy)]
enum Axiom {
    /// RC-(4).
    MonoAtomicView,
    ReadAtomic,
    Causal,
}

/// A history with its relations. Transactions are the committed ones, and then the initial one.
struct World {
    txns: usize,
    /// By transaction: place and key of each write.
    writes: Vec<Vec<(usize, Key)>>,
    reads: Vec<Read>,
    so: Relation,
    wr: Relation,
    co: Relation,
}

impl World {
    fn of(history: &History) -> Option<World> {
        if history.kinds.contains(&Kind::List)
            || history.txns.iter().any(|t| t.outcome == Outcome::Indeterminate)
            || has_repeats(history)
        {
            return None;
        }
        let committed: Vec<usize> =
            (0..history.txns.len()).filter(|&t| history.txns[t].outcome == Outcome::Committed).collect();
        let (keys, initial) = (history.kinds.len(), committed.len());
        let written = |op: &Op| if let Op::Write(key, value) = op { Some((*key, *value)) } else { None };
        let mut writes: Vec<Vec<(usize, Key)>> = committed
            .iter()
            .map(|&t| {
                let ops = history.txns[t].ops.iter().enumerate();
                ops.filter_map(|(po, op)| Some((po, written(op)?.0))).collect()
            })
            .collect();
        writes.push((0..keys).map(|key| (key, key)).collect());
        let source = |key: Key, value: Atom| {
            if value == history.initial {
                return From::Write(initial, key);
            }
            for (t, txn) in history.txns.iter().enumerate() {
                if let Some(po) = txn.ops.iter().position(|op| written(op) == Some((key, value))) {
                    let place = committed.iter().position(|&c| c == t);
                    return place.map_or(From::Aborted, |t| From::Write(t, po));
                }
            }
            From::NoWrite
        };
        let mut reads = Vec::new();
        for (t, &c) in committed.iter().enumerate() {
            for (po, op) in history.txns[c].ops.iter().enumerate() {
                if let Op::Read(key, Seen::Atom(value)) = *op {
                    reads.push(Read { txn: t, po, key, from: source(key, value) });
                }
            }
        }
        let txns = initial + 1;
        let mut so = vec![vec![false; txns]; txns];
        for (s, &b) in committed.iter().enumerate() {
            so[initial][s] = true;
            for (t, &a) in committed.iter().enumerate() {
                so[t][s] |= history.issued_before(a, b);
            }
        }
        let mut wr = vec![vec![false; txns]; txns];
        for read in &reads {
            if let Some(t) = read.other() {
                wr[t][read.txn] = true;
            }
        }
        let co = closure(&union(&so, &wr));
        Some(World { txns, writes, reads, so, wr, co })
    }

    /// `WT_x`.
    fn writes(&self, t: usize, key: Key) -> bool {
        self.writes[t].iter().any(|&(_, k)| k == key)
    }

    /// RC-(1): no read returns a later write of its own transaction.
    fn rc_1(&self, r: &Read) -> bool {
        !matches!(r.from, From::Write(t, po) if t == r.txn && po > r.po)
    }

    /// RC-(2): after own writes of the key, a read returns the latest of them.
    fn rc_2(&self, r: &Read) -> bool {
        match self.own_before(r).max() {
            Some(latest) => r.from == From::Write(r.txn, latest),
            None => true,
        }
    }

    /// RC-(3): others read a transaction's last write of the key only.
    fn rc_3(&self, r: &Read) -> bool {
        !self.is_intermediate(r)
    }

    fn own_before<'a>(&'a self, r: &'a Read) -> impl Iterator<Item = usize> + 'a {
        self.writes[r.txn].iter().filter(|w| w.0 < r.po && w.1 == r.key).map(|w| w.0)
    }

    fn is_intermediate(&self, r: &Read) -> bool {
        match r.from {
            From::Write(t, po) if t != r.txn => self.writes[t].iter().any(|w| w.0 > po && w.1 == r.key),
            _ => false,
        }
    }

    /// Definition 3: no transaction reads a key from two other transactions.
    fn cut_isolation(&self) -> bool {
        let differ = |a: &Read, b: &Read| {
            a.txn == b.txn
                && a.key == b.key
                && matches!((a.other(), b.other()), (Some(t1), Some(t2)) if t1 != t2)
        };
        !self.reads.iter().any(|a| self.reads.iter().any(|b| differ(a, b)))
    }

    /// `t3` reads some `y ≠ x` from `t2`; before the read of `x`, if that is asked.
    fn reads_other_key(&self, r_x: &Read, t2: usize, before: bool) -> bool {
        self.reads.iter().any(|r_y| {
            r_y.txn == r_x.txn
                && r_y.key != r_x.key
                && r_y.other() == Some(t2)
                && (!before || r_y.po < r_x.po)
        })
    }

    /// Every `t3` that reads `x` from `t1`, and another writer `t2` of `x`: the read, `t1`, `t2`.
    fn triangles(&self) -> impl Iterator<Item = (&Read, usize, usize)> + '_ {
        self.reads.iter().flat_map(move |r| {
            let pair = move |t2: usize| {
                let t1 = r.other()?;
                (t2 != t1 && t2 != r.txn && self.writes(t2, r.key)).then_some((r, t1, t2))
            };
            (0..self.txns).filter_map(pair)
        })
    }

    /// Whether the axiom puts `t2` before `t1`, because of this read of `x` from `t1`.
    fn demands(&self, axiom: Axiom, r_x: &Read, t2: usize) -> bool {
        let t3 = r_x.txn;
        match axiom {
            Axiom::MonoAtomicView => self.reads_other_key(r_x, t2, true),
            Axiom::ReadAtomic => self.so[t2][t3] || self.wr[t2][t3],
            Axiom::Causal => self.co[t2][t3],
        }
    }

    /// Is there a strict total order that contains `CO` and obeys the axiom?
    fn has_commit_order(&self, axiom: Axiom) -> bool {
        let mut before = self.co.clone();
        for (r, t1, t2) in self.triangles() {
            before[t2][t1] |= self.demands(axiom, r, t2);
        }
        self.any_order(&before, &mut Vec::new())
    }

    /// All orders are tried; one that breaks the rules with its last transaction is not continued.
    fn any_order(&self, before: &Relation, order: &mut Vec<usize>) -> bool {
        if order.len() == self.txns {
            return true;
        }
        for t in 0..self.txns {
            // `t` comes after those that are there; it must not come before any of them.
            if order.contains(&t) || before[t][t] || order.iter().any(|&placed| before[t][placed]) {
                continue;
            }
            order.push(t);
            if self.any_order(before, order) {
                return true;
            }
            order.pop();
        }
        false
    }

    /// The commit order that an axiom infers.
    fn cm(&self, axiom: Axiom) -> Relation {
        let mut cm = self.co.clone();
        for (r, t1, t2) in self.triangles() {
            cm[t2][t1] |= self.demands(axiom, r, t2);
        }
        closure(&cm)
    }

    fn counts(&self) -> [u64; 14] {
        let reads = |is: &dyn Fn(&Read) -> bool| self.reads.iter().filter(|r| is(r)).count() as u64;
        let mut counts = [0; 14];
        // a: no write, aborted ones included.
        counts[0] = reads(&|r| r.from == From::NoWrite);
        // b: an aborted write.
        counts[1] = reads(&|r| r.from == From::Aborted);
        // c: a later write of its own.
        counts[2] = reads(&|r| !self.rc_1(r));
        // d: another transaction's, after an own write.
        counts[3] = reads(&|r| r.other().is_some() && self.own_before(r).next().is_some());
        // e: an own write, with a later own write between.
        counts[4] = reads(&|r| match r.from {
            From::Write(t, po) => t == r.txn && self.own_before(r).any(|w| w > po && po < r.po),
            _ => false,
        });
        // f: not the other transaction's last.
        counts[5] = reads(&|r| self.is_intermediate(r));
        // g: a component of SO ∪ WR with a cycle, by its first member.
        let first = |t: usize| self.co[t][t] && !(0..t).any(|s| self.co[t][s] && self.co[s][t]);
        counts[6] = (0..self.txns).filter(|&t| first(t)).count() as u64;
        // j: another transaction than the first of the key.
        counts[9] = reads(&|r| {
            let same = |a: &&Read| a.txn == r.txn && a.key == r.key && a.other().is_some();
            r.other().is_some() && self.reads.iter().find(same).is_some_and(|a| a.other() != r.other())
        });
        let [rc, ra, tcc] = [Axiom::MonoAtomicView, Axiom::ReadAtomic, Axiom::Causal].map(|a| self.cm(a));
        for (r, t1, t2) in self.triangles() {
            let (before, other) = (self.reads_other_key(r, t2, true), self.reads_other_key(r, t2, false));
            let follows = self.co[t2][r.txn];
            let patterns = [
                (7, before && self.co[t1][t2]),
                (8, before && rc[t1][t2]),
                (10, other && self.co[t1][t2]),
                (11, other && ra[t1][t2]),
                (12, self.co[t1][t2] && follows),
                (13, tcc[t1][t2] && follows),
            ];
            if let Some((pattern, _)) = patterns.into_iter().find(|p| p.1) {
                counts[pattern] += 1;
            }
        }
        counts
    }
}

/// Is some value written twice to a key, or the initial one written?
fn has_repeats(history: &History) -> bool {
    let mut seen: Vec<(Key, Atom)> = Vec::new();
    history.txns.iter().flat_map(|t| &t.ops).any(|op| {
        let Op::Write(key, value) = *op else { return false };
        let again = seen.contains(&(key, value)) || value == history.initial;
        seen.push((key, value));
        again
    })
}

fn union(a: &Relation, b: &Relation) -> Relation {
    a.iter().zip(b).map(|(a, b)| a.iter().zip(b).map(|(x, y)| x | y).collect()).collect()
}

fn closure(relation: &Relation) -> Relation {
    let mut closed = relation.clone();
    for via in 0..closed.len() {
        for from in 0..closed.len() {
            for to in 0..closed.len() {
                closed[from][to] |= closed[from][via] && closed[via][to];
            }
        }
    }
    closed
}
