//! MySQL's protocol, version 10, from the server's side: text and prepared statements.
//!
//! The plainest form that every client takes: no encryption, no compression, no deprecation of EOF, any
//! password. What matters is the status in every OK and EOF, from the handshake on: drivers decide by it
//! whether a transaction is open and whether autocommit has to be switched off. Resetting a connection
//! rolls back, as pools rely on.

use super::broken;
use super::line::{Incoming, LONGEST, Line, Outgoing, fatal, reason, unless_killed};
use super::mysql_codec::{self as codec, Column, Packet, text_row};
use crate::bounds::Charge;
use crate::{Code, Database, Outcome, Session, SqlError, Status, Type};
use anomalist_sqltext::{Dialect, Lexed};
use anomalist_weakdb::Value;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};

const AUTOCOMMIT: u16 = 2;
const IN_TRANSACTION: u16 = 1;
const MORE_RESULTS: u16 = 8;

/// LONG_PASSWORD, FOUND_ROWS, LONG_FLAG, CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION,
/// MULTI_STATEMENTS, MULTI_RESULTS, PLUGIN_AUTH.
const CAPABILITIES: u32 = 1 | 2 | 4 | 8 | 0x200 | 0x2000 | 0x8000 | 0x1_0000 | 0x2_0000 | 0x8_0000;
const CONNECT_WITH_DB: u32 = 8;
const SECURE_CONNECTION: u32 = 0x8000;
const MULTI_STATEMENTS: u32 = 0x1_0000;
const PLUGIN_AUTH: u32 = 0x8_0000;

const PLUGIN: &str = "mysql_native_password";
/// What the password would be mixed with.
const SCRAMBLE: &[u8; 20] = b"anomalist-no-secrets";
/// A packet of this size is continued in the next one.
const FULL: usize = 0xff_ffff;
/// The packet with which a client ends the connection.
const FAREWELL: &[u8] = &[1, 0, 0, 0, 1];
/// How many prepared statements a connection has at most, as in MySQL.
const STATEMENTS: usize = 16_382;

/// A prepared statement.
struct Statement {
    text: String,
    parameters: usize,
    /// The types that the client sent with the first execution.
    kinds: Vec<(u8, bool)>,
    /// Parameters sent in pieces.
    long: BTreeMap<usize, Vec<u8>>,
    /// Why a piece was not taken. It has no answer of its own; the execution is refused.
    refused: Option<SqlError>,
    /// Counts the pieces.
    pieces: Charge,
    _charge: Charge,
}

struct Connection<'s> {
    reader: Incoming<'s>,
    writer: Outgoing<'s>,
    session: Session,
    statements: BTreeMap<u32, Statement>,
    next: u32,
    sequence: u8,
    multiple: bool,
}

/// Serves one connection to its end.
pub fn serve(database: &Database, line: Line<'_>, name: &str) -> io::Result<()> {
    let session = match database.session(Dialect::MySql, name) {
        Ok(session) => session,
        Err(error) => return refuse(line, &error),
    };
    line.attach(&session, FAREWELL);
    let Line { incoming: reader, outgoing: writer, .. } = line;
    let mut connection = Connection {
        reader,
        writer,
        session,
        statements: BTreeMap::new(),
        next: 0,
        sequence: 0,
        multiple: false,
    };
    let ended = connection.greet().and_then(|()| connection.run());
    if let Some(error) = ended.as_ref().err().and_then(reason) {
        connection.error(error)?;
        connection.writer.flush()?;
    }
    ended
}

/// Answers one connection too many.
pub fn refuse(mut line: Line<'_>, error: &SqlError) -> io::Result<()> {
    let body = error_packet(error);
    line.outgoing.write_all(&(body.len() as u32).to_le_bytes()[..3])?;
    line.outgoing.write_all(&[0])?;
    line.outgoing.write_all(&body)?;
    line.outgoing.flush()
}

fn error_packet(error: &SqlError) -> Vec<u8> {
    let (number, state) = error.code.mysql();
    let mut body = vec![0xff];
    body.extend(number.to_le_bytes());
    body.push(b'#');
    body.extend(state.bytes());
    let text = match error.code {
        Code::UndefinedTable => error
            .message
            .replace("relation \"", "Table '")
            .replace("\" does not", "' does not")
            .replace("does not exist", "doesn't exist"),
        Code::Serialization => {
            format!("Deadlock found when trying to get lock; try restarting transaction ({})", error.message)
        }
        _ => error.message.clone(),
    };
    body.extend(text.bytes());
    body
}

