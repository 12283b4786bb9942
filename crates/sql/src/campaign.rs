//! Rounds at one isolation level until time is up, judged one by one, with one script per kind of anomaly.

use crate::Flavour;
use crate::cause::{Cause, cause};
use crate::generate::{Generator, Knobs};
use crate::judge::{Found, Judged, Name, judge};
use crate::namespace::Namespace;
use crate::overlap::overlapping;
use crate::predicate::{Decided, Decider, Unseen};
use crate::record::{Executed, Failed, Outcome, Run, Step};
use crate::replay::{Replayed, replay};
use crate::reproduce;
use crate::run::{Plan, Pool, Round};
use crate::script::Script;
use crate::shrink::shrink;
use crate::vendor::{Promise, promise};
use anomalist_check::Budget;
use anomalist_databases::{Database, Error, Isolation, Kind};
use anomalist_level::{Level, Verdict, Why};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where all randomness comes from.
    pub seed: u64,
    /// What is generated.
    pub knobs: Knobs,
    /// Concurrent sessions; none: two to five, by turns.
    pub sessions: Option<usize>,
    /// Transactions of a round.
    pub transactions: u64,
    /// After how many transactions a session reads every table.
    pub read_all: u64,
    /// How long to go on.
    pub duration: Duration,
    /// Levels that must hold, beside the one of the level's name.
    pub required: Vec<Level>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 0,
            knobs: Knobs::default(),
            sessions: None,
            transactions: 300,
            read_all: 15,
            duration: Duration::from_secs(30),
            required: Vec::new(),
        }
    }
}

/// Instances of one shape.
pub struct Class {
    /// The first of the smallest.
    pub found: Found,
    /// How many there were.
    pub count: u64,
    /// Why the database let it happen, if it is one of the known causes.
    pub cause: Option<Cause>,
    /// The round it is from.
    pub round: u64,
    /// The tables of that round as they were made, and its rows at the start.
    pub tables: Vec<String>,
    /// The transactions of that instance.
    pub transactions: Vec<Executed>,
    /// How to make it happen again, before shrinking.
    pub script: Script,
    /// The same with every transaction that was open at the same time, an aborted one too: it may be what it
    /// takes.
    pub whole: Script,
    /// The smallest script that was seen to show it, and in how many of ten replays it did.
    pub shrunk: Option<(Script, u32)>,
}

/// Failures of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// What the database said the first time, and to what.
    pub first: String,
}

/// What was seen at a level.
pub struct Summary {
    /// The level.
    pub isolation: Isolation,
    /// What is promised at it.
    pub promise: Promise,
    /// Rounds, transactions and statements, and how they ended.
    pub rounds: u64,
    /// Transactions that were committed.
    pub committed: usize,
    /// Transactions that had no effect.
    pub aborted: usize,
    /// Transactions of which it is not known.
    pub unknown: usize,
    /// Statements.
    pub statements: usize,
    /// Those that failed.
    pub failed_statements: usize,
    /// Failures of statements, of BEGIN and COMMIT, and of rounds as a whole, by kind.
    pub failures: BTreeMap<&'static str, Failures>,
    /// Committed transactions that were open together with another session's (see
    /// [`overlap`](crate::overlap)).
    pub overlapping: usize,
    /// Statements whose conditions the server decided on the recorded versions.
    pub decided: usize,
    /// Statements of which dependencies through predicates may be missing, by reason.
    pub unseen: BTreeMap<Unseen, usize>,
    /// Why it ended before its time. What was seen until then counts.
    pub ended: Option<Error>,
    /// How long it took, without judging.
    pub driving: Duration,
    /// The verdict for Adya's level of that name.
    pub verdict: Verdict,
    /// The verdicts for the required levels.
    pub required: Vec<(Level, Verdict)>,
    /// How often each anomaly occurred.
    pub counts: BTreeMap<Name, u64>,
    /// One instance of each shape, by name and shape.
    pub classes: Vec<Class>,
}

impl Summary {
    fn new(isolation: &Isolation, promise: Promise, required: &[Level]) -> Summary {
        Summary {
            isolation: isolation.clone(),
            promise,
            rounds: 0,
            committed: 0,
            aborted: 0,
            unknown: 0,
            statements: 0,
            failed_statements: 0,
            failures: BTreeMap::new(),
            overlapping: 0,
            decided: 0,
            unseen: BTreeMap::new(),
            ended: None,
            driving: Duration::ZERO,
            verdict: Verdict::Holds,
            required: required.iter().map(|&level| (level, Verdict::Holds)).collect(),
            counts: BTreeMap::new(),
            classes: Vec::new(),
        }
    }

