//! Checking by timestamps while a run goes on.
//!
//! Sessions ask the server what each transaction sees ([`crate::collect`]), a collector reads the order of
//! commits from the server's log, and here the two are joined: a transaction waits until its commit is in
//! the log, then goes to the online checker and into a history with timestamps. Each session's transactions
//! go in their order.
//!
//! The collector is asked after a transaction has ended, so whatever that transaction saw is in what the
//! collector has reported by then. A transaction of unknown outcome is one that committed if its number
//! turns up in the log, and nothing otherwise. MariaDB tells the number only with the answer to COMMIT:
//! then a commit that no transaction claims may be that transaction's, and nothing is concluded. Nor is
//! anything concluded where the server confirmed a commit to a client and the log lacks that commit.
//!
//! After a crash PostgreSQL gives numbers again that were not on disk yet. So a number means a transaction
//! only together with the *era*, the time from one start of the server to the next: whose outcome is
//! unknown committed only if the log has its number in its own era, and no transaction sees what was logged
//! in a later one.

use crate::collect::{Collector, Commit, Seen, Stamp};
use crate::record::{Finished, empty, transaction};
use crate::{Answer, Ended, Op};
use anomalist_format::{Sink, WriteError};
use anomalist_history::{Builder, Draft, OpKind, Outcome, SnapshotSet, Stamps, Timestamp};
use anomalist_online::{Batch, Cell, Checker, Event, Head, Initial, Key128, MemoryStore, Options, Origin};
use anomalist_timestamp::Axiom;
use anomalist_workload::client::Workload;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often the collector is asked.
const POLL: Duration = Duration::from_millis(50);
/// How long commits may take to turn up in the log once the run is over.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 10_000 });
/// How long verdicts may change unreported.
const SETTLE_MS: u64 = 1_000;

/// What checking a run online takes.
pub struct Online {
    /// Reads the order of commits.
    pub collector: Box<dyn Collector>,
    /// The history with timestamps is written here.
    pub history: Box<dyn Write + Send>,
}

/// What the online check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OnlineSummary {
    /// Transactions that were checked.
    pub checked: u64,
    /// Violations that stand, by axiom.
    pub violations: BTreeMap<&'static str, u64>,
    /// The first of them, as sentences.
    pub examples: Vec<String>,
    /// Transactions that committed although their client never learnt it.
    pub learnt: u64,
    /// Commits that never turned up in the log.
    pub missing: u64,
    /// Commits in the log that may belong to transactions of unknown outcome.
    pub unclaimed: u64,
    /// Reads that are right only if one of several transactions of unknown outcome committed.
    pub open: u64,
    /// Transactions that arrived late and put a conclusion about an unknown outcome in doubt.
    pub doubts: u64,
}

impl OnlineSummary {
    /// Whether the server reported enough. If not, `violations` is empty: a read of what is not known would
    /// look like one.
    pub fn is_conclusive(&self) -> bool {
        self.missing == 0 && self.unclaimed == 0 && self.open == 0 && self.doubts == 0
    }
}

/// How many examples are kept.
const EXAMPLES: usize = 5;

/// A commit, and the highest number up to there.
struct Logged {
    commit: Commit,
    highest: u64,
}

struct Joiner {
    workload: Workload,
    waiting: BTreeMap<u64, VecDeque<Box<Finished>>>,
    /// Where in `log` a number is.
    places: HashMap<u64, usize>,
    /// In the order of places.
    log: Vec<Logged>,
    /// When the server was started, as far as stamps and the log say.
    eras: BTreeSet<u64>,
    /// The numbers of transactions that were passed on.
    claimed: HashSet<u64>,
    /// The earliest beginning of a writer of unknown outcome whose number the server did not tell.
    unplaced: Option<u64>,
    batch: Batch,
    builder: Box<Builder>,
    summary: OnlineSummary,
}

