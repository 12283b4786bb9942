//! Bank: transfers move money between accounts, so every read of all accounts shows the same total.
//!
//! For each `read` that is ok (a map from account to balance, or the balances in a list), the first that
//! applies:
//! - `unexpected-key`: an account that the first read did not have;
//! - `nil-balance`: an account without a balance;
//! - `wrong-total`: the sum is not the total, given or that of the first read;
//! - `negative-value`: a balance below zero, unless allowed.
//!
//! Any of them is invalid; without a read nothing is known. A wrong total is read skew: the read saw one
//! half of a transfer. Where one or two transfers open during the read account for the difference, `torn`
//! names them. Jepsen's rule and keys, but for `torn`. O(size of the reads).

use super::{Malformed, ModelResult, Options, Valid, show};
use crate::Why;
use anomalist_history::{Datum, Events, Operation};
use std::collections::BTreeSet;

/// What is wrong with one read.
struct Fault {
    position: usize,
    kind: &'static str,
    /// How bad, for choosing the worst.
    badness: u128,
    total: i128,
    shown: (&'static str, Datum),
}

impl Fault {
    fn datum(&self, events: &Events) -> Datum {
        Datum::map([
            ("type", Datum::keyword(self.kind)),
            self.shown.clone(),
            ("op", events.datum(self.position)),
        ])
    }
}

const KINDS: [&str; 4] = ["unexpected-key", "nil-balance", "wrong-total", "negative-value"];

pub(super) fn check(events: &Events, options: &Options) -> Result<ModelResult, Malformed> {
    let ops = events.operations();
    let mut reads: Vec<&Operation> = ops.iter().filter(|op| op.is_ok() && events.f(op) == "read").collect();
    reads.sort_by_key(|op| op.shown());
    let Some(first) = reads.first() else {
        return Ok(ModelResult::new(Valid::Unknown(Why::NoRead), [("read-count", Datum::Int(0))]));
    };
    let first = balances(events, first)?;
    let accounts: BTreeSet<Datum> = first.iter().map(|(account, _)| account.clone()).collect();
    let expected = options.total_amount.map_or_else(|| total(&first), i128::from);
    let mut faults = Vec::new();
    for op in &reads {
        faults.extend(judge(op.shown(), &balances(events, op)?, &accounts, expected, options));
    }
    let mut details = vec![
        ("read-count", Datum::count(reads.len())),
        ("error-count", Datum::count(faults.len())),
        ("first-error", faults.first().map_or(Datum::Nil, |fault| fault.datum(events))),
        ("errors", errors(events, &faults)),
    ];
    let skewed = faults.iter().find(|fault| fault.kind == "wrong-total");
    if let Some(torn) = skewed.and_then(|fault| torn(events, &ops, fault, expected)) {
        details.push(("anomalist", Datum::map([("torn", torn)])));
    }
    Ok(ModelResult::new(faults.is_empty().into(), details))
}

/// The accounts and balances that a read returned; nil for none.
pub(crate) fn balances(events: &Events, op: &Operation) -> Result<Vec<(Datum, Option<i64>)>, Malformed> {
    let event = events.get(op.shown());
    let malformed = || Malformed::new(event, "a map from accounts to whole balances");
    let balance = |value: &Datum| match value {
        Datum::Nil => Ok(None),
        Datum::Int(i) => Ok(Some(*i)),
        _ => Err(malformed()),
    };
    match &event.value {
        Datum::Map(entries) => {
            entries.iter().map(|(account, value)| Ok((account.normal_key(), balance(value)?))).collect()
        }
        Datum::List(values) => {
            let numbered = values.iter().enumerate();
            numbered.map(|(account, value)| Ok((Datum::count(account), balance(value)?))).collect()
        }
        _ => Err(malformed()),
    }
}

/// Their sum.
pub(crate) fn total(balances: &[(Datum, Option<i64>)]) -> i128 {
    balances.iter().filter_map(|(_, balance)| *balance).map(i128::from).sum()
}

fn judge(
    position: usize,
    balances: &[(Datum, Option<i64>)],
    accounts: &BTreeSet<Datum>,
    expected: i128,
    options: &Options,
) -> Option<Fault> {
    let total = total(balances);
    let fault = |kind, badness, shown| Some(Fault { position, kind, badness, total, shown });
    let unexpected: Vec<_> = balances.iter().map(|b| &b.0).filter(|a| !accounts.contains(a)).collect();
    let nils: Vec<_> = balances.iter().filter(|b| b.1.is_none()).map(|b| (b.0.clone(), Datum::Nil)).collect();
    let negative: Vec<i64> = balances.iter().filter_map(|b| b.1).filter(|b| *b < 0).collect();
    if !unexpected.is_empty() {
        let count = unexpected.len() as u128;
        fault(KINDS[0], count, ("unexpected", show::sorted_list(unexpected)))
    } else if !nils.is_empty() {
        fault(KINDS[1], nils.len() as u128, ("nils", Datum::Map(nils)))
    } else if total != expected {
        fault(KINDS[2], total.abs_diff(expected), ("total", show::sum(total)))
    } else if !negative.is_empty() && !options.allow_negative_balances {
        let debt: i128 = negative.iter().map(|&b| i128::from(b)).sum();
        let shown = Datum::List(negative.into_iter().map(Datum::Int).collect());
        fault(KINDS[3], debt.unsigned_abs(), ("negative", shown))
    } else {
        None
    }
}

/// Per kind of fault: how many, the first, the worst, the last.
fn errors(events: &Events, faults: &[Fault]) -> Datum {
    let kinds = KINDS.into_iter().filter_map(|kind| {
        let of_kind: Vec<&Fault> = faults.iter().filter(|fault| fault.kind == kind).collect();
        let (first, last) = (of_kind.first()?, of_kind.last()?);
        // The earliest of several.
        let pick =
            |key: &dyn Fn(&Fault) -> i128| of_kind.iter().min_by_key(|f| key(f)).map(|f| f.datum(events));
        let worst = of_kind.iter().rev().max_by_key(|fault| fault.badness)?;
        let mut entries = vec![
            ("count", Datum::count(of_kind.len())),
            ("first", first.datum(events)),
            ("worst", worst.datum(events)),
            ("last", last.datum(events)),
        ];
        if kind == "wrong-total" {
            entries.push(("lowest", pick(&|fault| fault.total)?));
            entries.push(("highest", pick(&|fault| -fault.total)?));
        }
        Some((kind, Datum::map(entries)))
    });
    Datum::map(kinds)
}

/// The transfers that tore a read, as Jepsen would show them.
fn torn(events: &Events, ops: &[Operation], fault: &Fault, expected: i128) -> Option<Datum> {
    let halves = torn_transfers(events, ops, fault.position, fault.total - expected)?;
    let show = |half: &Half| {
        let seen = if half.paid_in { "credit" } else { "debit" };
        Datum::map([("op", events.datum(half.transfer.shown())), ("saw-only", Datum::keyword(seen))])
    };
    Some(Datum::List(halves.iter().map(show).collect()))
}

/// Half of a transfer.
#[derive(Clone, Copy)]
pub(crate) struct Half {
    pub transfer: Operation,
    /// What it paid in, not what it took out.
    paid_in: bool,
    sum: i128,
}

/// One or two transfers open during a read that account for the difference of its total, half done each:
/// too much money if the read saw what they paid in and not what they took out.
pub(crate) fn torn_transfers(
    events: &Events,
    ops: &[Operation],
    position: usize,
    difference: i128,
) -> Option<Vec<Half>> {
    let read = ops.iter().find(|op| op.shown() == position)?;
    let halves: Vec<Half> = ops
        .iter()
        .filter(|op| !op.failed() && events.f(op) == "transfer" && op.began < position)
        .filter(|op| op.ended().is_none_or(|ended| ended > read.began))
        .filter_map(|op| Some((*op, i128::from(events.argument(op).get("amount")?.as_int()?))))
        .take(64)
        .flat_map(|(transfer, amount)| {
            [(true, amount), (false, -amount)].map(|(paid_in, sum)| Half { transfer, paid_in, sum })
        })
        .collect();
    if let Some(one) = halves.iter().find(|half| half.sum == difference) {
        return Some(vec![*one]);
    }
    for (i, first) in halves.iter().enumerate() {
        // The other half of the same transfer stands next to it: both together are nothing torn.
        if let Some(second) = halves[(i | 1) + 1..].iter().find(|half| first.sum + half.sum == difference) {
            return Some(vec![*first, *second]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::{expect, judge, judge_with};
    use super::super::{Model, Options, Valid};
    use anomalist_history::Datum;

    const TORN: &str = "0 invoke read; 0 ok read {0 10 1 10}; \
        1 invoke transfer {:from 0 :to 1 :amount 3}; 0 invoke read; 0 ok read {0 7 1 10}; \
        1 ok transfer {:from 0 :to 1 :amount 3}; 0 invoke read; 0 ok read {0 7 1 13}";

    #[test]
    fn totals_must_agree() {
        expect(Model::Bank, "0 ok read {0 10 1 10}; 0 ok read {0 -0 1 20}", true);
        let details = expect(Model::Bank, TORN, false);
        assert_eq!(details.get("read-count"), Some(&Datum::Int(3)));
        assert_eq!(details.get("error-count"), Some(&Datum::Int(1)));
        let wrong = details.get("errors").unwrap().get("wrong-total").unwrap();
        assert_eq!(wrong.get("count"), Some(&Datum::Int(1)));
        assert_eq!(wrong.get("lowest").unwrap().get("total"), Some(&Datum::Int(17)));
        let torn = details.get("anomalist").unwrap().get("torn").unwrap().as_list().unwrap();
        assert_eq!(torn[0].get("saw-only"), Some(&Datum::keyword("debit")));
        assert_eq!(torn[0].get("op").unwrap().get("f"), Some(&Datum::keyword("transfer")));
    }

    #[test]
    fn two_torn_transfers_explain_a_difference() {
        let text = "0 ok read {0 10 1 10}; 1 invoke transfer {:from 0 :to 1 :amount 3}; \
            2 invoke transfer {:from 1 :to 0 :amount 4}; 0 invoke read; 0 ok read {0 14 1 13}";
        let details = expect(Model::Bank, text, false);
        assert_eq!(details.get("anomalist").unwrap().get("torn").unwrap().as_list().unwrap().len(), 2);
        // One transfer of 4 cannot make 8: both of its halves together are 0.
        let text =
            "0 ok read {0 10 1 10}; 1 invoke transfer {:amount 4}; 0 invoke read; 0 ok read {0 14 1 14}";
        assert_eq!(expect(Model::Bank, text, false).get("anomalist"), None);
    }

    #[test]
    fn other_faults_in_their_order() {
        let kind =
            |text: &str| expect(Model::Bank, text, false).get("first-error").unwrap().get("type").cloned();
        let is = |name: &str| Some(Datum::keyword(name));
        assert_eq!(kind("0 ok read {0 1}; 0 ok read {0 1 7 nil}"), is("unexpected-key"));
        assert_eq!(kind("0 ok read {0 1 1 1}; 0 ok read {0 2 1 nil}"), is("nil-balance"));
        assert_eq!(kind("0 ok read {0 1 1 1}; 0 ok read {0 3 1 -1}"), is("negative-value"));
        assert_eq!(kind("0 ok read [1 1]; 0 ok read [1 2]"), is("wrong-total"));
        let lenient = Options { allow_negative_balances: true, ..Options::default() };
        let debt = "0 ok read {0 1 1 1}; 0 ok read {0 3 1 -1}";
        assert_eq!(judge_with(Model::Bank, debt, &lenient).valid, Valid::True);
        let total = Options { total_amount: Some(3), ..Options::default() };
        assert_eq!(judge_with(Model::Bank, "0 ok read {0 1 1 1}", &total).valid, Valid::False);
        assert!(matches!(judge(Model::Bank, "0 info read {0 1}").valid, Valid::Unknown(_)));
    }

    #[test]
    fn failed_and_indeterminate_reads_say_nothing() {
        expect(
            Model::Bank,
            "0 ok read {0 1}; 0 fail read {0 2}; 1 info read {0 3}; nemesis info read {0 9}",
            true,
        );
    }
}
