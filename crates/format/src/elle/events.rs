//! Jepsen operations of any shape: the same three notations, read into [`Events`] instead of transactions.
//!
//! Where `mod.rs` insists on micro-operations, this takes every value as a [`Datum`] tree: what a bank, a
//! counter, a set or a register was asked (`crate::text::tree`). O(n log n), for the entries of maps.

use super::edn::{self, Shape};
use super::{event_kind, json};
use crate::input::report;
use crate::load::Reading;
use crate::load::records::{Layout, LineCounter, read_records};
use crate::text::edn::{Edn, Token};
use crate::text::fault::Fault;
use crate::text::json::Json;
use crate::{Diagnostic, Format, Input, Place, ReadError, ReadOptions, detect};
use anomalist_history::{Datum, Event, EventKind, Events, Process};

/// What a recording that announces its end begins with: an operation of the nemesis, of this name.
pub const RECORDING: &str = "recording-with-end";
/// What it ends with.
pub const RECORDING_END: &str = "end-of-recording";

/// A recording of Jepsen operations, as read.
#[derive(Debug)]
pub struct LoadedEvents {
    /// The operations; there is at least one.
    pub events: Events,
    /// The notation: `elle-edn`, `elle-json` or `elle-jsonl`.
    pub format: Format,
    /// Oddities that did not prevent reading.
    pub warnings: Vec<Diagnostic>,
    /// The recording announces its end, and has none: operations that were in flight are missing. Only with
    /// `lossy`; else it is an error.
    pub cut_off: bool,
}

/// Reads Jepsen operations whose values need not be transactions.
///
/// ```
/// use anomalist_format::{Input, ReadOptions, read_events};
/// let text = b"{:type :invoke, :process 0, :f :add, :value 7}\n{:type :ok, :process 0, :f :add, :value 7}";
/// let loaded = read_events(Input::from_bytes("set.edn", text.to_vec()), &ReadOptions::default())?;
/// assert_eq!(loaded.events.operations().len(), 1);
/// # Ok::<(), anomalist_format::ReadError>(())
/// ```
pub fn read_events(mut input: Input, options: &ReadOptions<'_>) -> Result<LoadedEvents, ReadError> {
    let name = input.name().to_owned();
    let format = match options.format {
        Some(format) => format,
        None => detect::detect(&mut input)?,
    };
    let mut reading = Reading::new(&input, format, options);
    let events = match format {
        Format::ElleEdn => read_edn(input, &mut reading)?,
        Format::ElleJson => read_json(input, &mut reading, Layout::Objects)?,
        Format::ElleJsonl => read_json(input, &mut reading, Layout::Lines)?,
        other => {
            let message = format!("expected Jepsen operations, found the format {}", other.name());
            let error = Diagnostic::error(name, Place::File, message);
            return Err(ReadError::Malformed(vec![
                error.help("Jepsen operations are in elle-edn, elle-json or elle-jsonl"),
            ]));
        }
    };
    if events.is_empty() {
        let mut found = vec![Diagnostic::error(name, Place::File, "no operation in this file")];
        found.extend(reading.warnings);
        return Err(ReadError::Malformed(found));
    }
    if let Some(event) = events.iter().find(|e| e.process == Process::Missing) {
        let then = "operations without a process: paired where only one invocation fits";
        reading.warn(event.line, then.to_owned());
    }
    let says = |f: &str| events.iter().any(|e| e.process == Process::Other && &*e.f == f);
    let cut_off = says(RECORDING) && !says(RECORDING_END);
    if cut_off {
        reading.cut_off("the recording was cut off: its end marker is missing".to_owned())?;
    }
    Ok(LoadedEvents { events, format, warnings: reading.warnings, cut_off })
}

/// The operations at the beginning of an input, as far as 64 KiB reach; none if it does not look like
/// Jepsen operations. Nothing is consumed.
pub fn peek_events(input: &mut Input, options: &ReadOptions<'_>) -> Option<Events> {
    if input.is_folder() {
        return None;
    }
    let format = match options.format {
        Some(format) => format,
        None => detect::detect(input).ok()?,
    };
    let head = Input::from_bytes("beginning", input.peek().ok()?.to_vec());
    let options = ReadOptions { format: Some(format), lossy: true, ..ReadOptions::default() };
    read_events(head, &options).ok().map(|loaded| loaded.events)
}