/// Follows a run until its sessions are gone.
pub(crate) fn follow(
    finished: &Receiver<Finished>,
    online: Online,
    workload: Workload,
    violations: &AtomicU64,
) -> Result<OnlineSummary, WriteError> {
    let Online { mut collector, history } = online;
    let mut writer = anomalist_format::recorder(Sink::Stream(history))?;
    let options = Options { settle_ms: SETTLE_MS, ..Options::default() };
    let mut checker = Checker::new(options, MemoryStore::default());
    let mut joiner = Joiner::new(workload);
    let since = Instant::now();
    let mut events = Vec::new();
    let mut over: Option<Instant> = None;
    loop {
        let until = Instant::now() + POLL;
        while over.is_none() {
            match finished.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(done) => joiner.add(done),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => over = Some(Instant::now()),
            }
        }
        // While the server is down nothing is known, and nothing released; commits turn up when it is back.
        if let Ok(commits) = collector.poll() {
            for commit in commits {
                joiner.note(commit);
            }
            joiner.release();
            let now = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            // A store in memory does not fail.
            _ = checker.accept(&joiner.batch, now, &mut events);
            joiner.batch.clear();
            let builder = std::mem::replace(&mut joiner.builder, empty());
            if builder.txn_count() > 0
                && let Ok(history) = builder.finish()
            {
                writer.append(&history)?;
            }
            joiner.tell(&mut events);
            violations.store(checker.stats().standing_total(), Relaxed);
        }
        if let Some(end) = over {
            if joiner.settled() || end.elapsed() > PATIENCE {
                break;
            }
            std::thread::sleep(POLL);
        }
    }
    // A store in memory does not fail.
    _ = checker.finish(&mut events);
    joiner.tell(&mut events);
    // What it left on the server goes when the server goes.
    _ = collector.finish();
    writer.finish()?;
    violations.store(checker.stats().standing_total(), Relaxed);
    Ok(joiner.summary(&checker))
}

impl Joiner {
    fn new(workload: Workload) -> Joiner {
        let mut batch = Batch::default();
        batch.initial(Initial { default: Some(Some(Key128::NIL)), keys: Vec::new() });
        Joiner {
            workload,
            waiting: BTreeMap::new(),
            places: HashMap::new(),
            log: Vec::new(),
            eras: BTreeSet::new(),
            claimed: HashSet::new(),
            unplaced: None,
            batch,
            builder: empty(),
            summary: OnlineSummary::default(),
        }
    }

    /// What was found, once the checker has finished.
    fn summary(self, checker: &Checker<MemoryStore>) -> OnlineSummary {
        let stats = checker.stats();
        let missing = self.waiting.values().flatten().filter(|f| self.misses(f)).count() as u64;
        let unclaimed = |earliest: u64| {
            let after = self.log.iter().filter(|logged| logged.commit.place > earliest);
            after.filter(|logged| !self.claimed.contains(&logged.commit.number)).count() as u64
        };
        let mut summary = OnlineSummary {
            checked: stats.checked,
            open: checker.open() as u64,
            doubts: stats.doubts,
            missing,
            unclaimed: self.unplaced.map_or(0, unclaimed),
            ..self.summary
        };
        if !summary.is_conclusive() {
            summary.examples.clear();
            return summary;
        }
        let standing = |axiom: &&Axiom| **axiom != Axiom::Tie && stats.standing(**axiom) > 0;
        summary.violations =
            Axiom::ALL.iter().filter(standing).map(|&axiom| (axiom.code(), stats.standing(axiom))).collect();
        summary
    }

    fn add(&mut self, finished: Finished) {
        if let Some(Stamp { seen: Seen::Set { era, .. }, .. }) = finished.stamp {
            self.eras.insert(era);
        }
        self.waiting.entry(finished.process).or_default().push_back(Box::new(finished));
    }

    fn note(&mut self, commit: Commit) {
        self.eras.insert(commit.era);
        let highest = self.log.last().map_or(0, |last| last.highest).max(commit.number);
        self.places.insert(commit.number, self.log.len());
        self.log.push(Logged { commit, highest });
    }

    /// The log up to the end of an era.
    fn until_end_of(&self, era: u64) -> &[Logged] {
        let next = self.eras.range(era.saturating_add(1)..).next();
        let end = next.map_or(self.log.len(), |next| self.log.partition_point(|l| l.commit.at < *next));
        &self.log[..end]
    }

    /// Whether the server confirmed this commit to its client, but the log lacks it.
    fn misses(&self, finished: &Finished) -> bool {
        let number = finished.stamp.as_ref().and_then(|stamp| stamp.number);
        finished.ended == Ended::Committed && number.is_some_and(|number| !self.places.contains_key(&number))
    }

    /// Whether the commit at this place of the log is that of a transaction of unknown outcome with the
    /// same number.
    fn may_claim(&self, at: usize, number: u64, seen: &Seen) -> bool {
        let Seen::Set { era, .. } = seen else { return true };
        let same_era = self.log[at].commit.at >= *era && at < self.until_end_of(*era).len();
        same_era && !self.claimed.contains(&number)
    }

    /// Whether no transaction waits except those that may never have committed.
    fn settled(&self) -> bool {
        self.waiting
            .values()
            .all(|queue| queue.front().is_none_or(|f| matches!(f.ended, Ended::Indeterminate(_))))
    }

    /// Passes on the transactions that need not wait.
    fn release(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        for queue in waiting.values_mut() {
            while let Some(first) = queue.pop_front() {
                if let Err(first) = self.pass(first) {
                    queue.push_front(first);
                    break;
                }
            }
        }
        waiting.retain(|_, queue| !queue.is_empty());
        self.waiting = waiting;
    }

