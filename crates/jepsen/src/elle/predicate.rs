//! Elle's own answer about rows read by predicate: what `elle.closed-predicate` infers.
//!
//! - The *versions* of a key are its mutations in the order of the file, those of transactions that failed
//!   left out; before them the row of `init`, or else the unborn version. Unborn and dead versions match no
//!   predicate.
//! - A read of nil is of the unborn or of the dead version, if the key has only one of them, one first or
//!   the other last; of the unborn one if it has neither: the read came before `init`.
//! - A predicate read *selects* of each key the version that it returned, or else the only one that does
//!   not match; the unborn one if all match, which is `predicate-read-miss`.
//! - `wr`, `wrp`: from the writer of a version to who read or selected it. `rw`: to the writer of the next
//!   version. `rwp`: to the writer of any later version that matches where the selected one does not, or
//!   the other way round. `ww`: from the writer of the version before, for insertions and deletions.
//!
//! So the answer is right where each key is mutated at most once after `init`, as Elle's generator has it.
//! A key that is mutated more often is reported to the caller. Elle stops if a value is written twice.
//! O(reads × keys × versions).

use super::elle_history::{ElleHistory, Graph};
use super::{Answer, Case, Datatype, Findings, Inference, Options, cycles, orders, steps, verdict};
use crate::datatypes::{Malformed, Predicate, Recorder, rows_of};
use anomalist_check::Budget;
use anomalist_history::{Datum, Events, History, Operation, TooLarge, TxnId, Value};
use anomalist_level::elle::Edge;
use anomalist_level::{AnomalyKind, Level};
use std::collections::{BTreeMap, BTreeSet};

/// Which relation tells an edge that several hold.
const PRECEDENCE: [Edge; 7] =
    [Edge::Ww, Edge::Wr, Edge::Wrp, Edge::Rw, Edge::Rwp, Edge::Process, Edge::Realtime];

/// A version of a row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Unborn,
    Dead,
    Row(Datum),
}

impl Version {
    fn row(&self) -> Option<&Datum> {
        match self {
            Version::Row(row) => Some(row),
            _ => None,
        }
    }

    fn shown(&self) -> Datum {
        match self {
            Version::Unborn => Datum::keyword("elle/unborn"),
            Version::Dead => Datum::keyword("elle/dead"),
            Version::Row(row) => row.clone(),
        }
    }
}

/// A micro-operation.
enum Mop {
    Init(BTreeMap<Datum, Datum>),
    /// The new version, and whether Elle puts it after the version before.
    Mutation {
        key: Datum,
        to: Version,
        ordered: bool,
    },
    Read {
        key: Datum,
        row: Option<Datum>,
    },
    ByPredicate {
        predicate: Predicate,
        rows: BTreeMap<Datum, Datum>,
        shown: Datum,
    },
}

struct Txn {
    mops: Vec<Mop>,
    /// Where it is shown in the recording.
    position: usize,
    ok: bool,
    possible: bool,
}

/// The reason for each edge.
type Steps = BTreeMap<(u32, u32, Edge), Datum>;

/// Elle's answer, with what is needed to tell it.
pub(crate) struct Predicates {
    pub answer: Answer,
    /// Whatever Elle would have stopped at: a value that was written twice to a key.
    pub stopped: Option<(Datum, Datum)>,
    /// A key whose order of versions the file does not show: it was mutated more than once.
    pub mutated_twice: Option<Datum>,
    /// Where transactions are shown.
    positions: Vec<usize>,
    numbered: History,
    steps: Steps,
    misses: Vec<Datum>,
}

/// Elle's answer about the models asked for.
pub(crate) fn closed_predicate(
    events: &Events,
    models: &[Level],
    budget: &Budget<'_>,
) -> Result<Result<Predicates, TooLarge>, Malformed> {
    let mut ops = events.operations();
    // Elle's order is that of completions; what never completed comes last.
    ops.sort_by_key(|op| (op.completion.is_none(), op.shown()));
    let mut recorder = Recorder::new(events, &ops);
    let mut txns = Vec::new();
    for op in &ops {
        recorder.transaction(op);
        let position = op.shown();
        txns.push(Txn { mops: mops(events, op)?, position, ok: op.is_ok(), possible: !op.failed() });
    }
    let history = match recorder.builder.finish() {
        Ok(history) => history,
        Err(large) => return Ok(Err(large)),
    };
    let analysis = Analysis::new(&txns);
    let (answer, steps, misses) = analysis.answer(events, &history, models, budget);
    Ok(Ok(Predicates {
        answer,
        stopped: analysis.twice.clone(),
        mutated_twice: analysis.mutated_twice(),
        positions: txns.iter().map(|t| t.position).collect(),
        steps,
        misses,
        numbered: history,
    }))
}

