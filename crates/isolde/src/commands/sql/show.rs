//! What a run showed, as text, JSON, scripts and a page.

use super::DriveFlags;
use super::subject::Opened;
use isolde_level::Verdict;
use isolde_sql::campaign::{Class, Summary};
use isolde_sql::judge::Link;
use isolde_sql::record::Executed;
use serde_json::{Value, json};
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
        Verdict::Unknown { .. } => "unknown",
    }
}

impl Shown<'_> {
    /// The table, level by level.
    pub fn text(&self) -> String {
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
                "  {} rounds, {total} transactions ({} committed, {} aborted, {} unknown), {} statements, {:.0} transactions/s",
                s.rounds,
                s.committed,
                s.aborted,
                s.unknown,
                s.statements,
                total as f64 / seconds
            );
            _ = writeln!(out, "  documented: {}", s.promise.documented);
            for (level, v) in &s.required {
                _ = writeln!(out, "  required {}: {}", level.name(), verdict(v));
            }
            if s.counts.is_empty() {
                _ = writeln!(out, "  no anomalies");
                continue;
            }
            _ = writeln!(
                out,
                "  {:<26} {:<14} {:>8} {:>7}  {:<8}  {:<10}",
                "anomaly", "code", "count", "shapes", "Adya", "vendor"
            );
            for (name, count) in &s.counts {
                let shapes = s.classes.iter().filter(|c| c.found.name == *name).count();
                let adya = if name.is_forbidden_by(s.promise.adya) { "forbids" } else { "allows" };
                let vendor = if s.promise.allows.contains(name) { "documents" } else { "forbids" };
                let code = name.code().code();
                _ = writeln!(
                    out,
                    "  {:<26} {code:<14} {count:>8} {shapes:>7}  {adya:<8}  {vendor:<10}",
                    name.kind()
                );
            }
            for class in s.classes.iter().filter(|c| c.shrunk.is_some()) {
                let Some((script, seen)) = &class.shrunk else { continue };
                _ = writeln!(out, "\n  {}, in {seen} of 10 replays of:\n", class.found.name.kind());
                for line in script.print().lines() {
                    _ = writeln!(out, "    {line}");
                }
            }
        }
        out
    }

    /// The JSON document.
    pub fn document(&self) -> Value {
        let levels: Vec<Value> = self.summaries.iter().map(level).collect();
        json!({
            "isolde": env!("CARGO_PKG_VERSION"),
            "schema": 1,
            "database": {
                "product": self.opened.product.name,
                "version": self.opened.product.version,
                "url": self.opened.address(),
                "dialect": self.opened.flavour.to_string(),
            },
            "seed": self.flags.seed,
            "levels": levels,
        })
    }

    /// File names and scripts: the smallest that is known of every shape.
    pub fn scripts(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for s in self.summaries {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
            let isolation: String = s.isolation.chars().map(plain).collect();
            for (i, class) in s.classes.iter().enumerate() {
                let name = format!("{isolation}-{}-{i}.sql", class.found.name.kind());
                let script = class.shrunk.as_ref().map_or(&class.script, |(script, _)| script);
                all.push((name, script.print()));
            }
        }
        all
    }
}

fn level(s: &Summary) -> Value {
    let required: Vec<Value> =
        s.required.iter().map(|(l, v)| json!({"level": l.name(), "verdict": verdict(v)})).collect();
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
                "documented": s.promise.allows.contains(name),
                "examples": classes.iter().map(|c| example(c)).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "isolation": s.isolation,
        "level": s.promise.adya.name(),
        "verdict": verdict(&s.verdict),
        "documented": s.promise.documented,
        "required": required,
        "rounds": s.rounds,
        "transactions": s.committed + s.aborted + s.unknown,
        "committed": s.committed,
        "aborted": s.aborted,
        "indeterminate": s.unknown,
        "statements": s.statements,
        "failures": s.failures,
        "seconds": s.driving.as_secs_f64(),
        "anomalies": anomalies,
    })
}

fn example(class: &Class) -> Value {
    let transactions: Vec<Value> = class.transactions.iter().map(transaction).collect();
    json!({
        "shape": class.found.shape,
        "count": class.count,
        "round": class.round,
        "edges": class.found.links.iter().map(|l| edge(l, class)).collect::<Vec<_>>(),
        "transactions": transactions,
        "script": class.shrunk.as_ref().map_or(&class.script, |s| &s.0).print(),
        "shrunk": class.shrunk.is_some(),
        "replayed": class.shrunk.as_ref().map(|(_, seen)| json!({"shown": seen, "runs": 10})),
    })
}

fn edge(link: &Link, class: &Class) -> Value {
    let name = |place: usize| {
        let at = class.found.transactions.iter().position(|t| *t == place);
        at.map_or_else(String::new, |at| format!("T{}", class.transactions[at].id))
    };
    json!({"from": name(link.from), "to": name(link.to), "type": link.relation.name(), "key": link.row})
}

pub fn transaction(t: &Executed) -> Value {
    let statements: Vec<Value> = t
        .steps
        .iter()
        .map(|s| {
            let rows: Vec<Vec<String>> =
                s.visible.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
            let versions: Vec<String> =
                s.rows.iter().map(|v| format!("{}=[{}]", v.row, v.list.trim_end_matches(','))).collect();
            json!({
                "text": s.text, "rows": rows, "versions": versions, "affected": s.affected,
                "error": s.failed.as_ref().map(|f| &f.message), "undone": s.undone,
            })
        })
        .collect();
    json!({
        "id": format!("T{}", t.id), "session": t.session,
        "outcome": format!("{:?}", t.outcome).to_lowercase(), "statements": statements,
    })
}

