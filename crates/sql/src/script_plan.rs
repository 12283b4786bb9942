//! Where the transactions of a script begin and end, and at which level each of them runs.
//!
//! This is known before anything is sent, because a script says it: `BEGIN ISOLATION LEVEL …`,
//! `SET SESSION …`, or nothing, and then it is the session's level. Statements go to the database as they
//! are written, and a transaction is recorded with the boundaries that the database gives it. Where these
//! are not those of `BEGIN` and its end, nothing is sent at all and the statement is named: `AND CHAIN`,
//! `autocommit = 0`, two-phase commit, a second `BEGIN` (which MySQL takes for a `COMMIT`, PostgreSQL for
//! nothing and SQLite for an error), and what MySQL commits by itself.

use crate::Flavour;
use crate::script::Script;
use anomalist_databases::{Error, Isolation, Kind, Product};
use anomalist_sqltext::{Begin, Control, Modes, Scope, control, settings, tokens};
use std::collections::BTreeMap;

/// What a line does to its session's transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Begin,
    Commit,
    Rollback,
    /// A statement of the open transaction or, without one, a transaction by itself.
    Statement,
    /// About the session, and in no transaction.
    Setting,
}

/// A line of the script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlannedLine {
    /// The number of its transaction, in the order in which they begin; 0 outside of any.
    pub transaction: u64,
    pub action: Action,
    /// The level of its transaction, with the very statement that begins it.
    pub level: Isolation,
}

/// A script as the database will take it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ScriptPlan {
    /// The level of sessions before their first line.
    pub start: Isolation,
    /// Line by line.
    pub lines: Vec<PlannedLine>,
    /// The levels at which transactions run, weakest first.
    pub levels: Vec<Isolation>,
}

impl ScriptPlan {
    /// The plan of a script whose sessions have this level, unless they set another.
    pub fn of(
        script: &Script,
        flavour: Flavour,
        product: &Product,
        level: &Isolation,
    ) -> Result<ScriptPlan, Error> {
        let snapshot = level.name().ends_with(SNAPSHOT);
        let mut first =
            SessionState { flavour, product, level: level.clone(), snapshot, next: None, open: None };
        for statement in &script.prelude {
            if first.follow(statement)?.0 != Action::Setting {
                return Err(refused(
                    statement,
                    "only settings are allowed before the statements of the sessions",
                ));
            }
        }
        let start = first.level.clone();
        let mut tracks = vec![first; script.sessions()];
        let mut open = vec![0; script.sessions()];
        let (mut lines, mut ran, mut last) = (Vec::new(), BTreeMap::new(), 0);
        for line in &script.steps {
            let session = line.session - 1;
            let within = tracks[session].open.is_some();
            let (action, level) = tracks[session].follow(&line.text)?;
            let begins = action == Action::Begin || (action == Action::Statement && !within);
            if begins {
                last += 1;
                open[session] = last;
            }
            let transaction = if action == Action::Setting { 0 } else { open[session] };
            if transaction > 0 {
                // What its first statement sets counts for all of it.
                ran.insert(transaction, level.clone());
            }
            lines.push(PlannedLine { transaction, action, level });
        }
        let all = product.isolations();
        let rank = |level: &Isolation| all.iter().position(|l| l.name() == level.name());
        let mut levels: Vec<Isolation> = ran.into_values().collect();
        levels.sort_by_key(rank);
        levels.dedup_by(|a, b| a.name() == b.name());
        Ok(ScriptPlan { start, lines, levels })
    }
}

/// How MariaDB's level is called with this switched on.
const SNAPSHOT: &str = "innodb_snapshot_isolation";

/// A session on its way through a script.
#[derive(Clone)]
struct SessionState<'a> {
    flavour: Flavour,
    product: &'a Product,
    /// Of transactions that do not say otherwise.
    level: Isolation,
    snapshot: bool,
    /// Of the next transaction alone, as MySQL's SET TRANSACTION has it.
    next: Option<Isolation>,
    /// Of the open transaction.
    open: Option<Isolation>,
}