impl Connection<'_> {
    /// A whole packet, its pieces joined.
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut charge = self.session.charge();
        let mut whole = Vec::new();
        loop {
            let mut head = [0; 4];
            self.reader.read_exact(&mut head)?;
            let length = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            self.sequence = head[3].wrapping_add(1);
            if whole.len() + length > LONGEST {
                let text = "Got a packet bigger than 'max_allowed_packet' bytes";
                return Err(fatal(SqlError::new(Code::PacketTooLarge, text)));
            }
            whole.extend(self.reader.body(length, &mut charge)?);
            if length < FULL {
                return Ok(whole);
            }
        }
    }

    fn write(&mut self, body: &[u8]) -> io::Result<()> {
        let mut rest = body;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(FULL));
            self.writer.write_all(&(piece.len() as u32).to_le_bytes()[..3])?;
            self.writer.write_all(&[self.sequence])?;
            self.writer.write_all(piece)?;
            self.sequence = self.sequence.wrapping_add(1);
            rest = after;
            if piece.len() < FULL {
                return Ok(());
            }
        }
    }

    fn greet(&mut self) -> io::Result<()> {
        let mut hello = vec![10];
        hello.extend(b"5.5.5-10.11.6-MariaDB-weakdb\0");
        hello.extend(self.session.connection().to_le_bytes());
        hello.extend(&SCRAMBLE[..8]);
        hello.push(0);
        hello.extend(&CAPABILITIES.to_le_bytes()[..2]);
        hello.push(45);
        hello.extend(AUTOCOMMIT.to_le_bytes());
        hello.extend(&CAPABILITIES.to_le_bytes()[2..]);
        hello.push(21);
        hello.extend([0; 10]);
        hello.extend(&SCRAMBLE[8..]);
        hello.push(0);
        hello.extend(PLUGIN.bytes());
        hello.push(0);
        self.write(&hello)?;
        self.writer.flush()?;
        let answer = self.read()?;
        let mut packet = Packet::new(&answer);
        let flags = packet.u32()?;
        packet.take(4 + 1 + 23)?;
        packet.text()?;
        let secret = if flags & SECURE_CONNECTION != 0 {
            let length = packet.u8()?;
            packet.take(usize::from(length))?.len()
        } else {
            packet.text()?.len()
        };
        let _ = secret;
        if flags & CONNECT_WITH_DB != 0 && !packet.is_empty() {
            let database = packet.text()?;
            self.name_database(&database);
        }
        let plugin =
            if flags & PLUGIN_AUTH != 0 && !packet.is_empty() { packet.text()? } else { PLUGIN.to_owned() };
        self.multiple = flags & MULTI_STATEMENTS != 0;
        if plugin != PLUGIN && !plugin.is_empty() {
            let mut switch = vec![0xfe];
            switch.extend(PLUGIN.bytes());
            switch.push(0);
            switch.extend(SCRAMBLE);
            switch.push(0);
            self.write(&switch)?;
            self.writer.flush()?;
            self.read()?;
        }
        self.ok(&Outcome::default(), 0)?;
        self.writer.flush()
    }

    fn name_database(&mut self, name: &str) {
        if !name.is_empty() {
            self.session.set_database(name);
        }
    }

    fn status(&self) -> u16 {
        let auto = if self.session.autocommit() { AUTOCOMMIT } else { 0 };
        auto | if self.session.status() == Status::Idle { 0 } else { IN_TRANSACTION }
    }

    fn ok(&mut self, outcome: &Outcome, more: u16) -> io::Result<()> {
        let mut body = vec![0];
        codec::put_length(&mut body, outcome.count);
        codec::put_length(&mut body, outcome.last_id.unwrap_or(0) as u64);
        body.extend((self.status() | more).to_le_bytes());
        body.extend([0, 0]);
        self.write(&body)
    }

    fn eof(&mut self, more: u16) -> io::Result<()> {
        let mut body = vec![0xfe, 0, 0];
        body.extend((self.status() | more).to_le_bytes());
        self.write(&body)
    }

    fn error(&mut self, error: &SqlError) -> io::Result<()> {
        self.write(&error_packet(error))
    }

    fn run(&mut self) -> io::Result<()> {
        while self.reader.wait(&self.session)? {
            self.sequence = 0;
            let packet = self.read()?;
            let Some((&command, body)) = packet.split_first() else {
                self.error(&SqlError::new(Code::Protocol, "an empty packet"))?;
                self.writer.flush()?;
                continue;
            };
            match command {
                0x01 => return Ok(()),
                0x02 => {
                    self.name_database(&String::from_utf8_lossy(body));
                    self.ok(&Outcome::default(), 0)?;
                }
                0x03 => {
                    if self.query(&String::from_utf8_lossy(body))? {
                        return self.writer.flush();
                    }
                }
                // COM_FIELD_LIST, COM_SET_OPTION
                0x04 => self.eof(0)?,
                0x1b => {
                    self.multiple = body.first() == Some(&0);
                    self.eof(0)?;
                }
                0x0c => match Packet::new(body).u32().map(|number| self.session.kill_connection(number)) {
                    Ok(Ok(outcome)) => self.ok(&outcome, 0)?,
                    Ok(Err(error)) => self.error(&error)?,
                    Err(_) => self.error(&SqlError::new(Code::Protocol, "Malformed packet"))?,
                },
                0x09 => self.write(b"Uptime: 1  Threads: 1")?,
                0x0e => self.ok(&Outcome::default(), 0)?,
                // COM_CHANGE_USER, COM_RESET_CONNECTION
                0x11 | 0x1f => {
                    self.session.reset();
                    self.statements.clear();
                    self.ok(&Outcome::default(), 0)?;
                }
                0x16 => self.prepare(&String::from_utf8_lossy(body))?,
                0x17 => self.execute(body)?,
                0x18 => self.long_data(body),
                0x19 => {
                    if let Ok(number) = Packet::new(body).u32() {
                        self.statements.remove(&number);
                    }
                }
                0x1a => {
                    if let Some(statement) =
                        Packet::new(body).u32().ok().and_then(|n| self.statements.get_mut(&n))
                    {
                        statement.forget_pieces();
                    }
                    self.ok(&Outcome::default(), 0)?;
                }
                other => {
                    let text = format!("unknown command {other}");
                    self.error(&SqlError::new(Code::Protocol, text))?;
                }
            }
            self.writer.flush()?;
            unless_killed(&self.session)?;
        }
        Ok(())
    }

    /// COM_QUERY; true if the client asked to be disconnected.
    fn query(&mut self, text: &str) -> io::Result<bool> {
        let pieces = Lexed::script(Dialect::MySql, text);
        if pieces.len() > 1 && !self.multiple {
            let error =
                SqlError::new(Code::Syntax, "multiple statements are not enabled for this connection");
            return self.error(&error).map(|()| false);
        }
        if pieces.is_empty() {
            return self.error(&SqlError::new(Code::EmptyQuery, "Query was empty")).map(|()| false);
        }
        let last = pieces.len() - 1;
        for (at, piece) in pieces.iter().enumerate() {
            let more = if at < last { MORE_RESULTS } else { 0 };
            match self.session.execute_lexed(piece) {
                Ok(outcome) => {
                    self.text_result(&outcome, more)?;
                    if outcome.closes {
                        return Ok(true);
                    }
                }
                Err(error) => return self.error(&error).map(|()| false),
            }
        }
        Ok(false)
    }

    fn columns(&mut self, columns: &[Column]) -> io::Result<()> {
        for column in columns {
            self.write(&column.definition())?;
        }
        Ok(())
    }

    fn text_result(&mut self, outcome: &Outcome, more: u16) -> io::Result<()> {
        let Some(columns) = &outcome.columns else { return self.ok(outcome, more) };
        let columns = codec::columns(columns, &outcome.rows);
        let mut head = Vec::new();
        codec::put_length(&mut head, columns.len() as u64);
        self.write(&head)?;
        self.columns(&columns)?;
        self.eof(more)?;
        for row in &outcome.rows {
            self.write(&text_row(&columns, row))?;
        }
        self.eof(more)
    }

    fn prepare(&mut self, text: &str) -> io::Result<()> {
        let prepared = match self.session.plan(text) {
            Ok(prepared) => prepared,
            Err(error) => return self.error(&error),
        };
        let mut charge = self.session.charge();
        if self.statements.len() >= STATEMENTS {
            let text = format!("Can't create more than {STATEMENTS} prepared statements");
            return self.error(&SqlError::new(Code::TooMuch, text));
        }
        if let Err(exceeded) = charge.add(text.len()) {
            return self.error(&exceeded.into());
        }
        self.next = self.next.wrapping_add(1);
        let parameters = prepared.parameters.len();
        let columns = codec::columns(&prepared.columns, &[]);
        let mut body = vec![0];
        body.extend(self.next.to_le_bytes());
        body.extend((columns.len() as u16).to_le_bytes());
        body.extend((parameters as u16).to_le_bytes());
        body.extend([0, 0, 0]);
        self.write(&body)?;
        if parameters > 0 {
            let unnamed = vec![Column::new("?", Type::Text); parameters];
            self.columns(&unnamed)?;
            self.eof(0)?;
        }
        if !columns.is_empty() {
            self.columns(&columns)?;
            self.eof(0)?;
        }
        let statement = Statement {
            text: text.to_owned(),
            parameters,
            kinds: Vec::new(),
            long: BTreeMap::new(),
            refused: None,
            pieces: self.session.charge(),
            _charge: charge,
        };
        self.statements.insert(self.next, statement);
        Ok(())
    }

    fn execute(&mut self, body: &[u8]) -> io::Result<()> {
        let mut packet = Packet::new(body);
        let number = packet.u32()?;
        packet.take(5)?;
        let Some(statement) = self.statements.get_mut(&number) else {
            let text = format!("Unknown prepared statement handler ({number}) given to execute");
            return self.error(&SqlError::new(Code::UndefinedStatement, text));
        };
        if let Some(error) = statement.refused.take() {
            statement.forget_pieces();
            return self.error(&error);
        }
        let params = match parameters(statement, &mut packet) {
            Ok(params) => params,
            Err(error) => {
                let error = SqlError::new(Code::Protocol, error.to_string());
                return self.error(&error);
            }
        };
        let text = statement.text.clone();
        match self.session.execute(&text, &params) {
            Err(error) => self.error(&error),
            Ok(outcome) => {
                let Some(columns) = &outcome.columns else { return self.ok(&outcome, 0) };
                let columns = codec::columns(columns, &outcome.rows);
                let mut head = Vec::new();
                codec::put_length(&mut head, columns.len() as u64);
                self.write(&head)?;
                self.columns(&columns)?;
                self.eof(0)?;
                for row in &outcome.rows {
                    self.write(&codec::binary_row(&columns, row))?;
                }
                self.eof(0)
            }
        }
    }

    fn long_data(&mut self, body: &[u8]) {
        let mut packet = Packet::new(body);
        if let (Ok(number), Ok(parameter)) = (packet.u32(), packet.u16())
            && let Some(statement) = self.statements.get_mut(&number)
            && statement.refused.is_none()
        {
            let (parameter, piece) = (usize::from(parameter), packet.rest());
            let before = statement.long.get(&parameter).map_or(0, Vec::len);
            if before + piece.len() > LONGEST || parameter >= statement.parameters {
                let text = "Parameter of prepared statement which is set through mysql_send_long_data() is \
                            longer than 'max_allowed_packet' bytes";
                statement.refused = Some(SqlError::new(Code::PacketTooLarge, text));
            } else if let Err(exceeded) = statement.pieces.add(piece.len()) {
                statement.refused = Some(exceeded.into());
            } else {
                statement.long.entry(parameter).or_default().extend(piece);
            }
        }
    }
}

impl Statement {
    fn forget_pieces(&mut self) {
        self.long.clear();
        self.refused = None;
        self.pieces.clear();
    }
}

fn parameters(statement: &mut Statement, packet: &mut Packet<'_>) -> io::Result<Vec<Value>> {
    let count = statement.parameters;
    let long = std::mem::take(&mut statement.long);
    statement.forget_pieces();
    if count == 0 {
        return Ok(Vec::new());
    }
    let nulls = packet.take(count.div_ceil(8))?.to_vec();
    if packet.u8()? == 1 {
        statement.kinds =
            (0..count).map(|_| Ok((packet.u8()?, packet.u8()? & 0x80 != 0))).collect::<io::Result<_>>()?;
    }
    if statement.kinds.len() != count {
        return Err(broken("the types of the parameters are unknown"));
    }
    let mut params = Vec::with_capacity(count);
    for (at, &(kind, unsigned)) in statement.kinds.iter().enumerate() {
        params.push(if nulls[at / 8] & (1 << (at % 8)) != 0 {
            Value::Null
        } else if let Some(bytes) = long.get(&at) {
            codec::text_or_bytes(bytes, kind)
        } else {
            codec::decode(packet, kind, unsigned)?
        });
    }
    Ok(params)
}
