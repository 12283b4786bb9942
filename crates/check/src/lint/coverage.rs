//! What a history could not have shown: anomalies that take a shape of transaction, or a meeting of
//! sessions, that never occurred. A level may hold only because of this.

use super::{Finding, Severity};
use crate::stats::written_by_several_sessions;
use anomalist_history::{History, Index, KeyId, OpId, OpKind, Outcome, Source, TxnId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Below this share of written values that were read, most writes went unobserved.
const FEW_OBSERVED: f64 = 0.25;

/// What the history has, and what its committed transactions did at least once.
#[derive(Default)]
struct Seen {
    several_sessions: bool,
    failures: bool,
    intervals: bool,
    reads: bool,
    writes: bool,
    several_operations: bool,
    reads_two_keys: bool,
    writes_two_keys: bool,
    read_modify_write: bool,
    reads_one_writes_another: bool,
    reads_across_sessions: bool,
    write_contention: bool,
}

const NO_READS: &str = "no committed transaction reads: no anomaly could have been seen";
const NO_WRITES: &str = "no committed transaction writes: there was nothing to isolate";
const NOTHING_READ: &str =
    "no transaction read what another wrote: what holds here was hardly put to the test";

/// Why whatever holds of a history holds without having been put to the test: no write was ever read. Ends
/// at the first that was, so costs next to nothing for any other history.
pub(super) fn vacuity(history: &History) -> Option<&'static str> {
    let mut written: FxHashMap<(KeyId, Value), TxnId> = FxHashMap::default();
    let mut read: FxHashMap<(KeyId, Value), TxnId> = FxHashMap::default();
    let (mut reads, mut writes) = (false, false);
    for t in history.txns() {
        let committed = history.outcome(t) == Outcome::Committed;
        for (_, op) in history.ops(t) {
            if op.kind != OpKind::Read {
                writes |= committed;
                if read.get(&(op.key, op.value)).is_some_and(|&reader| reader != t) {
                    return None;
                }
                written.insert((op.key, op.value), t);
                continue;
            }
            reads |= committed && op.value != Value::UNKNOWN;
            for &value in history.list(op.value).unwrap_or(&[op.value]) {
                if written.get(&(op.key, value)).is_some_and(|&writer| writer != t) {
                    return None;
                }
                read.insert((op.key, value), t);
            }
        }
    }
    Some(match (reads, writes) {
        (false, _) => NO_READS,
        (_, false) => NO_WRITES,
        _ => NOTHING_READ,
    })
}

/// Something without which anomalies could not have been seen.
struct Gap {
    code: &'static str,
    missing: fn(&Seen) -> bool,
    message: &'static str,
    advice: &'static str,
}

const GAPS: &[Gap] = &[
    Gap { code: "no-reads", missing: |seen| !seen.reads, message: NO_READS, advice: "Read as well." },
    Gap { code: "no-writes", missing: |seen| !seen.writes, message: NO_WRITES, advice: "Write as well." },
    Gap {
        code: "single-session",
        missing: |seen| !seen.several_sessions,
        message: "there is one session: nothing ran concurrently, so no anomaly between sessions could have been seen",
        advice: "Run several clients at once.",
    },
    Gap {
        code: "no-write-contention",
        missing: |seen| seen.several_sessions && seen.writes && !seen.write_contention,
        message: "no key was written by two sessions: lost updates, dirty writes and write cycles could not have been seen",
        advice: "Use fewer keys, or a skewed distribution.",
    },
    Gap {
        code: "no-reads-across-sessions",
        missing: |seen| seen.several_sessions && seen.writes && seen.reads && !seen.reads_across_sessions,
        message: "no session read what another wrote: the history says nothing about isolation between sessions",
        advice: "Use fewer keys, or let sessions share them.",
    },
    Gap {
        code: "one-operation-transactions",
        missing: |seen| !seen.several_operations,
        message: "every transaction has at most one operation: atomicity could not have been tested, only the order of \
                  reads and writes",
        advice: "Put several operations into a transaction.",
    },
    Gap {
        code: "no-multi-key-reads",
        missing: |seen| seen.several_operations && !seen.reads_two_keys,
        message: "no transaction reads two keys: fractured reads, read skew and long forks could not have been seen",
        advice: "Let transactions read several keys.",
    },
    Gap {
        code: "no-multi-key-writes",
        missing: |seen| (seen.several_operations || !seen.reads) && !seen.writes_two_keys && seen.writes,
        message: "no transaction writes two keys: fractured reads and dirty writes (G0) could not have been seen",
        advice: "Let transactions write several keys.",
    },
    Gap {
        code: "no-read-modify-write",
        missing: |seen| seen.reads && seen.writes && !seen.read_modify_write,
        message: "no transaction reads a key and then writes it: lost updates could not have been seen",
        advice: "Let some transactions update what they read.",
    },
    Gap {
        code: "no-write-skew-shape",
        missing: |seen| {
            seen.several_operations && seen.reads && seen.writes && !seen.reads_one_writes_another
        },
        message: "no transaction reads one key and writes another: write skew could not have been seen",
        advice: "Let some transactions read one key and write another.",
    },
    Gap {
        code: "no-failures-recorded",
        missing: |seen| !seen.failures,
        message: "every transaction is recorded as committed: reads of aborted writes (G1a) could not have been recognised",
        advice: "Record failed transactions, and those of unknown outcome, with what they tried to write.",
    },
    Gap {
        code: "no-real-time",
        missing: |seen| !seen.intervals,
        message: "there are no real-time intervals: strict serializability and strong snapshot isolation cannot be decided",
        advice: "Record when each transaction began and ended, by one clock.",
    },
];

