//! Writes a few tiny valid files per fuzz target into the folder that `SEEDS` names. A fuzz target that does nothing but that:
//! what is instrumented can only be linked with the fuzzer.
#![no_main]

use anomalist_format::{Format, Sink};
use anomalist_history::{AtomKind, Builder, History, Interval, OpKind, Outcome, Stamps, Timestamp, Value};
use std::path::Path;

libfuzzer_sys::fuzz_target!(init: write_seeds(), |_bytes: &[u8]| {});

/// A certificate of the history of the target `certificate`, with one of everything.
const CERTIFICATE: &str = r#"{"schema":1,"history":{"fingerprint":"FINGERPRINT"},
"verdicts":[{"level":"causal","verdict":"violated","anomalies":["conflict-cm"]},{"level":"read-committed","verdict":"holds"}],
"anomalies":[{"kind":"conflict-cm","transactions":["1","3"],"operations":[["1",0],["3",2]],"edges":[
{"from":"1","to":"3","type":"wr","write":["1",0],"read":["3",0]},{"from":null,"to":"1","type":"so"},
{"from":"1","to":"2","type":"ww","first":["1",1],"second":["2",2],"read":["3",2]},
{"from":"3","to":"2","type":"rw","read":["3",1],"overwritten":null,"overwriting":["2",1],"shown_by":null},
{"from":"2","to":"1","type":"cm","read":["3",0],"overwritten":["1",0],"visible_write":["2",0],"path":[{"from":"1","to":"2","type":"so"}]}]}],
"proofs":[{"levels":["read-committed"],"verdict":"holds","commits":["1","2","3"],"choices":[{"read":["3",0],"write":["2",0]}]},
{"levels":["prefix"],"verdict":"holds","events":[["begin","1"],["commit","1"]]},
{"levels":["serializable"],"verdict":"violated","steps":[
{"clause":[{"reads":{"read":["3",0],"write":["1",0]}},{"reads":{"read":["3",0],"write":["2",0]}}],"source":{"read":["3",0],"element":0}},
{"clause":[{"not_reads":{"read":["3",0],"write":["1",0]}},{"before":[["commit","2"],["commit","1"]]},{"before":[["begin","3"],["commit","2"]]}],
"axiom":{"read":["3",0],"write":["1",0],"other":["2",0],"path":["1"]}},
{"clause":[{"before":[["commit","1"],["commit","2"]]}],"version":{"read":["3",2],"first":["1",1],"second":["2",2]}},
{"clause":[{"before":[["commit","1"],["commit","2"]]}],"cycle":[["commit","1"],["commit","2"]]},
{"clause":[],"conflict":[["1",0],["2",0]]},{"clause":[{"not_committed":"4"}],"impossible":["4",0]},
{"clause":[{"committed":"4"}],"observed":{"read":["3",0],"write":["1",0]}},
{"clause":[],"intermediate":{"read":["3",0],"write":["1",0]}},{"clause":[],"implied":[0,1]}]}]}"#;

fn write_seeds() {
    let corpus = std::env::var_os("SEEDS").expect("SEEDS names a folder");
    let corpus = Path::new(&corpus);
    std::fs::create_dir_all(corpus.join("certificate")).expect("the corpus can be created");
    std::fs::write(corpus.join("certificate/seed"), CERTIFICATE).expect("the corpus can be written");
    write_messages(corpus);
    for &format in Format::ALL {
        let folder = corpus.join(format.name());
        std::fs::create_dir_all(&folder).expect("the corpus can be created");
        for (i, history) in histories().iter().enumerate() {
            let name = format!("seed-{i}");
            for (n, bytes) in files(format, history).into_iter().enumerate() {
                let also = if format.name().starts_with("elle") { "events" } else { "detect" };
                for folder in [&folder, &corpus.join("detect"), &corpus.join(also)] {
                    std::fs::create_dir_all(folder).expect("the corpus can be created");
                    let name = format!("{name}-{n}-{}", format.name());
                    std::fs::write(folder.join(name), &bytes).expect("the corpus can be written");
                }
            }
        }
    }
}

