//! Dependencies through predicates against a transcription of Adya's definitions.
//!
//! A small database runs random transactions one statement at a time, so every version, every query's
//! snapshot and every value is known. From the *whole* truth the definitions (Adya 1999, 4.2.3) say which
//! transactions depend on which through a predicate:
//!
//! - `Ti → Tj` by a predicate read if Tj's query selected a version at or after one of Ti's that changed
//!   whether the row matches, and
//! - `Tj → Ti` by a predicate anti-dependency if Ti made a later version of a row that changes whether it
//!   matches.
//!
//! What `predicate::rows::links` infers from what clients saw must follow from these and from the order of
//! versions: every link is a path of the true graph. And it must find something: wherever nothing else
//! wrote in between, the link itself.

#![allow(clippy::unwrap_used)]

use anomalist_databases::Value;
use anomalist_sql::instrument::Effect;
use anomalist_sql::predicate::rows::{RowQuestion, links};
use anomalist_sql::predicate::versions::{Histories, Made as Known, State};
use anomalist_sql::predicate::{Direction, PredicateLink, RowCondition};
use anomalist_sql::record::{Executed, Outcome, Run, Step, Version, WholeRow};
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// A version of a row as it really is: who made it (0: the start), its value (none: deleted or not born),
/// its list.
#[derive(Clone, Debug)]
struct Made {
    writer: u64,
    value: Option<i64>,
    list: String,
}

/// The truth: versions of each row, in order, those of one transaction merged to its last.
struct World {
    rng: Rng,
    rows: BTreeMap<String, Vec<Made>>,
    next: u64,
}

/// What a query saw: transaction, statement, operator and bound, per row the number of versions that
/// existed for it.
struct Query {
    txn: u64,
    statement: usize,
    lower: bool,
    bound: i64,
    snapshot: BTreeMap<String, usize>,
}

fn matches(value: Option<i64>, lower: bool, bound: i64) -> bool {
    value.is_some_and(|v| if lower { v < bound } else { v >= bound })
}

impl World {
    /// Rows of the start are r1, r2, …
    fn new(seed: u64) -> World {
        let mut rng = Rng::with_seed(seed);
        let mut rows = BTreeMap::new();
        for i in 1..=rng.u64(1..4) {
            let value = Some(rng.i64(0..4));
            rows.insert(format!("r{i}"), vec![Made { writer: 0, value, list: String::new() }]);
        }
        World { rng, rows, next: 0 }
    }

    /// Transactions one after the other, but each with a snapshot of some earlier moment for its queries:
    /// as weak as can be.
    fn run(mut self) -> (Run, World, Vec<Query>) {
        let mut run = Run::default();
        let mut queries = Vec::new();
        for id in 1..=self.rng.u64(2..7) {
            let mut steps: Vec<Step> = Vec::new();
            let mut written: BTreeSet<String> = BTreeSet::new();
            for number in 1..=self.rng.usize(1..4) {
                match self.rng.u8(0..3) {
                    0 => steps.push(self.query(id, number, &written, &mut queries)),
                    _ => steps.push(self.write(id, number, &mut written)),
                }
            }
            run.transactions.push(executed(id, steps));
        }
        // The last transaction reads everything as it is.
        let id = run.transactions.len() as u64 + 1;
        let mut step = Step::new(1, "SELECT * FROM t", Effect::Read);
        let last: Vec<(String, Made)> =
            self.rows.iter().map(|(row, made)| (row.clone(), made.last().unwrap().clone())).collect();
        for (row, made) in last {
            self.tell(&mut step, &row, &made);
        }
        run.transactions.push(executed(id, vec![step]));
        (run, self, queries)
    }

    fn query(
        &mut self,
        txn: u64,
        statement: usize,
        written: &BTreeSet<String>,
        all: &mut Vec<Query>,
    ) -> Step {
        let (lower, bound) = (self.rng.bool(), self.rng.i64(0..5));
        let text = format!("SELECT v FROM t WHERE v {} {bound}", if lower { "<" } else { ">=" });
        let mut step = Step::new(statement, &text, Effect::Read);
        let mut snapshot = BTreeMap::new();
        let names: Vec<String> = self.rows.keys().cloned().collect();
        for row in names {
            // Own writes are seen; of others any version that is there, or none of a row that was born
            // later.
            let made = self.rows[&row].clone();
            let count = match written.contains(&row) {
                true => made.len(),
                false => self.rng.usize(usize::from(!row.contains('.'))..=made.len()),
            };
            let seen = count.checked_sub(1).map(|at| made[at].clone());
            snapshot.insert(row.clone(), count);
            if let Some(seen) = seen.filter(|s| matches(s.value, lower, bound)) {
                self.tell(&mut step, &row, &seen);
            }
        }
        step.rows.sort_unstable();
        all.push(Query { txn, statement, lower, bound, snapshot });
        step
    }

