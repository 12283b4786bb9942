//! Reads certificates.

use super::{CertificateError, Fingerprint, Names, SCHEMA, Statement};
use anomalist_history::{History, OpId, TxnId};
use anomalist_level::{
    Anomaly, AnomalyKind, By, Certificate, Choice, Definitions, Edge, Evidence, Execution, Judgement, Level,
    LevelVerdict, Literal, Mixed, Node, Order, Point, Reason, Refutation, Relation, Step, Verdict,
    VersionReason, Witness,
};
use serde_json::{Map, Value};

/// Reads what a certificate file says about a history. Of several documents, the one about this history.
///
/// ```
/// use anomalist_format::{Input, ReadOptions, certificate};
/// let input = Input::from_bytes("h.txt", b"w(1,1,0,0)\nr(1,1,1,1)\n".to_vec());
/// let history = anomalist_format::read(input, &ReadOptions::default())?.history;
/// let error = certificate::read(&history, br#"{"schema": 1}"#).unwrap_err();
/// assert_eq!(error.to_string(), "history: expected an object");
/// # Ok::<(), anomalist_format::ReadError>(())
/// ```
pub fn read(history: &History, text: &[u8]) -> Result<Statement, CertificateError> {
    let document: Value = serde_json::from_slice(text).map_err(|error| {
        // The place is reported before it.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        CertificateError::Syntax { line: error.line(), column: error.column(), message: message.to_owned() }
    })?;
    let expected = Fingerprint::of(history);
    let documents = match document {
        Value::Array(documents) => documents,
        document => vec![document],
    };
    let mut other = None;
    for document in &documents {
        let document = Cursor { value: document, place: Place::Root };
        if document.get("schema").value != &Value::from(SCHEMA) {
            return Err(document
                .get("schema")
                .shape("the number 1: another version of Anomalist wrote this"));
        }
        document.get("history").object()?;
        let found = document.get("history").get("fingerprint").text()?;
        if found == expected.to_string() {
            let reader = Reader { history, names: Names::new(history) };
            return Ok(Statement { judgement: reader.judgement(&document)? });
        }
        other.get_or_insert(found.to_owned());
    }
    match other {
        Some(found) => Err(CertificateError::OtherHistory { found, expected }),
        None => Err(CertificateError::Shape {
            place: "the document".to_owned(),
            expected: "at least one certificate",
        }),
    }
}

/// Where a value stands in the document.
#[derive(Clone, Copy)]
enum Place<'p> {
    Root,
    Field(&'p Place<'p>, &'p str),
    Item(&'p Place<'p>, usize),
}

/// A value of the document, and where it stands.
struct Cursor<'d, 'p> {
    value: &'d Value,
    place: Place<'p>,
}

type Found<T> = Result<T, CertificateError>;

impl<'d> Cursor<'d, '_> {
    fn path(&self) -> String {
        let mut parts = Vec::new();
        let mut place = self.place;
        loop {
            match place {
                Place::Root => break,
                Place::Field(parent, name) => {
                    parts.push(format!(".{name}"));
                    place = *parent;
                }
                Place::Item(parent, at) => {
                    parts.push(format!("[{at}]"));
                    place = *parent;
                }
            }
        }
        parts.reverse();
        let path = parts.concat();
        if path.is_empty() { "the document".to_owned() } else { path.trim_start_matches('.').to_owned() }
    }

    fn shape(&self, expected: &'static str) -> CertificateError {
        CertificateError::Shape { place: self.path(), expected }
    }

    fn unknown(&self, what: &'static str) -> CertificateError {
        CertificateError::Unknown { place: self.path(), what }
    }

    fn object(&self) -> Found<&'d Map<String, Value>> {
        self.value.as_object().ok_or_else(|| self.shape("an object"))
    }

    fn text(&self) -> Found<&'d str> {
        self.value.as_str().ok_or_else(|| self.shape("a string"))
    }

    fn number(&self) -> Found<u32> {
        let number = self.value.as_u64().and_then(|n| u32::try_from(n).ok());
        number.ok_or_else(|| self.shape("a small whole number"))
    }

    /// A field; null if it is missing.
    fn get<'s>(&'s self, name: &'s str) -> Cursor<'d, 's> {
        Cursor { value: self.value.get(name).unwrap_or(&Value::Null), place: Place::Field(&self.place, name) }
    }

    fn item(&self, at: usize) -> Cursor<'d, '_> {
        Cursor { value: self.value.get(at).unwrap_or(&Value::Null), place: Place::Item(&self.place, at) }
    }

    /// Every element of an array.
    fn each<T>(&self, mut read: impl FnMut(&Cursor<'_, '_>) -> Found<T>) -> Found<Vec<T>> {
        let items = self.value.as_array().ok_or_else(|| self.shape("an array"))?;
        (0..items.len()).map(|at| read(&self.item(at))).collect()
    }

    fn is_null(&self) -> bool {
        self.value.is_null()
    }

    /// Whose definitions; those of the tables if it is not said.
    fn definitions(&self) -> Found<Definitions> {
        if self.is_null() {
            return Ok(Definitions::default());
        }
        Definitions::of(self.text()?).ok_or_else(|| self.shape("anomalist or plume"))
    }

    fn level(&self) -> Found<Level> {
        let name = self.text()?;
        let known = Level::ALL.iter().copied().find(|level| level.name() == name);
        known.ok_or_else(|| self.shape("the name of a level"))
    }

    fn anomaly(&self) -> Found<AnomalyKind> {
        let name = self.text()?;
        let known = AnomalyKind::ALL.iter().copied().find(|kind| kind.name() == name);
        known.ok_or_else(|| self.shape("the name of an anomaly"))
    }
}

