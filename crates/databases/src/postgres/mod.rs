//! PostgreSQL.
//!
//! A statement with parameters is one round trip from the first time on: Parse, Bind, Describe, Execute and
//! Sync go out together, because parameters are sent as text and the server works out their types. What the
//! server says about the transaction after each answer is what [`Connection::in_transaction`] reports.

mod stream;
mod values;
mod wire;

use crate::{Cancel, Connection, Error, Family, Fate, Isolation, Kind, Product, Query, Reply, Target, Value};
use fallible_iterator::FallibleIterator;
use postgres_protocol::Oid;
use postgres_protocol::message::backend::{DataRowBody, Message, RowDescriptionBody};
use postgres_protocol::message::frontend;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
pub use stream::{LogStream, Logged};
use wire::{Greeting, Wire, lost, reported};

/// Statements that a session keeps prepared; beyond that all are given up and prepared again.
const PREPARED: usize = 512;

struct Postgres {
    wire: Wire,
    target: Target,
    product: Product,
    greeting: Greeting,
    prepared: HashMap<String, Prepared>,
    /// Numbers for names of prepared statements.
    named: u64,
    /// What the session was last prepared for.
    setup: String,
    open: bool,
    lost: bool,
}

#[derive(Clone)]
struct Prepared {
    name: String,
    /// `None` if it was prepared but failed before it was described.
    columns: Option<Columns>,
}

#[derive(Clone, Default)]
struct Columns {
    names: Arc<[String]>,
    types: Arc<[Oid]>,
}

pub(crate) fn open(target: &Target) -> Result<impl Connection + use<>, Error> {
    let (wire, greeting) = wire::start(target)?;
    let (name, version) = match &greeting.cockroach {
        Some(version) => ("CockroachDB", version),
        None if greeting.version.contains("-YB-") => ("YugabyteDB", &greeting.version),
        None => ("PostgreSQL", &greeting.version),
    };
    let product = Product::new(Family::Postgres, name, version.as_str());
    Ok(Postgres {
        wire,
        target: target.clone(),
        product,
        greeting,
        prepared: HashMap::new(),
        named: 0,
        setup: String::new(),
        open: false,
        lost: false,
    })
}

/// What an exchange of messages, up to ReadyForQuery, brought.
#[derive(Default)]
struct Answers {
    replies: Vec<Reply>,
    /// The columns of each reply.
    columns: Vec<Columns>,
    /// How many statements the server prepared.
    parsed: usize,
    tag: String,
    /// Why the statement after these replies failed.
    failed: Option<Error>,
}

impl Postgres {
    /// Sends what is in the buffer and collects the answers to it. `known` are the columns of statements
    /// that are not described again, in order.
    fn exchange(&mut self, known: &[Option<Columns>]) -> Answers {
        let mut answers = Answers::default();
        if self.lost {
            answers.failed = Some(Error::new(Kind::Lost, "the connection was lost before"));
            return answers;
        }
        let mut columns = known.first().cloned().flatten().unwrap_or_default();
        let mut rows = Vec::new();
        // A server that ended the session has often said why, even if it takes nothing more.
        let sent = self.wire.send();
        let mut next = match (self.wire.receive(), sent) {
            (Ok(message), Ok(())) => Ok(message),
            (Ok(message @ Message::ErrorResponse(_)), Err(_)) => Ok(message),
            (_, Err(error)) | (Err(error), _) => Err(error),
        };
        loop {
            let message = match next {
                Ok(message) => message,
                Err(error) => {
                    self.lost = true;
                    answers.failed.get_or_insert(error);
                    return answers;
                }
            };
            match message {
                Message::ParseComplete => answers.parsed += 1,
                Message::RowDescription(body) => match described(&body) {
                    Ok(found) => columns = found,
                    Err(error) => answers.failed = Some(lost(error)),
                },
                Message::NoData => columns = Columns::default(),
                Message::DataRow(body) => match row(&body, &columns.types) {
                    Ok(values) => rows.push(values),
                    Err(error) => answers.failed = Some(lost(error)),
                },
                Message::CommandComplete(body) => {
                    body.tag().unwrap_or_default().clone_into(&mut answers.tag);
                    let affected = affected(&answers.tag);
                    let names = columns.names.clone();
                    answers.replies.push(Reply { columns: names, rows: std::mem::take(&mut rows), affected });
                    answers.columns.push(std::mem::take(&mut columns));
                    columns = known.get(answers.replies.len()).cloned().flatten().unwrap_or_default();
                }
                Message::EmptyQueryResponse => {
                    answers.replies.push(Reply::default());
                    answers.columns.push(Columns::default());
                    columns = known.get(answers.replies.len()).cloned().flatten().unwrap_or_default();
                }
                Message::ErrorResponse(body) => {
                    let (error, ends) = reported(body.fields());
                    answers.failed = Some(error);
                    if ends {
                        self.lost = true;
                        break;
                    }
                }
                Message::CopyInResponse(_) => {
                    let put =
                        frontend::copy_fail("anomalist sends no files", &mut self.wire.out).map_err(lost);
                    next = put.and_then(|()| self.wire.send()).and_then(|()| self.wire.receive());
                    continue;
                }
                Message::ReadyForQuery(body) => {
                    self.open = body.status() != b'I';
                    break;
                }
                _ => {}
            }
            next = self.wire.receive();
        }
        answers
    }