    fn add(
        &mut self,
        flavour: Flavour,
        (round, decided): (&Round, &Decided),
        budget: &Budget<'_>,
    ) -> Result<(), Error> {
        let run = &round.run;
        self.decided += decided.statements;
        for (why, count) in &decided.unseen {
            *self.unseen.entry(*why).or_default() += count;
        }
        self.rounds += 1;
        self.committed += run.count(Outcome::Committed);
        self.aborted += run.count(Outcome::Aborted);
        self.unknown += run.count(Outcome::Unknown);
        self.overlapping += overlapping(run);
        for txn in &run.transactions {
            for step in &txn.steps {
                self.statements += 1;
                if let Some(failed) = &step.failed {
                    self.failed_statements += 1;
                    self.failure(failed, Some(&step.text));
                }
            }
            if let Some(failed) = &txn.failed {
                self.failure(failed, None);
            }
        }
        let levels: Vec<Level> = self.required.iter().map(|r| r.0).collect();
        let judged = judge(flavour, (run, decided), &self.promise, &levels, budget).map_err(undecided)?;
        worsen(&mut self.verdict, judged.verdict);
        for ((_, so_far), verdict) in self.required.iter_mut().zip(judged.required) {
            worsen(so_far, verdict);
        }
        for (name, count) in judged.counts {
            *self.counts.entry(name).or_default() += count;
        }
        let size = |transactions: &[Executed]| transactions.iter().map(|t| t.steps.len()).sum::<usize>();
        for (found, count) in judged.examples {
            let key = (found.name, &found.shape);
            let place = self.classes.binary_search_by(|c| (c.found.name, &c.found.shape).cmp(&key));
            let transactions: Vec<Executed> =
                found.transactions.iter().map(|&t| run.transactions[t].clone()).collect();
            match place {
                Ok(at) => {
                    let count = self.classes[at].count + count;
                    if size(&transactions) < size(&self.classes[at].transactions) {
                        let smaller = self.class(flavour, round, found, transactions);
                        self.classes[at] = smaller;
                    }
                    self.classes[at].count = count;
                }
                Err(at) => {
                    let class = self.class(flavour, round, found, transactions);
                    self.classes.insert(at, Class { count, ..class });
                }
            }
        }
        Ok(())
    }

    fn failure(&mut self, failed: &Failed, statement: Option<&str>) {
        let failures = self.failures.entry(failed.kind.name()).or_default();
        failures.count += 1;
        if failures.first.is_empty() {
            failures.first = match statement {
                Some(text) => format!("{}, to: {text}", failed.message),
                None => failed.message.clone(),
            };
        }
    }

    /// Why a verdict of "holds" would say nothing, if so.
    pub fn inconclusive(&self) -> Option<Why> {
        let first = || self.failures.values().max_by_key(|f| f.count).map(|f| f.first.clone());
        if let (0, Some(error)) = (self.rounds, &self.ended) {
            return Some(Why::NoRound { error: error.to_string() });
        }
        let (failed, statements) = (self.failed_statements, self.statements);
        if failed * 2 > statements {
            return Some(Why::StatementsFailed { failed, statements, first: first() });
        }
        if self.committed == 0 {
            return Some(Why::NothingCommitted { first: first() });
        }
        (self.overlapping == 0).then_some(Why::NothingConcurrent)
    }

    /// Where nothing could be seen, nothing holds.
    fn conclude(&mut self) {
        let Some(why) = self.inconclusive() else { return };
        let verdicts = self.required.iter_mut().map(|(_, verdict)| verdict).chain([&mut self.verdict]);
        for verdict in verdicts {
            worsen(verdict, Verdict::Unknown(why.clone()));
        }
    }

    fn class(&self, flavour: Flavour, round: &Round, found: Found, transactions: Vec<Executed>) -> Class {
        let script = |places: &[usize]| {
            reproduce::script(flavour, &self.isolation, (&round.schema, &round.run), &found, places)
        };
        let whole = script(&reproduce::with_bystanders(&round.run, &found.transactions));
        let script = script(&found.transactions);
        Class {
            count: 0,
            cause: cause(flavour, &round.run, &found.links),
            round: round.number,
            tables: round.schema.create(flavour),
            transactions,
            script,
            whole,
            shrunk: None,
            found,
        }
    }
}

fn undecided(error: anomalist::Error) -> Error {
    Error::new(Kind::Other, format!("the round cannot be judged: {error}"))
}

fn worsen(so_far: &mut Verdict, new: Verdict) {
    let rank = |v: &Verdict| match v {
        Verdict::Violated => 2,
        Verdict::Unknown(_) => 1,
        Verdict::Holds => 0,
    };
    if rank(&new) > rank(so_far) {
        *so_far = new;
    }
}

/// So many rounds in a row that could not be run are the end.
const MISSES: u32 = 3;

/// A database to be tested.
pub struct Subject<'a> {
    /// Where it is.
    pub database: &'a dyn Database,
    /// Whose SQL it speaks.
    pub flavour: Flavour,
    /// What it is called.
    pub product: String,
    /// Where tables go.
    pub namespace: Namespace,
    /// Whether the run should stop; polled often.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

