//! Histories in parts, for machines that cannot hold a whole one.
//!
//! What is decided key by key needs of each transaction just its operations on a key; what is decided
//! session by session needs no operations at all. So a reader ([`Splitter`]) gives each line's transaction
//! number, writes for each part that it concerns a *record* of what concerns it ([`Block`]), and forgets it.
//! The records of a part make a history again ([`Whole::part`]), with ids of its own and the way back to the
//! numbers of the input ([`Part`]).
//!
//! The parser of lines, and what makes a history of what it parsed, are those of the readers of files. Some
//! of what they find out needs the whole file: whether it has lists, or what keys hold at first. Who splits
//! the file must collect that ([`Whole`]). A part then has the same keys, values, sessions and transactions
//! as the whole would, in the same order.

mod code;
mod lines;
mod part;
mod split;

pub use lines::LineBlocks;
pub use part::{MakeUp, Origin, Part, PartError, Record, Records, Whole, records};
pub use split::{Block, Item, Splitter, Transaction};
