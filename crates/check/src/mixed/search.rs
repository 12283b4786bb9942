//! Is there an order with all the edges and one edge of each choice?
//!
//! An order of the edges so far is made, nearest to the input's. If it misses a choice, one side becomes an
//! edge and the rest is tried again; when that contradicts itself, the other side. No recursion: decisions
//! lie on a stack.

use super::constraints::{Constraints, Edge, Point};
use crate::Budget;
use crate::view::CommittedView;
use anomalist_history::TxnId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(super) enum Found {
    Order,
    /// There is none.
    Cycle,
    OutOfBudget,
}

/// A choice made.
struct Decision {
    choice: usize,
    /// Both sides have been tried.
    last: bool,
}

pub(super) fn order(constraints: &Constraints, view: CommittedView<'_>, budget: &Budget<'_>) -> Found {
    let mut edges = constraints.edges.clone();
    edges.sort_unstable();
    edges.dedup();
    let known = edges.len();
    let mut decisions: Vec<Decision> = Vec::new();
    loop {
        if budget.is_spent() {
            return Found::OutOfBudget;
        }
        let Some(place) = places(constraints.points, &edges, view) else {
            // The latest decision that has another side.
            while decisions.last().is_some_and(|d| d.last) {
                decisions.pop();
                edges.pop();
            }
            let Some(decision) = decisions.last_mut() else { return Found::Cycle };
            decision.last = true;
            edges.pop();
            edges.push(constraints.choices[decision.choice].1);
            continue;
        };
        debug_assert_eq!(edges.len(), known + decisions.len());
        let holds = |(a, b): Edge| place[a as usize] < place[b as usize];
        let missed = constraints
            .choices
            .iter()
            .position(|&(first, second)| !first.is_some_and(holds) && !holds(second));
        let Some(choice) = missed else { return Found::Order };
        match constraints.choices[choice].0 {
            Some(first) => {
                decisions.push(Decision { choice, last: false });
                edges.push(first);
            }
            None => {
                decisions.push(Decision { choice, last: true });
                edges.push(constraints.choices[choice].1);
            }
        }
    }
}

/// The place of every point in an order with these edges; `None` if they form a cycle. Among those that may
/// come next, the one that comes first in the input.
fn places(points: usize, edges: &[Edge], view: CommittedView<'_>) -> Option<Vec<u32>> {
    let (start, to) = successors(points, edges);
    let mut waiting = vec![0u32; points];
    edges.iter().for_each(|&(_, b)| waiting[b as usize] += 1);
    let n = view.txn_count();
    let rank = |p: usize| (view.history.position(TxnId((p % n) as u32)), p < n);
    let mut ready: BinaryHeap<Reverse<((u32, bool), usize)>> =
        (0..points).filter(|&p| waiting[p] == 0).map(|p| Reverse((rank(p), p))).collect();
    let mut place = vec![0; points];
    let mut next = 0;
    while let Some(Reverse((_, p))) = ready.pop() {
        place[p] = next;
        next += 1;
        for &q in &to[start[p] as usize..start[p + 1] as usize] {
            waiting[q as usize] -= 1;
            if waiting[q as usize] == 0 {
                ready.push(Reverse((rank(q as usize), q as usize)));
            }
        }
    }
    (next as usize == points).then_some(place)
}

fn successors(points: usize, edges: &[Edge]) -> (Vec<u32>, Vec<Point>) {
    let mut start = vec![0u32; points + 1];
    edges.iter().for_each(|&(a, _)| start[a as usize + 1] += 1);
    for p in 0..points {
        start[p + 1] += start[p];
    }
    let mut next = start.clone();
    let mut to = vec![0; edges.len()];
    for &(a, b) in edges {
        to[next[a as usize] as usize] = b;
        next[a as usize] += 1;
    }
    (start, to)
}
