//! Every datatype on top of registers and lists, for engines that have nothing else.
//!
//! A register holds 0 before its first write. A balance is kept one too high, so that 0 is an account that
//! no transaction has touched; a row that holds 0 is not there.

use crate::{Answer, Ended, Key, Op};
use anomalist_workload::client::ClientSpec;

/// Why a transaction is rolled back.
pub(crate) enum Stop {
    Refused(String),
    Poor,
    Exists,
    Unsupported(Op),
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Ended {
        match stop {
            Stop::Refused(message) => Ended::aborted("conflict", message),
            Stop::Poor => Ended::aborted("constraint", "the account has too little"),
            Stop::Exists => Ended::aborted("constraint", "the row exists"),
            Stop::Unsupported(op) => Ended::unsupported(op),
        }
    }
}

/// The open transaction of a session.
pub(crate) trait Cells {
    fn read(&mut self, key: Key) -> Result<i64, Stop>;

    fn write(&mut self, key: Key, value: i64) -> Result<(), Stop>;

    fn list(&mut self, key: Key) -> Result<Vec<i64>, Stop> {
        Err(Stop::Unsupported(Op::ReadList(key)))
    }

    fn append(&mut self, key: Key, value: i64) -> Result<(), Stop> {
        Err(Stop::Unsupported(Op::Append(key, value)))
    }

    /// Every key that any transaction used.
    fn keys(&self) -> Vec<Key>;

    /// Number of accounts.
    fn accounts(&self) -> u64;

    fn balance(&mut self, account: Key) -> Result<i64, Stop> {
        Ok(match self.read(account)? {
            0 => ClientSpec::BALANCE,
            kept => kept - 1,
        })
    }
}

/// Performs one operation.
pub(crate) fn perform(cells: &mut dyn Cells, op: Op) -> Result<Answer, Stop> {
    match op {
        Op::Read(key) | Op::ReadRow(key) => {
            let value = cells.read(key)?;
            return Ok(Answer::Value((value != 0).then_some(value)));
        }
        Op::Write(key, value) => cells.write(key, value)?,
        Op::ReadList(key) | Op::ReadSet(key) => return Ok(Answer::List(cells.list(key)?)),
        Op::Append(key, value) | Op::Add(key, value) => cells.append(key, value)?,
        Op::ReadCounter => return Ok(Answer::Value(Some(cells.read(0)?))),
        Op::Increment(by) => {
            let now = cells.read(0)?;
            cells.write(0, now + by)?;
        }
        Op::ReadBalances => {
            let mut rows = Vec::new();
            for account in 0..cells.accounts() {
                rows.push((account, cells.balance(account)?));
            }
            return Ok(Answer::Rows(rows));
        }
        Op::Transfer { from, to, amount } => {
            let (paying, paid) = (cells.balance(from)?, cells.balance(to)?);
            if paying < amount {
                return Err(Stop::Poor);
            }
            cells.write(from, paying - amount + 1)?;
            cells.write(to, paid + amount + 1)?;
        }
        Op::Insert(key, value) => {
            if cells.read(key)? != 0 {
                return Err(Stop::Exists);
            }
            cells.write(key, value)?;
        }
        Op::Update(key, value) => {
            if cells.read(key)? == 0 {
                return Ok(Answer::Missed);
            }
            cells.write(key, value)?;
        }
        Op::Delete(key) => {
            if cells.read(key)? == 0 {
                return Ok(Answer::Missed);
            }
            cells.write(key, 0)?;
        }
        Op::ReadWhere { modulus: 0, .. } => return Err(Stop::Unsupported(op)),
        Op::ReadWhere { modulus, rest } => {
            let mut rows = Vec::new();
            for key in cells.keys() {
                let value = cells.read(key)?;
                if value != 0 && value % modulus == rest {
                    rows.push((key, value));
                }
            }
            return Ok(Answer::Rows(rows));
        }
    }
    Ok(Answer::Done)
}
