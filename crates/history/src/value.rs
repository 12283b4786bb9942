//! Values, eight bytes each.
//!
//! Real histories hold tens of millions of values and nearly all are integers, so an integer of up to 62 bits is
//! stored in place. Anything else (text, keywords, larger numbers, vectors) is an *atom*: interned once, compared by
//! its number. A list read points into one arena of elements. Equal values always have equal representations.

use rustc_hash::FxHashMap;
use std::fmt;

/// A value, or a name given to a key, session or transaction.
///
/// ```
/// use isolde_history::{Value, View};
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

const TAG_BITS: u32 = 2;
const INT: u64 = 0;
const ATOM: u64 = 1;
const LIST: u64 = 2;
const SPECIAL: u64 = 3;

impl Value {
    /// No value.
    pub const NIL: Value = Value(SPECIAL);
    /// The result of this read was not recorded.
    pub const UNKNOWN: Value = Value(1 << TAG_BITS | SPECIAL);

    /// An integer in place; `None` if it needs more than 62 bits (then [`Builder::int`](crate::Builder::int) interns it).
    #[inline]
    pub fn int(v: i64) -> Option<Value> {
        let shifted = v << TAG_BITS;
        (shifted >> TAG_BITS == v).then_some(Value(shifted as u64 | INT))
    }

    pub(crate) fn atom(id: AtomId) -> Value {
        Value(u64::from(id.0) << TAG_BITS | ATOM)
    }

    pub(crate) fn list(id: ListId) -> Value {
        Value(u64::from(id.0) << TAG_BITS | LIST)
    }

    /// Takes the value apart.
    #[inline]
    pub fn view(self) -> View {
        match self.0 & ((1 << TAG_BITS) - 1) {
            INT => View::Int(self.0 as i64 >> TAG_BITS),
            ATOM => View::Atom(AtomId((self.0 >> TAG_BITS) as u32)),
            LIST => View::List(ListId((self.0 >> TAG_BITS) as u32)),
            _ if self == Value::NIL => View::Nil,
            _ => View::Unknown,
        }
    }

    /// True for a list.
    #[inline]
    pub fn is_list(self) -> bool {
        self.0 & ((1 << TAG_BITS) - 1) == LIST
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
}

impl Atoms {
    /// The value of this atom; the same text of the same kind is the same value.
    pub fn intern(&mut self, kind: AtomKind, text: &str) -> Value {
        // The map is asked with an owned key because a borrowed (kind, &str) has no `Borrow` form; atoms are rare.
        let key = (kind, Box::from(text));
        if let Some(&id) = self.ids.get(&key) {
            return Value::atom(id);
        }
        let id = AtomId(self.atoms.len() as u32);
        self.atoms.push(key.clone());
        self.ids.insert(key, id);
        Value::atom(id)
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

/// The list values of a history, one after another in one arena.
#[derive(Clone, Debug)]
pub struct Lists {
    start: Vec<u32>,
    elements: Vec<Value>,
}

impl Default for Lists {
    fn default() -> Self {
        Lists { start: vec![0], elements: Vec::new() }
    }
}

impl Lists {
    pub(crate) fn push(&mut self, elements: &[Value]) -> ListId {
        self.elements.extend_from_slice(elements);
        self.start.push(self.elements.len() as u32);
        ListId(self.start.len() as u32 - 2)
    }

    /// Number of lists.
    pub fn count(&self) -> usize {
        self.start.len() - 1
    }

    /// Number of elements in all lists together.
    pub fn total_len(&self) -> usize {
        self.elements.len()
    }

    /// The elements of a list.
    #[inline]
    pub fn get(&self, id: ListId) -> &[Value] {
        let i = id.0 as usize;
        &self.elements[self.start[i] as usize..self.start[i + 1] as usize]
    }
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
    fn special_values_are_distinct() {
        assert_eq!(Value::UNKNOWN.view(), View::Unknown);
        assert_ne!(Value::NIL, Value::UNKNOWN);
        assert_ne!(Value::int(0).unwrap(), Value::NIL);
    }
}
