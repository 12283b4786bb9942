//! The anomalies that Hermitage (Kleppmann 2014) provokes, as scripts with a forced interleaving.
//!
//! Each script is one that shows its anomaly if the database lets it happen. Whether it did is read off the
//! dependencies of the run (`judge.rs`) or, where the anomaly is about what a read returned in which order,
//! off the rows that were returned.

use crate::Flavour;
use crate::judge::{Name, dependencies_of, pairs_of};
use crate::record::{Failed, Outcome};
use crate::replay::Replayed;
use crate::script::{Line, Script, ScriptError};
use anomalist_databases::{Kind, Value};

/// How to tell whether an anomaly happened.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// Two transactions depend on each other in this way.
    Pair(Name),
    /// A committed transaction read the version that this element ends, of a transaction that was rolled
    /// back or went on to replace it.
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
    /// What happens after all sessions have begun a transaction, as `session:step`; see [`sql`].
    steps: &'static str,
    sign: Sign,
}

const SETUP: &str = "CREATE TABLE test (id INT PRIMARY KEY, value INT);\n\
    INSERT INTO test (id, value) VALUES (1, 10), (2, 20);\n";

/// All scenarios, from the weakest level that forbids them to the strongest. Those whose sign is a
/// dependency end with a query of everything, because an order of versions has to be seen.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "G0",
        everyday: "dirty write",
        steps: "1:w1=11 2:w1=12 1:w2=21 1:commit 2:w2=22 2:commit 1:r*",
        sign: Sign::Pair(Name::DirtyWrite),
    },
    Scenario {
        name: "G1a",
        everyday: "aborted read",
        steps: "1:w1=101 2:r1 1:rollback 2:r1 2:commit",
        sign: Sign::Saw("1.1"),
    },
    Scenario {
        name: "G1b",
        everyday: "intermediate read",
        steps: "1:w1=101 2:r1 1:w1=11 1:commit 2:commit",
        sign: Sign::Saw("1.1"),
    },
    Scenario {
        name: "G1c",
        everyday: "circular information flow",
        steps: "1:w1=11 2:w2=22 1:r2 2:r1 1:commit 2:commit",
        sign: Sign::Pair(Name::CircularFlow),
    },
    Scenario {
        name: "OTV",
        everyday: "observed transaction vanishes",
        steps: "1:w1=11 1:w2=19 2:w1=12 1:commit 3:r1 3:r2 2:w2=18 2:commit 3:commit",
        // It saw the second transaction, and then only the first.
        sign: Sign::Then((7, &[12]), (8, &[19])),
    },
    Scenario {
        name: "PMP",
        everyday: "predicate-many-preceders",
        steps: "1:p=30 2:i3=30 2:commit 1:p>25 1:commit",
        sign: Sign::Returned(5, &[3]),
    },
    Scenario {
        name: "P4",
        everyday: "lost update",
        steps: "1:r1 2:r1 1:w1=11 2:w1=11 1:commit 2:commit 1:r*",
        sign: Sign::Pair(Name::LostUpdate),
    },
    Scenario {
        name: "G-single",
        everyday: "read skew",
        steps: "1:r1 2:w1=12 2:w2=18 2:commit 1:r2 1:commit 2:r*",
        sign: Sign::Pair(Name::ReadSkew),
    },
    Scenario {
        name: "G2-item",
        everyday: "write skew",
        steps: "1:r1,2 2:r1,2 1:w1=11 2:w2=21 1:commit 2:commit 1:r*",
        sign: Sign::Pair(Name::WriteSkew),
    },
    Scenario {
        name: "G2",
        everyday: "phantom",
        steps: "1:p>25 2:p>25 1:i3=30 2:i4=42 1:commit 2:commit",
        // Both found nothing, whatever happened: at least one of them must not commit.
        sign: Sign::Committed(&[1, 2]),
    },
];

