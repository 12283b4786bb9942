//! `cargo bench -p anomalist-bench`: the quick set of `anomalist-bench`. What follows `--` is passed on, so
//! `cargo bench -p anomalist-bench --bench quick -- peers --full` measures what it says.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` starts this too, without the flag: a test is no time to measure.
    if !args.iter().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let passed_on = args.into_iter().filter(|arg| arg != "--bench");
    let status = Command::new(env!("CARGO_BIN_EXE_anomalist-bench")).args(passed_on).status();
    match status.ok().and_then(|status| status.code()) {
        Some(code) => ExitCode::from(code as u8),
        None => ExitCode::FAILURE,
    }
}
