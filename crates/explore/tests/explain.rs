//! Failures are repeated, shrunk and explained.

#![allow(clippy::unwrap_used)]

use anomalist_explore::{Body, Plan, Program, Stop, Subject, Turns, concurrently, enumerate, explore};
use anomalist_level::{AnomalyKind, Level};
use anomalist_weakdb::{Options, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Two doctors go off duty if the other is on; noise around it.
fn doctors(store: &Arc<Store>, turns: &Turns) -> Result<(), String> {
    let leave = |me: &'static str, other: &'static str| -> Body<'_, bool> {
        Box::new(move |client| {
            for i in 0..5 {
                client.transaction(|t| t.read("noise").and_then(|_| t.write("noise", i)))?;
            }
            client.transaction(|t| {
                let on_duty = t.read(other)?.is_none();
                if on_duty {
                    t.write(me, "off")?;
                }
                Ok(on_duty)
            })
        })
    };
    let bodies = vec![leave("alice", "bob"), leave("bob", "alice")];
    let left = concurrently(store, turns, bodies).map_err(|e| e.to_string())?;
    assert!(left != [true, true], "no doctor is on duty");
    Ok(())
}

fn quietly<T>(f: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = f();
    std::panic::set_hook(hook);
    result
}

#[test]
fn write_skew_is_one_stale_read_and_gone_at_serializable() {
    let outcome = quietly(|| {
        let plan = Plan::new(Options::new(Level::Causal));
        explore(&mut Program::new(doctors), &plan, |_, _| {}).unwrap()
    });
    let failure = &outcome.failures[0];
    assert_eq!((failure.message.as_str(), outcome.failures.len()), ("no doctor is on duty", 1));
    let why = outcome.explanation.unwrap();
    assert!(why.reproduced && why.of > 1, "{why:?}");
    let keys: Vec<&str> = why.stale.iter().map(|s| &*s.choice.key).collect();
    assert!(keys == ["alice"] || keys == ["bob"], "{keys:?}");
    assert_eq!(why.disappears, Some((Level::Serializable, 100)));
    assert!(why.anomalies.contains(&AnomalyKind::G2Item), "{:?}", why.anomalies);

    // The seed repeats it.
    let mut again = Plan::new(Options { seed: failure.seed, ..Options::new(Level::Causal) });
    (again.runs, again.explain) = (1, false);
    let outcome = quietly(|| explore(&mut Program::new(doctors), &again, |_, _| {}).unwrap());
    assert_eq!(outcome.failures[0].message, "no doctor is on duty");
}

#[test]
fn every_value_of_a_small_program_is_tried() {
    let mut seen = BTreeSet::new();
    let mut program = Program::new(|store: &Arc<Store>, _: &Turns| {
        let (mut a, mut b) = (store.session("a"), store.session("b"));
        a.transaction(|t| t.write("x", 1)).unwrap();
        a.transaction(|t| t.write("x", 2).and_then(|()| t.write("y", 2))).unwrap();
        b.transaction(|t| t.read("y").and_then(|_| t.read("x"))).map(|_| ()).map_err(|e| e.to_string())
    });
    let complete = enumerate(&mut program, &Options::new(Level::Causal), 100, |run| {
        let values: Vec<_> = run.choices.iter().map(|c| c.value.clone().and_then(|v| v.as_int())).collect();
        assert!(seen.insert(values), "once each");
    });
    assert!(complete.unwrap());
    // Having seen y, the reader has seen everything; having seen the initial y, it cannot have seen the
    // second x.
    let expected = [vec![None, None], vec![None, Some(1)], vec![Some(2), Some(2)]];
    assert_eq!(seen, expected.into());
}

#[test]
fn a_failure_that_is_not_about_isolation_is_told_apart() {
    struct Broken;
    impl Subject for Broken {
        type Error = Stop;
        fn run(&mut self, options: &Options) -> Result<anomalist_explore::Run, Stop> {
            let store = Store::new(options.clone())?;
            store.session("s").transaction(|t| t.read("x"))?;
            Ok(anomalist_explore::Run::of(&store, Some("always".into())))
        }
    }
    let outcome = explore(&mut Broken, &Plan::new(Options::new(Level::Causal)), |_, _| {}).unwrap();
    let why = outcome.explanation.unwrap();
    assert!(why.stale.is_empty() && why.reproduced);
    assert_eq!(why.disappears, None);
}
