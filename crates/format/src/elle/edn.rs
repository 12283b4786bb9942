//! Elle operations in EDN: a bare sequence of maps, or one vector or list of them.

use super::{EXPECTED_KIND, Event, Process, bad_micro_op, event_kind, micro_op};
use crate::load::ops::{Cell, Columns, Mop};
use crate::text::edn::{Edn, Token};
use crate::text::fault::Fault;
use anomalist_history::{AtomKind, OpKind, Value};

const OPERATION: &str = "an operation such as {:type :ok, :process 0, :value [[:r :x nil]]}";

/// How the operations of a text are held together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Shape {
    /// Not seen yet.
    Unknown,
    /// One after another.
    Bare,
    /// In a vector or list.
    Sequence,
    /// After its end.
    Closed,
}

/// One operation; `None` at the end of the text.
pub(crate) fn event(
    edn: &mut Edn<'_>,
    shape: &mut Shape,
    columns: &mut Columns,
) -> Result<Option<Event>, Fault> {
    if next_operation(edn, shape)? { operation(edn, columns).map(Some) } else { Ok(None) }
}

/// Goes into the map of the next operation; false at the end of the text.
pub(crate) fn next_operation(edn: &mut Edn<'_>, shape: &mut Shape) -> Result<bool, Fault> {
    loop {
        let token = edn.next()?;
        match (*shape, token) {
            (Shape::Unknown, Token::Open(b']' | b')')) => *shape = Shape::Sequence,
            (Shape::Sequence, Token::Close(b']' | b')')) => *shape = Shape::Closed,
            (Shape::Unknown | Shape::Bare | Shape::Closed, Token::End) => return Ok(false),
            (Shape::Closed, _) => return Err(edn.expected("the end of the file")),
            (Shape::Unknown, Token::Open(_)) => {
                *shape = Shape::Bare;
                return Ok(true);
            }
            (_, Token::Open(b'}')) => return Ok(true),
            (Shape::Sequence, Token::End) => return Err(edn.expected("an operation or \"]\"")),
            _ => return Err(edn.expected(OPERATION)),
        }
    }
}

fn operation(edn: &mut Edn<'_>, columns: &mut Columns) -> Result<Event, Fault> {
    let mut event = Event::new(edn.token_at(), columns);
    let mut kind = None;
    loop {
        let name = edn.next()?;
        let name_at = edn.token_at();
        if name == Token::Close(b'}') {
            return event.close(kind, columns);
        }
        if let Token::End = name {
            return Err(edn.expected("a field or \"}\""));
        }
        let field: &str = match &name {
            Token::Keyword(name) => name,
            Token::Text(name) => name,
            other => {
                edn.skip(other)?;
                ""
            }
        };
        let before = edn.at();
        let value = edn.next()?;
        let at = edn.token_at();
        if let Token::Close(_) | Token::End = value {
            return Err(match value {
                Token::End => edn.expected("a value"),
                _ => Fault::new(name_at, "expected a value after this field, found the end of the map"),
            });
        }
        match field {
            "type" => {
                kind = Some(match &value {
                    Token::Keyword(name) => event_kind(name.as_bytes(), at)?,
                    Token::Text(name) => event_kind(name.as_bytes(), at)?,
                    _ => return Err(Fault::new(at, EXPECTED_KIND)),
                });
            }
            "process" => {
                event.process = match value {
                    Token::Int(i) => Process::Client(columns.int(i)),
                    Token::Number(n) if n.bytes().all(|b| b.is_ascii_digit()) => {
                        Process::Client(columns.atom(AtomKind::Token, &n))
                    }
                    Token::Nil => Process::Missing,
                    other => {
                        edn.skip(&other)?;
                        Process::Other
                    }
                };
            }
            "index" => match value {
                Token::Int(i) => event.index = Some(columns.int(i)),
                Token::Nil => {}
                _ => return Err(Fault::new(at, "expected an integer as index")),
            },
            "value" => {
                columns.truncate(event.mark);
                match micro_ops(edn, &value, columns) {
                    Ok(recorded) => event.recorded = recorded,
                    // Only clients' values must be micro-operations, and the process may come later.
                    Err(fault) => {
                        columns.truncate(event.mark);
                        edn.rewind(before);
                        let value = edn.next()?;
                        edn.skip(&value)?;
                        event.fault = Some(Box::new(fault));
                    }
                }
            }
            _ => edn.skip(&value)?,
        }
    }
}

