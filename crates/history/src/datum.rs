//! A value of any shape: what operations that are not transactions of reads and writes are about.

use std::cmp::Ordering;
use std::fmt;

/// A value as EDN or JSON has them.
///
/// Equality is that of the notation: a keyword is not a string, and maps are equal whatever the order of
/// their entries in the file, because readers sort them.
///
/// ```
/// use anomalist_history::Datum;
/// let read = Datum::map([("from", Datum::Int(3)), ("amount", Datum::Int(5))]);
/// assert_eq!(read.get("amount"), Some(&Datum::Int(5)));
/// assert_eq!(read.to_string(), "{:from 3, :amount 5}");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Datum {
    /// No value.
    #[default]
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// Any other number, as written.
    Number(Box<str>),
    /// A keyword, without its colon.
    Keyword(Box<str>),
    /// A string or a symbol.
    Text(Box<str>),
    /// A vector, list or set.
    List(Vec<Datum>),
    /// A map; sorted by key when it comes from a file.
    Map(Vec<(Datum, Datum)>),
}

impl Datum {
    /// A keyword.
    pub fn keyword(name: &str) -> Datum {
        Datum::Keyword(name.into())
    }

    /// A string.
    pub fn text(text: impl Into<String>) -> Datum {
        Datum::Text(text.into().into_boxed_str())
    }

    /// A count.
    pub fn count(n: usize) -> Datum {
        Datum::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// A map from keywords, in the order given.
    pub fn map<'k>(entries: impl IntoIterator<Item = (&'k str, Datum)>) -> Datum {
        Datum::Map(entries.into_iter().map(|(name, value)| (Datum::keyword(name), value)).collect())
    }

    /// True for nil.
    pub fn is_nil(&self) -> bool {
        *self == Datum::Nil
    }

    /// The integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Datum::Int(i) => Some(*i),
            _ => None,
        }
    }

    /// The elements of a list.
    pub fn as_list(&self) -> Option<&[Datum]> {
        match self {
            Datum::List(elements) => Some(elements),
            _ => None,
        }
    }

    /// The entries of a map.
    pub fn as_map(&self) -> Option<&[(Datum, Datum)]> {
        match self {
            Datum::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The name of a keyword or the text of a string: JSON has no keywords.
    pub fn as_name(&self) -> Option<&str> {
        match self {
            Datum::Keyword(name) | Datum::Text(name) => Some(name),
            _ => None,
        }
    }

    /// The two parts of a list of two.
    pub fn as_pair(&self) -> Option<(&Datum, &Datum)> {
        match self.as_list()? {
            [a, b] => Some((a, b)),
            _ => None,
        }
    }

    /// The value at a name in a map.
    pub fn get(&self, name: &str) -> Option<&Datum> {
        self.as_map()?.iter().find(|(key, _)| key.as_name() == Some(name)).map(|(_, value)| value)
    }

    /// The same as the name of a thing. A JSON object can name an account only in a string, while a
    /// transfer names it by its number: what reads as an integer is one.
    pub fn normal_key(&self) -> Datum {
        match self.as_name().and_then(|name| name.parse().ok()) {
            Some(i) => Datum::Int(i),
            None => match self.as_name() {
                Some(name) => Datum::text(name),
                None => self.clone(),
            },
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Datum::Nil => 0,
            Datum::Bool(_) => 1,
            Datum::Int(_) => 2,
            Datum::Number(_) => 3,
            Datum::Keyword(_) => 4,
            Datum::Text(_) => 5,
            Datum::List(_) => 6,
            Datum::Map(_) => 7,
        }
    }
}

/// Nil, truth values, integers, other numbers by their text, keywords, strings, lists, maps.
impl Ord for Datum {
    fn cmp(&self, other: &Datum) -> Ordering {
        match (self, other) {
            (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
            (Datum::Int(a), Datum::Int(b)) => a.cmp(b),
            (Datum::Number(a), Datum::Number(b))
            | (Datum::Keyword(a), Datum::Keyword(b))
            | (Datum::Text(a), Datum::Text(b)) => a.cmp(b),
            (Datum::List(a), Datum::List(b)) => a.cmp(b),
            (Datum::Map(a), Datum::Map(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Datum {
    fn partial_cmp(&self, other: &Datum) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// As EDN. Recursion is bounded: readers refuse deep nesting.
impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Datum::Nil => f.write_str("nil"),
            Datum::Bool(b) => write!(f, "{b}"),
            Datum::Int(i) => write!(f, "{i}"),
            Datum::Number(text) => f.write_str(text),
            Datum::Keyword(name) => write!(f, ":{name}"),
            Datum::Text(text) => write!(f, "{text:?}"),
            Datum::List(elements) => {
                f.write_str("[")?;
                for (i, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if i > 0 { " " } else { "" })?;
                }
                f.write_str("]")
            }
            Datum::Map(entries) => {
                f.write_str("{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key} {value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_same_in_either_notation() {
        assert_eq!(Datum::text("12").normal_key(), Datum::Int(12));
        assert_eq!(Datum::keyword("a").normal_key(), Datum::text("a").normal_key());
        assert_eq!(Datum::Int(-1).normal_key(), Datum::Int(-1));
        assert_ne!(Datum::keyword("a"), Datum::text("a"));
    }

    #[test]
    fn ordered_like_equality() {
        let all = [
            Datum::Nil,
            Datum::Bool(false),
            Datum::Int(3),
            Datum::Number("1.5".into()),
            Datum::keyword("a"),
            Datum::text("a"),
            Datum::List(vec![Datum::Nil]),
            Datum::map([("k", Datum::Int(1))]),
        ];
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(all.map(|d| d.to_string()).join(" "), "nil false 3 1.5 :a \"a\" [nil] {:k 1}");
    }
}
