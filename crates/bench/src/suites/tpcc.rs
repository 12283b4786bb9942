//! TPC-C (specification 5.11), as small as in the MonkeyDB paper: one warehouse, two districts, three
//! customers each.
//!
//! All nine tables with the columns that the five transactions and the twelve consistency conditions need;
//! amounts in cents. The mix has the paper's share of updates. Orders have one to four lines instead of
//! five to fifteen.

use super::tpcc_conditions::State;
use super::{Sql, Suite};
use anomalist_databases::{Error, Kind};

/// The suite.
pub struct Tpcc {
    /// Sessions enter orders and payments only for districts of their own, as the terminals of OLTPBench
    /// do, which the paper ran. Otherwise for any of them, as the specification has it (2.4.1.1, 2.5.1.1).
    pub own_districts: bool,
}

pub(super) const DISTRICTS: i64 = 2;
pub(super) const CUSTOMERS: i64 = 3;
/// Orders of each district to begin with: one per customer, the last not yet delivered.
const DELIVERED: i64 = CUSTOMERS - 1;
const ITEMS: i64 = 6;
/// What every customer has paid to begin with.
const PAID: i64 = 1000;

fn new_order(sql: &mut Sql<'_>, random: &mut fastrand::Rng, d: i64) -> Result<i64, Error> {
    let c = random.i64(1..=CUSTOMERS);
    let lines = random.i64(1..=4);
    sql.run("SELECT c_balance FROM customer WHERE c_d_id = ? AND c_id = ?", &[d, c])?;
    let Some(o) = sql.int("SELECT d_next_o_id FROM district WHERE d_id = ?", &[d])? else { return Ok(0) };
    sql.run("UPDATE district SET d_next_o_id = ? WHERE d_id = ?", &[o + 1, d])?;
    sql.run("INSERT INTO orders VALUES (?, ?, ?, NULL, ?)", &[d, o, c, lines])?;
    sql.run("INSERT INTO new_order VALUES (?, ?)", &[d, o])?;
    for number in 1..=lines {
        let (item, quantity) = (random.i64(1..=ITEMS), random.i64(1..=10));
        let price = sql.int("SELECT i_price FROM item WHERE i_id = ?", &[item])?.unwrap_or(0);
        let stock = sql.int("SELECT s_quantity FROM stock WHERE s_i_id = ?", &[item])?.unwrap_or(0);
        let left = if stock >= quantity + 10 { stock - quantity } else { stock - quantity + 91 };
        sql.run("UPDATE stock SET s_quantity = ? WHERE s_i_id = ?", &[left, item])?;
        let amount = price * quantity;
        sql.run(
            "INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, NULL)",
            &[d, o, number, item, quantity, amount],
        )?;
    }
    Ok(0)
}

fn payment(sql: &mut Sql<'_>, random: &mut fastrand::Rng, d: i64) -> Result<i64, Error> {
    let (c, amount) = (random.i64(1..=CUSTOMERS), random.i64(100..=5000));
    sql.run("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = 1", &[amount])?;
    sql.run("UPDATE district SET d_ytd = d_ytd + ? WHERE d_id = ?", &[amount, d])?;
    // Retrieved, changed and written back, as 2.5.2.2 says and OLTPBench does.
    let customer =
        "SELECT c_balance, c_ytd_payment, c_payment_cnt FROM customer WHERE c_d_id = ? AND c_id = ?";
    let found = sql.rows(customer, &[d, c])?;
    let [Some(balance), Some(paid), Some(count)] = found.first().map_or(&[][..], Vec::as_slice) else {
        return Err(Error::new(Kind::Other, "no such customer"));
    };
    let update = "UPDATE customer SET c_balance = ?, c_ytd_payment = ?, c_payment_cnt = ? WHERE c_d_id = ? AND c_id = ?";
    sql.change(update, &[balance - amount, paid + amount, count + 1, d, c])?;
    let id = sql.fresh();
    sql.run("INSERT INTO history VALUES (?, ?, ?, ?)", &[id, d, c, amount])?;
    Ok(0)
}

