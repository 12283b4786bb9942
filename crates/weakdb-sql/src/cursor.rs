//! PostgreSQL's cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! A cursor shows the database as it was when it was declared, whatever its transaction writes later (they
//! are all insensitive), so its rows are read then and kept. It ends with its transaction; WITH HOLD it
//! stays once that has committed.

use super::bounds::Charge;
use super::error::{Code, SqlError};
use super::names::ResultColumn;
use super::plan::{Plan, Planner, Prepared};
use super::session::{Outcome, Session, tagged};
use anomalist_sqltext::{Dialect, Kind, Lexed, Token};
use anomalist_weakdb::Value;
use std::collections::BTreeMap;

/// A statement about a cursor.
#[derive(Debug)]
pub enum CursorPlan {
    /// Open one.
    Declare(Box<Declare>),
    /// Rows of one.
    Fetch(Fetch),
    /// Close it, or all.
    Close(Option<String>),
}

/// DECLARE.
#[derive(Debug)]
pub struct Declare {
    name: String,
    /// It may go backwards.
    scroll: bool,
    hold: bool,
    query: Prepared,
}

/// FETCH, or MOVE.
#[derive(Debug)]
pub struct Fetch {
    name: String,
    step: Step,
    moves: bool,
}

/// Where to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// So many rows on, or back, with all on the way.
    By(i64),
    /// To the row that is so many on, or back.
    Over(i64),
    /// To this row, from the end if negative.
    To(i64),
}

const ALL: i64 = i64::MAX;

impl Planner<'_> {
    /// The plan of a statement about cursors; nothing if it is none.
    pub(super) fn cursor(&self, lexed: &Lexed<'_>) -> Result<Option<Prepared>, SqlError> {
        let mut words = lexed.tokens().iter().filter(|token| token.kind != Kind::Semicolon);
        let ours = |verb: &Token<'_>| ["DECLARE", "FETCH", "MOVE", "CLOSE"].iter().any(|v| verb.is(v));
        let Some(verb) = words.next().filter(|v| self.dialect == Dialect::PostgreSql && ours(v)) else {
            return Ok(None);
        };
        let rest: Vec<Token<'_>> = words.copied().collect();
        let mut parameters = Vec::new();
        let plan = match verb.text.to_ascii_uppercase().as_str() {
            "DECLARE" => {
                let declare = self.declare(lexed, &rest)?;
                parameters.clone_from(&declare.query.parameters);
                CursorPlan::Declare(Box::new(declare))
            }
            "CLOSE" => match rest.as_slice() {
                [all] if all.is("ALL") => CursorPlan::Close(None),
                [name] => CursorPlan::Close(Some(name.name())),
                _ => return Err(near(*verb)),
            },
            _ => CursorPlan::Fetch(fetch(&rest, verb.is("MOVE")).ok_or_else(|| near(*verb))?),
        };
        Ok(Some(Prepared {
            text: lexed.text().into(),
            plan: Plan::Cursor(plan),
            parameters,
            columns: Vec::new(),
        }))
    }

    fn declare(&self, lexed: &Lexed<'_>, rest: &[Token<'_>]) -> Result<Declare, SqlError> {
        let query = rest.iter().position(|word| word.is("FOR"));
        let (Some((name, options)), Some(query)) = (rest.split_first(), query) else {
            return Err(SqlError::new(Code::Syntax, "DECLARE takes a name, CURSOR FOR and a query"));
        };
        let options: Vec<String> =
            options[..query.saturating_sub(1)].iter().map(|word| word.text.to_ascii_uppercase()).collect();
        let (mut scroll, mut hold) = (true, false);
        let mut left = options.iter().map(String::as_str);
        while let Some(option) = left.next() {
            match option {
                "NO" => {
                    scroll = false;
                    left.next();
                }
                "WITH" => {
                    hold = true;
                    left.next();
                }
                "WITHOUT" => _ = left.next(),
                "SCROLL" | "CURSOR" | "INSENSITIVE" | "ASENSITIVE" => {}
                "BINARY" => return Err(SqlError::unsupported("BINARY cursors")),
                other => {
                    return Err(SqlError::new(Code::Syntax, format!("{other} is no option of a cursor")));
                }
            }
        }
        let before = lexed.tokens().iter().position(|token| token.start == rest[query].start);
        let mut inner = self.plan(&lexed.after(before.unwrap_or(0)))?;
        if !matches!(inner.plan, Plan::Query(_)) {
            return Err(SqlError::new(Code::Syntax, "a cursor is declared for SELECT or VALUES"));
        }
        inner.text = lexed.text().into();
        Ok(Declare { name: name.name(), scroll, hold, query: inner })
    }
}

