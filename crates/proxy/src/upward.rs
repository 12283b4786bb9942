//! From the client to the server.

use crate::flow::{Addition, Asked, Sent, Status};
use crate::message::{self, Body, ServerError, put, read_exactly};
use crate::observe::{Interest, Request, Rows, Run, RunError, Verdict};
use crate::session::{Shared, lock};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;

/// The name of statements and portals of the observer.
const OWN: &str = "anomalist proxy";

/// Passes messages until the client ends the session.
pub(crate) fn run<R: Read>(reader: BufReader<R>, server: &TcpStream, shared: &Shared) -> io::Result<()> {
    let server = Upstream { writer: BufWriter::new(server), shared };
    Upward { reader, server, refused: false, open: None, shown: 0, number: 0 }.run()
}

/// The way to the server.
struct Upstream<'a> {
    writer: BufWriter<&'a TcpStream>,
    shared: &'a Shared,
}

impl Upstream<'_> {
    fn send(&mut self, asked: Asked, sent: Sent, kind: u8, body: &[u8]) -> io::Result<()> {
        lock(&self.shared.state).flow.ask(asked, sent);
        put(&mut self.writer, kind, body)
    }

    /// Sends what is in the buffer, and makes the server answer what it has.
    fn flush(&mut self, simple: bool) -> io::Result<()> {
        if !simple {
            put(&mut self.writer, b'H', &[])?;
        }
        self.writer.flush()
    }
}

struct Upward<'a, R> {
    reader: BufReader<R>,
    server: Upstream<'a>,
    /// The observer refused a part of an extended query: the rest of it is ignored.
    refused: bool,
    /// A request in step that is taking data from the client.
    open: Option<Request>,
    /// How many requests the observer was shown.
    shown: u64,
    /// The number of the present request among them, or 0.
    number: u64,
}

/// Where a statement of the observer stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Beside a simple query: it is one itself.
    Simple,
    /// Within an extended query, and so within its transaction. A simple query would commit there.
    Within,
    /// After an extended query: one of its own. A simple query would drop the unnamed statement.
    Between,
}

impl Place {
    fn before(request: &Request) -> Self {
        if request.is_simple() { Self::Simple } else { Self::Within }
    }

    fn after(request: &Request) -> Self {
        if *request == Request::Sync { Self::Between } else { Self::before(request) }
    }
}

/// The server, beside one request.
struct Beside<'s, 'a> {
    server: &'s mut Upstream<'a>,
    place: Place,
}

impl Beside<'_, '_> {
    fn ask(&mut self, statement: &str, number: u64) -> io::Result<()> {
        let text = format!("{statement}\0");
        let injected = Sent { injected: true, number, ..Sent::default() };
        if self.place == Place::Simple {
            return self.server.send(Asked::Query, injected, b'Q', text.as_bytes());
        }
        let own = format!("S{OWN}\0");
        let names = format!("{OWN}\0{OWN}\0");
        self.server.send(Asked::Close, injected, b'C', own.as_bytes())?;
        self.server.send(
            Asked::Parse,
            injected,
            b'P',
            &[format!("{OWN}\0{text}").as_bytes(), &[0; 2]].concat(),
        )?;
        self.server.send(Asked::Bind, injected, b'B', &[names.as_bytes(), &[0; 6]].concat())?;
        self.server.send(
            Asked::Execute,
            injected,
            b'E',
            &[format!("{OWN}\0").as_bytes(), &[0; 4]].concat(),
        )?;
        self.server.send(Asked::Close, injected, b'C', format!("P{OWN}\0").as_bytes())?;
        self.server.send(Asked::Close, injected, b'C', own.as_bytes())?;
        if self.place == Place::Between {
            self.server.send(Asked::Sync, injected, b'S', &[])?;
        }
        Ok(())
    }

    /// Waits for what was asked before, and makes sure that the server takes a statement.
    fn ready(&mut self) -> Result<(), RunError> {
        let shared = self.server.shared;
        if !shared.interest.in_step() {
            return Err(RunError::OutOfStep);
        }
        let mut state = shared.settle().map_err(RunError::Gone)?;
        if state.flow.is_skipping() || state.flow.wants_data() {
            return Err(RunError::Skipping);
        }
        state.rows.clear();
        state.error = None;
        // The server then ignores what the client has asked for: the error is its answer.
        state.share_error = self.place == Place::Within;
        Ok(())
    }
}

