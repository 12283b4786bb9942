//! Ctrl-C: the first asks for the end and lets what is known be printed, the second ends at once.

use crate::exit::Exit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Starts listening. Without it (a second handler, an odd system) Ctrl-C simply ends the process.
pub fn listen() {
    let handler = || {
        if INTERRUPTED.swap(true, Relaxed) {
            anomalist_client::remains::remove_all();
            std::process::exit(Exit::Undecided as i32);
        }
    };
    _ = ctrlc::set_handler(handler);
}

/// Asks for the end, as the first Ctrl-C does.
pub fn request() {
    INTERRUPTED.store(true, Relaxed);
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
