//! What can happen to a watch, one thing at a time.

use crate::disk::{Due, Fault};

/// What happens next.
#[derive(Clone, Debug)]
pub enum Step {
    /// So many further lines of a source arrive, as one block.
    Deliver(usize, usize),
    /// Milliseconds pass.
    Wait(u64),
    /// A checkpoint is made.
    Checkpoint,
    /// A fault is due.
    Fault(Due),
    /// The process is killed between two operations, or the machine loses power; the seed decides what is
    /// lost.
    End(Fault, u64),
}
