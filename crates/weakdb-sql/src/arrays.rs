//! PostgreSQL's lists as texts: `{a,"b c",NULL}`. Clients send them for `= ANY`, queries of the catalogue
//! make them, and it has some, among them vectors: numbers with spaces between them.

use super::types::Type;
use serde_json::Value as Json;

/// The type of a list's elements, as far as clients have to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// True or false.
    Bool,
    /// 16 bits.
    Int2,
    /// 32 bits.
    Int4,
    /// 64 bits.
    Int8,
    /// Anything else.
    Text,
}

impl Element {
    /// All of them, with the number and the name of their lists in PostgreSQL.
    const ALL: [(Element, u32, &str); 5] = [
        (Element::Bool, 1000, "boolean[]"),
        (Element::Int2, 1005, "smallint[]"),
        (Element::Int4, 1007, "integer[]"),
        (Element::Int8, 1016, "bigint[]"),
        (Element::Text, 1009, "text[]"),
    ];

    /// What lists of this type are of.
    #[must_use]
    pub fn of(kind: Type) -> Element {
        Element::ALL.into_iter().map(|e| e.0).find(|e| e.kind() == kind).unwrap_or(Element::Text)
    }

    /// The type of one.
    #[must_use]
    pub fn kind(self) -> Type {
        match self {
            Element::Bool => Type::Bool,
            Element::Int2 => Type::Int2,
            Element::Int4 => Type::Int4,
            Element::Int8 => Type::Int8,
            Element::Text => Type::Text,
        }
    }

    /// Number and name of a list of them in PostgreSQL.
    #[must_use]
    pub fn list(self) -> (u32, &'static str) {
        let found = Element::ALL.into_iter().find(|e| e.0 == self);
        found.map_or((1009, "text[]"), |(_, oid, name)| (oid, name))
    }

    /// By the number of its lists. Lists of VARCHAR count as lists of texts.
    #[must_use]
    pub fn numbered(oid: u32) -> Option<Element> {
        let oid = if oid == 1015 { 1009 } else { oid };
        Element::ALL.into_iter().find(|e| e.1 == oid).map(|e| e.0)
    }
}

/// The elements of a list or a vector, and the subscript of the first: vectors count from 0, lists from 1.
#[must_use]
pub fn items(text: &str) -> Option<(Vec<Option<String>>, i64)> {
    if text.trim_start().starts_with('{') {
        return Some((elements(text)?, 1));
    }
    Some((text.split_whitespace().map(|item| Some(item.to_owned())).collect(), 0))
}

/// The elements of a list of one dimension; `None` if the text is no such list.
#[must_use]
pub fn elements(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut all = Vec::new();
    if inner.trim().is_empty() {
        return Some(all);
    }
    let mut chars = inner.chars();
    let (mut item, mut quoted, mut inside) = (String::new(), false, false);
    loop {
        match chars.next() {
            Some('\\') => item.push(chars.next()?),
            Some('"') => (quoted, inside) = (true, !inside),
            Some('{' | '}') if !inside => return None,
            Some(c) if inside || c != ',' => item.push(c),
            end => {
                let word = std::mem::take(&mut item);
                all.push(match (quoted, word.trim()) {
                    (true, _) => Some(word),
                    (false, bare) if bare.eq_ignore_ascii_case("null") => None,
                    (false, bare) => Some(bare.to_owned()),
                });
                quoted = false;
                if end.is_none() {
                    return (!inside).then_some(all);
                }
            }
        }
    }
}

/// The list of these elements.
#[must_use]
pub fn list(elements: &[Option<String>]) -> String {
    let item = |e: &Option<String>| match e {
        None => "NULL".to_owned(),
        Some(t)
            if t.is_empty()
                || t.eq_ignore_ascii_case("null")
                || t.contains(|c: char| "{},\"\\".contains(c) || c.is_whitespace()) =>
        {
            format!("\"{}\"", t.replace('\\', "\\\\").replace('"', "\\\""))
        }
        Some(t) => t.clone(),
    };
    format!("{{{}}}", elements.iter().map(item).collect::<Vec<_>>().join(","))
}

/// A list of JSON as one of PostgreSQL's.
#[must_use]
pub fn from_json(text: &str) -> Option<String> {
    let Ok(Json::Array(items)) = serde_json::from_str(text) else { return None };
    let plain = |item: Json| match item {
        Json::Null => None,
        Json::String(t) => Some(t),
        other => Some(other.to_string()),
    };
    Some(list(&items.into_iter().map(plain).collect::<Vec<_>>()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in ["{}", "{a}", "{a,\"b c\",NULL,\"null\",\"\",\"x\\\"y\\\\z\",\"{\"}", "{1,2}"] {
            assert_eq!(list(&elements(text).unwrap()), text);
        }
        assert_eq!(elements(" { a , b } ").unwrap(), [Some("a".to_owned()), Some("b".to_owned())]);
        assert_eq!(items("1 22").unwrap(), (vec![Some("1".to_owned()), Some("22".to_owned())], 0));
        assert_eq!(items("{7}").unwrap(), (vec![Some("7".to_owned())], 1));
        assert_eq!(items("").unwrap().0, []);
        for (element, oid, _) in Element::ALL {
            assert_eq!((Element::of(element.kind()), Element::numbered(oid)), (element, Some(element)));
        }
        assert_eq!(elements("{a,,b}").unwrap()[1], Some(String::new()));
        for text in ["", "a", "{a", "{{1},{2}}", "{\"a}", "{a\\"] {
            assert_eq!(elements(text), None, "{text}");
        }
    }
}
