//! `anomalist levels` and `anomalist explain`: the tables of `anomalist-level`, for reading.

use crate::doc::Doc;
use crate::example::draw;
use crate::layout::{Style, Tone, padded, width, wrap};
use crate::titled;
use anomalist_level::{AnomalyKind, Level, Phenomenon};

/// All levels and anomalies with their definitions, every name that `check` prints: the canonical levels,
/// weakest first, then Elle's further models and the anomalies.
pub fn levels_text(style: &Style) -> String {
    let mut out = format!("{} (weakest first)\n", style.paint(Tone::Strong, "Levels"));
    for &level in Level::ALL {
        if level.index() == Level::CANONICAL.len() {
            out.push_str(&format!("\n{}\n", style.paint(Tone::Strong, "Further models of Elle")));
        }
        let info = level.info();
        entry(&mut out, style, info.name, info.aliases, info.definition);
        let implied = names(&implied(level));
        if !implied.is_empty() {
            out.push_str(&wrap("    implies ", 12, style.columns(), &implied));
        }
    }
    out.push_str(&format!("\n{}\n", style.paint(Tone::Strong, "Anomalies")));
    for &kind in AnomalyKind::ALL {
        let info = kind.info();
        let code = if info.code.eq_ignore_ascii_case(info.name) { vec![] } else { vec![info.code] };
        let everyday = Some(info.everyday).filter(|e| !e.is_empty());
        let other: Vec<&str> = code.into_iter().chain(everyday).collect();
        entry(&mut out, style, info.name, &other, info.definition);
        let broken = Level::weakest(&forbidding(kind));
        if !broken.is_empty() {
            out.push_str(&wrap("    rules out ", 14, style.columns(), &names(&broken)));
        }
    }
    out
}

/// The strongest levels that a level implies; of a canonical one, the canonical.
fn implied(level: Level) -> Vec<Level> {
    let below = level.implied().filter(|&l| l != level && (l.is_canonical() || !level.is_canonical()));
    Level::strongest(&below.collect::<Vec<_>>())
}

fn entry(out: &mut String, style: &Style, name: &str, other: &[&str], definition: &str) {
    let aliases = if other.is_empty() { String::new() } else { format!(" ({})", other.join(", ")) };
    let head = wrap("", 4, style.columns().saturating_sub(2), &format!("{name}{aliases}"));
    out.push_str(&format!("\n  {}", head.replacen(name, &style.paint(Tone::Strong, name), 1)));
    out.push_str(&wrap("    ", 4, style.columns(), definition));
}

/// The tables as JSON: `{"anomalist", "schema", "levels": […], "anomalies": […]}`.
pub fn levels_json() -> String {
    let levels = Level::ALL.iter().map(|level| {
        let info = level.info();
        let forbids: Vec<&str> =
            AnomalyKind::ALL.iter().filter(|k| level.forbids(**k)).map(|k| k.name()).collect();
        let mut fields = vec![
            ("level", info.name.into()),
            ("aliases", Doc::texts(info.aliases)),
            ("canonical", Doc::Bool(level.is_canonical())),
            ("definition", info.definition.into()),
            ("source", info.source.into()),
            ("session_order", Doc::Bool(info.session_order)),
            ("real_time", Doc::Bool(info.real_time)),
            ("name_only", Doc::Bool(info.name_only)),
            ("implies", Doc::texts(implied(*level))),
            ("forbids", Doc::texts(forbids)),
        ];
        optional(&mut fields, "elle_name", info.elle_name);
        optional(&mut fields, "in_plume", info.in_plume);
        optional(&mut fields, "example_accepts", info.example_accepts);
        optional(&mut fields, "example_rejects", info.example_rejects);
        Doc::Object(fields)
    });
    let anomalies = AnomalyKind::ALL.iter().map(|kind| {
        let info = kind.info();
        let mut fields = vec![
            ("kind", info.name.into()),
            ("code", info.code.into()),
            ("aliases", Doc::texts(info.aliases)),
            ("everyday", info.everyday.into()),
            ("definition", info.definition.into()),
            ("instance", info.instance.into()),
            ("source", info.source.into()),
            ("implies", Doc::texts(info.implies)),
            ("rules_out", Doc::texts(Level::weakest(&forbidding(*kind)))),
        ];
        optional(&mut fields, "in_plume", info.in_plume);
        optional(&mut fields, "example", info.example);
        Doc::Object(fields)
    });
    Doc::Object(vec![
        ("anomalist", env!("CARGO_PKG_VERSION").into()),
        ("schema", 1.into()),
        ("levels", Doc::Array(levels.collect())),
        ("anomalies", Doc::Array(anomalies.collect())),
    ])
    .pretty()
}

