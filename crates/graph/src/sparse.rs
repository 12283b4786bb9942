//! A row of numbers, most of them zero, that shares memory with the rows it was made from.
//!
//! Vector clocks have an entry per session, and nearly every transaction has seen what another has seen,
//! and a little more. So a row is a trie over the column's number, four bits at a time from the lowest,
//! whose nodes are shared (`Arc`) and copied only when they change. Up to 16 entries are a sorted list.
//! Copying a row costs O(1), reading an entry O(log columns). Joining two rows costs O(nodes that differ):
//! what both have is the same node and is not looked at. Where one of the two rows includes the other the
//! result is that row itself, so that rows which become equal share everything again.
//!
//! The depth is at most eight, so that recursion is bounded.

use std::sync::Arc;

/// Entries of a list before it becomes an inner node.
const FEW: usize = 16;
/// Bits of the column that an inner node consumes.
const BITS: u32 = 4;
const FAN: usize = 1 << BITS;

/// A row of numbers by column. Numbers only grow; a column that was never raised has 0.
///
/// ```
/// use anomalist_graph::Sparse;
/// let mut row = Sparse::default();
/// row.raise(1_000_000, 3);
/// let mut other = row.clone();
/// other.raise(7, 1);
/// assert!(row.join(&other));
/// assert_eq!((row.get(7), row.get(1_000_000), row.get(8)), (1, 3, 0));
/// assert!(!row.join(&other));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sparse(Option<Arc<Node>>);

#[derive(Clone, Debug)]
enum Node {
    /// Column and number, by column; not empty.
    Few(Vec<(u32, u32)>),
    /// By the next bits of the column.
    Many(Box<[Option<Arc<Node>>; FAN]>),
}

/// Which of two nodes is their join, if one of them is.
enum Joined {
    /// They are equal.
    Both,
    First,
    Second,
    New(Arc<Node>),
}

impl Sparse {
    /// The number of a column.
    pub fn get(&self, column: u32) -> u32 {
        let (mut node, mut rest) = (self.0.as_deref(), column);
        loop {
            match node {
                None => return 0,
                Some(Node::Few(entries)) => {
                    let found = entries.binary_search_by_key(&column, |e| e.0);
                    return found.map_or(0, |at| entries[at].1);
                }
                Some(Node::Many(parts)) => node = parts[rest as usize % FAN].as_deref(),
            }
            rest >>= BITS;
        }
    }

    /// Makes the number of a column at least `number`. True if it was less.
    pub fn raise(&mut self, column: u32, number: u32) -> bool {
        if self.get(column) >= number {
            return false;
        }
        raise(&mut self.0, (column, number), 0);
        true
    }

    /// Makes every number at least that of the other row. True if one was less.
    pub fn join(&mut self, other: &Sparse) -> bool {
        match join(&self.0, &other.0, 0) {
            Joined::Both | Joined::First => false,
            Joined::Second => {
                self.0.clone_from(&other.0);
                true
            }
            Joined::New(node) => {
                self.0 = Some(node);
                true
            }
        }
    }

    /// Calls `f` with every column whose number is not 0, and the number; in no particular order.
    pub fn for_each(&self, mut f: impl FnMut(u32, u32)) {
        let mut stack: Vec<&Node> = self.0.as_deref().into_iter().collect();
        while let Some(node) = stack.pop() {
            match node {
                Node::Few(entries) => entries.iter().for_each(|&(column, number)| f(column, number)),
                Node::Many(parts) => stack.extend(parts.iter().filter_map(Option::as_deref)),
            }
        }
    }
}

fn raise(node: &mut Option<Arc<Node>>, entry: (u32, u32), shift: u32) {
    let Some(node) = node else {
        *node = Some(Arc::new(Node::Few(vec![entry])));
        return;
    };
    let node = Arc::make_mut(node);
    match node {
        Node::Many(parts) => raise(&mut parts[part(entry.0, shift)], entry, shift + BITS),
        Node::Few(entries) => match entries.binary_search_by_key(&entry.0, |e| e.0) {
            Ok(at) => entries[at].1 = entries[at].1.max(entry.1),
            Err(at) => {
                entries.insert(at, entry);
                if entries.len() > FEW {
                    *node = split(entries, shift);
                }
            }
        },
    }
}

fn part(column: u32, shift: u32) -> usize {
    (column >> shift) as usize % FAN
}

/// An inner node of these entries. Columns differ, so that at the last bits a part has one entry.
fn split(entries: &[(u32, u32)], shift: u32) -> Node {
    let mut parts: [Vec<(u32, u32)>; FAN] = Default::default();
    for &entry in entries {
        parts[part(entry.0, shift)].push(entry);
    }
    Node::Many(Box::new(parts.map(|entries| {
        (!entries.is_empty()).then(|| {
            Arc::new(if entries.len() > FEW { split(&entries, shift + BITS) } else { Node::Few(entries) })
        })
    })))
}

fn join(a: &Option<Arc<Node>>, b: &Option<Arc<Node>>, shift: u32) -> Joined {
    let (a, b) = match (a, b) {
        (None, None) => return Joined::Both,
        (Some(_), None) => return Joined::First,
        (None, Some(_)) => return Joined::Second,
        (Some(a), Some(b)) if Arc::ptr_eq(a, b) => return Joined::Both,
        (Some(a), Some(b)) => (a, b),
    };
    match (&**a, &**b) {
        (Node::Few(x), Node::Few(y)) => join_lists(x, y, shift),
        (Node::Many(x), Node::Many(y)) => join_parts(x, y, shift),
        (Node::Many(_), Node::Few(few)) => with_entries(a, few, shift).map_or(Joined::First, Joined::New),
        (Node::Few(few), Node::Many(_)) => with_entries(b, few, shift).map_or(Joined::Second, Joined::New),
    }
}

