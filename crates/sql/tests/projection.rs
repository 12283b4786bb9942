//! Instrumentation changes nothing that a client sees: the same statements, with and without it, on SQLite.

#![allow(clippy::unwrap_used)]

mod support;

use anomalist_databases::{Connection, Database, Error, Value};
use anomalist_sql::Flavour;
use anomalist_sql::generate::{Generator, Knobs};
use anomalist_sql::instrument::{Instrumenter, Mark};
use anomalist_sql::record::Step;
use anomalist_sqltext::{control, parse};

/// Rows in an order that does not depend on the plan.
fn sorted(mut rows: Vec<Vec<Value>>) -> Vec<String> {
    rows.retain(|row| !row.is_empty());
    let mut all: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    all.sort();
    all
}

fn run_instrumented(
    connection: &mut dyn Connection,
    instrumenter: &mut Instrumenter,
    statement: &str,
    mark: &Mark,
) -> Result<Vec<String>, Error> {
    let tree = parse(Flavour::Sqlite.dialect(), statement).unwrap();
    let made = instrumenter.instrument(&tree, mark).unwrap();
    if let Some(before) = &made.before {
        connection.run(before)?;
    }
    let reply = connection.run(&made.statement)?.pop().unwrap();
    let mut step = Step::new(1, statement, made.effect);
    step.answered(reply, &made.capture);
    Ok(sorted(step.visible))
}

#[test]
fn results_and_errors_are_the_same_after_projection() {
    let mut compared = 0;
    for seed in 0..60 {
        let generator = Generator::new(Knobs::default(), Flavour::Sqlite, seed);
        let schema = generator.schema(0);
        let (plain, other) = (support::File::new(), support::File::new());
        let (mut a, mut b) = (plain.target.connect().unwrap(), other.target.connect().unwrap());
        let mut instrumenter = Instrumenter::new(Flavour::Sqlite).with_whole_rows();
        for (i, statement) in schema.create(Flavour::Sqlite).iter().enumerate() {
            a.run(statement).unwrap();
            run_instrumented(b.as_mut(), &mut instrumenter, statement, &Mark::initial(i as u64)).unwrap();
        }
        for i in 0..12 {
            for (s, statement) in generator.transaction(&schema, 0, 0, i).statements.iter().enumerate() {
                if control(Flavour::Sqlite.dialect(), statement).is_some() {
                    continue;
                }
                let expected = a.run(statement).map(|mut r| sorted(r.pop().unwrap().rows));
                let found = run_instrumented(
                    b.as_mut(),
                    &mut instrumenter,
                    statement,
                    &Mark::statement(i + 1, s + 1),
                );
                match (expected, found) {
                    (Ok(expected), Ok(found)) => assert_eq!(expected, found, "seed {seed}: {statement}"),
                    (Err(x), Err(y)) => assert_eq!(x.code(), y.code(), "seed {seed}: {statement}"),
                    (x, y) => panic!("seed {seed}: {statement}\n{x:?}\n{y:?}"),
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 1000, "{compared}");
}
