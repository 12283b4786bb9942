//! What tests of checkers need: small histories in one line, answers that need no trust in an engine, and
//! endless input.
//!
//! [`mini`] writes a history as people do on a whiteboard. [`oracle`] decides levels and counts anomalies
//! by transcribing the definitions: it tries every commit order, and resolves reads from raw operations
//! without `anomalist_history::Index`, so that it shares no code, and no mistake, with what it judges.
//! [`random`] makes histories near the boundary between allowed and forbidden, and all histories of a tiny
//! size; [`mutate`] spoils proofs; [`skip`] decides what happens to a test that lacks something. Dev only:
//! nothing that ships depends on this crate.
//!
//! ```
//! use anomalist_testkit::{mini::history, oracle::{WeakLevel, satisfies, taps}};
//! // The first session writes x twice; the second sees the later one by y, then reads the old x.
//! let h = history("w(x,1); w(x,2) w(y,2) || r(y,2) r(x,1)");
//! assert!(!satisfies(&h, WeakLevel::ReadCommitted));
//! assert!(satisfies(&h, WeakLevel::CutIsolation));
//! assert_eq!(taps(&h).to_string(), "h");
//! ```

pub mod json_schema;
pub mod mini;
pub mod mutate;
pub mod oracle;
mod plan;
pub mod random;
pub mod skip;

/// A number from the environment: how the oracle tests get the number of cases and the seed.
///
/// ```
/// assert_eq!(anomalist_testkit::number("ANOMALIST_NOT_SET", 7), 7);
/// ```
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}
