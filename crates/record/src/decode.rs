//! Lines of the plugin test_decoding.
//!
//! ```text
//! BEGIN 745
//! table public.t: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 v[text]:'it''s'
//! COMMIT 745
//! ```
//!
//! A line that does not have this form is no change: what is not understood is not seen, and so is never
//! evidence. Linear in the line.

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A transaction begins that has committed; the last 32 bits of its number.
    Begin(u32),
    /// The end of it.
    Commit,
    Change(Change),
    /// Anything else.
    Other,
}

/// Columns by name, with their values as the types print them; `None` is NULL.
pub(crate) type Columns = Vec<(String, Option<String>)>;

/// A row was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub schema: String,
    pub table: String,
    /// What was there before, if its key was another, or if nothing is there now.
    pub old: Option<Columns>,
    pub new: Option<Columns>,
    pub is_update: bool,
}

/// Reads a line.
pub(crate) fn line(text: &str) -> Line {
    if let Some(number) = text.strip_prefix("BEGIN ") {
        return number.trim().parse().map_or(Line::Other, Line::Begin);
    }
    if text.starts_with("COMMIT") {
        return Line::Commit;
    }
    text.strip_prefix("table ").and_then(change).map_or(Line::Other, Line::Change)
}

fn change(text: &str) -> Option<Change> {
    let mut rest = Rest(text);
    let schema = rest.name()?;
    rest.take(".")?;
    let table = rest.name()?;
    rest.take(": ")?;
    let (what, after) = rest.0.split_once(": ")?;
    let mut rest = Rest(after);
    let (mut old, mut new) = (None, None);
    match what {
        "INSERT" => new = Some(rest.columns()),
        "UPDATE" => {
            if rest.take("old-key: ").is_some() {
                old = Some(rest.columns());
                rest.take("new-tuple: ")?;
            }
            new = Some(rest.columns());
        }
        "DELETE" => old = Some(rest.columns()),
        _ => return None,
    }
    rest.0.is_empty().then_some(Change { schema, table, old, new, is_update: what == "UPDATE" })
}

struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn take(&mut self, expected: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// A text in quotes of this kind, doubled where they are part of it.
    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut rest = self.0.strip_prefix(quote)?;
        let mut text = String::new();
        loop {
            let (part, after) = rest.split_once(quote)?;
            text.push_str(part);
            rest = match after.strip_prefix(quote) {
                Some(more) => {
                    text.push(quote);
                    more
                }
                None => {
                    self.0 = after;
                    return Some(text);
                }
            };
        }
    }

    fn name(&mut self) -> Option<String> {
        if self.0.starts_with('"') {
            return self.quoted('"');
        }
        let end = self.0.find(|c: char| ".:[, ".contains(c)).filter(|&end| end > 0)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(name.to_owned())
    }

    /// Columns up to the end, or to something else.
    fn columns(&mut self) -> Columns {
        let mut columns = Columns::new();
        if self.take("(no-tuple-data)").is_some() {
            self.0 = self.0.trim_start();
            return columns;
        }
        loop {
            let mut one = Rest(self.0);
            let Some(column) = one.column() else { return columns };
            columns.extend(column);
            self.0 = one.0.strip_prefix(' ').unwrap_or(one.0);
            if self.0.is_empty() {
                return columns;
            }
        }
    }

    /// `name[type]:value`; nothing within if the value was not logged.
    fn column(&mut self) -> Option<Option<(String, Option<String>)>> {
        let name = self.name()?;
        self.take("[")?;
        let end = self.0.find("]:")?;
        self.0 = &self.0[end + 2..];
        if self.0.starts_with('\'') {
            return Some(Some((name, Some(self.quoted('\'')?))));
        }
        if self.0.starts_with("B'") {
            self.take("B")?;
            return Some(Some((name, Some(self.quoted('\'')?))));
        }
        let end = self.0.find(' ').unwrap_or(self.0.len());
        let (value, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(match value {
            "unchanged-toast-datum" => None,
            "null" => Some((name, None)),
            _ => Some((name, Some(value.to_owned()))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(pairs: &[(&str, Option<&str>)]) -> Columns {
        pairs.iter().map(|(n, v)| ((*n).to_owned(), v.map(str::to_owned))).collect()
    }

    #[test]
    fn lines_as_the_plugin_prints_them() {
        assert_eq!(line("BEGIN 745"), Line::Begin(745));
        assert_eq!(line("COMMIT 745"), Line::Commit);
        let Line::Change(found) = line(
            "table public.t: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 v[text]:'it''s: 1' n[text]:null",
        ) else {
            panic!("a change")
        };
        assert_eq!((found.schema.as_str(), found.table.as_str()), ("public", "t"));
        assert_eq!(found.old, Some(columns(&[("id", Some("1"))])));
        assert_eq!(found.new, Some(columns(&[("id", Some("2")), ("v", Some("it's: 1")), ("n", None)])));
        let Line::Change(found) = line(
            "table \"My \"\"S\".\"a.b: c\": INSERT: \"the [key]\"[character varying]:'x y' tags[text[]]:'{a,b}' big[text]:unchanged-toast-datum flags[bit(3)]:B'101' ok[boolean]:true",
        ) else {
            panic!("a change")
        };
        assert_eq!((found.schema.as_str(), found.table.as_str()), ("My \"S", "a.b: c"));
        let expected = [
            ("the [key]", Some("x y")),
            ("tags", Some("{a,b}")),
            ("flags", Some("101")),
            ("ok", Some("true")),
        ];
        assert_eq!(found.new, Some(columns(&expected)));
        let Line::Change(found) = line("table public.t: DELETE: id[integer]:7") else { panic!("a change") };
        assert_eq!((found.old, found.new), (Some(columns(&[("id", Some("7"))])), None));
        let Line::Change(found) = line("table public.t: DELETE: (no-tuple-data)") else { panic!("a change") };
        assert_eq!(found.old, Some(Columns::new()));
    }

    #[test]
    fn what_is_not_understood_is_no_change() {
        for text in [
            "",
            "BEGIN x",
            "table public.a, public.b: TRUNCATE: (no-flags)",
            "table public.t: UPDATE: id[integer]:'open",
            "table public.t: INSERT: id[integer]1",
            "table public: INSERT: id[integer]:1",
            "message: transactional: 1 prefix: p, sz: 1 content:x",
        ] {
            assert_eq!(line(text), Line::Other, "{text}");
        }
    }
}
