//! SmallBank (Alomari et al. 2008): customers with a savings and a checking account, six transactions.
//!
//! Money is neither made nor lost: what is in the bank is what was there and what deposits and cheques have
//! changed since.

use super::{Sql, Suite};
use anomalist_databases::Error;

/// The suite.
pub struct SmallBank;

const CUSTOMERS: i64 = 5;
const START: i64 = 1000;

fn savings(sql: &mut Sql<'_>, customer: i64) -> Result<i64, Error> {
    Ok(sql.int("SELECT bal FROM savings WHERE custid = ?", &[customer])?.unwrap_or(0))
}

fn checking(sql: &mut Sql<'_>, customer: i64) -> Result<i64, Error> {
    Ok(sql.int("SELECT bal FROM checking WHERE custid = ?", &[customer])?.unwrap_or(0))
}

fn set_checking(sql: &mut Sql<'_>, customer: i64, balance: i64) -> Result<(), Error> {
    sql.run("UPDATE checking SET bal = ? WHERE custid = ?", &[balance, customer]).map(|_| ())
}

fn set_savings(sql: &mut Sql<'_>, customer: i64, balance: i64) -> Result<(), Error> {
    sql.run("UPDATE savings SET bal = ? WHERE custid = ?", &[balance, customer]).map(|_| ())
}

impl Suite for SmallBank {
    fn name(&self) -> &'static str {
        "SmallBank"
    }

    fn assertions(&self) -> &'static [(&'static str, &'static str)] {
        &[("A13", "the bank's money is what it was, and what deposits and cheques changed")]
    }

    fn setup(&self) -> Vec<String> {
        let mut setup = vec![
            "CREATE TABLE accounts (custid INT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            "CREATE TABLE savings (custid INT PRIMARY KEY, bal INT)".to_owned(),
            "CREATE TABLE checking (custid INT PRIMARY KEY, bal INT)".to_owned(),
        ];
        for c in 1..=CUSTOMERS {
            setup.push(format!("INSERT INTO accounts VALUES ({c}, 'customer {c}')"));
            setup.push(format!("INSERT INTO savings VALUES ({c}, {START})"));
            setup.push(format!("INSERT INTO checking VALUES ({c}, {START})"));
        }
        setup
    }

    fn transaction(&self, sql: &mut Sql<'_>, random: &mut fastrand::Rng) -> Result<i64, Error> {
        let a = random.i64(1..=CUSTOMERS);
        let b = (a + random.i64(1..CUSTOMERS) - 1) % CUSTOMERS + 1;
        let amount = random.i64(1..=50);
        match random.u8(..6) {
            // Balance
            0 => {
                savings(sql, a)?;
                checking(sql, a)?;
                Ok(0)
            }
            // DepositChecking
            1 => {
                let balance = checking(sql, a)?;
                set_checking(sql, a, balance + amount)?;
                Ok(amount)
            }
            // TransactSavings
            2 => {
                let balance = savings(sql, a)?;
                set_savings(sql, a, balance + amount)?;
                Ok(amount)
            }
            // Amalgamate: everything of one customer into the other's checking account
            3 => {
                let all = savings(sql, a)? + checking(sql, a)?;
                set_savings(sql, a, 0)?;
                set_checking(sql, a, 0)?;
                let balance = checking(sql, b)?;
                set_checking(sql, b, balance + all)?;
                Ok(0)
            }
            // WriteCheck, with a penalty for an overdraft
            4 => {
                let total = savings(sql, a)? + checking(sql, a)?;
                let taken = if total < amount { amount + 1 } else { amount };
                let balance = checking(sql, a)?;
                set_checking(sql, a, balance - taken)?;
                Ok(-taken)
            }
            // SendPayment
            _ => {
                let (from, to) = (checking(sql, a)?, checking(sql, b)?);
                if from >= amount {
                    set_checking(sql, a, from - amount)?;
                    set_checking(sql, b, to + amount)?;
                }
                Ok(0)
            }
        }
    }

    fn broken(&self, sql: &mut Sql<'_>, sum: i64) -> Result<Vec<usize>, Error> {
        let mut total = 0;
        for table in ["savings", "checking"] {
            let rows = sql.rows(&format!("SELECT bal FROM {table}"), &[])?;
            total += rows.iter().filter_map(|r| r[0]).sum::<i64>();
        }
        Ok(if total == 2 * CUSTOMERS * START + sum { Vec::new() } else { vec![0] })
    }
}
