//! `anomalist sql instrument`: statements with their instrumentation.

use super::InstrumentFlags;
use crate::exit::{Exit, Failure};
use crate::terminal;
use anomalist_sql::instrument::{Effect, Instrumenter, Mark};
use anomalist_sqltext::{Control, control, parse, split};
use std::io::Read;

/// Prints every statement as it would be sent. Transactions are numbered as they begin; a statement outside
/// of one is one.
pub fn run(flags: &InstrumentFlags) -> Result<Exit, Failure> {
    let mut script = flags.statements.join(";\n");
    if flags.statements.is_empty() {
        std::io::stdin().read_to_string(&mut script).map_err(Failure::input)?;
    }
    let dialect = flags.dialect.dialect();
    let mut instrumenter = Instrumenter::new(flags.dialect);
    if flags.whole_rows {
        instrumenter = instrumenter.with_whole_rows();
    }
    let mut out = String::new();
    let (mut transaction, mut statement, mut open) = (0, 0, false);
    for piece in split(dialect, &script) {
        let at = |what: &dyn std::fmt::Display| {
            let line = script[..piece.start].matches('\n').count() + 1;
            Failure::input(format_args!("line {line}: {what}\n  {}", piece.text))
        };
        if let Some(known) = control(dialect, piece.text) {
            match known {
                Control::Begin(_) | Control::BeginLocked(_) => {
                    (transaction, statement, open) = (transaction + 1, 0, true);
                }
                Control::Commit(_) | Control::Rollback(_) => open = false,
                // Savepoints count as statements of their transaction, as they do in a run.
                _ => statement += 1,
            }
            out += &format!("{};\n", piece.text);
            continue;
        }
        if !open {
            (transaction, statement) = (transaction + 1, 0);
        }
        statement += 1;
        let tree = parse(dialect, piece.text).map_err(|e| at(&e))?;
        let made =
            instrumenter.instrument(&tree, &Mark::statement(transaction, statement)).map_err(|e| at(&e))?;
        if made.effect == Effect::None && !open {
            transaction -= 1;
        }
        for line in made.before.iter().chain([&made.statement]) {
            out += &format!("{line};\n");
        }
    }
    terminal::print(&out)?;
    Ok(Exit::Holds)
}
