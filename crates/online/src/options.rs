//! How to check.

use anomalist_timestamp::{Mode, Rule, Tie};

/// When what is old leaves memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gc {
    /// Never.
    None,
    /// When more than so many transactions are in memory.
    Threshold(usize),
    /// When more than so many bytes are in use.
    Memory(usize),
}

impl Gc {
    pub(crate) fn bytes(self) -> Option<usize> {
        match self {
            Gc::Memory(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// How to check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Which axioms, and what equal timestamps mean.
    pub rule: Rule,
    /// How long after a transaction's arrival its EXT verdicts may change unreported, in milliseconds.
    pub settle_ms: u64,
    /// Virtual time: no clock settles anything. `now` is a [moment](crate::moment) of the timestamps, before
    /// which nothing more commits, and a verdict settles once that has passed what the read may see.
    pub virtual_time: bool,
    /// Also report reads that are right by one of several versions with the same commit: TIE.
    pub ties: bool,
    /// When what is old leaves memory.
    pub gc: Gc,
    /// Also report verdicts that change before they settle.
    pub provisional: bool,
    /// Checkpoints will be asked for.
    pub checkpoints: bool,
}

impl Default for Options {
    /// Snapshot isolation, five seconds, everything in memory.
    fn default() -> Options {
        Options {
            rule: Rule { mode: Mode::Si, tie: Tie::Inclusive },
            settle_ms: 5_000,
            virtual_time: false,
            ties: true,
            gc: Gc::None,
            provisional: false,
            checkpoints: false,
        }
    }
}
