//! Mistakes of the recorder: values that are not unique, outcomes that cannot be, clocks that run backwards.

use super::{Finding, Tally, number};
use crate::stats::{repeated, share, writes_by_value};
use anomalist_history::{FaultKind, History, Index, KeyId, OpId, OpKind, Outcome, Source, TxnId, Value};
use rustc_hash::FxHashSet;

/// Above this share of transactions of unknown outcome, a history hardly says anything.
const MANY_INDETERMINATE: f64 = 0.2;

pub(super) fn look(history: &History, index: &Index, findings: &mut Vec<Finding>) {
    duplicate_writes(history, findings);
    faults(history, index, findings);
    outcomes(history, findings);
    operations(history, findings);
    own_writes(history, index, findings);
    stamps(history, findings);
    intervals(history, findings);
}

fn duplicate_writes(history: &History, findings: &mut Vec<Finding>) {
    let writes = writes_by_value(history);
    let mut tally = Tally::default();
    for run in repeated(&writes) {
        let (key, value, op) = run[0];
        tally.add(history.txn_of(op), || format!("{}, {} times,", pair(history, key, value), run.len()));
    }
    let advice = "Write every value once per key; a counter per session will do. A read of a repeated value has several \
                  possible sources, so levels can be refuted but hardly proven.";
    let message = |n| format!("{} written to its key more than once", number(n, "value was", "values were"));
    tally.report(history, "duplicate-writes", advice, message, findings);
}

/// Reads that no execution explains are anomalies; more often than not, the recorder is to blame.
fn faults(history: &History, index: &Index, findings: &mut Vec<Finding>) {
    let (mut aborted, mut thin_air) = (Tally::default(), Tally::default());
    for fault in index.faults() {
        let tally = match fault.kind {
            FaultKind::Aborted => &mut aborted,
            FaultKind::ThinAir => &mut thin_air,
            _ => continue,
        };
        let op = history.op(fault.op);
        tally.add(history.txn_of(fault.op), || pair(history, op.key, op.value));
    }
    let advice = "Either a dirty read, or a transaction recorded as aborted that took effect: a timeout or a lost \
                  connection is \"unknown\" (Jepsen's info), never \"failed\" (fail).";
    let message = |n| {
        format!(
            "{} a value that only an aborted transaction wrote",
            number(n, "read returns", "reads return")
        )
    };
    aborted.report(history, "aborted-write-observed", advice, message, findings);
    let advice = "Record every write, also of transactions that failed and of those that loaded the data; or say what \
                  keys held before.";
    let message =
        |n| format!("{} a value that no transaction wrote", number(n, "read returns", "reads return"));
    thin_air.report(history, "thin-air-read", advice, message, findings);
}

fn outcomes(history: &History, findings: &mut Vec<Finding>) {
    let (mut unknown, mut empty) = (Tally::default(), Tally::default());
    for t in history.txns() {
        if history.outcome(t) == Outcome::Indeterminate {
            unknown.add(t, || "one".to_owned());
        }
        if history.op_range(t).is_empty() {
            empty.add(t, || "one".to_owned());
        }
    }
    // Such a transaction was given a session of its own, of the same name, after all others.
    let (mut names, mut followed) = (FxHashSet::default(), Tally::default());
    for s in history.sessions().filter(|&s| !names.insert(history.session_label(s))) {
        followed.add(TxnId(history.session_range(s).start), || "one".to_owned());
    }
    let advice = "Go on under a new session name, as Jepsen does: the transaction may still take effect, so nothing of \
                  the session is known to follow it.";
    let message =
        |n| format!("{} of unknown outcome whose session goes on", number(n, "transaction", "transactions"));
    followed.report(history, "session-goes-on", advice, message, findings);
    let txns = history.txn_count() as u64;
    let ratio = share(unknown.count, txns);
    if ratio > MANY_INDETERMINATE {
        let advice = "Raise the client's timeout, or ask the database what became of them: what no client observed of such \
                      a transaction cannot be judged.";
        let message =
            |n: u64| format!("{n} of {txns} transactions ({:.0} %) have an unknown outcome", ratio * 100.0);
        unknown.report(history, "many-indeterminate", advice, message, findings);
    }
    let advice = "Harmless, unless operations were lost on the way.";
    let message = |n| format!("{} without operations", number(n, "transaction", "transactions"));
    empty.report(history, "empty-transaction", advice, message, findings);
}

