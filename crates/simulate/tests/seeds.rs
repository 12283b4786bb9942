//! Ten thousand seeds, in four parts, so that none takes long on a busy machine. `ANOMALIST_SEEDS` sets the
//! number of each part; `scripts/simulate` goes further.

use anomalist_simulate::{Seen, simulate};
use anomalist_testkit::number;

fn part(first: u64) {
    let seeds = number("ANOMALIST_SEEDS", 2_500);
    let mut seen = Seen::default();
    for seed in 0..seeds {
        if let Err(message) = simulate(4 * seed + first, &mut seen) {
            panic!("{message}");
        }
    }
    // A simulation that never comes near what it is about would pass for nothing.
    for what in [
        "after a refused write",
        "between operations",
        "in a start",
        "in an operation",
        "power losses",
        "spilled",
        "violated",
        "holds",
        "killed clients",
        "cancelled statements",
        "files that failed",
        "files that are whole",
        "files that are not whole",
    ] {
        let times = seen.0.get(what).copied().unwrap_or(0);
        assert!(times > seeds / 20, "{what}: {times} times in {seeds} seeds");
    }
}

#[test]
fn first_part() {
    part(0);
}

#[test]
fn second_part() {
    part(1);
}

#[test]
fn third_part() {
    part(2);
}

#[test]
fn fourth_part() {
    part(3);
}
