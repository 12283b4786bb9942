//! What a user of the proxy sees of a session, and what it can do.

use crate::flow::Status;
use crate::message::ServerError;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// How much of a session an observer sees. Less costs less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interest {
    /// Nothing: bytes pass.
    #[default]
    Nothing,
    /// Requests and answers as they pass, in the order of each direction. Pipelines stay pipelines.
    Passing {
        /// Also the rows of results.
        rows: bool,
    },
    /// Requests one at a time: each runs, is answered and is [finished](Observer::finished) before the next
    /// one is shown, and the observer can [run](Run) statements of its own between them.
    InStep {
        /// Also the rows of results.
        rows: bool,
    },
}

impl Interest {
    pub(crate) fn rows(self) -> bool {
        matches!(self, Self::Passing { rows: true } | Self::InStep { rows: true })
    }

    pub(crate) fn in_step(self) -> bool {
        matches!(self, Self::InStep { .. })
    }
}

/// What a client asks of the server. Texts in other encodings than UTF-8 are shown with replaced
/// characters; what the server gets is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A simple query: one statement or several.
    Query {
        /// As the client wrote it.
        text: Arc<str>,
    },
    /// A statement to be prepared.
    Parse {
        /// Its name; empty for the unnamed one.
        name: String,
        /// As the client wrote it.
        text: Arc<str>,
        /// The types of its parameters by their numbers in the catalogue, as far as the client names them;
        /// 0 leaves a type to the server.
        types: Vec<u32>,
    },
    /// A prepared statement gets its parameters. The server plans it now, and the snapshot of a query is
    /// taken now.
    Bind {
        /// Its name; empty for the unnamed one.
        portal: String,
        /// The statement, unless it was prepared by SQL.
        text: Option<Arc<str>>,
        /// 0 for text, 1 for binary: one for all, or for each.
        formats: Vec<i16>,
        /// `None` is NULL.
        values: Vec<Option<Vec<u8>>>,
    },
    /// A bound statement runs, or gives more of its rows.
    Execute {
        /// Its name; empty for the unnamed one.
        portal: String,
        /// The statement, unless it is a cursor of SQL.
        text: Option<Arc<str>>,
    },
    /// The end of an extended query: outside of a transaction block it commits.
    Sync,
    /// A function call by its number: an old message that few clients send.
    Call,
}

impl Request {
    /// Whether statements that run beside it are simple queries; else they are part of its pipeline.
    pub(crate) fn is_simple(&self) -> bool {
        matches!(self, Self::Query { .. } | Self::Call)
    }

    /// Whether the proxy waits for its answer, in step.
    pub(crate) fn is_awaited(&self) -> bool {
        !matches!(self, Self::Parse { .. } | Self::Bind { .. })
    }
}

/// The name of the column that a widened statement has more.
pub const EXTRA: &str = "anomalist extra";

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The server gets it.
    Pass,
    /// The server gets this text instead. For requests that have no text: as [`Verdict::Pass`].
    Replace(String),
    /// The server gets the statement with an addition that gives its rows one more column, at the end, of
    /// type text and called [`EXTRA`]. The client does not see that column, and places in error messages
    /// are places in its own text. For Query, with one statement, and Parse; others as [`Verdict::Pass`].
    Widen {
        /// Where the addition goes, in bytes.
        at: usize,
        /// The addition.
        addition: String,
    },
    /// The server runs this query first, in the same transaction and without a further round trip. The
    /// client does not see its rows; the observer gets them as [`Answer::Own`]. It must not fail: it does
    /// where the transaction has failed. For Query, Execute and Sync; others as [`Verdict::Pass`].
    Precede(String),
    /// The server does not get it, and the client gets this error. The transaction's state on the server
    /// does not change by this: the observer rolls back if it has to. A Sync cannot be refused, it passes;
    /// a statement that fails, run before it, has that effect.
    Refuse(ServerError),
}

/// What a request led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The command tags of statements that completed.
    pub tags: Vec<String>,
    /// The error that ended it.
    pub error: Option<ServerError>,
    /// The state of the transaction; for requests of an extended query, that of the last Sync.
    pub status: Status,
}

