//! Applications as reads and writes of their rows' columns, each value written once.
//!
//! What a benchmark computes does not matter to isolation, so a column is a register and a transaction is
//! the registers it reads and writes, in the order of its statements: the mapping that Cobra, PolySI and
//! Plume use for the same benchmarks. Mixes are the benchmarks' own. `keys` is the scale: customers, users,
//! students.
//!
//! Rows that a transaction creates have numbers of their own; an order's customer and length follow from
//! its number, so that later transactions find them.

use super::{Key, Op};
use crate::sample::Sampler;

/// What a plan draws from.
pub(super) struct Deal<'a> {
    pub rng: &'a mut fastrand::Rng,
    pub sampler: &'a Sampler,
    /// Number of customers, users or students.
    pub scale: u64,
    pub value: &'a mut i64,
    /// The number of the next row that is created.
    pub fresh: &'a mut u64,
}

/// Columns, by the name of their table. A key is the column's place here and the row's number.
const COLUMNS: [&str; 28] = [
    "checking",
    "savings",
    "warehouse.tax",
    "warehouse.ytd",
    "district.next_order",
    "district.ytd",
    "customer.balance",
    "customer.credit",
    "stock.quantity",
    "order.carrier",
    "new_order",
    "order_line",
    "history",
    "contestant.votes",
    "phone.votes",
    "tweet",
    "user.tweets",
    "user.follows",
    "user.followers",
    "item.max_bid",
    "item.bids",
    "item.quantity",
    "bid",
    "user.rating",
    "student",
    "course.capacity",
    "course.enrolled",
    "enrolment",
];

const ROW_BITS: u32 = 48;

/// The register of a column of a row.
fn at(column: &'static str, row: u64) -> Key {
    let place = COLUMNS.iter().position(|&c| c == column).unwrap_or(0) as u64;
    place << ROW_BITS | row
}

/// What the key of an application is called: column and row.
pub(super) fn name(key: Key) -> String {
    let column = COLUMNS.get((key >> ROW_BITS) as usize).copied().unwrap_or("row");
    format!("{column}/{}", key & ((1 << ROW_BITS) - 1))
}

/// A number that depends on `n` and nothing else.
fn scatter(n: u64) -> u64 {
    (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
}

const DISTRICTS: u64 = 10;

impl Deal<'_> {
    fn someone(&mut self) -> u64 {
        self.sampler.sample(self.rng)
    }

    /// Two, different if there are two.
    fn two(&mut self) -> (u64, u64) {
        let one = self.someone();
        if self.scale < 2 {
            return (one, one);
        }
        let other = self.rng.u64(0..self.scale - 1);
        (one, if other >= one { other + 1 } else { other })
    }

    fn create(&mut self) -> u64 {
        *self.fresh += 1;
        *self.fresh - 1
    }

    /// A row that was created lately, if any was.
    fn recent(&mut self) -> u64 {
        self.fresh.saturating_sub(self.rng.u64(1..=20))
    }

    fn write(&mut self, column: &'static str, row: u64) -> Op {
        *self.value += 1;
        Op::Write(at(column, row), *self.value)
    }

    /// Reads and writes a column.
    fn change(&mut self, ops: &mut Vec<Op>, column: &'static str, row: u64) {
        ops.push(read(column, row));
        let write = self.write(column, row);
        ops.push(write);
    }

    /// One of several things, with these weights.
    fn choose(&mut self, weights: &[u32]) -> usize {
        let mut drawn = self.rng.u32(0..weights.iter().sum());
        for (i, &weight) in weights.iter().enumerate() {
            if drawn < weight {
                return i;
            }
            drawn -= weight;
        }
        0
    }
}

fn read(column: &'static str, row: u64) -> Op {
    Op::Read(at(column, row))
}