/// `[direction] [FROM | IN] name`.
fn fetch(words: &[Token<'_>], moves: bool) -> Option<Fetch> {
    let (name, before) = words.split_last()?;
    let direction = match before.split_last() {
        Some((from, rest)) if from.is("FROM") || from.is("IN") => rest,
        _ => before,
    };
    let said: Vec<String> = direction.iter().map(|word| word.text.to_ascii_uppercase()).collect();
    let count = |words: &[&str]| match words {
        [] => Some(1),
        ["ALL"] => Some(ALL),
        number => number.concat().parse::<i64>().ok(),
    };
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    let step = match said.as_slice() {
        ["NEXT"] => Step::By(1),
        ["PRIOR"] => Step::By(-1),
        ["FIRST"] => Step::To(1),
        ["LAST"] => Step::To(-1),
        ["ABSOLUTE", number @ ..] => Step::To(number.concat().parse().ok()?),
        ["RELATIVE", number @ ..] => Step::Over(number.concat().parse().ok()?),
        ["FORWARD", number @ ..] => Step::By(count(number)?),
        ["BACKWARD", number @ ..] => Step::By(count(number)?.saturating_neg()),
        number => Step::By(count(number)?),
    };
    Some(Fetch { name: name.name(), step, moves })
}

fn near(word: Token<'_>) -> SqlError {
    SqlError::new(Code::Syntax, format!("syntax error near \"{}\"", word.text))
}

/// The cursors of a session.
#[derive(Default)]
pub(super) struct Cursors {
    open: BTreeMap<String, Cursor>,
}

struct Cursor {
    columns: Vec<ResultColumn>,
    rows: Vec<Vec<Value>>,
    /// Counts the rows.
    _charge: Charge,
    /// Before the first row (0), on a row (from 1), or after the last.
    at: usize,
    scroll: bool,
    hold: bool,
    /// The savepoints that its transaction had before it; nothing once that has committed.
    savepoints: Option<usize>,
}

impl Cursor {
    /// Goes there: the rows on the way.
    fn go(&mut self, step: Step) -> Result<Vec<Vec<Value>>, SqlError> {
        let (here, end) = (self.at as i64, self.rows.len() as i64 + 1);
        let there = match step {
            Step::By(rows) | Step::Over(rows) => here.saturating_add(rows).clamp(0, end),
            Step::To(row) if row < 0 => end.saturating_add(row).max(0),
            Step::To(row) => row.min(end),
        };
        if !self.scroll && (there < here || step == Step::By(0)) {
            return Err(SqlError::new(Code::NotInState, "cursor can only scan forward"));
        }
        self.at = there as usize;
        let row = |at: i64| (1..end).contains(&at).then(|| self.rows[at as usize - 1].clone());
        Ok(match step {
            Step::By(rows) if rows > 0 => (here + 1..=there).filter_map(row).collect(),
            Step::By(rows) if rows < 0 => (there..here).rev().filter_map(row).collect(),
            _ => row(there).into_iter().collect(),
        })
    }
}

impl Cursors {
    /// The columns of a cursor.
    pub(super) fn columns(&self, name: &str) -> Option<&[ResultColumn]> {
        self.open.get(name).map(|cursor| cursor.columns.as_slice())
    }

    pub(super) fn committed(&mut self) {
        self.open.retain(|_, cursor| cursor.hold);
        self.open.values_mut().for_each(|cursor| cursor.savepoints = None);
    }

    pub(super) fn rolled_back(&mut self) {
        self.open.retain(|_, cursor| cursor.savepoints.is_none());
    }

    /// Back to the savepoint with this number.
    pub(super) fn rolled_back_to(&mut self, savepoint: usize) {
        self.open.retain(|_, cursor| cursor.savepoints.is_none_or(|before| before <= savepoint));
    }

    /// The savepoint with this number, and all after it, are released.
    pub(super) fn released(&mut self, savepoint: usize) {
        for before in self.open.values_mut().filter_map(|cursor| cursor.savepoints.as_mut()) {
            *before = savepoint.min(*before);
        }
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    fn get(&mut self, name: &str) -> Result<&mut Cursor, SqlError> {
        self.open.get_mut(name).ok_or_else(|| none(name))
    }
}

fn none(name: &str) -> SqlError {
    SqlError::new(Code::UndefinedPortal, format!("cursor \"{name}\" does not exist"))
}

impl CursorPlan {
    /// The cursor whose rows it returns.
    pub(super) fn fetched(&self) -> Option<&str> {
        match self {
            Self::Fetch(Fetch { name, moves: false, .. }) => Some(name),
            _ => None,
        }
    }
}

impl Session {
    pub(super) fn cursor(&mut self, plan: &CursorPlan, params: &[Value]) -> Result<Outcome, SqlError> {
        match plan {
            CursorPlan::Declare(declare) => self.declare(declare, params),
            CursorPlan::Fetch(fetch) => {
                let cursor = self.cursors.get(&fetch.name)?;
                let rows = cursor.go(fetch.step)?;
                self.engine.keep(&rows)?;
                let count = rows.len() as u64;
                Ok(if fetch.moves {
                    Outcome { count, ..tagged(format!("MOVE {count}")) }
                } else {
                    let columns = Some(cursor.columns.clone());
                    Outcome { columns, rows, count, ..tagged(format!("FETCH {count}")) }
                })
            }
            CursorPlan::Close(Some(name)) => {
                self.cursors.open.remove(name).ok_or_else(|| none(name))?;
                Ok(tagged("CLOSE CURSOR"))
            }
            CursorPlan::Close(None) => {
                self.cursors.clear();
                Ok(tagged("CLOSE CURSOR ALL"))
            }
        }
    }

    fn declare(&mut self, declare: &Declare, params: &[Value]) -> Result<Outcome, SqlError> {
        let Declare { name, scroll, hold, query } = declare;
        if !hold {
            self.require_block("DECLARE CURSOR")?;
        }
        if self.cursors.open.contains_key(name) {
            return Err(SqlError::new(Code::DuplicateCursor, format!("cursor \"{name}\" already exists")));
        }
        let found = self.dispatch(query, params)?;
        let cursor = Cursor {
            columns: found.columns.unwrap_or_default(),
            rows: found.rows,
            _charge: self.engine.take_charge(),
            at: 0,
            scroll: *scroll,
            hold: *hold,
            savepoints: self.in_block().then_some(self.savepoints.len()),
        };
        self.cursors.open.insert(name.clone(), cursor);
        Ok(tagged("DECLARE CURSOR"))
    }
}
