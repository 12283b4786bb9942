//! Transactions per second over the socket, in the setting of the paper's section 8: TPC-C's five
//! transactions on one warehouse with two districts and three customers each, three sessions, causal.
//!
//! `cargo test --release -p anomalist-weakdb --features sql --test throughput -- --nocapture` measures;
//! otherwise a short run shows that it works.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "all of this is a test, helpers too")]

use anomalist_level::Level;
use anomalist_weakdb::{Options, Store};
use anomalist_weakdb_sql::Database;
use anomalist_weakdb_sql::wire::{Addresses, Server};
use std::time::Instant;
use tokio_postgres::{Client, Error, NoTls};

const SESSIONS: u64 = 3;
const ITEMS: i32 = 100;

const SCHEMA: &str = "
    CREATE TABLE warehouse (w_id INT PRIMARY KEY, w_tax NUMERIC(4,4), w_ytd NUMERIC(12,2));
    CREATE TABLE district (d_w_id INT, d_id INT, d_tax NUMERIC(4,4), d_ytd NUMERIC(12,2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id));
    CREATE TABLE customer (c_w_id INT, c_d_id INT, c_id INT, c_discount NUMERIC(4,4), c_balance NUMERIC(12,2),
        c_ytd_payment NUMERIC(12,2), c_payment_cnt INT, c_delivery_cnt INT, PRIMARY KEY (c_w_id, c_d_id, c_id));
    CREATE TABLE history (h_c_id INT, h_c_d_id INT, h_c_w_id INT, h_d_id INT, h_w_id INT, h_amount NUMERIC(6,2));
    CREATE TABLE item (i_id INT PRIMARY KEY, i_name VARCHAR(24), i_price NUMERIC(5,2));
    CREATE TABLE stock (s_w_id INT, s_i_id INT, s_quantity INT, s_ytd INT, s_order_cnt INT, PRIMARY KEY (s_w_id, s_i_id));
    CREATE TABLE orders (o_w_id INT, o_d_id INT, o_id INT, o_c_id INT, o_carrier_id INT, o_ol_cnt INT, PRIMARY KEY (o_w_id, o_d_id, o_id));
    CREATE TABLE new_order (no_w_id INT, no_d_id INT, no_o_id INT, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
    CREATE TABLE order_line (ol_w_id INT, ol_d_id INT, ol_o_id INT, ol_number INT, ol_i_id INT, ol_quantity INT,
        ol_amount NUMERIC(6,2), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
    INSERT INTO warehouse VALUES (1, 0.1, 300000);
    INSERT INTO district SELECT 1, d, 0.05, 30000, 1 FROM generate_series(1, 2) d;
    INSERT INTO customer SELECT 1, d, c, 0.1, -10, 10, 1, 0 FROM generate_series(1, 2) d, generate_series(1, 3) c;
    INSERT INTO item SELECT i, 'item', 1 + i % 9 FROM generate_series(1, 100) i;
    INSERT INTO stock SELECT 1, i, 50, 0, 0 FROM generate_series(1, 100) i";

async fn connect(server: &Server) -> Client {
    let at = server.postgres().unwrap();
    let url = format!("host={} port={} user=postgres", at.ip(), at.port());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn new_order(client: &mut Client, random: &mut fastrand::Rng) -> Result<(), Error> {
    let (d, c) = (random.i32(1..=2), random.i32(1..=3));
    let t = client.transaction().await?;
    t.query("SELECT c_discount::float8, w_tax::float8 FROM customer, warehouse WHERE w_id = 1 AND c_w_id = w_id AND c_d_id = $1 AND c_id = $2", &[&d, &c]).await?;
    let row = t
        .query_one("SELECT d_next_o_id FROM district WHERE d_w_id = 1 AND d_id = $1 FOR UPDATE", &[&d])
        .await?;
    let o: i32 = row.get(0);
    t.execute("UPDATE district SET d_next_o_id = $2 WHERE d_w_id = 1 AND d_id = $1", &[&d, &(o + 1)]).await?;
    let lines = random.i32(5..=15);
    t.execute("INSERT INTO orders VALUES (1, $1, $2, $3, NULL, $4)", &[&d, &o, &c, &lines]).await?;
    t.execute("INSERT INTO new_order VALUES (1, $1, $2)", &[&d, &o]).await?;
    for number in 1..=lines {
        let (item, quantity) = (random.i32(1..=ITEMS), random.i32(1..=10));
        let price: f64 =
            t.query_one("SELECT i_price::float8 FROM item WHERE i_id = $1", &[&item]).await?.get(0);
        let stock: i32 = t
            .query_one("SELECT s_quantity FROM stock WHERE s_w_id = 1 AND s_i_id = $1", &[&item])
            .await?
            .get(0);
        let left = if stock > quantity + 10 { stock - quantity } else { stock - quantity + 91 };
        t.execute("UPDATE stock SET s_quantity = $2, s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1 WHERE s_w_id = 1 AND s_i_id = $1", &[&item, &left, &quantity]).await?;
        let amount = price * f64::from(quantity);
        t.execute(
            "INSERT INTO order_line VALUES (1, $1, $2, $3, $4, $5, $6::float8)",
            &[&d, &o, &number, &item, &quantity, &amount],
        )
        .await?;
    }
    t.commit().await
}

async fn payment(client: &mut Client, random: &mut fastrand::Rng) -> Result<(), Error> {
    let (d, c, amount) = (random.i32(1..=2), random.i32(1..=3), f64::from(random.i32(1..=5000)));
    let t = client.transaction().await?;
    t.execute("UPDATE warehouse SET w_ytd = w_ytd + $1::float8 WHERE w_id = 1", &[&amount]).await?;
    t.execute(
        "UPDATE district SET d_ytd = d_ytd + $2::float8 WHERE d_w_id = 1 AND d_id = $1",
        &[&d, &amount],
    )
    .await?;
    t.query(
        "SELECT c_balance::float8 FROM customer WHERE c_w_id = 1 AND c_d_id = $1 AND c_id = $2 FOR UPDATE",
        &[&d, &c],
    )
    .await?;
    t.execute("UPDATE customer SET c_balance = c_balance - $3::float8, c_ytd_payment = c_ytd_payment + $3::float8, c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = 1 AND c_d_id = $1 AND c_id = $2", &[&d, &c, &amount]).await?;
    t.execute("INSERT INTO history VALUES ($2, $1, 1, $1, 1, $3::float8)", &[&d, &c, &amount]).await?;
    t.commit().await
}

async fn order_status(client: &mut Client, random: &mut fastrand::Rng) -> Result<(), Error> {
    let (d, c) = (random.i32(1..=2), random.i32(1..=3));
    let t = client.transaction().await?;
    let last = t.query_opt("SELECT o_id FROM orders WHERE o_w_id = 1 AND o_d_id = $1 AND o_c_id = $2 ORDER BY o_id DESC LIMIT 1", &[&d, &c]).await?;
    if let Some(row) = last {
        let o: i32 = row.get(0);
        t.query(
            "SELECT ol_i_id, ol_quantity FROM order_line WHERE ol_w_id = 1 AND ol_d_id = $1 AND ol_o_id = $2",
            &[&d, &o],
        )
        .await?;
    }
    t.commit().await
}

async fn delivery(client: &mut Client) -> Result<(), Error> {
    let t = client.transaction().await?;
    for d in 1..=2 {
        let first = t
            .query_opt(
                "SELECT no_o_id FROM new_order WHERE no_w_id = 1 AND no_d_id = $1 ORDER BY no_o_id LIMIT 1",
                &[&d],
            )
            .await?;
        let Some(row) = first else { continue };
        let o: i32 = row.get(0);
        t.execute("DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = $1 AND no_o_id = $2", &[&d, &o])
            .await?;
        t.execute(
            "UPDATE orders SET o_carrier_id = 1 WHERE o_w_id = 1 AND o_d_id = $1 AND o_id = $2",
            &[&d, &o],
        )
        .await?;
        let total = t.query_one("SELECT coalesce(sum(ol_amount), 0)::float8 FROM order_line WHERE ol_w_id = 1 AND ol_d_id = $1 AND ol_o_id = $2", &[&d, &o]).await?;
        let total: f64 = total.get(0);
        t.execute("UPDATE customer SET c_balance = c_balance + $2::float8, c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = 1 AND c_d_id = $1 AND c_id = 1", &[&d, &total]).await?;
    }
    t.commit().await
}

async fn stock_level(client: &mut Client, random: &mut fastrand::Rng) -> Result<(), Error> {
    let d = random.i32(1..=2);
    let t = client.transaction().await?;
    let next: i32 =
        t.query_one("SELECT d_next_o_id FROM district WHERE d_w_id = 1 AND d_id = $1", &[&d]).await?.get(0);
    t.query("SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = 1 AND ol_d_id = $1 AND ol_o_id < $2 AND ol_o_id >= $3 AND s_w_id = 1 AND s_i_id = ol_i_id AND s_quantity < 15", &[&d, &next, &(next - 20)]).await?;
    t.commit().await
}

#[test]
fn tpcc_over_the_socket() {
    let each = if cfg!(debug_assertions) { 20 } else { 700 };
    let store = Store::new(Options { seed: 1, ..Options::new(Level::Causal) }).unwrap();
    let server = Server::start(Database::new(store), &Addresses::free()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { connect(&server).await.batch_execute(SCHEMA).await.unwrap() });
    let begun = Instant::now();
    let (mut done, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let run = |session: u64| {
            let (server, runtime) = (&server, &runtime);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(session);
                runtime.block_on(async {
                    let mut client = connect(server).await;
                    let (mut done, mut refused) = (0, 0);
                    for _ in 0..each {
                        let outcome = match random.u32(..100) {
                            0..45 => new_order(&mut client, &mut random).await,
                            45..88 => payment(&mut client, &mut random).await,
                            88..92 => order_status(&mut client, &mut random).await,
                            92..96 => delivery(&mut client).await,
                            _ => stock_level(&mut client, &mut random).await,
                        };
                        match outcome {
                            Ok(()) => done += 1,
                            Err(error)
                                if error.code().is_some_and(|c| matches!(c.code(), "40001" | "23505")) =>
                            {
                                refused += 1
                            }
                            // A row that was seen to be missing at this level.
                            Err(error) if error.code().is_none() => refused += 1,
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                    (done, refused)
                })
            })
        };
        let sessions: Vec<_> = (0..SESSIONS).map(run).collect();
        for session in sessions {
            let (a, b) = session.join().unwrap();
            done += a;
            refused += b;
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    let rate = f64::from(done) / seconds;
    eprintln!("{done} transactions, {refused} refused, in {seconds:.1} s: {rate:.0} per second");
    assert!(done > 0);
    assert!(cfg!(debug_assertions) || rate >= 100.0, "{rate} transactions per second");
}
