//! Reads the server's log, and says how far it was read.
//!
//! Transactions are written to the history when everything was read that they could have seen. Ten times a
//! second the server is asked for the end of its log: what ended before the question has seen nothing that
//! was logged later. With the same question it says whether a table has another name.
//!
//! If the server restarts, or the connection is lost, a new slot is made. What was logged in between was not
//! seen, and is missing in the history.

use crate::catalogue::{Catalogue, FINGERPRINT};
use crate::decode::{self, Columns, Line};
use crate::error::{Error, refused};
use crate::ledger::{Change, Event, Logged, LoggedRow, completed};
use crate::shared::Shared;
use anomalist_databases::{Connection, Database, LogStream, Logged as Message, Target};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

/// How often the end of the log is asked for.
const MARKS: Duration = Duration::from_millis(100);
/// How long transactions that began before the recording may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the last transactions are waited for when the recording ends.
const LAST: Duration = Duration::from_secs(10);
/// How long a server that is gone is left alone.
const PAUSE: Duration = Duration::from_millis(300);

/// The end of the log at a moment.
struct Mark {
    place: u64,
    time: u64,
}

/// The log of a server, from the beginning of a recording.
pub(crate) struct Log {
    target: Target,
    admin: Box<dyn Connection>,
    stream: LogStream,
    pub slot: String,
    /// The first number that no transaction had when the recording began.
    pub boundary: u64,
    /// When the server was started.
    life: String,
    fingerprint: String,
    recent: u64,
}

fn texts(admin: &mut dyn Connection, sql: &str) -> Result<Vec<String>, anomalist_databases::Error> {
    let reply = admin.query(sql, &[])?;
    let row = reply.rows.into_iter().next().unwrap_or_default();
    Ok(row.iter().map(|value| value.as_text().unwrap_or_default().to_owned()).collect())
}

fn first(admin: &mut dyn Connection, sql: &str) -> Result<String, anomalist_databases::Error> {
    Ok(texts(admin, sql)?.into_iter().next().unwrap_or_default())
}

/// A place in the log, `16/B374D848`, as one number. The end of the log may be behind the head of a page
/// that has nothing else yet.
fn place(text: &str) -> Option<u64> {
    const PAGE: u64 = 8192;
    const HEAD: u64 = 24;
    let (high, low) = text.split_once('/')?;
    let place = u64::from_str_radix(high, 16).ok()? << 32 | u64::from_str_radix(low, 16).ok()?;
    Some(if place % PAGE == HEAD { place - HEAD } else { place })
}

impl Log {
    /// Connects, makes the slot, and waits until all transactions that were open have ended.
    pub fn start(target: &Target) -> Result<(Log, Catalogue), Error> {
        let target = target.clone().with_statement_timeout(PATIENCE);
        let mut admin = target.connect().map_err(refused("cannot connect"))?;
        let ask = refused("cannot ask the server for its settings");
        let version = first(&mut *admin, "SELECT current_setting('server_version')").map_err(&ask)?;
        if version.split('.').next().and_then(|n| n.parse().ok()).is_some_and(|major: u32| major < 13) {
            return Err(Error::Version(version));
        }
        let level = first(&mut *admin, "SELECT current_setting('wal_level')").map_err(&ask)?;
        if level != "logical" {
            return Err(Error::WalLevel(level));
        }
        let life = first(&mut *admin, LIFE).map_err(&ask)?;
        let (stream, slot) = slot(&target).map_err(refused("cannot read the server's log"))?;
        let boundary = boundary(&mut *admin)?;
        let fingerprint = first(&mut *admin, FINGERPRINT).map_err(&ask)?;
        let catalogue = Catalogue::read(&mut *admin)?;
        let log = Log { target, admin, stream, slot, boundary, life, fingerprint, recent: boundary };
        Ok((log, catalogue))
    }

