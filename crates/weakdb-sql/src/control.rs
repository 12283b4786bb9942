//! BEGIN, COMMIT, savepoints, and SET.

use super::error::{Code, SqlError};
use super::session::{Outcome, Session, tagged};
use super::settings;
use super::types::{plain, truth};
use anomalist_sqltext::{Access, Chain, Control, Dialect, Modes, Scope, Setting};
use anomalist_weakdb::Latest;

/// How many variables a session may set.
const VARIABLES: usize = 4096;

impl Session {
    pub(super) fn control(&mut self, control: &Control) -> Result<Outcome, SqlError> {
        let postgres = self.dialect == Dialect::PostgreSql;
        Ok(match control {
            Control::Begin(modes) => {
                if !postgres {
                    self.commit()?;
                }
                self.explicit = true;
                self.modes(Scope::Transaction, *modes);
                tagged(if modes.snapshot { "START TRANSACTION" } else { "BEGIN" })
            }
            Control::BeginLocked(_) => {
                self.explicit = true;
                tagged("BEGIN")
            }
            Control::Commit(chain) if !self.failed => {
                self.explicit = false;
                let committed = self.commit();
                self.chain(*chain);
                committed?;
                Outcome { closes: chain.release, ..tagged("COMMIT") }
            }
            Control::Commit(chain) | Control::Rollback(chain) => {
                let block = self.block;
                self.end_block();
                self.block = block;
                self.chain(*chain);
                Outcome { closes: chain.release, ..tagged("ROLLBACK") }
            }
            Control::Savepoint(name) => {
                self.require_block("SAVEPOINT")?;
                if !self.in_block() {
                    // MySQL's autocommit has ended the transaction, and the savepoint with it.
                    return Ok(tagged("SAVEPOINT"));
                }
                // What is read after the savepoint stays read when it is rolled back to, so the transaction
                // begins here.
                self.open()?;
                let mark = self.engine.shared().store.mark()?;
                if !postgres {
                    self.savepoints.retain(|(n, _)| n != name);
                }
                self.savepoints.push((name.clone(), mark));
                tagged("SAVEPOINT")
            }
            Control::RollbackTo(name) => {
                let at = self.savepoint(name)?;
                self.savepoints.truncate(at + 1);
                self.cursors.rolled_back_to(at);
                self.engine.shared().store.rollback_to(self.savepoints[at].1)?;
                self.failed = false;
                tagged("ROLLBACK")
            }
            Control::Release(name) => {
                let at = self.savepoint(name)?;
                self.savepoints.truncate(at);
                self.cursors.released(at);
                tagged("RELEASE")
            }
            Control::Set(scope, modes) => {
                self.modes(*scope, *modes);
                tagged("SET")
            }
            Control::Autocommit(Scope::Global, _) => tagged("SET"),
            Control::Autocommit(_, on) => {
                if *on && !self.autocommit {
                    self.explicit = false;
                    self.commit()?;
                }
                self.autocommit = *on;
                self.engine.shared().variables.insert("autocommit".into(), u8::from(*on).to_string());
                tagged("SET")
            }
            Control::TwoPhase(words) => return Err(SqlError::unsupported(*words)),
        })
    }

    fn chain(&mut self, chain: Chain) {
        self.explicit = chain.chain;
    }

    pub(super) fn require_block(&self, what: &str) -> Result<(), SqlError> {
        if self.dialect == Dialect::PostgreSql && !self.explicit && !self.block {
            let text = format!("{what} can only be used in transaction blocks");
            return Err(SqlError::new(Code::NoTransaction, text));
        }
        Ok(())
    }

    fn savepoint(&self, name: &str) -> Result<usize, SqlError> {
        let found = self.savepoints.iter().rposition(|(n, _)| n == name);
        found.ok_or_else(|| {
            let text = match self.dialect {
                Dialect::MySql => format!("SAVEPOINT {name} does not exist"),
                _ => format!("savepoint \"{name}\" does not exist"),
            };
            SqlError::new(Code::UndefinedSavepoint, text)
        })
    }

