//! The files of `--directory`: sentences per type of anomaly, a picture per cycle and per component, and
//! the reads of keys whose order is in doubt.

use super::{Flags, sentences};
use crate::destination::write_file;
use crate::exit::Failure;
use anomalist_history::{History, KeyId, OpId, OpKind, Outcome, TxnId, Value};
use anomalist_jepsen::elle::{Answer, Case, Cycle, Step};
use anomalist_level::elle::Edge as Dependency;
use anomalist_level::{Anomaly, AnomalyKind, Edge, Evidence, Relation, Witness};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the files of one history go: a folder of its own if there are several.
pub(super) fn folder(directory: &Path, history: &Path, several: bool) -> PathBuf {
    match history.file_name() {
        Some(name) if several => directory.join(name),
        _ => directory.to_owned(),
    }
}

/// Writes everything about what is reported.
pub(super) fn write(folder: &Path, history: &History, answer: &Answer, flags: &Flags) -> Result<(), Failure> {
    if answer.reported.is_empty() {
        return Ok(());
    }
    make(folder)?;
    for (kind, cases) in &answer.reported {
        let mut text = String::new();
        for (i, case) in cases.iter().enumerate() {
            let gap = if i > 0 { "\n\n" } else { "" };
            let _ = write!(text, "{gap}{} #{i}\n{}", kind.code(), sentences::case(history, case));
        }
        write_file(&folder.join(format!("{}.txt", kind.code())), text.as_bytes())?;
        let cycles = cases.iter().filter_map(|case| match case {
            Case::Cycle(cycle) => Some(cycle),
            _ => None,
        });
        pictures(&folder.join(kind.code()), history, cycles, flags.max_plot_bytes)?;
    }
    components(&folder.join("sccs"), history, answer, flags.max_plot_bytes)?;
    let doubtful: BTreeSet<KeyId> = answer
        .reported
        .iter()
        .flat_map(|(_, cases)| cases)
        .filter_map(|case| match case {
            Case::IncompatibleOrder { shorter, .. } => Some(history.op(*shorter).key),
            _ => None,
        })
        .collect();
    if !doubtful.is_empty() {
        let folder = folder.join("incompatible-order");
        make(&folder)?;
        for key in doubtful {
            let name = file_name(&history.show_key(key).to_string());
            write_file(&folder.join(format!("{name}.html")), page(history, key).as_bytes())?;
        }
    }
    Ok(())
}

fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::io(folder, error))
}

/// A key as the name of a file.
fn file_name(key: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = key.chars().map(safe).take(80).collect();
    if name.trim_matches('.').is_empty() { "key".to_owned() } else { name }
}

fn pictures<'a>(
    folder: &Path,
    history: &History,
    cycles: impl Iterator<Item = &'a Cycle>,
    largest: usize,
) -> Result<(), Failure> {
    for (i, cycle) in cycles.enumerate() {
        let svg = anomalist_report::svg(history, &anomaly(history, cycle.kind, &cycle.steps));
        if svg.len() <= largest {
            make(folder)?;
            write_file(&folder.join(format!("{i}.svg")), svg.as_bytes())?;
        }
    }
    Ok(())
}

/// A picture of all cycles that share transactions.
fn components(folder: &Path, history: &History, answer: &Answer, largest: usize) -> Result<(), Failure> {
    let mut groups: Vec<(BTreeSet<TxnId>, AnomalyKind, Vec<Step>)> = Vec::new();
    for (kind, cases) in &answer.reported {
        for case in cases {
            let Case::Cycle(cycle) = case else { continue };
            let mut txns: BTreeSet<TxnId> = cycle.steps.iter().map(|s| s.from).collect();
            let (mut kind, mut steps) = (*kind, cycle.steps.clone());
            groups.retain(|(others, first, more)| {
                let apart = others.is_disjoint(&txns);
                if !apart {
                    txns.extend(others);
                    kind = *first;
                    steps.extend(more.iter().filter(|s| !steps.contains(s)).cloned().collect::<Vec<_>>());
                }
                apart
            });
            groups.push((txns, kind, steps));
        }
    }
    for (i, (_, kind, steps)) in groups.iter().enumerate() {
        let svg = anomalist_report::svg(history, &anomaly(history, *kind, steps));
        if svg.len() <= largest {
            make(folder)?;
            write_file(&folder.join(format!("{i}.svg")), svg.as_bytes())?;
        }
    }
    Ok(())
}

/// Steps as a witness, to be drawn.
fn anomaly(history: &History, kind: AnomalyKind, steps: &[Step]) -> Anomaly {
    let edge = |step: &Step| {
        let relation = match step.relation {
            Dependency::Ww | Dependency::Wwp => Relation::VersionOrder,
            Dependency::Wr | Dependency::Wrp => Relation::WriteRead,
            Dependency::Rw | Dependency::Rwp => Relation::AntiDependency,
            Dependency::Process => Relation::SessionOrder,
            Dependency::Realtime => Relation::RealTime,
        };
        let evidence = match (step.first, step.second, step.relation) {
            (Some(write), Some(read), Dependency::Wr) => Evidence::Read { write: Some(write), read },
            (Some(first), Some(second), _) => {
                let reason = sentences::reason(history, step, "the first", "the second").into();
                Evidence::Given { reason, operations: vec![first, second] }
            }
            (.., Dependency::Realtime) => Evidence::RealTime,
            _ => Evidence::Session,
        };
        Edge { from: step.from.into(), to: step.to.into(), relation, evidence }
    };
    let mut transactions: Vec<TxnId> = steps.iter().map(|s| s.from).collect();
    transactions.sort_unstable();
    transactions.dedup();
    let operations = steps.iter().flat_map(|s| [s.first, s.second]).flatten().collect();
    let witness =
        Witness { transactions, operations, edges: steps.iter().map(edge).collect(), ..Witness::default() };
    Anomaly::new(kind, 1, witness)
}

/// All reads of a key, elements that differ from the longest read marked.
fn page(history: &History, key: KeyId) -> String {
    let mut reads: Vec<(OpId, &[Value])> = Vec::new();
    for t in history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted) {
        let lists = history.ops(t).filter(|(_, o)| o.key == key && o.kind == OpKind::Read);
        reads.extend(lists.filter_map(|(op, o)| history.list(o.value).map(|list| (op, list))));
    }
    reads.sort_by_key(|(op, list)| (list.len(), history.position(history.txn_of(*op))));
    let longest = reads.last().map_or(&[][..], |(_, list)| list);
    let shown = escaped(&history.show_key(key).to_string());
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Reads of key {shown}</title>\n\
         <style>body{{font-family:sans-serif}}td{{padding:2px 6px;font-family:monospace}}\
         .differs{{background:#f4a6a6;color:#000}}</style></head><body>\n\
         <h1>Reads of key {shown}</h1>\n<p>Shortest first; elements that differ from the longest read are marked.</p>\n<table>\n"
    );
    for (op, list) in &reads {
        let name = escaped(&history.txn_name(history.txn_of(*op)));
        let _ = write!(page, "<tr><th>{name}</th>");
        for (i, &element) in list.iter().enumerate() {
            let class = if longest.get(i) == Some(&element) { "" } else { " class=\"differs\"" };
            let _ = write!(page, "<td{class}>{}</td>", escaped(&history.show(element).to_string()));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></body></html>\n");
    page
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