/// The micro-operations of an operation; false if there are none because the value is nil.
fn micro_ops(edn: &mut Edn<'_>, first: &Token<'_>, columns: &mut Columns) -> Result<bool, Fault> {
    let close = match first {
        Token::Nil => return Ok(false),
        Token::Open(close @ (b']' | b')')) => *close,
        _ => return Err(edn.expected("a vector of micro-operations")),
    };
    loop {
        if edn.take(b'[') {
            let mop = micro_operation(edn, b']', columns)?;
            columns.mops.push(mop);
            continue;
        }
        match edn.next()? {
            Token::Close(b) if b == close => return Ok(true),
            Token::Open(inner @ (b']' | b')')) => {
                let mop = micro_operation(edn, inner, columns)?;
                columns.mops.push(mop);
            }
            _ => return Err(edn.expected("a micro-operation such as [:r :x nil]")),
        }
    }
}

#[inline]
fn micro_operation(edn: &mut Edn<'_>, close: u8, columns: &mut Columns) -> Result<Mop, Fault> {
    let kind = match edn.keyword() {
        Some(name) => micro_op(name, edn.token_at())?,
        None => match edn.next()? {
            Token::Keyword(name) => micro_op(name.as_bytes(), edn.token_at())?,
            Token::Text(name) => micro_op(name.as_bytes(), edn.token_at())?,
            Token::End => return Err(edn.expected("the name of a micro-operation")),
            _ => return Err(bad_micro_op(edn.token_at(), "something else")),
        },
    };
    let key = match edn.small_int() {
        Some(i) => columns.int(i),
        None => match edn.next()? {
            Token::Close(_) | Token::End | Token::Nil => return Err(edn.expected("a key")),
            token => value(edn, token, columns)?.unwrap_or(Value::NIL),
        },
    };
    let cell = match edn.small_int() {
        Some(i) => Cell::One(columns.int(i)),
        None => match edn.next()? {
            Token::Close(b) if b == close && kind == OpKind::Read => {
                return Ok(Mop { kind, key, cell: Cell::Nil });
            }
            Token::Close(_) | Token::End => return Err(edn.expected("a value")),
            Token::Open(inner @ (b']' | b')')) if kind == OpKind::Read => list(edn, inner, columns)?,
            token => value(edn, token, columns)?.map_or(Cell::Nil, Cell::One),
        },
    };
    if edn.take(close) {
        return Ok(Mop { kind, key, cell });
    }
    match edn.next()? {
        Token::Close(b) if b == close => Ok(Mop { kind, key, cell }),
        _ => Err(edn.expected("the end of the micro-operation after its value")),
    }
}

fn list(edn: &mut Edn<'_>, close: u8, columns: &mut Columns) -> Result<Cell, Fault> {
    let start = columns.elements.len() as u32;
    loop {
        if let Some(i) = edn.small_int() {
            let element = columns.int(i);
            columns.elements.push(element);
            continue;
        }
        match edn.next()? {
            Token::Close(b) if b == close => return Ok(Cell::List(start, columns.elements.len() as u32)),
            Token::Close(_) | Token::End => return Err(edn.expected("an element or the end of the list")),
            token => {
                let element = value(edn, token, columns)?.unwrap_or(Value::NIL);
                columns.elements.push(element);
            }
        }
    }
}

/// A value whose first token was taken; `None` for nil.
#[inline]
fn value<'a>(edn: &mut Edn<'a>, token: Token<'a>, columns: &mut Columns) -> Result<Option<Value>, Fault> {
    Ok(Some(match token {
        Token::Nil => return Ok(None),
        Token::Int(i) => columns.int(i),
        Token::Keyword(name) => columns.atom(AtomKind::Keyword, name),
        Token::Text(text) => columns.atom(AtomKind::Text, &text),
        Token::Bool(b) => columns.atom(AtomKind::Token, if b { "true" } else { "false" }),
        Token::Number(text) | Token::Symbol(text) => columns.atom(AtomKind::Token, &text),
        open => {
            let text = edn.canonical(open)?;
            columns.atom(AtomKind::Compound, &text)
        }
    }))
}
