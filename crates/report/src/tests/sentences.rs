//! Explanations: one per pattern, and the shapes that patterns alone don't show.

use super::fixture::{checked, example, history};
use crate::explain;
use anomalist_history::{OpId, TxnId};
use anomalist_level::{Anomaly, AnomalyKind, Edge, Evidence, Node, Relation, Witness};

fn reported(kinds: &[AnomalyKind]) -> String {
    let tell = |&kind: &AnomalyKind| {
        let c = example(kind);
        format!(
            "{}  {}\n{}\n",
            kind.code(),
            kind.info().example.unwrap(),
            explain(&c.history, c.anomaly(kind))
        )
    };
    kinds.iter().map(tell).collect::<Vec<_>>().join("\n")
}

#[test]
fn reads_that_no_write_explains() {
    insta::assert_snapshot!(reported(&AnomalyKind::TAPS[..6]), @"
    TAP-a  r(x,1)
    Let T1 = 1:1 (line 1).
    1. T1 read x = 1, but no transaction wrote 1 to x.

    TAP-b  w(x,1) !abort || r(x,1)
    Let T1 = 1:1 (line 1, aborted), T2 = 2:1 (line 2).
    1. T2 read x = 1, which T1 wrote. T1 aborted, so no read should return it.

    TAP-c  r(x,1) w(x,1)
    Let T1 = 1:1 (line 1).
    1. T1 read x = 1, and only after that wrote x = 1.

    TAP-d  w(x,1) r(x,2) || w(x,2)
    Let T1 = 2:1 (line 3), T2 = 1:1 (line 1).
    1. T2 wrote x = 1, and then read x = 2, which T1 wrote. It should have read its own 1.

    TAP-e  w(x,1) w(x,2) r(x,1)
    Let T1 = 1:1 (line 1).
    1. T1 wrote x = 1, then wrote x = 2, and then read x = 1: one of its own values, but not the last.

    TAP-f  w(x,1) w(x,2) || r(x,1)
    Let T1 = 1:1 (line 1), T2 = 2:1 (line 3).
    1. T2 read x = 1, which T1 wrote. But T1 then wrote x = 2 in the same transaction, so the first value should never have been seen.
    ");
}

#[test]
fn patterns_of_several_transactions() {
    insta::assert_snapshot!(reported(&AnomalyKind::TAPS[6..]), @"
    TAP-g  r(x,1) w(y,1) || r(y,1) w(x,1)
    Let T1 = 1:1 (line 1), T2 = 2:1 (line 3).
    1. T2 read y = 1, which T1 wrote: T1 comes before T2.
    2. But T1 read x = 1, which T2 wrote: T2 comes before T1. So T1 < T2 < T1: a contradiction.

    TAP-h  w(x,1); w(x,2) w(y,1) || r(y,1) r(x,1)
    Let T1 = 1:1 (line 1), T2 = 1:2 (line 2), T3 = 2:1 (line 4).
    1. T3 read y = 1, which T2 wrote, so T3 must see T2.
    2. T2 wrote x = 2, yet T3 read x = 1, which T1 wrote: T2 must commit before T1.
    3. But T1 comes before T2 in session 1. So T2 < T1 < T2: a contradiction.

    TAP-i  w(x,1) w(z,1) || w(x,2) w(y,1) || r(y,1) r(x,1) || r(z,1) r(x,2)
    Let T1 = 1:1 (line 1), T2 = 2:1 (line 3), T3 = 3:1 (line 5), T4 = 4:1 (line 7).
    1. T3 read y = 1, which T2 wrote, so T3 must see T2.
    2. T2 wrote x = 2, yet T3 read x = 1, which T1 wrote: T2 must commit before T1.
    3. T4 read z = 1, which T1 wrote, so T4 must see T1.
    4. But T1 wrote x = 1, yet T4 read x = 2, which T2 wrote: T1 must commit before T2. So T2 < T1 < T2: a contradiction.

    TAP-j  w(x,1) || w(x,2) || r(x,1) r(x,2)
    Let T1 = 1:1 (line 1), T2 = 2:1 (line 2), T3 = 3:1 (line 3).
    1. T3 read x = 1, which T1 wrote.
    2. Later T3 read x = 2, which T2 wrote.
    3. T3 did not write x in between, so both reads should have agreed.

    TAP-k  w(x,1); w(x,2) w(y,1) || r(x,1) r(y,1)
    Let T1 = 1:1 (line 1), T2 = 1:2 (line 2), T3 = 2:1 (line 4).
    1. T3 read y = 1, which T2 wrote, so T3 must see T2.
    2. T2 wrote x = 2, yet T3 read x = 1, which T1 wrote: T2 must commit before T1.
    3. But T1 comes before T2 in session 1. So T2 < T1 < T2: a contradiction.

    TAP-l  w(x,1) w(z,1) || w(x,2) w(y,1) || r(x,1) r(y,1) || r(x,2) r(z,1)
    Let T1 = 1:1 (line 1), T2 = 2:1 (line 3), T3 = 3:1 (line 5), T4 = 4:1 (line 7).
    1. T3 read y = 1, which T2 wrote, so T3 must see T2.
    2. T2 wrote x = 2, yet T3 read x = 1, which T1 wrote: T2 must commit before T1.
    3. T4 read z = 1, which T1 wrote, so T4 must see T1.
    4. But T1 wrote x = 1, yet T4 read x = 2, which T2 wrote: T1 must commit before T2. So T2 < T1 < T2: a contradiction.

    TAP-m  w(x,1); w(x,2) w(y,1) || r(y,1); r(x,1)
    Let T1 = 1:1 (line 1), T2 = 1:2 (line 2), T3 = 2:1 (line 4), T4 = 2:2 (line 5).
    1. T3 read y = 1, which T2 wrote; T3 comes before T4 in session 2, so T4 must see T2.
    2. T2 wrote x = 2, yet T4 read x = 1, which T1 wrote: T2 must commit before T1.
    3. But T1 comes before T2 in session 1. So T2 < T1 < T2: a contradiction.

    TAP-n  w(x,1) || w(x,2) || r(x,1); r(x,2) || r(x,2); r(x,1)
    Let T1 = 1:1 (line 1), T2 = 2:1 (line 2), T3 = 3:1 (line 3), T4 = 3:2 (line 4), T5 = 4:1 (line 5), T6 = 4:2 (line 6).
    1. T3 read x = 1, which T1 wrote; T3 comes before T4 in session 3, so T4 must see T1.
    2. T1 wrote x = 1, yet T4 read x = 2, which T2 wrote: T1 must commit before T2.
    3. T5 read x = 2, which T2 wrote; T5 comes before T6 in session 4, so T6 must see T2.
    4. But T2 wrote x = 2, yet T6 read x = 1, which T1 wrote: T2 must commit before T1. So T1 < T2 < T1: a contradiction.
    ");
}

#[test]
fn session_guarantees() {
    let kinds = [
        AnomalyKind::NotReadYourWrites,
        AnomalyKind::NonMonotonicReads,
        AnomalyKind::NonMonotonicWrites,
        AnomalyKind::WritesDontFollowReads,
    ];
    insta::assert_snapshot!(reported(&kinds), @r"
    RYW  w(x,1); r(x,0)
    Let T1 = 1:1 (line 1), T2 = 1:2 (line 2).
    1. T1 comes before T2 in session 1, so T2 must see T1.
    2. T1 wrote x = 1, yet T2 read x = 0, the initial value: T1 must come before the initial state.
    3. But the initial state comes before T1, as before every transaction. So T1 < initial state < T1: a contradiction.

    MR  w(x,1) || r(x,1); r(x,0)
    Let T1 = 1:1 (line 1), T2 = 2:1 (line 2), T3 = 2:2 (line 3).
    1. T2 read x = 1, which T1 wrote; T2 comes before T3 in session 2, so T3 must see T1.
    2. T1 wrote x = 1, yet T3 read x = 0, the initial value: T1 must come before the initial state.
    3. But the initial state comes before T1, as before every transaction. So T1 < initial state < T1: a contradiction.

    MW  w(x,1); w(y,1) || r(y,1) r(x,0)
    Let T1 = 1:1 (line 1), T2 = 1:2 (line 2), T3 = 2:1 (line 3).
    1. T1 comes before T2 in session 1; T3 read y = 1, which T2 wrote, so T3 must see T1.
    2. T1 wrote x = 1, yet T3 read x = 0, the initial value: T1 must come before the initial state.
    3. But the initial state comes before T1, as before every transaction. So T1 < initial state < T1: a contradiction.

    WFR  w(x,1) || r(x,1); w(y,1) || r(y,1) r(x,0)
    Let T1 = 1:1 (line 1), T2 = 2:1 (line 2), T3 = 2:2 (line 3), T4 = 3:1 (line 4).
    1. T2 read x = 1, which T1 wrote; T2 comes before T3 in session 2; T4 read y = 1, which T3 wrote, so T4 must see T1.
    2. T1 wrote x = 1, yet T4 read x = 0, the initial value: T1 must come before the initial state.
    3. But the initial state comes before T1, as before every transaction. So T1 < initial state < T1: a contradiction.
    ");
}

#[test]
fn lists() {
    let tell = |text: &str, kind| {
        let c = checked(text);
        explain(&c.history, c.anomaly(kind))
    };
    let long: Vec<String> = (1..=99).map(|i| i.to_string()).collect();
    let append = |i: &String| format!("a(x,{i})");
    let appends = long.iter().map(append).collect::<Vec<_>>().join(" || ");
    let all = [
        tell("a(x,1) || r(x,[1 1])", AnomalyKind::DuplicateElements),
        tell("a(x,1) || a(x,2) || r(x,[1 2]) || r(x,[2 1])", AnomalyKind::IncompatibleOrder),
        tell("a(x,1) || r(x,[1 7])", AnomalyKind::ThinAirRead),
        tell("a(x,1) !abort || r(x,[1])", AnomalyKind::AbortedRead),
        tell("r(x,[1]) a(x,1)", AnomalyKind::FutureRead),
        tell("a(x,1) r(x,[2]) || a(x,2)", AnomalyKind::NotMyOwnWrite),
        tell(&format!("{appends} || r(x,[{0} 50])", long.join(" ")), AnomalyKind::DuplicateElements),
        tell("a(x,1) a(y,1) || a(x,2) a(y,2) || r(x,[1 2]) || r(y,[2 1])", AnomalyKind::G0),
    ];
    insta::assert_snapshot!(all.join("\n\n"), @"
    Let T1 = 2:1 (line 2).
    1. T1 read x = [1 1]: element 1 is in it more than once, at positions 1 and 2.

    Let T1 = 3:1 (line 3), T2 = 4:1 (line 4).
    1. T1 read x = [1 2].
    2. T2 read x = [2 1].
    3. At position 1 one has 1 and the other 2: no single order of appends gives both.

    Let T1 = 2:1 (line 2).
    1. T1 read x = [1 7], but no transaction appended 7 to x.

    Let T1 = 1:1 (line 1, aborted), T2 = 2:1 (line 2).
    1. T2 read x = [1], to which T1 appended 1. T1 aborted, so no read should return it.

    Let T1 = 1:1 (line 1).
    1. T1 read x = [1], and only after that appended 1 to x.

    Let T1 = 2:1 (line 3), T2 = 1:1 (line 1).
    1. T2 appended 1 to x, and then read x = [2], to which T1 appended 2. It should have read its own 1.

    Let T1 = 100:1 (line 100).
    1. T1 read x = [1 … 49 50 51 … 99 50]: element 50 is in it more than once, at positions 50 and 100.

    Let T1 = 1:1 (line 1), T2 = 2:1 (line 3), T3 = 3:1 (line 5), T4 = 4:1 (line 6).
    1. T3 read x = [1 2], where 1, which T1 appended, is before 2, which T2 appended: T1 comes before T2.
    2. But T4 read y = [2 1], where 2, which T2 appended, is before 1, which T1 appended: T2 comes before T1. So T1 < T2 < T1: a contradiction.
    ");
}

/// An anomaly made of these edges.
fn cycle(edges: Vec<Edge>) -> Anomaly {
    Anomaly::new(AnomalyKind::G2Item, 1, Witness { edges, ..Witness::default() })
}

fn edge(from: u32, to: u32, relation: Relation, evidence: Evidence) -> Edge {
    Edge { from: Node::Txn(TxnId(from)), to: Node::Txn(TxnId(to)), relation, evidence }
}

#[test]
fn edges_of_other_engines() {
    let h = history("a(x,1) || a(x,2) || r(x,[1]) || r(x,[1 2])");
    let version = |read| Evidence::Version { first: OpId(0), second: OpId(1), read: OpId(read) };
    let anomaly = cycle(vec![
        edge(0, 1, Relation::VersionOrder, version(3)),
        edge(1, 2, Relation::RealTime, Evidence::RealTime),
        edge(2, 1, Relation::AntiDependency, version(2)),
        edge(1, 0, Relation::RealTime, Evidence::RealTime),
    ]);
    insta::assert_snapshot!(explain(&h, &anomaly), @r"
    Let T1 = 1:1 (line 1), T2 = 2:1 (line 2), T3 = 3:1 (line 3), T4 = 4:1 (line 4).
    1. T4 read x = [1 2], where 1, which T1 appended, is before 2, which T2 appended: T1 comes before T2.
    2. T2 had ended when T3 began.
    3. T3 read x = [1], up to 1, which T1 appended, and without 2, which T2 appended: T3 comes before T2.
    4. But T2 had ended when T1 began. So T1 < T2 < T3 < T2 < T1: a contradiction.
    ");
}

#[test]
fn long_cycles_are_told_in_few_steps() {
    let text: Vec<String> = (0..12).map(|i| format!("w(k{i},1) r(k{},1)", (i + 11) % 12)).collect();
    let c = checked(&text.join(" || "));
    let reported = explain(&c.history, c.anomaly(AnomalyKind::CyclicCo));
    assert_eq!(reported.lines().count(), 2, "{reported}");
    assert_eq!(reported.matches("which").count(), 12, "{reported}");
}

#[test]
fn a_hundred_transactions_still_fit_on_a_screen() {
    let text: Vec<String> = (0..100).map(|i| format!("w(k{i},1) r(k{},1)", (i + 99) % 100)).collect();
    let c = checked(&text.join(" || "));
    let reported = explain(&c.history, c.anomaly(AnomalyKind::CyclicCo));
    assert!(reported.len() < 2_000 && reported.contains("T8 < … < T94"), "{reported}");
    let shown = crate::text(&c.subject(), &crate::Style::default());
    // Two anomalies: it is a cycle of reads with sessions (TAP-g), and without (G1c).
    assert!(shown.lines().count() < 150 && shown.contains("… 84 more transactions"), "{shown}");
}

#[test]
fn what_nobody_planned_for_is_told_operation_by_operation() {
    let h = history("r(x,0) w(x,1) || r(x,0) w(x,2)");
    let witness = Witness {
        transactions: vec![TxnId(0), TxnId(1)],
        operations: (0..4).map(OpId).collect(),
        ..Witness::default()
    };
    let anomaly = Anomaly::new(AnomalyKind::WriteSkew, 1, witness);
    let reported = explain(&h, &anomaly);
    let last = AnomalyKind::WriteSkew.info().definition;
    assert!(reported.contains("1. T1 read x = 0 and wrote x = 1.") && reported.ends_with(last), "{reported}");
    let anomaly = Anomaly { kind: AnomalyKind::LostUpdate, ..anomaly };
    insta::assert_snapshot!(explain(&h, &anomaly), @"
    Let T1 = 1:1 (line 1), T2 = 2:1 (line 3).
    1. T1 read x = 0 and then wrote x = 1.
    2. T2 read x = 0, the same version, and then wrote x = 2.
    3. Whichever of them wrote second overwrote what it had not seen.
    ");
}
