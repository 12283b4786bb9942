//! From the server to the client.

use crate::flow::{Addition, Asked, Seen, Status};
use crate::message::{self, Body, ServerError, put, read_exactly};
use crate::observe::{Answer, EXTRA, Interest};
use crate::session::{Shared, lock};
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;

/// Passes messages until the server closes the connection.
pub(crate) fn run(server: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 16, server);
    // The rows that follow have a column of the observer.
    let mut extra = false;
    loop {
        if reader.buffer().is_empty() {
            lock(&shared.client).flush()?;
        }
        let Some((kind, length)) = message::head(&mut reader)? else { return Ok(()) };
        // What the state depends on is short. Descriptions show whether a column is the observer's.
        let needed =
            matches!(kind, b'Z' | b'C' | b'E') || kind == b'T' && shared.interest != Interest::Nothing;
        let mut body = if needed { Some(bounded(&mut reader, length, shared)?) } else { None };
        let first = body.as_ref().and_then(|b: &Vec<u8>| b.first().copied());
        let seen = {
            let mut state = lock(&shared.state);
            // Nothing is settled before the message has done all that it does.
            state.busy = true;
            state.flow.receive(kind, first)
        };
        if kind == b'T' {
            extra = body.as_deref().is_some_and(has_extra);
        }
        let widened = kind == b'T' && extra
            || kind == b'D'
                && match seen.of {
                    Some(Asked::Execute) => seen.sent.addition.is_some_and(|a| a.widens),
                    _ => extra,
                };
        let shown = match kind {
            b'D' | b'T' => widened || seen.sent.injected || seen.sent.preceded || shared.interest.rows(),
            _ => needed,
        };
        if shown && body.is_none() {
            body = Some(bounded(&mut reader, length, shared)?);
        }
        if seen.sent.preceded && matches!(kind, b'T' | b'D' | b'C') {
            if kind == b'D' {
                let row = Answer::Own(body.as_deref().unwrap_or_default());
                lock(&shared.observer).answer_to(seen.sent.number, row);
            }
        } else if seen.sent.injected {
            let body = match body {
                Some(body) => body,
                None => {
                    io::copy(&mut Read::take(&mut reader, length as u64), &mut io::sink())?;
                    Vec::new()
                }
            };
            injected(kind, &body, seen, shared)?;
        } else {
            match body {
                Some(body) if widened => narrowed(kind, body, seen, shared)?,
                Some(body) => shown_to(kind, &body, seen, shared)?,
                None => stream(kind, length, &mut reader, shared)?,
            }
        }
        lock(&shared.state).busy = false;
        shared.changed.notify_all();
    }
}

fn bounded(reader: &mut impl Read, length: usize, shared: &Shared) -> io::Result<Vec<u8>> {
    if length > shared.limits.message {
        return Err(message::broken("an answer is longer than the limit"));
    }
    read_exactly(reader, length)
}