    fn simple(&mut self, sql: &str) -> Result<Answers, (Error, usize)> {
        self.wire.out.clear();
        let put = frontend::query(sql, &mut self.wire.out);
        put.map_err(|_| (Error::new(Kind::Unsupported, "a statement contains a NUL"), 0))?;
        let mut answers = self.exchange(&[]);
        match answers.failed.take() {
            Some(error) => Err((error, answers.replies.len())),
            None => Ok(answers),
        }
    }

    fn pipeline(&mut self, queries: &[Query<'_>]) -> Result<Vec<Reply>, (Error, usize)> {
        self.wire.out.clear();
        self.make_room();
        let mut known = Vec::with_capacity(queries.len());
        let mut new: Vec<(&str, String)> = Vec::new();
        for (at, query) in queries.iter().enumerate() {
            self.put(query, &mut new, &mut known).map_err(|e| (e, at))?;
        }
        frontend::sync(&mut self.wire.out);
        let Answers { replies, columns, parsed, failed, .. } = self.exchange(&known);
        // What was prepared stays prepared, even if a later statement failed.
        for (sql, name) in new.into_iter().take(parsed) {
            let place = queries.iter().position(|q| q.sql == sql);
            let columns = place.and_then(|at| columns.get(at)).cloned();
            self.prepared.insert(sql.to_owned(), Prepared { name, columns });
        }
        let Some(error) = failed else { return Ok(replies) };
        let at = replies.len();
        // A changed table makes the columns of a prepared statement untrue; it has to be prepared again.
        if matches!(error.code(), Some("0A000" | "26000"))
            && let Some(stale) = queries.get(at).and_then(|q| self.prepared.remove(q.sql))
            && !self.lost
        {
            let _ = frontend::close(b'S', &stale.name, &mut self.wire.out);
            frontend::sync(&mut self.wire.out);
            self.exchange(&[]);
        }
        Err((error, at))
    }

    /// Puts the messages of one statement into the buffer.
    fn put<'q>(
        &mut self,
        query: &Query<'q>,
        new: &mut Vec<(&'q str, String)>,
        known: &mut Vec<Option<Columns>>,
    ) -> Result<(), Error> {
        let unfit = |_| Error::new(Kind::Unsupported, "a statement contains a NUL, or too many parameters");
        let fresh;
        let (name, describe) = if let Some(prepared) = self.prepared.get(query.sql) {
            known.push(prepared.columns.clone());
            (prepared.name.as_str(), prepared.columns.is_none())
        } else if let Some((_, name)) = new.iter().find(|(sql, _)| *sql == query.sql) {
            // Prepared earlier in this very pipeline.
            fresh = name.clone();
            known.push(None);
            (fresh.as_str(), true)
        } else {
            self.named += 1;
            fresh = format!("anomalist{}", self.named);
            frontend::parse(&fresh, query.sql, [], &mut self.wire.out).map_err(unfit)?;
            new.push((query.sql, fresh.clone()));
            known.push(None);
            (fresh.as_str(), true)
        };
        let values = query.parameters.iter();
        let encode = |value, out: &mut _| values::encode(value, out).map_err(Into::into);
        frontend::bind("", name, [], values, encode, [], &mut self.wire.out)
            .map_err(|_| Error::new(Kind::Unsupported, "too many parameters"))?;
        if describe {
            frontend::describe(b'P', "", &mut self.wire.out).map_err(unfit)?;
        }
        frontend::execute("", 0, &mut self.wire.out).map_err(unfit)
    }

    /// Gives up all prepared statements if there are too many, with the next exchange.
    fn make_room(&mut self) {
        if self.prepared.len() >= PREPARED {
            for (_, prepared) in self.prepared.drain() {
                // The name is our own and has no NUL.
                let _ = frontend::close(b'S', &prepared.name, &mut self.wire.out);
            }
        }
    }

    fn failed(&self, was_open: bool, (error, at): (Error, usize)) -> Error {
        error.at_statement(was_open, self.open, self.lost).with_place(at)
    }
}

impl Connection for Postgres {
    fn product(&self) -> &Product {
        &self.product
    }