    /// SET TRANSACTION and its kind. The level is the server's; what a client asks for is remembered and
    /// shown to it.
    fn modes(&mut self, scope: Scope, modes: Modes) {
        if scope == Scope::Global {
            return;
        }
        if let Some(access) = modes.access {
            let on = access == Access::ReadOnly;
            if scope == Scope::Transaction {
                self.read_only.0 = on;
            } else {
                self.read_only.1 = on;
            }
        }
        if let Some(isolation) = modes.isolation {
            let mut shared = self.engine.shared();
            if self.dialect == Dialect::PostgreSql {
                let name = isolation.name().to_lowercase();
                shared.variables.insert("transaction_isolation".into(), name.clone());
                if scope == Scope::Session {
                    shared.variables.insert("default_transaction_isolation".into(), name);
                }
            } else if scope == Scope::Session {
                let name = isolation.name().replace(' ', "-");
                shared.variables.insert("tx_isolation".into(), name.clone());
                shared.variables.insert("transaction_isolation".into(), name);
            }
        }
    }

    /// Forgets what ends with the transaction.
    pub(super) fn forget(&mut self) {
        self.savepoints.clear();
        self.read_only.0 = false;
        let mut replaced = std::mem::take(&mut self.replaced);
        replaced.reverse();
        // These values have been accepted before.
        _ = self.set(&replaced);
    }

    pub(super) fn set(&mut self, settings: &[Setting]) -> Result<(), SqlError> {
        for setting in settings {
            let name = match setting.name.strip_prefix("anomalist_") {
                Some(rest) => format!("anomalist.{rest}"),
                None => setting.name.clone(),
            };
            let mut value = setting.value.clone();
            if self.dialect == Dialect::PostgreSql && setting.scope == Some(Scope::Transaction) {
                if !self.explicit && !self.block {
                    continue;
                }
                let before = self.engine.shared().variables.get(&name).cloned();
                let value = before.unwrap_or_else(|| "default".to_owned());
                self.replaced.push(Setting { scope: None, name: name.clone(), value });
            }
            if name.starts_with('@') && !name.starts_with("@@") {
                let outcome = self.execute(&format!("SELECT {}", quoted(&value)), &[])?;
                value = outcome.rows.first().and_then(|r| r.first()).map(plain).unwrap_or_default();
            }
            let invalid =
                || SqlError::new(Code::InvalidValue, format!("invalid value for {name}: \"{value}\""));
            match name.as_str() {
                "anomalist.latest" => {
                    let latest = match value.to_lowercase().replace('_', "-").as_str() {
                        "per-session" => Latest::PerSession,
                        "default" => self.engine.shared().store.store().options().latest,
                        _ => truth(&value.as_str().into()).ok_or_else(invalid)?.into(),
                    };
                    self.engine.shared().store.set_latest(latest);
                }
                "anomalist.constraints" => {
                    self.strict = match value.to_lowercase().as_str() {
                        "strict" => true,
                        "weak" => false,
                        "default" => self.engine.shared().strict,
                        _ => return Err(invalid()),
                    };
                }
                other if other.starts_with("anomalist.") => {
                    let text = format!("unrecognized configuration parameter \"{other}\"");
                    return Err(SqlError::new(Code::UndefinedObject, text));
                }
                _ => {}
            }
            let mut shared = self.engine.shared();
            if value.eq_ignore_ascii_case("default") {
                shared.variables.remove(&name);
            } else {
                if let Some(Err(error)) = settings::time(&name, &value) {
                    return Err(error);
                }
                if shared.variables.len() >= VARIABLES && !shared.variables.contains_key(&name) {
                    let text = format!("a session has at most {VARIABLES} variables");
                    return Err(SqlError::new(Code::TooMuch, text));
                }
                shared.variables.insert(name, value);
            }
        }
        Ok(())
    }
}

/// A value of SET as an expression: a lone text lost its quotes.
fn quoted(value: &str) -> String {
    let expression = value.contains(['(', '@', '+', '*'])
        || value.parse::<f64>().is_ok()
        || value.eq_ignore_ascii_case("null");
    if expression { value.to_owned() } else { Dialect::MySql.literal(value) }
}