/// Passes a message that is not looked at, without holding it in memory.
fn stream(kind: u8, length: usize, reader: &mut impl Read, shared: &Shared) -> io::Result<()> {
    let mut client = lock(&shared.client);
    let said = i32::try_from(length + 4).map_err(|_| message::broken("a message is too long"))?;
    client.write_all(&[kind])?;
    client.write_all(&said.to_be_bytes())?;
    let copied = io::copy(&mut reader.take(length as u64), &mut *client)?;
    if copied == length as u64 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Whether the last column that is described is the observer's: its name, a zero, and 18 bytes.
fn has_extra(body: &[u8]) -> bool {
    let name = body.len().checked_sub(19).map_or(&[][..], |end| &body[..end]);
    name.ends_with(EXTRA.as_bytes()) && name.iter().rev().nth(EXTRA.len()).is_some()
}

/// Takes the observer's column out of a description or a row.
fn narrowed(kind: u8, mut body: Vec<u8>, seen: Seen, shared: &Shared) -> io::Result<()> {
    let mut parts = Body { bytes: &body };
    let count = parts.short()? - 1;
    if kind == b'T' {
        body.truncate(body.len().saturating_sub(EXTRA.len() + 19));
    } else {
        for _ in 0..count {
            if let Ok(length) = usize::try_from(parts.int()?) {
                parts.take(length)?;
            }
        }
        let end = body.len() - parts.bytes.len();
        let length = parts.int()?;
        let value = usize::try_from(length).ok().map(|length| parts.take(length)).transpose()?;
        lock(&shared.observer).answer_to(seen.sent.number, Answer::Extra(value));
        body.truncate(end);
    }
    body.splice(..2, count.to_be_bytes());
    match kind {
        b'D' if !shared.interest.rows() => put(&mut *lock(&shared.client), kind, &body),
        _ => shown_to(kind, &body, seen, shared),
    }
}

/// The fields of an error, with the place in the text that the client wrote.
fn placed(body: &[u8], addition: Addition) -> Vec<u8> {
    let fields = body.split(|&b| b == 0).map(|field| {
        let place = field.strip_prefix(b"P").and_then(|n| std::str::from_utf8(n).ok()?.parse().ok());
        match place {
            Some(place) => format!("P{}", addition.undone(place)).into_bytes(),
            None => field.to_vec(),
        }
    });
    fields.collect::<Vec<_>>().join(&0)
}

/// A message that answers a statement of the observer.
fn injected(kind: u8, body: &[u8], seen: Seen, shared: &Shared) -> io::Result<()> {
    match kind {
        b'D' if !shared.interest.in_step() => {
            lock(&shared.observer).answer_to(seen.sent.number, Answer::Own(body));
        }
        b'D' => {
            let values = Body { bytes: body }.values()?;
            let text = |v: &[u8]| String::from_utf8_lossy(v).into_owned();
            lock(&shared.state).rows.push(values.into_iter().map(|v| v.map(text)).collect());
        }
        b'E' => {
            let share = {
                let mut state = lock(&shared.state);
                let error = ServerError::of(body);
                if state.share_error {
                    state.outcome.error = Some(error.clone());
                }
                state.error = Some(error);
                // In a pipeline the server now ignores what the client has asked for.
                state.share_error || !shared.interest.in_step()
            };
            if share {
                put(&mut *lock(&shared.client), kind, body)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// A message that the observer may see before the client does.
fn shown_to(kind: u8, body: &[u8], seen: Seen, shared: &Shared) -> io::Result<()> {
    let tag = if kind == b'C' { Body { bytes: body }.text()? } else { String::new() };
    let error = if kind == b'E' { Some(ServerError::of(body)) } else { None };
    let status = lock(&shared.state).flow.status();
    if matches!(tag.as_str(), "DEALLOCATE ALL" | "DISCARD ALL") {
        lock(&shared.state).flow.forget();
    }
    if kind == b'Z' && seen.of == Some(Asked::Startup) {
        shared.start();
    }
    // The end of the server is no answer to a request.
    let asked = seen.of.is_some_and(|asked| asked != Asked::Startup);
    if shared.interest != Interest::Nothing && asked {
        let answer = match (kind, &error) {
            (b'T', _) => shared.interest.rows().then_some(Answer::Columns(body)),
            (b'D', _) => Some(Answer::Row(body)),
            (b'C', _) => Some(Answer::Complete(&tag)),
            (b'Z', _) => Some(Answer::Ready(status)),
            (_, Some(error)) => Some(Answer::Failed(error)),
            _ => None,
        };
        if let Some(answer) = answer {
            lock(&shared.observer).answer_to(seen.sent.number, answer);
        }
        if shared.interest.in_step() && kept(kind, tag, error, status, shared) {
            return Ok(());
        }
    }
    match seen.sent.addition {
        Some(addition) if kind == b'E' => put(&mut *lock(&shared.client), kind, &placed(body, addition)),
        _ => put(&mut *lock(&shared.client), kind, body),
    }
}

/// Notes what a request in step led to. True if the client must not see the message yet.
fn kept(kind: u8, tag: String, error: Option<ServerError>, status: Status, shared: &Shared) -> bool {
    let mut state = lock(&shared.state);
    state.outcome.status = status;
    if kind == b'C' {
        state.outcome.tags.push(tag);
    }
    state.outcome.error = error.or_else(|| state.outcome.error.take());
    if kind == b'Z' && state.hold {
        state.held = Some(status);
        return true;
    }
    false
}
