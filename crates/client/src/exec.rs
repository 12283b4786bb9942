//! Any program as a database: one JSON line per transaction to its standard input, one back.
//!
//! The command is started once for each session (and again if it ends), with `ANOMALIST_SESSION` in its
//! environment, and before them once to prepare: then it is sent `{"prepare": {…}}`. `docs/exec.md` has the
//! protocol and a complete example. What a program does not answer, because it ended or took too long, is of
//! unknown outcome. Systems that are not Unix start no program: [`crate::remains::start`] says so.

use crate::remains::{self, Noted};
use crate::{Answer, Ended, Engine, EngineError, Op, Session};
use anomalist_workload::client::{ClientSpec, Recording};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long a program may take for one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to end once its input is closed, and to answer once the run is ended.
const FAREWELL: Duration = Duration::from_millis(500);
/// How often the end of the run is looked for.
const STEP: Duration = Duration::from_millis(50);

/// A command that speaks the protocol.
pub struct ExecEngine {
    command: String,
    prepare: Value,
    stop: fn() -> bool,
}

impl ExecEngine {
    /// The command, for `sh -c`; it is sent the workload and, if there is one, the isolation level asked
    /// for. The engine no longer waits for its answers once `stop` returns true.
    pub fn new(command: &str, spec: &ClientSpec, isolation: Option<&str>, stop: fn() -> bool) -> ExecEngine {
        let mut prepare = json!({"workload": spec.workload.name(), "keys": spec.keys});
        if spec.workload.recording() == Recording::Events {
            prepare["balance"] = json!(ClientSpec::BALANCE);
        }
        if let Some(isolation) = isolation {
            prepare["isolation"] = json!(isolation);
        }
        ExecEngine { command: command.to_owned(), prepare: json!({"prepare": prepare}), stop }
    }

    fn start(&self, session: Option<u32>) -> Result<Program, EngineError> {
        let isolation = self.prepare["prepare"]["isolation"].as_str().unwrap_or_default();
        let mut command = Command::new("sh");
        command
            .args(["-c", &self.command])
            .env("ANOMALIST_SESSION", session.map_or(String::new(), |s| s.to_string()))
            .env("ANOMALIST_ISOLATION", isolation)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // In a group of its own, which Ctrl-C does not reach: the program ends with its input.
        let (mut child, noted) = remains::start(&mut command)
            .map_err(|e| EngineError::new(format_args!("cannot start sh: {e}")))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(EngineError::new("the program has no standard input or output"));
        };
        let (sender, answers) = mpsc::channel();
        // Ends when the program closes its output, or the receiver is gone.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Program { child, input: Some(input), answers, stop: self.stop, broken: false, _noted: noted })
    }
}

impl Engine for ExecEngine {
    fn describe(&self) -> String {
        format!("exec:{}", program(&self.command))
    }

    fn prepare(&self) -> Result<(), EngineError> {
        let mut program = self.start(None)?;
        let answer = program.ask(&self.prepare).map_err(|why| {
            EngineError::new(format_args!("the program did not answer {{\"prepare\": …}}: {why}"))
        })?;
        match answer.get("error") {
            Some(error) => Err(EngineError::new(format_args!("the program cannot prepare: {error}"))),
            None => Ok(()),
        }
    }

    fn open(&self, session: u32) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(self.start(Some(session))?))
    }
}

/// The program of a shell's command. Arguments may be secrets, and so may variables set before it. From the
/// first quote on, only a shell knows what is what.
fn program(command: &str) -> &str {
    let plain = match command.find(['\'', '"', '\\', '`', '$']) {
        Some(quote) => command[..quote].rsplit_once(char::is_whitespace).map_or("", |(words, _)| words),
        None => command,
    };
    const SEPARATORS: [char; 4] = [';', '&', '|', '\n'];
    const PREPARING: [&str; 8] = ["cd", "export", "set", "source", ".", "unset", "umask", "ulimit"];
    let simple = plain.split(SEPARATORS).filter_map(|simple| {
        let mut words = simple.split_whitespace();
        words.find(|word| !word.contains('=') && *word != "exec" && *word != "env")
    });
    let mut named = simple.filter(|word| !PREPARING.contains(word));
    named.next().unwrap_or("sh")
}

struct Program {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    stop: fn() -> bool,
    broken: bool,
    _noted: Noted,
}