/// The statement of a step: `r1` reads a row, `r*` all, `p>25` by a condition on the value; `w1=11`
/// updates, `i3=30` inserts.
fn sql(step: &str) -> String {
    if matches!(step, "commit" | "rollback") {
        return step.to_ascii_uppercase();
    }
    let (verb, rest) = step.split_at(1);
    let (id, value) = rest.split_once('=').unwrap_or((rest, ""));
    match verb {
        "r" if rest == "*" => "SELECT id, value FROM test".to_owned(),
        "r" if rest.contains(',') => format!("SELECT value FROM test WHERE id IN ({rest})"),
        "r" => format!("SELECT value FROM test WHERE id = {rest}"),
        "p" => format!("SELECT id FROM test WHERE value {rest}"),
        "w" => format!("UPDATE test SET value = {value} WHERE id = {id}"),
        _ => format!("INSERT INTO test (id, value) VALUES ({id}, {value})"),
    }
}

impl Scenario {
    /// What its transactions show if it happens.
    pub fn anomaly(&self) -> Name {
        match (self.sign, self.name) {
            (Sign::Pair(name), _) => name,
            (Sign::Saw(_), "G1b") => Name::IntermediateRead,
            (Sign::Saw(_), _) => Name::AbortedRead,
            (Sign::Returned(..), _) => Name::PredicateReadSkew,
            (Sign::Then(..), _) => Name::ReadSkew,
            (Sign::Committed(_), _) => Name::PredicateWriteSkew,
        }
    }

    /// The script.
    pub fn script(&self, flavour: Flavour) -> Result<Script, ScriptError> {
        let mut script = Script::parse(flavour, SETUP)?;
        script.expects = Some(self.anomaly().kind().to_owned());
        let steps = self.steps.split_whitespace().filter_map(|s| s.split_once(':'));
        let lines = steps
            .filter_map(|(session, step)| Some(Line { session: session.parse().ok()?, text: sql(step) }));
        script.steps = lines.collect();
        let begin = |session| Line { session, text: "BEGIN".to_owned() };
        script.steps.splice(0..0, (1..=script.sessions()).map(begin).collect::<Vec<Line>>());
        Ok(script)
    }

    /// What the server refused, if it did not understand a statement: then nothing was tried.
    pub fn refused(replayed: &Replayed) -> Option<&Failed> {
        let by_design = [Kind::Conflict, Kind::Deadlock, Kind::Constraint, Kind::Timeout, Kind::Cancelled];
        let failed = replayed.events.iter().filter_map(|e| e.failed.as_ref());
        failed.into_iter().find(|f| !by_design.contains(&f.kind))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn steps_are_statements() {
        let lines = |name: &str| {
            let scenario = SCENARIOS.iter().find(|s| s.name == name).unwrap();
            let script = scenario.script(Flavour::PostgreSql).unwrap();
            assert_eq!(script.setup.len(), 2);
            script.steps.iter().map(|l| format!("{} {}", l.session, l.text)).collect::<Vec<_>>()
        };
        let expected = [
            "1 BEGIN",
            "2 BEGIN",
            "1 SELECT id FROM test WHERE value =30",
            "2 INSERT INTO test (id, value) VALUES (3, 30)",
            "2 COMMIT",
            "1 SELECT id FROM test WHERE value >25",
            "1 COMMIT",
        ];
        assert_eq!(lines("PMP"), expected);
        assert_eq!(lines("G2-item")[2], "1 SELECT value FROM test WHERE id IN (1,2)");
        assert_eq!(lines("G1a")[4], "1 ROLLBACK");
        assert_eq!(lines("OTV")[7], "3 SELECT value FROM test WHERE id = 1");
        for scenario in SCENARIOS {
            let script = scenario.script(Flavour::MySql).unwrap();
            assert!(script.sessions() >= 2 && script.steps.len() > 6, "{}", scenario.name);
        }
    }
}
