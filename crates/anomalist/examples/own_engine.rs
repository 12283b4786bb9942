//! A storage engine of your own, recorded and checked.
//!
//! The toy store below gives every transaction a snapshot and, at commit, checks that no key that it *wrote*
//! was written meanwhile: snapshot isolation. It forgets to check what was *read*, so it is not
//! serializable. The two on-call doctors of the literature show it.

#![allow(clippy::print_stdout, reason = "an example prints")]

use anomalist::{Level, Recorder, Verdict, check};
use std::collections::BTreeMap;

/// A store of versions: for each key, values with the commit that wrote them.
#[derive(Default)]
struct Store {
    versions: BTreeMap<&'static str, Vec<(u64, &'static str)>>,
    commits: u64,
}

struct Open {
    snapshot: u64,
    writes: Vec<(&'static str, &'static str)>,
}

impl Store {
    fn begin(&self) -> Open {
        Open { snapshot: self.commits, writes: Vec::new() }
    }

    fn read(&self, transaction: &Open, key: &str) -> Option<&'static str> {
        let versions = self.versions.get(key)?;
        versions.iter().rev().find(|(commit, _)| *commit <= transaction.snapshot).map(|(_, value)| *value)
    }

    /// First committer wins. Returns whether the transaction committed.
    fn commit(&mut self, transaction: Open) -> bool {
        let newest =
            |key: &str| self.versions.get(key).and_then(|v| v.last()).map_or(0, |(commit, _)| *commit);
        if transaction.writes.iter().any(|(key, _)| newest(key) > transaction.snapshot) {
            return false;
        }
        self.commits += 1;
        for (key, value) in transaction.writes {
            self.versions.entry(key).or_default().push((self.commits, value));
        }
        true
    }
}

fn main() -> Result<(), anomalist::Error> {
    let mut store = Store::default();
    let recorder = Recorder::new();
    let (mut alice, mut bob) = (recorder.session("alice"), recorder.session("bob"));

    // Both are on call (nothing is written yet). Each sees that the other is, and goes off call.
    let (mut first, mut second) = (store.begin(), store.begin());
    let by_alice = alice.begin().read("bob", store.read(&first, "bob"));
    let by_bob = bob.begin().read("alice", store.read(&second, "alice"));
    first.writes.push(("alice", "off"));
    second.writes.push(("bob", "off"));
    let (by_alice, by_bob) = (by_alice.write("alice", "off"), by_bob.write("bob", "off"));
    if store.commit(first) {
        by_alice.commit()
    } else {
        by_alice.abort()
    }
    if store.commit(second) {
        by_bob.commit()
    } else {
        by_bob.abort()
    }

    let history = recorder.finish()?;
    let answer = check(&history).decide(Level::SnapshotIsolation).decide(Level::Serializable).run()?;
    println!("{answer}");
    assert_eq!(answer.verdict(Level::SnapshotIsolation), Some(&Verdict::Holds));
    assert_eq!(answer.verdict(Level::Serializable), Some(&Verdict::Violated)); // write skew
    Ok(())
}

#[test]
fn it_runs() -> Result<(), anomalist::Error> {
    main()
}