pub(super) fn look(history: &History, index: &Index, findings: &mut Vec<Finding>) {
    let seen = survey(history, index);
    findings.extend(GAPS.iter().filter(|gap| (gap.missing)(&seen)).map(|gap| Finding {
        severity: Severity::Note,
        code: gap.code,
        count: 0,
        message: gap.message.to_owned(),
        example: None,
        advice: gap.advice,
    }));
    values_never_read(history, findings);
}

fn survey(history: &History, index: &Index) -> Seen {
    let mut seen = Seen {
        several_sessions: history.session_count() > 1,
        failures: history.txns().any(|t| history.outcome(t) != Outcome::Committed),
        intervals: history.intervals().is_some(),
        write_contention: history.keys().any(|k| written_by_several_sessions(history, index, k)),
        ..Seen::default()
    };
    let mut last_reader = vec![TxnId(u32::MAX); history.key_count()];
    for t in history.txns().filter(|&t| index.is_committed(t)) {
        survey_transaction(history, index, t, &mut last_reader, &mut seen);
    }
    seen
}

fn survey_transaction(
    history: &History,
    index: &Index,
    t: TxnId,
    last_reader: &mut [TxnId],
    seen: &mut Seen,
) {
    let range = history.op_range(t);
    seen.several_operations |= range.len() > 1;
    // The first key read and written; another one shows that there are two.
    let (mut first_read, mut first_written): (Option<KeyId>, Option<KeyId>) = (None, None);
    let (mut reads_two, mut writes_two) = (false, false);
    for i in range {
        let head = history.heads()[i];
        let key = head.key();
        if head.is_read() {
            seen.reads |= history.values()[i] != Value::UNKNOWN;
            reads_two |= *first_read.get_or_insert(key) != key;
            last_reader[key.index()] = t;
            if let Source::From(writer) = index.source(OpId(i as u32)) {
                seen.reads_across_sessions |= history.session_of(writer) != history.session_of(t);
            }
        } else {
            seen.writes = true;
            writes_two |= *first_written.get_or_insert(key) != key;
            seen.read_modify_write |= last_reader[key.index()] == t;
        }
    }
    seen.reads_two_keys |= reads_two;
    seen.writes_two_keys |= writes_two;
    seen.reads_one_writes_another |=
        matches!((first_read, first_written), (Some(r), Some(w)) if r != w || reads_two || writes_two);
}

/// Committed values that no read returned: where they belong among the versions of their key is not known.
fn values_never_read(history: &History, findings: &mut Vec<Finding>) {
    let mut observed: FxHashSet<(KeyId, Value)> = FxHashSet::default();
    let mut written = 0_u64;
    for (head, &value) in history.heads().iter().zip(history.values()) {
        if head.is_read() {
            match history.list(value) {
                Some(elements) => observed.extend(elements.iter().map(|&e| (head.key(), e))),
                None => _ = observed.insert((head.key(), value)),
            }
        }
    }
    let mut unread = 0_u64;
    for t in history.txns().filter(|&t| history.outcome(t) == Outcome::Committed) {
        for (_, op) in history.ops(t).filter(|(_, op)| op.kind != OpKind::Read) {
            written += 1;
            unread += u64::from(!observed.contains(&(op.key, op.value)));
        }
    }
    if written > 0 && (written - unread) as f64 / (written as f64) < FEW_OBSERVED {
        findings.push(Finding {
            severity: Severity::Note,
            code: "values-never-read",
            count: unread,
            message: format!(
                "{unread} of {written} committed writes were never read: what became of them is not known"
            ),
            example: None,
            advice: "Read more, use fewer keys, or read every key at the end.",
        });
    }
}
