//! Replicas with causal delivery: causal consistency and nothing above it.
//!
//! A session sticks to one replica, reads a snapshot of it and commits there at once; other replicas hear
//! of it later, in causal order (each message says what its origin had applied) but otherwise at random.
//! Conflicting writes are settled by the larger (Lamport clock, session), on every replica alike: that is
//! one commit order, it contains causality, and a snapshot shows of each key the last writer it knows of,
//! so the Causal axiom of Biswas & Enea holds. No transaction is refused: lost updates, write skew and long
//! forks are common.
//!
//! *Lists* need one order of appends that all reads are prefixes of. So a commit that appends after
//! a transaction that its replica hasn't heard of first fetches that transaction and its past; and a list
//! that was read after an own append must not have changed.

use crate::engine::{Conflict, Engine, Seen, Txn};
use crate::keys::Planned;
use crate::store::{Cell, Horizon, Store, Version};
use std::collections::VecDeque;

const REPLICAS: usize = 3;

/// How many transactions of each replica something has seen.
type Clock = [u64; REPLICAS];

struct Message {
    /// What its replica had applied before it.
    past: Clock,
    rank: Rank,
    /// Cell, generation of the cell, value.
    writes: Vec<(Cell, u32, u64)>,
}

/// Who wins a conflict: Lamport clock, then session.
type Rank = (u64, u32);

struct Replica {
    store: Store,
    /// Per cell, the rank of its newest version.
    rank: Vec<Rank>,
    applied: Clock,
    /// Number of transactions applied: the replica's own time.
    time: u64,
    lamport: u64,
    horizon: Horizon,
}

/// The messages of one replica that some other replica has yet to apply.
#[derive(Default)]
struct Outbox {
    first: u64,
    messages: VecDeque<Message>,
}

pub(crate) struct Replicas {
    lists: bool,
    replicas: Vec<Replica>,
    outboxes: Vec<Outbox>,
    logs: Vec<Vec<u64>>,
    /// Per list, its last append: replica and what that replica had applied with it.
    last: Vec<(usize, u64)>,
    /// How often a cell was given to a new key: messages for its former keys are void.
    generation: Vec<u32>,
    rng: fastrand::Rng,
}

impl Replicas {
    pub fn new(lists: bool, cells: usize, sessions: usize, seed: u64) -> Replicas {
        let replica = || Replica {
            store: Store::new(0),
            rank: Vec::new(),
            applied: Clock::default(),
            time: 0,
            lamport: 0,
            horizon: Horizon::new(sessions.div_ceil(REPLICAS)),
        };
        let mut engine = Replicas {
            lists,
            replicas: (0..REPLICAS).map(|_| replica()).collect(),
            outboxes: (0..REPLICAS).map(|_| Outbox::default()).collect(),
            logs: Vec::new(),
            last: Vec::new(),
            generation: Vec::new(),
            rng: fastrand::Rng::with_seed(seed),
        };
        engine.grow(cells);
        engine
    }

    /// Applies the next message from `origin` if everything before it is there.
    fn deliver(&mut self, to: usize, origin: usize) -> bool {
        let (replica, outbox) = (&mut self.replicas[to], &self.outboxes[origin]);
        let next = (replica.applied[origin] - outbox.first) as usize;
        let Some(message) = outbox.messages.get(next) else { return false };
        if (0..REPLICAS).any(|r| message.past[r] > replica.applied[r]) {
            return false;
        }
        replica.apply(message, &self.generation);
        replica.applied[origin] += 1;
        let outbox = &mut self.outboxes[origin];
        while self.replicas.iter().all(|r| r.applied[origin] > outbox.first) {
            outbox.messages.pop_front();
            outbox.first += 1;
        }
        true
    }

    /// Delivers until a replica has applied all of `target`, which is closed under causality.
    fn fetch(&mut self, to: usize, target: Clock) {
        let mut progress = true;
        while progress {
            progress = false;
            for (origin, &wanted) in target.iter().enumerate() {
                while self.replicas[to].applied[origin] < wanted && self.deliver(to, origin) {
                    progress = true;
                }
            }
        }
    }

    /// Everything there is.
    fn everything(&self) -> Clock {
        std::array::from_fn(|r| self.replicas[r].applied[r])
    }

