//! One line of Anomalist's own format.

use crate::elle::lossy;
use crate::load::ops::{Cell, Columns, Mop};
use crate::load::recorded::Recorded;
use crate::text::edn::{Edn, Token};
use crate::text::fault::Fault;
use crate::text::json::{Json, Scalar};
use anomalist_history::{
    AtomKind, Clock, Facts, Interval, OpKind, Outcome, SnapshotSet, Stamps, Timestamp, Value,
};
use std::ops::Range;

/// The version of the format that this crate writes, and the newest it reads.
pub(crate) const VERSION: i64 = 1;

const OPERATION: &str = "an operation such as [\"r\", \"x\", 1]";
const FIELDS: &str =
    "a transaction has session, id, ops, outcome, start, commit, snapshot, xid, invoked, completed and meta";
const HEADER_FIELDS: &str = "a header has anomalist, initial, initial_keys, clock, ends and end";

/// One line as parsed. Nearly all are transactions, so those are not boxed.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Line {
    Header {
        at: usize,
        /// Outer `None`: not said. Inner `None`: keys have no initial value.
        initial: Option<Option<Value>>,
        /// Reads of the keys with an initial value of their own.
        keys: Range<usize>,
        /// What the clients' clock counts.
        clock: Option<Clock>,
        /// An end marker is announced.
        ends: bool,
        /// This is the end marker of a recording of so many transactions.
        end: Option<u64>,
    },
    Transaction(Recorded),
}

/// Parses a line.
pub(crate) fn parse(json: &mut Json<'_>, columns: &mut Columns) -> Result<Line, Fault> {
    json.open(b'{', "a transaction such as {\"session\": 1, \"ops\": [[\"w\", \"x\", 1]]}")?;
    let at = json.at() - 1;
    let mut first = true;
    json.peek();
    let name_at = json.at();
    let name = json.key(&mut first)?;
    if name.as_deref() == Some(b"anomalist") {
        return header(json, at, columns);
    }
    json.rewind(name_at);
    transaction(json, at, columns).map(Line::Transaction)
}

/// The rest of a header, from the value of its first field on.
fn header(json: &mut Json<'_>, line_at: usize, columns: &mut Columns) -> Result<Line, Fault> {
    json.peek();
    let at = json.at();
    match json.scalar("the version of the format")? {
        Scalar::Int(1..=VERSION) => {}
        Scalar::Int(n) if n > VERSION => {
            return Err(Fault::new(
                at,
                format!("version {n} of the format is newer than this program, which knows {VERSION}"),
            ));
        }
        _ => return Err(Fault::new(at, format!("expected the version of the format, {VERSION}"))),
    }
    let (mut initial, mut first) = (None, false);
    let (mut clock, mut ends, mut end) = (None, false, None);
    let start = columns.mops.len();
    loop {
        let before = json.at();
        let Some(name) = json.key(&mut first)? else { break };
        match &*name {
            b"initial" => {
                initial = Some(match cell(json, columns)? {
                    Written::Nothing => None,
                    Written::Cell(Cell::Nil) => Some(Value::NIL),
                    Written::Cell(Cell::One(value)) if value != Value::UNKNOWN => Some(value),
                    _ => {
                        return Err(Fault::new(name_at(json, before), "expected one value as initial value"));
                    }
                });
            }
            b"clock" => clock = Some(unit(json, before)?),
            b"ends" => {
                ends = match json.scalar("true or false")? {
                    Scalar::Bool(ends) => ends,
                    _ => return Err(Fault::new(name_at(json, before), "expected true or false")),
                };
            }
            b"end" => {
                end = match json.scalar("the number of transactions")? {
                    Scalar::Int(n) if n >= 0 => Some(n as u64),
                    _ => {
                        return Err(Fault::new(name_at(json, before), "expected the number of transactions"));
                    }
                };
            }
            b"initial_keys" => {
                json.open(b'[', "a list of keys and values such as [[\"x\", 1]]")?;
                let mut first = true;
                while json.element(&mut first)? {
                    json.open(b'[', "a key and its value such as [\"x\", 1]")?;
                    let mut first = true;
                    let key = key(json, &mut first, columns)?;
                    let cell = match json.element(&mut first)? {
                        true => cell(json, columns)?,
                        false => {
                            return Err(Fault::new(json.at() - 1, "expected the initial value of this key"));
                        }
                    };
                    let Written::Cell(cell) = cell else {
                        return Err(Fault::new(
                            name_at(json, before),
                            "expected a value as initial value of a key",
                        ));
                    };
                    columns.mops.push(Mop { kind: OpKind::Read, key, cell });
                    if json.element(&mut first)? {
                        return Err(json.expected("\"]\" after the initial value"));
                    }
                }
            }
            _ => return Err(unknown_field(json, before, &name, HEADER_FIELDS)),
        }
    }
    Ok(Line::Header { at: line_at, initial, keys: start..columns.mops.len(), clock, ends, end })
}

