//! Where what does not fit in memory goes. The checker itself does no I/O.

use std::collections::BTreeMap;

/// A chunk in a [`Store`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Location {
    /// Which segment.
    pub segment: u32,
    /// Length of the chunk.
    pub length: u32,
    /// Where in the segment.
    pub offset: u64,
}

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The medium failed.
    #[error("the spill store: {0}")]
    Io(#[from] std::io::Error),
    /// What came back is not what was stored.
    #[error("the spill store is damaged: {0}")]
    Damaged(String),
}

/// Called with a key and its value.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError> + 'a;

/// Append-only chunks, and a map that changes all at once.
///
/// Chunks are never changed. Entries that were `put` or `remove`d are visible to `get` at once and durable,
/// all together and with every chunk appended before, after [`Store::commit`]; after a crash the store is
/// as it was at the last commit.
pub trait Store {
    /// Stores a chunk.
    fn append(&mut self, chunk: &[u8]) -> Result<Location, StoreError>;
    /// Reads a chunk back.
    fn load(&mut self, at: Location) -> Result<Vec<u8>, StoreError>;
    /// The checker will not ask for this chunk again, except after a crash before the next commit.
    fn release(&mut self, at: Location);
    /// Sets an entry of the map.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;
    /// Removes an entry of the map.
    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError>;
    /// An entry of the map.
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    /// All entries whose key begins so, in order of keys.
    fn each(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError>;
    /// Makes everything so far durable, all at once.
    fn commit(&mut self) -> Result<(), StoreError>;
}

/// A store in memory: for tests, and for histories that fit.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    chunks: Vec<Vec<u8>>,
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    committed: (usize, BTreeMap<Vec<u8>, Vec<u8>>),
    /// Chunks read back.
    pub loads: usize,
}

impl MemoryStore {
    /// The store as it would be found after a crash now.
    #[must_use]
    pub fn after_crash(&self) -> MemoryStore {
        let chunks = self.chunks[..self.committed.0].to_vec();
        MemoryStore { chunks, map: self.committed.1.clone(), committed: self.committed.clone(), loads: 0 }
    }

    /// Number of chunks stored.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }
}

impl Store for MemoryStore {
    fn append(&mut self, chunk: &[u8]) -> Result<Location, StoreError> {
        self.chunks.push(chunk.to_vec());
        Ok(Location { segment: 0, length: chunk.len() as u32, offset: self.chunks.len() as u64 - 1 })
    }

    fn load(&mut self, at: Location) -> Result<Vec<u8>, StoreError> {
        self.loads += 1;
        let chunk = self.chunks.get(at.offset as usize).filter(|chunk| chunk.len() == at.length as usize);
        chunk.cloned().ok_or_else(|| StoreError::Damaged(format!("no chunk {at:?}")))
    }

    fn release(&mut self, _: Location) {}

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.map.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.map.remove(key);
        Ok(())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.map.get(key).cloned())
    }

    fn each(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let range = self.map.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        range.into_iter().try_for_each(|(key, value)| visit(key, value))
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.committed = (self.chunks.len(), self.map.clone());
        Ok(())
    }
}