struct Reader<'a> {
    history: &'a History,
    names: Names,
}

impl Reader<'_> {
    fn judgement(&self, document: &Cursor<'_, '_>) -> Found<Judgement> {
        let mut judgement = Judgement {
            levels: document.get("verdicts").each(|c| self.verdict(c))?,
            anomalies: document.get("anomalies").each(|c| self.anomaly(c))?,
            definitions: document.get("definitions").definitions()?,
            ..Judgement::default()
        };
        for proofs in document.get("proofs").each(|c| self.proof(c))? {
            judgement.certificates.extend(proofs);
        }
        let mixed = document.get("mixed");
        if !mixed.is_null() {
            judgement.mixed = Some(self.mixed(&mixed)?);
        }
        Ok(judgement)
    }

    /// Which levels are declared, and by whom, the history says.
    fn mixed(&self, c: &Cursor<'_, '_>) -> Found<Mixed> {
        let proof = self.certificate(c)?;
        let verdict = match proof {
            Certificate::Holds(_) => Verdict::Holds,
            Certificate::Violated(_) => Verdict::Violated,
        };
        Ok(Mixed { verdict, proof: Some(proof), ..Mixed::default() })
    }

    fn verdict(&self, c: &Cursor<'_, '_>) -> Found<LevelVerdict> {
        let verdict = match c.get("verdict").text()? {
            "holds" => Verdict::Holds,
            "violated" => Verdict::Violated,
            _ => return Err(c.get("verdict").shape("holds or violated")),
        };
        let anomalies = match c.get("anomalies") {
            none if none.is_null() => Vec::new(),
            some => some.each(|c| c.anomaly())?,
        };
        Ok(LevelVerdict { level: c.get("level").level()?, by: By::Values, verdict, anomalies })
    }

    fn anomaly(&self, c: &Cursor<'_, '_>) -> Found<Anomaly> {
        let witness = Witness {
            transactions: c.get("transactions").each(|c| self.txn(c))?,
            operations: c.get("operations").each(|c| self.op(c))?,
            edges: c.get("edges").each(|c| self.edge(c, true))?,
            ..Witness::default()
        };
        Ok(Anomaly::new(c.get("kind").anomaly()?, 1, witness))
    }

    fn proof(&self, c: &Cursor<'_, '_>) -> Found<Vec<(Level, Certificate)>> {
        let levels = c.get("levels").each(|c| c.level())?;
        let certificate = self.certificate(c)?;
        Ok(levels.into_iter().map(|level| (level, certificate.clone())).collect())
    }

    fn certificate(&self, c: &Cursor<'_, '_>) -> Found<Certificate> {
        Ok(match c.get("verdict").text()? {
            "holds" => Certificate::Holds(self.execution(c)?),
            "violated" => Certificate::Violated(Refutation { steps: c.get("steps").each(|c| self.step(c))? }),
            _ => return Err(c.get("verdict").shape("holds or violated")),
        })
    }

    fn execution(&self, c: &Cursor<'_, '_>) -> Found<Execution> {
        let (commits, events, choices) = (c.get("commits"), c.get("events"), c.get("choices"));
        let order = match (commits.is_null(), events.is_null()) {
            (true, true) => Order::Any,
            (false, true) => Order::Commits(commits.each(|c| self.txn(c))?),
            (true, false) => Order::Events(events.each(|c| self.point(c))?),
            (false, false) => return Err(events.shape("nothing beside commits")),
        };
        let choices = if choices.is_null() { Vec::new() } else { choices.each(|c| self.choice(c))? };
        Ok(Execution { order, choices })
    }

    fn txn(&self, c: &Cursor<'_, '_>) -> Found<TxnId> {
        match c.value {
            Value::String(name) => match self.names.by_name.get(name) {
                Some(Some(t)) => Ok(*t),
                _ => Err(c.unknown("transaction")),
            },
            Value::Number(_) => {
                let position = (c.number()? as usize).checked_sub(1);
                let known = position.and_then(|p| self.names.by_position.get(p)).copied();
                known.ok_or_else(|| c.unknown("transaction"))
            }
            _ => Err(c.shape("a transaction: its name, or its place in the input")),
        }
    }

    fn op(&self, c: &Cursor<'_, '_>) -> Found<OpId> {
        if c.value.as_array().is_none_or(|items| items.len() != 2) {
            return Err(c.shape("an operation: [transaction, place]"));
        }
        let range = self.history.op_range(self.txn(&c.item(0))?);
        let at = range.start + c.item(1).number()? as usize;
        if range.contains(&at) { Ok(OpId(at as u32)) } else { Err(c.unknown("operation")) }
    }

    fn maybe(&self, c: &Cursor<'_, '_>) -> Found<Option<OpId>> {
        if c.is_null() { Ok(None) } else { self.op(c).map(Some) }
    }

    fn choice(&self, c: &Cursor<'_, '_>) -> Found<Choice> {
        let element = c.get("element");
        let element = if element.is_null() { 0 } else { element.number()? };
        Ok(Choice { read: self.op(&c.get("read"))?, element, write: self.maybe(&c.get("write"))? })
    }

    fn node(&self, c: &Cursor<'_, '_>) -> Found<Node> {
        if c.is_null() { Ok(Node::Initial) } else { self.txn(c).map(Node::Txn) }
    }

    fn point(&self, c: &Cursor<'_, '_>) -> Found<Point> {
        let kind = c.item(0);
        match kind.value.as_str() {
            Some("begin") => Ok(Point::Begin(self.txn(&c.item(1))?)),
            Some("commit") => Ok(Point::Commit(self.txn(&c.item(1))?)),
            _ => Err(c.shape("a point: [\"begin\" or \"commit\", transaction]")),
        }
    }

    /// `outer`: may be forced; the edges of a forced edge's path may not.
    fn edge(&self, c: &Cursor<'_, '_>, outer: bool) -> Found<Edge> {
        let op = |name: &str| self.op(&c.get(name));
        let maybe = |name: &str| self.maybe(&c.get(name));
        let (relation, evidence) = match c.get("type").text()? {
            "so" => (Relation::SessionOrder, Evidence::Session),
            "rt" => (Relation::RealTime, Evidence::RealTime),
            "wr" => (Relation::WriteRead, Evidence::Read { write: maybe("write")?, read: op("read")? }),
            "cm" if outer => (
                Relation::Required,
                Evidence::Forced {
                    read: op("read")?,
                    overwritten: maybe("overwritten")?,
                    visible_write: op("visible_write")?,
                    path: c.get("path").each(|c| self.edge(c, false))?,
                },
            ),
            "ww" if c.object()?.contains_key("reason") => (
                Relation::VersionOrder,
                Evidence::Ordered {
                    first: op("first")?,
                    second: op("second")?,
                    reason: self.version_reason(&c.get("reason"))?,
                },
            ),
            "ww" => (
                Relation::VersionOrder,
                Evidence::Version { first: op("first")?, second: op("second")?, read: op("read")? },
            ),
            "rw" => (
                Relation::AntiDependency,
                Evidence::Overwritten {
                    read: op("read")?,
                    seen: maybe("seen")?,
                    write: op("write")?,
                    reason: self.version_reason(&c.get("reason"))?,
                },
            ),
            _ => return Err(c.get("type").shape("so, rt, wr, ww, rw or (not inside a path) cm")),
        };
        let (from, to) = (self.node(&c.get("from"))?, self.node(&c.get("to"))?);
        Ok(Edge { from, to, relation, evidence })
    }

    fn version_reason(&self, c: &Cursor<'_, '_>) -> Found<VersionReason> {
        if let Ok(name) = c.text() {
            return match name {
                "initial" => Ok(VersionReason::Initial),
                "given" => Ok(VersionReason::Given),
                "stamps" => Ok(VersionReason::Stamps),
                "numbered" => Ok(VersionReason::Numbered),
                _ => Err(c.shape("initial, given or stamps")),
            };
        }
        let fields = c.object()?;
        let Some((name, _)) = fields.iter().next().filter(|_| fields.len() == 1) else {
            return Err(c.shape("a reason's name, or an object with one field"));
        };
        let of = c.get(name);
        Ok(match name.as_str() {
            "shown" => VersionReason::Shown { read: self.op(&of)? },
            "missing" => VersionReason::Missing { read: self.maybe(&of)? },
            "read_then_written" => VersionReason::ReadThenWritten { read: self.op(&of)? },
            "session" => {
                VersionReason::Session { before: self.op(&of.item(0))?, after: self.op(&of.item(1))? }
            }
            "real_time" => {
                VersionReason::RealTime { before: self.op(&of.item(0))?, after: self.op(&of.item(1))? }
            }
            _ => return Err(c.shape("shown, missing, read_then_written, session or real_time")),
        })
    }

    fn literal(&self, c: &Cursor<'_, '_>) -> Found<Literal> {
        let fields = c.object()?;
        let Some((name, _)) = fields.iter().next().filter(|_| fields.len() == 1) else {
            return Err(c.shape("an object with one field"));
        };
        let of = c.get(name);
        Ok(match name.as_str() {
            "before" => Literal::Before(self.point(&of.item(0))?, self.point(&of.item(1))?),
            "reads" => Literal::ReadsFrom(self.choice(&of)?),
            "not_reads" => Literal::NotReadsFrom(self.choice(&of)?),
            "committed" => Literal::Committed(self.txn(&of)?),
            "not_committed" => Literal::NotCommitted(self.txn(&of)?),
            _ => return Err(c.shape("before, reads, not_reads, committed or not_committed")),
        })
    }

    fn step(&self, c: &Cursor<'_, '_>) -> Found<Step> {
        let clause = c.get("clause").each(|c| self.literal(c))?;
        let fields = c.object()?;
        let Some((name, _)) = fields.iter().find(|(name, _)| *name != "clause").filter(|_| fields.len() == 2)
        else {
            return Err(c.shape("a clause and one reason"));
        };
        let of = c.get(name);
        let op = |name: &str| self.op(&of.get(name));
        let reason = match name.as_str() {
            "cycle" => Reason::Cycle(of.each(|c| self.point(c))?),
            "axiom" => Reason::Axiom {
                read: op("read")?,
                write: self.maybe(&of.get("write"))?,
                other: op("other")?,
                path: match of.get("path") {
                    none if none.is_null() => Vec::new(),
                    path => path.each(|c| self.txn(c))?,
                },
            },
            "conflict" => Reason::Conflict { first: self.op(&of.item(0))?, second: self.op(&of.item(1))? },
            "repeated" => Reason::Repeated { first: self.op(&of.item(0))?, second: self.op(&of.item(1))? },
            "version" => Reason::Version { read: op("read")?, first: op("first")?, second: op("second")? },
            "assumed" => Reason::Assumed {
                first: op("first")?,
                second: op("second")?,
                reason: self.version_reason(&of.get("reason"))?,
            },
            "source" => Reason::Source { read: op("read")?, element: of.get("element").number()? },
            "observed" => Reason::Observed(self.choice(&of)?),
            "intermediate" => Reason::Intermediate(self.choice(&of)?),
            "impossible" => Reason::Impossible { read: self.op(&of)? },
            "implied" => Reason::Implied(of.each(|c| c.number())?),
            _ => return Err(c.shape("one of the reasons of docs/certificate.md")),
        };
        Ok(Step { clause, reason })
    }
}
