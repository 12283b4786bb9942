//! Reads by predicate against Adya's definition: whatever is called violated is violated in every
//! interpretation.
//!
//! An interpretation chooses the fate of every transaction without an answer, the order of every row's
//! versions, the version that every read saw where several have its value, and the version of every row
//! that a read by predicate did not return. The oracle tries them all, and draws the graph of Adya 1999,
//! 4.2.3 and 4.4.
//!
//! `ANOMALIST_ORACLE_CASES` sets the number of histories, `ANOMALIST_SEED` the seed; a failure prints the
//! history.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request};
use anomalist_history::{Datum, Event, EventKind, Events, Process, TxnId};
use anomalist_jepsen::datatypes::{self, Datatype};
use anomalist_level::{AnomalyKind, Evidence, Judgement, Level, Node, Verdict};
use anomalist_testkit::number;

/// A predicate as the test has it: everything, one value, odd or even.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Predicate {
    True,
    Equals(i64),
    Mod(i64),
}

impl Predicate {
    fn matches(self, row: Option<i64>) -> bool {
        match (self, row) {
            (_, None) => false,
            (Predicate::True, _) => true,
            (Predicate::Equals(x), Some(v)) => x == v,
            (Predicate::Mod(r), Some(v)) => v % 2 == r,
        }
    }

    fn datum(self) -> Datum {
        let list = |name: &str, ints: &[i64]| {
            let ints = ints.iter().map(|&i| Datum::Int(i));
            Datum::List(std::iter::once(Datum::keyword(name)).chain(ints).collect())
        };
        match self {
            Predicate::True => Datum::Bool(true),
            Predicate::Equals(x) => list("=", &[x]),
            Predicate::Mod(r) => list("mod", &[2, r]),
        }
    }
}

#[derive(Clone, Debug)]
enum Mop {
    Write(usize, Option<i64>),
    Read(usize, Option<i64>),
    Rows(Predicate, [Option<i64>; KEYS]),
}

const KEYS: usize = 2;

#[derive(Clone, Debug)]
struct Txn {
    kind: EventKind,
    mops: Vec<Mop>,
}

#[derive(Debug)]
struct Recording {
    init: [Option<i64>; KEYS],
    txns: Vec<Txn>,
}

impl Recording {
    fn events(&self) -> Events {
        let event = |process, kind, f: &str, value| Event {
            kind,
            process: Process::Client(process),
            f: f.into(),
            value,
            index: None,
            time: None,
            line: 1,
        };
        let row = |v: Option<i64>| v.map_or(Datum::Nil, Datum::Int);
        let rows = |rows: &[Option<i64>; KEYS]| {
            let present =
                rows.iter().enumerate().filter_map(|(k, v)| Some((Datum::count(k), Datum::Int((*v)?))));
            Datum::Map(present.collect())
        };
        let mut events = vec![event(99, EventKind::Ok, "init", rows(&self.init))];
        for (p, txn) in self.txns.iter().enumerate() {
            let mops = txn.mops.iter().map(|mop| {
                let parts = match mop {
                    Mop::Write(k, None) => vec![Datum::keyword("delete"), Datum::count(*k)],
                    Mop::Write(k, v) => vec![Datum::keyword("w"), Datum::count(*k), row(*v)],
                    Mop::Read(k, v) => vec![Datum::keyword("r"), Datum::count(*k), row(*v)],
                    Mop::Rows(p, found) => vec![Datum::keyword("rp"), p.datum(), rows(found)],
                };
                Datum::List(parts)
            });
            events.push(event(p as i64, txn.kind, "txn", Datum::List(mops.collect())));
        }
        Events::new(events)
    }

    fn final_write(&self, t: usize, key: usize) -> Option<Option<i64>> {
        self.own_before(t, key, self.txns[t].mops.len())
    }

    fn own_before(&self, t: usize, key: usize, mop: usize) -> Option<Option<i64>> {
        self.txns[t].mops[..mop].iter().rev().find_map(|m| match m {
            Mop::Write(k, v) if *k == key => Some(*v),
            _ => None,
        })
    }
}

