//! HTTP with JSON: keys and values, and SQL, for clients in any language without a driver.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /` | | level, seed, number of sessions |
//! | `POST /session` | `{"dialect": "mysql"}`, optional | `{"session": 1}` |
//! | `DELETE /session/1` | | rolls back what is open |
//! | `POST /sql` | `{"session": 1, "sql": "…", "params": […]}` | the result |
//! | `POST /kv` | `{"session": 1, "operations": [["read", "x"]]}` | `{"results": [null]}` |
//!
//! The result of SQL is `{"columns": […], "rows": [[…]], "tag": "…", "count": n}`.
//! Without a session, a request is a session and its operations are one transaction. With one, `["begin"]`,
//! `["commit"]` and `["rollback"]` are operations too, and a list without them inside no transaction is one
//! of its own. Operations are `read`, `write`, `delete`, `cas` (key, expected, new) and `scan` (prefix).
//! Errors have status 400, or 409 if the transaction may be tried again, and
//! `{"error": "…", "code": "40001"}`.
//!
//! A session has no connection whose end would tell that its client is gone. One that leaves a transaction
//! open and asks for nothing for [`Options::idle`](anomalist_weakdb::Options::idle) is ended
//! ([`Sessions::end_idle`]), one without a transaction after [`Limits::idle`](crate::Limits); later
//! requests get an error that says so. `DELETE` ends a statement of the session that runs.

use super::{Inner, STACK};
use crate::bounds::Stop;
use crate::{Code, Database, Session, SqlError, Status};
use anomalist_http::{
    IntoResponse, Limits, Request, Response, Router, Server, Settings, StatusCode, blocking, header,
};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::{self as store, Value};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Sessions that outlive a request.
#[derive(Default)]
pub struct Sessions {
    inner: Mutex<Numbered>,
}

#[derive(Default)]
struct Numbered {
    /// How many there have been, those of a single request included.
    count: u64,
    open: BTreeMap<u64, Arc<Open>>,
    /// Those that were ended because their client asked for nothing for too long.
    idle: BTreeSet<u64>,
}

/// A client that may come again.
struct Open {
    client: Mutex<Client>,
    /// Ends the statement of its SQL session, once it has one.
    stop: OnceLock<Arc<Stop>>,
}

impl Open {
    fn new(client: Client) -> Arc<Open> {
        Arc::new(Open { client: Mutex::new(client), stop: OnceLock::new() })
    }
}

/// How many sessions are remembered as ended.
const ENDED: usize = 10_000;

/// A client's two sessions, each opened when it is first asked for something.
struct Client {
    number: u64,
    dialect: Dialect,
    sql: Option<Session>,
    keys: Option<store::Session>,
    used: Instant,
}

impl Client {
    fn new(dialect: Dialect, number: u64) -> Self {
        Self { number, dialect, sql: None, keys: None, used: Instant::now() }
    }

    fn in_transaction(&self) -> bool {
        self.keys.as_ref().is_some_and(store::Session::in_transaction)
            || self.sql.as_ref().is_some_and(|sql| sql.status() != Status::Idle)
    }

    fn sql(&mut self, database: &Database, stop: &OnceLock<Arc<Stop>>, body: &Json) -> Result<Json, Refused> {
        let session = match self.sql.take() {
            Some(session) => session,
            None => database.session(self.dialect, &format!("http-{}", self.number))?,
        };
        stop.get_or_init(|| session.stop());
        sql(self.sql.insert(session), body)
    }

    fn keys(&mut self, database: &Database, body: &Json) -> Result<Json, Refused> {
        let number = self.number;
        let session = self.keys.get_or_insert_with(|| database.store().session(&format!("http-kv-{number}")));
        keys(session, body)
    }
}

impl Sessions {
    fn lock(&self) -> std::sync::MutexGuard<'_, Numbered> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends them all.
    pub fn clear(&self) {
        self.lock().open.clear();
    }

    /// Ends those that have asked for nothing for so long: with a transaction open, and without.
    pub fn end_idle(&self, open: Duration, idle: Duration) {
        let mut all = self.lock();
        let idle = |session: &Open| {
            // One that is locked is being served.
            session.client.try_lock().is_ok_and(|client| {
                let limit = if client.in_transaction() { open } else { idle };
                client.used.elapsed() >= limit
            })
        };
        let ended: Vec<u64> = all.open.iter().filter(|(_, c)| idle(c)).map(|(&number, _)| number).collect();
        for number in ended {
            all.open.remove(&number);
            all.idle.insert(number);
            if all.idle.len() > ENDED {
                all.idle.pop_first();
            }
        }
    }

    fn find(&self, number: u64, limit: Duration) -> Result<Arc<Open>, Refused> {
        let all = self.lock();
        match all.open.get(&number) {
            Some(client) => Ok(client.clone()),
            None if all.idle.contains(&number) => Err(Refused {
                status: StatusCode::BAD_REQUEST,
                code: "25P03".into(),
                message: format!(
                    "session {number} has ended: it was idle for too long (in a transaction, which was \
                     rolled back, for {limit:?})"
                ),
            }),
            None => Err(no_session(number)),
        }
    }
}

