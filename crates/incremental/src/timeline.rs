//! Real time: who ended before another began.
//!
//! Written out that is quadratic. Instead the ends form a chain, one node each: a transaction leads to
//! the node of its end, each node to the next, and the last node before a beginning to that transaction.
//! An end that is recorded late is put into the chain where it belongs, and takes over those that began
//! after it.

use crate::violation::{Because, Label};
use anomalist_graph::{Cycle, Growing};

/// A transaction's first node, and when it began.
type Begun = (u64, u32);

#[derive(Debug, Default)]
pub(crate) struct Timeline {
    ends: Vec<End>,
    /// Those that began before any end.
    first: Vec<Begun>,
}

#[derive(Debug)]
struct End {
    at: u64,
    node: u32,
    /// Those that began after it, and after no later end.
    begun: Vec<Begun>,
}

const REAL_TIME: Label = Label::Known(Because::RealTime);

impl Timeline {
    /// A transaction began.
    pub fn begin(&mut self, graph: &mut Growing<Label>, at: u64, node: u32) -> Result<(), Cycle<Label>> {
        let before = self.ends.partition_point(|end| end.at < at);
        let Some(end) = before.checked_sub(1).map(|last| &mut self.ends[last]) else {
            self.first.push((at, node));
            return Ok(());
        };
        end.begun.push((at, node));
        graph.add(end.node, node, REAL_TIME)
    }

    /// A transaction ended; the node of its end is returned.
    pub fn end(&mut self, graph: &mut Growing<Label>, at: u64, node: u32) -> Result<u32, Cycle<Label>> {
        let place = self.ends.partition_point(|end| end.at <= at);
        let new = graph.add_node();
        let earlier = match place.checked_sub(1) {
            Some(last) => &mut self.ends[last].begun,
            None => &mut self.first,
        };
        let later = |begun: &Begun| begun.0 > at;
        let begun: Vec<Begun> = earlier.iter().copied().filter(later).collect();
        if !begun.is_empty() {
            earlier.retain(|begun| !later(begun));
        }
        let mut edges = vec![(node, new)];
        edges.extend(place.checked_sub(1).map(|last| (self.ends[last].node, new)));
        edges.extend(self.ends.get(place).map(|next| (new, next.node)));
        edges.extend(begun.iter().map(|&(_, begun)| (new, begun)));
        self.ends.insert(place, End { at, node: new, begun });
        for (from, to) in edges {
            graph.add(from, to, REAL_TIME)?;
        }
        Ok(new)
    }
}
