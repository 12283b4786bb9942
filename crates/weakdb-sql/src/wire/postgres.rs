//! PostgreSQL's protocol, version 3, from the server's side: simple and extended queries.
//!
//! Own code rather than a crate: a thread per connection is what the executor needs, answers are flushed
//! once per Sync, and the state of a failed transaction is the session's. Passwords are not asked for;
//! COPY, replication and encryption are not there.

use super::broken;
use super::line::{Incoming, LONGEST, Line, Outgoing, fatal, reason, unless_killed};
use super::postgres_codec::{decode, encode};
use super::postgres_message::{error_fields, format_of};
use crate::bounds::Charge;
use crate::{Code, Database, Outcome, Prepared, ResultColumn, Session, SqlError, Status, Type};
use anomalist_proxy::message::{Body, put as message};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::Value;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// What a prepared statement or a portal keeps beside its texts and parameters.
const KEPT: usize = 256;
/// The message with which a client ends the connection.
const FAREWELL: &[u8] = b"X\0\0\0\x04";

/// A prepared statement: its text, and the types that the client declared.
struct Statement {
    text: String,
    declared: Vec<u32>,
    _charge: Charge,
}

/// A statement with its parameters.
struct Portal {
    text: String,
    params: Vec<Value>,
    formats: Vec<i16>,
    /// What is left of its rows, once it has run.
    pending: Option<(Outcome, usize)>,
    _charge: Charge,
}

struct Connection<'s> {
    reader: Incoming<'s>,
    writer: Outgoing<'s>,
    session: Session,
    statements: BTreeMap<String, Statement>,
    portals: BTreeMap<String, Portal>,
    /// After an error in an extended query: until Sync, everything is skipped.
    skipping: bool,
}

/// Serves one connection to its end.
pub fn serve(database: &Database, mut line: Line<'_>, name: &str) -> io::Result<()> {
    let options = match start(&mut line)? {
        Start::Options(options) => options,
        Start::Cancel(connection, secret) => {
            database.cancel(connection, secret);
            return Ok(());
        }
        Start::Nothing => return Ok(()),
    };
    let mut session = match database.session(Dialect::PostgreSql, name) {
        Ok(session) => session,
        Err(error) => return refusal(&mut line.outgoing, &error),
    };
    line.attach(&session, FAREWELL);
    let Line { incoming: reader, outgoing: mut writer, .. } = line;
    welcome(&mut session, &mut writer, &options)?;
    let (statements, portals) = (BTreeMap::new(), BTreeMap::new());
    let mut connection = Connection { reader, writer, session, statements, portals, skipping: false };
    let ended = connection.ready().and_then(|()| connection.run());
    if let Some(error) = ended.as_ref().err().and_then(reason) {
        refusal(&mut connection.writer, error)?;
    }
    ended
}

/// Answers one connection too many.
pub fn refuse(mut line: Line<'_>, error: &SqlError) -> io::Result<()> {
    match start(&mut line)? {
        Start::Options(_) => refusal(&mut line.outgoing, error),
        Start::Cancel(..) | Start::Nothing => Ok(()),
    }
}

fn refusal(writer: &mut Outgoing<'_>, error: &SqlError) -> io::Result<()> {
    message(writer, b'E', &error_fields(error))?;
    writer.flush()
}

/// The messages that follow the client's options.
fn welcome(
    session: &mut Session,
    writer: &mut Outgoing<'_>,
    options: &BTreeMap<String, String>,
) -> io::Result<()> {
    if let Some(database) = options.get("database").or_else(|| options.get("user")) {
        session.set_database(database);
    }
    message(writer, b'R', &0i32.to_be_bytes())?;
    const REPORTED: &str = "server_version server_encoding client_encoding DateStyle TimeZone integer_datetimes \
        standard_conforming_strings IntervalStyle is_superuser session_authorization in_hot_standby";
    for name in REPORTED.split_whitespace() {
        let value = session.variable(name).unwrap_or_default();
        message(writer, b'S', format!("{name}\0{value}\0").as_bytes())?;
    }
    let application = options.get("application_name").map(String::as_str).unwrap_or_default();
    message(writer, b'S', format!("application_name\0{application}\0").as_bytes())?;
    let (number, secret) = session.stop().names();
    message(writer, b'K', &[number.to_be_bytes(), secret.to_be_bytes()].concat())?;
    // Options such as `-c anomalist.latest=on` are settings of the session.
    let settings = options.get("options").map(String::as_str).unwrap_or_default();
    for setting in settings.replace("-c ", "-c").split_whitespace().filter_map(|word| word.strip_prefix("-c"))
    {
        if let Some((name, value)) = setting.split_once('=') {
            let _ = session.execute(&format!("SET {name} = {}", Dialect::PostgreSql.literal(value)), &[]);
        }
    }
    Ok(())
}

