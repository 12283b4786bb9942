//! What is instrumented is SQL again.
#![no_main]

use anomalist_sql::Flavour;
use anomalist_sql::instrument::{Instrumenter, Mark};
use anomalist_sqltext::{parse, split};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for flavour in [Flavour::PostgreSql, Flavour::MariaDb, Flavour::MySql, Flavour::Sqlite] {
        let dialect = flavour.dialect();
        let mut instrumenter = Instrumenter::new(flavour).with_whole_rows();
        for (at, piece) in split(dialect, text).enumerate() {
            let Ok(tree) = parse(dialect, piece.text) else { continue };
            // A statement that is printed so that it is not read as the same again (`0 .J` as `0.J`) was not
            // understood to begin with; and the parser does not know TABLE as a query within another.
            let printed = tree.to_string();
            if printed.contains("TABLE ") || parse(dialect, &printed).ok().as_ref() != Some(&tree) {
                continue;
            }
            if let Ok(made) = instrumenter.instrument(&tree, &Mark::statement(1, at)) {
                let again = parse(dialect, &made.statement);
                assert!(again.is_ok(), "{}: {:?}", made.statement, again.err());
            }
        }
    }
});
