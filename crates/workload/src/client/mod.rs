//! What clients of a real database do: seeded plans of transactions, one after another, for any number of
//! sessions.
//!
//! A [`ClientSpec`] names a [`Workload`] and its parameters; a [`Planner`] yields transactions of [`Op`]s,
//! independently of the client that runs them. Every value it asks to write is written once only, so a
//! history tells who read from whom. Keys rotate: after [`ClientSpec::writes_per_key`] writes a fresh one
//! takes the place of the old. Same specification, same plans, in the same order; which session gets which
//! depends on the database's speed. No I/O, no clock.
//!
//! ```
//! use anomalist_workload::client::{ClientSpec, Op, Planner, Workload};
//! let mut planner = Planner::new(&ClientSpec::of(Workload::ListAppend))?;
//! let mut ops = Vec::new();
//! planner.next(&mut ops);
//! assert!(ops.iter().all(|op| matches!(op, Op::ReadList(_) | Op::Append(..))));
//! # Ok::<(), anomalist_workload::SpecError>(())
//! ```

mod application;
mod plan;
mod spec;

pub use plan::Planner;
pub use spec::{ClientSpec, Recording, Workload};

/// A key: a number that names a row, an account, a list or a set.
pub type Key = u64;

/// One operation of a transaction, before it is performed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Reads a register; [`Answer::Value`].
    Read(Key),
    /// Writes a register.
    Write(Key, i64),
    /// Reads a list; [`Answer::List`].
    ReadList(Key),
    /// Appends to a list.
    Append(Key, i64),
    /// Reads a set; [`Answer::List`], in any order.
    ReadSet(Key),
    /// Adds to a set.
    Add(Key, i64),
    /// Reads the counter; [`Answer::Value`].
    ReadCounter,
    /// Adds to the counter.
    Increment(i64),
    /// Reads every account; [`Answer::Rows`].
    ReadBalances,
    /// Moves money, unless there is not enough: then the transaction aborts.
    Transfer {
        /// The account that pays.
        from: Key,
        /// The account that is paid.
        to: Key,
        /// How much.
        amount: i64,
    },
    /// Inserts a row that was never there before.
    Insert(Key, i64),
    /// Changes a row; [`Answer::Missed`] if it is not there.
    Update(Key, i64),
    /// Deletes a row; [`Answer::Missed`] if it is not there.
    Delete(Key),
    /// Reads a row by its key; [`Answer::Value`].
    ReadRow(Key),
    /// Reads the rows whose value leaves this rest; [`Answer::Rows`].
    ReadWhere {
        /// The divisor.
        modulus: i64,
        /// The rest.
        rest: i64,
    },
}

impl Op {
    /// True if it changes nothing.
    pub fn is_read(self) -> bool {
        matches!(
            self,
            Op::Read(_)
                | Op::ReadList(_)
                | Op::ReadSet(_)
                | Op::ReadCounter
                | Op::ReadBalances
                | Op::ReadRow(_)
                | Op::ReadWhere { .. }
        )
    }
}

/// What an operation returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was done, and shows nothing.
    Done,
    /// A change that found no row.
    Missed,
    /// A value, or none.
    Value(Option<i64>),
    /// The elements of a list or a set.
    List(Vec<i64>),
    /// Keys with their values.
    Rows(Vec<(Key, i64)>),
}
