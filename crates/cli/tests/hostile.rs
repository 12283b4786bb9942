//! Inputs that mean harm, and histories that need more memory than there is: every run ends with an exit
//! status and a sentence, in bounded memory.
#![cfg(target_os = "linux")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Scratch, anomalist, anomalist_with, shell};

/// Commands that read a history, with what they need after its name.
const READERS: [&[&str]; 6] = [
    &["check"],
    &["lint"],
    &["stats"],
    &["convert", "-", "--to", "anomalist"],
    &["shrink", "-o", "/dev/null", "--level", "causal"],
    &["elle", "-m", "rw-register"],
];

fn command(reader: &[&str], history: &str, flags: &str) -> String {
    // The name of the history comes first, its output after it.
    format!("$ANOMALIST {} {history} {} {flags}", reader[0], reader[1..].join(" "))
}

/// Runs with an address space of so many kilobytes: a run that needs more would be killed by its allocator.
fn within(kilobytes: u32, command: &str) -> support::Run {
    shell(&format!("unset ANOMALIST_VERIFY; ulimit -v {kilobytes}; {command}"))
}

#[test]
fn endless_devices_are_no_history() {
    for reader in READERS {
        let run = within(1_500_000, &command(reader, "/dev/zero", "")).expect(3);
        assert!(run.stderr().contains("/dev/zero: byte 0: a NUL byte"), "{}", run.stderr());
    }
    for format in ["plume", "anomalist", "elle-edn", "elle-json", "timekiller", "dbcop", "awdit", "viper"] {
        let run =
            within(1_500_000, &command(READERS[0], "/dev/zero", &format!("--format {format}"))).expect(3);
        assert!(run.stderr().contains("/dev/zero"), "{}", run.stderr());
    }
    within(1_500_000, &command(READERS[0], "/dev/urandom", "--format dbcop")).expect(3);
}

#[test]
fn a_line_without_end_is_refused_with_its_place() {
    let endless = "(echo 'w(1,1,0,0)'; tr '\\0' x < /dev/zero)";
    let run = within(4_000_000, &format!("{endless} | $ANOMALIST check -")).expect(3);
    assert!(run.stderr().contains("byte 11: a line of more than"), "{}", run.stderr());
}

/// What an archive expands to counts. (How far one may expand is a test of `anomalist-format`.)
#[test]
fn archives_have_a_largest_size() {
    let scratch = Scratch::new("bomb");
    let pack = |name: &str, content: &[u8], times: u32| {
        let file = File::create(scratch.path(name)).unwrap();
        let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        (0..times).for_each(|_| packed.write_all(content).unwrap());
        packed.finish().unwrap();
        scratch.path(name)
    };
    let zeros = pack("zeros.gz", &vec![0; 1 << 20], 8);
    let run = within(1_500_000, &format!("$ANOMALIST stats {zeros}")).expect(3);
    assert!(run.stderr().contains("byte 0: a NUL byte"), "{}", run.stderr());
    let lines = pack("lines.gz", &b"w(1,1,0,0)\n".repeat(1000), 120);
    let run = within(1_500_000, &format!("$ANOMALIST stats {lines} --max-size 1MB")).expect(3);
    assert!(run.stderr().contains("byte 1000000: the input has more than 1000000 bytes"), "{}", run.stderr());
    assert!(run.stderr().contains("--max-size allows more"), "{}", run.stderr());
}

#[test]
fn a_file_that_changes_while_it_is_read_is_refused() {
    let scratch = Scratch::new("changes");
    let text: String = (0..2_000_000).map(|n| format!("w({n},1,0,{n})\n")).collect();
    for (name, grows) in [("cut.txt", false), ("grown.txt", true)] {
        let path = scratch.file(name, &text);
        // The reader waits for its turn in the pipe, so that the file changes between two reads.
        let child = Command::new(env!("CARGO_BIN_EXE_anomalist"))
            .args(["stats", &path, "--threads", "1"])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !std::fs::read_link(format!("/proc/{}/fd/3", child.id())).is_ok_and(|file| file.ends_with(name))
        {
            std::thread::yield_now();
        }
        let mut file = File::options().write(true).append(grows).open(&path).unwrap();
        if grows {
            file.write_all(b"w(1,2,0,2000000)\n").unwrap();
        } else {
            file.set_len(text.len() as u64 / 2).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("the file changed while it was read"), "{said}");
        assert!(said.contains("--lossy keeps what came before"), "{said}");
    }
}