/// What the clients' clock counts.
fn unit(json: &mut Json<'_>, before: usize) -> Result<Clock, Fault> {
    let clock = match json.scalar("a unit such as \"ms\"")? {
        Scalar::Text(unit) => Clock::ALL.into_iter().find(|clock| clock.name() == unit),
        _ => None,
    };
    let message = "expected \"ns\", \"us\", \"ms\", \"s\" or \"events\"";
    clock.ok_or_else(|| Fault::new(name_at(json, before), message))
}

/// Where the name of the field before whose comma the reader stood begins.
#[cold]
fn name_at(json: &mut Json<'_>, before: usize) -> usize {
    json.rewind(before);
    json.take(b',');
    json.peek();
    json.at()
}

#[cold]
fn unknown_field(json: &mut Json<'_>, before: usize, name: &[u8], help: &'static str) -> Fault {
    Fault::new(name_at(json, before), format!("unknown field \"{}\"", lossy(name))).help(help)
}

fn transaction(json: &mut Json<'_>, at: usize, columns: &mut Columns) -> Result<Recorded, Fault> {
    let (mut session, mut id, mut outcome, mut meta) = (None, None, Outcome::Committed, Vec::new());
    let (mut start, mut commit, mut invoked, mut completed) = (None, None, None, None);
    let (mut set, mut xid) = (None, None);
    let mut mops = None;
    let mut first = true;
    loop {
        let before = json.at();
        let Some(name) = json.key(&mut first)? else { break };
        match &*name {
            b"session" => session = Some(name_value(json, columns)?),
            b"id" => id = Some(name_value(json, columns)?),
            b"ops" => {
                if mops.is_some() {
                    return Err(Fault::new(name_at(json, before), "a second \"ops\" in one transaction"));
                }
                let start = columns.mops.len();
                operations(json, columns)?;
                mops = Some(start..columns.mops.len());
            }
            b"outcome" => outcome = read_outcome(json)?,
            b"start" => start = Some(timestamp(json)?),
            b"commit" => commit = Some(timestamp(json)?),
            b"invoked" => invoked = time(json)?,
            b"completed" => completed = time(json)?,
            b"meta" => metadata(json, &mut meta)?,
            b"snapshot" => set = Some(snapshot(json)?),
            b"xid" => xid = time(json)?,
            b"anomalist" => {
                return Err(Fault::new(
                    name_at(json, before),
                    "expected \"anomalist\" as the first field of a header",
                ));
            }
            _ => return Err(unknown_field(json, before, &name, FIELDS)),
        }
    }
    let missing = |name: &str| {
        Fault::new(at, format!("expected \"{name}\" in this transaction, found none")).help(FIELDS)
    };
    let stamps = match (start, commit) {
        (Some(start), Some(commit)) => Some(Stamps { start, commit }),
        (None, None) => None,
        (Some(_), None) => return Err(missing("commit")),
        // A set says what a start would.
        (None, Some(commit)) if set.is_some() => Some(Stamps { start: commit, commit }),
        // Serializability needs no start.
        (None, Some(commit)) => Some(Stamps::commit_only(commit)),
    };
    if set.is_some() && stamps.is_none() {
        return Err(missing("commit"));
    }
    if invoked.is_none() && completed.is_some() {
        return Err(missing("invoked"));
    }
    // A clock that runs backwards would have the transaction come before itself, and the database be blamed.
    if let (Some(invoked), Some(completed)) = (invoked, completed)
        && completed < invoked
    {
        let message = format!("\"completed\" ({completed}) is before \"invoked\" ({invoked})");
        return Err(Fault::new(at, message).help("use one monotonic clock, or leave both out"));
    }
    Ok(Recorded {
        session: session.ok_or_else(|| missing("session"))?,
        mops: mops.ok_or_else(|| missing("ops"))?,
        facts: Facts {
            id,
            outcome,
            stamps,
            snapshot: set,
            xid,
            interval: invoked.map(|invoked| Interval { invoked, completed }),
            ..Facts::default()
        },
        meta,
    })
}

/// A value as written, or the absence of one.
enum Written {
    Cell(Cell),
    /// `{"none": true}`
    Nothing,
}