impl Program {
    /// Sends a line and waits for one.
    fn ask(&mut self, question: &Value) -> Result<Value, String> {
        let result = self.exchange(question);
        self.broken |= result.is_err();
        result
    }

    fn exchange(&mut self, question: &Value) -> Result<Value, String> {
        let input = self.input.as_mut().ok_or("its input is closed")?;
        let line = format!("{question}\n");
        input.write_all(line.as_bytes()).and_then(|()| input.flush()).map_err(|e| e.to_string())?;
        let answer = self.await_answer()?;
        serde_json::from_str(&answer).map_err(|e| format!("its answer is not JSON ({e}): {answer}"))
    }
}

impl Program {
    fn await_answer(&self) -> Result<String, String> {
        let asked = Instant::now();
        let mut stopped: Option<Instant> = None;
        loop {
            match self.answers.recv_timeout(STEP) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err("the program ended".to_owned()),
                Err(RecvTimeoutError::Timeout) if asked.elapsed() >= PATIENCE => {
                    return Err(format!("no answer within {} s", PATIENCE.as_secs()));
                }
                Err(RecvTimeoutError::Timeout) if !(self.stop)() => {}
                // Most programs are about to answer.
                Err(RecvTimeoutError::Timeout) => {
                    if stopped.get_or_insert_with(Instant::now).elapsed() >= FAREWELL {
                        return Err("no answer before the run was ended".to_owned());
                    }
                }
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.input.take());
        if !self.broken {
            // It ends by itself when its input does: then its output closes.
            while let Ok(_late) = self.answers.recv_timeout(FAREWELL) {}
        }
        // What a shell or a program has started may outlive it.
        remains::kill_tree(self.child.id());
        _ = self.child.wait();
    }
}

impl Session for Program {
    fn transact(&mut self, ops: &[Op], answers: &mut Vec<Answer>) -> Ended {
        let question = json!({"ops": ops.iter().map(|&op| question(op)).collect::<Vec<_>>()});
        let answer = match self.ask(&question) {
            Ok(answer) => answer,
            Err(why) => return Ended::indeterminate("lost", why),
        };
        let message =
            answer.get("error").map_or(String::new(), |e| e.as_str().map_or(e.to_string(), str::to_owned));
        match answer.get("outcome").and_then(Value::as_str) {
            Some("committed") => {}
            Some("aborted") => return Ended::aborted("aborted", message),
            Some("indeterminate") => return Ended::indeterminate("indeterminate", message),
            _ => {
                self.broken = true;
                return Ended::indeterminate("malformed", format_args!("no outcome in {answer}"));
            }
        }
        let found = answer.get("ops").and_then(Value::as_array);
        for (i, &op) in ops.iter().enumerate() {
            let shown = found.and_then(|found| found.get(i));
            match shown.and_then(|shown| read_answer(op, shown)) {
                Some(answer) => answers.push(answer),
                None => {
                    self.broken = true;
                    return Ended::indeterminate(
                        "malformed",
                        format_args!("operation {i} has no result in {answer}"),
                    );
                }
            }
        }
        Ended::Committed
    }

    fn is_usable(&self) -> bool {
        !self.broken
    }
}

/// An operation as the program is asked for it.
fn question(op: Op) -> Value {
    match op {
        Op::Read(key) | Op::ReadList(key) | Op::ReadSet(key) | Op::ReadRow(key) => json!(["r", key]),
        Op::Write(key, value) | Op::Update(key, value) => json!(["w", key, value]),
        Op::Append(key, value) => json!(["append", key, value]),
        Op::Add(key, value) => json!(["add", key, value]),
        Op::ReadCounter => json!(["counter"]),
        Op::Increment(by) => json!(["increment", by]),
        Op::ReadBalances => json!(["balances"]),
        Op::Transfer { from, to, amount } => json!(["transfer", from, to, amount]),
        Op::Insert(key, value) => json!(["insert", key, value]),
        Op::Delete(key) => json!(["delete", key]),
        Op::ReadWhere { modulus, rest } => json!(["where", modulus, rest]),
    }
}

