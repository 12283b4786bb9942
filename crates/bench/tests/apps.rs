//! The applications break under causal consistency and not under serializability.

#![allow(clippy::unwrap_used)]

use anomalist_bench::apps::{
    self,
    measure::{break_assertion, coverage},
};
use anomalist_level::Level;

#[test]
fn break_under_causal_as_often_as_in_the_paper_and_never_under_serializable() {
    for app in apps::all() {
        for (i, (name, paper)) in app.assertions().iter().enumerate() {
            let causal = break_assertion(app, i, Level::Causal, 500, 0).unwrap();
            let every = causal.runs_per_failure().unwrap();
            assert!(
                every <= 1.15 * paper,
                "{} ({name}): every {every:.1} runs; the paper's {paper}",
                app.name()
            );
            let serial = break_assertion(app, i, Level::Serializable, 100, 0).unwrap();
            assert_eq!(serial.failures, 0, "{}: {name}", app.name());
        }
    }
}

#[test]
fn sampling_comes_close_to_all_states_and_never_beyond() {
    for app in apps::all() {
        for level in [Level::Causal, Level::Serializable] {
            let harness = app.harness(2, 2, &mut fastrand::Rng::with_seed(7));
            let found = coverage(app, &harness, level, &[10, 300], 20_000, 1).unwrap();
            assert!(found.tried.complete, "{} {harness:?}: {:?}", app.name(), found.tried);
            let (_, seen) = found.shuffled[1];
            assert!(seen <= found.all && found.free[1].1 <= found.all, "{} {found:?}", app.name());
            assert!(5 * seen >= 4 * found.all, "{} at {}: {found:?}", app.name(), level.name());
        }
    }
}
