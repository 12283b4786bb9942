//! PostgreSQL: `pg_current_snapshot()` as the first statement, and a slot of logical decoding.
//!
//! What a slot tells is only looked at, and given up with the next call, when it has certainly arrived.

use super::{Collector, Commit, Ended, Seen};
use crate::{Connection, Database, Error, Isolation, Kind, Reply, Target, Value};
use anomalist_client::EngineError;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first statement fixes the snapshot, and is this one.
pub(super) fn begin(session: &mut dyn Connection, isolation: &Isolation) -> Result<Seen, Error> {
    session.begin(isolation)?;
    let asked = "SELECT pg_current_snapshot()::text, \
                 (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";
    let reply = session.query(asked, &[])?;
    let set = reply.value().and_then(Value::as_text).and_then(|text| text.parse().ok());
    let era = reply.rows.first().and_then(|row| moment(row, 1));
    set.zip(era).map(|(set, era)| Seen::Set { set, era }).ok_or_else(|| odd("a snapshot", &reply))
}

/// A number of microseconds.
fn moment(row: &[Value], at: usize) -> Option<u64> {
    row.get(at).and_then(Value::as_int).and_then(|micros| u64::try_from(micros).ok())
}

pub(super) fn commit(session: &mut dyn Connection) -> Ended {
    // Only if it has one: asking otherwise would give it one.
    match session.query("SELECT pg_current_xact_id_if_assigned()::text", &[]) {
        Ok(reply) => {
            let number = reply.value().and_then(Value::as_text).and_then(|text| text.parse().ok());
            Ended { number, result: session.commit() }
        }
        Err(error) => Ended { number: None, result: Err(error) },
    }
}

fn odd(what: &str, reply: &Reply) -> Error {
    Error::new(Kind::Other, format!("expected {what}, got {:?}", reply.value()))
}

/// A slot, and a session that reads it.
pub(super) struct Slot {
    target: Target,
    session: Option<Box<dyn Connection>>,
    name: String,
    /// A full transaction id not long ago, to complete the 32 bits of the log.
    recent: u64,
    /// The last place that was reported: the slot reports everything up to there again until the slot is
    /// moved, and after a crash.
    last: u64,
}

impl Slot {
    /// One that lasts outlives its session, and with it a restart of the server.
    pub(super) fn new(target: &Target, lasting: bool) -> Result<Slot, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mut session = target.connect()?;
        let own = (session.backend().unwrap_or_default(), COUNT.fetch_add(1, Ordering::Relaxed));
        let name = format!("anomalist_{}_{}_{}", std::process::id(), own.0, own.1);
        let recent = session.query("SELECT pg_snapshot_xmax(pg_current_snapshot())::text", &[])?;
        let recent = recent.value().and_then(Value::as_text).and_then(|t| t.parse().ok());
        let recent = recent.ok_or_else(|| odd("a transaction id", &Reply::default()))?;
        let create = format!("SELECT pg_create_logical_replication_slot($1, 'test_decoding', {})", !lasting);
        session.query(&create, &[Value::from(name.as_str())])?;
        Ok(Slot { target: target.clone(), session: Some(session), name, recent, last: 0 })
    }

    fn session(&mut self) -> Result<&mut Box<dyn Connection>, Error> {
        match &mut self.session {
            Some(session) if !session.is_lost() => {}
            gone => *gone = Some(self.target.connect()?),
        }
        self.session.as_mut().ok_or_else(|| Error::new(Kind::Lost, "no session"))
    }

    fn drop_slot(&mut self) -> Result<(), Error> {
        if self.name.is_empty() {
            return Ok(());
        }
        let name = Value::from(self.name.as_str());
        let drop =
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1";
        self.session()?.query(drop, &[name])?;
        self.name.clear();
        Ok(())
    }
}

/// The full id nearest to a recent one that ends in these 32 bits.
fn completed(recent: u64, bits: u64) -> u64 {
    const EPOCH: u64 = 1 << 32;
    let same = recent - recent % EPOCH + bits;
    let candidates = [same.checked_sub(EPOCH), Some(same), same.checked_add(EPOCH)];
    candidates.into_iter().flatten().min_by_key(|id| id.abs_diff(recent)).unwrap_or(same)
}

/// A place in the log, `16/B374D848`, as one number.
fn place(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    Some(u64::from_str_radix(high, 16).ok()? << 32 | u64::from_str_radix(low, 16).ok()?)
}

impl Collector for Slot {
    fn poll(&mut self) -> Result<Vec<Commit>, EngineError> {
        let name = Value::from(self.name.as_str());
        let confirmed = format!("{:X}/{:X}", self.last >> 32, self.last & u64::from(u32::MAX));
        let forget = "SELECT pg_replication_slot_advance(slot_name, $2::text::pg_lsn)::text \
                      FROM pg_replication_slots \
                      WHERE slot_name = $1 AND confirmed_flush_lsn < $2::text::pg_lsn";
        self.session()?.query(forget, &[name.clone(), Value::from(confirmed.as_str())])?;
        // Rows are not looked at, so they stay on the server.
        let read = "SELECT lsn::text, xid::text, \
                    (extract(epoch FROM substring(data FROM '\\(at (.*)\\)')::timestamptz) * 1000000)::bigint, \
                    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint \
                    FROM pg_logical_slot_peek_changes($1, NULL, NULL, 'include-timestamp', 'on') \
                    WHERE data LIKE 'COMMIT%'";
        let reply = self.session()?.query(read, &[name])?;
        let mut commits = Vec::with_capacity(reply.rows.len());
        let (mut recent, mut last) = (self.recent, self.last);
        for row in &reply.rows {
            let text = |at: usize| row.get(at).and_then(Value::as_text);
            let (Some(place), Some(bits)) = (text(0).and_then(place), text(1).and_then(|t| t.parse().ok()))
            else {
                return Err(odd("a commit", &reply).into());
            };
            let (Some(at), Some(era)) = (moment(row, 2), moment(row, 3)) else {
                return Err(odd("a time", &reply).into());
            };
            if place > last {
                recent = completed(recent, bits);
                commits.push(Commit { number: recent, place, at, era });
                last = place;
            }
        }
        (self.recent, self.last) = (recent, last);
        Ok(commits)
    }

    fn finish(mut self: Box<Self>) -> Result<(), EngineError> {
        Ok(self.drop_slot()?)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let _ = self.drop_slot();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_log() {
        assert_eq!(place("16/B374D848"), Some(0x16_B374_D848));
        assert_eq!(place("16"), None);
        let epoch = 1u64 << 32;
        assert_eq!(completed(740, 738), 738);
        assert_eq!(completed(3 * epoch + 5, 7), 3 * epoch + 7);
        assert_eq!(completed(3 * epoch + 5, epoch - 2), 3 * epoch - 2);
        assert_eq!(completed(3 * epoch - 2, 4), 3 * epoch + 4);
        assert_eq!(completed(2, epoch - 1), epoch - 1, "there is nothing before the first");
    }
}