    /// Reads until the recording is to end.
    pub fn run(mut self, shared: &Shared, sender: &Sender<Event>) {
        let mut reader = Reader { shared, sender, marks: VecDeque::new(), open: None };
        loop {
            let read = self.read(&mut reader);
            if read.is_ok() || shared.stopping.load(Ordering::SeqCst) {
                break;
            }
            // The other end is gone if the writer has failed.
            if sender.send(Event::Gap).is_err() {
                return;
            }
            reader.marks.clear();
            reader.open = None;
            while !shared.stopping.load(Ordering::SeqCst) && self.reconnect(&mut reader).is_err() {
                thread::sleep(PAUSE);
            }
        }
        let _ = sender.send(Event::Finish);
    }

    fn reconnect(&mut self, reader: &mut Reader<'_>) -> Result<(), Error> {
        self.admin = self.target.connect().map_err(refused("cannot connect"))?;
        let life = first(&mut *self.admin, LIFE).map_err(refused("cannot connect"))?;
        (self.stream, self.slot) = slot(&self.target).map_err(refused("cannot read the server's log"))?;
        if life != self.life {
            self.life = life;
            reader.shared.era.fetch_add(1, Ordering::SeqCst);
        }
        self.look_again(reader, true)
    }

    /// Reads the catalogue again, if definitions have changed.
    fn look_again(&mut self, reader: &mut Reader<'_>, surely: bool) -> Result<(), Error> {
        let stale = reader.shared.take_stale();
        let ask = refused("cannot read the catalogue");
        let fingerprint = first(&mut *self.admin, FINGERPRINT).map_err(&ask)?;
        if !surely && !stale && fingerprint == self.fingerprint {
            return Ok(());
        }
        self.fingerprint = fingerprint;
        let catalogue = Catalogue::read(&mut *self.admin)?;
        let before = reader.shared.replace(catalogue);
        let now = reader.shared.catalogue();
        reader.say(Event::Changed(now.changed_since(&before)));
        reader.say(Event::Catalogue(now));
        Ok(())
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Error> {
        let lost = refused("the server's log is gone");
        let mut marked: Option<Instant> = None;
        let mut last: Option<(u64, Instant)> = None;
        loop {
            match self.stream.receive().map_err(&lost)? {
                Some(Message::Text(line)) => self.line(reader, &line)?,
                Some(Message::Reached(place)) => {
                    let passed = reader.reached(place);
                    if last.is_some_and(|(time, _)| passed.is_some_and(|passed| passed >= time)) {
                        return Ok(());
                    }
                }
                None => {}
            }
            if last.is_some_and(|(_, since)| since.elapsed() > LAST) {
                return Ok(());
            }
            if marked.is_none_or(|marked| marked.elapsed() >= MARKS) {
                let is_last = last.is_none() && reader.shared.stopping.load(Ordering::SeqCst);
                let time = self.mark(reader)?;
                if is_last {
                    last = Some((time, Instant::now()));
                }
                marked = Some(Instant::now());
            }
        }
    }

    /// Notes the end of the log at this moment.
    fn mark(&mut self, reader: &mut Reader<'_>) -> Result<u64, Error> {
        let time = reader.shared.now();
        let asked = first(&mut *self.admin, "SELECT pg_catalog.pg_current_wal_insert_lsn()::text");
        let asked = asked.map_err(refused("cannot ask for the end of the log"))?;
        self.look_again(reader, false)?;
        if let Some(place) = place(&asked) {
            reader.marks.push_back(Mark { place, time });
        }
        self.stream.ask().map_err(refused("the server's log is gone"))?;
        Ok(time)
    }

    fn line(&mut self, reader: &mut Reader<'_>, line: &str) -> Result<(), Error> {
        match decode::line(line) {
            Line::Begin(bits) => {
                self.recent = completed(self.recent, bits);
                let era = reader.shared.era.load(Ordering::SeqCst);
                let at = reader.shared.now();
                reader.open = Some(Logged { era, number: self.recent, at, rows: Vec::new() });
            }
            Line::Commit => {
                if let Some(logged) = reader.open.take() {
                    reader.say(Event::Logged(logged));
                }
            }
            Line::Change(change) => {
                let mut table = reader.shared.catalogue().logged(&change.schema, &change.table).cloned();
                if table.is_none() && reader.shared.is_stale() {
                    self.look_again(reader, true)?;
                    table = reader.shared.catalogue().logged(&change.schema, &change.table).cloned();
                }
                if let (Some(table), Some(open)) = (table, &mut reader.open) {
                    let key = |columns: &Columns| -> Option<Vec<String>> {
                        let value =
                            |name: &String| columns.iter().find(|(column, _)| column == name)?.1.clone();
                        table.key.iter().map(|c| value(&c.name)).collect()
                    };
                    let (old, new) = (change.old.as_ref().and_then(key), change.new.as_ref().and_then(key));
                    let mut push = |key: Option<Vec<String>>, change: Change| {
                        open.rows.extend(key.map(|key| LoggedRow { table: table.clone(), key, change }));
                    };
                    // With another key the row is another one.
                    if change.is_update && (change.old.is_none() || old == new) {
                        push(new, Change::Updated);
                    } else {
                        push(old, Change::Deleted);
                        push(new, Change::Inserted);
                    }
                }
            }
            Line::Other => {}
        }
        Ok(())
    }
}

/// What the reading of the log adds up to.
struct Reader<'a> {
    shared: &'a Shared,
    sender: &'a Sender<Event>,
    marks: VecDeque<Mark>,
    open: Option<Logged>,
}

