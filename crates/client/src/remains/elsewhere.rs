//! Processes on systems that are not Unix: none can be started, because there would be no way to end what
//! they start.

use std::convert::Infallible;
use std::io;
use std::process::{Child, Command};

/// A process that is noted: there is none.
#[derive(Debug)]
pub struct Noted(#[allow(dead_code, reason = "there is no value")] Infallible);

/// Fails: a process needs a group of its own, which only Unix has.
pub fn start(_command: &mut Command) -> io::Result<(Child, Noted)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "programs as databases need a Unix system"))
}

/// No process was started.
pub fn kill_tree(_pid: u32) {}

/// Whether a process with this number is there. The standard library does not say.
pub fn is_alive(_pid: u32) -> bool {
    true
}
