//! What a read costs as the history grows, level by level.

#![allow(clippy::print_stdout, reason = "an example")]

use isolde_explore::{LEVELS, Stop, measure::growth};

fn main() -> Result<(), Stop> {
    for level in LEVELS {
        for cost in growth(level, &[1_000, 3_000, 10_000, 30_000, 100_000], 1)? {
            println!(
                "{:<20} {:>7} transactions {:>8.0} ns per read {:>8.0} transactions/s",
                level.name(),
                cost.transactions,
                cost.read_ns,
                cost.per_second
            );
        }
    }
    Ok(())
}