/// One interpretation as it is being chosen.
#[derive(Clone, Default)]
struct Graph {
    ww: Vec<(usize, usize)>,
    dep: Vec<(usize, usize)>,
    item: Vec<(usize, usize)>,
    predicate: Vec<(usize, usize)>,
}

fn cyclic(n: usize, edges: impl Iterator<Item = (usize, usize)>) -> bool {
    let mut reach = vec![vec![false; n]; n];
    for (a, b) in edges {
        reach[a][b] = true;
    }
    for k in 0..n {
        for i in 0..n {
            for j in 0..n {
                reach[i][j] |= reach[i][k] && reach[k][j];
            }
        }
    }
    (0..n).any(|i| reach[i][i])
}

impl Graph {
    /// Which of [`LEVELS`] the interpretation satisfies.
    fn satisfies(&self, n: usize) -> [bool; 4] {
        let dep = || self.ww.iter().chain(&self.dep).copied();
        let anti = || self.item.iter().chain(&self.predicate).copied();
        let composed = dep().flat_map(|(a, b)| anti().filter(move |e| e.0 == b).map(move |(_, c)| (a, c)));
        [
            !cyclic(n, dep()),
            !cyclic(n, dep().chain(self.item.iter().copied())),
            !cyclic(n, dep().chain(composed)),
            !cyclic(n, dep().chain(anti())),
        ]
    }
}

const LEVELS: [Level; 4] =
    [Level::AdyaReadCommitted, Level::RepeatableRead, Level::SnapshotIsolation, Level::Serializable];

/// Versions of a row in order: the writer (none: initial) and the row.
type Versions = Vec<(Option<usize>, Option<i64>)>;

fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, &first) in items.iter().enumerate() {
        let mut rest = items.to_vec();
        rest.remove(i);
        all.extend(permutations(&rest).into_iter().map(|mut p| {
            p.insert(0, first);
            p
        }));
    }
    all
}

/// Which levels some interpretation satisfies.
fn oracle(r: &Recording) -> [bool; 4] {
    let mut best = [false; 4];
    let open: Vec<usize> = (0..r.txns.len()).filter(|&t| r.txns[t].kind == EventKind::Info).collect();
    for fates in 0..1 << open.len() {
        let committed = |t: usize| match r.txns[t].kind {
            EventKind::Ok => true,
            EventKind::Info => fates >> open.iter().position(|&o| o == t).unwrap() & 1 == 1,
            _ => false,
        };
        let writers: Vec<Vec<usize>> = (0..KEYS)
            .map(|k| (0..r.txns.len()).filter(|&t| committed(t) && r.final_write(t, k).is_some()).collect())
            .collect();
        for first in permutations(&writers[0]) {
            for second in permutations(&writers[1]) {
                let versions: Vec<Versions> = [&first, &second]
                    .iter()
                    .enumerate()
                    .map(|(k, order)| {
                        let written = order.iter().map(|&t| (Some(t), r.final_write(t, k).unwrap()));
                        std::iter::once((None, r.init[k])).chain(written).collect()
                    })
                    .collect();
                let mut graph = Graph::default();
                for row in &versions {
                    for pair in row.windows(2) {
                        graph.ww.extend(pair[0].0.zip(pair[1].0));
                    }
                }
                let reads = reads(r, &committed, &versions);
                choose(r.txns.len(), &versions, &reads, &mut graph, &mut best);
            }
        }
    }
    best
}

/// A read whose version is to be chosen: reader, row, places it may be at, and the predicate, if it is by
/// one.
struct Choice {
    reader: usize,
    key: usize,
    places: Vec<usize>,
    item: bool,
    predicate: Option<Predicate>,
}

