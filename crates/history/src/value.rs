//! Values, eight bytes each.
//!
//! Real histories hold tens of millions of values and nearly all are integers, so an integer of up to 62
//! bits is stored in place. Anything else (text, keywords, larger numbers, vectors) is an *atom*: interned
//! once, compared by its number. Lists that were read share their beginnings ([`Lists`]). Equal values
//! other than lists have equal representations.

use rustc_hash::FxHashMap;
use std::fmt;

/// A value, or a name given to a key, session or transaction.
///
/// ```
/// use anomalist_history::{Value, View};
/// assert_eq!(Value::int(7).unwrap().view(), View::Int(7));
/// assert_eq!(Value::NIL.view(), View::Nil);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(u64);

/// What a [`Value`] holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// No value: `nil`, `null`.
    Nil,
    /// A read whose result was not recorded.
    Unknown,
    /// An integer.
    Int(i64),
    /// An interned atom.
    Atom(AtomId),
    /// A list, as returned by a read of a list-append key.
    List(ListId),
}

/// Names an atom in [`Atoms`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct AtomId(pub u32);

/// Names a list in [`Lists`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ListId(pub u32);

const INT: u64 = 0;
const ATOM: u64 = 1;
const LIST: u64 = 2;
const SPECIAL: u64 = 3;

impl Value {
    /// The lowest bits say what a value is; those of an integer are 0.
    pub(crate) const TAG_BITS: u32 = 2;

    /// No value.
    pub const NIL: Value = Value(SPECIAL);
    /// The result of this read was not recorded.
    pub const UNKNOWN: Value = Value(1 << Self::TAG_BITS | SPECIAL);

    /// An integer in place; `None` if it needs more than 62 bits (then
    /// [`Builder::int`](crate::Builder::int) interns it).
    #[inline]
    pub fn int(v: i64) -> Option<Value> {
        let shifted = v << Self::TAG_BITS;
        (shifted >> Self::TAG_BITS == v).then_some(Value(shifted as u64 | INT))
    }

    pub(crate) fn atom(id: AtomId) -> Value {
        Value(u64::from(id.0) << Self::TAG_BITS | ATOM)
    }

    pub(crate) fn list(id: ListId) -> Value {
        Value(u64::from(id.0) << Self::TAG_BITS | LIST)
    }

    /// Takes the value apart.
    #[inline]
    pub fn view(self) -> View {
        match self.0 & ((1 << Self::TAG_BITS) - 1) {
            INT => View::Int(self.0 as i64 >> Self::TAG_BITS),
            ATOM => View::Atom(AtomId((self.0 >> Self::TAG_BITS) as u32)),
            LIST => View::List(ListId((self.0 >> Self::TAG_BITS) as u32)),
            _ if self == Value::NIL => View::Nil,
            _ => View::Unknown,
        }
    }

    /// True for a list.
    #[inline]
    pub fn is_list(self) -> bool {
        self.0 & ((1 << Self::TAG_BITS) - 1) == LIST
    }

    /// The raw bits: equal bits, equal values.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.view())
    }
}

/// How an atom was written in its source, so that it can be written back the same way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum AtomKind {
    /// A string.
    Text,
    /// An EDN keyword, without its colon.
    Keyword,
    /// A bare token: a number too large to store in place, a decimal number, `true`, an EDN symbol.
    Token,
    /// A vector or map used as a key or value, in its canonical source text.
    Compound,
}

/// The interned atoms of a history.
#[derive(Default, Clone, Debug)]
pub struct Atoms {
    atoms: Vec<(AtomKind, Box<str>)>,
    ids: FxHashMap<(AtomKind, Box<str>), AtomId>,
    /// Bytes of their texts.
    text: usize,
}

impl Atoms {
    /// The value of this atom; the same text of the same kind is the same value.
    pub fn intern(&mut self, kind: AtomKind, text: &str) -> Value {
        // The map is asked with an owned key because a borrowed (kind, &str) has no `Borrow` form; atoms
        // are rare.
        let key = (kind, Box::from(text));
        if let Some(&id) = self.ids.get(&key) {
            return Value::atom(id);
        }
        let id = AtomId(self.atoms.len() as u32);
        self.text += text.len();
        self.atoms.push(key.clone());
        self.ids.insert(key, id);
        Value::atom(id)
    }

    /// Memory that they take, about: each text is there twice, in a table and in a map.
    pub fn memory(&self) -> usize {
        2 * self.text + self.atoms.len() * 128
    }

    /// Kind and text of an atom.
    pub fn get(&self, id: AtomId) -> (AtomKind, &str) {
        let (kind, text) = &self.atoms[id.0 as usize];
        (*kind, text)
    }

    /// The value of this atom, if it occurs.
    pub fn find(&self, kind: AtomKind, text: &str) -> Option<Value> {
        self.ids.get(&(kind, Box::from(text))).map(|&id| Value::atom(id))
    }
}

