"""The edits of scripts/drill, made in the current folder: what a contributor would write."""

import sys
from pathlib import Path


def insert(path, before, text):
    """Puts text in front of the first place that reads `before`."""
    file = Path(path)
    old = file.read_text()
    if before not in old:
        sys.exit(f"{path} has no {before!r}: bring scripts/drill.py up to date")
    file.write_text(old.replace(before, text + before, 1))


def level():
    table = "crates/level/src/level/canonical.rs"
    insert(table, '        ParallelSnapshotIsolation "parallel', '        StrongPrefix "strong-prefix",\n')
    insert(
        table,
        '            ParallelSnapshotIsolationCycleExists "parallel',
        '            StrongPrefixCycleExists "strong-prefix-cycle-exists" "strong prefix consistency",\n',
    )
    insert(
        table,
        '    LevelInfo {\n        aliases: &["psi"],',
        """    LevelInfo {
        session_order: true,
        real_time: true,
        definition: "Prefix consistency whose commit order keeps real time, and whose snapshots hold all that \\
                     was committed before they were taken.",
        source: "the extensibility drill",
        implies: &[L::Prefix],
        forbids: &[A::StrongPrefixCycleExists],
        family: Some(Family::Prefix),
        graph: Some(Graph::Prefix),
        no_order: Some(A::StrongPrefixCycleExists),
        example_accepts: Some("r(x,0) w(x,1) || r(x,0) w(x,2)"),
        example_rejects: Some("w(x,1) || w(y,1) || r(x,1) r(y,0) || r(x,0) r(y,1)"),
        ..LevelInfo::row(L::StrongPrefix)
    },
""",
    )
    insert(
        "crates/verify/src/definition.rs",
        "        Level::ParallelSnapshotIsolation =>",
        "        Level::StrongPrefix => timed(Kind::Prefix),\n",
    )
    insert(
        "crates/testkit/src/oracle/map.rs",
        "    (Level::ParallelSnapshotIsolation,",
        "    (Level::StrongPrefix, Oracle::Strong(StrongLevel { real_time: true, ..StrongLevel::PREFIX })),\n",
    )


def format():
    Path("crates/format/src/shout.rs").write_text(SHOUT)
    insert("crates/format/src/lib.rs", "mod stream;", "mod shout;\n")
    insert(
        "crates/format/src/lib.rs",
        "    /// AWDIT's test format.\n    Awdit,",
        "    /// The drill's: a line per operation, in capitals.\n    Shout,\n",
    )
    insert("crates/format/src/detect.rs", "anomalist, awdit,", "")
    insert(
        "crates/format/src/detect.rs",
        "    Module {\n        format: Format::Awdit,",
        """    Module {
        format: Format::Shout,
        name: "shout",
        extensions: &["txt"],
        folder: false,
        sniff: crate::shout::sniff,
        read: crate::shout::read,
        writer: crate::shout::writer,
    },
""",
    )


def output():
    Path("crates/report/src/documents/tap.rs").write_text(TAP)
    insert("crates/report/src/documents/mod.rs", "mod sarif;", "mod tap;\n")
    insert(
        "crates/report/src/documents/mod.rs",
        '    Document { name: "sarif"',
        '    Document { name: "tap", about: "a TAP report: a line per level", write: tap::tap },\n',
    )


def function():
    insert(
        "crates/weakdb-sql/src/functions/texts.rs",
        '    ours("reverse", 1,',
        """    ours("drilled", 1, Is(Type::Text), |_, args| {
        Ok(if strict(args) { Value::Null } else { format!("drilled {}", plain(&args[0])).into() })
    }),
""",
    )


def workload():
    spec = "crates/workload/src/client/spec.rs"
    insert(
        spec,
        "}\n\n/// How a workload's history is written down.",
        "    /// The drill's: one session increments what all others read.\n    Lighthouse,\n",
    )
    insert(
        spec,
        "];\n\nimpl Workload {",
        '    Row::application(Workload::Lighthouse, "lighthouse", application::lighthouse),\n',
    )
    insert(
        "crates/workload/src/client/application.rs",
        "#[cfg(test)]",
        """pub(super) fn lighthouse(deal: &mut Deal<'_>, ops: &mut Vec<Op>) {
    match deal.choose(&[1, 3]) {
        0 => deal.change(ops, "course.capacity", 0),
        _ => ops.push(read("course.capacity", 0)),
    }
}

""",
    )