fn mops(events: &Events, op: &Operation) -> Result<Vec<Mop>, Malformed> {
    let shown = events.get(op.shown());
    let event = match op.invocation {
        Some(invocation) if shown.value.is_nil() => events.get(invocation),
        _ => shown,
    };
    let malformed = || Malformed::new(event, "an init, or micro-operations of a closed predicate");
    if &*event.f == "init" && event.value.as_map().is_some() {
        return Ok(vec![Mop::Init(rows_of(&event.value).ok_or_else(malformed)?)]);
    }
    event.value.as_list().ok_or_else(malformed)?.iter().map(|mop| parse(mop).ok_or_else(malformed)).collect()
}

fn parse(mop: &Datum) -> Option<Mop> {
    let parts = mop.as_list()?;
    let name = parts.first()?.as_name()?;
    let key = || Some(parts.get(1)?.normal_key());
    let row = || parts.get(2).filter(|row| !row.is_nil()).cloned();
    Some(match name {
        "init" => Mop::Init(rows_of(parts.get(1)?)?),
        "insert" | "w" | "write" => {
            Mop::Mutation { key: key()?, to: Version::Row(row()?), ordered: name != "w" }
        }
        "delete" => Mop::Mutation { key: key()?, to: Version::Dead, ordered: true },
        "r" | "read" => Mop::Read { key: key()?, row: row() },
        "rp" => Mop::ByPredicate {
            predicate: Predicate::parse(parts.get(1)?)?,
            rows: rows_of(parts.get(2).unwrap_or(&Datum::Nil))?,
            shown: mop.clone(),
        },
        _ => return None,
    })
}

/// What Elle knows before it draws edges. Transactions are numbered by their completions.
struct Analysis<'a> {
    txns: &'a [Txn],
    versions: BTreeMap<&'a Datum, Vec<Version>>,
    /// Who wrote a version of a key, and by which micro-operation.
    writers: BTreeMap<(&'a Datum, Version), (u32, usize)>,
    /// A key and the value that it got twice.
    twice: Option<(Datum, Datum)>,
    mutations: BTreeMap<&'a Datum, usize>,
}

impl<'a> Analysis<'a> {
    fn new(txns: &'a [Txn]) -> Analysis<'a> {
        let mut new = Analysis {
            txns,
            versions: BTreeMap::new(),
            writers: BTreeMap::new(),
            twice: None,
            mutations: BTreeMap::new(),
        };
        for (node, txn) in txns.iter().enumerate().filter(|(_, txn)| txn.possible) {
            let mut installed: BTreeMap<&Datum, (Version, usize)> = BTreeMap::new();
            for (place, mop) in txn.mops.iter().enumerate() {
                match mop {
                    Mop::Init(rows) => {
                        for (key, row) in rows {
                            new.versions.insert(key, vec![Version::Row(row.clone())]);
                            installed.insert(key, (Version::Row(row.clone()), place));
                        }
                    }
                    Mop::Mutation { key, to, .. } => {
                        new.versions.entry(key).or_insert_with(|| vec![Version::Unborn]).push(to.clone());
                        *new.mutations.entry(key).or_default() += 1;
                        installed.insert(key, (to.clone(), place));
                    }
                    Mop::Read { .. } | Mop::ByPredicate { .. } => {}
                }
            }
            for (key, (version, place)) in installed {
                let shown = version.shown();
                if new.writers.insert((key, version), (node as u32, place)).is_some() {
                    new.twice.get_or_insert_with(|| (key.clone(), shown));
                }
            }
        }
        new
    }

    fn mutated_twice(&self) -> Option<Datum> {
        self.mutations.iter().find(|(_, count)| **count > 1).map(|(key, _)| (*key).clone())
    }

    fn of(&self, key: &Datum) -> &[Version] {
        self.versions.get(key).map_or(&[], Vec::as_slice)
    }

    fn writer(&self, key: &'a Datum, version: &Version) -> Option<(u32, usize)> {
        self.writers.get(&(key, version.clone())).copied()
    }

    /// The version that a read shows; none if it may be either of two.
    fn resolve(&self, key: &Datum, row: Option<&Datum>) -> Option<Version> {
        let versions = self.of(key);
        let (unborn, dead) =
            (versions.first() == Some(&Version::Unborn), versions.last() == Some(&Version::Dead));
        match (row, unborn, dead) {
            (Some(row), ..) => Some(Version::Row(row.clone())),
            (None, true, true) => None,
            (None, false, true) => Some(Version::Dead),
            (None, ..) => Some(Version::Unborn),
        }
    }

    /// The version after this one.
    fn next(&self, key: &Datum, version: &Version) -> Option<&Version> {
        let versions = self.of(key);
        match versions.iter().position(|v| v == version) {
            Some(place) => versions.get(place + 1),
            None => versions.first().filter(|_| *version == Version::Unborn),
        }
    }

    /// The versions that a read by predicate must have selected.
    fn selected(
        &self,
        predicate: &Predicate,
        rows: &'a BTreeMap<Datum, Datum>,
    ) -> BTreeMap<&'a Datum, Version> {
        let mut selected: BTreeMap<&Datum, Version> =
            rows.iter().map(|(key, row)| (key, Version::Row(row.clone()))).collect();
        for (&key, versions) in self.versions.iter().filter(|(key, _)| !rows.contains_key(**key)) {
            let mut others = versions.iter().filter(|v| !predicate.matches(v.row()));
            match (others.next(), others.next()) {
                (None, _) => _ = selected.insert(key, Version::Unborn),
                (Some(only), None) => _ = selected.insert(key, only.clone()),
                (Some(_), Some(_)) => {}
            }
        }
        selected
    }

