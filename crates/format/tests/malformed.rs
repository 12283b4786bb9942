//! No input makes a reader panic, hang or allocate without bound: it gets a history or a diagnostic.

mod common;

use anomalist_format::{Format, ReadError};
use common::{FORMATS, Random, bad, read};

/// A dbcop file of one session with one transaction with the given events.
fn dbcop(events: &[(bool, u64, u64, bool)]) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    for text in ["db", "1970", "1971"] {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.bytes());
    }
    for length in [1, 1, events.len() as u64] {
        bytes.extend(length.to_le_bytes());
    }
    for &(write, key, value, success) in events {
        bytes.push(u8::from(write));
        bytes.extend(key.to_le_bytes());
        bytes.extend(value.to_le_bytes());
        bytes.push(u8::from(success));
    }
    bytes.push(1);
    bytes
}

fn cobra(records: &[(u8, &[i64])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (tag, numbers) in records {
        bytes.push(*tag);
        bytes.extend(numbers.iter().flat_map(|n| n.to_be_bytes()));
    }
    bytes
}

fn sample(format: Format) -> Vec<u8> {
    match format {
        Format::Plume => b"w(1,1,1,1)\nr(1,1,2,2)\r\n\nw(12345678901,1,0,-1)\nr(1,0,2,2)  \nr(2,0,3,7)".to_vec(),
        Format::Awdit => b"w 1 1\n-----\nr 2 0\r\nw 2 1\n=====\nr 1 123456789012\n".to_vec(),
        Format::Dbcop => dbcop(&[(true, 1, 1, true), (false, 2, 0, true), (false, 2, 0, false)]),
        Format::Cobra => cobra(&[
            (b'S', &[1]),
            (b'W', &[5, 7, 8]),
            (b'R', &[0xbebe_ebee, 0xbebe_ebee, 7, 8]),
            (b'C', &[1]),
            (b'S', &[2]),
            (b'R', &[1, 5, 7, 8]),
            (b'A', &[2]),
        ]),
        _ => br#"{"value": [["r", 1, -5, false], ["w", 1, 6, true], ["d", 3, 4], ["range", 1, 2, [{"id": 1, "val": 6}], []]]}
{"value": [["i", "x", "nil", true]], "isInitial": true}
{"value": [["i", "x", 9223372036854775808, true]]}
"#
        .to_vec(),
    }
}

/// Reads in every way; a failure must say something about this file.
fn survives(format: Format, bytes: &[u8], what: &str) {
    for (format, lossy) in [(Some(format), false), (Some(format), true), (None, false)] {
        match read(format, bytes, lossy) {
            Ok(loaded) => assert!(loaded.history.txn_count() > 0, "{what}"),
            Err(ReadError::Malformed(found)) => {
                assert!(!found.is_empty() && found.iter().all(|d| d.file == "h"), "{what}");
                let _ = found[0].to_string();
            }
            Err(other) => panic!("{what}: {other}"),
        }
    }
}

#[test]
fn every_prefix() {
    for format in FORMATS {
        let bytes = sample(format);
        assert_eq!(read(None, &bytes, false).unwrap().format, format);
        for end in 0..bytes.len() {
            survives(format, &bytes[..end], &format!("{} prefix {end}", format.name()));
        }
    }
}

#[test]
fn mutations() {
    for format in FORMATS {
        let original = sample(format);
        for seed in 0..3000 {
            let random = &mut Random::new(seed);
            let mut bytes = original.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len());
                match random.below(5) {
                    0 => bytes[at] = random.next() as u8,
                    1 => bytes[at] ^= 1 << random.below(8),
                    2 => bytes.insert(at, b"(),=-\n 0123456789rwSRWCA\"[]{}"[random.below(29)]),
                    3 => {
                        bytes.remove(at);
                    }
                    _ => {
                        let (a, b) = (random.below(bytes.len()), random.below(bytes.len()));
                        let piece = bytes[a.min(b)..a.max(b)].to_vec();
                        bytes.splice(at..at, piece);
                    }
                }
                if bytes.is_empty() {
                    bytes.push(b'x');
                }
            }
            survives(format, &bytes, &format!("{} seed {seed}", format.name()));
        }
    }
}

