//! `anomalist levels`: the lattice, from the tables of `anomalist-level`.

use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::terminal;
use clap::Args;

/// Flags of `levels`.
#[derive(Args, Debug)]
#[command(after_help = "Example: anomalist levels --json | jq -r '.levels[].level'")]
pub struct Flags {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Prints the levels.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let text = if flags.json {
        anomalist_report::levels_json()
    } else {
        anomalist_report::levels_text(&terminal::style(global))
    };
    terminal::print(&text)?;
    Ok(Exit::Holds)
}
