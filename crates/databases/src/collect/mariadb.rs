//! MariaDB: a consistent snapshot with its place in the binary log, and the events of that log.
//!
//! A transaction is in the log from its Gtid event to its Xid event (a statement of the schema: to the one
//! event after its Gtid). Its place is where it ends, and a snapshot at a place contains what ends up to
//! there.

use super::{Collector, Commit, Ended, Seen};
use crate::{Connection, Database, Error, Isolation, Kind, Target, Value};
use anomalist_client::EngineError;

/// Asks for the place of the snapshot, one session at a time.
///
/// The server keeps a place per transaction but shows it through variables that all its sessions share: of
/// two that ask at once, one may get the other's place. So we queue behind a named lock; the whole is one
/// message.
const PLACE: &str = "DO GET_LOCK('anomalist.binlog_snapshot', 60); SHOW STATUS LIKE 'binlog_snapshot_%'; \
                     DO RELEASE_LOCK('anomalist.binlog_snapshot')";

/// Bits of a place that are the offset in a file; the others are the file's number.
const OFFSET: u32 = 40;

pub(super) fn begin(session: &mut dyn Connection, isolation: &Isolation) -> Result<Seen, Error> {
    let snapshot = format!("{} WITH CONSISTENT SNAPSHOT", isolation.begin());
    session.begin(&Isolation::new(isolation.name(), isolation.setup(), snapshot))?;
    let replies = session.run(PLACE)?;
    let rows: Vec<_> = replies.iter().flat_map(|reply| &reply.rows).collect();
    let value = |name: &str| {
        let named = |row: &&&Vec<Value>| {
            row.first().and_then(Value::as_text).is_some_and(|n| n.eq_ignore_ascii_case(name))
        };
        rows.iter().find(named).and_then(|row| row.get(1)).and_then(Value::as_text)
    };
    let offset = value("binlog_snapshot_position").and_then(|text| text.parse().ok());
    let found = value("binlog_snapshot_file").zip(offset).and_then(|(file, offset)| place(file, offset));
    found.map(Seen::UpTo).ok_or_else(|| Error::new(Kind::Unsupported, "the server writes no binary log"))
}

pub(super) fn commit(session: &mut dyn Connection) -> Ended {
    // What a session wrote last stays, so it is cleared by asking before and after.
    let last = |session: &mut dyn Connection| -> Result<Option<u64>, Error> {
        let reply = session.query("SELECT @@last_gtid", &[])?;
        Ok(reply.value().and_then(Value::as_text).and_then(sequence))
    };
    let before = match last(session) {
        Ok(before) => before,
        Err(error) => return Ended { number: None, result: Err(error) },
    };
    let result = session.commit();
    let number = match result {
        // If the session is lost right now, the number is; the commit is not.
        Ok(()) => last(session).ok().flatten().filter(|&number| Some(number) != before),
        Err(_) => None,
    };
    Ended { number, result }
}

/// The place of an offset in a file such as `binlog.000012`.
fn place(file: &str, offset: u64) -> Option<u64> {
    let number: u64 = file.rsplit_once('.')?.1.parse().ok()?;
    Some(number << OFFSET | offset)
}

/// The sequence number of a GTID such as `0-1-17`.
fn sequence(gtid: &str) -> Option<u64> {
    gtid.rsplit_once('-')?.1.parse().ok()
}

/// Where in the binary log we are.
pub(super) struct Binlog {
    target: Target,
    session: Option<Box<dyn Connection>>,
    file: String,
    offset: u64,
    /// The transaction whose end has not come yet, and whether it is a single statement.
    open: Option<(u64, bool)>,
    /// What was read and not handed over yet: the server may be gone before the end of the log is reached.
    found: Vec<Commit>,
}

impl Binlog {
    pub(super) fn new(target: &Target) -> Result<Binlog, Error> {
        let mut session = target.connect()?;
        let status = session.query("SHOW MASTER STATUS", &[])?;
        let row = status.rows.first().map(Vec::as_slice).unwrap_or_default();
        let file = row.first().and_then(Value::as_text).map(str::to_owned);
        let offset = row.get(1).and_then(Value::as_int).and_then(|o| u64::try_from(o).ok());
        let Some((file, offset)) = file.zip(offset) else {
            return Err(Error::new(Kind::Unsupported, "the server writes no binary log"));
        };
        Ok(Binlog {
            target: target.clone(),
            session: Some(session),
            file,
            offset,
            open: None,
            found: Vec::new(),
        })
    }

    fn run(&mut self, sql: &str) -> Result<Vec<Vec<Value>>, Error> {
        match &mut self.session {
            Some(session) if !session.is_lost() => {}
            gone => *gone = Some(self.target.connect()?),
        }
        let session = self.session.as_mut().ok_or_else(|| Error::new(Kind::Lost, "no session"))?;
        Ok(session.run(sql)?.into_iter().next().unwrap_or_default().rows)
    }

