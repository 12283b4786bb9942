//! One command: a child process, what it reports, how it ended.
//!
//! Three threads: one reads what the child reports on its standard error, one its standard output, one
//! waits for its end. Memory is bounded whatever the child prints: reports are thinned, messages and
//! documents have limits. A reader waits for news by a number that grows with every change.

use crate::fields::{Invocation, Output};
use crate::group;
use crate::tally::Tally;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Most reports of progress that are kept; then every other one goes.
const SAMPLES: usize = 2_400;
/// Most messages that are kept.
const MESSAGES: usize = 200;
/// Most bytes of a line on standard error, and of a document on standard output.
const LINE: u64 = 64 << 10;
const DOCUMENT: u64 = 64 << 20;
/// How long a command that was asked to end may take.
const GRACE: Duration = Duration::from_secs(8);
/// How long its output is waited for after its end.
const OUTPUT: Duration = Duration::from_secs(2);

/// A command that runs or has run.
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) command: String,
    pub(crate) shown: String,
    /// The item that it judges.
    pub(crate) item: Option<String>,
    /// The file that it makes.
    makes: Option<PathBuf>,
    /// The page that it writes.
    pub(crate) report: PathBuf,
    started_ms: u64,
    since: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    version: u64,
    samples: Vec<(u64, Value)>,
    messages: Vec<(u64, String)>,
    tally: Tally,
    document: Option<Value>,
    /// Closing it asks the command to end.
    stdin: Option<ChildStdin>,
    cancelled: Option<Instant>,
    kill: bool,
    ended: Option<End>,
}

struct End {
    exit: Option<i32>,
    after_ms: u64,
}

/// How to start one.
pub(crate) struct Start<'a> {
    pub(crate) id: u64,
    pub(crate) program: &'a Path,
    pub(crate) supervision: &'a str,
    pub(crate) invocation: Invocation,
    pub(crate) item: Option<String>,
    pub(crate) report: PathBuf,
    /// Called once it has ended.
    pub(crate) finally: Box<dyn FnOnce(&Job) + Send>,
}

impl Job {
    pub(crate) fn start(start: Start<'_>) -> io::Result<Arc<Job>> {
        let Start { id, program, supervision, invocation, item, report, finally } = start;
        let mut command = Command::new(program);
        command
            .args(&invocation.arguments)
            .envs(invocation.environment)
            .env(supervision, "1")
            .env_remove("GITHUB_ACTIONS")
            .env_remove("GITHUB_STEP_SUMMARY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        group::separate(&mut command);
        let mut child = command.spawn()?;
        let name = invocation.arguments.first().map(|name| name.to_string_lossy().into_owned());
        let job = Arc::new(Job {
            id,
            command: name.unwrap_or_default(),
            shown: invocation.shown,
            item,
            makes: invocation.makes,
            report,
            started_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_millis() as u64),
            since: Instant::now(),
            state: Mutex::new(State { version: 1, stdin: child.stdin.take(), ..State::default() }),
            changed: Condvar::new(),
        });
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (listener, reader, waiter) = (job.clone(), job.clone(), job.clone());
        let heard = thread::spawn(move || listener.listen(stderr));
        let output = invocation.output;
        let read = thread::spawn(move || reader.read(stdout, output));
        thread::spawn(move || {
            let exit = waiter.wait(child);
            let until = Instant::now() + OUTPUT;
            while !(heard.is_finished() && read.is_finished()) && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
            finally(&waiter);
            let after_ms = waiter.since.elapsed().as_millis() as u64;
            waiter.change(|state| state.ended = Some(End { exit, after_ms }));
        });
        Ok(job)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        state.version += 1;
        change(&mut state);
        drop(state);
        self.changed.notify_all();
    }

    /// Standard error: objects are reports of progress, other lines are messages.
    fn listen(&self, pipe: Option<impl Read>) {
        let Some(pipe) = pipe else { return };
        for line in lines(pipe) {
            let progress = line.starts_with('{').then(|| serde_json::from_str::<Value>(&line).ok()).flatten();
            let at_ms = self.since.elapsed().as_millis() as u64;
            self.change(|state| match progress {
                Some(mut sample) if sample["event"] == "progress" => {
                    sample["at_ms"] = at_ms.into();
                    state.samples.push((state.version, sample));
                    if state.samples.len() > SAMPLES {
                        let mut odd = false;
                        state.samples.retain(|_| {
                            odd = !odd;
                            odd
                        });
                    }
                }
                _ if line.is_empty() => {}
                _ => {
                    if state.messages.len() == MESSAGES {
                        state.messages.remove(0);
                    }
                    state.messages.push((state.version, line));
                }
            });
        }
    }