/// The words, however lines were broken.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Sessions of one write each.
fn many_sessions(count: u32) -> String {
    (0..count).map(|n| format!("w(1,{},{n},{n})\n", n + 1)).collect()
}

#[test]
fn many_sessions_are_decided_in_little_memory() {
    let scratch = Scratch::new("sessions");
    let path = scratch.file("h.txt", &many_sessions(50_000));
    for level in ["causal", "prefix", "psi", "strong-session-snapshot-isolation", "serializable"] {
        within(1_000_000, &format!("$ANOMALIST check {path} --level {level}")).expect(0);
    }
    within(1_000_000, &format!("$ANOMALIST check {path}")).expect(0);
}

#[test]
fn a_limit_on_memory_makes_the_answer_unknown() {
    let scratch = Scratch::new("memory");
    let path = scratch.file("h.txt", &many_sessions(300_000));
    let run = anomalist(&["check", &path, "--level", "causal", "--memory", "10MB"]).expect(2);
    let said = on_one_line(&run.text());
    assert!(said.contains("it takes at least"), "{said}");
    assert!(said.contains("10 MB are allowed (--memory allows more)"), "{said}");
    let run = anomalist(&["check", &path, "--level", "causal", "--memory", "10MB", "--json"]).expect(2);
    assert_eq!(run.json()["levels"][0]["reason_code"], "memory");
    for reader in READERS {
        let run = within(4_000_000, &command(reader, &path, "--memory 10MB")).expect(2);
        let said = on_one_line(&(run.stderr() + &run.text()));
        assert!(said.contains("10 MB are allowed"), "{reader:?}: {said}");
    }
    anomalist(&["check", &path, "--level", "causal", "--memory", "1GB"]).expect(0);
}

/// Whatever the limit is, from a little above that with which the program just starts: the run ends by
/// itself, decided or unknown, with a sentence and without an abort. Below it the system does not load the
/// program, or the C library has no room for a thread and ends it.
#[test]
fn no_limit_on_the_address_space_ends_in_an_abort() {
    let scratch = Scratch::new("space");
    let path = scratch.file("h.txt", &many_sessions(60_000));
    let starts = |kilobytes: &u32| within(*kilobytes, "$ANOMALIST --version").ended_with(0);
    let least = (10_000..1_000_000).step_by(2_000).find(starts).unwrap() + 6_000;
    let mut unknown = 0;
    for more in [0, 2_000, 5_000, 10_000, 25_000, 60_000, 400_000] {
        let kilobytes = least + more;
        for reader in READERS {
            let run = within(kilobytes, &command(reader, &path, "--threads 2"));
            let said = run.text() + &run.stderr();
            assert!(
                [0, 1, 2].map(|status| run.ended_with(status)).contains(&true),
                "{kilobytes} {reader:?}: {said}"
            );
            assert!(!said.contains("internal error"), "{kilobytes} {reader:?}: {said}");
            // Elle's unknown is the answer to this history where there is room for it.
            if run.ended_with(2) && reader[0] != "shrink" && !said.contains("nothing could be seen") {
                assert!(said.contains("it takes"), "{kilobytes} {reader:?}: {said}");
                unknown += 1;
            }
        }
    }
    assert!(unknown > 0, "no limit was too small");
    let run = within(least, &command(READERS[0], &path, "--json")).expect(2);
    assert_eq!(run.json()["error"]["kind"], "memory");
}

/// Ctrl-C while a command waits for input that does not come.
#[test]
fn waiting_for_input_can_be_interrupted() {
    for reader in READERS {
        let args: Vec<&str> = [&reader[..1], &["-"], &reader[1..]].concat();
        let mut child = Command::new(env!("CARGO_BIN_EXE_anomalist"))
            .args(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"w(1,1,0,0)\n").unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let since = Instant::now();
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(2), "{args:?}");
        assert!(since.elapsed() < Duration::from_secs(2), "{args:?}: {:?}", since.elapsed());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("interrupted"), "{args:?}: {said}");
        drop(stdin);
    }
}

#[test]
fn a_blank_input_from_a_pipe_is_refused() {
    let run = anomalist_with(&["check", "-"], &[0; 100]).expect(3);
    assert!(run.stderr().contains("standard input: byte 0: a NUL byte"), "{}", run.stderr());
}