fn read_json(input: Input, reading: &mut Reading<'_>, layout: Layout) -> Result<Events, ReadError> {
    let mut events = Events::default();
    let parse = |json: &mut Json<'_>, _: &mut _| json_event(json);
    read_records(input, reading, layout, parse, |event, _, line| {
        events.push(Event { line, ..event });
        Ok(())
    })?;
    Ok(events)
}

fn read_edn(input: Input, reading: &mut Reading<'_>) -> Result<Events, ReadError> {
    /// Events between two looks at whether the result is still wanted.
    const PATIENCE: usize = 1 << 14;
    let text = reading.bytes(input)?;
    let (mut edn, mut shape, mut lines) = (Edn::new(&text), Shape::Unknown, LineCounter::new(&text, 1));
    let mut events = Events::default();
    let result = loop {
        match edn::next_operation(&mut edn, &mut shape) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(fault) => break Err(fault),
        }
        let line = lines.line(edn.token_at());
        match edn_event(&mut edn) {
            Ok(event) => events.push(Event { line, ..event }),
            Err(fault) => break Err(fault),
        }
        if events.len() % PATIENCE == 0 {
            report(reading.options, text.len() as u64)?;
        }
    };
    let malformed = |fault: Fault| ReadError::Malformed(vec![fault.diagnose(&reading.name, &text, 1)]);
    let result = result.map_err(malformed);
    reading.keep_the_beginning(result)?;
    Ok(events)
}

/// An event on its way, with where its fields stand.
struct Draft {
    at: usize,
    kind: Option<EventKind>,
    event: Event,
}

impl Draft {
    fn new(at: usize) -> Draft {
        let event = Event {
            kind: EventKind::Invoke,
            process: Process::Missing,
            f: Box::default(),
            value: Datum::Nil,
            index: None,
            time: None,
            line: 0,
        };
        Draft { at, kind: None, event }
    }

    /// Takes a field whose value begins at `at`.
    fn field(&mut self, name: &[u8], value: Datum, at: usize) -> Result<(), Fault> {
        match name {
            b"type" => {
                let name = value.as_name().unwrap_or_default();
                self.kind = Some(event_kind(name.as_bytes(), at)?);
            }
            b"process" => {
                self.event.process = match value {
                    Datum::Int(p) => Process::Client(p),
                    Datum::Nil => Process::Missing,
                    _ => Process::Other,
                };
            }
            b"f" => self.event.f = value.as_name().unwrap_or_default().into(),
            b"value" => self.event.value = value,
            b"index" => match value {
                Datum::Int(_) | Datum::Nil => self.event.index = value.as_int(),
                _ => return Err(Fault::new(at, "expected an integer as index")),
            },
            // For people only: a time in another notation is no reason to refuse a history.
            b"time" => self.event.time = value.as_int(),
            _ => {}
        }
        Ok(())
    }

    fn close(self) -> Result<Event, Fault> {
        let missing = || Fault::new(self.at, "expected a type in this operation, found none");
        Ok(Event { kind: self.kind.ok_or_else(missing)?, ..self.event })
    }
}

fn json_event(json: &mut Json<'_>) -> Result<Event, Fault> {
    json.open(b'{', json::OPERATION)?;
    let (mut draft, mut first) = (Draft::new(json.at() - 1), true);
    while let Some(name) = json.key(&mut first)? {
        if !matches!(&*name, b"type" | b"process" | b"f" | b"value" | b"index" | b"time") {
            json.skip()?;
            continue;
        }
        json.peek();
        let at = json.at();
        let value = json.tree()?;
        draft.field(&name, value, at)?;
    }
    draft.close()
}