/// What a client begins with.
enum Start {
    /// A session with these options.
    Options(BTreeMap<String, String>),
    /// The end of a statement of the connection with this number and this secret.
    Cancel(u32, u32),
    /// Something else, which was answered.
    Nothing,
}

/// The first messages, up to the client's options.
fn start(line: &mut Line<'_>) -> io::Result<Start> {
    let (reader, writer) = (&mut line.incoming, &mut line.outgoing);
    // A client asks once for each kind of encryption.
    for _ in 0..4 {
        let mut head = [0; 8];
        reader.read_exact(&mut head)?;
        let length = i32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let code = i32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let rest = usize::try_from(length.saturating_sub(8)).ok().filter(|&n| n <= 1 << 16);
        let mut body = vec![0; rest.ok_or_else(|| broken("startup"))?];
        reader.read_exact(&mut body)?;
        match code {
            // Encryption by TLS or GSSAPI: not here.
            80_877_103 | 80_877_104 => {
                writer.write_all(b"N")?;
                writer.flush()?;
            }
            80_877_102 => {
                let mut body = Body { bytes: &body };
                return Ok(Start::Cancel(body.int()? as u32, body.int()? as u32));
            }
            version if version >> 16 == 3 => {
                let mut words = body.split(|&b| b == 0).map(|w| String::from_utf8_lossy(w).into_owned());
                let mut options = BTreeMap::new();
                while let (Some(name), Some(value)) = (words.next().filter(|n| !n.is_empty()), words.next()) {
                    options.insert(name, value);
                }
                if version & 0xffff != 0 {
                    // A newer minor version: say which one is spoken.
                    message(writer, b'v', &[0i32.to_be_bytes(), 0i32.to_be_bytes()].concat())?;
                }
                return Ok(Start::Options(options));
            }
            _ => break,
        }
    }
    refusal(writer, &SqlError::new(Code::Protocol, "unsupported frontend protocol"))?;
    Ok(Start::Nothing)
}