    fn tell(&mut self, step: &mut Step, row: &str, made: &Made) {
        let Some(value) = made.value else { return };
        let version = Version { row: row.into(), list: made.list.as_str().into() };
        step.rows.push(version.clone());
        step.table = Some("t".to_owned());
        step.columns = vec!["v".to_owned()];
        // Values are recorded with most versions, not with all: unknown ones must not mislead.
        if self.rng.u8(0..8) > 0 {
            step.whole.push(WholeRow { version, values: vec![Value::Int(value)] });
        }
    }

    fn write(&mut self, txn: u64, statement: usize, written: &mut BTreeSet<String>) -> Step {
        let element = format!("{txn}.{statement},");
        let living: Vec<String> = self
            .rows
            .iter()
            .filter(|(_, made)| made.last().is_some_and(|m| m.value.is_some()))
            .map(|(row, _)| row.clone())
            .collect();
        let kind = if living.is_empty() { 0 } else { self.rng.u8(0..5) };
        let value = self.rng.i64(0..4);
        let (row, effect) = match kind {
            0 => {
                self.next += 1;
                let row = format!("r{txn}.{statement}.{}", self.next);
                self.rows.insert(row.clone(), Vec::new());
                (row, Effect::Insert { upsert: false })
            }
            1 => (living[self.rng.usize(..living.len())].clone(), Effect::Delete),
            _ => (living[self.rng.usize(..living.len())].clone(), Effect::Update),
        };
        let mut step = Step::new(statement, "(a statement that writes)", effect);
        let before = self.rows[&row].last().map_or(String::new(), |m| m.list.clone());
        let list = format!("{before}{element}");
        let value = (effect != Effect::Delete).then_some(value);
        let made = Made { writer: txn, value, list: if value.is_some() { list } else { before.clone() } };
        match effect {
            Effect::Delete => {
                step.deleted.push(Version { row: row.as_str().into(), list: before.as_str().into() });
            }
            _ => self.tell(&mut step, &row, &made),
        }
        let versions = self.rows.get_mut(&row).unwrap();
        match versions.last_mut() {
            Some(last) if last.writer == txn => *last = made,
            _ => versions.push(made),
        }
        written.insert(row);
        step
    }
}

fn executed(id: u64, steps: Vec<Step>) -> Executed {
    Executed {
        id,
        session: id as usize,
        steps,
        outcome: Outcome::Committed,
        failed: None,
        interval: (id, id),
    }
}

/// Pairs of transactions.
type Edges = BTreeSet<(u64, u64)>;

/// The true graph: predicate dependencies by the definitions, and the order of versions.
fn truth(world: &World, queries: &[Query]) -> (Edges, Edges) {
    let mut direct = BTreeSet::new();
    for q in queries {
        for (row, made) in &world.rows {
            let Some(&count) = q.snapshot.get(row) else {
                // Born after the query was run: all of it came later.
                anti(q, made, 0, false, &mut direct);
                continue;
            };
            // The start of a row that is born by a transaction is a version that does not match.
            let matched = |i: usize| i > 0 && matches(made[i - 1].value, q.lower, q.bound);
            for i in 1..=count {
                if matched(i) != matched(i - 1) && made[i - 1].writer != q.txn && made[i - 1].writer != 0 {
                    direct.insert((made[i - 1].writer, q.txn));
                }
            }
            anti(q, made, count, matched(count), &mut direct);
        }
    }
    let mut versions = BTreeSet::new();
    for made in world.rows.values() {
        for pair in made.windows(2) {
            if pair[0].writer != 0 && pair[0].writer != pair[1].writer {
                versions.insert((pair[0].writer, pair[1].writer));
            }
        }
    }
    (direct, versions)
}

/// Later versions that change whether the row matches.
fn anti(q: &Query, made: &[Made], from: usize, mut matched: bool, direct: &mut Edges) {
    for later in &made[from..] {
        let now = matches(later.value, q.lower, q.bound);
        if now != matched && later.writer != q.txn {
            direct.insert((q.txn, later.writer));
        }
        matched = now;
    }
}