/// The map whose opening bracket was just taken.
fn edn_event(edn: &mut Edn<'_>) -> Result<Event, Fault> {
    let mut draft = Draft::new(edn.token_at());
    loop {
        let name = edn.next()?;
        let name_at = edn.token_at();
        let name: String = match name {
            Token::Close(b'}') => return draft.close(),
            Token::End => return Err(edn.expected("a field or \"}\"")),
            Token::Keyword(name) => name.to_owned(),
            Token::Text(name) => name.into_owned(),
            other => {
                edn.skip(&other)?;
                String::new()
            }
        };
        let value = edn.next()?;
        let at = edn.token_at();
        match value {
            Token::End => return Err(edn.expected("a value")),
            Token::Close(_) => {
                return Err(Fault::new(
                    name_at,
                    "expected a value after this field, found the end of the map",
                ));
            }
            first => {
                let value = edn.tree(first)?;
                draft.field(name.as_bytes(), value, at)?;
            }
        }
    }
}

/// A datum as JSON: keywords become strings, keys that are no strings their EDN text.
///
/// ```
/// use anomalist_history::Datum;
/// let d = Datum::map([("valid?", Datum::Bool(true)), ("lost", Datum::List(vec![Datum::Int(3)]))]);
/// assert_eq!(anomalist_format::datum_json(&d), r#"{"valid?":true,"lost":[3]}"#);
/// ```
pub fn datum_json(datum: &Datum) -> String {
    let mut out = String::new();
    write_json(&mut out, datum);
    out
}

