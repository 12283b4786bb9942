//! Counter: every read lies between what must have been added by then and what may have been.
//!
//! Let a read begin at b and end at e. What must count: adds that were ok before b. What may count besides:
//! adds that did not fail and began before e. The read must lie between the sum of the former plus all
//! negative ones of the latter, and the sum of the former plus all positive ones. Jepsen's rule, which
//! knows increments only, is the same without the negative ones.
//!
//! A counter that was never read keeps the rule. This is necessary for linearizability and session
//! guarantees alike, not sufficient: two reads may each be in bounds and contradict each other. An initial
//! value other than 0 is not known. O(n).

use super::{Malformed, ModelResult, show};
use anomalist_history::{Datum, Events};

/// A read with the bounds it must respect.
pub(crate) struct Bounded {
    pub lower: i128,
    pub value: i64,
    pub upper: i128,
    /// Where it completed.
    pub position: usize,
}

impl Bounded {
    pub fn holds(&self) -> bool {
        (self.lower..=self.upper).contains(&i128::from(self.value))
    }
}

/// Every ok read with its bounds, in the order of completion.
pub(crate) fn bounded_reads(events: &Events) -> Result<Vec<Bounded>, Malformed> {
    let ops = events.operations();
    // What happens at a position: 2 × position for beginnings, + 1 for ends.
    let mut moments: Vec<(usize, usize)> = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        if op.failed() {
            continue;
        }
        moments.push((2 * op.began, i));
        moments.extend(op.completion.filter(|_| op.is_ok()).map(|end| (2 * end + 1, i)));
    }
    moments.sort_unstable();
    // Sums over adds: those certain, and the positive and negative ones that have begun and are not certain.
    let (mut certain, mut above, mut below) = (0i128, 0i128, 0i128);
    // Per operation: the sums when it began. Adds that were open or began since are what may count.
    let mut begun = vec![(0i128, 0i128, 0i128); ops.len()];
    // Sums of all adds that have begun: those that are open now are the difference to the certain.
    let (mut begun_above, mut begun_below) = (0i128, 0i128);
    let mut reads = Vec::new();
    for (moment, i) in moments {
        let (op, ended) = (&ops[i], moment % 2 == 1);
        match events.f(op) {
            "add" | "increment" | "inc" => {
                let event = events.get(op.invocation.unwrap_or(op.shown()));
                let amount = event.value.as_int().ok_or_else(|| Malformed::new(event, "a whole number"))?;
                let amount = i128::from(amount);
                if ended {
                    certain += amount;
                    above -= amount.max(0);
                    below -= amount.min(0);
                } else {
                    above += amount.max(0);
                    below += amount.min(0);
                    begun_above += amount.max(0);
                    begun_below += amount.min(0);
                }
            }
            "read" if !ended => begun[i] = (certain, above - begun_above, below - begun_below),
            "read" => {
                let event = events.get(op.shown());
                let value = event.value.as_int().ok_or_else(|| Malformed::new(event, "a whole number"))?;
                let (certain, above, below) = begun[i];
                let (upper, lower) = (certain + above + begun_above, certain + below + begun_below);
                reads.push(Bounded { lower, value, upper, position: op.shown() });
            }
            _ => {}
        }
    }
    reads.sort_by_key(|read| read.position);
    Ok(reads)
}

pub(super) fn check(events: &Events) -> Result<ModelResult, Malformed> {
    let reads = bounded_reads(events)?;
    let triple = |r: &Bounded| Datum::List(vec![show::sum(r.lower), Datum::Int(r.value), show::sum(r.upper)]);
    let wrong: Vec<&Bounded> = reads.iter().filter(|read| !read.holds()).collect();
    let mut details = vec![
        ("reads", Datum::List(reads.iter().map(triple).collect())),
        ("errors", Datum::List(wrong.iter().map(|r| triple(r)).collect())),
    ];
    if let Some(first) = wrong.first() {
        details.push(("anomalist", Datum::map([("first-error", events.datum(first.position))])));
    }
    Ok(ModelResult::new(wrong.is_empty().into(), details))
}

