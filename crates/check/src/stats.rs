//! The size and shape of a history: what a person wants to know before asking about levels.
//!
//! One pass over the operations and one sort of the writes. Judges nothing; [`lint`](crate::lint) says what
//! the numbers mean for the levels.

use anomalist_history::{History, Index, Indexed, KeyId, OpId, OpKind, Outcome, SessionId, Source, Value};

/// Least, mean and largest of something.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Spread {
    /// The least.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: u64,
}

/// How much the sessions get in each other's way.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Contention {
    /// The key with the most operations; of several, the first.
    pub hottest_key: Option<KeyId>,
    /// The share of all operations that touch it.
    pub hottest_share: f64,
    /// Keys that committed transactions of more than one session wrote.
    pub keys_written_by_several_sessions: u64,
    /// Keys that a session read from a transaction of another one.
    pub keys_read_across_sessions: u64,
}

/// The numbers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stats {
    /// What the history is about: see [`kind`].
    pub kind: &'static str,
    /// Sessions.
    pub sessions: u64,
    /// Transactions, whatever their outcome.
    pub transactions: u64,
    /// Those that certainly did not take effect.
    pub aborted: u64,
    /// Those whose outcome is not known.
    pub indeterminate: u64,
    /// Operations.
    pub operations: u64,
    /// Keys.
    pub keys: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Appends.
    pub appends: u64,
    /// Reads by operations.
    pub read_ratio: f64,
    /// Operations of a transaction.
    pub ops_per_txn: Spread,
    /// Transactions of a session.
    pub txns_per_session: Spread,
    /// Values that were written (or appended) to their key more than once.
    pub values_repeated: u64,
    /// Reads that returned the initial value.
    pub reads_of_initial: u64,
    /// Reads that returned an earlier write of their own transaction.
    pub reads_of_own_writes: u64,
    /// Reads whose value several transactions wrote.
    pub reads_ambiguous: u64,
    /// Reads whose result was not recorded.
    pub reads_without_result: u64,
    /// Who meets whom.
    pub contention: Contention,
    /// Transactions have start and commit timestamps.
    pub timestamps: bool,
    /// Transactions have real-time intervals.
    pub realtime: bool,
}

/// What a history is about: `timestamped` if transactions carry timestamps, else `register`, `list-append`
/// or `mixed`.
pub fn kind(history: &History) -> &'static str {
    match (history.stamps().is_some(), history.has_lists(), history.has_registers()) {
        (true, ..) => "timestamped",
        (_, true, true) => "mixed",
        (_, true, false) => "list-append",
        _ => "register",
    }
}

/// Counts. O(m log m) for m operations.
pub fn stats(indexed: &Indexed<'_>) -> Stats {
    let (history, index) = (indexed.history(), indexed.index());
    let outcomes = |wanted: Outcome| history.txns().filter(|&t| history.outcome(t) == wanted).count() as u64;
    let of_kind = |wanted: OpKind| history.heads().iter().filter(|h| h.kind() == wanted).count() as u64;
    let (operations, reads) = (history.op_count() as u64, of_kind(OpKind::Read));
    let mut stats = Stats {
        kind: kind(history),
        sessions: history.session_count() as u64,
        transactions: history.txn_count() as u64,
        aborted: outcomes(Outcome::Aborted),
        indeterminate: outcomes(Outcome::Indeterminate),
        operations,
        keys: history.key_count() as u64,
        reads,
        writes: of_kind(OpKind::Write),
        appends: of_kind(OpKind::Append),
        read_ratio: share(reads, operations),
        ops_per_txn: spread(history.txns().map(|t| history.op_range(t).len() as u64)),
        txns_per_session: spread(history.sessions().map(|s| history.session_range(s).len() as u64)),
        values_repeated: repeated(&writes_by_value(history)).count() as u64,
        reads_ambiguous: index.ambiguous_reads() as u64,
        contention: contention(history, index),
        timestamps: history.stamps().is_some(),
        realtime: history.intervals().is_some(),
        ..Stats::default()
    };
    for (i, head) in history.heads().iter().enumerate() {
        if !head.is_read() {
            continue;
        }
        stats.reads_without_result += u64::from(history.values()[i] == Value::UNKNOWN);
        match index.source(OpId(i as u32)) {
            Source::Initial => stats.reads_of_initial += 1,
            Source::Own => stats.reads_of_own_writes += 1,
            _ => {}
        }
    }
    stats
}

