//! A concurrency test that ends in an isolation check.
//!
//! Four threads transfer money between two accounts of a store under one lock. Each client records what it
//! read and wrote; then the history must be strictly serializable. If it is not, `assert` panics with the
//! transactions that contradict each other.
//!
//! Balances carry a version (`100@7`), because the checker learns most if every value is written once.

use anomalist::{Level, Recorder, check};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

type Accounts = BTreeMap<&'static str, (i64, u32)>;

fn shown((balance, version): (i64, u32)) -> String {
    format!("{balance}@{version}")
}

fn main() -> Result<(), anomalist::Error> {
    let store: Mutex<Accounts> = Mutex::new(BTreeMap::from([("alice", (100, 0)), ("bob", (100, 0))]));
    let recorder = Recorder::new();
    recorder.initial("100@0");

    thread::scope(|scope| {
        for client in 0..4 {
            let (store, mut session) = (&store, recorder.session(format!("client {client}")));
            scope.spawn(move || {
                for _ in 0..25 {
                    // Begin before the store is asked for anything, end after it has answered.
                    let mut transaction = session.begin();
                    let Ok(mut accounts) = store.lock() else { return transaction.unknown() };
                    for (name, change) in [("alice", -1), ("bob", 1)] {
                        let Some(account) = accounts.get_mut(name) else { return transaction.abort() };
                        transaction = transaction.read(name, shown(*account));
                        *account = (account.0 + change, account.1 + 1);
                        transaction = transaction.write(name, shown(*account));
                    }
                    drop(accounts);
                    transaction.commit();
                }
            });
        }
    });

    check(&recorder.finish()?).require(Level::StrictSerializable).assert();
    Ok(())
}

#[test]
fn it_runs() -> Result<(), anomalist::Error> {
    main()
}