fn optional(fields: &mut Vec<(&'static str, Doc)>, name: &'static str, value: Option<&str>) {
    if let Some(value) = value {
        fields.push((name, value.into()));
    }
}

/// A level: definition, neighbours in the lattice, what it forbids, and histories that do and don't satisfy
/// it.
pub fn explain_level(level: Level, style: &Style) -> String {
    let info = level.info();
    let columns = style.columns();
    let mut out = format!("{}\n\n", style.paint(Tone::Strong, info.name));
    out.push_str(&wrap("  ", 2, columns, info.definition));
    out.push('\n');
    let canonical = |l: &Level| l.is_canonical() || !level.is_canonical();
    let above: Vec<Level> = Level::ALL.iter().copied().filter(|&l| l != level && l.implies(level)).collect();
    let above: Vec<Level> = above.into_iter().filter(|l| canonical(l)).collect();
    let forbids: Vec<String> = AnomalyKind::ALL
        .iter()
        .filter(|&&k| level.forbids(k) && k.info().example.is_some())
        .map(|k| k.code().to_owned())
        .collect();
    let bound = match (info.session_order, info.real_time) {
        // A name without a definition that a history could be held against.
        _ if info.name_only => "",
        (_, true) => "the order of sessions and of real time",
        (true, false) => "the order of each session",
        (false, false) => "nothing but reads and writes: sessions may be reordered",
    };
    let rows = [
        ("also called", info.aliases.join(", ")),
        ("Elle's name", info.elle_name.unwrap_or_default().to_owned()),
        ("bound by", bound.to_owned()),
        ("implies", names(&implied(level))),
        ("implied by", names(&Level::weakest(&above))),
        ("forbids", forbids.join(", ")),
        ("source", info.source.to_owned()),
        ("in Plume", in_plume(info.in_plume)),
    ];
    out.push_str(&facts(&rows, columns));
    for (title, example) in [
        ("A history that satisfies it:", info.example_accepts),
        ("A history that violates it:", info.example_rejects),
    ] {
        if let Some(example) = example {
            out.push_str(&format!("\n  {title}\n\n{}", draw(example, 4, columns)));
        }
    }
    out
}

/// An anomaly: definition, what counts as one, which levels forbid it, and a history that has it.
pub fn explain_anomaly(kind: AnomalyKind, style: &Style) -> String {
    let info = kind.info();
    let columns = style.columns();
    let mut title = titled(kind);
    if !info.everyday.is_empty() {
        let gap = if width(&title) + width(info.everyday) + 2 > columns { "\n  " } else { " " };
        title = format!("{title}:{gap}{}", info.everyday);
    }
    let mut out = format!("{}\n\n", style.paint(Tone::Strong, &title));
    out.push_str(&wrap("  ", 2, columns, info.definition));
    out.push('\n');
    let forbidding = forbidding(kind);
    let (forbidden_by, allowed_by) = match forbidding.is_empty() {
        true => ("no level; it is a warning or a name".to_owned(), String::new()),
        false => (names(&forbidding), names(&allowing(kind))),
    };
    let implies: Vec<&str> = info.implies.iter().map(|k| k.code()).collect();
    let rows = [
        ("also called", info.aliases.join(", ")),
        ("counted as", info.instance.to_owned()),
        ("is also", implies.join(", ")),
        ("rules out", names(&Level::weakest(&forbidding))),
        ("forbidden by", forbidden_by),
        ("allowed by", allowed_by),
        ("not always", also_broken(kind)),
        ("source", info.source.to_owned()),
        ("in Plume", in_plume(info.in_plume)),
    ];
    out.push_str(&facts(&rows, columns));
    if let Some(example) = info.example {
        out.push_str(&format!("\n  A history that has it:\n\n{}", draw(example, 4, columns)));
        if example.contains(",0)") {
            out.push_str("\n    (0 is the initial value)\n");
        }
    }
    out
}

/// Where Plume's letter differs, and how to have it.
fn in_plume(differs: Option<&str>) -> String {
    differs.map_or(String::new(), |differs| format!("{differs} (with Plume's definitions)"))
}

/// The levels that allow an anomaly, as its example shows.
pub(crate) fn allowing(kind: AnomalyKind) -> Vec<Level> {
    let broken = broken_by_example(kind);
    let forbidding = forbidding(kind);
    let allows = |l: &Level| !forbidding.contains(l) && !broken.contains(l);
    Level::CANONICAL.iter().copied().filter(allows).collect()
}

/// The levels that forbid an anomaly. The tables have Elle's facts, in which write skew is G2; it is a
/// G2-item of two transactions that write, so PL-2.99 and PL-3U forbid it too.
pub(crate) fn forbidding(kind: AnomalyKind) -> Vec<Level> {
    let skew = |l: &Level| {
        kind == AnomalyKind::WriteSkew && matches!(l, Level::RepeatableRead | Level::UpdateSerializable)
    };
    Level::CANONICAL.iter().copied().filter(|l| l.forbids(kind) || skew(l)).collect()
}

/// Levels that some instances of an anomaly break and others do not: its definition leaves room for both.
fn also_broken(kind: AnomalyKind) -> String {
    match broken_by_example(kind) {
        [] => String::new(),
        some => format!("{}: broken by the example below, not by every instance", names(some)),
    }
}

/// Levels that do not forbid an anomaly as such, but that its example breaks (a test has the engine decide).
pub(crate) fn broken_by_example(kind: AnomalyKind) -> &'static [Level] {
    use AnomalyKind as A;
    use Level as L;
    const GUARANTEES: &[L] =
        &[L::ReadYourWrites, L::MonotonicReads, L::MonotonicWrites, L::WritesFollowReads];
    const WITHOUT_SESSIONS: &[L] =
        &[L::SnapshotIsolation, L::RepeatableRead, L::UpdateSerializable, L::Serializable];
    match kind {
        A::CyclicCo => &[
            L::AdyaReadCommitted,
            L::SnapshotIsolation,
            L::RepeatableRead,
            L::UpdateSerializable,
            L::Serializable,
        ],
        A::NonMonoReadCm | A::FracturedReadCm => WITHOUT_SESSIONS,
        A::CoConflictCm | A::ConflictCm => &[L::MonotonicReads],
        A::G1a | A::G1b | A::DirtyUpdate => GUARANTEES,
        A::GSingleItem => &[L::ReadAtomic, L::Causal, L::Prefix],
        A::GSingle => &[L::ReadAtomic, L::Causal, L::Prefix, L::RepeatableRead],
        A::GNonadjacentItem | A::GNonadjacentItemProcess | A::GNonadjacentProcess => &[L::Prefix],
        A::GNonadjacent | A::GMsr => &[L::Prefix, L::RepeatableRead],
        A::G2Item => &[L::UpdateSerializable],
        A::GSingleItemProcess | A::GSingleProcess => {
            &[L::ReadYourWrites, L::ReadAtomic, L::Causal, L::Prefix]
        }
        A::Internal => &[
            L::ReadCommitted,
            L::ReadYourWrites,
            L::MonotonicReads,
            L::MonotonicWrites,
            L::WritesFollowReads,
        ],
        // Not decided: lists that contradict each other say nothing about the order of writes.
        A::IncompatibleOrder => &[L::ReadUncommitted],
        A::GMonotonic => &[
            L::ReadCommitted,
            L::ReadAtomic,
            L::Causal,
            L::Prefix,
            L::ParallelSnapshotIsolation,
            L::RepeatableRead,
        ],
        A::GCursor => &[L::ParallelSnapshotIsolation],
        _ => &[],
    }
}