/// Plans one transaction of an application.
pub(super) type Application = fn(&mut Deal<'_>, &mut Vec<Op>);

pub(super) fn smallbank(deal: &mut Deal<'_>, ops: &mut Vec<Op>) {
    let (a, b) = deal.two();
    match deal.choose(&[15, 15, 15, 25, 15, 15]) {
        // Balance
        0 => ops.extend([read("savings", a), read("checking", a)]),
        // DepositChecking
        1 => deal.change(ops, "checking", a),
        // TransactSavings
        2 => deal.change(ops, "savings", a),
        // SendPayment
        3 => {
            ops.extend([read("checking", a), read("checking", b)]);
            ops.extend([deal.write("checking", a), deal.write("checking", b)]);
        }
        // Amalgamate
        4 => {
            ops.extend([read("savings", a), read("checking", a)]);
            ops.extend([deal.write("savings", a), deal.write("checking", a)]);
            deal.change(ops, "checking", b);
        }
        // WriteCheck: reads both, writes one; two of these are the textbook's write skew.
        _ => {
            ops.extend([read("savings", a), read("checking", a)]);
            ops.push(deal.write("checking", a));
        }
    }
}

fn lines(order: u64) -> u64 {
    5 + scatter(order) % 11
}

pub(super) fn tpcc(deal: &mut Deal<'_>, ops: &mut Vec<Op>) {
    let scale = deal.scale;
    let customer = deal.someone();
    let district = deal.rng.u64(0..DISTRICTS);
    match deal.choose(&[45, 43, 4, 4, 4]) {
        // NewOrder
        0 => {
            let order = deal.create();
            ops.push(read("warehouse.tax", 0));
            deal.change(ops, "district.next_order", district);
            ops.push(read("customer.credit", scatter(order) % scale));
            for line in 0..lines(order) {
                let item = deal.someone();
                deal.change(ops, "stock.quantity", item);
                ops.push(deal.write("order_line", order * 16 + line));
            }
            ops.extend([deal.write("order.carrier", order), deal.write("new_order", order)]);
        }
        // Payment
        1 => {
            deal.change(ops, "warehouse.ytd", 0);
            deal.change(ops, "district.ytd", district);
            deal.change(ops, "customer.balance", customer);
            let row = deal.create();
            ops.push(deal.write("history", row));
        }
        // OrderStatus
        2 => {
            let order = deal.recent();
            ops.push(read("customer.balance", scatter(order) % scale));
            ops.push(read("order.carrier", order));
            ops.extend((0..lines(order)).map(|line| read("order_line", order * 16 + line)));
        }
        // Delivery
        3 => {
            for _ in 0..DISTRICTS {
                let order = deal.recent();
                deal.change(ops, "new_order", order);
                deal.change(ops, "order.carrier", order);
                for line in 0..lines(order) {
                    deal.change(ops, "order_line", order * 16 + line);
                }
                deal.change(ops, "customer.balance", scatter(order) % scale);
            }
        }
        // StockLevel
        _ => {
            ops.push(read("district.next_order", district));
            for _ in 0..20 {
                let item = deal.someone();
                ops.push(read("stock.quantity", item));
            }
        }
    }
}

pub(super) fn voter(deal: &mut Deal<'_>, ops: &mut Vec<Op>) {
    let (phone, contestant) = (deal.someone(), deal.rng.u64(0..6));
    deal.change(ops, "phone.votes", phone);
    deal.change(ops, "contestant.votes", contestant);
}

pub(super) fn twitter(deal: &mut Deal<'_>, ops: &mut Vec<Op>) {
    let (a, b) = deal.two();
    match deal.choose(&[30, 30, 20, 20]) {
        // GetTweet
        0 => {
            let tweet = deal.recent();
            ops.push(read("tweet", tweet));
        }
        // GetTweetsFromFollowing
        1 => {
            ops.push(read("user.follows", a));
            for _ in 0..5 {
                let tweet = deal.recent();
                ops.push(read("tweet", tweet));
            }
        }
        // InsertTweet
        2 => {
            let tweet = deal.create();
            ops.push(deal.write("tweet", tweet));
            deal.change(ops, "user.tweets", a);
        }
        // Follow
        _ => {
            deal.change(ops, "user.follows", a);
            deal.change(ops, "user.followers", b);
        }
    }
}

pub(super) fn rubis(deal: &mut Deal<'_>, ops: &mut Vec<Op>) {
    let (user, item) = deal.two();
    match deal.choose(&[40, 30, 10, 10, 10]) {
        // ViewItem
        0 => ops.extend(["item.max_bid", "item.bids", "item.quantity"].map(|column| read(column, item))),
        // StoreBid
        1 => {
            ops.extend([read("item.max_bid", item), read("item.bids", item)]);
            let bid = deal.create();
            ops.push(deal.write("bid", bid));
            ops.extend([deal.write("item.max_bid", item), deal.write("item.bids", item)]);
        }
        // BuyNow
        2 => deal.change(ops, "item.quantity", item),
        // StoreComment
        3 => deal.change(ops, "user.rating", user),
        // ViewUserInfo
        _ => {
            let bid = deal.recent();
            ops.extend([read("user.rating", user), read("bid", bid)]);
        }
    }
}

pub(super) fn courseware(deal: &mut Deal<'_>, ops: &mut Vec<Op>) {
    let (student, course) = (deal.someone(), deal.rng.u64(0..5));
    let enrolment = student * 8 + course;
    match deal.choose(&[40, 20, 10, 10, 20]) {
        // Enrol: the capacity is checked against the number of those enrolled.
        0 => {
            ops.extend([read("student", student), read("course.capacity", course)]);
            deal.change(ops, "course.enrolled", course);
            ops.push(deal.write("enrolment", enrolment));
        }
        // Leave
        1 => {
            deal.change(ops, "enrolment", enrolment);
            deal.change(ops, "course.enrolled", course);
        }
        // RegisterStudent
        2 => ops.push(deal.write("student", student)),
        // ChangeCapacity
        3 => {
            ops.push(read("course.enrolled", course));
            ops.push(deal.write("course.capacity", course));
        }
        // ListEnrolments
        _ => {
            ops.push(read("course.enrolled", course));
            for _ in 0..4 {
                let student = deal.someone();
                ops.push(read("enrolment", student * 8 + course));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClientSpec, Planner, Workload};
    use super::*;

    #[test]
    fn keys_have_names() {
        assert_eq!(name(at("savings", 7)), "savings/7");
        assert_eq!(name(at("order_line", 35)), "order_line/35");
        for column in COLUMNS {
            assert_eq!(name(at(column, 1)), format!("{column}/1"));
        }
    }

    #[test]
    fn only_columns_that_exist_are_used() {
        // `at` takes an unknown column for the first: only SmallBank may touch that one.
        for application in
            [Workload::TpcC, Workload::Voter, Workload::Twitter, Workload::Rubis, Workload::Courseware]
        {
            let spec = ClientSpec::of(application);
            let mut planner = Planner::new(&spec).unwrap();
            let mut ops = Vec::new();
            for _ in 0..2_000 {
                planner.next(&mut ops);
                for op in &ops {
                    let (Op::Read(key) | Op::Write(key, _)) = *op else { panic!("{op:?}") };
                    assert!(!name(key).starts_with("checking/"), "{application:?}: {op:?}");
                }
            }
        }
    }
}
