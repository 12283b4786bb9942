//! Checks while the program runs, in two ways.
//!
//! 1. [`Monitor`] judges every transaction inside the process, by values. Simulators use it.
//! 2. A program in any language prints one JSON line per transaction, with the timestamps of its database,
//!    and pipes them to `anomalist watch`:
//!
//!    ```sh
//!    cargo run --example stream_from_a_program | anomalist watch -
//!    ```
//!
//! The store here is a counter with a logical clock, so both find nothing.

#![allow(clippy::print_stdout, reason = "the lines are the stream")]

use anomalist::{Level, Monitor};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

fn main() {
    let clock = Arc::new(AtomicI64::new(0));
    let tick = || clock.fetch_add(1, Ordering::Relaxed) + 1;
    let virtual_time = Arc::clone(&clock);
    let monitor = Monitor::with_clock(move || virtual_time.load(Ordering::Relaxed).unsigned_abs())
        .require(Level::StrictSerializable);
    monitor.recorder().initial(0);

    let mut counter = 0;
    for step in 0..20 {
        let name = step % 3;
        let mut session = monitor.session(name);
        let transaction = session.begin();
        let start = tick();
        let (read, written) = (counter, counter + 1);
        counter = written;
        let commit = tick();
        transaction.read("counter", read).write("counter", written).commit();
        monitor.assert(); // panics at the first step that violates the level

        println!(
            r#"{{"session":{name},"ops":[["r","counter",{}],["w","counter",{written}]],"start":{start},"commit":{commit}}}"#,
            if read == 0 { "null".to_owned() } else { read.to_string() },
        );
    }
}

#[test]
fn it_runs() {
    main();
}