/// An answer that is an error.
struct Refused {
    status: StatusCode,
    code: String,
    message: String,
}

impl From<SqlError> for Refused {
    fn from(error: SqlError) -> Self {
        let status =
            if error.code == Code::Serialization { StatusCode::CONFLICT } else { StatusCode::BAD_REQUEST };
        Self { status, code: error.code.sqlstate().to_owned(), message: error.message }
    }
}

impl From<store::Error> for Refused {
    fn from(error: store::Error) -> Self {
        SqlError::from(error).into()
    }
}

fn bad(message: impl Into<String>) -> Refused {
    Refused { status: StatusCode::BAD_REQUEST, code: "22023".into(), message: message.into() }
}

/// Connections at one time.
const CONNECTIONS: usize = 1024;
/// How long a connection may be idle: a pool of a client keeps some for later.
const IDLE: Duration = Duration::from_secs(300);

/// Serves the requests of all clients.
pub(super) fn start(listener: TcpListener, inner: Arc<Inner>, hosts: &[String]) -> io::Result<Server> {
    let settings = Settings {
        limits: Limits::default().with_connections(CONNECTIONS).with_pause(IDLE),
        refuse: |status, why| answer(status, &json!({"error": why, "code": status.as_str()})),
        hosts: hosts.into(),
        types: &["application/json"],
        stack: STACK,
        ..Settings::default()
    };
    let respond = move |asked: Request| {
        let (method, path) = (asked.method().as_str(), asked.uri().path());
        match request(&inner.database, &inner.http, method, path, asked.body()) {
            Ok(body) => answer(StatusCode::OK, &body),
            Err(refused) => answer(refused.status, &json!({"error": refused.message, "code": refused.code})),
        }
    };
    Server::start(listener, Router::new().fallback(blocking(respond)), settings)
}

/// Answers requests without a network: a line `METHOD PATH BODY` each.
pub(super) fn replay(database: &Database, bytes: &[u8]) -> Vec<u8> {
    let sessions = Sessions::default();
    let mut answers = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        let mut parts = line.splitn(3, |&byte| byte == b' ');
        let mut part = || parts.next().unwrap_or_default();
        let (method, path, body) = (String::from_utf8_lossy(part()), String::from_utf8_lossy(part()), part());
        let answered = match request(database, &sessions, &method, &path, body) {
            Ok(answer) => answer.to_string(),
            Err(refused) => format!("{} {} {}", refused.status, refused.code, refused.message),
        };
        answers.extend(answered.into_bytes());
        answers.push(b'\n');
    }
    answers
}

fn answer(status: StatusCode, body: &Json) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn request(
    database: &Database,
    sessions: &Sessions,
    method: &str,
    path: &str,
    body: &[u8],
) -> Result<Json, Refused> {
    let parsed = || -> Result<Json, Refused> {
        if body.is_empty() {
            return Ok(json!({}));
        }
        serde_json::from_slice(body).map_err(|e| bad(format!("the body is not JSON: {e}")))
    };
    match (method, path) {
        ("GET", "/") => {
            let options = database.store().options();
            Ok(
                json!({"weakdb": env!("CARGO_PKG_VERSION"), "level": options.level.name(), "seed": options.seed,
                      "sessions": sessions.lock().open.len()}),
            )
        }
        ("POST", "/session") => {
            let number = open(database, sessions, dialect(&parsed()?)?)?;
            Ok(json!({"session": number}))
        }
        ("DELETE", path) if path.starts_with("/session/") => {
            let number = path["/session/".len()..].parse().unwrap_or(0);
            match sessions.lock().open.remove(&number) {
                Some(session) => {
                    if let Some(stop) = session.stop.get() {
                        stop.cancel();
                    }
                    Ok(json!({"closed": number}))
                }
                None => Err(no_session(number)),
            }
        }
        ("POST", "/sql" | "/kv") => {
            let body = parsed()?;
            let number = match body.get("session") {
                None | Some(Json::Null) => None,
                Some(given) => Some(given.as_u64().ok_or_else(|| {
                    bad(format!("\"session\" is a number that POST /session gave, not {given}"))
                })?),
            };
            let session = match number {
                Some(number) => sessions.find(number, database.store().options().idle)?,
                None => {
                    let mut all = sessions.lock();
                    all.count += 1;
                    Open::new(Client::new(dialect(&body)?, all.count))
                }
            };
            let mut client = session.client.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = match path {
                "/sql" => client.sql(database, &session.stop, &body),
                _ => client.keys(database, &body),
            };
            client.used = Instant::now();
            if answer.is_ok() && number.is_none() && client.in_transaction() {
                return Err(bad(
                    "without a session the transaction ends with the request, and this one was not committed: it is rolled back",
                ));
            }
            answer
        }
        _ => Err(Refused {
            status: StatusCode::NOT_FOUND,
            code: "404".into(),
            message: format!("there is no {method} {path}"),
        }),
    }
}