fn delivery(sql: &mut Sql<'_>, random: &mut fastrand::Rng) -> Result<i64, Error> {
    let carrier = random.i64(1..=10);
    for d in 1..=DISTRICTS {
        let oldest = "SELECT no_o_id FROM new_order WHERE no_d_id = ? ORDER BY no_o_id LIMIT 1";
        let Some(o) = sql.int(oldest, &[d])? else { continue };
        // Below causal consistency an order's parts may be seen one by one: then it is not delivered.
        sql.change("DELETE FROM new_order WHERE no_d_id = ? AND no_o_id = ?", &[d, o])?;
        let customer = sql.int("SELECT o_c_id FROM orders WHERE o_d_id = ? AND o_id = ?", &[d, o])?;
        let c = customer.ok_or_else(|| Error::new(Kind::Other, "a new order without an order"))?;
        sql.change("UPDATE orders SET o_carrier_id = ? WHERE o_d_id = ? AND o_id = ?", &[carrier, d, o])?;
        let now = sql.fresh();
        sql.change(
            "UPDATE order_line SET ol_delivery_d = ? WHERE ol_d_id = ? AND ol_o_id = ?",
            &[now, d, o],
        )?;
        let amounts =
            sql.rows("SELECT ol_amount FROM order_line WHERE ol_d_id = ? AND ol_o_id = ?", &[d, o])?;
        let total: i64 = amounts.iter().filter_map(|r| r[0]).sum();
        let paid = "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
                    WHERE c_d_id = ? AND c_id = ?";
        sql.change(paid, &[total, d, c])?;
    }
    Ok(0)
}

fn order_status(sql: &mut Sql<'_>, random: &mut fastrand::Rng, d: i64) -> Result<i64, Error> {
    let c = random.i64(1..=CUSTOMERS);
    sql.run("SELECT c_balance FROM customer WHERE c_d_id = ? AND c_id = ?", &[d, c])?;
    let last = "SELECT o_id FROM orders WHERE o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1";
    if let Some(o) = sql.int(last, &[d, c])? {
        sql.rows("SELECT ol_i_id, ol_quantity FROM order_line WHERE ol_d_id = ? AND ol_o_id = ?", &[d, o])?;
    }
    Ok(0)
}

fn stock_level(sql: &mut Sql<'_>, d: i64) -> Result<i64, Error> {
    let next = sql.int("SELECT d_next_o_id FROM district WHERE d_id = ?", &[d])?.unwrap_or(0);
    let items =
        sql.rows("SELECT ol_i_id FROM order_line WHERE ol_d_id = ? AND ol_o_id = ?", &[d, next - 1])?;
    for item in items.iter().filter_map(|r| r[0]) {
        sql.int("SELECT s_quantity FROM stock WHERE s_i_id = ?", &[item])?;
    }
    Ok(0)
}

impl Tpcc {
    /// The district that a session works for. Where there are more sessions than districts, some have the
    /// same one.
    fn district(&self, (session, sessions): (usize, usize), random: &mut fastrand::Rng) -> i64 {
        if !self.own_districts {
            return random.i64(1..=DISTRICTS);
        }
        let until = |session: usize| (session as i64 * DISTRICTS) / sessions as i64;
        let first = until(session) + 1;
        random.i64(first..=until(session + 1).max(first))
    }
}

