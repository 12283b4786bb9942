//! Times the loading of a history: `load FILE [THREADS] [RUNS]`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]
use isolde_format::{Input, ReadOptions};
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let threads = args.get(2).map_or(2, |t| t.parse().unwrap());
    let bytes = std::fs::metadata(&args[1]).unwrap().len() as f64;
    for _ in 0..args.get(3).map_or(3, |r| r.parse().unwrap()) {
        let start = Instant::now();
        let options =
            ReadOptions { threads: std::num::NonZeroUsize::new(threads).unwrap(), ..Default::default() };
        let loaded = isolde_format::read(Input::open(args[1].as_ref()).unwrap(), &options).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let h = &loaded.history;
        println!(
            "{} sessions, {} transactions, {} operations: {seconds:.3} s, {:.0} MB/s",
            h.session_count(),
            h.txn_count(),
            h.op_count(),
            bytes / 1e6 / seconds
        );
    }
}
