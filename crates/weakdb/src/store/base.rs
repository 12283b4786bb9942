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

/// The versions of one key in the order of commits: `writers` and `values` side by side. The first is the initial one.
#[derive(Debug)]
pub(crate) struct Versions {
    pub writers: Vec<Seq>,
    pub values: Vec<Option<Value>>,
}

impl Versions {
    pub fn last(&self) -> Seq {
        self.writers.last().copied().unwrap_or(Seq::INITIAL)
    }
}

/// A transaction that wrote something.
pub(crate) struct Writer {
    pub name: Option<TxnName>,
    /// What it wrote, ascending.
    pub keys: Vec<KeyId>,
    /// Side by side: where among the versions of the key, so that a value is found without a search through them.
    places: Vec<u32>,
}

/// Everything that is committed.
pub(crate) struct Base {
    ids: FxHashMap<Arc<str>, KeyId>,
    sorted: BTreeMap<Arc<str>, KeyId>,
    names: Vec<Arc<str>>,
    versions: Vec<Versions>,
    /// By `Seq`.
    pub writers: Vec<Writer>,
}

impl Base {
    pub fn new() -> Base {
        Base {
            ids: FxHashMap::default(),
            sorted: BTreeMap::new(),
            names: Vec::new(),
            versions: Vec::new(),
            writers: vec![Writer { name: None, keys: Vec::new(), places: Vec::new() }],
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
        self.versions.push(Versions { writers: vec![Seq::INITIAL], values: vec![None] });
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
        let place = match writer {
            Seq::INITIAL => 0,
            Seq(w) => {
                let writer = &self.writers[w as usize];
                writer.keys.binary_search(&key).ok().map(|at| writer.places[at] as usize)?
            }
        };
        self.versions(key).values[place].clone()
    }

    /// Keys whose name begins so, in the order of names. A key that nobody but an open transaction knows is among them.
    pub fn with_prefix(&self, prefix: &str) -> Vec<(Arc<str>, KeyId)> {
        self.sorted
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(name, _)| name.starts_with(prefix))
            .map(|(name, &key)| (name.clone(), key))
            .collect()
    }

    /// All keys with their newest values, in the order of names.
    pub fn newest(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.sorted.iter().filter_map(|(name, key)| {
            self.versions(*key).values.last().and_then(Option::as_ref).map(|value| (name, value))
        })
    }

    /// Who wrote each key last, in the order of names.
    pub fn last_writers(&self) -> impl Iterator<Item = (&Arc<str>, Seq)> {
        self.sorted.iter().map(|(name, key)| (name, self.versions(*key).last()))
    }

    pub fn set_initial(&mut self, name: &str, value: Value) {
        let key = self.key(name);
        self.versions[key.0 as usize].values[0] = Some(value);
    }

    pub fn wrote(&self, writer: Seq, key: KeyId) -> bool {
        self.writers[writer.0 as usize].keys.binary_search(&key).is_ok()
    }

    /// The next place in the order of commits.
    pub fn next(&self) -> Seq {
        Seq(self.writers.len() as u32)
    }

    /// Appends a committed transaction; its writes in the order of their keys.
    pub fn commit(&mut self, name: TxnName, writes: Vec<(KeyId, Option<Value>)>) -> Seq {
        let seq = self.next();
        let mut keys = Vec::with_capacity(writes.len());
        let mut places = Vec::with_capacity(writes.len());
        for (key, value) in writes {
            let versions = &mut self.versions[key.0 as usize];
            keys.push(key);
            places.push(versions.writers.len() as u32);
            versions.writers.push(seq);
            versions.values.push(value);
        }
        debug_assert!(keys.is_sorted(), "writes come in the order of their keys");
        self.writers.push(Writer { name: Some(name), keys, places });
        seq
    }
}