/// A part of an answer, as it passes to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The columns of rows that follow: the body of a RowDescription.
    Columns(&'a [u8]),
    /// A row: the body of a DataRow, for [`Body::values`](crate::message::Body::values).
    Row(&'a [u8]),
    /// The last value of a row of a statement that was widened; `None` is NULL.
    Extra(Option<&'a [u8]>),
    /// A row of what [`Verdict::Precede`] put before the request: the body of a DataRow.
    Own(&'a [u8]),
    /// A statement completed, with this command tag.
    Complete(&'a str),
    /// A statement failed.
    Failed(&'a ServerError),
    /// The server is ready for the next query.
    Ready(Status),
}

/// The rows of a statement that an observer ran, as texts.
pub type Rows = Vec<Vec<Option<String>>>;

/// Why a statement of an observer did not run.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The server refused it. In an extended query the client gets this error too, because the server then
    /// ignores the rest of the query.
    Server(ServerError),
    /// The client's query has failed, and the server ignores everything until its end.
    Skipping,
    /// The observer is not in step with the session.
    OutOfStep,
    /// The connection is gone.
    Gone(io::Error),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server(error) => error.fmt(f),
            Self::Skipping => f.write_str("the query has failed already"),
            Self::OutOfStep => {
                f.write_str("statements run only between requests that are taken one at a time")
            }
            Self::Gone(error) => write!(f, "the connection is gone: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

/// The server, for statements of the observer in the client's session. The client sees nothing of them but
/// what they change.
pub trait Run {
    /// Runs one statement and returns its rows. It waits for what the client asked for before.
    ///
    /// Beside a simple query it is a simple query; beside a request of an extended query it is part of that
    /// query, and of its transaction.
    ///
    /// # Errors
    /// As [`RunError`] lists.
    fn run(&mut self, statement: &str) -> Result<Rows, RunError>;

    /// Sends one statement and does not wait for it: its rows are not wanted, and it does not fail. It
    /// runs before whatever follows, and goes to the server together with that.
    ///
    /// # Errors
    /// As [`RunError`] lists, as far as that is known before it runs.
    fn post(&mut self, statement: &str) -> Result<(), RunError> {
        self.run(statement).map(drop)
    }

    /// The state of the transaction when the server last reported it.
    fn status(&self) -> Status;

    /// Whether the server has reported the state after every query that was sent, so that
    /// [`status`](Run::status) is that of the beginning of this request, or of its extended query.
    fn is_current(&self) -> bool {
        true
    }
}

/// Sees one session.
///
/// [`request`](Observer::request) and [`finished`](Observer::finished) are called by the thread that reads
/// from the client, [`answer`](Observer::answer) by the one that reads from the server, never two at once.
pub trait Observer: Send {
    /// How much it wants to see; asked once.
    fn interest(&self) -> Interest {
        Interest::Nothing
    }

    /// A request is about to reach the server.
    fn request(&mut self, request: &Request, server: &mut dyn Run) -> Verdict {
        let _ = (request, server);
        Verdict::Pass
    }

    /// A request of [`Interest::InStep`] was answered, other than Parse and Bind. The client learns that
    /// the server is ready only after this has returned. An error that it returns reaches the client after
    /// the answer of a simple query, as that of a commit that failed; other requests have none.
    fn finished(
        &mut self,
        request: &Request,
        outcome: &Outcome,
        server: &mut dyn Run,
    ) -> Option<ServerError> {
        let _ = (request, outcome, server);
        None
    }

    /// A part of an answer is about to reach the client.
    fn answer(&mut self, answer: Answer<'_>) {
        let _ = answer;
    }

    /// The same, with the number of the request that is answered: those that were shown to
    /// [`request`](Observer::request) are numbered from 1 on. After an error in an extended query, requests
    /// up to Sync have no answer.
    fn answer_to(&mut self, number: u64, answer: Answer<'_>) {
        let _ = number;
        self.answer(answer);
    }
}

/// Makes the observer of each session.
pub trait Service: Send + Sync {
    /// A client opens a session with these options: user, database, settings. It may still be refused.
    fn session(&self, options: &BTreeMap<String, String>) -> Box<dyn Observer>;
}

/// Passes everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassThrough;

impl Observer for PassThrough {}

impl Service for PassThrough {
    fn session(&self, _options: &BTreeMap<String, String>) -> Box<dyn Observer> {
        Box::new(PassThrough)
    }
}
