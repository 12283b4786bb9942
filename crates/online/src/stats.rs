//! What a check counts as it goes.

use anomalist_history::Timestamp;
use anomalist_timestamp::Axiom;

/// Upper ends, in milliseconds, of the classes in [`Stats::rectified`]; the last class is open.
pub const RECTIFIED_MS: [u32; 6] = [1, 10, 100, 1_000, 10_000, u32::MAX];

/// What was counted so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Transactions that arrived, whatever became of them.
    pub arrived: u64,
    /// Of those, checked.
    pub checked: u64,
    /// Not checked, because they aborted or their outcome is unknown.
    pub not_committed: u64,
    /// Operations of checked transactions.
    pub operations: u64,
    /// Settled violations by axiom, in the order of [`Axiom::ALL`]; those retracted still count here.
    pub violations: [u64; Axiom::ALL.len()],
    /// Retractions by axiom.
    pub retracted: [u64; Axiom::ALL.len()],
    /// Transactions with an id that another had before.
    pub repeated: u64,
    /// Transactions that ended before their predecessor in the session began.
    pub session_order: u64,
    /// Transactions with stamps far beyond all others.
    pub future: u64,
    /// Headers that contradict what was known.
    pub headers: u64,
    /// Transactions without a start timestamp, which snapshot isolation needs.
    pub no_start: u64,
    /// Transactions that arrived after it was concluded from a read that another, of unknown outcome,
    /// committed, and whose work that read may have seen. That conclusion, and violations that rest on it,
    /// may be wrong.
    pub doubts: u64,
    /// Reads (a transaction and a key) whose verdict changed once, twice, three times, and more often.
    pub flip_flops: [u64; 4],
    /// Transactions with such a read.
    pub flipped_txns: u64,
    /// Wrong verdicts by how long they stood until they changed: see [`RECTIFIED_MS`].
    pub rectified: [u64; RECTIFIED_MS.len()],
    /// Collections of garbage.
    pub collections: u64,
    /// Chunks written to the store.
    pub spilled_chunks: u64,
    /// Their bytes.
    pub spilled_bytes: u64,
    /// Chunks that a late transaction brought back.
    pub reloaded_chunks: u64,
    /// Keys that left memory altogether.
    pub evicted_keys: u64,
    /// The most memory used, in bytes, as the checker counts.
    pub peak_bytes: usize,
    /// The greatest commit.
    pub newest: Option<Timestamp>,
}

impl Stats {
    /// Violations of an axiom that stand.
    pub fn standing(&self, axiom: Axiom) -> u64 {
        self.violations[axiom as usize] - self.retracted[axiom as usize].min(self.violations[axiom as usize])
    }

    /// Violations that stand; a TIE is none.
    pub fn standing_total(&self) -> u64 {
        Axiom::ALL.iter().filter(|&&axiom| axiom != Axiom::Tie).map(|&axiom| self.standing(axiom)).sum()
    }

    /// A verdict changed, for the `flips`th time, after standing so long.
    pub(crate) fn flip(&mut self, flips: u8, stood_ms: u32) {
        let class = |flips: u8| usize::from(flips - 1).min(self.flip_flops.len() - 1);
        let now = class(flips);
        if flips > 1 {
            let before = class(flips - 1);
            self.flip_flops[before] -= 1;
        }
        self.flip_flops[now] += 1;
        let class = RECTIFIED_MS.iter().position(|&end| stood_ms < end).unwrap_or(RECTIFIED_MS.len() - 1);
        self.rectified[class] += 1;
    }

    /// All counts, in a fixed order.
    pub(crate) fn each(&self, mut visit: impl FnMut(&u64)) {
        let mut copy = *self;
        copy.each_mut(|n| visit(n));
    }

    /// All counts, in a fixed order.
    pub(crate) fn each_mut(&mut self, mut visit: impl FnMut(&mut u64)) {
        let Stats {
            arrived,
            checked,
            not_committed,
            operations,
            violations,
            retracted,
            repeated,
            session_order,
            future,
            headers,
            no_start,
            doubts,
            flip_flops,
            flipped_txns,
            rectified,
            collections,
            spilled_chunks,
            spilled_bytes,
            reloaded_chunks,
            evicted_keys,
            peak_bytes: _,
            newest: _,
        } = self;
        let alone = [arrived, checked, not_committed, operations, repeated, session_order, future, headers];
        let alone = alone.into_iter().chain([no_start, doubts]);
        let more = [flipped_txns, collections, spilled_chunks, spilled_bytes, reloaded_chunks, evicted_keys];
        alone.chain(more).for_each(&mut visit);
        violations.iter_mut().chain(retracted).chain(flip_flops).chain(rectified).for_each(visit);
    }
}
