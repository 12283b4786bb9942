//! Collections out of EDN and JSON: as trees, and as the one text that equal collections share.
//!
//! Equality is Clojure's: a vector equals a list with the same elements, maps and sets are equal whatever
//! their order, and so are numbers of one category (`decimal.rs`). JSON's arrays and objects follow the
//! same rules. A collection is built from the inside with an explicit stack of bounded depth: nothing
//! recurses on input. O(n log n).

use super::edn::{Edn, Token};
use super::fault::Fault;
use super::json::{DEPTH_LIMIT, Json, Scalar};
use super::value::quote;
use anomalist_history::Datum;
use std::borrow::Cow;

/// What a value is made into.
pub(crate) trait Tree: Sized + Ord {
    /// A value that is no collection; the token is neither a bracket nor the end.
    fn leaf(token: Token<'_>) -> Self;
    fn list(parts: Vec<Self>) -> Self;
    /// A set, sorted and each element once.
    fn set(parts: Vec<Self>) -> Self;
    /// A map, sorted by key and each key once.
    fn map(entries: Vec<(Self, Self)>) -> Self;
    /// A keyword without namespace in this namespace, `_` being none; anything else is as it was.
    fn qualified(self, namespace: &str) -> Self;
}

impl Tree for Datum {
    fn leaf(token: Token<'_>) -> Datum {
        match token {
            Token::Bool(b) => Datum::Bool(b),
            Token::Int(i) => Datum::Int(i),
            Token::Number(text) => Datum::Number(text.into()),
            Token::Keyword(name) => Datum::Keyword(name.into()),
            Token::Symbol(text) | Token::Text(text) => Datum::Text(text.into()),
            Token::Nil | Token::Open(_) | Token::Close(_) | Token::End => Datum::Nil,
        }
    }

    fn list(parts: Vec<Datum>) -> Datum {
        Datum::List(parts)
    }

    fn set(parts: Vec<Datum>) -> Datum {
        Datum::List(parts)
    }

    fn map(entries: Vec<(Datum, Datum)>) -> Datum {
        Datum::Map(entries)
    }

    fn qualified(self, namespace: &str) -> Datum {
        match self {
            Datum::Keyword(name) => Datum::Keyword(qualified(&name, namespace).into()),
            other => other,
        }
    }
}

/// A value as its one text, in EDN.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Canonical(String);

impl Canonical {
    fn collection(open: &str, parts: impl IntoIterator<Item = Canonical>, close: char) -> Canonical {
        let mut text = open.to_owned();
        for (i, part) in parts.into_iter().enumerate() {
            if i > 0 {
                text.push(' ');
            }
            text.push_str(&part.0);
        }
        text.push(close);
        Canonical(text)
    }
}

impl Tree for Canonical {
    fn leaf(token: Token<'_>) -> Canonical {
        Canonical(match token {
            Token::Bool(b) => b.to_string(),
            Token::Int(i) => i.to_string(),
            Token::Number(text) | Token::Symbol(text) => text.into_owned(),
            Token::Keyword(name) => format!(":{name}"),
            Token::Text(text) => {
                let mut quoted = String::new();
                quote(&mut quoted, &text);
                quoted
            }
            Token::Nil | Token::Open(_) | Token::Close(_) | Token::End => "nil".to_owned(),
        })
    }

    fn list(parts: Vec<Canonical>) -> Canonical {
        Canonical::collection("[", parts, ']')
    }

    fn set(parts: Vec<Canonical>) -> Canonical {
        Canonical::collection("#{", parts, '}')
    }

    fn map(entries: Vec<(Canonical, Canonical)>) -> Canonical {
        Canonical::collection("{", entries.into_iter().flat_map(|(key, value)| [key, value]), '}')
    }

    fn qualified(self, namespace: &str) -> Canonical {
        match self.0.strip_prefix(':') {
            Some(name) => Canonical(format!(":{}", qualified(name, namespace))),
            None => self,
        }
    }
}

/// The name of a keyword in `#:namespace{…}`.
fn qualified<'n>(name: &'n str, namespace: &str) -> Cow<'n, str> {
    match name.split_once('/') {
        Some(("_", bare)) => bare.into(),
        Some(_) => name.into(),
        None => format!("{namespace}/{name}").into(),
    }
}

/// The kinds of collections; a map may lend its keys a namespace.
enum Shape<'a> {
    List,
    Set,
    Map(Option<&'a str>),
}

/// Collections that have begun: what closes each, its kind, and its parts so far.
struct Nest<'a, T>(Vec<(u8, Shape<'a>, Vec<T>)>);

impl<'a, T: Tree> Nest<'a, T> {
    fn open(&mut self, close: u8, shape: Shape<'a>, at: usize) -> Result<(), Fault> {
        if self.0.len() as u32 == DEPTH_LIMIT {
            return Err(Fault::new(at, format!("more than {DEPTH_LIMIT} levels of nesting")));
        }
        self.0.push((close, shape, Vec::new()));
        Ok(())
    }