fn operations(history: &History, findings: &mut Vec<Finding>) {
    let (mut unread, mut initial) = (Tally::default(), Tally::default());
    for t in history.txns() {
        for (_, op) in history.ops(t) {
            if op.kind == OpKind::Read {
                if op.value == Value::UNKNOWN && history.outcome(t) == Outcome::Committed {
                    unread.add(t, || format!("of {}", history.show_key(op.key)));
                }
            } else if op.kind == OpKind::Write && history.initial().of(op.key) == Some(op.value) {
                initial.add(t, || pair(history, op.key, op.value));
            }
        }
    }
    let advice = "Record what a committed transaction read: a read without a result shows nothing.";
    let message = |n| format!("{} of committed transactions without a result", number(n, "read", "reads"));
    unread.report(history, "read-without-result", advice, message, findings);
    let advice = "A read of that value may be of the initial state or of the write, so it shows less. Where a deletion is \
                  meant, that cannot be helped; otherwise write other values than the one keys hold at first.";
    let message =
        |n| format!("{} of a value that the key holds before any write", number(n, "write", "writes"));
    initial.report(history, "write-of-initial-value", advice, message, findings);
}

/// Reads of the initial value by a session that wrote the key in an earlier committed transaction.
fn own_writes(history: &History, index: &Index, findings: &mut Vec<Finding>) {
    let mut tally = Tally::default();
    let mut writer = vec![u32::MAX; history.key_count()];
    for s in history.sessions() {
        for t in history.session_txns(s) {
            for i in history.op_range(t) {
                let key = history.heads()[i].key();
                if index.source(OpId(i as u32)) == Source::Initial && writer[key.index()] == s.0 {
                    tally.add(t, || pair(history, key, history.values()[i]));
                }
            }
            for i in history.op_range(t).filter(|_| history.outcome(t) == Outcome::Committed) {
                let head = history.heads()[i];
                if !head.is_read() {
                    writer[head.key().index()] = s.0;
                }
            }
        }
    }
    let advice = "A violation of most levels if it is true. Check first that a session is one connection, that its \
                  transactions are recorded in order, and that failed reads are not recorded as the initial value.";
    let message = |n| {
        format!(
            "{} the initial value of a key that the session had written",
            number(n, "read returns", "reads return")
        )
    };
    tally.report(history, "initial-read-after-own-write", advice, message, findings);
}

fn stamps(history: &History, findings: &mut Vec<Finding>) {
    let Some(stamps) = history.stamps() else { return };
    let (mut reversed, mut session) = (Tally::default(), Tally::default());
    for s in history.sessions() {
        let mut before = None;
        for t in history.session_txns(s).filter(|&t| history.outcome(t) == Outcome::Committed) {
            let now = stamps[t.index()];
            if now.start > now.commit && history.snapshot(t).is_none() {
                reversed.add(t, || format!("{} > {}", now.start.physical, now.commit.physical));
            }
            // A set says what it saw; its start is of no importance.
            if before.is_some_and(|commit| now.start < commit) && history.snapshot(t).is_none() {
                session.add(t, || format!("start {}", now.start.physical));
            }
            before = Some(now.commit);
        }
    }
    let advice = "Take both timestamps from the database, from one clock.";
    let message = |n| format!("{} after it commits", number(n, "transaction starts", "transactions start"));
    reversed.report(history, "start-after-commit", advice, message, findings);
    let advice = "A session's transactions run one after another: check the clock, or give each connection a session of \
                  its own.";
    let message = |n| {
        format!(
            "{} before the previous one of the session commits",
            number(n, "transaction starts", "transactions start")
        )
    };
    session.report(history, "session-clock-backwards", advice, message, findings);
}

fn intervals(history: &History, findings: &mut Vec<Finding>) {
    let Some(intervals) = history.intervals() else { return };
    let (mut reversed, mut overlapping) = (Tally::default(), Tally::default());
    for s in history.sessions() {
        let mut before = None;
        for t in history.session_txns(s) {
            let now = intervals[t.index()];
            if now.completed.is_some_and(|completed| completed < now.invoked) {
                reversed.add(t, || format!("begun at {}", now.invoked));
            }
            if before.is_some_and(|completed| now.invoked < completed) {
                overlapping.add(t, || format!("begun at {}", now.invoked));
            }
            before = now.completed.or(before);
        }
    }
    let advice =
        "Use one monotonic clock, and record the time before the first operation and after the commit.";
    let message = |n| format!("{} before it begins", number(n, "transaction ends", "transactions end"));
    reversed.report(history, "ends-before-it-begins", advice, message, findings);
    let advice = "A session is a client that does one thing at a time; give concurrent transactions sessions of their own.";
    let message = |n| {
        format!(
            "{} before the previous one of the session ended",
            number(n, "transaction began", "transactions began")
        )
    };
    overlapping.report(history, "session-overlaps", advice, message, findings);
}

fn pair(history: &History, key: KeyId, value: Value) -> String {
    let shown = history.show(value).to_string();
    let shown =
        if shown.chars().count() > 40 { shown.chars().take(39).chain(['…']).collect() } else { shown };
    format!("{} = {shown}", history.show_key(key))
}
