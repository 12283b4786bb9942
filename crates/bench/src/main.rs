//! The program `anomalist-bench`: see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    anomalist_bench::main()
}