impl Subject<'_> {
    /// Runs rounds at a level. `progress` is called after every round. What ends it early is in the summary.
    ///
    /// # Errors
    /// If a round is too large to be judged.
    pub fn campaign(
        &self,
        isolation: &Isolation,
        settings: &Settings,
        progress: &mut dyn FnMut(&Summary),
    ) -> Result<Summary, Error> {
        let mut summary =
            Summary::new(isolation, promise(&self.product, isolation.name()), &settings.required);
        let generator = Generator::new(settings.knobs.clone(), self.flavour, settings.seed);
        let pool = Pool::new(self.database);
        let mut misses = 0;
        let start = Instant::now();
        let over = || (self.stop)() || start.elapsed() >= settings.duration;
        for number in 0.. {
            let plan = Plan {
                pool: &pool,
                flavour: self.flavour,
                isolation: isolation.clone(),
                sessions: settings.sessions.unwrap_or(2 + (number % 4) as usize),
                transactions: settings.transactions,
                read_all: settings.read_all,
                generator: &generator,
                namespace: &self.namespace,
            };
            let began = Instant::now();
            let round = match plan.round(number, &over) {
                Ok(round) => round,
                Err(error) => {
                    summary.failure(&Failed::from(&error), None);
                    // One lost connection is not a lost database.
                    pool.clear();
                    misses += 1;
                    if misses < MISSES && !over() && self.database.connect().is_ok() {
                        continue;
                    }
                    summary.ended = Some(error);
                    break;
                }
            };
            misses = 0;
            summary.driving += began.elapsed();
            let definitions = round.schema.create(self.flavour);
            let definitions = definitions.iter().map(String::as_str);
            let decided = self.decider(&[], definitions.collect()).decide(&round.run);
            summary.add(self.flavour, (&round, &decided), &Budget::unlimited())?;
            progress(&summary);
            if over() {
                break;
            }
        }
        summary.conclude();
        Ok(summary)
    }

    /// Shrinks the script of a class on the database, with all that was open at the same time if it takes
    /// that, until `enough`, and counts in how many of ten replays the result shows the anomaly. What was
    /// not counted to the end is left out.
    pub fn minimise(&self, isolation: &Isolation, class: &mut Class, enough: &dyn Fn() -> bool) {
        let name = class.found.name;
        let shows = |script: &Script| self.shown(isolation, script, name).is_some();
        // A first replay that does not show it may only have been unlucky in what waited for what.
        let twice = |script: &Script| {
            let mut tries = (0..2).map(|_| self.shown(isolation, script, name));
            tries.find_map(|run| run)
        };
        let mut run = twice(&class.script);
        if run.is_none() {
            class.script.clone_from(&class.whole);
            run = twice(&class.script);
        }
        let Some(run) = run else { return };
        // A plain client is to see it as well: no step may make an UPDATE one that changes nothing.
        let no_ops = |script: &Script, run: &Run| self.no_ops(isolation, script, run).unwrap_or(usize::MAX);
        let mut allowed = no_ops(&class.script, &run);
        let keeps = |script: &Script| {
            let Some(run) = self.shown(isolation, script, name) else { return false };
            let found = no_ops(script, &run);
            let keeps = found <= allowed;
            allowed = allowed.min(found);
            keeps
        };
        let small = shrink(self.flavour, &class.script, keeps, || (self.stop)() || enough());
        let seen = (0..10).filter(|_| !(self.stop)() && shows(&small)).count() as u32;
        if !(self.stop)() {
            class.shrunk = Some((small, seen));
        }
    }

    /// The run of a replay, if it shows an anomaly, and everything that the script uses is there.
    fn shown(&self, isolation: &Isolation, script: &Script, name: Name) -> Option<Run> {
        let (replayed, _, judged) = self.replay(isolation, script).ok()?;
        let complete = !replayed.run.transactions.iter().flat_map(|t| &t.steps).any(Step::is_unsupported);
        (complete && judged.counts.contains_key(&name)).then_some(replayed.run)
    }

    /// Replays a script, and judges it by the weakest level that it ran at.
    pub fn replay(
        &self,
        isolation: &Isolation,
        script: &Script,
    ) -> Result<(Replayed, Promise, Judged), Error> {
        let replayed = replay(self.database, isolation, &self.namespace, script, self.stop)?;
        let promise = promise(&self.product, replayed.level().name());
        let decided = self.decider(&script.prelude, script.statements().collect()).decide(&replayed.run);
        let run = (&replayed.run, &decided);
        let judged = judge(self.flavour, run, &promise, &[], &Budget::unlimited());
        Ok((replayed, promise, judged.map_err(undecided)?))
    }

    /// Decides conditions on the server under test.
    fn decider<'d>(&'d self, settings: &'d [String], definitions: Vec<&'d str>) -> Decider<'d> {
        Decider { database: self.database, namespace: &self.namespace, settings, definitions }
    }

    /// The anomalies that a replay of a script shows.
    pub fn found(&self, isolation: &Isolation, script: &Script) -> Result<BTreeSet<Name>, Error> {
        self.replay(isolation, script).map(|(.., judged)| judged.counts.into_keys().collect())
    }
}