fn reachable(edges: &Edges, from: u64, to: u64) -> bool {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(node) = left.pop() {
        for &(_, next) in edges.range((node, 0)..=(node, u64::MAX)) {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                left.push(next);
            }
        }
    }
    false
}

/// Whether a link is a predicate dependency by definition, with the order of versions behind an
/// anti-dependency or before a read.
fn follows(direct: &Edges, versions: &Edges, from: u64, to: u64, anti: bool) -> bool {
    direct.contains(&(from, to))
        || direct.iter().any(|&(a, b)| match anti {
            true => a == from && reachable(versions, b, to),
            false => b == to && reachable(versions, from, a),
        })
}

/// What the crate infers. Conditions are asked of the truth, by the number of the query.
fn found(run: &Run, queries: &[Query]) -> Vec<PredicateLink> {
    let questions: Vec<RowQuestion> = queries
        .iter()
        .enumerate()
        .map(|(number, q)| RowQuestion {
            reader: (q.txn as usize - 1, q.statement - 1),
            condition: RowCondition {
                table: "t".to_owned(),
                relation: "t".to_owned(),
                alias: "t".to_owned(),
                condition: number.to_string(),
            },
        })
        .collect();
    let truth = |condition: &RowCondition, made: &Known<'_>| {
        let query = &queries[condition.condition.parse::<usize>().unwrap()];
        match made.state {
            State::Values(_, [Value::Int(value)]) => Some(matches(Some(*value), query.lower, query.bound)),
            _ => None,
        }
    };
    let mut found = links(run, &Histories::of(run).unwrap(), &questions, &truth);
    found.sort();
    found.dedup();
    found
}

fn shown(run: &Run) -> String {
    let step = |s: &Step| {
        let rows: Vec<String> = s.rows.iter().map(|v| format!("{}=[{}]", v.row, v.list)).collect();
        format!("  {} {:?} {rows:?} deleted {:?}\n", s.text, s.effect, s.deleted)
    };
    let txn = |t: &Executed| format!("T{}\n{}", t.id, t.steps.iter().map(step).collect::<String>());
    run.transactions.iter().map(txn).collect()
}

#[test]
fn what_is_inferred_follows_from_the_definitions() {
    let start: u64 = std::env::var("ANOMALIST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("ANOMALIST_RUNS").ok().and_then(|s| s.parse().ok()).unwrap_or(4_000);
    let (mut reads, mut antis, mut exact) = (0u64, 0u64, 0u64);
    for seed in start..start + count {
        let (run, world, queries) = World::new(seed).run();
        let (direct, versions) = truth(&world, &queries);
        let id = |place: usize| run.transactions[place].id;
        let found = found(&run, &queries);
        for link in &found {
            let anti = link.direction == Direction::Anti;
            let (from, to) = match anti {
                true => (id(link.reader.0), id(link.writer.0)),
                false => (id(link.writer.0), id(link.reader.0)),
            };
            assert!(
                follows(&direct, &versions, from, to, anti),
                "seed {seed}: {link:?} is T{from} → T{to}\ndirect {direct:?}\nversions {versions:?}\n{}",
                shown(&run)
            );
            exact += u64::from(direct.contains(&(from, to)));
            *(if anti { &mut antis } else { &mut reads }) += 1;
        }
        // Not a check that finds nothing: a row that was certainly absent, and was then born matching, is
        // found.
        for q in queries.iter().filter(|q| q.statement == 1) {
            for (row, made) in &world.rows {
                let born_later = !q.snapshot.contains_key(row) && made.len() == 1 && made[0].writer != q.txn;
                let reported = |t: &Executed| {
                    t.steps.iter().any(|s| {
                        s.whole.iter().any(|w| *w.version.row == **row && *w.version.list == *made[0].list)
                    })
                };
                let known = run.transactions.iter().any(reported);
                if born_later && known && matches(made[0].value, q.lower, q.bound) {
                    let seen = found.iter().any(|l| {
                        l.row == *row && id(l.reader.0) == q.txn && id(l.writer.0) == made[0].writer
                    });
                    assert!(seen, "seed {seed}: {row} was missed for T{}", q.txn);
                }
            }
        }
    }
    assert!(reads > count / 20 && antis > count / 20 && exact > count / 10, "{reads} {antis} {exact}");
}
