//! `anomalist explain`: one level or anomaly, from the tables of `anomalist-level`.

use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::terminal;
use anomalist_level::{AnomalyKind, Level, Phenomenon};
use clap::Args;

/// Flags of `explain`.
#[derive(Args, Debug)]
#[command(after_help = "Example: anomalist explain TAP-k")]
pub struct Flags {
    /// Name, alias or code: snapshot-isolation, si, G-single, TAP-k, or Berenson's P0 to P4, P4C, A5A, A5B
    #[arg(value_name = "LEVEL|ANOMALY")]
    name: String,
}

/// Prints the explanation.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let style = terminal::style(global);
    if let Some(phenomenon) = Phenomenon::of(&flags.name) {
        terminal::print(&anomalist_report::explain_phenomenon(phenomenon, &style))?;
        return Ok(Exit::Holds);
    }
    let text = match (flags.name.parse::<Level>(), flags.name.parse::<AnomalyKind>()) {
        (Ok(level), _) => anomalist_report::explain_level(level, &style),
        (_, Ok(kind)) => anomalist_report::explain_anomaly(kind, &style),
        (Err(level), Err(anomaly)) => {
            let suggestions: Vec<&str> =
                level.suggestions.iter().chain(&anomaly.suggestions).take(4).copied().collect();
            let help = match suggestions.as_slice() {
                [] => "`anomalist levels` lists them all".to_owned(),
                some => format!("did you mean {}?", some.join(", ")),
            };
            return Err(Failure::input(format_args!(
                "no level or anomaly is called `{}`\n  help: {help}",
                flags.name
            )));
        }
    };
    terminal::print(&text)?;
    Ok(Exit::Holds)
}
