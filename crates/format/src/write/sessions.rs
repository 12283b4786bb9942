//! What formats that have one session after the other gather until they know that nothing more comes.
//!
//! Histories are written as they are made, so a session's next transaction may come any time. What has been
//! gathered goes to a temporary file whenever it has grown too large for memory: one file for all sessions,
//! each of which remembers its pieces.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How much is held in memory.
const HELD: usize = 32 << 20;

/// The bytes of each session.
pub(crate) struct Sessions {
    sessions: Vec<Session>,
    held: usize,
    limit: usize,
    spill: Option<Spill>,
}

#[derive(Default)]
struct Session {
    /// Pieces of the file, in order: where, how long.
    spilled: Vec<(u64, usize)>,
    /// What comes after them.
    bytes: Vec<u8>,
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions { sessions: Vec::new(), held: 0, limit: HELD, spill: None }
    }
}

impl Sessions {
    /// Number of sessions, the last of which has something.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether a session has nothing yet.
    pub fn is_empty(&self, session: usize) -> bool {
        self.sessions.get(session).is_none_or(|s| s.spilled.is_empty() && s.bytes.is_empty())
    }

    /// Adds to a session.
    pub fn push(&mut self, session: usize, bytes: &[u8]) -> io::Result<()> {
        self.sessions.resize_with(self.sessions.len().max(session + 1), Session::default);
        self.sessions[session].bytes.extend_from_slice(bytes);
        self.held += bytes.len();
        if self.held > self.limit { self.spill() } else { Ok(()) }
    }

    /// Writes out what a session has.
    pub fn copy(&mut self, session: usize, out: &mut dyn Write) -> io::Result<()> {
        let session = &self.sessions[session];
        if let Some(spill) = &mut self.spill {
            let mut piece = Vec::new();
            for &(start, length) in &session.spilled {
                piece.resize(length, 0);
                spill.file.seek(SeekFrom::Start(start))?;
                spill.file.read_exact(&mut piece)?;
                out.write_all(&piece)?;
            }
        }
        out.write_all(&session.bytes)
    }

    fn spill(&mut self) -> io::Result<()> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::new()?),
        };
        for session in self.sessions.iter_mut().filter(|s| !s.bytes.is_empty()) {
            spill.file.write_all(&session.bytes)?;
            session.spilled.push((spill.end, session.bytes.len()));
            spill.end += session.bytes.len() as u64;
            session.bytes = Vec::new();
        }
        self.held = 0;
        Ok(())
    }
}

/// A temporary file, gone with this.
struct Spill {
    file: File,
    end: u64,
    path: PathBuf,
}

impl Spill {
    fn new() -> io::Result<Spill> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("anomalist-{}-{}.sessions", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        Ok(Spill { file, end: 0, path })
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        // What is left in the folder for temporary files does not matter.
        _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_was_spilled_comes_back_in_order() {
        let mut sessions = Sessions { limit: 10, ..Sessions::default() };
        let mut expected = vec![Vec::new(); 4];
        for i in 0u8..100 {
            let (session, bytes) = (usize::from(i) % 3, vec![i; usize::from(i) % 7]);
            sessions.push(session, &bytes).unwrap();
            expected[session].extend(bytes);
        }
        sessions.push(3, b"").unwrap();
        assert!(sessions.is_empty(3) && !sessions.is_empty(0) && sessions.len() == 4);
        let path = sessions.spill.as_ref().unwrap().path.clone();
        for (session, expected) in expected.iter().enumerate() {
            let mut found = Vec::new();
            sessions.copy(session, &mut found).unwrap();
            assert_eq!(&found, expected);
        }
        drop(sessions);
        assert!(!path.exists());
    }
}