#[test]
fn random_bytes() {
    for format in FORMATS {
        let head = sample(format);
        for seed in 0..2000 {
            let random = &mut Random::new(seed);
            // A good beginning gets further into a reader.
            let mut bytes = head[..random.below(head.len())].to_vec();
            let length = random.below(200);
            bytes.extend((0..length).map(|_| random.next() as u8));
            survives(format, &bytes, &format!("{} seed {seed}", format.name()));
        }
    }
}

#[test]
fn plume_says_where_and_what() {
    let after = |line: &str| bad(Format::Plume, format!("w(1,1,1,1)\n{line}").as_bytes());
    insta::assert_snapshot!(after("w(1,1,1"), @r#"
    error: h:2:8: expected ",<transaction>)" after the session
      2 | w(1,1,1
        |        ^ a Plume line is  r|w(<key>,<value>,<session>,<transaction>)
    "#);
    insta::assert_snapshot!(after("w(1,"), @r#"
    error: h:2:5: expected a value
      2 | w(1,
        |     ^ a Plume line is  r|w(<key>,<value>,<session>,<transaction>)
    "#);
    insta::assert_snapshot!(after("w(1,1,1,1"), @r#"
    error: h:2:10: expected ")" after the transaction
      2 | w(1,1,1,1
        |          ^ a Plume line is  r|w(<key>,<value>,<session>,<transaction>)
    "#);
    insta::assert_snapshot!(after("r[1,1,1,1]\n"), @r#"
    error: h:2:2: expected "(" after r or w
      2 | r[1,1,1,1]
        |  ^ a Plume line is  r|w(<key>,<value>,<session>,<transaction>)
    "#);
    insta::assert_snapshot!(after("r(1,1,1,-2)\n"), @r#"
    error: h:2:9: expected a transaction from 0, or -1 for an aborted operation
      2 | r(1,1,1,-2)
        |         ^ a Plume line is  r|w(<key>,<value>,<session>,<transaction>)
    "#);
    insta::assert_snapshot!(after("r(1,-1,1,2)\n"), @r#"
    error: h:2:5: expected a value
      2 | r(1,-1,1,2)
        |     ^ a Plume line is  r|w(<key>,<value>,<session>,<transaction>)
    "#);
    insta::assert_snapshot!(after("r(1,99999999999999999999,1,2)\n"), @r#"
    error: h:2:5: expected a number of at most 9223372036854775807
      2 | r(1,99999999999999999999,1,2)
        |     ^ a Plume line is  r|w(<key>,<value>,<session>,<transaction>)
    "#);
    insta::assert_snapshot!(after("r(1,1,1,2) x\n"), @r#"
    error: h:2:12: expected the end of the line after ")"
      2 | r(1,1,1,2) x
        |            ^ a Plume line is  r|w(<key>,<value>,<session>,<transaction>)
    "#);
    insta::assert_snapshot!(after("# comment\n"), @r#"
    error: h:2:1: expected r(…) or w(…)
      2 | # comment
        | ^ a Plume line is  r|w(<key>,<value>,<session>,<transaction>)
    "#);
}

#[test]
fn others_say_where_and_what() {
    insta::assert_snapshot!(bad(Format::Awdit, b"w 1 1\nr 1"), @r#"
    error: h:2:4: expected a value after the key
      2 | r 1
        |    ^ a line is  r|w <key> <value>;  = ends a session and - a transaction
    "#);
    insta::assert_snapshot!(bad(Format::Awdit, b"w 1 1\nr 1 2 3\n"), @r#"
    error: h:2:7: expected the end of the line after the value
      2 | r 1 2 3
        |       ^ a line is  r|w <key> <value>;  = ends a session and - a transaction
    "#);
    insta::assert_snapshot!(bad(Format::Awdit, b"w 1 1\nx 1 2\n"), @r#"
    error: h:2:1: expected r, w, - or =
      2 | x 1 2
        | ^ a line is  r|w <key> <value>;  = ends a session and - a transaction
    "#);
    let file = sample(Format::Dbcop);
    insta::assert_snapshot!(bad(Format::Dbcop, &file[..file.len() - 1]), @r#"error: h: byte 152: the file ends inside a transaction's success"#);
    insta::assert_snapshot!(bad(Format::Dbcop, &[&file[..], b"x"].concat()), @r#"error: h: byte 153: expected the end of the file, found 1 more"#);
    insta::assert_snapshot!(bad(Format::Dbcop, &[&file[..file.len() - 1], b"\x07"].concat()), @r#"error: h: byte 152: expected 0 or 1 for a transaction's success, found 7"#);
    let long_text = [&[0; 40][..], &u64::MAX.to_le_bytes()].concat();
    insta::assert_snapshot!(bad(Format::Dbcop, &long_text), @r#"error: h: byte 40: the header's info claims 18446744073709551615 bytes, but 0 are left"#);
    let log = sample(Format::Cobra);
    insta::assert_snapshot!(bad(Format::Cobra, &log[..20]), @r#"
    error: h: byte 9: the log ends inside a write record
      help: S, R, W, C and A are the records; logs with timestamps cannot be read
    "#);
    insta::assert_snapshot!(bad(Format::Cobra, &cobra(&[(b'S', &[1]), (b'C', &[2])])), @r#"
    error: h: byte 9: transaction 2 ends where 1 is open
      help: S, R, W, C and A are the records; logs with timestamps cannot be read
    "#);
    insta::assert_snapshot!(bad(Format::Cobra, &cobra(&[(b'S', &[1, 99])])), @r#"
    error: h: byte 9: expected a record, found "\x00"
      help: S, R, W, C and A are the records; logs with timestamps cannot be read
    "#);
    insta::assert_snapshot!(bad(Format::Viper, br#"{"value": [["r", 1, 2, false], ["w", 1"#), @r#"
    error: h:1:39: expected "," or "]", found the end of the file
      1 | …value": [["r", 1, 2, false], ["w", 1
        |                                      ^ a line is  {"value": [["r"|"w", <key>, <value>, <flag>], …]}
    "#);
    insta::assert_snapshot!(bad(Format::Viper, br#"{"value": [["r", 1, 2, false], ["cas", 1, 2]]}"#), @r#"
    error: h:1:33: expected "r", "w", "i", "d" or "range", found "cas"
      1 | {"value": [["r", 1, 2, false], ["cas", 1, 2]]}
        |                                 ^ a line is  {"value": [["r"|"w", <key>, <value>, <flag>], …]}
    "#);
    insta::assert_snapshot!(bad(Format::Viper, br#"{"values": []}"#), @r#"
    error: h:1:1: expected a field "value" with a list of operations
      1 | {"values": []}
        | ^ a line is  {"value": [["r"|"w", <key>, <value>, <flag>], …]}
    "#);
}

#[test]
fn unknown_and_empty_inputs() {
    let message = |bytes: &[u8]| read(None, bytes, false).unwrap_err().to_string();
    insta::assert_snapshot!(message(b""), @r#"error: h: no transaction: the input is empty"#);
    insta::assert_snapshot!(message(b"<html>\x00what is this"), @r#"
    error: h: byte 6: a NUL byte: no text, and no binary format that is read; the input begins with "<html>\x00what is this"
      help: the formats are plume, awdit, anomalist, timekiller, elle-jsonl, elle-json, elle-edn, viper, dbcop, cobra
    "#);
    insta::assert_snapshot!(bad(Format::Plume, b"\n\n"), @r#"error: h: no transaction in this file (read as plume)"#);
    insta::assert_snapshot!(bad(Format::Plume, b"r(1,1,1,-1)\n"), @r#"error: h: no transaction in this file (read as plume)"#);
}