impl Connection<'_> {
    fn run(&mut self) -> io::Result<()> {
        while self.reader.wait(&self.session)? {
            let mut head = [0; 5];
            self.reader.read_exact(&mut head)?;
            let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let known = b"QPBDESCHXFdcfp".contains(&head[0]);
            let length = usize::try_from(length.saturating_sub(4)).ok().filter(|&n| n <= LONGEST && known);
            let Some(length) = length else {
                let text = format!("invalid message of type {}", head[0]);
                return Err(fatal(SqlError::new(Code::Protocol, text)));
            };
            let mut charge = self.session.charge();
            let body = self.reader.body(length, &mut charge)?;
            let mut body = Body { bytes: &body };
            match head[0] {
                b'X' => return Ok(()),
                b'Q' => {
                    self.skipping = false;
                    let text = body.text()?;
                    self.simple(&text)?;
                    self.ready()?;
                }
                b'S' => {
                    self.skipping = false;
                    self.ready()?;
                }
                b'H' => self.writer.flush()?,
                // Data of a COPY, or a password, that the server did not ask for.
                b'd' | b'c' | b'f' | b'p' => {}
                _ if self.skipping => {}
                kind => {
                    let answered = match kind {
                        b'P' => self.parse(&mut body)?,
                        b'B' => self.bind(&mut body)?,
                        b'D' => self.describe(&mut body)?,
                        b'E' => self.execute(&mut body)?,
                        b'C' => self.close(&mut body)?,
                        _ => Err(SqlError::unsupported("the function call message")),
                    };
                    if let Err(error) = answered {
                        self.skipping = true;
                        message(&mut self.writer, b'E', &error_fields(&error))?;
                    }
                }
            }
            unless_killed(&self.session)?;
        }
        Ok(())
    }

    fn ready(&mut self) -> io::Result<()> {
        let status = match self.session.status() {
            Status::Idle => b'I',
            Status::Open => b'T',
            Status::Failed => b'E',
        };
        if status == b'I' {
            // Portals live as long as their transaction.
            self.portals.clear();
        }
        message(&mut self.writer, b'Z', &[status])?;
        self.writer.flush()
    }

    fn simple(&mut self, text: &str) -> io::Result<()> {
        let outcomes = self.session.script(text);
        if outcomes.is_empty() {
            return message(&mut self.writer, b'I', &[]);
        }
        for outcome in outcomes {
            match outcome {
                Ok(outcome) => {
                    if let Some(columns) = &outcome.columns {
                        self.row_description(columns, &[])?;
                        let columns = columns.clone();
                        for row in &outcome.rows {
                            if let Err(error) = self.row(&columns, row, &[])? {
                                return message(&mut self.writer, b'E', &error_fields(&error));
                            }
                        }
                    }
                    message(&mut self.writer, b'C', format!("{}\0", outcome.tag).as_bytes())?;
                }
                Err(error) => message(&mut self.writer, b'E', &error_fields(&error))?,
            }
        }
        Ok(())
    }

    fn row_description(&mut self, columns: &[ResultColumn], formats: &[i16]) -> io::Result<()> {
        let mut body = (columns.len() as i16).to_be_bytes().to_vec();
        for (at, column) in columns.iter().enumerate() {
            body.extend(column.name.replace('\0', " ").bytes());
            body.push(0);
            body.extend([0; 6]);
            body.extend(column.kind.oid().to_be_bytes());
            let size: i16 = match column.kind {
                Type::Bool => 1,
                Type::Int1 | Type::Int2 => 2,
                Type::Int4 | Type::Float4 | Type::Date | Type::Oid => 4,
                Type::Int8 | Type::Float8 | Type::Time | Type::Timestamp | Type::TimestampTz => 8,
                Type::Uuid => 16,
                Type::Name => 64,
                _ => -1,
            };
            body.extend(size.to_be_bytes());
            body.extend((-1i32).to_be_bytes());
            body.extend(format_of(formats, at).to_be_bytes());
        }
        message(&mut self.writer, b'T', &body)
    }

    fn row(
        &mut self,
        columns: &[ResultColumn],
        row: &[Value],
        formats: &[i16],
    ) -> io::Result<Result<(), SqlError>> {
        let mut body = (columns.len() as i16).to_be_bytes().to_vec();
        for (at, column) in columns.iter().enumerate() {
            let value = row.get(at).unwrap_or(&Value::Null);
            let encoded = if format_of(formats, at) == 1 {
                match encode(column.kind, value) {
                    Ok(encoded) => encoded,
                    Err(error) => return Ok(Err(error)),
                }
            } else {
                column.kind.text(value, Dialect::PostgreSql).map(String::into_bytes)
            };
            match encoded {
                None => body.extend((-1i32).to_be_bytes()),
                Some(bytes) => {
                    body.extend((bytes.len() as i32).to_be_bytes());
                    body.extend(bytes);
                }
            }
        }
        message(&mut self.writer, b'D', &body).map(Ok)
    }

    fn parse(&mut self, body: &mut Body<'_>) -> io::Result<Result<(), SqlError>> {
        let (name, text) = (body.text()?, body.text()?);
        let count = body.short()?;
        let declared: Vec<u32> =
            (0..count).map(|_| body.int().map(|i| i as u32)).collect::<io::Result<_>>()?;
        if let Err(error) = self.session.plan(&text) {
            return Ok(Err(error));
        }
        let mut charge = self.session.charge();
        if let Err(exceeded) = charge.add(KEPT + name.len() + text.len()) {
            return Ok(Err(exceeded.into()));
        }
        self.statements.insert(name, Statement { text, declared, _charge: charge });
        message(&mut self.writer, b'1', &[]).map(Ok)
    }

    /// The types of a statement's parameters: as declared, else as inferred.
    fn kinds(prepared: &Prepared, declared: &[u32]) -> Vec<(u32, Type)> {
        let count = prepared.parameters.len().max(declared.len());
        let kind = |at: usize| {
            let inferred = prepared.parameters.get(at).copied().unwrap_or(Type::Unknown);
            match declared.get(at) {
                Some(&oid) if oid != 0 && oid != 705 => (oid, Type::from_oid(oid)),
                _ => (inferred.oid(), inferred),
            }
        };
        (0..count).map(kind).collect()
    }

    fn bind(&mut self, body: &mut Body<'_>) -> io::Result<Result<(), SqlError>> {
        let size = body.bytes.len();
        let (portal, name) = (body.text()?, body.text()?);
        let formats = body.shorts()?;
        let count = body.short()?;
        let mut raw = Vec::new();
        for _ in 0..count {
            let length = body.int()?;
            raw.push(usize::try_from(length).ok().map(|n| body.take(n)).transpose()?);
        }
        let results = body.shorts()?;
        let Some(statement) = self.statements.get(&name) else { return Ok(Err(no_statement(&name))) };
        let prepared = match self.session.plan(&statement.text) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        let kinds = Self::kinds(&prepared, &statement.declared);
        if raw.len() != kinds.len() {
            let text =
                format!("bind message supplies {} parameters, but {} are required", raw.len(), kinds.len());
            return Ok(Err(SqlError::new(Code::Protocol, text)));
        }
        let mut params = Vec::with_capacity(raw.len());
        for (at, (bytes, (_, kind))) in raw.into_iter().zip(kinds).enumerate() {
            match decode(kind, bytes, format_of(&formats, at) == 1) {
                Ok(value) => params.push(value),
                Err(error) => return Ok(Err(error)),
            }
        }
        let text = statement.text.clone();
        let mut charge = self.session.charge();
        let kept = KEPT + portal.len() + text.len() + size;
        if let Err(exceeded) = charge.add(kept) {
            return Ok(Err(exceeded.into()));
        }
        let portal_of = Portal { text, params, formats: results, pending: None, _charge: charge };
        self.portals.insert(portal, portal_of);
        message(&mut self.writer, b'2', &[]).map(Ok)
    }

    fn describe(&mut self, body: &mut Body<'_>) -> io::Result<Result<(), SqlError>> {
        let (kind, name) = (body.byte()?, body.text()?);
        let (text, declared, formats) = match kind {
            b'S' => match self.statements.get(&name) {
                Some(s) => (s.text.clone(), Some(s.declared.clone()), Vec::new()),
                None => return Ok(Err(no_statement(&name))),
            },
            _ => match self.portals.get(&name) {
                Some(p) => (p.text.clone(), None, p.formats.clone()),
                // A cursor of SQL is a portal too.
                None => match self.session.cursor_columns(&name).map(<[_]>::to_vec) {
                    Some(columns) => return self.row_description(&columns, &[]).map(Ok),
                    None => return Ok(Err(no_portal(&name))),
                },
            },
        };
        let prepared: Arc<Prepared> = match self.session.plan(&text) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(declared) = declared {
            let kinds = Self::kinds(&prepared, &declared);
            let mut body = (kinds.len() as i16).to_be_bytes().to_vec();
            kinds.iter().for_each(|(oid, _)| body.extend(oid.to_be_bytes()));
            message(&mut self.writer, b't', &body)?;
        }
        if prepared.columns.is_empty() {
            message(&mut self.writer, b'n', &[]).map(Ok)
        } else {
            self.row_description(&prepared.columns, &formats).map(Ok)
        }
    }

    fn execute(&mut self, body: &mut Body<'_>) -> io::Result<Result<(), SqlError>> {
        let (name, most) = (body.text()?, body.int()?);
        let Some(mut portal) = self.portals.remove(&name) else { return Ok(Err(no_portal(&name))) };
        let (outcome, done) = match portal.pending.take() {
            Some(pending) => pending,
            None => {
                let ran = self.session.plan(&portal.text).and_then(|p| self.session.run(&p, &portal.params));
                match ran {
                    Ok(outcome) => (outcome, 0),
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        if outcome.tag.is_empty() {
            return message(&mut self.writer, b'I', &[]).map(Ok);
        }
        let columns = outcome.columns.clone().unwrap_or_default();
        let end = if most > 0 { outcome.rows.len().min(done + most as usize) } else { outcome.rows.len() };
        for row in &outcome.rows[done..end] {
            if let Err(error) = self.row(&columns, row, &portal.formats)? {
                return Ok(Err(error));
            }
        }
        if end < outcome.rows.len() {
            message(&mut self.writer, b's', &[])?;
        } else {
            message(&mut self.writer, b'C', format!("{}\0", outcome.tag).as_bytes())?;
        }
        portal.pending = Some((outcome, end));
        self.portals.insert(name, portal);
        Ok(Ok(()))
    }

    fn close(&mut self, body: &mut Body<'_>) -> io::Result<Result<(), SqlError>> {
        let (kind, name) = (body.byte()?, body.text()?);
        if kind == b'S' {
            self.statements.remove(&name);
        } else {
            self.portals.remove(&name);
        }
        message(&mut self.writer, b'3', &[]).map(Ok)
    }
}

fn no_statement(name: &str) -> SqlError {
    SqlError::new(Code::UndefinedStatement, format!("prepared statement \"{name}\" does not exist"))
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(Code::UndefinedPortal, format!("portal \"{name}\" does not exist"))
}