/// The list values of a history. Reads of one key are mostly beginnings of one another, so a list is a
/// *chain* and a length: what begins a known chain, or is begun by it, shares it. Chains are found by their
/// first element. Lists whose slices start at the same place in memory are therefore comparable by length
/// alone (`begins_with`).
#[derive(Clone, Debug, Default)]
pub struct Lists {
    lists: Vec<(u32, u32)>,
    chains: Vec<Vec<Value>>,
    by_first: FxHashMap<Value, u32>,
    stored: usize,
}

impl Lists {
    pub(crate) fn push(&mut self, elements: &[Value]) -> ListId {
        let chain = self.chain(elements);
        self.lists.push((chain, elements.len() as u32));
        ListId(self.lists.len() as u32 - 1)
    }

    /// A chain that begins with these elements.
    fn chain(&mut self, elements: &[Value]) -> u32 {
        let Some(first) = elements.first() else { return 0 };
        if let Some(&known) = self.by_first.get(first) {
            let chain = &mut self.chains[known as usize];
            let common = chain.len().min(elements.len());
            if same(&chain[..common], &elements[..common]) {
                self.stored += elements.len() - common;
                chain.extend_from_slice(&elements[common..]);
                return known;
            }
        }
        let new = self.chains.len() as u32;
        self.chains.push(elements.to_vec());
        self.stored += elements.len();
        self.by_first.entry(*first).or_insert(new);
        new
    }

    /// Number of lists.
    pub fn count(&self) -> usize {
        self.lists.len()
    }

    /// Number of elements that are stored.
    pub fn stored(&self) -> usize {
        self.stored
    }

    /// The elements of a list.
    #[inline]
    pub fn get(&self, id: ListId) -> &[Value] {
        let (chain, len) = self.lists[id.0 as usize];
        self.chains.get(chain as usize).map_or(&[], |chain| &chain[..len as usize])
    }
}

/// True if one list begins with another; at once if they share memory.
#[inline]
pub(crate) fn begins_with(list: &[Value], beginning: &[Value]) -> bool {
    beginning.len() <= list.len()
        && (std::ptr::eq(list.as_ptr(), beginning.as_ptr()) || same(&list[..beginning.len()], beginning))
}

/// Equality of lists of the same length, eight elements at a time: looking for the first difference is four
/// times slower.
fn same(a: &[Value], b: &[Value]) -> bool {
    let differ = |a: &[Value], b: &[Value]| a.iter().zip(b).fold(0, |d, (a, b)| d | (a.0 ^ b.0)) != 0;
    let (mut eights, mut others) = (a.chunks_exact(8), b.chunks_exact(8));
    !eights.by_ref().zip(others.by_ref()).any(|(a, b)| differ(a, b))
        && !differ(eights.remainder(), others.remainder())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_62_bits_are_stored_in_place() {
        for v in [0, 1, -1, (1 << 61) - 1, -(1 << 61)] {
            assert_eq!(Value::int(v).unwrap().view(), View::Int(v));
        }
        for v in [1 << 61, -(1 << 61) - 1, i64::MAX, i64::MIN] {
            assert_eq!(Value::int(v), None);
        }
    }

    #[test]
    fn atoms_are_interned_by_kind_and_text() {
        let mut atoms = Atoms::default();
        let x = atoms.intern(AtomKind::Keyword, "x");
        assert_eq!(atoms.intern(AtomKind::Keyword, "x"), x);
        assert_ne!(atoms.intern(AtomKind::Text, "x"), x);
        let View::Atom(id) = x.view() else { panic!("{x:?}") };
        assert_eq!(atoms.get(id), (AtomKind::Keyword, "x"));
    }

    #[test]
    fn beginnings_share_memory() {
        let v: Vec<Value> = (0..6).map(|i| Value::int(i).unwrap()).collect();
        let mut lists = Lists::default();
        let other = [v[0], v[2]];
        let given: [&[Value]; 7] = [&v[..0], &v[..2], &v[..4], &other, &v[..3], &v[..1], &v[3..]];
        let ids: Vec<ListId> = given.iter().map(|elements| lists.push(elements)).collect();
        for (id, elements) in ids.iter().zip(given) {
            assert_eq!(lists.get(*id), elements);
        }
        assert_eq!((lists.count(), lists.stored()), (7, 4 + 2 + 3));
        let is_begun = |a: usize, b: usize| begins_with(lists.get(ids[a]), lists.get(ids[b]));
        assert!(is_begun(2, 1) && is_begun(2, 4) && is_begun(2, 0) && is_begun(0, 0));
        assert!(!is_begun(1, 2) && !is_begun(2, 3) && !is_begun(2, 6));
    }

    #[test]
    fn special_values_are_distinct() {
        assert_eq!(Value::UNKNOWN.view(), View::Unknown);
        assert_ne!(Value::NIL, Value::UNKNOWN);
        assert_ne!(Value::int(0).unwrap(), Value::NIL);
    }
}