    /// Adds a value to the innermost collection; gives it back if there is none.
    fn add(&mut self, value: T) -> Option<T> {
        match self.0.last_mut() {
            Some((_, _, parts)) => {
                parts.push(value);
                None
            }
            None => Some(value),
        }
    }

    /// Ends the innermost collection, which this bracket must close.
    fn close(&mut self, bracket: u8, at: usize) -> Result<T, Fault> {
        match self.0.pop() {
            Some((close, shape, mut parts)) if close == bracket => Ok(match shape {
                Shape::List => T::list(parts),
                Shape::Set => {
                    parts.sort();
                    parts.dedup();
                    T::set(parts)
                }
                Shape::Map(_) if parts.len() % 2 == 1 => {
                    return Err(Fault::new(at, "expected a value after the last key of this map"));
                }
                Shape::Map(namespace) => T::map(entries(parts, namespace)),
            }),
            Some((close, ..)) => {
                let message =
                    format!("expected a value or \"{}\", found \"{}\"", close as char, bracket as char);
                Err(Fault::new(at, message))
            }
            None => Err(Fault::new(at, format!("expected a value, found \"{}\"", bracket as char))),
        }
    }
}

/// Keys and values in turn, as the entries of a map: sorted, the last of several with one key.
fn entries<T: Tree>(parts: Vec<T>, namespace: Option<&str>) -> Vec<(T, T)> {
    let mut parts = parts.into_iter();
    let mut entries = Vec::with_capacity(parts.len() / 2);
    while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
        let key = match namespace {
            Some(namespace) => key.qualified(namespace),
            None => key,
        };
        entries.push((key, value));
    }
    entries.reverse();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries.dedup_by(|later, kept| later.0 == kept.0);
    entries
}

impl<'a> Edn<'a> {
    /// A value whose first token the caller has taken.
    pub fn tree<T: Tree>(&mut self, first: Token<'a>) -> Result<T, Fault> {
        let (mut nest, mut token) = (Nest(Vec::new()), first);
        loop {
            let at = self.token_at();
            let value = match token {
                Token::Open(close) => {
                    let shape = match close {
                        b'}' if self.at_set() => Shape::Set,
                        b'}' => Shape::Map(self.namespace()),
                        _ => Shape::List,
                    };
                    nest.open(close, shape, at)?;
                    None
                }
                Token::Close(bracket) => Some(nest.close(bracket, at)?),
                Token::End => {
                    return Err(self.expected(&match nest.0.last() {
                        Some((close, ..)) => format!("a value or \"{}\"", *close as char),
                        None => "a value".to_owned(),
                    }));
                }
                leaf => Some(T::leaf(leaf)),
            };
            if let Some(whole) = value.and_then(|value| nest.add(value)) {
                return Ok(whole);
            }
            token = self.next()?;
        }
    }

    /// The one text of a value whose first token the caller has taken.
    pub fn canonical(&mut self, first: Token<'a>) -> Result<String, Fault> {
        self.tree::<Canonical>(first).map(|text| text.0)
    }
}

impl Json<'_> {
    /// The value that stands here.
    pub fn tree<T: Tree>(&mut self) -> Result<T, Fault> {
        let mut nest = Nest(Vec::new());
        let mut first = true;
        loop {
            // Standing before a value, or before the next part of the innermost collection.
            let value = match nest.0.last() {
                Some((b']', ..)) if !self.element(&mut first)? => Some(nest.close(b']', self.at())?),
                Some((b'}', ..)) => match self.key(&mut first)? {
                    None => Some(nest.close(b'}', self.at())?),
                    Some(name) => {
                        let name = String::from_utf8(name.into_owned());
                        let name =
                            name.map_err(|_| Fault::new(self.at(), "expected UTF-8, found other bytes"))?;
                        nest.add(T::leaf(Token::Text(name.into())));
                        self.part(&mut nest, &mut first)?
                    }
                },
                _ => self.part(&mut nest, &mut first)?,
            };
            if let Some(value) = value {
                first = false;
                if let Some(whole) = nest.add(value) {
                    return Ok(whole);
                }
            }
        }
    }

    /// A scalar; or nothing, a collection having begun.
    fn part<T: Tree>(&mut self, nest: &mut Nest<'_, T>, first: &mut bool) -> Result<Option<T>, Fault> {
        if let Some(bracket @ (b'[' | b'{')) = self.peek() {
            let shape = if bracket == b'{' { Shape::Map(None) } else { Shape::List };
            nest.open(bracket + 2, shape, self.at())?; // ASCII: `]` and `}` come two later
            self.open(bracket, "a value")?;
            *first = true;
            return Ok(None);
        }
        Ok(Some(T::leaf(match self.scalar("a value")? {
            Scalar::Null => Token::Nil,
            Scalar::Bool(b) => Token::Bool(b),
            Scalar::Int(i) => Token::Int(i),
            Scalar::Number(text) => Token::Number(text),
            Scalar::Text(text) => Token::Text(text),
        })))
    }

    /// The one text, in EDN, of the value that stands here.
    pub fn canonical(&mut self) -> Result<String, Fault> {
        self.tree::<Canonical>().map(|text| text.0)
    }
}
