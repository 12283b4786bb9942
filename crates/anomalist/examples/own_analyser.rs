//! An analyser of your own: dependencies that reads and writes do not show.
//!
//! The database of this example keeps an audit log. The clients' history alone is serializable; the log
//! says that the reader was committed before the writer whose append it read, which no order explains. An
//! analyser adds the log's order to the graph of dependencies, with its reason.

#![allow(clippy::print_stdout, reason = "an example prints")]

use anomalist::core::history::{History, Index, TxnId};
use anomalist::core::level::Relation;
use anomalist::{Analyser, ExtraEdge, Level, Recorder, Verdict, check};

/// Pairs of transactions in the order in which the audit log has them.
struct AuditLog(Vec<(TxnId, TxnId)>);

impl Analyser for AuditLog {
    fn edges(&self, _: &History, _: &Index, add: &mut dyn FnMut(ExtraEdge)) {
        for &(from, to) in &self.0 {
            let reason = "the audit log has it first".into();
            add(ExtraEdge { from, to, relation: Relation::RealTime, reason, operations: Vec::new() });
        }
    }
}

fn main() -> Result<(), anomalist::Error> {
    let recorder = Recorder::new();
    let (mut writer, mut reader) = (recorder.session("writer"), recorder.session("reader"));
    let (write, read) = (writer.begin(), reader.begin()); // concurrent
    write.append("log", 1).commit();
    read.read("log", vec![1]).commit();
    let recorded = recorder.finish()?;

    let strict = Level::StrictSerializable;
    let clients_alone = check(&recorded).decide(strict).run()?;
    assert_eq!(clients_alone.judgement().verdict(strict), Some(&Verdict::Holds));

    // Transactions are numbered session by session: 0 is the writer's, 1 the reader's.
    let log = AuditLog(vec![(TxnId(1), TxnId(0))]);
    let answer = check(&recorded).decide(strict).with(&log).run()?;
    println!("{answer}");
    assert_eq!(answer.judgement().verdict(strict), Some(&Verdict::Violated));
    Ok(())
}

#[test]
fn it_runs() -> Result<(), anomalist::Error> {
    main()
}
