//! A command with everything that it starts: a process group, which ends as one.
//!
//! A shell that is killed leaves its children behind, with our pipes and the database's connections in
//! their hands. So the run is over when the command itself has ended, or its time has, and any process that
//! is left of its group is killed then. The group is also why Ctrl-C at the terminal reaches us alone, and
//! never looks like a test that failed.

use super::command::End;
use crate::interrupt;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long output is waited for after the group has ended: a process that left the group may hold the
/// pipes for ever.
const OUTPUT: Duration = Duration::from_secs(1);

/// Runs a command to its end, or ends it. What it printed is standard output, then standard error.
pub fn run(command: &mut Command, timeout: Duration) -> io::Result<(End, [String; 2])> {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = Group(command.spawn()?);
    let output = [drain(group.0.stdout.take()), drain(group.0.stderr.take())];
    let end = group.wait(timeout)?;
    let until = Instant::now() + OUTPUT;
    Ok((end, output.map(|chunks| collect(&chunks, until))))
}

struct Group(Child);

impl Group {
    fn wait(&mut self, timeout: Duration) -> io::Result<End> {
        let since = Instant::now();
        let mut pause = Duration::from_micros(200);
        // Looked at but not reaped, so that the number of the group is still taken when it is killed.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let pid = Pid::from_child(&self.0);
        let end = loop {
            let ended = waitid(WaitId::Pid(pid), options)?.is_some();
            if interrupt::is_requested() {
                break Some(End::Interrupted);
            } else if ended {
                break None;
            } else if since.elapsed() > timeout {
                break Some(End::Late);
            }
            thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(10));
        };
        self.kill();
        let status = self.0.wait()?;
        Ok(end.unwrap_or(End::Status(status)))
    }

    fn kill(&self) {
        // It may be gone already, which is as good.
        _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
    }
}

impl Drop for Group {
    /// Where waiting failed, nothing is known about the command; it is not left behind.
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.kill();
            _ = self.0.wait();
        }
    }
}

/// Reads a pipe to its end, on a thread: a command that fills both must not wait for us.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, chunks) = channel();
    thread::spawn(move || {
        let mut buffer = [0; 1 << 13];
        let Some(mut pipe) = pipe else { return };
        // What came before an error is all there is to show.
        while let Ok(read @ 1..) = pipe.read(&mut buffer) {
            if sender.send(buffer[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    chunks
}

fn collect(chunks: &Receiver<Vec<u8>>, until: Instant) -> String {
    let mut bytes = Vec::new();
    while let Ok(chunk) = chunks.recv_timeout(until.saturating_duration_since(Instant::now())) {
        bytes.extend(chunk);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
