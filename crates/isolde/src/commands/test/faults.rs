//! Faults by name.

use super::subject::Arena;
use crate::exit::Failure;
use isolde_driver::client::FaultSource;

/// Whoever makes the faults that were asked for.
pub fn source<'a>(
    names: &[String],
    _arena: &'a Arena,
    _seed: u64,
) -> Result<Option<Box<dyn FaultSource + 'a>>, Failure> {
    if names.is_empty() {
        return Ok(None);
    }
    Err(Failure::input("no faults yet"))
}