/// A part of a whole; nothing of nothing is nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn spread(numbers: impl Iterator<Item = u64>) -> Spread {
    let (mut min, mut max, mut sum, mut count) = (u64::MAX, 0, 0, 0);
    for n in numbers {
        (min, max, sum, count) = (min.min(n), max.max(n), sum + n, count + 1);
    }
    if count == 0 { Spread::default() } else { Spread { min, mean: share(sum, count), max } }
}

/// Every write and append, by key, then value, then place in the history.
pub(crate) fn writes_by_value(history: &History) -> Vec<(KeyId, Value, OpId)> {
    let mut writes: Vec<(KeyId, Value, OpId)> = (0..history.op_count())
        .filter(|&i| !history.heads()[i].is_read())
        .map(|i| (history.heads()[i].key(), history.values()[i], OpId(i as u32)))
        .collect();
    writes.sort_unstable();
    writes
}

/// The runs of writes of one value to one key that are longer than one.
pub(crate) fn repeated(
    writes: &[(KeyId, Value, OpId)],
) -> impl Iterator<Item = &[(KeyId, Value, OpId)]> + '_ {
    writes.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).filter(|run| run.len() > 1)
}

/// True if committed transactions of two sessions write the key. Writers come session by session.
pub(crate) fn written_by_several_sessions(history: &History, index: &Index, key: KeyId) -> bool {
    let session = |t: &anomalist_history::TxnId| history.session_of(*t);
    let writers = index.writers(key);
    writers.first().map(session) != writers.last().map(session)
}

fn contention(history: &History, index: &Index) -> Contention {
    let mut uses = vec![0_u64; history.key_count()];
    for head in history.heads() {
        uses[head.key().index()] += 1;
    }
    let hottest = (0..uses.len()).max_by_key(|&k| (uses[k], std::cmp::Reverse(k)));
    let mut across = vec![false; history.key_count()];
    for t in history.txns() {
        let reader: SessionId = history.session_of(t);
        for i in history.op_range(t) {
            if let Source::From(writer) = index.source(OpId(i as u32))
                && history.session_of(writer) != reader
            {
                across[history.heads()[i].key().index()] = true;
            }
        }
    }
    Contention {
        hottest_key: hottest.map(|k| KeyId(k as u32)),
        hottest_share: hottest.map_or(0.0, |k| share(uses[k], history.op_count() as u64)),
        keys_written_by_several_sessions: history
            .keys()
            .filter(|&k| written_by_several_sessions(history, index, k))
            .count() as u64,
        keys_read_across_sessions: across.iter().filter(|&&a| a).count() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_testkit::mini::history;

    #[test]
    fn a_small_history_is_counted() {
        let history = history("w(x,1); r(x,1) w(y,1) || r(x,0) w(y,1)");
        let indexed = Indexed::new(&history, 1.try_into().unwrap());
        let stats = stats(&indexed);
        assert_eq!((stats.sessions, stats.transactions, stats.operations, stats.keys), (2, 3, 5, 2));
        assert_eq!((stats.reads, stats.writes, stats.values_repeated, stats.reads_of_initial), (2, 3, 1, 1));
        assert_eq!(stats.ops_per_txn, Spread { min: 1, mean: 5.0 / 3.0, max: 2 });
        assert_eq!(stats.contention.keys_written_by_several_sessions, 1);
        assert_eq!((stats.kind, stats.contention.hottest_share), ("register", 0.6));
    }
}
