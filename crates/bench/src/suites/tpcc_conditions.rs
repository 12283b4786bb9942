//! TPC-C's twelve consistency conditions (clause 3.3.2), over all tables read in one transaction.
//!
//! Condition 11 asks for 2100 orders more than new orders in each district, which is the number of
//! delivered orders of the initial population. Deliveries add to it, so here it is the number of the orders
//! that have a carrier.

use super::Sql;
use super::tpcc::{CUSTOMERS, DISTRICTS};
use anomalist_databases::Error;

/// A row of integers; `None` is null.
type Row = Vec<Option<i64>>;

/// What the assertions' transaction read.
pub(super) struct State {
    warehouse: Vec<Row>,
    /// id, total, next order
    district: Vec<Row>,
    /// district, id, balance, payments
    customer: Vec<Row>,
    /// district, customer, amount
    history: Vec<Row>,
    /// district, id, customer, carrier, lines
    orders: Vec<Row>,
    /// district, order
    new_order: Vec<Row>,
    /// district, order, amount, delivered
    lines: Vec<Row>,
}

/// The sum of a column over rows that match.
fn sum(rows: &[Row], column: usize, matches: impl Fn(&Row) -> bool) -> i64 {
    rows.iter().filter(|r| matches(r)).filter_map(|r| r[column]).sum()
}

impl State {
    pub fn read(sql: &mut Sql<'_>) -> Result<State, Error> {
        Ok(State {
            warehouse: sql.rows("SELECT w_ytd FROM warehouse", &[])?,
            district: sql.rows("SELECT d_id, d_ytd, d_next_o_id FROM district", &[])?,
            customer: sql.rows("SELECT c_d_id, c_id, c_balance, c_ytd_payment FROM customer", &[])?,
            history: sql.rows("SELECT h_d_id, h_c_id, h_amount FROM history", &[])?,
            orders: sql.rows("SELECT o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt FROM orders", &[])?,
            new_order: sql.rows("SELECT no_d_id, no_o_id FROM new_order", &[])?,
            lines: sql.rows("SELECT ol_d_id, ol_o_id, ol_amount, ol_delivery_d FROM order_line", &[])?,
        })
    }

    /// The conditions that do not hold, from 0.
    pub fn broken(&self) -> Vec<usize> {
        let total = self.warehouse.first().and_then(|w| w[0]);
        let districts: Vec<i64> = (1..=DISTRICTS).collect();
        let holds = [
            total == Some(sum(&self.district, 1, |_| true)),
            districts.iter().all(|&d| self.next_follows_last(d)),
            districts.iter().all(|&d| self.new_orders_have_no_gap(d)),
            districts.iter().all(|&d| {
                let lines = self.lines.iter().filter(|l| l[0] == Some(d)).count();
                sum(&self.orders, 4, |o| o[0] == Some(d)) == lines as i64
            }),
            self.orders.iter().all(|o| o[3].is_none() == self.is_new(o)),
            self.orders.iter().all(|o| o[4] == Some(self.lines_of(o).count() as i64)),
            // Lines without an order are no business of this condition's.
            self.orders.iter().all(|o| self.lines_of(o).all(|l| l[3].is_some() == o[3].is_some())),
            total == Some(sum(&self.history, 2, |_| true)),
            self.district.iter().all(|d| d[1] == Some(sum(&self.history, 2, |h| h[0] == d[0]))),
            self.customer.iter().all(|c| c[2] == Some(self.delivered_to(c) - self.paid_by(c))),
            districts.iter().all(|&d| {
                let of = |rows: &[Row]| rows.iter().filter(|r| r[0] == Some(d)).count() as i64;
                let delivered =
                    self.orders.iter().filter(|o| o[0] == Some(d) && o[3].is_some()).count() as i64;
                of(&self.orders) - of(&self.new_order) == delivered
            }),
            self.customer.iter().all(|c| {
                let both = c[2].unwrap_or(0) + c[3].unwrap_or(0);
                both == self.delivered_to(c)
            }),
        ];
        debug_assert_eq!(
            self.customer.len() as i64,
            DISTRICTS * CUSTOMERS,
            "no transaction adds or removes customers"
        );
        (0..holds.len()).filter(|&i| !holds[i]).collect()
    }

    fn next_follows_last(&self, district: i64) -> bool {
        let last = |rows: &[Row]| rows.iter().filter(|r| r[0] == Some(district)).filter_map(|r| r[1]).max();
        let next = self.district.iter().find(|d| d[0] == Some(district)).and_then(|d| d[2]);
        let new = last(&self.new_order);
        // Where all orders are delivered there is no last new one.
        next.map(|n| n - 1) == last(&self.orders) && (new.is_none() || new == last(&self.orders))
    }

    fn new_orders_have_no_gap(&self, district: i64) -> bool {
        let ids: Vec<i64> =
            self.new_order.iter().filter(|r| r[0] == Some(district)).filter_map(|r| r[1]).collect();
        match (ids.iter().min(), ids.iter().max()) {
            (Some(least), Some(most)) => most - least + 1 == ids.len() as i64,
            _ => true,
        }
    }

    fn is_new(&self, order: &Row) -> bool {
        self.new_order.iter().any(|n| n[..2] == order[..2])
    }

    fn lines_of<'a>(&'a self, order: &'a Row) -> impl Iterator<Item = &'a Row> {
        self.lines.iter().filter(|l| l[..2] == order[..2])
    }

    /// The amounts of a customer's delivered lines.
    fn delivered_to(&self, customer: &Row) -> i64 {
        let own = self.orders.iter().filter(|o| o[0] == customer[0] && o[2] == customer[1]);
        own.flat_map(|o| self.lines_of(o)).filter(|l| l[3].is_some()).filter_map(|l| l[2]).sum()
    }

    fn paid_by(&self, customer: &Row) -> i64 {
        sum(&self.history, 2, |h| h[..2] == customer[..2])
    }
}
