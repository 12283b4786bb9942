//! `anomalist sql scenarios`: Hermitage's table of a database.

use super::ScenarioFlags;
use super::subject::Opened;
use crate::cli::Global;
use crate::destination::write_file;
use crate::exit::{Exit, Failure};
use crate::{interrupt, terminal};
use anomalist_sql::replay::replay;
use anomalist_sql::scenarios::{SCENARIOS, Scenario};
use serde_json::{Value, json};
use std::fmt::Write as _;

pub fn run(flags: &ScenarioFlags, global: &Global) -> Result<Exit, Failure> {
    let chosen: Vec<&Scenario> = SCENARIOS
        .iter()
        .filter(|s| flags.only.is_empty() || flags.only.iter().any(|name| name.eq_ignore_ascii_case(s.name)))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = SCENARIOS.iter().map(|s| s.name).collect();
        return Err(Failure::input(format_args!("no such scenario\n  help: there are {}", names.join(", "))));
    }
    let opened = Opened::open(&flags.place, global)?;
    if let Some(folder) = &flags.scripts {
        std::fs::create_dir_all(folder).map_err(|e| Failure::io(folder, e))?;
        for scenario in &chosen {
            let script = scenario.script(opened.flavour).map_err(Failure::input)?;
            let text = format!("-- {}: {}\n{}", scenario.name, scenario.everyday, script.print());
            write_file(&folder.join(format!("{}.sql", scenario.name)), text.as_bytes())?;
        }
    }
    let subject = opened.subject();
    let mut table: Vec<(String, Vec<Option<bool>>)> = Vec::new();
    let mut refusal = None;
    for isolation in opened.isolations(&flags.place)? {
        let mut row = Vec::new();
        for scenario in &chosen {
            let script = scenario.script(opened.flavour).map_err(Failure::input)?;
            let replayed = replay(subject.database, &isolation, &subject.namespace, &script, subject.stop)
                .map_err(|e| match interrupt::is_requested() {
                    true => Failure::Interrupted,
                    false => Failure::input(format_args!("{}: {e}", scenario.name)),
                })?;
            let refused = Scenario::refused(&replayed);
            row.push(refused.is_none().then(|| scenario.happened(&replayed)));
            refusal = refusal.or_else(|| refused.map(|failed| failed.message.clone()));
        }
        table.push((isolation.name().to_owned(), row));
    }
    let out = match flags.json {
        true => format!("{:#}", document(&opened, &chosen, &table)),
        false => text(&opened, &chosen, &table, refusal.as_deref()),
    };
    terminal::print(&out)?;
    Ok(if refusal.is_some() { Exit::Undecided } else { Exit::Holds })
}

fn document(opened: &Opened, chosen: &[&Scenario], table: &[(String, Vec<Option<bool>>)]) -> Value {
    let levels: Vec<Value> = table
        .iter()
        .map(|(isolation, row)| {
            let cells: serde_json::Map<String, Value> =
                chosen.iter().zip(row).map(|(s, happened)| (s.name.to_owned(), json!(happened))).collect();
            json!({"isolation": isolation, "happened": cells})
        })
        .collect();
    json!({
        "anomalist": env!("CARGO_PKG_VERSION"),
        "schema": 1,
        "database": {"product": opened.product.name, "version": opened.product.version, "url": opened.address()},
        "levels": levels,
    })
}

fn text(
    opened: &Opened,
    chosen: &[&Scenario],
    table: &[(String, Vec<Option<bool>>)],
    refusal: Option<&str>,
) -> String {
    let mut out = format!("{}\n\n", opened.product);
    // A longer name has a line to itself, so that the table fits into 80 columns.
    let fits = |name: &str| name.len() <= 20;
    let wide = table.iter().filter(|(name, _)| fits(name)).map(|(name, _)| name.len()).max().unwrap_or(0);
    _ = write!(out, "{:wide$}", "");
    for s in chosen {
        _ = write!(out, "  {:<width$}", s.name, width = s.name.len().max(3));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    for (name, row) in table {
        match fits(name) {
            true => _ = write!(out, "{name:wide$}"),
            false => _ = write!(out, "{name}\n{:wide$}", ""),
        }
        for (s, happened) in chosen.iter().zip(row) {
            let cell = match happened {
                Some(true) => "yes",
                Some(false) => "—",
                None => "?",
            };
            _ = write!(out, "  {cell:<width$}", width = s.name.len().max(3));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out.push('\n');
    for s in chosen {
        _ = writeln!(out, "{:<9} {}", s.name, s.everyday);
    }
    out += "yes: it happened; —: the database prevented it\n";
    if let Some(refusal) = refusal {
        _ = writeln!(out, "?: the server refused a statement, and nothing was tried; the first: {refusal}");
    }
    out
}
