//! Commands that read histories, where `ulimit -v` limits the address space.
//!
//! The limit is polled, and room is left (`memory.rs`). But a table that grows between two polls may ask the
//! system for more than there is, and then the standard library ends the process (SIGABRT): what it could
//! call instead is not stable. So the command runs in a process of its own, and the process that the user
//! started waits for it. If it was aborted, the answer is the one at any other limit on memory: unknown.
//!
//! Without such a limit nothing is started; to ask for it is one system call.

use crate::cli::Command;
use crate::exit::{Exit, Failure};
use crate::{interrupt, system, terminal};
use std::io::{IsTerminal, stdin};
use std::process;
use std::thread::{Builder, sleep};
use std::time::Duration;

/// Says to the process that works that another one waits for it.
const VARIABLE: &str = "ANOMALIST_CONFINED";
/// How often it is looked whether the process has ended, or is to be interrupted.
const TICK: Duration = Duration::from_millis(2);
/// How often the process that works looks whether the other one is still there.
const PARENT: Duration = Duration::from_millis(100);

/// Runs the command in a process of its own, if it is to; `None` means that this process does the work.
pub fn run(command: &Command) -> Option<Result<Exit, Failure>> {
    let limit = system::address_space().filter(|_| reads(command))?;
    if is_awaited() {
        end_with_parent();
        return None;
    }
    // A process outside of the terminal's group must not read from the terminal.
    if stdin().is_terminal() && std::env::args_os().any(|argument| argument == "-") {
        return None;
    }
    let mut command = process::Command::new(std::env::current_exe().ok()?);
    command.args(std::env::args_os().skip(1)).env(VARIABLE, "1");
    // glibc reserves 64 MB of address space for the allocations of each thread, unless they share theirs.
    command.env("MALLOC_ARENA_MAX", "1");
    // If there is no room for a second process, the first one works.
    let child = system::start_apart(&mut command).ok()?;
    Some(wait(child, limit))
}

/// Whether another process waits for this one. A panic may then be one for want of memory, so only the
/// other process, which sees how this one ended, calls it an internal error.
pub fn is_awaited() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Asks for the end, as Ctrl-C does, once the process that waits has gone.
fn end_with_parent() {
    let parent = system::parent();
    // Without room for a thread, this process ends later, by itself.
    _ = Builder::new().spawn(move || {
        while system::parent() == parent {
            sleep(PARENT);
        }
        interrupt::request();
    });
}

/// Whether it may need any amount of memory: what its input takes.
fn reads(command: &Command) -> bool {
    matches!(
        command,
        Command::Check(_)
            | Command::Shrink(_)
            | Command::Verify(_)
            | Command::Stats(_)
            | Command::Convert(_)
            | Command::Lint(_)
            | Command::Elle(_)
            | Command::Report(_)
    )
}

fn wait(mut child: process::Child, limit: u64) -> Result<Exit, Failure> {
    loop {
        match child.try_wait() {
            Ok(None) => sleep(TICK),
            Ok(Some(status)) if system::is_abort(status) => return Err(Failure::Space(limit)),
            Ok(Some(status)) => return ended(status),
            Err(error) => return Err(Failure::input(format_args!("the process that works: {error}"))),
        }
        // Its terminal is this one's, but the signals of the terminal only come here.
        if interrupt::take() {
            system::interrupt(&child);
        }
    }
}

fn ended(status: process::ExitStatus) -> Result<Exit, Failure> {
    match status.code() {
        Some(0) => Ok(Exit::Holds),
        Some(1) => Ok(Exit::Violated),
        Some(2) => Ok(Exit::Undecided),
        Some(3) => Ok(Exit::BadInput),
        Some(_) => {
            terminal::tell(crate::INTERNAL);
            Ok(Exit::Bug)
        }
        None => Err(Failure::Bug(format!("error: the process that worked ended by a signal ({status})"))),
    }
}