/// Recursion is bounded: readers refuse deep nesting.
fn write_json(out: &mut String, datum: &Datum) {
    use crate::text::value::{is_json, quote};
    match datum {
        Datum::Nil => out.push_str("null"),
        Datum::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Datum::Int(i) => out.push_str(&i.to_string()),
        Datum::Number(text) if is_json(text) => out.push_str(text),
        Datum::Number(text) | Datum::Keyword(text) | Datum::Text(text) => quote(out, text),
        Datum::List(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                write_json(out, element);
            }
            out.push(']');
        }
        Datum::Map(entries) => {
            out.push('{');
            for (i, (key, value)) in entries.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                match key.as_name() {
                    Some(name) => quote(out, name),
                    None => quote(out, &key.to_string()),
                }
                out.push(':');
                write_json(out, value);
            }
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Xorshift;

    fn read(format: Format, text: &[u8], lossy: bool) -> Result<LoadedEvents, ReadError> {
        let options = ReadOptions { format: Some(format), lossy, ..ReadOptions::default() };
        read_events(Input::from_bytes("h", text.to_vec()), &options)
    }

    fn shown(format: Format, text: &str) -> String {
        match read(format, text.as_bytes(), false) {
            Ok(loaded) => loaded.events.iter().map(|e| format!("{}: {}\n", e.line, e.datum(0))).collect(),
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }

    const EDN: &str = r#"[{:type :invoke, :process 0 :f :transfer, :value {:from 0, :to "b", :amount 5N}}
 #jepsen.history.Op{:type :ok :process 0 :f :read :value #{3 1 [2 nil]} :time 12 :index 9, :error {:a 1}}
 {:type :info :process :nemesis, :f :kill :value true} ; gone
 {"type" "fail" :f add :process nil :value (1.5 -2) #_#_:value 3}]"#;

    const JSON: &str = r#"{"type": "invoke", "process": 0, "f": "transfer", "value": {"to": 1, "from": 0, "to": 2}}
{"value": [[], {}, [{"a": [null, true]}], "\u00e9"], "type": "ok", "process": 0, "f": "read", "x": [{}]}
"#;

    #[test]
    fn the_notations_give_trees() {
        assert_eq!(
            shown(Format::ElleEdn, EDN),
            "1: {:index 0, :type :invoke, :process 0, :f :transfer, :value {:amount 5, :from 0, :to \"b\"}}\n\
             2: {:index 9, :type :ok, :process 0, :f :read, :value [1 3 [2 nil]], :time 12}\n\
             3: {:index 0, :type :info, :process :nemesis, :f :kill, :value true}\n\
             4: {:index 0, :type :fail, :process nil, :f :add, :value [1.5 -2]}\n"
        );
        let json = "1: {:index 0, :type :invoke, :process 0, :f :transfer, :value {\"from\" 0, \"to\" 2}}\n\
                    2: {:index 0, :type :ok, :process 0, :f :read, :value [[] {} [{\"a\" [nil true]}] \"é\"]}\n";
        assert_eq!(shown(Format::ElleJsonl, JSON), json);
        let array = format!("[{}]", JSON.trim_end().replace('\n', ",\n"));
        assert_eq!(shown(Format::ElleJson, &array), json);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let edn = |text| shown(Format::ElleEdn, text);
        assert_eq!(edn("{:type :ok :value [1 2}"), "error: h:1:23: expected a value or \"]\", found \"}\"");
        assert_eq!(
            edn("{:type :ok\n :value {1}}"),
            "error: h:2:11: expected a value after the last key of this map"
        );
        assert_eq!(edn("{:f :read}"), "error: h:1:1: expected a type in this operation, found none");
        assert!(edn("{:type :maybe}").starts_with("error: h:1:8: expected one of the types"));
        assert_eq!(edn("[]"), "error: h: no operation in this file");
        let jsonl = |text| shown(Format::ElleJsonl, text);
        assert_eq!(
            jsonl("{\"type\":\"ok\"}\n{\"value\":[1,}"),
            "error: h:2:13: expected a value, found \"}\""
        );
        let deep = format!("{{:type :ok :value {}1{}}}", "[".repeat(200), "]".repeat(200));
        assert_eq!(edn(&deep), "error: h:1:147: more than 128 levels of nesting");
        let deep = format!("{{\"type\":\"ok\",\"value\":{}1{}}}", "[".repeat(200), "]".repeat(200));
        assert_eq!(jsonl(&deep), "error: h:1:150: more than 128 levels of nesting");
        assert!(shown(Format::Plume, "w(1,1,1,1)").contains("expected Jepsen operations"));
    }

    #[test]
    fn every_prefix_and_every_change_ends_well() {
        let json_array = format!("[{}]", JSON.trim_end().replace('\n', ",\n"));
        for (format, text) in
            [(Format::ElleEdn, EDN), (Format::ElleJsonl, JSON), (Format::ElleJson, &json_array)]
        {
            let check = |bytes: &[u8]| {
                let strict = read(format, bytes, false);
                match (&strict, read(format, bytes, true)) {
                    (Ok(a), Ok(b)) => assert_eq!(a.events, b.events),
                    (Err(error), _) => assert!(error.to_string().contains("error: "), "{error}"),
                    (Ok(_), Err(error)) => panic!("lossy reads less: {error}"),
                }
            };
            for end in 0..=text.len() {
                check(&text.as_bytes()[..end]);
            }
            let mut random = Xorshift(7);
            for _ in 0..3000 {
                let mut changed = text.as_bytes().to_vec();
                for _ in 0..=random.below(3) {
                    let i = random.below(changed.len());
                    match random.below(3) {
                        0 => changed[i] = b"[]{}(),:\"\\#_;-0n\n"[random.below(17)],
                        1 => drop(changed.remove(i)),
                        _ => changed[i] = random.below(256) as u8,
                    }
                }
                check(&changed);
            }
        }
    }

    #[test]
    fn the_beginning_can_be_looked_at() {
        let many = "{:type :ok, :process 0, :f :add, :value 1}\n".repeat(5000);
        let mut input = Input::from_bytes("h", many.clone().into_bytes());
        let head = peek_events(&mut input, &ReadOptions::default()).unwrap();
        assert!((1000..5000).contains(&head.len()));
        assert_eq!(read_events(input, &ReadOptions::default()).unwrap().events.len(), 5000);
        let mut plume = Input::from_bytes("h", b"w(1,1,1,1)\n".to_vec());
        assert!(peek_events(&mut plume, &ReadOptions::default()).is_none());
    }

    #[test]
    fn json_of_a_datum_reads_back() {
        for line in JSON.lines() {
            let mut json = Json::new(line.as_bytes());
            let datum: Datum = json.tree().unwrap();
            let written = datum_json(&datum);
            assert_eq!(Json::new(written.as_bytes()).tree::<Datum>().unwrap(), datum, "{written}");
        }
    }
}