/// A session that outlives the request; its number.
fn open(database: &Database, sessions: &Sessions, dialect: Dialect) -> Result<u64, Refused> {
    let mut all = sessions.lock();
    let most = database.limits().connections;
    if all.open.len() >= most {
        return Err(Refused {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: Code::TooManyConnections.sqlstate().to_owned(),
            message: format!("there are {most} sessions already"),
        });
    }
    all.count += 1;
    let number = all.count;
    all.open.insert(number, Open::new(Client::new(dialect, number)));
    Ok(number)
}

fn no_session(number: u64) -> Refused {
    Refused {
        status: StatusCode::NOT_FOUND,
        code: "404".into(),
        message: format!("there is no session {number}"),
    }
}

fn dialect(body: &Json) -> Result<Dialect, Refused> {
    match body.get("dialect").and_then(Json::as_str) {
        None | Some("postgres" | "postgresql") => Ok(Dialect::PostgreSql),
        Some("mysql" | "mariadb") => Ok(Dialect::MySql),
        Some(other) => Err(bad(format!("dialects are postgres and mysql, not {other}"))),
    }
}

fn sql(session: &mut Session, body: &Json) -> Result<Json, Refused> {
    let text = body.get("sql").and_then(Json::as_str).ok_or_else(|| bad("\"sql\" is missing"))?;
    let params: Vec<Value> =
        body.get("params").and_then(Json::as_array).into_iter().flatten().map(value).collect();
    let outcome = session.execute(text, &params)?;
    let columns: Vec<&str> = outcome.columns.iter().flatten().map(|c| c.name.as_str()).collect();
    let rows: Vec<Vec<Json>> = outcome.rows.iter().map(|row| row.iter().map(to_json).collect()).collect();
    Ok(json!({"columns": columns, "rows": rows, "tag": outcome.tag, "count": outcome.count}))
}

fn keys(session: &mut store::Session, body: &Json) -> Result<Json, Refused> {
    let operations =
        body.get("operations").and_then(Json::as_array).ok_or_else(|| bad("\"operations\" is missing"))?;
    let is = |operation: &Json, name: &str| operation.get(0).and_then(Json::as_str) == Some(name);
    let steered = operations.iter().any(|o| is(o, "begin"));
    let alone = !session.in_transaction() && !steered;
    if alone {
        session.begin()?;
    }
    let mut results = Vec::with_capacity(operations.len());
    for operation in operations {
        match apply(session, operation) {
            Ok(result) => results.push(result),
            Err(refused) => {
                if alone && session.in_transaction() {
                    session.rollback()?;
                }
                return Err(refused);
            }
        }
    }
    if alone && session.in_transaction() {
        session.commit()?;
    }
    Ok(json!({"results": results}))
}

fn apply(session: &mut store::Session, operation: &Json) -> Result<Json, Refused> {
    let name = operation
        .get(0)
        .and_then(Json::as_str)
        .ok_or_else(|| bad("an operation is a list that begins with its name"))?;
    let key = || operation.get(1).and_then(Json::as_str).ok_or_else(|| bad(format!("{name} needs a key")));
    let given =
        |at: usize| operation.get(at).map(value).ok_or_else(|| bad(format!("{name} needs more values")));
    Ok(match name {
        "begin" => session.begin().map(|()| json!(true))?,
        "commit" => session.commit().map(|()| json!(true))?,
        "rollback" => session.rollback().map(|()| json!(true))?,
        "read" => session.read(key()?)?.as_ref().map_or(Json::Null, to_json),
        "write" => session.write(key()?, given(2)?).map(|()| json!(true))?,
        "delete" => session.delete(key()?).map(|()| json!(true))?,
        "cas" => {
            let expected = given(2)?;
            let expected = (expected != Value::Null).then_some(expected);
            json!(session.compare_and_set(key()?, expected.as_ref(), given(3)?)?)
        }
        "scan" => {
            let found = session.scan(key()?)?;
            Json::Object(found.iter().map(|(k, v)| (k.to_string(), to_json(v))).collect())
        }
        other => {
            return Err(bad(format!(
                "operations are begin, commit, rollback, read, write, delete, cas and scan, not {other}"
            )));
        }
    })
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => n.as_i64().map_or_else(|| Value::Real(n.as_f64().unwrap_or(0.0)), Value::Int),
        Json::String(s) => Value::from(s.as_str()),
        Json::Array(items) => Value::from(items.iter().map(value).collect::<Vec<_>>()),
        Json::Object(_) => Value::from(json.to_string()),
    }
}

fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        Value::Real(r) => json!(r),
        Value::Text(t) => json!(&**t),
        Value::Bytes(b) => json!(b.iter().map(|b| format!("{b:02x}")).collect::<String>()),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect()),
    }
}
