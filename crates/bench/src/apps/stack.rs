//! Treiber's stack on a key-value store: `head` holds the name of the top node, a node its value and the
//! next one's name.
//!
//! Every read, write and compare-and-set is a transaction of its own. Two clients whose compare-and-set
//! both see the old head both succeed, and an element is popped twice.

use super::{App, Harness, Outcome};
use anomalist_explore::{Body, Client, Stop, Turns, concurrently};
use anomalist_weakdb::{Store, Value};
use std::sync::Arc;

/// The application. Operation 0 pushes, 1 pops.
pub struct Stack;

/// How often an operation tries before it gives up.
const TRIES: usize = 20;

fn push(client: &mut Client, element: i64) -> Result<bool, Stop> {
    let name = format!("node {element}");
    for _ in 0..TRIES {
        let top = client.transaction(|t| t.read("head"))?;
        let node = vec![Value::Int(element), top.clone().unwrap_or(Value::Null)];
        client.transaction(|t| t.write(&name, node.clone()))?;
        if client.transaction(|t| t.compare_and_set("head", top.as_ref(), name.as_str()))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn pop(client: &mut Client) -> Result<Option<i64>, Stop> {
    for _ in 0..TRIES {
        let top = client.transaction(|t| t.read("head"))?;
        let Some(name) = top.as_ref().and_then(Value::as_text).filter(|n| !n.is_empty()) else {
            return Ok(None);
        };
        let node = client.transaction(|t| t.read(name))?;
        let Some([Value::Int(element), next]) = node.as_ref().and_then(Value::as_list) else {
            // Below causal consistency the head may be seen before its node.
            continue;
        };
        let next = next.as_text().unwrap_or_default().to_owned();
        if client.transaction(|t| t.compare_and_set("head", top.as_ref(), next.as_str()))? {
            return Ok(Some(*element));
        }
    }
    Ok(None)
}

impl App for Stack {
    fn name(&self) -> &'static str {
        "Stack"
    }

    fn assertions(&self) -> &'static [(&'static str, f64)] {
        &[("Element popped more than once", 3.7)]
    }

    fn program(&self, _: usize, _: &mut fastrand::Rng) -> Harness {
        vec![vec![(0, 0), (1, 0), (1, 0)]; 3]
    }

    fn operations(&self) -> (u8, u8) {
        (2, 1)
    }

    fn initial(&self, _: usize) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    fn run(&self, store: &Arc<Store>, turns: &Turns, harness: &Harness) -> Result<Outcome, Stop> {
        let bodies = harness.iter().map(|operations| -> Body<'_, Vec<Option<i64>>> {
            Box::new(move |client| {
                let mut popped = Vec::new();
                for (i, (kind, _)) in operations.iter().enumerate() {
                    if *kind == 0 {
                        push(client, (client.number() * 10 + i) as i64)?;
                    } else {
                        popped.push(pop(client)?);
                    }
                }
                Ok(popped)
            })
        });
        let popped = concurrently(store, turns, bodies.collect())?;
        let mut elements: Vec<i64> = popped.iter().flatten().flatten().copied().collect();
        elements.sort_unstable();
        let twice = elements.windows(2).any(|w| w[0] == w[1]);
        Ok(Outcome { broken: if twice { vec![0] } else { Vec::new() }, observed: format!("{popped:?}") })
    }
}