/// The result at the end of an operation that was echoed.
fn read_answer(op: Op, shown: &Value) -> Option<Answer> {
    let shown = shown.as_array()?;
    let asked = question(op);
    let asked = asked.as_array()?;
    if shown.get(..asked.len())? != asked.as_slice() {
        return None;
    }
    let result = shown.get(asked.len());
    let ints = |value: &Value| -> Option<Vec<i64>> { value.as_array()?.iter().map(Value::as_i64).collect() };
    Some(match op {
        Op::Read(_) | Op::ReadRow(_) => match result? {
            Value::Null => Answer::Value(None),
            value => Answer::Value(Some(value.as_i64()?)),
        },
        Op::ReadCounter => Answer::Value(Some(result?.as_i64()?)),
        Op::ReadList(_) | Op::ReadSet(_) => match result? {
            Value::Null => Answer::List(Vec::new()),
            list => Answer::List(ints(list)?),
        },
        Op::ReadBalances | Op::ReadWhere { .. } => {
            let rows = result?.as_array()?.iter();
            let pair = |row: &Value| match row.as_array()?.as_slice() {
                [key, value] => Some((key.as_u64()?, value.as_i64()?)),
                _ => None,
            };
            Answer::Rows(rows.map(pair).collect::<Option<Vec<_>>>()?)
        }
        Op::Update(..) | Op::Delete(_) if result == Some(&Value::Bool(false)) => Answer::Missed,
        _ => Answer::Done,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_name_the_program_and_no_secret() {
        for (command, name) in [
            ("python3 client.py --password SECRET", "python3"),
            ("PGPASSWORD=SECRET python3 c.py", "python3"),
            ("cd /tmp && A=SECRET exec ./client SECRET", "./client"),
            ("export TOKEN=SECRET; node x.js", "node"),
            ("PGPASSWORD=SECRET", "sh"),
            ("PW='SECRET one' python3", "sh"),
            ("export PW=\"a; SECRET\"; python3", "sh"),
            ("./client \"SECRET one\"", "./client"),
        ] {
            assert_eq!(program(command), name, "{command}");
        }
    }

    /// Writes the numbers of its processes to a file, and does not answer.
    fn silent(name: &str) -> (ExecEngine, std::path::PathBuf) {
        let file = std::env::temp_dir().join(format!("anomalist-exec-{name}-{}", std::process::id()));
        let command = format!("sleep 600 & echo $$ $! > '{}'; sleep 600", file.display());
        let spec = ClientSpec::of(anomalist_workload::client::Workload::ListAppend);
        (ExecEngine::new(&command, &spec, None, || true), file)
    }

    #[test]
    fn nothing_that_a_program_has_started_is_left() {
        let (engine, file) = silent("left");
        let since = Instant::now();
        let mut session = engine.open(0).unwrap();
        let ended = session.transact(&[Op::ReadList(1)], &mut Vec::new());
        assert!(matches!(ended, Ended::Indeterminate(_)), "{ended:?}");
        drop(session);
        assert!(since.elapsed() < PATIENCE / 2, "the end of the run is not waited for");
        let pids = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(pids.split_whitespace().count(), 2, "{pids}");
        for pid in pids.split_whitespace() {
            assert!(!std::path::Path::new("/proc").join(pid).join("exe").exists(), "{pid} lives on");
        }
    }

    #[test]
    fn results_come_after_the_echo() {
        let read = |op, text: &str| read_answer(op, &serde_json::from_str(text).unwrap());
        assert_eq!(read(Op::Read(1), r#"["r",1,null]"#), Some(Answer::Value(None)));
        assert_eq!(read(Op::Read(1), r#"["r",1,7]"#), Some(Answer::Value(Some(7))));
        assert_eq!(read(Op::ReadList(1), r#"["r",1,[5,6]]"#), Some(Answer::List(vec![5, 6])));
        assert_eq!(read(Op::Append(1, 2), r#"["append",1,2]"#), Some(Answer::Done));
        assert_eq!(read(Op::Delete(1), r#"["delete",1,false]"#), Some(Answer::Missed));
        assert_eq!(read(Op::ReadBalances, r#"["balances",[[0,9]]]"#), Some(Answer::Rows(vec![(0, 9)])));
        for (op, wrong) in [
            (Op::Read(1), r#"["r",2,7]"#),
            (Op::Read(1), r#"["r",1]"#),
            (Op::Read(1), r#"["r",1,"7"]"#),
            (Op::Append(1, 2), r#"["append",1,3]"#),
            (Op::ReadBalances, r#"["balances",[[0]]]"#),
        ] {
            assert_eq!(read(op, wrong), None, "{wrong}");
        }
    }
}