fn reads(r: &Recording, committed: &dyn Fn(usize) -> bool, versions: &[Versions]) -> Vec<Choice> {
    let mut choices = Vec::new();
    // What an operation without an answer read is not known.
    for reader in (0..r.txns.len()).filter(|&t| r.txns[t].kind == EventKind::Ok && committed(t)) {
        for (i, mop) in r.txns[reader].mops.iter().enumerate() {
            let own = |key| r.own_before(reader, key, i);
            let places = |key: usize, fits: &dyn Fn(Option<i64>) -> bool| -> Vec<usize> {
                let row = versions[key].iter().enumerate();
                row.filter(|(_, v)| v.0 != Some(reader) && fits(v.1)).map(|(p, _)| p).collect()
            };
            match mop {
                Mop::Write(..) => {}
                Mop::Read(key, value) => {
                    if own(*key).is_none() {
                        let places = places(*key, &|v| v == *value);
                        choices.push(Choice { reader, key: *key, places, item: true, predicate: None });
                    }
                }
                Mop::Rows(predicate, found) => {
                    for (key, &row) in found.iter().enumerate() {
                        let places = match (own(key), row) {
                            (Some(own), None) if predicate.matches(own) => Vec::new(),
                            (Some(_), _) => continue,
                            (None, Some(v)) => places(key, &|row| row == Some(v)),
                            (None, None) => places(key, &|row| !predicate.matches(row)),
                        };
                        let item = row.is_some();
                        choices.push(Choice { reader, key, places, item, predicate: Some(*predicate) });
                    }
                }
            }
        }
    }
    choices
}

fn choose(n: usize, versions: &[Versions], choices: &[Choice], graph: &mut Graph, best: &mut [bool; 4]) {
    let Some((choice, rest)) = choices.split_first() else {
        for (best, now) in best.iter_mut().zip(graph.satisfies(n)) {
            *best |= now;
        }
        return;
    };
    let row = &versions[choice.key];
    for &place in &choice.places {
        let mut graph = graph.clone();
        let add = |list: &mut Vec<(usize, usize)>, a: Option<usize>, b: Option<usize>| {
            list.extend(a.zip(b).filter(|(a, b)| a != b));
        };
        if choice.item {
            add(&mut graph.dep, row[place].0, Some(choice.reader));
            add(&mut graph.item, Some(choice.reader), row.get(place + 1).and_then(|v| v.0));
        }
        if let Some(predicate) = choice.predicate {
            for (i, pair) in row.windows(2).enumerate() {
                if predicate.matches(pair[0].1) == predicate.matches(pair[1].1) {
                    continue;
                }
                // The version at i + 1 changes what matches.
                if i < place {
                    add(&mut graph.dep, pair[1].0, Some(choice.reader));
                } else {
                    add(&mut graph.predicate, Some(choice.reader), pair[1].0);
                }
            }
        }
        choose(n, versions, rest, &mut graph, best);
    }
}

/// Transactions on a small table, each of which sees some state that was there, row by row or as a whole.
fn random(rng: &mut fastrand::Rng) -> Recording {
    let row = |rng: &mut fastrand::Rng, fresh: &mut i64| {
        *fresh += 1;
        (rng.u8(..4) > 0).then_some(*fresh)
    };
    let mut fresh = 0;
    let init = [row(rng, &mut fresh), row(rng, &mut fresh)];
    let mut states = vec![init];
    let (torn, n) = (rng.u8(..100), rng.usize(2..5));
    let mut txns = Vec::new();
    for _ in 0..n {
        let mut mine = *rng.choice(&states).unwrap();
        for (key, row) in mine.iter_mut().enumerate() {
            if rng.u8(..100) < torn {
                *row = rng.choice(&states).unwrap()[key];
            }
        }
        let (mut mops, mut now) = (Vec::new(), *states.last().unwrap());
        for _ in 0..rng.usize(1..4) {
            let key = rng.usize(..KEYS);
            match rng.u8(..5) {
                0 | 1 => {
                    let value = row(rng, &mut fresh);
                    mops.push(Mop::Write(key, value));
                    (mine[key], now[key]) = (value, value);
                }
                2 => mops.push(Mop::Read(key, mine[key])),
                _ => {
                    let p = match rng.u8(..3) {
                        0 => Predicate::True,
                        1 => Predicate::Mod(rng.i64(..2)),
                        _ => Predicate::Equals(rng.i64(1..6)),
                    };
                    let mut found = mine.map(|v| v.filter(|_| p.matches(v)));
                    if rng.u8(..40) == 0 {
                        found[rng.usize(..KEYS)] = None;
                    }
                    mops.push(Mop::Rows(p, found));
                }
            }
        }
        let kind = *rng
            .choice(&[EventKind::Ok, EventKind::Ok, EventKind::Ok, EventKind::Info, EventKind::Fail])
            .unwrap();
        if kind != EventKind::Fail {
            states.push(now);
        }
        txns.push(Txn { kind, mops });
    }
    Recording { init, txns }
}

