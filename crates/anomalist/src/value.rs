//! Keys, values and names as programs have them.

use anomalist_history::{AtomKind, Builder, Value as Interned};

/// A key, a value, or the name of a session.
///
/// Integers, texts and options of them convert by themselves; so do vectors, which are lists.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Value {
    /// Nothing: a row that is not there.
    Null,
    /// An integer.
    Int(i64),
    /// A word without quotes: `true`, or a number that is not an integer of 64 bits.
    Token(String),
    /// A text.
    Text(String),
    /// The elements of a list.
    List(Vec<Value>),
}

impl Value {
    pub(crate) fn interned(&self, builder: &mut Builder) -> Interned {
        match self {
            Value::Null => Interned::NIL,
            Value::Int(i) => builder.int(*i),
            Value::Token(text) => builder.atom(AtomKind::Token, text),
            Value::Text(text) => builder.atom(AtomKind::Text, text),
            Value::List(elements) => {
                let elements: Vec<Interned> = elements.iter().map(|e| e.interned(builder)).collect();
                builder.list(&elements)
            }
        }
    }
}

macro_rules! integers {
    ($($from:ty)*) => {
        $(impl From<$from> for Value {
            fn from(number: $from) -> Value {
                i64::try_from(number).map_or_else(|_| Value::Token(number.to_string()), Value::Int)
            }
        })*
    };
}

integers!(i8 i16 i32 i64 isize i128 u8 u16 u32 u64 usize u128);

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Token(value.to_string())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.clone())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(elements: Vec<T>) -> Value {
        Value::List(elements.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value> + Clone> From<&[T]> for Value {
    fn from(elements: &[T]) -> Value {
        Value::List(elements.iter().cloned().map(Into::into).collect())
    }
}

impl<T: Into<Value>, const N: usize> From<[T; N]> for Value {
    fn from(elements: [T; N]) -> Value {
        Value::List(elements.into_iter().map(Into::into).collect())
    }
}
