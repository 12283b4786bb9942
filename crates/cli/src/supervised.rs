//! Running below another program, which `ANOMALIST_SUPERVISED` says: progress as JSON lines on standard
//! error, and an end when standard input is closed.
//!
//! A pipe closes when its other end does or dies, on every system, so a supervisor that is killed takes its
//! commands with it. The end is that of a first Ctrl-C; a command that is still there after a while is
//! ended.

use crate::exit::Exit;
use crate::interrupt;
use serde_json::{Value, json};
use std::io::{self, Read};
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

/// The variable; any value but none.
pub const VARIABLE: &str = "ANOMALIST_SUPERVISED";
/// How long a command may take to end.
const GRACE: Duration = Duration::from_secs(10);

static ON: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty()));

/// Whether another program watches over this one.
pub fn is_on() -> bool {
    *ON
}

/// Waits for the end of standard input, if supervised.
pub fn listen() {
    if !is_on() {
        return;
    }
    thread::spawn(|| {
        let mut buffer = [0; 64];
        // A pipe that fails has no other end either.
        while matches!(io::stdin().read(&mut buffer), Ok(1..)) {}
        interrupt::request();
        thread::sleep(GRACE);
        anomalist_client::remains::remove_all();
        std::process::exit(Exit::Undecided as i32);
    });
}

/// Reports progress: an object with a field `event`, on a line of its own.
pub fn report(mut progress: Value) {
    if is_on() {
        progress["event"] = json!("progress");
        crate::terminal::tell(&progress.to_string());
    }
}
