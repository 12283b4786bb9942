use super::*;
use crate::EngineError;
use std::sync::mpsc;

/// Tells what it was given, one call after the other.
struct Script(VecDeque<Vec<Commit>>);

impl Collector for Script {
    fn poll(&mut self) -> Result<Vec<Commit>, EngineError> {
        Ok(self.0.pop_front().unwrap_or_default())
    }

    fn finish(self: Box<Self>) -> Result<(), EngineError> {
        Ok(())
    }
}

fn committed(number: u64, at: u64, era: u64) -> Commit {
    Commit { number, place: at, at, era }
}

/// A transaction with PostgreSQL's stamps: what it saw, in which era, and its number.
fn finished(
    process: u64,
    ended: Ended,
    set: &str,
    era: u64,
    number: Option<u64>,
    ops: &[(Op, Answer)],
) -> Finished {
    let seen = Seen::Set { set: set.parse().unwrap(), era };
    Finished {
        process,
        ops: ops.iter().map(|(op, _)| *op).collect(),
        answers: ops.iter().map(|(_, answer)| answer.clone()).collect(),
        ended,
        invoked: 0,
        completed: 1,
        number: process,
        stamp: Some(Stamp { seen, number }),
    }
}

fn lost() -> Ended {
    Ended::indeterminate("lost", "the server is gone")
}

fn followed(transactions: Vec<Finished>, log: Vec<Vec<Commit>>) -> OnlineSummary {
    let (sender, receiver) = mpsc::channel();
    for finished in transactions {
        sender.send(finished).unwrap();
    }
    drop(sender);
    let online = Online { collector: Box::new(Script(log.into())), history: Box::new(std::io::sink()) };
    follow(&receiver, online, Workload::Register, &AtomicU64::new(0)).unwrap()
}

/// The first one's number was not on disk when the server was killed, so the second one got it, too.
#[test]
fn a_number_that_is_given_again_is_not_the_lost_transactions() {
    let lost_write = finished(0, lost(), "10:10:", 1, Some(12), &[(Op::Write(1, 1), Answer::Done)]);
    let write = finished(1, Ended::Committed, "12:12:", 100, Some(12), &[(Op::Write(2, 2), Answer::Done)]);
    let reads = [(Op::Read(1), Answer::Value(None)), (Op::Read(2), Answer::Value(Some(2)))];
    let read = finished(2, Ended::Committed, "13:13:", 100, None, &reads);
    let summary = followed(vec![lost_write, write, read], vec![vec![committed(12, 110, 100)]]);
    assert_eq!((summary.checked, summary.learnt), (2, 0));
    assert!(summary.violations.is_empty() && summary.is_conclusive(), "{summary:?}");
}

#[test]
fn who_is_in_the_log_of_his_era_has_committed() {
    let lost_write = finished(0, lost(), "10:10:", 1, Some(12), &[(Op::Write(1, 1), Answer::Done)]);
    let read = finished(1, Ended::Committed, "13:13:", 100, None, &[(Op::Read(1), Answer::Value(Some(1)))]);
    // The server reports the commit after its restart.
    let summary = followed(vec![lost_write, read], vec![vec![committed(12, 50, 100)]]);
    assert_eq!((summary.checked, summary.learnt), (2, 1));
    assert_eq!(summary.violations, BTreeMap::new());
}

/// Number 12 aborted, so the reader's set has it, and was given again after a crash.
#[test]
fn no_transaction_sees_a_later_era() {
    let read = finished(0, Ended::Committed, "13:13:", 1, None, &[(Op::Read(2), Answer::Value(None))]);
    let write = finished(1, Ended::Committed, "12:12:", 100, Some(12), &[(Op::Write(2, 2), Answer::Done)]);
    let log = vec![vec![committed(11, 50, 100), committed(12, 110, 100)]];
    let summary = followed(vec![read, write], log);
    assert_eq!((summary.checked, summary.violations), (2, BTreeMap::new()));
}

#[test]
fn without_the_whole_log_there_is_no_verdict() {
    let write = finished(0, Ended::Committed, "10:10:", 1, Some(11), &[(Op::Write(1, 5), Answer::Done)]);
    let read =
        |value| finished(1, Ended::Committed, "12:12:", 1, None, &[(Op::Read(1), Answer::Value(value))]);
    let summary = followed(vec![write.clone(), read(Some(5))], Vec::new());
    assert!(summary.missing == 1 && summary.violations.is_empty(), "{summary:?}");
    assert!(!summary.is_conclusive() && summary.examples.is_empty());
    let log = vec![vec![committed(11, 50, 1)]];
    let summary = followed(vec![write, read(None)], log);
    assert_eq!(summary.violations.get("EXT"), Some(&1), "with it there is one: {summary:?}");
}
