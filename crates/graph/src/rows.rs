//! Tables of numbers that only grow, row by row: vector clocks.
//!
//! Up to 128 columns a row is an array, and joining two rows is a loop that the compiler makes vectors of.
//! With more columns rows are [`Sparse`]: their cost follows the entries that are not 0.

use crate::Sparse;

/// The widest rows that are arrays.
const WIDEST: usize = 128;

/// A table whose entries begin at 0.
///
/// ```
/// use anomalist_graph::Rows;
/// let mut rows = Rows::new(1_000_000, 2);
/// rows.raise(0, 5, 3);
/// rows.join(1, 0);
/// assert_eq!((rows.get(1, 5), rows.get(1, 6)), (3, 0));
/// ```
#[derive(Debug)]
pub struct Rows {
    width: usize,
    cells: Cells,
}

#[derive(Debug)]
enum Cells {
    Arrays(Vec<u32>),
    Sparse(Vec<Sparse>),
}

impl Rows {
    /// A table of so many columns and rows.
    pub fn new(width: usize, rows: usize) -> Rows {
        let cells = if Rows::is_dense(width) {
            Cells::Arrays(vec![0; width * rows])
        } else {
            Cells::Sparse(vec![Sparse::default(); rows])
        };
        Rows { width, cells }
    }

    /// True if rows of this width are arrays: it costs nothing then to give a column to everything.
    pub fn is_dense(width: usize) -> bool {
        width <= WIDEST
    }

    /// Bytes of a table before its first entry.
    pub fn bytes(width: usize, rows: usize) -> u64 {
        let row = if Rows::is_dense(width) { 4 * width } else { size_of::<Sparse>() };
        row as u64 * rows as u64
    }

    /// Adds a row; returns its number.
    pub fn push(&mut self) -> u32 {
        match &mut self.cells {
            Cells::Arrays(cells) => {
                let row = cells.len() / self.width.max(1);
                cells.resize(cells.len() + self.width, 0);
                row as u32
            }
            Cells::Sparse(rows) => {
                rows.push(Sparse::default());
                rows.len() as u32 - 1
            }
        }
    }

    /// An entry.
    #[inline]
    pub fn get(&self, row: u32, column: usize) -> u32 {
        match &self.cells {
            Cells::Arrays(cells) => cells[row as usize * self.width + column],
            Cells::Sparse(rows) => rows[row as usize].get(column as u32),
        }
    }

    /// Makes an entry at least `number`. True if it was less.
    #[inline]
    pub fn raise(&mut self, row: u32, column: usize, number: u32) -> bool {
        match &mut self.cells {
            Cells::Arrays(cells) => {
                let entry = &mut cells[row as usize * self.width + column];
                let less = *entry < number;
                *entry = (*entry).max(number);
                less
            }
            Cells::Sparse(rows) => rows[row as usize].raise(column as u32, number),
        }
    }

    /// Makes every entry of a row at least that of another.
    pub fn join(&mut self, into: u32, from: u32) {
        if into == from {
            return;
        }
        match &mut self.cells {
            Cells::Arrays(cells) => {
                let (into, from) = two_rows(cells, self.width, into, from);
                into.iter_mut().zip(from).for_each(|(x, &y)| *x = (*x).max(y));
            }
            Cells::Sparse(rows) => {
                if let Ok([into, from]) = rows.get_disjoint_mut([into as usize, from as usize]) {
                    into.join(from);
                }
            }
        }
    }

    /// Makes a row equal to another.
    pub fn copy(&mut self, into: u32, from: u32) {
        match &mut self.cells {
            Cells::Arrays(cells) => {
                let from = from as usize * self.width;
                cells.copy_within(from..from + self.width, into as usize * self.width);
            }
            Cells::Sparse(rows) => rows[into as usize] = rows[from as usize].clone(),
        }
    }

    /// Makes every entry of a row 0.
    pub fn clear(&mut self, row: u32) {
        match &mut self.cells {
            Cells::Arrays(cells) => cells[row as usize * self.width..][..self.width].fill(0),
            Cells::Sparse(rows) => rows[row as usize] = Sparse::default(),
        }
    }

    /// Frees what a row holds, if that costs nothing: its entries are of no use any more.
    pub fn release(&mut self, row: u32) {
        if let Cells::Sparse(rows) = &mut self.cells {
            rows[row as usize] = Sparse::default();
        }
    }

    /// Calls `f` with the columns of a row whose entries are not 0, and the entries.
    pub fn for_each(&self, row: u32, mut f: impl FnMut(usize, u32)) {
        match &self.cells {
            Cells::Arrays(cells) => {
                let entries = cells[row as usize * self.width..][..self.width].iter().enumerate();
                entries.filter(|(_, n)| **n > 0).for_each(|(column, &n)| f(column, n));
            }
            Cells::Sparse(rows) => rows[row as usize].for_each(|column, n| f(column as usize, n)),
        }
    }
}

fn two_rows(cells: &mut [u32], width: usize, into: u32, from: u32) -> (&mut [u32], &[u32]) {
    let (a, b) = (into as usize * width, from as usize * width);
    if a < b {
        let (low, high) = cells.split_at_mut(b);
        (&mut low[a..a + width], &high[..width])
    } else {
        let (low, high) = cells.split_at_mut(a);
        (&mut high[..width], &low[b..b + width])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The same steps give the same table, whichever way rows are kept.
    #[test]
    fn sparse_rows_are_what_arrays_are() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let width = rng.usize(1..=WIDEST);
            let mut arrays = Rows::new(width, 3);
            let mut sparse = Rows { width, cells: Cells::Sparse(vec![Sparse::default(); 3]) };
            let mut count = 3;
            for _ in 0..300 {
                let (a, b) = (rng.u32(..count), rng.u32(..count));
                let (column, number) = (rng.usize(..width), rng.u32(..9));
                let step = rng.u32(..12);
                let changed = [&mut arrays, &mut sparse].map(|rows| match step {
                    0 if count < 9 => rows.push() + 1 == count,
                    1 => {
                        rows.clear(a);
                        true
                    }
                    2 => {
                        rows.copy(a, b);
                        true
                    }
                    3..6 => {
                        rows.join(a, b);
                        true
                    }
                    _ => rows.raise(a, column, number),
                });
                count += u32::from(step == 0 && count < 9);
                assert_eq!(changed[0], changed[1], "seed {seed}");
                let entries = [&arrays, &sparse].map(|rows| {
                    let mut all = Vec::new();
                    rows.for_each(a, |column, number| all.push((column, number)));
                    all.sort_unstable();
                    all.iter().for_each(|&(column, number)| assert_eq!(rows.get(a, column), number));
                    all
                });
                assert_eq!(entries[0], entries[1], "seed {seed}");
            }
        }
    }
}