impl Run for Beside<'_, '_> {
    fn run(&mut self, statement: &str) -> Result<Rows, RunError> {
        // What was posted has to be on its way.
        self.server.flush(self.place != Place::Within).map_err(RunError::Gone)?;
        self.ready()?;
        let asked = self.ask(statement, 0).and_then(|()| self.server.flush(self.place != Place::Within));
        asked.map_err(RunError::Gone)?;
        let mut state = self.server.shared.settle().map_err(RunError::Gone)?;
        match state.error.take() {
            Some(error) => Err(RunError::Server(error)),
            None => Ok(std::mem::take(&mut state.rows)),
        }
    }

    fn post(&mut self, statement: &str) -> Result<(), RunError> {
        self.server.flush(self.place != Place::Within).map_err(RunError::Gone)?;
        self.ready()?;
        self.ask(statement, 0).map_err(RunError::Gone)
    }

    fn status(&self) -> Status {
        lock(&self.server.shared.state).flow.status()
    }

    fn is_current(&self) -> bool {
        lock(&self.server.shared.state).flow.is_current()
    }
}

impl<R: Read> Upward<'_, R> {
    fn run(&mut self) -> io::Result<()> {
        loop {
            if self.reader.buffer().is_empty() {
                self.server.writer.flush()?;
            }
            let Some((kind, length)) = message::head(&mut self.reader)? else {
                return self.server.writer.flush();
            };
            if matches!(kind, b'd' | b'p') || !b"QPBDECSFcf".contains(&kind) {
                self.stream(kind, length)?;
                continue;
            }
            if length > self.server.shared.limits.message {
                let error = ServerError { code: "54000".into(), message: "the message is too long".into() };
                return self.answer(b'E', &error.fields("FATAL"));
            }
            let body = read_exactly(&mut self.reader, length)?;
            self.handle(kind, &body)?;
        }
    }

    /// Passes a message that is not looked at, without holding it in memory.
    fn stream(&mut self, kind: u8, length: usize) -> io::Result<()> {
        if kind == b'd' {
            lock(&self.server.shared.state).flow.ask(Asked::CopyData, Sent::default());
        }
        let said = i32::try_from(length + 4).map_err(|_| message::broken("a message is too long"))?;
        let skipped = self.refused && kind != b'X';
        if !skipped {
            self.server.writer.write_all(&[kind])?;
            self.server.writer.write_all(&said.to_be_bytes())?;
        }
        let mut body = Read::take(&mut self.reader, length as u64);
        let copied = match skipped {
            true => io::copy(&mut body, &mut io::sink())?,
            false => io::copy(&mut body, &mut self.server.writer)?,
        };
        if copied == length as u64 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn handle(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        if self.refused && kind != b'S' {
            return Ok(());
        }
        self.refused = false;
        if matches!(kind, b'c' | b'f') {
            return self.end_copy(kind, body);
        }
        if let Some(open) = self.open.take() {
            if self.server.shared.settle()?.flow.wants_data() {
                // Some clients send Sync before they notice that they are to send data.
                self.open = Some(open);
                let asked = if kind == b'S' { Asked::Sync } else { Asked::CopyData };
                return self.server.send(asked, Sent::default(), kind, body);
            }
            // The server has ended a COPY before the client has.
            self.conclude(open)?;
        }
        let mut parts = Body { bytes: body };
        match kind {
            b'Q' => self.consult(Asked::Query, kind, body, || Ok(Request::Query { text: text(&mut parts)? })),
            b'F' => self.consult(Asked::Call, kind, body, || Ok(Request::Call)),
            b'S' => self.consult(Asked::Sync, kind, body, || Ok(Request::Sync)),
            b'P' => self.parse(kind, body),
            b'B' => {
                let (portal, statement) = (parts.raw_text()?, parts.raw_text()?);
                let bound = lock(&self.server.shared.state).flow.bind(portal, statement);
                let widened = bound.as_ref().and_then(|b| b.addition).is_some_and(|a| a.widens);
                let wider = if widened { Some(with_format(body, parts)?) } else { None };
                self.consult(Asked::Bind, kind, wider.as_deref().unwrap_or(body), || {
                    let text = bound.map(|b| b.text);
                    let formats = parts.shorts()?;
                    let values = parts.values()?.into_iter().map(|v| v.map(<[u8]>::to_vec)).collect();
                    Ok(Request::Bind { portal: lossy(portal), text, formats, values })
                })
            }
            b'E' => {
                let portal = parts.raw_text()?;
                let bound = lock(&self.server.shared.state).flow.portal(portal);
                let addition = bound.as_ref().and_then(|b| b.addition);
                self.consult_about(Asked::Execute, addition, kind, body, || {
                    Ok(Request::Execute { portal: lossy(portal), text: bound.map(|b| b.text) })
                })
            }
            b'C' => {
                let (what, name) = (parts.byte()?, parts.raw_text()?);
                lock(&self.server.shared.state).flow.close(what, name);
                self.server.send(Asked::Close, Sent::default(), kind, body)
            }
            _ => self.server.send(Asked::Describe, Sent::default(), kind, body),
        }
    }

    fn parse(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        let mut parts = Body { bytes: body };
        let (name, bytes) = (parts.raw_text()?, parts.raw_text()?);
        let (statement, is_exact) = (lossy(bytes), std::str::from_utf8(bytes).is_ok());
        let types = parts.bytes;
        let request = || {
            let count = parts.short()?;
            let types = (0..count).map(|_| parts.int().map(i32::cast_unsigned)).collect::<io::Result<_>>()?;
            Ok(Request::Parse { name: lossy(name), text: statement.as_str().into(), types })
        };
        let verdict = self.verdict(request)?;
        if let Verdict::Refuse(error) = verdict.1 {
            return self.refuse(&error, false);
        }
        let mut sent = Sent { number: self.number, ..Sent::default() };
        let replaced = match verdict.1 {
            Verdict::Replace(text) => Some(text),
            // In another encoding the text is not what the observer has seen.
            Verdict::Widen { at, addition } if is_exact => {
                sent.addition = Some(added(&statement, at, &addition));
                Some(inserted(&statement, at, &addition))
            }
            Verdict::Pass | Verdict::Widen { .. } | Verdict::Precede(_) | Verdict::Refuse(_) => None,
        };
        lock(&self.server.shared.state).flow.parse(name, &statement, sent);
        match replaced {
            Some(text) => {
                put(&mut self.server.writer, kind, &[name, &[0], text.as_bytes(), &[0], types].concat())
            }
            None => put(&mut self.server.writer, kind, body),
        }
    }

    /// What the observer says about a request, and the request if the observer is to see its end.
    fn verdict(
        &mut self,
        request: impl FnOnce() -> io::Result<Request>,
    ) -> io::Result<(Option<Request>, Verdict)> {
        let shared = self.server.shared;
        self.number = 0;
        let skips = || shared.interest.in_step() && lock(&shared.state).flow.is_skipping();
        if shared.interest == Interest::Nothing || skips() {
            // In step, the end of a failed query is still to be seen; other requests are ignored. Otherwise
            // requests may be on their way that come after that end.
            return Ok((None, Verdict::Pass));
        }
        let request = request()?;
        if shared.interest.in_step() {
            // Answers on their way would wait for the observer, and the observer for them.
            self.server.flush(Place::before(&request) == Place::Simple)?;
            if shared.settle()?.flow.is_skipping() {
                return Ok((None, Verdict::Pass));
            }
        }
        self.number = self.shown + 1;
        self.shown = self.number;
        let mut beside = Beside { server: &mut self.server, place: Place::before(&request) };
        let verdict = lock(&shared.observer).request(&request, &mut beside);
        let awaited = shared.interest.in_step() && request.is_awaited();
        Ok((awaited.then_some(request), verdict))
    }

    /// Asks the observer, and does what it says.
    fn consult(
        &mut self,
        asked: Asked,
        kind: u8,
        body: &[u8],
        request: impl FnOnce() -> io::Result<Request>,
    ) -> io::Result<()> {
        self.consult_about(asked, None, kind, body, request)
    }

    /// The same, of a statement with an addition.
    fn consult_about(
        &mut self,
        asked: Asked,
        addition: Option<Addition>,
        kind: u8,
        body: &[u8],
        request: impl FnOnce() -> io::Result<Request>,
    ) -> io::Result<()> {
        let (mut awaited, verdict) = self.verdict(request)?;
        let in_step = self.server.shared.interest.in_step();
        if in_step && asked == Asked::Sync {
            awaited = Some(Request::Sync);
        }
        if awaited.is_some() {
            let mut state = lock(&self.server.shared.state);
            state.outcome.tags.clear();
            state.hold = matches!(asked, Asked::Query | Asked::Sync | Asked::Call);
            state.held = None;
        }
        let mut sent = Sent { number: self.number, addition, ..Sent::default() };
        match verdict {
            Verdict::Replace(text) if asked == Asked::Query => {
                self.server.send(asked, sent, kind, format!("{text}\0").as_bytes())?;
            }
            Verdict::Widen { at, addition } if asked == Asked::Query && std::str::from_utf8(body).is_ok() => {
                let text = lossy(body.strip_suffix(&[0]).unwrap_or(body));
                sent.addition = Some(added(&text, at, &addition));
                let wider = inserted(&text, at, &addition);
                self.server.send(asked, sent, kind, format!("{wider}\0").as_bytes())?;
            }
            Verdict::Precede(first) if asked == Asked::Query => {
                let first = format!("{first}; ");
                sent.preceded = true;
                sent.addition =
                    Some(Addition { at: 0, length: first.chars().count(), ..Addition::default() });
                self.server.send(asked, sent, kind, &[first.as_bytes(), body].concat())?;
            }
            Verdict::Precede(first) if matches!(asked, Asked::Execute | Asked::Sync) => {
                let number = self.number;
                Beside { server: &mut self.server, place: Place::Within }.ask(&first, number)?;
                self.server.send(asked, sent, kind, body)?;
            }
            Verdict::Pass | Verdict::Replace(_) | Verdict::Widen { .. } | Verdict::Precede(_) => {
                self.server.send(asked, sent, kind, body)?;
            }
            Verdict::Refuse(_) if asked == Asked::Sync => self.server.send(asked, sent, kind, body)?,
            Verdict::Refuse(error) => {
                lock(&self.server.shared.state).hold = false;
                return self.refuse(&error, asked == Asked::Query || asked == Asked::Call);
            }
        }
        match awaited {
            Some(request) => self.conclude(request),
            None => Ok(()),
        }
    }

    /// Waits for the answer and shows it to the observer.
    fn conclude(&mut self, request: Request) -> io::Result<()> {
        let (shared, simple) = (self.server.shared, request.is_simple());
        self.server.flush(simple || request == Request::Sync)?;
        let outcome = {
            let mut state = shared.settle()?;
            if state.flow.wants_data() {
                // The client must be heard, so that the statement can end.
                state.hold = false;
                self.open = Some(request);
                return Ok(());
            }
            match request {
                // The error of an extended query is also that of its end.
                Request::Execute { .. } => state.outcome.clone(),
                _ => std::mem::take(&mut state.outcome),
            }
        };
        let mut beside = Beside { server: &mut self.server, place: Place::after(&request) };
        let refused = lock(&shared.observer).finished(&request, &outcome, &mut beside);
        let held = {
            let mut state = lock(&shared.state);
            state.hold = false;
            state.held.take()
        };
        match held {
            // What the observer did may have changed it.
            Some(_) => {
                if let Some(error) = refused.filter(|_| simple) {
                    put(&mut *lock(&shared.client), b'E', &error.fields("ERROR"))?;
                }
                self.answer(b'Z', &[lock(&shared.state).flow.status().byte()])
            }
            None => Ok(()),
        }
    }

    fn end_copy(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        self.server.send(Asked::CopyEnd, Sent::default(), kind, body)?;
        match self.open.take() {
            Some(open) => {
                let simple = open.is_simple();
                lock(&self.server.shared.state).hold = simple;
                self.conclude(open)
            }
            None => Ok(()),
        }
    }

    /// Answers a request with an error instead of sending it.
    fn refuse(&mut self, error: &ServerError, simple: bool) -> io::Result<()> {
        self.server.flush(simple)?;
        let status = self.server.shared.settle()?.flow.status();
        self.refused = !simple;
        let mut client = lock(&self.server.shared.client);
        put(&mut *client, b'E', &error.fields("ERROR"))?;
        if simple {
            put(&mut *client, b'Z', &[status.byte()])?;
        }
        client.flush()
    }

    fn answer(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        let mut client = lock(&self.server.shared.client);
        put(&mut *client, kind, body)?;
        client.flush()
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn text(parts: &mut Body<'_>) -> io::Result<std::sync::Arc<str>> {
    Ok(lossy(parts.raw_text()?).into())
}

/// A text with an addition.
fn inserted(text: &str, at: usize, addition: &str) -> String {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    [before, addition, after].concat()
}

/// What that adds, in characters.
fn added(text: &str, at: usize, addition: &str) -> Addition {
    let before = text.get(..at).unwrap_or(text);
    Addition { at: before.chars().count(), length: addition.chars().count(), widens: true }
}

/// A Bind that asks for one more column, as text. `parts` is what follows the names of a `body`.
fn with_format(body: &[u8], mut parts: Body<'_>) -> io::Result<Vec<u8>> {
    parts.shorts()?;
    parts.values()?;
    let before = body.len() - parts.bytes.len();
    let formats = parts.shorts()?;
    // None, or one for all columns: a text has the same bytes in both formats.
    if formats.len() < 2 {
        return Ok(body.to_vec());
    }
    let count = i16::try_from(formats.len() + 1).map_err(|_| message::broken("too many columns"))?;
    Ok([&body[..before], &count.to_be_bytes(), &body[before + 2..], &[0, 0]].concat())
}
