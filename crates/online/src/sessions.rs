//! Sessions: those that matter now in memory, the others in the store.
//!
//! Transactions in the store name their session by its number, so a number is never given twice. A session
//! may leave memory when no transaction of it is there and none of unknown outcome is open; it comes back by
//! its name when it goes on, by its number when a transaction of it comes back. In the store it costs four
//! bytes of memory.

use crate::checker::Checker;
use crate::codec::{In, Out};
use crate::filter::Of;
use crate::live_state::{LiveState, Session, show};
use crate::{Batch, Key128, Store, StoreError};
use rustc_hash::FxHashMap;
use std::ops::{Index, IndexMut};

/// Sessions by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    /// Where each is among those in memory, by number; [`AWAY`] if it is in the store.
    places: Vec<u32>,
    present: Vec<Session>,
    free: Vec<u32>,
    /// Numbers of those in memory.
    index: FxHashMap<Key128, u32>,
}

const AWAY: u32 = u32::MAX;

impl Index<u32> for Sessions {
    type Output = Session;

    #[inline]
    fn index(&self, number: u32) -> &Session {
        &self.present[self.places[number as usize] as usize]
    }
}

impl IndexMut<u32> for Sessions {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Session {
        &mut self.present[self.places[number as usize] as usize]
    }
}

impl Sessions {
    /// The number of a session that is in memory.
    #[inline]
    pub fn find(&self, name: Key128) -> Option<u32> {
        self.index.get(&name).copied()
    }

    /// Memory of what is not in memory, in bytes.
    pub fn memory(&self) -> usize {
        self.places.len() * size_of::<u32>()
    }

    fn is_away(&self, number: u32) -> bool {
        self.places.get(number as usize).is_some_and(|&place| place == AWAY)
    }

    /// Gives a new session, which may stay in the store, a number.
    fn add(&mut self, session: Option<Session>) -> u32 {
        let number = self.places.len() as u32;
        self.places.push(AWAY);
        if let Some(session) = session {
            self.put(number, session);
        }
        number
    }

    fn put(&mut self, number: u32, session: Session) {
        self.index.insert(session.name, number);
        self.places[number as usize] = match self.free.pop() {
            Some(place) => {
                self.present[place as usize] = session;
                place
            }
            None => {
                self.present.push(session);
                self.present.len() as u32 - 1
            }
        };
    }

    fn leave(&mut self, number: u32) {
        let place = std::mem::replace(&mut self.places[number as usize], AWAY);
        let session = &mut self.present[place as usize];
        self.index.remove(&session.name);
        (session.text, session.last, session.last_writer) = (Box::default(), None, None);
        self.free.push(place);
    }
}

/// Memory of a session, about.
fn weight(session: &Session) -> usize {
    size_of::<Session>() + session.text.len() + 64
}

fn by_number(number: u32) -> Vec<u8> {
    [b"s", &number.to_be_bytes()[..]].concat()
}

fn by_name(name: Key128) -> Vec<u8> {
    let mut out = Out(b"n".to_vec());
    out.datum(name);
    out.0
}

fn decode(bytes: &[u8]) -> Result<Session, StoreError> {
    let mut from = In(bytes);
    let session = Session {
        name: from.datum()?,
        text: from.text()?,
        count: from.u32()?,
        last: from.option(In::last)?,
        last_writer: from.option(In::last)?,
        number: from.option(In::u64)?,
        refs: 0,
        fresh: false,
        stored: true,
    };
    from.end()?;
    Ok(session)
}

impl<S: Store> Checker<S> {
    /// The number of the session of this name; a new one if there was none.
    pub(crate) fn session(&mut self, name: Key128, batch: &Batch) -> Result<u32, StoreError> {
        let number = match self.known_session(name)? {
            Some(number) => number,
            None => {
                let text = show(name, batch.texts.get(&name).map(|t| &**t)).to_string().into_boxed_str();
                let session = Session {
                    name,
                    text,
                    count: 0,
                    last: None,
                    last_writer: None,
                    number: None,
                    refs: 0,
                    fresh: true,
                    stored: false,
                };
                self.bytes += weight(&session);
                self.live.sessions.add(Some(session))
            }
        };
        self.live.sessions[number].fresh = true;
        Ok(number)
    }