/// A phenomenon of Berenson et al.: its definition, and the anomalies that show it.
pub fn explain_phenomenon(phenomenon: &Phenomenon, style: &Style) -> String {
    let columns = style.columns();
    let title = format!("{}: {}", phenomenon.code, phenomenon.name);
    let mut out = format!("{}\n\n", style.paint(Tone::Strong, &title));
    out.push_str(&wrap("  ", 2, columns, phenomenon.definition));
    out.push('\n');
    let shown_as: Vec<String> = phenomenon.shown_as.iter().map(|&kind| titled(kind)).collect();
    let rows =
        [("shown as", shown_as.join(", ")), ("source", format!("Berenson et al. 1995, {}", phenomenon.code))];
    out.push_str(&facts(&rows, columns));
    for &kind in phenomenon.shown_as {
        out.push('\n');
        out.push_str(&explain_anomaly(kind, style));
    }
    out
}

fn names(levels: &[Level]) -> String {
    levels.iter().map(|l| l.name()).collect::<Vec<_>>().join(", ")
}

fn facts(rows: &[(&str, String)], columns: usize) -> String {
    let rows = || rows.iter().filter(|(_, value)| !value.is_empty());
    let first = rows().map(|(name, _)| width(name)).max().unwrap_or(0);
    rows()
        .map(|(name, value)| wrap(&format!("  {}  ", padded(name, first)), first + 4, columns, value))
        .collect()
}
