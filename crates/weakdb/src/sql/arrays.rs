//! PostgreSQL's lists as texts: `{a,"b c",NULL}`. Clients send them for `= ANY`, and the catalogue has some.

use serde_json::Value as Json;

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

/// One of PostgreSQL's lists as a list of JSON.
#[must_use]
pub fn to_json(text: &str) -> Option<String> {
    let items = elements(text)?.into_iter().map(|e| e.map_or(Json::Null, Json::String)).collect();
    Some(Json::Array(items).to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in ["{}", "{a}", "{a,\"b c\",NULL,\"null\",\"\",\"x\\\"y\\\\z\",\"{\"}", "{1,2}"] {
            assert_eq!(list(&elements(text).unwrap()), text);
            assert_eq!(from_json(&to_json(text).unwrap()).unwrap(), text);
        }
        assert_eq!(elements(" { a , b } ").unwrap(), [Some("a".to_owned()), Some("b".to_owned())]);
        assert_eq!(elements("{a,,b}").unwrap()[1], Some(String::new()));
        for text in ["", "a", "{a", "{{1},{2}}", "{\"a}", "{a\\"] {
            assert_eq!(elements(text), None, "{text}");
        }
    }
}