    fn run(&mut self, sql: &str) -> Result<Vec<Reply>, Error> {
        let was_open = self.open;
        let answers = self.simple(sql);
        answers.map(|a| a.replies).map_err(|e| self.failed(was_open, e))
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Reply, Error> {
        let replies = self.batch(&[Query { sql, parameters }])?;
        Ok(replies.into_iter().next().unwrap_or_default())
    }

    fn batch(&mut self, queries: &[Query<'_>]) -> Result<Vec<Reply>, Error> {
        let was_open = self.open;
        self.pipeline(queries).map_err(|e| self.failed(was_open, e))
    }

    fn begin(&mut self, isolation: &Isolation) -> Result<(), Error> {
        let nothing_done = |e: Error| e.with_fate(Fate::Aborted);
        if self.setup != isolation.setup() {
            self.run(isolation.setup()).map_err(nothing_done)?;
            isolation.setup().clone_into(&mut self.setup);
        }
        self.run(isolation.begin()).map(drop).map_err(nothing_done)
    }

    fn commit(&mut self) -> Result<(), Error> {
        if self.lost || !self.open {
            let kind = if self.lost { Kind::Lost } else { Kind::Other };
            return Err(Error::new(kind, "no transaction is open").with_fate(Fate::Aborted));
        }
        match self.simple("COMMIT") {
            Ok(answers) if answers.tag == "COMMIT" => Ok(()),
            // Not an error for PostgreSQL: the transaction had failed before.
            Ok(answers) => {
                let message = format!("COMMIT was answered by {}: the transaction had failed", answers.tag);
                Err(Error::new(Kind::Other, message).with_fate(Fate::Aborted))
            }
            Err((error, _)) => {
                if !self.lost && self.open {
                    let _ = self.simple("ROLLBACK");
                }
                Err(error.at_commit())
            }
        }
    }

    fn rollback(&mut self) -> Result<(), Error> {
        if self.lost || !self.open {
            return Ok(());
        }
        self.run("ROLLBACK").map(drop)
    }

    fn in_transaction(&self) -> bool {
        self.open && !self.lost
    }

    fn is_lost(&self) -> bool {
        self.lost
    }

    fn backend(&self) -> Option<u64> {
        u64::try_from(self.greeting.process).ok()
    }

    fn canceller(&self) -> Arc<dyn Cancel> {
        let Greeting { process, secret, .. } = self.greeting;
        Arc::new(Request { target: self.target.clone(), process, secret })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if !self.lost {
            self.wire.close();
        }
    }
}

/// Cancels by the protocol's own request, which takes a connection of its own.
struct Request {
    target: Target,
    process: i32,
    secret: i32,
}

impl Cancel for Request {
    fn cancel(&self) -> Result<(), Error> {
        let mut stream = wire::dial(&self.target)?;
        let mut request = bytes::BytesMut::new();
        frontend::cancel_request(self.process, self.secret, &mut request);
        stream.write_all(&request).map_err(lost)
    }
}

fn described(body: &RowDescriptionBody) -> std::io::Result<Columns> {
    let (mut names, mut types) = (Vec::new(), Vec::new());
    let mut fields = body.fields();
    while let Some(field) = fields.next()? {
        names.push(field.name().to_owned());
        types.push(field.type_oid());
    }
    Ok(Columns { names: names.into(), types: types.into() })
}

fn row(body: &DataRowBody, types: &[Oid]) -> std::io::Result<Vec<Value>> {
    let mut values = Vec::with_capacity(types.len());
    let mut ranges = body.ranges();
    while let Some(range) = ranges.next()? {
        let oid = types.get(values.len()).copied().unwrap_or_default();
        let bytes = range.and_then(|r| body.buffer().get(r));
        values.push(bytes.map_or(Value::Null, |b| values::decode(oid, b)));
    }
    Ok(values)
}

/// The number at the end of a tag, unless it counts rows that were only read.
fn affected(tag: &str) -> u64 {
    match tag.rsplit_once(' ') {
        Some(("SELECT" | "FETCH", _)) | None => 0,
        Some((_, count)) => count.parse().unwrap_or(0),
    }
}