    fn read(&self, pipe: Option<impl Read>, output: Output) {
        let Some(mut pipe) = pipe else { return };
        match output {
            Output::Lines => {
                for line in lines(pipe) {
                    let Ok(event) = serde_json::from_str(&line) else { continue };
                    let at_ms = self.since.elapsed().as_millis() as u64;
                    self.change(|state| state.tally.add(event, at_ms));
                }
            }
            Output::Document => {
                let mut bytes = Vec::new();
                // What came before an error is not a document.
                _ = pipe.by_ref().take(DOCUMENT).read_to_end(&mut bytes);
                let mut document: Option<Value> = serde_json::from_slice(&bytes).ok();
                document.iter_mut().for_each(crate::tops::add);
                self.change(|state| state.document = document);
                _ = io::copy(&mut pipe, &mut io::sink());
            }
            Output::Nothing => _ = io::copy(&mut pipe, &mut io::sink()),
        }
    }

    /// Waits for the end, and kills what does not end in time.
    fn wait(&self, mut child: Child) -> Option<i32> {
        let mut pause = Duration::from_millis(1);
        let status = loop {
            if let Ok(Some(status)) = child.try_wait() {
                break Some(status);
            }
            let state = self.lock();
            let late = state.cancelled.is_some_and(|since| since.elapsed() > GRACE);
            if state.kill || late {
                drop(state);
                group::kill(&mut child);
                break child.wait().ok();
            }
            drop(state);
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(40));
        };
        // What it left of its group.
        group::kill(&mut child);
        status.and_then(|status| status.code())
    }

    /// Asks the command to end; the second time ends it at once.
    pub(crate) fn cancel(&self) {
        self.change(|state| {
            drop(state.stdin.take());
            state.kill = state.cancelled.is_some();
            state.cancelled.get_or_insert_with(Instant::now);
        });
    }

    /// Ends it at once.
    pub(crate) fn kill(&self) {
        self.change(|state| {
            drop(state.stdin.take());
            state.cancelled.get_or_insert_with(Instant::now);
            state.kill = true;
        });
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lock().ended.is_none()
    }

    /// The document that it printed.
    pub(crate) fn document(&self) -> Option<Value> {
        self.lock().document.clone()
    }

    /// Waits until there is news after a version, for a time or while something else says so.
    pub(crate) fn wait_for_news(&self, after: u64, time: Duration, go_on: &dyn Fn() -> bool) {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while state.version <= after && state.ended.is_none() && go_on() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let step = left.min(Duration::from_millis(200));
            state = self.changed.wait_timeout(state, step).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// For lists.
    pub(crate) fn summary(&self) -> Value {
        let state = self.lock();
        let last = state.samples.last().map(|(_, sample)| sample);
        json!({"id": self.id, "command": self.command, "shown": self.shown, "item": self.item,
               "started_ms": self.started_ms, "version": state.version, "status": state.status(),
               "exit": state.ended.as_ref().and_then(|end| end.exit),
               "after_ms": state.ended.as_ref().map(|end| end.after_ms),
               "running_ms": self.since.elapsed().as_millis() as u64, "last": last})
    }

    /// Everything that is news after a version.
    pub(crate) fn news(&self, after: u64) -> Value {
        let mut news = self.summary();
        let state = self.lock();
        let samples: Vec<&Value> = state.samples.iter().filter(|(n, _)| *n > after).map(|(_, s)| s).collect();
        let messages: Vec<&String> =
            state.messages.iter().filter(|(n, _)| *n > after).map(|(_, m)| m).collect();
        news["samples"] = json!(samples);
        news["messages"] = json!(messages);
        if self.command == "watch" {
            news["tally"] = state.tally.document();
        }
        if state.ended.is_some() {
            news["document"] = json!(state.document);
            news["report"] = json!(self.report.is_file());
            news["makes"] = json!(self.makes.as_ref().map(|path| path.display().to_string()));
        }
        news
    }
}

impl State {
    fn status(&self) -> &'static str {
        match (&self.ended, self.cancelled) {
            (None, None) => "running",
            (None, Some(_)) => "ending",
            (Some(_), Some(_)) => "cancelled",
            (Some(End { exit: Some(0..=2), .. }), None) => "done",
            (Some(_), None) => "failed",
        }
    }
}

/// Lines, each cut at a length.
fn lines(pipe: impl Read) -> impl Iterator<Item = String> {
    let mut reader = BufReader::new(pipe);
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let read = reader.by_ref().take(LINE).read_until(b'\n', &mut line).ok()?;
        (read > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned())
    })
}
