//! What a run showed, as text, JSON and scripts.

use super::DriveFlags;
use super::subject::Opened;
use crate::terminal::wrap;
use anomalist_databases::{Error, Kind};
use anomalist_level::Verdict;
use anomalist_report::reason;
use anomalist_sql::campaign::{Class, Failures, Summary};
use anomalist_sql::cause::Cause;
use anomalist_sql::judge::Link;
use anomalist_sql::predicate::Unseen;
use anomalist_sql::record::Executed;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub struct Shown<'a> {
    pub opened: &'a Opened,
    pub flags: &'a DriveFlags,
    pub summaries: &'a [Summary],
}

pub fn verdict(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Violated => "violated",
        Verdict::Unknown(_) => "unknown",
    }
}

/// What ended a level before its time.
pub fn early(error: &Error) -> &'static str {
    match error.kind() {
        Kind::Lost => "ended early, the database was lost",
        _ => "ended early, no further round could be run",
    }
}

/// Failures that are not what concurrency and constraints are expected to cause.
pub fn surprising(s: &Summary) -> impl Iterator<Item = (&&'static str, &Failures)> {
    let expected = [Kind::Conflict, Kind::Deadlock, Kind::Constraint, Kind::Timeout].map(Kind::name);
    s.failures.iter().filter(move |(kind, _)| !expected.contains(kind))
}

/// How many conditions were decided, and which were not.
pub fn conditions(decided: usize, unseen: &BTreeMap<Unseen, usize>) -> String {
    let count: usize = unseen.values().sum();
    let mut out = format!("conditions decided by the server: {decided}; not decided: {count}");
    for (at, (why, count)) in unseen.iter().enumerate() {
        _ = write!(out, "{} {count} {}", if at == 0 { ":" } else { "," }, why.text());
    }
    out
}

/// The same for programs.
pub fn undecided(unseen: &BTreeMap<Unseen, usize>) -> BTreeMap<&'static str, usize> {
    unseen.iter().map(|(why, count)| (why.code(), *count)).collect()
}

/// Why a verdict is unknown.
fn why(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Unknown(why) => Some(reason(why)),
        _ => None,
    }
}

impl Shown<'_> {
    /// The table, level by level, in lines of at most `width` columns; but SQL stays as it is.
    pub fn text(&self, width: usize) -> String {
        let lines = |text: &str| wrap(text, "  ", "    ", width);
        let mut out = format!("{}, seed {}\n", self.opened.product, self.flags.seed);
        for s in self.summaries {
            let seconds = s.driving.as_secs_f64().max(1e-3);
            let total = s.committed + s.aborted + s.unknown;
            _ = writeln!(
                out,
                "\n{}: judged as {} (Adya): {}",
                s.isolation,
                s.promise.adya.name(),
                verdict(&s.verdict)
            );
            _ = writeln!(
                out,
                "  {} rounds, {total} transactions, {} statements, {:.0} transactions/s",
                s.rounds,
                s.statements,
                total as f64 / seconds
            );
            let failures: Vec<String> =
                s.failures.iter().map(|(kind, f)| format!("{} {kind}", f.count)).collect();
            let failed = if failures.is_empty() { "none".to_owned() } else { failures.join(", ") };
            out += &lines(&format!(
                "{} committed, {} aborted, {} of unknown outcome; failures: {failed}",
                s.committed, s.aborted, s.unknown
            ));
            for (kind, failures) in surprising(s) {
                out += &lines(&format!("first {kind}: {}", failures.first));
            }
            out += &lines(&conditions(s.decided, &s.unseen));
            out += &lines(&format!("documented: {}", s.promise.documented.text()));
            if let Some(error) = &s.ended {
                out += &lines(&format!("{}: {error}", early(error)));
            }
            if let Some(why) = why(&s.verdict) {
                out += &lines(&format!("unknown: {why}"));
            }
            for (level, v) in &s.required {
                _ = writeln!(out, "  required {}: {}", level.name(), verdict(v));
            }
            if s.counts.is_empty() {
                _ = writeln!(out, "  no anomalies");
                continue;
            }
            _ = writeln!(
                out,
                "  {:<26} {:<18} {:>6} {:>6}  {:<7}  vendor",
                "anomaly", "code", "count", "shapes", "Adya"
            );
            for (name, count) in &s.counts {
                let shapes = s.classes.iter().filter(|c| c.found.name == *name).count();
                let adya = if name.is_forbidden_by(s.promise.adya) { "forbids" } else { "allows" };
                let vendor = if s.promise.documented.forbids(*name) { "forbids" } else { "allows" };
                let code = name.code().code();
                _ = writeln!(
                    out,
                    "  {:<26} {code:<18} {count:>6} {shapes:>6}  {adya:<7}  {vendor}",
                    name.kind()
                );
            }
            for (cause, count) in causes(s) {
                let shapes = if count == 1 { "shape" } else { "shapes" };
                out += &lines(&format!("{count} {shapes} by {}: {}", cause.kind(), cause.text()));
            }
            for class in s.classes.iter().filter(|c| c.shrunk.is_some()) {
                let Some((script, seen)) = &class.shrunk else { continue };
                _ = writeln!(out, "\n  {}, in {seen} of 10 replays of:\n", class.found.name.kind());
                for line in script.print().lines() {
                    _ = writeln!(out, "    {line}");
                }
            }
            for class in unreplayed(s) {
                out += &evidence(class);
            }
        }
        out
    }

    /// The JSON document.
    pub fn document(&self) -> Value {
        let levels: Vec<Value> = self.summaries.iter().map(level).collect();
        json!({
            "anomalist": env!("CARGO_PKG_VERSION"),
            "schema": 1,
            "database": {
                "product": self.opened.product.name,
                "version": self.opened.product.version,
                "url": self.opened.address(),
                "dialect": self.opened.flavour.to_string(),
            },
            "deletions": self.opened.flavour.deletions_are_told_by(),
            "seed": self.flags.seed,
            "generation": self.generation(),
            "levels": levels,
        })
    }

    /// What the statements depend on, beside the seed: by the names of the flags.
    pub fn generation(&self) -> Value {
        let f = self.flags;
        json!({
            "sessions": f.sessions,
            "round": f.round,
            "read-all": f.read_all,
            "tables": f.tables,
            "columns": f.columns,
            "rows": f.rows,
            "statements": f.statements,
            "values": f.values,
            "rollback": f.rollback,
            "autocommit": f.autocommit,
            "savepoints": f.savepoints,
            "mix": f.mix.to_string(),
        })
    }

    /// File names and scripts: the smallest that is known of every shape.
    pub fn scripts(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for s in self.summaries {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
            let isolation: String = s.isolation.name().chars().map(plain).collect();
            for (i, class) in s.classes.iter().enumerate() {
                let name = format!("{isolation}-{}-{i}.sql", class.found.name.kind());
                all.push((name, script(class)));
            }
        }
        all
    }
}