    /// Takes one event: place, kind, end and text.
    fn event(&mut self, row: &[Value]) -> Result<(), Error> {
        let odd = || Error::new(Kind::Other, format!("cannot read the event {row:?}"));
        let text = |at: usize| row.get(at).and_then(Value::as_text).ok_or_else(odd);
        let end = row.get(4).and_then(Value::as_int).and_then(|e| u64::try_from(e).ok()).ok_or_else(odd)?;
        let (kind, info) = (text(2)?, text(5)?);
        if kind == "Gtid" {
            let gtid = info.split_whitespace().skip_while(|word| *word != "GTID").nth(1);
            let number = gtid.and_then(sequence).ok_or_else(odd)?;
            self.open = Some((number, !info.starts_with("BEGIN")));
        } else if let Some((number, single)) = self.open
            && (single || kind == "Xid" || kind == "Query" && info.eq_ignore_ascii_case("COMMIT"))
        {
            self.open = None;
            let place = place(&self.file, end).ok_or_else(odd)?;
            self.found.push(Commit { number, place, at: 0, era: 0 });
        }
        // Events that are not in the file have no end.
        self.offset = self.offset.max(end);
        Ok(())
    }
}

impl Collector for Binlog {
    fn poll(&mut self) -> Result<Vec<Commit>, EngineError> {
        const PAGE: usize = 5_000;
        loop {
            let asked = format!("SHOW BINLOG EVENTS IN '{}' FROM {} LIMIT {PAGE}", self.file, self.offset);
            let events = self.run(&asked)?;
            for event in &events {
                self.event(event)?;
            }
            if events.len() == PAGE {
                continue;
            }
            // The server goes on in another file when one is full, and when it starts.
            let files = self.run("SHOW BINARY LOGS")?;
            let names = files.iter().filter_map(|row| row.first().and_then(Value::as_text));
            match names.skip_while(|name| *name != self.file).nth(1) {
                // Something may have come at the end of the old one meanwhile.
                Some(_) if !events.is_empty() => {}
                Some(next) => (self.file, self.offset, self.open) = (next.to_owned(), 4, None),
                None => return Ok(std::mem::take(&mut self.found)),
            }
        }
    }

    fn finish(self: Box<Self>) -> Result<(), EngineError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cancel, Family, Product, Reply};
    use std::collections::VecDeque;
    use std::sync::Arc;

    /// Answers what it was given, one call after the other.
    struct Script(Product, VecDeque<Result<Vec<Vec<Value>>, Error>>);

    impl Connection for Script {
        fn product(&self) -> &Product {
            &self.0
        }

        fn run(&mut self, sql: &str) -> Result<Vec<Reply>, Error> {
            let rows = self.1.pop_front().unwrap_or_else(|| panic!("no answer is left for {sql}"))?;
            Ok(vec![Reply { rows, ..Reply::default() }])
        }

        fn query(&mut self, sql: &str, _parameters: &[Value]) -> Result<Reply, Error> {
            Ok(self.run(sql)?.remove(0))
        }

        fn begin(&mut self, _isolation: &Isolation) -> Result<(), Error> {
            Ok(())
        }

        fn commit(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn rollback(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn in_transaction(&self) -> bool {
            false
        }

        fn is_lost(&self) -> bool {
            false
        }

        fn backend(&self) -> Option<u64> {
            None
        }

        fn canceller(&self) -> Arc<dyn Cancel> {
            unreachable!("nothing is cancelled")
        }
    }

    #[test]
    fn what_was_read_before_a_failure_is_told_after_it() {
        let event = |kind: &str, end: i64, info: &str| {
            let text = |text: &str| Value::Text(text.to_owned());
            vec![text("binlog.000001"), Value::Int(0), text(kind), Value::Int(1), Value::Int(end), text(info)]
        };
        let events = vec![event("Gtid", 300, "BEGIN GTID 0-1-7"), event("Xid", 400, "COMMIT /* xid=9 */")];
        let files = || Ok(vec![vec![Value::Text("binlog.000001".to_owned())]]);
        let gone = Err(Error::new(Kind::Lost, "the server is gone"));
        let answers = VecDeque::from([Ok(events), gone, Ok(Vec::new()), files()]);
        let mut log = Binlog {
            target: "mysql://localhost".parse().unwrap(),
            session: Some(Box::new(Script(Product::new(Family::Mysql, "MariaDB", "10.11"), answers))),
            file: "binlog.000001".to_owned(),
            offset: 4,
            open: None,
            found: Vec::new(),
        };
        assert!(log.poll().is_err(), "the files could not be listed");
        let numbers: Vec<u64> = log.poll().unwrap().iter().map(|commit| commit.number).collect();
        assert_eq!((numbers, log.offset), (vec![7], 400));
    }

    #[test]
    fn places_and_numbers() {
        assert_eq!(place("binlog.000002", 331), Some(2 << 40 | 331));
        assert!(place("binlog.000002", 4) > place("binlog.000001", 1 << 30));
        assert_eq!(place("binlog", 4), None);
        assert_eq!(sequence("0-1-17"), Some(17));
        assert_eq!(sequence(""), None);
    }
}
