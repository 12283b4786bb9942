//! What all levels share: keys, their committed versions, and who wrote them.

use super::choice::TxnName;
use super::value::Value;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub(crate) struct KeyId(pub u32);

/// A committed transaction that wrote something, by its place in the order of commits. 0 is the initial one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub(crate) struct Seq(pub u32);

impl Seq {
    pub const INITIAL: Seq = Seq(0);
}

/// The versions of one key in the order of commits, by who wrote them. The first is the initial one.
#[derive(Debug)]
pub(crate) struct Versions {
    pub writers: Vec<Seq>,
    initial: Option<Value>,
}

impl Versions {
    pub fn last(&self) -> Seq {
        self.writers.last().copied().unwrap_or(Seq::INITIAL)
    }
}

/// Everything that is committed.
pub(crate) struct Base {
    ids: FxHashMap<Arc<str>, KeyId>,
    sorted: BTreeMap<Arc<str>, KeyId>,
    names: Vec<Arc<str>>,
    versions: Vec<Versions>,
    /// By `Seq`; the initial one has no name.
    writers: Vec<Option<TxnName>>,
    /// By `Seq`, where its writes begin. They end where the next one's begin.
    starts: Vec<u32>,
    /// Everything that was ever written, by writer, and of each in the order of keys. A read of an old
    /// version costs the cache misses that it takes to find the value, so values lie beside the keys, and
    /// what leads to them is small.
    writes: Vec<(KeyId, Option<Value>)>,
}

impl Base {
    pub fn new() -> Base {
        Base {
            ids: FxHashMap::default(),
            sorted: BTreeMap::new(),
            names: Vec::new(),
            versions: Vec::new(),
            writers: vec![None],
            starts: vec![0, 0],
            writes: Vec::new(),
        }
    }

    /// The key of this name; a new one holds nothing.
    pub fn key(&mut self, name: &str) -> KeyId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = KeyId(self.names.len() as u32);
        let name: Arc<str> = name.into();
        self.ids.insert(name.clone(), id);
        self.sorted.insert(name.clone(), id);
        self.names.push(name);
        self.versions.push(Versions { writers: vec![Seq::INITIAL], initial: None });
        id
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn name(&self, key: KeyId) -> &Arc<str> {
        &self.names[key.0 as usize]
    }

    pub fn versions(&self, key: KeyId) -> &Versions {
        &self.versions[key.0 as usize]
    }

    /// What a writer of the key left in it.
    pub fn value(&self, key: KeyId, writer: Seq) -> Option<Value> {
        self.left(key, writer).cloned()
    }

    fn left(&self, key: KeyId, writer: Seq) -> Option<&Value> {
        if writer == Seq::INITIAL {
            return self.versions(key).initial.as_ref();
        }
        self.write(writer, key).and_then(|write| write.1.as_ref())
    }

    /// What a transaction wrote, in the order of keys.
    fn writes(&self, writer: Seq) -> &[(KeyId, Option<Value>)] {
        let at = writer.0 as usize;
        &self.writes[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    fn write(&self, writer: Seq, key: KeyId) -> Option<&(KeyId, Option<Value>)> {
        let writes = self.writes(writer);
        writes.binary_search_by_key(&key, |w| w.0).ok().map(|at| &writes[at])
    }

    /// The keys that a transaction wrote, ascending.
    pub fn keys(&self, writer: Seq) -> impl Iterator<Item = KeyId> + '_ {
        self.writes(writer).iter().map(|w| w.0)
    }

    /// Who committed at this place; `None` is the initial transaction.
    pub fn writer(&self, seq: Seq) -> Option<TxnName> {
        self.writers[seq.0 as usize]
    }

    /// Everybody who wrote something, in the order of commits.
    pub fn writers(&self) -> impl Iterator<Item = TxnName> + '_ {
        self.writers.iter().copied().flatten()
    }

    /// Keys whose name begins so, in the order of names. A key that only an open transaction knows is among
    /// them.
    pub fn with_prefix(&self, prefix: &str) -> Vec<(Arc<str>, KeyId)> {
        self.sorted
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(name, _)| name.starts_with(prefix))
            .map(|(name, &key)| (name.clone(), key))
            .collect()
    }

    /// All keys with their newest values, in the order of names.
    pub fn newest(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.sorted
            .iter()
            .filter_map(|(name, &key)| self.left(key, self.versions(key).last()).map(|value| (name, value)))
    }

    /// Who wrote each key last, in the order of names.
    pub fn last_writers(&self) -> impl Iterator<Item = (&Arc<str>, Seq)> {
        self.sorted.iter().map(|(name, key)| (name, self.versions(*key).last()))
    }

    pub fn set_initial(&mut self, name: &str, value: Value) {
        let key = self.key(name);
        self.versions[key.0 as usize].initial = Some(value);
    }

    pub fn wrote(&self, writer: Seq, key: KeyId) -> bool {
        self.write(writer, key).is_some()
    }

    /// The next place in the order of commits.
    pub fn next(&self) -> Seq {
        Seq(self.writers.len() as u32)
    }

    /// Appends a committed transaction; its writes in the order of their keys.
    pub fn commit(&mut self, name: TxnName, writes: Vec<(KeyId, Option<Value>)>) -> Seq {
        debug_assert!(writes.is_sorted_by_key(|w| w.0), "writes come in the order of their keys");
        let seq = self.next();
        for (key, _) in &writes {
            self.versions[key.0 as usize].writers.push(seq);
        }
        self.writers.push(Some(name));
        self.writes.extend(writes);
        self.starts.push(self.writes.len() as u32);
        seq
    }
}
