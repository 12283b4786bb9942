//! The anomalies that Hermitage (Kleppmann 2014) provokes, as scripts with a forced interleaving.
//!
//! Each script is one that shows its anomaly if the database lets it happen. Whether it did is read off the dependencies of
//! the run (`judge.rs`) or, where the anomaly is about what a read returned in which order, off the rows that were returned.

use crate::Flavour;
use crate::judge::{Name, dependencies_of, pairs_of};
use crate::record::Outcome;
use crate::replay::Replayed;
use crate::script::{Script, ScriptError};
use isolde_driver::Value;

/// How to tell whether an anomaly happened.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// Two transactions depend on each other in this way.
    Pair(Name),
    /// A committed transaction read the version that this element ends, of a transaction that was rolled back or went on to
    /// replace it.
    Saw(&'static str),
    /// The line of the script, from 0, returned exactly these values.
    Returned(usize, &'static [i64]),
    /// One line returned the first values, and a later line the second.
    Then((usize, &'static [i64]), (usize, &'static [i64])),
    /// These transactions were all committed.
    Committed(&'static [u64]),
}

/// A scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Hermitage's name.
    pub name: &'static str,
    /// The everyday name.
    pub everyday: &'static str,
    /// The statements after the table was made.
    steps: &'static str,
    sign: Sign,
}

const SETUP: &str = "CREATE TABLE test (id INT PRIMARY KEY, value INT);\n\
    INSERT INTO test (id, value) VALUES (1, 10), (2, 20);\n";

/// All scenarios, from the weakest level that forbids them to the strongest.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "G0",
        everyday: "dirty write",
        steps: "BEGIN; -- T1
            BEGIN; -- T2
            UPDATE test SET value = 11 WHERE id = 1; -- T1
            UPDATE test SET value = 12 WHERE id = 1; -- T2
            UPDATE test SET value = 21 WHERE id = 2; -- T1
            COMMIT; -- T1
            UPDATE test SET value = 22 WHERE id = 2; -- T2
            COMMIT; -- T2
            SELECT id, value FROM test; -- T1",
        sign: Sign::Pair(Name::DirtyWrite),
    },
    Scenario {
        name: "G1a",
        everyday: "aborted read",
        steps: "BEGIN; -- T1
            BEGIN; -- T2
            UPDATE test SET value = 101 WHERE id = 1; -- T1
            SELECT value FROM test WHERE id = 1; -- T2
            ROLLBACK; -- T1
            SELECT value FROM test WHERE id = 1; -- T2
            COMMIT; -- T2",
        sign: Sign::Saw("1.1"),
    },
    Scenario {
        name: "G1b",
        everyday: "intermediate read",
        steps: "BEGIN; -- T1
            BEGIN; -- T2
            UPDATE test SET value = 101 WHERE id = 1; -- T1
            SELECT value FROM test WHERE id = 1; -- T2
            UPDATE test SET value = 11 WHERE id = 1; -- T1
            COMMIT; -- T1
            COMMIT; -- T2",
        sign: Sign::Saw("1.1"),
    },
    Scenario {
        name: "G1c",
        everyday: "circular information flow",
        steps: "BEGIN; -- T1
            BEGIN; -- T2
            UPDATE test SET value = 11 WHERE id = 1; -- T1
            UPDATE test SET value = 22 WHERE id = 2; -- T2
            SELECT value FROM test WHERE id = 2; -- T1
            SELECT value FROM test WHERE id = 1; -- T2
            COMMIT; -- T1
            COMMIT; -- T2",
        sign: Sign::Pair(Name::CircularFlow),
    },
    Scenario {
        name: "OTV",
        everyday: "observed transaction vanishes",
        steps: "BEGIN; -- T1
            BEGIN; -- T2
            BEGIN; -- T3
            UPDATE test SET value = 11 WHERE id = 1; -- T1
            UPDATE test SET value = 19 WHERE id = 2; -- T1
            UPDATE test SET value = 12 WHERE id = 1; -- T2
            COMMIT; -- T1
            SELECT value FROM test WHERE id = 1; -- T3
            SELECT value FROM test WHERE id = 2; -- T3
            UPDATE test SET value = 18 WHERE id = 2; -- T2
            COMMIT; -- T2
            COMMIT; -- T3",
        // It saw the second transaction, and then only the first.
        sign: Sign::Then((7, &[12]), (8, &[19])),
    },
    Scenario {
        name: "PMP",
        everyday: "predicate-many-preceders",
        steps: "BEGIN; -- T1
            BEGIN; -- T2
            SELECT id FROM test WHERE value = 30; -- T1
            INSERT INTO test (id, value) VALUES (3, 30); -- T2
            COMMIT; -- T2
            SELECT id FROM test WHERE value > 25; -- T1
            COMMIT; -- T1",
        sign: Sign::Returned(5, &[3]),
    },
    Scenario {
        name: "P4",
        everyday: "lost update",
        steps: "BEGIN; -- T1
            BEGIN; -- T2
            SELECT value FROM test WHERE id = 1; -- T1
            SELECT value FROM test WHERE id = 1; -- T2
            UPDATE test SET value = 11 WHERE id = 1; -- T1
            UPDATE test SET value = 11 WHERE id = 1; -- T2
            COMMIT; -- T1
            COMMIT; -- T2
            SELECT id, value FROM test; -- T1",
        sign: Sign::Pair(Name::LostUpdate),
    },
    Scenario {
        name: "G-single",
        everyday: "read skew",
        steps: "BEGIN; -- T1
            BEGIN; -- T2
            SELECT value FROM test WHERE id = 1; -- T1
            UPDATE test SET value = 12 WHERE id = 1; -- T2
            UPDATE test SET value = 18 WHERE id = 2; -- T2
            COMMIT; -- T2
            SELECT value FROM test WHERE id = 2; -- T1
            COMMIT; -- T1
            SELECT id, value FROM test; -- T2",
        sign: Sign::Pair(Name::ReadSkew),
    },
    Scenario {
        name: "G2-item",
        everyday: "write skew",
        steps: "BEGIN; -- T1
            BEGIN; -- T2
            SELECT value FROM test WHERE id IN (1, 2); -- T1
            SELECT value FROM test WHERE id IN (1, 2); -- T2
            UPDATE test SET value = 11 WHERE id = 1; -- T1
            UPDATE test SET value = 21 WHERE id = 2; -- T2
            COMMIT; -- T1
            COMMIT; -- T2
            SELECT id, value FROM test; -- T1",
        sign: Sign::Pair(Name::WriteSkew),
    },
    Scenario {
        name: "G2",
        everyday: "phantom",
        steps: "BEGIN; -- T1
            BEGIN; -- T2
            SELECT id FROM test WHERE value > 25; -- T1
            SELECT id FROM test WHERE value > 25; -- T2
            INSERT INTO test (id, value) VALUES (3, 30); -- T1
            INSERT INTO test (id, value) VALUES (4, 42); -- T2
            COMMIT; -- T1
            COMMIT; -- T2",
        // Both found nothing, whatever happened: at least one of them must not commit.
        sign: Sign::Committed(&[1, 2]),
    },
];