    /// The network, once per commit: now and then some of what is under way arrives.
    fn gossip(&mut self) {
        for to in 0..REPLICAS {
            for origin in 0..REPLICAS {
                let under_way = self.replicas[origin].applied[origin] - self.replicas[to].applied[origin];
                if under_way > 0 && self.rng.u8(0..8) == 0 {
                    for _ in 0..self.rng.u64(1..=under_way) {
                        if !self.deliver(to, origin) {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// The past of a transaction of `origin`, itself included. One that everybody has applied has no
    /// message any more.
    fn past_of(&self, origin: usize, number: u64) -> Clock {
        let outbox = &self.outboxes[origin];
        let mut past = match number.checked_sub(outbox.first + 1) {
            Some(i) => outbox.messages.get(i as usize).map_or(Clock::default(), |m| m.past),
            None => Clock::default(),
        };
        past[origin] = past[origin].max(number);
        past
    }

    fn len(&self, cell: Cell) -> u64 {
        self.logs[cell as usize].len() as u64
    }
}

impl Replica {
    fn apply(&mut self, message: &Message, generation: &[u32]) {
        self.time += 1;
        self.lamport = self.lamport.max(message.rank.0);
        let oldest = self.horizon.oldest(self.time - 1);
        for &(cell, written_in, value) in &message.writes {
            if generation[cell as usize] == written_in && message.rank >= self.rank[cell as usize] {
                self.rank[cell as usize] = message.rank;
                self.store.install(cell, Version { at: self.time, value }, oldest);
            }
        }
    }
}

fn home(session: u32) -> (usize, u32) {
    (session as usize % REPLICAS, session / REPLICAS as u32)
}

impl Engine for Replicas {
    fn begin(&mut self, txn: &mut Txn, _plan: &[Planned], _now: u64, alone: bool) -> bool {
        let (at, seat) = home(txn.session);
        if alone {
            self.fetch(at, self.everything());
        }
        let replica = &mut self.replicas[at];
        txn.snapshot = replica.time;
        replica.horizon.open(seat, txn.snapshot);
        true
    }

    #[inline]
    fn read(&mut self, txn: &mut Txn, cell: Cell) -> Result<Seen, Conflict> {
        let version = self.replicas[home(txn.session).0].store.at(cell, txn.snapshot);
        if self.lists && txn.own(cell).is_some() {
            if self.len(cell) != version.value {
                return Err(Conflict);
            }
            txn.pinned.push((cell, version.value));
        }
        Ok(Seen { value: version.value, own: true })
    }

    fn write(&mut self, _txn: &mut Txn, _cell: Cell, _value: u64) -> Result<(), Conflict> {
        Ok(())
    }

    fn commit(&mut self, txn: &mut Txn, _now: u64) -> Result<(), Conflict> {
        if txn.pinned.iter().any(|&(cell, len)| self.len(cell) != len) {
            return Err(Conflict);
        }
        let (at, seat) = home(txn.session);
        self.replicas[at].horizon.close(seat);
        if txn.writes.is_empty() {
            return Ok(());
        }
        let mut writes: Vec<(Cell, u32, u64)> = Vec::with_capacity(txn.writes.len());
        let number = self.replicas[at].applied[at] + 1;
        for &(cell, value) in &txn.writes {
            let c = cell as usize;
            let value = if self.lists {
                let (origin, before) = self.last[c];
                if origin != at && self.replicas[at].applied[origin] < before {
                    self.fetch(at, self.past_of(origin, before));
                }
                self.logs[c].push(value);
                self.last[c] = (at, number);
                self.len(cell)
            } else {
                value
            };
            // Only the last write to a key is ever seen by others.
            match writes.iter_mut().find(|w| w.0 == cell) {
                Some(earlier) => earlier.2 = value,
                None => writes.push((cell, self.generation[c], value)),
            }
        }
        let replica = &mut self.replicas[at];
        let message = Message { past: replica.applied, rank: (replica.lamport + 1, txn.session), writes };
        replica.apply(&message, &self.generation);
        replica.applied[at] = number;
        self.outboxes[at].messages.push_back(message);
        self.gossip();
        Ok(())
    }

    fn rollback(&mut self, txn: &mut Txn) {
        let (at, seat) = home(txn.session);
        self.replicas[at].horizon.close(seat);
    }

    fn log(&self, cell: Cell) -> &[u64] {
        &self.logs[cell as usize]
    }

    fn synchronise(&mut self) {
        for to in 0..REPLICAS {
            self.fetch(to, self.everything());
        }
    }

    fn grow(&mut self, cells: usize) {
        for replica in &mut self.replicas {
            replica.store.grow(cells);
            replica.rank.resize(cells, (0, 0));
        }
        self.generation.resize(cells, 0);
        if self.lists {
            self.logs.resize(cells, Vec::new());
            self.last.resize(cells, (0, 0));
        }
    }

    fn clear(&mut self, cell: Cell) {
        self.generation[cell as usize] += 1;
        for replica in &mut self.replicas {
            replica.store.clear(cell);
            replica.rank[cell as usize] = (0, 0);
        }
        if self.lists {
            self.logs[cell as usize].clear();
            self.last[cell as usize] = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_disagree_for_a_while_and_then_agree() {
        let (cells, sessions) = (20, 9);
        let mut engine = Replicas::new(false, cells, sessions, 5);
        let mut rng = fastrand::Rng::with_seed(5);
        let newest = |e: &Replicas, r: usize| -> Vec<u64> {
            (0..cells as Cell).map(|c| e.replicas[r].store.newest(c).value).collect()
        };
        let mut disagreements = 0;
        for value in 1..=3_000 {
            let mut txn = Txn { session: rng.u32(0..sessions as u32), ..Txn::default() };
            assert!(engine.begin(&mut txn, &[], 0, false));
            txn.writes.push((rng.u32(0..cells as u32), value));
            txn.writes.push((rng.u32(0..cells as u32), value));
            assert!(engine.commit(&mut txn, 0).is_ok());
            disagreements += usize::from(newest(&engine, 0) != newest(&engine, 1));
            let under_way: usize = engine.outboxes.iter().map(|o| o.messages.len()).sum();
            assert!(under_way < 500, "{under_way} messages are under way");
        }
        assert!(disagreements > 1_000, "{disagreements}");
        engine.synchronise();
        assert_eq!(newest(&engine, 0), newest(&engine, 1));
        assert_eq!(newest(&engine, 0), newest(&engine, 2));
        assert!(engine.outboxes.iter().all(|o| o.messages.is_empty()));
    }
}
