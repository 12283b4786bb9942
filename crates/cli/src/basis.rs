//! Flags about what verdicts rest on (values, the timestamps that the database gave its transactions, or
//! both), and the file of what contradicts the timestamps.

use crate::destination::write_file;
use crate::exit::Failure;
use crate::values;
use anomalist::Basis;
use anomalist_history::{History, OpId, TxnId};
use anomalist_level::By;
use anomalist_timestamp::offline::Findings;
use anomalist_timestamp::{Axiom, Mode, Tie, Violation};
use clap::Args;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Flags about it.
#[derive(Args, Clone, Debug)]
pub struct BasisFlags {
    /// What verdicts rest on [default: timestamps for the levels they speak about, where the history has
    /// them]
    #[arg(long, value_name = "BASIS", value_parser = values::basis())]
    pub by: Option<Basis>,
    /// Timestamps: whether a snapshot contains what committed at its very timestamp (inclusive) or not
    /// (exclusive)
    #[arg(long, value_name = "RULE", default_value = "inclusive")]
    pub tie: Tie,
    /// Write the violations of the timestamps, one JSON object per line: the first 1,000 of each axiom
    #[arg(long, value_name = "FILE")]
    pub violations: Option<PathBuf>,
}

/// Writes the listed violations.
pub fn write_violations(path: &Path, history: &History, found: &[(Mode, Findings)]) -> Result<(), Failure> {
    let mut out = String::new();
    for (mode, findings) in found {
        for violation in &findings.listed {
            out.push_str(&line(history, *mode, violation).to_string());
            out.push('\n');
        }
    }
    write_file(path, out.as_bytes())
}

fn line(history: &History, mode: Mode, v: &Violation) -> Value {
    let name = |t: TxnId| Value::from(history.raw_name(t));
    let mut fields = Map::new();
    let mut put = |field: &str, value: Value| drop(fields.insert(field.to_owned(), value));
    let event = if v.axiom == Axiom::Tie { "warning" } else { "violation" };
    put("event", json!(event));
    put("code", json!(v.axiom.code()));
    put("by", json!(By::Timestamps.name()));
    put("mode", json!(if mode == Mode::Si { "si" } else { "ser" }));
    put("transaction", name(v.txn));
    if let Some(key) = v.key {
        put("key", json!(history.show_key(key).raw().to_string()));
    }
    if let Some(read) = v.read {
        let op = OpId(history.op_range(v.txn).start as u32 + read);
        put("operation", json!(read));
        put("observed", json!(history.show(history.op(op).value).raw().to_string()));
    }
    match v.axiom {
        Axiom::Ext | Axiom::Tie => put("expected_from", v.other.map_or(json!("initial"), name)),
        _ => {
            if let Some(other) = v.other {
                put("other", name(other));
            }
        }
    }
    if let Some(class) = v.class {
        put("class", json!(class.name()));
    }
    if let Some(source) = v.source {
        put("source", name(source));
    }
    Value::Object(fields)
}