#[cfg(test)]
mod tests {
    use super::super::Model;
    use super::super::testing::{events, expect};
    use super::bounded_reads;
    use anomalist_history::{Datum, Events, Operation};

    #[test]
    fn reads_are_between_bounds() {
        let add = "0 invoke add 5; 0 ok add 5; ";
        expect(Model::Counter, &format!("{add} 1 invoke read; 1 ok read 5"), true);
        let details = expect(Model::Counter, &format!("{add} 1 invoke read; 1 ok read 4"), false);
        assert_eq!(details.get("errors").unwrap().to_string(), "[[5 4 5]]");
        // Concurrent, indeterminate and never completed adds may count; failed ones do not.
        let text = "1 invoke read; 0 invoke add 5; 1 ok read 5; 0 ok add 5; 2 invoke add 1; 2 info add 1; \
            3 invoke add 2; 1 invoke read; 1 ok read 8";
        expect(Model::Counter, text, true);
        expect(Model::Counter, "0 invoke add 5; 0 fail add 5; 1 invoke read; 1 ok read 5", false);
        // Begun after the read ended.
        expect(Model::Counter, "1 invoke read; 1 ok read 5; 0 invoke add 5; 0 ok add 5", false);
        expect(Model::Counter, &format!("{add} 1 invoke read"), true);
    }

    #[test]
    fn decrements_lower_the_bounds() {
        let text = "0 invoke add -5; 1 invoke add 3; 2 invoke read; 2 ok read -5; 0 ok add -5; 2 invoke read; 2 ok read -2";
        let details = expect(Model::Counter, text, true);
        assert_eq!(details.get("reads").unwrap().to_string(), "[[-5 -5 3] [-5 -2 -2]]");
        expect(Model::Counter, "0 invoke add -5; 2 invoke read; 2 ok read 1", false);
    }

    /// The bounds as the header defines them.
    fn definition(events: &Events, ops: &[Operation], read: &Operation) -> (i128, i128) {
        let amount = |op: &Operation| i128::from(events.argument(op).as_int().unwrap_or(0));
        let adds = || ops.iter().filter(|op| events.f(op) == "add" && !op.failed());
        let certain = |op: &Operation| op.is_ok() && op.shown() < read.began;
        let sum: i128 = adds().filter(|op| certain(op)).map(amount).sum();
        let open = || adds().filter(|op| !certain(op) && op.began <= read.shown()).map(amount);
        (sum + open().map(|a| a.min(0)).sum::<i128>(), sum + open().map(|a| a.max(0)).sum::<i128>())
    }

    #[test]
    fn the_sweep_equals_the_definition() {
        let mut rng = fastrand::Rng::with_seed(11);
        for _ in 0..3000 {
            let mut text = String::new();
            let mut open: [Option<String>; 4] = Default::default();
            for _ in 0..14 {
                let p = rng.usize(..4);
                match open[p].take() {
                    Some(op) => {
                        let kind = rng.choice(["ok", "ok", "fail", "info"]).unwrap();
                        text += &format!("{p} {kind} {op}; ");
                    }
                    None if rng.u8(..8) == 0 => text += &format!("{p} ok add 9; "),
                    None => {
                        let op = if rng.bool() { format!("add {}", rng.i8(-3..4)) } else { "read 0".into() };
                        text += &format!("{p} invoke {op}; ");
                        open[p] = Some(op);
                    }
                }
            }
            let events = events(&text);
            let ops = events.operations();
            for read in bounded_reads(&events).unwrap() {
                let op = ops.iter().find(|op| op.shown() == read.position).unwrap();
                assert_eq!((read.lower, read.upper), definition(&events, &ops, op), "{text}");
            }
        }
        assert_eq!(events("0 ok read 3").get(0).value, Datum::Int(3));
    }
}
