//! Dev only: an oracle from the literature alone.
//!
//! It knows no anomaly, but for the patterns that a paper defines levels by ([`plume`]). A history is what
//! clients observed ([`History`]); a level is *there is* a choice of outcomes, a source for each read and
//! an order (or orders), such that the definition holds. All of them are tried, so histories are tiny. Each
//! module transcribes definitions and names their source and number:
//!
//! | module | levels | source |
//! |---|---|---|
//! | [`axioms`] | read committed to prefix, session serializable, session guarantees | Biswas & Enea 2019 |
//! | [`serial`] | serializable, strict serializable | Papadimitriou 1979 |
//! | [`serial`] | linearizable | Herlihy & Wing 1990 |
//! | [`snapshot`] | snapshot isolation, session, strong, parallel | Crooks et al. 2017; Cerone et al. 2015 |
//! | [`adya`] | PL-1, PL-2, PL-2.99, PL-3U | Adya 1999 |
//! | [`cut`] | cut isolation | Plume 2024 |
//! | [`plume`] | read committed, read atomic, causal, cut isolation, TAP-a to TAP-n | Plume 2024 |
//! | [`stamps`] | snapshot isolation and serializability by timestamps | Chronos/AION 2025 |
//!
//! It shares nothing with the engines, the verifier, the index or the oracle of `crates/testkit`, nor the
//! words in which they were specified. [`generate`] makes histories with what those never had: writes of
//! the initial value, deletes, repeated values and elements, several indeterminate writers of one value,
//! ties. `tests/compare.rs` compares.

pub mod adya;
pub mod axioms;
pub mod cut;
pub mod facts;
pub mod generate;
pub mod into;
pub mod model;
pub mod order;
pub mod plume;
pub mod serial;
pub mod shrink;
pub mod snapshot;
pub mod stamps;

pub use model::History;
pub use order::Sessions;

use anomalist_level::{By, Level};
use axioms::Axiom;
use facts::Parts;
use order::{FREE, real_time, session_order, union};

/// What a definition says of a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is satisfied.
    Holds,
    /// It is not.
    Violated,
    /// It says nothing about such a history, or the history lacks what it is about.
    Undefined,
}

impl From<bool> for Answer {
    fn from(holds: bool) -> Answer {
        if holds { Answer::Holds } else { Answer::Violated }
    }
}

/// Whether a history satisfies a level.
pub fn answer(history: &History, level: Level, by: By, sessions: Sessions) -> Answer {
    let parts = Parts::of(history);
    match by {
        By::Timestamps => by_timestamps(&parts, level),
        By::Values => by_values(&parts, level, sessions),
    }
}

fn by_values(parts: &Parts<'_>, level: Level, sessions: Sessions) -> Answer {
    let so = session_order(parts.history, sessions);
    let axiom = |axiom: Axiom| Answer::from(axioms::satisfies(parts, &so, axiom, &|_| true));
    let timed = |decide: &dyn Fn(&order::Before) -> bool| {
        let known = parts.history.has_intervals;
        if known { Answer::from(decide(&union(&so, &real_time(parts.history)))) } else { Answer::Undefined }
    };
    match level {
        Level::ReadUncommitted => adya::pl_1(parts),
        Level::AdyaReadCommitted => adya::pl_2(parts),
        Level::CutIsolation => cut::cut_isolation(parts),
        Level::ReadCommitted => axiom(Axiom::ReadCommitted),
        Level::ReadYourWrites => axiom(Axiom::ReadYourWrites),
        Level::MonotonicReads => axiom(Axiom::MonotonicReads),
        Level::MonotonicWrites => axiom(Axiom::MonotonicWrites),
        Level::WritesFollowReads => axiom(Axiom::WritesFollowReads),
        Level::ReadAtomic => axiom(Axiom::ReadAtomic),
        Level::Causal => axiom(Axiom::Causal),
        Level::Prefix => axiom(Axiom::Prefix),
        Level::ParallelSnapshotIsolation => snapshot::parallel(parts, &so).into(),
        Level::SnapshotIsolation => snapshot::crooks(parts).into(),
        Level::StrongSessionSnapshotIsolation => snapshot::cerone(parts, &so).into(),
        Level::StrongSnapshotIsolation => timed(&|before| snapshot::cerone(parts, before)),
        Level::RepeatableRead => adya::pl_2_99(parts),
        Level::UpdateSerializable => adya::pl_3u(parts),
        Level::Serializable => serial::serializable(parts, &FREE).into(),
        Level::StrongSessionSerializable => axiom(Axiom::Serializable),
        Level::StrictSerializable => timed(&|before| serial::serializable(parts, before)),
        Level::Linearizable => serial::linearizable(parts),
        _ => Answer::Undefined,
    }
}

fn by_timestamps(parts: &Parts<'_>, level: Level) -> Answer {
    if !parts.history.has_stamps {
        return Answer::Undefined;
    }
    let satisfies = |axioms, sessions| Answer::from(stamps::satisfies(parts, axioms, sessions));
    match level {
        Level::SnapshotIsolation => satisfies(stamps::Axioms::Snapshot, false),
        Level::StrongSessionSnapshotIsolation => satisfies(stamps::Axioms::Snapshot, true),
        Level::Serializable => satisfies(stamps::Axioms::Serial, false),
        Level::StrongSessionSerializable => satisfies(stamps::Axioms::Serial, true),
        _ => Answer::Undefined,
    }
}