/// A node with more entries; `None`: it has them already.
fn with_entries(node: &Arc<Node>, entries: &[(u32, u32)], shift: u32) -> Option<Arc<Node>> {
    let parts = match &**node {
        Node::Many(parts) => parts,
        Node::Few(_) => return None,
    };
    let number = |column: u32| {
        let (mut node, mut shift) = (parts[part(column, shift)].as_deref(), shift + BITS);
        loop {
            match node {
                None => return 0,
                Some(Node::Few(entries)) => {
                    return entries.iter().find(|e| e.0 == column).map_or(0, |e| e.1);
                }
                Some(Node::Many(parts)) => node = parts[part(column, shift)].as_deref(),
            }
            shift += BITS;
        }
    };
    let mut raised = None;
    for &entry in entries.iter().filter(|e| number(e.0) < e.1) {
        raise(raised.get_or_insert_with(|| Some(node.clone())), entry, shift);
    }
    raised.flatten()
}

fn join_lists(x: &[(u32, u32)], y: &[(u32, u32)], shift: u32) -> Joined {
    let (mut first, mut second) = (true, true);
    let mut merged = Vec::with_capacity(x.len() + y.len());
    let (mut i, mut j) = (0, 0);
    while i < x.len() || j < y.len() {
        let columns = (x.get(i).map_or(u64::MAX, |e| e.0.into()), y.get(j).map_or(u64::MAX, |e| e.0.into()));
        if columns.0 < columns.1 {
            merged.push(x[i]);
            second = false;
            i += 1;
        } else if columns.0 > columns.1 {
            merged.push(y[j]);
            first = false;
            j += 1;
        } else {
            first &= x[i].1 >= y[j].1;
            second &= y[j].1 >= x[i].1;
            merged.push((x[i].0, x[i].1.max(y[j].1)));
            (i, j) = (i + 1, j + 1);
        }
    }
    match (first, second) {
        (true, true) => Joined::Both,
        (true, false) => Joined::First,
        (false, true) => Joined::Second,
        _ if merged.len() > FEW => Joined::New(Arc::new(split(&merged, shift))),
        _ => Joined::New(Arc::new(Node::Few(merged))),
    }
}

type Parts = [Option<Arc<Node>>; FAN];

fn join_parts(x: &Parts, y: &Parts, shift: u32) -> Joined {
    let joined: [Joined; FAN] = std::array::from_fn(|i| join(&x[i], &y[i], shift + BITS));
    if joined.iter().all(|j| matches!(j, Joined::Both)) {
        return Joined::Both;
    }
    if joined.iter().all(|j| matches!(j, Joined::Both | Joined::First)) {
        return Joined::First;
    }
    if joined.iter().all(|j| matches!(j, Joined::Both | Joined::Second)) {
        return Joined::Second;
    }
    let mut parts: Parts = Default::default();
    for (i, joined) in joined.into_iter().enumerate() {
        parts[i] = match joined {
            Joined::Both | Joined::First => x[i].clone(),
            Joined::Second => y[i].clone(),
            Joined::New(node) => Some(node),
        };
    }
    Joined::New(Arc::new(Node::Many(Box::new(parts))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeMap;

    fn columns(row: &Sparse) -> BTreeMap<u32, u32> {
        let mut all = BTreeMap::new();
        row.for_each(|column, number| assert_eq!(all.insert(column, number), None));
        all
    }

    /// Rows raised and joined at random are what maps are.
    #[test]
    fn rows_are_maps() {
        for seed in 0..300 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let width = *rng.choice(&[3u32, 40, 1000, u32::MAX][..]).unwrap();
            let mut rows: Vec<(Sparse, BTreeMap<u32, u32>)> = vec![Default::default(); 6];
            for _ in 0..400 {
                let (a, b) = (rng.usize(..6), rng.usize(..6));
                match rng.u32(..10) {
                    0 => rows[a] = rows[b].clone(),
                    1..4 => {
                        let (other, map) = rows[b].clone();
                        let (row, mine) = &mut rows[a];
                        let before = mine.clone();
                        for (column, number) in map {
                            let entry = mine.entry(column).or_default();
                            *entry = (*entry).max(number);
                        }
                        assert_eq!(row.join(&other), before != *mine, "seed {seed}");
                    }
                    _ => {
                        let (column, number) = (rng.u32(..width), rng.u32(1..5));
                        let (row, mine) = &mut rows[a];
                        let entry = mine.entry(column).or_default();
                        assert_eq!(row.raise(column, number), *entry < number, "seed {seed}");
                        *entry = (*entry).max(number);
                        assert_eq!(row.get(column), *entry, "seed {seed}");
                    }
                }
                assert_eq!(columns(&rows[a].0), rows[a].1, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_row_that_includes_another_is_the_join() {
        let mut hub = Sparse::default();
        (0..10_000).for_each(|i| assert!(hub.raise(i, i + 1)));
        let mut reader = Sparse::default();
        reader.raise(17, 2);
        assert!(reader.join(&hub));
        assert!(Arc::ptr_eq(reader.0.as_ref().unwrap(), hub.0.as_ref().unwrap()));
    }
}