impl Reader<'_> {
    fn say(&self, event: Event) {
        // The writer may have failed; then the recording is about to be stopped.
        let _ = self.sender.send(event);
    }

    /// The log was read up to a place: says which moment that is.
    fn reached(&mut self, place: u64) -> Option<u64> {
        let mut time = None;
        while self.marks.front().is_some_and(|mark| mark.place <= place) {
            time = self.marks.pop_front().map(|mark| mark.time);
        }
        if let Some(time) = time {
            // Asked for before the events are taken that sessions have sent until now.
            let oldest = self.shared.oldest().min(time);
            self.say(Event::Passed { time, oldest });
        }
        time
    }
}

/// When the server was started.
const LIFE: &str = "SELECT pg_catalog.pg_postmaster_start_time()::text";

/// Makes a slot and streams from it.
fn slot(target: &Target) -> Result<(LogStream, String), anomalist_databases::Error> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("anomalist_record_{}_{count}", std::process::id());
    Ok((LogStream::start(target, &name)?, name))
}

/// The first number that no transaction has, when all with smaller ones have ended.
fn boundary(admin: &mut dyn Connection) -> Result<u64, Error> {
    let ask = refused("cannot ask for a snapshot");
    let mut number = |sql: &str| -> Result<u64, Error> {
        let text = first(admin, sql).map_err(&ask)?;
        Ok(text.parse().unwrap_or_default())
    };
    let boundary = number("SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text")?;
    let since = Instant::now();
    while number("SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text")? < boundary {
        if since.elapsed() > PATIENCE {
            return Err(Error::StillRunning(PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(boundary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_numbers() {
        assert_eq!(place("16/B374D848"), Some(0x16_B374_D848));
        assert_eq!(place("0/3000018"), Some(0x300_0000), "nothing but the head of a page");
        assert_eq!(place("16"), None);
        let epoch = 1u64 << 32;
        assert_eq!(completed(3 * epoch + 5, 7), 3 * epoch + 7);
        assert_eq!(completed(3 * epoch + 5, u32::MAX - 1), 3 * epoch - 2);
        assert_eq!(completed(3 * epoch - 2, 4), 3 * epoch + 4);
        assert_eq!(completed(2, u32::MAX), epoch - 1, "there is nothing before the first");
    }
}
