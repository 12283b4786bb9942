use super::*;
use crate::{Answer, Session};
use anomalist_workload::client::Workload;

/// A database that is gone after so many transactions.
struct Mortal(AtomicI64);

struct Life<'a>(&'a Mortal);

impl Engine for &'static Mortal {
    fn describe(&self) -> String {
        "mortal".into()
    }

    fn open(&self, _session: u32) -> Result<Box<dyn Session>, EngineError> {
        match self.0.load(Relaxed) {
            ..=0 => Err(EngineError::new("it is gone")),
            _ => Ok(Box::new(Life(self))),
        }
    }
}

impl Session for Life<'_> {
    fn transact(&mut self, ops: &[Op], answers: &mut Vec<Answer>) -> Ended {
        if self.0.0.fetch_sub(1, Relaxed) <= 0 {
            return Ended::aborted("connection-lost", "it is gone");
        }
        let answer = |op: &Op| match op {
            Op::ReadList(_) => Answer::List(Vec::new()),
            _ => Answer::Done,
        };
        answers.extend(ops.iter().map(answer));
        Ended::Committed
    }

    fn is_usable(&self) -> bool {
        self.0.0.load(Relaxed) > 0
    }
}

fn live(transactions: i64) -> Result<Summary, RunError> {
    let engine: &'static Mortal = Box::leak(Box::new(Mortal(AtomicI64::new(transactions))));
    let plan = Plan {
        engine: &engine,
        spec: &ClientSpec::of(Workload::ListAppend),
        sessions: 2,
        limit: Limit::Transactions(1_000),
        faults: None,
        online: None,
    };
    let output = Output { history: Box::new(std::io::sink()), log: Box::new(std::io::sink()) };
    run(plan, &Control::default(), output)
}

#[test]
fn a_database_that_is_lost_leaves_what_was_recorded() {
    let summary = live(100).unwrap();
    assert_eq!((summary.committed, summary.lost), (100, Some(EngineError::new("it is gone"))));
    assert!(matches!(live(0), Err(RunError::Engine(_))));
    assert_eq!(live(2_000).unwrap().lost, None);
}

/// A database whose client panics: when the second session is opened, or in its n-th transaction.
struct Panicky {
    opens: bool,
    transactions: AtomicI64,
}

struct PanickySession<'a>(&'a Panicky);

impl Engine for &'static Panicky {
    fn describe(&self) -> String {
        "panicky".into()
    }

    fn open(&self, session: u32) -> Result<Box<dyn Session>, EngineError> {
        assert!(!(self.opens && session == 1), "no second session");
        Ok(Box::new(PanickySession(self)))
    }
}

impl Session for PanickySession<'_> {
    fn transact(&mut self, ops: &[Op], answers: &mut Vec<Answer>) -> Ended {
        assert!(self.0.transactions.fetch_sub(1, Relaxed) != 1, "the last straw");
        answers.extend(ops.iter().map(|_| Answer::Done));
        Ended::Committed
    }

    fn is_usable(&self) -> bool {
        true
    }
}

/// A panic ends the run with an error, whenever it comes, instead of leaving other sessions at the barrier;
/// the recording has its end.
#[test]
fn a_panic_of_the_engine_ends_the_run() {
    for (opens, expected) in [(true, "no second session"), (false, "the last straw")] {
        let engine: &'static Panicky =
            Box::leak(Box::new(Panicky { opens, transactions: AtomicI64::new(if opens { 0 } else { 50 }) }));
        let plan = Plan {
            engine: &engine,
            spec: &ClientSpec::of(Workload::ListAppend),
            sessions: 3,
            limit: Limit::Time(Duration::from_secs(3600)),
            faults: None,
            online: None,
        };
        let output = Output { history: Box::new(std::io::sink()), log: Box::new(std::io::sink()) };
        let error = run(plan, &Control::default(), output).unwrap_err();
        assert!(matches!(&error, RunError::Panicked(message) if message == expected), "{error}");
    }
}