/// A page with everything.
pub fn html(shown: &Shown<'_>) -> String {
    let mut out = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>isolde sql</title><style>\
         body{font:15px/1.5 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em}\
         table{border-collapse:collapse}td,th{border:1px solid #bbb;padding:.25em .6em;text-align:left;vertical-align:top}\
         pre{background:#f5f5f2;padding:.8em;overflow:auto}.bad{color:#a11}.ok{color:#174}\
         svg{background:#fff;border:1px solid #ddd}</style>",
    );
    _ = write!(
        out,
        "<h1>{}</h1><p>{}, seed {}</p>",
        escape(&shown.opened.product.to_string()),
        escape(&shown.opened.address()),
        shown.flags.seed
    );
    for s in shown.summaries {
        let class = if s.verdict == Verdict::Violated { "bad" } else { "ok" };
        _ = write!(
            out,
            "<h2>{}</h2><p>Judged as {} (Adya): <b class={class}>{}</b>. Documented: {}. {} rounds, {} transactions committed, {} aborted.</p>",
            escape(&s.isolation),
            s.promise.adya.name(),
            verdict(&s.verdict),
            escape(s.promise.documented),
            s.rounds,
            s.committed,
            s.aborted
        );
        if s.counts.is_empty() {
            out += "<p>No anomalies.</p>";
            continue;
        }
        out += "<table><tr><th>anomaly<th>code<th>count<th>shapes<th>Adya<th>vendor";
        for (name, count) in &s.counts {
            let shapes = s.classes.iter().filter(|c| c.found.name == *name).count();
            _ = write!(
                out,
                "<tr><td>{}<td>{}<td>{count}<td>{shapes}<td>{}<td>{}",
                name.kind(),
                name.code().code(),
                if name.is_forbidden_by(s.promise.adya) { "<b class=bad>forbids</b>" } else { "allows" },
                if s.promise.allows.contains(name) { "documents" } else { "forbids" }
            );
        }
        out += "</table>";
        for class in &s.classes {
            details(&mut out, class);
        }
    }
    out
}

fn details(out: &mut String, class: &Class) {
    let (script, note) = match &class.shrunk {
        Some((script, seen)) => (script, format!("shrunk; shown in {seen} of 10 replays")),
        None => (&class.script, "not shrunk".to_owned()),
    };
    _ = write!(
        out,
        "<details><summary>{}: {} ({} times, round {})</summary>{}<p>{note}</p><pre>{}</pre><table><tr><th>transaction<th>session<th>statement<th>rows<th>versions",
        class.found.name.kind(),
        escape(&class.found.shape),
        class.count,
        class.round,
        graph(class),
        escape(&script.print())
    );
    for t in &class.transactions {
        for s in &t.steps {
            let rows: Vec<String> = s
                .visible
                .iter()
                .map(|r| r.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
                .collect();
            let versions: Vec<String> =
                s.rows.iter().map(|v| format!("{}=[{}]", v.row, v.list.trim_end_matches(','))).collect();
            let failed = s
                .failed
                .as_ref()
                .map_or(String::new(), |f| format!("<br><span class=bad>{}</span>", escape(&f.message)));
            _ = write!(
                out,
                "<tr><td>T{}<td>{}<td>{}{failed}<td>{}<td>{}",
                t.id,
                t.session,
                escape(&s.text),
                escape(&rows.join(" · ")),
                escape(&versions.join(" · "))
            );
        }
    }
    *out += "</table></details>";
}

/// The cycle as a picture: two transactions, an arrow each way.
fn graph(class: &Class) -> String {
    let [a, b] = &class.transactions[..] else { return String::new() };
    let [there, back] = &class.found.links[..] else { return String::new() };
    let first = class.found.transactions.first();
    let (over, under) = if Some(&there.from) == first { (there, back) } else { (back, there) };
    let label = |l: &Link| format!("{}({})", l.relation.name(), escape(&l.row));
    format!(
        "<svg width=420 height=140 viewBox=\"0 0 420 140\" role=img aria-label=\"dependency graph\">\
         <defs><marker id=h markerWidth=10 markerHeight=8 refX=9 refY=4 orient=auto><path d=\"M0,0L10,4L0,8z\"/></marker></defs>\
         <path d=\"M75,60C150,20 270,20 345,60\" fill=none stroke=black marker-end=\"url(#h)\"/>\
         <path d=\"M345,80C270,120 150,120 75,80\" fill=none stroke=black marker-end=\"url(#h)\"/>\
         <circle cx=50 cy=70 r=26 fill=\"#eef\" stroke=black /><circle cx=370 cy=70 r=26 fill=\"#eef\" stroke=black />\
         <text x=50 y=75 text-anchor=middle>T{}</text><text x=370 y=75 text-anchor=middle>T{}</text>\
         <text x=210 y=24 text-anchor=middle>{}</text><text x=210 y=128 text-anchor=middle>{}</text></svg>",
        a.id,
        b.id,
        label(over),
        label(under)
    )
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
