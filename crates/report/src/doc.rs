//! A JSON document that keeps its keys in the order in which they were written.
//!
//! `serde_json::Value` sorts keys (its `preserve_order` feature is a choice for the whole build, not for a
//! library), and people read these documents too. So documents are built as [`Doc`] and printed here:
//! whatever fits on a line stays on one, the rest is broken up.

use serde_core::{Serialize, Serializer};
use serde_json::Value;
use std::fmt::Write;

/// A JSON value.
#[derive(Clone, Debug)]
pub enum Doc {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(serde_json::Number),
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Doc>),
    /// An object, its fields in order.
    Object(Vec<(&'static str, Doc)>),
}

/// A line of a printed document is at most this long, unless a single string is longer.
const WIDTH: usize = 110;

impl Doc {
    /// A string.
    pub fn text(text: impl ToString) -> Doc {
        Doc::Text(text.to_string())
    }

    /// An array of strings.
    pub fn texts<T: ToString>(texts: impl IntoIterator<Item = T>) -> Doc {
        Doc::Array(texts.into_iter().map(|t| Doc::Text(t.to_string())).collect())
    }

    /// A duration in milliseconds, to the microsecond.
    pub fn millis(ms: f64) -> Doc {
        let rounded = (ms * 1000.0).round() / 1000.0;
        Doc::Number(serde_json::Number::from_f64(rounded).unwrap_or_else(|| 0.into()))
    }

    /// The same document for programs.
    pub fn to_value(&self) -> Value {
        match self {
            Doc::Null => Value::Null,
            Doc::Bool(b) => Value::Bool(*b),
            Doc::Number(n) => Value::Number(n.clone()),
            Doc::Text(t) => Value::String(t.clone()),
            Doc::Array(items) => Value::Array(items.iter().map(Doc::to_value).collect()),
            Doc::Object(fields) => {
                Value::Object(fields.iter().map(|(k, v)| ((*k).to_owned(), v.to_value())).collect())
            }
        }
    }

    /// The document as text, with a newline at its end.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.print(0, 0, &mut out);
        out.push('\n');
        out
    }

    fn print(&self, indent: usize, column: usize, out: &mut String) {
        let flat = self.flat();
        if column + flat.chars().count() <= WIDTH {
            out.push_str(&flat);
            return;
        }
        let newline = |out: &mut String, indent: usize| {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
        };
        match self {
            Doc::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    newline(out, indent + 2);
                    item.print(indent + 2, indent + 2, out);
                }
                newline(out, indent);
                out.push(']');
            }
            Doc::Object(fields) => {
                out.push('{');
                for (i, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    newline(out, indent + 2);
                    let _ = write!(out, "\"{name}\": ");
                    value.print(indent + 2, indent + 2 + name.len() + 4, out);
                }
                newline(out, indent);
                out.push('}');
            }
            _ => out.push_str(&flat),
        }
    }

    fn flat(&self) -> String {
        match self {
            Doc::Array(items) => {
                format!("[{}]", items.iter().map(Doc::flat).collect::<Vec<_>>().join(", "))
            }
            Doc::Object(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(k, v)| format!("\"{k}\": {}", v.flat())).collect();
                format!("{{{}}}", fields.join(", "))
            }
            plain => plain.to_value().to_string(),
        }
    }
}

impl Serialize for Doc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Doc::Null => serializer.serialize_unit(),
            Doc::Bool(b) => serializer.serialize_bool(*b),
            Doc::Number(n) => n.serialize(serializer),
            Doc::Text(t) => serializer.serialize_str(t),
            Doc::Array(items) => serializer.collect_seq(items),
            Doc::Object(fields) => serializer.collect_map(fields.iter().map(|(k, v)| (k, v))),
        }
    }
}

impl From<u64> for Doc {
    fn from(n: u64) -> Doc {
        Doc::Number(n.into())
    }
}

impl From<&str> for Doc {
    fn from(text: &str) -> Doc {
        Doc::Text(text.to_owned())
    }
}

impl From<String> for Doc {
    fn from(text: String) -> Doc {
        Doc::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_long_parts_are_broken_up() {
        let long: Vec<String> = (0..30).map(|i| format!("item {i}")).collect();
        let doc = Doc::Object(vec![("z", 1.into()), ("a", Doc::texts(&long)), ("q", "x\n\"".into())]);
        let text = doc.pretty();
        assert!(text.starts_with("{\n  \"z\": 1,\n  \"a\": [\n    \"item 0\",\n"), "{text}");
        let short = Doc::Object(vec![("z", 1.into()), ("a", Doc::texts(["b", "c\n"]))]);
        assert_eq!(short.pretty(), "{\"z\": 1, \"a\": [\"b\", \"c\\n\"]}\n");
        assert_eq!(serde_json::from_str::<Value>(&short.pretty()).unwrap(), short.to_value());
        assert_eq!(Doc::millis(1.23456).flat(), "1.235");
        assert_eq!(Doc::millis(f64::NAN).flat(), "0");
    }
}