impl SessionState<'_> {
    /// What a statement does, and the level of its transaction.
    fn follow(&mut self, text: &str) -> Result<(Action, Isolation), Error> {
        let refuse = |why: &str| Err(refused(text, why));
        let passing = if self.open.is_some() { Action::Statement } else { Action::Setting };
        let action = match control(self.flavour.dialect(), text) {
            Some(Control::Begin(_) | Control::BeginLocked(_)) if self.open.is_some() => {
                return refuse("a transaction is open already");
            }
            Some(Control::Begin(modes)) => {
                let level = self.begun(text, &modes)?;
                self.open = Some(level);
                Action::Begin
            }
            Some(Control::BeginLocked(kind)) => {
                let name = match kind {
                    Begin::Immediate => "IMMEDIATE",
                    Begin::Exclusive => "EXCLUSIVE",
                    Begin::Deferred => "DEFERRED",
                    Begin::Concurrent => "CONCURRENT",
                };
                self.open = Some(self.named(name, text)?);
                Action::Begin
            }
            Some(Control::Commit(after) | Control::Rollback(after)) if after.chain || after.release => {
                return refuse("AND CHAIN and RELEASE are not supported");
            }
            Some(ends @ (Control::Commit(_) | Control::Rollback(_))) => {
                let action =
                    if matches!(ends, Control::Commit(_)) { Action::Commit } else { Action::Rollback };
                return Ok(match self.open.take() {
                    Some(level) => (action, level),
                    None => (Action::Setting, self.level.clone()),
                });
            }
            Some(Control::Savepoint(_) | Control::RollbackTo(_) | Control::Release(_)) => {
                if self.open.is_none() {
                    return refuse("there is no transaction");
                }
                Action::Statement
            }
            Some(Control::Set(Scope::Global, _) | Control::Autocommit(Scope::Global, _)) => {
                return refuse("it would change a setting of the whole server");
            }
            Some(Control::Set(scope, modes)) => {
                self.set(scope, &modes, text)?;
                passing
            }
            Some(Control::Autocommit(_, false)) => {
                return refuse("implicit transactions are not supported; write BEGIN");
            }
            Some(Control::Autocommit(_, true)) => passing,
            Some(Control::TwoPhase(_)) => return refuse("two-phase commit is not supported"),
            None => self.other(text, passing)?,
        };
        let level = match (&self.open, action) {
            (Some(level), _) => level.clone(),
            (None, Action::Statement) => self.next.take().unwrap_or_else(|| self.level.clone()),
            (None, _) => self.level.clone(),
        };
        Ok((action, level))
    }

    /// The level of a transaction that begins with this statement.
    fn begun(&mut self, text: &str, modes: &Modes) -> Result<Isolation, Error> {
        let next = self.next.take();
        let level = match modes.isolation {
            Some(isolation) => self.named(isolation.name(), text)?,
            None => next.unwrap_or_else(|| self.level.clone()),
        };
        if self.flavour == Flavour::Sqlite {
            // There the level is a word of BEGIN: without one, it is the session's.
            let deferred = tokens(self.flavour.dialect(), text).any(|t| t.is("DEFERRED"));
            return if deferred { self.named("DEFERRED", text) } else { Ok(level) };
        }
        Ok(Isolation::new(level.name(), self.level.setup(), text))
    }

    fn set(&mut self, scope: Scope, modes: &Modes, text: &str) -> Result<(), Error> {
        let Some(isolation) = modes.isolation else { return Ok(()) };
        let level = self.named(isolation.name(), text)?;
        match (scope, &mut self.open) {
            (Scope::Session | Scope::Global, _) => self.level = level,
            // MySQL refuses it in a transaction, and PostgreSQL does nothing outside of one.
            (Scope::Transaction, Some(open)) if !self.flavour.is_mysql() => *open = level,
            (Scope::Transaction, None) if self.flavour.is_mysql() => {
                self.next = Some(Isolation::new(level.name(), self.level.setup(), level.begin()));
            }
            (Scope::Transaction, _) => {}
        }
        Ok(())
    }

    /// A statement that does not steer transactions, or should not.
    fn other(&mut self, text: &str, passing: Action) -> Result<Action, Error> {
        let dialect = self.flavour.dialect();
        for setting in settings(dialect, text).into_iter().flatten() {
            if setting.scope == Some(Scope::Global) {
                return Err(refused(text, "it would change a setting of the whole server"));
            }
            if self.flavour.is_mysql() && setting.name == SNAPSHOT {
                self.snapshot = matches!(setting.value.to_ascii_lowercase().as_str(), "1" | "on" | "true");
                if self.level.name().starts_with(REPEATABLE_READ) {
                    self.level = self.named(REPEATABLE_READ, text)?;
                }
            }
        }
        let mut words = tokens(dialect, text);
        let first = words.next();
        let is = |words: &[&str]| words.iter().any(|word| first.is_some_and(|t| t.is(word)));
        if is(&["SET", "SHOW", "RESET", "PRAGMA"]) {
            return Ok(passing);
        }
        if is(&["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"]) {
            return Err(refused(
                text,
                &format!("{} does not support this form of the statement", self.product),
            ));
        }
        let temporary = words.next().is_some_and(|t| t.is("TEMPORARY"));
        let committing = is(&COMMITTING) && !temporary;
        if self.flavour.is_mysql() && committing && self.open.is_some() {
            return Err(refused(text, "MySQL commits the transaction before it"));
        }
        Ok(Action::Statement)
    }

    /// A level by its name in SQL.
    fn named(&self, name: &str, text: &str) -> Result<Isolation, Error> {
        let switched = format!("{name} with {SNAPSHOT}");
        let name = if self.snapshot && name == REPEATABLE_READ { &switched } else { name };
        let level = self.product.isolation(name);
        level.ok_or_else(|| refused(text, &format!("{} has no isolation level {name}", self.product)))
    }
}