/// Any value: a JSON scalar, a list, or an object that says what it is.
fn cell(json: &mut Json<'_>, columns: &mut Columns) -> Result<Written, Fault> {
    match json.peek() {
        Some(b'{') => special(json, columns),
        Some(b'[') => {
            json.open(b'[', "a list")?;
            let (start, mut first) = (columns.elements.len() as u32, true);
            while json.element(&mut first)? {
                let element = one(json, columns, "an element")?;
                columns.elements.push(element);
            }
            Ok(Written::Cell(Cell::List(start, columns.elements.len() as u32)))
        }
        _ => Ok(Written::Cell(columns.json_value(json, "a value")?.map_or(Cell::Nil, Cell::One))),
    }
}

/// One value that is not a list.
#[inline]
fn one(json: &mut Json<'_>, columns: &mut Columns, what: &str) -> Result<Value, Fault> {
    match json.peek() {
        Some(b'[') => Err(json.expected(what)),
        Some(b'{') => {
            let at = json.at();
            match special(json, columns)? {
                Written::Cell(Cell::One(value)) if value != Value::UNKNOWN => Ok(value),
                _ => Err(Fault::new(at, format!("expected {what}"))),
            }
        }
        _ => Ok(columns.json_value(json, what)?.unwrap_or(Value::NIL)),
    }
}

/// `{"keyword": "x"}` and its like.
fn special(json: &mut Json<'_>, columns: &mut Columns) -> Result<Written, Fault> {
    const WHAT: &str =
        "expected {\"keyword\": …}, {\"token\": …}, {\"edn\": …}, {\"unknown\": true} or {\"none\": true}";
    json.open(b'{', "a value")?;
    let at = json.at() - 1;
    let mut first = true;
    let name = json.key(&mut first)?.ok_or_else(|| Fault::new(at, WHAT))?;
    let content = json.scalar("text or true")?;
    let mut atom = |kind, text: &str| Written::Cell(Cell::One(columns.atom(kind, text)));
    let value = match (&*name, &content) {
        (b"keyword", Scalar::Text(text)) => atom(AtomKind::Keyword, text),
        // Written by hand, it may be another spelling than the one text that equal values share.
        (b"token", Scalar::Text(text)) => match Edn::new(text.as_bytes()).next() {
            Ok(Token::Int(i)) => Written::Cell(Cell::One(columns.int(i))),
            Ok(Token::Number(number)) => atom(AtomKind::Token, &number),
            _ => atom(AtomKind::Token, text),
        },
        (b"edn", Scalar::Text(text)) => {
            let mut edn = Edn::new(text.as_bytes());
            let canonical = edn.next().and_then(|first| edn.canonical(first));
            atom(AtomKind::Compound, canonical.as_deref().unwrap_or(text))
        }
        (b"unknown", Scalar::Bool(true)) => Written::Cell(Cell::One(Value::UNKNOWN)),
        (b"none", Scalar::Bool(true)) => Written::Nothing,
        _ => return Err(Fault::new(at, WHAT)),
    };
    match json.key(&mut first)? {
        None => Ok(value),
        Some(_) => Err(Fault::new(at, WHAT)),
    }
}

/// A name of a session or transaction.
fn name_value(json: &mut Json<'_>, columns: &mut Columns) -> Result<Value, Fault> {
    json.peek();
    let at = json.at();
    match one(json, columns, "a number or text")? {
        Value::NIL => Err(Fault::new(at, "expected a number or text, found null")),
        value => Ok(value),
    }
}

fn key(json: &mut Json<'_>, first: &mut bool, columns: &mut Columns) -> Result<Value, Fault> {
    if !json.element(first)? {
        return Err(Fault::new(json.at() - 1, "expected a key, found \"]\""));
    }
    json.peek();
    let at = json.at();
    match one(json, columns, "a key")? {
        Value::NIL => Err(Fault::new(at, "expected a key, found null")),
        key => Ok(key),
    }
}

fn operations(json: &mut Json<'_>, columns: &mut Columns) -> Result<(), Fault> {
    json.open(b'[', "a list of operations")?;
    let mut first = true;
    while json.element(&mut first)? {
        json.open(b'[', OPERATION)?;
        let mut inner = true;
        let kind = match json.element(&mut inner)? {
            true => op_kind(json)?,
            false => return Err(Fault::new(json.at() - 1, format!("expected {OPERATION}, found \"]\""))),
        };
        let key = key(json, &mut inner, columns)?;
        if !json.element(&mut inner)? {
            if kind != OpKind::Read {
                return Err(Fault::new(json.at() - 1, "expected the value written, found \"]\""));
            }
            columns.mops.push(Mop { kind, key, cell: Cell::One(Value::UNKNOWN) });
            continue;
        }
        json.peek();
        let at = json.at();
        let cell = match (kind, cell(json, columns)?) {
            (OpKind::Read, Written::Cell(cell)) => cell,
            (_, Written::Cell(cell @ (Cell::Nil | Cell::One(_)))) if cell != Cell::One(Value::UNKNOWN) => {
                cell
            }
            _ => return Err(Fault::new(at, "expected one value to be written")),
        };
        if json.element(&mut inner)? {
            let number = integer(json, "a version number")?;
            columns.versions.push((columns.mops.len() as u32, number));
            if json.element(&mut inner)? {
                return Err(json.expected("\"]\" after the version number of an operation"));
            }
        }
        columns.mops.push(Mop { kind, key, cell });
    }
    Ok(())
}

