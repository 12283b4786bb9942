//! Systems that are not Unix: a command cannot be ended together with everything that it starts, so none is
//! run.

use super::command::End;
use std::io;
use std::process::Command;
use std::time::Duration;

/// Fails.
pub fn run(_command: &mut Command, _timeout: Duration) -> io::Result<(End, [String; 2])> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "exploring a command needs a Unix system"))
}
