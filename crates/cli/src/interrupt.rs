//! Ctrl-C: the first asks for the end and lets what is known be printed, the second ends at once.
//!
//! A command that has nothing to show before its end says so ([`end_soon`]): then the first ends it within
//! a second, also while it waits for input or in a step that does not poll.

use crate::exit::{Exit, Failure};
use crate::{destination, terminal};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The command has nothing to show before its end.
static SOON: AtomicBool = AtomicBool::new(false);
/// How long such a command may take to end by itself, which removes what it has begun to write.
const GRACE: Duration = Duration::from_millis(700);
/// How long printing the reason may take.
const PRINTING: Duration = Duration::from_millis(100);

/// Starts listening. Without it (a second handler, an odd system) Ctrl-C simply ends the process.
pub fn listen() {
    let handler = || {
        if INTERRUPTED.swap(true, Relaxed) {
            end();
        } else if SOON.load(Relaxed) {
            let patient = thread::Builder::new().spawn(|| {
                thread::sleep(GRACE);
                terminal::tell("interrupted");
                end();
            });
            if patient.is_err() {
                end();
            }
        }
    };
    _ = ctrlc::set_handler(handler);
}

/// Asks for the end, as the first Ctrl-C does.
pub fn request() {
    INTERRUPTED.store(true, Relaxed);
}

/// Says why and ends the process, from another thread than the one that works. That one may hold the lock of
/// standard output: so it is not waited for long.
pub fn end_with(failure: &Failure) -> ! {
    let (message, document) = (failure.message().map(String::from), failure.json());
    let (sender, done) = channel();
    _ = thread::Builder::new().spawn(move || {
        message.iter().for_each(|message| terminal::tell(message));
        if let Some(document) = document.filter(|_| crate::wants_json()) {
            _ = terminal::print(&document);
        }
        _ = sender.send(());
    });
    _ = done.recv_timeout(PRINTING);
    end()
}

fn end() -> ! {
    anomalist_client::remains::remove_all();
    destination::remove_begun();
    std::process::exit(Exit::Undecided as i32);
}

/// Says whether Ctrl-C may end the process although the command has not ended by itself; returns what was
/// said before.
pub fn end_soon(soon: bool) -> bool {
    SOON.swap(soon, Relaxed)
}

/// Whether the user has asked for the end; forgets it. For a command that ends one thing and goes on with
/// the next, which can then be ended too.
pub fn take() -> bool {
    INTERRUPTED.swap(false, Relaxed)
}

/// True once the user has asked for the end.
pub fn is_requested() -> bool {
    INTERRUPTED.load(Relaxed)
}