def database():
    """A product that speaks a known protocol, with a scheme and a level of its own."""
    insert(
        "crates/databases/src/url.rs",
        "        _ => return Err(UrlError::Scheme),",
        '        "krill" => Family::Postgres,\n',
    )
    insert(
        "crates/databases/src/postgres/mod.rs",
        '        None => ("PostgreSQL",',
        '        None if greeting.version == "15.6" => ("Krill", &greeting.version),\n',
    )
    insert(
        "crates/databases/src/product.rs",
        "        match self.family {\n            Family::Postgres => [",
        """        if self.name == "Krill" {
            return vec![plain("CALM", String::new(), "BEGIN ISOLATION LEVEL SERIALIZABLE")];
        }
""",
    )


SHOUT = """//! The drill's format: `SESSION READS|WRITES KEY VALUE` per line, a transaction each.

use crate::load::{Reading, initial};
use crate::write::numbers::{Encoder, SessionNumbers};
use crate::write::{self, Capabilities, HistoryWriter, InitialRule, Names, Sink};
use crate::{Format, Input, Loaded, ReadError, ReadOptions, WriteError};
use anomalist_history::{Builder, History, OpKind};
use std::io::Write;

pub(crate) fn sniff(head: &[u8]) -> bool {
    let line = head.split(|&b| b == b'\\n').next().unwrap_or_default();
    line.windows(7).any(|w| w == b" READS ") || line.windows(8).any(|w| w == b" WRITES ")
}

pub(crate) fn read(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let mut reading = Reading::new(&input, Format::Shout, options);
    let text = reading.bytes(input)?;
    let mut builder = Builder::new();
    let zero = builder.int(0);
    let initial = initial::value(options, &mut builder, Some(zero))?;
    builder.set_initial_default(initial);
    for line in String::from_utf8_lossy(&text).lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [session, verb, key, value] = words[..] else { continue };
        let number = |builder: &mut Builder, text: &str| builder.int(text.parse().unwrap_or(0));
        let label = number(&mut builder, session);
        let session = builder.session(label);
        let draft = builder.transaction(session);
        let key = number(&mut builder, key);
        let key = builder.key(key);
        let value = number(&mut builder, value);
        let kind = if verb == "WRITES" { OpKind::Write } else { OpKind::Read };
        builder.op(draft, kind, key, value);
    }
    reading.finish(builder)
}

const CAPABILITIES: Capabilities = Capabilities {
    empty: false,
    keys: Names::Natural63,
    values: Names::Natural63,
    initial: InitialRule::Zero,
    ..Capabilities::PLAIN
};

pub(crate) fn writer(sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    let stream = write::stream(Format::Shout, sink)?;
    let encoder = Encoder::new(Format::Shout, CAPABILITIES, lossy);
    Ok(Box::new(Writer { stream, encoder, numbers: SessionNumbers::default() }))
}

struct Writer {
    stream: Box<dyn Write + Send>,
    encoder: Encoder,
    numbers: SessionNumbers,
}

impl HistoryWriter for Writer {
    fn append(&mut self, batch: &History) -> Result<(), WriteError> {
        for t in self.encoder.transactions(batch)? {
            let session = self.numbers.of(batch, t);
            for op in self.encoder.ops(batch, t) {
                let verb = if op.write { "WRITES" } else { "READS" };
                writeln!(self.stream, "{session} {verb} {} {}", op.key, op.value.unwrap_or(0))?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        self.stream.flush()?;
        Ok(())
    }
}
"""

TAP = """//! The drill's report: the Test Anything Protocol, a line per level.

use crate::Subject;

pub(super) fn tap(subjects: &[Subject<'_>]) -> String {
    let levels = subjects.iter().flat_map(|s| &s.judgement.levels);
    let line = |(n, level): (usize, &anomalist_level::LevelVerdict)| {
        let ok = if level.verdict == anomalist_level::Verdict::Holds { "ok" } else { "not ok" };
        format!("{ok} {} {}\\n", n + 1, level.level)
    };
    levels.enumerate().map(line).collect()
}
"""

EXERCISES = [level, format, output, function, workload, database]
{exercise.__name__: exercise for exercise in EXERCISES}[sys.argv[1]]()
