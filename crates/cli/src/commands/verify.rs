//! `anomalist verify`: looks whether a certificate proves what it says, with the verifier alone.

use crate::cli::{Global, ReadFlags};
use crate::exit::{Exit, Failure};
use crate::{load, terminal};
use anomalist_format::PathName;
use anomalist_format::certificate::{self, CertificateError};
use anomalist_level::{Definitions, Judgement, Verdict};
use anomalist_verify::Verifier;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Flags of `verify`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: anomalist check history.edn --certificate proof.json; anomalist verify history.edn proof.json\n\n\
    Exit status: 0 the certificate proves what it says, 1 it does not, 2 it says nothing,\n3 the history or the certificate cannot be read."
)]
pub struct Flags {
    /// The history: a file, a folder of Cobra's or Viper's logs, or - for standard input
    #[arg(value_name = "HISTORY")]
    history: PathBuf,
    /// The certificate that `check --certificate` wrote
    #[arg(value_name = "CERT")]
    certificate: PathBuf,
    /// Accept the assumptions that `check` was given (--wfr-keys and the like), which no history shows
    #[arg(long)]
    trust_assumptions: bool,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadFlags,
}

/// What to say of a certificate without verdicts.
const EMPTY: &str =
    "the certificate has no verdicts; those by timestamps are verified by `check --verify` only";

/// Verifies.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let history = load::read(&flags.history, &flags.read, global)?.history;
    let text = load::text(&flags.certificate, flags.read.limits, global)?;
    let (judgement, flaw) = match certificate::read(&history, text.as_bytes()) {
        Ok(statement) => {
            let flaw = Verifier::new(&history)
                .trusting(flags.trust_assumptions)
                .judgement(&statement.judgement)
                .err();
            (statement.judgement, flaw.map(|flaw| flaw.message(&history)))
        }
        // It can be read, and is not about this history.
        Err(error @ (CertificateError::OtherHistory { .. } | CertificateError::Unknown { .. })) => {
            (Judgement::default(), Some(error.to_string()))
        }
        Err(error) => {
            let help = match error {
                CertificateError::Syntax { .. } => {
                    "; a certificate is what `anomalist check --certificate` writes"
                }
                _ => "",
            };
            return Err(Failure::input(format_args!("{}: {error}{help}", flags.certificate.shown())));
        }
    };
    let is_empty = flaw.is_none() && judgement.levels.is_empty() && judgement.mixed.is_none();
    if flags.json {
        let verdicts: Vec<_> = judgement
            .levels
            .iter()
            .map(|l| json!({"level": l.level.name(), "verdict": l.verdict.name()}))
            .collect();
        let answer = json!({
            "anomalist": env!("CARGO_PKG_VERSION"),
            "schema": 1,
            "definitions": judgement.definitions.name(),
            "proven": flaw.is_none() && !is_empty,
            "reason": flaw.as_deref().or(is_empty.then_some(EMPTY)),
            "verdicts": verdicts,
            "mixed": judgement.mixed.as_ref().map(|mixed| mixed.verdict.name()),
        });
        terminal::print(&format!("{answer:#}\n"))?;
    } else if is_empty {
        terminal::print(&format!("Nothing is proven: {EMPTY}.\n"))?;
    } else {
        terminal::print(&reported(&judgement, flaw.as_deref()))?;
    }
    Ok(match flaw {
        Some(_) => Exit::Violated,
        None if is_empty => Exit::Undecided,
        None => Exit::Holds,
    })
}

fn reported(judgement: &Judgement, flaw: Option<&str>) -> String {
    if let Some(flaw) = flaw {
        return format!("Not proven: {flaw}.\n");
    }
    let levels = |wanted: Verdict| -> Vec<&str> {
        judgement.levels.iter().filter(|l| l.verdict == wanted).map(|l| l.level.name()).collect()
    };
    let mut text = String::from(match judgement.definitions {
        Definitions::Anomalist => "Proven.\n",
        Definitions::Plume => "Proven by Plume's definitions.\n",
    });
    for (verdict, word) in [(Verdict::Holds, "holds"), (Verdict::Violated, "violated")] {
        let mixed = judgement.mixed.as_ref().filter(|mixed| mixed.verdict == verdict);
        let mut names = levels(verdict);
        names.extend(mixed.map(|_| "the mix of declared levels"));
        if !names.is_empty() {
            text += &format!("  {word:<10}{}\n", names.join(", "));
        }
    }
    text
}
