//! Disagreements that are known and wait for their repair. Each entry is a hole in the comparison: this
//! table should be empty.

use crate::judges::{Complaint, Said};
use anomalist_level::{By, Level};
use anomalist_literature::model::{Op, Outcome, Txn};
use anomalist_literature::{Answer, History, Sessions, answer};
use std::sync::OnceLock;

type Applies = fn(&History, &Complaint) -> bool;

/// Name, and to which disagreements it applies.
pub const KNOWN: &[(&str, Applies)] = &[
    ("D: an indeterminate transaction that others follow is not after those before it", detached),
    ("S1: a transaction writes the initial value", writes_initial),
    ("S2: an element is appended twice", repeats_element),
    ("P1: PL-1, an indeterminate transaction whose register value was read counts as committed", observed),
    ("S4: timestamps, several transactions of unknown outcome wrote one value", open_writers),
    ("N1: timestamps, an element is the registers' initial value", initial_element),
    ("N2: timestamps, a transaction of unknown outcome wrote what others wrote too", open_writer),
    ("S6: timestamps, serializable, equal commits", tied_commits),
    ("T: timestamps, snapshots, equal timestamps in one session", tied_session),
];

/// The known reason of a disagreement.
pub fn reason(history: &History, complaint: &Complaint) -> Option<&'static str> {
    let open = |name: &str| unlisted().iter().any(|prefix| name.starts_with(prefix));
    let applies = |(name, applies): &&(&str, Applies)| !open(name) && applies(history, complaint);
    KNOWN.iter().find(applies).map(|(name, _)| *name)
}

/// `ANOMALIST_LITERATURE_UNLISTED=S1,S2` leaves entries out.
fn unlisted() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    let names = || std::env::var("ANOMALIST_LITERATURE_UNLISTED").unwrap_or_default();
    NAMES.get_or_init(|| names().split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect())
}

fn detached(history: &History, c: &Complaint) -> bool {
    let lenient = matches!(c.said, Said::Holds | Said::Accepts) && c.expected == Answer::Violated;
    lenient && answer(history, c.level, c.by, Sessions::Detached) == Answer::Holds
}

fn ops(history: &History) -> impl Iterator<Item = &Op> {
    history.txns.iter().flat_map(|t| &t.ops)
}

fn observed(history: &History, c: &Complaint) -> bool {
    let open = history.txns.iter().any(|t| t.outcome == Outcome::Indeterminate);
    c.level == Level::ReadUncommitted && matches!(c.said, Said::Violated | Said::Accepts) && open
}

fn writes_initial(history: &History, _: &Complaint) -> bool {
    ops(history).any(|op| matches!(op, Op::Write(_, value) if *value == history.initial))
}

fn repeats_element(history: &History, c: &Complaint) -> bool {
    let again =
        |(i, op): (usize, &Op)| matches!(op, Op::Append(..)) && ops(history).skip(i + 1).any(|o| o == op);
    c.by == By::Values && ops(history).enumerate().any(again)
}

/// The most indeterminate transactions, and the most of all, that wrote a value that an indeterminate one
/// wrote.
fn writers(history: &History) -> (usize, usize) {
    let is_open = |t: &&Txn| t.outcome == Outcome::Indeterminate;
    let written =
        history.txns.iter().filter(is_open).flat_map(|t| &t.ops).filter(|op| !matches!(op, Op::Read(..)));
    let of = |op: &Op| {
        let wrote = || history.txns.iter().filter(|t| t.ops.contains(op));
        (wrote().filter(is_open).count(), wrote().count())
    };
    written.map(of).fold((0, 0), |most, (open, all)| (most.0.max(open), most.1.max(all)))
}

fn open_writers(history: &History, c: &Complaint) -> bool {
    c.by == By::Timestamps && writers(history).0 > 1
}

fn open_writer(history: &History, c: &Complaint) -> bool {
    let (open, all) = writers(history);
    c.by == By::Timestamps && open == 1 && all > 1
}

fn initial_element(history: &History, c: &Complaint) -> bool {
    let is = |op: &Op| matches!(op, Op::Append(_, element) if *element == history.initial);
    c.by == By::Timestamps && ops(history).any(is)
}

fn tied_commits(history: &History, c: &Complaint) -> bool {
    let serial = [Level::Serializable, Level::StrongSessionSerializable].contains(&c.level);
    let mut commits: Vec<i64> = history.txns.iter().map(|t| t.stamps.1).collect();
    commits.sort_unstable();
    c.by == By::Timestamps && serial && commits.windows(2).any(|pair| pair[0] == pair[1])
}

fn tied_session(history: &History, c: &Complaint) -> bool {
    let stamps = |t: usize| history.txns[t].stamps;
    let tied = |a: usize, b: usize| {
        history.issued_before(a, b) && (stamps(a).1 == stamps(b).1 || stamps(b).1 == stamps(a).0)
    };
    let count = history.txns.len();
    c.by == By::Timestamps && (0..count).any(|b| (0..b).any(|a| tied(a, b)))
}