fn op_kind(json: &mut Json<'_>) -> Result<OpKind, Fault> {
    json.peek();
    let at = json.at();
    match json.word()?.as_deref() {
        Some(b"r") => Ok(OpKind::Read),
        Some(b"w") => Ok(OpKind::Write),
        Some(b"append") => Ok(OpKind::Append),
        Some(name) => {
            let found = lossy(name);
            Err(Fault::new(at, format!("expected one of the operations r, w and append, found \"{found}\"")))
        }
        None => Err(json.expected("one of the operations r, w and append in double quotes")),
    }
}

fn read_outcome(json: &mut Json<'_>) -> Result<Outcome, Fault> {
    const WHAT: &str = "expected one of the outcomes committed, aborted and indeterminate";
    json.peek();
    let at = json.at();
    match json.scalar("an outcome")? {
        Scalar::Text(name) if name == "committed" => Ok(Outcome::Committed),
        Scalar::Text(name) if name == "aborted" => Ok(Outcome::Aborted),
        Scalar::Text(name) if name == "indeterminate" => Ok(Outcome::Indeterminate),
        Scalar::Text(name) => Err(Fault::new(at, format!("{WHAT}, found \"{name}\""))),
        _ => Err(Fault::new(at, WHAT)),
    }
}

fn integer(json: &mut Json<'_>, what: &str) -> Result<i64, Fault> {
    json.peek();
    let at = json.at();
    match json.scalar(what)? {
        Scalar::Int(i) => Ok(i),
        _ => Err(Fault::new(at, "expected an integer of 64 bits")),
    }
}

/// `[physical, logical]`, or a number alone.
fn timestamp(json: &mut Json<'_>) -> Result<Timestamp, Fault> {
    const WHAT: &str = "a timestamp such as 12 or [12, 0]";
    if json.peek() != Some(b'[') {
        return Ok(Timestamp { physical: integer(json, WHAT)?, logical: 0 });
    }
    json.open(b'[', WHAT)?;
    let (mut first, mut parts) = (true, [0; 2]);
    for part in &mut parts {
        if !json.element(&mut first)? {
            return Err(Fault::new(json.at() - 1, format!("expected {WHAT}")));
        }
        *part = integer(json, WHAT)?;
    }
    if json.element(&mut first)? {
        return Err(json.expected("\"]\" after two parts of a timestamp"));
    }
    Ok(Timestamp { physical: parts[0], logical: parts[1] })
}

/// A moment of real time; null for none.
/// `"xmin:xmax:id,id"`, as PostgreSQL prints it.
fn snapshot(json: &mut Json<'_>) -> Result<SnapshotSet, Fault> {
    json.peek();
    let at = json.at();
    match json.scalar("a snapshot such as \"737:740:737,739\"")? {
        Scalar::Text(text) => text.parse().map_err(|error| Fault::new(at, format!("expected {error}"))),
        _ => Err(Fault::new(at, "expected a snapshot such as \"737:740:737,739\"")),
    }
}

fn time(json: &mut Json<'_>) -> Result<Option<u64>, Fault> {
    json.peek();
    let at = json.at();
    let value = match json.scalar("a time")? {
        Scalar::Null => return Ok(None),
        Scalar::Int(i) => u64::try_from(i).ok(),
        Scalar::Number(text) => text.parse().ok(),
        _ => None,
    };
    value.map(Some).ok_or_else(|| Fault::new(at, "expected an integer from 0 on, of 64 bits"))
}

fn metadata(json: &mut Json<'_>, meta: &mut Vec<(String, String)>) -> Result<(), Fault> {
    json.open(b'{', "an object of texts")?;
    let mut first = true;
    while let Some(name) = json.key(&mut first)? {
        json.peek();
        let at = json.at();
        match json.scalar("text in double quotes")? {
            Scalar::Text(text) => {
                let name = String::from_utf8(name.into_owned());
                let name = name.map_err(|_| Fault::new(at, "expected UTF-8 in the name before this text"))?;
                meta.push((name, text.into_owned()));
            }
            _ => return Err(Fault::new(at, "expected text in double quotes")),
        }
    }
    Ok(())
}
