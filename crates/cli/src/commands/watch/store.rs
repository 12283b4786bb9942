//! The checker's store on disk: chunks in append-only segments, the map in redb.
//!
//! A segment is frames of length, checksum and bytes. Frames are written through a buffer and never
//! changed; a segment whose every chunk was released is deleted, after the next commit, because until then
//! a crash would bring back a state that refers to it. The map's changes are kept in one write transaction
//! of redb that ends with the commit, after the segments are on disk: so the map, the length of the last
//! segment and the counts of live chunks are always of one moment. What a crash left beyond that length is
//! cut off.

use super::medium::{How, OnDisk, Opened, Shared};
use anomalist_client::remains::Folder;
use anomalist_online::{Location, Store, StoreError, Visit};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use std::collections::BTreeMap;
use std::io;

const MAP: TableDefinition<&[u8], &[u8]> = TableDefinition::new("map");
/// Of frames: length and checksum.
const HEAD: usize = 8;
/// Bytes not yet handed to the system.
const BUFFER: u64 = 1 << 20;
/// A segment that has grown so far is closed.
pub const SEGMENT: u64 = 64 << 20;
/// The map, and its name until it is one: a process that ends in between leaves nothing that looks like it.
const MAP_FILE: &str = "map.redb";
const MAP_BEGUN: &str = "map.begun";
/// Changes of the map in memory before they go to redb.
const OVERLAY: usize = 4 << 20;
/// redb's own.
const CACHE: usize = 4 << 20;
/// Not a key of the checker's.
const SEGMENTS: &[u8] = b"\0segments";

/// The store.
pub struct DiskStore {
    medium: Shared,
    database: Database,
    /// A segment that has grown so far is closed.
    segment: u64,
    /// The changes since the last commit that are not in the overlay.
    changes: Option<WriteTransaction>,
    overlay: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    overlay_bytes: usize,
    segments: BTreeMap<u32, Segment>,
    current: u32,
    /// What the current segment does not have on disk yet.
    buffer: Vec<u8>,
    /// The folder, if it disappears with this value: after all that is open in it.
    temporary: Option<Folder>,
}

struct Segment {
    file: Box<dyn Opened>,
    /// Handed to the system.
    length: u64,
    /// Chunks that are not released.
    live: u64,
    /// Written since it was last forced to disk.
    dirty: bool,
}

fn damaged(what: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(what.to_string())
}

fn of_redb(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::Io(error) => StoreError::Io(error),
        other => damaged(other),
    }
}

impl DiskStore {
    /// A store that disappears with this value.
    pub fn temporary() -> Result<DiskStore, StoreError> {
        let folder = Folder::temporary("watch")?;
        DiskStore::at(OnDisk::open(folder.path())?, SEGMENT, Some(folder))
    }

    /// The store in this folder, as it was at its last commit, with segments of about this length.
    pub fn open(medium: Shared, segment: u64) -> Result<DiskStore, StoreError> {
        DiskStore::at(medium, segment, None)
    }

    fn at(medium: Shared, segment: u64, temporary: Option<Folder>) -> Result<DiskStore, StoreError> {
        let mut store = DiskStore {
            database: map(&medium)?,
            medium,
            segment,
            temporary,
            changes: None,
            overlay: BTreeMap::new(),
            overlay_bytes: 0,
            segments: BTreeMap::new(),
            current: 0,
            buffer: Vec::new(),
        };
        if let Some(record) = store.get(SEGMENTS)? {
            store.reopen(&record)?;
        }
        store.remove_strays()?;
        Ok(store)
    }

    /// Opens the segments that the last commit knew, cut to what they were.
    fn reopen(&mut self, record: &[u8]) -> Result<(), StoreError> {
        for entry in record.chunks(20) {
            let number = |range: std::ops::Range<usize>| -> Result<u64, StoreError> {
                let mut bytes = [0; 8];
                let part = entry.get(range).ok_or_else(|| damaged("the list of segments"))?;
                bytes[..part.len()].copy_from_slice(part);
                Ok(u64::from_le_bytes(bytes))
            };
            let (id, length, live) = (number(0..4)? as u32, number(4..12)?, number(12..20)?);
            let file = self.medium.open(&name(id), How::Found)?;
            let found = file.length()?;
            if found < length {
                return Err(damaged(format_args!("{}: {found} bytes, should be {length}", name(id))));
            }
            file.cut(length)?;
            self.segments.insert(id, Segment { file, length, live, dirty: false });
            self.current = id;
        }
        Ok(())
    }