    fn answer(
        &self,
        events: &Events,
        history: &History,
        models: &[Level],
        budget: &Budget<'_>,
    ) -> (Answer, Steps, Vec<Datum>) {
        let numbered = ElleHistory::new(history);
        let mut drawing = Drawing { steps: BTreeMap::new(), graph: Graph::new(&numbered) };
        let (mut misses, mut findings): (Vec<Datum>, Findings) = (Vec::new(), Vec::new());
        for (node, txn) in self.txns.iter().enumerate().filter(|(_, txn)| txn.possible) {
            for (place, mop) in txn.mops.iter().enumerate() {
                let at = (node as u32, place);
                match mop {
                    Mop::Mutation { key, to, ordered: true } => self.mutation(&mut drawing, key, to, at),
                    Mop::Read { key, row } if txn.ok => self.read(&mut drawing, key, row.as_ref(), at),
                    Mop::ByPredicate { predicate, rows, shown } if txn.ok => {
                        self.by_predicate(&mut drawing, (predicate, rows, shown), at);
                        for key in self.missed(predicate, rows) {
                            findings.push((
                                AnomalyKind::PredicateReadMiss,
                                Case::PredicateReadMiss { txn: numbered.txn(node as u32) },
                            ));
                            misses.push(Datum::map([
                                ("op", events.datum(txn.position)),
                                ("mop", shown.clone()),
                                ("key", key.clone()),
                                ("versions", Datum::List(self.of(key).iter().map(Version::shown).collect())),
                            ]));
                        }
                    }
                    _ => {}
                }
            }
        }
        let options = Options { models: models.to_vec(), ..Options::new(Datatype::RwRegister) };
        let prohibited = options.prohibited();
        let Drawing { steps, mut graph } = drawing;
        if let Some(order) = orders::wanted(&prohibited) {
            orders::add(&numbered, order, &mut graph);
        }
        let edges = std::mem::take(&mut graph.edges);
        let evidence = steps::Evidence::Elsewhere;
        let inference = Inference { graph, findings: Vec::new(), objection: None, evidence };
        cycles::search(&numbered, edges, &inference, &PRECEDENCE, budget, &mut findings);
        (verdict::answer(findings, &prohibited, None), steps, misses)
    }

    fn mutation(&self, drawing: &mut Drawing, key: &'a Datum, to: &Version, at: (u32, usize)) {
        let versions = self.of(key);
        let before =
            versions.iter().position(|v| v == to).and_then(|place| versions.get(place.checked_sub(1)?));
        if let Some(before) = before
            && let Some(writer) = self.writer(key, before)
        {
            let shown = [("key", key.clone()), ("value", before.shown()), ("value'", to.shown())];
            drawing.edge(Edge::Ww, writer, at, &shown);
        }
    }

    fn read(&self, drawing: &mut Drawing, key: &'a Datum, row: Option<&Datum>, at: (u32, usize)) {
        let Some(version) = self.resolve(key, row) else { return };
        if let Some(writer) = self.writer(key, &version) {
            drawing.edge(Edge::Wr, writer, at, &[("key", key.clone()), ("value", version.shown())]);
        }
        if let Some(next) = self.next(key, &version)
            && let Some(writer) = self.writer(key, next)
        {
            let shown = [("key", key.clone()), ("value", version.shown()), ("value'", next.shown())];
            drawing.edge(Edge::Rw, at, writer, &shown);
        }
    }