impl Suite for Tpcc {
    fn name(&self) -> &'static str {
        if self.own_districts { "TPC-C own" } else { "TPC-C" }
    }

    fn assertions(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("A1", "the warehouse's total is its districts'"),
            ("A2", "a district's next order follows its last order and its last new one"),
            ("A3", "a district's new orders have no gap"),
            ("A4", "a district's orders have as many lines as they say, in all"),
            ("A5", "an order has a carrier unless it is new"),
            ("A6", "an order has as many lines as it says"),
            ("A7", "a line is delivered if and only if its order has a carrier"),
            ("A8", "the warehouse's total is its payments'"),
            ("A9", "a district's total is its payments'"),
            ("A10", "a customer's balance is what was delivered less what was paid"),
            ("A11", "a district's orders that are not new are those that have a carrier"),
            ("A12", "a customer's balance and payments make up what was delivered"),
        ]
    }

    fn setup(&self) -> Vec<String> {
        let mut setup: Vec<String> = [
            "CREATE TABLE warehouse (w_id INT PRIMARY KEY, w_ytd INT)",
            "CREATE TABLE district (d_id INT PRIMARY KEY, d_ytd INT, d_next_o_id INT)",
            "CREATE TABLE customer (c_d_id INT, c_id INT, c_balance INT, c_ytd_payment INT, c_payment_cnt INT, \
             c_delivery_cnt INT, PRIMARY KEY (c_d_id, c_id))",
            "CREATE TABLE history (h_id INT PRIMARY KEY, h_d_id INT, h_c_id INT, h_amount INT)",
            "CREATE TABLE orders (o_d_id INT, o_id INT, o_c_id INT, o_carrier_id INT, o_ol_cnt INT, \
             PRIMARY KEY (o_d_id, o_id))",
            "CREATE TABLE new_order (no_d_id INT, no_o_id INT, PRIMARY KEY (no_d_id, no_o_id))",
            "CREATE TABLE order_line (ol_d_id INT, ol_o_id INT, ol_number INT, ol_i_id INT, ol_quantity INT, \
             ol_amount INT, ol_delivery_d INT, PRIMARY KEY (ol_d_id, ol_o_id, ol_number))",
            "CREATE TABLE item (i_id INT PRIMARY KEY, i_price INT)",
            "CREATE TABLE stock (s_i_id INT PRIMARY KEY, s_quantity INT)",
        ]
        .map(str::to_owned)
        .into();
        let mut insert = |table: &str, row: String| setup.push(format!("INSERT INTO {table} VALUES ({row})"));
        insert("warehouse", format!("1, {}", DISTRICTS * CUSTOMERS * PAID));
        for item in 1..=ITEMS {
            insert("item", format!("{item}, {}", 100 * item));
            insert("stock", format!("{item}, 50"));
        }
        for d in 1..=DISTRICTS {
            insert("district", format!("{d}, {}, {}", CUSTOMERS * PAID, CUSTOMERS + 1));
            for c in 1..=CUSTOMERS {
                insert("customer", format!("{d}, {c}, -{PAID}, {PAID}, 1, 0"));
                insert("history", format!("{}, {d}, {c}, {PAID}", d * 100 + c));
                // Orders that were delivered before time began cost nothing (4.3.3.1).
                let new = c > DELIVERED;
                let (carrier, date) = if new { ("NULL", "NULL") } else { ("1", "1") };
                insert("orders", format!("{d}, {c}, {c}, {carrier}, 2"));
                for number in 1..=2 {
                    let amount = if new { 500 } else { 0 };
                    insert("order_line", format!("{d}, {c}, {number}, {number}, 5, {amount}, {date}"));
                }
                if new {
                    insert("new_order", format!("{d}, {c}"));
                }
            }
        }
        setup
    }

    fn transaction(&self, sql: &mut Sql<'_>, random: &mut fastrand::Rng) -> Result<i64, Error> {
        let d = self.district(sql.session(), random);
        match random.u8(..100) {
            0..40 => new_order(sql, random, d),
            40..70 => payment(sql, random, d),
            70..90 => delivery(sql, random),
            90..95 => order_status(sql, random, d),
            _ => stock_level(sql, d),
        }
    }

    fn broken(&self, sql: &mut Sql<'_>, _: i64) -> Result<Vec<usize>, Error> {
        Ok(State::read(sql)?.broken())
    }
}