/// The files of a history in a format; none if it has none.
fn files(format: Format, history: &History) -> Vec<Vec<u8>> {
    if !format.is_folder() {
        return anomalist_fuzz::write(format, history, true).into_iter().collect();
    }
    let folder = std::env::temp_dir().join(format!("anomalist-seeds-{}", std::process::id()));
    let written =
        anomalist_format::writer(format, Sink::Directory(folder.clone()), true).and_then(|mut writer| {
            writer.append(history)?;
            writer.finish()
        });
    let mut files = Vec::new();
    if written.is_ok() {
        for entry in std::fs::read_dir(&folder).expect("the folder was written") {
            files.push(std::fs::read(entry.expect("it is listed").path()).expect("it is readable"));
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    files.sort();
    files
}

fn histories() -> Vec<History> {
    let mut all = Vec::new();
    for kind in 0..6 {
        let mut b = Builder::new();
        b.set_initial_default([None, Value::int(0), Some(Value::NIL)][kind % 3]);
        for n in 0..3i64 {
            let session = b.int(n % 2);
            let session = b.session(session);
            let draft = b.transaction(session);
            let (one, two, minus) = (b.int(n + 1), b.int(n), b.int(-5 - n));
            let word = b.atom(AtomKind::Text, "é\n");
            let keyword = b.atom(AtomKind::Keyword, "k");
            let large = b.atom(AtomKind::Token, "99999999999999999999");
            let list = b.list(&[one, two]);
            let compound = b.atom(AtomKind::Compound, "[1 {\"a\" nil}]");
            let (x, y) = (b.int(1), if kind == 5 { keyword } else { b.int(2) });
            let (x, y) = (b.key(x), b.key(y));
            match kind {
                0 | 1 => {
                    b.op(draft, OpKind::Write, x, one);
                    b.op(draft, OpKind::Read, y, two);
                }
                2 => {
                    b.op(draft, OpKind::Write, x, minus);
                    b.op(draft, OpKind::Read, y, Value::NIL);
                }
                3 | 4 => {
                    b.op(draft, OpKind::Append, x, one);
                    b.op(draft, OpKind::Read, x, list);
                }
                _ => {
                    b.op(draft, OpKind::Write, x, word);
                    b.op(draft, OpKind::Write, y, large);
                    b.op(draft, OpKind::Write, y, compound);
                    b.op(draft, OpKind::Read, y, compound);
                    b.op(draft, OpKind::Read, x, keyword);
                }
            }
            if kind > 1 && kind != 4 && n > 0 {
                b.set_outcome(draft, if n == 1 { Outcome::Aborted } else { Outcome::Indeterminate });
            }
            let at = |physical| Timestamp { physical, logical: 0 };
            b.set_stamps(draft, Stamps { start: at(n), commit: at(n + 1) });
            if kind % 2 == 1 {
                let completed = (n < 2).then_some(2 * n as u64 + 1);
                b.set_interval(draft, Interval { invoked: 2 * n as u64, completed });
            }
            b.set_metadata(draft, "level", "serializable");
        }
        all.push(b.finish().expect("it is small"));
    }
    all
}

/// Statements, and messages that carry them.
fn write_messages(corpus: &Path) {
    let put = |target: &str, name: String, bytes: Vec<u8>| {
        std::fs::create_dir_all(corpus.join(target)).expect("the corpus can be created");
        std::fs::write(corpus.join(target).join(name), bytes).expect("the corpus can be written");
    };
    for (n, sql) in STATEMENTS.iter().enumerate() {
        for target in ["sql-text", "sql-run", "instrument"] {
            put(target, format!("seed-{n}"), sql.as_bytes().to_vec());
        }
        let query = [sql.as_bytes(), b"\0"].concat();
        let parse = [b"\0", sql.as_bytes(), b"\0\0\0"].concat();
        let run = [message(b'P', &parse), message(b'B', &[0; 8]), message(b'D', b"P\0"), message(b'E', &[0; 5])];
        put("postgres-wire", format!("seed-{n}-simple"), [vec![1], message(b'Q', &query)].concat());
        put("postgres-wire", format!("seed-{n}"), [&[1][..], &run.concat(), &message(b'S', b"")].concat());
        let text = packet(&[b"\x03", sql.as_bytes()].concat());
        let prepared = [packet(&[b"\x16", sql.as_bytes()].concat()), packet(b"\x17\x01\0\0\0\0\x01\0\0\0")];
        put("mysql-wire", format!("seed-{n}-text"), [vec![1], text].concat());
        put("mysql-wire", format!("seed-{n}"), [vec![1], prepared.concat()].concat());
        let request = format!("POST /session {{}}\nPOST /sql {{\"session\": 1, \"sql\": {sql:?}}}\nDELETE /session/1");
        put("http-requests", format!("seed-{n}"), request.into_bytes());
    }
    let keys = r#"POST /kv {"operations": [["begin"], ["write", "x", [1, null]], ["cas", "x", 1, 2], ["scan", ""], ["commit"]]}"#;
    put("http-requests", "seed-keys".to_owned(), keys.into());
    for (n, line) in LINES.iter().enumerate() {
        put("stream-lines", format!("seed-{n}"), line.as_bytes().to_vec());
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn packet(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes()[..3], &[0], body].concat()
}

const STATEMENTS: [&str; 12] = [
    "SELECT id, sum(b) OVER (ORDER BY id) FROM t WHERE a LIKE 'x%' GROUP BY id, b HAVING count(*) > 0",
    "WITH RECURSIVE e(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e WHERE n < 9) SELECT * FROM e, t",
    "INSERT INTO t (id, a) VALUES (3, $1), (4, DEFAULT) ON CONFLICT (id) DO UPDATE SET a = excluded.a RETURNING *",
    "INSERT INTO t (id, a) VALUES (3, ?) ON DUPLICATE KEY UPDATE a = VALUES(a)",
    "UPDATE t SET b = round(b * 1.10, 1), c = c + INTERVAL '1 day' WHERE id IN (SELECT id FROM t) RETURNING id",
    "DELETE FROM t WHERE d[1] = ANY(ARRAY[1, 2]) OR c::date = '2020-02-02'",
    "BEGIN; SAVEPOINT s; SELECT * FROM t FOR UPDATE; ROLLBACK TO s; COMMIT",
    "CREATE TABLE u (k SERIAL, v VARCHAR(9) CHECK (v <> ''), PRIMARY KEY (k)); CREATE VIEW w AS SELECT v FROM u",
    "SET statement_timeout = '1s'; SHOW statement_timeout; SELECT @@max_allowed_packet; SHOW VARIABLES",
    "SELECT to_char(now(), 'YYYY'), extract(year FROM c), 'a' ~ '[[:alpha:]]+', CAST('1.5' AS DECIMAL(4,1)) FROM t",
    "DECLARE q CURSOR WITH HOLD FOR SELECT * FROM t; FETCH 2 FROM q; CLOSE q; KILL QUERY 7",
    "SELECT a.relname, b.attname FROM pg_class a JOIN pg_attribute b ON a.oid = b.attrelid -- catalogue\n",
];

const LINES: [&str; 4] = [
    r#"{"session":1,"ops":[["w","x",7],["r","y",null]],"start":3,"commit":[4,1]}"#,
    r#"{"anomalist":1,"initial":0}"#,
    r#"{"sid":1,"sno":0,"tid":"a","ops":[{"t":"w","k":"x","v":1}],"sts":{"p":1,"l":0},"cts":{"p":2,"l":0}}"#,
    r#"{"id":"t","session":"s","snapshot":"1:3:2","xid":5,"commit":9,"outcome":"indeterminate","ops":[]}"#,
];