#[test]
fn what_is_violated_is_violated_in_every_interpretation() {
    let (cases, seed) = (number("ANOMALIST_ORACLE_CASES", 20_000), number("ANOMALIST_SEED", 1));
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut wrong, mut found) = ([0u64; 4], [0u64; 4]);
    for case in 0..cases {
        let recording = random(&mut rng);
        let expected = oracle(&recording);
        let lowered = datatypes::lower(Datatype::Predicates, &recording.events()).unwrap();
        let judgement = datatypes::check(&lowered, &Request::default(), &Budget::unlimited());
        for (i, level) in LEVELS.into_iter().enumerate() {
            wrong[i] += u64::from(!expected[i] && expected[0]);
            match judgement.verdict(level).unwrap() {
                Verdict::Violated => {
                    found[i] += u64::from(expected[0]);
                    assert!(
                        !expected[i],
                        "seed {seed}, case {case}: {level} violated, but not in every interpretation: {recording:#?}\n{:#?}",
                        judgement.anomalies
                    );
                }
                Verdict::Holds => assert!(
                    expected[i],
                    "seed {seed}, case {case}: {level} holds, but in no interpretation: {recording:#?}"
                ),
                Verdict::Unknown(_) => {}
            }
        }
    }
    // Where nothing worse than a cycle is wrong, most of the violations are found.
    println!("violated by definition {wrong:?}, found {found:?}");
    for (level, (found, wrong)) in LEVELS.iter().zip(found.iter().zip(wrong)).skip(1) {
        assert!(
            wrong > cases / 200 && found * 10 > wrong * 6,
            "{level}: {found} of {wrong} violations found"
        );
    }
}

/// The verdicts on [`LEVELS`], and the anomalies found.
fn judgement(init: [Option<i64>; KEYS], txns: &[&[Mop]]) -> Judgement {
    let txns = txns.iter().map(|mops| Txn { kind: EventKind::Ok, mops: mops.to_vec() }).collect();
    let lowered = datatypes::lower(Datatype::Predicates, &Recording { init, txns }.events()).unwrap();
    datatypes::check(&lowered, &Request::default(), &Budget::unlimited())
}

fn judged(init: [Option<i64>; KEYS], txns: &[&[Mop]]) -> (Vec<&'static str>, Vec<&'static str>) {
    let judgement = judgement(init, txns);
    let verdicts = LEVELS.iter().map(|&l| judgement.verdict(l).unwrap().name()).collect();
    (verdicts, judgement.anomalies.iter().map(|a| a.kind.code()).collect())
}

#[test]
fn predicates_make_phantoms() {
    let nothing = Mop::Rows(Predicate::True, [None; KEYS]);
    // Both find the table empty and insert a row: each missed the other's.
    let skew = judged(
        [None; KEYS],
        &[&[nothing.clone(), Mop::Write(0, Some(1))], &[nothing, Mop::Write(1, Some(2))]],
    );
    assert_eq!(skew.0, ["holds", "unknown", "holds", "violated"]);
    assert!(skew.1.contains(&"G2") && !skew.1.contains(&"G2-item"), "{:?}", skew.1);
    // A reader sees one of a transaction's rows and misses the other, which came to match with it.
    let both = [Mop::Write(0, Some(5)), Mop::Write(1, Some(7))];
    let half = [Mop::Read(0, Some(5)), Mop::Rows(Predicate::Mod(1), [Some(5), None])];
    let torn = judged([Some(2), Some(4)], &[&both, &half]);
    assert_eq!(torn.0, ["unknown", "unknown", "violated", "violated"]);
    assert!(torn.1.contains(&"G-single"), "{:?}", torn.1);
    // The other half by item is a matter of items.
    let item = [Mop::Read(0, Some(5)), Mop::Read(1, Some(4))];
    assert_eq!(judged([Some(2), Some(4)], &[&both, &item]).0[1], "violated");
}

