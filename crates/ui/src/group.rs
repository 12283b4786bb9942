//! A process and what it starts, ended together.
//!
//! A command that is asked to end does so by itself, with what it started: its standard input is closed,
//! which it listens to. Only what does not end in time is killed, with its whole process group.

use std::process::{Child, Command};

/// Makes the process the first of a group of its own, so that Ctrl-C at the terminal reaches the server
/// alone, which then ends its commands in order.
#[cfg(unix)]
pub(crate) fn separate(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

#[cfg(not(unix))]
pub(crate) fn separate(_: &mut Command) {}

/// Kills the process and its group.
#[cfg(unix)]
pub(crate) fn kill(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    // It may be gone already, which is as good.
    _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    _ = child.kill();
}

#[cfg(not(unix))]
pub(crate) fn kill(child: &mut Child) {
    _ = child.kill();
}
