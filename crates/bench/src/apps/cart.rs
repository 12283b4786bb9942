//! A shopping cart: one key per user holds the items, each operation is a transaction.
//!
//! The cart holds one instance of an item. One browser window adds another, one deletes all. A client that
//! sees the cart without the item must not see two instances afterwards, since only one was ever added.

use super::{App, Harness, Outcome, read_set};
use anomalist_explore::{Body, Client, Stop, Turns, concurrently};
use anomalist_weakdb::{Store, Value};
use std::sync::Arc;

/// The application. Operations: 0 adds the item, 1 deletes all instances of it, 2 looks into the cart.
pub struct Cart;

/// What a client saw: the number of instances of each item.
type Seen = Vec<[usize; 2]>;

fn item(number: u8) -> Value {
    Value::Int(i64::from(number))
}

fn act(client: &mut Client, (kind, argument): (u8, u8), seen: &mut Seen) -> Result<(), Stop> {
    let cart = client.transaction(|t| {
        let mut cart = read_set(t, "cart")?;
        match kind {
            0 => cart.push(item(argument)),
            1 => cart.retain(|i| *i != item(argument)),
            _ => return Ok(cart),
        }
        t.write("cart", cart.clone())?;
        Ok(cart)
    })?;
    if kind > 1 {
        let count = |n: u8| cart.iter().filter(|i| **i == item(n)).count();
        seen.push([count(0), count(1)]);
    }
    Ok(())
}

impl App for Cart {
    fn name(&self) -> &'static str {
        "Shopping"
    }

    fn assertions(&self) -> &'static [(&'static str, f64)] {
        &[("Item reappears after deletion", 20.2)]
    }

    fn program(&self, _: usize, _: &mut fastrand::Rng) -> Harness {
        let look = (2, 0);
        vec![vec![(0, 0), look, look], vec![(1, 0), look, look], vec![look, look, look]]
    }

    fn operations(&self) -> (u8, u8) {
        (3, 2)
    }

    fn initial(&self, _: usize) -> Vec<(&'static str, Value)> {
        vec![("cart", vec![item(0)].into())]
    }

    fn run(&self, store: &Arc<Store>, turns: &Turns, harness: &Harness) -> Result<Outcome, Stop> {
        let bodies = harness.iter().map(|operations| -> Body<'_, Seen> {
            Box::new(move |client| {
                let mut seen = Vec::new();
                for &operation in operations {
                    act(client, operation, &mut seen)?;
                }
                Ok(seen)
            })
        });
        let seen = concurrently(store, turns, bodies.collect())?;
        let added = harness.iter().flatten().filter(|&&o| o == (0, 0)).count();
        // Without the item, and later with more instances than were ever added.
        let reappears = seen.iter().any(|views| {
            let gone = views.iter().position(|v| v[0] == 0);
            gone.is_some_and(|at| views[at..].iter().any(|v| v[0] > added))
        });
        Ok(Outcome { broken: if reappears { vec![0] } else { Vec::new() }, observed: format!("{seen:?}") })
    }
}