#[test]
fn deletions_and_rows_that_are_always_there() {
    let empty = |p| Mop::Rows(p, [None; KEYS]);
    // The row was there in every version.
    let missed = judged([Some(1), None], &[&[Mop::Write(0, Some(3))], &[empty(Predicate::Mod(1))]]);
    assert_eq!(missed.0[3], "violated");
    assert!(missed.1.contains(&"predicate-read-miss"), "{:?}", missed.1);
    // The example says which row the predicate missed, and who wrote it.
    let judgement = judgement([Some(1), None], &[&[Mop::Write(0, Some(3))], &[empty(Predicate::Mod(1))]]);
    let example = judgement.anomalies.iter().find(|a| a.kind == AnomalyKind::PredicateReadMiss).unwrap();
    let [edge] = &example.witness.edges[..] else { panic!("{example:?}") };
    assert_eq!((edge.from, edge.to), (Node::Txn(TxnId(0)), Node::Txn(TxnId(1))));
    let Evidence::Given { reason, operations } = &edge.evidence else { panic!("{edge:?}") };
    assert!(reason.contains("left out 0, which matches in every version"), "{reason}");
    assert_eq!(operations.len(), 1);
    // Who finds nothing saw the deletion, and yet read what it deleted.
    let gone =
        judged([Some(1), None], &[&[Mop::Write(0, None)], &[Mop::Read(0, Some(1)), empty(Predicate::True)]]);
    assert_eq!(gone.0[3], "violated");
    let fine =
        judged([Some(1), None], &[&[Mop::Write(0, None)], &[Mop::Read(0, None), empty(Predicate::True)]]);
    assert_eq!(fine.0, ["holds"; 4]);
}

#[test]
fn lists_show_the_order_of_their_versions() {
    let list = |ints: &[i64]| Datum::List(ints.iter().map(|&i| Datum::Int(i)).collect());
    let event = |process, mops: Vec<Vec<Datum>>| Event {
        kind: EventKind::Ok,
        process: Process::Client(process),
        f: "txn".into(),
        value: Datum::List(mops.into_iter().map(Datum::List).collect()),
        index: None,
        time: None,
        line: 1,
    };
    let (name, key) = (Datum::keyword, Datum::Int(0));
    let odd = || Datum::List(vec![name("mod"), Datum::Int(2), Datum::Int(1)]);
    let write = |ints: &[i64]| vec![name("w"), key.clone(), list(ints)];
    // [2] and [2 4] do not match, [2 4 5] does and comes after both; so the first reader precedes its
    // writer, who wrote what it read elsewhere.
    let events = Events::new(vec![
        event(0, vec![write(&[2])]),
        event(1, vec![write(&[2, 4])]),
        event(2, vec![write(&[2, 4, 5]), vec![name("w"), Datum::Int(1), list(&[9])]]),
        event(
            3,
            vec![
                vec![name("r"), Datum::Int(1), list(&[9])],
                vec![name("rp"), odd(), Datum::Map(vec![(Datum::Int(1), list(&[9]))])],
            ],
        ),
    ]);
    let lowered = datatypes::lower(Datatype::Predicates, &events).unwrap();
    let judgement = datatypes::check(&lowered, &Request::default(), &Budget::unlimited());
    assert_eq!(judgement.verdict(Level::Serializable), Some(&Verdict::Violated));
    assert_eq!(judgement.verdict(Level::RepeatableRead).unwrap().name(), "unknown");
}