    /// Passes a transaction on, or gives it back if it has to wait.
    fn pass(&mut self, mut finished: Box<Finished>) -> Result<(), Box<Finished>> {
        if matches!(finished.ended, Ended::Aborted(_)) {
            return Ok(());
        }
        let Some(Stamp { seen, number }) = finished.stamp.clone() else { return Ok(()) };
        let place = match number {
            None => match seen {
                // The session may also have been lost right after the commit, before it could ask.
                Seen::UpTo(start) if !finished.ops.iter().copied().all(Op::is_read) => {
                    self.unplaced = Some(self.unplaced.map_or(start, |earliest| earliest.min(start)));
                    return Ok(());
                }
                _ if finished.ended != Ended::Committed => return Ok(()),
                _ => None,
            },
            Some(number) => match self.places.get(&number) {
                Some(&at) if finished.ended == Ended::Committed || self.may_claim(at, number, &seen) => {
                    self.claimed.insert(number);
                    Some(self.log[at].commit.place)
                }
                Some(_) => return Ok(()),
                None => return Err(finished),
            },
        };
        if finished.ended != Ended::Committed {
            self.summary.learnt += 1;
            finished.ended = Ended::Committed;
        }
        let at = |place: u64| Timestamp { physical: i64::try_from(place).unwrap_or(i64::MAX), logical: 0 };
        let (stamps, set) = match seen {
            Seen::UpTo(start) => (Stamps { start: at(start), commit: at(place.unwrap_or(start)) }, None),
            Seen::Set { set, era } => {
                let known = self.until_end_of(era);
                let set = without_later(set, known.last().map_or(0, |last| last.highest));
                // One that only read is placed after the last it saw.
                let last = || known.iter().rev().find(|logged| set.view().sees(logged.commit.number));
                let commit = at(place.or_else(|| last().map(|l| l.commit.place)).unwrap_or(0));
                (Stamps { start: commit, commit }, Some(set))
            }
        };
        let label = i64::try_from(finished.number).unwrap_or(i64::MAX);
        let draft: Draft = transaction(&mut self.builder, self.workload, &finished, label);
        self.builder.set_stamps(draft, stamps);
        if let Some(set) = &set {
            self.builder.set_snapshot(draft, number, Some(set.clone()));
        }
        for (i, op) in finished.ops.iter().enumerate() {
            let int = |key: u64| Key128::int(key as i64);
            let (kind, key, cell) = match (*op, finished.answers.get(i)) {
                (Op::Read(key), Some(Answer::Value(value))) => {
                    (OpKind::Read, key, Cell::One(value.map_or(Key128::NIL, Key128::int)))
                }
                (Op::ReadList(key), Some(Answer::List(list))) => {
                    (OpKind::Read, key, self.batch.list(list.iter().map(|&v| Key128::int(v))))
                }
                (Op::Read(key) | Op::ReadList(key), _) => (OpKind::Read, key, Cell::Unknown),
                (Op::Write(key, value), _) => (OpKind::Write, key, Cell::One(Key128::int(value))),
                (Op::Append(key, value), _) => (OpKind::Append, key, Cell::One(Key128::int(value))),
                _ => continue,
            };
            self.batch.op(kind, int(key), cell);
        }
        self.batch.transaction(Head {
            session: Key128::int(finished.process as i64),
            id: Some(Key128::int(label)),
            outcome: Outcome::Committed,
            stamps,
            number: None,
            set_id: number,
            set: set.map(Box::new),
            origin: Origin::default(),
        });
        Ok(())
    }

    fn tell(&mut self, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            let Event::Violation(finding) = event else { continue };
            if finding.axiom() == Axiom::Tie || self.summary.examples.len() >= EXAMPLES {
                continue;
            }
            let mut text = format!("{} by transaction {}", finding.axiom().code(), finding.txn);
            let more = [("on key", finding.key), ("read", finding.seen), ("expected", finding.expected)];
            for (what, value) in more {
                if let Some(value) = value {
                    text.push_str(&format!(", {what} {value}"));
                }
            }
            if let Some(other) = finding.other {
                text.push_str(&format!(", see transaction {other}"));
            }
            self.summary.examples.push(text);
        }
    }
}

/// A set without the numbers above the highest that had committed when its era ended: those it has beyond
/// are of transactions that aborted, and may be given again.
fn without_later(set: SnapshotSet, highest: u64) -> SnapshotSet {
    let view = set.view();
    if view.xmax <= highest {
        return set;
    }
    let xmax = view.xmax.min(highest.saturating_add(1));
    let running = view.running.iter().copied().filter(|&id| id < xmax).collect();
    SnapshotSet::new(view.xmin.min(xmax), xmax, running).unwrap_or(set)
}

#[cfg(test)]
mod tests;
