//! Adya's levels and phenomena, inferred from what clients saw (Adya 1999; Elle, Kingsbury & Alvaro 2020).
//!
//! Lists show the order of their versions, registers little of it (`lists.rs`, `registers.rs`; what the
//! caller assumes of them: `assume.rs`). From that follow dependencies between transactions that hold in
//! every interpretation of the history (`depend.rs`), to which sessions and real time add orders
//! (`orders.rs`). A level is a set of relations that must not form a cycle (`shapes.rs`).
//!
//! *Violated*: the graph of what is certain has a cycle; `cycles.rs` gives it a name. *Holds*
//! (`decide.rs`): it has none, and whatever is not certain can be chosen without making one; a topological
//! order is the proof. For lists that is so at nearly every level, because appends that no transaction saw
//! are in no relation but to what they follow. For registers it is so up to PL-2: from there on the order
//! of versions is a search, and not this engine's.
//!
//! Cost: O(operations) to build, O(edges) per level; on histories with cycles, the searches of `cycles.rs`,
//! which count their steps. Predicates and sets are other modules' business.
//!
//! What is assumed (writes follow reads, sequential or linearizable keys, a given order of transactions,
//! version numbers, commit timestamps) becomes pairs of versions in [`crate::view::CommittedView`], which
//! every engine respects; so a level that holds does so in an order that agrees with the assumptions. An
//! edge is two ids and a bit set of labels; its operations are looked up again when a witness needs them.
//! Session order and real time join as chains, three edges per transaction.
//!
//! The strongest graph that was asked about is sorted first: without a cycle, for lists, the order proves
//! every level at once. With one, cycles are named first by the data alone, then with sessions, then with
//! real time, each variant only for cycles that need it.
//!
//! A key with a faulty read is *damaged*: elements that no committed transaction appended are skipped, only
//! what all reads agree on orders anything, and an example that rests on such a key says so. `extra.rs`
//! lets users of the library add edges.

mod assume;
mod cursor;
mod cycles;
mod decide;
mod depend;
mod direct;
mod examples;
pub(crate) mod extra;
mod listing;
mod lists;
mod orders;
mod registers;
mod shapes;
mod unfolded;
mod witness;

pub use assume::Inference;
pub(crate) use decide::{Engine, Question};
pub use extra::{Analyser, ExtraEdge, MonotonicKeys};
pub use listing::{Dependency, dependencies};
pub(crate) use registers::Registers;
