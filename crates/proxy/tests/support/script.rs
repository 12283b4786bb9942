//! Clients that say exactly what is wanted, in a small language.

#![allow(dead_code, reason = "each file of tests uses a part")]

use anomalist_proxy::message::{self, put};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// Kinds and bodies.
pub type Messages = Vec<(u8, Vec<u8>)>;

/// The bytes of one step: the letter of a message, and what it contains.
fn bytes(step: &str) -> Vec<u8> {
    let (kind, rest) = step.split_at(1);
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let text = |word: &str| format!("{}\0", word.trim_matches('-'));
    let mut words = rest.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let body = match kind {
        "Q" | "f" => text(rest).into_bytes(),
        // Name (`-` for none) and text.
        "P" => [text(word()), format!("{} {}\0\0\0", word(), word())].concat().into_bytes(),
        // Portal, statement, and at most one value.
        "B" => {
            let names = [text(word()), text(word())].concat();
            let value = word();
            let count = i16::from(!value.is_empty());
            let length = (value.len() as i32).to_be_bytes();
            let value = if count == 1 { [&length[..], value.as_bytes()].concat() } else { Vec::new() };
            [names.as_bytes(), &[0, 0], &count.to_be_bytes(), &value, &[0, 0]].concat()
        }
        // Portal, and how many rows.
        "E" => [text(word()).as_bytes(), &word().parse::<i32>().unwrap_or(0).to_be_bytes()].concat(),
        "D" | "C" => [word().to_owned(), text(word())].concat().into_bytes(),
        "d" => rest.replace("\\t", "\t").replace("\\n", "\n").into_bytes(),
        // A function without arguments, by its number.
        "F" => [&rest.parse::<u32>().unwrap().to_be_bytes()[..], &[0; 6]].concat(),
        _ => Vec::new(),
    };
    let mut message = Vec::new();
    put(&mut message, kind.as_bytes()[0], &body).unwrap();
    message
}

/// The steps of a script, as it is written: `!` waits for a message.
pub fn steps(script: &str) -> impl Iterator<Item = &str> {
    script.split('|').map(str::trim)
}

/// All bytes that a script sends.
pub fn sent(script: &str) -> Vec<u8> {
    steps(script).filter(|step| !step.starts_with('!')).flat_map(bytes).collect()
}

pub struct Client {
    pub stream: TcpStream,
}

impl Client {
    pub fn connect(port: u16) -> (Client, Messages) {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let body = b"user\0postgres\0database\0postgres\0application_name\0t\0\0";
        stream.write_all(&(body.len() as i32 + 8).to_be_bytes()).unwrap();
        stream.write_all(&(3i32 << 16).to_be_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut client = Client { stream };
        let seen = client.until(b'Z');
        (client, seen)
    }

    pub fn until(&mut self, wanted: u8) -> Messages {
        let mut seen = Vec::new();
        loop {
            let (kind, length) = message::head(&mut self.stream).unwrap().expect("the server is still there");
            let body = message::read_exactly(&mut self.stream, length).unwrap();
            // The number of a process, in keys and notifications, differs by connection; the answer of the
            // only function that is called is random.
            seen.push((kind, if matches!(kind, b'K' | b'A' | b'V') { vec![] } else { body }));
            if kind == wanted {
                return seen;
            }
        }
    }

    /// Plays a script, and returns what the server says meanwhile.
    pub fn play(&mut self, script: &str) -> Messages {
        let mut seen = Vec::new();
        for step in steps(script) {
            match step.strip_prefix('!') {
                Some(kind) => seen.extend(self.until(kind.as_bytes()[0])),
                None => self.stream.write_all(&bytes(step)).unwrap(),
            }
        }
        seen
    }
}

/// Everything that the protocol has, each script on the state that the one before has left, and the
/// kinds of messages with which PostgreSQL answers.
pub const SCRIPTS: &[(&str, &str, &str)] = &[
    ("simple", "Q SELECT 1, NULL, 'ä'; SELECT 2 WHERE false; ; SELECT 3|!Z", "TDCTCTDCZ"),
    ("empty", "Q |!Z", "IZ"),
    ("notice", "Q DROP TABLE IF EXISTS nothing|!Z", "NCZ"),
    ("an error in the middle", "Q SELECT 1; SELECT 1/0; SELECT 3|!Z", "TDCEZ"),
    ("a transaction that fails", "Q BEGIN|!Z|Q SELEC|!Z|Q SELECT 1|!Z|Q COMMIT|!Z", "CZEZEZCZ"),
    ("copy in", "Q COPY t FROM STDIN|!G|d 1\\tone\\n2\\t|d two\\n|c|!Z", "GCZ"),
    ("copy in, given up", "Q COPY t FROM STDIN|!G|d 3\\tx\\n|f no|!Z", "GEZ"),
    ("copy in, refused", "Q COPY t FROM STDIN|!G|d bad\\tx\\n|d 5\\tx\\n|c|!Z", "GEZ"),
    ("copy out", "Q COPY t TO STDOUT; SELECT count(*) FROM t|!Z", "HddcCTDCZ"),
    (
        EXTENDED,
        "P s SELECT v FROM t WHERE id = $1::int|D S s|B - s 1|D P -|E -|S|B - s 2|E -|S|!Z|!Z",
        "1tT2TDCZ2DCZ",
    ),
    ("the unnamed statement outlives Sync", "P - SELECT 7|S|!Z|B - -|E -|S|!Z", "1Z2DCZ"),
    (
        "a pipeline that fails",
        "P - INSERT INTO t VALUES (8, 'eight')|B - -|E -|P - INSERT INTO t VALUES (8, 'again')|B - -|E -\
         |P - SELECT 'ignored'|B - -|E -|S|Q SELECT count(*) FROM t WHERE id = 8|!Z|!Z",
        "12C12EZTDCZ",
    ),
    ("a statement that is there", "P s SELECT 1|S|!Z|B - s 1|E -|S|!Z", "EZ2DCZ"),
    ("no such statement", "B - none|E -|S|!Z", "EZ"),
    (
        "portals",
        "Q BEGIN|!Z|P g SELECT generate_series(1, 5)|B a g|B b g|E a 2|E b 4|H|!s|E a 2|E a 2|C P b|E b 1|S|!Z\
         |Q ROLLBACK|!Z",
        "CZ122DDsDDDDsDDsDC3EZCZ",
    ),
    (
        "extended copy in, as libpq does it",
        "P - COPY t FROM STDIN|B - -|E -|S|!G|d 21\\tx\\n|c|S|!Z",
        "12GCZ",
    ),
    (
        "extended copy in, refused",
        "P - COPY t FROM STDIN|B - -|E -|S|!G|d bad\\tx\\n|c|S|!Z|Q SELECT count(*) FROM t|!Z",
        "12GEZTDCZ",
    ),
    ("close", "C S s|B - s 1|S|!Z", "3EZ"),
    ("a notification", "Q LISTEN c; NOTIFY c, 'hello'|!Z|Q UNLISTEN *|!Z", "CCAZCZ"),
    ("a parameter", "Q SET application_name = 'other'|!Z|Q RESET application_name|!Z", "CSZCSZ"),
    ("a long row", "Q SELECT repeat('x', 5000000), repeat('y', 100)|!Z", "TDCZ"),
    ("a function call", "F 1598|!Z", "VZ"),
    ("the end", "Q TRUNCATE t|!Z|Q DISCARD ALL|!Z", "CZCZ"),
];

/// The name of a script that tests use by itself.
pub const EXTENDED: &str = "extended";