    /// Segments that no commit knew of.
    fn remove_strays(&self) -> Result<(), StoreError> {
        for name in self.medium.names()? {
            let id = name.strip_prefix("segment-").and_then(|id| id.parse::<u32>().ok());
            if id.is_some_and(|id| !self.segments.contains_key(&id)) {
                self.medium.remove(&name)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if let Some(segment) = self.segments.get_mut(&self.current)
            && !self.buffer.is_empty()
        {
            segment.dirty = true;
            segment.file.write(&self.buffer, segment.length)?;
            segment.length += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// The segment that takes the next chunk.
    fn writable(&mut self) -> Result<(), StoreError> {
        let full = self.segments.get(&self.current).is_none_or(|s| s.length >= self.segment);
        if full {
            self.flush()?;
            self.current = self.segments.keys().next_back().map_or(1, |last| last + 1);
            let file = self.medium.open(&name(self.current), How::Empty)?;
            self.segments.insert(self.current, Segment { file, length: 0, live: 0, dirty: true });
        }
        Ok(())
    }

    fn changes(&mut self) -> Result<&WriteTransaction, StoreError> {
        if self.changes.is_none() {
            let mut changes = self.database.begin_write().map_err(of_redb)?;
            if self.temporary.is_some() {
                changes.set_durability(redb::Durability::None).map_err(of_redb)?;
            }
            self.changes = Some(changes);
        }
        self.changes.as_ref().ok_or_else(|| damaged("no transaction"))
    }

    fn put_down(&mut self) -> Result<(), StoreError> {
        let overlay = std::mem::take(&mut self.overlay);
        self.overlay_bytes = 0;
        let mut table = self.changes()?.open_table(MAP).map_err(of_redb)?;
        for (key, value) in overlay {
            match value {
                Some(value) => drop(table.insert(&key[..], &value[..]).map_err(of_redb)?),
                None => drop(table.remove(&key[..]).map_err(of_redb)?),
            }
        }
        Ok(())
    }

    fn change(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        self.overlay_bytes += key.len() + value.map_or(0, <[u8]>::len) + 64;
        self.overlay.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        if self.overlay_bytes > OVERLAY { self.put_down() } else { Ok(()) }
    }
}

impl Store for DiskStore {
    fn append(&mut self, chunk: &[u8]) -> Result<Location, StoreError> {
        self.writable()?;
        let length = u32::try_from(chunk.len()).map_err(|_| damaged("a chunk of more than 4 GiB"))?;
        let Some(segment) = self.segments.get_mut(&self.current) else { return Err(damaged("no segment")) };
        segment.live += 1;
        let offset = segment.length + self.buffer.len() as u64;
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(&crc32fast::hash(chunk).to_le_bytes());
        self.buffer.extend_from_slice(chunk);
        if self.buffer.len() as u64 > self.segment.min(BUFFER) {
            self.flush()?;
        }
        Ok(Location { segment: self.current, length, offset })
    }

    fn load(&mut self, at: Location) -> Result<Vec<u8>, StoreError> {
        let segment = self
            .segments
            .get(&at.segment)
            .ok_or_else(|| damaged(format_args!("no segment {}", at.segment)))?;
        let mut frame = vec![0; HEAD + at.length as usize];
        if at.segment == self.current && at.offset >= segment.length {
            let start = (at.offset - segment.length) as usize;
            let bytes = self.buffer.get(start..start + frame.len());
            frame.copy_from_slice(bytes.ok_or_else(|| damaged("a chunk beyond the end"))?);
        } else {
            segment.file.read(&mut frame, at.offset).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => damaged("a chunk beyond the end"),
                _ => StoreError::Io(error),
            })?;
        }
        let chunk = frame.split_off(HEAD);
        let sound =
            frame[..4] == at.length.to_le_bytes() && frame[4..] == crc32fast::hash(&chunk).to_le_bytes();
        if sound { Ok(chunk) } else { Err(damaged(format_args!("segment {} at {}", at.segment, at.offset))) }
    }

    fn release(&mut self, at: Location) {
        let Some(segment) = self.segments.get_mut(&at.segment) else { return };
        segment.live = segment.live.saturating_sub(1);
        // Without commits there is no state to go back to.
        if self.temporary.is_some() && segment.live == 0 && at.segment != self.current {
            self.segments.remove(&at.segment);
            _ = self.medium.remove(&name(at.segment));
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.change(key, Some(value))
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.change(key, None)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(value) = self.overlay.get(key) {
            return Ok(value.clone());
        }
        if let Some(changes) = &self.changes {
            let table = changes.open_table(MAP).map_err(of_redb)?;
            return Ok(table.get(key).map_err(of_redb)?.map(|v| v.value().to_vec()));
        }
        let read = self.database.begin_read().map_err(of_redb)?;
        match read.open_table(MAP) {
            Ok(table) => Ok(table.get(key).map_err(of_redb)?.map(|v| v.value().to_vec())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(of_redb(error)),
        }
    }

    fn each(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.put_down()?;
        let table = self.changes()?.open_table(MAP).map_err(of_redb)?;
        for entry in table.range::<&[u8]>(prefix..).map_err(of_redb)? {
            let (key, value) = entry.map_err(of_redb)?;
            if !key.value().starts_with(prefix) {
                break;
            }
            visit(key.value(), value.value())?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        let dead: Vec<u32> = self
            .segments
            .iter()
            .filter(|(id, s)| s.live == 0 && **id != self.current)
            .map(|(id, _)| *id)
            .collect();
        for id in &dead {
            self.segments.remove(id);
        }
        let mut record = Vec::new();
        for (id, segment) in &self.segments {
            record.extend_from_slice(&id.to_le_bytes());
            record.extend_from_slice(&segment.length.to_le_bytes());
            record.extend_from_slice(&segment.live.to_le_bytes());
        }
        // Also those that were closed since: the map is about to say that they are whole.
        let mut written = false;
        for segment in self.segments.values_mut().filter(|segment| segment.dirty) {
            segment.file.sync()?;
            (segment.dirty, written) = (false, true);
        }
        if written {
            self.medium.sync()?;
        }
        self.put(SEGMENTS, &record)?;
        self.put_down()?;
        if let Some(changes) = self.changes.take() {
            changes.commit().map_err(of_redb)?;
        }
        for id in dead {
            _ = self.medium.remove(&name(id));
        }
        Ok(())
    }
}

fn name(segment: u32) -> String {
    format!("segment-{segment}")
}

/// The database with the map. A new one gets its name when it is whole: redb refuses a file whose first
/// bytes a killed process did not come to write.
fn map(medium: &Shared) -> Result<Database, StoreError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    if !medium.names()?.iter().any(|name| name == MAP_FILE) {
        drop(medium.open(MAP_BEGUN, How::Empty)?);
        drop(medium.database(&builder, MAP_BEGUN).map_err(of_redb)?);
        medium.rename(MAP_BEGUN, MAP_FILE)?;
        medium.sync()?;
    }
    medium.database(&builder, MAP_FILE).map_err(of_redb)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_crash_brings_back_the_last_commit() {
        let folder = Folder::temporary("store").unwrap();
        let open = || DiskStore::open(OnDisk::open(folder.path()).unwrap(), SEGMENT).unwrap();
        let mut store = open();
        let (a, b) = (store.append(b"first").unwrap(), store.append(&[7; 3000]).unwrap());
        store.put(b"k1", b"one").unwrap();
        store.put(b"k2", b"two").unwrap();
        store.commit().unwrap();
        let c = store.append(b"after").unwrap();
        store.put(b"k1", b"other").unwrap();
        store.remove(b"k2").unwrap();
        store.release(a);
        assert_eq!((store.load(c).unwrap(), store.get(b"k2").unwrap()), (b"after".to_vec(), None));
        assert_eq!(store.get(b"k1").unwrap().as_deref(), Some(&b"other"[..]));
        drop(store);
        let mut store = open();
        assert_eq!(store.load(a).unwrap(), b"first");
        assert_eq!(store.load(b).unwrap(), [7; 3000]);
        assert!(matches!(store.load(c), Err(StoreError::Damaged(_))));
        let mut seen = Vec::new();
        store
            .each(b"k", &mut |key, value| {
                seen.push((key.to_vec(), value.to_vec()));
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, [(b"k1".to_vec(), b"one".to_vec()), (b"k2".to_vec(), b"two".to_vec())]);
        drop(store);
        // A flipped bit is found.
        let path = folder.path().join("segment-1");
        let mut bytes = fs::read(&path).unwrap();
        bytes[10] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(matches!(open().load(a), Err(StoreError::Damaged(_))));
    }

    /// The first start is killed while redb writes its first pages: the next one begins anew.
    #[test]
    fn a_map_that_was_begun_is_begun_again() {
        let folder = Folder::temporary("begun").unwrap();
        let whole = folder.path().join("whole");
        drop(DiskStore::open(OnDisk::open(&whole).unwrap(), SEGMENT).unwrap());
        let map = fs::read(whole.join(MAP_FILE)).unwrap();
        for (number, cut) in [0, 1, 8, 9, 64, 512, 4096, map.len() / 2].into_iter().enumerate() {
            let state = folder.path().join(number.to_string());
            fs::create_dir(&state).unwrap();
            // redb writes its magic number last.
            let torn = [&[0; 9][..], &map[9..]].concat();
            fs::write(state.join(MAP_BEGUN), &torn[..cut]).unwrap();
            let mut store = DiskStore::open(OnDisk::open(&state).unwrap(), SEGMENT).unwrap();
            store.put(b"k", b"v").unwrap();
            store.commit().unwrap();
            assert!(!state.join(MAP_BEGUN).exists());
        }
    }
}