const REPEATABLE_READ: &str = "REPEATABLE READ";

/// What MySQL's statements that commit by themselves begin with.
const COMMITTING: [&str; 14] = [
    "ALTER", "ANALYZE", "CREATE", "DROP", "FLUSH", "GRANT", "INSTALL", "LOCK", "OPTIMIZE", "RENAME",
    "REPAIR", "REVOKE", "TRUNCATE", "UNLOCK",
];

fn refused(statement: &str, why: &str) -> Error {
    Error::new(Kind::Unsupported, format!("{statement}: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use anomalist_databases::Family;

    /// The transactions of a script, as `number level` for each line.
    fn plan(flavour: Flavour, lines: &str) -> Result<Vec<String>, String> {
        let family = if flavour.is_mysql() { Family::Mysql } else { Family::Postgres };
        let family = if flavour == Flavour::Sqlite { Family::Sqlite } else { family };
        let product = Product::new(family, "it", "1");
        let text: String = lines.split("; ").map(|l| format!("{l}; -- T1\n")).collect();
        let script = Script { prelude: Vec::new(), ..Script::parse(flavour, &text).unwrap() };
        let level = product.isolations().swap_remove(1);
        let plan = ScriptPlan::of(&script, flavour, &product, &level).map_err(|e| e.to_string())?;
        Ok(plan.lines.iter().map(|m| format!("{} {}", m.transaction, m.level.name())).collect())
    }

    #[test]
    fn transactions_run_at_the_level_they_say() {
        let postgres = |lines| plan(Flavour::PostgreSql, lines).unwrap().join(", ");
        let (rr, ser) = ("REPEATABLE READ", "SERIALIZABLE");
        assert_eq!(
            postgres("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1; COMMIT; SELECT 1"),
            format!("1 {ser}, 1 {ser}, 1 {ser}, 2 {rr}")
        );
        assert_eq!(
            postgres("BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT 1; COMMIT; BEGIN"),
            format!("1 {rr}, 1 {ser}, 1 {ser}, 1 {ser}, 2 {rr}")
        );
        let session = "ROLLBACK; SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN; COMMIT; ROLLBACK";
        assert_eq!(postgres(session), format!("0 {rr}, 0 {ser}, 1 {ser}, 1 {ser}, 0 {ser}"));
        let once = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; START TRANSACTION WITH CONSISTENT SNAPSHOT; COMMIT; SELECT 1";
        let rc = "READ COMMITTED";
        assert_eq!(
            plan(Flavour::MySql, once).unwrap(),
            [format!("0 {rc}"), format!("1 {ser}"), format!("1 {ser}"), format!("2 {rc}")]
        );
        let begun = plan(Flavour::Sqlite, "BEGIN EXCLUSIVE; COMMIT; BEGIN; COMMIT; BEGIN DEFERRED").unwrap();
        assert_eq!(begun, ["1 EXCLUSIVE", "1 EXCLUSIVE", "2 IMMEDIATE", "2 IMMEDIATE", "3 DEFERRED"]);
    }

    #[test]
    fn what_has_other_boundaries_is_refused_by_name() {
        for (flavour, lines) in [
            (Flavour::PostgreSql, "BEGIN; BEGIN"),
            (Flavour::PostgreSql, "BEGIN; COMMIT AND CHAIN"),
            (Flavour::MySql, "BEGIN; ROLLBACK RELEASE"),
            (Flavour::MySql, "SET autocommit = 0"),
            (Flavour::MySql, "SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
            (Flavour::MySql, "BEGIN; CREATE TABLE u (a INT)"),
            (Flavour::MySql, "XA START 'a'"),
            (Flavour::PostgreSql, "PREPARE TRANSACTION 'a'"),
            (Flavour::Sqlite, "SAVEPOINT a"),
            (Flavour::MySql, "BEGIN ISOLATION LEVEL SERIALIZABLE"),
            (Flavour::PostgreSql, "START TRANSACTION WITH CONSISTENT SNAPSHOT"),
        ] {
            let error = plan(flavour, lines).unwrap_err();
            assert!(error.contains(lines.split("; ").last().unwrap()), "{error}");
        }
        assert!(plan(Flavour::PostgreSql, "BEGIN; CREATE TABLE u (a INT)").is_ok());
        assert!(plan(Flavour::MySql, "BEGIN; CREATE TEMPORARY TABLE u (a INT)").is_ok());
    }
}
