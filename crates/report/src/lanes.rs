//! A witness as a small drawing in text: a column per session, transactions from top to bottom, beside each
//! operation the numbers of the sentences that speak of it.
//!
//! Where real time is known, a transaction's bar reaches from its begin to its end, so that transactions
//! that overlapped in time stand side by side. Otherwise they follow each other in the order of the view:
//! causes first. More lanes than a reader can follow, and what does not fit, are not drawn.

use crate::layout::{Style, padded, width};
use crate::witness_view::WitnessView;
use anomalist_history::{OpId, SessionId, TxnId};
use std::collections::BTreeMap;

/// More lanes than this are a list.
const LANES: usize = 4;
/// More transactions than this are a list.
const TRANSACTIONS: usize = 8;
const GAP: usize = 3;

/// The sentences, by number, that speak of an operation.
pub(crate) type Marks = BTreeMap<OpId, Vec<usize>>;

/// The characters of a bar: its begin, its middle, its end.
struct Bars {
    begin: &'static str,
    middle: &'static str,
    end: &'static str,
}

const LINES: Bars = Bars { begin: "┌", middle: "│", end: "└" };
const ASCII: Bars = Bars { begin: "+", middle: "|", end: "+" };

/// What a row says.
enum Event {
    Begin(TxnId),
    Operation(Option<OpId>, String),
    End,
}

/// The drawing of some transactions of a witness, two columns in; none where it would not fit or not help.
pub(crate) fn draw(view: &WitnessView<'_>, txns: &[TxnId], marks: &Marks, style: &Style) -> Option<String> {
    let events = events(view, txns);
    let mut sessions: Vec<SessionId> = Vec::new();
    for session in events.iter().map(|(t, _)| view.history.session_of(*t)) {
        if !sessions.contains(&session) {
            sessions.push(session);
        }
    }
    if !style.lanes || sessions.len() > LANES || txns.is_empty() || txns.len() > TRANSACTIONS {
        return None;
    }
    let bars = if style.signs { LINES } else { ASCII };
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut open = vec![false; sessions.len()];
    let mut last = None;
    for (txn, event) in events {
        let lane = sessions.iter().position(|&s| s == view.history.session_of(txn))?;
        // Operations that are left out need no row either.
        if let Event::Operation(None, text) = &event {
            let cell = rows.last_mut().map(|row| &mut row[lane])?;
            cell.push(' ');
            cell.push_str(text);
            continue;
        }
        let ends = matches!(event, Event::End);
        let (bar, text) = match event {
            Event::Begin(t) => (bars.begin, heading(view, t)),
            Event::Operation(op, text) => (bars.middle, text + &numbers(op.and_then(|op| marks.get(&op)))),
            Event::End => (bars.end, String::new()),
        };
        // A bar that ends where its last operation is needs no row of its own.
        if ends && last == Some(lane) {
            open[lane] = false;
            if let Some(cell) = rows.last_mut().map(|row| &mut row[lane])
                && let Some(rest) = cell.strip_prefix(bars.middle)
            {
                *cell = format!("{bar}{rest}");
            }
            continue;
        }
        last = Some(lane);
        open[lane] = !ends;
        let mut row: Vec<String> =
            open.iter().map(|&open| if open { bars.middle.to_owned() } else { String::new() }).collect();
        row[lane] = format!("{bar} {text}").trim_end().to_owned();
        rows.push(row);
    }
    let titles: Vec<String> = sessions.iter().map(|&s| format!("session {}", title(view, s))).collect();
    rows.insert(0, titles);
    let widths: Vec<usize> =
        (0..sessions.len()).map(|lane| rows.iter().map(|row| width(&row[lane])).max().unwrap_or(0)).collect();
    if 2 + widths.iter().sum::<usize>() + GAP * (widths.len() - 1) > style.columns() {
        return None;
    }
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, w)| padded(cell, *w)).collect();
        format!("  {}", cells.join(&" ".repeat(GAP))).trim_end().to_owned() + "\n"
    };
    Some(rows.iter().map(line).collect())
}

fn title(view: &WitnessView<'_>, session: SessionId) -> String {
    let of = view.txns.iter().find(|&&t| view.history.session_of(t) == session);
    of.map_or_else(String::new, |&t| view.session(t))
}

/// `T1  8841, line 40`: the session is the lane's title.
fn heading(view: &WitnessView<'_>, t: TxnId) -> String {
    let session = format!("session {}", view.session(t));
    let at: Vec<String> = view.named(t).into_iter().filter(|part| *part != session).collect();
    format!("{}  {}", view.name(t), at.join(", "))
}

/// `  (1, 3)`.
fn numbers(marks: Option<&Vec<usize>>) -> String {
    let numbers: Vec<String> = marks.into_iter().flatten().map(usize::to_string).collect();
    if numbers.is_empty() { String::new() } else { format!("  ({})", numbers.join(", ")) }
}

/// What happens, from top to bottom.
fn events(view: &WitnessView<'_>, txns: &[TxnId]) -> Vec<(TxnId, Event)> {
    let mut moments: Vec<((u64, usize), TxnId, bool)> = Vec::new();
    let intervals = view.history.intervals();
    for (place, t) in in_session_order(view, txns).into_iter().enumerate() {
        let span = intervals.map(|intervals| intervals[t.index()]);
        let began = span.map_or(0, |span| span.invoked);
        let ended = span.map_or(0, |span| span.completed.unwrap_or(u64::MAX));
        moments.push(((began, 2 * place), t, true));
        moments.push(((ended, 2 * place + 1), t, false));
    }
    // At one moment, ends come before begins only where the order of the view says so.
    moments.sort_by_key(|(at, ..)| *at);
    let mut events = Vec::new();
    for (_, t, begins) in moments {
        if begins {
            events.push((t, Event::Begin(t)));
            let lines = view.shown_lines(t).into_iter();
            events.extend(lines.map(|(op, text)| (t, Event::Operation(op, text))));
        } else {
            events.push((t, Event::End));
        }
    }
    events
}

/// The transactions in the order of the view, those of one session in the session's own order.
fn in_session_order(view: &WitnessView<'_>, txns: &[TxnId]) -> Vec<TxnId> {
    let mut lanes: BTreeMap<SessionId, Vec<TxnId>> = BTreeMap::new();
    for &t in txns {
        lanes.entry(view.history.session_of(t)).or_default().push(t);
    }
    for lane in lanes.values_mut() {
        // The first is popped from the end.
        lane.sort_unstable_by_key(|&t| std::cmp::Reverse(view.history.position(t)));
    }
    let next = |t: &TxnId| lanes.get_mut(&view.history.session_of(*t)).and_then(Vec::pop);
    txns.iter().filter_map(next).collect()
}