impl Scenario {
    /// The script.
    pub fn script(&self, flavour: Flavour) -> Result<Script, ScriptError> {
        let mut script = Script::parse(flavour, &format!("{SETUP}{}", self.steps))?;
        script.expects = Some(self.name.to_owned());
        Ok(script)
    }

    /// Whether the anomaly happened.
    pub fn happened(&self, replayed: &Replayed) -> bool {
        let run = &replayed.run;
        let returned = |line: usize, wanted: &[i64]| {
            let event = replayed.events.iter().find(|e| e.line == line);
            let rows = event.filter(|e| e.failed.is_none()).map(|e| &e.rows);
            rows.is_some_and(|rows| {
                let found: Vec<Option<i64>> =
                    rows.iter().map(|r| r.first().and_then(Value::as_int)).collect();
                found.len() == wanted.len() && wanted.iter().all(|w| found.contains(&Some(*w)))
            })
        };
        match self.sign {
            Sign::Pair(name) => dependencies_of(run).is_ok_and(|links| pairs_of(run, &links).contains(&name)),
            Sign::Saw(element) => run.transactions.iter().any(|t| {
                let versions = t.steps.iter().flat_map(|s| &s.rows);
                t.outcome == Outcome::Committed
                    && !element.starts_with(&format!("{}.", t.id))
                    && versions.into_iter().any(|v| v.elements().last() == Some(element))
            }),
            Sign::Returned(line, values) => returned(line, values),
            Sign::Then(first, second) => returned(first.0, first.1) && returned(second.0, second.1),
            Sign::Committed(ids) => ids
                .iter()
                .all(|id| run.transactions.iter().any(|t| t.id == *id && t.outcome == Outcome::Committed)),
        }
    }
}