/// The smallest script that is known, and whether it was seen to show what it expects.
pub fn script(class: &Class) -> String {
    match &class.shrunk {
        Some((script, seen)) => format!("-- replayed: shown in {seen} of 10\n{}", script.print()),
        None => format!("-- not replayed: taken unchanged from a run\n{}", class.script.print()),
    }
}

/// One instance of everything that the vendor rules out and no replay has shown.
fn unreplayed(s: &Summary) -> impl Iterator<Item = &Class> {
    let forbidden = s.counts.keys().filter(|name| s.promise.documented.forbids(**name));
    forbidden.filter_map(|name| {
        let mut of = s.classes.iter().filter(|c| c.found.name == *name);
        if of.clone().any(|c| c.shrunk.is_some()) { None } else { of.next() }
    })
}

/// What was seen of an instance, and the script it was cut out as.
fn evidence(class: &Class) -> String {
    let name = class.found.name.kind();
    let mut out = format!("\n  {name}, not seen in a replay, as it was in round {}:\n\n", class.round);
    for t in &class.transactions {
        _ = writeln!(out, "    T{} (session {}): {:?}", t.id, t.session, t.outcome);
        for step in &t.steps {
            let rows: Vec<String> = step
                .visible
                .iter()
                .map(|row| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
                .collect();
            let rows = if rows.is_empty() { String::new() } else { format!("  → {}", rows.join(" | ")) };
            let failed = step.failed.as_ref().map_or(String::new(), |f| format!("  [{}]", f.message));
            _ = writeln!(out, "      {}{rows}{failed}", step.text);
        }
    }
    for link in &class.found.links {
        let name = |place| transaction_name(class, place);
        _ = writeln!(out, "    {} {}({}) {}", name(link.from), link.relation, link.row, name(link.to));
    }
    out.push('\n');
    for line in script(class).lines() {
        _ = writeln!(out, "    {line}");
    }
    out
}

fn transaction_name(class: &Class, place: usize) -> String {
    let at = class.found.transactions.iter().position(|t| *t == place);
    at.map_or_else(String::new, |at| format!("T{}", class.transactions[at].id))
}

/// Causes of what the level's name forbids, with the number of shapes each.
pub fn causes(s: &Summary) -> BTreeMap<Cause, usize> {
    let mut found = BTreeMap::new();
    for class in s.classes.iter().filter(|c| c.found.name.is_forbidden_by(s.promise.adya)) {
        if let Some(cause) = class.cause {
            *found.entry(cause).or_default() += 1;
        }
    }
    found
}

fn level(s: &Summary) -> Value {
    let required: Vec<Value> = s
        .required
        .iter()
        .map(|(l, v)| json!({"level": l.name(), "verdict": verdict(v), "reason": why(v)}))
        .collect();
    let anomalies: Vec<Value> = s
        .counts
        .iter()
        .map(|(name, count)| {
            let classes: Vec<&Class> = s.classes.iter().filter(|c| c.found.name == *name).collect();
            json!({
                "kind": name.kind(),
                "code": name.code().code(),
                "count": count,
                "unique": classes.len(),
                "forbidden": name.is_forbidden_by(s.promise.adya),
                "documented": !s.promise.documented.forbids(*name),
                "examples": classes.iter().map(|c| example(c)).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "isolation": s.isolation.name(),
        "level": s.promise.adya.name(),
        "verdict": verdict(&s.verdict),
        "reason": why(&s.verdict),
        "documented": s.promise.documented.text(),
        "required": required,
        "rounds": s.rounds,
        "transactions": s.committed + s.aborted + s.unknown,
        "committed": s.committed,
        "aborted": s.aborted,
        "indeterminate": s.unknown,
        "statements": s.statements,
        "failed_statements": s.failed_statements,
        "failures": s.failures.iter().map(|(kind, f)| (*kind, f.count)).collect::<BTreeMap<_, _>>(),
        "first_failures": s.failures.iter().map(|(kind, f)| (*kind, &f.first)).collect::<BTreeMap<_, _>>(),
        "overlapping": s.overlapping,
        "conditions": {"decided": s.decided, "undecided": undecided(&s.unseen)},
        "lost": s.ended.as_ref().filter(|e| e.kind() == Kind::Lost).map(ToString::to_string),
        "ended": s.ended.as_ref().map(ToString::to_string),
        "seconds": s.driving.as_secs_f64(),
        "anomalies": anomalies,
    })
}

fn example(class: &Class) -> Value {
    let transactions: Vec<Value> = class.transactions.iter().map(transaction).collect();
    json!({
        "shape": class.found.shape,
        "cause": class.cause.map(Cause::kind),
        "count": class.count,
        "round": class.round,
        "edges": class.found.links.iter().map(|l| edge(l, class)).collect::<Vec<_>>(),
        "tables": class.tables,
        "transactions": transactions,
        "script": script(class),
        "shrunk": class.shrunk.is_some(),
        "replayed": class.shrunk.as_ref().map(|(_, seen)| json!({"shown": seen, "runs": 10})),
    })
}

fn edge(link: &Link, class: &Class) -> Value {
    let name = |place: usize| transaction_name(class, place);
    json!({"from": name(link.from), "to": name(link.to), "type": link.relation.name(), "key": link.row})
}

pub fn transaction(t: &Executed) -> Value {
    let statements: Vec<Value> = t
        .steps
        .iter()
        .map(|s| {
            let rows: Vec<Vec<String>> =
                s.visible.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
            let (versions, deleted) = s.versions();
            json!({
                "text": s.text, "rows": rows, "versions": versions, "deleted": deleted, "affected": s.affected,
                "error": s.failed.as_ref().map(|f| &f.message), "undone": s.undone,
            })
        })
        .collect();
    json!({
        "id": format!("T{}", t.id), "session": t.session,
        "outcome": format!("{:?}", t.outcome).to_lowercase(),
        "error": t.failed.as_ref().map(|f| &f.message), "statements": statements,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_level::Relation;
    use anomalist_sql::instrument::Effect;
    use anomalist_sql::judge::{Found, Name};
    use anomalist_sql::record::{Outcome, Step};
    use anomalist_sql::script::{Line, Script};

    #[test]
    fn what_no_replay_showed_comes_with_its_evidence() {
        let txn = |id: u64, text: &str| Executed {
            id,
            session: id as usize,
            steps: vec![Step::new(1, text, Effect::Update)],
            outcome: Outcome::Committed,
            failed: None,
            interval: (0, 1),
        };
        let relation = Relation::AntiDependency;
        let link = Link { from: 7, to: 9, relation, row: "r1".into(), first: 0, second: 0 };
        let line = Line { session: 1, text: "UPDATE t SET a = 3".to_owned() };
        let script = Script { steps: vec![line], ..Script::default() };
        let shape = "UPDATE | UPDATE".to_owned();
        let class = Class {
            found: Found { name: Name::WriteSkew, links: vec![link], transactions: vec![7, 9], shape },
            count: 1,
            cause: None,
            round: 4,
            tables: Vec::new(),
            transactions: vec![txn(11, "UPDATE t SET a = 1"), txn(12, "UPDATE t SET a = 2")],
            whole: script.clone(),
            script,
            shrunk: None,
        };
        let shown = evidence(&class);
        for part in ["write-skew, not seen in a replay, as it was in round 4:", "T11 (session 11): Committed"]
            .into_iter()
            .chain(["UPDATE t SET a = 1", "T11 rw(r1) T12", "-- not replayed", "UPDATE t SET a = 3;"])
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}
