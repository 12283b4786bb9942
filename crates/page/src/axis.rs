//! When each transaction began and ended, on one axis for all of a history.
//!
//! The axis is the clients' clock where it was recorded, else the database's timestamps (the other way round
//! where verdicts rest on timestamps), else the place in the session. Numbers count from the earliest one.

use anomalist_history::{History, Timestamp, TxnId};

/// What the numbers of the axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The clock of the clients.
    Clock,
    /// Timestamps that the database gave: start and commit.
    Stamps,
    /// The place of a transaction in its session.
    Place,
}

impl Kind {
    /// The word for it in the page's data.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Clock => "clock",
            Kind::Stamps => "timestamps",
            Kind::Place => "place",
        }
    }
}

/// The axis of a history.
#[derive(Debug)]
pub(crate) struct Axis {
    pub kind: Kind,
    /// What the axis counts from.
    pub origin: i64,
    /// When each transaction began, and ended if it is known to have.
    pub spans: Vec<(u64, Option<u64>)>,
}

impl Axis {
    /// The axis of a history; `stamps`: verdicts rest on timestamps.
    pub fn of(history: &History, stamps: bool) -> Axis {
        let by_stamps = || Some((Kind::Stamps, stamped(history)?));
        let by_clock = || Some((Kind::Clock, timed(history)?));
        let found = if stamps { by_stamps().or_else(by_clock) } else { by_clock().or_else(by_stamps) };
        let (kind, spans) = found.unwrap_or_else(|| (Kind::Place, placed(history)));
        let origin = spans.iter().map(|(begin, _)| *begin).min().unwrap_or(0);
        // Wide enough for any two 64-bit numbers; what would not fit into a double is moved to the edge.
        let from = |at: i128| u64::try_from(at - origin).unwrap_or(0).min(crate::varint::LIMIT / 4);
        let spans =
            spans.iter().map(|&(begin, end)| (from(begin), end.map(|end| from(end.max(begin))))).collect();
        Axis { kind, origin: i64::try_from(origin).unwrap_or(0), spans }
    }
}

type Span = (i128, Option<i128>);

fn timed(history: &History) -> Option<Vec<Span>> {
    let span = |i: &anomalist_history::Interval| (i128::from(i.invoked), i.completed.map(i128::from));
    Some(history.intervals()?.iter().map(span).collect())
}

/// The physical parts; the logical ones where no other differ.
fn stamped(history: &History) -> Option<Vec<Span>> {
    let stamps = history.stamps()?;
    let known = stamps.iter().map(|s| s.commit).filter(|at| *at != Timestamp::UNKNOWN);
    let physical = known.clone().any(|at| Some(at.physical) != known.clone().next().map(|at| at.physical));
    let number = |at: Timestamp| i128::from(if physical { at.physical } else { at.logical });
    let earliest = known.clone().map(number).min().unwrap_or(0);
    let span = |s: &anomalist_history::Stamps| {
        let commit = if s.commit == Timestamp::UNKNOWN { earliest } else { number(s.commit) };
        (if s.has_start() { number(s.start) } else { commit }, Some(commit))
    };
    Some(stamps.iter().map(span).collect())
}

fn placed(history: &History) -> Vec<Span> {
    let mut spans = vec![(0, None); history.txn_count()];
    for session in history.sessions() {
        for (place, t) in history.issued(session).enumerate() {
            let t: TxnId = t;
            spans[t.index()] = (place as i128, Some(place as i128 + 1));
        }
    }
    spans
}