    /// The number of the session of this name, which is in memory then.
    pub(crate) fn known_session(&mut self, name: Key128) -> Result<Option<u32>, StoreError> {
        let sessions = &self.live.sessions;
        if let Some(number) = sessions.find(name) {
            return Ok(Some(number));
        }
        if !self.away.may_have(Of::Session, name) {
            return Ok(None);
        }
        let Some(bytes) = self.store.get(&by_name(name))? else { return Ok(None) };
        let mut from = In(&bytes);
        let number = from.u32()?;
        self.session_back(number)?;
        Ok(Some(number))
    }

    /// Brings a session back, if it is in the store.
    pub(crate) fn session_back(&mut self, number: u32) -> Result<(), StoreError> {
        if !self.live.sessions.is_away(number) {
            return match (number as usize) < self.live.sessions.places.len() {
                true => Ok(()),
                false => Err(StoreError::Damaged("a transaction of no session".to_owned())),
            };
        }
        let Some(bytes) = self.store.get(&by_number(number))? else {
            return Err(StoreError::Damaged(format!("no session {number}")));
        };
        let session = decode(&bytes)?;
        self.bytes += weight(&session);
        self.live.sessions.put(number, session);
        Ok(())
    }

    /// Writes a session to the store, which it stays in.
    pub(crate) fn store_session(&mut self, number: u32) -> Result<(), StoreError> {
        let s = &mut self.live.sessions[number];
        let mut out = Out::default();
        out.datum(s.name);
        out.text(&s.text);
        out.u64(s.count.into());
        out.option(s.last.as_ref(), Out::last);
        out.option(s.last_writer.as_ref(), Out::last);
        out.option(s.number, Out::u64);
        let named = std::mem::replace(&mut s.stored, true);
        let name = by_name(s.name);
        self.store.put(&by_number(number), &out.0)?;
        if !named {
            let mut out = Out::default();
            out.u64(number.into());
            self.store.put(&name, &out.0)?;
        }
        Ok(())
    }

    /// Moves sessions to the store until there is room: those without transactions in memory that did not go
    /// on since the last collection.
    pub(crate) fn evict_sessions(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<(), StoreError> {
        for number in 0..self.live.sessions.places.len() as u32 {
            if self.live.sessions.is_away(number) {
                continue;
            }
            let session = &mut self.live.sessions[number];
            let fresh = std::mem::replace(&mut session.fresh, false);
            if fresh || session.refs > 0 || self.live.tails.contains_key(&number) || is_enough(self) {
                continue;
            }
            self.bytes = self.bytes.saturating_sub(weight(&self.live.sessions[number]));
            self.store_session(number)?;
            self.dirty_sessions.remove(&number);
            self.away.add(Of::Session, self.live.sessions[number].name);
            self.live.sessions.leave(number);
        }
        Ok(())
    }

    /// Takes up the sessions of a store: as many as fit, and those with transactions of unknown outcome.
    pub(crate) fn restore_sessions(&mut self) -> Result<(), StoreError> {
        let most = self.options.gc.bytes().map_or(usize::MAX, |bytes| bytes / 4);
        let Checker { store, live, bytes, away, .. } = self;
        let LiveState { sessions, tails, .. } = live;
        store.each(b"s", &mut |_, record| {
            let session = decode(record)?;
            let is_wanted = *bytes < most || tails.contains_key(&(sessions.places.len() as u32));
            match is_wanted {
                true => *bytes += weight(&session),
                false => away.add(Of::Session, session.name),
            }
            sessions.add(is_wanted.then_some(session));
            Ok(())
        })
    }
}
