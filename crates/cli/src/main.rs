//! The program `anomalist`: see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    anomalist_cli::main()
}