    fn by_predicate(
        &self,
        drawing: &mut Drawing,
        (predicate, rows, shown): (&Predicate, &'a BTreeMap<Datum, Datum>, &Datum),
        at: (u32, usize),
    ) {
        let read = || ("predicate-read", shown.clone());
        for (key, version) in self.selected(predicate, rows) {
            if let Some(writer) = self.writer(key, &version) {
                let shown = [("key", key.clone()), ("value", version.shown()), read()];
                drawing.edge(Edge::Wrp, writer, at, &shown);
            }
            let versions = self.of(key);
            let Some(place) = versions.iter().position(|v| *v == version) else { continue };
            let matches = |v: &Version| predicate.matches(v.row());
            for later in versions[place + 1..].iter().filter(|later| matches(later) != matches(&version)) {
                if let Some(writer) = self.writer(key, later) {
                    let shown =
                        [("key", key.clone()), ("value", version.shown()), ("value'", later.shown()), read()];
                    drawing.edge(Edge::Rwp, at, writer, &shown);
                }
            }
        }
    }

    /// Keys that match in every version and were not returned.
    fn missed(&self, predicate: &Predicate, rows: &BTreeMap<Datum, Datum>) -> BTreeSet<&'a Datum> {
        let all = self.versions.iter().filter(|(key, _)| !rows.contains_key(**key));
        all.filter(|(_, versions)| versions.iter().all(|v| predicate.matches(v.row())))
            .map(|(key, _)| *key)
            .collect()
    }
}

/// Edges so far, each with the first reason for it.
struct Drawing {
    graph: Graph,
    steps: Steps,
}

impl Drawing {
    fn edge(&mut self, edge: Edge, from: (u32, usize), to: (u32, usize), shown: &[(&str, Datum)]) {
        if from.0 == to.0 {
            return;
        }
        self.graph.add(from.0, to.0, edge);
        let places = [("a-mop-index", Datum::count(from.1)), ("b-mop-index", Datum::count(to.1))];
        self.steps.entry((from.0, to.0, edge)).or_insert_with(|| {
            let shown = shown.iter().map(|(name, value)| (*name, value.clone()));
            Datum::map([("type", Datum::keyword(edge.name()))].into_iter().chain(shown).chain(places))
        });
    }
}

impl Predicates {
    /// What was found, by type, as Elle tells it.
    pub fn anomalies(&self, events: &Events) -> Datum {
        let of = |(kind, cases): &(AnomalyKind, Vec<Case>)| {
            let shown = match cases.as_slice() {
                [Case::EmptyGraph] => Datum::Bool(true),
                [Case::PredicateReadMiss { .. }, ..] => Datum::List(self.misses.clone()),
                cases => Datum::List(cases.iter().map(|case| self.case(events, kind, case)).collect()),
            };
            (Datum::keyword(kind.code()), shown)
        };
        Datum::Map(self.answer.reported.iter().map(of).collect())
    }

    fn case(&self, events: &Events, kind: &AnomalyKind, case: &Case) -> Datum {
        let node = |t: TxnId| self.numbered.position(t);
        let op = |t: TxnId| events.datum(self.positions[node(t) as usize]);
        let index = |t: TxnId| match self.numbered.txn_label(t).map(Value::view) {
            Some(anomalist_history::View::Int(i)) => Datum::Int(i),
            _ => Datum::count(node(t) as usize),
        };
        match case {
            Case::Cycle(cycle) => {
                let first = cycle.steps.first().map(|s| op(s.from));
                let ops = cycle.steps.iter().map(|s| op(s.from)).chain(first);
                let steps = cycle.steps.iter().map(|s| {
                    let shown = self.steps.get(&(node(s.from), node(s.to), s.relation));
                    shown
                        .cloned()
                        .unwrap_or_else(|| Datum::map([("type", Datum::keyword(s.relation.name()))]))
                });
                Datum::map([
                    ("cycle", Datum::List(ops.collect())),
                    ("steps", Datum::List(steps.collect())),
                    ("type", Datum::keyword(cycle.kind.code())),
                ])
            }
            Case::CycleExists { model, txns } => Datum::map([
                ("type", Datum::keyword(kind.code())),
                ("not", Datum::keyword(model.name())),
                ("scc", Datum::List(txns.iter().map(|&t| index(t)).collect())),
            ]),
            _ => Datum::map([("type", Datum::keyword(kind.code()))]),
        }
    }
}
