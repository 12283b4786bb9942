//! Running the binary and looking at what it did.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A run of the binary that has ended.
pub struct Run {
    command: String,
    status: Option<i32>,
    pub stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Runs `anomalist` without input.
pub fn anomalist(args: &[&str]) -> Run {
    Run::new(args, b"", &[])
}

/// Runs `anomalist` with this on its standard input.
pub fn anomalist_with(args: &[&str], input: &[u8]) -> Run {
    Run::new(args, input, &[])
}

/// Runs a shell command in which `$ANOMALIST` is the binary.
pub fn shell(command: &str) -> Run {
    let mut sh = Command::new("sh");
    sh.args(["-c", command]).env("ANOMALIST", env!("CARGO_BIN_EXE_anomalist")).env("ANOMALIST_VERIFY", "1");
    Run::of(command.to_owned(), sh, b"")
}

impl Run {
    pub fn new(args: &[&str], input: &[u8], environment: &[(&str, &str)]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anomalist"));
        command
            .args(args)
            .env_remove("GITHUB_ACTIONS")
            .env_remove("GITHUB_STEP_SUMMARY")
            .env("ANOMALIST_VERIFY", "1")
            .envs(environment.iter().copied());
        Run::of(format!("anomalist {}", args.join(" ")), command, input)
    }

    fn of(name: String, mut command: Command, input: &[u8]) -> Run {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stdin = child.stdin.take().expect("piped");
        let input = input.to_owned();
        // From a thread of its own: the child may write before it has read everything, or not read at all.
        let feeder = std::thread::spawn(move || _ = stdin.write_all(&input));
        let Output { status, stdout, stderr } = child.wait_with_output().expect("the binary ends");
        feeder.join().expect("the feeder does not panic");
        Run { command: name, status: status.code(), stdout, stderr }
    }

    /// Fails the test if the exit status is another.
    #[track_caller]
    pub fn expect(self, status: i32) -> Run {
        assert_eq!(self.status, Some(status), "{}\n{}\n{}", self.command, self.text(), self.stderr());
        self
    }

    /// Whether it ended with this exit status.
    pub fn ended_with(&self, status: i32) -> bool {
        self.status == Some(status)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|e| panic!("{}: {e}\n{}", self.command, self.text()))
    }
}

/// A folder for one test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("scratch folder");
        Scratch(folder)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file; its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        std::fs::write(self.0.join(name), content).expect("scratch file");
        self.path(name)
    }

    /// The names of the files in it.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("scratch folder");
        let mut names: Vec<String> =
            entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}
