//! Elle operations in JSON: one array, or one object per line.

use super::{Event, Process, bad_micro_op, micro_op};
use crate::load::ops::{Cell, Columns, Mop};
use crate::text::fault::Fault;
use crate::text::json::{Json, Scalar};
use anomalist_history::{AtomKind, EventKind, OpKind};

pub(crate) const OPERATION: &str = "an operation such as {\"type\": \"ok\", \"process\": 0, \"value\": […]}";

/// One operation.
pub(crate) fn operation(json: &mut Json<'_>, columns: &mut Columns) -> Result<Event, Fault> {
    json.open(b'{', OPERATION)?;
    let mut event = Event::new(json.at() - 1, columns);
    let (mut first, mut kind) = (true, None);
    while let Some(name) = json.key(&mut first)? {
        match &*name {
            b"type" => kind = Some(event_kind(json)?),
            b"process" => event.process = process(json, columns)?,
            b"index" => {
                let at = json.at();
                match json.scalar("an index")? {
                    Scalar::Int(i) => event.index = Some(columns.int(i)),
                    Scalar::Null => {}
                    _ => return Err(Fault::new(at, "expected an integer as index")),
                }
            }
            b"value" => {
                let at = json.at();
                columns.truncate(event.mark);
                match micro_ops(json, columns) {
                    Ok(recorded) => event.recorded = recorded,
                    // Only clients' values must be micro-operations, and the process may come later.
                    Err(fault) => {
                        columns.truncate(event.mark);
                        json.rewind(at);
                        json.skip()?;
                        event.fault = Some(Box::new(fault));
                    }
                }
            }
            _ => json.skip()?,
        }
    }
    event.close(kind, columns)
}

fn event_kind(json: &mut Json<'_>) -> Result<EventKind, Fault> {
    json.peek();
    let at = json.at();
    match json.word()? {
        Some(name) => super::event_kind(&name, at),
        None => Err(json.expected("one of the types invoke, ok, fail and info")),
    }
}

fn process(json: &mut Json<'_>, columns: &mut Columns) -> Result<Process, Fault> {
    if let Some(b'[' | b'{') = json.peek() {
        json.skip()?;
        return Ok(Process::Other);
    }
    Ok(match json.scalar("a process")? {
        Scalar::Int(i) => Process::Client(columns.int(i)),
        Scalar::Number(text) if text.bytes().all(|b| b.is_ascii_digit()) => {
            Process::Client(columns.atom(AtomKind::Token, &text))
        }
        Scalar::Null => Process::Missing,
        _ => Process::Other,
    })
}

/// The micro-operations of an operation; false if there are none because the value is null.
fn micro_ops(json: &mut Json<'_>, columns: &mut Columns) -> Result<bool, Fault> {
    if json.peek() == Some(b'n') {
        json.scalar("null")?;
        return Ok(false);
    }
    json.open(b'[', "a list of micro-operations")?;
    let mut first = true;
    while json.element(&mut first)? {
        json.open(b'[', "a micro-operation such as [\"r\", \"x\", null]")?;
        let mut inner = true;
        json.peek();
        let at = json.at();
        if !json.element(&mut inner)? {
            return Err(bad_micro_op(at, "[]"));
        }
        json.peek();
        let at = json.at();
        let kind = match json.word()? {
            Some(name) => micro_op(&name, at)?,
            None => return Err(json.expected("the name of a micro-operation in double quotes")),
        };
        if !json.element(&mut inner)? {
            return Err(Fault::new(json.at() - 1, "expected a key, found \"]\""));
        }
        json.peek();
        let at = json.at();
        let key =
            columns.json_value(json, "a key")?.ok_or_else(|| Fault::new(at, "expected a key, found null"))?;
        let cell = if !json.element(&mut inner)? {
            if kind != OpKind::Read {
                return Err(Fault::new(json.at() - 1, "expected the value written, found \"]\""));
            }
            columns.mops.push(Mop { kind, key, cell: Cell::Nil });
            continue;
        } else if kind == OpKind::Read {
            columns.json_read(json)?
        } else {
            columns.json_value(json, "the value written")?.map_or(Cell::Nil, Cell::One)
        };
        if json.element(&mut inner)? {
            return Err(json.expected("\"]\" after three parts of a micro-operation"));
        }
        columns.mops.push(Mop { kind, key, cell });
    }
    Ok(true)
}
